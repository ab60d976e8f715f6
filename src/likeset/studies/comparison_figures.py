"""Figures like the paper's: MMD² over greedy and accuracy, against the size of the summary."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

from likeset.studies.contract import SIMULATED, Line
from likeset.studies.methods import METHODS
from likeset.studies.series import Series, increase, label, points

__all__ = ["COLOURS", "draw_comparison"]

COLOURS = {
    "exact": "#1b2a41",
    "greedy": "#4c78a8",
    "protodash": "#9ecae9",
    "pooled": "#8c8c8c",
    "sealed": "#0b8457",
    "sealed-hashed": "#7ac29a",
    "uniform-offers": "#b5a300",
    "private": "#d62839",
    "private-sound": "#f28e2b",
    "private-silent": "#c67bb5",
    "uniform": "#8d5b3e",
}
_MARKERS = {"private": "o", "uniform": "s", "greedy": "D", "sealed": "^", "exact": "v"}
_DASHES = {"protodash": "--", "pooled": ":", "sealed-hashed": "--", "private-sound": "--", "private-silent": ":"}
_STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11.0,
    "axes.titleweight": "bold",
    "axes.grid": True,
    "grid.alpha": 0.25,
    "svg.hashsalt": "likeset",
}
_STEPS = (-90, -50, 0, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 100_000)


def draw_comparison(lines: Sequence[Line], series: Sequence[Series], path: Path, *, title: str) -> None:
    """Four panels: percentages as in the paper, the same in absolute numbers, and two classifiers."""
    sizes = sorted({line["size"] for line in lines})
    seeds = len({line["seed"] for line in lines})
    with rc_context(_STYLE):
        figure = Figure(figsize=(12.5, 8.2))
        grid = figure.subplots(2, 2)
        drawn: dict[str, Any] = {}

        def panel(axes: Any, values: Callable[[Series], Mapping[int, Sequence[float]]]) -> None:
            for place, one in enumerate(series):
                curve = values(one)
                if curve:
                    drawn[label(one)] = _curve(axes, one, curve, sizes, nudge=place - len(series) / 2)
            axes.set_xticks(sizes, [str(size) for size in sizes])
            axes.xaxis.set_minor_locator(NullLocator())
            axes.set_xlabel("rows in the summary")

        panel(grid[0, 0], lambda one: increase(lines, one, over="greedy", result="squared_mmd"))
        _percentages(grid[0, 0])
        grid[0, 0].set_title("(a) Increase of MMD² over the paper's greedy, same seed")
        panel(grid[0, 1], lambda one: points(lines, one, "squared_mmd"))
        _logarithmic(grid[0, 1])
        grid[0, 1].set_title("MMD² to the target")
        panel(grid[1, 0], lambda one: points(lines, one, "net"))
        grid[1, 0].set_title("(b) Accuracy of a net with 32 hidden units, dropout 0.2")
        panel(grid[1, 1], lambda one: points(lines, one, "svm"))
        grid[1, 1].set_title("Accuracy of a linear SVM")
        for axes in grid[1]:
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.0f}%"))
        figure.suptitle(title, x=0.012, y=0.985, ha="left", fontsize=14, fontweight="bold")
        figure.legend(
            drawn.values(), drawn.keys(), loc="lower center", bbox_to_anchor=(0.5, 0.03), ncols=4, frameon=False
        )
        rows = -(-len(drawn) // 4)
        over = f"{seeds} seeds" if seeds > 1 else "one seed"
        figure.text(
            0.012,
            0.012,
            f"{SIMULATED[0].upper()}{SIMULATED[1:]}. Mean over {over}; bars: one standard deviation. Tested on rows "
            "that nobody saw.",
            fontsize=9,
            color="#555555",
        )
        figure.subplots_adjust(
            left=0.065, right=0.985, top=0.905, bottom=0.115 + 0.026 * rows, hspace=0.36, wspace=0.16
        )
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=110)


def _curve(axes: Any, one: Series, curve: Mapping[int, Sequence[float]], sizes: Sequence[int], *, nudge: float) -> Any:
    """One method; what does not depend on the size is a level line. Bars are set beside one another."""
    colour, dashes = COLOURS[one.method], _DASHES.get(one.method, "-")
    if not METHODS[one.method].sized:
        level = fmean(next(iter(curve.values())))
        return axes.axhline(level, color=colour, linestyle=dashes, linewidth=1.6)
    width = 0.004 * (sizes[-1] - sizes[0])
    return axes.errorbar(
        [size + nudge * width for size in curve],
        [fmean(values) for values in curve.values()],
        yerr=[stdev(values) if len(values) > 1 else 0.0 for values in curve.values()],
        color=colour,
        linestyle=dashes,
        linewidth=1.8,
        elinewidth=0.9,
        capsize=2.0,
        marker=_MARKERS.get(one.method, "."),
        markersize=5.5,
        alpha=0.95,
    )


def _percentages(axes: Any) -> None:
    """Linear around 0, logarithmic beyond 100: 10% and 5,000% are both to be read."""
    low, high = axes.get_ylim()
    axes.set_yscale("symlog", linthresh=100.0, linscale=1.0)
    axes.set_ylim(max(low, -100.0), high * 1.15)
    ticks = [step for step in _STEPS if max(low, -100.0) <= step <= high * 1.15]
    axes.set_yticks(ticks, [f"{step:+,}%" if step else "greedy" for step in ticks])
    axes.yaxis.set_minor_locator(NullLocator())
    axes.axhline(0.0, color="#4c78a8", linewidth=1.0)


def _logarithmic(axes: Any) -> None:
    low, high = axes.get_ylim()
    shown = [line for one in axes.containers for line in one[0].get_ydata()]
    low = min(shown) * 0.8 if shown else low
    axes.set_yscale("log")
    axes.set_ylim(low, high * 1.1)
    steps = [digit * 10.0**power for power in range(-7, 2) for digit in (1, 2, 5)]
    ticks = [step for step in steps if low <= step <= high * 1.1]
    axes.set_yticks(ticks, [f"{step:g}" for step in ticks])
    axes.yaxis.set_minor_formatter(NullFormatter())
