"""The inbox: what runs look like in a list, for whoever decides about them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from likeset.homes.owner.asking_cards import AskingCard
from likeset.homes.owner.node import OwnerNode
from likeset.homes.owner.review import status_of
from likeset.homes.owner.run_records import RunRecord

__all__ = ["InboxRun", "inbox_records", "inbox_run"]


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
        """Whether the consumer's card is pinned, in a few words."""
        for party in self.parties:
            if party.role == "consumer":
                return f"{party.state} since {party.since[:10]}" if party.since else str(party.state)
        return "no card"

    def document(self) -> dict[str, Any]:
        """For machines."""
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
