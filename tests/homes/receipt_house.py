"""An owner's node from which rows left, and whoever signs receipts for it, rightly or not."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from node_world import approve, hear, make_node, script, terms
from typer.testing import CliRunner

from likeset.app.cli import app
from likeset.errors import IllegalMessage
from likeset.homes import receipts
from likeset.homes.curator.home import make_curator_home
from likeset.homes.owner import kept_receipts
from likeset.homes.owner.node import OwnerNode
from likeset.homes.receipts import Receipt
from likeset.homes.transcripts import Line, Transcript
from likeset.protocol.messages import encode
from likeset.protocol.terms import Terms

RUN = terms(expires="2099-01-01")
ROUNDS = terms(expires="2099-01-01", protocol="interactive", size=1)
"""A run in which the curator says something to owners."""
LATER = datetime(2029, 3, 6, tzinfo=UTC)


class House:
    """An owner's node from which rows left, the curator's key, and another one."""

    def __init__(self, place: Path, run: Terms = RUN, *, begin: bool = True) -> None:
        self.place, self.run = place, run
        self.curator = make_curator_home(place / "curator")
        self.stranger = make_curator_home(place / "stranger")
        self.folder = make_node(place)
        self.node = OwnerNode(self.folder)
        approve(self.node, run)
        self.pin()
        if begin:
            self.begin()

    def begin(self) -> None:
        for message in script(self.run):
            assert isinstance(hear(self.node, encode(message)), list)

    @property
    def copy(self) -> Transcript:
        return self.node.transcript(self.run.run)

    def pin(self, key: Path | None = None, **words: Any) -> None:
        kept_receipts.pin(self.node, key or self.curator.public_key, by="Ada", **words)

    def signed(self, *, key: Path | None = None, now: datetime | None = None, **changes: Any) -> Receipt:
        return receipts.sign(replace(self.copy, **changes), key or self.curator.key, now=now)

    def without(self, *kinds: str) -> tuple[Line, ...]:
        return tuple(line for line in self.copy.lines if line.kind not in kinds)

    def take(self, receipt: Receipt | bytes) -> None:
        data = receipt.to_bytes() if isinstance(receipt, Receipt) else receipt
        kept_receipts.take(self.node, self.run, data)

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

    def checked(self) -> kept_receipts.ReceiptVerdict:
        return kept_receipts.check(self.node, self.run.run)


def verify(*arguments: object, code: int = 0) -> Any:
    result = CliRunner().invoke(app, ["transcript", "verify", *map(str, arguments), "--json"])
    assert result.exit_code == code, (result.output, result.exception)
    return json.loads(result.stdout) if result.stdout else result.exception
