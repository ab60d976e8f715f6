"""The figures of the report, each as an ``svg`` element; an empty text where there is nothing to draw.

Drawn about as wide as a phone, so that their letters can be read there; wider screens put them side by side.
"""

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from likeset.app.report.plain_words import number, plain, quantity
from likeset.app.report.svg import PALETTE, POOL, RULE, SUMMARY, TARGET, drawing_in_page, inline
from likeset.run.result_words import measure_in_words
from likeset.tables.identifier_names import words_of

__all__ = ["draw_images", "draw_label_numbers", "draw_marginal", "draw_picks", "draw_projection"]

_WIDTH, _HEIGHT = 5.2, 3.5
_MOST_POINTS = 1200
_MOST_MARKS = 150
_MOST_PICKS = 400
_MOST_VALUES = 5
_LONGEST_VALUE = 14
_LONG_TICK = 6  # signs; of longer ones fewer fit
_YEARS = (1000.0, 3000.0)
_YEAR = 366.0  # days
_DECADE = 10.0
_DASHES = ((0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)), (0, (3, 1.5)), (0, (8, 3)), (0, (2, 3)))


def draw_picks(comparison: Mapping[str, Any]) -> str:
    """MMD² against the number of rows picked, with a line for each alternative: all by the comparison's measure."""
    values = [float(level) for level in comparison.get("curve") or () if _is_number(level)]
    lines = [line for line in comparison.get("lines") or () if _is_number(line.get("squared_mmd"))]
    if len(values) < 2 or not lines:
        return ""
    lines = lines[: 1 + len(PALETTE)]  # the table has the others
    levels = [float(line["squared_mmd"]) for line in lines]
    kept = np.unique(np.linspace(0, len(values) - 1, min(len(values), _MOST_PICKS)).round().astype(int))
    with drawing_in_page():
        figure = Figure(figsize=(_WIDTH, _HEIGHT))
        axes = figure.add_axes((0.125, 0.145, 0.57, 0.82))
        axes.plot(kept + 1, np.asarray(values)[kept], color=SUMMARY, linewidth=2.2, solid_capstyle="round")
        axes.plot([len(values)], [levels[0]], "o", color=SUMMARY, markersize=6, clip_on=False, zorder=5)
        for index, level in enumerate(levels[1:]):
            axes.axhline(level, color=PALETTE[index], linewidth=1.5, linestyle=_DASHES[index], zorder=1)
        axes.set_xlim(1, len(values))
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.set_xlabel("rows picked")
        axes.set_ylabel(measure_in_words(comparison)[0])
        _scale(axes, [*values, *levels])
        axes.grid(axis="y")
        axes.set_axisbelow(True)
        labels = [
            (level, plain(line.get("name", "")), colour)
            for line, level, colour in zip(lines, levels, (SUMMARY, *PALETTE), strict=False)
        ]
        _label_lines(axes, labels)
        told = "; ".join(f"{name} {number(level)}" for level, name, _ in labels)
        return inline(
            figure,
            name="picks",
            label=f"MMD² falls from {number(values[0])} after one row to {number(values[-1])} after "
            f"{len(values):,} rows. At the end: {told}.",
        )


def draw_projection(projection: Mapping[str, Any]) -> str:
    """Target, summary and pool in the two directions in which rows differ most."""
    target, summary, pool = (_points(projection.get(name)) for name in ("target", "summary", "pool"))
    if not len(target) or not len(summary):
        return ""
    with drawing_in_page():
        figure = Figure(figsize=(_WIDTH, _HEIGHT))
        axes = figure.add_axes((0.07, 0.1, 0.915, 0.875))
        axes.scatter(*_coordinates(pool, _MOST_POINTS), s=9, color=POOL, alpha=0.45, linewidths=0)
        # Rings are wider than crosses, and neither are so many that they hide the others where they coincide.
        axes.scatter(*_coordinates(target, _MOST_MARKS), s=46, facecolors="none", edgecolors=TARGET, linewidths=1.3)
        axes.scatter(*_coordinates(summary, _MOST_MARKS), s=16, marker="x", color=SUMMARY, linewidths=1.2)
        axes.set_xticks([])
        axes.set_yticks([])
        explained = [share for share in projection.get("explained") or () if _is_number(share)]
        axes.set_xlabel(_direction("first", explained[:1]))
        axes.set_ylabel(_direction("second", explained[1:2]))
        return inline(
            figure,
            name="projection",
            label=f"{quantity(len(target), 'target row')} (circles), {quantity(len(summary), 'summary row')} (crosses) "
            f"and {quantity(len(pool), 'offered row')} (dots) in two directions.",
        )


def draw_marginal(marginal: Mapping[str, Any], index: int) -> str:
    """How one column is distributed in target, summary and pool."""
    parts = {name: _frequencies(marginal.get(name)) for name in ("pool", "target", "summary")}
    size = len(parts["target"])
    if not size or len(parts["summary"]) != size:
        return ""
    edges, values = marginal.get("edges"), marginal.get("values")
    label = f"Distribution of {plain(marginal.get('column', ''))} in target, summary and pool."
    with drawing_in_page():
        figure = Figure(figsize=(2.75, 1.95))
        if edges is not None and len(edges) == size + 1:
            form = _tick_form(marginal, [float(edge) for edge in edges])
            _draw_histogram(figure, [float(edge) for edge in edges], parts, form)
        elif values is not None and len(values) == size:
            _draw_values(figure, *_value_lines([plain(value) for value in values], parts, marginal))
        else:
            return ""
        return inline(figure, name=f"column-{index}", label=label)


def draw_images(images: Mapping[str, Any], *, shown: int = 20) -> str:
    """Rows that are small pictures: the target's above, the summary's below."""
    side = int(images.get("side") or 0)
    strips = [_strip(images.get(name), side, shown) for name in ("target", "summary")]
    if any(strip is None for strip in strips):
        return ""
    with drawing_in_page():
        figure = Figure(figsize=(_WIDTH, 2.75))
        for index, (strip, name, colour) in enumerate(
            zip(strips, ("target", "summary"), (TARGET, SUMMARY), strict=True)
        ):
            axes = figure.add_axes((0.01, 0.51 - 0.5 * index, 0.98, 0.41))
            axes.imshow(strip, cmap="gray_r", interpolation="none", aspect="auto")
            axes.set_axis_off()
            axes.set_title(name, loc="left", fontsize=10, color=colour, fontweight="bold", pad=3)
        return inline(figure, name="images", label="Rows of the target and of the summary as pictures.")


def draw_label_numbers(labels: Mapping[str, Any]) -> str:
    """How many rows of the summary have a label in each range."""
    edges, rows = [float(edge) for edge in labels["edges"]], _frequencies(labels.get("rows"))
    if len(edges) != len(rows) + 1:
        return ""
    with drawing_in_page():
        figure = Figure(figsize=(_WIDTH, 2.2))
        axes = figure.add_axes((0.08, 0.13, 0.89, 0.84))
        axes.stairs(rows, edges, fill=True, color=SUMMARY, alpha=0.75)
        axes.set_xlim(edges[0], edges[-1])
        axes.yaxis.set_major_locator(MaxNLocator(3, integer=True))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number(float(value), 3)))
        words = f"Labels from {number(edges[0], 3)} to {number(edges[-1], 3)}."
        return inline(figure, name="labels", label=words)


def _tick_form(marginal: Mapping[str, Any], edges: list[float]) -> Callable[[float], str]:
    """How numbers along a column are written: days as dates, and years without a mark for thousands."""
    if marginal.get("kind") == "date":
        return _day_form(edges[-1] - edges[0])
    is_year = "year" in words_of(plain(marginal.get("column", "")))
    if is_year and edges[0] > _YEARS[0] and edges[-1] < _YEARS[1]:
        return lambda value: f"{value:.0f}"
    return lambda value: number(value, 3)


def _draw_histogram(
    figure: Figure, edges: list[float], parts: Mapping[str, list[float]], form: Callable[[float], str]
) -> None:
    axes = figure.add_axes((0.03, 0.15, 0.94, 0.82))
    size = len(edges) - 1
    if len(parts["pool"]) == size:
        axes.stairs(parts["pool"], edges, fill=True, color=POOL, alpha=0.45, linewidth=0)
    # An area for the target and a broken line for the summary: both are seen where they coincide.
    axes.stairs(parts["target"], edges, fill=True, color=TARGET, alpha=0.22, linewidth=0)
    axes.stairs(parts["target"], edges, color=TARGET, linewidth=1.6)
    axes.stairs(parts["summary"], edges, color=SUMMARY, linewidth=2.0, linestyle=(0, (3, 1.8)))
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(3 if len(form(edges[-1])) > _LONG_TICK else 4))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: form(float(value))))
    first, *_, last = axes.get_xticklabels()
    first.set_horizontalalignment("left")
    last.set_horizontalalignment("right")


def _day_form(span: float) -> Callable[[float], str]:
    """Days since 1970 as dates: as years where there are several, as months otherwise."""
    form = "%Y" if span > 4 * _YEAR else "%Y-%m" if span > _YEAR / 4 else "%m-%d"
    return lambda day: (date(1970, 1, 1) + timedelta(days=round(day))).strftime(form)


def _value_lines(
    values: list[str], parts: Mapping[str, list[float]], marginal: Mapping[str, Any]
) -> tuple[list[str], dict[str, list[float]], int]:
    """Names and shares of the values to draw, and how many of them are values: others and missing ones come last."""
    places = range(len(values))
    most = sorted(places, key=lambda at: -max(part[at] for part in parts.values() if len(part) > at))
    kept = sorted(most[: _MOST_VALUES if len(values) > _MOST_VALUES + 1 else len(values)])
    names = _told_apart([values[at] for at in kept])
    shares = {name: [part[at] for at in kept] for name, part in parts.items() if len(part) == len(values)}
    others, missing = marginal.get("others") or {}, marginal.get("missing") or {}
    left_out = len(values) - len(kept) + int(others.get("count") or 0)
    if left_out:
        names.append(f"{left_out:,} others")
        for name, share in shares.items():
            rest = sum(parts[name][at] for at in places if at not in kept)
            share.append(rest + float(others.get(name) or 0.0))
    if missing:
        names.append("missing")
        for name, share in shares.items():
            share.append(float(missing.get(name) or 0.0))
    return names, shares, len(kept)


def _told_apart(values: list[str]) -> list[str]:
    """Short names: those that begin alike lose their common beginning, or all would be cut to the same."""
    cut = [_shortened(value) for value in values]
    if len(set(cut)) == len(cut):
        return cut
    first, last = min(values), max(values)  # what these two have in common, all that lie between have, too
    alike = next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    start = first.rfind(" ", 0, alike) + 1
    return [_shortened(f"…{value[start:]}" if start else value) for value in values]


def _shortened(value: str) -> str:
    """Cut between two words, or within one that is too long itself."""
    if len(value) <= _LONGEST_VALUE:
        return value
    kept = value[: _LONGEST_VALUE - 1]
    between = kept.rfind(" ")
    return f"{(kept[:between] if between > _LONGEST_VALUE // 2 else kept).rstrip()}…"


def _draw_values(figure: Figure, names: list[str], parts: Mapping[str, list[float]], values: int) -> None:
    """One line for each value: a bar for the pool, a ring for the target, and a cross for the summary below it."""
    axes = figure.add_axes((0.36, 0.15, 0.61, 0.82))
    lines = np.arange(len(names))[::-1]
    if "pool" in parts:
        axes.barh(lines, parts["pool"], height=0.55, color=POOL, alpha=0.45)
    axes.hlines(lines, 0, 1, color=RULE, linewidth=0.6, zorder=1, transform=axes.get_yaxis_transform())
    # One above the line and one below, so that neither hides the other.
    axes.scatter(parts["target"], lines + 0.17, s=30, facecolors="none", edgecolors=TARGET, linewidths=1.6, zorder=3)
    axes.scatter(parts["summary"], lines - 0.17, s=22, marker="x", color=SUMMARY, linewidths=1.6, zorder=4)
    axes.set_yticks(lines, names)
    for label in axes.get_yticklabels()[values:]:
        label.set_fontstyle("italic")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_color(RULE)
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.set_xlim(0, 1.1 * max(max(parts["target"]), max(parts["summary"]), max(parts.get("pool") or [0.0]), 0.01))
    axes.xaxis.set_major_locator(MaxNLocator(3))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * float(value):.0f}%"))


def _scale(axes: Axes, values: Sequence[float]) -> None:
    """Powers of ten where the values need them: the end of a run is far below its beginning."""
    low, high = min(values), max(values)
    if low > 0 and high / low > _DECADE:
        axes.set_yscale("log")
        axes.set_ylim(low / 1.35, high * 1.2)
        steps = (1,) if high / low > 100 * _DECADE else (1, 3)
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        axes.yaxis.set_major_locator(FixedLocator([step * _DECADE**power for power in powers for step in steps]))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        room = 0.08 * (high - low) or 1.0
        axes.set_ylim(max(0.0, low - room) if low >= 0 else low - room, high + room)
        axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number(float(value), 1 if value < 1 else 2)))


def _label_lines(axes: Axes, labels: Sequence[tuple[float, str, str]]) -> None:
    """Names beside the ends of the lines, moved apart where they would touch, with a hair from line to name."""
    height = 72.0 * _HEIGHT * axes.get_position().height
    texts = [
        "\n".join([*textwrap.wrap(name, 18, max_lines=2, placeholder="…"), number(level)]) for level, name, _ in labels
    ]
    sizes = [(11.5 * (words.count("\n") + 1) + 3.0) / height for words in texts]
    at = [float(axes.transAxes.inverted().transform(axes.transData.transform((1.0, level)))[1]) for level, *_ in labels]
    order = sorted(range(len(labels)), key=lambda index: at[index])
    spots = _spread_apart([at[index] for index in order], [sizes[index] for index in order])
    for spot, index in zip(spots, order, strict=True):
        colour = labels[index][2]
        axes.plot(
            [1.015, 1.05], [at[index], spot], color=colour, linewidth=0.9, transform=axes.transAxes, clip_on=False
        )
        axes.text(
            1.065,
            spot,
            texts[index],
            transform=axes.transAxes,
            va="center",
            fontsize=9,
            linespacing=1.15,
            color=colour,
            fontweight="bold" if index == 0 else "normal",
        )


def _spread_apart(wanted: Sequence[float], sizes: Sequence[float]) -> list[float]:
    """Sorted places, moved as little as needed so that labels of these sizes do not touch: up first, then down."""
    positions = list(wanted)
    gaps = [(size + other) / 2 for size, other in pairwise(sizes)]
    for _ in range(40):
        for low, gap in enumerate(gaps):
            lack = gap - (positions[low + 1] - positions[low])
            if lack > 0:
                positions[low] -= lack / 2
                positions[low + 1] += lack / 2
        below, above = sizes[0] / 2 - 0.12 - positions[0], positions[-1] + sizes[-1] / 2 - 1.03
        positions[0] += max(0.0, below)
        positions[-1] -= max(0.0, above)
    return positions


def _strip(rows: object, side: int, shown: int) -> Any:
    """So many images, spread over the rows, in two lines of one array with white gaps."""
    if not side or not isinstance(rows, Sequence) or not rows:
        return None
    pictures = np.asarray(rows, dtype=float)
    if pictures.ndim != 2 or pictures.shape[1] != side * side:
        return None
    chosen = pictures[np.linspace(0, len(pictures) - 1, min(shown, len(pictures))).round().astype(int)]
    across = math.ceil(len(chosen) / 2)
    sheet = np.zeros((2 * (side + 1), (shown + 1) // 2 * (side + 1)))
    for index, picture in enumerate(chosen):
        top, left = index // across * (side + 1), index % across * (side + 1)
        sheet[top : top + side, left : left + side] = picture.reshape(side, side)
    return sheet


def _direction(which: str, explained: Sequence[float]) -> str:
    return f"{which} direction" + (f" ({100 * explained[0]:.0f}% of the spread)" if explained else "")


def _points(given: object) -> Any:
    points = np.asarray(given if isinstance(given, Sequence) else [], dtype=float)
    return points[np.isfinite(points).all(axis=1)] if points.ndim == 2 and points.shape[1] == 2 else np.empty((0, 2))


def _coordinates(points: Any, most: int) -> tuple[Any, Any]:
    """The coordinates of points at even steps: a page with a million dots serves nobody."""
    kept = points[:: max(1, math.ceil(len(points) / most))]
    return kept[:, 0], kept[:, 1]


def _frequencies(given: object) -> list[float]:
    return [float(value) if _is_number(value) else 0.0 for value in given] if isinstance(given, Sequence) else []


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
