"""Terms as others send them: the one place that says how long they may be, and how large their numbers.

Strangers write them, and much is computed from what they announce. So what nobody can mean is refused before anything
is computed from it; an owner's node and every site of a network keep to the same limits.
"""

import json
import math
from typing import Any

from likeset.errors import BadMessage, InvalidArgument
from likeset.protocol.terms import Terms

__all__ = ["MOST_TEXT", "check_meant", "read_foreign", "read_foreign_canonical"]

MOST_TEXT = 1 << 16
"""Characters in the text of terms."""

_MOST_FREQUENCIES = 1 << 26  # numbers in the feature map: a quarter of a gigabyte, once somebody has approved it
_MOST_OWNERS = 1024
_MOST_ROUNDS = 10_000
_MOST_AUCTIONS = 1_000  # whose price over all rounds takes seconds
_MOST = {
    "size": 1_000_000,
    "target_size": 1 << 40,
    "seed_rows": 1_000_000,
    "rows_per_unit": 1_000_000,
    "offer_factor": 1_000_000,
}
_MOST_OF_PARTS = {"kernel": {"columns": 1 << 20, "dimension": 1 << 16}, "hashing": {"dimension": 1 << 16}}


def read_foreign(text: str) -> Terms:
    """The terms that a stranger's text describes, of a size that can be meant.

    Raises:
        BadMessage: the text is too long.
        InvalidArgument: it does not describe terms, or names numbers that are too large.
    """
    if len(text) > MOST_TEXT:
        raise BadMessage(f"terms of {len(text)} characters are too long; at most {MOST_TEXT:,}")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if isinstance(document, dict):
        _check_document(document)
    return Terms.from_json(text)


def read_foreign_canonical(text: str) -> Terms:
    """As ``read_foreign``; a text that is not the canonical one is refused.

    Raises:
        BadMessage: the text is too long, or not the canonical one.
        InvalidArgument: it does not describe terms, or names numbers that are too large.
    """
    terms = read_foreign(text)
    if terms.to_json() != text:
        raise BadMessage("the terms are not in their canonical form")
    return terms


def check_meant(terms: Terms, *, room: int = 0) -> None:
    """Raise if others would refuse to read these terms: better before they are sent, or anything is spent on them.

    Args:
        terms: as they are, or will be but for some numbers.
        room: characters to leave for these.
    """
    text, most = terms.to_json(), MOST_TEXT - room
    if len(text) > most:
        reason = f"may have at most {most:,}; shorten the purpose and the names of owners and columns"
        raise InvalidArgument("terms", f"text of {len(text):,} characters", reason)
    _check_document(json.loads(text))


def _check_document(document: dict[str, Any]) -> None:
    _check_numbers(document, _MOST)
    parts = {name: found for name in _MOST_OF_PARTS if isinstance(found := document.get(name), dict)}
    columns = parts.get("kernel", {}).get("columns")  # of the rows, which both maps take
    for name, part in parts.items():
        _check_numbers(part, _MOST_OF_PARTS[name])
        given = (columns, part.get("dimension"))
        sides = [side for side in given if isinstance(side, int | float)]
        if math.prod(sides) > _MOST_FREQUENCIES:
            raise InvalidArgument(name, " x ".join(map(str, sides)), "is too large a feature map")
    owners = document.get("owners")
    if isinstance(owners, list) and len(owners) > _MOST_OWNERS:
        raise InvalidArgument("owners", len(owners), f"is more than anybody can mean; at most {_MOST_OWNERS:,}")
    if document.get("protocol") == "interactive":
        _check_numbers(document, {"size": _MOST_AUCTIONS if document.get("auction") == "threshold" else _MOST_ROUNDS})


def _check_numbers(document: dict[str, Any], limits: dict[str, int]) -> None:
    for name, most in limits.items():
        value = document.get(name)
        if isinstance(value, int | float) and not value <= most:
            raise InvalidArgument(name, value, f"is more than anybody can mean; at most {most:,}")
