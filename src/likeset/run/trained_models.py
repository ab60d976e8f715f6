"""Models that a training set is judged by: a linear one, a forest, gradient boosting."""

import warnings
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # it has no types

from likeset.arguments import Rows

__all__ = ["MODELS", "Labels", "Predicted", "TrainingRows", "train"]

MODELS = ("linear", "forest", "boosting")

_TREES = 200
_STEPS = 1000
_WORTH_THREADS = 10_000  # rows; with fewer, threads of boosting wait for one another longer than they work
_LARGEST_LEAF = 20  # rows; with few rows smaller leaves, or boosting could not split at all

Labels = NDArray[Any]


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Labelled rows; weights sum to 1, None for alike."""

    rows: Rows
    labels: Labels
    weights: NDArray[np.float64] | None = None

    def part(self, kept: NDArray[np.bool_]) -> "TrainingRows":
        """Some of them."""
        return TrainingRows(self.rows[kept], self.labels[kept], None if self.weights is None else self.weights[kept])


@dataclass(frozen=True, eq=False)
class Predicted:
    """What a model says of test rows: labels, and for classes the chance of each; ``classes`` names the columns."""

    labels: Labels
    chances: NDArray[np.float64]
    classes: Labels

    def chance(self, name: Any) -> NDArray[np.float64]:
        """Of one class; 0 where the model never saw it."""
        columns = np.flatnonzero(self.classes.astype(np.str_) == str(name))
        return self.chances[:, columns[0]] if len(columns) else np.zeros(len(self.labels))


def train(model: str, training: TrainingRows, test: TrainingRows, *, seed: int) -> Predicted:
    """Fit a model, and let it predict the test rows."""
    with _threads_for(len(training.labels)):
        return _trained(model, training, test, seed=seed)


def _threads_for(rows: int) -> AbstractContextManager[Any]:
    return nullcontext() if rows >= _WORTH_THREADS else threadpool_limits(1, user_api="openmp")


def _trained(model: str, training: TrainingRows, test: TrainingRows, *, seed: int) -> Predicted:
    kept = training if training.weights is None else training.part(training.weights > 0.0)
    scaler = StandardScaler().fit(kept.rows)
    rows, others = scaler.transform(kept.rows), scaler.transform(test.rows)
    shares = None if kept.weights is None else kept.weights * (len(kept.labels) / kept.weights.sum())
    if kept.labels.dtype.kind == "f":
        fitted = _regression(model, len(rows), seed).fit(rows, kept.labels, sample_weight=shares)
        return Predicted(fitted.predict(others), np.empty((len(others), 0)), np.empty(0))
    single = len(np.unique(kept.labels)) == 1
    classifier = DummyClassifier() if single else _classification(model, len(rows), seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = classifier.fit(rows, kept.labels, sample_weight=shares)
    return Predicted(fitted.predict(others), fitted.predict_proba(others), fitted.classes_)


def _classification(model: str, rows: int, seed: int) -> Any:
    if model == "linear":
        return LogisticRegression(max_iter=_STEPS)
    if model == "forest":
        return RandomForestClassifier(_TREES, random_state=seed)
    return HistGradientBoostingClassifier(random_state=seed, min_samples_leaf=_leaf(rows))


def _regression(model: str, rows: int, seed: int) -> Any:
    if model == "linear":
        return Ridge()
    if model == "forest":
        return RandomForestRegressor(_TREES, random_state=seed)
    return HistGradientBoostingRegressor(random_state=seed, min_samples_leaf=_leaf(rows))


def _leaf(rows: int) -> int:
    return max(2, min(_LARGEST_LEAF, rows // 20))
