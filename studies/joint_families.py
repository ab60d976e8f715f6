"""``joint-families``: matching labels, judged on families of markets and seeds that its rule was not made on."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likeset.errors import InvalidArgument
from likeset.geometry.greedy import exact_greedy
from likeset.geometry.kernels import squared_mmd
from likeset.geometry.selection import Selection
from studies.contract import Cell, Options, Presentation, RecordLine
from studies.judged_families import JUDGEMENT, market_of
from studies.label_families import LabelMarket
from studies.label_judging import MEASURES, comparison_table, distance_table, judge_training, shares_table

_FIRST_SEED = 5000
_SEEDS = 10

Indices = NDArray[np.int64]


class JointFamilies:
    """The study."""

    name = "joint-families"
    description = "generated and small real tasks: labels matched against ignored, on seeds the rule was not made on"

    def cells(self, options: Options) -> Sequence[Cell]:
        """Seed by seed, so that a run that is stopped has something of everything."""
        if options.data is not None:
            raise InvalidArgument(
                "--data", options.data, "is not used: all rows are generated or come with scikit-learn"
            )
        return [
            Cell(self.name, {"family": family, "seed": _FIRST_SEED + number, "revision": 5})
            for number in range(options.seeds or _SEEDS)
            for family in JUDGEMENT
        ]

    def run(self, cell: Cell) -> dict[str, Any]:
        """One market in three ways, each judged by models on test rows."""
        market = market_of(cell["family"], int(cell["seed"]))
        gamma = Selection().kernel_width(market.target)
        told = Selection(gamma=gamma).select(market.pool, market.target, market.size, labels=market.labels)
        selected = {
            "match": told.indices,
            "ignore": Selection(gamma=gamma).select(market.pool, market.target, market.size).indices,
            "exact": exact_greedy(market.pool, market.target, market.size, gamma=gamma, method="exact").indices,
        }
        results = {name: judge_selection(market, indices, gamma) for name, indices in selected.items()}
        return {**results, "label_weight": told.label_weight, "label_skill": told.label_skill}

    def present(self, lines: Sequence[RecordLine], out: Path) -> Presentation:  # noqa: ARG002 - no figures
        """A table for each measure."""
        done = [line for line in lines if line.done]
        words = (
            "The rule for labels was made on seeds from 500 on, of these families and of those in "
            "`studies/label_families.py`. The pool are offers; nothing is released, so no noise is in it. Means of a "
            "linear SVM, logistic regression and a forest on test rows. *Exact* is greedy without swaps on the same "
            "offers, without labels. Class shares are those of test rows; in the two families of images these are not "
            "the target's.",
        )
        tables = [comparison_table(name[0].upper() + name[1:], done, measure) for measure, name in MEASURES.items()]
        tables.append(shares_table(done))
        tables.append(distance_table(done, (("match", "exact"), ("ignore", "exact"))))
        return Presentation("Labels matched, on generated and small real tasks", words, tables)


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


STUDY = JointFamilies()
