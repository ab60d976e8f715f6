"""The laws of the noise: accepted at their own scale, rejected at 0.7 and 1.3 times it.

Each check is a chi-squared test with a threshold of one in a billion: a right sampler fails one run in a
billion, a wrong scale passes with a probability that is smaller still (the statistic is then hundreds above
its mean).
"""

import math
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import opendp.measurements
import pytest
from numpy.typing import NDArray
from scipy.stats import chisquare, norm

from likeset.errors import InvalidArgument, NoiseUnavailable
from likeset.privacy import gaussian_mean
from likeset.privacy import noise as noise_module
from likeset.privacy.events import ROW, NoRelease, Relation, Simulated
from likeset.privacy.noise import Noise, SecretNoise, SimulatedNoise, make_release

DRAWS = 3000
RARE = 1e-9
NOISES: list[Callable[[], Noise]] = [SecretNoise, lambda: SimulatedNoise(20191)]
SCALES = [0.7, 1.0, 1.3]

Vector = NDArray[np.float64]


def _is_right(factor: float, drawn: Vector, expected: Vector) -> None:
    """Counts agree with the law if they were drawn at its own scale, and clearly do not otherwise."""
    assert expected.min() > 5
    p_value = chisquare(drawn, expected * drawn.sum() / expected.sum()).pvalue
    assert (p_value > RARE) if factor == 1.0 else (p_value < RARE)


def _counts(values: NDArray[np.int64], reach: int) -> Vector:
    """How often each of -reach..reach was drawn, with the tails added to the ends."""
    places = np.clip(values, -reach, reach) + reach
    return np.bincount(places, minlength=2 * reach + 1).astype(np.float64)


@pytest.mark.parametrize("make", NOISES)
@pytest.mark.parametrize("factor", SCALES)
@pytest.mark.parametrize(("scale", "reach"), [(0.8, 3), (4.0, 12)])
def test_discrete_laplace(make: Callable[[], Noise], factor: float, scale: float, reach: int) -> None:
    """P(k) = (1-a)/(1+a) a^|k| with a = e^(-1/scale); P(K >= k) = a^k/(1+a)."""
    ratio = math.exp(-1 / scale)
    points = np.abs(np.arange(-reach, reach + 1))
    law = (1 - ratio) / (1 + ratio) * ratio**points
    law[[0, -1]] = ratio**reach / (1 + ratio)
    drawn = make().discrete_laplace(factor * scale, DRAWS)
    _is_right(factor, _counts(drawn, reach), DRAWS * law)


@pytest.mark.parametrize("make", NOISES)
@pytest.mark.parametrize("factor", SCALES)
@pytest.mark.parametrize(("sigma", "reach"), [(0.9, 2), (3.0, 7)])
def test_discrete_gaussian(make: Callable[[], Noise], factor: float, sigma: float, reach: int) -> None:
    points = np.arange(-100, 101)
    weights = np.exp(-(points**2) / (2 * sigma**2))
    law = weights / weights.sum()
    ends = law[: 100 - reach + 1].sum()
    law = law[100 - reach : 100 + reach + 1]
    law[[0, -1]] = ends
    drawn = make().discrete_gaussian(factor * sigma, DRAWS)
    _is_right(factor, _counts(drawn, reach), DRAWS * law)


@pytest.mark.parametrize("make", NOISES)
@pytest.mark.parametrize("factor", SCALES)
def test_discrete_gaussian_on_a_fine_lattice(make: Callable[[], Noise], factor: float) -> None:
    """At sigma = 8 * 2^30 steps, as in mean releases, the law is the normal one: 20 equally likely bins."""
    sigma = 8.0 * 2**30
    drawn = make().discrete_gaussian(factor * sigma, DRAWS)
    bins = np.floor(20 * norm.cdf(drawn / sigma)).astype(np.int64)
    counts = np.bincount(np.minimum(bins, 19), minlength=20).astype(np.float64)
    _is_right(factor, counts, np.full(20, DRAWS / 20))


@pytest.mark.parametrize("make", NOISES)
@pytest.mark.parametrize("factor", SCALES)
def test_exponential_choice(make: Callable[[], Noise], factor: float) -> None:
    """Rate 0.02 on scores 0, 50, 100, 150, 50: weights 1, e, e², e³, e."""
    scores = np.array([0, 50, 100, 150, 50])
    law = np.exp(0.02 * scores) / np.exp(0.02 * scores).sum()
    noise = make()
    drawn = [noise.exponential_choice(scores, factor * 0.02) for _ in range(DRAWS)]
    _is_right(factor, np.bincount(drawn, minlength=5).astype(np.float64), DRAWS * law)


@pytest.mark.parametrize("make", NOISES)
@pytest.mark.parametrize("factor", SCALES)
@pytest.mark.parametrize("probability", [0.3, 0.7])
@pytest.mark.parametrize("kind", ["bernoulli", "rounding"])
def test_coins(make: Callable[[], Noise], factor: float, probability: float, kind: str) -> None:
    chances = np.full(DRAWS, factor * probability)
    heads = int(getattr(make(), kind)(chances).sum())
    law = np.array([probability, 1 - probability])
    _is_right(factor, np.array([heads, DRAWS - heads], dtype=np.float64), DRAWS * law)


@pytest.mark.parametrize("make", NOISES)
@pytest.mark.parametrize("kind", ["bernoulli", "rounding"])
def test_certain_coins_are_certain(make: Callable[[], Noise], kind: str) -> None:
    coins = getattr(make(), kind)(np.array([[0.0, 1.0]] * 50))
    assert (coins == np.array([[False, True]] * 50)).all()


def test_draws_of_secret_noise_never_repeat_and_take_no_seed() -> None:
    first, second = (SecretNoise().discrete_gaussian(1e9, 8) for _ in range(2))
    assert (first != second).all()
    with pytest.raises(TypeError):
        SecretNoise(1)  # type: ignore[call-arg]


@pytest.fixture
def known_opendp(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """OpenDP's samplers return what a test knows: 7 more than they are given, the last place, the likelier side."""
    answers: dict[str, Callable[[Any], Any]] = {
        "make_gaussian": lambda values: [value + 7 for value in values],
        "make_laplace": lambda values: [value + 7 for value in values],
        "make_noisy_max": lambda scores: len(scores) - 1,
        "make_randomized_response_bool": lambda answer: answer,
    }
    samplers = (noise_module._laplace, noise_module._gaussian, noise_module._choice, noise_module._response)
    for sampler in samplers:
        sampler.cache_clear()
    for name, answer in answers.items():
        monkeypatch.setattr(opendp.measurements, name, lambda *_, answer=answer, **__: answer)
    yield
    for sampler in samplers:
        sampler.cache_clear()


@pytest.mark.usefixtures("known_opendp")
def test_secret_noise_is_what_opendp_drew_and_nothing_else() -> None:
    noise = SecretNoise()
    assert noise.discrete_gaussian(1e9, 3).tolist() == noise.discrete_laplace(1e9, 3).tolist() == [7, 7, 7]
    assert noise.exponential_choice(np.array([900, 0, 0]), 1.0) == 2
    assert noise.bernoulli(np.array([0.4, 0.6])).tolist() == [False, True]


@pytest.mark.usefixtures("known_opendp")
def test_a_release_has_no_other_noise_than_opendps() -> None:
    quantity = gaussian_mean.unit_rows(ROW, Relation.REPLACE_ONE)
    plan = gaussian_mean.plan(quantity, size=2, dimension=2, epsilon=1.0, delta=1e-5)
    released = gaussian_mean.run(plan, np.array([[1.0, 0.0], [0.0, 0.5]]), SecretNoise()).value
    assert (released * 2 / plan.event.spacing - 7).tolist() == [2**30, 2**29]


def test_simulated_noise_repeats_with_its_seed() -> None:
    draws = [SimulatedNoise(seed).discrete_laplace(1e6, 8).tolist() for seed in (7, 7, 8)]
    assert draws[0] == draws[1] != draws[2]


def test_a_release_made_with_simulated_noise_says_so() -> None:
    assert make_release(1, NoRelease(), SecretNoise()).event == NoRelease()
    marked = make_release(1, NoRelease(), SimulatedNoise(0))
    assert marked.event == Simulated(NoRelease())
    assert marked.simulated


def test_without_a_secure_generator_nothing_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: int) -> bytes:
        raise NotImplementedError

    monkeypatch.setattr(os, "urandom", missing)
    with pytest.raises(NoiseUnavailable):
        SecretNoise()


def test_a_sampler_that_fails_is_told_as_missing_entropy(monkeypatch: pytest.MonkeyPatch) -> None:
    from opendp.mod import OpenDPException

    def failing(*_: object) -> Callable[[object], object]:
        def sample(*_: object) -> object:
            raise OpenDPException("FailedFunction", "no entropy")

        return sample

    noise = SecretNoise()
    monkeypatch.setattr(noise_module, "_laplace", failing)
    with pytest.raises(NoiseUnavailable, match="nothing was drawn"):
        noise.discrete_laplace(1.0, 1)


@pytest.mark.parametrize("make", NOISES)
def test_impossible_requests_are_refused(make: Callable[[], Noise]) -> None:
    noise = make()
    for call in (
        lambda: noise.discrete_laplace(0.0, 1),
        lambda: noise.discrete_gaussian(-1.0, 1),
        lambda: noise.discrete_gaussian(math.inf, 1),
        lambda: noise.discrete_laplace(1.0, 0),
        lambda: noise.exponential_choice(np.array([], dtype=np.int64), 1.0),
        lambda: noise.exponential_choice(np.array([0.5, 1.0]), 1.0),
        lambda: noise.bernoulli(np.array([1.1])),
        lambda: noise.rounding(np.array([math.nan])),
    ):
        with pytest.raises(InvalidArgument):
            call()
