"""The page of ``frontier``: a figure, tables, and how well the advice does."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from studies.contract import Presentation, RecordLine, Table
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
from studies.frontier_market import base_of
from studies.pages import draw_panels, plain_log_axis

LABELS = {
    "sealed": "sealed",
    "sealed-hashed": "sealed, hash-only",
    "uniform-offers": "uniform offers (epsilon = 0)",
    "private-silent": "interactive, summary not released",
    "private-sound": "interactive, sound",
    "private": "interactive, published (owners: no guarantee)",
    "uniform": "uniform sampling (epsilon = 0)",
}
_COLOURS = {
    "sealed": "#0b8457",
    "sealed-hashed": "#7ac29a",
    "uniform-offers": "#b5a300",
    "private-silent": "#c67bb5",
    "private-sound": "#f28e2b",
    "private": "#d62839",
    "uniform": "#8d5b3e",
}
_EPSILON_TICKS = [0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0]
_RATIO_TICKS = [1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0]


def draw_frontier(
    points: Sequence[Point], bases: Sequence[dict[str, float]], path: Path, *, pool: int, note: str
) -> Path:
    """MMD² over exact greedy's against the proven epsilon, a panel for each share of right rows."""

    def fill(panels: Any) -> None:
        for axes, base in zip(panels[0], bases, strict=True):
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
        for axes in panels[0]:
            axes.set_ylim(0.85, 1.25 * max(shown))
        panels[0][0].set_ylabel("held-out MMD² over exact greedy's")
        handles, names = panels[0][0].get_legend_handles_labels()
        for size in (1.0, 4.0):
            handles.append(panels[0][0].scatter([], [], s=_area(size), color="#aaaaaa"))
            names.append(f"access ratio {size:g}")
        panels[0][0].figure.legend(handles, names, loc="outside right upper", fontsize=8.5)

    base = bases[0]
    title = (
        f"Quality against privacy: m = {base['target']:g}, K = {base['owners']:g}, p = {base['size']:g}, "
        f"{base['offer_factor']:g} offers per row"
    )
    return draw_panels(path, fill, columns=len(bases), title=title, note=note, width=6.6, height=5.0)


def _frontier_curve(axes: Any, mine: Sequence[Point], method: str, label: str) -> None:
    colour = _COLOURS[method]
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
    """A figure and tables of whatever was run."""
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


def _spread(point: Point) -> str:
    return f"{point.ratio:.2f} ± {point.spread:.2f}" if point.seeds > 1 else f"{point.ratio:.2f}"


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
                _spread(point),
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
