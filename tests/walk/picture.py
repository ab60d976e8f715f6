"""The walks as a picture: the floors of the house, the stairs that a run takes, and who is passed on each floor."""

import io
from collections.abc import Sequence
from typing import Any, Final

from bounds import AIMS, BOUNDS
from floors import Floor
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from walks import Walk

from likeset.app.report.svg import INK, MUTED, PAPER, POOL, RULE, SUMMARY, TARGET
from likeset.display.drawing import drawing

__all__ = ["picture"]

_LOOK: Final[dict[str, Any]] = {"svg.fonttype": "none", "text.parse_math": False, "text.color": INK}
_NO_METADATA: Final = dict.fromkeys(("Creator", "Date", "Format", "Type"))
_STAIRS, _DOTS, _PER_LINE = 10.0, 0.155, 16  # width of the stairs, distance of dots, dots in a line
_TOLD: Final = {line.count for line in (*BOUNDS, *AIMS)}
_LEFT, _RIGHT = 1.4, _STAIRS + 0.45


def picture(walks: Sequence[tuple[str, Walk]], floors: Sequence[Floor]) -> str:
    """An SVG file.

    Args:
        walks: with their headings, one below the other.
        floors: from the top.
    """
    heights = [sum(_height(floor) for floor in _shown(walk, floors)) + 1.0 for _, walk in walks]
    width = _LEFT + _RIGHT + _DOTS * _PER_LINE + 0.3
    with drawing(_LOOK):
        figure = Figure(figsize=(width, sum(heights)), facecolor=PAPER)
        top = 1.0
        for (heading, walk), height in zip(walks, heights, strict=True):
            share = height / sum(heights)
            axes = figure.add_axes((0.0, top - share, 1.0, share))
            axes.set_xlim(-_LEFT, width - _LEFT)
            axes.set_ylim(-height, 0.0)
            axes.axis("off")
            _draw(axes, heading, walk, _shown(walk, floors))
            top -= share
        sheet = io.StringIO()
        figure.savefig(sheet, format="svg", metadata=_NO_METADATA)
    return "\n".join(line.rstrip() for line in sheet.getvalue().splitlines()) + "\n"


def _height(floor: Floor) -> float:
    """Enough for its dots."""
    return max(0.3 if len(floor.modules) <= 2 else 0.62, 0.17 * -(-len(floor.modules) // _PER_LINE) + 0.24)


def _shown(walk: Walk, floors: Sequence[Floor]) -> list[Floor]:
    """Without the floors above the walk's highest and below its lowest."""
    passed = [bool(walk.modules.intersection(floor.modules)) for floor in floors]
    last = len(passed) - passed[::-1].index(True)
    return list(floors[passed.index(True) : last])


def _draw(axes: Axes, heading: str, walk: Walk, floors: Sequence[Floor]) -> None:
    axes.text(-_LEFT + 0.15, -0.34, heading, fontsize=13, weight="bold", va="center")
    for place, words in (
        (0.0, "the way to the drawing of rows, module by module"),
        (_RIGHT, "modules, filled if passed"),
    ):
        axes.text(place, -0.62, words, fontsize=8, color=MUTED, va="center")
    top, middles = -0.78, {}
    for number, floor in enumerate(floors):
        if number % 2 == 0:
            axes.axhspan(top - _height(floor), top, color=RULE, alpha=0.45, linewidth=0)
        middle = top - _height(floor) / 2
        middles.update(dict.fromkeys(floor.modules, middle))
        axes.text(-_LEFT + 0.15, middle, "\n".join(floor.parts), fontsize=9, color=INK, va="center", linespacing=1.1)
        _dots(axes, floor, walk, middle)
        top -= _height(floor)
    _stairs(axes, walk.chain, [middles[step] for step in walk.chain])
    counts = " · ".join(f"{count} {number:,}" for count, number in walk.counts.items() if count in _TOLD)
    axes.text(_RIGHT + _DOTS * _PER_LINE, -0.34, counts, fontsize=8, color=MUTED, ha="right", va="center")


def _dots(axes: Axes, floor: Floor, walk: Walk, middle: float) -> None:
    """One for each module of the floor; those that are passed come first."""
    lines = -(-len(floor.modules) // _PER_LINE)
    ordered = sorted(floor.modules, key=lambda module: (module not in walk.modules, module))
    for place, module in enumerate(ordered):
        line, column = divmod(place, _PER_LINE)
        height = middle + 0.17 * ((lines - 1) / 2 - line)
        colour = (SUMMARY if module in walk.chain else TARGET) if module in walk.modules else PAPER
        edge = POOL if colour == PAPER else colour
        axes.plot(_RIGHT + _DOTS * (column + 0.5), height, "o", color=colour, markeredgecolor=edge, markersize=6)


def _stairs(axes: Axes, chain: Sequence[str], heights: Sequence[float]) -> None:
    places = [0.25 + (_STAIRS - 0.9) * step / max(len(chain) - 1, 1) for step in range(len(chain))]
    axes.plot(places, heights, color=SUMMARY, linewidth=1.6, drawstyle="steps-post", solid_joinstyle="round")
    for number, (module, place, height) in enumerate(zip(chain, places, heights, strict=True)):
        axes.plot(place, height, "o", color=SUMMARY, markersize=11)
        axes.text(place, height, str(number + 1), fontsize=7, color=PAPER, ha="center", va="center", weight="bold")
        below = number % 2 == 1
        name = module.rpartition(".")[2]
        axes.text(
            place + 0.06,
            height + (-0.14 if below else 0.14),
            name,
            fontsize=8,
            ha="left",
            va="top" if below else "bottom",
        )
