"""Real homes of a split run with a mailbox between them, and the public program in the clear in place of workers."""

import dataclasses
import io
import secrets
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from kill_world import CONSUMER, folder_of, give_target
from mail_homes import EXPIRES, NOON, RUN, Clock, MailHomes, MemoryStore, small_job
from node_world import make_node, rows_text
from pinned_homes import introduce
from shared_run_world import clear_picks

from likeset.errors import IllegalMessage, NoAnswer
from likeset.homes.compute import Computation, ComputeJob, ComputeRoom
from likeset.homes.consumer_home import make_consumer_home, named_cards
from likeset.homes.curator_home import make_curator_home
from likeset.homes.mail import OUT, RECEIPT, Invitation
from likeset.homes.witness_home import WitnessHome, make_witness_home
from likeset.ledger.ledger import Ledger
from likeset.protocol.party import CURATOR
from likeset.protocol.split_run import OpenedSlots
from likeset.protocol.terms import WITNESS, SplitTerms
from likeset.run.plan import new_draws
from likeset.run.runs import plan_between
from likeset.split.engine.agreement import AGAIN, Disagreement, Offer, keepers
from likeset.split.host import Opening, program_digest
from likeset.transports.desks import MailDesk, consumer_desk, curator_desk, owner_desk, witness_desk
from likeset.trust.shares import COMPUTE_ROLES

LISTEN = "127.0.0.1:0"
_SECONDS = 1200.0  # until something must have happened, however busy the machine is
_MEETING_SECONDS = 120.0  # until a compute party waits no longer for the others, and tries again


@dataclass
class ClearMeeting:
    """Where compute parties of one process meet, and put their shares together: nothing is private here.

    Picks are opened as the engine opens them, but that the share of each party is all of them.

    Attributes:
        opened: how often picks were made, by session.
        picks: the last ones.
    """

    here: dict[str, dict[int, "ClearComputation"]] = field(default_factory=dict)
    opened: Counter[str] = field(default_factory=Counter)
    picks: dict[str, OpenedSlots] = field(default_factory=dict)
    turn: threading.Condition = field(default_factory=threading.Condition)

    def begin(self, job: ComputeJob) -> Computation:
        """A party's part."""
        return ClearComputation(self, job)

    def compute(self, parts: Mapping[int, "ClearComputation"], session: str) -> None:
        """All are there."""
        said = [Offer("program", "settings", session, "commitment", bool(parts[rank].share)) for rank in range(3)]
        try:
            senders = keepers(said)
        except Disagreement as error:
            for part in parts.values():
                part.failure = IllegalMessage(str(error))
            return
        if not senders:
            self.opened[session] += 1
            self.picks[session] = clear_picks({COMPUTE_ROLES[rank]: part.job.inputs for rank, part in parts.items()})
            data = written_slots(self.picks[session])
            for part in parts.values():
                Opening(part.job.folder).keep_share(data)
        else:
            for rank in senders:
                parts[rank].job.progress(AGAIN, 1, 1)
            data = parts[next(rank for rank in senders if rank != 1)].share
        Opening(parts[1].job.folder).keep_picks(data)


@dataclass
class ClearComputation:
    """One party's part: it waits for the others, as with tunnels."""

    meeting: ClearMeeting
    job: ComputeJob
    stopped: bool = False
    share: bytes = b""
    failure: Exception | None = None

    def run(self) -> OpenedSlots | None:
        inputs, meeting, opening = self.job.inputs, self.meeting, Opening(self.job.folder)
        assert set(self.job.peers) == set(range(3)) - {inputs.rank}
        if (kept := opening.picks()) is not None:
            return read_slots(kept)
        self.share = opening.share()
        self.job.progress("picks", 0, inputs.size)
        with meeting.turn:
            here = meeting.here.setdefault(inputs.digest, {})
            here[inputs.rank] = self
            if len(here) == 3:
                meeting.here[inputs.digest] = {}
                meeting.compute(here, inputs.digest)
                meeting.turn.notify_all()
            meeting.turn.wait_for(lambda: self.stopped or len(here) == 3, timeout=_MEETING_SECONDS)
            if len(here) < 3:
                here.pop(inputs.rank, None)
                raise NoAnswer("this party stopped, or another compute party did not come in time")
        if self.failure is not None:
            raise self.failure
        kept = opening.picks()
        return None if kept is None else read_slots(kept)

    def stop(self) -> None:
        with self.meeting.turn:
            self.stopped = True
            self.meeting.turn.notify_all()


def written_slots(slots: OpenedSlots) -> bytes:
    """What is opened, as bytes."""
    file = io.BytesIO()
    np.savez(file, **{part.name: getattr(slots, part.name) for part in dataclasses.fields(slots)})
    return file.getvalue()


def read_slots(data: bytes) -> OpenedSlots:
    """What ``written_slots`` wrote."""
    return OpenedSlots(**np.load(io.BytesIO(data)))


@dataclass
class SplitHomes(MailHomes):
    """A consumer, a curator, a witness, owners, and a split run that the consumer has signed.

    Attributes:
        meeting: where they compute.
        only_look: parties whose processes look and do not stay.
        begin: starts a computation; in the clear if not given.
    """

    meeting: ClearMeeting = field(default_factory=ClearMeeting)
    only_look: set[str] = field(default_factory=set)
    begin: Callable[[ComputeJob], Computation] | None = None
    check_workers: Callable[[], object] = lambda: None

    @property
    def parties(self) -> tuple[str, ...]:
        return (CONSUMER, CURATOR, WITNESS, *self.owners)

    @property
    def computing(self) -> tuple[str, ...]:
        """Those who compute."""
        return self.parties[:3]

    def room(self, party: str) -> ComputeRoom | None:
        """Where a party computes."""
        if party in self.only_look:
            return None
        homes: Mapping[str, Any] = {
            CONSUMER: self.home,
            CURATOR: make_curator(self.folder(CURATOR)),
            WITNESS: WitnessHome(self.folder(WITNESS)),
        }
        return ComputeRoom(self.folder(party), homes[party].tunnels, begin=self.begin or self.meeting.begin, pause=0.0)

    def desk(self, party: str) -> MailDesk:
        if party not in self.desks:
            if party in self.owners:
                self.desks[party] = owner_desk(self.folder(party), self.store, clock=self.clock)
            else:
                makers: Mapping[str, Callable[..., MailDesk]] = {
                    CONSUMER: consumer_desk,
                    CURATOR: curator_desk,
                    WITNESS: witness_desk,
                }
                self.desks[party] = makers[party](
                    self.folder(party),
                    self.store,
                    clock=self.clock,
                    room=self.room(party),
                    check_workers=self.check_workers,
                    **self.options,
                )
        return self.desks[party]

    def until(self, so: Callable[[], bool], *parties: str) -> None:
        """Looks until something is so; what is computed goes on beside them."""
        end = time.monotonic() + _SECONDS
        while not so():
            self.look(*parties)
            assert time.monotonic() < end, "it is not so after a long time"
            time.sleep(0.005)

    def receipts_between(self, writer: str, reader: str) -> int:
        """How many receipts one party wrote to another, by its own book."""
        digest = bytes.fromhex(self.run.terms.digest)
        letters = self.desk(writer).identity.book.letters(digest, reader)
        return sum((letter.way, letter.kind) == (OUT, RECEIPT) for letter in letters)

    def over(self) -> bool:
        """Whether the consumer says that the run has ended."""
        return self.progress.ended is not None

    def hold(self, *parties: str) -> None:
        """A whole run, from terms to receipts."""
        self.settle(*parties)
        self.approve()
        self.until(self.over, *parties)
        self.settle(*parties)


def make_curator(folder: Path) -> Any:
    """A curator's home that is there."""
    from likeset.homes.curator_home import CuratorHome

    return CuratorHome(folder)


ROOM: dict[str, Any] = {"per_run": {"epsilon": 99, "rows": 99}, "total": {"epsilon": 9999, "rows": 9999}}
"""Budgets that nothing exceeds."""


def make_usual_owner(place: Path, name: str, seed: int) -> None:
    """An owner whose rows follow from a number."""
    make_node(place, name, seed=seed, runs_per_month=99, **ROOM)


def make_split_homes(
    place: Path,
    owners: tuple[str, ...],
    *,
    mailbox: str = "memory",
    now: datetime = NOON,
    make_owner: Callable[[Path, str, int], object] = make_usual_owner,
    target: str = rows_text(7, count=30),
    **job: Any,
) -> None:
    """Everybody's directories, and a split run that the consumer has signed and not sent yet.

    Args:
        place: for all of them.
        owners: their names.
        mailbox: its address.
        now: when it was signed.
        make_owner: given the place, a name and a number: an owner's home, and the schema.
        target: the consumer's rows, as a CSV file.
        job: what else it wishes for.
    """
    curator = make_curator_home(folder_of(place, CURATOR), listen=LISTEN)
    third = make_witness_home(folder_of(place, WITNESS), name="university", listen=LISTEN)
    for seed, name in enumerate(owners):
        make_owner(place, name, seed)
    home = make_consumer_home(folder_of(place, CONSUMER), name=CONSUMER, listen=LISTEN)
    nodes = [folder_of(place, name) for name in owners]
    introduce(nodes, curator=curator.folder, consumer=home.folder, witness=third.folder)
    give_target(home, place, target)
    asked = small_job(place, owners, **job)
    planned = plan_between(asked)
    with home.identity.book, Ledger(home.ledger) as ledger:
        identity = home.identity
        cards = named_cards(identity, consumer=CONSUMER, owners=owners, witness="university")
        plain = {name: card for name, card in cards.items() if name != WITNESS}
        between = {"expires": EXPIRES, "run_id": secrets.token_hex(16), "cards": plain}
        terms, _ = planned.settle(ledger, new_draws(planned.wishes), content=b"x", **between)
        split = SplitTerms(program_digest(), terms.size, gamma=0.4)
        terms = terms.with_changes(split=split, cards=cards)
        run = home.run(RUN)
        run.keep(
            job=asked.document(),
            schema=place / "schema.yaml",
            target=planned.inputs.target.rows,
            selection=planned.selection,
        )
        run.keep_invitation(Invitation.sign(terms, identity))
    run.keep_travel(mailbox, decide_by=now + timedelta(days=7), now=now)


_templates: dict[str, Path] = {}


def split_homes_in(place: Path, owners: tuple[str, ...] = ("a", "b"), **job: Any) -> SplitHomes:
    """Homes of such a run; made once in each process of tests, and copied."""
    key = repr((owners, sorted(job.items())))
    if key not in _templates:
        import atexit
        import tempfile

        folder = tempfile.mkdtemp(prefix="split-homes-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        make_split_homes(Path(folder), owners, **job)
        _templates[key] = Path(folder)
    shutil.copytree(_templates[key], place / "homes")
    clock = Clock()
    return SplitHomes(place / "homes", owners, clock, MemoryStore(clock))
