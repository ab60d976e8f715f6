"""Terms as others send them: signed, or as canonical text, JSON files, or the ``terms.yaml`` that a job leaves."""

import json
from pathlib import Path
from typing import Any

from likeset import documents
from likeset.documents import Document
from likeset.errors import BadDocument, BadMessage, InvalidArgument, LikesetError
from likeset.homes.signed_invitation import Invitation
from likeset.protocol.foreign_terms import read_foreign
from likeset.protocol.terms import Terms
from likeset.trust.signed_terms import MOST_TERMS_BYTES, is_signed_terms

__all__ = ["read_invitation", "read_terms"]


class _Kept(Document):
    digest: str
    terms: dict[str, Any]


def read_invitation(path: Path) -> Invitation:
    """The terms in a file that a consumer signed.

    Raises:
        BadDocument: they cannot be read, nobody signed them, or they were changed since.
    """
    data = documents.bytes_in(path, most=MOST_TERMS_BYTES)
    if not is_signed_terms(data):
        reason = (
            "holds no signed invitation, so nothing proves who asks; ask the consumer for the file RUN.invitation that "
            "`likeset run` keeps with the run"
        )
        raise BadDocument(str(path), reason)
    try:
        return Invitation.read(data)
    except BadDocument as error:
        reason = f"{error.document}: {error.reason}; ask the consumer to send the file again"
        raise BadDocument(str(path), reason, field=error.field) from error
    except LikesetError as error:
        raise BadDocument(str(path), str(error)) from error


def read_terms(path: Path) -> Terms:
    """The terms in a file, signed or not.

    Raises:
        BadDocument: they cannot be read, or are not those of the digest beside them.
    """
    if path.suffix not in (".yaml", ".yml", ".json") and is_signed_terms(
        documents.bytes_in(path, most=MOST_TERMS_BYTES)
    ):
        return read_invitation(path).terms
    if path.suffix in (".yaml", ".yml"):
        kept = documents.read(path, _Kept)
        terms = _parsed(path, json.dumps(kept.terms))
        if terms.digest != kept.digest:
            raise BadDocument(str(path), "is not the digest of these terms; ask for the file again", field="digest")
        return terms
    try:
        text = documents.bytes_in(path, most=MOST_TERMS_BYTES).decode("utf-8")
    except ValueError as error:
        raise BadDocument(str(path), "cannot be read; give the terms as JSON, or terms.yaml") from error
    return _parsed(path, text)


def _parsed(path: Path, text: str) -> Terms:
    try:
        return read_foreign(text)
    except InvalidArgument as error:
        raise BadDocument(str(path), error.reason, field=error.argument) from error
    except BadMessage as error:
        raise BadDocument(str(path), "is too long for terms") from error
