"""A data market to experiment on: owners with different distributions, a small target, and a held-out test set."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likeset.arguments import Rows

__all__ = ["DIGIT_GROUPS", "LabelledMarket", "digits_market", "svm_scores"]

DIGIT_GROUPS = ((0, 1), (3, 4), (5, 6), (7, 8), (9, 2))
"""The paper's five owners: each holds the images of two digits."""

_TARGET_MIX = {3: 0.7, 4: 0.3}
_HELD_OUT = 140  # images of the target's digits that no owner has: half are the target, half the test set


@dataclass(frozen=True)
class LabelledMarket:
    """Owners' rows and labels by name, the target (its labels are known to the experimenter only) and test rows.

    Attributes:
        owners: each owner's rows.
        labels: their labels.
        target: rows to match.
        test: rows like the target's that nobody has.
        test_labels: their labels.
        public: rows that anybody may see, in nobody's set: they start the summary of the paper's protocol.
        more_labels: where rows have several labels: of the pool's rows and of the test rows, by name.
    """

    owners: Mapping[str, Rows]
    labels: Mapping[str, NDArray[np.int64]]
    target: Rows
    test: Rows
    test_labels: NDArray[np.int64]
    public: Rows | None = None
    more_labels: Mapping[str, tuple[NDArray[np.int64], NDArray[np.int64]]] = field(default_factory=dict)

    @property
    def pool(self) -> Rows:
        """All owners' rows, owner after owner: what somebody who may see everything selects from."""
        return np.concatenate(list(self.owners.values()))

    @property
    def pool_labels(self) -> NDArray[np.int64]:
        """The labels of ``pool``."""
        return np.concatenate(list(self.labels.values()))


def digits_market(*, coins: np.random.Generator) -> LabelledMarket:
    """Five owners by digit groups and a target of 3s and 4s at 0.7/0.3, from the images bundled with scikit-learn."""
    from sklearn.datasets import load_digits  # late: loading it takes longer than a match

    images, digits = load_digits(return_X_y=True)
    rows = (images / 16.0).astype(np.float32)
    held_out = _draw_mix(digits, _TARGET_MIX, _HELD_OUT, coins)
    available = np.ones(len(rows), dtype=bool)
    available[held_out] = False
    owners, labels = {}, {}
    for group in DIGIT_GROUPS:
        name = "digits " + ", ".join(str(digit) for digit in group)
        chosen = np.flatnonzero(np.isin(digits, group) & available)
        owners[name], labels[name] = rows[chosen], digits[chosen].astype(np.int64)
    half = len(held_out) // 2
    return LabelledMarket(
        owners=owners,
        labels=labels,
        target=rows[held_out[:half]],
        test=rows[held_out[half:]],
        test_labels=digits[held_out[half:]].astype(np.int64),
    )


def svm_scores(rows: Rows, labels: NDArray[np.int64], market: LabelledMarket) -> dict[str, float]:
    """Judge a linear SVM trained on ``rows`` by the test rows: balanced accuracy, accuracy and AUC.

    The AUC is the mean over the test's classes of each against the rest, as in ``likeset.evaluate``.
    """
    from sklearn.metrics import roc_auc_score  # late: as above
    from sklearn.svm import LinearSVC

    known, wanted, test = np.unique(labels), np.unique(market.test_labels), market.test_labels
    predicted, margins = np.full(len(test), known[0]), np.zeros((len(test), len(known)))
    if len(known) > 1:
        classifier = LinearSVC(random_state=0, max_iter=20_000).fit(rows, labels)
        predicted, decided = classifier.predict(market.test), classifier.decision_function(market.test)
        margins = np.stack([-decided, decided], axis=1) if decided.ndim == 1 else decided
    recalls = [float((predicted[test == kind] == kind).mean()) for kind in wanted]
    aucs = [
        float(roc_auc_score(test == kind, margins[:, known == kind].sum(axis=1)))
        for kind in (wanted[1:] if len(wanted) == 2 else wanted)
    ]
    return {
        "balanced_accuracy": float(np.mean(recalls)),
        "accuracy": float((predicted == test).mean()),
        "auc": float(np.mean(aucs)),
    }


def _draw_mix(
    labels: NDArray[Any], mix: Mapping[int, float], count: int, coins: np.random.Generator
) -> NDArray[np.int64]:
    """Rows of the given labels in the given proportions, in random order."""
    parts: Sequence[NDArray[np.int64]] = [
        coins.choice(np.flatnonzero(labels == label), size=round(share * count), replace=False)
        for label, share in mix.items()
    ]
    return coins.permutation(np.concatenate(parts))
