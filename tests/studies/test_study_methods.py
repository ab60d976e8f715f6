"""What studies compare: selections against their definitions, the network, tables of labels, lies of an owner."""

import numpy as np
import pytest
from numpy.typing import NDArray

import naive_twins
from chance import pinned_coins, public_coins
from likeset.geometry.features import FourierFeatures
from likeset.geometry.weights import weights
from likeset.simulation import LabelledMarket
from studies.contract import Cell, Options, RecordLine
from studies.hashes import match_hashed
from studies.joint_axes import STUDY as AXES
from studies.judging import NeuralNetwork
from studies.label_judging import comparison_table, judge_training, shares_table
from studies.liars import LIES, STUDY, contradicted, tell_lie
from studies.weighted_matching import match_weighted


def naive_feature_greedy(pool: NDArray[np.float64], target_mean: NDArray[np.float64], size: int) -> list[int]:
    """Greedy on ``(g_target - q/(q+1) g_summary) . h(x)``, by its definition."""
    chosen: list[int] = []
    for made in range(size):
        mean = pool[chosen].mean(axis=0) if chosen else np.zeros(pool.shape[1])
        scores = pool @ (target_mean - made / (made + 1) * mean)
        scores[chosen] = -np.inf
        chosen.append(int(np.argmax(scores)))
    return chosen


@pytest.mark.parametrize("kind", ["paper", "paired"])
def test_feature_greedy_agrees_with_its_definition(kind: str) -> None:
    pool, target = public_coins(19).normal(size=(800, 3)), public_coins(20).normal(0.4, size=(50, 3))
    used = FourierFeatures(3, 140, 0.4, seed=0, kind=kind)  # type: ignore[arg-type]  # one of the two
    found = match_hashed(used(pool), used(target), 30)
    hashed = used(pool).astype(np.float64)
    assert found.indices.tolist() == naive_feature_greedy(hashed, used.mean(target), 30)
    mean = hashed[found.indices].mean(axis=0)
    assert found.objectives[-1] == pytest.approx(2 * mean @ used.mean(target) - mean @ mean, abs=1e-5)


def corners(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two classes in opposite corners of a square: no line tells them apart."""
    coins = public_coins(seed)
    rows = coins.uniform(-1.0, 1.0, size=(count, 2))
    rows += 0.3 * np.sign(rows)
    return rows.astype(np.float32), (rows[:, 0] * rows[:, 1] > 0).astype(np.int64)


def test_the_network_learns_what_no_line_can_tell_apart_and_repeats_itself() -> None:
    (rows, labels), (test, test_labels) = corners(300, 0), corners(300, 1)
    found = NeuralNetwork(seed=0).fit(rows, labels).predict(test)
    assert (found == test_labels).mean() > 0.9
    np.testing.assert_array_equal(found, NeuralNetwork(seed=0).fit(rows, labels).predict(test))


def line(seed: int, part: str, results: dict[str, float], measure: str = "accuracy") -> RecordLine:
    cell = Cell("joint-families", {"family": "some", "seed": seed, "part": part})
    by_way = {way: {measure: value} for way, value in results.items()}
    return RecordLine(cell.key, cell.study, cell.settings, by_way, "", 1.0, "0", "2026-01-01")


def test_labels_matched_are_compared_with_labels_ignored_seed_by_seed() -> None:
    lines = [line(seed, "labels", {"match": 0.5 + seed / 10, "ignore": 0.5}) for seed in (1, 3)]
    assert comparison_table("x", lines, "accuracy").rows == [["some", "0.700", "0.500", "+0.200 ± 0.100", "2"]]


def test_class_shares_are_compared_with_exact_greedys_seed_by_seed() -> None:
    """Three of four rows are of class 1 and half of the test rows: a quarter too many."""
    rows, labels = np.array([[0.0], [1.0], [1.1], [1.2]], np.float32), np.array([0, 1, 1, 1])
    judged = judge_training(rows, labels, test=rows, test_labels=np.array([0, 0, 1, 1]), rare=1)
    assert judged["shares_off"] == pytest.approx(0.25)
    lines = [
        line(seed, "labels", {"match": 0.3 + seed / 10, "ignore": 0.3, "exact": 0.2}, "shares_off") for seed in (0, 2)
    ]
    (row,) = shares_table(lines).rows
    assert row == ["some", "0.400", "0.300", "0.200", "+0.200 ± 0.100", "+0.100 ± 0.000", "2"]


GAMMA = 0.5


def _market() -> LabelledMarket:
    """Three owners alike, two classes that are easy to tell."""
    coins = pinned_coins("three owners alike")

    def draw(rows: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        labels = np.arange(rows) % 2 + 3
        return (coins.normal(size=(rows, 2)) + 5.0 * (labels == 4)[:, None]).astype(np.float32), labels

    drawn = {name: draw(40) for name in ("liar", "second", "third")}
    target, (test, test_labels) = draw(30)[0], draw(20)
    return LabelledMarket(
        owners={name: rows for name, (rows, _) in drawn.items()},
        labels={name: labels for name, (_, labels) in drawn.items()},
        target=target,
        test=test,
        test_labels=test_labels,
    )


@pytest.mark.parametrize("lie", LIES)
def test_only_the_first_owner_lies_and_offers_as_many_rows(lie: str) -> None:
    honest, lying = _market(), tell_lie(_market(), lie, coins=pinned_coins("a lie"))
    for name in ("second", "third"):
        np.testing.assert_array_equal(lying.owners[name], honest.owners[name])
        np.testing.assert_array_equal(lying.labels[name], honest.labels[name])
    assert lying.owners["liar"].shape == honest.owners["liar"].shape
    same_rows = np.array_equal(lying.owners["liar"], honest.owners["liar"])
    same_labels = np.array_equal(lying.labels["liar"], honest.labels["liar"])
    assert (same_rows and same_labels) == (lie == "honest")


def test_others_contradict_wrong_labels_and_no_right_ones() -> None:
    judged = contradicted(tell_lie(_market(), "relabelled", coins=pinned_coins("a lie")), gamma=GAMMA)
    assert judged[0].mean() > 0.8
    assert max(part.mean() for part in judged[1:]) < 0.1


@pytest.mark.slow
def test_a_cell_of_each_study_can_be_run() -> None:
    cell = next(
        cell for cell in STUDY.cells(Options(seeds=1)) if cell["lie"] == "copies" and cell["labels"] == "guarded"
    )
    assert STUDY.run(cell)["distinct"] < 0.1
    base = AXES.cells(Options(seeds=1))[0]
    assert 0.5 < AXES.run(base)["accuracy"] <= 1.0


def points(seed: int, rows: int, columns: int, *, mean: float = 0.0, scale: float = 1.0) -> NDArray[np.float64]:
    return public_coins(seed).normal(mean, scale, size=(rows, columns))


@pytest.mark.parametrize("seed", range(6))
def test_picks_are_those_of_a_plain_pursuit_with_optimal_weights(seed: int) -> None:
    pool, target = points(seed, 60, 3), points(seed + 50, 20, 3, mean=0.4, scale=0.8)
    kernel = naive_twins.kernel_matrix(pool, pool, gamma=0.5)
    attraction = naive_twins.kernel_matrix(pool, target, gamma=0.5).mean(axis=1)
    chosen = [int(np.argmax(attraction))]
    for _ in range(9):
        scores = attraction - kernel[:, chosen] @ weights(pool[chosen], target, gamma=0.5)
        scores[chosen] = -np.inf
        chosen.append(int(np.argmax(scores)))
    assert match_weighted(pool, target, 10, gamma=0.5).indices.tolist() == chosen
