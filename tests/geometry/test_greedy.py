"""Greedy matching: exact selection against brute force, the faster ways against exact selection."""

import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from numpy.typing import NDArray

import naive_twins
from chance import public_coins
from likeset.geometry import greedy
from likeset.geometry.greedy import Match, MatchMethod, exact_greedy
from likeset.geometry.kernels import median_gamma, squared_mmd
from naive_twins import marginal_gain, objective

Rows = NDArray[np.floating[Any]]
METHODS: tuple[MatchMethod, ...] = get_args(MatchMethod)
GROUPED = 12_000
"""Rows of a pool in which ``block`` works with active sets, also within an active set."""


def points(seed: int, rows: int, columns: int, *, mean: float = 0.0, scale: float = 1.0) -> NDArray[np.float64]:
    return public_coins(seed).normal(mean, scale, size=(rows, columns))


def pinned_coins() -> np.random.Generator:
    """For comparisons of two ways to choose, of which either may be the better one by luck: no bound is sure."""
    return np.random.default_rng(0)


# Exact selection is what brute force selects.


@pytest.mark.parametrize("seed", range(8))
def test_exact_picks_what_brute_force_picks(seed: int) -> None:
    pool, target = points(seed, 40, 1 + seed % 3), points(seed + 100, 9, 1 + seed % 3, mean=0.5)
    gamma = [0.1, 0.7, 4.0][seed % 3]
    found = exact_greedy(pool, target, 12, gamma=gamma, method="exact")
    assert found.indices.tolist() == naive_twins.greedy(pool, target, 12, gamma=gamma)


@pytest.mark.parametrize("seed", range(6))
def test_equal_rows_are_picked_in_order_of_their_index(seed: int) -> None:
    """Rows on a small grid, most of them several times: ties everywhere, also between different rows."""
    coins = public_coins(seed)
    pool = coins.integers(0, 3, size=(30, 2)).astype(float)
    target = coins.integers(0, 3, size=(5, 2)).astype(float)
    expected = naive_twins.greedy(pool, target, 15, gamma=0.6)
    for method in ("exact", "block"):
        assert exact_greedy(pool, target, 15, gamma=0.6, method=method).indices.tolist() == expected


# What a match says of itself is true.


def assert_true_of_itself(found: Match, pool: Rows, target: Rows, *, gamma: float, tolerance: float) -> None:
    """Gains and objectives, recomputed from scratch in double precision, at some of the picks."""
    exactly, wanted = pool.astype(np.float64), target.astype(np.float64)
    size = len(found)
    assert len(found.gains) == len(found.objectives) == size
    assert len(np.unique(found.indices)) == size
    for made in {0, 1, 2, size // 3, size // 2, size - 1} & set(range(size)):
        before, pick = found.indices[:made], found.indices[made]
        gain = marginal_gain(exactly[[pick]], exactly[before], wanted, gamma=gamma)[0]
        assert found.gains[made] == pytest.approx(gain, abs=tolerance)
        expected = objective(exactly[found.indices[: made + 1]], wanted, gamma=gamma)
        assert found.objectives[made] == pytest.approx(expected, abs=tolerance)


@pytest.mark.parametrize("method", ["exact", "block"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-5), (np.float64, 1e-11)])
@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_gains_and_objectives_are_those_of_the_rows(
    method: MatchMethod, dtype: type[np.floating], tolerance: float, offset: float
) -> None:
    """An offset of 1000 costs three of float32's seven digits, whether the pool holds them or we compute them."""
    pool = (points(1, 21_000, 3) + offset).astype(dtype)
    target = (points(2, 50, 3, mean=0.6, scale=0.5) + offset).astype(dtype)
    found = exact_greedy(pool, target, 60, gamma=0.5, method=method)
    assert_true_of_itself(found, pool, target, gamma=0.5, tolerance=tolerance if offset == 0 else max(tolerance, 1e-9))


# Block selection is nearly as good as exact selection, on friendly data and on others.


def _mixture(coins: np.random.Generator) -> tuple[Rows, Rows]:
    means = coins.normal(0, 0.6, size=(8, 10))
    pool = means[coins.integers(8, size=GROUPED)] + coins.normal(size=(GROUPED, 10))
    return pool, means[coins.integers(2, size=200)] + coins.normal(size=(200, 10)) + 0.1


def _few_different_rows(coins: np.random.Generator) -> tuple[Rows, Rows]:
    pool, target = _mixture(coins)
    return pool[coins.integers(300, size=GROUPED)], target


def _two_per_cent_right_rows(coins: np.random.Generator) -> tuple[Rows, Rows]:
    pool = coins.normal(size=(GROUPED, 5)) + 4.0
    right = coins.choice(GROUPED, size=GROUPED // 50, replace=False)
    pool[right] = 0.5 * coins.normal(size=(len(right), 5))
    return pool, 0.5 * coins.normal(size=(100, 5))


def _target_is_the_pool(coins: np.random.Generator) -> tuple[Rows, Rows]:
    pool = _mixture(coins)[0][:1500]
    return pool, pool


def _far_from_zero(coins: np.random.Generator) -> tuple[Rows, Rows]:
    pool, target = _mixture(coins)
    return pool + 1000.0, target + 1000.0


def _one_column(coins: np.random.Generator) -> tuple[Rows, Rows]:
    return coins.exponential(size=(GROUPED, 1)), coins.exponential(size=(300, 1)) + 0.5


def _sorted_by_likeness(coins: np.random.Generator) -> tuple[Rows, Rows]:
    """The rows that fit best come last, so a set that forgot its later part would miss them."""
    pool, target = _mixture(coins)
    return pool[np.argsort(((pool - target.mean(axis=0)) ** 2).sum(axis=1))[::-1]], target


def _two_parts_of_the_target_one_rare(coins: np.random.Generator) -> tuple[Rows, Rows]:
    """The pool has thousands of rows for one half of the target, forty for the other."""
    pool = coins.normal(size=(GROUPED, 3))
    pool[coins.choice(GROUPED, size=40, replace=False)] += 8.0
    target = coins.normal(size=(120, 3))
    target[60:] += 8.0
    return pool, target


def _small_part_of_the_target_is_elsewhere(coins: np.random.Generator) -> tuple[Rows, Rows]:
    """Five in a hundred target rows lie apart; the pool has 200 rows there, and plenty for the others."""
    pool, target = coins.normal(size=(40_000, 3)), coins.normal(size=(200, 3))
    pool[coins.choice(40_000, size=200, replace=False)] += 8.0
    target[:10] += 8.0
    return pool, target


def _a_square(coins: np.random.Generator) -> tuple[Rows, Rows]:
    return coins.uniform(-1, 1, size=(40_000, 2)), coins.uniform(-1, 1, size=(500, 2))


def _heavy_tails(coins: np.random.Generator) -> tuple[Rows, Rows]:
    return coins.standard_t(2, size=(40_000, 2)), coins.standard_t(2, size=(500, 2))


DATA = [
    _mixture,
    _few_different_rows,
    _two_per_cent_right_rows,
    _target_is_the_pool,
    _far_from_zero,
    _one_column,
    _sorted_by_likeness,
    _two_parts_of_the_target_one_rare,
]
PLENTY = [_small_part_of_the_target_is_elsewhere, _a_square, _heavy_tails]


@pytest.mark.parametrize(
    ("data", "width", "size", "share"),
    [
        *((data, width, 150, 0.05) for data in DATA for width in (0.01, 0.5, 10.0)),
        *((data, width, 80, 0.1) for data in PLENTY for width in (0.3, 10.0)),
    ],
)
def test_block_is_never_much_worse_than_exact(data: Any, width: float, size: int, share: float) -> None:
    """Within a tenth, plus a share of what as many random rows of the target itself would leave.

    That is (1 - mean kernel)/size, and where greedy leaves a hundredth of it, as in one column, the difference of
    two greedy runs is luck. Where there are 500 rows for each pick, the rows that matter may be few, and may score low
    for a while.
    """
    pool, target = data(pinned_coins())
    gamma = median_gamma(target, scale=width, coins=pinned_coins())
    pool, target = pool.astype(np.float32), target.astype(np.float32)
    left = {}
    for method in ("exact", "block"):
        found = exact_greedy(pool, target, size, gamma=gamma, method=method)
        assert len(np.unique(found.indices)) == size
        left[method] = squared_mmd(pool[found.indices], target, gamma=gamma)
    own = target[:400]
    luck = (1.0 - objective(own, own, gamma=gamma)) / size
    assert left["block"] <= 1.1 * left["exact"] + share * luck


def test_block_with_active_sets_is_exact_where_the_right_rows_are_few() -> None:
    """240 right rows among 12,000: every active set holds them all, so picks and order must be the same."""
    pool, target = _two_per_cent_right_rows(public_coins(5))
    gamma = median_gamma(target, scale=1.0, coins=public_coins(0))
    exact, block = (
        exact_greedy(pool, target, 100, gamma=gamma, method=method).indices for method in ("exact", "block")
    )
    assert exact.tolist() == block.tolist()


@pytest.mark.parametrize("method", METHODS)
def test_a_pool_can_be_matched_down_to_its_last_row(method: MatchMethod) -> None:
    pool, target = points(8, 1500, 2), points(9, 30, 2)
    found = exact_greedy(pool, target, 1500, gamma=0.5, method=method)
    np.testing.assert_array_equal(np.sort(found.indices), np.arange(1500))


@pytest.mark.parametrize("method", METHODS)
def test_the_arguments_are_read_only_and_any_memory_order_will_do(method: MatchMethod) -> None:
    pool, target = points(10, 5000, 3), points(11, 40, 3)
    expected = exact_greedy(pool, target, 25, gamma=0.5, method=method)
    strided = np.repeat(pool, 2, axis=1)[:, ::2]
    for same in (np.asfortranarray(pool), strided):
        kept = same.copy()
        same.flags.writeable = False
        found = exact_greedy(same, target, 25, gamma=0.5, method=method)
        np.testing.assert_array_equal(found.indices, expected.indices)
        np.testing.assert_array_equal(same, kept)


# Memory.


_MEASURE = """
from pathlib import Path
import numpy as np
from likeset.geometry.greedy import exact_greedy

def peak():
    # getrusage would also count what the parent held when it started us.
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

def rows(seed, count):
    made = np.empty((count, 50), dtype=np.float32)
    coins = np.random.default_rng(seed)
    for first in range(0, count, 5000):
        coins.standard_normal(out=made[first : first + 5000], dtype=np.float32)
    return made

warm = exact_greedy(rows(1, 6000), rows(2, 100), 20, gamma=0.02)
before = peak()
pool, target = rows(3, 200_000), rows(4, 500)
exact_greedy(pool, target, 100, gamma=0.01)
print((peak() - before) / pool.nbytes)
"""


@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="this system does not tell a process its own peak memory"
)
def test_matching_stays_under_three_times_the_memory_of_its_data() -> None:
    """Data and all, in a process of its own: 200000 rows of 50 columns in float32 are 40 MB."""
    child = subprocess.run(  # noqa: S603 - this interpreter, with a program written above
        [sys.executable, "-c", _MEASURE], capture_output=True, text=True, check=False, timeout=600
    )
    assert child.returncode == 0, child.stderr
    times_the_data = float(child.stdout)
    assert 1.0 < times_the_data < 3.0


def test_equal_rows_are_picked_in_order_of_their_index_by_block_too() -> None:
    """More equal rows than an active set holds: those that it leaves out must not be the first."""
    found = exact_greedy(np.zeros((GROUPED, 2)), [[0.0, 0.0]], 300, gamma=1.0, method="block")
    assert found.indices.tolist() == list(range(300))


def test_of_copies_the_first_is_picked_first_also_where_a_sample_of_the_rows_competes() -> None:
    """Copies far apart in the pool: a sample that held a later one only would break the order."""
    different = GROUPED // 3
    pool, target = np.tile(points(21, different, 4), (3, 1)), points(22, 100, 4, mean=0.3)
    picked = exact_greedy(pool, target, 300, gamma=0.2).indices
    for place, row in enumerate(picked):
        assert set(range(row % different, row, different)) <= set(picked[:place].tolist())


@pytest.mark.parametrize("seed", range(5))
def test_the_largest_scores_are_as_many_as_wanted_and_of_ties_the_first(seed: int) -> None:
    scores = public_coins(seed).integers(0, 4, size=30).astype(np.float64)
    for count in range(1, 31):
        naive = sorted(range(30), key=lambda place: (-scores[place], place))[:count]
        assert greedy.largest_positions(scores, count).tolist() == sorted(naive)


def test_lots_are_even_and_alike_for_equal_rows() -> None:
    attraction = public_coins(23).uniform(1e-6, 1.0, size=20_000)
    lots = greedy._draw_lots(attraction)
    counts, _ = np.histogram(lots, bins=16, range=(0.0, 1.0))
    assert np.abs(counts / 20_000 - 1 / 16).max() < 0.01
    np.testing.assert_array_equal(lots[::-1], greedy._draw_lots(attraction[::-1].copy()))
    assert greedy._draw_lots(np.zeros(3)).tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("method", ["exact", "block"])
def test_two_groups_of_rows_far_apart_are_matched_as_well_in_float32_as_in_float64(method: MatchMethod) -> None:
    """Groups at ±1000 with unit spread: ``||x||² + ||y||² - 2 x.y`` has a rounding error of 0.1 to 1 in float32.

    The rows themselves are exact to 6e-5 there, so float32 data are no excuse.
    """
    coins = public_coins(0)
    pool, target = coins.normal(size=(6000, 5)), coins.normal(0, 0.7, size=(100, 5))
    pool[::2], pool[1::2] = pool[::2] + 1000, pool[1::2] - 1000
    target[::2], target[1::2] = target[::2] + 1000, target[1::2] - 1000
    pool, target = (rows.astype(np.float32).astype(np.float64) for rows in (pool, target))
    left = []
    for dtype in (np.float32, np.float64):
        found = exact_greedy(pool.astype(dtype), target.astype(dtype), 100, gamma=0.2, method=method)
        left.append(squared_mmd(pool[found.indices], target, gamma=0.2))
        assert found.objectives[-1] == pytest.approx(objective(pool[found.indices], target, gamma=0.2), abs=1e-3)
    assert left[0] <= 1.5 * left[1]


def test_a_pool_is_narrowed_to_the_best_quarter_on_average_and_an_eighth_of_the_others() -> None:
    """Scores are added up after each group of picks, each times the number of picks and one, and without the picks."""
    pool, target = points(31, GROUPED, 2), points(32, 40, 2, mean=0.8, scale=0.5)
    rows = greedy.Candidates.all_of(*greedy._kernels(pool, target, 0.7, None))
    attraction, lots, groups = rows.attraction.copy(), rows.lots.copy(), []
    picks, take = greedy.Picks(30), rows.take

    def seen(picked: NDArray[np.int64]) -> None:
        groups.append((picks.made, picked))
        take(picked)

    rows.take = seen  # type: ignore[method-assign]
    left = greedy._narrow(picks, 30, rows)
    assert len(groups) > 1
    standing, repulsion = np.zeros(GROUPED), np.zeros(GROUPED)
    for made, picked in groups:
        if made < 30:  # of the last group the kernel is not needed for its own scores
            repulsion += naive_twins.kernel_matrix(pool, pool[picked], gamma=0.7).sum(axis=1)
        standing += (made + 1) * attraction - repulsion
    chosen = np.zeros(GROUPED, dtype=bool)
    taken = np.concatenate([picked for _, picked in groups])
    standing[taken] = -np.inf
    chosen[np.argsort(-standing, kind="stable")[: GROUPED // 4]] = True
    chosen |= (lots < 0.125) & np.isfinite(standing)
    assert left.indices.tolist() == np.flatnonzero(chosen).tolist()


def test_where_rows_are_plenty_the_pool_is_narrowed_and_elsewhere_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """0.34375 of the rows are left, and must be 60 for each pick: 699 rows are plenty for 4 picks, 698 are not."""
    narrowed: list[tuple[int, int]] = []
    narrow = greedy._narrow

    def seen(picks: greedy.Picks, last: int, rows: greedy.Candidates) -> greedy.Candidates:
        narrowed.append((last, len(rows.indices)))
        return narrow(picks, last, rows)

    monkeypatch.setattr(greedy, "_narrow", seen)
    monkeypatch.setattr(greedy, "_WATCHED_PICKS", (3,))
    pool, target = points(33, 699, 2), points(34, 20, 2)
    for rows, size in ((699, 4), (698, 4), (699, 3)):
        exact_greedy(pool[:rows], target, size, gamma=0.5)
    assert narrowed == [(3, 699)]
    # 0.34375 of 1,920 rows are 660, which is 60 for each of 11 picks.
    exact_greedy(points(35, 1920, 2), target, 11, gamma=0.5)
    assert narrowed == [(3, 699), (3, 1920)]


def test_an_active_set_is_the_best_quarter_and_a_sixteenth_of_the_others_and_ends_where_others_would_win() -> None:
    """It is spent when a row of the sample or of the quarter's last tenth wins, or the winner is below the quarter."""
    pool, target = points(35, 2000, 2), points(36, 40, 2, mean=0.8)
    rows = greedy.Candidates.all_of(*greedy._kernels(pool, target, 0.7, None))
    rows.take(np.array([5, 17]))
    scores = rows.attraction - naive_twins.kernel_matrix(pool, pool[[5, 17]], gamma=0.7).sum(axis=1) / 3
    chosen, part = rows.best(picks_made=2)
    best = np.argsort(-scores, kind="stable")
    expected = set(best[:500].tolist()) | set(np.flatnonzero((rows.lots < 0.0625) & np.isfinite(scores)).tolist())
    assert chosen.tolist() == sorted(expected)
    assert part.level == pytest.approx(scores[best[499]], abs=1e-12)
    assert set(chosen[part.leading].tolist()) == set(best[:450].tolist())
    assert part.odds == 0.0625
    np.testing.assert_allclose(part.scores(picks_made=2), scores[chosen], atol=1e-12)
    picks, leading = greedy.Picks(3), np.flatnonzero(part.leading)[:2]
    for gain, spent in ((part.level, False), (part.level - 1e-9, True)):
        picks.made = 0
        picks.add(0, attraction=gain, repulsion=0.0, self_similarity=1.0)
        assert part.spent_by(leading, picks) == spent
    picks.add(1, attraction=9.0, repulsion=0.0, self_similarity=1.0)
    assert not part.spent_by(leading, picks)
    assert part.spent_by(np.append(leading, np.flatnonzero(~part.leading)[:1]), picks)
