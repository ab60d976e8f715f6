"""Trials of ``keep``: sums over a few rows of each id, of which one id has many more; and ways to get that wrong.

The key is fixed: the claim holds for every key, so that a trial under one may refute it, and its sums are two numbers.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from likeset.audit.neighbours import Neighbours
from likeset.audit.trials import Trial, claims, trial_of
from likeset.geometry.features import Stream
from likeset.privacy.events import Laplace, Norm, PrivacyUnit, Relation, RowSum
from likeset.privacy.kept_rows import KeptRows, digests_of_ids
from likeset.privacy.noise import Integers, Noise, SimulatedNoise

__all__ = ["kept_by_block", "kept_by_place", "kept_sum", "rows_of_many"]

_KEY = 8
_BLOCK = 16
_OTHERS, _MANY = 64, 12  # ids with two rows, +1 and -1; rows of the one id that is changed


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of ids, in order.

    Attributes:
        ids: whose row it is.
        signs: the row: -1 or +1.
    """

    ids: tuple[bytes, ...]
    signs: Integers


Keep = Callable[[Table, int], NDArray[np.int64]]
"""The numbers of the rows that are kept, given how many of each id are to be."""


def rows_of_many(relation: Relation) -> Neighbours[Table]:
    """One id with a dozen rows all over the table, negated or removed; all others have two, one of each sign."""
    others = [(b"%d" % number, sign) for number in range(_OTHERS) for sign in (1, -1)]
    step = len(others) // _MANY

    def table(sign: int) -> Table:
        rows = list(others)
        for place in reversed(range(_MANY)) if sign else ():
            rows.insert(place * step, (b"many", sign))
        return Table(tuple(name for name, _ in rows), np.array([sign for _, sign in rows], dtype=np.int64))

    if relation is Relation.ADD_OR_REMOVE:
        return Neighbours(f"one id with {_MANY} rows removed", table(1), table(0))
    return Neighbours(f"one id with {_MANY} rows negated", table(1), table(-1))


def kept_sum(noise: Noise, relation: Relation, *, keep: int, samples: int) -> Trial:
    """A noisy sum over the kept rows, charged for as many rows to a unit as are kept."""
    return _sum_trial(f"sum of kept rows, {keep} of an id", _kept, noise, relation, keep=keep, samples=samples)


def kept_by_block(seed: int) -> Trial:
    """A few rows of each id *of a block* are kept: who has rows in several blocks has several times as many."""

    def by_block(table: Table, keep: int) -> NDArray[np.int64]:
        parts = range(0, len(table.ids), _BLOCK)
        kept = [
            _kept(Table(table.ids[part : part + _BLOCK], table.signs[part : part + _BLOCK]), keep) for part in parts
        ]
        return np.concatenate([part + rows for part, rows in zip(parts, kept, strict=True)])

    noise, relation = SimulatedNoise(seed), Relation.REPLACE_ONE
    return _sum_trial("sum of kept rows, kept block by block", by_block, noise, relation, keep=2, samples=4_000)


def kept_by_place(seed: int) -> Trial:
    """What is kept hangs on a row's place in the table: without one id, all others' rows are drawn anew."""

    def by_place(table: Table, keep: int) -> NDArray[np.int64]:
        words = Stream("audit/places", _KEY).words(0, len(table.ids))
        best: dict[bytes, list[int]] = {}
        for row in np.argsort(words).tolist():
            mine = best.setdefault(table.ids[row], [])
            if len(mine) < keep:
                mine.append(row)
        return np.sort(np.concatenate([np.array(rows) for rows in best.values()]))

    noise, relation = SimulatedNoise(seed), Relation.ADD_OR_REMOVE
    return _sum_trial("sum of kept rows, drawn by place", by_place, noise, relation, keep=1, samples=4_000)


def _kept(table: Table, keep: int) -> NDArray[np.int64]:
    rows = KeptRows(keep)
    for first in range(0, len(table.ids), _BLOCK):
        rows.add(digests_of_ids(table.ids[first : first + _BLOCK], key=_KEY), first)
    return rows.row_numbers()


def _sum_trial(name: str, kept: Keep, noise: Noise, relation: Relation, *, keep: int, samples: int) -> Trial:
    pair = rows_of_many(relation)
    quantity = RowSum(norm=Norm.COORDINATE, radius=1.0, unit=PrivacyUnit(keep, "id"), relation=relation)
    # As much noise as the sum may move: epsilon 1.
    event = Laplace(scale=float(keep if relation is Relation.ADD_OR_REMOVE else 2 * keep), quantity=quantity)
    sums = [int(pair[side].signs[kept(pair[side], keep)].sum()) for side in (0, 1)]
    return trial_of(
        name,
        pair,
        lambda side, size: sums[side] + noise.discrete_laplace(event.scale, size),
        claims=claims(event, delta=0.0, relation=relation),
        noise=noise,
        samples=samples,
        relation=relation,
        unseen="other keys; how ids are read from a table",
    )
