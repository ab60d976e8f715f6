"""The discrepancy between two sets, the objective, its marginal gain, and the condition of Theorem 1."""

import math

import naive_twins
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from chance import examples, public_coins
from likeset.errors import InvalidArgument
from likeset.geometry import kernels
from likeset.geometry.kernels import marginal_gain, objective, squared_mmd, submodularity_margin

GOLDEN = (3 - math.exp(-1) - 2 * math.exp(-4)) / 18
SEEDS = st.integers(0, 2**32)


def test_the_squared_mmd_of_three_and_two_points_on_the_diagonal() -> None:
    """Rows {0,1,2}·(1,1) and {0,1}·(1,1) at gamma = 1/2: steps of 1 have squared length 2, so e^-1; of 2, e^-4.

    Within the first (3 + 4e^-1 + 2e^-4)/9, within the second (2 + 2e^-1)/4, between (2 + 3e^-1 + e^-4)/6. The first
    two less twice the third: (6 + 8e^-1 + 4e^-4 + 9 + 9e^-1 - 12 - 18e^-1 - 6e^-4)/18 = (3 - e^-1 - 2e^-4)/18.
    """
    three, two = [[0, 0], [1, 1], [2, 2]], [[0, 0], [1, 1]]
    assert squared_mmd(three, two, gamma=0.5) == pytest.approx(GOLDEN, rel=1e-14)
    assert squared_mmd(two, three, gamma=0.5) == pytest.approx(GOLDEN, rel=1e-14)
    assert squared_mmd(np.array(three, np.float32), np.array(two, np.float32), gamma=0.5) == pytest.approx(GOLDEN)


@settings(max_examples=examples(40))
@given(
    seed=SEEDS, rows=st.integers(1, 15), others=st.integers(1, 15), columns=st.integers(1, 4), gamma=st.floats(0.01, 9)
)
def test_discrepancy_and_objective_agree_with_a_double_loop(
    seed: int, rows: int, others: int, columns: int, gamma: float
) -> None:
    coins = public_coins(seed)
    a, b = coins.normal(size=(rows, columns)), coins.normal(size=(others, columns))
    expected = naive_twins.squared_mmd(a, b, gamma=gamma)
    assert squared_mmd(a, b, gamma=gamma) == pytest.approx(expected, abs=1e-12)
    assert objective(a, b, gamma=gamma) == pytest.approx(naive_twins.objective(a, b, gamma=gamma), abs=1e-12)
    # J is the target's own mean kernel less the discrepancy.
    own = naive_twins.mean_kernel(b, b, gamma=gamma)
    assert own - objective(a, b, gamma=gamma) == pytest.approx(expected, abs=1e-12)


def test_results_do_not_depend_on_the_size_of_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    coins = public_coins(2)
    a, b = coins.normal(size=(41, 3)), coins.normal(size=(29, 3))
    before = squared_mmd(a, b, gamma=0.3), marginal_gain(a, b, b, gamma=0.3), submodularity_margin(a, gamma=0.3)
    monkeypatch.setattr(kernels, "BLOCK_ENTRIES", 64)
    assert squared_mmd(a, b, gamma=0.3) == pytest.approx(before[0], rel=1e-12)
    np.testing.assert_allclose(marginal_gain(a, b, b, gamma=0.3), before[1], atol=1e-14)
    assert submodularity_margin(a, gamma=0.3).shortest_distance == pytest.approx(before[2].shortest_distance)


def test_a_set_has_no_discrepancy_to_itself_and_it_is_never_negative() -> None:
    rows = public_coins(0).normal(size=(50, 3))
    assert 0.0 <= squared_mmd(rows, rows[::-1], gamma=1.0) < 1e-15
    assert 0.0 <= squared_mmd(rows, np.vstack([rows, rows]), gamma=1.0) < 1e-15


def test_a_weight_counts_like_copies_of_its_row() -> None:
    """Weights 1/2, 1/3, 1/6 are three, two and one copies among six rows."""
    coins = public_coins(3)
    rows, target = coins.normal(size=(3, 2)), coins.normal(size=(7, 2))
    copies = rows[[0, 0, 0, 1, 1, 2]]
    weighted = squared_mmd(rows, target, gamma=0.8, weights=[1 / 2, 1 / 3, 1 / 6])
    assert weighted == pytest.approx(naive_twins.squared_mmd(copies, target, gamma=0.8), abs=1e-14)
    assert squared_mmd(rows, target, gamma=0.8, weights=[0, 1, 0]) == pytest.approx(
        naive_twins.squared_mmd(rows[1:2], target, gamma=0.8), abs=1e-14
    )


@pytest.mark.parametrize(
    ("weights", "reason"),
    [
        ([0.5, 0.6], "sum to 1"),
        ([1.5, -0.5], "negative"),
        ([1.0], "length 2"),
        ([0.5, math.nan], "not finite"),
        ([[0.5, 0.5]], "one dimension"),
        (["a", "b"], "numbers"),
    ],
)
def test_weights_that_are_no_distribution_are_refused(weights: list[float], reason: str) -> None:
    with pytest.raises(InvalidArgument, match=reason) as caught:
        squared_mmd([[0.0], [1.0]], [[0.0]], gamma=1.0, weights=weights)
    assert caught.value.argument == "weights"


@settings(max_examples=examples(60))
@given(
    seed=SEEDS,
    summary=st.integers(0, 8),
    target=st.integers(1, 8),
    candidates=st.integers(2, 10),
    gamma=st.floats(0.05, 5),
)
def test_marginal_gain_ranks_candidates_as_the_change_of_the_objective_does(
    seed: int, summary: int, target: int, candidates: int, gamma: float
) -> None:
    """The change of J is ``2/(q+1) * gain(x)`` plus a term without x: not only the order, also the differences."""
    coins = public_coins(seed)
    chosen, wanted, rows = (coins.normal(size=(number, 2)) for number in (summary, target, candidates))
    gains = marginal_gain(rows, chosen, wanted, gamma=gamma)
    before = naive_twins.objective(chosen, wanted, gamma=gamma)
    changes = np.array([naive_twins.objective(np.vstack([chosen, row]), wanted, gamma=gamma) - before for row in rows])
    scaled = 2.0 / (summary + 1) * gains
    np.testing.assert_allclose(scaled - scaled[0], changes - changes[0], rtol=0, atol=1e-12)
    ordered = np.sort(changes)
    assume(np.diff(ordered).min() > 1e-9)
    np.testing.assert_array_equal(np.argsort(gains), np.argsort(changes))


def test_marginal_gain_is_not_the_formula_printed_in_the_paper() -> None:
    """Algorithm 3 prints ``g_l.h - l/(l+1) g~.h``: summary and target swapped.

    With the target at 0 and the summary at 5 it would choose another row at 5.
    """
    gains = marginal_gain([[0.0], [5.0]], [[5.0]], [[0.0]], gamma=1.0)
    assert gains[0] > gains[1]
    assert gains == pytest.approx([1 - math.exp(-25) / 2, math.exp(-25) - 1 / 2])


def test_the_margin_of_two_rows_by_hand() -> None:
    """N = 2 allows 1/(8 + 12 + 2) = 1/22, which is a distance of sqrt(ln 22 / gamma)."""
    required = math.sqrt(math.log(22) / 0.5)
    for distance, holds in [(required + 1e-9, True), (required - 1e-9, False)]:
        margin = submodularity_margin([[0.0], [distance]], gamma=0.5)
        assert margin.holds is holds
        assert (margin.allowed_kernel, margin.required_distance) == pytest.approx((1 / 22, required))
        assert margin.shortest_distance == pytest.approx(distance)
        assert margin.excess == pytest.approx(1.0)


def test_the_margin_sees_the_closest_pair_wherever_it_lies() -> None:
    rows = 10.0 * np.arange(40.0)[:, None]
    rows[39] = rows[0] + 0.25
    margin = submodularity_margin(rows, gamma=1.0)
    assert margin.shortest_distance == pytest.approx(0.25)
    assert margin.largest_kernel == pytest.approx(math.exp(-0.0625))
    assert margin.excess == pytest.approx(math.exp(-0.0625) * (40**3 + 3 * 40**2 + 40))
    assert not margin.holds


def test_where_the_margin_holds_the_objective_is_about_minus_one_over_the_size() -> None:
    """Theorem 1's guarantee needs J >= 0, but its own condition makes J(S) about -1/|S|."""
    rows = 10.0 * np.arange(12.0)[:, None]
    assert submodularity_margin(rows, gamma=1.0).holds
    for size in (1, 3, 6):
        assert objective(rows[:size], rows[6:], gamma=1.0) == pytest.approx(-1 / size, abs=1e-6)


def test_numbers_whose_distances_overflow_are_refused_rather_than_called_a_perfect_match() -> None:
    """The kernel of such rows is not a number, and the larger of zero and that is zero: the best value there is."""
    for dtype, large in [(np.float32, 1e30), (np.float64, 1e200)]:
        with pytest.raises(InvalidArgument, match="scale the columns"):
            squared_mmd(np.array([[large], [0]], dtype), np.array([[large], [1]], dtype), gamma=1.0)
    with pytest.raises(InvalidArgument, match="overflows"), np.errstate(all="ignore"):
        squared_mmd([[0.0], [1.0]], [[0.0], [3.0]], gamma=1e308)
