"""A study that compares methods on one data set: by seed, size and kernel, as the paper's figures do."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from likeset.geometry.kernels import median_gamma
from likeset.simulation import Task
from studies.comparison_page import present_comparison
from studies.contract import Cell, Options, Presentation, RecordLine
from studies.data.sources import SOURCES, cached_market
from studies.judging import judgement
from studies.methods import METHODS, Method, find_methods

MAIN_METHODS = ("exact", "greedy", "protodash", "sealed", "uniform-offers", "private", "uniform")
FURTHER_METHODS = ("pooled", "sealed-hashed", "private-sound", "private-silent")
_REVISION = 1
_OFFER_FACTOR = 10.0


@dataclass(frozen=True, slots=True)
class Width:
    """The kernel of the selection: a gamma, or gamma times the target's median squared distance."""

    gamma: float | None = None
    scale: float | None = None


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Methods compared on the markets of one data set.

    Attributes:
        name: of the study.
        description: one line.
        title: of its page.
        words: of its page, after what holds for all.
        data: name of the data set.
        variants: of its market.
        seeds: how many, if the user does not say.
        sizes: of summaries.
        epsilons: for methods that take one.
        widths: of the kernel.
        methods: of the registry.
        seeds_of: fewer seeds for some methods.
        seeds_at: fewer seeds for some variants at some epsilons.
        rows_per_owner: at most; None for all.
        offers: rows that each owner offers; by default ten for each row of the summary, shared by all owners.
        offers_of: the same for some variants.
        first_seed: where a rule was made on the seeds before it.
    """

    name: str
    description: str
    title: str
    words: Sequence[str] = ()
    data: str
    variants: Sequence[str]
    seeds: int
    sizes: Sequence[int]
    epsilons: Sequence[float] = (1.0,)
    widths: Sequence[Width]
    methods: Sequence[str] = MAIN_METHODS
    seeds_of: Mapping[str, int] = field(default_factory=dict)
    seeds_at: Mapping[tuple[str, float | None], int] = field(default_factory=dict)
    rows_per_owner: int | None = None
    offers: int | None = None
    offers_of: Mapping[str, int] = field(default_factory=dict)
    first_seed: int = 0

    def cells(self, options: Options) -> Sequence[Cell]:
        """Seed after seed, so that a run that is stopped has told something about everything."""
        source = SOURCES[self.data]
        source.check(self.name, options.data)
        methods = find_methods(options.methods or self.methods)
        digest = source.digest(options.data)
        settings = [
            setting
            for number in range(options.seeds or self.seeds)
            for variant in self.variants
            for width in self.widths
            for method in methods
            for setting in self._settings(method, options, variant=variant, width=width, seed=self.first_seed + number)
            if self._is_wanted(setting, number)
        ]
        return [
            Cell(
                self.name, {"revision": _REVISION, "data": self.data, "digest": digest, **setting}, source=options.data
            )
            for setting in settings
        ]

    def _is_wanted(self, setting: Mapping[str, Any], number: int) -> bool:
        """Whether the seed of that number is among those of the method, and of the variant at that epsilon."""
        of_method = self.seeds_of.get(setting["method"], number + 1)
        return number < min(of_method, self.seeds_at.get((setting["market"], setting["epsilon"]), number + 1))

    def _settings(
        self, method: Method, options: Options, *, variant: str, width: Width, seed: int
    ) -> Iterator[dict[str, Any]]:
        sizes = tuple(options.sizes or self.sizes)
        epsilons = tuple(options.epsilons or self.epsilons)
        for size in sizes if method.sized else sizes[-1:]:
            for epsilon in epsilons if method.budgeted else (None,):
                yield {
                    "market": variant,
                    "rows_per_owner": self.rows_per_owner,
                    "seed": seed,
                    "size": size,
                    "scale": width.scale,
                    "gamma": width.gamma,
                    "method": method.name,
                    "epsilon": epsilon,
                    "offers": self.offers_of.get(variant, self.offers) if method.offers else None,
                }

    def run(self, cell: Cell) -> dict[str, Any]:
        """One method on one market, judged."""
        market = cached_market(cell["data"], cell.source, cell["market"], cell["seed"], cell["rows_per_owner"])
        gamma = cell["gamma"]
        if gamma is None:
            gamma = median_gamma(market.target, scale=cell["scale"], coins=np.random.default_rng(0))
        size = cell["size"]
        task = Task(
            market=market,
            size=size,
            gamma=gamma,
            offers=cell["offers"] or math.ceil(_OFFER_FACTOR * size / len(market.owners)),
            epsilon=cell["epsilon"] or 1.0,
            seed=cell["seed"],
        )
        return judgement(task, METHODS[cell["method"]].run(task))

    def present(self, lines: Sequence[RecordLine], out: Path) -> Presentation:
        """A page with a figure and a table for each market and kernel."""
        return present_comparison(lines, out, title=self.title, words=self.words)
