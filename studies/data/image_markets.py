"""Markets cut from images of digits: who holds which digits, and what the target looks like."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from likeset.simulation import DIGIT_GROUPS, LabelledMarket
from studies.data.images import Images

RIGHT_DIGITS = (3, 4)
_TARGET_SHARE = (0.7, 0.3)
_OWNERS = 80
_RARE_RIGHT, _RARE_OTHERS = 120, 6000
_PUBLIC = 150

Owned = Mapping[str, NDArray[np.int64]]


def image_market(
    images: Images, kind: str, *, seed: int, validation: float = 0.25, rows_per_owner: int | None = None
) -> LabelledMarket:
    """The market of one seed; the target and the test rows do not depend on the kind.

    Args:
        images: where the rows come from.
        kind: ``groups`` (the paper's five owners), ``rare`` or ``skewed``.
        seed: of the split.
        validation: share of the test digits, mixed as in the paper, that is the target; the others are held out.
        rows_per_owner: at most so many rows, drawn at random, for each owner.
    """
    target, held_out = _split_target(images, validation, np.random.default_rng([seed, 0]))
    owned = _KINDS[kind](images.train_digits, np.random.default_rng([seed, 1]))
    kept = {name: rows[:rows_per_owner] for name, rows in owned.items()}
    others = np.flatnonzero(~np.isin(images.test_digits, RIGHT_DIGITS))
    public = np.random.default_rng([seed, 2]).choice(others, size=min(_PUBLIC, len(others)), replace=False)
    return LabelledMarket(
        owners={name: images.train[rows] for name, rows in kept.items()},
        labels={name: images.train_digits[rows] for name, rows in kept.items()},
        target=images.test[target],
        test=images.test[held_out],
        test_labels=images.test_digits[held_out],
        public=images.test[public],
    )


def _split_target(
    images: Images, validation: float, coins: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """As many test images of the right digits as the mix allows: a part of them the target, the others held out."""
    rows_by_digit = [coins.permutation(np.flatnonzero(images.test_digits == digit)) for digit in RIGHT_DIGITS]
    most = min(len(rows) / share for rows, share in zip(rows_by_digit, _TARGET_SHARE, strict=True))
    counts = [int(most * share) for share in _TARGET_SHARE]
    first = [round(validation * count) for count in counts]
    target = np.concatenate([rows[:end] for rows, end in zip(rows_by_digit, first, strict=True)])
    held_out = np.concatenate([rows[a:b] for rows, a, b in zip(rows_by_digit, first, counts, strict=True)])
    return coins.permutation(target), held_out


def _digit_group_owners(labels: NDArray[np.int64], coins: np.random.Generator) -> Owned:
    """The paper's five owners, each with images of two digits."""
    return {
        "digits-" + "-".join(str(digit) for digit in group): coins.permutation(np.flatnonzero(np.isin(labels, group)))
        for group in DIGIT_GROUPS
    }


def _rare_owners(labels: NDArray[np.int64], coins: np.random.Generator) -> Owned:
    """Five alike owners with few right digits among many others."""
    right = coins.permutation(np.flatnonzero(np.isin(labels, RIGHT_DIGITS)))
    others = coins.permutation(np.flatnonzero(~np.isin(labels, RIGHT_DIGITS)))
    owned = {}
    for number in range(5):
        few = right[number * _RARE_RIGHT : (number + 1) * _RARE_RIGHT]
        many = others[number * _RARE_OTHERS : (number + 1) * _RARE_OTHERS]
        owned[f"owner-{number}"] = coins.permutation(np.concatenate([few, many]))
    return owned


def _skewed_owners(labels: NDArray[np.int64], coins: np.random.Generator) -> Owned:
    """Each digit is dealt to 80 owners in proportions of its own; owners who got nothing are not there."""
    dealt: list[list[NDArray[np.int64]]] = [[] for _ in range(_OWNERS)]
    for digit in range(10):
        rows = coins.permutation(np.flatnonzero(labels == digit))
        ends = np.cumsum(coins.dirichlet(np.full(_OWNERS, 0.1)))[:-1] * len(rows)
        for number, part in enumerate(np.split(rows, ends.astype(int))):
            dealt[number].append(part)
    joined = {f"owner-{number}": coins.permutation(np.concatenate(parts)) for number, parts in enumerate(dealt)}
    return {name: rows for name, rows in joined.items() if len(rows)}


_KINDS: Mapping[str, Callable[[NDArray[np.int64], np.random.Generator], Owned]] = {
    "groups": _digit_group_owners,
    "rare": _rare_owners,
    "skewed": _skewed_owners,
}
