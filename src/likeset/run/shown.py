"""What is shown of a result: the environment of all templates, the data of the report's pictures, notebooks."""

import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from functools import cache
from html import escape
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from numpy.typing import NDArray

from likeset.arguments import Rows
from likeset.protocol.notices import Notice
from likeset.run.plan import guarantee_documents, is_private
from likeset.run.result import Result
from likeset.run.words import (
    NO_BREAK,
    distance_notes,
    guarantee_lines,
    guarantee_meanings,
    headline,
    not_private,
    percent,
)
from likeset.tables.columns import BooleanColumn, CategoryColumn, DateColumn, NumericColumn, OrdinalColumn
from likeset.tables.schema import Schema
from likeset.text import harmless
from likeset.transports.local import Progress

_POINTS = 400
_BARS = 12
_LARGEST_WHOLE = 1e9  # beyond it a half more or less makes no difference to a bar
_COLUMNS = 8
_LABELS = 20
_MOST_LABELS = 12


@cache
def environment(package: str) -> Environment:
    return Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        finalize=_escaped,
    )


def _escaped(value: Any) -> Any:
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return NO_BREAK.join(harmless(part) for part in value.split(NO_BREAK))


# Pictures


def pictures(result: Result) -> dict[str, Any]:
    """``pictures.json``: target, summary and offers in two dimensions, and column by column.

    The offers are rows that only the curator saw. In a run on one machine the curator is whoever holds the report.
    """
    inputs, labels, coins = result.plan.inputs, result.summary.labels, np.random.default_rng(0)
    if inputs.schema is None or inputs.target.table is None:
        return {}
    target, summary = (inputs.target.rows, inputs.target.table), (result.rows, result.records)
    return {
        "labels": _label_counts(str(inputs.schema.label_column), labels) if len(labels) else None,
        "projection": _projection(target[0], summary[0], result.offered, coins),
        "marginals": _marginals(inputs.schema, target, summary, result.offered),
        "images": None if result.images is None else asdict(result.images),
    }


def _projection(target: Rows, summary: Rows, offered: Rows | None, coins: np.random.Generator) -> dict[str, Any]:
    """Onto the two directions in which target and offers spread most."""
    base = target if offered is None else np.concatenate([target, _some(offered, len(target), coins)])
    centre = base.mean(axis=0, dtype=np.float64)
    _, spread, directions = np.linalg.svd(base - centre, full_matrices=False)
    directions = directions[:2]
    if len(directions) < 2:
        directions = np.vstack([directions, np.zeros((2 - len(directions), base.shape[1]))])
    signs = np.sign(directions[np.arange(2), np.abs(directions).argmax(axis=1)])
    directions = directions * np.where(signs == 0.0, 1.0, signs)[:, None]

    def points(rows: Rows | None) -> list[list[float]] | None:
        if rows is None:
            return None
        placed = (_some(rows, _POINTS, coins) - centre) @ directions.T
        return [[round(float(x), 5), round(float(y), 5)] for x, y in placed]

    energy = spread**2 / max(float((spread**2).sum()), 1e-300)
    return {
        "target": points(target),
        "summary": points(summary),
        "pool": points(offered),
        "explained": [round(float(share), 4) for share in np.append(energy, [0.0, 0.0])[:2]],
    }


def _some(rows: Rows, count: int, coins: np.random.Generator) -> Rows:
    return rows if len(rows) <= count else rows[np.sort(coins.choice(len(rows), size=count, replace=False))]


def _marginals(
    schema: Schema, target: tuple[Rows, pa.Table], summary: tuple[Rows, pa.Table], offered: Rows | None
) -> list[dict[str, Any]]:
    """The columns in which target and offers differ most; before (offers) and after (summary)."""
    first, marginals = 0, []
    for described, (name, declared) in zip(schema.describe(), schema.declared.items(), strict=True):
        features = slice(first, first + described.features)
        first += described.features
        marginal = _marginal(name, declared, (target[1], summary[1]))
        if marginal is None:
            continue
        pool = None if offered is None else offered[:, features]
        marginal["difference_before"] = None if pool is None else _distance(target[0][:, features], pool)
        marginal["difference_after"] = _distance(target[0][:, features], summary[0][:, features])
        marginal["pool"] = None
        marginals.append(marginal)
    marginals.sort(key=lambda marginal: -(marginal["difference_before"] or marginal["difference_after"]))
    return marginals[:_COLUMNS]


def _distance(rows: Rows, others: Rows) -> float:
    """Between the mean feature vectors of one column."""
    return float(np.linalg.norm(rows.mean(axis=0, dtype=np.float64) - others.mean(axis=0, dtype=np.float64)))


def _marginal(name: str, declared: Any, tables: tuple[pa.Table, pa.Table]) -> dict[str, Any] | None:
    target, summary = (table.column(name).combine_chunks() for table in tables)
    missing = _together(_share_missing(target), _share_missing(summary))
    known: dict[str, Any] = {"column": name, "missing": missing}
    if isinstance(declared, CategoryColumn | OrdinalColumn | BooleanColumn):
        values = [True, False] if isinstance(declared, BooleanColumn) else list(declared.values)
        shares = {value: (_share(target, value), _share(summary, value)) for value in values}
        return known | {"kind": "category", "edges": None} | _most_frequent(shares, missing)
    if isinstance(declared, NumericColumn | DateColumn):
        numbers = [_numbers(column) for column in (target, summary)]
        together = np.concatenate(numbers)
        if not len(together):
            return None
        edges = _edges(together)
        bars = [np.histogram(values, bins=edges)[0] / max(1, len(values)) for values in numbers]
        return known | {
            "kind": "date" if isinstance(declared, DateColumn) else "numeric",
            "edges": [round(float(edge), 6) for edge in edges],
            "values": None,
            "target": [round(float(share), 5) for share in bars[0]],
            "summary": [round(float(share), 5) for share in bars[1]],
        }
    return None


def _edges(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Where bars begin and end; whole numbers stand in the middle of theirs, with as many of them in each."""
    low, high = float(numbers.min()), float(numbers.max())
    if abs(low) < _LARGEST_WHOLE and abs(high) < _LARGEST_WHOLE and bool((numbers == np.round(numbers)).all()):
        width = max(1, math.ceil((high - low + 1.0) / _BARS))
        bars = math.ceil((high - low + 1.0) / width)
        return low - 0.5 + width * np.arange(bars + 1.0)
    return np.linspace(low, high if high > low else low + 1.0, _BARS + 1)


def _most_frequent(shares: dict[Any, tuple[float, float]], missing: dict[str, float] | None) -> dict[str, Any]:
    """The values that are there most often, in their declared order, and how much the others are together."""
    often = sorted(shares, key=lambda value: -max(shares[value]))[:_BARS]
    kept = [value for value in shares if value in often]
    lost = [missing["target"], missing["summary"]] if missing else [0.0, 0.0]
    rest = [max(0.0, round(1.0 - lost[side] - sum(shares[value][side] for value in kept), 5)) for side in (0, 1)]
    return {
        "values": [_shown(value) for value in kept],
        "target": [shares[value][0] for value in kept],
        "summary": [shares[value][1] for value in kept],
        "others": {"count": len(shares) - len(kept), "target": rest[0], "summary": rest[1]},
    }


def _label_counts(column: str, labels: NDArray[Any]) -> dict[str, Any]:
    if labels.dtype.kind == "f" and len(np.unique(labels)) > _BARS:
        counts, edges = np.histogram(labels, bins=_BARS)
        return {"column": column, "edges": [round(float(edge), 6) for edge in edges], "rows": counts.tolist()}
    values, counts = np.unique(labels, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    shown, rest = order[:_LABELS], order[_LABELS:]
    return {
        "column": column,
        "values": [_shown(values[place].item()) for place in shown],
        "rows": [int(counts[place]) for place in shown],
        "others": {"count": len(rest), "rows": int(counts[rest].sum())},
    }


def _together(target: float, summary: float) -> dict[str, float] | None:
    return {"target": target, "summary": summary} if target or summary else None


def _share_missing(column: Any) -> float:
    return round(int(column.null_count) / max(1, len(column)), 5)


def _numbers(column: Any) -> NDArray[np.float64]:
    if pa.types.is_date(column.type):
        column = pc.cast(column, pa.int32())
    return np.asarray(pc.drop_null(column).to_numpy(zero_copy_only=False), dtype=np.float64)


def _share(column: Any, value: Any) -> float:
    equal = pc.fill_null(pc.equal(column, pa.scalar(value, column.type)), fill_value=False)
    return round(float(pc.sum(equal).as_py() or 0) / max(1, len(column)), 5)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


# Notebooks


@contextmanager
def notebook_progress(given: Progress | None) -> Iterator[Progress | None]:
    """The caller's own progress, or a bar if this is a notebook; the bar is removed at the end."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if given is not None or getattr(shell, "kernel", None) is None:  # a shell in a terminal has no kernel
        yield given
        return
    from IPython.display import HTML, display  # type: ignore[import-not-found,unused-ignore]  # it is loaded already

    handle = display(HTML(""), display_id=True)

    def show(what: str, done: int, total: int) -> None:
        handle.update(HTML(f'<progress value="{done}" max="{total}"></progress> {escape(what)}: {done:,} of {total:,}'))

    try:
        yield show
    finally:
        handle.update(HTML(""))


def story(
    result: Result,
    *,
    labels: NDArray[Any] | None,
    warnings: Iterable[Notice],
    shown_names: Mapping[str, str],
) -> str:
    """A result as HTML that fits on a screen; ``shown_names`` are the user's names of the owners."""
    terms, lines, guarantees = result.terms, result.attribution.owners, result.plan.guarantees
    simulated = result.plan.simulated
    document = {
        "distance": None if result.distance is None else asdict(result.distance),
        "in_sample_squared_mmd": result.in_sample_squared_mmd,
        "target": {"rows": len(result.target)},
        "rows_selected": len(result.rows),
        "size": terms.size,
        "owners": [{"selected": line.rows_selected} for line in lines],
    }
    documents = guarantee_documents(guarantees, simulated=simulated, unit=terms.unit)
    private = is_private(guarantees, simulated=simulated)
    return (
        environment("likeset.run")
        .get_template("notebook.html")
        .render(
            not_private="" if private else not_private("simulated" if simulated else "secret"),
            headline=headline(document),
            notes=distance_notes(document),
            owners=[
                (
                    shown_names[line.owner],
                    f"{result.facts[line.owner].rows or 0:,}",
                    f"{line.rows_disclosed:,}",
                    f"{line.rows_selected:,}",
                    percent(line.share),
                )
                for line in lines
            ],
            labels="" if labels is None else _labels_in_words(labels),
            guarantees=[line.cells for line in guarantee_lines(documents, owners=terms.owners)],
            meanings=guarantee_meanings(documents, owners=terms.owners),
            warnings=[warning.text for warning in warnings],
        )
    )


def _labels_in_words(labels: NDArray[Any]) -> str:
    if labels.dtype.kind == "f" and len(np.unique(labels)) > _MOST_LABELS:
        return f"from {labels.min():g} to {labels.max():g}, median {np.median(labels):g}"
    values, counts = np.unique(labels, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    shown = ", ".join(f"{values[place]}: {counts[place]:,}" for place in order[:_MOST_LABELS])
    return shown + (f" and {len(values) - _MOST_LABELS:,} more" if len(values) > _MOST_LABELS else "")
