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
_SCATTERED = 1 << 16  # positions of a scattered look-up that are computed at once
_ROUNDS = 10
_MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
_KEY_STEPS = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)


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
        """The words at arbitrary positions; cheapest where they lie close together."""
        if len(positions) == 0:
            return np.empty(0, dtype=np.uint64)
        low, high = int(positions.min()), int(positions.max())
        if high - low < 4 * len(positions):
            return self.words(low, high - low + 1)[positions - low]
        result = np.empty(len(positions), dtype=np.uint64)
        for first in range(0, len(positions), _SCATTERED):
            counters, within = np.divmod(positions[first : first + _SCATTERED].astype(np.uint64), _WORDS_PER_COUNTER)
            result[first : first + _SCATTERED] = np.choose(within.astype(np.int64), _philox(counters, self._key))
        return result

    def uniforms(self, first: int, count: int) -> NDArray[np.float64]:
        """Numbers strictly between 0 and 1 at consecutive positions."""
        return open_unit(self.words(first, count))

    def normals(self, first: int, count: int) -> NDArray[np.float64]:
        """Standard normal numbers by the Box-Muller transform, one per two positions: 2·first, 2·first + 1, ..."""
        uniforms = self.uniforms(2 * first, 2 * count)
        radius = np.sqrt(-2.0 * np.log(uniforms[0::2]))
        return np.asarray(radius * np.cos(2.0 * np.pi * uniforms[1::2]))


def _philox(counters: NDArray[np.uint64], key: NDArray[np.uint64]) -> list[NDArray[np.uint64]]:
    """The four words of each counter below 2**64.

    ``numpy.random.Philox`` gives the same, but setting one up for every position costs a thousand times more.
    """
    words = [counters, *(np.zeros_like(counters) for _ in range(3))]
    keys = [int(part) for part in key]
    for _ in range(_ROUNDS):
        high0, low0 = _wide_product(words[0], _MULTIPLIERS[0])
        high1, low1 = _wide_product(words[2], _MULTIPLIERS[1])
        words = [high1 ^ words[1] ^ np.uint64(keys[0]), low1, high0 ^ words[3] ^ np.uint64(keys[1]), low0]
        keys = [(part + step) % 2**64 for part, step in zip(keys, _KEY_STEPS, strict=True)]
    return words


def _wide_product(words: NDArray[np.uint64], factor: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """The upper and the lower 64 bits of ``words * factor``, by products of halves."""
    half, lower = np.uint64(32), np.uint64(2**32 - 1)
    factor_high, factor_low = np.uint64(factor >> 32), np.uint64(factor % 2**32)
    high, low = words >> half, words & lower
    middle = high * factor_low + (low * factor_low >> half)
    carried = low * factor_high + (middle & lower)
    return high * factor_high + (middle >> half) + (carried >> half), words * np.uint64(factor)


def open_unit(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """The upper 52 bits of each word as a number strictly between 0 and 1: ``(bits + 1/2) / 2**52``."""
    return np.asarray(((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52)
