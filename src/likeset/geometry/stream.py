"""Public random numbers that are the same everywhere: Philox4x64-10 (Salmon et al., 2011), addressed by position.

Parties that never exchange a random number must still draw the same frequencies, and shards of one table must
perturb a row alike wherever it is read. So a number is a function of (key, position), by a published function whose
output cannot change with a library's version; the tests pin it to the authors' known answers.

``key`` is derived from a purpose and a seed by SHA-256, so that two uses of one seed never share numbers. This is no
source of privacy noise: see ``likeset.privacy.noise``.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray

from likeset import arguments

__all__ = ["MAX_SEED", "Stream"]

MAX_SEED = 2**256 - 1
_WORDS_PER_COUNTER = 4  # one Philox4x64 counter gives four 64-bit words
_RUN = 1 << 12  # rows of a scattered look-up are grouped by runs of this length


class Stream:
    """An endless, randomly accessible sequence of 64-bit words."""

    def __init__(self, purpose: str, seed: int) -> None:
        arguments.count("seed", seed, least=0, most=MAX_SEED, most_is="a 256-bit number")
        digest = hashlib.sha256(f"likeset/1/{purpose}/".encode() + int(seed).to_bytes(32, "big")).digest()
        self._key = np.frombuffer(digest[:16], dtype="<u8").astype(np.uint64)

    def words(self, first: int, count: int) -> NDArray[np.uint64]:
        """The words at positions ``first``, ..., ``first + count - 1``."""
        counter, skipped = divmod(first, _WORDS_PER_COUNTER)
        # numpy increments the counter before it produces the first block; step back to start at ``counter``.
        generator = np.random.Philox(key=self._key, counter=(counter - 1) % 2**256)
        return generator.random_raw(count + skipped)[skipped:]

    def words_at(self, positions: NDArray[np.int64]) -> NDArray[np.uint64]:
        """The words at arbitrary positions; cheap where they come in runs."""
        if len(positions) == 0:
            return np.empty(0, dtype=np.uint64)
        low, high = int(positions.min()), int(positions.max())
        if high - low < 4 * len(positions):
            return self.words(low, high - low + 1)[positions - low]
        result = np.empty(len(positions), dtype=np.uint64)
        runs = positions // _RUN
        order = np.argsort(runs, kind="stable")
        starts = np.flatnonzero(np.diff(runs[order], prepend=-1))
        for members in np.split(order, starts[1:]):
            first = int(runs[members[0]]) * _RUN
            result[members] = self.words(first, _RUN)[positions[members] - first]
        return result

    def uniforms(self, first: int, count: int) -> NDArray[np.float64]:
        """Numbers strictly between 0 and 1 at consecutive positions."""
        return open_unit(self.words(first, count))

    def normals(self, first: int, count: int) -> NDArray[np.float64]:
        """Standard normal numbers by the Box-Muller transform, one per two positions: 2·first, 2·first + 1, ..."""
        uniforms = self.uniforms(2 * first, 2 * count)
        radius = np.sqrt(-2.0 * np.log(uniforms[0::2]))
        return np.asarray(radius * np.cos(2.0 * np.pi * uniforms[1::2]))


def open_unit(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """The upper 52 bits of each word as a number strictly between 0 and 1: ``(bits + 1/2) / 2**52``."""
    return np.asarray(((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52)
