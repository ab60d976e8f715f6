"""What left this house: the literal bytes by run, the rows in them, and whether audit log and receipts agree."""

import hashlib
import re
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from likeset.errors import BadMessage, LikesetError
from likeset.homes.owner import exchanges, kept_receipts
from likeset.homes.owner.node import OwnerNode
from likeset.ledger import Head, Problem
from likeset.protocol.messages import Delivery, Offer, decode
from likeset.protocol.split.shared_replies import records_in
from likeset.protocol.split.split_messages import OfferShare
from likeset.tables.records import DeclaredRecords, EnvelopeRecords
from likeset.tables.schema import Schema

__all__ = [
    "LeftMessage",
    "LeftRows",
    "messages_that_left",
    "messages_with_receipts",
    "rows_of",
    "rows_that_left",
    "verify",
]

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
        """SHA-256 of its bytes."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def file_name(self) -> str:
        """Under which its bytes are handed out."""
        run, held_back = re.sub(r"[^A-Za-z0-9.-]", "_", self.run), "" if self.sent else "-held-back"
        return f"{run}-{self.entry:06d}-{self.kind}{held_back}.bin"

    def document(self) -> dict[str, Any]:
        """For machines."""
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
    node.log.refresh()
    messages = []
    for exchange in exchanges.exchanges(node.ledger, run):
        record = node.runs.by_name.get(exchange.run)
        sent = record is not None and exchange.entry in record.sent
        for data in exchange.replies:
            message = decode(data)
            what = (message.round, message.body.kind, exchanges.rows_in([message]))
            messages.append(LeftMessage(exchange.run, exchange.entry, exchange.at, *what, data, sent))
    return messages


def messages_with_receipts(node: OwnerNode, run: str | None = None) -> list[LeftMessage]:
    """The same, with whether the curator acknowledged each."""
    messages = messages_that_left(node, run)
    known = {name: kept_receipts.acknowledged_letters(node, name) for name in {message.run for message in messages}}
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
    held_back = exchanges.rows_in(decode(message.data) for message in messages if not message.sent)
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
        entries = node.log.entries()
        stored = exchanges.exchanges(node.ledger)
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


def _unlike(exchange: exchanges.Exchange, document: dict[str, Any]) -> list[str]:
    """How what is in the outbox differs from what an entry of the audit log says was sent."""
    try:
        rows = exchanges.rows_in(map(decode, exchange.replies))
    except BadMessage as error:
        return [f"what is in the outbox is {error}"]
    same = (sum(map(len, exchange.replies)), rows) == (document["bytes"], document["rows"])
    return [] if same else ["what is in the outbox is not what it says was sent"]


def _about_receipts(node: OwnerNode) -> tuple[list[Problem], list[str]]:
    """What is wrong with receipts as they are kept here, and what is worth knowing; that one is to come is not."""
    try:
        verdicts = kept_receipts.check_all(node)
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
