"""The witness tilt: what the fit promises, and the law of the draws."""

import math
from collections.abc import Sequence
from itertools import pairwise, permutations
from typing import Any

import numpy as np
import pytest
import reference_stream
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chi2

from chance import examples, public_coins
from likeset.geometry import offers
from likeset.geometry.features import FourierFeatures
from likeset.geometry.offers import Draw, fit, large_perturbations, largest

FEATURES = FourierFeatures(columns=3, dimension=60, gamma=0.2, seed=4)


def hashed(seed: int, rows: int, *, mean: float = 0.0, scale: float = 1.0) -> NDArray[np.float32]:
    return FEATURES(public_coins(seed).normal(mean, scale, size=(rows, 3)))


def owner_that_can(rows: int = 4000) -> NDArray[np.float32]:
    """One row in ten looks like the target."""
    return np.vstack([hashed(1, rows * 9 // 10), hashed(2, rows // 10, mean=2.0, scale=0.5)])


TARGET = FEATURES.mean(public_coins(3).normal(2.0, 0.5, size=(300, 3)))


def weighted(features: NDArray[Any], fitted: offers.Tilt) -> tuple[float, float]:
    """Weighted mean score and effective number of rows, ``(sum w)² / sum w²``, straight from the definitions."""
    scores = features.astype(np.float64) @ fitted.direction
    weights = np.exp(fitted.beta * (scores - scores.max()))
    return float((weights * scores).sum() / weights.sum()), float(weights.sum() ** 2 / (weights**2).sum())


# The fit.


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_where_the_target_is_in_reach_the_weighted_mean_score_is_the_noise_corrected_target_score(noise: float) -> None:
    """``t = (||g~||² - d sigma²/m²) - g~.mu`` with g~ the release, mu the owner's mean, ``u = g~ - mu``."""
    rows = owner_that_can()
    released = TARGET + public_coins(5).normal(0, noise, size=60)
    energy = 60 * noise**2
    fitted = fit(rows, released, noise_energy=energy, wanted=100)
    mean = rows.astype(np.float64).mean(axis=0)
    expected = released @ released - energy - released @ mean
    mean_score, effective_rows = weighted(rows, fitted)
    assert fitted.beta > 0
    np.testing.assert_allclose(fitted.direction, released - mean, atol=1e-12)
    assert mean_score == pytest.approx(expected, abs=1e-9)
    assert effective_rows >= 50


@pytest.mark.parametrize("wanted", [2, 40, 400, 3000])
def test_where_the_target_is_out_of_reach_the_tilt_stays_finite_and_keeps_enough_rows(wanted: int) -> None:
    """Rows around 0 with a target around 8: no weights reach it, and the bound of wanted/2 rows is what stops it."""
    rows = FEATURES(np.random.default_rng(8).normal(size=(4000, 3)))  # pinned: else exponents may end first
    released = FEATURES.mean(np.random.default_rng(9).normal(8.0, 0.1, size=(300, 3)))
    fitted = fit(rows, released, noise_energy=0.0, wanted=wanted)
    assert math.isfinite(fitted.beta)
    assert fitted.beta > 0
    assert np.isfinite(fitted.score(rows)).all()
    mean_score, effective_rows = weighted(rows, fitted)
    assert mean_score < released @ fitted.direction
    assert effective_rows == pytest.approx(wanted / 2, rel=1e-6)
    alone = fit(rows, released, noise_energy=0.0, wanted=1)  # half a row is always kept: exponents stop it
    assert alone.beta * np.ptp(rows @ alone.direction) == pytest.approx(500.0, rel=1e-5)


@settings(max_examples=examples(60))
@given(
    seed=st.integers(0, 2**32),
    rows=st.integers(1, 40),
    dimension=st.integers(1, 6),
    size=st.sampled_from([0.0, 1e-8, 1.0, 1e8]),
    far=st.sampled_from([1e-8, 1.0, 1e6]),
    noise=st.sampled_from([0.0, 1.0, 1e12]),
    wanted=st.integers(1, 100),
)
def test_a_fit_is_finite_and_keeps_enough_rows_whatever_it_is_given(
    seed: int, rows: int, dimension: int, size: float, far: float, noise: float, wanted: int
) -> None:
    coins = public_coins(seed)
    features = size * coins.normal(size=(rows, dimension))
    fitted = fit(features, far * coins.normal(size=dimension), noise_energy=noise, wanted=wanted)
    assert 0.0 <= fitted.beta < math.inf
    assert weighted(features, fitted)[1] >= min(wanted / 2, rows) * (1 - 1e-6)
    assert np.isfinite(fitted.score(features.astype(np.float32))).all()


def test_the_strength_falls_to_zero_as_the_known_noise_grows() -> None:
    """||g~ - mu||² is the energy at which nothing is left; just below it beta is positive, just above it is 0."""
    rows = owner_that_can()
    limit = float(((TARGET - rows.astype(np.float64).mean(axis=0)) ** 2).sum())
    betas = [fit(rows, TARGET, noise_energy=share * limit, wanted=10).beta for share in (0, 0.3, 0.9, 0.999, 1.001)]
    assert all(above > below for above, below in pairwise(betas))
    assert betas[-1] == 0.0


@pytest.mark.parametrize("rows", [1, 7])
def test_rows_that_are_all_alike_cannot_be_tilted(rows: int) -> None:
    fitted = fit(np.repeat(hashed(1, 1), rows, axis=0), TARGET, noise_energy=0.0, wanted=3)
    assert fitted.beta == 0.0


def test_a_subsample_stands_for_its_population() -> None:
    """An owner of 40000 rows from which 4000 were sampled may go further than one of 4000.

    Of the ten times larger table a tenth of the share still leaves wanted/2 rows.
    """
    rows = hashed(8, 4000)
    released = FEATURES.mean(np.full((1, 3), 8.0))
    alone = fit(rows, released, noise_energy=0.0, wanted=1000)
    sampled = fit(rows, released, noise_energy=0.0, wanted=1000, population=40_000)
    assert weighted(rows, alone)[1] == pytest.approx(500)
    assert weighted(rows, sampled)[1] == pytest.approx(50)
    assert sampled.beta > alone.beta


@settings(max_examples=examples(30))
@given(dimension=st.integers(1, 70), cuts=st.lists(st.integers(0, 100), max_size=4), seed=st.integers(0, 99))
def test_the_bits_of_a_score_do_not_depend_on_the_block(dimension: int, cuts: list[int], seed: int) -> None:
    rows = public_coins(seed).normal(size=(100, dimension)).astype(np.float32)
    fitted = fit(rows, rows[0] + 1.0, noise_energy=0.0, wanted=5)
    whole = fitted.score(rows)
    bounds = [0, *sorted(cuts), 100]
    parts = np.concatenate([fitted.score(rows[low:high]) for low, high in pairwise(bounds)])
    assert parts.tobytes() == whole.tobytes()
    alone = np.array([fitted.score(rows[[place]])[0] for place in range(100)])
    assert alone.tobytes() == whole.tobytes()


# The draw.


def draw(scores: Sequence[float] | NDArray[np.float64], count: int, *, key: int, first: int = 0) -> Draw:
    """From rows that follow each other in a table, all at once."""
    _, perturbations = large_perturbations(first, len(scores), key=key, least=-math.inf)
    return largest(np.arange(first, first + len(scores)), np.asarray(scores) + perturbations, count)


@pytest.mark.parametrize("first", [0, 3, 999_999_999_998, 2**62])
def test_a_perturbed_score_is_the_score_plus_the_gumbel_noise_of_its_row_number(first: int) -> None:
    """-log(-log(u)) with u from the stream ``tilt/perturbations`` of the owner's key, also far out in a table."""
    scores = [0.5, -1.0, 2.0, 0.0, 0.25, -3.0]
    numbers = range(first, first + 6)
    drawn = draw(scores, 6, key=12345, first=first)
    expected = {
        number: score - math.log(-math.log(reference_stream.uniform("tilt/perturbations", 12345, number)))
        for number, score in zip(numbers, scores, strict=True)
    }
    assert drawn.row_numbers.tolist() == sorted(numbers, key=lambda number: -expected[number])
    assert drawn.perturbed.tolist() == pytest.approx(sorted(expected.values(), reverse=True), rel=1e-12)


def test_ties_go_to_the_smaller_row_number() -> None:
    numbers, scores = np.array([9, 4, 2, 7]), np.array([1.0, 1.0, 1.0, 0.5])
    assert [largest(numbers, scores, count).row_numbers.tolist() for count in (0, 2, 9)] == [[], [2, 4], [2, 4, 9, 7]]


def ordered_draw_law(scores: Sequence[float]) -> dict[tuple[int, int], float]:
    """Two rows in order, without replacement: the first by its weight, the second by its weight among the others."""
    weights = [math.exp(score) for score in scores]
    total = sum(weights)
    return {
        (one, two): weights[one] / total * weights[two] / (total - weights[one])
        for one, two in permutations(range(len(scores)), 2)
    }


SCORES = (0.0, 0.6, 1.2, 1.8)
DRAWS = 5000


@pytest.fixture(scope="module")
def observed() -> dict[tuple[int, int], int]:
    counts = dict.fromkeys(ordered_draw_law(SCORES), 0)
    for key in range(DRAWS):
        one, two = draw(SCORES, 2, key=key).row_numbers.tolist()
        counts[one, two] += 1
    return counts


def surprise(observed: dict[tuple[int, int], int], law: dict[tuple[int, int], float]) -> float:
    statistic = sum((observed[pair] - DRAWS * p) ** 2 / (DRAWS * p) for pair, p in law.items())
    return float(chi2.sf(statistic, len(law) - 1))


def test_draws_follow_the_law_of_sampling_one_by_one_without_replacement(observed: dict[tuple[int, int], int]) -> None:
    assert surprise(observed, ordered_draw_law(SCORES)) > 1e-9


@pytest.mark.parametrize("strength", [0.7, 1.3])
def test_draws_of_another_strength_would_be_noticed(observed: dict[tuple[int, int], int], strength: float) -> None:
    assert surprise(observed, ordered_draw_law([strength * score for score in SCORES])) < 1e-9
