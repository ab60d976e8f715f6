"""Real homes with a mailbox between them, which a test can disturb; a clock that stands still until it is told."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

from kill_world import CONSUMER, folder_of, give_target, job_between
from node_world import make_node
from pinned_homes import introduce

from likeset.errors import BadDocument, PostTrouble
from likeset.homes.consumer_home import ConsumerHome, KeptRun, make_consumer_home
from likeset.homes.curator_home import make_curator_home
from likeset.homes.owner_node import OwnerNode
from likeset.ledger.ledger import Ledger
from likeset.ledger.sqlite_file import SqliteFile as SqliteStore
from likeset.protocol.party import CURATOR
from likeset.protocol.wire import Summary
from likeset.run.job import Job
from likeset.run.runs import invite
from likeset.transports.desks import MailDesk, RunProgress, consumer_desk, curator_desk, owner_desk, progress_of
from likeset.transports.posts import Look
from likeset.transports.stores import Listing, StoredFile
from likeset.trust.cards import CardSecret
from likeset.trust.letters import PairKeys, Post

NOON = datetime(2029, 3, 5, 12, tzinfo=UTC)
EXPIRES = "2029-04-04"
RUN = "run-1"


class Crash(BaseException):
    """The process ends here."""


@dataclass
class Clock:
    """Stands still until it is told otherwise."""

    now: datetime = NOON

    def __call__(self) -> datetime:
        return self.now

    def pass_by(self, **time: float) -> None:
        """So much later."""
        self.now += timedelta(**time)


@dataclass
class MemoryStore:
    """A mailbox in this process, whose keeper is the test.

    Attributes:
        files: bytes and time by folder and name; a test changes them as it likes.
        calls: of each kind.
        before: called before a file is written or removed.
        after: and afterwards.
    """

    clock: Clock
    files: dict[str, dict[str, tuple[bytes, datetime]]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    before: Callable[[], None] = lambda: None
    after: Callable[[], None] = lambda: None

    @property
    def address(self) -> str:
        return "memory"

    def list(self, folder: str) -> Listing:
        self.calls.append("list")
        files = self.files.get(folder, {})
        return [StoredFile(name, len(data), at) for name, (data, at) in sorted(files.items())]

    def read(self, folder: str, name: str, *, most_bytes: int) -> bytes:
        self.calls.append("read")
        data = self.files.get(folder, {}).get(name, (b"", NOON))[0]
        if not data or len(data) > most_bytes:
            raise PostTrouble(self.address, "a file is gone, or too large")
        return data

    def write(self, folder: str, name: str, data: bytes) -> None:
        self.calls.append("write")
        self.before()
        self.files.setdefault(folder, {})[name] = data, self.clock()
        self.after()

    def remove(self, folder: str, name: str) -> None:
        self.calls.append("remove")
        self.before()
        self.files.get(folder, {}).pop(name, None)
        self.after()

    def close(self) -> None:
        """Nothing is open."""

    @property
    def count(self) -> int:
        """How many files there are."""
        return sum(map(len, self.files.values()))


@dataclass
class MailHomes:
    """A consumer, a curator and owners, and a run that the consumer has signed.

    Attributes:
        place: of the homes.
        owners: their names.
        clock: of all.
        store: the mailbox.
    """

    place: Path
    owners: tuple[str, ...]
    clock: Clock
    store: MemoryStore
    options: dict[str, Any] = field(default_factory=dict)
    desks: dict[str, MailDesk] = field(default_factory=dict)

    @property
    def parties(self) -> tuple[str, ...]:
        """All of them."""
        return (CONSUMER, CURATOR, *self.owners)

    @property
    def home(self) -> ConsumerHome:
        """The consumer's."""
        return ConsumerHome(folder_of(self.place, CONSUMER))

    @property
    def run(self) -> KeptRun:
        """The run, as the consumer keeps it."""
        return self.home.known(RUN)

    @property
    def progress(self) -> RunProgress:
        """Where the consumer sees it."""
        return progress_of(self.home, self.run)

    @property
    def summary(self) -> Summary:
        """What came of it."""
        return self.run.summary()

    def folder(self, party: str) -> Path:
        """A party's directory."""
        return folder_of(self.place, party)

    def desk(self, party: str) -> MailDesk:
        """A party's desk, which stays until it is dropped."""
        if party not in self.desks:
            folder = self.folder(party)
            if party == CONSUMER:
                self.desks[party] = consumer_desk(folder, self.store, clock=self.clock)
            elif party == CURATOR:
                self.desks[party] = curator_desk(folder, self.store, clock=self.clock, **self.options)
            else:
                self.desks[party] = owner_desk(folder, self.store, clock=self.clock)
        return self.desks[party]

    def drop(self, *parties: str) -> None:
        """Processes end, and their files are closed; all if none is named."""
        for party in parties or tuple(self.desks):
            if party in self.desks:
                self.desks.pop(party).close()

    def look(self, *parties: str) -> Look:
        """Each of them looks, in this order; all if none is named."""
        return Look.all_of([self.desk(party).look() for party in parties or self.parties])

    def settle(self, *parties: str, most: int = 40) -> Look:
        """Rounds of looks until nothing happens any more."""
        looks = []
        for _ in range(most):
            looks.append(self.look(*parties))
            if not looks[-1].something_happened:
                return Look.all_of(looks)
        raise AssertionError(f"something still happens after {most} rounds")

    def approve(self, *owners: str) -> None:
        """Stewards approve, in processes of their own."""
        for owner in owners or self.owners:
            with OwnerNode(self.folder(owner), clock=self.clock) as node:
                verdict = node.approve(RUN, self.run.terms.digest, by="Ada")
                assert verdict.accepted, verdict.reasons

    def deny(self, owner: str) -> None:
        """A steward denies."""
        with OwnerNode(self.folder(owner), clock=self.clock) as node:
            node.deny(RUN, by="Ada", reason="not now")

    def refusals(self, owner: str) -> list[str]:
        """What an owner's audit log says was refused."""
        with OwnerNode(self.folder(owner), clock=self.clock) as node:
            return [entry.document()["reason"] for entry in node.ledger.entries() if entry.kind == "refused"]

    def charges(self) -> dict[str, int]:
        """How often each party has paid, and how many rows owners sent."""
        counts = {}
        for party in (CONSUMER, *self.owners):
            path = self.home.ledger if party == CONSUMER else self.folder(party) / "ledger.sqlite"
            with Ledger(path) as ledger:
                assert ledger.verify(messages=True).ok
                counts[party] = sum(entry.kind == "reserve" for entry in ledger.entries())
        for owner in self.owners:
            with OwnerNode(self.folder(owner), clock=self.clock) as node:
                sent = node.runs.by_name[RUN].sent.values() if RUN in node.runs.by_name else ()
                counts[f"rows of {owner}"] = sum(entry.rows for entry in sent)
        return counts

    def pair(self, writer: str, reader: str) -> PairKeys:
        """What a writer shares with a reader."""
        reader_card = CardSecret.load(self.folder(reader)).card
        return PairKeys.between(CardSecret.load(self.folder(writer)), reader_card)

    def lying(self, writer: str, reader: str) -> dict[str, Post]:
        """What lies between two parties in one direction, opened; without what strangers put there."""
        pair, opened = self.pair(writer, reader), dict[str, Post]()
        for name, (data, _) in self.store.files.get(pair.outgoing_folder, {}).items():
            with suppress(BadDocument):
                opened[name] = pair.unwrap_own(data)
        return opened

    def folder_between(self, writer: str, reader: str) -> dict[str, tuple[bytes, datetime]]:
        """The files of one direction, to be meddled with."""
        return self.store.files.setdefault(self.pair(writer, reader).outgoing_folder, {})


def small_job(place: Path, owners: tuple[str, ...], **wishes: Any) -> Job:
    """Six rows of whoever answers."""
    usual: dict[str, Any] = {"run": RUN, "size": 6, "offer_factor": 4.0, "quorum": 1}
    return job_between(place, owners, **(usual | wishes))


def make_homes(place: Path, owners: tuple[str, ...] = ("a", "b"), **job: Any) -> None:
    """Everybody's directories, and a run that the consumer has signed and not sent yet."""
    room: dict[str, Any] = {"per_run": {"epsilon": 99, "rows": 99}, "total": {"epsilon": 9999, "rows": 9999}}
    curator = make_curator_home(folder_of(place, CURATOR))
    for seed, name in enumerate(owners):
        make_node(place, name, seed=seed, runs_per_month=99, **room)
    curator.add_schema(place / "schema.yaml")
    home = make_consumer_home(folder_of(place, CONSUMER), name=CONSUMER)
    introduce([folder_of(place, name) for name in owners], curator=curator.folder, consumer=home.folder)
    give_target(home, place)
    run = invite(home, small_job(place, owners, **job), expires=EXPIRES)
    run.keep_travel("memory", decide_by=NOON + timedelta(days=7), now=NOON)


_templates: dict[str, Path] = {}


def homes_in(place: Path, owners: tuple[str, ...] = ("a", "b"), **job: Any) -> MailHomes:
    """Homes of such a run; made once in each process of tests, and copied."""
    key = repr((owners, sorted(job.items())))
    if key not in _templates:
        import atexit
        import tempfile

        folder = tempfile.mkdtemp(prefix="mail-homes-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        make_homes(Path(folder), owners, **job)
        _templates[key] = Path(folder)
    shutil.copytree(_templates[key], place / "homes")
    clock = Clock()
    return MailHomes(place / "homes", owners, clock, MemoryStore(clock))


def copy_of(homes: MailHomes, place: Path) -> MailHomes:
    """The same homes and mailbox elsewhere, as they are now, with new processes; those of the first end."""
    homes.drop()
    shutil.copytree(homes.place, place / "homes")
    clock = Clock(homes.clock.now)
    files = {folder: dict(posts) for folder, posts in homes.store.files.items()}
    return MailHomes(place / "homes", homes.owners, clock, MemoryStore(clock, files))


@dataclass
class Steps:
    """Counts everything durable that is done, in files of a home or of the mailbox, and stops at one of them."""

    stop_at: int = 0
    done: int = 0

    def __call__(self) -> None:
        self.done += 1
        if self.done == self.stop_at:
            raise Crash


@contextmanager
def counted(homes: MailHomes, stop_at: int = 0) -> Iterator[Steps]:
    """Two steps for each change: before it, and after it."""
    steps, writing = Steps(stop_at), SqliteStore.writing

    @contextmanager
    def watched(self: SqliteStore) -> Iterator[Any]:
        steps()
        with writing(self) as connection:
            yield connection
        steps()

    homes.store.before = homes.store.after = steps
    try:
        with patch.object(SqliteStore, "writing", watched):
            yield steps
    finally:
        homes.store.before = homes.store.after = lambda: None


def posts_of(lying: Mapping[str, Post]) -> list[str]:
    """The kinds of posts, in order."""
    return sorted(post.kind for post in lying.values())
