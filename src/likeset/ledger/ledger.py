"""The ledger: a charge is durable before noise is drawn; a reply is stored, and resent, never redrawn.

Entries form a hash chain in one SQLite file; replies are in a journal beside it.
"""

import hashlib
import hmac
import json
import marshal
import os
import re
import secrets
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from likeset.arguments import count
from likeset.errors import (
    ChargeRefused,
    DifferentRequest,
    InvalidArgument,
    LedgerTampered,
    LedgerUnavailable,
    LedgerUnreadable,
    LikesetError,
    MessagePurged,
    OtherRelation,
    UnfinishedRequest,
    UnknownEvent,
)
from likeset.ledger.budget import Account, Charge, Limit, Tally, unproven_parts
from likeset.ledger.sqlite_file import Layout, SqliteFile
from likeset.privacy.events import Release
from likeset.privacy.guarantee import View, checked_name

_DOMAIN = b"likeset ledger entry 1\n"
_HASH_BYTES = 32
_TYPES = (int, str, str, str, bytes, bytes)
_DECODER = json.JSONDecoder()


def canonical(document: Any) -> str:
    """The one way in which a document is written, so that equal documents have equal hashes."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


class Entry(NamedTuple):
    """One line of the ledger; ``hash`` covers everything else in it.

    A tuple, for a long log is read whole whenever it is opened.
    """

    number: int
    kind: str
    key: str
    body: str
    previous: bytes
    hash: bytes

    def expected_hash(self) -> bytes:
        number, kind, key, body = str(self.number).encode(), self.kind.encode(), self.key.encode(), self.body.encode()
        # Lengths keep the fields apart: moving a byte from one column to the next changes the hash.
        parts = (_DOMAIN, _size(number), number, _size(kind), kind, _size(key), key, _size(body), body, self.previous)
        return hashlib.sha256(b"".join(parts)).digest()

    def document(self) -> Any:
        """The body as plain data; raises ValueError if it is none."""
        document, end = _DECODER.raw_decode(self.body)
        if end != len(self.body):
            raise ValueError("something follows the document")
        return document


def _size(field: bytes) -> bytes:
    return len(field).to_bytes(8, "big")


@dataclass(frozen=True, slots=True)
class Head:
    """The last entry's number and hash: enough to hold the whole history before it to account."""

    number: int
    hash: bytes

    @classmethod
    def parse(cls, text: str) -> Self:
        match = re.fullmatch(r"(\d{1,15}):([0-9a-f]{64})", text.strip().lower())
        if match is None:
            reason = "must be NUMBER:HASH (64 hex digits), as `likeset ledger verify` prints it"
            raise InvalidArgument("head", repr(text[:80]), reason)
        return cls(int(match[1]), bytes.fromhex(match[2]))

    def __str__(self) -> str:
        return f"{self.number}:{self.hash.hex()}"


START = Head(0, bytes(_HASH_BYTES))
"""The head of a ledger without entries."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that does not hold: at which entry (0 for the ledger as a whole), and what."""

    number: int
    what: str

    def __str__(self) -> str:
        return f"entry {self.number}: {self.what}" if self.number else self.what


def link(head: Head, *, kind: str, key: str, body: str) -> Entry:
    entry = Entry(head.number + 1, kind, key, body, head.hash, b"")
    return Entry(entry.number, kind, key, body, head.hash, entry.expected_hash())


def check(rows: Iterable[tuple[Any, ...]], after: Head = START) -> Iterator[Entry | Problem]:
    """Each stored row (number, kind, key, body, previous, hash) as an entry, or what is wrong with it."""
    number, last = after.number, after.hash
    for row in rows:
        if tuple(map(type, row)) != _TYPES:
            yield Problem(number + 1, "a column holds the wrong type of value")
            return
        entry = Entry._make(row)
        if entry.number != number + 1:
            yield Problem(number + 1, f"is missing or out of order (entry {entry.number} comes instead)")
        elif entry.previous != last:
            yield Problem(entry.number, "does not follow the entry before it")
        elif entry.hash != entry.expected_hash():
            yield Problem(entry.number, "was altered: its content does not match its hash")
        else:
            yield entry
        number, last = entry.number, entry.hash


AUDIT = frozenset(
    (
        *("policy", "data", "invited", "reviewed", "rehearsed", "approved", "denied", "withdrawn", "began", "sent"),
        *("refused", "refused-more", "acknowledged", "card"),
        "trusted",  # of logs from before cards: a curator's key was pinned by itself
    )
)
"""What an owner was asked, decided, refused and sent; budgets do not depend on it."""


Unfinished = Literal["refuse", "charge", "resume"]
"""What to do about a request that was charged, and interrupted before its answer was stored: refuse it; charge once
more for another draw; or take the charge up again. The last is free, and sound only for an answer that follows from
the request and from what is kept (a key, pinned data), so that it is the same again: with fresh coins the draw that is
finally sent would be one that was let live."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked for. A (run, round, kind) is answered once; asked again, it gets the same bytes."""

    run: str
    round: int
    kind: str  # where one ledger serves several parties, with the name of the one who answers
    content: bytes = field(default=b"", repr=False)  # tells a repetition from another request; a keyed digest is kept

    def __post_init__(self) -> None:
        checked_name("run", self.run)
        checked_name("kind", self.kind)
        count("round", self.round, least=0)

    @property
    def key(self) -> str:
        return canonical([self.run, self.round, self.kind])

    def fingerprint(self, charge: Charge, journal: "Journal") -> str:
        """What it is recognised by when it comes again: a keyed digest of its own bytes and of what is charged."""
        return journal.fingerprint(canonical(charge.to_json()).encode() + b"\n" + self.content)

    def __str__(self) -> str:
        return f"run {self.run}, round {self.round}, {self.kind}"


@dataclass(frozen=True, slots=True)
class Reservation:
    number: int  # its entry in the ledger
    request: Request
    attempt: int  # 1, or more if earlier charges for the same request were interrupted; those stay spent
    answer: bytes | None = field(default=None, repr=False)  # of a request answered before: then nothing may be drawn
    repeatable: bool = False  # may be taken up again after a crash, for no new charge: then no noise may be drawn


def recorded_release(charge: Charge, release: Release[Any] | None) -> str | None:
    """The value that the ledger records of an answer; none if it holds rows or unproven parts."""
    if release is None:
        return None
    if release.event != charge.costs[0][1]:
        raise ChargeRefused("the release was made by another event than the one that was reserved")
    if charge.rows or any(unproven_parts(event) for _, event in charge.costs):
        return None
    try:
        return canonical(_plain(release.value))
    except (TypeError, ValueError):
        # Without the original error, which may quote the value.
        reason = "must hold finite numbers, text, lists, or arrays of them"
        raise InvalidArgument("release", type(release.value).__name__, reason) from None


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {part.name: _plain(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        return {str(name): _plain(part) for name, part in value.items()}
    return value.tolist() if hasattr(value, "tolist") else value


_SALT_BYTES = 32
_JOURNAL_LAYOUT = Layout(
    what="journal",
    application_id=0x4C_53_4A_31,  # "LSJ1"
    version=2,
    statements=(
        "CREATE TABLE about (name TEXT PRIMARY KEY, value BLOB NOT NULL)",
        """CREATE TABLE messages (
            key TEXT NOT NULL, fingerprint TEXT NOT NULL, attempt INTEGER NOT NULL, run TEXT NOT NULL,
            at TEXT NOT NULL, after TEXT NOT NULL, salt BLOB NOT NULL, message BLOB NOT NULL, release TEXT,
            UNIQUE (key, fingerprint)
        )""",
    ),
    indexes={"messages_by_run": "CREATE INDEX messages_by_run ON messages (run)"},
)


def journal_path(ledger: Path) -> Path:
    return ledger.with_name(ledger.name + ".messages")


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """One stored message, which answers the request of a key and fingerprint.

    Two requests under the same key are answered apart, and only one of them can be on record.
    """

    key: str
    fingerprint: str
    attempt: int  # under which charge for that request it was drawn, from 1
    at: str  # when it was stored (UTC)
    after: str  # the ledger's head then: a ledger without it is not the one that this belongs to
    message: bytes = field(repr=False)
    release: str | None = field(repr=False, default=None)  # what the ledger will record of it, as JSON
    salt: bytes = field(repr=False, default_factory=lambda: secrets.token_bytes(_SALT_BYTES))  # of the digest

    @property
    def run(self) -> str:
        return str(json.loads(self.key)[0])

    @property
    def kind(self) -> str:
        return str(json.loads(self.key)[2])

    @property
    def digest(self) -> str:
        return hashlib.sha256(b"likeset message 1\n" + self.salt + self.message).hexdigest()


class Journal:
    """The messages of one ledger, in a file of mode 0600.

    It holds the ledger's identity: messages of one ledger are never mistaken for another's.
    """

    def __init__(self, path: Path, *, ledger: str, read_only: bool = False, patience: float = 30.0) -> None:
        _refuse_if_others_may_read(path)

        def fill(connection: sqlite3.Connection) -> None:
            about = [("ledger", ledger.encode()), ("key", secrets.token_bytes(_SALT_BYTES))]
            connection.executemany("INSERT INTO about VALUES (?, ?)", about)

        self._store = SqliteFile(path, layout=_JOURNAL_LAYOUT, read_only=read_only, patience=patience, fill=fill)
        try:
            with self._store.reading() as connection:
                about = dict(connection.execute("SELECT name, value FROM about"))
            if about.get("ledger") != ledger.encode():
                raise LedgerUnreadable(f"journal {path}: belongs to another ledger")
            self._key = bytes(about["key"])
        except BaseException:
            self._store.close()
            raise

    def fingerprint(self, content: bytes) -> str:
        """A digest of a request, to recognise it by; it says nothing to those who do not have the journal."""
        return hmac.new(self._key, content, hashlib.sha256).hexdigest()

    def keep(self, messages: Iterable[StoredMessage]) -> None:
        """Store messages durably, all or none; there may be none yet for any of the requests."""
        with self._store.writing() as connection:
            for stored in messages:
                if _find(connection, stored.key, stored.fingerprint) is not None:
                    raise DifferentRequest(f"run {stored.run}, {stored.kind}: has another answer: it is sent again")
                connection.execute(_INSERT_MESSAGE, (*(getattr(stored, name) for name in _COLUMNS), stored.run))

    def find(self, key: str, fingerprint: str) -> StoredMessage | None:
        with self._store.reading() as connection:
            return _find(connection, key, fingerprint)

    def messages(self, *, run: str | None = None) -> tuple[StoredMessage, ...]:
        with self._store.reading() as connection:
            which, words = ("", ()) if run is None else ("WHERE run = ?", (run,))
            rows = connection.execute(f"{_SELECT_MESSAGES} {which} ORDER BY rowid", words).fetchall()
        return tuple(_message(row) for row in rows)

    def purge(self, *, run: str | None, before: str | None) -> int:
        """Remove the messages of a run, or those stored before a time (UTC), or both; returns how many.

        SQLite overwrites the removed content with zeros; the log that still holds it is emptied as well. If no message
        is left, the file becomes small again.
        """
        with self._store.writing() as connection:
            removed = connection.execute(_DELETE, (run, before)).rowcount
            empty = connection.execute("SELECT 1 FROM messages LIMIT 1").fetchone() is None
        if removed and empty:  # otherwise a copy of those that stay would lie elsewhere
            self._store.give_back_room()
        if not self._store.empty_log():
            raise LedgerUnavailable(
                f"journal {self._store.path}: {removed} messages are removed, but another process still "
                "reads the log that holds their bytes; run the purge again when it has ended"
            )
        return removed

    def close(self) -> None:
        self._store.close()


_COLUMNS = ("key", "fingerprint", "attempt", "at", "after", "message", "release", "salt")
_SELECT_MESSAGES = "SELECT key, fingerprint, attempt, at, after, message, release, salt FROM messages"
_INSERT_MESSAGE = """INSERT INTO messages (key, fingerprint, attempt, at, after, message, release, salt, run)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_DELETE = "DELETE FROM messages WHERE (?1 IS NULL OR run = ?1) AND (?2 IS NULL OR at < ?2)"
_MESSAGE_TYPES = (str, str, int, str, str, bytes)


def _find(connection: sqlite3.Connection, key: str, fingerprint: str) -> StoredMessage | None:
    row = connection.execute(f"{_SELECT_MESSAGES} WHERE key = ? AND fingerprint = ?", (key, fingerprint)).fetchone()
    return None if row is None else _message(row)


def _message(row: tuple[Any, ...]) -> StoredMessage:
    types = tuple(type(value) for value in row)
    if types not in ((*_MESSAGE_TYPES, str, bytes), (*_MESSAGE_TYPES, type(None), bytes)) or not _is_key(row[0]):
        raise LedgerUnreadable("journal: a message is damaged")
    return StoredMessage(*row)


def _is_key(text: str) -> bool:
    try:
        run, number, kind = json.loads(text)
    except (ValueError, TypeError):
        return False
    return isinstance(run, str) and isinstance(number, int) and isinstance(kind, str)


def _refuse_if_others_may_read(path: Path) -> None:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return
    if os.name == "posix" and mode & 0o077:
        raise LedgerUnavailable(
            f"journal {path}: other users can read it (mode {mode:04o}), and it holds messages; chmod 600 it"
        )


FORMAT = 3
"""The version of what the bodies of entries hold, the JSON form of events (``events.VERSION``) included."""


_MOST_CHARGES, _MOST_TRIALS = 1024, 8


class Charged(NamedTuple):
    """A charge that was made: by which entry, for the request of which key, and when (UTC)."""

    entry: int
    key: str
    at: str
    charge: Charge


class Answer(NamedTuple):
    """That a request was answered: by which reservation, and the salted digest of the bytes."""

    number: int
    digest: str


@dataclass(slots=True)
class Known:
    """A request that was charged at least once; ``repeatable`` if every time as one that may be resumed."""

    fingerprint: str
    charge: Charge
    repeatable: bool = True
    reservations: list[int] = field(default_factory=list)
    answer: Answer | None = None


class LedgerState:
    """What a prefix of the chain means; ``checking`` also that every charge was within the limits in force then."""

    def __init__(self, *, checking: bool = False) -> None:
        self._checking = checking
        self.head: Head = START
        self.identity = ""
        self.requests: dict[str, Known] = {}
        self._limits: dict[View, Limit] = {}
        self._tallies: dict[View, Tally] = {}
        self._places: dict[tuple[str, str], dict[View, int]] = {}  # of accounts, by observer and data set
        self._charges: list[Charged] = []
        self._trials: dict[tuple[View, Limit], tuple[Tally, int]] = {}
        self._read_charges: dict[bytes, tuple[Charge, list[Tally]]] = {}
        self._changed_limits = False
        self._other_format = False

    def accounts(self, limits: Mapping[View, Limit]) -> tuple[Account, ...]:
        """Every account, in the order in which they were opened; as it would be under limits that are given."""
        return tuple(tally.account() for tally in self._under(limits).values())

    def limit(self, view: View) -> Limit | None:
        return self._limits.get(view)

    @property
    def charges(self) -> Sequence[Charged]:
        return self._charges

    def tally(self, view: View, limit: Limit) -> Tally:
        """What the charges so far would add up to on an account with this view and limit."""
        # Added up once for each limit that somebody asks about, and from then on charge by charge: whoever changes a
        # limit is shown many runs under the new one before it is in force.
        tally, counted = self._trials.pop((view, limit), (None, 0))
        tally = Tally(view, limit) if tally is None else tally
        for charged in self._charges[counted:]:
            if charged.charge.reaches(view):
                tally.add(charged.charge)
        while len(self._trials) >= _MOST_TRIALS:
            del self._trials[next(iter(self._trials))]
        self._trials[view, limit] = tally, len(self._charges)
        return tally.after(self._tallies[view]) if view in self._tallies else tally.copy()

    def surely_within_limits(self) -> bool:
        """Whether the sums alone show that every charge was within its limits: sums only grow.

        Where a limit was changed, or is passed at the end, each charge has to be looked at (``checking``).
        """
        return not self._changed_limits and all(tally.within_limit() for tally in self._tallies.values())

    def check(self, charge: Charge) -> None:
        """Raise if an account that hears the charge cannot pay it, or no account answers for it."""
        for tally in self._reached(charge, self._near(charge)):
            tally.check(charge)

    def quote(self, charge: Charge, limits: Mapping[View, Limit]) -> tuple[tuple[Account, Account], ...]:
        """Each account that hears the charge, before and after it, whether or not it can pay; limits as in accounts."""
        pairs = []
        for tally in self._reached(charge, self._under(limits)):
            after = tally.copy()
            after.add(charge)
            pairs.append((tally.account(), after.account()))
        return tuple(pairs)

    def apply(self, entry: Entry, document: Any) -> Problem | None:
        """Take in the next entry, whose body says ``document``; it must make sense after those before it.

        Entries of audit change nothing.
        """
        self.head = Head(entry.number, entry.hash)
        if self._other_format or entry.kind in AUDIT:
            return None  # of another format: what the entries after it mean is not known here, and it was said
        try:
            return self._apply(entry, document)
        except OtherRelation as error:
            return Problem(
                entry.number,
                f"counts what was planned under {error.planned} on an account under {error.account}: no price there",
            )
        except UnknownEvent:
            return Problem(entry.number, "holds an event that this version of likeset does not know")
        except (LikesetError, KeyError, TypeError, ValueError, AttributeError) as error:
            # The text of the error may quote the entry, and entries written by a stranger may hold anything.
            return Problem(entry.number, f"does not say what an entry of its kind says ({type(error).__name__})")

    def _apply(self, entry: Entry, document: Any) -> Problem | None:
        match entry.kind:
            case "open":
                return self._opened(entry, document)
            case "limit":
                self._limited(document)
                return None
            case "reserve":
                return self._reserved(entry, document)
            case "commit":
                return self._committed(entry, document)
            case "purge":
                return None
            case _:
                return Problem(entry.number, "is of no known kind")

    def _under(self, limits: Mapping[View, Limit]) -> dict[View, Tally]:
        other = {view: self.tally(view, limit) for view, limit in limits.items() if limit != self._limits.get(view)}
        return {**self._tallies, **other}

    def _near(self, charge: Charge) -> dict[View, Tally]:
        """The accounts with the observers and data sets of a charge, in their order: no other hears or covers it."""
        places: dict[View, int] = {}
        for view, _ in charge.costs:
            places |= self._places.get((view.observer, view.protected), {})
        return {view: self._tallies[view] for view in sorted(places, key=places.__getitem__)}

    def _reached(self, charge: Charge, tallies: Mapping[View, Tally]) -> list[Tally]:
        for view, _ in charge.costs:
            if not any(account.covers(view) for account in tallies):
                raise ChargeRefused(f"no account answers for the view ({view}); set a limit for it first")
        return [tally for view, tally in tallies.items() if charge.reaches(view)]

    def _opened(self, entry: Entry, document: Any) -> Problem | None:
        if entry.number != 1:
            return Problem(entry.number, "opens the ledger a second time")
        if document["format"] != FORMAT:
            self._other_format = True
            return Problem(
                entry.number,
                f"has format {document['format']}, this version reads {FORMAT}: only the likeset that wrote the ledger "
                "can count its charges; begin a new one, with limits less what was spent",
            )
        self.identity = document["identity"]
        return None

    def _limited(self, document: Any) -> None:
        view, limit = View.from_json(document["view"]), Limit.from_json(document["limit"])
        self._changed_limits |= view in self._limits
        self._places.setdefault((view.observer, view.protected), {}).setdefault(view, len(self._tallies))
        self._tallies[view] = self.tally(view, limit)
        self._limits[view] = limit
        self._read_charges.clear()

    def _reserved(self, entry: Entry, document: Any) -> Problem | None:
        charge, reached = self._charge(document["charge"])
        known = self.requests.setdefault(entry.key, Known(document["fingerprint"], charge))
        known.repeatable &= document.get("repeatable") is True
        problem = None
        if known.answer is not None or known.fingerprint != document["fingerprint"]:
            problem = Problem(entry.number, "charges a request that was already answered, or was another one")
        if self._checking:
            try:
                self.check(charge)
            except LikesetError:
                problem = Problem(entry.number, "passes a limit that was in force, as this version counts")
        for tally in reached:
            tally.add(charge)
        self._charges.append(Charged(entry.number, entry.key, document["at"], charge))
        known.reservations.append(entry.number)
        return problem

    def _committed(self, entry: Entry, document: Any) -> Problem | None:
        known = self.requests.get(entry.key)
        if known is None or document["reservation"] not in known.reservations:
            return Problem(entry.number, "answers a request that was never charged")
        if known.answer is not None:
            return Problem(entry.number, "answers a request a second time")
        known.answer = Answer(document["reservation"], document["digest"])
        return None

    def _charge(self, document: Any) -> tuple[Charge, list[Tally]]:
        """The charge that plain data describe, and whom it reaches; rounds of a run have the same, made once."""
        text = marshal.dumps(document, 2)  # the quickest that tells equal data from others; nobody loads it
        if text not in self._read_charges:
            if len(self._read_charges) >= _MOST_CHARGES:
                self._read_charges.clear()
            charge = Charge.from_json(document)
            self._read_charges[text] = charge, self._reached(charge, self._near(charge))
        return self._read_charges[text]


Append = Callable[[str, str, dict[str, Any]], Entry]
"""Appends an entry: kind, key (the run or data set that it is about), document; never with a value of a row."""

Reader = Callable[[Entry, Any], None]
"""Called with every entry once it is durable, in order, each once: those that are there, and those that come; with what
its body says."""

_SELECT_ENTRIES = "SELECT number, kind, key, body, previous, hash FROM entries"
_BETWEEN = "WHERE number BETWEEN ? AND ? ORDER BY number"
_NUMBERS = "SELECT number FROM entries WHERE key"  # by the index of keys
_ABOUT = f"WHERE number < ? AND number IN ({_NUMBERS} = ? UNION ALL {_NUMBERS} BETWEEN ? AND ?)"
_INSERT_ENTRY = "INSERT INTO entries (number, kind, key, body, previous, hash) VALUES (?, ?, ?, ?, ?, ?)"
_TABLE = """CREATE TABLE entries (
            number INTEGER PRIMARY KEY, kind TEXT NOT NULL, key TEXT NOT NULL, body TEXT NOT NULL,
            previous BLOB NOT NULL, hash BLOB NOT NULL
        )"""
# The chain finds what was changed; these keep honest code from changing it by mistake.
_TRIGGERS = {
    "entries_follow": """CREATE TRIGGER entries_follow BEFORE INSERT ON entries
            WHEN NEW.number <> (SELECT coalesce(max(number), 0) + 1 FROM entries)
                OR NEW.number > 1 AND NEW.previous <> (SELECT hash FROM entries ORDER BY number DESC LIMIT 1)
            BEGIN SELECT raise(ABORT, 'an entry must follow the last one'); END""",
    "entries_stay": """CREATE TRIGGER entries_stay BEFORE DELETE ON entries
            BEGIN SELECT raise(ABORT, 'entries are never removed'); END""",
    "entries_keep": """CREATE TRIGGER entries_keep BEFORE UPDATE ON entries
            BEGIN SELECT raise(ABORT, 'entries are never changed'); END""",
}
_LOG_LAYOUT = Layout(
    what="ledger",
    application_id=0x4C_53_4C_31,  # "LSL1"
    version=2,
    statements=(
        _TABLE,
        "CREATE UNIQUE INDEX one_answer_per_request ON entries (key) WHERE kind = 'commit'",
        *_TRIGGERS.values(),
    ),
    indexes={"entries_by_key": "CREATE INDEX entries_by_key ON entries (key)"},
)


@dataclass(frozen=True, slots=True)
class Verification:
    """What a check of the whole log found."""

    head: Head
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        return not self.problems


class Ledger:
    """Budgets of views, over all runs, in one append-only file that many processes and threads may share.

    Args:
        path: the file; created if it is not there. Its messages lie beside it (``journal_path``).
        read_only: look at an existing ledger without changing anything.
        patience: seconds to wait for another process's lock.
        clock: tells the time that entries carry.
        reader: takes in every entry once it is durable, in order; for what else follows from the log than budgets.

    Privacy contract:
        Protects:  the rows behind each account, against its observer, within the account's limit.
        Reveals:   to those who read the file: events, views, names of runs, proven releases; no data row, and
                   of other messages a salted digest only.
        Costs:     nothing of its own; a charge counts whether or not its answer was ever sent.
        Assumes:   what is sent is what ``answer`` or ``commit`` returned, after its block ended; nothing is drawn
                   outside a reservation; the disk keeps what it has confirmed.
        Basis:     proven, docs/proofs/ledger.md
    """

    def __init__(
        self,
        path: str | Path,
        *,
        read_only: bool = False,
        patience: float = 30.0,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        reader: Reader | None = None,
    ) -> None:
        self.path = Path(path)
        self._patience = patience
        self._read_only = read_only
        self._clock = clock
        self._state = LedgerState()
        self._reader = reader
        self._read_until = START.number
        self._lock = threading.RLock()
        self._journal: Journal | None = None
        self._store = SqliteFile(
            self.path, layout=_LOG_LAYOUT, read_only=read_only, patience=patience, fill=self._write_first_entry
        )

    @contextmanager
    def reading(self) -> Iterator[LedgerState]:
        """The budgets as they are now; in a block of ``deciding``, with what was appended in it."""
        with self._lock, self._store.reading() as connection:
            self._catch_up(connection)
            yield self._state

    @contextmanager
    def deciding(self) -> Iterator["Transaction"]:
        """Several charges, answers and entries of audit in one write, while what is decided on cannot change.

        All of it is durable when the block ends, and undone if it raises: what must hold is checked in the block.
        Answers are durable in the journal first, entries about them second; both before the block is left. In the
        block the ledger may be read, and not be written in another way.
        """
        with self._lock:
            known = self._state.head
            appended: list[tuple[Entry, Any]] = []
            try:
                with self._store.writing() as connection:
                    self._catch_up(connection)
                    known = self._state.head

                    def append(kind: str, key: str, document: dict[str, Any]) -> Entry:
                        entry = link(self._state.head, kind=kind, key=key, body=self._body(document))
                        written = entry.document()
                        problem = self._state.apply(entry, written)
                        if problem is not None:
                            self._state = LedgerState()
                            raise ChargeRefused(f"ledger {self.path}: {problem}")
                        _insert(connection, entry)
                        appended.append((entry, written))
                        return entry

                    transaction = Transaction(self._state, append, self._messages, now=timestamp(self._clock()))
                    yield transaction
                    transaction.store()
            except BaseException:
                if self._state.head != known:
                    self._state = LedgerState()  # it may be ahead of the file
                raise
            for entry, written in appended:
                self._tell(entry, written)

    def append(self, kind: str, key: str, document: dict[str, Any]) -> Entry:
        """Write an entry of audit by itself; durable when this returns."""
        with self.deciding() as transaction:
            return transaction.append(kind, key, document)

    def refresh(self) -> None:
        with self.reading():
            pass

    def set_limit(self, view: View, limit: Limit) -> None:
        self.set_limits({view: limit})

    def set_limits(self, limits: Mapping[View, Limit]) -> None:
        """Open accounts, or change their limits, all or none; what was spent stays spent.

        Raises:
            ChargeRefused: an earlier charge cannot be counted on an account: it was priced for a single owner,
                or planned under another relation (``OtherRelation``) or for another unit (``OtherUnit``).
        """
        with self.reading() as state:
            if all(state.limit(view) == limit for view, limit in limits.items()):
                return
        with self.deciding() as transaction:
            for view, limit in limits.items():
                transaction.set_limit(view, limit)

    def quote(
        self, charge: Charge, *, limits: Mapping[View, Limit] | None = None
    ) -> tuple[tuple[Account, Account], ...]:
        """What a charge would do: every account that hears it, before and after; nothing is charged.

        With ``limits``, as if these were in force; they are not set.
        """
        with self.reading() as state:
            return state.quote(charge, limits or {})

    def check(self, charge: Charge) -> None:
        with self.reading() as state:
            state.check(charge)

    def answer(
        self,
        charge: Charge,
        run: Callable[[], tuple[bytes, Release[Any] | None]],
        *,
        request: Request,
        unfinished: Unfinished = "refuse",
    ) -> bytes:
        """Reserve, run, commit: the bytes to send; ``run`` is not called for a request answered before.

        What costs nothing, and is the same whenever it is run, is reserved and committed at once, after it was run.
        """
        if unfinished == "resume" and charge.free and self.is_new(request, charge):
            message, release = run()
            with self.deciding() as transaction:
                return transaction.answer(charge, message, release, request=request)
        with self.deciding() as transaction:
            reservation = transaction.reserve(charge, request=request, unfinished=unfinished)
        if reservation.answer is not None:
            return reservation.answer
        message, release = run()
        with self.deciding() as transaction:
            return transaction.commit(reservation, message, release=release)

    def is_new(self, request: Request, charge: Charge) -> bool:
        """Whether a request was never charged, and has no answer: then what it gets has to be computed."""
        journal = self._messages()
        with self.reading() as state:
            if request.key in state.requests:
                return False
        return journal.find(request.key, request.fingerprint(charge, journal)) is None

    def accounts(self, *, limits: Mapping[View, Limit] | None = None) -> tuple[Account, ...]:
        with self.reading() as state:
            return state.accounts(limits or {})

    def entries(self, *, first: int = 1, last: int | None = None) -> tuple[Entry, ...]:
        """Every entry, oldest first; or those between two numbers, both of them among them."""
        with self._lock, self._store.reading() as connection:
            self._catch_up(connection)
            bounds = (first, self._state.head.number if last is None else last)
            return tuple(Entry(*row) for row in connection.execute(f"{_SELECT_ENTRIES} {_BETWEEN}", bounds))

    def entries_about(self, key: str, *, before: int, most: int) -> tuple[Entry, ...]:
        """The last entries about a run or data set before a number, newest first: charges of the run among them."""
        charges = canonical([key])[:-1]  # how the keys of requests begin: ["run",0,"kind"]
        with self._lock, self._store.reading() as connection:
            self._catch_up(connection)
            bounds = (before, key, f"{charges},", f"{charges}-", most)  # a dash comes next after a comma
            found = connection.execute(f"{_SELECT_ENTRIES} {_ABOUT} ORDER BY number DESC LIMIT ?", bounds)
            return tuple(Entry(*row) for row in found)

    def charge_of(self, request: Request) -> Charge | None:
        with self.reading() as state:
            known = state.requests.get(request.key)
            return None if known is None else known.charge

    def reservations(self, requests: Iterable[tuple[str, str]]) -> dict[tuple[str, str], int]:
        """The last entry that charged for each request, by its key and fingerprint; those never charged are missing."""
        with self.reading() as state:
            return {
                (key, fingerprint): known.reservations[-1]
                for key, fingerprint in requests
                if (known := state.requests.get(key)) is not None and known.fingerprint == fingerprint
            }

    def head(self) -> Head:
        """The last entry's number and hash; keep it elsewhere to be able to show a roll-back."""
        with self.reading() as state:
            return state.head

    def messages(self, *, run: str | None = None) -> tuple[StoredMessage, ...]:
        """The stored messages (of one run), oldest first; one without a commit entry was never sent."""
        return self._messages().messages(run=run)

    def purge(self, *, run: str | None = None, before: datetime | None = None) -> int:
        """Remove stored messages of a run, or from before a time, or both; returns how many.

        The charges stay, and requests whose answers are removed are refused from now on: never drawn again.
        """
        if run is None and before is None:
            raise InvalidArgument("run", None, "say which messages: those of a run, or from before a time")
        if run is not None:
            checked_name("run", run)
        until = None if before is None else timestamp(before)
        journal = self._messages()
        # On record before it happens: a missing message is explained whenever it is missed.
        self.append("purge", "", {"run": run, "before": until})
        with self.deciding():  # so that nobody answers from what is being removed
            return journal.purge(run=run, before=until)

    def verify(self, *, head: Head | str | None = None, messages: bool = False) -> Verification:
        """Check every entry, link and sum; with a head kept elsewhere, also that history still contains it.

        Only a head that was kept elsewhere shows that the end was cut off, an old copy was put back, or everything from
        some entry on was written anew. With ``messages``, also that the stored messages are those that were recorded,
        that a purge is on record for each that is missing, and that the ledger is the one that they were stored beside.
        One that is stored and not on record is no problem: a death came between, and it was never sent.
        """
        expected = Head.parse(head) if isinstance(head, str) else head
        seen: dict[int, bytes] = {START.number: START.hash}
        problems: list[Problem] = []
        state = LedgerState()
        try:
            with self._lock, self._store.reading() as connection:
                problems += _file_problems(connection)
                state, wrong = _walk(connection, LedgerState(), seen)
                if not state.surely_within_limits():
                    state, wrong = _walk(connection, LedgerState(checking=True), seen)
                problems += wrong
        except LedgerUnreadable as error:
            problems.append(Problem(0, str(error)))
        if expected is not None and seen.get(expected.number) != expected.hash:
            gone = f"entry {expected.number} of the head is gone: cut off, rolled back or written anew"
            problems.append(Problem(0, gone))
        if len(seen) == 1:
            problems.append(Problem(0, "not even the entry that opens the ledger is there"))
        if messages and not problems:
            problems += self._wrong_messages()
        return Verification(state.head, tuple(problems))

    def close(self) -> None:
        self._store.close()
        if self._journal is not None:
            self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _catch_up(self, connection: sqlite3.Connection) -> None:
        """Fold in what other processes wrote since the last look, checking every link on the way."""
        state = self._state
        # From the last known entry on: a file that was put back under a running process shows here.
        rows = connection.execute(
            f"{_SELECT_ENTRIES} WHERE number >= ? ORDER BY number", (state.head.number,)
        ).fetchall()
        if state.head != START:
            if not rows or rows[0][5] != state.head.hash:
                raise LedgerTampered(f"ledger {self.path}: entry {state.head.number} is not what it was")
            del rows[0]
        for item in check(rows, state.head):
            document, problem = _taken_in(state, item)
            if problem is not None:
                self._state = LedgerState()  # what was folded in so far is not to be trusted either
                raise LedgerTampered(f"ledger {self.path}: {problem}; nothing can be charged to it")
            if isinstance(item, Entry):
                self._tell(item, document)

    def _tell(self, entry: Entry, document: Any) -> None:
        """Pass a durable entry on; once, also where budgets are folded anew after a block that failed."""
        if entry.number > self._read_until:
            if self._reader is not None:
                self._reader(entry, document)
            self._read_until = entry.number

    def _body(self, document: dict[str, Any]) -> str:
        return canonical({**document, "at": timestamp(self._clock())})

    def _write_first_entry(self, connection: sqlite3.Connection) -> None:
        # A random identity: no two ledgers share a head, and a journal knows whose it is.
        body = self._body({"format": FORMAT, "identity": secrets.token_hex(16)})
        _insert(connection, link(START, kind="open", key="", body=body))

    def _wrong_messages(self) -> list[Problem]:
        stored = {(message.key, message.fingerprint): message for message in self.messages()}
        entries = [(entry, entry.document()) for entry in self.entries()]
        hashes = {entry.number: entry.hash for entry, _ in entries}
        reserved = {entry.number: document for entry, document in entries if entry.kind == "reserve"}
        purges = [document for entry, document in entries if entry.kind == "purge"]
        problems = []
        for entry, document in entries:
            if entry.kind != "commit":
                continue
            run, charged = json.loads(entry.key)[0], reserved[document["reservation"]]
            at = document.get("stored", charged["at"])
            explained = any(
                purge["run"] in (None, run) and (purge["before"] is None or purge["before"] > at) for purge in purges
            )
            message = stored.get((entry.key, charged["fingerprint"]))
            if message is None and not explained:
                problems.append(Problem(entry.number, "its message is missing, and no purge of it is on record"))
            elif message is not None and message.digest != document["digest"]:
                problems.append(Problem(entry.number, "its stored message is not the one that was recorded"))
        heads = {message.after: Head.parse(message.after) for message in stored.values()}
        gone = [head for head in heads.values() if hashes.get(head.number) != head.hash]
        if gone:
            first = min(head.number for head in gone)
            problems.append(Problem(0, f"entry {first} is not the one that stood there when messages were stored"))
        return problems

    def _messages(self) -> Journal:
        if self._journal is None:
            with self.reading() as state:  # one thread at a time
                if self._journal is None:
                    path, read_only, patience = journal_path(self.path), self._read_only, self._patience
                    self._journal = Journal(path, ledger=state.identity, read_only=read_only, patience=patience)
        return self._journal


def timestamp(moment: datetime) -> str:
    """A time as entries carry it: UTC, so that the texts have the order of the times."""
    if moment.tzinfo is None:
        raise InvalidArgument("before", moment.isoformat(), "needs a time zone")
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def _insert(connection: sqlite3.Connection, entry: Entry) -> None:
    connection.execute(_INSERT_ENTRY, entry)


def _taken_in(state: LedgerState, item: Entry | Problem) -> tuple[Any, Problem | None]:
    """Fold an entry in; what its body says, and what is wrong with it. A body is parsed once, for a log may be long."""
    if isinstance(item, Problem):
        return None, item
    try:
        document = item.document()
    except ValueError:
        return None, Problem(item.number, "does not say anything that can be read")
    return document, state.apply(item, document)


def _walk(
    connection: sqlite3.Connection, state: LedgerState, seen: dict[int, bytes]
) -> tuple[LedgerState, list[Problem]]:
    """Fold all entries into state; notes the hash of each, and what does not hold."""
    problems = []
    for item in check(connection.execute(f"{_SELECT_ENTRIES} ORDER BY number")):
        _, problem = _taken_in(state, item)
        if problem is not None:
            problems.append(problem)
        if isinstance(item, Entry):
            seen[item.number] = item.hash
    return state, problems


def _file_problems(connection: sqlite3.Connection) -> list[Problem]:
    problems = []
    if [row[0] for row in connection.execute("PRAGMA integrity_check(3)")] != ["ok"]:
        problems.append(Problem(0, "the file is damaged (SQLite's own check)"))
    triggers = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")}
    if triggers != set(_TRIGGERS):
        problems.append(Problem(0, "the triggers that keep entries from being changed are not all there"))
    return problems


class Transaction:
    """What is written in one block of ``Ledger.deciding``; nobody else writes before the block ends.

    Nothing in it is durable before the end of the block. So nothing that ``commit`` returned may be sent before, and
    no coin may be tossed for what was reserved in the same block.
    """

    def __init__(self, state: LedgerState, append: Append, journal: Callable[[], Journal], *, now: str) -> None:
        self._state = state
        self.append = append
        self._opened_journal = journal
        self._now = now
        self._after = str(state.head)
        self._reserved: set[int] = set()
        self._unstored: dict[str, StoredMessage] = {}

    def set_limit(self, view: View, limit: Limit) -> None:
        if self._state.limit(view) != limit:
            self._state.tally(view, limit)  # raises if earlier charges cannot be counted on it
            self.append("limit", "", {"view": view.to_json(), "limit": limit.to_json()})

    def reserve(self, charge: Charge, *, request: Request, unfinished: Unfinished = "refuse") -> Reservation:
        """Charge for a request before anything is run for it; durable when the block ends, and not before.

        Raises:
            BudgetExceeded: an account cannot pay; nothing was charged.
            ChargeRefused: no account answers for a view.
            OtherRelation: an account that hears it has another relation than the event was planned under.
            OtherUnit: an account that hears it was charged for another unit of privacy before.
            UnprovenPart: the event has no proof and an account does not accept it by name.
            DifferentRequest: the same run, round and kind were asked for with another request.
            UnfinishedRequest: charged before, and interrupted, and that is to be refused; or to be resumed, and
                it was not reserved as one that may be.
            MessagePurged: answered before, but the bytes are gone.
        """
        fingerprint = request.fingerprint(charge, self._journal)
        known = self._state.requests.get(request.key)
        if known is not None:
            earlier = self._known(known, fingerprint, request=request, unfinished=unfinished)
            if earlier is not None:
                return earlier
        self._state.check(charge)
        attempt = 1 if known is None else len(known.reservations) + 1
        body = {"charge": charge.to_json(), "fingerprint": fingerprint, "attempt": attempt}
        if unfinished == "resume":
            body["repeatable"] = True  # on record, so that no draw with coins is ever taken for one
        number = self.append("reserve", request.key, body).number
        self._reserved.add(number)
        stored = self._find(request.key, fingerprint)
        if stored is not None:
            # Stored without any entry: a death came before they were written, so it was never sent.
            self._record(stored)
            return Reservation(number, request, attempt, stored.message)
        return Reservation(number, request, attempt, repeatable=unfinished == "resume")

    def commit(self, reservation: Reservation, message: bytes, *, release: Release[Any] | None = None) -> bytes:
        """Store the answer to a request; returns the bytes to send, after the block: the first ever stored for it.

        The message goes to the journal only. ``release`` is the value in it that may be shown: recorded in the ledger
        if its event, which must be the one that was reserved, is proven and the answer discloses no rows. What is drawn
        with coins needs a charge on the disk first, so it is not committed in the block that reserved it.
        """
        request, number = reservation.request, reservation.number
        known = self._state.requests.get(request.key)
        if known is None or number not in known.reservations:
            raise ChargeRefused(f"{request}: entry {number} is no reservation for it here")
        if reservation.repeatable and release is not None:
            raise ChargeRefused(f"{request}: a release has noise, which is not the same again; it cannot be resumed")
        if number in self._reserved and not reservation.repeatable:
            raise ChargeRefused(f"{request}: its charge is not on the disk yet, and nothing may be drawn for it before")
        if known.answer is not None:
            # Somebody answered the same request before: that draw is the one that counts.
            answer = self._stored(request, known, known.answer).message
            if known.answer.number == number and answer != message:
                raise _redrawn(request)
            return answer
        attempt, shown = known.reservations.index(number) + 1, recorded_release(known.charge, release)
        stored = self._find(request.key, known.fingerprint)
        if stored is None:
            stored = StoredMessage(request.key, known.fingerprint, attempt, self._now, self._after, message, shown)
            self._unstored[stored.key] = stored
        elif stored.attempt == attempt and (stored.message, stored.release) != (message, shown):
            raise _redrawn(request)
        self._record(stored)
        return stored.message

    def answer(self, charge: Charge, message: bytes, release: Release[Any] | None, *, request: Request) -> bytes:
        """Reserve and commit a draw that is the same again; the bytes of one answered meanwhile stay."""
        charged = self.reserve(charge, request=request, unfinished="resume")
        return self.commit(charged, message, release=release) if charged.answer is None else charged.answer

    def store(self) -> None:
        """Make the answers durable: before the entries about them are, so that what is on record can be sent again."""
        if self._unstored:
            self._journal.keep(self._unstored.values())
            self._unstored.clear()

    @property
    def _journal(self) -> Journal:
        return self._opened_journal()

    def _known(self, known: Known, fingerprint: str, *, request: Request, unfinished: Unfinished) -> Reservation | None:
        """What a request that was charged before gets; None if that is to be charged once more."""
        if known.fingerprint != fingerprint:
            raise DifferentRequest(f"{request}: was asked for before with another request; refused", kind=request.kind)
        attempt, last = len(known.reservations), known.reservations[-1]
        if known.answer is None:
            stored = self._find(request.key, fingerprint)
            if stored is not None:
                self._record(stored)  # a death came between the two
        if known.answer is not None:
            message = self._stored(request, known, known.answer).message
            return Reservation(known.answer.number, request, attempt, message)
        if unfinished == "resume" and known.repeatable:
            return Reservation(last, request, attempt, repeatable=True)
        if unfinished != "charge":
            raise UnfinishedRequest(
                f"{request}: was charged (entry {last}) and no answer was stored; the charge stays spent, "
                "and another draw would be a new one"
            )
        return None

    def _record(self, stored: StoredMessage) -> None:
        charged = self._state.requests[stored.key].reservations
        if stored.attempt > len(charged):
            raise LedgerTampered(
                f"run {stored.run}, {stored.kind}: an answer is stored to a charge that is not there; "
                "the ledger is not the one that it was"
            )
        release = None if stored.release is None else json.loads(stored.release)
        body = {"reservation": charged[stored.attempt - 1], "digest": stored.digest, "release": release}
        if stored.at != self._now:
            body["stored"] = stored.at  # a death left it: a purge by age may remove what is older than its charge
        self.append("commit", stored.key, body)

    def _stored(self, request: Request, known: Known, answer: Answer) -> StoredMessage:
        stored = self._find(request.key, known.fingerprint)
        if stored is None:
            raise MessagePurged(f"{request}: was answered (entry {answer.number}), but the answer was purged")
        if stored.digest != answer.digest:
            raise LedgerTampered(f"{request}: the stored answer is not the one that was recorded")
        return stored

    def _find(self, key: str, fingerprint: str) -> StoredMessage | None:
        return self._unstored.get(key) or self._journal.find(key, fingerprint)


def _redrawn(request: Request) -> DifferentRequest:
    return DifferentRequest(
        f"{request}: another answer is already stored; it is sent again, never drawn anew", kind=request.kind
    )
