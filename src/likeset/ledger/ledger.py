"""The ledger: a charge is durable before noise is drawn; a stored reply is sent again, never drawn again.

One SQLite file: ``log`` holds the entries as a hash chain, ``drawn`` the stored replies, ``about`` the key of the
fingerprints. A home adds tables of its own.
"""

import hashlib
import json
import re
import secrets
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Self

from likeset.arguments import checked_name
from likeset.errors import (
    ChargeRefused,
    DifferentRequest,
    InvalidArgument,
    LedgerTampered,
    LedgerUnavailable,
    LedgerUnreadable,
    LikesetError,
    MessagePurged,
    UnfinishedRequest,
)
from likeset.ledger.budget import Account, Charge, Limit, Request, Tally, canonical
from likeset.ledger.sqlite_file import SqliteFile, one_at_a_time
from likeset.privacy.events import Release, View

_DOMAIN = b"likeset ledger entry 1\n"
_HASH_BYTES = 32
_TYPES = (int, str, str, str, bytes, bytes)


class Entry(NamedTuple):
    """One row of the log; ``hash`` covers all other fields."""

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
        return json.loads(self.body)


def _size(field: bytes) -> bytes:
    return len(field).to_bytes(8, "big")


@dataclass(frozen=True, slots=True)
class Head:
    """Number and hash of the last entry; they fix the whole history before it."""

    number: int
    hash: bytes

    @classmethod
    def parse(cls, text: str) -> Self:
        match = re.fullmatch(r"(\d{1,15}):([0-9a-f]{64})", text.strip().lower())
        if match is None:
            reason = "must be NUMBER:HASH (64 hex digits), as this command prints it"
            raise InvalidArgument("head", repr(text[:80]), reason)
        return cls(int(match[1]), bytes.fromhex(match[2]))

    def __str__(self) -> str:
        return f"{self.number}:{self.hash.hex()}"


START = Head(0, bytes(_HASH_BYTES))
"""The head of a ledger without entries."""


@dataclass(frozen=True, slots=True)
class Problem:
    number: int
    what: str

    def __str__(self) -> str:
        return f"entry {self.number}: {self.what}" if self.number else self.what


def link(head: Head, *, kind: str, key: str, body: str) -> Entry:
    entry = Entry(head.number + 1, kind, key, body, head.hash, b"")
    return entry._replace(hash=entry.expected_hash())


def check(rows: Iterable[tuple[Any, ...]], after: Head = START) -> Iterator[Entry | Problem]:
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
        *("acknowledged", "approved", "began", "cancelled", "card", "closed", "data", "denied", "expired", "failed"),
        *("invite", "invited", "joined", "policy", "refused", "rehearsed", "reviewed", "sent", "stopped", "withdrawn"),
        "withheld",
    )
)
"""Kinds of entries that a home appends; budgets do not depend on them. Any other kind is a problem."""


@dataclass(frozen=True, slots=True)
class Reservation:
    number: int  # of its entry in the log
    request: Request
    answer: bytes | None = field(default=None, repr=False)  # stored before; then nothing may be drawn
    repeatable: bool = False  # the draw follows from a key, without noise: it may be drawn again for the same charge


class StoredMessage(NamedTuple):
    number: int  # of the commit entry
    reservation: int  # the number of the entry that charged for it
    key: str
    at: str  # the time of the commit entry (UTC)
    salt: bytes
    message: bytes

    def __repr__(self) -> str:  # the message may hold rows
        return f"StoredMessage({self.number}, {self.key!r}, {self.at!r})"

    @property
    def run(self) -> str:
        return str(json.loads(self.key)[0])

    @property
    def kind(self) -> str:
        return str(json.loads(self.key)[2])

    @property
    def digest(self) -> str:
        return _digest(self.salt, self.message)


def _digest(salt: bytes, message: bytes) -> str:
    return hashlib.sha256(b"likeset message 1\n" + salt + message).hexdigest()


class ChargeEntry(NamedTuple):
    entry: int
    key: str
    at: str
    charge: Charge


@dataclass(slots=True)
class RequestState:
    number: int  # of the reserve entry
    fingerprint: str
    charge: Charge
    repeatable: bool
    digest: str | None = None  # of the stored answer, salted


class LedgerState:
    """Budgets and requests after a prefix of the log; ``checking`` compares every charge with the limits in force."""

    def __init__(self, *, checking: bool = False) -> None:
        self._checking = checking
        self.head: Head = START
        self.requests: dict[str, RequestState] = {}
        self._limits: dict[View, Limit] = {}
        self._tallies: dict[View, Tally] = {}
        self.charges: list[ChargeEntry] = []
        self.draws: Counter[str] = Counter()  # with noise, by run, whether or not they were answered

    def accounts(self, limits: Mapping[View, Limit]) -> tuple[Account, ...]:
        return tuple(tally.account() for tally in self._under(limits).values())

    def limit(self, view: View) -> Limit | None:
        return self._limits.get(view)

    def tally(self, view: View, limit: Limit) -> Tally:
        tally = Tally(view, limit)
        for charged in self.charges:
            if view in dict(charged.charge.costs):
                tally.add(charged.charge)
        return tally.after(self._tallies[view]) if view in self._tallies else tally

    def check(self, charge: Charge) -> None:
        """Raise if an account that hears the charge cannot pay it, or no account answers for it."""
        for tally in self._reached(charge, self._tallies):
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
        """Add the next entry, whose body is ``document``; returns what is wrong with it."""
        self.head = Head(entry.number, entry.hash)
        if entry.kind in AUDIT:
            return None
        try:
            return self._apply(entry, document)
        except (LikesetError, KeyError, TypeError, ValueError, AttributeError) as error:
            # The text of the error may quote the entry, and entries written by a stranger may hold anything.
            return Problem(entry.number, f"is not a valid entry of its kind ({type(error).__name__})")

    def _apply(self, entry: Entry, document: Any) -> Problem | None:
        match entry.kind:
            case "open":
                return None if entry.number == 1 else Problem(entry.number, "opens the ledger a second time")
            case "limit":
                self._limited(document)
                return None
            case "reserve":
                return self._reserved(entry, document)
            case "commit":
                return self._committed(entry, document)
            case "purge":
                return None if {"run", "before"} <= document.keys() else Problem(entry.number, "is an incomplete purge")
            case _:
                return Problem(entry.number, "has an unknown kind")

    def _under(self, limits: Mapping[View, Limit]) -> dict[View, Tally]:
        other = {view: self.tally(view, limit) for view, limit in limits.items() if limit != self._limits.get(view)}
        return {**self._tallies, **other}

    def _reached(self, charge: Charge, tallies: Mapping[View, Tally]) -> list[Tally]:
        for view, _ in charge.costs:
            if view not in tallies:
                raise ChargeRefused(f"no account answers for the view ({view}); set a limit for it first")
        return [tallies[view] for view, _ in charge.costs]

    def _limited(self, document: Any) -> None:
        view, limit = View.from_json(document["view"]), Limit.from_json(document["limit"])
        self._tallies[view] = self.tally(view, limit)
        self._limits[view] = limit

    def _reserved(self, entry: Entry, document: Any) -> Problem | None:
        charge = Charge.from_json(document["charge"])
        request = Request(*json.loads(entry.key))  # raises if the key is not one of a request
        problem = None
        if entry.key in self.requests:
            problem = Problem(entry.number, "charges a request a second time")
        else:
            repeatable = document.get("repeatable") is True
            self.requests[entry.key] = RequestState(entry.number, document["fingerprint"], charge, repeatable)
            self.draws[request.run] += not repeatable
        if self._checking:
            try:
                self.check(charge)
            except LikesetError:
                problem = Problem(entry.number, "passes a limit that was in force, as this version counts")
        for tally in self._reached(charge, self._tallies):
            tally.add(charge)
        self.charges.append(ChargeEntry(entry.number, entry.key, document["at"], charge))
        return problem

    def _committed(self, entry: Entry, document: Any) -> Problem | None:
        known = self.requests.get(entry.key)
        if known is None or document["reservation"] != known.number:
            return Problem(entry.number, "answers a request that was never charged")
        if known.digest is not None:
            return Problem(entry.number, "answers a request a second time")
        known.digest = document["digest"]
        return None


_ENTRIES = "SELECT number, kind, key, body, previous, hash FROM log"
_NUMBERS = "SELECT number FROM log WHERE key"  # by the index of keys
_ABOUT = f"WHERE number < ? AND number IN ({_NUMBERS} = ? UNION ALL {_NUMBERS} BETWEEN ? AND ?)"
_MESSAGES = "SELECT number, reservation, key, at, salt, message FROM drawn"
_MESSAGE_TYPES = (int, int, str, str, bytes, bytes)
_INSERT_ENTRY = "INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)"
_SECRET_BYTES = 32
TABLES = (
    """CREATE TABLE log (
        number INTEGER PRIMARY KEY, kind TEXT NOT NULL, key TEXT NOT NULL, body TEXT NOT NULL,
        previous BLOB NOT NULL, hash BLOB NOT NULL
    )""",
    """CREATE TABLE drawn (
        number INTEGER PRIMARY KEY, reservation INTEGER NOT NULL, key TEXT NOT NULL UNIQUE, run TEXT NOT NULL,
        at TEXT NOT NULL, salt BLOB NOT NULL, message BLOB NOT NULL
    )""",
    "CREATE TABLE about (name TEXT PRIMARY KEY, value BLOB NOT NULL)",
    "CREATE UNIQUE INDEX one_answer_per_request ON log (key) WHERE kind = 'commit'",
    "CREATE INDEX log_by_key ON log (key)",
    "CREATE INDEX drawn_by_run ON drawn (run)",
)


@dataclass(frozen=True, slots=True)
class Verification:
    head: Head
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        return not self.problems


class Ledger:
    """Budgets of views, over all runs, in one append-only file that many processes and threads may share.

    Args:
        path: the file, of mode 0600; created if it does not exist.
        tables: CREATE statements of further tables and indexes of a new file, by name.
        read_only: look at an existing ledger without changing anything.
        patience: seconds to wait for another process's lock.
        clock: tells the time that entries carry.

    Privacy contract:
        Protects:  the rows behind each account, against its observer, within the account's limit.
        Reveals:   to those who read the log: events, views, names of runs; of messages a salted digest only.
        Costs:     nothing of its own; a charge counts whether or not its answer was ever sent.
        Assumes:   what is sent is what ``answer`` or ``commit`` returned, after its block ended; nothing is drawn
                   outside a reservation; the disk keeps what it has confirmed.
        Basis:     proven, docs/proofs/ledger.md
    """

    def __init__(
        self,
        path: str | Path,
        *,
        tables: Mapping[str, str] | None = None,
        read_only: bool = False,
        patience: float = 30.0,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.path = Path(path)
        self._patience = patience
        self._clock = clock
        self._state = LedgerState()
        self._lock = threading.RLock()
        statements = (*TABLES, *(tables or {}).values())
        self._store = SqliteFile(
            self.path, statements=statements, fill=self._write_first_entry, read_only=read_only, patience=patience
        )

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """The connection, to read one consistent state of the file; in a block of ``deciding``, what it wrote too."""
        with self._lock, self._store.reading() as connection:
            self._catch_up(connection)
            yield connection

    @contextmanager
    def reading(self) -> Iterator[LedgerState]:
        with self.snapshot():
            yield self._state

    @contextmanager
    def deciding(self) -> Iterator["Transaction"]:
        """One write transaction: charges, answers, entries of audit, and rows of further tables.

        All of it is durable when the block ends, and undone if the block raises. No other process writes meanwhile, so
        conditions are checked in the block. The block may read the ledger; it cannot begin another write.
        """
        with self._lock:
            known = self._state.head
            try:
                with self._store.writing() as connection:
                    self._catch_up(connection)
                    known = self._state.head
                    transaction = Transaction(connection, self._state, timestamp(self._clock()))
                    yield transaction
                    if transaction.failed:
                        raise LedgerUnavailable(f"ledger {self.path}: a write of this block failed; all were undone")
            except BaseException:
                if self._state.head != known:
                    self._state = LedgerState()  # it may be ahead of the file
                raise

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

        Raises ChargeRefused if an earlier charge cannot be counted on an account.
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

    def draw(
        self,
        charge: Charge,
        run: Callable[[], tuple[bytes, Release[Any] | None]],
        *,
        request: Request,
        repeatable: bool = False,
        check: Callable[[], None] = lambda: None,
    ) -> bytes:
        """Reserve, run, commit: returns the bytes to send; ``run`` is not called for a request answered before.

        The charge is durable before ``run`` is called. Processes that draw noise take turns, so a reservation without
        an answer was interrupted: it stays spent, and the request is refused.

        Args:
            charge: what the draw costs.
            run: draws; returns the message and, if it is one, the release in it.
            request: what is answered.
            repeatable: the draw follows from a key and pinned data, without noise, so it is the same again. An
                interrupted one is drawn again for the same charge; a free one takes a single write, after the draw.
            check: raises if the request may no longer be answered; called in each write transaction.
        """
        if repeatable and charge.free and self.charge_of(request) is None:
            message, release = run()
            with self.deciding() as transaction:
                check()
                return transaction.answer(charge, message, release, request=request)
        lock = self.path.with_name(f"{self.path.name}.lock")
        with nullcontext() if repeatable else one_at_a_time(lock, patience=self._patience):
            with self.deciding() as transaction:
                check()
                reservation = transaction.reserve(charge, request=request, repeatable=repeatable)
            if reservation.answer is not None:
                return reservation.answer
            message, release = run()
            with self.deciding() as transaction:
                check()  # again: the draw may have taken long
                return transaction.commit(reservation, message, release=release)

    def accounts(self, *, limits: Mapping[View, Limit] | None = None) -> tuple[Account, ...]:
        with self.reading() as state:
            return state.accounts(limits or {})

    def entries(self, *, first: int = 1, last: int | None = None) -> tuple[Entry, ...]:
        """Every entry, oldest first; or those between two numbers, both of them among them."""
        with self.snapshot() as connection:
            bounds = (first, self._state.head.number if last is None else last)
            rows = connection.execute(f"{_ENTRIES} WHERE number BETWEEN ? AND ? ORDER BY number", bounds)
            return tuple(map(Entry._make, rows))

    def entries_about(self, key: str, *, before: int, most: int) -> tuple[Entry, ...]:
        """The last entries about a run or data set before a number, newest first: charges of the run among them."""
        charges = canonical([key])[:-1]  # how the keys of requests begin: ["run",0,"kind"]
        with self.snapshot() as connection:
            bounds = (before, key, f"{charges},", f"{charges}-", most)  # a dash comes next after a comma
            rows = connection.execute(f"{_ENTRIES} {_ABOUT} ORDER BY number DESC LIMIT ?", bounds)
            return tuple(map(Entry._make, rows))

    def charge_of(self, request: Request) -> Charge | None:
        with self.reading() as state:
            known = state.requests.get(request.key)
            return None if known is None else known.charge

    def draws(self, run: str) -> int:
        """How many draws with noise were charged in a run."""
        with self.reading() as state:
            return state.draws[run]

    def head(self) -> Head:
        """The last entry's number and hash; keep it elsewhere to be able to show a roll-back."""
        with self.reading() as state:
            return state.head

    def messages(self, *, run: str | None = None) -> tuple[StoredMessage, ...]:
        which, values = ("", ()) if run is None else ("WHERE run = ?", (run,))
        with self.snapshot() as connection:
            rows = connection.execute(f"{_MESSAGES} {which} ORDER BY number", values).fetchall()
            return tuple(_stored(row, self._state) for row in rows)

    def purge(self, *, run: str | None = None, before: datetime | None = None) -> int:
        """Remove stored messages of a run, or from before a time, or both; returns how many.

        The charges stay, and requests whose answers are removed are refused from now on: never drawn again.
        """
        if run is None and before is None:
            raise InvalidArgument("run", None, "say which messages: those of a run, or from before a time")
        if run is not None:
            checked_name("run", run)
        until = None if before is None else timestamp(before)
        with self.deciding() as transaction:
            transaction.append("purge", "", {"run": run, "before": until})
            connection = transaction.connection
            removed = connection.execute(
                "DELETE FROM drawn WHERE (?1 IS NULL OR run = ?1) AND (?2 IS NULL OR at < ?2)", (run, until)
            ).rowcount
            empty = connection.execute("SELECT 1 FROM drawn LIMIT 1").fetchone() is None
        if empty:  # otherwise copies of the remaining messages would lie in released blocks of the disk
            self._store.give_back_room()
        if not self.empty_log():
            raise LedgerUnavailable(
                f"ledger {self.path}: {removed} messages are removed, but another process still reads the "
                "write-ahead log that holds their bytes; run the purge again when it has ended"
            )
        return removed

    def verify(self, *, head: Head | None = None) -> Verification:
        """Check every entry, link, sum and stored message; with a head kept elsewhere, also that the log contains it.

        Only a head that was kept elsewhere shows that an old copy was put back, or that everything from some entry on
        was written anew. A message may be missing only if a purge of it is on record.
        """
        seen: dict[int, bytes] = {START.number: START.hash}
        problems: list[Problem] = []
        state = LedgerState(checking=True)
        try:
            with self._lock, self._store.reading() as connection:
                if [row[0] for row in connection.execute("PRAGMA integrity_check(3)")] != ["ok"]:
                    problems.append(Problem(0, "the file is damaged (SQLite's own check)"))
                wrong = _walk(connection, state, seen)
                problems += wrong or _message_problems(connection, state)
        except LedgerUnreadable as error:
            problems.append(Problem(0, str(error)))
        if head is not None and seen.get(head.number) != head.hash:
            gone = f"entry {head.number} of the head is gone: cut off, rolled back or written anew"
            problems.append(Problem(0, gone))
        if len(seen) == 1:
            problems.append(Problem(0, "the entry that opens the ledger is missing"))
        return Verification(state.head, tuple(problems))

    def empty_log(self) -> bool:
        """Empty SQLite's write-ahead log, which contains deleted bytes until then; false if a reader prevents it.

        Copies of older versions of the file hold such bytes, too, and are removed.
        """
        self._store.remove_copies()
        return self._store.empty_log()

    def close(self) -> None:
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _catch_up(self, connection: sqlite3.Connection) -> None:
        """Add the entries that other processes wrote meanwhile, and check every link."""
        state = self._state
        # From the last known entry on: this detects a file that was replaced under a running process.
        rows = connection.execute(f"{_ENTRIES} WHERE number >= ? ORDER BY number", (state.head.number,)).fetchall()
        if state.head != START:
            if not rows or rows[0][5] != state.head.hash:
                raise LedgerTampered(f"ledger {self.path}: entry {state.head.number} is not what it was")
            del rows[0]
        for item in check(rows, state.head):
            if problem := _taken_in(state, item):
                self._state = LedgerState()  # earlier entries are not trusted either
                raise LedgerTampered(f"ledger {self.path}: {problem}; nothing can be charged to it")

    def _write_first_entry(self, connection: sqlite3.Connection) -> None:
        identity = secrets.token_hex(16)  # so that no two ledgers share a head
        body = canonical({"identity": identity, "at": timestamp(self._clock())})
        connection.execute(_INSERT_ENTRY, link(START, kind="open", key="", body=body))
        connection.execute("INSERT INTO about VALUES ('key', ?)", (secrets.token_bytes(_SECRET_BYTES),))


def timestamp(moment: datetime) -> str:
    """A time as entries carry it: UTC, so that the texts have the order of the times."""
    if moment.tzinfo is None:
        raise InvalidArgument("before", moment.isoformat(), "needs a time zone")
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def _stored(row: tuple[Any, ...], state: LedgerState) -> StoredMessage:
    """A row of ``drawn``, compared with the log."""
    stored = StoredMessage._make(row)
    known = state.requests.get(stored.key) if tuple(map(type, row)) == _MESSAGE_TYPES else None
    if known is None or (known.number, known.digest) != (stored.reservation, stored.digest):
        raise LedgerTampered(f"ledger: stored message {stored.number} is not the one that was recorded")
    return stored


def _taken_in(state: LedgerState, item: Entry | Problem) -> Problem | None:
    if isinstance(item, Problem):
        return item
    try:
        document = item.document()
    except ValueError:
        return Problem(item.number, "has a body that is not JSON")
    return state.apply(item, document)


def _walk(connection: sqlite3.Connection, state: LedgerState, seen: dict[int, bytes]) -> list[Problem]:
    problems = []
    for item in check(connection.execute(f"{_ENTRIES} ORDER BY number")):
        if problem := _taken_in(state, item):
            problems.append(problem)
        if isinstance(item, Entry):
            seen[item.number] = item.hash
    return problems


def _message_problems(connection: sqlite3.Connection, state: LedgerState) -> list[Problem]:
    """For a log without problems."""
    commits: dict[int, Entry] = {}
    purges: dict[str | None, list[tuple[int, str | None]]] = {}
    for entry in map(Entry._make, connection.execute(f"{_ENTRIES} WHERE kind IN ('commit', 'purge') ORDER BY number")):
        if entry.kind == "commit":
            commits[entry.number] = entry
        else:
            document = entry.document()
            purges.setdefault(document["run"], []).append((entry.number, document["before"]))
    problems = []
    for row in connection.execute(f"{_MESSAGES} ORDER BY number"):
        entry_of_row = commits.pop(row[0], None)
        try:
            if entry_of_row is None or _stored(row, state).key != entry_of_row.key:
                problems.append(Problem(0, "a stored message belongs to no entry"))
        except LedgerTampered:
            problems.append(Problem(row[0], "its stored message is not the one that was recorded"))
    for entry in commits.values():
        run, at = json.loads(entry.key)[0], entry.document()["at"]
        possible = purges.get(run, []) + purges.get(None, [])
        if not any(number > entry.number and (before is None or before > at) for number, before in possible):
            problems.append(Problem(entry.number, "its message is missing, and no purge of it is on record"))
    return problems


class Transaction:
    """One block of ``Ledger.deciding``; no other process writes before the block ends.

    Nothing in it is durable before the end of the block. So nothing that ``commit`` returned may be sent before, and
    no noise may be drawn for a charge that was reserved in the same block.

    Attributes:
        connection: of the ledger's file, for further tables in the same transaction.
    """

    def __init__(self, connection: sqlite3.Connection, state: LedgerState, now: str) -> None:
        self.connection = connection
        self.failed = False
        self._state = state
        self._now = now
        self._reserved: set[int] = set()

    def append(self, kind: str, key: str, document: dict[str, Any]) -> Entry:
        """Append an entry about a run or data set (``key``); its document never contains a value of a row."""
        entry = link(self._state.head, kind=kind, key=key, body=canonical({**document, "at": self._now}))
        self.failed, failed = True, self.failed  # if this raises, the block is undone, even if its caller goes on
        problem = self._state.apply(entry, entry.document())
        if problem is not None:
            raise ChargeRefused(f"ledger: {problem}")
        self.connection.execute(_INSERT_ENTRY, entry)
        self.failed = failed
        return entry

    def set_limit(self, view: View, limit: Limit) -> None:
        if self._state.limit(view) != limit:
            self._state.tally(view, limit)  # raises if earlier charges cannot be counted on it
            self.append("limit", "", {"view": view.to_json(), "limit": limit.to_json()})

    def reserve(self, charge: Charge, *, request: Request, repeatable: bool = False) -> Reservation:
        """Charge for a request before anything is drawn for it; durable when the block ends, and not before.

        Raises BudgetExceeded, UnprovenPart or ChargeRefused if an account cannot pay, or does not accept the event;
        DifferentRequest if the same run, round and kind were asked for with another request; UnfinishedRequest if it
        was charged before, not answered, and is not repeatable; MessagePurged if the stored answer was purged.
        """
        fingerprint = request.fingerprint(charge, self._key())
        known = self._state.requests.get(request.key)
        if known is None:
            self._state.check(charge)
            body: dict[str, Any] = {"charge": charge.to_json(), "fingerprint": fingerprint}
            if repeatable:
                body["repeatable"] = True  # on record, so that no draw with noise is ever taken for a repeatable one
            number = self.append("reserve", request.key, body).number
            self._reserved.add(number)
            return Reservation(number, request, repeatable=repeatable)
        if known.fingerprint != fingerprint:
            raise DifferentRequest(f"{request}: was asked for before with another request; refused", kind=request.kind)
        if known.digest is not None:
            return Reservation(known.number, request, self._answer(request))
        if not (repeatable and known.repeatable):
            raise UnfinishedRequest(
                f"{request}: was charged (entry {known.number}) and no answer was stored; the charge stays spent, "
                "and nothing is drawn for it again"
            )
        return Reservation(known.number, request, repeatable=True)

    def commit(self, reservation: Reservation, message: bytes, *, release: Release[Any] | None = None) -> bytes:
        """Store the answer to a request; returns the stored bytes, to be sent after the block.

        The event of the ``release`` in the message, if there is one, must be the one that was reserved. A draw with
        noise needs a durable charge, so it is not committed in the block that reserved it.
        """
        request, number = reservation.request, reservation.number
        known = self._state.requests.get(request.key)
        if known is None or known.number != number:
            raise ChargeRefused(f"{request}: entry {number} is not a reservation for it")
        if known.repeatable and release is not None:
            raise ChargeRefused(f"{request}: a release contains noise, so its draw is not repeatable")
        if release is not None and release.event != known.charge.costs[0][1]:
            raise ChargeRefused("the release was made by another event than the one that was reserved")
        if number in self._reserved and not known.repeatable:
            raise ChargeRefused(f"{request}: its charge is not on the disk yet, and nothing may be drawn for it before")
        if known.digest is not None:
            answer = self._answer(request)
            if answer != message:
                raise DifferentRequest(
                    f"{request}: another answer is already stored; it is sent again, never drawn again",
                    kind=request.kind,
                )
            return answer
        salt = secrets.token_bytes(_SECRET_BYTES)
        row = (self._state.head.number + 1, number, request.key, request.run, self._now, salt, message)
        body = {"reservation": number, "digest": _digest(salt, message)}
        self.connection.execute("INSERT INTO drawn VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        self.append("commit", request.key, body)
        return self._answer(request)

    def answer(self, charge: Charge, message: bytes, release: Release[Any] | None, *, request: Request) -> bytes:
        charged = self.reserve(charge, request=request, repeatable=True)
        return self.commit(charged, message, release=release) if charged.answer is None else charged.answer

    def _answer(self, request: Request) -> bytes:
        row = self.connection.execute(f"{_MESSAGES} WHERE key = ?", (request.key,)).fetchone()
        if row is None:
            raise MessagePurged(f"{request}: was answered, but the answer was purged")
        return _stored(row, self._state).message

    def _key(self) -> bytes:
        row = self.connection.execute("SELECT value FROM about WHERE name = 'key'").fetchone()
        if row is None:
            raise LedgerUnreadable("ledger: the key of its fingerprints is missing; restore the file from a copy")
        return bytes(row[0])
