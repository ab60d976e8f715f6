"""Data markets cut from MNIST: who holds which digits, and what the target looks like."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from likeset.arguments import Rows
from likeset.studies.market import DIGIT_GROUPS, Market

__all__ = ["RIGHT_DIGITS", "SETTINGS", "Digits", "Setting", "load", "market", "public_rows"]

RIGHT_DIGITS = (3, 4)
_TARGET_SHARE = (0.7, 0.3)
_VALIDATION = 0.25  # share of the test digits, mixed as above, that is the target; the others are held out
_OWNERS = 80
_RARE_RIGHT, _RARE_OTHERS = 120, 6000
_PUBLIC = 150


@dataclass(frozen=True, eq=False)
class Digits:
    """Images as rows of pixels between 0 and 1, with their digits: what owners share, and the test images."""

    train: Rows
    train_digits: NDArray[np.int64]
    test: Rows
    test_digits: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Setting:
    """A market, and how many rows each owner offers."""

    name: str
    kind: str
    offers: int
    words: str


SETTINGS = (
    Setting("groups-400", "groups", 400, "five owners by digit groups, 400 offers each"),
    Setting("groups-200", "groups", 200, "five owners by digit groups, 200 offers each"),
    Setting("rare-400", "rare", 400, "five alike owners, 120 right digits among 6,120 rows, 400 offers each"),
    Setting("skewed-50", "skewed", 50, "about 80 owners, Dirichlet(0.1) label skew, 50 offers each"),
    Setting("skewed-20", "skewed", 20, "about 80 owners, Dirichlet(0.1) label skew, 20 offers each"),
)


def load(path: Path) -> Digits:
    """MNIST from an npz file with x_train, y_train, x_test, y_test."""
    with np.load(path) as data:
        return Digits(
            train=_pixels(data["x_train"]),
            train_digits=data["y_train"].astype(np.int64),
            test=_pixels(data["x_test"]),
            test_digits=data["y_test"].astype(np.int64),
        )


def _pixels(images: NDArray[np.uint8]) -> Rows:
    return images.reshape(len(images), -1).astype(np.float32) / np.float32(255.0)


def market(digits: Digits, kind: str, seed: int) -> Market:
    """The market of one seed; the target and the test rows do not depend on the kind."""
    target, held_out = _split_target(digits, np.random.default_rng([seed, 0]))
    owned = _KINDS[kind](digits.train_digits, np.random.default_rng([seed, 1]))
    return Market(
        owners={name: digits.train[rows] for name, rows in owned.items()},
        labels={name: digits.train_digits[rows] for name, rows in owned.items()},
        target=digits.test[target],
        test=digits.test[held_out],
        test_labels=digits.test_digits[held_out],
    )


def public_rows(digits: Digits, seed: int) -> Rows:
    """Images that start the summary of the paper's protocol; of other digits than the target's, and in nobody's set."""
    others = np.flatnonzero(~np.isin(digits.test_digits, RIGHT_DIGITS))
    return digits.test[np.random.default_rng([seed, 2]).choice(others, size=_PUBLIC, replace=False)]


def _split_target(digits: Digits, coins: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """As many test images of the right digits as the mix allows: a quarter of them the target, the others held out."""
    found = [coins.permutation(np.flatnonzero(digits.test_digits == digit)) for digit in RIGHT_DIGITS]
    most = min(len(rows) / share for rows, share in zip(found, _TARGET_SHARE, strict=True))
    counts = [int(most * share) for share in _TARGET_SHARE]
    quarter = [round(_VALIDATION * count) for count in counts]
    target = np.concatenate([rows[:first] for rows, first in zip(found, quarter, strict=True)])
    held_out = np.concatenate([rows[a:b] for rows, a, b in zip(found, quarter, counts, strict=True)])
    return coins.permutation(target), held_out


def _groups(labels: NDArray[np.int64], coins: np.random.Generator) -> Mapping[str, NDArray[np.int64]]:
    """The paper's five owners, each with all images of two digits."""
    return {
        "digits-" + "-".join(str(digit) for digit in group): coins.permutation(np.flatnonzero(np.isin(labels, group)))
        for group in DIGIT_GROUPS
    }


def _rare(labels: NDArray[np.int64], coins: np.random.Generator) -> Mapping[str, NDArray[np.int64]]:
    """Five alike owners with few right digits among many others."""
    right = coins.permutation(np.flatnonzero(np.isin(labels, RIGHT_DIGITS)))
    others = coins.permutation(np.flatnonzero(~np.isin(labels, RIGHT_DIGITS)))
    owned = {}
    for place in range(5):
        few = right[place * _RARE_RIGHT : (place + 1) * _RARE_RIGHT]
        many = others[place * _RARE_OTHERS : (place + 1) * _RARE_OTHERS]
        owned[f"owner-{place}"] = coins.permutation(np.concatenate([few, many]))
    return owned


def _skewed(labels: NDArray[np.int64], coins: np.random.Generator) -> Mapping[str, NDArray[np.int64]]:
    """Each digit is dealt to 80 owners in proportions of its own; owners who got nothing are not there."""
    dealt: list[list[NDArray[np.int64]]] = [[] for _ in range(_OWNERS)]
    for digit in range(10):
        rows = coins.permutation(np.flatnonzero(labels == digit))
        ends = np.cumsum(coins.dirichlet(np.full(_OWNERS, 0.1)))[:-1] * len(rows)
        for place, part in enumerate(np.split(rows, ends.astype(int))):
            dealt[place].append(part)
    joined = {f"owner-{place}": coins.permutation(np.concatenate(parts)) for place, parts in enumerate(dealt)}
    return {name: rows for name, rows in joined.items() if len(rows)}


_KINDS: Mapping[str, Callable[[NDArray[np.int64], np.random.Generator], Mapping[str, NDArray[np.int64]]]] = {
    "groups": _groups,
    "rare": _rare,
    "skewed": _skewed,
}
