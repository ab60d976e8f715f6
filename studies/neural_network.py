"""A small neural network with dropout, which scikit-learn's has not: the classifier of the paper's appendix."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from likeset.arguments import Rows

_STEPS = 600
_BATCH = 32
_RATE = 3e-3
_DECAY = 0.9, 0.999  # of Adam's two averages


class NeuralNetwork:
    """One hidden layer of rectified units with dropout, trained by Adam for a fixed number of steps.

    Args:
        units: of the hidden layer.
        dropout: probability that a hidden unit is left out of a training step.
        seed: of the first weights, the batches and the dropout.
    """

    def __init__(self, units: int = 32, *, dropout: float = 0.2, seed: int = 0) -> None:
        self.units = units
        self.dropout = dropout
        self._coins = np.random.default_rng(seed)

    def fit(self, rows: Rows, labels: NDArray[np.int64], *, weights: NDArray[np.float64] | None = None) -> Self:
        """Train; a batch takes rows with probabilities proportional to their weights."""
        self.classes, numbers = np.unique(labels, return_inverse=True)
        shapes = (rows.shape[1], self.units), (self.units,), (self.units, len(self.classes)), (len(self.classes),)
        self._parts = [self._first(shape) for shape in shapes]
        averages = [(np.zeros_like(part), np.zeros_like(part)) for part in self._parts]
        odds = None if weights is None else weights / weights.sum()
        for step in range(1, _STEPS + 1):
            chosen = self._coins.choice(len(rows), size=_BATCH, p=odds)
            slopes = self._slopes(rows[chosen], numbers[chosen])
            for part, slope, (mean, square) in zip(self._parts, slopes, averages, strict=True):
                mean += (1.0 - _DECAY[0]) * (slope - mean)
                square += (1.0 - _DECAY[1]) * (slope**2 - square)
                size = np.sqrt(square / (1.0 - _DECAY[1] ** step)) + 1e-8
                part -= _RATE * mean / (1.0 - _DECAY[0] ** step) / size
        return self

    def predict(self, rows: Rows) -> NDArray[np.int64]:
        """The likeliest class of each row; nothing is left out here."""
        inner, inner_shift, outer, outer_shift = self._parts
        hidden = np.maximum(rows @ inner + inner_shift, 0.0)
        likeliest: NDArray[np.int64] = self.classes[np.argmax(hidden @ outer + outer_shift, axis=1)]
        return likeliest

    def _first(self, shape: tuple[int, ...]) -> NDArray[np.float32]:
        if len(shape) == 1:
            return np.zeros(shape, dtype=np.float32)
        drawn = self._coins.standard_normal(shape).astype(np.float32)
        return drawn * np.float32(np.sqrt(2.0 / shape[0]))

    def _slopes(self, rows: Rows, numbers: NDArray[np.int64]) -> list[NDArray[Any]]:
        """Gradient of the mean cross entropy in each part, with some hidden units left out."""
        inner, inner_shift, outer, outer_shift = self._parts
        kept = (self._coins.random((len(rows), self.units)) >= self.dropout) / np.float32(1.0 - self.dropout)
        hidden = np.maximum(rows @ inner + inner_shift, 0.0)
        scores = (hidden * kept) @ outer + outer_shift
        scores -= scores.max(axis=1, keepdims=True)
        errors = np.exp(scores)
        errors /= errors.sum(axis=1, keepdims=True)
        errors[np.arange(len(rows)), numbers] -= 1.0
        errors /= len(rows)
        back = (errors @ outer.T) * kept * (hidden > 0.0)
        return [rows.T @ back, back.sum(axis=0), (hidden * kept).T @ errors, errors.sum(axis=0)]
