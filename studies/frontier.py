"""``frontier``: how near a summary comes to the target, against what is proven, one factor at a time.

Bundled images by default, on a grid that their 1,797 rows allow; with ``--data mnist.npz`` the full one, around 360
target rows, 5 owners and 200 rows wanted: about 45 minutes of one core for each of its two seeds.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from likeset.geometry.kernels import median_gamma, squared_mmd
from likeset.simulation import Task
from studies.contract import Cell, Options, Presentation, RecordLine, Table
from studies.frontier_fit import (
    FACTORS,
    NO_NOISE,
    Fit,
    Gain,
    Point,
    agreement,
    fit_in_use,
    fit_signal,
    halves,
    measured_gains,
    points_of,
    residual,
)
from studies.frontier_market import RIGHT, Setting, base_of, grid_for, load_images, market_of
from studies.methods import METHODS, find_methods
from studies.pages import COLOURS, draw_panels, plain_log_axis

_METHODS = (
    "exact",
    "uniform",
    "uniform-offers",
    "sealed",
    "sealed-hashed",
    "private-silent",
    "private-sound",
    "private",
)
_EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
_FEW_EPSILONS = (0.25, 1.0, 4.0)
_SCALE = 3.0  # gamma times the target's median squared distance
_SEEDS = 2
_MOST_ROUNDS = 500  # rounds of interactive
_MOST_BIDS = 4000  # rounds times owners: each bid is a message and each answer is on disk


class Frontier:
    """The study."""

    name = "frontier"
    description = "squared MMD against proven epsilon, by protocol, target, owners, size and offers"

    def cells(self, options: Options) -> Sequence[Cell]:
        """Seed by seed and setting by setting: cells of one market follow each other, and it is made once."""
        pictures = load_images(options.data)
        grid = grid_for(pictures)
        wanted = [method.name for method in find_methods(options.methods or _METHODS)]
        cells = []
        for seed in range(options.seeds or _SEEDS):
            for factor, setting in grid.settings():
                if options.sizes is not None and setting.size not in options.sizes:
                    continue
                for method in wanted:
                    for epsilon in _epsilons(method, setting, grid.base, options.epsilons):
                        settings = {
                            "data": pictures.name,
                            "digest": pictures.digest,
                            "factor": factor,
                            **asdict(setting),
                            "pool": grid.pool,
                            "method": method,
                            "epsilon": epsilon,
                            "seed": seed,
                            "revision": 1,
                        }
                        cells.append(Cell(self.name, settings, source=options.data))
        return cells

    def run(self, cell: Cell) -> dict[str, Any]:
        """One method in one market."""
        setting = Setting(*(cell[name] for name in Setting.__slots__))
        market = market_of(cell.source, setting, cell["seed"])
        gamma = median_gamma(market.target, scale=_SCALE, coins=np.random.default_rng(0))
        task = Task(
            market=market,
            size=setting.size,
            gamma=gamma,
            offers=math.ceil(setting.offer_factor * setting.size / len(market.owners)),
            epsilon=cell["epsilon"] or 0.0,
            seed=cell["seed"],
        )
        picks = METHODS[cell["method"]].run(task)
        rows, labels = market.pool[picks.indices], market.pool_labels[picks.indices]
        return {
            "squared_mmd": squared_mmd(rows, market.target, gamma=gamma),
            "squared_mmd_held_out": squared_mmd(rows, market.test, gamma=gamma),
            "right_share": float(np.isin(labels, list(RIGHT)).mean()),
            "rows_seen": picks.rows_seen,
            "access_ratio": (picks.rows_seen + setting.target) / (setting.size + setting.target),
            "target_guarantee": asdict(picks.target),
            "owner_guarantee": asdict(picks.owners),
            "owners_present": len(market.owners),
            "selected": len(rows),
        }

    def present(self, lines: Sequence[RecordLine], out: Path) -> Presentation:
        """Tables and figures: the frontier, the factors, and the formula behind the advice."""
        return present_frontier(lines, out)


def _epsilons(
    method: str, setting: Setting, base: Setting, wished: tuple[float, ...] | None
) -> tuple[float | None, ...]:
    """The budgets at which a method is tried; None if it has none, nothing where it would take too long."""
    if method.startswith("private"):
        too_long = setting.size > _MOST_ROUNDS or setting.size * setting.owners > _MOST_BIDS
        if too_long or setting.offer_factor != base.offer_factor:  # offers are of the sealed protocol alone
            return ()
        # What is released about the summary changes little but the time it takes: with the base's owners only.
        if method != "private-silent" and setting.owners != base.owners:
            return ()
    if not METHODS[method].budgeted:
        return (None,)
    if method == "sealed":
        return (*(wished or _EPSILONS), NO_NOISE)
    return wished or _FEW_EPSILONS


LABELS = {
    "sealed": "sealed",
    "sealed-hashed": "sealed, hash-only",
    "uniform-offers": "uniform offers (epsilon = 0)",
    "private-silent": "interactive, summary not released",
    "private-sound": "interactive, sound",
    "private": "interactive, published (owners: no guarantee)",
    "uniform": "uniform sampling (epsilon = 0)",
}
_EPSILON_TICKS = [0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0]
_RATIO_TICKS = [1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0]


def draw_frontier(
    points: Sequence[Point], bases: Sequence[dict[str, float]], path: Path, *, pool: int, note: str
) -> Path:
    """MMD² over exact greedy's against the proven epsilon, a panel for each share of right rows."""

    def fill(panels: Any) -> None:
        for axes, base in zip(panels, bases, strict=True):
            for method, label in LABELS.items():
                mine = [
                    point for point in points if point.method == method and point.at(base) and point.epsilon != NO_NOISE
                ]
                if mine:
                    _frontier_curve(axes, mine, method, label)
            axes.axhline(1.0, color="#1b2a41", linewidth=1.0)
            axes.text(0.082, 0.985, "exact greedy", fontsize=8.5, color="#1b2a41", va="top")
            plain_log_axis(axes.xaxis, _EPSILON_TICKS)
            plain_log_axis(axes.yaxis, _RATIO_TICKS)
            axes.set(xlabel="epsilon proven for the target's rows, toward owners", xlim=(0.08, 10.0))
            axes.set_title(f"right rows: 1 in {round(pool / base['right'])}")
        shown = [point.ratio + point.spread for point in points if any(point.at(base) for base in bases)]
        for axes in panels:
            axes.set_ylim(0.85, 1.25 * max(shown))
        panels[0].set_ylabel("held-out MMD² over exact greedy's")
        handles, names = panels[0].get_legend_handles_labels()
        for size in (1.0, 4.0):
            handles.append(panels[0].scatter([], [], s=_area(size), color="#aaaaaa"))
            names.append(f"access ratio {size:g}")
        panels[0].figure.legend(handles, names, loc="outside right upper", fontsize=8.5)

    base = bases[0]
    title = (
        f"Quality against privacy: m = {base['target']:g}, K = {base['owners']:g}, p = {base['size']:g}, "
        f"{base['offer_factor']:g} offers per row"
    )
    return draw_panels(path, fill, columns=len(bases), title=title, note=note, width=6.6, height=5.0)


def _frontier_curve(axes: Any, mine: Sequence[Point], method: str, label: str) -> None:
    colour = COLOURS[method]
    ordered = sorted(mine, key=lambda point: point.proven or 0.0)
    if (ordered[0].proven or 0.0) == 0.0:
        # A logarithmic axis has no zero: what costs nothing is a level line.
        axes.axhline(ordered[0].ratio, color=colour, linestyle="--", linewidth=1.4, label=label)
        axes.scatter([0.085], [ordered[0].ratio], s=_area(ordered[0].access), color=colour, marker="<", clip_on=False)
        return
    x, y = [point.proven for point in ordered], [point.ratio for point in ordered]
    axes.errorbar(x, y, yerr=[point.spread for point in ordered], color=colour, linewidth=1.3, capsize=2, alpha=0.8)
    whole = ordered[0].owners_proven is not None
    axes.scatter(
        x,
        y,
        s=[_area(point.access) for point in ordered],
        facecolor=colour if whole else "white",
        edgecolor=colour,
        linewidth=1.5,
        label=label,
        zorder=3,
    )


def _area(access: float) -> float:
    return 16.0 * access


MARGIN = 1.5
"""Noise within this factor of the signal: either word is as good."""


def present_frontier(lines: Sequence[RecordLine], out: Path) -> Presentation:
    """A figure and tables of the cells that were run."""
    done = [line for line in lines if line.done]
    points, gains = points_of(done), measured_gains(done)
    pool, data = done[0]["pool"], done[0]["data"]
    rights = sorted({point.setting["right"] for point in points}, reverse=True)
    bases = [{**asdict(base_of(data)), "right": right} for right in rights]
    note = (
        f"Data: {data}, {pool:,} rows in all; gamma·median = 3, delta = 1e-5, replace-one; "
        f"{_seeds_in_words(done)}. Numbers: cells.jsonl."
    )
    figures = {
        draw_frontier(points, bases, out / "frontier.svg", pool=pool, note=note): (
            "MMD² over exact greedy's against the proven epsilon, by protocol; area: access ratio."
        ),
    }
    tables = [_base_table(points, base, pool) for base in bases] + [_settings_table(points)]
    if len({gain.setting for gain in gains}) >= 2:
        first, second = halves(gains)
        tables.append(_fit_table(first, second))
    return Presentation(
        "Quality against privacy",
        [
            "Target: 3s and 4s at 0.7/0.3. Every digit is dealt to the owners in proportions of its own "
            "(Dirichlet, 0.3). MMD² is to held-out rows of the target's kind, which no method saw. Exact greedy sees "
            "all rows and does not swap at the end, as the curator of sealed does: less than 1 is possible.",
            "interactive and the published protocol were run up to 500 rounds and 4,000 bids.",
        ],
        tables,
        figures,
    )


def _seeds_in_words(lines: Sequence[RecordLine]) -> str:
    """How many seeds the means are over: not all cells need have been run with all."""
    seeds = len({line["seed"] for line in lines})
    return "one seed" if seeds == 1 else f"means over up to {seeds} seeds, bars: one standard deviation"


def _epsilon(value: float | None) -> str:
    return "none" if value is None else f"{value:.3g}"


def _base_table(points: Sequence[Point], base: dict[str, float], pool: int) -> Table:
    rows = []
    for method, label in LABELS.items():
        mine = [point for point in points if point.method == method and point.at(base)]
        for point in sorted(mine, key=lambda point: point.epsilon or 0.0):
            name = "sealed, no noise (not private)" if point.epsilon == NO_NOISE else label
            proven = "-" if point.epsilon == NO_NOISE else _epsilon(point.proven)
            cells = [
                f"{point.ratio:.2f}" + (f" ± {point.spread:.2f}" if point.seeds > 1 else ""),
                f"{point.right_share:.2f}",
                f"{point.access:.1f}",
                str(point.seeds),
            ]
            rows.append([name, proven, _epsilon(point.owners_proven), *cells])
    where = (
        f"m = {base['target']:g}, K = {base['owners']:g}, p = {base['size']:g}, {base['offer_factor']:g} offers a row"
    )
    return Table(
        f"At the base, right rows 1 in {round(pool / base['right'])}: {where}",
        [
            "protocol",
            "epsilon, target",
            "epsilon, owners",
            "MMD² over exact greedy's",
            "right digits",
            "access ratio",
            "seeds",
        ],
        rows,
    )


def _settings_table(points: Sequence[Point]) -> Table:
    """Every setting with uniform offers and sealed at some budgets."""
    settings = list(
        {tuple(point.setting.items()): point.setting for point in points if point.method == "sealed"}.values()
    )
    epsilons = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, NO_NOISE)
    rows = []
    for setting in settings:
        mine = {(point.method, point.epsilon): point for point in points if point.setting == setting}
        cells = [mine.get(("uniform-offers", None)), *(mine.get(("sealed", epsilon)) for epsilon in epsilons)]
        rows.append(
            [
                ", ".join(f"{setting[name]:g}" for name in (*FACTORS, "right")),
                *("-" if point is None else f"{point.ratio:.2f}" for point in cells),
                str(max(point.seeds for point in cells if point is not None)),
            ]
        )
    heads = [f"sealed {epsilon:g}" for epsilon in epsilons[:-1]]
    return Table(
        "MMD² over exact greedy's in every setting",
        ["m, K, p, offers per row, right rows", "uniform offers", *heads, "no noise", "seeds"],
        rows,
    )


def _fit_table(first: Sequence[Gain], second: Sequence[Gain]) -> Table:
    fits = {
        "fitted to one half of the settings": fit_signal(first),
        "fitted to the other half": fit_signal(second),
        "fitted to all": fit_signal([*first, *second]),
        "what the advice uses": fit_in_use(),
        "if noise did nothing": Fit(1e9, 0.0),
        "if a release never gained anything": Fit(1e-9, 0.0),
    }
    rows = []
    for name, fit in fits.items():
        known = 1e-6 < fit.signal < 1e6
        words = [f"{fit.signal:.3f}", f"{fit.power:.2f}"] if known else ["-", "-"]
        errors = [f"{residual(gains, fit):.3f}" for gains in (first, second)]
        agreed = ["{} of {}".format(*agreement(gains, fit=fit, margin=MARGIN)) for gains in (first, second)]
        rows.append([name, *words, *errors, *(agreed if known else ["-", "-"])])
    return Table(
        "The formula behind the advice: share kept of the gain = 1 / (1 + (noise/signal)²)",
        [
            "formula",
            "signal at 10 offers per row",
            "power of the offers",
            "RMS error of log MMD², one half",
            "the other half",
            "advice right, one half",
            "the other half",
        ],
        rows,
        "Advice: a release pays where noise is at most the signal; right where the release kept half of its gain. "
        "Left out of the last two columns: settings where even a release without noise gains less than a tenth, and "
        f"noise within a factor {MARGIN:g} of the signal.",
    )


STUDY = Frontier()
