"""What a steward reads: inbox, review of a run, outbox, budgets, log and check-up."""

import hashlib
import json
import math
import os
import re
import shutil
import stat
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from likeset.errors import BadDocument, BadMessage, BadTable, InvalidArgument, LikesetError
from likeset.homes import owner_node
from likeset.homes.data import DataSet, SmallGroup, SmallGroups, rare_among
from likeset.homes.home import NETWORK_CAN, Finding, guarded
from likeset.homes.mail import carry
from likeset.homes.owner_node import (
    UNREADABLE,
    AskingCard,
    OwnerNode,
    RunRecord,
    Spent,
    SpentSoFar,
    accounts_under,
    course_of,
    spent_by_run,
)
from likeset.homes.policy import Accounts, Policy, Verdict
from likeset.ledger.ledger import Entry, Head, Problem
from likeset.privacy.events import ROW, NoRelease
from likeset.privacy.guarantee import bound_in_words
from likeset.protocol.party import CURATOR, RELEASE_ROUND
from likeset.protocol.prices import PlannedView
from likeset.protocol.sealed import Owner, row_handles
from likeset.protocol.split_run import make_owner, records_in
from likeset.protocol.terms import MOST_SHOWN, Terms
from likeset.protocol.wire import (
    Asked,
    Body,
    Delivery,
    Message,
    Offer,
    OfferShare,
    SummaryRelease,
    TargetRelease,
    decode,
)
from likeset.tables.profile import Inspection, Suspicion, documents_of, suspicion_of, undeclared_id
from likeset.tables.records import DeclaredRecords, EnvelopeRecords
from likeset.tables.rows_per_id import KeptRowsOfIds, check_ids
from likeset.tables.schema import Schema
from likeset.tables.sources import Source
from likeset.text import harmless, without_secrets
from likeset.trust.cards import Role


@dataclass(frozen=True, slots=True)
class ListedData:
    """A data set in a list.

    Attributes:
        name: by which the owner calls it.
        source: where its rows lie, without a password.
        schema: digest of what is declared.
        columns: that leave with a record, with their kinds; the label is one.
        mapped: whether own columns are turned into declared ones.
        suspicions: columns that may identify people.
        used_by: runs that were approved with it and may still ask for rows.
    """

    name: str
    source: str
    schema: str
    columns: tuple[tuple[str, str], ...]
    mapped: bool
    suspicions: tuple[Suspicion, ...]
    used_by: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        return {
            "data": self.name,
            "source": self.source,
            "schema": self.schema,
            "columns": dict(self.columns),
            "mapped": self.mapped,
            "suspected_identifiers": documents_of(self.suspicions),
            "used_by": list(self.used_by),
        }


def register(
    node: OwnerNode, name: str, source: str, *, schema: Path, mapping: Path | None = None, by: str = ""
) -> DataSet:
    """Add a data set, and write that into the audit log.

    Args:
        node: whose.
        name: by which the owner will call it.
        source: a file, a database or a query; the rows stay there.
        schema: file of the declared columns, which is copied.
        mapping: file of how own columns become declared ones, likewise.
        by: who adds it.

    Raises:
        LikesetError: as ``Registry.add``.
    """
    data = node.registry.add(name, source, schema=schema, mapping=mapping)
    words = {"source": without_secrets(data.source), "schema": data.schema.digest, "mapped": data.mapping is not None}
    node.note("data", name, **words, **({"by": by} if by else {}))
    return data


def remove(node: OwnerNode, name: str, *, by: str) -> None:
    """Forget a data set; its rows stay where they are, and what left has left.

    Raises:
        InvalidArgument: there is none of that name, or a run may still ask for its rows.
    """
    node.registry.get(name)
    used = _used_by(node, name)
    if used:
        runs = ", ".join(used[:5])
        raise InvalidArgument("data set", name, f"is used by {runs}; withdraw from these runs first")
    node.note("data", name, removed=True, by=by)
    node.registry.remove(name)


def listed_data(node: OwnerNode) -> list[ListedData]:
    return [_listed(node, node.registry.get(name)) for name in node.registry.names()]


def _listed(node: OwnerNode, data: DataSet) -> ListedData:
    declared, label = data.schema.declaration.columns, data.schema.label_column
    kinds = {name: "label" if name == label else str(declared[name].kind) for name in data.schema.record_columns}
    return ListedData(
        name=data.name,
        source=without_secrets(data.source),
        schema=data.schema.digest,
        columns=tuple(kinds.items()),
        mapped=data.mapping is not None,
        suspicions=data.suspicions,
        used_by=tuple(_used_by(node, data.name)),
    )


def _used_by(node: OwnerNode, name: str) -> list[str]:
    """Runs that were approved with a data set, and that are neither withdrawn nor over."""
    node.ledger.refresh()
    now = node.now()
    return [
        record.run
        for record in node.runs.by_name.values()
        if record.decision is not None
        and (record.decision.what, record.decision.data) == ("approved", name)
        and record.withdrawn is None
        and not record.has_ended(now)
    ]


@dataclass(frozen=True, slots=True)
class DataLook:
    """What a look at all rows of a data set found.

    Attributes:
        name: of the data set.
        rows: in it.
        smallest: so many rows are no small group, by ``owner.yaml``.
        withheld: rows in small groups, which are never offered.
        groups: the small groups, smallest first; a row may be in several.
        findings: in words.
    """

    name: str
    rows: int
    smallest: int
    withheld: int
    groups: tuple[SmallGroup, ...]
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        return all(finding.ok for finding in self.findings)

    def document(self) -> dict[str, Any]:
        return {
            "data": self.name,
            "ok": self.ok,
            "rows": self.rows,
            "smallest_group": self.smallest,
            "withheld": self.withheld,
            "small_groups": [asdict(group) for group in self.groups],
            "findings": [{"ok": finding.ok, "words": finding.words} for finding in self.findings],
        }


def look_at_data(node: OwnerNode, name: str) -> DataLook:
    """Read every row of a data set, and hold it against what is declared and allowed; nothing leaves.

    Raises:
        LikesetError: it cannot be read, or there is none of that name.
    """
    data, policy = node.registry.get(name), node.policy
    with data.open_source() as source:
        inspection, labelled = Inspection(data.schema), data.schema.label_column is not None
        groups = SmallGroups(data.schema, smallest=policy.smallest_group, labelled=labelled)
        keeping = KeptRowsOfIds.of(source, data.schema, key=data.keep_key(node.home.key()))
        for block in source.blocks(data.schema.needed_columns):
            inspection.add(block.table, table=source.name, locate=block.locate)
            (groups if keeping is None else keeping).add(block)
        kept = None if keeping is None else len(keeping.row_numbers())
        complaints = [*_complaints(inspection), *_about_ids(data, source)]
        person = undeclared_id(source, data.schema)
        withheld = len(rare_among(groups, source, None if keeping is None else keeping.row_numbers()))
    suspicions = inspection.suspicions()
    data.keep_suspicions(suspicions)
    found = [
        *_about_rows(inspection, data, complaints, kept),
        _about_groups(withheld, policy.smallest_group, inspection.rows if kept is None else kept),
        *_about_columns(data, policy.columns),
        *_about_persons(person),
    ]
    what = f"data set {name}"
    findings = [Finding(what, ok=ok, words=words) for ok, words in found]
    findings += [Finding(what, ok=True, words=suspicion.warning, suspicion=suspicion) for suspicion in suspicions]
    findings += [Finding(what, ok=True, words=dead.warning, dead=dead) for dead in inspection.dead_columns()]
    return DataLook(name, inspection.rows, policy.smallest_group, withheld, groups.groups(), tuple(findings))


_Found = tuple[bool, str]


def _about_rows(inspection: Inspection, data: DataSet, complaints: list[str], kept: int | None) -> Iterator[_Found]:
    yield from ((False, words) for words in complaints)
    if not complaints:
        yield True, f"all {inspection.rows:,} rows are as the schema declares"
    if not inspection.rows:
        yield False, "has no rows"
    if kept is not None:
        yield True, f"{kept:,} rows take part, drawn in secret: {data.schema.keep} of each id at most"
    if inspection.too_long:
        most = f"{data.schema.declaration.text_bytes:,} bytes (text_bytes of the schema)"
        words = f"{inspection.too_long:,} rows have a text of more than {most}: never offered"
        yield inspection.too_long < inspection.rows, words


def _about_groups(withheld: int, smallest: int, offered: int) -> _Found:
    if smallest == 1:
        return withheld < offered, "every row may be offered: smallest_group in owner.yaml is 1"
    return withheld < offered, f"{withheld:,} rows are in groups of fewer than {smallest} and are never offered"


def _about_persons(column: str) -> Iterator[_Found]:
    if column:
        yield (
            True,
            f"warning: values of column {column!r} repeat, but the schema declares no id: budgets and groups count "
            f"rows, not persons; ask the consumer for a schema with id: {{column: {column}, keep: 1}}",
        )


def _about_columns(data: DataSet, allowed: tuple[str, ...]) -> Iterator[_Found]:
    forbidden = [name for name in data.schema.record_columns if name not in allowed]
    if forbidden:
        yield False, f"owner.yaml does not let these columns leave: {', '.join(map(repr, forbidden))}"
    if data.schema.from_data:
        listed = ", ".join(map(repr, data.schema.from_data))
        yield False, f"what came from data tells something about it: {listed}"


def _complaints(inspection: Inspection) -> Iterator[str]:
    for column in inspection.columns:
        for trouble, complaint in column.complaints.items():
            places = ", ".join(column.first[trouble])
            yield f"column {column.name!r}: {column.counts[trouble]:,} {trouble}, first at {places}: {complaint}"
    for name, complaint in inspection.numbers_as_words().items():
        yield f"column {name!r}: {complaint}"
    ids = inspection.id_summary()
    if ids is not None and ids.missing:
        yield f"{ids.missing:,} rows do not say whose they are"


def _about_ids(data: DataSet, source: Source) -> Iterator[str]:
    try:
        check_ids(source, data.schema)
    except BadTable as error:
        yield str(error)


@dataclass(frozen=True, slots=True)
class Reader:
    """A party of a run, and what it may read of one owner's rows.

    Attributes:
        role: of the party.
        rows: of this owner that it may read, at most.
        words: which those are, or what it has in their place.
    """

    role: str
    rows: int
    words: str

    def document(self) -> dict[str, Any]:
        return asdict(self)


def readers_of(terms: Terms) -> tuple[Reader, ...]:
    """All who take part, those who may read most first."""
    bought = min(terms.rows_per_owner, terms.size)
    others = Reader("other owners", 0, "none")
    if terms.split is None:
        return (
            Reader("curator", terms.rows_per_owner, "every row that you offer"),
            Reader("consumer", bought, "those that it buys"),
            others,
        )
    shares = "none: shares, which tell nothing alone"
    return (
        Reader("consumer", terms.rows_readable, "those that it buys; of the others shares, which tell nothing alone"),
        *(Reader(role, 0, shares) for role in ("curator", "witness")),
        others,
    )


def other_trust(terms: Terms) -> tuple[str, str]:
    """What would be otherwise if the curator were trusted, or if it were not: a question and its answer."""
    offered = terms.rows_per_owner
    if terms.split is not None:
        alone = f"The curator alone would read all {offered:,} rows that you offer, bought or not, and no witness"
        return "What if the curator were trusted?", f"{alone} would be needed. These terms do not ask for that."
    most = min(offered, terms.size)
    split = (
        f"nobody but the consumer would read a row, and at most {most:,} of yours, if all parties follow the protocol"
    )
    return (
        "What if the curator were split?",
        f"Then {split}: ask the consumer for terms with `curator: split`. These terms ask you to trust the curator "
        f"with all {offered:,}.",
    )


@dataclass(frozen=True, slots=True)
class PastRun:
    """An earlier run.

    Attributes:
        run: its name.
        what: became of it: withdrawn, approved, denied or not decided.
        at: when that was decided, or when it came (UTC).
        rows: that left in it.
    """

    run: str
    what: str
    at: str
    rows: int


def past_runs(node: OwnerNode, terms: Terms) -> tuple[PastRun, ...]:
    """The other runs of the consumer of some terms, newest first; by its name, which one pinned card has at a time."""
    past = [
        _past(record)
        for record in node.runs.by_name.values()
        if record.run != terms.run and terms.consumer in record.consumers.values()
    ]
    return tuple(sorted(past, key=lambda run: run.at, reverse=True))


def _past(record: RunRecord) -> PastRun:
    rows = sum(replies.rows for replies in record.sent.values())
    if record.withdrawn is not None:
        return PastRun(record.run, "withdrawn", record.withdrawn[1], rows)
    if record.decision is not None:
        return PastRun(record.run, record.decision.what, record.decision.at, rows)
    return PastRun(record.run, "not decided", record.invited_at[record.latest_digest], rows)


Choice = Literal["approve", "deny", "withdraw"]


def open_decisions(node: OwnerNode, record: RunRecord) -> tuple[Choice, ...]:
    """What somebody may decide about the terms of a run that came last."""
    if record.withdrawn is not None:
        return ()
    decision = record.decided(record.latest_digest)
    if record.began or record.run in owner_node.began(node.ledger):
        return ("withdraw",)
    if decision is None:
        return ("approve", "deny")
    return ("deny", "withdraw") if decision.what == "approved" else ("approve",)


_ASKED = {"consumers": "who may ask", "purposes": "what for", "columns": "which columns may leave"}
_ROWS = "how many rows in one run and in all"


@dataclass(frozen=True, slots=True)
class SetupStep:
    """Something to be done.

    Attributes:
        about: what.
        words: what to do, for a person.
    """

    about: Literal["rules", "data", "cards"]
    words: str


def policy_gaps(node: OwnerNode) -> list[str]:
    """Fields of ``owner.yaml`` that allow nothing yet."""
    policy = node.policy
    gaps = [word for word in ("consumers", "purposes", "columns") if not getattr(policy, word)]
    return gaps if policy.total.rows and policy.per_run.rows else [*gaps, "rows in per_run and total"]


def steps_left(node: OwnerNode) -> list[SetupStep]:
    """What is missing, in the order in which one would do it; nothing if runs can be answered."""
    steps = []
    if gaps := policy_gaps(node):
        asked = ", ".join(_ASKED.get(gap, _ROWS) for gap in gaps)
        steps.append(SetupStep("rules", f"Nothing may leave yet. Say {asked}."))
    if not node.registry.names():
        steps.append(SetupStep("data", "Add a data set."))
    roles = {pin.role for pin in node.home.pins().all() if pin.state == "pinned"}
    missing = [role for role in ("consumer", "curator") if role not in roles]
    if missing:
        steps.append(SetupStep("cards", f"Pin the card of a {' and of a '.join(missing)}."))
    return steps


@dataclass(frozen=True, slots=True)
class BudgetLine:
    """One budget over all runs.

    Attributes:
        what: is counted, and toward whom.
        spent: so far.
        limit: over all runs.
    """

    what: str
    spent: float
    limit: float

    @property
    def left(self) -> float:
        """What remains; nothing if more is spent than a limit allows that was lowered since."""
        return max(0, self.limit - self.spent)

    def shown(self, value: float) -> str:
        return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


@dataclass(frozen=True, slots=True)
class BudgetOverview:
    """Both budgets, and their history.

    Attributes:
        rows: that may leave.
        readable: of them that one party may read.
        epsilon: what other owners may learn.
        delta: at which epsilon holds over all runs: the sum of the deltas of the limits that were in force.
        limits: how many they were.
        history: every charge that cost something, oldest first.
        course: what was spent after each of them.
    """

    rows: BudgetLine
    readable: BudgetLine
    epsilon: BudgetLine
    delta: float
    limits: int
    history: tuple[Spent, ...]
    course: tuple[SpentSoFar, ...]

    @property
    def lines(self) -> tuple[BudgetLine, ...]:
        return self.epsilon, self.rows, self.readable

    @property
    def about_delta(self) -> str:
        if self.limits < 2:
            return f"at delta {self.delta:g}"
        return f"at delta {self.delta:g}, the sum of {self.limits} limits: one raised after a charge adds its delta"

    def document(self) -> dict[str, Any]:
        return {
            "rows": {"spent": self.rows.spent, "limit": self.rows.limit},
            "readable": {"spent": self.readable.spent, "limit": self.readable.limit},
            "epsilon": {"spent": self.epsilon.spent, "limit": self.epsilon.limit, "delta": self.delta},
            "history": [
                {"run": charge.run, "at": charge.at, "toward": charge.toward}
                | {"rows": charge.rows, "answered": charge.answered}
                for charge in self.history
            ],
            "course": [asdict(point) for point in self.course],
        }


def budget_overview(node: OwnerNode) -> BudgetOverview:
    """Both budgets as ``owner.yaml`` limits them; nothing is written."""
    policy = node.policy
    accounts = accounts_under(node.ledger, policy, path=node.home.policy)
    rows, readable = sum(account.rows for account in accounts), sum(account.readable for account in accounts)
    most = policy.total.rows if policy.total.readable is None else policy.total.readable
    epsilon = sum(account.epsilon or 0.0 for account in accounts)
    return BudgetOverview(
        rows=BudgetLine("rows that leave", rows, policy.total.rows),
        readable=BudgetLine("rows that one party may read", readable, most),
        epsilon=BudgetLine("epsilon to owners", epsilon, policy.total.epsilon),
        delta=sum(account.delta or 0.0 for account in accounts),
        limits=max(len(account.deltas) for account in accounts),
        history=tuple(spent_by_run(node.ledger)),
        course=tuple(course_of(node.ledger, policy)),
    )


_LEFT_OUT = frozenset({"at", "signed", "terms", "charge", "fingerprint", "release", "policy", "account"})


@dataclass(frozen=True, slots=True)
class LogLine:
    """An entry of the log.

    Attributes:
        number: its place in the chain.
        at: when it was written (UTC).
        kind: what happened.
        about: the run or data set; empty if it is about none.
        words: what else it says, in short; signed terms and charges are left out.
    """

    number: int
    at: str
    kind: str
    about: str
    words: Mapping[str, Any]

    @property
    def text(self) -> str:
        return ", ".join(f"{name}: {_shown(value)}" for name, value in self.words.items())

    def document(self) -> dict[str, Any]:
        about, words = self.about, dict(self.words)
        return {"entry": self.number, "at": self.at, "kind": self.kind, "about": about, "words": words}


@dataclass(frozen=True, slots=True)
class LogPage:
    """A part of the log, newest first.

    Attributes:
        lines: the entries.
        newest: the number of the log's last entry.
        older: from where to go on before these; None if there is nothing.
    """

    lines: tuple[LogLine, ...]
    newest: int
    older: int | None


def log_page(node: OwnerNode, *, before: int | None = None, count: int = 50, run: str = "") -> LogPage:
    """The last entries before a number.

    Args:
        node: whose log.
        before: entries with smaller numbers; the last ones if None.
        count: how many at most.
        run: only those about this run, or data set.
    """
    newest = node.ledger.head().number
    end = newest + 1 if before is None else min(before, newest + 1)
    if run:
        entries: Sequence[Entry] = node.ledger.entries_about(run, before=end, most=count + 1)
    else:
        entries = node.ledger.entries(first=max(1, end - count - 1), last=end - 1)[::-1]
    lines = tuple(_line(entry) for entry in entries[:count])
    return LogPage(lines, newest, lines[-1].number if len(entries) > count else None)


def _about(entry: Entry) -> str:
    if entry.kind in ("reserve", "commit"):
        return str(json.loads(entry.key)[0])
    return entry.key


def _line(entry: Entry) -> LogLine:
    document = entry.document()
    words = {name: value for name, value in document.items() if name not in _LEFT_OUT}
    if entry.kind == "reserve":
        words["rows"] = document["charge"]["rows"]
    return LogLine(entry.number, str(document["at"]), entry.kind, _about(entry), words)


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


_LABEL = "label"


@dataclass(frozen=True, eq=False)
class LeftRows:
    """Rows as they left.

    Attributes:
        table: in declared columns, with the label; None where they cannot be shown.
        count: how many rows.
        held_back: rows that were stored to leave and did not, which are not among them.
    """

    table: pa.Table | None
    count: int
    held_back: int = 0


@dataclass(frozen=True, slots=True)
class LeftMessage:
    """A message that left, or was stored to leave and held back.

    Attributes:
        run: of the run.
        entry: the ledger's entry; 0 if there is none.
        at: when it was stored (UTC).
        round: of the run.
        kind: of the message.
        rows: in it.
        data: its bytes.
        sent: whether the audit log says that it was sent; otherwise a crash or a withdrawal came first.
        acknowledged: whether the curator's receipt, which holds, has it.
    """

    run: str
    entry: int
    at: str
    round: int
    kind: str
    rows: int
    data: bytes = field(repr=False)
    sent: bool
    acknowledged: bool = False

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    @property
    def file_name(self) -> str:
        run, held_back = re.sub(r"[^A-Za-z0-9.-]", "_", self.run), "" if self.sent else "-held-back"
        return f"{run}-{self.entry:06d}-{self.kind}{held_back}.bin"

    def document(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "entry": self.entry,
            "at": self.at,
            "round": self.round,
            "kind": self.kind,
            "rows": self.rows,
            "bytes": len(self.data),
            "sha256": self.digest,
            "sent": self.sent,
            "acknowledged": "yes" if self.acknowledged else "no",
        }


def messages_that_left(node: OwnerNode, run: str | None = None) -> list[LeftMessage]:
    """All messages that left (in a run) or were held back, oldest first; what was purged is missing."""
    node.ledger.refresh()
    messages = []
    for exchange in owner_node.exchanges(node.ledger, run):
        record = node.runs.by_name.get(exchange.run)
        sent = record is not None and exchange.entry in record.sent
        for data in exchange.replies:
            message = decode(data)
            what = (message.round, message.body.kind, owner_node.rows_in([message]))
            messages.append(LeftMessage(exchange.run, exchange.entry, exchange.at, *what, data, sent))
    return messages


def messages_with_receipts(node: OwnerNode, run: str | None = None) -> list[LeftMessage]:
    messages = messages_that_left(node, run)
    known = {name: owner_node.acknowledged_letters(node, name) for name in {message.run for message in messages}}
    return [
        replace(message, acknowledged=message.sent and (message.round, message.kind) in known[message.run])
        for message in messages
    ]


def rows_that_left(node: OwnerNode, run: str) -> LeftRows:
    """The rows that left in a run; of those that were held back only the number."""
    decision = node.record_of(run).decision
    known = decision is not None and decision.data in node.registry.names()  # it may have been removed since
    schema = node.registry.get(decision.data).schema if decision is not None and known else None
    messages = [message for message in messages_that_left(node, run) if message.rows]
    labelled = decision is not None and schema is not None and _is_labelled(node, run, decision.digest, schema)
    rows = rows_of(tuple(message.data for message in messages if message.sent), schema, labelled=labelled)
    held_back = owner_node.rows_in(decode(message.data) for message in messages if not message.sent)
    return replace(rows, held_back=held_back)


def _is_labelled(node: OwnerNode, run: str, digest: str, schema: Schema) -> bool:
    terms = node.record_of(run).readable(digest)
    return terms is not None and schema.label_column in terms.columns


def rows_of(messages: tuple[bytes, ...], schema: Schema | None, *, labelled: bool) -> LeftRows:
    """The rows in messages.

    Args:
        messages: that left, or would leave.
        schema: that declares the rows; None where it is not known any more.
        labelled: whether labels leave with rows in this run.
    """
    said = [decode(data).body for data in messages]
    shared = [body for body in said if isinstance(body, OfferShare)]
    if shared:
        return _shared_rows(shared, schema, labelled=labelled)
    bodies = [body for body in said if isinstance(body, Offer | Delivery)]
    count = sum(len(body.rows) for body in bodies)
    if schema is None or any(not len(body.records) for body in bodies):
        return LeftRows(None, count)
    tables = [_table(body, schema) for body in bodies]
    return LeftRows(pa.concat_tables(tables) if tables else None, count)


def _shared_rows(bodies: list[OfferShare], schema: Schema | None, *, labelled: bool) -> LeftRows:
    """What lies in the envelopes of an offer on shares: its owner has all that opens them."""
    packed = records_in(bodies)
    if schema is None:
        return LeftRows(None, len(packed))
    read = EnvelopeRecords(schema, labelled=labelled).read(packed)
    table = _with_labels(read.table, read.labels, schema)
    return LeftRows(table, len(packed)) if read.sound.all() else LeftRows(None, len(packed))


def _table(body: Offer | Delivery, schema: Schema) -> pa.Table:
    table = DeclaredRecords(schema).unpack(body.records.tobytes(), rows=len(body.rows))
    return _with_labels(table, body.labels, schema)


def _with_labels(table: pa.Table, labels: Any, schema: Schema) -> pa.Table:
    if not len(labels):
        return table
    name = schema.label_column or _LABEL
    if name in table.column_names:
        name = f"{name} ({_LABEL})"
    return table.append_column(name, pa.array(np.asarray(labels).tolist()))


def verify(node: OwnerNode, *, head: Head | None = None) -> tuple[list[Problem], list[str]]:
    """Whether audit log, ledger, outbox and receipts hold, and agree: what does not, and what is worth knowing.

    That the curator's signed words contradict this node is worth knowing; it does not say that anything here changed.

    Args:
        node: the node.
        head: of the log at some earlier time, kept elsewhere.
    """
    problems: list[Problem] = []
    try:
        problems += node.ledger.verify(head=head, messages=True).problems
        entries = node.ledger.entries()
        stored = owner_node.exchanges(node.ledger)
    except LikesetError as error:
        return [*problems, Problem(0, str(error))], []
    on_record = {exchange.entry: exchange for exchange in stored if exchange.entry}
    answered = {entry.document()["reservation"] for entry in entries if entry.kind == "commit"}
    sent: set[int] = set()
    for entry in entries:
        if entry.kind != "sent":
            continue
        document = entry.document()
        sent.add(document["entry"])
        if document["entry"] not in answered:
            words = f"says that ledger entry {document['entry']} was sent, and the ledger does not know it"
            problems.append(Problem(entry.number, words))
        elif document["entry"] in on_record:  # that it was purged is the ledger's business
            problems += [Problem(entry.number, words) for words in _unlike(on_record[document["entry"]], document)]
    notes = [
        f"an answer of run {exchange.run} was stored, but never sent: a crash or a withdrawal came first"
        for exchange in stored
        if exchange.replies and exchange.entry not in sent
    ]
    about_receipts, more = _about_receipts(node)
    return [*problems, *about_receipts], [*notes, *more]


def _unlike(exchange: owner_node.Exchange, document: dict[str, Any]) -> list[str]:
    """How what is in the outbox differs from what an entry of the audit log says was sent."""
    try:
        rows = owner_node.rows_in(map(decode, exchange.replies))
    except BadMessage as error:
        return [f"what is in the outbox is {error}"]
    same = (sum(map(len, exchange.replies)), rows) == (document["bytes"], document["rows"])
    return [] if same else ["what is in the outbox is not what it says was sent"]


def _about_receipts(node: OwnerNode) -> tuple[list[Problem], list[str]]:
    """What is wrong with receipts as they are kept here, and what is worth knowing; that one is to come is not."""
    try:
        verdicts = owner_node.check_all(node)
    except LikesetError as error:
        return [Problem(0, f"receipts: {error}")], []
    problems, notes, claims, signed = list[Problem](), list[str](), list[str](), list[str]()
    for verdict in verdicts:
        problems += [Problem(0, f"receipt of run {verdict.run}: {words}") for words in verdict.problems]
        notes += [f"receipt of run {verdict.run}: {words}" for words in verdict.notes if verdict.receipt]
        # Another's word against this node's: whoever could sign one could otherwise raise an alarm here at will.
        who = verdict.signer
        claims += [f"{who} contradicts this node, run {verdict.run}: {words}" for words in verdict.contradictions]
        signed += [f"{who} signed what contradicts the rest: {path}" for path in verdict.aside]
    return problems, [*notes, *claims, *signed]


_WHO: dict[Role, str] = {"consumer": "Who asks?", "curator": "Who curates?", "witness": "Who witnesses?"}


@dataclass(frozen=True, eq=False)
class Review:
    """A run as the steward should see it.

    Attributes:
        terms: of the run.
        asking: whom it would be with, by their cards.
        status: where it stands.
        lines: (question, answer) in the order in which one would ask.
        accounts: both budgets before and after.
        verdict: of the policy.
        suspicions: columns that would leave and may identify people.
        columns: that would leave: name, declared kind (empty where no data set fits), and why it may identify people.
        past: what happened with this consumer before, newest first.
        others: what other owners may learn.
        rows_to_consumer: that the consumer gets in all, from all owners.
        readers: who may read how many of this owner's rows.
    """

    terms: Terms
    asking: tuple[AskingCard, ...]
    status: str
    lines: tuple[tuple[str, str], ...]
    accounts: Accounts
    verdict: Verdict
    suspicions: tuple[Suspicion, ...]
    columns: tuple[tuple[str, str, str], ...]
    past: tuple[PastRun, ...]
    others: PlannedView
    rows_to_consumer: int
    readers: tuple[Reader, ...]

    def document(self) -> dict[str, Any]:
        return {
            "run": self.terms.run,
            "digest": self.terms.digest,
            "status": self.status,
            "parties": [card.document() for card in self.asking],
            "answers": dict(self.lines),
            "budgets": budget_document(self.accounts),
            "accepted": self.verdict.accepted,
            "reasons": list(self.verdict.reasons),
            "suspected_identifiers": documents_of(self.suspicions),
            "readers": [reader.document() for reader in self.readers],
            "history": [asdict(run) for run in self.past],
        }


def review(node: OwnerNode, run: str) -> Review:
    """The terms of a run that came last, in words."""
    record = node.record_of(run)
    terms, policy = record.latest, node.policy
    decision = record.decided(terms.digest)
    judged = node.judge(terms, data=decision.data if decision is not None else "")
    accounts = owner_node.accounts_for(node.ledger, terms, policy)
    others, curator, consumer = owner_node.costs_of(terms, node.name)
    fitting, asking = node.registry.for_terms(terms), node.asking(terms)
    lines = [
        *who_lines(asking),
        ("Who else is asked?", f"{_others(terms, node.name)}."),
        ("What for?", _short(terms.purpose) or "It does not say."),
        ("Until when?", _short(terms.expires) or "The terms have no end."),
        (
            "From which data?",
            ", ".join(data.name for data in fitting) or "No data set of yours is declared as the terms say.",
        ),
        ("Which columns?", ", ".join(_short(name) for name in terms.columns) or "The terms do not say."),
        ("How many rows at most?", _rows(terms, curator)),
        ("Who reads your rows?", _readers(terms)),
        other_trust(terms),
        ("What does the curator see?", _seen_by_curator(terms)),
        ("What does the consumer get?", _seen_by_consumer(terms, consumer)),
        ("What may other owners learn about your rows?", _learned(terms, others)),
        ("What can the network do?", NETWORK_CAN),
        ("What is paid?", _payment(terms)),
        *budget_lines(policy, accounts),
    ]
    past = past_runs(node, terms)
    lines.append(("What happened with this consumer before?", _history(past)))
    if len(record.versions) > 1:
        lines.insert(
            0, ("Careful:", f"these are version {len(record.versions)} of the terms; earlier ones were different.")
        )
    if said := owner_node.in_words(node, run):
        lines.append((f"Did the {'curator' if terms.split is None else 'consumer'} acknowledge what left?", said))
    if held_back := sum(message.rows for message in messages_that_left(node, run) if not message.sent):
        words = f"{held_back:,} rows, which are charged: a withdrawal, the end of the terms or a crash came first."
        lines.append(("What was held back?", words))
    suspicions = _suspicions(terms, fitting)
    return Review(
        terms,
        asking,
        status_of(node, run, asking=asking, verdict=judged),
        tuple(lines),
        accounts,
        judged,
        suspicions,
        columns=_columns(terms, fitting, suspicions),
        past=past,
        others=others,
        rows_to_consumer=terms.size if terms.split is not None else consumer.rows,
        readers=readers_of(terms),
    )


def _columns(
    terms: Terms, fitting: Sequence[DataSet], suspicions: Sequence[Suspicion]
) -> tuple[tuple[str, str, str], ...]:
    why = {suspicion.column: suspicion.why for suspicion in suspicions}
    kinds: dict[str, str] = {}
    for data in fitting:
        kinds = {name: str(column.kind) for name, column in data.schema.declaration.columns.items()} | kinds
        kinds |= {data.schema.label_column: "label"} if data.schema.label_column else {}
    return tuple((name, kinds.get(name, ""), why.get(name, "")) for name in terms.columns)


def _history(past: Sequence[PastRun]) -> str:
    if not past:
        return "Nothing: it never asked here."
    rows, last = sum(run.rows for run in past), past[0]
    refused = sum(run.what == "denied" for run in past)
    words = f"{len(past):,} other run{'' if len(past) == 1 else 's'}, {refused:,} of them denied; {rows:,} rows left."
    return f"{words} The last one was {_short(last.run)}, {last.what}, {last.at[:10]}."


def who_lines(asking: Sequence[AskingCard]) -> list[tuple[str, str]]:
    """Who asks, who curates and who witnesses, in words, with their cards: what a steward reads first."""
    return [(_WHO[card.role], f"{_short(card.name) or 'Somebody'}, {card.in_words()}.") for card in asking]


def _suspicions(terms: Terms, fitting: Sequence[DataSet]) -> tuple[Suspicion, ...]:
    """Columns that would leave and may identify people: by names alone where no data set is declared so."""
    if not fitting:
        named = (suspicion_of(name) for name in terms.columns)
        return tuple(suspicion for suspicion in named if suspicion is not None)
    suspected = dict.fromkeys(suspicion for data in fitting for suspicion in data.suspicions)
    return tuple(suspicion for suspicion in suspected if suspicion.column in terms.columns)


_BECAME = {
    "not pinned": "not pinned",
    "pinned": "not allowed by owner.yaml, or pinned for another role",
    "replaced": "replaced: the run has ended",
    "revoked": "revoked: the run has ended",
}


def status_of(
    node: OwnerNode, run: str, *, asking: Sequence[AskingCard] | None = None, verdict: Verdict | None = None
) -> str:
    """Where a run stands, in a word or two.

    Args:
        node: of the steward.
        run: its name.
        asking: whom it would be with, where that is known already.
        verdict: of the policy, likewise.
    """
    record = node.record_of(run)
    if record.withdrawn is not None:
        return "withdrawn"
    decision = record.decided(record.latest_digest)
    if record.readable(record.latest_digest) is None and (decision is None or decision.what == "approved"):
        return UNREADABLE
    if decision is None or decision.what == "approved":
        faulty = [card for card in (node.asking(record.latest) if asking is None else asking) if card.fault]
        if faulty and not (record.began and faulty[0].state == "pinned"):  # owner.yaml counts for what is to begin
            return f"the {faulty[0].role}'s card is {_BECAME[faulty[0].state]}"
    if decision is None:
        if not (verdict or node.judge(record.latest)).accepted:
            return "owner.yaml refuses it"
        return "changed after a decision, waiting" if record.decision is not None else "waiting"
    if decision.what == "denied":
        return "denied"
    if not record.began:
        return "approved"
    return "rows left" if any(replies.rows for replies in record.sent.values()) else "began"


def budget_lines(policy: Policy, accounts: Accounts) -> list[tuple[str, str]]:
    rows, total = policy.total.rows, policy.total
    most = rows if total.readable is None else total.readable
    verb = "cost" if accounts.charged else "costs"
    epsilon_cost = accounts.epsilon_of_run
    cost = "without a bound" if math.isinf(epsilon_cost) else f"epsilon {epsilon_cost:.4g}"
    return [
        (
            "Budget of rows:",
            f"this run {verb} up to {accounts.rows_of_run:,}; {accounts.rows_spent:,} of {rows:,} are spent, "
            f"{max(0, rows - accounts.rows_after):,} remain after it.",
        ),
        (
            "Rows that one party may read:",
            f"in this run up to {accounts.read_of_run:,}; {accounts.read_spent:,} of {most:,} so far, "
            f"{max(0, most - accounts.read_after):,} remain after it.",
        ),
        (
            "Budget toward other owners:",
            f"this run {verb} {cost}; {accounts.epsilon_spent:.4g} of {total.epsilon:.4g} is spent "
            f"(at delta {accounts.delta:g}), {max(0.0, total.epsilon - accounts.epsilon_after):.4g} remains after it.",
        ),
    ]


def budget_document(accounts: Accounts) -> dict[str, Any]:
    """Both budgets for machines; null where there is no bound."""
    bounded = not math.isinf(accounts.epsilon_of_run)
    return {
        "rows": {"spent": accounts.rows_spent, "run": accounts.rows_of_run, "after": accounts.rows_after},
        "readable": {"spent": accounts.read_spent, "run": accounts.read_of_run, "after": accounts.read_after},
        "epsilon": {
            "spent": accounts.epsilon_spent,
            "run": accounts.epsilon_of_run if bounded else None,
            "after": accounts.epsilon_after,
        },
        "charged": accounts.charged,
    }


def _short(text: str) -> str:
    """A stranger's words, short and without characters that could do something to a screen."""
    return harmless(text, most=MOST_SHOWN)


def _others(terms: Terms, name: str) -> str:
    others = [owner for owner in terms.owners if owner != name]
    if not others:
        return "no other owner"
    shown = ", ".join(map(_short, others[:5])) + (f" and {len(others) - 5} more" if len(others) > 5 else "")
    return f"{len(others)} other owner{'s' if len(others) > 1 else ''} ({shown})"


def _rows(terms: Terms, curator: PlannedView) -> str:
    if terms.split is not None:
        return (
            f"{curator.rows:,} of your rows are offered, as shares: each is cut into 3 parts, one for each "
            "party that computes. How many of them you have is hidden: empty ones fill the rest."
        )
    when = "in one message" if terms.protocol == "sealed" else f"one by one, in up to {terms.size} rounds"
    unless = "" if terms.auction == "everyone" else "; perhaps none, for not everyone is asked"
    return f"{curator.rows:,} of your rows leave, {when}{unless}."


def _readers(terms: Terms) -> str:
    """Who could read what, by the trust that the run asks for."""
    if terms.split is None:
        return f"The curator reads every row that you offer, and {_short(terms.consumer)} those that it buys."
    return (
        f"Nobody but {_short(terms.consumer)}, which buys them, and at most {terms.rows_readable:,} of yours, if all "
        "parties follow the protocol. Curator, consumer and witness compute on parts that tell nothing alone, as long "
        "as no two of them work together: two of them together could read all that you offer. One of them that "
        "deviates from the protocol can steer which rows are bought, and nobody notices. Nobody can see whether one "
        "organisation stands behind two cards: ask who they are."
    )


def _seen_by_curator(terms: Terms) -> str:
    if terms.split is not None:
        return "Random numbers, and sealed envelopes that it cannot open; how large everything is, and when it came."
    return "Those rows, in the clear, with all columns above. Nothing is hidden from the curator about them."


def _seen_by_consumer(terms: Terms, consumer: PlannedView) -> str:
    count = terms.size if terms.split is not None else consumer.rows
    return f"{count:,} rows in the clear in all, chosen from those of all owners; some, all or none of them yours."


def _learned(terms: Terms, others: PlannedView) -> str:
    if others.event == NoRelease():
        return "Nothing in this run, by the protocol: whatever another owner hears in it does not depend on your rows."
    guarantee = others.guarantee
    if others.guess is None:
        return f"Nobody can say: there is no proof ({guarantee.note})."
    guess = bound_in_words(
        others.guess,
        epsilon=guarantee.epsilon,
        delta=guarantee.delta,
        relation=guarantee.relation,
        unit=unit_of(terms),
    )
    return f"Little: by what they hear in this run, {guess}.{_by_the_clock(terms)}"


def unit_of(terms: Terms) -> str:
    """What a guarantee protects, in words for its owner."""
    most = terms.rows_per_unit
    return "one of your rows" if terms.unit == ROW else f"one id of yours (up to {most} row{'s'[: most - 1]})"


def _by_the_clock(terms: Terms) -> str:
    if terms.auction == "everyone":
        return ""
    return " This counts what they hear, not when: by the clock an owner may see whether others were asked for rows."


def _payment(terms: Terms) -> str:
    if not terms.price_per_row:
        return "Nothing."
    return (
        f"{terms.price_per_row:g} for each row that leaves, so at most {terms.price_per_row * terms.rows_per_owner:g}."
    )


@dataclass(frozen=True, slots=True)
class InboxRun:
    """A run in a list; None is what terms say that cannot be read here.

    Attributes:
        run: its name.
        digest: of the terms that came last.
        consumer: who asks.
        purpose: what for.
        came: when the terms came (UTC).
        expires: when they end; empty if they do not.
        rows: that may leave, at most.
        readable: of them that one party may read.
        parties: whom it would be with, by their cards.
        status: where it stands.
    """

    run: str
    digest: str
    consumer: str
    purpose: str | None
    came: str
    expires: str | None
    rows: int | None
    readable: int | None
    parties: tuple[AskingCard, ...]
    status: str

    @property
    def consumer_card(self) -> str:
        for party in self.parties:
            if party.role == "consumer":
                return f"{party.state} since {party.since[:10]}" if party.since else str(party.state)
        return "no card"

    def document(self) -> dict[str, Any]:
        return {**asdict(self), "parties": [card.document() for card in self.parties]}


def inbox_records(node: OwnerNode, *, every: bool) -> Sequence[RunRecord]:
    """The runs that wait for a decision, oldest first; with ``every``, all that came."""
    waiting = node.waiting()
    return list(node.runs.by_name.values()) if every else waiting


def inbox_run(node: OwnerNode, record: RunRecord) -> InboxRun:
    """A run, as a list shows it; that judges it, so a long list is made page by page."""
    digest = record.latest_digest
    terms = record.readable(digest)
    parties = () if terms is None else node.asking(terms)
    return InboxRun(
        run=record.run,
        digest=digest,
        consumer=record.consumers[digest],
        purpose=None if terms is None else terms.purpose,
        came=record.invited_at[digest],
        expires=None if terms is None else terms.expires,
        rows=None if terms is None else terms.rows_per_owner,
        readable=None if terms is None else terms.rows_readable,
        parties=parties,
        status=status_of(node, record.run, asking=parties),
    )


@dataclass(frozen=True, slots=True)
class LeftRun:
    """What left in a run.

    Attributes:
        run: its name.
        consumer: who asked.
        first: when the first message left (UTC).
        last: when the last one did.
        messages: that left.
        rows: in all of them.
        receipt: ``yes`` if all of them were acknowledged, else ``in part`` or ``no``.
    """

    run: str
    consumer: str
    first: str
    last: str
    messages: int
    rows: int
    receipt: str

    def document(self) -> dict[str, Any]:
        return asdict(self)


def left_records(node: OwnerNode) -> list[RunRecord]:
    node.ledger.refresh()
    return [record for record in node.runs.by_name.values() if record.sent]


def left_run(node: OwnerNode, record: RunRecord) -> LeftRun:
    """What left in one of them, by the log; that looks at its receipt, so a long list is made page by page."""
    sent = [(replies.at, replies.round, kind) for replies in record.sent.values() for kind in replies.replies]
    known = owner_node.acknowledged_letters(node, record.run)
    acknowledged = sum((number, kind) in known for _, number, kind in sent)
    return LeftRun(
        run=record.run,
        consumer=next(reversed(record.consumers.values())),
        first=min(at for at, _, _ in sent),
        last=max(at for at, _, _ in sent),
        messages=len(sent),
        rows=sum(replies.rows for replies in record.sent.values()),
        receipt="yes" if acknowledged == len(sent) else "in part" if acknowledged else "no",
    )


_MOST_HANDLE = (1 << 64) - 1
_HANDLE = "HANDLE"


@dataclass(frozen=True)
class FoundRow:
    """A row of this owner that left in a run.

    Attributes:
        handle: by which its buyer names it.
        run: in which it left.
        consumer: who asked in that run.
        data: the data set that it is of.
        source: where that lies, without passwords.
        place: where the row lies in it, in words.
        number: of the row among all rows of the source, from 0.
        id_column: the column that says whose row it is; empty where the schema declares none.
        id_value: what stands there: it did not leave.
        record: what left, by declared column.
        is_checked: whether the data set is known to be what it was in the run; False where messages were purged.
    """

    handle: int
    run: str
    consumer: str
    data: str
    source: str
    place: str
    number: int
    id_column: str
    id_value: Any = field(repr=False)
    record: dict[str, Any] = field(repr=False)
    is_checked: bool


def handle_in(text: str) -> int:
    """The handle that somebody typed.

    Raises:
        InvalidArgument: it is none.
    """
    word = text.strip()
    is_number = word.isascii() and word.isdecimal() and len(word) <= len(str(_MOST_HANDLE))
    if not is_number or int(word) > _MOST_HANDLE:
        reason = f"must be a whole number up to {_MOST_HANDLE}, as it stands under likeset_handle in what was bought"
        raise InvalidArgument(_HANDLE, text, reason)
    return int(word)


def find_row(node: OwnerNode, handle: int, *, run: str | None = None) -> FoundRow:
    """The row that left under a handle.

    Args:
        node: the owner's.
        handle: that its buyer has.
        run: in which it left; every run in which rows left is tried, the last one first, if None.

    Raises:
        InvalidArgument: no row left under it, or the data set is gone or not what it was.
    """
    node.ledger.refresh()
    records = [node.record_of(run)] if run is not None else list(reversed(node.runs.by_name.values()))
    gone: list[str] = []
    for record in records:
        if not any(replies.rows for replies in record.sent.values()) or record.decision is None:
            continue
        if record.decision.data not in node.registry.names():
            gone.append(f"run {record.run} used data set {record.decision.data}, which is not registered any more")
            continue
        data = node.registry.get(record.decision.data)
        found = _number_of(node, data, record.run, handle)
        if found is not None:
            return _found(node, record, data, handle, found)
    where = "any run" if run is None else f"run {run}"
    reason = f"names no row that left this node in {where}; it may be another owner's"
    raise InvalidArgument(_HANDLE, handle, "; ".join([reason, *gone]))


def _number_of(node: OwnerNode, data: DataSet, run: str, handle: int) -> int | None:
    with data.open_source() as source:
        numbers = range(source.row_count)
    tried: Iterator[int] = row_handles(node.home.key(), run, numbers)
    return next((number for number, named in zip(numbers, tried, strict=True) if named == handle), None)


def _found(node: OwnerNode, record: RunRecord, data: DataSet, handle: int, number: int) -> FoundRow:
    assert record.decision is not None  # noqa: S101 - rows left
    terms = record.version(record.decision.digest)
    smallest = record.smallest_group or node.policy.smallest_group
    with data.open_source() as source:
        opened = data.guarded(source, terms, smallest_group=smallest, key=node.home.key())
        before = _fingerprint_of(node, terms)
        if before not in (None, opened.fingerprint) or number >= opened.scan.row_count:
            reason = f"left in run {record.run}, from data set {data.name}, which is not what it was: its rows, its "
            raise InvalidArgument(_HANDLE, handle, f"{reason}schema or smallest_group changed since")
        place = int(opened.scan.numbers_in_source(np.array([number]))[0])
        rows = opened.scan.fetch(np.array([number]))
        label, label_column = rows.labels, data.schema.label_column
        document = {} if rows.table is None else dict(rows.table.to_pylist()[0])
        if len(label) and label_column is not None:
            document.setdefault(label_column, np.asarray(label).tolist()[0])
        whose = data.schema.id_column or ""
        return FoundRow(
            handle=handle,
            run=record.run,
            consumer=terms.consumer,
            data=data.name,
            source=without_secrets(data.source),
            place=source.place(place),
            number=place,
            id_column=whose,
            id_value=source.fetch([place], [whose]).column(0)[0].as_py() if whose else None,
            record=document,
            is_checked=before is not None,
        )


def _fingerprint_of(node: OwnerNode, terms: Terms) -> str | None:
    """Of the data set when the run began; None where it was purged."""
    stored = [message for message in node.ledger.messages(run=terms.run) if message.kind == owner_node.BEGIN]
    return stored[-1].message.decode("ascii") if stored else None


Basis = Literal["the release that was heard", "the release in the file", "no release is needed", "a stand-in"]

_MOST_RELEASE = 1 << 24


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """What would leave.

    Attributes:
        basis: on which release it rests; unless that is a stand-in, exactly these rows would leave.
        rows: that would leave, at most: fewer do where not everyone is asked.
        messages: the bytes of the messages that would carry them.
        row_count: rows in the data set.
        withheld: rows that are never offered, because of small groups.
        too_long: rows with a cell that is longer than the schema declares: no rows of any run.
    """

    basis: Basis
    rows: LeftRows
    messages: tuple[bytes, ...]
    row_count: int
    withheld: int
    too_long: int

    @property
    def exact(self) -> bool:
        return self.basis != "a stand-in"


def rehearse(node: OwnerNode, terms: Terms, *, release: NDArray[np.float64] | None = None, data: str = "") -> Rehearsal:
    """Do here what a run would do.

    Args:
        node: whose rows.
        terms: of the run.
        release: of the target's mean; the one that was heard if there is one, and else a stand-in, if None.
        data: the data set to use; the one that was approved, or fits, if empty.
    """
    record = node.runs.by_name.get(terms.run)
    decision = None if record is None else record.decided(terms.digest)
    smallest = (None if record is None else record.smallest_group) or node.policy.smallest_group
    chosen = data or (decision.data if decision is not None else "")
    data_set = node.data_for(terms, data=chosen)
    basis, heard, used = _release(node, terms, release)
    with data_set.opened(terms, smallest_group=smallest, key=node.home.key()) as opened:
        owner = make_owner(
            used,
            node.name,
            scan=opened.scan,
            key=node.home.key(),
            declared=opened.declared,
            secret=None if terms.split is None else node.home.card_secret(),
        )
        replies = [reply for call in _calls(used, heard) for reply in _said(owner, call)]
        leaving = tuple(reply.data for reply in replies if owner_node.rows_in([reply]))
        return Rehearsal(
            basis=basis,
            rows=rows_of(leaving, data_set.schema, labelled=data_set.schema.label_column in terms.columns),
            messages=leaving,
            row_count=opened.row_count,
            withheld=opened.withheld,
            too_long=opened.too_long,
        )


def read_release(path: Path, terms: Terms) -> NDArray[np.float64]:
    """A release from a file that ``numpy.save`` wrote, or from text with one number a line."""
    try:
        if path.stat().st_size > _MOST_RELEASE:
            raise BadDocument(str(path), "is too large for a release")
        # Mapped, not read: a header may claim any size.
        is_array = path.suffix == ".npy"
        numbers: Any = np.load(path, mmap_mode="r", allow_pickle=False) if is_array else np.loadtxt(path, ndmin=1)
    except OSError as error:
        raise BadDocument(str(path), "cannot be read; give a .npy file, or text with one number a line") from error
    except ValueError as error:
        raise BadDocument(str(path), "holds no numbers; give a .npy file, or text with one number a line") from error
    if numbers.shape != (terms.kernel.dimension,) or not np.isfinite(numbers).all():
        raise BadDocument(str(path), f"must hold {terms.kernel.dimension} finite numbers, as the terms say")
    return np.array(numbers, dtype=np.float64)


def _release(
    node: OwnerNode, terms: Terms, given: NDArray[np.float64] | None
) -> tuple[Basis, NDArray[np.float64], Terms]:
    if terms.offers == "uniform":
        return "no release is needed", np.empty(0), terms
    if given is not None:
        return "the release in the file", given, terms
    for exchange in owner_node.exchanges(node.ledger, terms.run):
        message = decode(exchange.heard)
        if isinstance(message.body, TargetRelease) and message.terms == terms.digest:
            return "the release that was heard", message.body.release, terms
    if terms.protocol == "sealed":
        # The same run with uniform offers: the same key, and all rows weigh the same.
        return "a stand-in", np.empty(0), terms.with_changes(offers="uniform")
    return "a stand-in", np.zeros(terms.kernel.dimension), terms


def _calls(terms: Terms, release: NDArray[np.float64]) -> Iterator[tuple[int, Body]]:
    """What is said where all rows are asked for that may be, and nothing is released about the summary."""
    yield RELEASE_ROUND[terms.protocol], TargetRelease(release=release)
    if terms.protocol == "sealed":
        if terms.auction != "everyone":
            yield 2, Asked(asked=True)
        return
    for number in range(1, terms.size + 1):
        yield number, SummaryRelease(coordinates=np.empty(0, dtype=np.int64), values=np.empty(0))
        yield number, Asked(asked=True)


def _said(owner: Owner, call: tuple[int, Body]) -> tuple[Message, ...]:
    """What the owner says to that; what it wants charged is drawn, and nobody is charged: nothing leaves."""
    number, body = call
    sender = owner.terms.consumer if isinstance(body, TargetRelease) else CURATOR
    message = Message(owner.terms.run, owner.terms.digest, sender, owner.name, number, body)
    return carry(owner.receive(message), lambda wanted: wanted.draw()[0])


_LEAST_DISK = 1 << 30
_BUILT = datetime(2025, 1, 1, tzinfo=UTC)


def checkup(node: OwnerNode) -> list[Finding]:
    findings = [*guarded("home", lambda: _home(node)), *_policy(node), *_files(node)]
    findings += [*guarded("card", lambda: _card(node)), *guarded("pinned cards", lambda: _pinned_cards(node))]
    names = node.registry.names()
    if not names:
        words = "there are none; add one with `likeset owner data add`"
        findings.append(Finding("data sets", ok=False, words=words, to_do=True))
    for name in names:
        findings += guarded(f"data set {name}", lambda name=name: iter(look_at_data(node, name).findings))  # type: ignore[misc]
    findings += [
        _disk(place, what) for place, what in ((node.home.folder, "node"), (Path(tempfile.gettempdir()), "copies"))
    ]
    return [*findings, _clock(node)]


def _home(node: OwnerNode) -> Iterator[Finding]:
    node.check_running()  # raises where it was put back from an old copy
    yield Finding("home", ok=True, words="is not known to be an old copy")


def _policy(node: OwnerNode) -> Iterator[Finding]:
    policy = node.policy
    empty = policy_gaps(node)
    if empty:
        words = f"allows nothing yet: fill in {', '.join(empty)} in owner.yaml"
        yield Finding("policy", ok=False, words=words, to_do=True)
    elif policy.per_run.rows > policy.total.rows or policy.per_run.epsilon > policy.total.epsilon:
        yield Finding("policy", ok=False, words="one run may cost more than all together; lower per_run or raise total")
    else:
        gate = (
            "a person decides about each run" if policy.manual_approval else "runs within it are approved by themselves"
        )
        yield Finding("policy", ok=True, words=f"can be used; {gate}")


def _files(node: OwnerNode) -> Iterator[Finding]:
    mode = stat.S_IMODE(node.home.folder.stat().st_mode)
    if os.name == "posix" and mode & 0o077:
        yield Finding("directory", ok=False, words=f"other users may look into it (mode {mode:04o}); chmod 700 it")
    else:
        yield Finding("directory", ok=True, words="private")
    problems, notes = verify(node)
    words = "; ".join(map(str, problems)) or "; ".join(["they hold and agree", *notes])
    yield Finding("audit log and ledger", ok=not problems, words=words)


def _card(node: OwnerNode) -> Iterator[Finding]:
    card = node.home.card()
    yield Finding("card", ok=True, words=f"{card.name}, {card.fingerprint}; nobody else can read its keys")


def _pinned_cards(node: OwnerNode) -> Iterator[Finding]:
    """How many of each role; none is no fault: a new node knows nobody yet."""
    counts = Counter(pin.role for pin in node.home.pins().all() if pin.state == "pinned")
    roles = [f"{counts[role]} as {role}" for role in get_args(Role) if counts[role]]
    needed: tuple[Role, ...] = ("consumer", "curator")
    missing = " and ".join(f"no {role}" for role in needed if not counts[role])
    how = f"{missing} yet, so no run can begin: compare cards by telephone, and call `likeset card pin`"
    words = "; ".join([*filter(None, [", ".join(roles)]), *([how] if missing else [])])
    yield Finding("pinned cards", ok=True, words=words)


def _disk(place: Path, what: str) -> Finding:
    free = shutil.disk_usage(place).free
    words = f"{free / 1e9:.1f} GB free"
    if free < _LEAST_DISK:
        return Finding(f"disk ({what})", ok=False, words=f"{words}; make room: without it nothing can be answered")
    return Finding(f"disk ({what})", ok=True, words=words)


def _clock(node: OwnerNode) -> Finding:
    now, last = node.now(), node.runs.last_at
    shown = f"{now:%Y-%m-%d %H:%M} UTC"
    if now < _BUILT:
        return Finding("clock", ok=False, words=f"says {shown}, which cannot be; set it")
    if last and now < datetime.fromisoformat(last) - timedelta(minutes=1):
        return Finding("clock", ok=False, words=f"says {shown}, before the last entry of the audit log; set it")
    return Finding("clock", ok=True, words=f"says {shown}")
