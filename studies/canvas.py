"""A figure in the style of the studies: title, panels, a note that says what its numbers are, two files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from studies.contract import SIMULATED

__all__ = ["draw", "plain_log_axis"]

STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11.0,
    "axes.titleweight": "bold",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "svg.hashsalt": "likeset",
}


def draw(
    path: Path,
    fill: Callable[[Any], None],
    *,
    columns: int,
    rows: int = 1,
    title: str,
    note: str,
    height: float = 4.6,
    width: float = 4.6,
) -> Path:
    """Draw panels and write them to ``path`` (an ``.svg``) and beside it as ``.png``.

    Args:
        path: of the figure.
        fill: gets the panels, an array of rows and columns.
        columns: panels in a row.
        rows: of panels.
        title: what the figure shows.
        note: where its numbers come from; that noise is simulated is added.
        height: of one panel, in inches.
        width: of one panel.
    """
    with rc_context(STYLE):
        figure = Figure(figsize=(width * columns + 0.4, height * rows + 0.9), layout="constrained")
        fill(figure.subplots(rows, columns, squeeze=False))
        figure.suptitle(title, x=0.012, ha="left", fontsize=14, fontweight="bold")
        figure.supxlabel(
            f"{SIMULATED[0].upper()}{SIMULATED[1:]}. {note}", x=0.012, ha="left", fontsize=8.5, color="#555555"
        )
        figure.savefig(path, metadata={"Date": None})
        figure.savefig(path.with_suffix(".png"), dpi=110)
    return path


def plain_log_axis(axis: Any, ticks: list[float]) -> None:
    """A logarithmic axis with numbers as people write them."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    axis.set_ticks(ticks)
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1000 else f"{value:g}"))
