"""What left, run by run: how much, when, and whether somebody signed that it came."""

from dataclasses import asdict, dataclass
from typing import Any

from likeset.homes.owner import kept_receipts
from likeset.homes.owner.node import OwnerNode
from likeset.homes.owner.run_records import RunRecord

__all__ = ["LeftRun", "left_records", "left_run"]


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
        """For machines."""
        return asdict(self)


def left_records(node: OwnerNode) -> list[RunRecord]:
    """The runs in which something left, newest last."""
    node.log.refresh()
    return [record for record in node.runs.by_name.values() if record.sent]


def left_run(node: OwnerNode, record: RunRecord) -> LeftRun:
    """What left in one of them, by the log; that looks at its receipt, so a long list is made page by page."""
    sent = [(replies.at, replies.round, kind) for replies in record.sent.values() for kind in replies.replies]
    known = kept_receipts.acknowledged_letters(node, record.run)
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
