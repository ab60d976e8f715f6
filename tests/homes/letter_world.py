"""Homes with cards for tests of letters: each party of a run in a folder of its own, and a way to carry letters."""

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

from protocol_world import QuickLedger, terms, world

from likeset.homes.mail import (
    ConsumerRun,
    Correspondence,
    CuratorRun,
    Identity,
    Invitation,
    OwnerRun,
    Receipt,
    SiteRun,
    Transcript,
    sign,
    transcript_of,
)
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import Terms
from likeset.protocol.wire import Summary, decode
from likeset.trust.cards import CardSecret, Role
from likeset.trust.letters import Acceptance, is_acceptance, letter_in

MOST_BYTES = 1 << 24
NOON = datetime(2029, 3, 5, 12, tzinfo=UTC)
RUN_ID = "0123456789abcdef0123456789abcdef"


def role_of(name: str, agreed: Terms) -> Role:
    """What a party of the terms is."""
    if name == agreed.consumer:
        return "consumer"
    return "curator" if name == CURATOR else "owner"


def make_identity(folder: Path, name: str) -> Identity:
    """A home with a new card."""
    folder.mkdir(parents=True, exist_ok=True)
    CardSecret.generate(name).write(folder)
    return Identity.of(folder)


def settle_identities(place: Path, agreed: Terms, *, curator: str = CURATOR) -> dict[str, Identity]:
    """A home for each party, all of whom have pinned all others; the curator's folder may have another name."""
    names = (agreed.consumer, CURATOR, *agreed.owners)
    homes = {name: make_identity(place / (curator if name == CURATOR else name), name) for name in names}
    for name, home in homes.items():
        for other, known in homes.items():
            if other != name:
                home.pins.pin(known.secret.card, role_of(other, agreed), fingerprint=None)
    return homes


def terms_between(agreed: Terms, homes: Mapping[str, Identity], *, run_id: str = RUN_ID) -> Terms:
    """The same terms, naming the cards of these homes."""
    return agreed.with_changes(run_id=run_id, cards={name: home.fingerprint for name, home in homes.items()})


@dataclass
class LetterWorld:
    """One run among homes: their parties can be killed, and made anew over what the homes keep.

    Attributes:
        place: the homes' folders.
        agreed: the terms, but for the cards.
        ledgers: what each party has charged.
        summary: the message that the consumer kept.
        receipts: that owners kept.
        refused: what was noted although an answer went out.
    """

    place: Path
    agreed: Terms = field(default_factory=terms)
    homes: dict[str, Identity] = field(init=False)
    invitation: bytes = field(init=False)
    ledgers: dict[str, QuickLedger] = field(default_factory=dict)
    summary: bytes | None = None
    receipts: dict[str, bytes] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    told: list[tuple[str, bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.homes = settle_identities(self.place, self.agreed)
        self.agreed = terms_between(self.agreed, self.homes)
        self.invitation = Invitation.sign(self.agreed, self.homes[self.agreed.consumer]).to_bytes()
        self.ledgers = {name: QuickLedger() for name in self.homes}

    def letters(self, name: str) -> Correspondence:
        """A party's letters, as its home keeps them."""
        return Correspondence(Identity.of(self.place / name), Invitation.read(self.invitation), name)

    def run_at(self, name: str) -> SiteRun:
        """A party's side of the run, made anew."""
        letters = self.letters(name)
        made = world(self.agreed, self.ledgers[name])
        options: dict[str, Any] = {"most_bytes": MOST_BYTES, "refused": self.refused.append}
        if name == CURATOR:
            return CuratorRun(letters, made.curator(), receipts=self._signed_receipts, **options)
        if name == self.agreed.consumer:
            return ConsumerRun(letters, made.consumer(), keep=self._keep_summary, **options)
        keep = partial(self._keep_receipt, name)
        return OwnerRun(letters, made.owner(name), keep_receipt=keep, **options)

    def _keep_receipt(self, owner: str, data: bytes) -> bool:
        self.receipts[owner] = data
        return True

    def transcript(self, owner: str, *, kept_by: Literal["owner", "curator"] = "curator") -> Transcript:
        """A copy of what passed between the curator and an owner."""
        book = self.homes[CURATOR if kept_by == "curator" else owner].book
        return transcript_of(book, self.agreed, owner=owner, kept_by=kept_by)

    def receipt(self, owner: str, **changes: Any) -> Receipt:
        """What the curator signs for an owner; with changes, what it could sign."""
        return sign(replace(self.transcript(owner), **changes), self.homes[CURATOR].secret, now=NOON)

    def _signed_receipts(self) -> dict[str, bytes]:
        return {owner: self.receipt(owner).to_bytes() for owner in self.agreed.owners}

    def _keep_summary(self, data: bytes) -> None:
        self.summary = data

    def all_runs(self) -> dict[str, SiteRun]:
        """Every party's side."""
        return {name: self.run_at(name) for name in self.homes}

    def reader(self, data: bytes) -> str:
        """Whom bytes are for: whoever carries letters knows no more."""
        if is_acceptance(data):
            fingerprint = Acceptance.from_bytes(data).card.fingerprint
        else:
            fingerprint = letter_in(data, most_bytes=MOST_BYTES).header.recipient
        return next(name for name, card in self.agreed.cards.items() if card == fingerprint)

    def carry(self, runs: Mapping[str, SiteRun], *, absent: Collection[str] = ()) -> Summary | None:
        """A whole run; returns the summary, if the consumer has it in the end."""
        consumer, curator = runs[self.agreed.consumer], runs[CURATOR]
        assert isinstance(consumer, ConsumerRun)
        assert isinstance(curator, CuratorRun)
        acceptances = [run.acceptance() for name, run in runs.items() if name not in (*absent, self.agreed.consumer)]
        queue = deque(consumer.begin(acceptances))
        while queue:
            data = queue.popleft()
            reader = self.reader(data)
            self.told.append((reader, data))
            if reader not in absent:
                queue.extend(runs[reader].hear(data))
        for data in curator.end():
            runs[self.reader(data)].hear(data)
        body = None if self.summary is None else decode(self.summary).body
        assert body is None or isinstance(body, Summary)
        return body
