"""A linear support vector machine, as a judge of training rows: scikit-learn's takes over a second to load."""

import numpy as np
from numpy.typing import NDArray

from likeset.arguments import Rows
from likeset.geometry.newton import Derivatives, minimise

__all__ = ["linear_svm"]


def linear_svm(rows: Rows, labels: NDArray[np.int64], asked: Rows) -> NDArray[np.int64]:
    """The labels of ``asked`` by a machine that was trained on ``rows``, which have at least two labels.

    As ``sklearn.svm.LinearSVC`` with its default settings: squared hinge, the intercept an ordinary weight, each label
    against the others.
    """
    known, inputs = _with_intercept(rows), _with_intercept(asked)
    classes = np.unique(labels)
    against = classes[1:] if len(classes) == 2 else classes
    margins = np.stack([inputs @ _fitted(known, np.where(labels == label, 1.0, -1.0)) for label in against], axis=1)
    if len(classes) == 2:
        return np.asarray(classes[(margins[:, 0] > 0.0).astype(np.int64)])
    return np.asarray(classes[margins.argmax(axis=1)])


def _with_intercept(rows: Rows) -> NDArray[np.float64]:
    return np.column_stack([rows.astype(np.float64), np.ones(len(rows))])


def _fitted(inputs: NDArray[np.float64], signs: NDArray[np.float64]) -> NDArray[np.float64]:
    """The weights w that minimise ``||w||^2 / 2 + sum max(0, 1 - sign * w.x)^2``."""

    def loss(weights: NDArray[np.float64]) -> Derivatives:
        short = np.maximum(1.0 - signs * (inputs @ weights), 0.0)
        near = inputs[short > 0.0]
        value = 0.5 * float(weights @ weights) + float(short @ short)
        return value, weights - 2.0 * (inputs.T @ (signs * short)), np.eye(len(weights)) + 2.0 * (near.T @ near)

    return minimise(loss, np.zeros(inputs.shape[1]))
