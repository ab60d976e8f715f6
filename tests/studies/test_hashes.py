"""Selection by hashes agrees with greedy selection on inner products, by its definition."""

import numpy as np
import pytest
from numpy.typing import NDArray

from chance import public_coins
from likeset.geometry.features import FourierFeatures
from studies.hashes import match_hashed


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
