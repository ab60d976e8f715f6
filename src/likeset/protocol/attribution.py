"""What each owner's rows were worth, and what each owner is paid.

Three numbers per owner, computed by the curator for the consumer's report:

* *Shapley value*: what its rows add, averaged over every order in which owners could come (``geometry.shapley``).
* *share*: its part of the sum of all Shapley values, where one below zero counts as zero.
* *payment*: by default price times rows disclosed, which depends on nobody else's data, so an owner may hear it.

Shapley values, shares and the number of selected rows depend on everybody's rows. **No owner may hear them**:
they are for the consumer, who sees the summary anyway.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likeset import arguments
from likeset.errors import InvalidArgument
from likeset.geometry.shapley import Game, Shapley, owner_numbers, shapley
from likeset.privacy.guarantee import checked_name


@dataclass(frozen=True, slots=True)
class OwnerAttribution:
    """One owner's line of the report; for the consumer, not for owners.

    Attributes:
        owner: its name.
        rows_selected: how many of its rows are in the summary.
        rows_disclosed: how many rows it sent to the curator.
        share: its part of all Shapley values above zero.
        shapley: its Shapley value; those of all owners add up to ``Attribution.improvement``.
        shapley_error: standard error of the Shapley value; 0 if it is exact.
        payment: price times rows disclosed.
    """

    owner: str
    rows_selected: int
    rows_disclosed: int
    share: float
    shapley: float
    shapley_error: float
    payment: float


@dataclass(frozen=True, slots=True)
class Attribution:
    """Who contributed what to a summary.

    Attributes:
        owners: one line per owner, in the public order of owners.
        improvement: what the selected rows of all owners are worth together (``geometry.shapley``).
        permutations: how many orders the Shapley values were sampled from; 0 if they are exact.
    """

    owners: tuple[OwnerAttribution, ...]
    improvement: float
    permutations: int


def shares(values: ArrayLike, *, rows_selected: ArrayLike | None = None) -> NDArray[np.float64]:
    """Each owner's fraction of all values.

    If every value is zero, the owners that contributed rows share equally; if nobody did, all
    shares are zero. Shares are never negative and add up to 1, or to 0.

    Args:
        values: one per owner, not negative.
        rows_selected: how many rows of each owner were selected; if not given, every owner counts as a contributor.
    """
    worth = arguments.vector("values", values)
    if len(worth) and worth.min() < 0.0:
        raise InvalidArgument("values", f"array of length {len(worth)}", "must not be negative")
    contributed = np.ones(len(worth))
    if rows_selected is not None:
        contributed = (arguments.row_numbers("rows_selected", rows_selected, length=len(worth)) > 0).astype(np.float64)
    largest = float(worth.max(initial=0.0))
    # Divided by the largest first, so that neither huge nor tiny values overflow or vanish in the sum.
    parts = worth / largest if largest > 0.0 else contributed
    whole = float(parts.sum())
    return np.asarray(parts / whole if whole > 0.0 else parts)


def payments(rows_disclosed: ArrayLike, price_per_row: float) -> NDArray[np.float64]:
    """The default payment: price times rows disclosed to the curator, whether selected or not.

    An owner's entry depends on its own count and the agreed price alone, so hearing it tells an owner nothing about
    anybody else; nothing is charged for it.
    """
    disclosed = arguments.row_numbers("rows_disclosed", rows_disclosed)
    return disclosed.astype(np.float64) * arguments.positive("price_per_row", price_per_row, zero=True)


def attribute(
    names: Sequence[str],
    *,
    owners: ArrayLike,
    rows_disclosed: ArrayLike,
    price_per_row: float,
    game: Game,
    coins: np.random.Generator | None = None,
) -> Attribution:
    """The whole report.

    Args:
        names: the owners' names, in their public order.
        owners: for each selected row the number of its owner.
        rows_disclosed: for each owner how many rows it sent to the curator.
        price_per_row: the agreed price.
        game: what coalitions of owners are worth (``geometry.shapley.selection_game``).
        coins: draws the orders for Shapley values of more than 15 owners.
    """
    known = [checked_name("names", name) for name in names]
    if len(set(known)) != len(known):
        raise InvalidArgument("names", f"{len(known)} names", "must be different from one another")
    if game.owner_count != len(known):
        raise InvalidArgument("game", f"{game.owner_count} owners", f"must have {len(known)}, one per name")
    places = owner_numbers(owners, len(known), length=np.size(owners))
    selected = np.bincount(places, minlength=len(known))
    disclosed = arguments.row_numbers("rows_disclosed", rows_disclosed, length=len(known))
    if (selected > disclosed).any():
        who = known[int(np.argmax(selected > disclosed))]
        raise InvalidArgument("rows_disclosed", who, "has more rows selected than it disclosed")
    return _report(known, selected, disclosed, payments(disclosed, price_per_row), shapley(game, coins=coins))


def _report(
    names: Sequence[str],
    selected: NDArray[np.int64],
    disclosed: NDArray[np.int64],
    paid: NDArray[np.float64],
    fair: Shapley,
) -> Attribution:
    fractions = shares(np.maximum(fair.values, 0.0), rows_selected=selected)
    lines = tuple(
        OwnerAttribution(
            owner=name,
            rows_selected=int(selected[position]),
            rows_disclosed=int(disclosed[position]),
            share=float(fractions[position]),
            shapley=float(fair.values[position]),
            shapley_error=float(fair.standard_errors[position]),
            payment=float(paid[position]),
        )
        for position, name in enumerate(names)
    )
    return Attribution(owners=lines, improvement=fair.total, permutations=fair.permutations)
