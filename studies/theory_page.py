"""The page of ``theory``: what was asked, what was found, in sentences, tables and figures."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from studies.contract import Presentation, RecordLine, Table
from studies.pages import draw_panels, mean_curve, plain_log_axis
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


_NEEDED = {
    "condition": (draw_condition, "condition", "The condition of Theorem 1, and J where it is met."),
    "features": (draw_features, "features", "Error of random features against their number."),
    "mean release": (draw_mean_release, "mean-release", "Error of the released mean against T, epsilon and rows."),
    "greedy": (draw_greedy, "greedy", "Greedy's objective beside those of random subsets."),
}


def present_theory(lines: Sequence[RecordLine], out: Path) -> Presentation:
    """Tables and figures of the parts that were run."""
    done = [line for line in lines if line.done]
    parts = {line["part"] for line in done}
    seeds, data = len({line["seed"] for line in done}), done[0]["data"]
    note = f"Data: {data}; mean of {seeds} seeds, bars: one standard deviation. Numbers: cells.jsonl."
    figures = {}
    for part, (function, name, caption) in _NEEDED.items():
        # The picture of the condition shows greedy's objective too.
        if part in parts and (part != "condition" or "greedy" in parts):
            figures[function(done, out / f"theory-{name}.svg", note=note)] = caption
    tables = [
        tabulate(done)
        for part, tabulate in (
            ("condition", _condition_table),
            ("features", _features_table),
            ("mean release", _mean_release_table),
            ("greedy", _greedy_table),
            ("small optimum", _small_pool_table),
            ("characteristic function", _characteristic_table),
            ("hashes", _hashes_table),
        )
        if part in parts
    ]
    return Presentation(
        "The paper's conditions and bounds beside what is measured",
        [
            "gamma·median is gamma times the median squared distance of the rows: 1 and 3 are where the kernel tells "
            "rows apart. Noise enters the mean release only.",
            "Bounds are the paper's own: Theorem 1; `d >= 16 log(2N)/error²` for h_1; Theorem 5 of its appendix for "
            "h_2, written for any T.",
        ],
        tables,
        figures,
    )


def _lines_of(lines: Sequence[RecordLine], part: str) -> list[RecordLine]:
    return [line for line in lines if line["part"] == part]


def _mean(lines: Sequence[RecordLine], result: str, **fixed: object) -> float:
    return fmean(line[result] for line in lines if all(line[key] == value for key, value in fixed.items()))


def _condition_table(lines: Sequence[RecordLine]) -> Table:
    mine = _lines_of(lines, "condition")
    most = max(line["rows"] for line in mine)
    rows = []
    for scale in dict.fromkeys(line["scale"] for line in mine):
        name = "gamma = 0.1" if scale is None else f"gamma·median = {scale:g}"
        figures = [
            _mean(mine, result, scale=scale, rows=most)
            for result in ("largest_kernel", "allowed_kernel", "excess", "needed_scale")
        ]
        rows.append([name, f"{figures[0]:.3f}", f"{figures[1]:.1e}", f"{figures[2]:.1e}", f"{figures[3]:.0f}"])
    return Table(
        f"Theorem 1's condition, N = {most:,} rows",
        ["kernel", "largest kernel value", "allowed", "too large by a factor of", "distances too short by a factor of"],
        rows,
    )


def _features_table(lines: Sequence[RecordLine]) -> Table:
    mine = _lines_of(lines, "features")
    rows = [
        [
            f"d = {d:,}",
            *(
                f"{_mean(mine, result, dimension=d, kind=kind):.3f}"
                for kind in ("paper", "paired")
                for result in _ERRORS
            ),
            f"{_mean(mine, 'bound', dimension=d):.2f}",
        ]
        for d in sorted({line["dimension"] for line in mine})
    ]
    columns = ["dimension", "paper: largest", "paper: RMS", "paired: largest", "paired: RMS", "bound on the largest"]
    return Table(f"h_1: error of h(x)·h(y) over all pairs of {mine[0]['rows']} rows", columns, rows)


_ERRORS = ("largest", "root_mean_square")


def _mean_release_table(lines: Sequence[RecordLine]) -> Table:
    mine = _lines_of(lines, "mean release")
    rows = []
    for name, words in (("iterations", "T"), ("epsilon", "epsilon"), ("rows", "q")):
        fixed = {key: value for key, value in BASE.items() if key != name}
        for value in sorted({line[name] for line in mine if all(line[key] == fixed[key] for key in fixed)}):
            errors = [
                _mean(mine, result, **{**fixed, name: value})
                for result in ("largest", "bound", "along_rows", "nothing_along_rows")
            ]
            rows.append([f"{words} = {value:,}", *(f"{error:.4f}" for error in errors)])
    return Table(
        "h_2: error of the released mean around T = 1656, epsilon = 0.01, q = 360, d = 140",
        ["setting", "largest error of a coordinate", "the paper's bound", "error in a row's score, RMS", "of zeros"],
        rows,
        "A coordinate lies within sqrt(2/d) = 0.12 of zero: a bound above that says nothing.",
    )


def _greedy_table(lines: Sequence[RecordLine]) -> Table:
    mine = _lines_of(lines, "greedy")
    rows = []
    for scale, size in dict.fromkeys((line["scale"], line["size"]) for line in mine):
        name = "condition met" if scale is None else f"gamma·median = {scale:g}"
        results = ("greedy", "best_right", "best_any", "mean_right", "mean_any", "ceiling")
        rows.append(
            [f"{name}, {size} rows", *(f"{_mean(mine, result, scale=scale, size=size):.4f}" for result in results)]
        )
    columns = ["kernel and size", "greedy", "best, right digits", "best, all rows", "mean, right digits"]
    return Table("Objective J of greedy and of random subsets", [*columns, "mean, all rows", "at MMD² = 0"], rows)


def _characteristic_table(lines: Sequence[RecordLine]) -> Table:
    mine = _lines_of(lines, "characteristic function")
    rows = [
        [f"{d // 2:,}", *(f"{_mean(mine, name, dimension=d):.4f}" for name in ("unbalanced", "balanced", "printed"))]
        for d in sorted({line["dimension"] for line in mine})
    ]
    return Table(
        "Characteristic function of three rows' angles: largest deviation over 125 points",
        ["frequencies", "from 0, where k does not add up to 0", "from the corrected product", "from the printed one"],
        rows,
        "The corrected product is that of kernel values; the printed one has exp(-2 gamma distance²) in their place.",
    )


def _hashes_table(lines: Sequence[RecordLine]) -> Table:
    mine = _lines_of(lines, "hashes")
    rows = [
        [f"d = {d:,}", *(f"{_mean(mine, name, dimension=d):.3f}" for name in ("hashes", "rows", "kernel"))]
        for d in sorted({line["dimension"] for line in mine})
    ]
    columns = ["dimension", "linear SVM on hashes", "linear SVM on rows", "SVM with the kernel"]
    note = (
        f"{mine[0]['test_rows']:,} test rows a seed. C is 10 for hashes and kernel and 1 for rows; neither was tuned."
    )
    return Table("Accuracy of SVMs trained on 200 rows of the target's digits", columns, rows, note)


def _small_pool_table(lines: Sequence[RecordLine]) -> Table:
    mine = _lines_of(lines, "small optimum")
    rows = []
    for scale in dict.fromkeys(line["scale"] for line in mine):
        these = [line for line in mine if line["scale"] == scale]
        trials = sum(line["trials"] for line in these)
        worst = [line["worst_ratio"] for line in these if line["worst_ratio"] is not None]
        rows.append(
            [
                "condition met" if scale is None else f"gamma·median = {scale:g}",
                f"{sum(line['greedy_best'] for line in these)} of {trials}",
                f"{min(worst):.3f}" if worst else "-",
                f"{sum(line['best_negative'] for line in these)} of {trials}",
            ]
        )
    return Table(
        "Greedy against the best of all subsets of 4 rows out of 16",
        [
            "kernel",
            "greedy found the best",
            "worst J(greedy)/J(best), where J(best) > 0",
            "even the best J is negative",
        ],
        rows,
        "The paper's guarantee would be 1 - 1/e = 0.632.",
    )
