"""A row that left, found again by the handle that its buyer has.

A handle is a keyed digest of the row's number in the run, so the owner alone finds it: by trying all numbers. Nothing
is kept for that, and nothing that was kept has to be there still.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from likeset.errors import InvalidArgument
from likeset.homes.owner import budgets
from likeset.homes.owner.datasets import DataSet
from likeset.homes.owner.node import OwnerNode
from likeset.homes.owner.run_records import RunRecord
from likeset.protocol.owner import row_handles
from likeset.protocol.terms import Terms
from likeset.text import without_secrets

__all__ = ["FoundRow", "find_row", "handle_in"]

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
    node.log.refresh()
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
    """The number of the row among those that the run could see."""
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
    stored = [message for message in node.ledger.messages(run=terms.run) if message.kind == budgets.BEGIN]
    return stored[-1].message.decode("ascii") if stored else None
