"""Table and figure of ``parsimony``."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from studies.canvas import draw_panels, mean_curve, plain_log_axis
from studies.contract import Presentation, RecordLine, Table

_COLOURS = {
    "paper": "#d62839",
    "everyone each round": "#f28e2b",
    "everyone once": "#0b8457",
    "threshold once": "#4c78a8",
}
_LABELS = {
    "paper": "the paper's auction, each round (not private)",
    "everyone each round": "everyone, each round",
    "everyone once": "sealed: everyone once, fewer rows each",
    "threshold once": "sealed: threshold once",
}
_MARKERS = {"paper": "o", "everyone each round": "s", "everyone once": "^", "threshold once": "D"}


def present_parsimony(lines: Sequence[RecordLine], out: Path, *, methods: Sequence[str]) -> Presentation:
    """Rows seen per row bought, and how near the summary came."""
    done = [line for line in lines if line.done]
    tables, figures = [], {}
    for place, size in enumerate(sorted({line["size"] for line in done})):
        alike = [line for line in done if line["size"] == size]
        tables.append(_table(alike, methods))
        figure = _figure(alike, out / ("parsimony.svg" if place == 0 else f"parsimony-{size}.svg"), methods)
        figures[figure] = (
            f"{size:,} rows bought. Left: rows seen per row bought, with the paper's bound. Right: MMD² to unseen rows "
            "over exact greedy's."
        )
    return Presentation(
        "How many rows the curator sees",
        [
            "The paper's auction asks the owner of rank i with probability exp(-(i-1) eps_auc) and a row that was bid "
            "tau times for certain; its bound on the rows seen per row bought is K/tau + 1/eps_auc = "
            "(1 + 3 sqrt(2) log(1/delta)/epsilon) K^(1/3).",
            "Both per-round protocols select the same rows, up to scores that tie: the top bid is always asked, so the "
            "auction saves rows and changes nothing else. It is not differentially private (docs/paper-audit.md).",
            "MMD² is measured on 2,000 rows of the target's distribution that no method saw. On the 300 rows that it "
            "selects for, exact greedy comes arbitrarily close with many rows: a ratio to that says nothing about "
            "new rows.",
        ],
        tables,
        figures,
    )


def _table(lines: Sequence[RecordLine], methods: Sequence[str]) -> Table:
    return Table(
        f"{lines[0]['size']:,} rows bought: rows seen per row bought; in brackets MMD² to unseen rows over "
        f"exact greedy's ({_of_seeds(lines)})",
        ["owners", "the paper's bound", *(_LABELS[method] for method in methods)],
        [_row(lines, owners, methods) for owners in sorted({line["owners"] for line in lines})],
    )


def _figure(lines: Sequence[RecordLine], file: Path, methods: Sequence[str]) -> Path:
    first = lines[0]
    return draw_panels(
        file,
        lambda panels: _fill(panels[0], lines, methods),
        columns=2,
        title="Rows that the curator sees for each row it buys",
        note=(
            f"Generated owners with {first['rows']} rows each; {first['size']:,} rows bought; epsilon = "
            f"{first['epsilon']:g}, delta = {first['delta']:g}; {_of_seeds(lines)}.\nPer-round protocols have exact "
            "releases here, so that the auction alone differs; sealed pays for its release. Numbers: cells.jsonl."
        ),
        height=4.9,
    )


def _of_seeds(lines: Sequence[RecordLine]) -> str:
    count = len({line["seed"] for line in lines})
    return "one seed" if count == 1 else f"mean of {count} seeds"


def _values(lines: Sequence[RecordLine], owners: int, method: str, result: str) -> list[float]:
    return [line[result] for line in lines if (line["owners"], line["method"]) == (owners, method)]


def _row(lines: Sequence[RecordLine], owners: int, methods: Sequence[str]) -> list[str]:
    bound = next(line["paper_bound"] for line in lines if line["owners"] == owners)
    cells = [f"{owners:,}", f"{bound:.0f}"]
    for method in methods:
        seen = _values(lines, owners, method, "rows_per_pick")
        near = _values(lines, owners, method, "over_exact")
        cells.append(f"{fmean(seen):.1f} ({fmean(near):.2f})" if seen else "-")
    return cells


def _fill(panels: Any, lines: Sequence[RecordLine], methods: Sequence[str]) -> None:
    seen, near = panels
    counts = sorted({line["owners"] for line in lines})
    bounds = {line["owners"]: line["paper_bound"] for line in lines}
    seen.plot(counts, [bounds[count] for count in counts], color="#d62839", linestyle="--", label="the paper's bound")
    for method in methods:
        for axes, result in ((seen, "rows_per_pick"), (near, "over_exact")):
            mean_curve(
                axes,
                {owners: values for owners in counts if (values := _values(lines, owners, method, result))},
                color=_COLOURS[method],
                marker=_MARKERS[method],
                markersize=5,
                linestyle=":" if method == "everyone each round" else "-",
                label=_LABELS[method],
            )
    ticks = [5.0, 20.0, 100.0, 500.0, 2000.0]
    for axes in panels:
        plain_log_axis(axes.xaxis, ticks)
        axes.set_xlabel("owners")
    plain_log_axis(seen.yaxis, [1.0, 5.0, 10.0, 50.0, 100.0, 500.0, 2000.0])
    farthest = max(line["over_exact"] for line in lines)
    plain_log_axis(near.yaxis, [tick for tick in (0.8, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0) if tick <= farthest])
    near.axhline(1.0, color="#1b2a41", linewidth=1.0)
    seen.set_title("Rows seen per row bought")
    near.set_title("MMD² over exact greedy's on all rows")
    seen.legend(fontsize=8.5, loc="upper left")
    near.set_ylim(0.75, None)
