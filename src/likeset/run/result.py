"""The result of a run: what was selected, judged on the selected rows; and ``result.json``."""

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from importlib import metadata
from typing import Any, Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from likeset.arguments import Rows
from likeset.errors import InvalidArgument
from likeset.geometry.kernels import rbf_kernel, squared_mmd
from likeset.geometry.shapley import Game, selection_game, shapley
from likeset.geometry.weights import weights
from likeset.protocol.notices import Notice, notice_documents
from likeset.protocol.party import Traffic
from likeset.protocol.prices import PlannedView
from likeset.protocol.terms import Terms
from likeset.protocol.wire import Labels, Summary
from likeset.run.plan import Plan, guarantee_documents, is_private
from likeset.run.words import (
    distance_notes,
    environment,
    guarantee_lines,
    guarantee_meanings,
    headline,
    not_private,
    percent,
)
from likeset.tables.columns import BooleanColumn, CategoryColumn, DateColumn, NumericColumn, OrdinalColumn
from likeset.tables.schema import Schema
from likeset.text import percent_at_most

FORMAT = 4
HANDLE = "likeset_handle"
"""A column of the summary between organisations: by it an owner finds its row again."""

Measure = Literal["estimate", "in-sample", "held-out"]

_POINTS = 400
_BARS = 12
_VALUES = 6  # of a category; the others are counted together
_LARGEST_WHOLE = 1e9  # beyond it a half more or less makes no difference to a bar
_COLUMNS = 6
_LABELS = 20
_MOST_LABELS = 12
_RANDOM_SUBSETS = 20
_QUANTILE = 1.959964  # of the normal distribution, for 95%


@dataclass(frozen=True, slots=True)
class OwnerAttribution:
    """One owner's line of the report; for the consumer, not for owners."""

    owner: str
    rows_selected: int
    rows_disclosed: int  # to the curator
    share: float  # its part of all Shapley values above zero
    shapley: float  # those of all owners add up to ``Attribution.improvement``
    shapley_error: float  # standard error; 0 if it is exact
    payment: float  # price times rows disclosed


@dataclass(frozen=True, slots=True)
class Attribution:
    """Who contributed what to a summary."""

    owners: tuple[OwnerAttribution, ...]  # in their public order
    improvement: float  # what the selected rows of all owners are worth together (``geometry.shapley``)
    permutations: int  # how many orders the Shapley values were sampled from; 0 if they are exact


def attribute(
    names: Sequence[str],
    *,
    owners: ArrayLike,
    rows_disclosed: Sequence[int],
    price_per_row: float,
    game: Game,
    coins: np.random.Generator | None = None,
) -> Attribution:
    """Shapley values, shares and payments; ``owners`` is the place of each selected row's owner in ``names``.

    A payment is the price times the rows disclosed to the curator, whether selected or not: it depends on the owner's
    own count and the agreed price alone, so an owner learns nothing about other owners from it.
    """
    selected = np.bincount(np.asarray(owners), minlength=len(names))
    fair = shapley(game, coins=coins)
    parts = _shares(np.maximum(fair.values, 0.0), rows_selected=selected)
    lines = tuple(
        OwnerAttribution(
            owner=name,
            rows_selected=int(selected[place]),
            rows_disclosed=rows_disclosed[place],
            share=float(parts[place]),
            shapley=float(fair.values[place]),
            shapley_error=float(fair.standard_errors[place]),
            payment=rows_disclosed[place] * price_per_row,
        )
        for place, name in enumerate(names)
    )
    return Attribution(owners=lines, improvement=fair.total, permutations=fair.permutations)


def _shares(worth: NDArray[np.float64], *, rows_selected: NDArray[np.int64]) -> NDArray[np.float64]:
    """Each owner's fraction of all values; if none is above zero, owners of selected rows share equally."""
    largest = float(worth.max(initial=0.0))
    # Divided by the largest first, so that neither huge nor tiny values overflow or vanish in the sum.
    parts = worth / largest if largest > 0.0 else (rows_selected > 0).astype(np.float64)
    whole = float(parts.sum())
    return np.asarray(parts / whole if whole > 0.0 else parts)


@dataclass(frozen=True, slots=True)
class OwnerFacts:
    rows: int | None = None
    disclosed: int | None = None
    traffic: Traffic | None = None


@dataclass(frozen=True, slots=True)
class Pick:
    """One selected row: whose, which, its marginal gain, and the in-sample squared MMD once it was in."""

    owner: str
    row: int
    gain: float
    squared_mmd: float


@dataclass(frozen=True, slots=True)
class Distance:
    """Squared MMD between a summary, all rows with equal weight, and the target's population, by cross-fitting."""

    squared_mmd: float  # may be below zero by chance
    low: float  # of an interval that covers the true number in about 95 of 100 runs; never below zero
    high: float
    # For the first row, the first two and so on. Empty between organisations: there it would
    # tell of rows that nobody bought.
    curve: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ComparedRows:
    kind: str
    name: str
    squared_mmd: float
    meaning: str = ""
    scores: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The summary and its alternatives, all measured in the same way against the same rows."""

    measure: Measure
    rows: int
    lines: tuple[ComparedRows, ...]
    curve: tuple[float, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Result:
    plan: Plan
    terms: Terms
    summary: Summary
    rows: Rows  # the selected ones, as the selection sees them
    row_numbers: tuple[int, ...]  # at their owners; where owners are elsewhere, the handles by which they find them
    facts: Mapping[str, OwnerFacts]
    warnings: tuple[Notice, ...]  # about the run
    seconds: Mapping[str, float]  # that its parts took
    offered: Rows | None = None  # None if the protocol is interactive, or the curator elsewhere
    offered_labels: Labels | None = None
    held_out_curve: tuple[float, ...] = ()  # the estimate for the first rows of the summary, where the curator is here
    # of a job
    file_warnings: tuple[Notice, ...] = ()
    budget: Mapping[str, Any] | None = None
    tables: Mapping[str, str] = field(default_factory=dict)  # owners' files; none where owners are elsewhere
    with_handles: bool = False
    compared: Comparison | None = None  # in place of the usual comparison
    images: Mapping[str, Any] | None = None  # rows that are square images: side, target, summary
    created: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def target(self) -> Rows:
        return self.plan.inputs.target.rows

    @property
    def gamma(self) -> float:
        split = self.terms.split
        return self.plan.selection.kernel_width(self.target) if split is None else split.gamma

    @property
    def picks(self) -> tuple[tuple[str, int], ...]:
        names = self.terms.owners
        return tuple((names[owner], row) for owner, row in zip(self.summary.owners, self.row_numbers, strict=True))

    @property
    def all_warnings(self) -> tuple[Notice, ...]:
        return (*self.file_warnings, *self.warnings)

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """Of the selected rows: a function of these rows and the target alone."""
        if self.plan.settings.weights:
            return weights(self.rows, self.target, gamma=self.gamma)
        return np.full(len(self.rows), 1.0 / len(self.rows))

    @cached_property
    def in_sample_squared_mmd(self) -> float:
        return squared_mmd(self.rows, self.target, gamma=self.gamma, weights=self.weights)

    @property
    def distance(self) -> Distance | None:
        summary = self.summary
        if math.isnan(summary.held_out_error):
            return None
        value, margin = summary.held_out_squared_mmd, _QUANTILE * summary.held_out_error
        return Distance(value, max(0.0, value - margin), max(0.0, value + margin), self.held_out_curve)

    @property
    def access_ratio(self) -> float:
        return (self.summary.rows_seen + len(self.target)) / (self.terms.size + len(self.target))

    @property
    def history(self) -> tuple[Pick, ...]:
        return tuple(
            Pick(owner, row, float(gain), float(value))
            for (owner, row), gain, value in zip(self.picks, self.summary.gains, self.summary.squared_mmds, strict=True)
        )

    @cached_property
    def attribution(self) -> Attribution:
        """Who contributed what, judged on the selected rows; telling it to an owner would be a release of its own.

        An owner of whom nobody here knows how many rows left it disclosed no more than the terms allow.
        """
        terms, owners = self.terms, self.summary.owners
        known = [self.facts[name].disclosed for name in terms.owners]
        return attribute(
            terms.owners,
            owners=owners,
            rows_disclosed=[terms.rows_per_owner if rows is None else rows for rows in known],
            price_per_row=terms.price_per_row,
            game=selection_game(self.rows, owners, len(terms.owners), self.target, gamma=self.gamma),
            coins=np.random.default_rng(0),
        )

    @cached_property
    def comparison(self) -> Comparison:
        """The summary beside what somebody knows who sees the target and the offers, and nothing else."""
        if self.compared is not None:
            return self.compared
        size, count = len(self.rows), len(self.target)
        distance, spread = self.distance, 1.0 - self._kernel_within_target
        own = self.in_sample_squared_mmd if distance is None else distance.squared_mmd
        # Rows that were drawn without a look at the target lie closer to its population than to its rows, by this.
        excess = 0.0 if distance is None else spread / count
        lines = [
            ComparedRows("summary", "this summary", own),
            ComparedRows(
                "fresh",
                "fresh rows of the target's kind",
                spread / size + spread / count - excess,
                f"what {size:,} new rows drawn like the target itself would score, on average",
            ),
        ]
        if self.offered is not None and len(self.offered) > size:
            coins, pool = np.random.default_rng(0), self.offered
            drawn = (pool[coins.choice(len(pool), size=size, replace=False)] for _ in range(_RANDOM_SUBSETS))
            mean = float(np.mean([squared_mmd(rows, self.target, gamma=self.gamma) for rows in drawn]))
            meaning = f"{size:,} rows drawn from the offers without looking, {_RANDOM_SUBSETS} times"
            lines.append(ComparedRows("random", "random rows among those offered", mean - excess, meaning))
        return Comparison(
            measure="in-sample" if distance is None else "estimate",
            rows=count,
            lines=tuple(replace(line, squared_mmd=max(0.0, line.squared_mmd)) for line in lines),
            curve=tuple(map(float, self.summary.squared_mmds)) if distance is None else distance.curve,
        )

    @property
    def _kernel_within_target(self) -> float:
        """The mean kernel of two different rows of the target: a U-statistic."""
        count = len(self.target)
        kernel = rbf_kernel(self.target.astype(np.float64), self.target, gamma=self.gamma)
        return float((float(kernel.sum()) - count) / (count * (count - 1)))

    @cached_property
    def records(self) -> pa.Table:
        declared, summary = self.plan.inputs.declared, self.summary
        if declared is None:
            raise InvalidArgument("schema", "none", "without a schema there are no records")
        return declared.unpack(summary.records.tobytes(), rows=len(summary.rows))

    def table(self, owners: Sequence[str] | None = None) -> pa.Table:
        """``summary.parquet``: the records with label, owner and weight; nothing else of an owner's table is in it."""
        table, summary = self.records, self.summary
        label = self._schema.label_column
        if label is not None and label not in table.column_names and len(summary.labels):
            table = table.append_column(label, pa.array(summary.labels))
        names = [owner for owner, _ in self.picks] if owners is None else owners
        for name, column in (("owner", pa.array(names)), ("weight", pa.array(self.weights))):
            # A declared column may have one of these names.
            table = table.append_column(f"likeset_{name}" if name in table.column_names else name, column)
        return table.append_column(HANDLE, pa.array(summary.handles)) if self.with_handles else table

    @property
    def _schema(self) -> Schema:
        return cast("Schema", self.plan.inputs.schema)  # a job has one

    def document(self) -> dict[str, Any]:
        settings, terms, guarantees, schema = self.plan.settings, self.terms, self.plan.guarantees, self._schema
        simulated, target = self.plan.simulated, self.plan.inputs.target
        return {
            "format": FORMAT,
            "run": terms.run,
            "created": self.created.isoformat(timespec="seconds"),
            "version": metadata.version("likeset"),
            "private": is_private(guarantees, simulated=simulated),
            "noise": settings.noise,
            "seed": settings.seed,
            "protocol": terms.protocol,
            "size": settings.size,
            "rows_selected": len(self.rows),
            "distance": None if self.distance is None else asdict(self.distance),
            "in_sample_squared_mmd": self.in_sample_squared_mmd,
            "weighted": settings.weights,
            "gamma": self.gamma,
            "labels": {"weight": self.summary.label_weight / 100, "skill": self.summary.label_skill / 100},
            "comparison": asdict(self.comparison),
            "access_ratio": self.access_ratio,
            "rows_seen": self.summary.rows_seen,
            "target": {"name": target.name, "rows": len(target.rows)},
            "guarantees": guarantee_documents(guarantees, unit=terms.unit),
            "shares": {line.owner: line.share for line in self.attribution.owners},
            "owners": self._owner_documents(),
            "history": [
                {"owner": pick.owner, "gain": pick.gain, "squared_mmd": pick.squared_mmd} for pick in self.history
            ],
            "seconds": {name: round(value, 3) for name, value in self.seconds.items()},
            "warnings": notice_documents(self.all_warnings),
            "terms": {"digest": terms.digest, "summary": _terms_summary(terms, guarantees[0], self.plan.width_failure)},
            "schema": _schema_document(schema),
            "budget": self.budget,
        }

    def _owner_documents(self) -> list[dict[str, Any]]:
        problems = {notice.owner: notice.text for notice in reversed(self.warnings)}
        found = []
        for line in self.attribution.owners:
            facts, traffic = self.facts[line.owner], self.facts[line.owner].traffic
            found.append(
                {
                    "name": line.owner,
                    "table": self.tables.get(line.owner),
                    "rows": facts.rows,
                    "disclosed": facts.disclosed,
                    "disclosed_at_most": line.rows_disclosed,
                    "selected": line.rows_selected,
                    "share": line.share,
                    "shapley": line.shapley,
                    "payment": None if facts.disclosed is None else line.payment,
                    "payment_at_most": line.payment,
                    "heard_bytes": None if traffic is None else traffic.heard_bytes,
                    "sent_bytes": None if traffic is None else traffic.sent_bytes,
                    "messages": None if traffic is None else traffic.heard_messages + traffic.sent_messages,
                    "problem": problems.get(line.owner),
                }
            )
        return found


def _schema_document(schema: Schema) -> dict[str, Any]:
    columns = [
        {"name": column.name, "kind": column.kind, "unit": column.unit, "from_data": column.from_data}
        for column in schema.describe()
    ]
    whose = schema.declaration.id
    declared_id: dict[str, Any] | None = None
    if whose is not None:
        declared_id = {"column": whose.column, "rows_per_id": whose.rows_per_id}
        declared_id |= {} if whose.keep is None else {"keep": whose.keep}
    return {"digest": schema.digest, "columns": columns, "id": declared_id}


def _terms_summary(terms: Terms, about_target: PlannedView, failure: float | None) -> dict[str, Any]:
    release = f"epsilon = {terms.target_budget.epsilon:.4g}, delta = {terms.target_budget.delta:g}"
    if about_target.width_choice is not None:
        total = about_target.guarantee.epsilon
        release += f" for the release; epsilon = {total:.4g} with the private choice of its kernel width"
        if failure is not None:
            release += f", which is far off with a probability of usually at most {percent_at_most(failure)}"
    return {
        "protocol": terms.protocol,
        "consumer": terms.consumer,
        "purpose": terms.purpose,
        "owners": len(terms.owners),
        "quorum": terms.quorum,
        "size": terms.size,
        "target_size": terms.target_size,
        "rows_per_owner": terms.rows_per_owner,
        "offers": terms.offers,
        "auction": terms.auction,
        "split": None if terms.split is None else "three parties compute on shares",
        "target_budget": release,
        "owner_budget": f"epsilon = {terms.owner_budget.epsilon:.4g}, delta = {terms.owner_budget.delta:g}",
        "relation": str(terms.relation),
        "rows_per_unit": terms.rows_per_unit,
        "summary_release": terms.summary_release,
        "price_per_row": terms.price_per_row,
        **({"currency": terms.currency} if terms.currency else {}),
        "accept_unproven": ", ".join(terms.accept_unproven) or "none",
    }


# Pictures


def pictures(result: Result) -> dict[str, Any]:
    """``pictures.json``: target, summary and offers in two dimensions, and column by column.

    The offers are rows that only the curator saw. In a run on one machine the reader of the report is the curator.
    """
    inputs, labels, coins = result.plan.inputs, result.summary.labels, np.random.default_rng(0)
    if inputs.schema is None or inputs.target.table is None:
        return {}
    target, summary = (inputs.target.rows, inputs.target.table), (result.rows, result.records)
    return {
        "labels": _label_counts(str(inputs.schema.label_column), labels, result.offered_labels)
        if len(labels)
        else None,
        "projection": _projection(target[0], summary[0], result.offered, coins),
        "marginals": _marginals(inputs.schema, target, summary, result.offered),
        "images": result.images,
    }


def _projection(target: Rows, summary: Rows, offered: Rows | None, coins: np.random.Generator) -> dict[str, Any]:
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
    first, marginals = 0, []
    for described, (name, declared) in zip(schema.describe(), schema.declared.items(), strict=True):
        features = slice(first, first + described.features)
        first += described.features
        marginal = _marginal(name, declared, target[1], summary[1])
        if marginal is None:
            continue
        pool = None if offered is None else offered[:, features]
        marginal["difference_before"] = None if pool is None else _distance(target[0][:, features], pool)
        marginal["difference_after"] = _distance(target[0][:, features], summary[0][:, features])
        marginals.append(marginal)
    marginals.sort(key=lambda marginal: -(marginal["difference_before"] or marginal["difference_after"]))
    return marginals[:_COLUMNS]


def _distance(rows: Rows, others: Rows) -> float:
    return float(np.linalg.norm(rows.mean(axis=0, dtype=np.float64) - others.mean(axis=0, dtype=np.float64)))


def _marginal(name: str, declared: Any, target: pa.Table, summary: pa.Table) -> dict[str, Any] | None:
    columns = {part: _present(rows.column(name), declared) for part, rows in (("target", target), ("summary", summary))}
    missing = {part: round(column.null_count / max(1, len(column)), 5) for part, column in columns.items()}
    known: dict[str, Any] = {"column": name, "missing": missing if any(missing.values()) else None}
    if isinstance(declared, CategoryColumn | OrdinalColumn | BooleanColumn):
        values = [True, False] if isinstance(declared, BooleanColumn) else list(declared.values)
        shares = {part: _frequencies(column, values) for part, column in columns.items()}
        often = sorted(range(len(values)), key=lambda at: -max(share[at] for share in shares.values()))
        kept = sorted(often[:_VALUES])
        others = {part: 1.0 - missing[part] - sum(share[at] for at in kept) for part, share in shares.items()}
        return known | {
            "kind": "category",
            "edges": None,
            "values": [_shown(values[at]) for at in kept],
            **{part: [share[at] for at in kept] for part, share in shares.items()},
            "others": {
                "count": len(values) - len(kept),
                **{part: max(0.0, round(rest, 5)) for part, rest in others.items()},
            },
        }
    if not isinstance(declared, NumericColumn | DateColumn):
        return None
    numbers = {part: _numbers(column) for part, column in columns.items()}
    together = np.concatenate(list(numbers.values()))
    if not len(together):
        return None
    edges = _edges(together)
    bars = {part: np.histogram(values, bins=edges)[0] / max(1, len(values)) for part, values in numbers.items()}
    return known | {
        "kind": "date" if isinstance(declared, DateColumn) else "numeric",
        "edges": [round(float(edge), 6) for edge in edges],
        "values": None,
        **{part: [round(float(share), 5) for share in shares] for part, shares in bars.items()},
    }


def _present(column: pa.ChunkedArray, declared: Any) -> pa.ChunkedArray:
    """The column with declared missing values as nulls, as the distance treats them."""
    try:
        coded = pc.is_in(column, value_set=pa.array(getattr(declared, "missing_values", ())).cast(column.type))
        return pc.if_else(coded, pa.scalar(None, column.type), column)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # codes that no cell of this type can have
        return column


def _frequencies(column: pa.ChunkedArray, values: Sequence[Any]) -> list[float]:
    counts = Counter(column.to_pylist())
    return [round(counts[value] / max(1, len(column)), 5) for value in values]


def _edges(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Where bars begin and end; whole numbers stand in the middle of theirs, with as many of them in each."""
    low, high = float(numbers.min()), float(numbers.max())
    if abs(low) < _LARGEST_WHOLE and abs(high) < _LARGEST_WHOLE and bool((numbers == np.round(numbers)).all()):
        width = max(1, math.ceil((high - low + 1.0) / _BARS))
        bars = math.ceil((high - low + 1.0) / width)
        return low - 0.5 + width * np.arange(bars + 1.0)
    return np.linspace(low, high if high > low else low + 1.0, _BARS + 1)


def _label_counts(column: str, labels: NDArray[Any], offered: NDArray[Any] | None) -> dict[str, Any]:
    """Labels of the summary with their counts; ``offers`` are the shares of the same labels among all offers."""
    if labels.dtype.kind == "f" and len(np.unique(labels)) > _BARS:
        counts, edges = np.histogram(labels, bins=_BARS)
        ranges = [f"{low:.4g} to {high:.4g}" for low, high in itertools.pairwise(edges)]
        others = {"count": 0, "rows": 0}
        return {"column": column, "values": ranges, "rows": counts.tolist(), "others": others, "offers": None}
    values, counts = np.unique(labels, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    shown, rest = order[:_LABELS], order[_LABELS:]
    return {
        "column": column,
        "values": [_shown(values[place].item()) for place in shown],
        "rows": [int(counts[place]) for place in shown],
        "others": {"count": len(rest), "rows": int(counts[rest].sum())},
        "offers": None if offered is None else [float((offered == values[place]).mean()) for place in shown],
    }


def _numbers(column: pa.ChunkedArray) -> NDArray[np.float64]:
    days = pc.cast(column, pa.int32()) if pa.types.is_date(column.type) else column
    return np.asarray(pc.drop_null(days).to_numpy(), dtype=np.float64)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


# Notebooks


def story(
    result: Result,
    *,
    labels: NDArray[Any] | None,
    warnings: Iterable[Notice],
    shown_names: Mapping[str, str],
) -> str:
    terms, lines, guarantees = result.terms, result.attribution.owners, result.plan.guarantees
    simulated = result.plan.simulated
    document = {
        "distance": None if result.distance is None else asdict(result.distance),
        "in_sample_squared_mmd": result.in_sample_squared_mmd,
        "weighted": result.plan.settings.weights,
        "comparison": {"curve": () if result.distance is None else result.distance.curve},
        "history": [asdict(pick) for pick in result.history],
        "target": {"rows": len(result.target)},
        "rows_selected": len(result.rows),
        "size": terms.size,
        "owners": [{"selected": line.rows_selected} for line in lines],
    }
    documents = guarantee_documents(guarantees, unit=terms.unit)
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
