"""Terms as others send them: canonical text, JSON files, or the ``terms.yaml`` that a job leaves."""

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from likeset import documents
from likeset.documents import Document
from likeset.errors import BadDocument, BadMessage, InvalidArgument
from likeset.protocol.foreign_terms import read_foreign, read_foreign_canonical
from likeset.protocol.terms import Terms

__all__ = ["parse_terms", "read_terms"]


class _Kept(Document):
    digest: str
    terms: dict[str, Any]


def read_terms(path: Path) -> Terms:
    """The terms in a file.

    Raises:
        BadDocument: they cannot be read, or are not those of the digest beside them.
    """
    if path.suffix in (".yaml", ".yml"):
        kept = documents.read(path, _Kept)
        terms = _parsed(path, json.dumps(kept.terms))
        if terms.digest != kept.digest:
            raise BadDocument(str(path), "is not the digest of these terms; ask for the file again", field="digest")
        return terms
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise BadDocument(str(path), "cannot be read; give the terms as JSON, or terms.yaml") from error
    return _parsed(path, text)


@lru_cache(maxsize=256)
def parse_terms(text: str) -> Terms:
    """The terms that a stranger's text describes, in their canonical form and of a size that can be meant.

    Raises:
        BadMessage: the text is too long, or not the canonical one.
        InvalidArgument: it does not describe terms, or names numbers that are too large.
    """
    return read_foreign_canonical(text)


def _parsed(path: Path, text: str) -> Terms:
    try:
        return read_foreign(text)
    except InvalidArgument as error:
        raise BadDocument(str(path), error.reason, field=error.argument) from error
    except BadMessage as error:
        raise BadDocument(str(path), "is too long for terms") from error
