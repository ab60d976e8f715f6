"""What an owner may lie about, and which of its labels the others' rows contradict."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from likeset.arguments import Rows
from likeset.geometry.labels import ridge_scores
from likeset.simulation import LabelledMarket

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
