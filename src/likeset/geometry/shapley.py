"""Shapley values: what each owner's part of a selection adds, averaged over every order in which owners could come.

The game: a coalition of owners may use the rows that were selected from its members, all with one common weight t
(rows that repeat one another are not worth more for being many), and is worth what that takes off the squared
distance to the target's mean embedding, where using nothing is worth 0::

    v(C) = ||mu||² - min_t ||mu - t * sum_C h(x)||² = (sum_C mean_v k(v, x))² / sum_C sum_C k(x, x')

Why not J itself, which has t = 1/|C|: J of a few rows is far below J of none (one row has J = 2 mean_v k(v, x) - 1),
so an owner with a small part would be charged, in every order in which it comes early, for rows that serve well among
the others. With the best t a coalition is never worth less than nothing; ``v(C) >= J(C)``, and the two meet where the
selection matches. An owner can still be worth less than nothing to the others: rows that lead away from the target.

``v`` follows from one number per owner and one per pair of owners, so all 2^15 coalitions of 15 owners take
milliseconds. Beyond that, orders of owners are sampled. Each owner is put into every place of an order of the others
(for this game that costs no more than one place), because most of what there is to add is added by the first few, and
whether an owner happens to be among them would be most of the error. And orders come in antithetic pairs, an order and
its reverse: what two owners do to each other counts in exactly one of the two, so all effects between pairs are free of
sampling error.
"""

import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likeset import arguments
from likeset.errors import InvalidArgument
from likeset.geometry.kernels import KernelColumns, blocks

MOST_EXACT = 15
"""Owners up to which every coalition is looked at."""

_PAIRS = 50
_DOUBLE = np.dtype(np.float64)


class Game(Protocol):
    """What every coalition of owners is worth; the empty one is worth 0."""

    @property
    def owner_count(self) -> int: ...

    def coalitions(self, members: NDArray[np.bool_]) -> NDArray[np.float64]: ...

    def average_gains(self, order: NDArray[np.int64]) -> NDArray[np.float64]:
        """What each owner adds when it is put into every place of this order of the others, on average."""


@dataclass(frozen=True)
class SelectionGame:
    """For each owner the summed mean kernel of its rows with the target; for each pair that of their rows."""

    attraction: NDArray[np.float64]
    similarity: NDArray[np.float64]

    @property
    def owner_count(self) -> int:
        return len(self.attraction)

    def coalitions(self, members: NDArray[np.bool_]) -> NDArray[np.float64]:
        inside = members.astype(np.float64)
        return _worth(inside @ self.attraction, np.einsum("ck,ck->c", inside @ self.similarity, inside))

    def contributors(self) -> NDArray[np.int64]:
        """The owners with selected rows: nobody else changes what a coalition is worth."""
        return np.flatnonzero((self.attraction != 0.0) | self.similarity.any(axis=0))

    def among(self, owners: NDArray[np.int64]) -> "SelectionGame":
        return SelectionGame(self.attraction[owners], self.similarity[np.ix_(owners, owners)])

    def average_gains(self, order: NDArray[np.int64]) -> NDArray[np.float64]:
        """What each owner adds when it is put into every place of this order of the others, on average.

        Every beginning of the order serves all owners at once: those outside join it, those inside leave it.
        """
        owners = self.owner_count
        attraction, similarity = self.attraction[order], self.similarity[np.ix_(order, order)]
        # Line s: the first s owners of the order as a coalition. Column k: the owner at position k.
        near = np.vstack([np.zeros(owners), np.cumsum(similarity, axis=0)])
        attracted = np.append(0.0, np.cumsum(attraction))
        repeated = np.append(0.0, np.cumsum(2.0 * np.diagonal(near[1:]) - np.diagonal(similarity)))
        size, position = np.ogrid[: owners + 1, :owners]
        sign = np.where(position >= size, 1.0, -1.0)
        changed = _worth(
            attracted[:, None] + sign * attraction,
            repeated[:, None] + 2.0 * sign * near + np.diagonal(similarity),
        )
        added = sign * (changed - _worth(attracted, repeated)[:, None])
        added[size == position + 1] = 0.0  # leaving as the last one in is joining as the next one: counted there
        average = np.empty(owners)
        average[order] = added.sum(axis=0) / owners
        return average


@dataclass(frozen=True)
class Shapley:
    """Shapley values of a game, which add up to ``total``, the worth of all owners together.

    Where every coalition was looked at, standard errors and ``permutations``, the orders that were sampled, are zero.
    """

    values: NDArray[np.float64]
    standard_errors: NDArray[np.float64]
    total: float
    permutations: int


def owner_numbers(owners: ArrayLike, owner_count: int, *, length: int) -> NDArray[np.int64]:
    numbers = arguments.row_numbers("owners", owners, length=length)
    arguments.count("owner_count", owner_count)
    if len(numbers) and int(numbers.max()) >= owner_count:
        raise InvalidArgument("owners", int(numbers.max()), f"must be below owner_count = {owner_count}")
    return numbers


def selection_game(
    selected: ArrayLike, owners: ArrayLike, owner_count: int, target: ArrayLike, *, gamma: float
) -> SelectionGame:
    rows, wanted = arguments.matrix("selected", selected), arguments.matrix("target", target)
    arguments.same_columns("selected", rows, "target", wanted)
    numbers = owner_numbers(owners, owner_count, length=len(rows))
    belongs = np.zeros((len(rows), owner_count))
    belongs[np.arange(len(rows)), numbers] = 1.0
    attraction = KernelColumns(wanted, gamma=gamma, dtype=_DOUBLE).sums(rows) / len(wanted)
    columns = KernelColumns(rows, gamma=gamma, dtype=_DOUBLE)
    similarity = np.zeros((owner_count, owner_count))
    for part in blocks(len(rows), width=len(rows)):
        similarity += belongs[part].T @ (columns(rows[part]) @ belongs)
    return SelectionGame(attraction=attraction @ belongs, similarity=(similarity + similarity.T) / 2.0)


def shapley(game: Game, *, coins: np.random.Generator | None = None) -> Shapley:
    """Exact up to 15 owners; beyond, by 50 pairs of orders that ``coins`` draw.

    Owners without a selected row are worth 0, and the others what they are worth without them; so they are left out,
    which matters where owners are many.
    """
    if isinstance(game, SelectionGame) and 0 < len(playing := game.contributors()) < game.owner_count:
        fair = shapley(game.among(playing), coins=coins)
        values, errors = np.zeros((2, game.owner_count))
        values[playing], errors[playing] = fair.values, fair.standard_errors
        return replace(fair, values=values, standard_errors=errors)
    if game.owner_count <= MOST_EXACT:
        return exact_shapley(game)
    if coins is None:
        raise InvalidArgument("coins", None, f"are needed to sample orders of more than {MOST_EXACT} owners")
    return sampled_shapley(game, coins=coins)


def exact_shapley(game: Game) -> Shapley:
    """By every coalition C: an owner's gain on joining it counts |C|! (K - 1 - |C|)! / K!."""
    owners = arguments.count("owner_count", game.owner_count, most=MOST_EXACT, most_is="or it takes too long; sample")
    codes = np.arange(2**owners)
    members = (codes[:, None] >> np.arange(owners)) & 1 == 1
    worth = game.coalitions(members)
    weights = np.array([1.0 / (owners * math.comb(owners - 1, size)) for size in range(owners)])
    values = np.empty(owners)
    for owner in range(owners):
        without = codes[~members[:, owner]]
        joining = worth[without | 1 << owner] - worth[without]
        values[owner] = weights[members[without].sum(axis=1)] @ joining
    return Shapley(values=values, standard_errors=np.zeros(owners), total=float(worth[-1]), permutations=0)


def sampled_shapley(game: Game, *, coins: np.random.Generator, pairs: int = _PAIRS) -> Shapley:
    """By orders drawn in antithetic pairs; errors come from how the pairs' averages scatter.

    The estimates would add up to the whole worth on average only. What is missing is added where it is missing most
    likely, in proportion to the estimates' variances (least squares under the constraint): values that are certain,
    such as that of an owner without rows, stay what they are.
    """
    arguments.count("pairs", pairs, least=2)
    owners = arguments.count("owner_count", game.owner_count)
    averages = np.empty((pairs, owners))
    for pair in range(pairs):
        order = coins.permutation(owners)
        averages[pair] = (game.average_gains(order) + game.average_gains(order[::-1])) / 2.0
    values, variances = averages.mean(axis=0), averages.var(axis=0, ddof=1) / pairs
    total = float(game.coalitions(np.ones((1, owners), dtype=np.bool_))[0])
    if variances.sum() > 0.0:
        values += (total - values.sum()) * (variances / variances.sum())
    return Shapley(values=values, standard_errors=np.sqrt(variances), total=total, permutations=2 * pairs)


def _worth(attraction: NDArray[np.float64], similarity: NDArray[np.float64]) -> NDArray[np.float64]:
    """``max over t >= 0 of 2 t attraction - t² similarity``; a coalition without rows is worth nothing."""
    return np.divide(attraction**2, similarity, out=np.zeros_like(attraction), where=attraction > 0.0)
