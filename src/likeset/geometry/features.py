"""Random Fourier features: vectors whose inner products approximate the RBF kernel (the paper's ``h_1``).

A map is fully determined by its arguments: parties who agree on them compute the same features without exchanging
anything, and compare ``fingerprint`` to be sure. Frequencies come from ``Stream``.

Features of a row are computed in tiles of fixed shape, aligned to the row's number, each by one thread: a float32
matrix product may round differently with the shape of its operands and with the number of threads that share it, and an
owner who reads its table in other blocks, or on other workers, must still get the same bits.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likeset import arguments
from likeset.arguments import Rows
from likeset.errors import InvalidArgument, NoiseUnavailable
from likeset.geometry.kernels import one_thread_a_product

# Public random numbers that are the same everywhere: Philox4x64-10 (Salmon et al., 2011), addressed by position.
#
# Parties that never exchange a random number must still draw the same frequencies, and shards of one table must
# perturb a row alike wherever it is read. So a number is a function of (key, position), by a published function whose
# output cannot change with a library's version; the tests pin it to the authors' known answers.
#
# ``key`` is derived from a purpose and a seed by SHA-256, so that two uses of one seed never share numbers. This is no
# source of privacy noise: see ``likeset.privacy.noise``.

MAX_SEED = 2**256 - 1
_WORDS_PER_COUNTER = 4  # one Philox4x64 counter gives four 64-bit words


class Stream:
    """An endless, randomly accessible sequence of 64-bit words."""

    def __init__(self, purpose: str, seed: int) -> None:
        arguments.count("seed", seed, least=0, most=MAX_SEED, most_is="a 256-bit number")
        digest = hashlib.sha256(f"likeset/1/{purpose}/".encode() + int(seed).to_bytes(32, "big")).digest()
        self._key = np.frombuffer(digest[:16], dtype="<u8").astype(np.uint64)

    def words(self, first: int, count: int) -> NDArray[np.uint64]:
        counter, skipped = divmod(first, _WORDS_PER_COUNTER)
        # numpy increments the counter before it produces the first block; step back to start at ``counter``.
        generator = np.random.Philox(key=self._key, counter=(counter - 1) % 2**256)
        return generator.random_raw(count + skipped)[skipped:]

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


TILE_ROWS = 2048
_ROWS_AT_A_TIME = 512  # their angles stay in the processor's cache
_PROBE_ROWS = 8
_PROBE_DECIMALS = 4
_LARGE_PROBES, _LARGE_ANGLE = 5, 1e6  # every fifth row, beyond the angles that cosines are quick for
_ROUNDOFF = 2.0**-24
_WAVE_ERROR = 2.0**-19  # of two float32 cosines together, scaling included: about 16 units in the last place


@dataclass(frozen=True)
class FourierFeatures:
    """A map from rows to feature vectors with ``h(x) . h(y)`` close to ``exp(-gamma * ||x - y||²)``.

    ``columns`` and ``dimension`` are the paper's n and d. ``seed``, of up to 256 bits, selects the frequencies; it is
    public, or shared among those who may hash.

    ``paper`` is Algorithm 1, ``sqrt(2/d) cos(w.x + b)`` with independent frequencies: the squared norm of a vector is 1
    only on average and can reach 2. ``paired`` has cosine and sine of ``dimension / 2`` frequencies that are orthogonal
    in groups of ``columns``: every vector has norm exactly 1, the kernel of a row with itself is exact, and the error
    is smaller at equal dimension. ``phased`` is ``paired`` with a phase for each pair, which inner products do not
    feel: to somebody without the seed, the joint law of the vectors depends on distances between rows alone (without
    phases, the norms of rows would show).
    """

    columns: int
    dimension: int
    gamma: float
    seed: int
    kind: Literal["paper", "paired", "phased"] = "paired"
    _frequencies: NDArray[np.float32] = field(init=False, repr=False, compare=False)
    _phases: NDArray[np.float32] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        arguments.count("columns", self.columns)
        arguments.count("dimension", self.dimension)
        arguments.positive("gamma", self.gamma)
        arguments.count("seed", self.seed, least=0, most=MAX_SEED, most_is="a 256-bit number")
        arguments.one_of("kind", self.kind, ("paper", "paired", "phased"))
        if self.kind != "paper" and self.dimension % 2:
            raise InvalidArgument("dimension", self.dimension, "must be even for paired features")
        frequencies, phases = self._draw()
        object.__setattr__(self, "_frequencies", np.ascontiguousarray(frequencies.T, dtype=np.float32))
        object.__setattr__(self, "_phases", phases.astype(np.float32))

    def __call__(self, rows: ArrayLike, *, first_row: int = 0) -> NDArray[np.float32]:
        array = arguments.matrix("rows", rows)
        arguments.count("first_row", first_row, least=0)
        result = np.empty((len(array), self.dimension), dtype=np.float32)
        for part, features in self.blocks(array, first_row=first_row):
            result[part] = features
        return result

    def blocks(self, rows: Rows, *, first_row: int = 0) -> Iterator[tuple[slice, NDArray[np.float32]]]:
        """The same, tile by tile: pairs of (part of ``rows``, features there).

        The features are a view of a buffer that the next tile overwrites: fresh memory for every tile would cost
        more than the mathematics.
        """
        self._check_columns(rows)
        tile = np.zeros((TILE_ROWS, self.columns), dtype=np.float32)
        angles, waves = (np.empty((TILE_ROWS, len(self._phases)), dtype=np.float32) for _ in range(2))
        features = np.empty((TILE_ROWS, self.dimension), dtype=np.float32)
        for start in range(-(first_row % TILE_ROWS), len(rows), TILE_ROWS):
            part = slice(max(start, 0), min(start + TILE_ROWS, len(rows)))
            within = slice(part.start - start, part.stop - start)
            tile[within] = rows[part]
            with one_thread_a_product():
                np.matmul(tile, self._frequencies, out=angles)
            self._wave(angles, waves, out=features)
            yield part, features[within]

    def of_each(self, rows: ArrayLike) -> NDArray[np.float32]:
        """Features of each row by itself, whatever stands beside it; slower than a tile, with other last bits.

        Products and sums are done number by number, each rounded once, in the order of the columns. In a product of
        matrices the instructions that compute a row, and so its last bits, depend on its place among others.
        """
        array = arguments.matrix("rows", rows).astype(np.float32)
        self._check_columns(array)
        features = np.empty((len(array), self.dimension), dtype=np.float32)
        for first in range(0, len(array), _ROWS_AT_A_TIME):
            part = slice(first, first + _ROWS_AT_A_TIME)
            angles = np.zeros((len(array[part]), len(self._phases)), dtype=np.float32)
            for column, frequencies in zip(array[part].T, self._frequencies, strict=True):
                angles += np.multiply.outer(column, frequencies)
            self._wave(angles, np.empty_like(angles), out=features[part])
        return features

    def disagreement(self, rows: ArrayLike) -> NDArray[np.float64]:
        """By how much two computations of the same features may differ, whatever the order of their sums.

        A sum of n products in float32 is off by at most ``n u / (1 - n u)`` times the sum of the products' sizes (u is
        the unit roundoff), with or without fused operations; cosines pass an error of the angle on undiminished at
        worst. Rows that are large for the kernel have features of which nothing is certain: the bound is then above 2.
        """
        array = arguments.matrix("rows", rows)
        self._check_columns(array)
        sizes = np.abs(array.astype(np.float32).astype(np.float64)) @ np.abs(self._frequencies.astype(np.float64))
        share = self.columns * _ROUNDOFF / (1.0 - self.columns * _ROUNDOFF)
        angles = share * sizes + _ROUNDOFF * ((1.0 + share) * sizes + 2.0 * np.pi)  # the sum, and the phase
        bound: NDArray[np.float64] = np.sqrt(2.0 / self.dimension) * (2.0 * angles + _WAVE_ERROR)
        return bound if self.kind == "paper" else np.hstack([bound, bound])

    def mean(self, rows: ArrayLike) -> NDArray[np.float64]:
        array = arguments.matrix("rows", rows)
        total = np.zeros(self.dimension)
        for _, features in self.blocks(array):
            total += features.sum(axis=0, dtype=np.float64)
        return total / len(array)

    def check_places(self) -> None:
        """Raise ``NoiseUnavailable`` unless ``of_each`` gives a row the same bits wherever it stands among others.

        A sum of features is then one of a *set* of rows: without one of them, the others contribute what they did. Its
        products and sums do not depend on the place by what IEEE 754 says of them. Its cosines are the library's, which
        computes several at a time: so rows are moved on by one place, and turned round, and compared bit by bit. A few
        of them are large, for which cosines are computed another way.
        """
        probe = Stream("probe/places", 0).normals(0, TILE_ROWS * self.columns).reshape(TILE_ROWS, self.columns)
        probe /= np.sqrt(2.0 * self.gamma * self.columns)
        probe[::_LARGE_PROBES] *= _LARGE_ANGLE
        rows = np.clip(probe, -arguments.LARGEST_SINGLE, arguments.LARGEST_SINGLE).astype(np.float32)
        features = self.of_each(rows)
        positions = np.arange(TILE_ROWS)
        for order in (np.roll(positions, 1), positions[::-1]):
            if not np.array_equal(self.of_each(rows[order]), features[order]):
                raise NoiseUnavailable(
                    "on this machine the features of a row depend on where it stands among others, so that nothing is "
                    "proven under add-or-remove; use another machine or another build of numpy, or relation replace-one"
                )

    @property
    def waves(self) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        frequencies, phases = self._draw()
        return frequencies, phases, float(np.sqrt(2.0 / self.dimension))

    @property
    def fingerprint(self) -> str:
        """A short digest of the features of fixed probe rows, rounded: equal where two parties hash alike."""
        probe = Stream("probe", 0).normals(0, _PROBE_ROWS * self.columns).reshape(_PROBE_ROWS, self.columns)
        # Probe rows at the kernel's own scale: angles of a few radians, whatever gamma and columns are.
        probe /= np.sqrt(2.0 * self.gamma * self.columns)
        frequencies, phases = self._draw()
        angles = probe @ frequencies.T + phases
        values = np.cos(angles) if self.kind == "paper" else np.hstack([np.cos(angles), np.sin(angles)])
        # Adding 0.0 turns -0.0 into 0.0.
        rounded = np.round(values, _PROBE_DECIMALS) + 0.0
        # The probe's scale cancels gamma from the angles, so gamma itself is part of what is compared.
        header = f"{self.kind}/{self.columns}/{self.dimension}/{float(self.gamma):.9e}/"
        return hashlib.sha256(header.encode() + rounded.astype("<f8").tobytes()).hexdigest()[:16]

    def _check_columns(self, rows: Rows) -> None:
        if rows.shape[1] != self.columns:
            raise InvalidArgument(
                "rows",
                f"array of shape {rows.shape}",
                f"must have {self.columns} columns, as the feature map has",
            )

    def _wave(self, angles: NDArray[np.float32], waves: NDArray[np.float32], *, out: NDArray[np.float32]) -> None:
        """Cosines (and sines) of the angles, scaled; ``waves`` is scratch space that keeps the slow part contiguous."""
        scale = np.float32(np.sqrt(2.0 / self.dimension))
        if self.kind != "paired":
            angles += self._phases
        if self.kind == "paper":
            np.multiply(np.cos(angles, out=waves), scale, out=out)
            return
        pairs = self.dimension // 2
        np.multiply(np.cos(angles, out=waves), scale, out=out[:, :pairs])
        np.multiply(np.sin(angles, out=waves), scale, out=out[:, pairs:])

    def _draw(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Frequencies from N(0, 2 gamma I), one a row, and phases from [0, 2 pi) (zero for ``paired``)."""
        width = np.sqrt(2.0 * self.gamma)
        if self.kind == "paper":
            normals = Stream("features/paper/frequencies", self.seed).normals(0, self.dimension * self.columns)
            phases = 2.0 * np.pi * Stream("features/paper/phases", self.seed).uniforms(0, self.dimension)
            return width * normals.reshape(self.dimension, self.columns), phases
        pairs = self.dimension // 2
        phases = np.zeros(pairs)
        if self.kind == "phased":
            phases = 2.0 * np.pi * Stream("features/phased/phases", self.seed).uniforms(0, pairs)
        return width * _orthogonal_normals(pairs, self.columns, seed=self.seed), phases


def _orthogonal_normals(number: int, columns: int, *, seed: int) -> NDArray[np.float64]:
    """Vectors that are each N(0, I) but orthogonal within groups of ``columns`` (Yu et al., 2016).

    Directions are a Haar-distributed orthonormal frame (QR of a Gaussian matrix with the signs of R's diagonal made
    positive), lengths those of independent Gaussian vectors.
    """
    directions = Stream("features/paired/directions", seed)
    lengths = Stream("features/paired/lengths", seed)
    groups = []
    for first in range(0, number, columns):
        size = min(columns, number - first)
        block = directions.normals(first * columns, size * columns).reshape(size, columns)
        frame, upper = np.linalg.qr(block.T)
        frame = frame * np.where(np.diag(upper) < 0.0, -1.0, 1.0)
        sizes = np.linalg.norm(lengths.normals(first * columns, size * columns).reshape(size, columns), axis=1)
        groups.append(frame.T * sizes[:, None])
    return np.vstack(groups)


# The inner product of every row's features with one direction, without the features.
#
# Cosine and sine of one angle, weighed and added, are one cosine with another phase: half the work of the features, and
# nothing of their length is ever in memory.


class Projection:
    """``direction . h(x)`` of rows; can be pickled.

    Computed in tiles of fixed shape, aligned to the row's number, each product by one thread: so the bits are the same
    in blocks of any size, on any number of workers with the same kind of processor.
    """

    def __init__(self, features: FourierFeatures, direction: ArrayLike) -> None:
        along = arguments.vector("direction", direction, length=features.dimension)
        frequencies, phases, scale = features.waves
        if features.kind == "paper":
            heights, shifts = along, phases
        else:
            cosines, sines = np.split(along, 2)
            heights, shifts = np.hypot(cosines, sines), phases - np.arctan2(sines, cosines)
        self._heights = (scale * heights).astype(np.float32)
        # The shift is the weight of a column of ones.
        self._frequencies = np.ascontiguousarray(np.column_stack([frequencies, shifts]), dtype=np.float32)

    def __call__(self, rows: Rows, *, first_row: int = 0) -> NDArray[np.float32]:
        result = np.empty(len(rows), dtype=np.float32)
        pairs, columns = self._frequencies.shape
        # Column by column: tables are mapped that way, and it is read once.
        tile = np.zeros((columns, TILE_ROWS), dtype=np.float32)
        tile[-1] = 1.0
        angles = np.empty((pairs, TILE_ROWS), dtype=np.float32)
        sums = np.empty(TILE_ROWS, dtype=np.float32)
        with one_thread_a_product():
            for start in range(-(first_row % TILE_ROWS), len(rows), TILE_ROWS):
                part = slice(max(start, 0), min(start + TILE_ROWS, len(rows)))
                within = slice(part.start - start, part.stop - start)
                tile[:-1, within] = rows[part].T
                np.matmul(self._frequencies, tile, out=angles)
                np.cos(angles, out=angles)
                np.matmul(self._heights, angles, out=sums)
                result[part] = sums[within]
        return result
