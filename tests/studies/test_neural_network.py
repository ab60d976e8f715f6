"""The network with dropout: its gradient is right, it learns what a line cannot, and it repeats itself."""

import numpy as np
import pytest

from chance import public_coins
from studies.judging import NeuralNetwork


def corners(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two classes in opposite corners of a square: no line tells them apart."""
    coins = public_coins(seed)
    rows = coins.uniform(-1.0, 1.0, size=(count, 2))
    rows += 0.3 * np.sign(rows)
    return rows.astype(np.float32), (rows[:, 0] * rows[:, 1] > 0).astype(np.int64)


def test_it_learns_what_no_line_can_tell_apart_and_repeats_itself() -> None:
    rows, labels = corners(300, 0)
    test, test_labels = corners(300, 1)
    found = NeuralNetwork(seed=0).fit(rows, labels).predict(test)
    assert (found == test_labels).mean() > 0.9
    np.testing.assert_array_equal(found, NeuralNetwork(seed=0).fit(rows, labels).predict(test))


def test_the_gradient_is_that_of_the_cross_entropy() -> None:
    """Without dropout the loss is a function of the parts, and differences of it give the slopes."""
    rows, labels = corners(20, 0)
    network = NeuralNetwork(5, dropout=0.0, seed=0).fit(rows, labels)
    network._parts = [part.astype(np.float64) for part in network._parts]  # for fine differences

    def loss() -> float:
        inner, inner_shift, outer, outer_shift = network._parts
        scores = np.maximum(rows @ inner + inner_shift, 0.0) @ outer + outer_shift
        chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        return float(-np.log(chances[np.arange(len(rows)), labels]).mean())

    slopes = network._slopes(rows, labels)
    for part, slope in zip(network._parts, slopes, strict=True):
        for place in list(np.ndindex(part.shape))[:6]:
            kept = float(part[place])
            values = []
            for step in (1e-5, -1e-5):
                part[place] = kept + step
                values.append(loss())
            part[place] = kept
            assert slope[place] == pytest.approx((values[0] - values[1]) / 2e-5, abs=1e-6)
