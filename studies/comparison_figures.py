"""Figures like the paper's: MMD² over greedy and accuracy, against the size of the summary."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from likeset.display import drawing
from studies.canvas import LOOK, mean_curve, plain_log_axis
from studies.contract import SIMULATED_SENTENCE, RecordLine
from studies.methods import METHODS
from studies.series import Series, increase, label, results_by_size

COLOURS = {
    "exact": "#1b2a41",
    "greedy": "#4c78a8",
    "protodash": "#9ecae9",
    "pooled": "#8c8c8c",
    "sealed": "#0b8457",
    "sealed-joint": "#00b3a4",
    "sealed-hashed": "#7ac29a",
    "uniform-offers": "#b5a300",
    "uniform-offers-plain": "#d9cf7a",
    "greedy-seeded": "#7fa8d1",
    "private": "#d62839",
    "private-sound": "#f28e2b",
    "private-silent": "#c67bb5",
    "uniform": "#8d5b3e",
}
_WIDTH = 0.006
_MARKERS = {"private": "o", "uniform": "s", "greedy": "D", "sealed": "^", "exact": "v"}
_DASHES = {
    "protodash": "--",
    "greedy-seeded": "--",
    "pooled": ":",
    "sealed-hashed": "--",
    "private-sound": "--",
    "private-silent": ":",
}
_LOOK = {
    **LOOK,
    "svg.fonttype": "none",  # text stays text: a fifth of the bytes
    "font.family": "sans-serif",  # in whichever font the reader has
}
_STEPS = (-90, -50, 0, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 100_000)


def draw_comparison(lines: Sequence[RecordLine], series: Sequence[Series], path: Path, *, title: str) -> None:
    """Five panels: percentages as in the paper, the same in absolute numbers on both sets of rows, two classifiers."""
    sizes = sorted({line["size"] for line in lines})
    with drawing(_LOOK):
        figure = Figure(figsize=(15.0, 8.0))
        (increases, target, held_out), (net, svm, corner) = figure.subplots(2, 3)
        drawn: dict[str, Any] = {}

        def panel(axes: Any, heading: str, values: Callable[[Series], Mapping[int, Sequence[float]]]) -> None:
            for index, member in enumerate(series):
                curve = values(member)
                if curve:
                    drawn[label(member)] = _curve(axes, member, curve, sizes, nudge=index - len(series) / 2)
            axes.set_title(heading)
            axes.set_xticks(sizes, [str(size) for size in sizes])
            axes.xaxis.set_minor_locator(NullLocator())
            axes.set_xlabel("rows in the summary")

        panel(
            increases,
            "(a) Increase of MMD² over the paper's greedy",
            lambda member: increase(lines, member, over="greedy", result="squared_mmd"),
        )
        panel(target, "MMD² to the target", lambda member: results_by_size(lines, member, "squared_mmd"))
        panel(held_out, "MMD² to held-out rows", lambda member: results_by_size(lines, member, "squared_mmd_test"))
        panel(
            net, "(b) Accuracy: net, 32 hidden units, dropout 0.2", lambda member: results_by_size(lines, member, "net")
        )
        panel(svm, "Accuracy: linear SVM", lambda member: results_by_size(lines, member, "svm"))
        _percentages(increases)
        _logarithmic(target, held_out)
        for axes in (net, svm):
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.0f}%"))
            axes.set_ylim(max(0.0, axes.get_ylim()[0]), min(1.02, axes.get_ylim()[1]))
        corner.axis("off")
        ordered = {name: drawn[name] for member in series if (name := label(member)) in drawn}
        corner.legend(ordered.values(), ordered.keys(), loc="center left", fontsize=10.5)
        figure.suptitle(title, x=0.012, y=0.985, ha="left", fontsize=15, fontweight="bold")
        figure.text(0.012, 0.012, _note(lines), fontsize=9.5, color="#555555")
        figure.subplots_adjust(left=0.055, right=0.985, top=0.895, bottom=0.105, hspace=0.36, wspace=0.2)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=110)


def _note(lines: Sequence[RecordLine]) -> str:
    seeds = len({line["seed"] for line in lines})
    over = f"Mean over {seeds} seeds, fewer for some methods; bars: one standard deviation" if seeds > 1 else "One seed"
    return f"{SIMULATED_SENTENCE} {over}. Classifiers are tested on the held-out rows."


def _curve(
    axes: Any, series: Series, curve: Mapping[int, Sequence[float]], sizes: Sequence[int], *, nudge: float
) -> Any:
    """One method; what does not depend on the size is a level line. Bars are set beside one another."""
    colour, dashes = COLOURS[series.method], _DASHES.get(series.method, "-")
    if not METHODS[series.method].sized:
        level = fmean(next(iter(curve.values())))
        return axes.axhline(level, color=colour, linestyle=dashes, linewidth=1.6)
    width = _WIDTH * (sizes[-1] - sizes[0])
    return mean_curve(
        axes,
        {size + nudge * width: values for size, values in curve.items()},
        color=colour,
        linestyle=dashes,
        linewidth=1.8,
        elinewidth=0.9,
        marker=_MARKERS.get(series.method, "."),
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


def _logarithmic(*panels: Any) -> None:
    """The same logarithmic axis for all of them, so that they can be compared."""
    shown = [value for axes in panels for container in axes.containers for value in container[0].get_ydata()]
    shown += [value for axes in panels for line in axes.lines for value in line.get_ydata()]
    low, high = (0.8 * min(shown), 1.3 * max(shown)) if shown else (1e-3, 1.0)
    steps = [digit * 10.0**power for power in range(-7, 2) for digit in (1, 2, 5)]
    ticks = [step for step in steps if low <= step <= high]
    for axes in panels:
        plain_log_axis(axes.yaxis, ticks)
        axes.set_ylim(low, high)
