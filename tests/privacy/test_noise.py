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

from chance import public_coins
from likeset.errors import InvalidArgument, NoiseUnavailable
from likeset.privacy import auction, gaussian_mean, mwem_mean
from likeset.privacy import noise as noise_module
from likeset.privacy.events import ROW, NoRelease, Norm, Observer, Relation, RowSum, Simulated
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
@pytest.mark.parametrize("unit", [50, 50_000])
def test_exponential_choice(make: Callable[[], Noise], factor: float, unit: int) -> None:
    """Rate 1/unit on scores 0, 1, 2, 3 and 1 units: weights 1, e, e², e³, e."""
    scores = unit * np.array([0, 1, 2, 3, 1])
    law = np.exp(scores / unit) / np.exp(scores / unit).sum()
    noise = make()
    drawn = [noise.exponential_choice(scores, factor / unit) for _ in range(DRAWS)]
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


FAR_OUT = 30
"""In scales: so far out no noise lies by chance, and what is done to noise out there shows."""


@pytest.fixture
def known_opendp(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """OpenDP's samplers answer what a test knows, and never twice alike; the noise so far is in the list.

    Numbers count upwards from call to call; the sixth is far out. A choice is the last place, a coin the likelier side.
    """
    given: list[int] = []

    def adding(*_: object, scale: float) -> Callable[[list[int]], list[int]]:
        def sample(values: list[int]) -> list[int]:
            new = [
                FAR_OUT * round(scale) if number == 6 else number
                for number in range(len(given), len(given) + len(values))
            ]
            given.extend(new)
            return [value + noise for value, noise in zip(values, new, strict=True)]

        return sample

    answers: dict[str, Callable[..., Callable[[Any], Any]]] = {
        "make_gaussian": adding,
        "make_laplace": adding,
        "make_noisy_max": lambda *_, **__: lambda scores: len(scores) - 1,
        "make_randomized_response_bool": lambda *_: lambda answer: answer,
    }
    samplers = (noise_module._laplace, noise_module._gaussian, noise_module._choice, noise_module._response)
    for sampler in samplers:
        sampler.cache_clear()
    for name, answer in answers.items():
        monkeypatch.setattr(opendp.measurements, name, answer)
    yield given
    for sampler in samplers:
        sampler.cache_clear()


def test_secret_noise_is_what_opendp_drew_and_nothing_else(known_opendp: list[int]) -> None:
    noise = SecretNoise()
    for scale in (10.0, 1e15, 10.0):
        drawn = [*noise.discrete_gaussian(scale, 3).tolist(), *noise.discrete_laplace(scale, 2).tolist()]
        assert drawn == known_opendp[-5:]
    assert max(known_opendp) == FAR_OUT * 10**15
    assert noise.exponential_choice(np.array([900, 0, 0]), 1.0) == 2
    assert noise.bernoulli(np.array([0.4, 0.6])).tolist() == [False, True]


@pytest.mark.parametrize("dimension", [2, 300])
@pytest.mark.parametrize("rows", [0, 1, 256])
@pytest.mark.parametrize("quantity", [gaussian_mean.unit_rows, gaussian_mean.selected_unit_rows])
def test_means_have_no_other_noise_than_opendps(
    known_opendp: list[int], quantity: Callable[..., Any], rows: int, dimension: int
) -> None:
    """Uncut and drawn anew for each of several releases of one plan and the same rows, on what each row is alone.

    The first row is a little longer than 1, and is brought in by itself.
    """
    features = public_coins(f"{rows} {dimension}").normal(size=(rows, dimension))
    features /= np.linalg.norm(features, axis=1)[:, None]
    features[1:] *= 0.9
    features[:1] *= 1.00005
    relation = Relation.REPLACE_ONE if rows == 256 else Relation.ADD_OR_REMOVE
    plan = gaussian_mean.plan(quantity(ROW, relation), size=256, dimension=dimension, epsilon=0.05, delta=1e-5)
    alone = [gaussian_mean._on_lattice(row[None], 0)[0] for row in features]
    for _ in range(5):
        steps = gaussian_mean.run(plan, features, SecretNoise()).value * 256 / plan.event.spacing
        assert (steps - sum(alone, np.zeros(dimension))).tolist() == known_opendp[-dimension:]
    assert max(known_opendp) == FAR_OUT * round(plan.sigma / plan.event.spacing)


def test_noisy_sums_of_mwem_have_no_other_noise_than_opendps(known_opendp: list[int]) -> None:
    """Each iteration chooses the last of two coordinates, whose sum is 0 as is its mean at the start.

    So the last tilt is the sum of what each iteration added: half of the noise, less the mean so far.
    """
    quantity = RowSum(norm=Norm.COORDINATE, radius=1.0, unit=ROW, relation=Relation.REPLACE_ONE)
    plan = mwem_mean.MwemPlan(size=1000, dimension=2, epsilon=0.5, iterations=1500, quantity=quantity)
    for _ in range(2):
        state = mwem_mean.run(plan, np.zeros((1000, 2)), SecretNoise()).value.state
        tilt = 0.0
        for noise in known_opendp[-1500:]:
            tilt += (noise / 2000 - float(mwem_mean.grid_mean(np.array([tilt]), 2)[0])) / 2.0
        assert state.tilts.tolist() == [0.0, pytest.approx(tilt, abs=1e-9)]
    assert known_opendp[6] == FAR_OUT * 4


def test_thresholds_of_auctions_have_no_other_noise_than_opendps(known_opendp: list[int]) -> None:
    """Noise of 0, 1, 2 and so on over an offset of 10 asks one owner more each time; far out it asks 60 more."""
    plan = auction.plan_threshold(
        80, epsilon=0.5, offset=10, observer=Observer.COALITION, rounds=8, summary_released=False
    )
    bids = auction.Bids(values=tuple(-float(place) for place in range(80)), waited=(1,) * 80)
    asked = [int(auction.run(plan, bids, SecretNoise()).value.sum()) for _ in range(8)]
    assert asked == [10 + noise for noise in known_opendp] == [10, 11, 12, 13, 14, 15, 70, 17]


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
