"""``liars``: one of five owners lies. What does the model lose, and would the curator notice?

The liar is stronger than a real one: where it makes rows that fit, it knows the target itself, not just a release.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from likeset.errors import InvalidArgument
from likeset.geometry.kernels import median_gamma, squared_mmd
from likeset.simulation import LabelledMarket, Task, digits_market, run_protocol, svm_scores
from studies.contract import Cell, Options, Presentation, RecordLine, Table
from studies.lies import LIES, contradicted, tell_lie, without_contradicted

MARKETS = ("alike", "groups")
_LABELS = ("match", "ignore", "guarded")
_SEEDS = 5
_SIZE = 60
_ROWS = 150  # of each owner, of whom 120 are offered
_EPSILON = 1.0
_OFFERS = 10.0  # for each row of the summary
_OWNERS = 5
_MIX = {3: 88, 4: 75, 8: 50, 9: 37}  # images of the target and of the test set, where owners are alike
_TARGET = 100


class Liars:
    """The study."""

    name = "liars"
    description = "digits, one of five owners lies: what it costs with labels matched and ignored, and who would notice"

    def cells(self, options: Options) -> Sequence[Cell]:
        """Seed by seed, so that a run that is stopped has something of everything."""
        if options.data is not None:
            raise InvalidArgument("--data", options.data, "is not used: the images come with scikit-learn")
        return [
            Cell(
                self.name,
                {
                    "market": market,
                    "lie": lie,
                    "labels": labels,
                    "size": size,
                    "epsilon": epsilon,
                    "seed": seed,
                    "revision": 2,
                },
            )
            for seed in range(options.seeds or _SEEDS)
            for size in options.sizes or (_SIZE,)
            for epsilon in options.epsilons or (_EPSILON,)
            for market in MARKETS
            for lie in LIES
            for labels in _LABELS
        ]

    def run(self, cell: Cell) -> dict[str, Any]:
        """One lie, in one market."""
        seed, size = int(cell["seed"]), int(cell["size"])
        honest = alike_market(seed) if cell["market"] == "alike" else digits_market(coins=np.random.default_rng(seed))
        market = tell_lie(_shortened(honest), cell["lie"], coins=np.random.default_rng([seed, 1]))
        gamma = median_gamma(market.target, scale=1.0, coins=np.random.default_rng(0))
        judged = contradicted(market, gamma=gamma)
        guarded = cell["labels"] == "guarded"
        offering = without_contradicted(market, judged) if guarded else market
        offers = int(np.ceil(_OFFERS * size / len(market.owners)))
        task = Task(market=offering, size=size, gamma=gamma, offers=offers, epsilon=cell["epsilon"], seed=seed)
        labels = "match" if guarded else cell["labels"]
        picks = run_protocol(task, epsilon=cell["epsilon"], offers="tilted", labels=labels).indices
        rows = offering.pool[picks]
        liars_rows = next(iter(market.owners.values()))
        return {
            **svm_scores(rows, offering.pool_labels[picks], market),
            "squared_mmd": squared_mmd(rows, market.test, gamma=gamma),
            "liars_picks": float((picks < len(next(iter(offering.owners.values())))).mean()),
            "contradicted_liar": float(judged[0].mean()),
            "contradicted_others": max(float(rows_of_owner.mean()) for rows_of_owner in judged[1:]),
            "distinct": len(np.unique(liars_rows, axis=0)) / len(liars_rows),
        }

    def present(self, lines: Sequence[RecordLine], out: Path) -> Presentation:  # noqa: ARG002 - no figures
        """A table for each market."""
        done = [line for line in lines if line.done]
        words = (
            "Images of scikit-learn, five owners of 150 rows, 60 rows wanted, 120 offers each, epsilon = 1. `alike`: "
            "every owner has the same mix of all ten digits, the target are 3s, 4s, 8s and 9s. `groups`: each owner "
            "has two digits that nobody else has, the target are 3s and 4s, and the liar's digits are not wanted.",
            "The lies: `useless`, it offers uniform noise; `fitted`, rows that are the target's own with a little "
            "noise, labels at random; `fitted, one label`, the same with one label for all, of a class that the target "
            "lacks; `steering`, rows beside the target's, too far to be wanted, with that label; `relabelled`, its own "
            "rows, each labelled as the next digit; `copies`, five of its own rows again and again.",
            "*Contradicted* is the share of an owner's rows that the rows of all others give to another class (a ridge "
            "score of 0.7 or more, and 0.2 or less for the row's own); of the honest owners the highest is given. "
            "*Guarded*: labels matched, contradicted rows of every owner left out beforehand. *Distinct*: the share of "
            "the liar's rows that are not copies.",
        )
        return Presentation("One owner lies", words, [_table(done, market) for market in MARKETS])


def _shortened(market: LabelledMarket) -> LabelledMarket:
    return replace(
        market,
        owners={name: rows[:_ROWS] for name, rows in market.owners.items()},
        labels={name: labels[:_ROWS] for name, labels in market.labels.items()},
    )


def alike_market(seed: int) -> LabelledMarket:
    """Images dealt at random to five owners; the target has four of the digits."""
    coins = np.random.default_rng([seed, 2])
    images, digits = load_digits(return_X_y=True)
    rows = (images / 16.0).astype(np.float32)
    held_out = coins.permutation(
        np.concatenate(
            [coins.choice(np.flatnonzero(digits == digit), count, replace=False) for digit, count in _MIX.items()]
        )
    )
    dealt = np.array_split(coins.permutation(np.setdiff1d(np.arange(len(rows)), held_out)), _OWNERS)
    target, test = held_out[:_TARGET], held_out[_TARGET:]
    return LabelledMarket(
        owners={f"owner {number}": rows[part] for number, part in enumerate(dealt)},
        labels={f"owner {number}": digits[part].astype(np.int64) for number, part in enumerate(dealt)},
        target=rows[target],
        test=rows[test],
        test_labels=digits[test].astype(np.int64),
    )


def _table(lines: Sequence[RecordLine], market: str) -> Table:
    rows = []
    for lie in LIES:
        cells = [line for line in lines if (line["market"], line["lie"]) == (market, lie)]
        if not cells:
            continue
        by_labels = [[line for line in cells if line["labels"] == labels] for labels in _LABELS]
        rows.append(
            [
                lie,
                *(_mean(part, "accuracy") for part in by_labels),
                *(_mean(part, "liars_picks") for part in by_labels),
                *(_mean(cells, name) for name in ("contradicted_liar", "contradicted_others", "distinct")),
            ]
        )
    columns = (
        "lie",
        "accuracy, labels matched",
        "ignored",
        "guarded",
        "picks from the liar, labels matched",
        "ignored",
        "guarded",
        "contradicted, liar",
        "contradicted, honest",
        "distinct",
    )
    return Table(market, columns, rows, caption="Means over the seeds; a linear SVM on test rows.")


def _mean(lines: Sequence[RecordLine], name: str) -> str:
    return f"{np.mean([line[name] for line in lines]):.3f}" if lines else ""


STUDY = Liars()
