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

__all__ = ["MEASURES", "comparison_table", "judge_training", "likeness_table", "ways_table"]

MEASURES = {"accuracy": "accuracy", "balanced": "balanced accuracy", "rare": "recall of the rarest class", "auc": "AUC"}

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
        "rare_share": float((labels == rare).mean()),
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


def ways_table(
    lines: Sequence[RecordLine], ways: Sequence[str], lines_of_ways: Sequence[RecordLine], measure: str
) -> Table:
    """The rule beside other ways, by family, on the seeds that both have: means, and the rule less the best way."""
    rows = []
    for family in dict.fromkeys(line["family"] for line in lines_of_ways):
        ours = {line["seed"]: line.results for line in lines if line["family"] == family}
        theirs = {line["seed"]: line.results for line in lines_of_ways if line["family"] == family}
        seeds = [seed for seed in theirs if seed in ours]
        if not seeds:
            continue
        rule = _values([ours[seed] for seed in seeds], "match", measure)
        found = {way: _values([theirs[seed] for seed in seeds], way, measure) for way in ways}
        best = max(ways, key=lambda way: float(found[way].mean()))
        means = [f"{values.mean():.3f}" for values in (rule, *found.values())]
        rows.append([family, *means, f"{_difference(rule - found[best])} ({best})", str(len(seeds))])
    title = f"Ways to impute classes: {MEASURES[measure]}"
    caption = "Means over seeds; the last difference is the rule less the best of the other ways, ± its standard error."
    return Table(title, ("family", "the rule", *ways, "over the best way", "seeds"), rows, caption=caption)


def likeness_table(lines: Sequence[RecordLine], pairs: Sequence[tuple[str, str]]) -> Table:
    """MMD² to test rows with labels matched, over that with labels ignored: the mean of ratios, by family."""
    rows = []
    for family in dict.fromkeys(line["family"] for line in lines):
        mine = [line.results for line in lines if line["family"] == family]
        ratios = [_values(mine, first, "squared_mmd") / _values(mine, second, "squared_mmd") for first, second in pairs]
        spread = [f"{values.mean():.3f} ± {values.std(ddof=1) / np.sqrt(len(values)):.3f}" for values in ratios]
        rows.append([family, *spread, str(len(mine))])
    names = [f"{first} over {second}" for first, second in pairs]
    title, caption = "MMD² to test rows, over labels ignored", "Means of ratios over seeds ± their standard error."
    return Table(title, ("family", *names, "seeds"), rows, caption=caption)


def _values(results: Sequence[Mapping[str, Any]], method: str, measure: str) -> NDArray[np.float64]:
    return np.array([result[method].get(measure, np.nan) for result in results])


def _means(results: Sequence[Mapping[str, Any]], methods: Sequence[str], measure: str) -> list[str]:
    return [f"{_values(results, method, measure).mean():.3f}" for method in methods]


def _difference(values: NDArray[np.float64]) -> str:
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{values.mean():+.3f} ± {error:.3f}"
