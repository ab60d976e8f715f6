"""One run between organisations at one home: letters in, letters out."""

import base64
import binascii
import hashlib
import json
import re
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final, Generic, Literal, Protocol, Self, TypeVar
from urllib.parse import quote

from likeset import documents
from likeset.documents import Document
from likeset.errors import (
    BadDocument,
    BadMessage,
    BudgetExceeded,
    HomeRestored,
    IllegalMessage,
    InvalidArgument,
    LetterContradicts,
    LetterRefused,
    LikesetError,
    QuorumMissed,
    TermsExpired,
)
from likeset.ledger.budget import Charge, Limit, check_account
from likeset.ledger.ledger import Ledger, Request, Unfinished
from likeset.ledger.sqlite_file import Layout, SqliteFile
from likeset.privacy.events import Relation, Release
from likeset.privacy.guarantee import View
from likeset.protocol.party import CURATOR, ChargeWanted, Party, Step
from likeset.protocol.prices import PlannedView
from likeset.protocol.sealed import Consumer, Curator
from likeset.protocol.split_run import ComputeParty, OpenedSlots, SplitConsumer, most_part_bytes, slots_in
from likeset.protocol.terms import WITNESS, PlannedTerms, Terms, check_between, read_foreign, read_foreign_canonical
from likeset.protocol.wire import Delivery, Message, Offer, OfferShare, Summary, Target, TargetShare, decode
from likeset.trust.cards import RECEIPT_CONTEXT, SIGNATURE_BYTES, Card, CardSecret, Pins, Role, SealingSecret, fields
from likeset.trust.letters import (
    MOST_TERMS_BYTES,
    NOTHING_RECEIVED,
    Acceptance,
    Letter,
    Refusal,
    SignedTerms,
    Stub,
    accept,
    is_acceptance,
    is_signed_terms,
    is_stub,
    letter_in,
    open_letter,
    sign_terms,
    write_letter,
)


def utc_now() -> datetime:
    return datetime.now(UTC)


def clock_words(now: datetime) -> str:
    """What a clock says, to the hour: enough to see that it is wrong, and floods of refusals stay of one kind."""
    return f"{now.astimezone(UTC):%Y-%m-%d, %H} h UTC"


def check_not_expired(terms: Terms, now: datetime) -> None:
    if terms.end is not None and now > terms.end:
        end = f"the terms of run {terms.run} ended at {terms.end.isoformat()}"
        raise TermsExpired(f"{end}, and this machine's clock says {clock_words(now)}; agree on new ones, or set it")


Way = Literal["in", "out"]
IN: Final = "in"
OUT: Final = "out"
RECEIPT: Final = "receipt"
"""In place of the kind of a message: of a letter that holds nothing but a receipt."""


@dataclass(frozen=True, slots=True)
class RunKeys:
    """A home's own side of a run.

    Attributes:
        terms: of the run, by their digest.
        secret: opens letters; None when the run is settled.
        invitation: the terms as the consumer signed them.
        acceptance: what this home signed to take part; empty at the consumer, who signed the terms.
        settled: when (UTC); empty if it is not.
    """

    terms: bytes
    secret: SealingSecret | None = field(repr=False)
    invitation: bytes = field(repr=False)
    acceptance: bytes = field(repr=False)
    settled: str = ""


@dataclass(frozen=True, slots=True)
class Peer:
    """Somebody to write to in a run.

    Attributes:
        party: its name in the terms.
        card: its card, as bytes.
        run_key: its sealing key for the run.
        acceptance: what it signed to take part; empty for the consumer, who signed the terms.
    """

    party: str
    card: bytes = field(repr=False)
    run_key: bytes = field(repr=False)
    acceptance: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Contents:
    """What a letter says, as far as its keeper writes it down.

    Attributes:
        kind: of the message in it.
        rows: how many rows of an owner are in it.
        digest: of all that it says, by which it is found again; not kept when the run is settled.
    """

    kind: str
    rows: int
    digest: bytes = field(repr=False)


def contents_of(message: Message | None, data: bytes, enclosures: Sequence[bytes]) -> Contents:
    """What is written down of a letter that says this."""
    digest = hashlib.sha256(fields(data, *enclosures)).digest()
    if message is None:
        return Contents(RECEIPT, 0, digest)
    if isinstance(message.body, OfferShare):
        return Contents(message.body.kind, slots_in(message.body), digest)
    # Rows of no width take no room: anybody could write of any number of them.
    rows = len(message.body.rows) if isinstance(message.body, Offer | Delivery) and message.body.rows.size else 0
    return Contents(message.body.kind, rows, digest)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A letter that came, and was opened.

    Attributes:
        peer: from whom.
        letter: itself.
        contents: what it says.
        kept_whole: whether its bytes are kept beside the key that opens them, until the run is settled.
    """

    peer: str
    letter: Letter
    contents: Contents
    kept_whole: bool = True


Seal = Callable[[int, bytes], Letter]
"""Given a letter's number and the digest of the last one received from its reader: the letter."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """What is to be sent.

    Attributes:
        peer: to whom.
        contents: what it says.
        seal: writes the letter, if it was not written before.
    """

    peer: str
    contents: Contents
    seal: Seal = field(repr=False)


@dataclass(frozen=True, slots=True)
class KeptLetter:
    """A letter that came or was sealed.

    Attributes:
        peer: from whom, or for whom.
        way: whether it came in or went out.
        number: in the series of its writer and reader.
        digest: by which others name it: SHA-256 of its stub.
        stub: its signed header.
        size: how many bytes it has.
        kind: of the message in it.
        rows: of an owner in it.
        at: when it was kept (UTC).
    """

    peer: str
    way: Way
    number: int
    digest: bytes = field(repr=False)
    stub: bytes = field(repr=False)
    size: int
    kind: str
    rows: int
    at: str

    @property
    def signed_header(self) -> Stub:
        return Stub.from_bytes(self.stub)


@dataclass(frozen=True, slots=True)
class WrittenLetter:
    """A letter that was sealed here, as whoever carries it needs to know it.

    Attributes:
        place: among all letters of the home.
        peer: for whom it is.
        number: in the series of its writer and reader.
        digest: by which others name it.
        kind: of the message in it.
    """

    place: int
    peer: str
    number: int
    digest: bytes = field(repr=False)
    kind: str


_LAYOUT = Layout(
    what="letter book",
    application_id=0x4C_53_42_31,  # "LSB1"
    version=2,
    statements=(
        """CREATE TABLE runs (
            terms BLOB PRIMARY KEY, invitation BLOB NOT NULL, ends REAL NOT NULL, key BLOB,
            acceptance BLOB NOT NULL, settled TEXT NOT NULL
        ) WITHOUT ROWID""",
        """CREATE TABLE peers (
            terms BLOB, party TEXT, card BLOB NOT NULL, run_key BLOB NOT NULL, acceptance BLOB NOT NULL,
            PRIMARY KEY (terms, party)
        ) WITHOUT ROWID""",
        """CREATE TABLE letters (
            terms BLOB, peer TEXT, way TEXT, number INTEGER, digest BLOB NOT NULL, stub BLOB NOT NULL,
            bytes INTEGER NOT NULL, kind TEXT NOT NULL, rows INTEGER NOT NULL, at TEXT NOT NULL,
            answers BLOB, content BLOB, data BLOB,
            PRIMARY KEY (terms, peer, way, number)
        )""",  # the last two go when the run is settled
        "CREATE INDEX letters_by_content ON letters (terms, peer, way, content)",
        "CREATE TABLE stopped (terms BLOB PRIMARY KEY, data BLOB NOT NULL, at TEXT NOT NULL)",
    ),
)


class LetterBook:
    """The letters of all runs of one home, in one file.

    Args:
        path: the file; made if it is not there, unless ``read_only``.
        clock: tells the time.
        read_only: to look at it alone.
    """

    def __init__(self, path: Path, *, clock: Callable[[], datetime] = utc_now, read_only: bool = False) -> None:
        self._store = SqliteFile(path, layout=_LAYOUT, read_only=read_only)
        self._clock = clock

    # The keys of a run.

    def open_run(
        self,
        terms: bytes,
        secret: SealingSecret,
        *,
        invitation: bytes,
        ends: datetime,
        acceptance: bytes = b"",
    ) -> RunKeys:
        """Keep the keys of a run; those that were kept first count.

        Args:
            terms: of the run, by their digest.
            secret: opens its letters.
            invitation: the terms as the consumer signed them.
            ends: when the terms end, and with them the key.
            acceptance: what this home signed to take part; empty at the consumer.
        """
        with self._store.writing() as connection:
            row = (terms, invitation, ends.timestamp(), secret.to_bytes(), acceptance, "")
            connection.execute("INSERT OR IGNORE INTO runs VALUES (?, ?, ?, ?, ?, ?)", row)
        kept = self.run_keys(terms)
        assert kept is not None  # noqa: S101 - just written, and never removed
        return kept

    def run_keys(self, terms: bytes) -> RunKeys | None:
        with self._store.reading() as connection:
            row = connection.execute(
                "SELECT key, invitation, acceptance, settled FROM runs WHERE terms = ?", (terms,)
            ).fetchone()
        if row is None:
            return None
        key, invitation, acceptance, settled = row
        secret = None if key is None else SealingSecret.from_bytes(key)
        return RunKeys(terms, secret, invitation, acceptance, settled)

    def is_settled(self, terms: bytes) -> bool:
        """Whether the key of a run that is known here is gone."""
        with self._store.reading() as connection:
            row = connection.execute("SELECT key IS NULL FROM runs WHERE terms = ?", (terms,)).fetchone()
        return row is not None and bool(row[0])

    def invitations(self) -> list[bytes]:
        """The signed terms of all runs that this home took part in."""
        with self._store.reading() as connection:
            return [bytes(data) for (data,) in connection.execute("SELECT invitation FROM runs ORDER BY terms")]

    def settle(self, terms: bytes, *, resend: bool = False) -> bool:
        """Forget the key of a run and the bytes that it opens; returns whether there was one to forget.

        Args:
            terms: of the run, by their digest.
            resend: whether letters that were sealed here stay until the terms end. Their readers' keys open them, no
                key of this home does; somebody who lost them may ask for them again (``sent_in_answer``).
        """
        with self._store.writing() as connection:
            forgotten = self._forget(connection, [terms], resend=resend)
        self._store.empty_log()  # which would hold it until it is written over
        return forgotten > 0

    def settle_ended(self) -> int:
        """The same for all runs whose terms have ended; returns how many keys were forgotten."""
        with self._store.reading() as connection:
            rows = connection.execute(
                "SELECT terms FROM runs WHERE ends <= ? AND (key IS NOT NULL OR EXISTS "
                "(SELECT 1 FROM letters WHERE letters.terms = runs.terms AND data IS NOT NULL))",
                (self._clock().timestamp(),),
            )
            ended = [terms for (terms,) in rows]
        if not ended:
            return 0  # to look writes nothing
        with self._store.writing() as connection:
            forgotten = self._forget(connection, ended)
        self._store.empty_log()
        return forgotten

    def _forget(self, connection: sqlite3.Connection, runs: Iterable[bytes], *, resend: bool = False) -> int:
        count, ways = 0, (IN, IN if resend else OUT)
        for terms in runs:
            count += connection.execute(
                "UPDATE runs SET key = NULL, settled = ? WHERE terms = ? AND key IS NOT NULL", (self._now(), terms)
            ).rowcount
            connection.execute("UPDATE letters SET content = NULL WHERE terms = ?", (terms,))
            connection.execute("UPDATE letters SET data = NULL WHERE terms = ? AND way IN (?, ?)", (terms, *ways))
        return count

    # Who takes part.

    def introduce(self, terms: bytes, peers: Iterable[Peer]) -> None:
        """Keep whom to write to; who is known stays as it is."""
        with self._store.writing() as connection:
            self._introduce(connection, terms, peers)

    def _introduce(self, connection: sqlite3.Connection, terms: bytes, peers: Iterable[Peer]) -> None:
        rows = [(terms, peer.party, peer.card, peer.run_key, peer.acceptance) for peer in peers]
        connection.executemany("INSERT OR IGNORE INTO peers VALUES (?, ?, ?, ?, ?)", rows)

    def peer(self, terms: bytes, party: str) -> Peer | None:
        """Somebody to write to in a run; None who was not introduced."""
        with self._store.reading() as connection:
            row = connection.execute(
                "SELECT party, card, run_key, acceptance FROM peers WHERE terms = ? AND party = ?", (terms, party)
            ).fetchone()
        return None if row is None else Peer(*row)

    def introduced(self, terms: bytes) -> frozenset[str]:
        with self._store.reading() as connection:
            rows = connection.execute("SELECT party FROM peers WHERE terms = ?", (terms,))
            return frozenset(party for (party,) in rows)

    # Letters.

    def came(self, terms: bytes, peer: str, number: int) -> bytes | None:
        with self._store.reading() as connection:
            row = connection.execute(
                "SELECT digest FROM letters WHERE terms = ? AND peer = ? AND way = ? AND number = ?",
                (terms, peer, IN, number),
            ).fetchone()
        return None if row is None else bytes(row[0])

    def is_said_again(self, terms: bytes, peer: str, contents: Contents, *, number: int) -> bool:
        """Whether this came from somebody before, under another number: who sends it again sends the same letter."""
        with self._store.reading() as connection:
            row = connection.execute(
                "SELECT 1 FROM letters WHERE terms = ? AND peer = ? AND way = ? AND content = ? AND number <> ?",
                (terms, peer, IN, contents.digest, number),
            ).fetchone()
        return row is not None

    def last_received(self, terms: bytes, peer: str) -> bytes:
        """The digest of the letter of the largest number that came from somebody; zeros if none did."""
        with self._store.reading() as connection:
            row = connection.execute(
                "SELECT digest FROM letters WHERE terms = ? AND peer = ? AND way = ? ORDER BY number DESC LIMIT 1",
                (terms, peer, IN),
            ).fetchone()
        return NOTHING_RECEIVED if row is None else bytes(row[0])

    def exchange(
        self,
        terms: bytes,
        *,
        came: Arrival | None = None,
        replies: Sequence[Outgoing] = (),
        newcomers: Iterable[Peer] = (),
    ) -> tuple[bytes, ...]:
        """Write down that a letter came, and seal what is answered: all of it in one write, before anything leaves.

        A reply that says what an earlier letter to the same reader says is that letter, as it was sealed.

        Args:
            terms: of the run, by their digest.
            came: what came, if anything did.
            replies: what is to be sent, in order.
            newcomers: who was introduced by it.

        Returns:
            The bytes of each reply.
        """
        with self._store.writing() as connection:
            self._introduce(connection, terms, newcomers)
            if came is not None:
                data = came.letter.data if came.kept_whole else None
                self._insert(connection, terms, came.peer, IN, came.letter, came.contents, data)
            answers = None if came is None else came.letter.digest
            return tuple(self._sealed(connection, terms, reply, answers) for reply in replies)

    def _sealed(self, connection: sqlite3.Connection, terms: bytes, reply: Outgoing, answers: bytes | None) -> bytes:
        place = (terms, reply.peer, OUT)
        kept = connection.execute(
            "SELECT data FROM letters WHERE terms = ? AND peer = ? AND way = ? AND content = ?",
            (*place, reply.contents.digest),
        ).fetchone()
        if kept is not None:
            return bytes(kept[0])
        (number,) = connection.execute(
            "SELECT coalesce(max(number) + 1, 0) FROM letters WHERE terms = ? AND peer = ? AND way = ?", place
        ).fetchone()
        letter = reply.seal(number, self.last_received(terms, reply.peer))
        self._insert(connection, terms, reply.peer, OUT, letter, reply.contents, letter.data, answers)
        return letter.data

    def _insert(
        self,
        connection: sqlite3.Connection,
        terms: bytes,
        peer: str,
        way: Way,
        letter: Letter,
        contents: Contents,
        data: bytes | None,
        answers: bytes | None = None,
    ) -> None:
        place = (terms, peer, way, letter.header.number)
        kept = (letter.digest, letter.stub.to_bytes(), len(letter.data), contents.kind, contents.rows, self._now())
        row = (*place, *kept, answers, contents.digest, data)
        connection.execute(f"INSERT OR IGNORE INTO letters VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608

    def sent(self, terms: bytes) -> list[bytes]:
        """The letters of a run that were sealed here, in the order in which they were."""
        with self._store.reading() as connection:
            rows = connection.execute(
                "SELECT data FROM letters WHERE terms = ? AND way = ? AND data IS NOT NULL ORDER BY rowid",
                (terms, OUT),
            )
            return [bytes(data) for (data,) in rows]

    def written(self, terms: bytes, *, after: int = 0) -> list[WrittenLetter]:
        """The letters of a run that were sealed here, without their bytes, in the order in which they were.

        Args:
            terms: of the run, by their digest.
            after: only those that were sealed after the letter in this place.
        """
        with self._store.reading() as connection:
            rows = connection.execute(
                "SELECT rowid, peer, number, digest, kind FROM letters WHERE terms = ? AND way = ? AND rowid > ? "
                "ORDER BY rowid",
                (terms, OUT, after),
            )
            return [WrittenLetter(*row) for row in rows]

    def sent_in_answer(self, terms: bytes, digest: bytes) -> tuple[bytes, ...]:
        """The letters that were sealed here in answer to the one of this digest, as far as they are kept."""
        with self._store.reading() as connection:
            rows = connection.execute(
                "SELECT data FROM letters WHERE terms = ? AND way = ? AND answers = ? AND data IS NOT NULL "
                "ORDER BY rowid",
                (terms, OUT, digest),
            )
            return tuple(bytes(data) for (data,) in rows)

    def letters(self, terms: bytes, peer: str | None = None) -> list[KeptLetter]:
        columns = "peer, way, number, digest, stub, bytes, kind, rows, at"
        with self._store.reading() as connection:
            rows = connection.execute(
                f"SELECT {columns} FROM letters WHERE terms = ? AND peer = coalesce(?, peer) ORDER BY rowid",  # noqa: S608
                (terms, peer),
            )
            return [KeptLetter(*row) for row in rows]

    def letter_data(self, terms: bytes, peer: str, way: Way, number: int) -> bytes | None:
        with self._store.reading() as connection:
            row = connection.execute(
                "SELECT data FROM letters WHERE terms = ? AND peer = ? AND way = ? AND number = ?",
                (terms, peer, way, number),
            ).fetchone()
        return None if row is None or row[0] is None else bytes(row[0])

    # What must not be.

    def stub_that_came(self, terms: bytes, peer: str, number: int) -> bytes:
        with self._store.reading() as connection:
            (stub,) = connection.execute(
                "SELECT stub FROM letters WHERE terms = ? AND peer = ? AND way = ? AND number = ?",
                (terms, peer, IN, number),
            ).fetchone()
        return bytes(stub)

    def stop(self, terms: bytes, data: bytes) -> None:
        """Answer nothing more in any run: this home signed something that it does not remember."""
        with self._store.writing() as connection:
            connection.execute("INSERT OR IGNORE INTO stopped VALUES (?, ?, ?)", (terms, data, self._now()))

    def check_running(self) -> None:
        """Raise if this home was found to be put back from an old copy.

        Raises:
            HomeRestored: it was.
        """
        with self._store.reading() as connection:
            row = connection.execute("SELECT at FROM stopped ORDER BY at LIMIT 1").fetchone()
        if row is not None:
            raise HomeRestored(row[0])

    def close(self) -> None:
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _now(self) -> str:
        return self._clock().isoformat(timespec="seconds")


BOOK_FILE = "letters.sqlite"
CARDS_FOLDER = "cards"


@dataclass(frozen=True, eq=False)
class Identity:
    """Who a home is, whom it knows, and what it wrote.

    Attributes:
        secret: its card, with the private half.
        pins: cards that a person here has pinned.
        book: its letters.
    """

    secret: CardSecret
    pins: Pins
    book: LetterBook

    @classmethod
    def of(cls, folder: Path, *, clock: Callable[[], datetime] = utc_now) -> Self:
        secret = CardSecret.load(folder)
        return cls(secret, Pins(folder / CARDS_FOLDER), LetterBook(folder / BOOK_FILE, clock=clock))

    @property
    def fingerprint(self) -> str:
        return self.secret.card.fingerprint


@dataclass(frozen=True, eq=False)
class Invitation:
    """Terms that a consumer signed.

    Attributes:
        signed: the document.
        terms: what it says.
    """

    signed: SignedTerms
    terms: Terms

    @classmethod
    def read(cls, data: bytes) -> Self:
        """From bytes.

        Raises:
            LikesetError: it is none, or its signature, its terms and its card do not belong together.
        """
        signed = SignedTerms.from_bytes(data)
        terms = read_foreign_canonical(signed.text)
        check_between(terms)
        card = signed.card
        if terms.cards[terms.consumer] != card.fingerprint or card.name != terms.consumer:
            raise IllegalMessage(f"run {terms.run}: the terms are signed by another card than the consumer's")
        return cls(signed, terms)

    @classmethod
    def sign(cls, terms: Terms, identity: Identity) -> Self:
        """The consumer's: its key for the run is kept first; asked again, with the same key.

        Raises:
            InvalidArgument: the terms name another card than this home's.
        """
        check_between(terms)
        if terms.cards[terms.consumer] != identity.fingerprint:
            raise InvalidArgument("terms", terms.run, "name another card than this home's as the consumer's")
        secret = SealingSecret.generate()
        signed = sign_terms(terms.to_json(), identity.secret, secret.public)
        digest = bytes.fromhex(terms.digest)
        kept = identity.book.open_run(digest, secret, invitation=signed.to_bytes(), ends=end_of(terms))
        if kept.secret is None:
            raise InvalidArgument("run", terms.run, "is settled")
        return cls(SignedTerms.from_bytes(kept.invitation), terms)

    def to_bytes(self) -> bytes:
        return self.signed.to_bytes()


_MUST_BE_PINNED: dict[Role, tuple[Role, ...]] = {
    "owner": ("consumer", "curator", "witness"),
    "curator": ("consumer",),
    "witness": ("consumer", "curator"),
    "consumer": (),  # it wrote the terms from its own pins
}
"""Whose cards a party must know to take part in a run, by what it is in it."""


def must_know(terms: Terms, party: str) -> dict[Role, str]:
    """Whose cards this party must know to take part in a run: their names in the terms, by what they are in it."""
    names = {role: terms.consumer if role == "consumer" else role for role in _MUST_BE_PINNED[role_in(terms, party)]}
    return {role: name for role, name in names.items() if name in terms.cards}


def unpinned(terms: Terms, party: str, pins: Pins) -> list[str]:
    """Whom this party would have to know, and does not: in words, with what to do.

    Args:
        terms: of the run.
        party: its name in them.
        pins: what is pinned at its home.
    """
    faults = (card_fault(role, terms.cards[name], pins) for role, name in must_know(terms, party).items())
    return [fault for fault in faults if fault]


def card_fault(role: Role, fingerprint: str, pins: Pins) -> str:
    pin = pins.by_fingerprint(fingerprint)
    if pin is None:
        return (
            f"the card of the {role} is not pinned here ({fingerprint}): compare the fingerprint with them by "
            "telephone, then pin it with `likeset card pin`"
        )
    if pin.state != "pinned":
        return f"the card of the {role} was {pin.state} here ({fingerprint})"
    if pin.role != role:
        return f"the card of the {role} is pinned here as that of {_a(pin.role)} ({fingerprint})"
    return ""


def _a(role: Role) -> str:
    return f"an {role}" if role == "owner" else f"a {role}"


def role_in(terms: Terms, party: str) -> Role:
    if party == terms.consumer:
        return "consumer"
    if party in terms.owners:
        return "owner"
    return "curator" if party == CURATOR else "witness"


def end_of(terms: Terms) -> datetime:
    """When a run between organisations ends.

    Raises:
        InvalidArgument: the terms have no end.
    """
    end = terms.end
    if end is None:
        raise InvalidArgument("expires", "none", "terms between organisations must end: their keys go then")
    return end


def peer_in(data: bytes, terms: Terms, pins: Pins) -> Peer | None:
    """Somebody who accepted terms; None if the acceptance does not hold.

    Args:
        data: the acceptance, as it came.
        terms: of the run.
        pins: cards that are, or were, pinned at the home that reads it.
    """
    try:
        accepted = Acceptance.from_bytes(data)
    except BadDocument:
        return None
    if not is_acceptance_of(terms, accepted) or is_given_up(accepted.card.fingerprint, pins):
        return None
    return Peer(accepted.party, accepted.card.to_bytes(), accepted.run_key, data)


def is_acceptance_of(terms: Terms, accepted: Acceptance) -> bool:
    """Whether somebody whom the terms name by card signed that it takes part under them, as what it is in the run."""
    party = accepted.party
    return (
        accepted.run_id == bytes.fromhex(terms.run_id)
        and accepted.terms == bytes.fromhex(terms.digest)
        and terms.cards.get(party) == accepted.card.fingerprint
        and party != terms.consumer
        and accepted.role == role_in(terms, party)
    )


def is_given_up(fingerprint: str, pins: Pins) -> bool:
    """Whether a card was pinned here, and is no longer: whatever the terms say, it is not heard any more."""
    pin = pins.by_fingerprint(fingerprint)
    return pin is not None and pin.state != "pinned"


@dataclass(frozen=True, eq=False)
class OwnPapers:
    """What a home wrote in one run.

    Args:
        identity: the home's.
        terms: of the run.
    """

    identity: Identity
    terms: Terms

    @property
    def _named(self) -> tuple[bytes, bytes]:
        return bytes.fromhex(self.terms.run_id), bytes.fromhex(self.terms.digest)

    def meet_stub(self, data: bytes) -> None:
        """The stub of a letter that this home wrote came back: the letter is known, or this home is an old copy.

        Raises:
            HomeRestored: it is not remembered.
            LikesetError: it is, or this home did not sign it.
        """
        stub = Stub.from_bytes(data)
        if (stub.header.run_id, stub.header.terms) != self._named:
            raise IllegalMessage(f"run {self.terms.run}: a stub of another run, or under other terms")
        self.meet(stub)

    def meet(self, stub: Stub) -> None:
        """A letter of this home's own came back; raises as ``meet_stub``."""
        check_signature(stub, self.identity.secret.card)
        kept = (letter.digest for letter in self.identity.book.letters(self._named[1]) if letter.way == OUT)
        if stub.digest not in kept:
            self._stop(stub.to_bytes())
        raise IllegalMessage(f"run {self.terms.run}: a letter of this home's own came back")

    def meet_acceptance(self, data: bytes) -> None:
        """An acceptance that this home signed came back: the same for it.

        Raises:
            HomeRestored: it is not remembered.
            IllegalMessage: it is, or this home did not sign it.
        """
        accepted = Acceptance.from_bytes(data)
        own = accepted.card.fingerprint == self.identity.fingerprint
        if own and (accepted.run_id, accepted.terms) == self._named:
            kept = self.identity.book.run_keys(self._named[1])
            if kept is None or kept.acceptance != data:
                self._stop(data)
        raise IllegalMessage(f"run {self.terms.run}: an acceptance came where letters come")

    def _stop(self, data: bytes) -> None:
        self.identity.book.stop(self._named[1], data)
        self.identity.book.check_running()


def check_signature(stub: Stub, card: Card) -> None:
    """Raise unless a card signed a letter.

    Raises:
        LetterRefused: it did not.
    """
    if not stub.is_signed_by(card):
        raise LetterRefused(Refusal.SIGNATURE)


def check_remembered(identity: Identity, data: bytes) -> None:
    """Look at something that seems to be this home's own: terms, an acceptance, a letter or its stub.

    What somebody else signed, or nobody, says nothing about this home.

    Raises:
        HomeRestored: this home signed it, and its letter book does not know it.
    """
    try:
        terms = _unknown_own(identity, data)
    except LikesetError:
        return  # it is none of these
    if terms is not None:
        identity.book.stop(terms, data)
        identity.book.check_running()


def _unknown_own(identity: Identity, data: bytes) -> bytes | None:
    """The digest of the terms under which this home signed it without knowing; None if it did not, or knows."""
    own, book = identity.secret.card, identity.book
    if is_signed_terms(data):
        invitation = Invitation.read(data)
        digest = bytes.fromhex(invitation.terms.digest)
        kept = book.run_keys(digest)
        known = invitation.signed.card != own or (kept is not None and kept.invitation == data)
    elif is_acceptance(data):
        accepted = Acceptance.from_bytes(data)
        digest, kept = accepted.terms, book.run_keys(accepted.terms)
        known = accepted.card != own or (kept is not None and kept.acceptance == data)
    else:
        stub = Stub.from_bytes(data) if is_stub(data) else letter_in(data, most_bytes=len(data)).stub
        digest = stub.header.terms
        written = (letter.digest for letter in book.written(digest))
        known = not stub.is_signed_by(own) or stub.digest in written
    return None if known else digest


_SHORT = 1 << 10  # of messages whose length tells nothing
_HEAD = 1 << 14
_PER_COLUMN = 1 << 9  # of a table, however many rows it has
_PER_LABEL = 1 << 8
_PER_NUMBER = 8
_PER_OWNER = 1 << 10  # in a summary: whether it took part, and why not
_PER_ACCEPTANCE = 1 << 12  # which go to the curator beside the target
_RELEASE_HEAD = 1 << 21
_PER_COORDINATE = 64  # bytes of a release, with its coordinates, and room to spare
_RECEIPT_HEAD, _RECEIPT_PER_ROUND, _LARGEST_RECEIPT = 1 << 14, 1 << 13, 1 << 27
LARGEST_LETTER = 1 << 28
AS_IF_NOT_COME = (BadMessage, IllegalMessage, LetterRefused, LetterContradicts)
"""Errors of a curator at a letter that mean that it is as if it had not come; any other ends the run."""

_AROUND = 1 << 14  # bytes of a letter beyond its message: header, signature, seal, padding, the curator's acceptance


def padded_size(terms: Terms, message: Message | None) -> int:
    """The multiple to which the body of a letter with this message is padded, in bytes."""
    return _padded_size(terms, type(None) if message is None else type(message.body))


def _padded_size(terms: Terms, kind: type[object]) -> int:
    width = terms.kernel.columns
    row = 4 * width + terms.record_bytes + _PER_LABEL + 6 * _PER_NUMBER + len(terms.columns)
    table = _HEAD + _PER_COLUMN * len(terms.columns)
    # A size that is declared is near the true one, which may be the larger of the two.
    target_rows = terms.target_size * (2 if terms.relation is Relation.ADD_OR_REMOVE else 1)
    sizes: dict[type[object], int] = {
        Offer: table + row * terms.rows_per_owner,
        Delivery: table + row + 4 * terms.kernel.dimension,
        Summary: table + row * terms.size + _PER_OWNER * len(terms.owners),
        Target: _HEAD
        + 4 * width * target_rows
        + _PER_NUMBER * terms.kernel.dimension
        + _PER_ACCEPTANCE * len(terms.owners),
        # Of the words of the target alone; parts, receipts, votes and envelopes have lengths that terms fix.
        TargetShare: _HEAD + _PER_NUMBER * width * target_rows + _PER_ACCEPTANCE * (len(terms.owners) + 1),
    }
    return sizes.get(kind, _SHORT)


def most_receipt_bytes(terms: Terms) -> int:
    """No receipt of a run needs more: it has a few lines for each round."""
    rounds = terms.size if terms.protocol == "interactive" else 2
    return min(_RECEIPT_HEAD + _RECEIPT_PER_ROUND * rounds, _LARGEST_RECEIPT)


def most_bytes_to_owner(terms: Terms) -> int:
    """No letter to an owner needs more: it hears releases, yes or no, and a receipt; only a consumer is sent rows."""
    return max(_RELEASE_HEAD + _PER_COORDINATE * terms.kernel.dimension, most_receipt_bytes(terms)) + _AROUND


def most_bytes_from(terms: Terms, party: str) -> int:
    """No letter of this party to one that is no owner needs more."""
    sizes = [most_bytes_to_owner(terms)]
    if party in terms.owners:
        sizes += [_padded_size(terms, Offer), _padded_size(terms, Delivery)] if terms.split is None else []
        sizes += most_part_bytes(terms) if terms.split is not None else ()
    else:
        sizes += [_padded_size(terms, kind) for kind in (Target, TargetShare, Summary)]
        sizes += [sum(most_part_bytes(terms)) * len(terms.owners)] if terms.split is not None else []
    return min(2 * max(sizes), LARGEST_LETTER)  # twice, since what is padded may take two steps


def limit_of(
    epsilon: float, delta: float, relation: Relation, *, simulated: bool, accept: tuple[str, ...] = ()
) -> Limit:
    """A limit that takes simulated charges where everything is simulated, and no other unproven part by itself."""
    return Limit(epsilon, delta, relation, accept_unproven=(*accept, "simulated") if simulated else accept)


def open_accounts(ledger: Ledger, limits: Mapping[View, Limit]) -> None:
    """Accounts that a run needs and the ledger does not have yet; those it has keep their limits."""
    known = {account.view for account in ledger.accounts()}
    ledger.set_limits({view: limit for view, limit in limits.items() if view not in known})


def owner_limits(terms: PlannedTerms, *, simulated: bool) -> dict[View, Limit]:
    """What a run may spend of the owners' budgets."""
    budget = terms.owner_budget
    unproven = ("unbounded", *(name for name, _ in terms.unproven_parts())) if terms.unproven_parts() else ()
    toward_owners = limit_of(budget.epsilon, budget.delta, terms.relation, simulated=simulated, accept=unproven)
    limits = {View.owners(owner): toward_owners for owner in terms.owners}
    return limits | {View.curator(owner): Limit.rows_only(terms.rows_per_owner) for owner in terms.owners}


def check_accounts(ledger: Ledger, planned: Iterable[PlannedView]) -> None:
    """Every account that will hear something of a run must have its relation and its unit of privacy.

    The ledger checks each charge; this checks all of them before the first one and before the terms are shown.

    Raises:
        OtherRelation: an account has another relation, or another unit (``OtherUnit``).
    """
    accounts = ledger.accounts()
    for costs in planned:
        for account in accounts:
            if account.view.hears(costs.view):
                check_account(account.view, account.limit, account.unit, costs.event)


def check_rows_left(ledger: Ledger, terms: PlannedTerms) -> None:
    """An owner who may disclose no more rows abstains; where too few others are left, nothing is begun."""
    if ledger.messages(run=terms.run):
        return  # a run that is resumed has paid
    views = {View.curator(owner) for owner in terms.owners}
    mine = [account for account in ledger.accounts() if account.view in views]
    spent = [account for account in mine if account.rows + terms.rows_per_owner > account.limit.rows]
    if len(views) - len(spent) < terms.quorum:
        raise BudgetExceeded(
            str(spent[0].view),
            spent=spent[0].rows,
            requested=terms.rows_per_owner,
            limit=spent[0].limit.rows,
            unit="rows",
        )


class _Kept(Document):
    digest: str
    terms: dict[str, Any]


def read_invitation(path: Path) -> Invitation:
    """The terms in a file that a consumer signed.

    Raises:
        BadDocument: they cannot be read, nobody signed them, or they were changed since.
    """
    data = documents.bytes_in(path, most=MOST_TERMS_BYTES)
    if not is_signed_terms(data):
        reason = (
            "holds no signed invitation, so nothing proves who asks; ask the consumer for the file RUN.invitation that "
            "`likeset run` keeps with the run"
        )
        raise BadDocument(str(path), reason)
    try:
        return Invitation.read(data)
    except BadDocument as error:
        reason = f"{error.document}: {error.reason}; ask the consumer to send the file again"
        raise BadDocument(str(path), reason, field=error.field) from error
    except LikesetError as error:
        raise BadDocument(str(path), str(error)) from error


def read_terms(path: Path) -> Terms:
    """The terms in a file, signed or not.

    Raises:
        BadDocument: they cannot be read, or are not those of the digest beside them.
    """
    if path.suffix not in (".yaml", ".yml", ".json") and is_signed_terms(
        documents.bytes_in(path, most=MOST_TERMS_BYTES)
    ):
        return read_invitation(path).terms
    if path.suffix in (".yaml", ".yml"):
        kept = documents.read(path, _Kept)
        terms = _parsed(path, json.dumps(kept.terms))
        if terms.digest != kept.digest:
            raise BadDocument(str(path), "is not the digest of these terms; ask for the file again", field="digest")
        return terms
    try:
        text = documents.bytes_in(path, most=MOST_TERMS_BYTES).decode("utf-8")
    except ValueError as error:
        raise BadDocument(str(path), "cannot be read; give the terms as JSON, or terms.yaml") from error
    return _parsed(path, text)


def _parsed(path: Path, text: str) -> Terms:
    try:
        return read_foreign(text)
    except InvalidArgument as error:
        raise BadDocument(str(path), error.reason, field=error.argument) from error
    except BadMessage as error:
        raise BadDocument(str(path), "is too long for terms") from error


Direction = Literal["from owner", "to owner"]
FROM_OWNER: Final = "from owner"
TO_OWNER: Final = "to owner"
THE_CURATOR: Final = "the curator"
Slot = tuple[str, int]
"""Way and number of a letter; in a run there is one of each."""

_NAMES = ("run", "run_id", "terms", "owner", "owner_card", "curator_card")
_FIELDS = {"way": str, "number": int, "round": int, "kind": str, "digest": str, "bytes": int, "rows": int}
_KIND, _DIGEST = re.compile(r"[a-z-]{1,40}"), re.compile(r"[0-9a-f]{64}")
_LARGEST = 1 << 53


@dataclass(frozen=True, slots=True, order=True)
class Line:
    """One letter.

    Attributes:
        round: of the run.
        way: from the owner to the curator, or to the owner.
        number: of the letter among those of its writer to its reader.
        kind: of the message in it.
        digest: of the letter, in hexadecimal digits.
        bytes: of the letter.
        rows: how many rows of the owner are in it.
    """

    round: int
    way: Direction
    number: int
    kind: str
    digest: str
    bytes: int
    rows: int

    @property
    def slot(self) -> Slot:
        return self.way, self.number

    def __str__(self) -> str:
        return f"letter {self.number} {self.way} ({self.kind}, round {self.round})"


@dataclass(frozen=True, slots=True)
class Transcript:
    """All letters between the curator and one owner in one run, as one side kept them; but for receipts.

    Attributes:
        run: its name.
        run_id: its id, in hexadecimal digits.
        terms: digest of its terms.
        owner: whose letters.
        owner_card: fingerprint of its card.
        curator_card: that of whoever acknowledges: the curator's, or in a split run the consumer's.
        lines: in the order of rounds.
    """

    run: str
    run_id: str
    terms: str
    owner: str
    owner_card: str
    curator_card: str
    lines: tuple[Line, ...]

    @property
    def rows(self) -> int:
        return sum(line.rows for line in self.lines)

    def document(self) -> dict[str, Any]:
        lines = [asdict(line) for line in self.lines]
        return {**{name: getattr(self, name) for name in _NAMES}, "lines": lines}


def acknowledging_party(terms: Terms) -> str:
    """Who signs receipts: the curator, who reads what owners send, or in a split run the consumer, who alone may."""
    return CURATOR if terms.split is None else terms.consumer


def signer_in_words(terms: Terms) -> str:
    return THE_CURATOR if terms.split is None else "the consumer"


def transcript_of(
    book: LetterBook | None, terms: Terms, *, owner: str, kept_by: Literal["owner", "curator", "consumer"]
) -> Transcript:
    """The copy of a run's transcript that is in a letter book.

    Args:
        book: of the owner, or of whoever acknowledges; None where nobody has written a letter yet.
        terms: of the run.
        owner: the owner's name.
        kept_by: whose book it is.
    """
    reader = acknowledging_party(terms)
    peer, from_owner = (reader, OUT) if kept_by == "owner" else (owner, IN)
    letters = [] if book is None else book.letters(bytes.fromhex(terms.digest), peer)
    lines = (_line(letter, FROM_OWNER if letter.way == from_owner else TO_OWNER) for letter in letters)
    ordered = sorted(line for line in lines if line.kind != RECEIPT)  # what acknowledges is not acknowledged
    cards = (terms.cards.get(owner, ""), terms.cards.get(reader, ""))
    return Transcript(terms.run, terms.run_id, terms.digest, owner, *cards, tuple(ordered))


def _line(letter: KeptLetter, way: Direction) -> Line:
    round_ = letter.signed_header.header.round
    return Line(round_, way, letter.number, letter.kind, letter.digest.hex(), letter.size, letter.rows)


# Where two copies differ.

_IN_WORDS = {
    "another letter": "the two copies do not say the same of it",
    "never said": "the owner received it; {signer} did not write it",
    "never sent": "{signer} acknowledges it ({rows} rows); the owner did not write it",
    "not acknowledged": "left the owner ({rows} rows); {signer} did not acknowledge it",
    "not received": "{signer} wrote it; it did not come to the owner",
}


@dataclass(frozen=True, slots=True)
class Difference:
    """One letter that is not the same in both copies.

    Attributes:
        line: of the letter; the owner's where both have one.
        kind: what differs.
        signer: who acknowledges letters, in words.
    """

    line: Line
    kind: Literal["another letter", "never said", "never sent", "not acknowledged", "not received"]
    signer: str = THE_CURATOR

    @property
    def contradicts(self) -> bool:
        """Whether one of the copies must be wrong; else a letter that was lost explains it."""
        return self.kind in ("another letter", "never said", "never sent")

    def __str__(self) -> str:
        return f"{self.line}: {_IN_WORDS[self.kind].format(rows=self.line.rows, signer=self.signer)}"


def other_names(owner: Transcript, curator: Transcript, signer: str = THE_CURATOR) -> list[str]:
    """Where the two copies are not of the same run, terms, owner or cards; then their lines cannot be compared."""
    pairs = ((name, getattr(owner, name), getattr(curator, name)) for name in _NAMES)
    return [
        f"{name}: the owner's copy says {mine}, {signer}'s {theirs}" for name, mine, theirs in pairs if mine != theirs
    ]


def differences(owner: Transcript, curator: Transcript, signer: str = THE_CURATOR) -> Iterator[Difference]:
    """The letters that are not the same in both copies.

    A letter that was lost on its way is in its writer's copy alone: that is worth knowing, and no contradiction. One
    that was received and never written is.
    """
    mine, theirs = ({line.slot: line for line in copy.lines} for copy in (owner, curator))
    lines = (mine.get(slot) or theirs[slot] for slot in mine.keys() | theirs.keys())
    for line in sorted(lines):
        own, other = mine.get(line.slot), theirs.get(line.slot)
        if other is None:
            yield Difference(line, "not acknowledged" if line.way == FROM_OWNER else "never said", signer)
        elif own is None:
            yield Difference(line, "never sent" if line.way == FROM_OWNER else "not received", signer)
        elif own != other:
            yield Difference(line, "another letter", signer)


def compare(owner: Transcript, curator: Transcript, signer: str = THE_CURATOR) -> tuple[list[str], list[str]]:
    """Where two copies contradict each other, and what only one of them knows, in words.

    Args:
        owner: the owner's copy.
        curator: that of who acknowledges.
        signer: what that one is called.
    """
    if problems := other_names(owner, curator, signer):
        return problems, []
    notes: list[str] = []
    for difference in differences(owner, curator, signer):
        (problems if difference.contradicts else notes).append(str(difference))
    return problems, notes


# In receipts.


def transcript_in(name: str, document: Any) -> Transcript:
    """The transcript in a document; ``name`` stands for it in errors.

    Raises:
        BadDocument: there is none.
    """
    if not isinstance(document, dict) or not all(isinstance(document.get(key), str) for key in _NAMES):
        raise BadDocument(name, f"is no transcript: it must name {', '.join(_NAMES[:-1])} and {_NAMES[-1]}")
    lines = _lines(name, document.get("lines"))
    return Transcript(**{key: document[key] for key in _NAMES}, lines=lines)


def _lines(name: str, entries: Any) -> tuple[Line, ...]:
    if not isinstance(entries, list):
        raise BadDocument(name, "must be a list", field="lines")
    lines = []
    for position, entry in enumerate(entries):
        if not isinstance(entry, dict) or {key: type(value) for key, value in entry.items()} != _FIELDS:
            raise BadDocument(name, f"entry {position} is no line of a transcript", field="lines")
        if entry["way"] not in (FROM_OWNER, TO_OWNER):
            raise BadDocument(name, f"entry {position} goes neither to the owner nor from it", field="lines")
        numbers = [entry[key] for key in ("number", "round", "bytes", "rows")]
        if min(numbers) < 0 or max(numbers) > _LARGEST or (entry["way"] == TO_OWNER and entry["rows"]):
            raise BadDocument(name, f"entry {position} has numbers that no letter has", field="lines")
        if _KIND.fullmatch(entry["kind"]) is None or _DIGEST.fullmatch(entry["digest"]) is None:
            raise BadDocument(name, f"entry {position} names no kind of message, or no digest", field="lines")
        lines.append(Line(**entry))
    if len({line.slot for line in lines}) < len(lines):
        raise BadDocument(name, "two letters have one number", field="lines")
    if lines != sorted(lines):
        raise BadDocument(name, "are not in their order", field="lines")
    return tuple(lines)


MOST_RECEIPT_BYTES = 1 << 24
"""No receipt is longer: an interactive run of ten thousand rounds has forty thousand letters with an owner."""

_RECEIPT_KIND, _VERSION = "receipt", 2  # version 1 was signed with a key of the curator's that was no card
_LONGEST_NAME = 150


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a curator acknowledges.

    Attributes:
        transcript: the letters that it received and wrote.
        at: when it signed (UTC).
        card: its card.
        signature: over the others, by the card.
    """

    transcript: Transcript
    at: str
    card: Card
    signature: bytes = field(repr=False)

    def document(self) -> dict[str, Any]:
        card = base64.b64encode(self.card.to_bytes()).decode("ascii")
        return {**_content(self.transcript, self.at), "card": card, "signature": self.signature.hex()}

    def to_bytes(self) -> bytes:
        return (json.dumps(self.document(), indent=1, sort_keys=True) + "\n").encode("ascii")

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def fault(self, card: Card | None = None) -> str | None:
        """What is wrong with the signature; None if nothing is.

        Args:
            card: that the curator is known to have; the one in the receipt if not given, and then anybody could have
                signed.
        """
        signer = self.card.fingerprint
        if card is not None and card.fingerprint != signer:
            return f"it is signed by the card {signer}, and the curator's is {card.fingerprint}"
        if self.transcript.curator_card != signer:
            return f"it is signed by the card {signer}, and names {self.transcript.curator_card} as the curator's"
        if not self.card.verify(RECEIPT_CONTEXT, (_signed(self.transcript, self.at),), self.signature):
            return "its signature does not hold: it was changed after it was signed"
        return None


def sign(transcript: Transcript, secret: CardSecret, *, now: datetime | None = None) -> Receipt:
    """The receipt for an owner.

    Args:
        transcript: the curator's copy.
        secret: the curator's card.
        now: when; now if not given.

    Raises:
        InvalidArgument: the terms name another card as the curator's.
    """
    if transcript.curator_card != secret.card.fingerprint:
        raise InvalidArgument(
            "card", secret.card.fingerprint, "is not the card that signs receipts in this run; it signs nothing"
        )
    at = (now or datetime.now(UTC)).isoformat(timespec="seconds")
    return Receipt(transcript, at, secret.card, secret.sign(RECEIPT_CONTEXT, _signed(transcript, at)))


def signed_once(path: Path, transcript: Transcript, secret: CardSecret) -> Receipt:
    """The receipt in a file, if it says the same; else it is signed and written there.

    So that what is sent again is what was sent, and the first time stands in it.

    Raises:
        InvalidArgument: the terms name another card as the curator's.
        BadDocument: it cannot be written.
    """
    try:
        kept = read_receipt(path)
    except BadDocument:
        kept = None
    if kept is not None and kept.transcript == transcript and kept.fault(secret.card) is None:
        return kept
    receipt = sign(transcript, secret)
    write_receipt(path, receipt)
    return receipt


def write_receipt(path: Path, receipt: Receipt) -> None:
    """Into a file, whole or not at all, for nobody else to read."""
    documents.write_text(path, receipt.to_bytes().decode("ascii"))


def file_name(name: str) -> str:
    """A run's or an owner's name as it may stand in the name of a file: those may have slashes in them."""
    plain = quote(name, safe="@")
    return plain if len(plain) <= _LONGEST_NAME else hashlib.sha256(name.encode()).hexdigest()


def read_receipt(path: Path) -> Receipt:
    """The receipt in a file; whether its signature holds is asked of it.

    Raises:
        BadDocument: it is none.
    """
    return receipt_in(str(path), documents.bytes_in(path, most=MOST_RECEIPT_BYTES))


def receipt_in(name: str, data: bytes) -> Receipt:
    """The receipt in some bytes; ``name`` stands for them in errors.

    Raises:
        BadDocument: it is none.
    """
    if len(data) > MOST_RECEIPT_BYTES:
        raise BadDocument(name, "is larger than a receipt can be")
    try:
        document = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise BadDocument(name, "cannot be read as a receipt") from error
    if not isinstance(document, dict) or (document.get("likeset"), document.get("version")) != (
        _RECEIPT_KIND,
        _VERSION,
    ):
        raise BadDocument(name, "is no receipt of this version")
    transcript = transcript_in(name, document)
    if not _is_time(document.get("at")):
        raise BadDocument(name, "must be a time with its zone", field="at")
    receipt = Receipt(transcript, document["at"], _card_in(name, document.get("card")), _signature_in(name, document))
    if document != receipt.document():
        raise BadDocument(name, "its parts do not fit together")
    return receipt


def _content(transcript: Transcript, at: str) -> dict[str, Any]:
    return {"likeset": _RECEIPT_KIND, "version": _VERSION, **transcript.document(), "rows": transcript.rows, "at": at}


def _signed(transcript: Transcript, at: str) -> bytes:
    return json.dumps(_content(transcript, at), sort_keys=True, separators=(",", ":")).encode("ascii")


def _card_in(name: str, value: object) -> Card:
    try:
        return Card.from_bytes(base64.b64decode(value, validate=True) if isinstance(value, str) else b"")
    except (BadDocument, binascii.Error, ValueError):
        raise BadDocument(name, "must be the curator's card", field="card") from None


def _signature_in(name: str, document: dict[str, Any]) -> bytes:
    value = document.get("signature")
    digits = 2 * SIGNATURE_BYTES
    if not isinstance(value, str) or len(value) != digits or not set(value) <= set("0123456789abcdef"):
        raise BadDocument(name, f"must be {digits} hexadecimal digits", field="signature")
    return bytes.fromhex(value)


def _is_time(value: object) -> bool:
    try:
        return isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


@dataclass(frozen=True, eq=False)
class HeardLetter:
    """A letter that was opened.

    Attributes:
        arrival: what is written down of it.
        message: what it says; None where it only has enclosures.
        enclosures: documents in it.
    """

    arrival: Arrival
    message: Message | None
    enclosures: tuple[bytes, ...] = field(repr=False)


@dataclass(eq=False)
class Correspondence:
    """The letters of one run at one home.

    Args:
        identity: the home's.
        invitation: the signed terms.
        party: the home's name in them.
    """

    identity: Identity
    invitation: Invitation
    party: str
    _newcomers: dict[str, Peer] = field(default_factory=dict, init=False)  # written down with the next letter

    def __post_init__(self) -> None:
        if self.party not in self.terms.cards:
            raise IllegalMessage(f"{self.party} is no party of run {self.terms.run}")
        if self.terms.cards[self.party] != self.identity.fingerprint:
            raise IllegalMessage(f"run {self.terms.run}: the terms name another card than this home's")

    @property
    def terms(self) -> Terms:
        return self.invitation.terms

    @cached_property
    def run_id(self) -> bytes:
        return bytes.fromhex(self.terms.run_id)

    @cached_property
    def _digest(self) -> bytes:
        return bytes.fromhex(self.terms.digest)

    @cached_property
    def own(self) -> OwnPapers:
        return OwnPapers(self.identity, self.terms)

    @property
    def _book(self) -> LetterBook:
        return self.identity.book

    # Who takes part.

    def acceptance(self) -> bytes:
        """What this home signs to take part: made once, with a key for the run.

        Also when the run is settled: others may have lost something and hold it again, with what was answered before.

        Raises:
            LikesetError: a card is not pinned, or this home is an old copy.
        """
        self._check_pins()
        role = role_in(self.terms, self.party)
        if role == "consumer":
            raise IllegalMessage(f"run {self.terms.run}: who signed the terms accepts nothing")
        kept = self._book.run_keys(self._digest)
        if kept is None:
            secret = SealingSecret.generate()
            accepted = accept(
                self.identity.secret,
                run_id=self.run_id,
                terms=self._digest,
                role=role,
                party=self.party,
                run_key=secret.public,
            )
            kept = self._book.open_run(
                self._digest,
                secret,
                invitation=self.invitation.to_bytes(),
                ends=end_of(self.terms),
                acceptance=accepted.to_bytes(),
            )
        return kept.acceptance

    def begin(self, acceptances: Iterable[bytes], start: Callable[[], tuple[Message, ...]]) -> tuple[bytes, ...]:
        """The consumer's first letters, once who computes and enough owners take part; asked again, the same ones.

        Owners hear who computes; those who compute hear of each other and of all owners.

        Args:
            acceptances: what others signed, as it came; what does not hold is as if it had not come.
            start: draws and charges what the consumer says first.

        Raises:
            QuorumMissed: too few take part; nothing was drawn.
        """
        self._open_keys()
        admitted = [peer for data in acceptances if (peer := self._admitted(data)) is not None]
        sent = self._book.sent(self._digest)
        if sent:
            # Whoever signed anew does not remember what it signed before, and is shown it.
            known = (self._book.peer(self._digest, peer.party) for peer in admitted)
            signed = {peer.party: peer.acceptance for peer in known if peer is not None}
            echoes = [
                signed[peer.party] for peer in admitted if signed.get(peer.party, peer.acceptance) != peer.acceptance
            ]
            return (*echoes, *sent)
        peers = {peer.party: peer for peer in admitted}
        owners = [name for name in self.terms.owners if name in peers]
        computing = [name for name in (CURATOR, WITNESS) if name in self.terms.cards]
        if not peers.keys() >= set(computing) or len(owners) < self.terms.quorum:
            needed = " and ".join(f"the {name}" for name in computing)
            raise QuorumMissed(f"{len(owners)} owners take part; the terms ask for {self.terms.quorum} and {needed}")
        self._book.introduce(self._digest, peers.values())
        # Where a crash came first, others may be in the book: of them the curator would not hear.
        peers = {name: self._book.peer(self._digest, name) or peer for name, peer in peers.items()}
        enclosed = {
            name: tuple(peers[other].acceptance for other in (*computing, *owners) if other != name)
            for name in computing
        }
        enclosed |= dict.fromkeys(owners, tuple(peers[name].acceptance for name in computing))
        return self.write((message for message in start() if message.receiver in peers), enclosures=enclosed)

    def introduce(self, enclosures: Iterable[bytes]) -> frozenset[str]:
        """Take in who takes part, from what the consumer encloses; returns the names of all who do.

        They are written down with the letter that introduces them, when that is.

        Raises:
            IllegalMessage: something enclosed does not hold.
        """
        peers = []
        for data in enclosures:
            peer = self._admitted(data)
            if peer is None:
                raise IllegalMessage(f"run {self.terms.run}: an acceptance that is enclosed does not hold")
            peers.append(peer)
        known = self._book.introduced(self._digest)
        self._newcomers = {peer.party: peer for peer in peers if peer.party not in known}
        return known | self._newcomers.keys()

    @property
    def is_begun(self) -> bool:
        """Whether it is written down who takes part, and the key that opens their letters is there."""
        keys = self._book.run_keys(self._digest)
        return keys is not None and keys.secret is not None and bool(self._book.introduced(self._digest))

    @property
    def cards(self) -> dict[str, Card]:
        """Of all who take part besides this home, by their names in the terms."""
        names = {self.terms.consumer, *self._book.introduced(self._digest), *self._newcomers} - {self.party}
        peers = (self._peer(name) for name in sorted(names))
        return {peer.party: _card(peer.card) for peer in peers if peer is not None}

    @property
    def kept(self) -> list[KeptLetter]:
        return self._book.letters(self._digest)

    def data_of(self, letter: KeptLetter) -> bytes | None:
        return self._book.letter_data(self._digest, letter.peer, letter.way, letter.number)

    def _admitted(self, data: bytes) -> Peer | None:
        """Somebody who accepted these terms; None if the acceptance does not hold."""
        return peer_in(data, self.terms, self.identity.pins)

    # Letters.

    def read(self, data: bytes, *, most_bytes: int) -> HeardLetter:
        """Open a letter; nothing is written down but what contradicts.

        Raises:
            LetterContradicts: another one came under its number; that one is in the error.
            HomeRestored: it is this home's own, and not remembered.
            LikesetError: it is refused.
        """
        letter = letter_in(data, most_bytes=most_bytes)
        header = letter.header
        if (header.run_id, header.terms) != (self.run_id, self._digest):
            raise IllegalMessage(f"run {self.terms.run}: a letter of another run, or under other terms")
        if header.sender == self.identity.fingerprint:
            self.own.meet(letter.stub)
        secret = self._open_keys()
        peer = self._writer(header.sender)
        card = _card(peer.card)
        check_signature(letter.stub, card)
        self._check_number(peer, letter)
        opened = open_letter(letter, writer=card, reader=self.identity.secret.card, key=secret)
        message = self._message_in(opened.message, peer, letter, most_bytes)
        contents = contents_of(message, opened.message, opened.enclosures)
        if self._book.is_said_again(self._digest, peer.party, contents, number=header.number):
            raise IllegalMessage(f"run {self.terms.run}: {peer.party} says again, in a new letter, what it said before")
        # A trusted curator would have all offered rows beside the key that opens them, until the terms end.
        kept_whole = self.party != CURATOR or self.terms.split is not None
        arrival = Arrival(peer.party, letter, contents, kept_whole=kept_whole)
        return HeardLetter(arrival, message, opened.enclosures)

    def write(
        self,
        messages: Iterable[Message],
        *,
        came: HeardLetter | None = None,
        enclosures: dict[str, tuple[bytes, ...]] | None = None,
    ) -> tuple[bytes, ...]:
        """Seal messages to those of their receivers who take part, and write down what they answer, in one write.

        Args:
            messages: what is said.
            came: the letter that they answer.
            enclosures: documents to go with them, by receiver.

        Raises:
            HomeRestored: this home is an old copy.
        """
        self._book.check_running()
        enclosed = enclosures or {}
        replies = [
            self._outgoing(peer, message, enclosed.get(peer.party, ()))
            for message in messages
            if (peer := self._peer(message.receiver)) is not None
        ]
        newcomers, self._newcomers = self._newcomers, {}
        return self._book.exchange(
            self._digest,
            came=None if came is None else came.arrival,
            replies=replies,
            newcomers=newcomers.values(),
        )

    def write_receipts(self, receipts: dict[str, bytes]) -> tuple[bytes, ...]:
        """Letters that hold nothing but a receipt, each for its owner.

        Raises:
            HomeRestored: this home is an old copy.
        """
        self._book.check_running()
        replies = [
            self._outgoing(peer, None, (receipt,))
            for name, receipt in receipts.items()
            if (peer := self._peer(name)) is not None
        ]
        return self._book.exchange(self._digest, replies=replies) if replies else ()

    def settle(self, *, resend: bool = False) -> None:
        """Forget the key of the run: from now on nobody can open its letters here.

        Args:
            resend: whether letters that were sealed here stay until the terms end, for readers who lost them.
        """
        self._book.settle(self._digest, resend=resend)

    def answered_before(self, data: bytes, *, most_bytes: int) -> tuple[str, tuple[bytes, ...]] | None:
        """In a run that is settled, what kind of message this very letter held, and the letters that answered it.

        None if the run is not settled, or the letter never came.
        """
        if not self._book.is_settled(self._digest):
            return None
        letter = letter_in(data, most_bytes=most_bytes)
        writer = self._names.get(letter.header.sender)
        if writer is None:
            return None
        for kept in self._book.letters(self._digest, writer):
            if (kept.way, kept.digest) == (IN, letter.digest):
                return kept.kind, self._book.sent_in_answer(self._digest, letter.digest)
        return None

    def _outgoing(self, peer: Peer, message: Message | None, enclosures: tuple[bytes, ...]) -> Outgoing:
        data = b"" if message is None else message.data
        size = padded_size(self.terms, message)

        def seal(number: int, last_received: bytes) -> Letter:
            return write_letter(
                self.identity.secret,
                recipient=_card(peer.card),
                recipient_key=peer.run_key,
                run_id=self.run_id,
                terms=self._digest,
                round=0 if message is None else message.round,
                number=number,
                last_received=last_received,
                message=data,
                enclosures=enclosures,
                padding_step=size,
            )

        return Outgoing(peer.party, contents_of(message, data, enclosures), seal)

    # What is asked of a letter.

    def _peer(self, party: str) -> Peer | None:
        """Somebody whom this home may write to in the run; None who was not introduced."""
        if party == self.terms.consumer:
            signed = self.invitation.signed
            return Peer(party, signed.card.to_bytes(), signed.run_key)
        return self._newcomers.get(party) or self._book.peer(self._digest, party)

    @cached_property
    def _names(self) -> dict[str, str]:
        return {fingerprint: name for name, fingerprint in self.terms.cards.items()}

    def _writer(self, fingerprint: str) -> Peer:
        name = self._names.get(fingerprint)
        if name is None:
            raise IllegalMessage(f"run {self.terms.run}: a letter of somebody whom the terms do not name")
        if is_given_up(fingerprint, self.identity.pins):
            raise IllegalMessage(f"run {self.terms.run}: a letter of {name}, whose card was replaced or revoked here")
        peer = self._peer(name)
        if peer is None:
            raise IllegalMessage(f"run {self.terms.run}: a letter of {name}, who was not introduced")
        return peer

    def _check_number(self, peer: Peer, letter: Letter) -> None:
        known = self._book.came(self._digest, peer.party, letter.header.number)
        if known is not None and known != letter.digest:
            earlier = self._book.stub_that_came(self._digest, peer.party, letter.header.number)
            raise LetterContradicts(self.terms.run, peer.party, letter.header.number, earlier)

    def _message_in(self, data: bytes, peer: Peer, letter: Letter, most_bytes: int) -> Message | None:
        if not data:
            return None
        message = decode(data, most_bytes=most_bytes)
        said = (message.run, message.terms, message.sender, message.receiver, message.round)
        if said != (self.terms.run, self.terms.digest, peer.party, self.party, letter.header.round):
            raise IllegalMessage(f"run {self.terms.run}: a message of {peer.party} is not what its letter says")
        return message

    def _open_keys(self) -> SealingSecret:
        self._check_pins()
        keys = self._book.run_keys(self._digest)
        if keys is None:
            raise IllegalMessage(f"run {self.terms.run}: this home has not accepted these terms")
        if keys.secret is None:
            raise IllegalMessage(f"run {self.terms.run}: is settled, and its key is gone")
        return keys.secret

    def _check_pins(self) -> None:
        self._book.check_running()
        reasons = unpinned(self.terms, self.party, self.identity.pins)
        if reasons:
            raise IllegalMessage(f"run {self.terms.run}: {'; '.join(reasons)}")


@lru_cache(maxsize=4096)
def _card(data: bytes) -> Card:
    return Card.from_bytes(data)


class Charges(Protocol):
    """All that a shell asks of a ledger: charge for a draw, and keep it so that it is never made twice."""

    def answer(
        self,
        charge: Charge,
        run: Callable[[], tuple[bytes, Release[Any] | None]],
        *,
        request: Request,
        unfinished: Unfinished = "refuse",
    ) -> bytes:
        """The bytes to use; ``run`` is not called for a request answered before."""


class Resident(Protocol):
    """Whoever answers in a party's name: what transports talk to."""

    @property
    def name(self) -> str: ...

    @property
    def failed(self) -> bool: ...

    def take(self, message: Message) -> tuple[Message, ...]:
        """The replies to a message; all that they cost is charged.

        Raises:
            LikesetError: there are none.
        """


_Party = TypeVar("_Party", bound=Party)


def carry(step: Step, commit: Callable[[ChargeWanted], bytes]) -> tuple[Message, ...]:
    """Carry a step to its end; returns the replies. Where a charge is refused, or its draw fails, its party has failed.

    Args:
        step: as a party returned it.
        commit: charges for a draw, and returns the bytes that are kept for it, drawn now or before.
    """
    while step.charge is not None:
        try:
            kept = commit(step.charge)
        except BaseException:
            step.abandon()
            raise
        step = step.go_on(kept)
    return step.replies


def request_of(wanted: ChargeWanted) -> Request:
    return Request(wanted.run, wanted.round, wanted.kind, content=wanted.content)


def charge_of(wanted: ChargeWanted) -> Charge:
    return Charge(wanted.costs, wanted.rows, wanted.readable)


@dataclass(eq=False)
class Shell(Generic[_Party]):
    """A party and the ledger that answers for it.

    Args:
        party: pure; nobody else may drive it.
        charges: where everything that it wants charged is charged and kept.
    """

    party: _Party
    charges: Charges

    @property
    def name(self) -> str:
        return self.party.name

    @property
    def terms(self) -> Terms:
        return self.party.terms

    @property
    def failed(self) -> bool:
        """Whether a step was not carried to its end: the party must be made anew."""
        return self.party.failed

    def take(self, message: Message) -> tuple[Message, ...]:
        """The replies to a message; all that they cost is charged.

        Raises:
            LikesetError: it may not come, or cannot be answered.
        """
        return carry(self.party.receive(message), self.committed)

    def committed(self, wanted: ChargeWanted) -> bytes:
        unfinished: Unfinished = "resume" if wanted.repeatable else "refuse"
        return self.charges.answer(charge_of(wanted), wanted.draw, request=request_of(wanted), unfinished=unfinished)


class ConsumerShell(Shell[Consumer]):
    def start(self) -> tuple[Message, ...]:
        """The target and its release; asked again, the same bytes."""
        return carry(self.party.start(), self.committed)


class CuratorShell(Shell[Curator]):
    """The curator, who waits for others, and not for ever."""

    @property
    def waiting_for(self) -> frozenset[str]:
        return self.party.waiting_for

    def give_up(self, owner: str) -> tuple[Message, ...]:
        return carry(self.party.give_up(owner), self.committed)


_Computing = TypeVar("_Computing", bound=ComputeParty)


class ComputeShell(Shell[_Computing]):
    """A compute party of a split run, who waits for owners' parts, and not for ever."""

    @property
    def waiting_for(self) -> frozenset[str]:
        return self.party.waiting_for

    def give_up(self, owner: str) -> tuple[Message, ...]:
        return carry(self.party.give_up(owner), self.committed)


class SplitConsumerShell(ComputeShell[SplitConsumer]):
    """The consumer of a split run, who speaks first and last."""

    def start(self) -> tuple[Message, ...]:
        """The target's shares and its release; asked again, the same bytes."""
        return carry(self.party.start(), self.committed)

    def opened(self, picks: OpenedSlots) -> tuple[Message, ...]:
        """What it says once it has what the computation opened; its summary is made then."""
        return carry(self.party.opened(picks), self.committed)


Answers = tuple[Message, ...] | LikesetError
"""A party's replies, or why there are none."""

AtOnce = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""Calls a function with each of several things, perhaps side by side: ``map``, or that of a pool of threads."""


def take_together(asked: Sequence[tuple[Resident, Message]], *, at_once: AtOnce = map) -> list[Answers]:
    """The replies of different parties to a message each, in their order; all that they cost is charged."""
    begun = list(at_once(_begun, asked))
    houses: dict[int, list[_Waiting]] = defaultdict(list)
    for one in begun:
        if isinstance(one, _Waiting) and one.ledger is not None:
            houses[id(one.ledger)].append(one)
    for neighbours in houses.values():
        if len(neighbours) > 1 and neighbours[0].ledger is not None:
            _charge_together(neighbours[0].ledger, neighbours, at_once)
    return list(at_once(_ended, begun))


@dataclass(eq=False)
class _Waiting:
    """A party that wants something charged before it goes on.

    Attributes:
        shell: with the party.
        step: as far as it came.
        wanted: what it waits for.
        ledger: of the house, if that may be charged there together with what others want: free, new and repeatable.
        kept: what is kept for that.
    """

    shell: Shell[Any]
    step: Step
    wanted: ChargeWanted
    ledger: Ledger | None = None
    kept: bytes | None = None


def _begun(asked: tuple[Resident, Message]) -> _Waiting | Answers:
    """A party's first step; all that it says, if it is in no shell or wants nothing charged."""
    resident, message = asked
    try:
        if not isinstance(resident, Shell) or type(resident).take is not Shell.take:
            return resident.take(message)  # it has a way of its own
        step = resident.party.receive(message)
        wanted, ledger = step.charge, resident.charges
        if wanted is None:
            return tuple(step.replies)
        charge = charge_of(wanted)
        if not wanted.repeatable or not charge.free or not isinstance(ledger, Ledger):
            return _Waiting(resident, step, wanted)
        return _Waiting(resident, step, wanted, ledger if ledger.is_new(request_of(wanted), charge) else None)
    except LikesetError as error:
        return error


def _charge_together(ledger: Ledger, waiting: Sequence[_Waiting], at_once: AtOnce) -> None:
    """Draw what costs nothing, and is the same whenever it is drawn, then reserve and commit all in one write."""
    try:
        drawn = list(at_once(lambda one: one.wanted.draw(), waiting))
        with ledger.deciding() as transaction:
            kept = [
                transaction.answer(charge_of(one.wanted), *answer, request=request_of(one.wanted))
                for one, answer in zip(waiting, drawn, strict=True)
            ]
        for one, answer in zip(waiting, kept, strict=True):
            one.kept = answer
    except LikesetError:
        return  # alone, each of them hears what is its own
    except BaseException:
        for one in waiting:
            one.step.abandon()
        raise


def _ended(one: _Waiting | Answers) -> Answers:
    if not isinstance(one, _Waiting):
        return one
    try:
        return carry(one.step if one.kept is None else one.step.go_on(one.kept), one.shell.committed)
    except LikesetError as error:
        return error


@dataclass(eq=False)
class SiteRun:
    """A run at one home.

    Args:
        letters: of the run.
        resident: who answers.
        most_bytes: no letter may be larger.
        refused: told why a letter is refused before the resident has heard of it; what the resident refuses, it writes
            down itself.
    """

    letters: Correspondence
    resident: Resident
    most_bytes: int
    refused: Callable[[str], None] = field(default=lambda _reason: None, kw_only=True)

    @property
    def terms(self) -> Terms:
        return self.letters.terms

    @property
    def failed(self) -> bool:
        return self.resident.failed

    def acceptance(self) -> bytes:
        """What this home signs to take part."""
        return self.letters.acceptance()

    def hear(self, data: bytes) -> tuple[bytes, ...]:
        """The letters that answer a letter.

        Raises:
            LikesetError: it is refused.
        """
        try:
            if is_acceptance(data):
                self.letters.own.meet_acceptance(data)
            if is_stub(data):
                self.letters.own.meet_stub(data)
            heard = self.letters.read(data, most_bytes=self.most_bytes)
            self._admit(heard)
        except LetterContradicts as error:
            self.refused(str(error))
            return (error.earlier,)  # its writer sees what it wrote before, and whether it remembers
        except LikesetError as error:
            self.refused(str(error))
            raise
        replies = self._replies(heard)
        return () if replies is None else self.letters.write(replies, came=heard)

    def _admit(self, heard: HeardLetter) -> None:
        """Look at a letter that was opened, before the resident hears what it says.

        Raises:
            IllegalMessage: it may not come here.
        """
        _message_in(heard)

    def _is_of_consumer(self, heard: HeardLetter) -> bool:
        """Nobody else says who takes part."""
        return heard.arrival.peer == self.terms.consumer

    def _replies(self, heard: HeardLetter) -> tuple[Message, ...] | None:
        """What is answered; None if the letter says nothing that is worth keeping."""
        return self.resident.take(_message_in(heard))


@dataclass(eq=False)
class OwnerRun(SiteRun):
    """At an owner.

    Args:
        keep_receipt: takes a receipt for what left; looks at it, and returns whether it keeps it.
        absent: the owner does not take part (any more). It hears receipts, which are about what left before, and
            nothing else.
    """

    keep_receipt: Callable[[bytes], bool] = field(kw_only=True)
    absent: bool = field(default=False, kw_only=True)

    def acceptance(self) -> bytes:
        """What this home signs to take part.

        Raises:
            IllegalMessage: it does not.
        """
        self._check_present()
        return super().acceptance()

    def _admit(self, heard: HeardLetter) -> None:
        if heard.message is not None:
            self._check_present()
            if self._is_of_consumer(heard):
                self._meet_computing(heard.enclosures)
        elif heard.arrival.peer != acknowledging_party(self.terms) or len(heard.enclosures) != 1:
            raise IllegalMessage(f"run {self.terms.run}: a letter that says nothing, and brings no receipt")

    def _meet_computing(self, enclosures: Iterable[bytes]) -> None:
        present = self.letters.introduce(enclosures)
        for name in (CURATOR, WITNESS):
            if name in self.terms.cards and name not in present:
                raise IllegalMessage(f"run {self.terms.run}: nobody says where to write to the {name}")

    def _check_present(self) -> None:
        if self.absent:
            raise IllegalMessage(f"run {self.terms.run}: this owner does not take part; its own records say why")

    def _replies(self, heard: HeardLetter) -> tuple[Message, ...] | None:
        if heard.message is not None:
            return super()._replies(heard)
        # A curator can sign any number of receipts: a letter is kept with the receipt that it brought, or not at all.
        return () if self.keep_receipt(heard.enclosures[0]) else None


@dataclass(eq=False)
class ConsumerRun(SiteRun):
    """At the consumer.

    Args:
        keep: takes the bytes of the message that holds the summary before anything is answered.
    """

    resident: ConsumerShell
    keep: Callable[[bytes], None] = field(kw_only=True)

    def begin(self, acceptances: Iterable[bytes]) -> tuple[bytes, ...]:
        return self.letters.begin(acceptances, self.resident.start)

    def _replies(self, heard: HeardLetter) -> tuple[Message, ...] | None:
        replies = super()._replies(heard)
        if heard.message is not None and isinstance(heard.message.body, Summary):
            self.keep(heard.message.data)
        return replies


@dataclass(eq=False)
class CuratorRun(SiteRun):
    """At the curator.

    Args:
        receipts: when the run has ended, however: a signed receipt for each owner who took part.
    """

    resident: CuratorShell
    receipts: Callable[[], Mapping[str, bytes]] = field(kw_only=True)

    @property
    def waiting_for(self) -> frozenset[str]:
        return self.resident.waiting_for

    def give_up(self, owner: str) -> tuple[bytes, ...]:
        return self.letters.write(self.resident.give_up(owner))

    def end(self) -> tuple[bytes, ...]:
        return self.letters.write_receipts(dict(self.receipts()))

    def _replies(self, heard: HeardLetter) -> tuple[Message, ...] | None:
        try:
            return self._answers(heard)
        except Exception:
            if not self._is_of_consumer(heard):
                self.letters.write((), came=heard)  # rows came in all the same, and are acknowledged
            raise

    def _answers(self, heard: HeardLetter) -> tuple[Message, ...]:
        if not isinstance(_message_in(heard).body, Target) or not self._is_of_consumer(heard):
            return self.resident.take(_message_in(heard))
        present = self.letters.introduce(heard.enclosures)
        replies = list(self.resident.take(_message_in(heard)))
        for owner in self.terms.owners:
            if owner not in present and owner in self.waiting_for:
                replies += self.resident.give_up(owner)  # it did not accept, and will never answer
        return tuple(replies)


Factory = Callable[[Invitation, str, Path], SiteRun | None]
"""Makes a site's side of a run from the signed terms, the party's name in them, and the site's own folder. None while
somebody at the site has still to decide; an error of likeset where the site does not take part. An owner's must know,
also after a restart, what it answered, and refuse another message in its place, as an owner's home does by its ledger.
"""


def _message_in(heard: HeardLetter) -> Message:
    if heard.message is None:
        raise IllegalMessage("a letter that says nothing")
    return heard.message
