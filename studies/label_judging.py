"""What models make of a training set: accuracy, recall of a rare class, AUC; and tables that compare such sets."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.svm import LinearSVC

from likeset.arguments import Rows
from studies.contract import RecordLine, Table

MEASURES = {"accuracy": "accuracy", "balanced": "balanced accuracy", "auc": "AUC", "rare": "recall of the rarest class"}

Labels = NDArray[np.int64]


def judge_training(
    rows: Rows,
    labels: Labels,
    *,
    test: Rows,
    test_labels: Labels,
    rare: int,
    rare_test: Rows | None = None,
    weights: NDArray[np.float64] | None = None,
) -> dict[str, float]:
    """Means of a linear SVM, logistic regression and a forest; of two classes the AUC of the latter two as well.

    Recall of the rare class is measured on ``rare_test``, rows of that class, where these are given.
    """
    if weights is not None:
        kept = weights > 0.0
        rows, labels, weights = rows[kept], labels[kept], weights[kept] * (kept.sum() / weights[kept].sum())
    right, aucs, found = [], [], []
    for model in (
        LinearSVC(random_state=0, max_iter=2000),
        LogisticRegression(max_iter=300),
        RandomForestClassifier(60, random_state=0),
    ):
        if len(np.unique(labels)) == 1:
            right.append(test_labels == labels[0])
            found.append(float(labels[0] == rare))
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # steps that ran out are the same for all
            fitted = model.fit(rows, labels, sample_weight=weights)
        right.append(fitted.predict(test) == test_labels)
        found.append(float((fitted.predict(rare_test) == rare).mean()) if rare_test is not None else np.nan)
        if len(np.unique(test_labels)) == 2 and list(fitted.classes_) == [0, 1] and not isinstance(model, LinearSVC):
            aucs.append(float(roc_auc_score(test_labels, fitted.predict_proba(test)[:, 1])))
    each = np.mean(right, axis=0)
    recalls = {int(code): float(each[test_labels == code].mean()) for code in np.unique(test_labels)}
    measured = {
        "accuracy": float(each.mean()),
        "balanced": float(np.mean(list(recalls.values()))),
        "rare": recalls.get(rare, 0.0) if rare_test is None else float(np.mean(found)),
        "shares_off": _shares_off(labels, test_labels, weights),
    }
    return measured | ({"auc": float(np.mean(aucs))} if aucs else {})


def comparison_table(
    title: str,
    lines: Sequence[RecordLine],
    measure: str,
    others: Sequence[str] = (),
    lines_of_others: Sequence[RecordLine] | None = None,
) -> Table:
    """Labels matched beside ignored, by family: means, and the mean difference with its standard error.

    Other ways, where there are some, are in the same lines or in lines of their own.
    """
    rows = []
    for family in dict.fromkeys(line["family"] for line in lines):
        mine = [line.results for line in lines if line["family"] == family]
        if measure not in mine[0]["match"]:
            continue
        matched, ignored = (_values(mine, method, measure) for method in ("match", "ignore"))
        row = [family, *_means(mine, ("match", "ignore"), measure), _difference(matched - ignored)]
        if others:
            theirs = [line.results for line in lines_of_others or lines if line["family"] == family]
            means = {name: float(_values(theirs, name, measure).mean()) for name in others if theirs}
            best = max(means, key=lambda name: means[name], default="")
            row += [f"{means[best]:.3f} ({best})" if best else ""]
        rows.append([*row, str(len(mine))])
    columns = ("family", "labels matched", "ignored", "difference", *(("best other way",) if others else ()), "seeds")
    return Table(title, columns, rows, caption="Means over seeds; differences ± their standard error.")


def shares_table(lines: Sequence[RecordLine]) -> Table:
    """How far class shares are from those of test rows, by family, and how much further than exact greedy's."""
    rows, ways = [], ("match", "ignore", "exact")
    for family in dict.fromkeys(line["family"] for line in lines):
        mine = [line.results for line in lines if line["family"] == family]
        matched, ignored, exact = (_values(mine, way, "shares_off") for way in ways)
        over = [_difference(values - exact) for values in (matched, ignored)]
        rows.append([family, *_means(mine, ways, "shares_off"), *over, str(len(mine))])
    columns = (
        "family",
        "labels matched",
        "ignored",
        "exact greedy",
        "matched less exact",
        "ignored less exact",
        "seeds",
    )
    title = "Class shares: total variation from those of test rows"
    return Table(title, columns, rows, caption="Means over seeds; differences ± their standard error.")


def distance_table(lines: Sequence[RecordLine], pairs: Sequence[tuple[str, str]]) -> Table:
    """MMD² to test rows in one way over that in another: the mean of ratios, by family."""
    rows = []
    for family in dict.fromkeys(line["family"] for line in lines):
        mine = [line.results for line in lines if line["family"] == family]
        ratios = [_values(mine, first, "squared_mmd") / _values(mine, second, "squared_mmd") for first, second in pairs]
        spread = [f"{values.mean():.3f} ± {values.std(ddof=1) / np.sqrt(len(values)):.3f}" for values in ratios]
        rows.append([family, *spread, str(len(mine))])
    names = [f"{first} over {second}" for first, second in pairs]
    title, caption = "MMD² to test rows", "Means of ratios over seeds ± their standard error."
    return Table(title, ("family", *names, "seeds"), rows, caption=caption)


def _shares_off(labels: Labels, test_labels: Labels, weights: NDArray[np.float64] | None) -> float:
    classes = 1 + max(int(labels.max()), int(test_labels.max()))
    shares = np.bincount(labels, weights=weights, minlength=classes) / (
        len(labels) if weights is None else weights.sum()
    )
    return float(np.abs(shares - np.bincount(test_labels, minlength=classes) / len(test_labels)).sum() / 2.0)


def _values(results: Sequence[Mapping[str, Any]], method: str, measure: str) -> NDArray[np.float64]:
    return np.array([result[method].get(measure, np.nan) for result in results])


def _means(results: Sequence[Mapping[str, Any]], methods: Sequence[str], measure: str) -> list[str]:
    return [f"{_values(results, method, measure).mean():.3f}" for method in methods]


def _difference(values: NDArray[np.float64]) -> str:
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{values.mean():+.3f} ± {error:.3f}"
