"""How good a summary is: by the target, by rows that nobody saw, by classifiers trained on it, and by its price."""

import warnings
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score
from sklearn.svm import LinearSVC

from likeset.arguments import Rows
from likeset.geometry.kernels import kernel_means, rbf_kernel, squared_mmd
from likeset.geometry.shapley import selection_game, shapley
from likeset.simulation import LabelledMarket, MethodPicks, Task

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


def judgement(task: Task, picks: MethodPicks) -> dict[str, Any]:
    """Everything that a line says about a summary, as plain values."""
    market = task.market
    rows, labels, m = market.pool[picks.indices], market.pool_labels[picks.indices], len(market.target)
    values = _owner_values(task, picks)
    total = sum(values.values()) or 1.0
    results: dict[str, Any] = {
        "squared_mmd": squared_mmd(rows, market.target, gamma=task.gamma, weights=picks.weights),
        "squared_mmd_test": squared_mmd(rows, market.test, gamma=task.gamma, weights=picks.weights),
        **_svm(rows, labels, market.test, market.test_labels, picks.weights),
        "net": _net(rows, labels, market, picks.weights, task.seed),
        "right": round(float(np.isin(labels, market.test_labels).mean()), 4),
        "rows": len(rows),
        "rows_seen": picks.rows_seen,
        "access_ratio": (picks.rows_seen + m) / (task.size + m),
        "target_guarantee": asdict(picks.target),
        "owner_guarantee": asdict(picks.owners),
        "owner_shares": {name: round(value / total, 4) for name, value in values.items()},
        "owner_shapley": _shapley_shares(task, picks),
        "exact_gains": total,
        "gamma": task.gamma,
        "target_rows": m,
        "pool_rows": len(market.pool),
        "notes": picks.notes,
        **picks.extra,
    }
    return {name: _round_value(value) for name, value in results.items()}


def _svm(
    rows: Rows,
    labels: NDArray[np.int64],
    test: Rows,
    test_labels: NDArray[np.int64],
    weights: NDArray[np.float64] | None,
) -> dict[str, float]:
    """What a linear SVM trained on ``rows`` makes of test rows: accuracy, the same by class, and of two classes AUC."""
    if weights is not None:
        kept = weights > 0.0
        rows, labels, weights = rows[kept], labels[kept], weights[kept] * (kept.sum() / weights[kept].sum())
    if len(np.unique(labels)) == 1:
        return _measures(np.full(len(test), labels[0]), test_labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        classifier = LinearSVC(random_state=0, max_iter=2_000).fit(rows, labels, sample_weight=weights)
    measured = _measures(classifier.predict(test), test_labels)
    known = np.flatnonzero(np.isin(classifier.classes_, test_labels))
    if len(known) == len(np.unique(test_labels)) == 2:
        scores = classifier.decision_function(test)
        margins = scores if scores.ndim == 1 else scores[:, known[1]] - scores[:, known[0]]
        measured["svm_auc"] = float(roc_auc_score(test_labels, margins))
    return measured


def _measures(predicted: NDArray[np.int64], test_labels: NDArray[np.int64]) -> dict[str, float]:
    right = predicted == test_labels
    recalls = [float(right[test_labels == label].mean()) for label in np.unique(test_labels)]
    return {"svm": float(right.mean()), "svm_balanced": float(np.mean(recalls))}


def _net(
    rows: Rows, labels: NDArray[np.int64], market: LabelledMarket, weights: NDArray[np.float64] | None, seed: int
) -> float:
    """The same by a network with one hidden layer of 32 units and dropout 0.2."""
    network = NeuralNetwork(seed=seed).fit(rows, labels, weights=weights)
    return float((network.predict(market.test) == market.test_labels).mean())


def _owner_values(task: Task, picks: MethodPicks) -> Mapping[str, float]:
    """Each owner's value: the sum of what its rows gained when they were picked, losses left out."""
    market = task.market
    rows = market.pool[picks.indices]
    counts = np.arange(1, len(rows) + 1)
    before = np.tril(rbf_kernel(rows, rows, gamma=task.gamma), k=-1).sum(axis=1)
    gains = np.maximum(kernel_means(rows, market.target, gamma=task.gamma) - before / counts, 0.0)
    values = np.bincount(_owner_numbers(market, picks), weights=gains, minlength=len(market.owners))
    return {name: float(value) for name, value in zip(market.owners, values, strict=True)}


def _shapley_shares(task: Task, picks: MethodPicks) -> dict[str, float]:
    """Each owner's share of the summary's worth by Shapley values."""
    market, gamma = task.market, task.gamma
    owners = _owner_numbers(market, picks)
    game = selection_game(market.pool[picks.indices], owners, len(market.owners), market.target, gamma=gamma)
    fair = shapley(game, coins=np.random.default_rng([task.seed, 8]))
    return {name: round(float(value / fair.total), 4) for name, value in zip(market.owners, fair.values, strict=True)}


def _owner_numbers(market: LabelledMarket, picks: MethodPicks) -> NDArray[np.int64]:
    ends = np.cumsum([len(rows) for rows in market.owners.values()])
    return np.searchsorted(ends, picks.indices, side="right")


def _round_value(value: Any) -> Any:
    """Seven figures are more than any of these are good for, and keep lines short."""
    return float(f"{value:.7g}") if isinstance(value, float) else value
