"""The paper's extension: a curator who goes by hashes of rows. For studies only: hashes protect nothing.

With distances alone and the public schema, rows are read back within seconds (docs/decisions/0022). What such a curator
would select is still worth a line in a study.
"""

import numpy as np

from likeset.arguments import Rows
from likeset.geometry.features import FourierFeatures
from likeset.geometry.greedy import match_hashed
from likeset.privacy.noise import Noise
from likeset.protocol.cross_fitting import HeldOut
from likeset.protocol.message_arrays import Labels
from likeset.protocol.sealed import SealedCurator
from likeset.protocol.selection import Selected
from likeset.protocol.terms import Terms

__all__ = ["HashingCurator"]


class HashingCurator(SealedCurator):
    """Selects by inner products of hashes.

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
            weights=np.full(len(matched), 1.0 / len(matched)),
            gains=matched.gains,
            squared_mmds=np.maximum(0.0, float(mean @ mean) - matched.objectives),
        )
        return selected, None
