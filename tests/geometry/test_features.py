"""Fourier features: pinned to their specification, and held to the kernel that they approximate."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import pytest
import reference_stream
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from chance import examples, public_coins
from likeset.errors import NoiseUnavailable
from likeset.geometry.features import TILE_ROWS, FourierFeatures
from naive_twins import kernel_matrix

Kind = Literal["paper", "paired", "phased"]
KINDS: tuple[Kind, ...] = ("paper", "paired", "phased")
Map = Callable[[ArrayLike], NDArray[np.float32]]

SIX_SIGMA = 6.2
"""A normal deviate passes this with probability below 1e-9, both sides together."""


# The map from its specification alone, in plain Python.


def reference_frequencies(columns: int, dimension: int, gamma: float, seed: int, kind: Kind) -> list[list[float]]:
    width = math.sqrt(2 * gamma)
    if kind == "paper":
        flat = reference_stream.normals("features/paper/frequencies", seed, 0, dimension * columns)
        return [[width * value for value in flat[i * columns : (i + 1) * columns]] for i in range(dimension)]
    frequencies: list[list[float]] = []
    frame: list[list[float]] = []
    for number in range(dimension // 2):
        if number % columns == 0:
            frame = []
        vector = reference_stream.normals("features/paired/directions", seed, number * columns, columns)
        for earlier in frame:  # Gram-Schmidt: take away what earlier directions of the group already have
            along = math.fsum(a * b for a, b in zip(vector, earlier, strict=True))
            vector = [a - along * b for a, b in zip(vector, earlier, strict=True)]
        norm = math.sqrt(math.fsum(a * a for a in vector))
        frame.append([a / norm for a in vector])
        lengths = reference_stream.normals("features/paired/lengths", seed, number * columns, columns)
        size = math.sqrt(math.fsum(a * a for a in lengths))
        frequencies.append([width * size * a for a in frame[-1]])
    return frequencies


def reference_features(
    rows: Sequence[Sequence[float]], columns: int, dimension: int, gamma: float, seed: int, kind: Kind
) -> list[list[float]]:
    frequencies = reference_frequencies(columns, dimension, gamma, seed, kind)
    scale = math.sqrt(2 / dimension)
    features = []
    phases = [0.0] * len(frequencies)
    if kind != "paired":
        purpose = f"features/{kind}/phases"
        phases = [2 * math.pi * reference_stream.uniform(purpose, seed, i) for i in range(len(frequencies))]
    for row in rows:
        angles = [
            math.fsum(w * x for w, x in zip(frequency, row, strict=True)) + phase
            for frequency, phase in zip(frequencies, phases, strict=True)
        ]
        sines = [] if kind == "paper" else [scale * math.sin(angle) for angle in angles]
        features.append([scale * math.cos(angle) for angle in angles] + sines)
    return features


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("columns", "dimension", "seed"), [(1, 2, 0), (3, 2, 1), (3, 10, 0), (2, 14, 2**256 - 1), (5, 8, 77)]
)
def test_features_follow_the_specification(columns: int, dimension: int, seed: int, kind: Kind) -> None:
    """Golden to 1e-6; dimensions with part of a group, one whole group, and several groups of frequencies."""
    rows = public_coins(0).normal(size=(4, columns)).tolist()
    rows.append([0.0] * columns)
    expected = reference_features(rows, columns, dimension, 0.35, seed, kind)
    found = FourierFeatures(columns, dimension, 0.35, seed, kind)(rows)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
    features = FourierFeatures(columns, dimension, 0.35, seed, kind)
    np.testing.assert_allclose(features.of_each(rows * 300)[-len(rows) :], expected, rtol=0, atol=1e-6)
    np.testing.assert_allclose(features.mean(rows * 500), np.mean(expected, axis=0), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "golden"), [("paper", "b8bb25cf06259a71"), ("paired", "2e476194e36135a0"), ("phased", "273f5edee00746e3")]
)
def test_the_fingerprint_of_a_map_is_what_it_always_was(kind: Kind, golden: str) -> None:
    assert FourierFeatures(columns=7, dimension=140, gamma=0.1, seed=2019, kind=kind).fingerprint == golden


def test_fingerprints_differ_wherever_an_argument_does() -> None:
    """Gamma among them: the probe is scaled by it, so its features alone would be the same at every gamma."""
    variants = [
        FourierFeatures(3, 8, 0.5, 1, "paired"),
        FourierFeatures(3, 8, 0.5, 1, "paper"),
        FourierFeatures(3, 8, 0.5, 1, "phased"),
        FourierFeatures(3, 8, 0.5, 2, "paired"),
        FourierFeatures(3, 8, 0.50001, 1, "paired"),
        FourierFeatures(3, 8, 5.0, 1, "paired"),
        FourierFeatures(3, 10, 0.5, 1, "paired"),
        FourierFeatures(4, 8, 0.5, 1, "paired"),
    ]
    assert len({variant.fingerprint for variant in variants}) == len(variants)
    assert variants[0].fingerprint == FourierFeatures(3, 8, 0.5, 1, "paired").fingerprint


@settings(max_examples=examples(12))
@given(
    start=st.integers(0, 3 * TILE_ROWS),
    cuts=st.lists(st.integers(1, 2 * TILE_ROWS + 10), min_size=1, max_size=5),
    kind=st.sampled_from(KINDS),
)
def test_the_bits_of_a_row_do_not_depend_on_how_the_table_is_read(start: int, cuts: list[int], kind: Kind) -> None:
    features = FourierFeatures(7, 22, 0.3, 5, kind)
    table = public_coins(0).normal(size=(2 * TILE_ROWS + 321, 7)).astype(np.float32)
    whole = features(table, first_row=start)
    bounds = [0, *sorted({min(cut, len(table)) for cut in cuts}), len(table)]
    for low, high in pairwise(bounds):
        if low < high:
            part = features(table[low:high], first_row=start + low)
            assert part.tobytes() == whole[low:high].tobytes()


# How well inner products approximate the kernel.


PAIRS_OF_ROWS = 24


def kernel_errors(make: Callable[[int], Map], *, seeds: int, gamma: float = 0.5) -> NDArray[np.float64]:
    """Errors ``h(x).h(y) - k(x, y)``: one line per seed, one column per pair of rows; pairs share no row."""
    x, y = np.random.default_rng(9).normal(size=(2, PAIRS_OF_ROWS, 4))  # pinned: errors depend on how alike they are
    truth = np.diag(kernel_matrix(x, y, gamma=gamma))
    errors = []
    for seed in range(seeds):
        hashed = make(seed)(np.vstack([x, y])).astype(np.float64)
        errors.append((hashed[:PAIRS_OF_ROWS] * hashed[PAIRS_OF_ROWS:]).sum(axis=1) - truth)
    return np.array(errors)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dimension", [4, 8, 30])
def test_inner_products_are_right_on_average(dimension: int, kind: Kind) -> None:
    """Over 300 seeds; groups of frequencies that are cut short or repeat are unbiased too.

    Lengths that were not those of Gaussian vectors would show: constant ones of sqrt(n) err by several hundredths.
    """
    errors = kernel_errors(lambda seed: FourierFeatures(4, dimension, 0.5, seed, kind), seeds=300)
    deviations = errors.mean(axis=0) / (errors.std(axis=0) / math.sqrt(len(errors)))
    assert np.abs(deviations).max() < SIX_SIGMA + 0.3  # for the largest of 24


def test_an_odd_dimension_is_no_mistake_for_the_papers_features() -> None:
    assert FourierFeatures(3, 5, 0.5, 1, "paper")(np.zeros((1, 3))).shape == (1, 5)


@pytest.mark.parametrize("kind", ["paper", "paired", "phased"])
@pytest.mark.parametrize(("columns", "dimension"), [(1, 2), (17, 140), (784, 140)])
@pytest.mark.parametrize("gamma", [1e-6, 1e6])
def test_features_do_not_depend_on_the_place_of_a_row(columns: int, dimension: int, gamma: float, kind: Any) -> None:
    FourierFeatures(columns, dimension, gamma, seed=3, kind=kind).check_places()


@pytest.mark.parametrize("places", [[0], [100], [511], [0, 511]])
def test_a_machine_on_which_some_places_round_otherwise_is_found_out(
    places: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cosines of 512 rows are off by a unit in the last place; turned round, the first and the last look alike."""
    honest = np.cos

    def cosines(angles: Any, out: Any = None) -> Any:
        found = honest(angles, out=out)
        if out is not None:
            out[places] = np.nextafter(out[places], np.float32(np.inf))
        return found

    features = FourierFeatures(5, 16, 0.2, seed=3)
    monkeypatch.setattr(np, "cos", cosines)
    with pytest.raises(NoiseUnavailable, match="replace-one"):
        features.check_places()


@pytest.mark.parametrize("kind", ["paper", "paired", "phased"])
def test_the_bound_on_disagreement_is_that_of_its_definition(kind: Any) -> None:
    """For each feature ``sqrt(2/d) (2 a + 2^-19)``, a the error of an angle: of the sum, and of adding the phase."""
    features, rows = FourierFeatures(3, 8, 0.3, 5, kind), public_coins(6).normal(size=(4, 3)).astype(np.float32)
    frequencies, _, scale = features.waves
    unit = 2.0**-24
    share = 3 * unit / (1.0 - 3 * unit)
    expected = np.empty((4, len(frequencies)))
    for place, row in enumerate(rows.astype(np.float64)):
        for number, frequency in enumerate(frequencies.astype(np.float32).astype(np.float64)):
            size = float(np.abs(row) @ np.abs(frequency))
            angle = share * size + unit * ((1.0 + share) * size + 2.0 * np.pi)
            expected[place, number] = scale * (2.0 * angle + 2.0**-19)
    both = expected if kind == "paper" else np.hstack([expected, expected])
    np.testing.assert_allclose(features.disagreement(rows), both, rtol=1e-12)
