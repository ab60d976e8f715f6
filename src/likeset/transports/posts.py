"""Posts in a mailbox: what a home reads, leaves and remembers there."""

import contextlib
import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Literal, Protocol, Self

from likeset.errors import BadDocument, LedgerUnavailable, PostTrouble
from likeset.homes.mail import LARGEST_LETTER, OUT, Identity, check_remembered, utc_now
from likeset.ledger.sqlite_file import Layout, SqliteFile
from likeset.text import harmless
from likeset.transports.stores import Store, StoredFile
from likeset.trust.cards import Card
from likeset.trust.letters import PairKeys, Post, PostKind, file_name, is_post_size, size_of_post

NOTHING_NEW = "nothing new"


class Ending(StrEnum):
    """How a run ended; its value is what people read."""

    DONE = "done"
    """The consumer has its summary."""

    CANCELLED = "cancelled"
    QUORUM_MISSED = "quorum missed"
    TERMS_EXPIRED = "terms expired"
    NOT_CURATED = "not curated"
    """The curator lacks something public that the terms name."""

    UNFINISHED = "unfinished"
    """The curator has a charge without a draw, and draws nothing again."""

    NOT_COMPUTED = "not computed"
    """In a split run: the compute parties did not come to an end together."""

    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Look:
    """What came of one look.

    Attributes:
        taken: posts that came and were dealt with, once and for all.
        left: posts that are there and cannot be dealt with yet; the next look tries again.
        sent: posts that were written.
        put_back: of these, posts that somebody else had removed.
        strangers: files that nobody whom this home knows wrote; they are left alone.
        refused: of those taken, posts that were refused; an owner's audit log says why.
        notes: what a person should know, in words; each stands in one look only, until it happens again.
        next_deadline: when this home must look again although nothing comes; None if there is no such time.
    """

    taken: int = 0
    left: int = 0
    sent: int = 0
    put_back: int = 0
    strangers: int = 0
    refused: int = 0
    notes: tuple[str, ...] = ()
    next_deadline: datetime | None = None

    @property
    def something_happened(self) -> bool:
        """Whether anything came or went: then more may follow soon."""
        return bool(self.taken or self.sent)

    @property
    def words(self) -> str:
        if not (self.taken or self.sent or self.left or self.strangers):
            return NOTHING_NEW
        words = [f"{_letters(self.taken)} came", f"{_letters(self.sent)} went"]
        words += [f"{self.refused} of those that came refused"] if self.refused else []
        words += [f"{_letters(self.left)} left for later"] if self.left else []
        words += [f"{self.strangers} by strangers left alone"] if self.strangers else []
        return ", ".join(words)

    @classmethod
    def all_of(cls, looks: Iterable["Look"]) -> "Look":
        listed = list(looks)
        deadlines = [look.next_deadline for look in listed if look.next_deadline is not None]
        return cls(
            taken=sum(look.taken for look in listed),
            left=sum(look.left for look in listed),
            sent=sum(look.sent for look in listed),
            put_back=sum(look.put_back for look in listed),
            strangers=sum(look.strangers for look in listed),
            refused=sum(look.refused for look in listed),
            notes=tuple(note for look in listed for note in look.notes),
            next_deadline=min(deadlines, default=None),
        )


def _letters(count: int) -> str:
    return f"{count} letter{'' if count == 1 else 's'}"


class Desk(Protocol):
    """A home at one mailbox. One thread at a time; several processes of one home take turns."""

    @property
    def is_live(self) -> bool: ...

    def look(self) -> Look:
        """Take what came, answer it, and put right what is missing.

        Whatever stops it, the next look goes on where it was: nothing is charged twice, and what was not written yet
        is written then.

        Raises:
            MailboxTrouble: the mailbox cannot be used now; try again later.
            HomeRestored: this home was put back from an old copy, and does nothing more.
            LikesetError: this home cannot be used: its keys, its files, its settings.
        """

    def close(self) -> None:
        """Let go of the home's files; the store is whoever's who opened it."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


MEMORY_FILE = "mail.sqlite"
_LOCK_FILE = "mail.lock"
_PATIENCE = 30.0  # seconds: another process of this home looks at a mailbox
_LAYOUT = Layout(
    what="memory of mailboxes",
    application_id=0x4C_53_4D_31,  # "LSM1"
    version=1,
    statements=(
        """CREATE TABLE taken (
            mailbox TEXT, folder TEXT, name TEXT, terms BLOB NOT NULL, fate TEXT NOT NULL, at REAL NOT NULL,
            PRIMARY KEY (mailbox, folder, name)
        ) WITHOUT ROWID""",
        """CREATE TABLE posted (
            mailbox TEXT, folder TEXT, name TEXT, terms BLOB NOT NULL, kind TEXT NOT NULL, party TEXT NOT NULL,
            number INTEGER NOT NULL, paper BLOB NOT NULL, document BLOB, at REAL NOT NULL, put_back INTEGER NOT NULL,
            gone INTEGER NOT NULL, PRIMARY KEY (mailbox, folder, name)
        ) WITHOUT ROWID""",
        "CREATE INDEX posted_by_terms ON posted (mailbox, terms, paper)",
        """CREATE TABLE runs (
            mailbox TEXT, terms BLOB, invitation BLOB NOT NULL, ends REAL NOT NULL, ended TEXT NOT NULL,
            detail TEXT NOT NULL, due REAL, applied INTEGER NOT NULL, closed INTEGER NOT NULL,
            PRIMARY KEY (mailbox, terms)
        ) WITHOUT ROWID""",
        """CREATE TABLE answers (
            mailbox TEXT, terms BLOB, party TEXT, word TEXT NOT NULL, document BLOB NOT NULL,
            PRIMARY KEY (mailbox, terms, party)
        ) WITHOUT ROWID""",
        """CREATE TABLE steps (
            number INTEGER PRIMARY KEY AUTOINCREMENT, mailbox TEXT NOT NULL, terms BLOB NOT NULL, what TEXT NOT NULL,
            party TEXT NOT NULL, folder TEXT NOT NULL, name TEXT NOT NULL
        )""",
        "CREATE INDEX steps_by_terms ON steps (mailbox, terms)",
    ),
)

Fate = Literal["heard", "refused", "stranger"]
StepKind = Literal["hears", "gives up"]


@dataclass(frozen=True, slots=True)
class PostedFile:
    """A file that this home left.

    Attributes:
        folder: where.
        name: of the file.
        terms: that it belongs to, by their digest.
        kind: of the post.
        party: for whom it is, by the name in the terms.
        number: of the letter, where it is one of this home's own; -1 if not.
        paper: the digest of the letter, or of the document.
        document: itself, where the letter book does not have it.
        at: when it was left.
        put_back: how often somebody else had removed it.
        gone: whether this home took it away again.
    """

    folder: str
    name: str
    terms: bytes
    kind: PostKind
    party: str
    number: int
    paper: bytes
    document: bytes | None = field(repr=False)
    at: float
    put_back: int = 0
    gone: bool = False


@dataclass(frozen=True, slots=True)
class KnownRun:
    """A run that travels by the mailbox.

    Attributes:
        terms: by their digest.
        invitation: the terms as the consumer signed them.
        ends: when the terms end.
        ended: how the run ended here, in a word; empty if it has not.
        detail: what else is said of that.
        due: when something must be done although nothing comes.
        applied: the last step of a curator that was carried to its end.
        closed: whether all was said that there is to say after the end.
    """

    terms: bytes
    invitation: bytes = field(repr=False)
    ends: datetime
    ended: str = ""
    detail: str = ""
    due: datetime | None = None
    applied: int = 0
    closed: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What somebody said last about taking part: a word, and perhaps the document that goes with it."""

    word: str
    document: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class RunStep:
    """What a curator did in a run, in order.

    Attributes:
        number: counts all steps of the home.
        what: whether it heard a letter or gave somebody up.
        party: whose letter, or whom.
        folder: where the letter lies; empty if it is none.
        name: of its file.
    """

    number: int
    what: StepKind
    party: str
    folder: str = ""
    name: str = ""


class MailMemory:
    """What a home remembers of one mailbox.

    Args:
        folder: the home.
        mailbox: the mailbox's address.
        clock: tells the time.
        read_only: to look at it alone.
    """

    def __init__(
        self, folder: Path, mailbox: str, *, clock: Callable[[], datetime] = utc_now, read_only: bool = False
    ) -> None:
        self._store = SqliteFile(folder / MEMORY_FILE, layout=_LAYOUT, read_only=read_only)
        self._lock = folder / _LOCK_FILE
        self._mailbox = mailbox
        self._clock = clock

    def close(self) -> None:
        self._store.close()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """One process of this home at a time; a lock that ends with the process that holds it."""
        with closing(sqlite3.connect(self._lock, isolation_level=None, timeout=_PATIENCE)) as connection:
            self._lock.chmod(0o600)
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.Error:
                reason = f"{self._lock}: another process of this home has looked at mailboxes for {_PATIENCE:g} s"
                raise LedgerUnavailable(f"{reason}; wait for it, or stop it") from None
            yield

    # What came.

    def taken(self, folder: str) -> dict[str, Fate]:
        """What became of the files of a folder that were dealt with, by name."""
        return dict(self._rows("SELECT name, fate FROM taken WHERE mailbox = ? AND folder = ?", folder))

    def take(self, folder: str, name: str, *, terms: bytes, fate: Fate) -> None:
        self._write("INSERT OR REPLACE INTO taken VALUES (?, ?, ?, ?, ?, ?)", folder, name, terms, fate, self._now())

    def forget_files(self, folder: str, names: Iterable[str]) -> None:
        with self._store.writing() as connection:
            connection.executemany(
                "DELETE FROM taken WHERE mailbox = ? AND folder = ? AND name = ?",
                [(self._mailbox, folder, name) for name in names],
            )

    def count_strangers(self, folder: str) -> int:
        query = "SELECT count(*) FROM taken WHERE mailbox = ? AND folder = ? AND fate = 'stranger'"
        return int(self._rows(query, folder)[0][0])

    # What was left.

    def posted(
        self,
        *,
        folder: str | None = None,
        terms: bytes | None = None,
        kind: PostKind | None = None,
        party: str | None = None,
    ) -> list[PostedFile]:
        """Files that this home left and has not taken away: of what is named, or all."""
        columns = "folder, name, terms, kind, party, number, paper, document, at, put_back, gone"
        query = f"SELECT {columns} FROM posted WHERE mailbox = ? AND gone = 0"  # noqa: S608 (our own words only)
        chosen = {"folder": folder, "terms": terms, "kind": kind, "party": party}
        given = {column: value for column, value in chosen.items() if value is not None}
        query += "".join(f" AND {column} = ?" for column in given)
        return [PostedFile(*row) for row in self._rows(query, *given.values())]

    def was_posted(self, folder: str, name: str) -> bool:
        """Whether this home ever left that file."""
        return bool(self._rows("SELECT 1 FROM posted WHERE mailbox = ? AND folder = ? AND name = ?", folder, name))

    def papers(self, terms: bytes) -> frozenset[bytes]:
        """All that was ever left under terms, by digest."""
        query = "SELECT paper FROM posted WHERE mailbox = ? AND terms = ?"
        return frozenset(bytes(paper) for (paper,) in self._rows(query, terms))

    def post(self, file: PostedFile) -> None:
        row = (file.folder, file.name, file.terms, file.kind, file.party, file.number, file.paper, file.document)
        self._write(
            f"INSERT OR REPLACE INTO posted VALUES ({', '.join('?' * 12)})",  # noqa: S608
            *row,
            file.at,
            file.put_back,
            0,
        )

    def unpost(self, folder: str, name: str) -> None:
        """Remember that this home takes a file away: said before it is done, so that nobody puts it back."""
        self._write("UPDATE posted SET gone = 1 WHERE mailbox = ? AND folder = ? AND name = ?", folder, name)

    def put_back(self, folder: str, name: str) -> None:
        """Remember that somebody else removed a file, which is there again."""
        self._write(
            "UPDATE posted SET put_back = put_back + 1 WHERE mailbox = ? AND folder = ? AND name = ?", folder, name
        )

    # Runs.

    def add_run(self, terms: bytes, *, invitation: bytes, ends: datetime) -> None:
        self._write(
            "INSERT OR IGNORE INTO runs VALUES (?, ?, ?, ?, '', '', NULL, 0, 0)", terms, invitation, ends.timestamp()
        )

    def runs(self) -> list[KnownRun]:
        query = "SELECT terms, invitation, ends, ended, detail, due, applied, closed FROM runs WHERE mailbox = ?"
        return [
            KnownRun(terms, invitation, _time(ends), ended, detail, _maybe(due), applied, bool(closed))
            for terms, invitation, ends, ended, detail, due, applied, closed in self._rows(query)
        ]

    def end_run(self, terms: bytes, word: str, detail: str = "") -> None:
        query = "UPDATE runs SET ended = ?2, detail = ?3 WHERE mailbox = ?1 AND terms = ?4 AND ended = ''"
        self._write(query, word, detail, terms)

    def close_run(self, terms: bytes) -> None:
        self._write("UPDATE runs SET closed = 1 WHERE mailbox = ? AND terms = ?", terms)

    def set_due(self, terms: bytes, due: datetime | None) -> None:
        """When something must be done although nothing comes."""
        stamp = None if due is None else due.timestamp()
        self._write("UPDATE runs SET due = ?2 WHERE mailbox = ?1 AND terms = ?3 AND due IS NOT ?2", stamp, terms)

    def forget_run(self, terms: bytes) -> None:
        with self._store.writing() as connection:
            for table in ("runs", "answers", "steps", "posted", "taken"):
                connection.execute(
                    f"DELETE FROM {table} WHERE mailbox = ? AND terms = ?",  # noqa: S608 (our own words only)
                    (self._mailbox, terms),
                )

    def answers(self, terms: bytes) -> dict[str, Answer]:
        """What was said last about taking part under terms, by who said it."""
        query = "SELECT party, word, document FROM answers WHERE mailbox = ? AND terms = ?"
        return {party: Answer(word, document) for party, word, document in self._rows(query, terms)}

    def answer_of(self, terms: bytes, party: str) -> Answer | None:
        """What somebody said last about taking part under terms; None if nothing."""
        query = "SELECT word, document FROM answers WHERE mailbox = ? AND terms = ? AND party = ?"
        return next((Answer(word, document) for word, document in self._rows(query, terms, party)), None)

    def answer(self, terms: bytes, party: str, answer: Answer) -> None:
        """Remember what somebody says about taking part."""
        self._write("INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?)", terms, party, answer.word, answer.document)

    # What a curator did.

    def steps(self, terms: bytes, *, after: int = 0) -> list[RunStep]:
        query = (
            "SELECT number, what, party, folder, name FROM steps WHERE mailbox = ? AND terms = ? AND number > ? "
            "ORDER BY number"
        )
        return [RunStep(*row) for row in self._rows(query, terms, after)]

    def add_step(self, terms: bytes, what: StepKind, party: str, *, folder: str = "", name: str = "") -> RunStep:
        """Remember what is about to be done, and that the run is due; a letter that is heard is not taken again."""
        with self._store.writing() as connection:
            number = connection.execute(
                "INSERT INTO steps (mailbox, terms, what, party, folder, name) VALUES (?, ?, ?, ?, ?, ?)",
                (self._mailbox, terms, what, party, folder, name),
            ).lastrowid
            connection.execute(
                "UPDATE runs SET due = ? WHERE mailbox = ? AND terms = ?", (self._now(), self._mailbox, terms)
            )
            if name:
                connection.execute(
                    "INSERT OR REPLACE INTO taken VALUES (?, ?, ?, ?, 'heard', ?)",
                    (self._mailbox, folder, name, terms, self._now()),
                )
        return RunStep(int(number or 0), what, party, folder, name)

    def drop_step(self, number: int) -> None:
        """A letter that was heard was refused: it is as if it had not come, and is not needed again."""
        self._write("DELETE FROM steps WHERE mailbox = ? AND number = ?", number)

    def applied(self, terms: bytes) -> int:
        """The last step that was carried to its end."""
        rows = self._rows("SELECT applied FROM runs WHERE mailbox = ? AND terms = ?", terms)
        return int(rows[0][0]) if rows else 0

    def apply(self, terms: bytes, number: int) -> None:
        self._write("UPDATE runs SET applied = max(applied, ?2) WHERE mailbox = ?1 AND terms = ?3", number, terms)

    def _rows(self, query: str, *values: object) -> list[Any]:
        with self._store.reading() as connection:
            return connection.execute(query, (self._mailbox, *values)).fetchall()

    def _write(self, statement: str, *values: object) -> None:
        with self._store.writing() as connection:
            connection.execute(statement, (self._mailbox, *values))

    def _now(self) -> float:
        return self._clock().timestamp()


def _time(stamp: float) -> datetime:
    return datetime.fromtimestamp(stamp, UTC)


def _maybe(stamp: float | None) -> datetime | None:
    return None if stamp is None else _time(stamp)


BEFORE_END: Final = timedelta(hours=24)
"""Nobody is waited for during the last day of the terms, or the last quarter of what was left of them when the run
began: with the terms their keys go, and nobody could read a summary or a receipt any more."""

_MOST_BYTES = 1 << 18
_MOST_DETAIL = 300


@dataclass(frozen=True, slots=True)
class ProgressWords:
    """Whom a curator waits for.

    Attributes:
        waiting_for: owners, in the order of their names.
        until: when it gives the first of them up.
    """

    waiting_for: tuple[str, ...]
    until: datetime | None

    def to_bytes(self) -> bytes:
        until = None if self.until is None else self.until.isoformat()
        return json.dumps({"until": until, "waiting_for": self.waiting_for}).encode("ascii")

    @classmethod
    def read(cls, data: bytes) -> Self | None:
        document = _document(data)
        match document:
            case {"waiting_for": [*names], "until": str() | None as until} if all(isinstance(n, str) for n in names):
                time = _time_in(until)
                return None if until is not None and time is None else cls(tuple(names), time)
            case _:
                return None


@dataclass(frozen=True, slots=True)
class EndingWords:
    """How a run ended at the curator, in fixed words.

    Attributes:
        ended: how.
        detail: what the curator lacks, in words; empty where the ending says all.
    """

    ended: Ending
    detail: str = ""

    def to_bytes(self) -> bytes:
        return json.dumps({"detail": self.detail, "ended": self.ended.value}).encode("ascii")

    @classmethod
    def read(cls, data: bytes) -> Self | None:
        match _document(data):
            case {"ended": str() as ended, "detail": str() as detail} if ended in {known.value for known in Ending}:
                return cls(Ending(ended), harmless(detail, most=_MOST_DETAIL))
            case _:
                return None


def last_time(ends: datetime, began: datetime) -> datetime:
    """What comes of a run must reach everybody before the terms end, and with them the keys."""
    return ends - min(BEFORE_END, (ends - began) / 4)


def _document(data: bytes) -> Any:
    try:
        return json.loads(data) if len(data) <= _MOST_BYTES else None
    except (ValueError, RecursionError):
        return None


def _time_in(text: str | None) -> datetime | None:
    try:
        time = None if text is None else datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time is None or time.tzinfo is not None else None


MOST_UNREAD = 512
"""Posts that one sender may leave unread; what is newer is left alone until those are read."""

MOST_OPENED = 128
"""Posts of one sender that one look opens."""

OLDEST = timedelta(days=3650)
"""Nothing older is opened: no terms last so long."""

_MOST_STRANGERS = 10_000  # files of strangers that are remembered in one folder
_MOST_OWN_OPENED = 16  # files in this home's own folder that it does not remember, in one look
_MOST_PUT_BACK = 3

Wanted = Callable[[PostKind, bytes], bool]
"""Whether a post of this kind, under the terms of this digest, can be dealt with now."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """A post that lies there.

    Attributes:
        folder: where.
        name: of its file.
        post: itself.
    """

    folder: str
    name: str
    post: Post


@dataclass
class Tally:
    """What happens during one look."""

    taken: int = 0
    left: int = 0
    sent: int = 0
    put_back: int = 0
    strangers: int = 0
    refused: int = 0
    notes: list[str] = field(default_factory=list)

    def look(self, next_deadline: datetime | None) -> Look:
        counts = (self.taken, self.left, self.sent, self.put_back, self.strangers, self.refused)
        return Look(*counts, tuple(self.notes), next_deadline)


@dataclass(frozen=True, slots=True)
class _Label:
    """What is known of a file that was opened and left."""

    kind: PostKind
    terms: bytes


@dataclass(eq=False)
class Postman:
    """Reads and writes posts for a home.

    Args:
        identity: the home's.
        store: the mailbox.
        memory: what the home remembers of it.
        clock: tells the time.

    Attributes:
        tally: of the look that is under way.
    """

    identity: Identity
    store: Store
    memory: MailMemory
    clock: Callable[[], datetime]
    tally: Tally = field(default_factory=Tally, init=False)
    _labels: dict[tuple[str, str], _Label] = field(default_factory=dict, init=False)
    _halves: dict[tuple[str, str], StoredFile] = field(default_factory=dict, init=False)
    _said: set[str] = field(default_factory=set, init=False)
    _checked: set[str] = field(default_factory=set, init=False)  # outgoing folders, once in each process

    def pair(self, card: Card) -> PairKeys:
        return PairKeys.between(self.identity.secret, card)

    def note(self, words: str) -> None:
        if words not in self._said:
            self._said.add(words)
            self.tally.notes.append(words)

    # What came.

    def arrivals(self, card: Card, *, most_bytes: int, in_one_look: int, wanted: Wanted) -> Iterator[Arrived]:
        """The posts of somebody that can be dealt with now, the oldest first.

        Args:
            card: whose.
            most_bytes: the longest document that may come from there.
            in_one_look: how many bytes of files one look reads; the rest is left for the next one.
            wanted: asked of each that opens; the others are left.
        """
        folder = self.pair(card).incoming_folder
        opened, left = 0, in_one_look
        for file in self._unread(card, folder, size_of_post(most_bytes)):
            label = self._labels.get((folder, file.name))
            is_half = self._halves.get((folder, file.name)) == file
            if is_half or (label is not None and not wanted(label.kind, label.terms)):
                self.tally.left += 1
                continue
            left -= file.size  # also of those after it: letters are heard in their order
            if left < 0 or opened == MOST_OPENED:
                self.tally.left += 1
                continue
            opened += 1
            post = self._opened(card, folder, file)
            if post is None:
                continue
            if wanted(post.kind, post.terms):
                yield Arrived(folder, file.name, post)
            else:
                self._labels[folder, file.name] = _Label(post.kind, post.terms)
                self.tally.left += 1

    def has_invalid_files(self, card: Card) -> bool:
        """Whether somebody's folder has files that are no posts of theirs, as far as was looked."""
        folder = self.pair(card).incoming_folder
        return any(place == folder for place, _ in self._halves) or self.memory.count_strangers(folder) > 0

    def _unread(self, card: Card, folder: str, most_bytes: int) -> list[StoredFile]:
        try:
            listed = self.store.list(folder)
        except PostTrouble as error:  # whoever spoils its own folder keeps no other from being heard
            self.note(f"nothing from {card.name} can be read: {error}")
            return []
        taken = self.memory.taken(folder) if listed else {}
        self._forget_gone(folder, taken, listed)
        oldest, unread = self.clock() - OLDEST, list[StoredFile]()
        large = old = 0
        for file in listed:
            if taken.get(file.name) == "stranger":
                self.tally.strangers += 1
            elif file.name in taken:
                continue
            elif file.size > most_bytes:
                large += 1
            elif file.modified < oldest:
                old += 1
            elif not is_post_size(file.size):
                self.tally.strangers += 1
            else:
                unread.append(file)
        self._count(card, large, "larger than anything that may come from there")
        self._count(card, old, f"older than {OLDEST.days} days")
        unread.sort(key=lambda file: (file.modified, file.name))
        self._count(card, len(unread) - MOST_UNREAD, f"more than the {MOST_UNREAD} that one sender may leave unread")
        return unread[:MOST_UNREAD]

    def _forget_gone(self, folder: str, taken: dict[str, Fate], listed: Iterable[StoredFile]) -> None:
        """Of what was refused only what still lies there is remembered: a flood has an end, and so has this memory."""
        names = {file.name for file in listed}
        self._halves = {place: half for place, half in self._halves.items() if place[0] != folder or place[1] in names}
        gone = {name for name, fate in taken.items() if fate != "heard"} - names
        if gone:
            self.memory.forget_files(folder, gone)

    def _count(self, card: Card, count: int, what: str) -> None:
        if count > 0:
            self.tally.left += count
            files = "a file" if count == 1 else f"{count} files"
            self.note(f"{files} from {card.name}: {what}; left alone")

    def _opened(self, card: Card, folder: str, file: StoredFile) -> Post | None:
        try:
            data = self.store.read(folder, file.name, most_bytes=file.size)
        except PostTrouble:
            self.tally.left += 1  # it is gone, or not to be read now
            return None
        if file_name(data) != file.name:
            self._halves[folder, file.name] = file
            self.tally.left += 1
            self.note(f"half a file from {card.name}, or one that was changed; it is read again when it changes")
            return None
        self._halves.pop((folder, file.name), None)
        try:
            return self.pair(card).unwrap(data)
        except BadDocument:
            self.tally.strangers += 1
            if self.memory.count_strangers(folder) < _MOST_STRANGERS:
                self.memory.take(folder, file.name, terms=b"", fate="stranger")
            self.note(f"files of strangers lie where only {card.name} should write; they are left alone")
            return None

    def read_again(self, card: Card, name: str, *, most_bytes: int) -> Post | None:
        folder = self.pair(card).incoming_folder
        try:
            data = self.store.read(folder, name, most_bytes=size_of_post(most_bytes))
            return self.pair(card).unwrap(data) if file_name(data) == name else None
        except (PostTrouble, BadDocument):
            return None

    def take(self, arrived: Arrived, fate: Fate) -> None:
        self.memory.take(arrived.folder, arrived.name, terms=arrived.post.terms, fate=fate)
        self._labels.pop((arrived.folder, arrived.name), None)
        self.tally.taken += 1
        self.tally.refused += fate == "refused"

    # What is left.

    def send(self, card: Card, post: Post, *, party: str, number: int = -1, paper: bytes = b"") -> bool:
        """Leave a post, once; returns whether it was not left before.

        Args:
            card: for whom.
            post: what.
            party: for whom, by the name in the terms.
            number: of a letter that this home's book keeps.
            paper: its digest.
        """
        folder, data = self.pair(card).outgoing_folder, self.pair(card).wrap(post)
        name = file_name(data)
        if self.memory.was_posted(folder, name):
            return False
        self.store.write(folder, name, data)
        document = None if number >= 0 else post.document
        digest = paper or hashlib.sha256(post.document).digest()
        place = (folder, name, post.terms, post.kind, party, number, digest, document)
        self.memory.post(PostedFile(*place, self.clock().timestamp()))
        self.tally.sent += 1
        return True

    def remove(self, files: Iterable[PostedFile]) -> None:
        """Take away what this home left."""
        for file in files:
            self.memory.unpost(file.folder, file.name)
            with contextlib.suppress(PostTrouble):  # removed when the folder can be used again
                self.store.remove(file.folder, file.name)

    def look_after(self, card: Card) -> None:
        """See that what this home left for somebody is still there, and put back what somebody else removed.

        Raises:
            HomeRestored: something of this home's own lies there that it does not remember.
        """
        try:
            self._look_after(card)
        except PostTrouble as error:
            self.note(f"what was left for {card.name} cannot be looked after: {error}")

    def _look_after(self, card: Card) -> None:
        folder = self.pair(card).outgoing_folder
        posted = {file.name: file for file in self.memory.posted(folder=folder)}
        if not posted and folder in self._checked:
            return
        listed = {file.name: file for file in self.store.list(folder)}
        self._check_own(card, folder, [file for name, file in listed.items() if name not in posted])
        self._checked.add(folder)
        missing = [file for name, file in posted.items() if name not in listed]
        if missing:
            self._put_back(card, missing)

    def _put_back(self, card: Card, missing: list[PostedFile]) -> None:
        count = 0
        for file in missing:
            document = self._document(file)
            if document is None:
                self.memory.unpost(file.folder, file.name)  # the run is settled: nobody needs it any more
            elif file.put_back >= _MOST_PUT_BACK:
                self.note(
                    f"posts to {card.name} were removed {_MOST_PUT_BACK} times by somebody else; they are not put "
                    "back any more: ask whoever keeps the mailbox"
                )
            else:
                data = self.pair(card).wrap(Post(file.kind, file.terms, document))
                self.store.write(file.folder, file.name, data)
                self.memory.put_back(file.folder, file.name)
                count += 1
        if count:
            self.tally.sent += count
            self.tally.put_back += count
            posts = "a post was" if count == 1 else f"{count} posts were"
            self.tally.notes.append(f"to {card.name}: {posts} removed from the mailbox by somebody else; put back")

    def _document(self, file: PostedFile) -> bytes | None:
        if file.number < 0:
            return file.document
        return self.identity.book.letter_data(file.terms, file.party, OUT, file.number)

    def _check_own(self, card: Card, folder: str, files: Iterable[StoredFile]) -> None:
        """What lies where this home writes and is not known to be there: is it this home's own?"""
        taken, opened, left = self.memory.taken(folder), 0, size_of_post(LARGEST_LETTER)
        for file in files:
            if file.name in taken or not is_post_size(file.size) or opened == _MOST_OWN_OPENED:
                continue
            if file.size > left:
                continue  # this home leaves nothing that large, or enough was read in this look
            if self.memory.was_posted(folder, file.name):
                self.store.remove(folder, file.name)  # it was taken away, and somebody brought it back
                continue
            opened, left = opened + 1, left - file.size
            try:
                data = self.store.read(folder, file.name, most_bytes=file.size)
                post = self.pair(card).unwrap_own(data)
            except PostTrouble:
                continue
            except BadDocument:
                self.memory.take(folder, file.name, terms=b"", fate="stranger")
                continue
            check_remembered(self.identity, post.document)
            self.memory.take(folder, file.name, terms=post.terms, fate="heard")
