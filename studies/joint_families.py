"""``joint-families``: matching labels, judged on families of markets and seeds that its rule was not made on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_diabetes, load_iris, make_classification, make_gaussian_quantiles

from likeset.arguments import Rows
from likeset.errors import InvalidArgument
from likeset.geometry.greedy import exact_greedy
from likeset.geometry.kernels import squared_mmd
from likeset.geometry.selection import Selection
from studies.contract import Cell, Options, Presentation, RecordLine
from studies.label_families import Draw, Images, LabelMarket, Labels, Tilted
from studies.label_judging import MEASURES, comparison_table, distance_table, judge_training, shares_table

_TEST_ROWS = 2000
_RARE_TEST_ROWS = 400
_SAMPLES = 3200


@dataclass(frozen=True, kw_only=True)
class _Clouds:
    """Normal classes, each with its own covariance.

    Attributes:
        columns: of rows.
        apart: how far centres lie from one another, about in standard deviations.
        target: shares of the classes, 0 for those that it lacks.
        pool: the same for offers; drawn anew for each seed if not given.
        moved: how far the target's classes lie from the offers' of the same name.
        flipped: share of labels that are drawn at random.
        offers: rows of the pool.
        target_rows: of the target.
        size: rows wanted.
    """

    columns: int
    apart: float
    target: Sequence[float]
    pool: Sequence[float] | None = None
    moved: float = 0.0
    flipped: float = 0.0
    offers: int = 1000
    target_rows: int = 200
    size: int = 100

    def __call__(self, coins: np.random.Generator) -> LabelMarket:
        classes, shares = len(self.target), np.array(self.target) / np.sum(self.target)
        centres = coins.normal(size=(classes, self.columns)) * self.apart / np.sqrt(2.0 * self.columns)
        moves = coins.normal(size=(classes, self.columns)) * self.moved / np.sqrt(self.columns)
        shapes = coins.normal(size=(classes, self.columns, self.columns)) * 0.6 / np.sqrt(self.columns)
        shapes += 0.8 * np.eye(self.columns)
        pool_mix = np.array(self.pool) if self.pool is not None else coins.dirichlet(np.full(classes, 3.0))

        def rows_of(codes: Labels, places: NDArray[np.float64]) -> Rows:
            noise = np.einsum("nij,nj->ni", shapes[codes], coins.normal(size=(len(codes), self.columns)))
            return np.asarray((places[codes] + noise).astype(np.float32))

        def draw(mix: NDArray[np.float64], places: NDArray[np.float64], count: int) -> tuple[Rows, Labels]:
            codes, others = (coins.choice(classes, size=count, p=mix) for _ in range(2))
            return rows_of(codes, places), np.where(coins.random(count) < self.flipped, others, codes)

        pool, labels = draw(pool_mix, centres, self.offers)
        target, _ = draw(shares, centres + moves, self.target_rows)
        test, test_labels = draw(shares, centres + moves, _TEST_ROWS)
        rare = int(np.argmin(np.where(shares > 0.0, shares, np.inf)))
        told = self.flipped == 0.0
        rare_test = rows_of(np.full(_RARE_TEST_ROWS, rare), centres + moves) if told else None
        return LabelMarket(pool, labels, target, test, test_labels, rare, self.size, rare_test)


def _classified(**options: object) -> Callable[[np.random.Generator], tuple[NDArray[np.float64], Labels]]:
    def load(coins: np.random.Generator) -> tuple[NDArray[np.float64], Labels]:
        rows, labels = make_classification(n_samples=_SAMPLES, random_state=int(coins.integers(2**31)), **options)
        return rows, labels.astype(np.int64)

    return load


def _nested(coins: np.random.Generator) -> tuple[NDArray[np.float64], Labels]:
    """Four classes, each a shell around the one before."""
    rows, labels = make_gaussian_quantiles(
        n_samples=_SAMPLES, n_features=5, n_classes=4, random_state=int(coins.integers(2**31))
    )
    return rows, labels.astype(np.int64)


def _diabetes(_: np.random.Generator) -> tuple[NDArray[np.float64], Labels]:
    """Progression in thirds."""
    rows, progression = load_diabetes(return_X_y=True)
    return rows, np.searchsorted(np.quantile(progression, [1 / 3, 2 / 3]), progression).astype(np.int64)


def _iris(_: np.random.Generator) -> tuple[NDArray[np.float64], Labels]:
    rows, labels = load_iris(return_X_y=True)
    return rows, labels.astype(np.int64)


_RARE = (0.35, 0.3, 0.2, 0.12, 0.03)
_SIX_OF_CLASSIFICATION = [0.3, 0.25, 0.2, 0.12, 0.1, 0.03]

JUDGEMENT: dict[str, Draw] = {
    "twenty classes, 150 rows": _Clouds(columns=16, apart=6.0, target=(0.05,) * 20, offers=1500, target_rows=150),
    "twenty near, 150 rows": _Clouds(columns=16, apart=4.0, target=(0.05,) * 20, offers=1500, target_rows=150),
    "five of ten absent": _Clouds(columns=10, apart=5.0, target=(0.3, 0.25, 0.2, 0.15, 0.1, *[0.0] * 5)),
    "five absent, near, moved": _Clouds(columns=10, apart=3.5, moved=0.7, target=(*[0.2] * 5, *[0.0] * 5)),
    "3% far": _Clouds(columns=8, apart=7.0, target=_RARE, target_rows=360),
    "3% near": _Clouds(columns=8, apart=3.0, target=_RARE, pool=(0.2,) * 5, target_rows=360),
    "3% near, moved": _Clouds(columns=8, apart=3.0, moved=1.0, target=_RARE, target_rows=360),
    "3% near, two absent": _Clouds(columns=12, apart=4.0, target=(*_RARE, 0.0, 0.0), target_rows=360),
    "not told": _Clouds(columns=10, apart=5.0, target=(0.4, 0.3, 0.2, 0.1), flipped=1.0),
    "hardly told": _Clouds(columns=10, apart=1.5, target=(0.4, 0.3, 0.2, 0.1)),
    "nested": Tilted(load=_nested, target_rows=200, test_rows=1000, size=100),
    "six, one of 3%": Tilted(
        load=_classified(n_features=14, n_informative=7, n_classes=6, weights=_SIX_OF_CLASSIFICATION, flip_y=0.0),
        target_rows=300,
        test_rows=1200,
        size=100,
    ),
    "binary, one of 4%": Tilted(
        load=_classified(n_features=10, n_informative=5, weights=[0.96], flip_y=0.0, class_sep=0.8),
        target_rows=360,
        test_rows=1200,
        size=120,
    ),
    "binary, many clusters": Tilted(
        load=_classified(n_features=10, n_informative=5, n_clusters_per_class=6, flip_y=0.02),
        target_rows=200,
        test_rows=1000,
        size=100,
    ),
    "diabetes in thirds": Tilted(load=_diabetes, target_rows=80, test_rows=150, size=40),
    "iris": Tilted(load=_iris, target_rows=30, test_rows=50, size=15),
    "images, 0 2 5 and few 6": Images(target={0: 40, 2: 30, 5: 27, 6: 3}, test=dict.fromkeys((0, 2, 5, 6), 80)),
    "images, 7 and 9": Images(target={7: 50, 9: 20}, test={7: 70, 9: 70}, offers=800),
}
"""What judges the rule, with seeds from 5000 on."""


def market_of(family: str, seed: int) -> LabelMarket:
    """The market of a family and seed."""
    return JUDGEMENT[family](np.random.default_rng([seed, 100 + list(JUDGEMENT).index(family)]))


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
