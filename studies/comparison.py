"""A study that compares methods on one data set: by seed, size and kernel, as the paper's figures do."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from likeset.geometry.kernels import median_gamma
from likeset.simulation import DELTA, Task
from studies.contract import SIMULATED, SIMULATED_SENTENCE, Cell, Options, Presentation, RecordLine, Table
from studies.data.sources import SOURCES, cached_market
from studies.judging import judgement
from studies.methods import METHODS, Method, find_methods
from studies.pages import COLOURS, draw_panels, mean_curve, spread

MAIN_METHODS = ("exact", "greedy", "protodash", "sealed", "uniform-offers", "private", "uniform")
FURTHER_METHODS = ("pooled", "sealed-hashed", "private-hashed", "private-sound", "private-silent")
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
        """Ordered by seed, so that a run that stops early has results of every cell of some seeds."""
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
        """For each market and kernel a figure like the paper's and a table of all finished cells."""
        done = [line for line in lines if line.done]
        groups: dict[str, list[RecordLine]] = {}
        for line in done:
            kernel = f"gamma·median = {line['scale']:g}" if line["scale"] else f"gamma = {line.settings['gamma']:g}"
            groups.setdefault(f"{line['market']}, {kernel}", []).append(line)
        figures, tables = {}, []
        for name, mine in groups.items():
            path = out / (name.translate(str.maketrans(" ·", "-_", ",=")) + ".svg")
            figures[_draw(mine, path, title=f"{self.title}: {name}")] = f"{name}: MMD² and accuracies; {SIMULATED}"
            rows = [row for size in sorted({line["size"] for line in mine}) for row in _rows(mine, size)]
            tables.append(Table(name, _COLUMNS, rows, SIMULATED_SENTENCE, _BRIEF))
        return Presentation(self.title, [_READING, *_setting(done), *self.words], tables, figures)


Series = tuple[str, float | None, int | None]
"""A method, its epsilon, and the rows that each owner offers."""

_COLUMNS = (
    "method",
    "size",
    "MMD² to target",
    "over paper's greedy",
    "over exact",
    "MMD² to held-out",
    "SVM",
    "balanced",
    "AUC",
    "net",
    "access",
    "ε target (basis)",
    "ε owners (basis)",
    "seeds",
)
_BRIEF = (0, 1, 2, 3, 6, 10)  # method, size, MMD², over the paper's greedy, SVM, access
_READING = (
    "MMD² is the squared distance of the summary from the target and, beside it, from held-out rows like the "
    "target's, that nobody saw. Percentages are over greedy with the same seed and size: over the paper's (140 "
    "Fourier features) and over exact greedy. SVM: the accuracy of a linear one, then its balanced accuracy and, of "
    "two classes, its AUC. Net: one hidden layer of 32 units with dropout 0.2 "
    "on the hidden layer, written for this, since scikit-learn's has none. Both are trained on the summary and tested "
    "on the held-out rows. Access: rows that the curator saw and the target's, over rows bought and the target's. "
    f"ε: what owners together can learn about a row of the target and about a row of another owner, at δ = {DELTA:g}, "
    "replace-one, with its basis. Mean ± standard deviation over seeds."
)


def _by_series(lines: Iterable[RecordLine]) -> dict[Series, list[RecordLine]]:
    """Lines of each method, in the order of the registry."""
    found: dict[Series, list[RecordLine]] = {}
    for line in lines:
        found.setdefault((line["method"], line["epsilon"], line["offers"]), []).append(line)
    order = list(METHODS)
    return dict(sorted(found.items(), key=lambda entry: (order.index(entry[0][0]), entry[0][1] or 0, entry[0][2] or 0)))


def _label(series: Series) -> str:
    method, epsilon, offers = series
    words = METHODS[method].label + ("" if epsilon is None else f", ε = {epsilon:g}")
    return words if offers is None else f"{words}, {offers} each"


def _increase(lines: Sequence[RecordLine], mine: Sequence[RecordLine], over: str) -> dict[int, list[float]]:
    """By how many percent MMD² lies above that of another method with the same seed, by size."""
    base = {(line["seed"], line["size"]): line["squared_mmd"] for line in lines if line["method"] == over}
    increases: dict[int, list[float]] = {}
    for line in mine:
        if (pair := (line["seed"], line["size"])) in base:
            increases.setdefault(line["size"], []).append(100.0 * (line["squared_mmd"] / base[pair] - 1.0))
    return dict(sorted(increases.items()))


def _draw(lines: Sequence[RecordLine], path: Path, *, title: str) -> Path:
    """The paper's two panels, and the linear SVM."""

    def fill(panels: Any) -> None:
        for series, mine in _by_series(lines).items():
            if not METHODS[series[0]].sized:
                continue
            style = {"color": COLOURS.get(series[0]), "marker": ".", "linewidth": 1.6, "label": _label(series)}
            mean_curve(panels[0], _increase(lines, mine, "greedy"), **style)
            for axes, result in zip(panels[1:], ("net", "svm"), strict=True):
                sizes = sorted({line["size"] for line in mine})
                mean_curve(axes, {n: [line[result] for line in mine if line["size"] == n] for n in sizes}, **style)
        headings = ("Increase of MMD² over the paper's greedy, %", "Accuracy: net, 32 hidden units", "Linear SVM")
        for axes, heading in zip(panels, headings, strict=True):
            axes.set(title=heading, xlabel="rows in the summary")
        panels[0].set_yscale("symlog", linthresh=100.0)  # 10% and 5,000% are both to be read
        handles, names = panels[1].get_legend_handles_labels()
        panels[0].figure.legend(handles, names, loc="outside right upper", fontsize=8.5)

    note = f"Means over up to {len({line['seed'] for line in lines})} seeds; bars: one standard deviation."
    return draw_panels(path, fill, columns=3, title=title, note=note)


def _rows(lines: Sequence[RecordLine], size: int) -> Iterator[tuple[str, ...]]:
    here = [line for line in lines if line["size"] == size]
    for series, mine in _by_series(here).items():
        known = set.intersection(*(set(line.results) for line in mine))
        figures = {
            name: spread([line[name] for line in mine], form) if name in known else "-"
            for name, form in (
                ("squared_mmd", ".5f"),
                ("squared_mmd_test", ".5f"),
                *((name, ".3f") for name in ("svm", "svm_balanced", "svm_auc", "net")),
            )
        }
        increases = []
        for over in ("greedy", "exact"):
            values = _increase(here, mine, over).get(size)
            increases.append("0%" if series[0] == over else f"{fmean(values):+.0f}%" if values else "-")
        distance, held_out, *accuracies = figures.values()
        yield (
            _label(series),
            str(size),
            distance,
            *increases,
            held_out,
            *accuracies,
            f"{fmean(line['access_ratio'] for line in mine):.1f}",
            *(_guarantee(mine[0][name]) for name in ("target_guarantee", "owner_guarantee")),
            str(len(mine)),
        )


def _guarantee(stated: Mapping[str, Any]) -> str:
    epsilon, basis = stated["epsilon"], stated["basis"]
    if epsilon is None:
        return str(basis) if basis == "none" else f"none ({basis})"
    return f"{epsilon:g} ({basis})"


def _setting(lines: Sequence[RecordLine]) -> list[str]:
    """What the markets were, as the lines say it."""
    if not lines:
        return ["No cell has finished."]
    words = []
    for market in dict.fromkeys(line["market"] for line in lines):
        first = next(line for line in lines if line["market"] == market)
        at_most = f", at most {first['rows_per_owner']} each" if first["rows_per_owner"] else ""
        offers = sorted({line["offers"] for line in lines if line["market"] == market and line["offers"]})
        offered = " or ".join(map(str, offers)) or "10 p / K"
        words.append(
            f"{market}: {len(first['owner_shares'])} owners with {first['pool_rows']} rows together{at_most}; a target "
            f"of {first['target_rows']} rows; each owner offers {offered} rows in `sealed` (K owners, p rows wanted)"
        )
    return [f"Data: {lines[0]['data']} (digest {lines[0]['digest']}). " + ". ".join(words) + "."]
