"""The figures of the report, each as an SVG image in a data URI; None if there is nothing to draw.

Figures are about as wide as a phone, so that their text is readable there; wider screens put them side by side.
"""

import base64
import io
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from likeset.display import drawing
from likeset.run.words import MEASURES, measure_in_words, number, quantity, score_in_words
from likeset.text import harmless

# Okabe and Ito's colours: distinguishable with common kinds of colour blindness, and in grey by their lightness.
TARGET: Final = "#0072b2"
SUMMARY: Final = "#d55e00"
POOL: Final = "#9aa5ae"
PALETTE: Final = ("#007a5a", "#b0558a", "#8a6d00", "#3f8fc0", "#6b5bb0", "#5d6b75")
INK: Final = "#1d2830"
MUTED: Final = "#5c6b77"
RULE: Final = "#dde3e8"

_LOOK: dict[str, Any] = {
    "svg.fonttype": "none",
    "font.family": ["DejaVu Sans", "sans-serif"],
    "text.parse_math": False,  # a dollar sign in a column name does not start a formula
    "axes.edgecolor": MUTED,
    "axes.labelcolor": MUTED,
    "axes.linewidth": 0.8,
    "grid.color": RULE,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelsize": 9.0,
    "ytick.labelsize": 9.0,
    "legend.fontsize": 9.0,
    "legend.frameon": False,
}
_NO_METADATA: dict[str, None] = dict.fromkeys(("Creator", "Date", "Format", "Type"))
_WIDTH, _HEIGHT = 5.2, 3.5
_MOST_POINTS = 1200
_MOST_MARKS = 150
_MOST_PICKS = 400
_LONGEST_VALUE = 14
_LONG_TICK = 6  # characters; of longer labels fewer fit
_YEAR = 366.0  # days
_DASHES = ((0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)), (0, (3, 1.5)), (0, (8, 3)), (0, (2, 3)))


@dataclass(frozen=True, slots=True)
class Image:
    """A drawing as the ``src`` and ``alt`` of an image."""

    src: str
    alt: str


@contextmanager
def _drawing() -> Iterator[None]:
    with drawing(_LOOK), warnings.catch_warnings():
        # The browser has glyphs that the font used for measuring lacks.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing", category=UserWarning)
        yield


def _image(figure: Figure, alt: str) -> Image:
    sheet = io.BytesIO()
    figure.savefig(sheet, format="svg", transparent=True, metadata=_NO_METADATA)
    return Image(f"data:image/svg+xml;base64,{base64.b64encode(sheet.getvalue()).decode('ascii')}", alt)


def draw_picks(comparison: Mapping[str, Any]) -> Image | None:
    """MMD² against the number of rows picked, with a line for each alternative."""
    values, lines = comparison["curve"], comparison["lines"][: 1 + len(PALETTE)]  # the table has the others
    if len(values) < 2:
        return None
    levels = [line["squared_mmd"] for line in lines]
    names = [f"{_shortened(line['name'], 40)}: {number(line['squared_mmd'])}" for line in lines]
    kept = np.unique(np.linspace(0, len(values) - 1, min(len(values), _MOST_PICKS)).round().astype(int))
    with _drawing():
        figure = Figure(figsize=(_WIDTH, _HEIGHT - 0.3 + 0.17 * len(lines)), layout="constrained")
        axes = figure.add_subplot()
        axes.plot(kept + 1, np.asarray(values)[kept], color=SUMMARY, linewidth=2.2, label=names[0])
        axes.plot([len(values)], [levels[0]], "o", color=SUMMARY, markersize=6, clip_on=False, zorder=5)
        for index, level in enumerate(levels[1:]):
            colour, dashes = PALETTE[index], _DASHES[index]
            axes.axhline(level, color=colour, linewidth=1.5, linestyle=dashes, zorder=1, label=names[1 + index])
        axes.set_xlim(1, len(values))
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.set_xlabel("rows picked")
        axes.set_ylabel(measure_in_words(comparison)[0])
        _scale(axes, [*values, *levels])
        axes.grid(axis="y")
        axes.set_axisbelow(True)
        figure.legend(loc="outside lower left")
        first, last = number(values[0]), number(values[-1])
        alt = f"{first} after one row, {last} after {len(values):,} rows. {'; '.join(names)}."
        return _image(figure, f"{measure_in_words(comparison)[0]}: {alt}")


def _scale(axes: Axes, values: Sequence[float]) -> None:
    low, high = min(values), max(values)
    if low > 0 and high / low > 10.0:
        axes.set_yscale("log")
        axes.set_ylim(low / 1.35, high * 1.2)
        steps = (1,) if high / low > 1000.0 else (1, 3)
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        axes.yaxis.set_major_locator(FixedLocator([step * 10.0**power for power in powers for step in steps]))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        room = 0.08 * (high - low) or 1.0
        axes.set_ylim(max(0.0, low - room) if low >= 0 else low - room, high + room)
        axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number(float(value), 1 if value < 1 else 2)))


def draw_projection(projection: Mapping[str, Any]) -> Image:
    """Target, summary and offered rows in the two directions with the largest variance."""
    target, summary, pool = (np.asarray(projection[name] or np.empty((0, 2))) for name in ("target", "summary", "pool"))
    with _drawing():
        figure = Figure(figsize=(_WIDTH, _HEIGHT), layout="constrained")
        axes = figure.add_subplot(xticks=[], yticks=[])
        axes.scatter(*_coordinates(pool, _MOST_POINTS), s=9, color=POOL, alpha=0.45, linewidths=0)
        # Circles are larger than crosses, so both are visible where they coincide.
        axes.scatter(*_coordinates(target, _MOST_MARKS), s=46, facecolors="none", edgecolors=TARGET, linewidths=1.3)
        axes.scatter(*_coordinates(summary, _MOST_MARKS), s=16, marker="x", color=SUMMARY, linewidths=1.2)
        first, second = (f"({100 * share:.0f}% of the variance)" for share in projection["explained"])
        axes.set_xlabel(f"first direction {first}")
        axes.set_ylabel(f"second direction {second}")
        shown = f"{quantity(len(target), 'target row')} (circles), {quantity(len(summary), 'summary row')} (crosses)"
        return _image(figure, f"{shown} and {quantity(len(pool), 'offered row')} (dots) in two directions.")


def draw_marginal(marginal: Mapping[str, Any]) -> Image:
    """The distribution of one column in target and summary."""
    with _drawing():
        figure = Figure(figsize=(2.75, 1.95))
        (_draw_values if marginal["edges"] is None else _draw_histogram)(figure, marginal)
        return _image(figure, f"Distribution of {marginal['column']} in target and summary.")


def _tick_form(marginal: Mapping[str, Any]) -> Callable[[float], str]:
    """Days since 1970 as dates; years without a thousands separator."""
    edges = marginal["edges"]
    if marginal["kind"] == "date":
        span = edges[-1] - edges[0]
        form = "%Y" if span > 4 * _YEAR else "%Y-%m" if span > _YEAR / 4 else "%m-%d"
        return lambda day: (date(1970, 1, 1) + timedelta(days=round(day))).strftime(form)
    if "year" in marginal["column"].lower() and edges[0] > 1000.0 and edges[-1] < 3000.0:
        return lambda value: f"{value:.0f}"
    return lambda value: number(value, 3)


def _draw_histogram(figure: Figure, marginal: Mapping[str, Any]) -> None:
    edges, form = marginal["edges"], _tick_form(marginal)
    axes = figure.add_axes((0.03, 0.15, 0.94, 0.82))
    # An area for the target and a dashed line for the summary: both are visible where they coincide.
    axes.stairs(marginal["target"], edges, fill=True, color=TARGET, alpha=0.22, linewidth=0)
    axes.stairs(marginal["target"], edges, color=TARGET, linewidth=1.6)
    axes.stairs(marginal["summary"], edges, color=SUMMARY, linewidth=2.0, linestyle=(0, (3, 1.8)))
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(3 if len(form(edges[-1])) > _LONG_TICK else 4))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: form(float(value))))
    margin = 0.12 * (edges[-1] - edges[0])
    for place, label in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True):
        if place > edges[-1] - margin:  # a label at the edge must not be cut off
            label.set_horizontalalignment("right")
        elif place < edges[0] + margin:
            label.set_horizontalalignment("left")


def _shortened(value: object, most: int) -> str:
    """Without the middle of a long text: values often differ in their last characters only."""
    text = harmless(str(value))
    return text if len(text) <= most else f"{text[: most - 5].rstrip()}…{text[-4:]}"


def _draw_values(figure: Figure, marginal: Mapping[str, Any]) -> None:
    """For each value a circle for the target, and a cross for the summary below it."""
    names = [_shortened(value, _LONGEST_VALUE) for value in marginal["values"]]
    parts = {name: list(marginal[name]) for name in ("target", "summary")}
    others, missing = marginal["others"], marginal["missing"]
    for name, shares in ((f"{others['count']:,} others", others if others["count"] else None), ("missing", missing)):
        if shares:
            names.append(name)
            for part, values in parts.items():
                values.append(shares[part])
    axes = figure.add_axes((0.4, 0.15, 0.57, 0.82))
    lines = np.arange(len(names))[::-1]
    axes.hlines(lines, 0, 1, color=RULE, linewidth=0.6, zorder=1, transform=axes.get_yaxis_transform())
    axes.scatter(parts["target"], lines + 0.17, s=30, facecolors="none", edgecolors=TARGET, linewidths=1.6, zorder=3)
    axes.scatter(parts["summary"], lines - 0.17, s=22, marker="x", color=SUMMARY, linewidths=1.6, zorder=4)
    axes.set_yticks(lines, names)
    for label in axes.get_yticklabels()[len(marginal["values"]) :]:
        label.set_fontstyle("italic")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_color(RULE)
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.set_xlim(0, 1.1 * max(*parts["target"], *parts["summary"], 0.01))
    axes.xaxis.set_major_locator(MaxNLocator(3))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * float(value):.0f}%"))


def draw_images(images: Mapping[str, Any]) -> Image:
    """Rows that are square images: some of the target above, some of the summary below."""
    with _drawing():
        figure = Figure(figsize=(_WIDTH, 2.75))
        for index, (name, colour) in enumerate((("target", TARGET), ("summary", SUMMARY))):
            axes = figure.add_axes((0.01, 0.51 - 0.5 * index, 0.98, 0.41))
            strip = _strip(np.asarray(images[name], dtype=float), images["side"])
            axes.imshow(strip, cmap="gray_r", interpolation="none", aspect="auto")
            axes.set_axis_off()
            axes.set_title(name, loc="left", fontsize=10, color=colour, fontweight="bold", pad=3)
        return _image(figure, "Rows of the target and of the summary as images.")


def _strip(images: Any, side: int) -> Any:
    """Up to 20 images at even steps, in two lines of one array."""
    chosen = images[np.linspace(0, len(images) - 1, min(20, len(images))).round().astype(int)]
    across = math.ceil(len(chosen) / 2)
    sheet = np.zeros((2 * (side + 1), 10 * (side + 1)))
    for index, image in enumerate(chosen):
        top, left = index // across * (side + 1), index % across * (side + 1)
        sheet[top : top + side, left : left + side] = image.reshape(side, side)
    return sheet


def draw_scores(lines: Sequence[Mapping[str, Any]]) -> Image | None:
    measure = next(iter(lines[0]["scores"]))
    shown = [line for line in lines if line["scores"][measure]["value"] is not None]
    if not shown:
        return None
    sets = list(dict.fromkeys(line["training_set"] for line in lines))
    names = [f"{harmless(line['training_set'])}: {line['model']}" for line in shown]
    with _drawing():
        figure = Figure(figsize=(_WIDTH, 0.6 + 0.27 * len(shown)), layout="constrained")
        axes = figure.add_subplot()
        places = np.arange(len(shown))[::-1]
        for place, line in zip(places, shown, strict=True):
            score, index = line["scores"][measure], sets.index(line["training_set"])
            colour = SUMMARY if index == 0 else PALETTE[(index - 1) % len(PALETTE)]
            axes.plot([score["low"], score["high"]], [place, place], color=colour, linewidth=1.6)
            axes.plot([score["value"]], [place], "o", color=colour, markersize=5)
        axes.set_yticks(places, names)
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(-0.6, len(shown) - 0.4)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.set_xlabel(MEASURES[measure])
        axes.grid(axis="x")
        scores = (f"{name} {score_in_words(line['scores'][measure])}" for name, line in zip(names, shown, strict=True))
        return _image(figure, f"{MEASURES[measure]}: {'; '.join(scores)}.")


def _coordinates(points: Any, most: int) -> tuple[Any, Any]:
    kept = points[:: max(1, math.ceil(len(points) / most))]
    return kept[:, 0], kept[:, 1]
