"""What happened with a consumer before, by the audit log."""

from dataclasses import dataclass

from likeset.homes.owner.node import OwnerNode
from likeset.homes.owner.run_records import RunRecord
from likeset.protocol.terms import Terms

__all__ = ["PastRun", "past_runs"]


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
