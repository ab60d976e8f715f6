"""The result of a run as typed facts, judged on the selected rows; and ``result.json``."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from likeset import arguments
from likeset.arguments import Rows
from likeset.errors import InvalidArgument
from likeset.geometry.kernels import rbf_kernel, squared_mmd
from likeset.geometry.shapley import Game, Shapley, owner_numbers, selection_game, shapley
from likeset.privacy.guarantee import checked_name
from likeset.protocol.notices import Notice, notice_documents
from likeset.protocol.party import Traffic
from likeset.protocol.prices import PlannedView
from likeset.protocol.terms import Terms
from likeset.protocol.wire import Summary
from likeset.run.job import OwnFiles
from likeset.run.pictures import Images, pictures_document
from likeset.run.plan import CountedBudget, guarantee_documents, is_private
from likeset.tables.records import DeclaredRecords
from likeset.tables.schema import Schema


@dataclass(frozen=True, slots=True)
class OwnerAttribution:
    """One owner's line of the report; for the consumer, not for owners.

    Attributes:
        owner: its name.
        rows_selected: how many of its rows are in the summary.
        rows_disclosed: how many rows it sent to the curator.
        share: its part of all Shapley values above zero.
        shapley: its Shapley value; those of all owners add up to ``Attribution.improvement``.
        shapley_error: standard error of the Shapley value; 0 if it is exact.
        payment: price times rows disclosed.
    """

    owner: str
    rows_selected: int
    rows_disclosed: int
    share: float
    shapley: float
    shapley_error: float
    payment: float


@dataclass(frozen=True, slots=True)
class Attribution:
    """Who contributed what to a summary.

    Attributes:
        owners: one line per owner, in the public order of owners.
        improvement: what the selected rows of all owners are worth together (``geometry.shapley``).
        permutations: how many orders the Shapley values were sampled from; 0 if they are exact.
    """

    owners: tuple[OwnerAttribution, ...]
    improvement: float
    permutations: int


def shares(values: ArrayLike, *, rows_selected: ArrayLike | None = None) -> NDArray[np.float64]:
    """Each owner's fraction of all values.

    If every value is zero, the owners that contributed rows share equally; if nobody did, all
    shares are zero. Shares are never negative and add up to 1, or to 0.
    """
    worth = arguments.vector("values", values)
    if len(worth) and worth.min() < 0.0:
        raise InvalidArgument("values", f"array of length {len(worth)}", "must not be negative")
    contributed = np.ones(len(worth))
    if rows_selected is not None:
        contributed = (arguments.row_numbers("rows_selected", rows_selected, length=len(worth)) > 0).astype(np.float64)
    largest = float(worth.max(initial=0.0))
    # Divided by the largest first, so that neither huge nor tiny values overflow or vanish in the sum.
    parts = worth / largest if largest > 0.0 else contributed
    whole = float(parts.sum())
    return np.asarray(parts / whole if whole > 0.0 else parts)


def payments(rows_disclosed: ArrayLike, price_per_row: float) -> NDArray[np.float64]:
    """The default payment: price times rows disclosed to the curator, whether selected or not.

    An owner's entry depends on its own count and the agreed price alone, so hearing it tells an owner nothing about
    anybody else; nothing is charged for it.
    """
    disclosed = arguments.row_numbers("rows_disclosed", rows_disclosed)
    return disclosed.astype(np.float64) * arguments.positive("price_per_row", price_per_row, zero=True)


def attribute(
    names: Sequence[str],
    *,
    owners: ArrayLike,
    rows_disclosed: ArrayLike,
    price_per_row: float,
    game: Game,
    coins: np.random.Generator | None = None,
) -> Attribution:
    """The whole report."""
    known = [checked_name("names", name) for name in names]
    if len(set(known)) != len(known):
        raise InvalidArgument("names", f"{len(known)} names", "must be different from one another")
    if game.owner_count != len(known):
        raise InvalidArgument("game", f"{game.owner_count} owners", f"must have {len(known)}, one per name")
    places = owner_numbers(owners, len(known), length=np.size(owners))
    selected = np.bincount(places, minlength=len(known))
    disclosed = arguments.row_numbers("rows_disclosed", rows_disclosed, length=len(known))
    if (selected > disclosed).any():
        who = known[int(np.argmax(selected > disclosed))]
        raise InvalidArgument("rows_disclosed", who, "has more rows selected than it disclosed")
    return _report(known, selected, disclosed, payments(disclosed, price_per_row), shapley(game, coins=coins))


def _report(
    names: Sequence[str],
    selected: NDArray[np.int64],
    disclosed: NDArray[np.int64],
    paid: NDArray[np.float64],
    fair: Shapley,
) -> Attribution:
    fractions = shares(np.maximum(fair.values, 0.0), rows_selected=selected)
    lines = tuple(
        OwnerAttribution(
            owner=name,
            rows_selected=int(selected[position]),
            rows_disclosed=int(disclosed[position]),
            share=float(fractions[position]),
            shapley=float(fair.values[position]),
            shapley_error=float(fair.standard_errors[position]),
            payment=float(paid[position]),
        )
        for position, name in enumerate(names)
    )
    return Attribution(owners=lines, improvement=fair.total, permutations=fair.permutations)


_RANDOM_SUBSETS = 20
_QUANTILE = 1.959964  # of the normal distribution, for 95%

Measure = Literal["estimate", "in-sample", "held-out"]


@dataclass(frozen=True, slots=True)
class OwnerFacts:
    """What is known here of an owner; None for what only the owner knows."""

    rows: int | None = None
    disclosed: int | None = None
    traffic: Traffic | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class RunOutcome:
    """How a run ended."""

    terms: Terms
    guarantees: tuple[PlannedView, ...]
    gamma: float
    summary: Summary
    row_numbers: tuple[int, ...]
    owners: Mapping[str, OwnerFacts]
    offered: Rows | None
    held_out_curve: tuple[float, ...] = ()
    warnings: tuple[Notice, ...]
    seconds: float

    @property
    def picks(self) -> tuple[tuple[str, int], ...]:
        names = self.terms.owners
        return tuple((names[owner], row) for owner, row in zip(self.summary.owners, self.row_numbers, strict=True))


@dataclass(frozen=True, slots=True)
class Pick:
    """One selected row: whose, which, its marginal gain, and the in-sample squared MMD once it was in."""

    owner: str
    row: int
    gain: float
    squared_mmd: float


@dataclass(frozen=True, slots=True)
class Distance:
    """Squared MMD between a summary and the population that the target was drawn from, by cross-fitting.

    Attributes:
        squared_mmd: the estimate; it may be below zero by chance.
        low: end of an interval that covers the true number in about 95 of 100 runs; never below zero.
        high: its other end.
        curve: the estimate for the first rows of the summary, all with the same weight: for one, two and so on. Empty
            between organisations: there it would tell of rows that nobody bought.
    """

    squared_mmd: float
    low: float
    high: float
    curve: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ComparedRows:
    """One line of a comparison."""

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


@dataclass(frozen=True, slots=True)
class OwnerResult:
    """An owner's part in a result; for the consumer, not for owners."""

    contribution: OwnerAttribution
    facts: OwnerFacts
    problem: Notice | None

    @property
    def payment(self) -> float | None:
        """Price times rows disclosed; None where only the owner knows how many those are."""
        return None if self.facts.disclosed is None else self.contribution.payment


@dataclass(frozen=True, eq=False)
class Result:
    """A run's outcome, judged on the selected rows."""

    outcome: RunOutcome
    rows: Rows
    target: Rows

    @cached_property
    def in_sample_squared_mmd(self) -> float:
        """Of the (weighted) selected rows to the target's rows, which they were selected by."""
        return squared_mmd(self.rows, self.target, gamma=self.outcome.gamma, weights=self.outcome.summary.weights)

    @property
    def distance(self) -> Distance | None:
        summary = self.outcome.summary
        if math.isnan(summary.held_out_error):
            return None
        value, margin = summary.held_out_squared_mmd, _QUANTILE * summary.held_out_error
        return Distance(value, max(0.0, value - margin), max(0.0, value + margin), self.outcome.held_out_curve)

    @property
    def access_ratio(self) -> float:
        return (self.outcome.summary.rows_seen + len(self.target)) / (self.outcome.terms.size + len(self.target))

    @property
    def history(self) -> tuple[Pick, ...]:
        summary = self.outcome.summary
        return tuple(
            Pick(owner, row, float(gain), float(value))
            for (owner, row), gain, value in zip(self.outcome.picks, summary.gains, summary.squared_mmds, strict=True)
        )

    @cached_property
    def attribution(self) -> Attribution:
        """Who contributed what, judged on the selected rows; telling it to an owner would be a release of its own.

        An owner of whom nobody here knows how many rows left it disclosed no more than the terms allow.
        """
        outcome, terms = self.outcome, self.outcome.terms
        known = [outcome.owners[name].disclosed for name in terms.owners]
        return attribute(
            terms.owners,
            owners=outcome.summary.owners,
            rows_disclosed=[terms.rows_per_owner if rows is None else rows for rows in known],
            price_per_row=terms.price_per_row,
            game=selection_game(self.rows, outcome.summary.owners, len(terms.owners), self.target, gamma=outcome.gamma),
            coins=np.random.default_rng(0),
        )

    @property
    def owners(self) -> tuple[OwnerResult, ...]:
        problems = {notice.owner: notice for notice in reversed(self.outcome.warnings)}
        return tuple(
            OwnerResult(line, self.outcome.owners[line.owner], problems.get(line.owner))
            for line in self.attribution.owners
        )

    def comparison(self, more: Sequence[tuple[ComparedRows, Sequence[Rows]]] = ()) -> Comparison:
        """Compare the summary with what somebody knows who sees the target and the offers, and nothing else."""
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
        pool, samples = self.outcome.offered, list(more)
        if pool is not None and len(pool) > size:
            coins = np.random.default_rng(0)
            drawn = [pool[coins.choice(len(pool), size=size, replace=False)] for _ in range(_RANDOM_SUBSETS)]
            meaning = f"{size:,} rows drawn from the offers without looking, {_RANDOM_SUBSETS} times"
            samples.insert(0, (ComparedRows("random", "random rows among those offered", 0.0, meaning), drawn))
        for line, each in samples:
            mean = np.mean([squared_mmd(rows, self.target, gamma=self.outcome.gamma) for rows in each])
            lines.append(replace(line, squared_mmd=float(mean) - excess))
        return Comparison(
            measure="in-sample" if distance is None else "estimate",
            rows=count,
            lines=tuple(replace(line, squared_mmd=max(0.0, line.squared_mmd)) for line in lines),
            curve=tuple(map(float, self.outcome.summary.squared_mmds)) if distance is None else distance.curve,
        )

    @cached_property
    def _kernel_within_target(self) -> float:
        """The mean kernel of two different rows of the target: a U-statistic."""
        count = len(self.target)
        kernel = rbf_kernel(self.target.astype(np.float64), self.target, gamma=self.outcome.gamma)
        return float((float(kernel.sum()) - count) / (count * (count - 1)))


FORMAT = 4
HANDLE = "likeset_handle"
"""A column of the summary between organisations: by it an owner finds its row again."""


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, eq=False, kw_only=True)
class JobResult:
    """What came of a job."""

    files: OwnFiles
    result: Result
    records: pa.Table
    comparison: Comparison
    warnings: tuple[Notice, ...]
    budget: CountedBudget
    seconds: Mapping[str, float]
    tables: Mapping[str, str] = field(default_factory=dict)
    with_handles: bool = False
    images: Images | None = None
    created: datetime = field(default_factory=_now)

    def document(self) -> dict[str, Any]:
        job, outcome, result, schema = self.files.job, self.result.outcome, self.result, self.files.schema
        terms, owners, simulated = outcome.terms, result.owners, job.noise == "simulated"
        return {
            "format": FORMAT,
            "run": job.run,
            "created": self.created.isoformat(timespec="seconds"),
            "version": terms.version,
            "private": is_private(outcome.guarantees, simulated=simulated),
            "noise": job.noise,
            "seed": job.seed,
            "protocol": terms.protocol,
            "size": job.size,
            "rows_selected": len(result.rows),
            "distance": None if result.distance is None else asdict(result.distance),
            "in_sample_squared_mmd": result.in_sample_squared_mmd,
            "gamma": outcome.gamma,
            "labels": {"weight": outcome.summary.label_weight, "skill": outcome.summary.label_skill},
            "comparison": asdict(self.comparison),
            "access_ratio": result.access_ratio,
            "rows_seen": outcome.summary.rows_seen,
            "target": {"name": self.files.target.name, "rows": len(self.files.target.rows)},
            "guarantees": guarantee_documents(
                outcome.guarantees,
                simulated=simulated,
                unit=terms.unit,
            ),
            "shares": {owner.contribution.owner: owner.contribution.share for owner in owners},
            "owners": [self._owner_document(owner) for owner in owners],
            "history": [
                {"owner": pick.owner, "gain": pick.gain, "squared_mmd": pick.squared_mmd} for pick in result.history
            ],
            "seconds": {name: round(value, 3) for name, value in self.seconds.items()},
            "warnings": notice_documents(self.warnings),
            "terms": {"digest": terms.digest, "summary": _terms_summary(terms, outcome.guarantees[0])},
            "schema": _schema_document(schema),
            "schema_digest": schema.digest,
            "budget": asdict(self.budget),
        }

    def pictures(self) -> dict[str, Any]:
        target = self.files.target
        return pictures_document(
            self.files.schema,
            target=(target.rows, target.table),
            summary=(self.result.rows, self.records),
            labels=self.result.outcome.summary.labels,
            offered=self.result.outcome.offered,
            images=self.images,
        )

    def table(self) -> pa.Table:
        """``summary.parquet``: the records, the label, whose row it is and what it weighs."""
        outcome = self.result.outcome
        table = summary_table(outcome, self.files.schema, [owner for owner, _ in outcome.picks])
        return table.append_column(HANDLE, pa.array(outcome.summary.handles)) if self.with_handles else table

    def _owner_document(self, owner: OwnerResult) -> dict[str, Any]:
        line, facts, traffic = owner.contribution, owner.facts, owner.facts.traffic
        return {
            "name": line.owner,
            "table": self.tables.get(line.owner),
            "rows": facts.rows,
            "disclosed": facts.disclosed,
            "disclosed_at_most": line.rows_disclosed,
            "selected": line.rows_selected,
            "share": line.share,
            "shapley": line.shapley,
            "payment": owner.payment,
            "payment_at_most": line.payment,
            "heard_bytes": None if traffic is None else traffic.heard_bytes,
            "sent_bytes": None if traffic is None else traffic.sent_bytes,
            "messages": None if traffic is None else traffic.heard_messages + traffic.sent_messages,
            "problem": None if owner.problem is None else owner.problem.text,
        }


def received_rows(outcome: RunOutcome, schema: Schema) -> tuple[Rows, pa.Table]:
    """The selected rows as the selection sees them, and as the records that came with them."""
    summary = outcome.summary
    return summary.rows, DeclaredRecords(schema).unpack(summary.records.tobytes(), rows=len(summary.rows))


def summary_table(outcome: RunOutcome, schema: Schema, owners: Sequence[str]) -> pa.Table:
    """The delivered records with label, owner and weight; nothing else of an owner's table is in it."""
    summary = outcome.summary
    _, table = received_rows(outcome, schema)
    label = schema.label_column
    if label is not None and label not in table.column_names and len(summary.labels):
        table = table.append_column(label, pa.array(summary.labels))
    for name, column in (("owner", pa.array(owners)), ("weight", pa.array(summary.weights))):
        # A declared column may have one of these names.
        table = table.append_column(f"likeset_{name}" if name in table.column_names else name, column)
    return table


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


def _terms_summary(terms: Terms, about_target: PlannedView) -> dict[str, Any]:
    release = f"epsilon = {terms.target_budget.epsilon:.4g}, delta = {terms.target_budget.delta:g}"
    if about_target.width_choice is not None:
        total = about_target.guarantee.epsilon
        release += f" for the release; epsilon = {total:.4g} with the private choice of its kernel width"
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
        "accept_unproven": ", ".join(terms.accept_unproven) or "none",
        "version": terms.version,
    }
