"""Terms in files, as others send them: JSON, or the ``terms.yaml`` that a job leaves."""

import json
from pathlib import Path
from typing import Any

from likeset import documents
from likeset.documents import Document
from likeset.errors import BadDocument, InvalidArgument
from likeset.protocol.terms import Terms

__all__ = ["read_terms"]


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


def _parsed(path: Path, text: str) -> Terms:
    try:
        return Terms.from_json(text)
    except InvalidArgument as error:
        raise BadDocument(str(path), error.reason, field=error.argument) from error
