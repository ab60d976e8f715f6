"""``disease-groups``: patients of one disease among patients of others: when do matched rows make better models?"""

import warnings
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likeset import Summarizer
from likeset.errors import InvalidArgument
from likeset.geometry.greedy import exact_greedy
from likeset.geometry.kernels import median_gamma
from likeset.simulation import LabelledMarket
from studies.contract import Cell, Options, Presentation, RecordLine, Table
from studies.data.patients import REMEDY, support_patients
from studies.labels import MEASURES, judge, values_of, with_error

_FIRST_SEED, _SEEDS = 4200, 10
_SIZES = (100, 200, 500)
_EPSILON = 1.0
_TARGET, _TEST, _RIGHT, _OTHERS, _OWNERS = 100, 200, 150, 4000, 5
_COLUMNS = ("disease group declared", "disease group left out")
BASE = "random rows"


class DiseaseGroups:
    """The study."""

    name = "disease-groups"
    description = "SUPPORT2: patients of one disease group, 1 in 28 at the owners, by rows bought"

    def cells(self, options: Options) -> Sequence[Cell]:
        """Seed by seed; all ways in one cell."""
        if options.data is None:
            raise InvalidArgument("--data", "not given", REMEDY)
        patients = support_patients(options.data)
        return [
            Cell(
                self.name,
                {
                    "family": f"{size} rows, {columns}",
                    "group": group,
                    "columns": columns,
                    "size": size,
                    "seed": _FIRST_SEED + number,
                    "digest": patients.digest,
                    "revision": 1,
                },
                source=options.data,
            )
            for number in range(options.seeds or _SEEDS)
            for columns in _COLUMNS
            for size in options.sizes or _SIZES
            for group in sorted(set(patients.groups.tolist()))
            if columns == _COLUMNS[0] or size == _SIZES[0]
        ]

    def run(self, cell: Cell) -> dict[str, Any]:
        """One market: training sets by all ways, judged on held-out patients of the group."""
        size, seed = int(cell["size"]), int(cell["seed"])
        return judged_ways(*disease_market(cell.source, cell["group"], seed, cell["columns"]), size=size, seed=seed)

    def present(self, lines: Sequence[RecordLine], out: Path) -> Presentation:  # noqa: ARG002 - no figures
        """A table for each measure."""
        words = (
            f"The target is {_TARGET} unlabelled patients of one disease group. {_OWNERS} owners hold "
            f"{_RIGHT + _OTHERS:,} patients, {_RIGHT} of them of that group. The label is death within 180 days. "
            "Prognoses and outcomes are not among the columns. Means over all eight groups and all seeds, of a linear "
            f"SVM, logistic regression and a forest on {_TEST} other patients of the group.",
            "*Right rows* are patients of the group, as many as were bought, at most 150: an oracle knows them. "
            "*Exact greedy* and *pooled* read all rows. The standard errors do not include that markets share "
            "patients.",
        )
        done = [line for line in lines if line.done]
        tables = [ways_table(done, measure) for measure in ("accuracy", "balanced", "auc")]
        return Presentation("Patients of one disease among others", words, tables)


@lru_cache(maxsize=8)
def disease_market(wheel: str, group: str, seed: int, columns: str) -> tuple[LabelledMarket, NDArray[np.bool_]]:
    """The market, and which rows of its pool are of the target's group."""
    patients = support_patients(wheel)
    rows = patients.rows if columns == _COLUMNS[0] else patients.rows[:, ~patients.of_group]
    coins = np.random.default_rng([seed, 1])
    mine = coins.permutation(np.flatnonzero(patients.groups == group))
    target, test, right = np.split(mine[: _TARGET + _TEST + _RIGHT], [_TARGET, _TARGET + _TEST])
    others = coins.permutation(np.flatnonzero(patients.groups != group))[:_OTHERS]
    parts = np.array_split(coins.permutation(np.concatenate([right, others])), _OWNERS)
    market = LabelledMarket(
        owners={f"owner {place}": rows[part] for place, part in enumerate(parts)},
        labels={f"owner {place}": patients.died[part] for place, part in enumerate(parts)},
        target=rows[target],
        test=rows[test],
        test_labels=patients.died[test],
    )
    return market, patients.groups[np.concatenate(parts)] == group


def judged_ways(
    market: LabelledMarket, right: NDArray[np.bool_], *, size: int, seed: int
) -> dict[str, dict[str, float]]:
    """Models of each way to get training rows, and the share of right rows in them."""
    coins, pool, labels = np.random.default_rng([seed, 2]), market.pool, market.pool_labels
    gamma = median_gamma(market.target, scale=1.0, coins=np.random.default_rng(0))
    rare = int(np.argmin(np.bincount(market.test_labels, minlength=2)))
    starts = dict(zip(market.owners, np.cumsum([0, *map(len, market.owners.values())])[:-1], strict=True))
    ways = {
        BASE: coins.choice(len(pool), size=size, replace=False),
        "exact greedy": exact_greedy(pool, market.target, size, gamma=gamma).indices,
        "right rows": np.flatnonzero(right)[:size],
    }
    if size == _SIZES[0]:  # it is the same for all sizes
        ways["pooled"] = np.arange(len(pool))
    matched = Summarizer(size, epsilon=_EPSILON, noise="simulated", random_state=seed, folds=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as of a width that chance decides
        matched.fit(market.target, dict(market.owners), dict(market.labels))
    ways[f"likeset, epsilon {_EPSILON:g}"] = np.array([starts[owner] + row for owner, row in matched.indices_])
    return {
        way: {
            **judge(pool[rows], labels[rows], market, rare=rare),
            "right": float(right[rows].mean()),
        }
        for way, rows in ways.items()
    }


def ways_table(lines: Sequence[RecordLine], measure: str) -> Table:
    """Each way to get training rows, by family: the mean, and the mean difference to random rows."""
    rows = []
    for family in dict.fromkeys(line["family"] for line in lines):
        mine = [line.results for line in lines if line["family"] == family]
        known = values_of(mine, BASE, measure)
        for way in mine[0]:
            values = values_of(mine, way, measure)
            difference = "" if way == BASE else with_error(values - known, "+.3f")
            right = values_of(mine, way, "right").mean()
            rows.append([family, way, f"{values.mean():.3f}", difference, f"{right:.2f}", str(len(mine))])
    title = MEASURES[measure]
    columns = ("market", "training rows", title, f"less {BASE}", "share of right rows", "markets")
    return Table(title, columns, rows, caption="Means over markets; differences ± their standard error.")


STUDY = DiseaseGroups()
