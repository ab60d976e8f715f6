"""Selection by somebody who sees hashes of rows only: the paper's non-private baseline, and its extension.

Hashes protect nothing: with distances alone and the public schema, rows are read back within seconds
(docs/decisions.md). What a curator of hashes would select is still worth a line in a study.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likeset import arguments
from likeset.arguments import Rows
from likeset.geometry.features import FourierFeatures
from likeset.geometry.greedy import Match, pick
from likeset.geometry.selection import HeldOut, Selected
from likeset.privacy.noise import Noise
from likeset.protocol.sealed import SealedCurator
from likeset.protocol.terms import Terms
from likeset.protocol.wire import Labels


@dataclass(frozen=True)
class _HashedRows:
    """Similarity by inner products of feature rows."""

    rows: NDArray[np.float32]

    def row(self, position: int, likely: NDArray[np.float64]) -> NDArray[np.float32]:  # noqa: ARG002
        return np.asarray(self.rows @ self.rows[position])


def match_hashed(pool: ArrayLike, target: ArrayLike, size: int) -> Match:
    """Select rows by the inner products of their feature vectors, for somebody who sees nothing else of them."""
    rows, wanted = arguments.matrix("pool", pool), arguments.matrix("target", target)
    arguments.same_columns("pool", rows, "target", wanted)
    arguments.count("size", size, most=len(rows), most_is="the number of rows in the pool")
    hashed = _HashedRows(rows.astype(np.float32, copy=False))
    attraction = hashed.rows @ wanted.mean(axis=0, dtype=np.float64).astype(np.float32)
    return pick(attraction.astype(np.float64), hashed, size)


class HashingCurator(SealedCurator):
    """Selects by inner products of hashes, as the paper's extension has it.

    Args:
        terms: of the run.
        noise: as every curator has it.
        hashes: the map whose seed owners and consumer would share.
    """

    def __init__(self, terms: Terms, *, noise: Noise, hashes: FourierFeatures) -> None:
        super().__init__(terms, noise=noise, fold_key=None)
        self._hashes = hashes

    def _chosen(self, pool: Rows, target: Rows, labels: Labels) -> tuple[Selected, HeldOut | None]:  # noqa: ARG002
        hashed = self._hashes(target)
        matched = match_hashed(self._hashes(pool), hashed, min(self.terms.size, len(pool)))
        mean = hashed.mean(axis=0, dtype=np.float64)
        selected = Selected(
            indices=matched.indices,
            gains=matched.gains,
            squared_mmds=np.maximum(0.0, float(mean @ mean) - matched.objectives),
        )
        return selected, None
