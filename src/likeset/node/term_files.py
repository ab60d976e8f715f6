"""Terms as others send them: canonical text, JSON files, or the ``terms.yaml`` that a job leaves.

Strangers write them, and what terms announce is computed when they are read. So numbers that nobody can mean are
refused before anything is computed from them.
"""

import json
import math
from functools import lru_cache
from pathlib import Path
from typing import Any

from likeset import documents
from likeset.documents import Document
from likeset.errors import BadDocument, BadMessage, InvalidArgument
from likeset.protocol.terms import Terms

__all__ = ["parse_terms", "read_terms"]

_MOST_CHARACTERS = 1 << 20
_MOST_FREQUENCIES = 1 << 26  # numbers in the feature map: a quarter of a gigabyte
_MOST = {"size": 1_000_000, "target_size": 1 << 40, "seed_rows": 1_000_000, "rows_per_unit": 1_000_000}
_MOST_OF_PARTS = {"kernel": {"columns": 1 << 20, "dimension": 1 << 16}, "hashing": {"dimension": 1 << 16}}


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
    terms = _bounded(text)
    if terms.to_json() != text:
        raise BadMessage("the terms are not in their canonical form")
    return terms


def _bounded(text: str) -> Terms:
    if len(text) > _MOST_CHARACTERS:
        raise BadMessage(f"terms of {len(text)} characters are too long")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if isinstance(document, dict):
        _check_numbers(document, _MOST)
        for part, limits in _MOST_OF_PARTS.items():
            if isinstance(document.get(part), dict):
                _check_numbers(document[part], limits)
        kernel = document.get("kernel")
        given = [kernel.get(side) for side in ("columns", "dimension")] if isinstance(kernel, dict) else []
        sides = [side for side in given if isinstance(side, int | float)]
        if math.prod(sides) > _MOST_FREQUENCIES:
            raise InvalidArgument("kernel", " x ".join(map(str, sides)), "is too large a feature map")
    return Terms.from_json(text)


def _check_numbers(document: dict[str, Any], limits: dict[str, int]) -> None:
    for name, most in limits.items():
        value = document.get(name)
        if isinstance(value, int | float) and not value <= most:
            raise InvalidArgument(name, value, f"is more than anybody can mean; at most {most:,}")


def _parsed(path: Path, text: str) -> Terms:
    try:
        return _bounded(text)
    except InvalidArgument as error:
        raise BadDocument(str(path), error.reason, field=error.argument) from error
    except BadMessage as error:
        raise BadDocument(str(path), "is too long for terms") from error
