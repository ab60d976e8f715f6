"""Markets of the frontier: one factor at a time, the same images dealt anew for each seed."""

from dataclasses import asdict, dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from likeset.arguments import Rows
from likeset.errors import InvalidArgument
from likeset.simulation import LabelledMarket
from studies.data import images

RIGHT = {3: 0.7, 4: 0.3}
"""The target's digits and their shares, as in the paper."""

_SKEW = 0.3  # of the Dirichlet law by which each digit is dealt to owners
_SEED_ROWS = 150


@dataclass(frozen=True, eq=False)
class ImagePool:
    """Images as rows of pixels between 0 and 1, their digits, and what they are called in the record."""

    name: str
    digest: str
    rows: Rows
    digits: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Setting:
    """What a market and a run look like, apart from the protocol.

    Attributes:
        target: rows of the target (the paper's m).
        owners: how many are dealt rows (K); one who gets none is not there.
        size: rows wanted (p).
        offer_factor: rows offered per row wanted.
        right: rows of the target's digits that the owners hold in all.
    """

    target: int
    owners: int
    size: int
    offer_factor: float
    right: int


@dataclass(frozen=True, slots=True)
class Grid:
    """One factor at a time around a base.

    Attributes:
        base: where every factor but one stays.
        targets, owners, sizes, offer_factors: values of each factor.
        rights: each of the above is done once for each of these.
        pool: rows of all owners together.
        held_out: rows of the target's kind that nobody has.
    """

    base: Setting
    targets: tuple[int, ...]
    owners: tuple[int, ...]
    sizes: tuple[int, ...]
    offer_factors: tuple[float, ...]
    rights: tuple[int, ...]
    pool: int
    held_out: int

    def settings(self) -> list[tuple[str, Setting]]:
        """Each setting once, with the factor that it varies; the base comes first."""
        settings: list[tuple[str, Setting]] = []
        for right in self.rights:
            base = replace(self.base, right=right)
            settings.append(("base", base))
            for factor, values in (
                ("target", self.targets),
                ("owners", self.owners),
                ("size", self.sizes),
                ("offer_factor", self.offer_factors),
            ):
                changed = (Setting(**{**asdict(base), factor: value}) for value in values)
                settings += [(factor, setting) for setting in changed if setting != base]
        return settings


_FULL = Grid(
    base=Setting(target=360, owners=5, size=200, offer_factor=10.0, right=6000),
    targets=(50, 100, 200, 360, 700, 2000),
    owners=(5, 20, 100, 500),
    sizes=(50, 100, 200, 500, 1000, 2000),
    offer_factors=(3.0, 10.0, 30.0),
    rights=(600, 6000),
    pool=30_000,
    held_out=1000,
)
"""For MNIST: a pool with as many right images as MNIST has, one in five, and one with one in fifty."""

_SMALL = Grid(
    base=Setting(target=60, owners=5, size=30, offer_factor=10.0, right=150),
    targets=(20, 40, 60, 120),
    owners=(5, 20, 50),
    sizes=(15, 30, 60),
    offer_factors=(5.0, 10.0, 20.0),
    rights=(40, 150),
    pool=1320,
    held_out=60,
)
"""For the 1,797 images that come with scikit-learn: 364 of them are of the target's digits."""


def grid_for(pictures: ImagePool) -> Grid:
    """The grid that a set of images has enough rows for."""
    for grid in (_FULL, _SMALL):
        if len(pictures.rows) >= grid.pool + grid.held_out + max(grid.targets):
            return grid
    raise InvalidArgument("--data", pictures.name, "has too few images: 1,500 are needed, 330 of them 3s and 4s")


def base_of(data: str) -> Setting:
    """The base of the grid of a data set, by the name in its record."""
    return (_SMALL if data == "digits" else _FULL).base


@lru_cache(maxsize=1)
def load_images(source: str | None) -> ImagePool:
    """The bundled images or, given a source, MNIST: training and test images together."""
    loaded = images.bundled_images() if source is None else images.mnist_images(source)
    return ImagePool(
        name="digits" if source is None else "mnist",
        digest=loaded.digest,
        rows=np.concatenate([loaded.train, loaded.test]),
        digits=np.concatenate([loaded.train_digits, loaded.test_digits]),
    )


@lru_cache(maxsize=1)
def market_of(source: str | None, setting: Setting, seed: int) -> LabelledMarket:
    """The market of a setting and a seed: target and held-out rows first, the rest dealt to the owners."""
    pictures = load_images(source)
    grid = grid_for(pictures)
    coins = np.random.default_rng([seed, 0])
    wanted: list[NDArray[np.int64]] = []
    held: list[NDArray[np.int64]] = []
    left: list[NDArray[np.int64]] = []
    for digit, share in RIGHT.items():
        rows = coins.permutation(np.flatnonzero(pictures.digits == digit))
        ends = np.cumsum([round(share * setting.target), round(share * grid.held_out)])
        for part, kept in zip(np.split(rows, ends), (wanted, held, left), strict=True):
            kept.append(part)
    right = coins.permutation(np.concatenate(left))[: setting.right]
    others = _others(pictures, seed)
    pool = np.concatenate([right, others[_SEED_ROWS : _SEED_ROWS + grid.pool - len(right)]])
    owned = _deal(pictures.digits, pool, setting.owners, np.random.default_rng([seed, 1]))
    test = np.concatenate(held)
    return LabelledMarket(
        owners={name: pictures.rows[rows] for name, rows in owned.items()},
        labels={name: pictures.digits[rows] for name, rows in owned.items()},
        target=pictures.rows[coins.permutation(np.concatenate(wanted))],
        test=pictures.rows[test],
        test_labels=pictures.digits[test],
        public=pictures.rows[others[:_SEED_ROWS]],
    )


def _others(pictures: ImagePool, seed: int) -> NDArray[np.int64]:
    """Images of the other digits in an order of the seed's; the first are nobody's."""
    return np.random.default_rng([seed, 2]).permutation(np.flatnonzero(~np.isin(pictures.digits, list(RIGHT))))


def _deal(
    digits: NDArray[np.int64], pool: NDArray[np.int64], owners: int, coins: np.random.Generator
) -> dict[str, NDArray[np.int64]]:
    """Each digit is dealt in proportions of its own, so that owners differ in kind and in size."""
    dealt: list[list[NDArray[np.int64]]] = [[] for _ in range(owners)]
    for digit in np.unique(digits[pool]):
        rows = coins.permutation(pool[digits[pool] == digit])
        ends = np.cumsum(coins.dirichlet(np.full(owners, _SKEW)))[:-1] * len(rows)
        for number, part in enumerate(np.split(rows, ends.astype(int))):
            dealt[number].append(part)
    joined = {f"owner-{number}": coins.permutation(np.concatenate(parts)) for number, parts in enumerate(dealt)}
    return {name: rows for name, rows in joined.items() if len(rows)}
