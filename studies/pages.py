"""The page of a study: what was done, tables and figures, with the command, the dates and the noise."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from likeset.display import drawing
from studies.contract import SIMULATED_SENTENCE, Presentation, RecordLine

LOOK: dict[str, Any] = {
    "axes.titlelocation": "left",
    "axes.titlesize": 11.0,
    "axes.titleweight": "bold",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
}
"""Of the figures, for ``likeset.display.drawing``."""


def draw_panels(
    path: Path,
    fill: Callable[[Any], None],
    *,
    columns: int,
    title: str,
    note: str,
    height: float = 4.6,
    width: float = 4.6,
) -> Path:
    """Draw panels and write them to ``path`` (an ``.svg``) and beside it as ``.png``.

    Args:
        path: of the figure.
        fill: gets the panels, an array of one row.
        columns: how many panels.
        title: what the figure shows.
        note: where its numbers come from; that noise is simulated is added.
        height: of one panel, in inches.
        width: of one panel.
    """
    with drawing(LOOK):
        figure = Figure(figsize=(width * columns + 0.4, height + 0.9), layout="constrained")
        fill(figure.subplots(1, columns, squeeze=False))
        figure.suptitle(title, x=0.012, ha="left", fontsize=14, fontweight="bold")
        figure.supxlabel(f"{SIMULATED_SENTENCE} {note}", x=0.012, ha="left", fontsize=8.5, color="#555555")
        figure.savefig(path, metadata={"Date": None})
        figure.savefig(path.with_suffix(".png"), dpi=110)
    return path


def plain_log_axis(axis: Any, ticks: list[float]) -> None:
    """A logarithmic axis with numbers as people write them."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    axis.set_ticks(ticks)
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1000 else f"{value:g}"))


def mean_curve(axes: Any, values: Mapping[Any, Sequence[float]], **style: Any) -> Any:
    """Means at their places, with bars of one standard deviation where there are several values."""
    return axes.errorbar(
        list(values),
        [fmean(several) for several in values.values()],
        yerr=[stdev(several) if len(several) > 1 else 0.0 for several in values.values()],
        capsize=2,
        **style,
    )


def write_page(presentation: Presentation, lines: Sequence[RecordLine], *, out: Path, command: str) -> Path:
    """Write ``README.md`` beside the record that its numbers come from."""
    done = [line for line in lines if line.done]
    days = sorted({line.date[:10] for line in done})
    when = " to ".join(dict.fromkeys((days[0], days[-1]))) if days else "never"
    versions = ", ".join(sorted({line.version for line in done}))
    parts = [
        f"# {presentation.title}",
        f"**{SIMULATED_SENTENCE}** Noise is drawn from the seed of each run, so that it can be "
        "repeated. Guarantees are those of the same run with secret noise.",
        f"`{command}`, {when}, likeset {versions}. {len(done)} runs, {sum(line.seconds for line in done) / 60:.0f} "
        "minutes on the clock if one after another, with what else the machine had to do; every number is computed "
        "from [cells.jsonl](cells.jsonl).",
        *presentation.words,
        *_failures(lines),
        *(f"![{caption}]({path.relative_to(out).as_posix()})" for path, caption in presentation.figures.items()),
        *(table.markdown().rstrip("\n") for table in presentation.tables),
    ]
    page = out / "README.md"
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return page


def _failures(lines: Sequence[RecordLine]) -> list[str]:
    failed = [line for line in lines if not line.done]
    if not failed:
        return []
    reasons = "; ".join(sorted({line.failure for line in failed}))
    return [f"**{len(failed)} runs failed** and are left out: {reasons}."]
