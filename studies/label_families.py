"""Families of small markets with labels, for a rule that must not have been made on what it is judged by.

Pools are offers as a curator has them; the target's labels are known to the experimenter only. The families in
``DEVELOPMENT`` are what the rule in ``geometry/labels`` was made on. What judged it: ``judged_families``, with seeds of
their own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_classification

from likeset.arguments import Rows

_TEST_ROWS = 2000

Labels = NDArray[np.int64]
Draw = Callable[[np.random.Generator], "LabelMarket"]


@dataclass(frozen=True, eq=False)
class LabelMarket:
    """Offers, a target and test rows of its kind.

    Attributes:
        pool: offers.
        labels: their classes.
        target: rows to match.
        test: rows of the target's kind.
        test_labels: their classes.
        rare: the rarest class that the target has.
        size: rows wanted.
        rare_test: more test rows of that class, which count in its recall only.
    """

    pool: Rows
    labels: Labels
    target: Rows
    test: Rows
    test_labels: Labels
    rare: int
    size: int
    rare_test: Rows | None = None


@dataclass(frozen=True, kw_only=True)
class _Blobs:
    """Classes of one or several blobs each, around random centres.

    Attributes:
        columns: of rows.
        apart: how far centres lie from one another, in standard deviations of a blob.
        target: shares of the classes, 0 for those that it lacks.
        pool: the same for offers; drawn anew for each seed if not given.
        blobs: for each class; the target has them in other proportions.
        tails: degrees of freedom of Student's distribution; None for a normal one.
        flipped: share of labels that are drawn at random.
        offers: rows of the pool.
        target_rows: of the target.
        size: rows wanted.
    """

    columns: int
    apart: float
    target: Sequence[float]
    pool: Sequence[float] | None = None
    blobs: int = 1
    tails: float | None = None
    flipped: float = 0.0
    offers: int = 800
    target_rows: int = 200
    size: int = 80

    def __call__(self, coins: np.random.Generator) -> LabelMarket:
        classes = len(self.target)
        centres = coins.normal(size=(classes, self.blobs, self.columns)) * self.apart / np.sqrt(2.0 * self.columns)
        pool_mix = np.array(self.pool) if self.pool is not None else coins.dirichlet(np.full(classes, 3.0))
        mixes = [coins.dirichlet(np.full(self.blobs, 2.0), size=classes) for _ in range(2)]

        def draw(shares: NDArray[np.float64], mix: NDArray[np.float64], count: int) -> tuple[Rows, Labels]:
            codes = coins.choice(classes, size=count, p=shares / shares.sum())
            blobs = np.array([coins.choice(self.blobs, p=mix[code]) for code in codes])
            noise = coins.normal(size=(count, self.columns))
            if self.tails is not None:
                noise *= np.sqrt(self.tails / coins.chisquare(self.tails, size=(count, 1)))
            random = coins.random(count) < self.flipped
            labels = np.where(random, coins.choice(classes, size=count, p=shares / shares.sum()), codes)
            return (centres[codes, blobs] + noise).astype(np.float32), labels.astype(np.int64)

        pool, labels = draw(pool_mix, mixes[0], self.offers)
        target, _ = draw(np.array(self.target), mixes[1], self.target_rows)
        test, test_labels = draw(np.array(self.target), mixes[1], _TEST_ROWS)
        rare = int(np.argmin(np.where(np.array(self.target) > 0.0, self.target, np.inf)))
        return LabelMarket(pool, labels, target, test, test_labels, rare, self.size)


@dataclass(frozen=True, kw_only=True)
class Images:
    """Images of scikit-learn: a target of some digits, offers that hold few of them or many.

    Attributes:
        target: how many images of each digit the target has.
        test: the same of the test set.
        right: share of the offers that are of the target's digits; as they come if not given.
        offers: rows of the pool.
        size: rows wanted.
    """

    target: dict[int, int]
    test: dict[int, int]
    right: float | None = None
    offers: int = 600
    size: int = 60

    def __call__(self, coins: np.random.Generator) -> LabelMarket:
        """A market, by chance."""
        images, digits = load_digits(return_X_y=True)
        rows, order = (images / 16.0).astype(np.float32), coins.permutation(len(images))
        parts: list[list[int]] = [[], []]
        for digit in self.target:
            own = order[digits[order] == digit]
            parts[0] += own[: self.target[digit]].tolist()
            parts[1] += own[self.target[digit] : self.target[digit] + self.test[digit]].tolist()
        rest = np.setdiff1d(np.arange(len(rows)), np.concatenate(parts))
        chances = np.ones(len(rest))
        if self.right is not None:
            own = np.isin(digits[rest], list(self.target))
            chances = np.where(own, self.right / own.sum(), (1.0 - self.right) / (~own).sum())
        pool = coins.choice(rest, size=self.offers, replace=False, p=chances / chances.sum())
        target, test = (np.array(part) for part in parts)
        codes, rare = digits.astype(np.int64), min(self.target, key=lambda digit: self.target[digit])
        return LabelMarket(rows[pool], codes[pool], rows[target], rows[test], codes[test], rare, self.size)


@dataclass(frozen=True, kw_only=True)
class Tilted:
    """A data set whose target prefers rows on one side of a random direction; other rows are the pool.

    Attributes:
        load: rows and classes.
        target_rows: of the target.
        test_rows: of the test.
        size: rows wanted.
    """

    load: Callable[[np.random.Generator], tuple[NDArray[np.float64], Labels]]
    target_rows: int
    test_rows: int
    size: int

    def __call__(self, coins: np.random.Generator) -> LabelMarket:
        """A market, by chance."""
        rows, labels = self.load(coins)
        rows = ((rows - rows.mean(axis=0)) / rows.std(axis=0)).astype(np.float32)
        direction = coins.normal(size=rows.shape[1])
        along = rows @ (direction / np.linalg.norm(direction))
        chances = 1.0 / (1.0 + np.exp(-2.0 * (along - along.mean()) / along.std()))
        count = self.target_rows + self.test_rows
        chosen = coins.choice(len(rows), size=count, replace=False, p=chances / chances.sum())
        target, test = np.split(chosen, [self.target_rows])
        pool = np.setdiff1d(np.arange(len(rows)), chosen)
        rare = int(np.argmin(np.bincount(labels[chosen])))
        return LabelMarket(rows[pool], labels[pool], rows[target], rows[test], labels[test], rare, self.size)


def _binary(informative: int, apart: float) -> Callable[[np.random.Generator], tuple[NDArray[np.float64], Labels]]:
    def load(coins: np.random.Generator) -> tuple[NDArray[np.float64], Labels]:
        rows, labels = make_classification(
            n_samples=2600,
            n_features=12,
            n_informative=informative,
            n_clusters_per_class=2,
            class_sep=apart,
            flip_y=0.05,
            random_state=int(coins.integers(2**31)),
        )
        return rows, labels.astype(np.int64)

    return load


def _wine(_: np.random.Generator) -> tuple[NDArray[np.float64], Labels]:
    rows, labels = load_wine(return_X_y=True)
    return rows, labels.astype(np.int64)


def _tumours(_: np.random.Generator) -> tuple[NDArray[np.float64], Labels]:
    rows, labels = load_breast_cancer(return_X_y=True)
    return rows, labels.astype(np.int64)


DEVELOPMENT: dict[str, Draw] = {
    "one absent": _Blobs(columns=8, apart=5.0, target=(0.3, 0.25, 0.25, 0.15, 0.05, 0.0), offers=600, size=60),
    "one absent, near": _Blobs(columns=8, apart=3.5, target=(0.3, 0.25, 0.25, 0.15, 0.05, 0.0), blobs=2),
    "rare, near": _Blobs(columns=10, apart=3.0, target=(0.3, 0.25, 0.22, 0.2, 0.03), pool=(0.2,) * 5, target_rows=360),
    "rare, told": _Blobs(columns=10, apart=8.0, target=(0.4, 0.37, 0.2, 0.03), target_rows=360),
    "two, one rare": _Blobs(columns=6, apart=4.0, target=(0.92, 0.08), blobs=3),
    "two": _Blobs(columns=6, apart=2.5, target=(0.55, 0.45), blobs=2),
    "seven absent": _Blobs(columns=10, apart=4.5, target=(0.4, 0.35, 0.25, *[0.0] * 7), pool=(0.1,) * 10, offers=1000),
    "run out": _Blobs(
        columns=8, apart=7.0, target=(0.6, 0.4, 0, 0, 0), pool=(0.12, 0.08, 0.3, 0.25, 0.25), offers=250, size=50
    ),
    "twelve": _Blobs(columns=12, apart=6.0, target=tuple(0.8**k for k in range(12)), offers=900, size=90),
    "images run out": Images(target={3: 49, 4: 21}, test={3: 49, 4: 21}, right=0.2, offers=250, size=40),
    "images, one rare": Images(target={3: 70, 4: 27, 8: 3}, test={3: 70, 4: 70, 8: 70}),
    "labels at random": _Blobs(columns=8, apart=5.0, target=(0.4, 0.3, 0.2, 0.1), flipped=1.0),
    "twenty classes": _Blobs(
        columns=20, apart=6.0, target=(*[0.07] * 10, *[0.03] * 10), offers=1500, target_rows=300, size=150
    ),
    "twenty, near": _Blobs(
        columns=15, apart=4.0, target=(*[0.07] * 10, *[0.03] * 10), offers=1500, target_rows=300, size=150
    ),
    "half absent": _Blobs(
        columns=6, apart=5.0, target=(0.4, 0.3, 0.2, 0.1, 0, 0, 0, 0), blobs=3, tails=4.0, offers=1000, size=100
    ),
    "half absent, near": _Blobs(columns=12, apart=3.5, target=(0.4, 0.3, 0.2, 0.1, 0, 0, 0, 0), tails=6.0),
    "two rare": _Blobs(
        columns=12, apart=5.0, target=(0.5, 0.3, 0.13, 0.05, 0.02), tails=5.0, blobs=2, target_rows=360, size=100
    ),
    "two rare, near": _Blobs(columns=5, apart=3.0, target=(0.5, 0.3, 0.13, 0.05, 0.02), target_rows=360, size=100),
    "rare among rare offers": _Blobs(
        columns=9, apart=6.0, target=(0.5, 0.46, 0.04), pool=(0.49, 0.48, 0.03), target_rows=300, size=100
    ),
    "rare and absent": _Blobs(columns=10, apart=4.5, target=(0.55, 0.35, 0.06, 0.04, 0, 0, 0), offers=1000, size=100),
    "three in ten flipped": _Blobs(columns=10, apart=6.0, target=(0.4, 0.3, 0.2, 0.1), flipped=0.3),
    "not told": _Blobs(columns=10, apart=4.0, target=(0.3, 0.3, 0.3, 0.1), pool=(0.25,) * 4, flipped=1.0),
    "binary, plain": Tilted(load=_binary(4, 1.0), target_rows=200, test_rows=1000, size=100),
    "binary, hard": Tilted(load=_binary(8, 0.5), target_rows=200, test_rows=1000, size=100),
    "wine": Tilted(load=_wine, target_rows=40, test_rows=60, size=25),
    "tumours": Tilted(load=_tumours, target_rows=80, test_rows=200, size=50),
    "ten digits": Images(
        target=dict(enumerate((20, 18, 15, 12, 10, 8, 6, 5, 4, 2))), test=dict.fromkeys(range(10), 60), offers=700
    ),
    "digits run out": Images(target={1: 30, 7: 25, 9: 15}, test={1: 60, 7: 60, 9: 60}, right=0.15, offers=300, size=50),
}
"""What the rule was made on."""
