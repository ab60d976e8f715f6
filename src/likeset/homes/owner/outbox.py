"""What left this house: the literal bytes by run, the rows in them, and whether audit log and receipts agree."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from likeset.errors import LikesetError
from likeset.homes.owner import exchanges, kept_receipts
from likeset.homes.owner.node import OwnerNode
from likeset.homes.transcripts import kept_lines
from likeset.ledger import Head, Problem
from likeset.protocol.messages import Delivery, Offer, decode
from likeset.tables.schema import records
from likeset.tables.schema.declared_records import DeclaredRecords
from likeset.tables.schema.schema import Schema

__all__ = ["Left", "LeftRows", "left", "rows_of", "rows_that_left", "verify"]

_LABEL = "label"
_UNKNOWN = "unknown"


@dataclass(frozen=True, eq=False)
class LeftRows:
    """Rows as they left.

    Attributes:
        table: in declared columns, with the label; None where only hashes left.
        count: how many rows.
        hashed: whether they left as hashes.
        held_back: rows that were stored to leave and did not, which are not among them.
        older: rows that left in messages of an older format, which cannot be shown, and are not among them either.
    """

    table: pa.Table | None
    count: int
    hashed: bool
    held_back: int = 0
    older: int = 0


@dataclass(frozen=True, slots=True)
class Left:
    """A message that left, or was stored to leave and held back.

    Attributes:
        run: of the run.
        entry: the ledger's entry.
        at: when it was stored (UTC).
        round: of the run.
        kind: of the message.
        rows: in it.
        data: its bytes.
        sent: whether the audit log says that it was sent; otherwise a crash or a withdrawal came first.
        older: whether it is of an older format; then round, kind and rows are what the audit log says.
    """

    run: str
    entry: int
    at: str
    round: int
    kind: str
    rows: int
    data: bytes
    sent: bool
    older: bool = False


def left(node: OwnerNode, run: str | None = None) -> list[Left]:
    """All messages that left (in a run) or were held back, oldest first; what was purged is missing."""
    node.log.refresh()
    found = []
    for past in exchanges.exchanges(node.ledger, run):
        known = node.runs.by_name.get(past.run)
        told = None if known is None else known.sent.get(past.entry)
        lines = kept_lines(past, told, owner=node.name)[1:]
        for place, data in enumerate(past.replies):
            round_number, kind, rows = (
                (lines[place].round, lines[place].kind, lines[place].rows) if lines else (0, _UNKNOWN, 0)
            )
            sent, older = told is not None, exchanges.is_older(data)
            found.append(Left(past.run, past.entry, past.at, round_number, kind, rows, data, sent, older))
    return found


def rows_that_left(node: OwnerNode, run: str) -> LeftRows:
    """The rows that left in a run; of those that were held back only the number."""
    record = node.record_of(run)
    decision = record.decision
    schema = node.registry.get(decision.data).schema if decision is not None and decision.data else None
    stored = [one for one in left(node, run) if one.rows]
    found = rows_of(tuple(one.data for one in stored if one.sent and not one.older), schema)
    return replace(
        found,
        held_back=sum(one.rows for one in stored if not one.sent),
        older=sum(one.rows for one in stored if one.sent and one.older),
    )


def rows_of(messages: tuple[bytes, ...], schema: Schema | None) -> LeftRows:
    """The rows in messages."""
    bodies = [body for data in messages if isinstance(body := decode(data).body, Offer | Delivery)]
    count = sum(len(body.rows) for body in bodies)
    if schema is None or any(not len(body.records) for body in bodies):
        return LeftRows(None, count, hashed=bool(bodies))
    form = DeclaredRecords(schema).form
    tables = [_table(body, form, schema) for body in bodies]
    return LeftRows(pa.concat_tables(tables) if tables else None, count, hashed=False)


def _table(body: Offer | Delivery, form: records.RecordForm, schema: Schema) -> pa.Table:
    table = records.unpack(body.records.tobytes(), form=form, rows=len(body.rows))
    if len(body.labels):
        name = schema.label_column or _LABEL
        if name in table.column_names:
            name = f"{name} ({_LABEL})"
        table = table.append_column(name, pa.array(np.asarray(body.labels).tolist()))
    return table


def verify(node: OwnerNode, *, head: Head | None = None) -> tuple[list[Problem], list[str]]:
    """Whether audit log, ledger, outbox and receipts hold, and agree: what does not, and what is worth knowing.

    That the curator's signed words contradict this node is worth knowing; it does not say that anything here changed.

    Args:
        node: the node.
        head: of the audit log at some earlier time, kept elsewhere.
    """
    _, problems = node.log.verify(head=head)
    found = list(problems)
    try:
        checked = node.ledger.verify(messages=True)
        found += [Problem(0, f"ledger: {problem}") for problem in checked.problems]
        hashes = {entry.number: entry.hash.hex() for entry in node.ledger.entries()}
        stored = {past.entry: past for past in exchanges.exchanges(node.ledger)}
    except LikesetError as error:
        return [*found, Problem(0, f"ledger: {error}")], []
    answered = {entry.document()["reservation"] for entry in node.ledger.entries() if entry.kind == "commit"}
    told: set[int] = set()
    for entry in node.log.entries():
        if entry.kind not in ("sent", "began"):
            continue
        document = entry.document()
        number, _, digest = document["ledger"].partition(":")
        if hashes.get(int(number)) != digest:
            found.append(Problem(entry.number, f"the ledger's entry {number} is not the one that stood there then"))
        if entry.kind == "sent":
            told.add(document["entry"])
            found += _compared(entry.number, document, stored.get(document["entry"]), answered)
    notes = [
        f"ledger entry {past.entry} (run {past.run}) was stored, but never sent: a crash or a withdrawal came first"
        for past in stored.values()
        if past.replies and past.entry not in told
    ]
    notes += [
        f"ledger entry {past.entry} (run {past.run}): of an older format, {sum(map(len, past.replies)):,} bytes"
        for past in stored.values()
        if any(map(exchanges.is_older, past.replies))
    ]
    wrong, known = _receipts(node)
    return [*found, *wrong], [*notes, *known]


def _receipts(node: OwnerNode) -> tuple[list[Problem], list[str]]:
    """What is wrong with receipts as they are kept here, and what is worth knowing; that one is to come is not."""
    try:
        checked = kept_receipts.check_all(node)
    except LikesetError as error:
        return [Problem(0, f"receipts: {error}")], []
    problems = [Problem(0, f"receipt of run {one.run}: {what}") for one in checked for what in one.problems]
    notes = [f"receipt of run {one.run}: {what}" for one in checked if one.receipt for what in one.notes]
    # The curator's word against this node's: whoever could sign one could otherwise raise an alarm here at will.
    notes += [
        f"the curator contradicts this node, run {one.run}: {what}" for one in checked for what in one.contradictions
    ]
    notes += [f"the curator signed what contradicts the rest: {path}" for one in checked for path in one.aside]
    return problems, notes


def _compared(
    number: int, document: dict[str, Any], past: exchanges.Exchange | None, answered: set[int]
) -> list[Problem]:
    """What differs between an entry of the audit log and the outbox; a purge is the ledger's business."""
    if document["entry"] not in answered:
        return [
            Problem(number, f"says that ledger entry {document['entry']} was sent, and the ledger does not know it")
        ]
    if past is None:
        return []
    same = sum(map(len, past.replies)) == document["bytes"]
    if not any(map(exchanges.is_older, past.replies)):
        same = same and exchanges.rows_in(past.replies) == document["rows"]
    return [] if same else [Problem(number, "what is in the outbox is not what it says was sent")]
