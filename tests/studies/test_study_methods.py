"""What studies compare: selections against their definitions, and lies of an owner."""

import numpy as np
import pytest
from numpy.typing import NDArray

import naive_twins
from chance import pinned_coins, public_coins
from likeset.geometry.features import FourierFeatures
from likeset.geometry.weights import weights
from likeset.simulation import LabelledMarket
from studies.hashes import match_hashed
from studies.liars import contradicted, tell_lie
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


def test_others_contradict_wrong_labels_and_no_right_ones() -> None:
    judged = contradicted(tell_lie(_market(), "relabelled", coins=pinned_coins("a lie")), gamma=GAMMA)
    assert judged[0].mean() > 0.8
    assert max(part.mean() for part in judged[1:]) < 0.1


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
