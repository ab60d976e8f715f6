"""An owner's node from which rows left in letters, and whoever signs receipts for it, rightly or not."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from card_world import secret_of
from node_world import make_node, script, terms
from owner_letters import Outside, seated

from likeset.errors import IllegalMessage
from likeset.homes import mail, owner_node
from likeset.homes.mail import Line, Receipt, Transcript
from likeset.homes.owner_node import OwnerNode
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import Terms

RUN = terms(expires="2099-01-01")
ROUNDS = terms(expires="2099-01-01", protocol="interactive", size=1)
"""A run in which the curator writes to owners."""
LATER = datetime(2029, 3, 6, tzinfo=UTC)


class House:
    """An owner's node in a run, and everybody else in it."""

    def __init__(self, place: Path, run: Terms = RUN, *, begin: bool = True) -> None:
        self.place, self.run = place, run
        self.folder = make_node(place)
        self.node = OwnerNode(self.folder)
        self.take_part(run)
        if begin:
            self.begin()

    def take_part(self, run: Terms) -> None:
        self.outside = Outside(self.place / f"others-{run.digest[:8]}", run)
        self.seat = seated(self.node, self.outside)
        self.run = run

    def begin(self) -> None:
        release, *asked = script(self.run)
        self.seat.hear(self.outside.release(self.seat.acceptance(), release))
        for message in asked:
            self.seat.hear(self.outside.ask(message))

    @property
    def copy(self) -> Transcript:
        return self.node.transcript(self.run.run)

    def signed(self, *, now: datetime | None = None, **changes: Any) -> Receipt:
        return mail.sign(replace(self.copy, **changes), secret_of(CURATOR), now=now)

    def signed_by_stranger(self, **changes: Any) -> Receipt:
        stranger = secret_of("stranger")
        changes["curator_card"] = stranger.card.fingerprint
        return mail.sign(replace(self.copy, **changes), stranger)

    def without(self, *kinds: str) -> tuple[Line, ...]:
        return tuple(line for line in self.copy.lines if line.kind not in kinds)

    def take(self, receipt: Receipt | bytes) -> None:
        owner_node.take(self.node, self.run, _bytes_of(receipt))

    def send(self, receipt: Receipt | bytes) -> None:
        """In a letter of the curator."""
        for data in self.outside.curator.write_receipts({self.node.name: _bytes_of(receipt)}):
            self.seat.hear(data)

    def refuses(self, receipt: Receipt | bytes, reason: str) -> None:
        before = self.kept_bytes()
        with pytest.raises(IllegalMessage, match=reason):
            self.take(receipt)
        assert self.kept_bytes() == before

    @property
    def path(self) -> Path:
        return self.folder / "receipts" / f"{self.run.run}.json"

    def kept_bytes(self) -> bytes:
        return self.path.read_bytes() if self.path.exists() else b""

    def aside(self) -> list[Path]:
        return sorted((self.folder / "receipts" / "aside").rglob("*.json"))

    def checked(self) -> owner_node.ReceiptVerdict:
        return owner_node.check(self.node, self.run.run)


def _bytes_of(receipt: Receipt | bytes) -> bytes:
    return receipt.to_bytes() if isinstance(receipt, Receipt) else receipt
