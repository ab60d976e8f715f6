"""``liars``: one of five owners lies. What does the model lose, and would the curator notice?

The liar is stronger than a real one: where it makes rows that fit, it knows the target itself, not just a release.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from likeset.arguments import Rows
from likeset.geometry.kernels import median_gamma, squared_mmd
from likeset.geometry.labels import ridge_scores
from likeset.simulation import LabelledMarket, Task, digits_market, run_protocol, svm_scores
from studies.contract import Cell, Options, Presentation, RecordLine, Table

_LITTLE, _BESIDE = 0.03, 0.25  # noise on rows that are to be bought, and on rows that are not
_ABSENT_CLASS = 0
_CLASSES = 10
_COPIED = 5
_SURE, _UNLIKELY = 0.7, 0.2  # scores of another class, and of the row's own, at which the others contradict it

Offered = tuple[Rows, NDArray[np.int64]]


def _fitted(market: LabelledMarket, count: int, noise: float, coins: np.random.Generator) -> Rows:
    chosen = market.target[coins.integers(len(market.target), size=count)]
    return np.asarray(chosen + noise * coins.normal(size=chosen.shape), dtype=np.float32)


def _honest(market: LabelledMarket, own: Offered, coins: np.random.Generator) -> Offered:  # noqa: ARG001
    return own


def _random_labels(market: LabelledMarket, own: Offered, coins: np.random.Generator) -> Offered:
    return _fitted(market, len(own[0]), _LITTLE, coins), coins.integers(_CLASSES, size=len(own[0]))


def _one_label(market: LabelledMarket, own: Offered, coins: np.random.Generator) -> Offered:
    return _fitted(market, len(own[0]), _LITTLE, coins), np.full(len(own[0]), _ABSENT_CLASS)


def _steering(market: LabelledMarket, own: Offered, coins: np.random.Generator) -> Offered:
    return _fitted(market, len(own[0]), _BESIDE, coins), np.full(len(own[0]), _ABSENT_CLASS)


def _relabelled(market: LabelledMarket, own: Offered, coins: np.random.Generator) -> Offered:  # noqa: ARG001
    return own[0], (own[1] + 1) % _CLASSES


def _copies(market: LabelledMarket, own: Offered, coins: np.random.Generator) -> Offered:  # noqa: ARG001
    chosen = np.resize(coins.choice(len(own[0]), size=_COPIED, replace=False), len(own[0]))
    return own[0][chosen], own[1][chosen]


def _useless(market: LabelledMarket, own: Offered, coins: np.random.Generator) -> Offered:  # noqa: ARG001
    return coins.uniform(size=own[0].shape).astype(np.float32), own[1]


LIES: dict[str, Callable[[LabelledMarket, Offered, np.random.Generator], Offered]] = {
    "honest": _honest,
    "useless": _useless,
    "fitted": _random_labels,
    "fitted, one label": _one_label,
    "steering": _steering,
    "relabelled": _relabelled,
    "copies": _copies,
}
"""By name, in the order of the table."""


def tell_lie(market: LabelledMarket, lie: str, *, coins: np.random.Generator) -> LabelledMarket:
    """The market where the first owner lies."""
    liar = next(iter(market.owners))
    rows, labels = LIES[lie](market, (market.owners[liar], market.labels[liar]), coins)
    return replace(market, owners={**market.owners, liar: rows}, labels={**market.labels, liar: labels})


def contradicted(market: LabelledMarket, *, gamma: float) -> list[NDArray[np.bool_]]:
    """For each owner which of its rows the rows of all others give to another class, and surely not to its own."""
    rows, labels = list(market.owners.values()), list(market.labels.values())
    judged = []
    for number, own in enumerate(labels):
        others = np.concatenate([part for other, part in enumerate(rows) if other != number])
        known = np.concatenate([part for other, part in enumerate(labels) if other != number])
        _, scores = ridge_scores(others, np.eye(_CLASSES)[known], rows[number], gamma=gamma)
        own_scores = scores[np.arange(len(own)), own]
        judged.append((scores.max(axis=1) >= _SURE) & (own_scores <= _UNLIKELY))
    return judged


def without_contradicted(market: LabelledMarket, judged: list[NDArray[np.bool_]]) -> LabelledMarket:
    """The market where such rows are not offered; an owner keeps one row in any case."""
    kept = {
        name: np.flatnonzero(~rows) if not rows.all() else np.array([0])
        for name, rows in zip(market.owners, judged, strict=True)
    }
    return replace(
        market,
        owners={name: market.owners[name][rows] for name, rows in kept.items()},
        labels={name: market.labels[name][rows] for name, rows in kept.items()},
    )


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
        options.without_data("the images come with scikit-learn")
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
