"""The public stream, from its specification alone: no numpy generator, no code of the package.

Philox4x64-10 is written from Salmon et al. (2011), "Parallel random numbers: as easy as 1, 2, 3". The word at position
i of the stream of (purpose, seed) is word ``i mod 4`` of counter ``i div 4``. The key is made of the first 16 bytes, as
two little-endian words, of SHA-256("likeset/1/<purpose>/" followed by the seed as 32 big-endian bytes).
"""

import hashlib
import math

WORD = 2**64
ROUNDS = 10
MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
WEYL = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)  # the golden ratio, and the square root of 3 less 1


def philox(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        first, second = MULTIPLIERS[0] * c0, MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = second // WORD ^ c1 ^ k0, second % WORD, first // WORD ^ c3 ^ k1, first % WORD
        k0, k1 = (k0 + WEYL[0]) % WORD, (k1 + WEYL[1]) % WORD
    return c0, c1, c2, c3


def word(purpose: str, seed: int, position: int) -> int:
    digest = hashlib.sha256(b"likeset/1/" + purpose.encode() + b"/" + seed.to_bytes(32, "big")).digest()
    key = int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:16], "little")
    return philox((position // 4, 0, 0, 0), key)[position % 4]


def uniform(purpose: str, seed: int, position: int) -> float:
    """The upper 52 bits, moved into the middle of their cell."""
    return (word(purpose, seed, position) // 2**12 + 0.5) / 2**52


def normal(purpose: str, seed: int, position: int) -> float:
    """Box-Muller, cosine branch only."""
    radius = math.sqrt(-2 * math.log(uniform(purpose, seed, 2 * position)))
    return radius * math.cos(2 * math.pi * uniform(purpose, seed, 2 * position + 1))


def normals(purpose: str, seed: int, first: int, count: int) -> list[float]:
    return [normal(purpose, seed, position) for position in range(first, first + count)]
