"""Parties for tests of engines: made at each site from signed terms and from what lies in the site's own folder.

``site.json`` in that folder, if there is one, says in which runs the site denies, decides late, is absent, falls
silent, says too much or goes down, and with which seed its simulated noise begins.
"""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from protocol_world import open_accounts, world

from likeset.errors import IllegalMessage
from likeset.geometry.selection import Selection
from likeset.homes.mail import ConsumerRun, Correspondence, CuratorRun, Identity, Invitation, OwnerRun, Shell, SiteRun
from likeset.ledger.budget import Limit
from likeset.ledger.ledger import Ledger
from likeset.privacy.guarantee import View
from likeset.protocol.party import CURATOR
from likeset.protocol.sealed import Owner
from likeset.protocol.terms import Terms
from likeset.protocol.wire import MOST_BYTES, Message, Offer

SECRET = 2**128 + 7
REFUSED_FILE = "refused.txt"
NOON = datetime(2029, 1, 1, 12, tzinfo=UTC)
WISHES = {"wished": Selection(gamma=0.7, weighted=True), "wished-rounds": Selection(gamma=5.0)}
"""How the consumer wants rows selected, by run; no other site knows."""


def ledger_of(folder: Path, run: str) -> Ledger:
    """A site's ledger of one run; its clock stands still, so that equal charges give equal entries."""
    folder.mkdir(parents=True, exist_ok=True)
    return Ledger(folder / f"{run}.sqlite", clock=lambda: NOON)


def open_ledger(terms: Terms, name: str, folder: Path) -> None:
    """With an account for everything that a run may charge; copies of one empty ledger give equal entries."""
    with ledger_of(folder, terms.run) as ledger:
        open_accounts(ledger, terms)
        if terms.run in told(folder).get("poor", []):
            ledger.set_limit(View.curator(name), Limit.rows_only(1))
        assert not ledger.messages()  # which makes their file, with the key of the fingerprints


def told(folder: Path) -> dict[str, Any]:
    """What ``site.json`` says."""
    path = folder / "site.json"
    document: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return document


def seat(invitation: Invitation, name: str, folder: Path) -> SiteRun | None:
    """The side of the party of this name."""
    terms, orders = invitation.terms, told(folder)
    if terms.run in orders.get("deny", []):
        raise IllegalMessage("somebody here said no")
    if terms.run in orders.get("decide-late", []):
        path = folder / f"{terms.run}.asked"
        times = int(path.read_text()) + 1 if path.exists() else 1
        path.write_text(str(times))
        if times <= 2:
            return None
    if terms.run in orders.get("undecided", []):
        return None
    ledger = ledger_of(folder, terms.run)
    made = world(
        terms,
        ledger,
        count=orders.get("rows", 12),
        noise_seed=orders.get("noise_seed", 0),
        secret=SECRET,
        selection=WISHES.get(terms.run, Selection()) if name == terms.consumer else Selection(gamma=1e-9),
    )
    letters = Correspondence(Identity.of(folder), invitation, name)
    if name == CURATOR:
        signed = lambda: {one: receipt(terms, one) for one in terms.owners}  # noqa: E731
        return CuratorRun(letters, made.curator(), MOST_BYTES, receipts=signed)
    if name == terms.consumer:
        summary = folder / f"{terms.run}.summary"
        return ConsumerRun(letters, made.consumer(), MOST_BYTES, keep=lambda data: _kept(summary, data))
    owner = made.owner(name)
    if terms.run in orders.get("silent", []):
        _disturb(owner, lambda: time.sleep(45))
    if terms.run in orders.get("break", []):
        _disturb(owner, _break)
    if terms.run in orders.get("swell", []):
        _swell(owner)
    for how in ("die", "vanish", "lose-home"):
        if terms.run in orders.get(how, []) and not (folder / how).exists():
            _disturb(owner, lambda how=how: _die(folder / how), after=3)
    return OwnerRun(
        letters,
        owner,
        MOST_BYTES,
        keep_receipt=_keeper(folder / f"{terms.run}.receipt"),
        refused=_noter(folder / REFUSED_FILE),
        absent=terms.run in orders.get("absent", []),
    )


def receipt(terms: Terms, name: str) -> bytes:
    """What stands for a receipt here; engines do not look into them."""
    return f"{name} took part in {terms.run}".encode()


def _kept(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def _keeper(path: Path) -> Callable[[bytes], bool]:
    def keep(data: bytes) -> bool:
        return path.write_bytes(data) == len(data)

    return keep


def _noter(path: Path) -> Callable[[str], None]:
    def note(reason: str) -> None:
        with path.open("a") as file:
            file.write(reason + "\n")

    return note


def _break() -> None:
    raise RuntimeError("row 17 holds 123456.789")


def _die(mark: Path) -> None:
    """Once: say that it is time to kill, and wait for it; whoever drives the network kills NVFlare's processes."""
    mark.touch()
    time.sleep(5)


def _swell(owner: Shell[Owner]) -> None:
    """This owner's offers have 16 MiB that nobody asked for."""
    honest = owner.take

    def take(message: Message) -> tuple[Message, ...]:
        (reply,) = honest(message)
        assert isinstance(reply.body, Offer)
        return (replace(reply, body=replace(reply.body, records=np.zeros(1 << 24, dtype=np.uint8))),)

    owner.take = take  # type: ignore[method-assign]


def _disturb(owner: Shell[Owner], what: Any, *, after: int = 0) -> None:
    """From its message of that number on, something happens before this owner answers."""
    honest, heard = owner.take, iter(range(1_000_000))

    def take(message: Message) -> tuple[Message, ...]:
        if next(heard) >= after:
            what()
        return honest(message)

    owner.take = take  # type: ignore[method-assign]
