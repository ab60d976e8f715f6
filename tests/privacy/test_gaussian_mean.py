"""The Gaussian mean: exact sensitivity on integers, the promised accuracy, and refusals."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from chance import examples, public_coins
from likeset.errors import InvalidArgument
from likeset.privacy import gaussian_mean
from likeset.privacy.accounting import Basis, guarantee
from likeset.privacy.events import ROW, Norm, PrivacyUnit, Relation, RowSum, Simulated
from likeset.privacy.noise import Integers, SecretNoise, SimulatedNoise

STEPS = 2**30
Matrix = NDArray[np.float64]


class Silent(SimulatedNoise):
    """No noise at all, to see what it would be added to."""

    def discrete_gaussian(self, sigma: float, size: int) -> Integers:
        assert sigma > 0
        return np.zeros(size, dtype=np.int64)


def _paired(rows: int, pairs: int, seed: int = 0) -> Matrix:
    """Random Fourier features in pairs: cos and sin of the same angle, so that every row has norm 1."""
    coins = public_coins(seed)
    angles = coins.normal(size=(rows, 10)) @ coins.normal(size=(10, pairs))
    return np.hstack([np.cos(angles), np.sin(angles)]) / math.sqrt(pairs)


def _plan(
    size: int, dimension: int, relation: Relation = Relation.REPLACE_ONE, rows: int = 1
) -> gaussian_mean.GaussianPlan:
    return gaussian_mean.plan(
        gaussian_mean.unit_rows(PrivacyUnit(rows, ""), relation),
        size=size,
        dimension=dimension,
        epsilon=1.0,
        delta=1e-5,
    )


@pytest.mark.parametrize("delta", [1e-12, 1e-9, 1e-5, 0.01])
def test_the_plan_spends_its_budget_and_no_more(delta: float) -> None:
    quantity = gaussian_mean.unit_rows(ROW, Relation.REPLACE_ONE)
    plan = gaussian_mean.plan(quantity, size=1000, dimension=140, epsilon=1.0, delta=delta)
    answer = guarantee(plan.event, relation=Relation.REPLACE_ONE, delta=delta)
    assert 0.9999 < answer.epsilon <= 1.0
    assert answer.basis is Basis.PROVEN


def test_sigma_is_that_of_the_analytic_gaussian() -> None:
    """Balle and Wang's sigma at (1, 1e-5) is 3.7306 per unit of sensitivity.

    The lattice adds less than 0.1%.
    """
    assert _plan(1000, 140).sigma == pytest.approx(2 * 3.7306, rel=1e-3)
    assert _plan(1000, 140, Relation.ADD_OR_REMOVE).sigma == pytest.approx(3.7306, rel=1e-3)


def test_an_id_with_three_rows_needs_three_times_the_noise() -> None:
    assert _plan(1000, 140, rows=3).sigma == pytest.approx(3 * _plan(1000, 140).sigma, rel=1e-3)


@pytest.mark.parametrize("noise", [SecretNoise(), SimulatedNoise(5)])
def test_the_error_along_features_is_below_nine_thousandths(noise: SecretNoise | SimulatedNoise) -> None:
    """Noise of 7.46/1000 on each coordinate; along a row of norm 1 that is 0.0075 whatever the row.

    A root mean square over 1000 rows of one draw varies by a few percent of itself (rows span 140
    directions); 0.009 is far outside, half of it far below.
    """
    features = _paired(1000, 70)
    release = gaussian_mean.run(_plan(1000, 140), features, noise)
    error = features @ (release.value - features.mean(axis=0))
    assert 0.003 < math.sqrt(float((error**2).mean())) < 0.009


def test_without_noise_it_is_the_mean_to_lattice_precision() -> None:
    """Truncation moves each coordinate toward zero by less than one step."""
    features = _paired(300, 20)
    release = gaussian_mean.run(_plan(300, 40), features, Silent(0))
    assert np.abs(release.value - features.mean(axis=0)).max() < 1 / STEPS
    again = gaussian_mean.run(_plan(300, 40), features.astype(np.float32), Silent(0))
    assert np.abs(again.value - features.mean(axis=0)).max() < 1e-6


def test_a_release_adds_whole_steps_of_the_lattice_and_uses_all_of_them() -> None:
    """With 256 rows every division is exact: neither the mean nor the noise has a finer part, or a coarser grid."""
    features, plan = _paired(256, 20), _plan(256, 40)
    exact, noisy = (gaussian_mean.run(plan, features, noise).value * 256 for noise in (Silent(0), SecretNoise()))
    steps = (noisy - exact) / plan.event.spacing
    assert (noisy / plan.event.spacing % 1.0 == 0.0).all()
    assert (steps % 1.0 == 0.0).all()
    assert np.gcd.reduce(steps.astype(np.int64)) == 1


@settings(max_examples=examples(60))
@given(
    seed=st.integers(0, 2**32 - 1), dimension=st.integers(1, 40), size=st.floats(0.5, 1 + 9e-5), narrow=st.booleans()
)
def test_every_row_ends_within_the_unit_ball_of_integers(seed: int, dimension: int, size: float, narrow: bool) -> None:
    """Python integers, so nothing can overflow; neighbours then differ by at most 2 * 2^30 in norm."""
    coins = public_coins(seed)
    rows = coins.normal(size=(5, dimension)) * (coins.random((5, dimension)) < 0.5) + 1e-12
    rows *= size / np.linalg.norm(rows, axis=1)[:, None]
    points = gaussian_mean._on_lattice(rows.astype(np.float32) if narrow else rows, 0)
    for point, row in zip(points.tolist(), rows, strict=True):
        assert sum(value * value for value in point) <= STEPS**2
        assert np.abs(np.array(point) / STEPS - row / max(1.0, size)).max() < (2e-7 if narrow else 2 / STEPS)


@pytest.mark.parametrize(("first", "second"), [(STEPS - 2, 65_536), (STEPS - 2_048, 2_097_151)])
def test_a_row_whose_excess_floating_point_does_not_see_is_brought_in(first: int, second: int) -> None:
    """Lattice points a hair outside the unit ball: the squared norm is 2^60 + 4 or + 1, its root 1.0 in double."""
    row = np.array([[first / STEPS, -second / STEPS]])
    assert first**2 + second**2 > STEPS**2
    assert np.linalg.norm(row) == 1.0
    assert gaussian_mean._on_lattice(row, 0).tolist() == [[first - 1, 1 - second]]


def test_one_replaced_row_moves_the_sum_by_two_at_most_and_opposite_rows_reach_it() -> None:
    before, after = np.zeros((4, 3)), np.zeros((4, 3))
    before[2, 1], after[2, 1] = 1.0, -1.0
    plan = _plan(4, 3)
    sums = [gaussian_mean.run(plan, rows, Silent(0)).value * 4 for rows in (before, after)]
    assert np.linalg.norm(sums[0] - sums[1]) == plan.quantity.sensitivity == 2.0


def test_the_papers_features_are_refused() -> None:
    """Sqrt(2/d) cos(...) has norm 1 only on average; some row is longer."""
    coins = public_coins(0)
    features = math.sqrt(2 / 8) * np.cos(coins.uniform(0, 2 * math.pi, size=(100, 8)))
    with pytest.raises(InvalidArgument, match=r"row \d+ is longer than 1; use the paired feature map"):
        gaussian_mean.run(_plan(100, 8), features, SimulatedNoise(0))


@pytest.mark.parametrize("shape", [(9, 4), (11, 4), (10, 3)])
def test_a_shape_other_than_planned_is_refused(shape: tuple[int, int]) -> None:
    with pytest.raises(InvalidArgument, match="as planned"):
        gaussian_mean.run(_plan(10, 4), np.zeros(shape), SimulatedNoise(0))


@pytest.mark.parametrize("rows", [0, 9, 11])
def test_under_add_or_remove_only_the_declared_size_is_used(rows: int) -> None:
    """The true number of rows is protected: it is neither checked nor divided by."""
    features = np.zeros((rows, 4))
    features[:, 0] = 1.0
    release = gaussian_mean.run(_plan(10, 4, Relation.ADD_OR_REMOVE), features, Silent(0))
    assert release.value == pytest.approx([rows / 10, 0, 0, 0])


def test_the_release_carries_the_planned_event_marked_if_simulated() -> None:
    plan = _plan(10, 4)
    assert gaussian_mean.run(plan, np.zeros((10, 4)), SecretNoise()).event == plan.event
    assert gaussian_mean.run(plan, np.zeros((10, 4)), SimulatedNoise(0)).event == Simulated(plan.event)


def test_a_quantity_other_than_unit_rows_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="norm at most 1"):
        gaussian_mean.GaussianPlan(
            RowSum(norm=Norm.EUCLIDEAN, radius=2.0, unit=ROW, relation=Relation.REPLACE_ONE),
            size=10,
            dimension=4,
            sigma=1.0,
        )
    with pytest.raises(InvalidArgument, match="euclidean"):
        gaussian_mean.GaussianPlan(
            RowSum(norm=Norm.COORDINATE, radius=1.0, unit=ROW, relation=Relation.REPLACE_ONE),
            size=10,
            dimension=4,
            sigma=1.0,
        )


def test_no_message_shows_a_value_of_a_row() -> None:
    features = np.zeros((10, 4))
    features[3] = 12345.678
    with pytest.raises(InvalidArgument) as caught:
        gaussian_mean.run(_plan(10, 4), features, SimulatedNoise(0))
    assert "12345" not in str(caught.value)
    assert "row 3" in str(caught.value)
