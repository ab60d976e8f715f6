"""A whole market in one process, decided by one seed: homes, mailboxes, clocks, what people do, what goes wrong."""

import io
import random
import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import home_world as hw
import invariants
import machine
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from machine import Killed
from plan import (
    ANSWER_DAYS,
    CONSUMERS,
    END_DAYS,
    OWN_CURATOR,
    OWNERS,
    PROTOCOLS,
    ROLES,
    Act,
    Event,
    File,
    Mailbox,
    RunShape,
    Shape,
)
from shared_run_world import clear_picks
from split_homes import written_slots

import faults
from likeset.errors import HomeRestored, InvalidArgument, LikesetError, PartyFailed, PostTrouble
from likeset.geometry.selection import Selection
from likeset.homes.compute import Computations, ComputeFolder, ComputeStatus
from likeset.homes.consumer import Consumer
from likeset.homes.curator import Curator
from likeset.homes.home import CURATOR_FOLDER, Home, make_home
from likeset.homes.mail import Mail
from likeset.homes.owner import open_owner
from likeset.homes.troubles import LONGEST_PAUSE
from likeset.ledger.budget import Limit
from likeset.privacy.events import View
from likeset.protocol.party import CURATOR
from likeset.protocol.split import ComputeInputs, OpenedSlots
from likeset.protocol.terms import WITNESS, Terms
from likeset.split.engine.agreement import Disagreement, Statement, keepers
from likeset.split.host import OpeningFile
from likeset.split.links import TunnelPeer
from likeset.transports.stores import GONE, Listing, Store, StoredFile
from likeset.transports.sync import Sync, Synced, opened_syncs, sync_once
from likeset.trust.cards import CardSecret, SealingSecret
from likeset.trust.letters import Way, pair_of
from likeset.trust.shares import COMPUTE_ROLES

TEMPLATE = "simulated market"

# Mailboxes.


@dataclass
class SimStore(Store):
    """What one home sees of a mailbox in memory."""

    market: "Market"
    box: Mailbox
    who: str  # the process that uses it

    @property
    def address(self) -> str:
        return self.box.address

    def _list(self, folder: str) -> Listing:
        market, act = self.market, self.market.act
        writer = market.ways[folder][0] if folder in market.ways else ""
        kind = " own" if writer and market.process_of(writer) == self.who else "" if writer else " clock"
        market.effect(f"store list{kind}")
        there = sorted(self.box.folders[folder].items(), key=lambda file: file[1].written)
        files = [
            StoredFile(name, len(file.data), file.written)
            for name, file in there
            if file.seen <= market.step or file.writer == self.who
        ]
        # The proof does not cover a mailbox that hides from a restored home what it wrote.
        lies = act is not None and writer and self.who not in market.book.restored
        return Listing(faults.listed(files, act.fault, act.coins) if lies and act is not None else files)

    def _read(self, folder: str, name: str, most_bytes: int) -> bytes:
        act = self.market.act
        self.market.effect("store read")
        file = self.box.folders[folder].get(name)
        if file is None or len(file.data) > most_bytes:
            raise PostTrouble(self.address, GONE)
        is_torn = act is not None and act.fault == "torn" and self.who not in self.market.book.restored
        return file.data[: act.coins.randrange(len(file.data))] if is_torn and act is not None else file.data

    def _write(self, folder: str, name: str, data: bytes) -> None:
        market = self.market
        market.effect("store write")
        way = market.ways.get(folder)
        if way is not None:
            with market.unobserved():
                market.watch.posted(self.box, self.who, way, data)
        is_late = way is not None and market.act is not None and market.may_be_late
        seen = market.step + (market.coins_of(folder).randrange(20) if is_late else 0)
        market.tick += 1
        written = market.now + timedelta(microseconds=market.tick)
        self.box.folders[folder][name] = File(data, written, seen, self.who)

    def _remove(self, folder: str, name: str) -> None:
        self.market.effect("store remove")
        gone = self.box.folders[folder].pop(name, None)
        if gone is not None and folder in self.market.ways:
            self.market.removed.append((self.box, folder, name, gone))

    def _known_trouble(self, error: Exception) -> None:  # noqa: ARG002
        return None


# The split engine.


@dataclass
class Meeting:
    """Where the three parties of a split run put their shares together, by the engine's rules on what was opened."""

    here: dict[int, tuple["PlainComputations", ComputeInputs, bytes]] = field(default_factory=dict)
    results: dict[int, bytes] = field(default_factory=dict)  # what each has to store, by rank
    stored: set[int] = field(default_factory=set)
    failure: str = ""
    was_given: bool = False  # whether the consumer ever had its picks

    def leave(self, party: "PlainComputations") -> None:
        if any(each is party for each, _, _ in self.here.values()):
            self.here = {rank: each for rank, each in self.here.items() if each[0] is not party}
            self.results, self.stored, self.failure = {}, set(), ""

    def compute(self) -> None:
        shares = {rank: share for rank, (_, _, share) in sorted(self.here.items())}
        said = [Statement("program", "settings", "session", "commitment", bool(share)) for share in shares.values()]
        try:
            senders = keepers(said)
        except Disagreement as error:
            self.failure = str(error)
            return
        if senders:
            data = next(shares[rank] for rank in senders if rank != 1)
        elif self.was_given:
            raise invariants.Violation("picks of one run were opened twice")
        else:
            data = written_slots(clear_picks({COMPUTE_ROLES[rank]: each[1] for rank, each in self.here.items()}))
        self.results = dict.fromkeys(shares, data)


class PlainComputations(Computations):
    """Split runs without workers and threads: the public program runs in the clear when all three parties are here."""

    def __init__(self, home: Home, meetings: dict[str, Meeting]) -> None:
        super().__init__(home.folder, home.settings.tunnels)
        self.meetings, self.sessions = meetings, dict[str, str]()

    def start(self, run: str, inputs: ComputeInputs, peers: Mapping[int, TunnelPeer]) -> ComputeStatus:  # noqa: ARG002
        meeting, folder, rank = self.meetings[inputs.digest], ComputeFolder(self.home, run), inputs.rank
        self.sessions[run] = inputs.digest
        opening = OpeningFile(folder.folder)
        with folder.alone() as is_alone:
            if not is_alone or (rank in meeting.here and meeting.here[rank][0] is not self):
                return ComputeStatus("hindered", "another process of this home computes")
            folder.tunnel(self.place)
            try:
                meeting.here[rank] = self, inputs, opening.share()
                if len(meeting.here) == len(COMPUTE_ROLES) and not meeting.results:
                    meeting.compute()
                if rank in meeting.results and not opening.began:
                    opening.store(meeting.results[rank])
            except PartyFailed as error:
                return ComputeStatus("failed", str(error))
        if meeting.failure:
            return ComputeStatus("failed", meeting.failure)
        if rank in meeting.results:
            meeting.stored.add(rank)
        is_done = len(meeting.stored) == len(COMPUTE_ROLES)
        return ComputeStatus("done", "computed") if is_done else ComputeStatus("waiting", "waiting for the others")

    def opened(self, run: str) -> OpenedSlots | None:
        meeting = self.meetings[self.sessions[run]] if run in self.sessions else Meeting()
        if 1 not in meeting.here or meeting.here[1][0] is not self or len(meeting.stored) < len(COMPUTE_ROLES):
            return None
        meeting.was_given = True
        return OpenedSlots(**np.load(io.BytesIO(meeting.results[1])))

    def end(self, run: str) -> None:
        if run in self.sessions:
            self.meetings[self.sessions.pop(run)].leave(self)

    def close(self) -> None:
        for run in list(self.sessions):
            self.end(run)


# The market.


@dataclass
class Process:
    stack: ExitStack
    syncs: list[Sync]


class Market:
    """Events are methods; ``play`` plays a plan, and then lets all come to rest without faults."""

    def __init__(
        self, place: Path, shape: Shape, events: Sequence[Event], *, coins: random.Random, known: Collection[str] = ()
    ) -> None:
        self.place, self.shape, self.events, self.coins = place, shape, events, coins
        self.now, self.step, self.tick = hw.NOON, 0, 0
        self.skews = dict.fromkeys(shape.names, timedelta())
        self.may_be_late = shape.delays
        self.boxes = [Mailbox(f"memory:{number}") for number in range(shape.mailboxes)]
        self.removed: list[tuple[Mailbox, str, str, File]] = []
        self.corrupted: list[tuple[Mailbox, str, str, File | None]] = []
        self.meetings: dict[str, Meeting] = defaultdict(Meeting)
        self.running: dict[str, Process] = {}
        self.act: Act | None = None
        self.opening = ""  # the process that opens its mailboxes
        self.trace: list[str] = []
        self.covered: Counter[tuple[str, str, str]] = Counter()
        self.disk = machine.Disk()
        self.secrets = {name: hw.secret_of(name) for name in ROLES}
        self.holders = {secret.card.fingerprint: (name, secret) for name, secret in self.secrets.items()}
        self.ways: dict[str, tuple[str, str, Way]] = {}  # writer and reader of each folder
        self._know_ways()
        hw.prepared(place, TEMPLATE, make_homes)
        for name in shape.owners:
            self.write_rules(name)
        self.terms: dict[int, Terms] = {}
        self.known = known
        self.book = invariants.Book()
        self.watch = invariants.Watch(self)

    def _know_ways(self) -> None:
        for writer in self.shape.names:
            for reader in self.shape.names:
                if writer != reader:
                    way = pair_of(self.secrets[writer], self.secrets[reader].card).outgoing
                    self.ways[way.folder] = writer, reader, way

    def parties(self, run: RunShape) -> tuple[str, ...]:
        """The homes that take part in a run."""
        return (run.consumer, run.curator, *((WITNESS,) if run.protocol == "split" else ()), *run.owners)

    def renew(self, name: str) -> None:
        """Give a home a new card; all others revoke its old one and pin the new one."""
        number = len(self.holders)
        signing = Ed25519PrivateKey.from_private_bytes(hw._bytes_for(f"signing key {number} of {name}", 32))
        secret = CardSecret(name, signing, SealingSecret.from_bytes(hw._bytes_for(f"key {number} of {name}", 96)))
        with patch.object(CardSecret, "generate", lambda _: secret):
            self.home(name).make_card(by="Ada", new=True)
        old, self.secrets[name] = self.secrets[name], secret
        self.holders[secret.card.fingerprint] = name, secret
        for other in self.shape.names:
            pins = self.home(other).pins
            if (pin := pins.by_fingerprint(old.card.fingerprint)) is not None and other != name:
                pins.revoke(old.card.fingerprint, "it has a new card", by="Ada")
                pins.pin(secret.card, pin.role, by="Ada")
        self._know_ways()

    # Homes and their processes.

    def folder(self, name: str) -> Path:
        return self.place / CONSUMERS[1] / CURATOR_FOLDER if name == OWN_CURATOR else self.place / name

    def process_of(self, name: str) -> str:
        return CONSUMERS[1] if name == OWN_CURATOR else name

    def clock(self, name: str) -> Callable[[], datetime]:
        return lambda: self.now + self.skews[name]

    def policy(self, name: str) -> dict[str, Any]:
        limits = {"per_run": {"epsilon": 99, "delta": 1e-4, "rows": 36}, "accept_unproven": ["unbounded"]}
        total = {"epsilon": self.shape.epsilon, "delta": 1e-4, "rows": self.shape.rows}
        return {**limits, "total": total, "consumers": ["*"], "manual_approval": name not in self.shape.automatic}

    def write_rules(self, name: str) -> None:
        hw.write_policy(self.folder(name), **self.policy(name))

    def process(self, name: str) -> Process:
        name = self.process_of(name)
        if name not in self.running:
            with ExitStack() as stack:
                addresses = [box.address for box in self.boxes]
                clock, stays = self.clock(name), ROLES[name] != "owner"
                self.opening = name
                opened = opened_syncs(self.folder(name), addresses, stays=stays, clock=clock)
                syncs = stack.enter_context(opened)
                for sync in syncs:
                    for handler in sync.computing:
                        handler.check_workers = lambda: None
                self.running[name] = Process(stack.pop_all(), syncs)
        return self.running[name]

    def drop(self, name: str) -> None:
        """A process ends, or is dead."""
        if process := self.running.pop(self.process_of(name), None):
            with self.unobserved():
                process.stack.close()

    def bury(self, name: str, *, power: bool) -> None:
        """What a dead process leaves: its database as the disk has it, with a log that nobody moved into the file."""
        folder = self.place / self.process_of(name)
        with self.unobserved():
            kept = {
                path: path.read_bytes() for path in folder.rglob(f"{machine.DATABASE}*") if path.suffix[-3:] != "shm"
            }
            self.drop(name)
            if machine.opened_databases(folder):
                return  # another process of this home lives
            for path in folder.rglob(f"{machine.DATABASE}-shm"):
                path.unlink()
            for path, data in kept.items():
                path.write_bytes(data)
            if power:
                self.disk.lose_power(folder, self.coins_of("power"))

    def coins_of(self, what: str) -> random.Random:
        return random.Random(f"{what} {self.step}")  # noqa: S311 - repeatable

    def home(self, name: str) -> Home:
        return self.mail(name).home

    def mail(self, name: str) -> Mail:
        return next(sync.mail for sync in self.process(name).syncs if sync.home.folder == self.folder(name))

    # Hooks of ``machine``.

    @contextmanager
    def unobserved(self) -> Iterator[None]:
        act, self.act = self.act, None
        try:
            yield
        finally:
            self.act = act

    def effect(self, name: str) -> None:
        act = self.act
        if act is None:
            return
        if act.dead:
            raise Killed
        if not faults.befalls(act.fault, name) or not name.startswith(act.effect):
            return
        act.seen += 1
        if act.nth <= act.seen < act.nth + act.lasts:
            if not act.struck:
                act.struck = name
                with self.unobserved():
                    self.covered.update((act.fault, name, state) for state in self.watch.states_on_disk(act.who))
            faults.strike(self, act, name)

    def before_file(self, event: str, paths: list[Path]) -> None:
        if self.act is not None:
            folder = paths[-1].parent.name
            self.effect(f"file {event.removeprefix('os.')} {folder if folder in ('keys', 'runs', 'data') else 'home'}")
            self.disk.before(event, paths)

    def draw(self, ledger: Path, request: Any) -> None:
        with self.unobserved():
            self.watch.drawn(ledger, request)

    def nested(self, outer: Act, who: str) -> None:
        """Another process acts in the middle of this one."""
        coins = outer.coins
        what = "withdraw" if who in self.shape.owners and coins.random() < 0.2 else "turn"
        mine = self.running.pop(self.process_of(who), None)
        try:
            event = Event(what, who, coins.randrange(len(self.shape.runs)), coins=f"{coins.random()}")
            self.do(event, nested=True)
        finally:
            self.drop(who)
            self.act = outer
            if mine:
                self.running[self.process_of(who)] = mine

    # Events.

    def do(self, event: Event, *, nested: bool = False) -> None:
        self.step += not nested
        coins, before = random.Random(event.coins), self.act  # noqa: S311 - repeatable
        act = self.act = Act(event.who, coins, event.fault, event.effect, event.nth, event.lasts)
        outcome = ""
        try:
            around = faults.AROUND.get(event.what)
            outcome = (around.happens(self, event, coins) if around else getattr(self, event.what)(event, coins)) or ""
        except Killed:
            outcome = "is dead"
            self.bury(act.who, power=act.fault == "power")
        except HomeRestored:
            outcome = "is stopped: it was put back from an old copy"
        except (LikesetError, OSError) as error:
            outcome = f"{type(error).__name__}: {error}"
        finally:
            self.act = before
            line = f"{'  ' * nested}{self.step}: {event}{f' [{act.struck}]' if act.struck else ''} {outcome}"
            self.trace.append(re.sub(r"\.[0-9a-f]{8}\b", "", line.replace(str(self.place), ""))[:200])
        if event.ends:
            self.drop(act.who)
        if not nested:
            self.watch.step(act.who)

    def sync(self, name: str) -> Synced:
        done = sync_once(self.process(name).syncs)
        self.watch.synced(name, done)
        return done

    def turn(self, event: Event, coins: random.Random) -> str:  # noqa: ARG002
        return self.sync(event.who).words

    def agreed(self, number: int) -> Terms:
        """The terms of a run, as its consumer first signs them."""
        if number not in self.terms:
            run = self.shape.runs[number]
            names = {CURATOR: run.curator, **{name: name for name in (run.consumer, *run.owners)}}
            names |= {WITNESS: WITNESS} if run.protocol == "split" else {}
            self.terms[number] = hw.terms(
                run=f"r{number}",
                **{"consumer": run.consumer, "owners": run.owners, "quorum": run.quorum},
                cards={party: self.secrets[name].card.fingerprint for party, name in names.items()},
                answer_by=(hw.NOON + timedelta(days=ANSWER_DAYS)).isoformat(),
                expires=f"{hw.NOON + timedelta(days=END_DAYS):%Y-%m-%d}",
                **PROTOCOLS[run.protocol],
            )
        return self.terms[number]

    def consumer(self, number: int) -> tuple[Consumer, str]:
        """The consumer of a run at the mailbox of the run."""
        name = self.shape.runs[number].consumer
        syncs = [sync for sync in self.process(name).syncs if sync.home.folder == self.folder(name)]
        sync = syncs[number % len(syncs)]
        part = sync.mail.handlers["consumer"]
        assert isinstance(part, Consumer)
        return part, sync.store.address

    def ask(self, event: Event, coins: random.Random) -> None:  # noqa: ARG002
        agreed = self.agreed(event.run)
        self.acts_as(agreed.consumer)
        consumer, address = self.consumer(event.run)
        consumer.home.database.set_limit(View.owners(agreed.consumer), Limit(9999.0, 1e-5, agreed.relation))
        target = np.full((agreed.target_size, agreed.kernel.columns), 0.5, dtype=np.float32)
        folder = consumer.folder(agreed.run)
        folder.keep(job={}, schema=self.place / "schema.yaml", target=target, selection=Selection(gamma=1.0))
        consumer.start_run(consumer.sign(agreed), address)

    def acts_as(self, name: str) -> None:
        assert self.act is not None
        self.act.who = name

    def approve(self, event: Event, coins: random.Random) -> str:
        agreed, who = self.agreed(event.run), self.one_of_owners(event, coins)
        with closing(open_owner(self.folder(who), clock=self.clock(who))) as owner:
            self.book.may_answer.add((who, event.run))
            verdict = owner.approve(agreed.run, agreed.digest, by="Ada")
            if verdict.accepted:
                self.book.approved.add((who, event.run))
                self.book.stopped.pop((who, event.run), None)  # it had denied
            return f"{who}: {'approved' if verdict.accepted else '; '.join(verdict.reasons)}"

    def one_of_owners(self, event: Event, coins: random.Random) -> str:
        owners = self.shape.runs[event.run].owners
        who = event.who if event.who in owners else coins.choice(owners)
        self.acts_as(who)
        return who

    def deny(self, event: Event, coins: random.Random) -> None:
        self._refuse(event, self.one_of_owners(event, coins), "deny")

    def withdraw(self, event: Event, coins: random.Random) -> None:
        self._refuse(event, self.one_of_owners(event, coins), "withdraw")

    def _refuse(self, event: Event, who: str, what: str) -> None:
        name = self.agreed(event.run).run
        with self._stopping(who, event.run), closing(open_owner(self.folder(who), clock=self.clock(who))) as owner:
            if what == "deny":
                owner.deny(name, by="Ada", reason="no")
            else:
                owner.withdraw(name, by="Ada")

    @contextmanager
    def _stopping(self, who: str, run: int) -> Iterator[None]:
        """A person stops a run: nothing leaves later, if that was recorded."""
        try:
            yield
        except InvalidArgument:
            raise  # nothing was decided
        except BaseException:
            self.book.spoil(run, f"{who} may have stopped it")
            raise
        self.book.approved.discard((who, run))
        self.book.declined.add((who, run))
        self.book.stopped.setdefault((who, run), self.step)

    def cancel(self, event: Event, coins: random.Random) -> None:  # noqa: ARG002
        agreed = self.agreed(event.run)
        self.acts_as(agreed.consumer)
        consumer, _ = self.consumer(event.run)
        with self._stopping(agreed.consumer, event.run):
            self.book.spoil(event.run, "it was cancelled")
            consumer.cancel(consumer.run(agreed.run))

    # The end: faults stop, and then all must come to rest.

    def play(self) -> None:
        machine.listener = self
        try:
            for event in self.events:
                self.do(event)
            self.finish()
        finally:
            self.act = None
            for name in list(self.running):
                self.drop(name)
            machine.listener = None

    def mend(self) -> None:
        """All faults stop; nothing that was lost comes back by itself."""
        self.may_be_late = False
        self.now += LONGEST_PAUSE  # until all that failed is tried again
        for name in self.shape.names:
            self.drop(name)
            self.skews[name] = timedelta()
        for name in self.shape.owners:
            self.write_rules(name)
            shutil.copy(self.place / "sources" / f"{name}.csv", self.place / f"{name}.csv")
        for box, folder, name, file in reversed(self.corrupted):
            box.folders[folder].pop(name, None)
            if file is not None:
                box.folders[folder][name] = file
        for box in self.boxes:
            for files in box.folders.values():
                files.update({name: replace(file, seen=0) for name, file in files.items()})

    def settle(self, about: str, *, most: int = 40) -> Synced:
        """Every home looks until nothing happens any more."""
        quiet = 0
        for _ in range(most):
            self.step += 1
            together = Synced()
            for name in self.shape.names:
                self.act = Act(name, self.coins)
                with suppress(HomeRestored):
                    together.add(self.sync(name))
                self.act = None
            self.watch.step(*self.shape.names)
            quiet = 0 if together.something_happened else quiet + 1
            if quiet == (
                4 if any(meeting.here for meeting in self.meetings.values()) else 1
            ):  # they meet without letters
                return together
        raise invariants.Violation(f"letters come and go without an end: {about}")

    def finish(self) -> None:
        self.mend()
        done = self.settle("after the faults")
        if self.coins.random() < 0.7:
            self.decide_all()
            done = self.settle("after all was decided")
        self.watch.summaries()
        for _ in range(40):
            if done.next_deadline is None:
                break
            self.now = max(self.now, done.next_deadline) + timedelta(seconds=1)
            done = self.settle("after a deadline")
        self.now = max(self.now, hw.NOON) + timedelta(days=END_DAYS)
        self.settle("after the end")
        self.watch.end()

    def decide_all(self) -> None:
        """Everybody who has not decided approves."""
        for number in sorted(self.terms):
            for who in self.shape.runs[number].owners:
                if (who, number) not in self.book.declined:
                    self.do(Event("approve", who, number, coins="at the end"))


def make_homes(place: Path) -> None:
    """All homes that a market may have, with their cards pinned by one another."""
    (place / "schema.yaml").write_text(hw.SCHEMA)
    (place / "sources").mkdir()
    for number, name in enumerate(OWNERS, start=1):
        hw._make_owner(place, name, (), seed=number)
        (place / name / "key").write_text(f"{number:064x}\n")
        shutil.copy(place / f"{name}.csv", place / "sources")
    for name in (*CONSUMERS, CURATOR, OWN_CURATOR, WITNESS):
        folder = place / CONSUMERS[1] / CURATOR_FOLDER if name == OWN_CURATOR else place / name
        make_home(folder, name=name, roles=(ROLES[name],), listen="127.0.0.1:0").close()
        hw.give_card(folder, name)
        if ROLES[name] == "curator":
            with Home(folder) as home:
                Curator(Mail(home)).add_schema(place / "schema.yaml")
    for name, role in ROLES.items():
        with Home(place / CONSUMERS[1] / CURATOR_FOLDER if name == OWN_CURATOR else place / name) as home:
            for other, its in ROLES.items():
                if other != name and ("consumer" in (role, its) or its in ("curator", "witness")):
                    hw.pin(home, other, its)
