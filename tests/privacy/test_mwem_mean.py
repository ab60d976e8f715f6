"""Algorithm 2: one tilt per coordinate is the whole |S|^d table, and every step is the paper's."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from chance import examples, public_coins
from likeset.errors import InvalidArgument
from likeset.privacy import mwem_mean
from likeset.privacy.events import ROW, ExponentialChoice, Laplace, Norm, Relation, Repeated, RowSum
from likeset.privacy.noise import Integers, SecretNoise, SimulatedNoise

Matrix = NDArray[np.float64]


class Recorded(SimulatedNoise):
    """Simulated noise that remembers what it drew, and what it was asked with."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.choices: list[int] = []
        self.laplace: list[int] = []
        self.rates: list[float] = []
        self.scales: list[float] = []
        self.scores: list[Integers] = []

    def exponential_choice(self, scores: Integers, rate: float) -> int:
        chosen = super().exponential_choice(scores, rate)
        self.scores.append(scores.copy())
        self.rates.append(rate)
        self.choices.append(chosen)
        return chosen

    def discrete_laplace(self, scale: float, size: int) -> Integers:
        drawn = super().discrete_laplace(scale, size)
        self.scales.append(scale)
        self.laplace.extend(drawn.tolist())
        return drawn


def _features(rows: int, dimension: int, seed: int) -> Matrix:
    """The paper's features of something: sqrt(2/d) cos(angle).

    These lie on the grid, so rounding is certain.
    """
    coins = public_coins(seed)
    on_grid = coins.integers(-dimension, dimension + 1, size=(rows, dimension)) / dimension
    return np.asarray(math.sqrt(2 / dimension) * on_grid, dtype=np.float64)


def _plan(rows: int, dimension: int, *, epsilon: float, iterations: int) -> mwem_mean.MwemPlan:
    quantity = RowSum(norm=Norm.COORDINATE, radius=1.0, unit=ROW, relation=Relation.REPLACE_ONE)
    return mwem_mean.MwemPlan(rows, dimension, epsilon, iterations, quantity)


@settings(max_examples=examples(25))
@given(seed=st.integers(0, 2**31), rows=st.integers(1, 30), epsilon=st.floats(0.02, 5), iterations=st.integers(1, 40))
def test_the_product_form_is_the_full_table(seed: int, rows: int, epsilon: float, iterations: int) -> None:
    """Three features.

    A table of 7³ probabilities, updated as Algorithm 2 says, from the same choices and the same noise.
    """
    dimension = 3
    features = _features(rows, dimension, seed)
    noise = Recorded(seed)
    release = mwem_mean.run(_plan(rows, dimension, epsilon=epsilon, iterations=iterations), features, noise)
    grid = np.arange(-dimension, dimension + 1) / dimension
    points = np.array(list(itertools.product(grid, repeat=dimension)))
    table = np.full(len(points), 1 / len(points))
    sums = math.sqrt(dimension / 2) * features.sum(axis=0)
    average = np.zeros(len(points))
    for step in range(iterations):
        predicted = rows * (table @ points)
        # The scores that the choice was made with are |w(P) - w(D)|, in grid steps, to half a step.
        assert np.abs(noise.scores[step] / dimension - np.abs(predicted - sums)).max() <= 0.5 / dimension + 1e-9
        chosen = noise.choices[step]
        measured = sums[chosen] + noise.laplace[step] / dimension
        # Subtracting the largest exponent changes nothing after normalising.
        exponent = points[:, chosen] * (measured - predicted[chosen]) / (2 * rows)
        table = table * np.exp(exponent - exponent.max())
        table /= table.sum()
        average += table / iterations
    assert release.value.mean == pytest.approx(math.sqrt(2 / dimension) * (average @ points), abs=1e-9)


def test_the_noise_is_what_the_event_says() -> None:
    """In grid steps of 1/d: Laplace of scale d/eps; rate eps/d.

    The event counts in units of the grid [-1, 1].
    """
    noise = Recorded(1)
    plan = _plan(20, 10, epsilon=0.25, iterations=7)
    mwem_mean.run(plan, _features(20, 10, 1), noise)
    assert noise.scales == [40.0]
    assert len(noise.laplace) == 7
    assert noise.rates == [0.025] * 7
    assert isinstance(plan.event, Repeated)
    choice, measurement = plan.event.event.events  # type: ignore[union-attr]
    assert choice == ExponentialChoice(rate=0.25, quantity=plan.quantity)
    assert measurement == Laplace(scale=4.0, quantity=plan.quantity)
    assert plan.quantity.sensitivity == 2.0


@example(tilt=0.03, dimension=1)  # so small that both parts of the formula are series
@given(tilt=st.floats(-1e6, 1e6), dimension=st.integers(1, 300))
def test_grid_mean_is_the_sum_over_the_grid(tilt: float, dimension: int) -> None:
    grid = np.arange(-dimension, dimension + 1) / dimension
    weights = np.exp(tilt * grid - abs(tilt))
    expected = (weights @ grid) / weights.sum()
    found = mwem_mean.grid_mean(np.array([tilt]), dimension)[0]
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-13)


@pytest.mark.parametrize("dimension", [1, 3, 140])
def test_grid_mean_is_stable_at_zero_and_far_out(dimension: int) -> None:
    """At zero it vanishes with slope var = (d+1)/(3d), the variance of the uniform grid; far out it is 1."""
    tiny = mwem_mean.grid_mean(np.array([0.0, 1e-300, 1e-9, -1e-9]), dimension)
    slope = (dimension + 1) / (3 * dimension)
    assert tiny == pytest.approx([0.0, slope * 1e-300, slope * 1e-9, -slope * 1e-9], rel=1e-9, abs=0.0)
    assert mwem_mean.grid_mean(np.array([1e12, -1e12]), dimension) == pytest.approx([1.0, -1.0], rel=1e-15)
    around = np.linspace(-2.0, 2.0, 4001)
    assert (np.diff(mwem_mean.grid_mean(around, dimension)) > 0).all()


@pytest.mark.parametrize("noise", [SecretNoise(), SimulatedNoise(3)])
def test_rounding_is_unbiased_and_goes_to_a_neighbour(noise: SecretNoise | SimulatedNoise) -> None:
    """Var of one rounding is at most 1/4.

    Over 40000 of them the mean is within 0.0025 * 6.1 in one case in 1e9.
    """
    dimension, value = 4, 0.3
    features = np.full((10000, dimension), math.sqrt(2 / dimension) * value)
    points = mwem_mean.grid_points(features, noise)
    assert set(np.unique(points)) == {1, 2}  # 0.3 * 4 = 1.2 lies between them
    assert points.mean() == pytest.approx(1.2, abs=0.0155)


def test_rounding_keeps_the_ends_of_the_grid() -> None:
    dimension = 5
    ends = np.array([[1.0, -1.0, 0.0, 1.0 + 1e-7, -1.0 - 1e-7]]) * math.sqrt(2 / dimension)
    assert mwem_mean.grid_points(ends, SimulatedNoise(0)).tolist() == [[5, -5, 0, 5, -5]]
    assert np.abs(mwem_mean.grid_points(np.repeat(ends, 10**6, axis=0), SimulatedNoise(0))).max() == 5
    with pytest.raises(InvalidArgument, match="within"):
        mwem_mean.grid_points(ends * 1.01, SimulatedNoise(0))


def test_a_later_call_continues_from_the_last_distribution_not_from_the_average() -> None:
    """With one iteration the average is the last distribution.

    With more it is not, and the tilts tell them apart.
    """
    dimension = 3
    features = _features(10, dimension, 2)
    first = mwem_mean.run(_plan(10, dimension, epsilon=2.0, iterations=6), features, SimulatedNoise(1)).value
    last_means = mwem_mean.grid_mean(first.state.tilts, dimension)
    assert np.abs(last_means - first.state.mean).max() > 0.01
    noise = Recorded(3)
    mwem_mean.run(_plan(10, dimension, epsilon=2.0, iterations=1), features, noise, start=first.state)
    sums = math.sqrt(dimension / 2) * features.sum(axis=0)
    expected = np.abs(10 * last_means - sums) * dimension
    assert np.abs(noise.scores[0] - expected).max() <= 0.5 + 1e-9


@given(seed=st.integers(0, 2**31), calls=st.integers(2, 4), iterations=st.integers(1, 6))
@settings(max_examples=examples(25))
def test_coordinates_that_no_step_touched_stay_exactly_as_released(seed: int, calls: int, iterations: int) -> None:
    """A step touches one coordinate, and one that was touched in a call may move in the next one as well."""
    dimension = 12
    plan = _plan(15, dimension, epsilon=0.3, iterations=iterations)
    noise = SimulatedNoise(seed)
    released = np.zeros(dimension)
    state = None
    for call in range(calls):
        value = mwem_mean.run(plan, _features(15, dimension, seed), noise, start=state).value
        assert np.count_nonzero(value.mean != released) <= iterations * min(call + 1, 2)
        released, state = value.mean, value.state


@pytest.mark.parametrize("shape", [(9, 4), (10, 3)])
def test_a_shape_other_than_planned_is_refused(shape: tuple[int, int]) -> None:
    with pytest.raises(InvalidArgument, match="as planned"):
        mwem_mean.run(_plan(10, 4, epsilon=1.0, iterations=2), np.zeros(shape), SimulatedNoise(0))


def test_a_state_of_another_plan_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="another plan"):
        mwem_mean.run(
            _plan(10, 4, epsilon=1.0, iterations=2),
            np.zeros((10, 4)),
            SimulatedNoise(0),
            start=mwem_mean.State.uniform(5),
        )
