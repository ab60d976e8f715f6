"""The page of a comparison: for each market and kernel a figure like the paper's and a table."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Self

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from likeset.display import drawing
from likeset.simulation import DELTA
from studies.contract import SIMULATED, SIMULATED_SENTENCE, Presentation, RecordLine, Table
from studies.methods import METHODS
from studies.pages import LOOK, mean_curve, plain_log_axis

Group = tuple[str, float | None, float | None]
"""Market, scale, gamma: what one panel shows."""


@dataclass(frozen=True, slots=True)
class Series:
    """One method, at one epsilon and number of offers, over seeds and sizes."""

    method: str
    epsilon: float | None
    offers: int | None

    @classmethod
    def of(cls, line: RecordLine) -> Self:
        """The one that a line belongs to."""
        return cls(line["method"], line["epsilon"], line["offers"])

    def has(self, line: RecordLine) -> bool:
        """Whether the line belongs to it."""
        return (line["method"], line["epsilon"], line["offers"]) == (self.method, self.epsilon, self.offers)


def label(series: Series) -> str:
    """In legends and tables."""
    words = METHODS[series.method].label
    words += "" if series.epsilon is None else f", ε = {series.epsilon:g}"
    return words if series.offers is None else f"{words}, {series.offers} each"


def width_words(group: Group) -> str:
    """The kernel in words."""
    _, scale, gamma = group
    return f"gamma·median = {scale:g}" if gamma is None else f"gamma = {gamma:g}"


def results_by_size(lines: Iterable[RecordLine], series: Series, result: str) -> dict[int, list[float]]:
    """One result of a method by size, over seeds."""
    values: dict[int, list[float]] = {}
    for line in lines:
        if series.has(line):
            values.setdefault(line["size"], []).append(line.results[result])
    return dict(sorted(values.items()))


def increase(lines: Sequence[RecordLine], series: Series, *, over: str, result: str) -> dict[int, list[float]]:
    """By how many percent a result lies above that of another method with the same seed and size."""
    base: Mapping[tuple[int, int], float] = {
        (line["seed"], line["size"]): line.results[result] for line in lines if line["method"] == over
    }
    increases: dict[int, list[float]] = {}
    for line in lines:
        pair = line["seed"], line["size"]
        if series.has(line) and pair in base:
            increases.setdefault(line["size"], []).append(100.0 * (line.results[result] / base[pair] - 1.0))
    return dict(sorted(increases.items()))


def spread(values: Sequence[float], form: str) -> str:
    """Mean and, after ±, standard deviation over seeds."""
    if not values:
        return "-"
    if len(values) == 1:
        return f"{values[0]:{form}}"
    return f"{fmean(values):{form}} ± {stdev(values):{form.lstrip('+')}}"


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


def present_comparison(lines: Sequence[RecordLine], out: Path, *, title: str, words: Sequence[str]) -> Presentation:
    """Tables of all finished cells, and a figure for each market and kernel."""
    done = [line for line in lines if line.done]
    groups = list(dict.fromkeys(_group(line) for line in done))
    figures, tables = {}, []
    if len({group[1:] for group in groups}) > 1:
        tables += [_scale_table(done, groups)]
    for group in groups:
        mine = [line for line in done if _group(line) == group]
        series = _series(mine)
        name = f"{group[0]}, {width_words(group)}" if len({other[0] for other in groups}) > 1 else width_words(group)
        path = out / f"{_slug(name)}.svg"
        draw_comparison(mine, series, path, title=f"{title}: {name}")
        figures[path] = f"{name}: increase of MMD² over greedy, MMD², accuracies; {SIMULATED}"
        tables.append(Table(name, _COLUMNS, _rows(mine, series), SIMULATED_SENTENCE, _BRIEF))
    return Presentation(title, [_READING, *_setting(done), *words], tables, figures)


def _group(line: RecordLine) -> Group:
    return line["market"], line["scale"], line.settings["gamma"]


def _series(lines: Sequence[RecordLine]) -> list[Series]:
    """Those that have lines, in the order of the registry."""
    members = {Series.of(line) for line in lines}
    order = list(METHODS)
    return sorted(members, key=lambda member: (order.index(member.method), member.epsilon or 0.0, member.offers or 0))


def _rows(lines: Sequence[RecordLine], series: Sequence[Series]) -> list[tuple[str, ...]]:
    rows = []
    for size in sorted({line["size"] for line in lines}):
        here = [line for line in lines if line["size"] == size]
        rows += [_row(here, member, size) for member in series if any(member.has(line) for line in here)]
    return rows


def _row(lines: Sequence[RecordLine], series: Series, size: int) -> tuple[str, ...]:
    mine = [line for line in lines if series.has(line)]
    first = mine[0].results

    def mean(result: str, form: str) -> str:
        return spread(results_by_size(mine, series, result)[size], form)

    def mean_if_known(result: str) -> str:
        return mean(result, ".3f") if all(result in line.results for line in mine) else "-"

    def over(other: str) -> str:
        if series.method == other:
            return "0%"
        values = increase(lines, series, over=other, result="squared_mmd").get(size)
        return f"{fmean(values):+.0f}%" if values else "-"

    return (
        label(series),
        str(size),
        mean("squared_mmd", ".5f"),
        over("greedy"),
        over("exact"),
        mean("squared_mmd_test", ".5f"),
        mean("svm", ".3f"),
        mean_if_known("svm_balanced"),
        mean_if_known("svm_auc"),
        mean("net", ".3f"),
        f"{fmean(line.results['access_ratio'] for line in mine):.1f}",
        _guarantee(first["target_guarantee"]),
        _guarantee(first["owner_guarantee"]),
        str(len(mine)),
    )


def _guarantee(stated: dict[str, Any]) -> str:
    epsilon, basis = stated["epsilon"], stated["basis"]
    if epsilon is None:
        return basis if basis == "none" else f"none ({basis})"
    return f"{epsilon:g} ({basis})"


def _scale_table(lines: Sequence[RecordLine], groups: Sequence[Group]) -> Table:
    """The same summaries' percentages under each kernel: they say as much about the kernel as about the method."""
    shown = [member for member in _series(lines) if member.method not in ("greedy", "pooled")]
    common = sorted(
        set.intersection(*({line["size"] for line in lines if _group(line) == group} for group in groups))
    ) or [0]
    size = common[len(common) // 2]
    several = len({group[0] for group in groups}) > 1
    names = [f"{group[0]}, {width_words(group)}" if several else width_words(group) for group in groups]
    parts = [[line for line in lines if _group(line) == group] for group in groups]
    rows = []
    for member in shown:
        cells = [increase(part, member, over="greedy", result="squared_mmd").get(size) for part in parts]
        rows.append((label(member), *(f"{fmean(cell):+.0f}%" if cell else "-" for cell in cells)))
    return Table(
        f"Increase of MMD² over the paper's greedy at {size} rows, by kernel",
        ("method", *names),
        rows,
        f"A percentage depends on the kernel's scale. {SIMULATED_SENTENCE}",
    )


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


def _slug(name: str) -> str:
    plain = name.replace("gamma·median", "median").replace(" = ", "-").replace(", ", "-")
    return plain.replace(" ", "-")
