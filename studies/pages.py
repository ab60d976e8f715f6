"""The pages of studies: ``README.md`` beside a record, its tables, and figures."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from likeset.display import drawing
from studies.contract import SIMULATED_SENTENCE, Presentation, RecordLine, Table

COLOURS = {
    "exact": "#1b2a41",
    "greedy": "#4c78a8",
    "greedy-seeded": "#7fa8d1",
    "protodash": "#9ecae9",
    "pooled": "#8c8c8c",
    "sealed": "#0b8457",
    "sealed-joint": "#00b3a4",
    "sealed-hashed": "#7ac29a",
    "uniform-offers": "#b5a300",
    "private": "#d62839",
    "private-hashed": "#e8808c",
    "private-sound": "#f28e2b",
    "private-silent": "#c67bb5",
    "uniform": "#8d5b3e",
}
"""Of methods, in all figures."""

_LOOK: dict[str, Any] = {
    "axes.titlelocation": "left",
    "axes.titlesize": 11.0,
    "axes.titleweight": "bold",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "svg.fonttype": "none",  # text stays text: a fifth of the bytes
    "font.family": "sans-serif",
}


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
    """Write panels, an array of one row that ``fill`` gets, to ``path`` (an ``.svg``) and beside it as ``.png``."""
    with drawing(_LOOK):
        figure = Figure(figsize=(width * columns + 0.4, height + 0.9), layout="constrained")
        fill(figure.subplots(1, columns, squeeze=False)[0])
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


def spread(values: Sequence[float], form: str) -> str:
    """Mean and, after ±, standard deviation over seeds."""
    if len(values) < 2:
        return f"{values[0]:{form}}" if values else "-"
    return f"{fmean(values):{form}} ± {stdev(values):{form.lstrip('+')}}"


def mean_table(
    title: str,
    lines: Sequence[RecordLine],
    row_of: Callable[[RecordLine], str | None],
    results: Mapping[str, tuple[str, str]],
    caption: str = "",
    *,
    first: str = "setting",
) -> Table:
    """Means of results over all lines of a row.

    Args:
        title: of the table.
        lines: of one part of a study.
        row_of: the name of the row that a line belongs to; None for a line that is not shown.
        results: by heading, the name of a result and its format.
        caption: what to know in order to read it.
        first: heading of the names.
    """
    rows: dict[str, list[RecordLine]] = {}
    for line in lines:
        if (name := row_of(line)) is not None:
            rows.setdefault(name, []).append(line)
    body = [
        [name, *(f"{fmean(line[result] for line in mine):{form}}" for result, form in results.values())]
        for name, mine in rows.items()
    ]
    return Table(title, (first, *results), body, caption)


def write_page(presentation: Presentation, lines: Sequence[RecordLine], *, out: Path, command: str) -> Path:
    """Write ``README.md`` beside the record that its numbers come from."""
    done, failed = [line for line in lines if line.done], [line for line in lines if not line.done]
    days = sorted({line.date[:10] for line in done})
    when = " to ".join(dict.fromkeys((days[0], days[-1]))) if days else "never"
    versions = ", ".join(sorted({line.version for line in done}))
    reasons = "; ".join(sorted({line.failure for line in failed}))
    parts = [
        f"# {presentation.title}",
        f"**{SIMULATED_SENTENCE}** Noise is drawn from the seed of each run, so that it can be "
        "repeated. Guarantees are those of the same run with secret noise.",
        f"`{command}`, {when}, likeset {versions}. {len(done)} runs, {sum(line.seconds for line in done) / 60:.0f} "
        "minutes on the clock if one after another, with what else the machine had to do; every number is computed "
        "from [cells.jsonl](cells.jsonl).",
        *presentation.words,
        *([f"**{len(failed)} runs failed** and are left out: {reasons}."] if failed else []),
        *(f"![{caption}]({path.relative_to(out).as_posix()})" for path, caption in presentation.figures.items()),
        *(table.markdown().rstrip("\n") for table in presentation.tables),
    ]
    page = out / "README.md"
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return page
