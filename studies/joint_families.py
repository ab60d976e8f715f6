"""``joint-families``: matching labels, judged on families of markets and seeds that its rule was not made on."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky
from scipy.linalg.lapack import dpotri

from likeset.errors import InvalidArgument
from likeset.geometry.discrepancy import squared_mmd
from likeset.geometry.greedy import match
from likeset.geometry.joint import LARGEST_LABEL_WEIGHT, joint_rows, joint_target
from likeset.geometry.kernels import kernel_means, rbf_kernel
from likeset.geometry.refine import swap
from likeset.protocol.selection import Selection
from studies.contract import Cell, Options, Presentation, RecordLine
from studies.judged_families import JUDGEMENT, market_of
from studies.label_families import DEVELOPMENT, LabelMarket
from studies.label_judging import MEASURES, comparison_table, judge_training, likeness_table, ways_table

__all__ = ["STUDY", "JointFamilies", "judge_selection"]

_FIRST_SEED = 4000
_SEEDS = 10
_MATCHED = 2.0  # offers matched on rows alone that an imputation is trained on, for each row wanted
_FIRST_PICKS = 0.3
_RIDGES = (0.1, 1.0, 10.0)
_COMPARED = (  # with other ways to impute
    "twenty classes, 150 rows",
    "five of ten absent",
    "3% near",
    "not told",
)

Indices = NDArray[np.int64]


class JointFamilies:
    """The study."""

    name = "joint-families"
    description = "generated and small real tasks: labels matched against ignored, on seeds the rule was not made on"

    def cells(self, options: Options) -> Sequence[Cell]:
        """Labels matched and ignored seed by seed; then other ways, for some families."""
        if options.data is not None:
            raise InvalidArgument(
                "--data", options.data, "is not used: all rows are generated or come with scikit-learn"
            )
        settings = [
            {"family": family, "seed": _FIRST_SEED + number, "part": part, "revision": 3}
            for part, families in (("labels", tuple(JUDGEMENT)), ("other ways", _COMPARED))
            for number in range(options.seeds or _SEEDS)
            for family in families
        ]
        return [Cell(self.name, setting) for setting in settings]

    def run(self, cell: Cell) -> dict[str, Any]:
        """One market in some ways, each judged by models on test rows."""
        market = market_of(cell["family"], int(cell["seed"]))
        gamma = Selection().kernel_width(market.target)
        if cell["part"] == "other ways":
            imputed = _imputed(market, gamma)
            return {
                name: judge_selection(market, _hard_joint(market, codes, gamma), gamma)
                for name, codes in imputed.items()
            }
        selected = {
            labels: Selection(labels=labels).select(market.pool, market.target, market.size, labels=market.labels)
            for labels in ("match", "ignore")
        }
        results = {name: judge_selection(market, chosen.indices, gamma) for name, chosen in selected.items()}
        told = selected["match"]
        return {**results, "label_weight": told.label_weight, "label_skill": told.label_skill}

    def present(self, lines: Sequence[RecordLine], out: Path) -> Presentation:  # noqa: ARG002 - no figures
        """A table for each measure."""
        done = [line for line in lines if line.done and line["part"] == "labels"]
        others = [line for line in lines if line.done and line["part"] == "other ways"]
        words = (
            f"The rule that says how much labels count was made on {len(DEVELOPMENT)} other families "
            "(`studies/label_families.py`); those below (`studies/judged_families.py`) were first run when it was "
            "fixed, with these seeds. The pool are offers; nothing is released, so no noise is in it. Means of a "
            "linear SVM, logistic regression and a forest on test rows. Other ways impute classes from all offers, "
            "from offers weighted toward the target, from offers matched to it on rows alone (two a row wanted), "
            "and from the first picks (three for ten rows wanted), each with hard classes and nothing but classes "
            "counting: whoever takes the best of them must know the answer.",
        )
        tables = [comparison_table(name[0].upper() + name[1:], done, measure) for measure, name in MEASURES.items()]
        if others:
            tables.insert(1, ways_table(done, tuple(_WAYS), others, "accuracy"))
        tables.append(likeness_table(done, (("match", "ignore"),)))
        return Presentation("Labels matched, on tasks that the rule was not made on", words, tables)


def judge_selection(market: LabelMarket, indices: Indices, gamma: float) -> dict[str, float]:
    """What models make of some rows of a market's pool, and the rows' MMD² to test rows."""
    judged = judge_training(
        market.pool[indices],
        market.labels[indices],
        test=market.test,
        test_labels=market.test_labels,
        rare=market.rare,
        rare_test=market.rare_test,
    )
    return judged | {"squared_mmd": squared_mmd(market.pool[indices], market.test, gamma=gamma)}


def _hard_joint(market: LabelMarket, codes: Indices, gamma: float) -> Indices:
    """Rows and imputed classes matched with each target row of one class, and labels counting as much as they can."""
    classes = int(market.labels.max()) + 1
    weight = LARGEST_LABEL_WEIGHT
    wanted, shares = joint_target(market.target, np.eye(classes)[codes], label_weight=weight, gamma=gamma)
    rows = joint_rows(market.pool, market.labels, classes=classes, label_weight=weight, gamma=gamma)
    matched = match(rows, wanted, market.size, gamma=gamma, target_weights=shares)
    return swap(rows, wanted, matched.indices, gamma=gamma, passes=2, target_weights=shares)


def _imputed(market: LabelMarket, gamma: float) -> dict[str, Indices]:
    return {name: way(market, gamma) for name, way in _WAYS.items()}


def _ridge_classes(
    market: LabelMarket, gamma: float, rows: Indices, weights: NDArray[np.float64] | None = None
) -> Indices:
    """Kernel ridge regression on some rows of the pool, weighted or not; its ridge by leave-one-out."""
    pool, indicators = market.pool[rows].astype(np.float64), np.eye(int(market.labels.max()) + 1)[market.labels[rows]]
    counted = np.ones(len(rows)) if weights is None else np.maximum(weights[rows] / weights[rows].mean(), 1e-3)
    means = counted @ indicators / counted.sum()
    kernel, centred = rbf_kernel(pool, pool, gamma=gamma), indicators - means
    losses, fits = [], []
    for ridge in _RIDGES:
        lower, _ = dpotri(cholesky(kernel + np.diag(ridge / counted), lower=True), lower=1)
        inverse = lower + np.tril(lower, k=-1).T
        fits.append(inverse @ centred)
        losses.append(float(counted @ ((fits[-1] / np.diagonal(inverse)[:, None]) ** 2).sum(axis=1)))
    fitted = fits[int(np.argmin(losses))]
    scores = rbf_kernel(market.target.astype(np.float64), pool, gamma=gamma) @ fitted + means
    return np.asarray(scores.argmax(axis=1))


def _all_offers(market: LabelMarket, gamma: float) -> Indices:
    return _ridge_classes(market, gamma, np.arange(len(market.pool)))


def _weighted_offers(market: LabelMarket, gamma: float) -> Indices:
    nearness = kernel_means(market.pool, market.target.astype(np.float64), gamma=gamma)
    return _ridge_classes(market, gamma, np.arange(len(market.pool)), nearness**2)


def _matched_offers(market: LabelMarket, gamma: float, per_row: float = _MATCHED) -> Indices:
    count = min(round(per_row * market.size), len(market.pool))
    return _ridge_classes(market, gamma, match(market.pool, market.target, count, gamma=gamma).indices)


def _first_picks(market: LabelMarket, gamma: float) -> Indices:
    return _matched_offers(market, gamma, _FIRST_PICKS)


_WAYS: dict[str, Callable[[LabelMarket, float], Indices]] = {
    "all": _all_offers,
    "weighted": _weighted_offers,
    "matched": _matched_offers,
    "first picks": _first_picks,
}

STUDY = JointFamilies()
