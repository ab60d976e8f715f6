"""Terms as others send them: the one place that says how long they may be, how small and how large their numbers.

Strangers write them, and much is computed from what they announce. So what nobody can mean is refused before anything
is computed from it; an owner's node and every site of a network keep to the same limits. Within them no loop and no
array of whoever reads, prices or refuses terms grows with a number in them, but for rounds of which each has a price.
"""

import json
import math
from typing import Any

from likeset.arguments import harmless_value
from likeset.errors import BadMessage, InvalidArgument
from likeset.privacy.schedules import CHANGING
from likeset.protocol.planned_terms import PlannedTerms
from likeset.protocol.split.split_terms import MOST_SPLIT_SLOTS
from likeset.protocol.terms import Terms, canonical_text, plain_data

__all__ = ["MOST_TEXT", "check_between", "check_meant", "read_foreign", "read_foreign_canonical"]

MOST_TEXT = 1 << 17
"""Characters in the text of terms: as many owners as there may be have a card each."""

_MOST_FREQUENCIES = 1 << 26  # numbers in the feature map: a quarter of a gigabyte, once somebody has approved it
_MOST_OWNERS = 1024
_MOST_ROUNDS = 10_000
_MOST_ROUNDS_APART = 1_000  # where each round has noise and a price of its own, or an auction
_Range = tuple[float, float]  # the least and the most; 0 is always let through to the terms' own checks
_NUMBERS: dict[str, _Range] = {
    "size": (1, 1_000_000),
    "target_size": (1, 1 << 40),
    "seed_rows": (1, 1_000_000),
    "rows_per_unit": (1, 1_000_000),
    "quorum": (1, _MOST_OWNERS),
    # Below the first no row at all would be offered by the most owners, of the largest summary.
    "offer_factor": (1e-6, 1_000_000),
    # Noise is of 1/epsilon ranks, and there are at most a thousand: a millionth asks everybody, which is free where it
    # is called so, and at a thousand there is no noise left.
    "auction_epsilon": (1e-6, 1_000.0),
    "auction_offset": (1, 10_000_000),
    "auction_patience": (1, _MOST_ROUNDS),
    "price_per_row": (1e-100, 1e100),  # so that sums of money are numbers
    "promised_epsilon": (1e-6, 10_000.0),  # as of a budget
}
# Below the first, noise drowns any target; above the last there is nothing left to protect. Prices are calibrated by
# searches that begin near 1/epsilon, and their floating point is sound between these.
_BUDGET: dict[str, _Range] = {"epsilon": (1e-6, 10_000.0), "delta": (1e-100, 1.0)}
_GAMMA = (1e-100, 1e100)  # so that its square root and products with squared distances are numbers
_NUMBERS_OF_PARTS: dict[str, dict[str, _Range]] = {
    "kernel": {"columns": (1, 1 << 20), "dimension": (1, 1 << 16), "gamma": _GAMMA},
    "split": {"openings": (1, MOST_SPLIT_SLOTS), "gamma": _GAMMA},
    "target_budget": _BUDGET,
    "owner_budget": _BUDGET,
}


def read_foreign(text: str) -> Terms:
    """The terms that a stranger's text describes, of a size that can be meant.

    Raises:
        BadMessage: the text is too long.
        InvalidArgument: it does not describe terms, or names numbers that nobody can mean.
    """
    if len(text) > MOST_TEXT:
        raise BadMessage(f"terms of {len(text)} characters are too long; at most {MOST_TEXT:,}")
    document = plain_data(text)
    if isinstance(document, dict):
        _check_document(document)
    return Terms.from_document(document)


def read_foreign_canonical(text: str) -> Terms:
    """As ``read_foreign``; a text that is not the canonical one is refused.

    Raises:
        BadMessage: the text is too long, or not the canonical one.
        InvalidArgument: it does not describe terms, or names numbers that nobody can mean.
    """
    terms = read_foreign(text)
    if terms.to_json() != text:
        raise BadMessage("the terms are not in their canonical form")
    return terms


def check_meant(terms: PlannedTerms, *, room: int = 0) -> None:
    """Raise if others would refuse to read these terms: better before they are sent, or anything is spent on them.

    Args:
        terms: as they are, or what is fixed of them.
        room: characters to leave for what is not.
    """
    text, most = canonical_text(terms.document()), MOST_TEXT - room
    if len(text) > most:
        reason = f"may have at most {most:,}; shorten the purpose and the names of owners and columns"
        raise InvalidArgument("terms", f"text of {len(text):,} characters", reason)
    _check_document(json.loads(text))


def check_between(terms: Terms) -> None:
    """Raise unless terms name the run and every party, as those between organisations do.

    Raises:
        InvalidArgument: they are of parties in one house.
    """
    if not terms.cards:
        raise InvalidArgument(
            "cards", "none", "terms between organisations name every party by the fingerprint of its card"
        )


def _check_document(document: dict[str, Any]) -> None:
    _check_numbers(document, _NUMBERS)
    parts = {name: part for name in _NUMBERS_OF_PARTS if isinstance(part := document.get(name), dict)}
    for name, part in parts.items():
        _check_numbers(part, _NUMBERS_OF_PARTS[name], of=f"{name}.")
    given = (parts.get("kernel", {}).get(name) for name in ("columns", "dimension"))
    sides = [side for side in given if isinstance(side, int | float)]
    if math.prod(sides) > _MOST_FREQUENCIES:
        raise InvalidArgument("kernel", " x ".join(map(str, sides)), "is too large a feature map")
    owners = document.get("owners")
    if isinstance(owners, list) and len(owners) > _MOST_OWNERS:
        raise InvalidArgument("owners", len(owners), f"is more than anybody can mean; at most {_MOST_OWNERS:,}")
    if document.get("protocol") == "interactive":
        apart = document.get("auction") == "threshold" or document.get("schedule") in CHANGING
        _check_numbers(document, {"size": (1, _MOST_ROUNDS_APART if apart else _MOST_ROUNDS)})


def _check_numbers(document: dict[str, Any], limits: dict[str, _Range], *, of: str = "") -> None:
    for name, (least, most) in limits.items():
        value = document.get(name)
        if not isinstance(value, int | float) or value == 0:
            continue
        if value < least:
            raise InvalidArgument(
                of + name, harmless_value(value), f"is less than anybody can mean; at least {least:g}"
            )
        if not value <= most:  # which NaN is not, either
            raise InvalidArgument(of + name, harmless_value(value), f"is more than anybody can mean; at most {most:,g}")
