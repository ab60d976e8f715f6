"""The figures of ``theory``: one for each question."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from studies.canvas import draw_panels, mean_curve, plain_log_axis
from studies.contract import RecordLine
from studies.theory_measures import feature_bound, mean_release_bound

_BOUND = "#d62839"
_COLOURS = {None: "#8d5b3e", 1.0: "#0b8457", 3.0: "#4c78a8", 10.0: "#9467bd"}
_MEASURED = "#0b8457"
_NOTHING = "#8c8c8c"
BASE = {"iterations": 1656, "epsilon": 0.01, "rows": 360}
"""Of the mean release: the paper's settings, and about as many rows as its target had."""


def draw_condition(lines: Sequence[RecordLine], path: Path, *, note: str) -> Path:
    """The largest kernel value beside what Theorem 1 allows, and J at a kernel for which its condition holds."""
    condition = [line for line in lines if line["part"] == "condition"]
    greedy = [line for line in lines if line["part"] == "greedy"]

    def fill(panels: Any) -> None:
        left, right = panels[0]
        counts = sorted({line["rows"] for line in condition})
        for scale in (None, 1.0, 3.0, 10.0):
            name = "gamma = 0.1, the paper's number" if scale is None else f"gamma·median = {scale:g}"
            _curve(left, condition, "rows", "largest_kernel", {"scale": scale}, color=_COLOURS[scale], label=name)
        allowed = {line["rows"]: line["allowed_kernel"] for line in condition}
        left.plot(counts, [allowed[count] for count in counts], color=_BOUND, linestyle="--", label="Theorem 1 allows")
        plain_log_axis(left.xaxis, [float(count) for count in counts])
        left.set(yscale="log", xlabel="rows in the system (N)", ylim=(1e-11, 60.0))
        left.set_title("Largest kernel value between two rows")
        left.legend(fontsize=8.5, loc="center left", bbox_to_anchor=(0.0, 0.58))
        most = counts[-1]
        excess = max(line["excess"] for line in condition if line["rows"] == most)
        left.annotate("", (most, allowed[most]), (most, 0.9), arrowprops={"arrowstyle": "<->", "color": "#555555"})
        left.text(most * 0.9, 1e-6, f"{excess:.0e} times\ntoo large", ha="right", fontsize=8.5, color="#555555")
        for scale, colour, name in ((1.0, _COLOURS[1.0], "gamma·median = 1"), (None, _BOUND, "condition met")):
            _curve(right, greedy, "size", "greedy", {"scale": scale}, color=colour, label=f"greedy, {name}")
        sizes = sorted({line["size"] for line in greedy})
        right.plot(sizes, [-1.0 / size for size in sizes], color="#1b2a41", linestyle=":", label="-1/|S|")
        right.axhline(0.0, color="#1b2a41", linewidth=0.8)
        right.set(xlabel="rows in the summary (|S|)")
        right.set_title("Objective J of greedy's summary")
        right.legend(fontsize=8.5, loc="center right")

    return draw_panels(path, fill, columns=2, title="Theorem 1: its condition on real images", note=note)


def draw_features(lines: Sequence[RecordLine], path: Path, *, note: str) -> Path:
    """Error of the features against their number."""
    mine = [line for line in lines if line["part"] == "features"]

    def fill(panels: Any) -> None:
        axes = panels[0][0]
        for kind, colour in (("paper", "#d97b29"), ("paired", _MEASURED)):
            for result, style, words in (("largest", "-", "largest"), ("root_mean_square", ":", "root mean square")):
                name = f"{words}, {'Algorithm 1' if kind == 'paper' else 'paired features'}"
                _curve(axes, mine, "dimension", result, {"kind": kind}, color=colour, linestyle=style, label=name)
        dimensions = sorted({line["dimension"] for line in mine})
        bound = [feature_bound(rows=mine[0]["rows"], dimension=dimension) for dimension in dimensions]
        axes.plot(dimensions, bound, color=_BOUND, linestyle="--", label="the paper's bound on the largest")
        axes.axvline(140, color=_NOTHING, linewidth=1.0)
        axes.text(147, 3.0, "the paper's d", fontsize=8.5, color="#555555", va="top")
        plain_log_axis(axes.xaxis, [20.0, 50.0, 140.0, 500.0, 1000.0, 2000.0, 5000.0])
        plain_log_axis(axes.yaxis, [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0])
        axes.set(xlabel="dimension (d)", ylabel="|h(x)·h(y) - k(x, y)| over pairs of rows")
        axes.legend(fontsize=8.5, loc="lower left")

    return draw_panels(
        path, fill, columns=1, width=7.2, title="h₁: how well features stand for the kernel", note=note, height=4.8
    )


def draw_mean_release(lines: Sequence[RecordLine], path: Path, *, note: str) -> Path:
    """Error of a coordinate of the released mean against T, epsilon and q, one at a time."""
    mine = [line for line in lines if line["part"] == "mean release"]

    def fill(panels: Any) -> None:
        axes_of = zip(panels[0], ("iterations", "epsilon", "rows"), ("T", "epsilon of a step", "q, rows"), strict=True)
        for axes, name, words in axes_of:
            fixed = {key: value for key, value in BASE.items() if key != name}
            values = sorted({line[name] for line in mine if _matches(line, fixed)})
            bound = [_mean_bound({**BASE, name: value}) for value in values]
            axes.plot(values, bound, color=_BOUND, linestyle="--", label="the paper's bound")
            _curve(axes, mine, name, "largest", fixed, color=_MEASURED, label="measured")
            _curve(axes, mine, name, "nothing", fixed, color=_NOTHING, linestyle=":", label="releasing zeros")
            plain_log_axis(axes.xaxis, [float(value) for value in values])
            axes.tick_params(axis="x", labelrotation=35)
            plain_log_axis(axes.yaxis, [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0])
            axes.set_title(f"against {words}")
            axes.set_ylim(0.005, 25.0)
            axes.axvline(BASE[name], color=_NOTHING, linewidth=0.8)
        panels[0][0].set_ylabel("largest error of a coordinate")
        panels[0][1].legend(fontsize=8.5, loc="upper right")

    return draw_panels(
        path, fill, columns=3, title="h₂: the mean by multiplicative weights (d = 140)", note=note, height=4.2
    )


def draw_greedy(lines: Sequence[RecordLine], path: Path, *, note: str) -> Path:
    """Greedy's objective beside those of random subsets."""
    mine = [line for line in lines if line["part"] == "greedy"]
    sorts = (
        ("greedy", _MEASURED, "-", "greedy"),
        ("best_right", "#4c78a8", "-", "best of 5,000 subsets of the target's digits"),
        ("mean_right", "#4c78a8", ":", "mean of these"),
        ("best_any", "#8d5b3e", "-", "best of 5,000 subsets of all rows"),
        ("mean_any", "#8d5b3e", ":", "mean of these"),
        ("ceiling", "#1b2a41", "--", "MMD² = 0"),
    )

    def fill(panels: Any) -> None:
        for axes, scale in zip(panels[0], (1.0, 3.0), strict=True):
            for result, colour, style, name in sorts:
                _curve(axes, mine, "size", result, {"scale": scale}, color=colour, linestyle=style, label=name)
            axes.set_title(f"gamma·median = {scale:g}")
            axes.set(xlabel="rows in the summary")
        panels[0][0].set_ylabel("objective J (higher is nearer)")
        panels[0][0].legend(fontsize=8.5, loc="lower right")

    return draw_panels(path, fill, columns=2, title="Greedy against the best of many random subsets", note=note)


def _matches(line: RecordLine, fixed: dict[str, Any]) -> bool:
    return all(line[key] == value for key, value in fixed.items())


def _curve(axes: Any, lines: Sequence[RecordLine], x: str, y: str, fixed: dict[str, Any], **style: Any) -> None:
    values: dict[float, list[float]] = {}
    for line in lines:
        if _matches(line, fixed):
            values.setdefault(line[x], []).append(line[y])
    mean_curve(axes, dict(sorted(values.items())), marker="o", markersize=4, **style)


def _mean_bound(settings: dict[str, float]) -> float:
    return mean_release_bound(
        size=int(settings["rows"]), dimension=140, iterations=int(settings["iterations"]), epsilon=settings["epsilon"]
    )
