"""The consumer's home: a folder for each run, its ledger and its card."""

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from likeset import documents
from likeset.arguments import Rows
from likeset.documents import Document
from likeset.errors import BadDocument, IllegalMessage, InvalidArgument
from likeset.files import (
    keep_private,
    keep_private_bytes,
    make_home_folder,
    make_private_folder,
)
from likeset.geometry.selection import Selection
from likeset.homes.compute import ComputeFolder, ComputeResident, SplitConsumerRun, check_computes
from likeset.homes.home import MailboxAddress, PartyHome, TunnelPlace, TunnelText, check_tunnels, checked_addresses
from likeset.homes.mail import (
    ConsumerRun,
    ConsumerShell,
    Correspondence,
    Identity,
    Invitation,
    LetterBook,
    end_of,
    file_name,
    signed_once,
    transcript_of,
    utc_now,
)
from likeset.ledger.ledger import Ledger
from likeset.privacy.noise import SecretNoise
from likeset.protocol.party import CURATOR
from likeset.protocol.sealed import Consumer
from likeset.protocol.split_run import SplitConsumer
from likeset.protocol.terms import WITNESS, Terms
from likeset.protocol.wire import MOST_BYTES, Message, Summary, decode
from likeset.split.host import split_python
from likeset.tables.records import DeclaredRecords
from likeset.tables.schema import Schema
from likeset.text import near_miss
from likeset.trust.cards import Card, CardSecret, Pin, Role

SETTINGS_FILE = "consumer.yaml"
_MOST_HOURS = 24 * 3650


class Connection(Document):
    """``consumer.yaml``: who the consumer is, and by which mailboxes its runs travel.

    Attributes:
        name: of the consumer.
        mailboxes: addresses; a new run travels by the only one, unless it is told otherwise.
        listen: in split runs, where its tunnels listen: ``HOST:PORT``.
        reach_at: where others reach them, if elsewhere.
        patience_hours: in split runs, how long it waits for owners after it asked; then it goes on without them.
    """

    likeset: Literal["consumer"] = "consumer"
    version: Literal[1] = 1
    name: str
    mailboxes: tuple[MailboxAddress, ...] = ()
    listen: TunnelText = ""
    reach_at: TunnelText = ""
    patience_hours: Annotated[float, Field(ge=0.0, le=_MOST_HOURS, allow_inf_nan=False)] = 72.0

    @property
    def patience(self) -> timedelta:
        return timedelta(hours=self.patience_hours)


_HOW = "get its card, compare its fingerprint by telephone, and pin it: likeset card pin FILE --as"


def named_cards(
    identity: Identity,
    *,
    consumer: str,
    owners: Iterable[str],
    curator: str | None = None,
    witness: str | None = None,
) -> dict[str, str]:
    """The fingerprints of all parties of a run, by their names in the terms.

    Args:
        identity: the consumer's.
        consumer: its name, which its card must have.
        owners: their names, by which their cards are pinned.
        curator: the name of a pinned curator's card; None for the only one that is pinned.
        witness: the name of a pinned witness's card; None for a run without one.

    Raises:
        InvalidArgument: a party's card is not pinned here, or not in that role; the party is named.
    """
    own = identity.secret.card
    if own.name != consumer:
        reason = f"is not the name on this home's card, which is {own.name}; see `likeset card make --new --name`"
        raise InvalidArgument("consumer", consumer, reason)
    all_pinned = [pin for pin in identity.pins.all() if pin.state == "pinned"]
    pinned = {pin.card.name: pin for pin in reversed(all_pinned)}  # of several under a name the oldest, as Pins.get
    cards = {consumer: own.fingerprint}
    cards |= {owner: _pinned(pinned, "owner", owner, field="owners") for owner in owners}
    cards[CURATOR] = _only_curator(all_pinned) if curator is None else _pinned(pinned, "curator", curator)
    if witness is not None:
        if witness == consumer:
            reason = "is the consumer's own name; a witness is a third organisation, with a card of its own"
            raise InvalidArgument("witness", witness, reason)
        cards[WITNESS] = _pinned(pinned, "witness", witness, field="witness")
    return cards


def _pinned(pins: Mapping[str, Pin], role: Role, name: str, *, field: str = "curator_card") -> str:
    pin = pins.get(name)
    if pin is None:
        hint = near_miss(name, {other for other, pin in pins.items() if pin.role == role})
        raise InvalidArgument(field, name, f"no card of that name is pinned here{hint}; {_HOW} {role}")
    if pin.role != role:
        third = "; a witness is a third organisation, which has no other part in the run" if role == "witness" else ""
        reason = f"its card is pinned here as that of the {pin.role}, not of the {role}{third}"
        raise InvalidArgument(field, name, reason)
    return pin.card.fingerprint


def _only_curator(pins: Iterable[Pin]) -> str:
    curators = [pin for pin in pins if pin.role == "curator"]
    if not curators:
        raise InvalidArgument("curator_card", "none", f"no curator's card is pinned here; {_HOW} curator")
    if len(curators) > 1:
        names = ", ".join(pin.card.name for pin in curators)
        reason = f"several curators' cards are pinned here; name one of them in the job (curator_card:): {names}"
        raise InvalidArgument("curator_card", "none", reason)
    return curators[0].card.fingerprint


_INVITATION = ".invitation"
_CANCELLED = "cancelled"
_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Travel(Document):
    """``mailbox.json`` in a run's folder: that its letters travel by mailbox, and how long others may think.

    Attributes:
        mailbox: its address, as its store tells it.
        decide_by: when the run begins without those who have not decided, if a quorum accepted; never moved.
    """

    likeset: Literal["travel"] = "travel"
    version: Literal[1] = 1
    mailbox: str
    decide_by: datetime


@dataclass(frozen=True)
class KeptRun:
    """What is kept of one run, in a folder of its own.

    Args:
        folder: the run's.
        ledger_path: the consumer's ledger.
    """

    folder: Path
    ledger_path: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def job_path(self) -> Path:
        return self.folder / "job.yaml"

    @property
    def invitation_path(self) -> Path:
        """The file of the signed terms, as owners take it: with it the run is known."""
        return self.folder / f"{self.name}{_INVITATION}"

    @cached_property
    def invitation(self) -> Invitation:
        """The terms, signed.

        Raises:
            InvalidArgument: the run is not known.
            LikesetError: the file was changed since it was signed.
        """
        try:
            data = self.invitation_path.read_bytes()
        except OSError as error:
            raise InvalidArgument("RUN", self.name, "is not known here; see `likeset run list`") from error
        return Invitation.read(data)

    @property
    def terms(self) -> Terms:
        return self.invitation.terms

    @property
    def schema_path(self) -> Path:
        return self.folder / "schema.yaml"

    @property
    def schema(self) -> Schema:
        schema = Schema.load(self.schema_path)
        if schema.digest != self.terms.schema_digest:
            reason = f"is not the schema of run {self.name}, as it was when its terms were drafted"
            raise BadDocument(str(self.schema_path), reason)
        return schema

    @property
    def target(self) -> Rows:
        rows: Rows = np.load(self.folder / "target.npy", allow_pickle=False)
        return rows

    @property
    def selection(self) -> Selection:
        path = self.folder / "selection.json"
        try:
            return Selection(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise BadDocument(str(path), "cannot be read; restore it from a copy") from error

    @property
    def summary_path(self) -> Path:
        return self.folder / "summary.bin"

    def summary(self) -> Summary:
        """What the curator sent.

        Raises:
            InvalidArgument: nothing was received yet.
        """
        if not self.summary_path.exists():
            raise InvalidArgument("RUN", self.name, "has no summary yet; follow it with `likeset run watch`")
        message = decode(self.summary_path.read_bytes())
        if not isinstance(message.body, Summary) or message.terms != self.terms.digest:
            raise BadDocument(str(self.summary_path), "is not the summary of this run")
        return message.body

    @property
    def ending_path(self) -> Path:
        return self.folder / "ended.json"

    @property
    def ending(self) -> dict[str, Any]:
        path = self.ending_path
        return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}

    @property
    def travel_path(self) -> Path:
        return self.folder / "mailbox.json"

    @property
    def travel(self) -> Travel | None:
        return documents.read(self.travel_path, Travel) if self.travel_path.exists() else None

    def keep_travel(self, mailbox: str, *, decide_by: datetime | None = None, now: datetime | None = None) -> Travel:
        """Let the run travel by mailbox; asked again, as it was.

        Args:
            mailbox: the address, as the store tells it.
            decide_by: when to begin without those who have not decided; after half of the terms' life if None.
            now: when its life begins; now if None.
        """
        known = self.travel
        if known is not None:
            return known
        begin, end = now or utc_now(), end_of(self.terms)
        travel = Travel(mailbox=mailbox, decide_by=min(decide_by or begin + (end - begin) / 2, end))
        documents.write_text(self.travel_path, travel.model_dump_json(indent=1) + "\n")
        return travel

    @property
    def cancelled(self) -> bool:
        """Whether the consumer stopped it while it travelled by mailbox: nothing is looked for or posted any more."""
        return (self.folder / _CANCELLED).exists()

    def cancel(self) -> None:
        documents.write_text(self.folder / _CANCELLED, "")

    @property
    def result(self) -> Path:
        return self.folder / "result"

    def keep(
        self,
        *,
        job: Mapping[str, Any],
        schema: Path,
        target: Rows,
        selection: Selection,
    ) -> None:
        """Keep what a run needs beside its terms, before they are signed."""
        make_private_folder(self.folder)
        documents.write(self.job_path, job)
        documents.write_text(self.schema_path, schema.read_text(encoding="utf-8-sig"))
        keep_private(self.folder / "target.npy", lambda path: _save(path, target))
        wishes = {name: value for name, value in asdict(selection).items() if name != "swaps"}
        documents.write_text(self.folder / "selection.json", json.dumps(wishes) + "\n")

    def keep_invitation(self, invitation: Invitation) -> None:
        """Keep the signed terms, whole or not at all: from now on the run is known, and its terms stay as they are."""
        keep_private_bytes(self.invitation_path, invitation.to_bytes())


@dataclass(frozen=True)
class ConsumerHome(PartyHome):
    """The directory of a consumer.

    Args:
        folder: where it is.
    """

    @property
    def usual_name(self) -> str:
        return self.connection.name

    def check(self) -> None:
        _ = self.connection

    @property
    def ledger(self) -> Path:
        """The ledger's file: what owners may learn about the consumer's rows, over all runs."""
        return self.folder / "ledger.sqlite"

    @property
    def connection(self) -> Connection:
        path = self.folder / SETTINGS_FILE
        if not path.is_file():
            raise InvalidArgument(
                "--home",
                self.folder,
                "is not the directory of a consumer; give --home DIR or set LIKESET_HOME (new: `likeset run init DIR`)",
            )
        return documents.read(path, Connection)

    @property
    def tunnels(self) -> TunnelPlace:
        """Where its tunnels listen in split runs.

        Raises:
            InvalidArgument: ``consumer.yaml`` does not say, or nobody could call there.
        """
        connection = self.connection
        return TunnelPlace.of(connection.listen, connection.reach_at, file=SETTINGS_FILE)

    def check_able_to_write(self) -> None:
        """Raise unless this home can sign and write letters.

        Raises:
            BadDocument: there are no keys, others can read them, or they are damaged.
            HomeRestored: it was put back from an old copy.
        """
        with self.identity.book as book:
            book.check_running()

    def settle(self, run: KeptRun) -> None:
        """Forget the key of a run that has its result: from now on nobody can open its letters here."""
        digest = bytes.fromhex(run.terms.digest)
        with LetterBook(self.book_file) as book:
            keys = book.run_keys(digest)
            if keys is not None and keys.secret is not None:
                book.settle(digest)

    def runs(self) -> list[KeptRun]:
        paths = sorted((self.folder / "runs").glob(f"*/*{_INVITATION}"))
        return [self.run(path.stem) for path in paths if path.stem == path.parent.name]

    def run(self, name: str) -> KeptRun:
        if _FOLDER.fullmatch(name) is None:
            raise InvalidArgument("run", name, "must be letters, digits, . _ and -: it names a folder")
        return KeptRun(self.folder / "runs" / name, self.ledger)

    def known(self, name: str) -> KeptRun:
        """A run that was invited to.

        Raises:
            InvalidArgument: it was not.
        """
        run = self.run(name)
        _ = run.terms
        return run


def make_consumer_home(
    folder: Path,
    *,
    name: str,
    mailboxes: Sequence[str] = (),
    listen: str = "",
    reach_at: str = "",
) -> ConsumerHome:
    """A new directory of a consumer.

    Raises:
        InvalidArgument: it holds something already, or cannot be made, or no party may have that name.
    """
    check_tunnels(listen, reach_at, file=SETTINGS_FILE)
    card, addresses = CardSecret.generate(name), checked_addresses(mailboxes)
    connection = Connection(name=name, mailboxes=addresses, listen=listen, reach_at=reach_at)
    make_home_folder(folder)
    card.write(folder)
    home = ConsumerHome(folder)
    with Ledger(home.ledger) as ledger:
        ledger.messages()  # makes their file
    LetterBook(home.book_file).close()  # likewise
    documents.write(folder / SETTINGS_FILE, connection)
    return home


def _save(path: Path, rows: Rows) -> None:
    with path.open("wb") as file:  # given a path, numpy would write to another one, which ends in .npy
        np.save(file, rows)


def consumer_run(
    invitation: Invitation,
    name: str,
    folder: Path,
    *,
    identity: Identity | None = None,
    check_workers: Callable[[], object] = split_python,
) -> ConsumerRun | SplitConsumerRun:
    """The consumer's side of a run that it signed; in a split run it computes.

    Args:
        invitation: the signed terms.
        name: the consumer's.
        folder: its directory.
        identity: who it is, where that is open already.
        check_workers: raises where no worker can be started, which a split run needs.

    Raises:
        LikesetError: these terms are not those that this consumer signed, it has no keys to answer with, or it cannot
            compute.
    """
    home, terms = ConsumerHome(folder), invitation.terms
    if home.connection.name != name:
        raise IllegalMessage(f"the consumer of this directory is {home.connection.name}, not {name}")
    run = home.known(terms.run)
    if run.invitation.to_bytes() != invitation.to_bytes():
        raise IllegalMessage(f"run {terms.run}: the consumer signed other terms")
    letters = Correspondence(identity or home.identity, run.invitation, name)
    letters.identity.book.settle_ended()
    if terms.split is not None:
        return _split_run(home, run, letters, check_workers=check_workers)
    party = Consumer(
        terms,
        target=run.target,
        noise=SecretNoise(),
        selection=run.selection,
        declared=DeclaredRecords(run.schema),
    )

    def keep(data: bytes) -> None:
        keep_private_bytes(run.summary_path, data)

    return ConsumerRun(letters, ConsumerShell(party, Ledger(home.ledger)), MOST_BYTES, keep=keep)


def _split_run(
    home: ConsumerHome, run: KeptRun, letters: Correspondence, *, check_workers: Callable[[], object]
) -> SplitConsumerRun:
    """Where nobody but the consumer reads a row: it computes, and builds itself what a curator would have sent."""
    terms, place = run.terms, check_computes(home, run.terms, "consumer", check_workers)
    kept = ComputeFolder(home.folder, terms.digest)

    def make(cards: Mapping[str, Card]) -> SplitConsumer:
        return SplitConsumer(
            terms,
            target=run.target,
            noise=SecretNoise(),
            secret=letters.identity.secret,
            cards=cards,
            selection=run.selection,
            declared=DeclaredRecords(run.schema),
            reach=kept.reach(place).to_bytes(),
        )

    def keep(summary: Summary) -> None:
        message = Message(
            run=terms.run, terms=terms.digest, sender=terms.consumer, receiver=terms.consumer, round=0, body=summary
        )
        keep_private_bytes(run.summary_path, message.data)

    def receipts(owners: Collection[str]) -> dict[str, bytes]:
        return _receipts(run, letters.identity, owners)

    resident = ComputeResident(terms.consumer, make, Ledger(home.ledger))
    return SplitConsumerRun(letters, resident, MOST_BYTES, kept=kept, keep=keep, receipts=receipts)


def _receipts(run: KeptRun, identity: Identity, owners: Collection[str]) -> dict[str, bytes]:
    """What this consumer signs for owners: how many rows each of them offered, and never which it bought."""
    terms, receipts = run.terms, {}
    for owner in (name for name in terms.owners if name in owners):
        make_private_folder(run.folder / "receipts")
        path = run.folder / "receipts" / f"{file_name(owner)}.json"
        copy = transcript_of(identity.book, terms, owner=owner, kept_by="consumer")
        receipts[owner] = signed_once(path, copy, identity.secret).to_bytes()
    return receipts
