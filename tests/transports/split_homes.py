"""Homes of a split run with a mailbox between them, and the public program in the clear in place of workers."""

import dataclasses
import io
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from between_world import OWNERS, Market
from home_world import CONSUMER
from shared_run_world import clear_picks

from likeset.errors import IllegalMessage, NoAnswer
from likeset.homes.compute import Computation, Computations, ComputeFolder, ComputeJob
from likeset.homes.consumer import RunProgress
from likeset.homes.home import SETTINGS_FILE
from likeset.homes.runs import Ending, Run
from likeset.protocol.party import CURATOR
from likeset.protocol.split import ComputeInputs, OpenedSlots
from likeset.protocol.terms import WITNESS
from likeset.protocol.wire import Summary
from likeset.run import between
from likeset.split.engine.agreement import AGAIN, Disagreement, Statement, keepers
from likeset.split.host import OpeningFile
from likeset.transports.sync import Sync, Synced
from likeset.trust.shares import COMPUTE_ROLES, ComputeRole

COMPUTING = (CURATOR, CONSUMER, WITNESS)
_SECONDS = 600.0  # until something must have happened, however busy the machine is
_MEETING_SECONDS = 60.0

Picks = Callable[[Mapping[ComputeRole, ComputeInputs]], OpenedSlots]


def written_slots(slots: OpenedSlots) -> bytes:
    file = io.BytesIO()
    np.savez(file, **{part.name: getattr(slots, part.name) for part in dataclasses.fields(slots)})
    return file.getvalue()


@dataclass
class ClearMeeting:
    """Where compute parties of one process meet and put their shares together: nothing is private here.

    Picks are opened as the engine opens them, except that the share of each party is all of them.
    """

    opened: Counter[str] = field(default_factory=Counter)  # how often picks were made, by session
    last: OpenedSlots | None = None
    pick: Picks = clear_picks  # on all shares
    here: dict[str, dict[int, "ClearComputation"]] = field(default_factory=dict)
    turn: threading.Condition = field(default_factory=threading.Condition)

    def begin(self, job: ComputeJob) -> Computation:
        return ClearComputation(self, job)

    def compute(self, parts: Mapping[int, "ClearComputation"], session: str) -> None:
        said = [Statement("program", "settings", session, "commitment", bool(parts[rank].share)) for rank in range(3)]
        try:
            senders = keepers(said)
        except Disagreement as error:
            for part in parts.values():
                part.failure = IllegalMessage(str(error))
            return
        if senders:
            for rank in senders:
                parts[rank].job.progress(AGAIN, 1, 1)
            data = parts[next(rank for rank in senders if rank != 1)].share
        else:
            self.opened[session] += 1
            self.last = self.pick({COMPUTE_ROLES[rank]: part.job.inputs for rank, part in parts.items()})
            data = written_slots(self.last)
            for part in parts.values():
                OpeningFile(part.job.folder).store(data)
        parts[1].given = OpenedSlots(**np.load(io.BytesIO(data)))


@dataclass
class ClearComputation:
    """One party's part: it waits for the others, as with tunnels."""

    meeting: ClearMeeting
    job: ComputeJob
    stopped: bool = False
    share: bytes = b""
    given: OpenedSlots | None = None
    failure: Exception | None = None

    def run(self) -> OpenedSlots | None:
        inputs, meeting = self.job.inputs, self.meeting
        assert set(self.job.peers) == set(range(3)) - {inputs.rank}
        self.share = OpeningFile(self.job.folder).share()
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
        return self.given

    def stop(self) -> None:
        with self.meeting.turn:
            self.stopped = True
            self.meeting.turn.notify_all()


def listen_here(place: Path) -> None:
    for party in COMPUTING:
        path = place / party / SETTINGS_FILE
        path.write_text(path.read_text().replace('listen: ""', 'listen: "127.0.0.1:0"'))


class SplitHomes(Market):
    """A consumer, a curator, a witness and two owners, and a run that the consumer has signed."""

    def __init__(self, place: Path, **job: Any) -> None:
        super().__init__(place, witness=True)
        listen_here(place)
        self.meeting = ClearMeeting()
        self.begin: Callable[[ComputeJob], Computation] = self.meeting.begin
        self.only_syncs: set[str] = set()  # parties whose processes look once and do not stay
        self.check_workers: Callable[[], object] = lambda: None
        self.notes: list[str] = []
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(between, "split_python", lambda: None)
            run = self.invite(**{"witness": WITNESS, "quorum": 1, **job})
        self.consumer.start_run(run, self.address)
        self.terms, self.digest = run.terms, run.terms.digest

    def sync(self, name: str, *, stays: bool = False) -> Sync:  # noqa: ARG002 - those that compute stay
        if name not in self._syncs:
            made = super().sync(name, stays=name in COMPUTING and name not in self.only_syncs)
            for handler in made.computing:
                handler.check_workers = self.check_workers
            if made.computations is not None:
                made.computations.begin, made.computations.pause = self.begin, 0.0
        return self._syncs[name]

    def __exit__(self, *exception: object) -> None:
        self.drop()
        super().__exit__(*exception)

    @property
    def roles(self) -> tuple[str, ...]:
        return (*COMPUTING, *self.owners)

    def computations(self, party: str) -> Computations:
        computations = self.sync(party).computations
        assert computations is not None
        return computations

    def drop(self, *parties: str) -> None:
        for party in parties or tuple(self._syncs):
            if party in self._syncs:
                sync = self._syncs.pop(party)
                sync.close()
                sync.home.close()

    def turn(self, *names: str) -> Synced:
        look = super().turn(*names)
        self.notes += look.notes
        return look

    def until(self, so: Callable[[], bool], *parties: str) -> None:
        """Looks until something is so; what is computed goes on beside them."""
        end = time.monotonic() + _SECONDS
        while not so():
            self.turn(*parties)
            assert time.monotonic() < end, (self.progress_now, self.notes[-9:])
            time.sleep(0.005)

    @property
    def progress_now(self) -> RunProgress:
        return self.consumer.progress(self.consumer.run("run-1"))

    @property
    def over(self) -> bool:
        return self.progress_now.ended is not None

    @property
    def ended(self) -> Ending | None:
        return self.progress_now.ended

    @property
    def summary(self) -> Summary:
        return self.consumer.folder("run-1").summary(self.terms)

    def finish(self, *parties: str, ending: Ending = Ending.DONE) -> None:
        """A whole run, from terms to receipts; picks are opened once at most."""
        self.until(lambda: self.over, *parties)
        self.settle(*parties)
        assert self.ended is ending, self.progress_now
        assert set(self.meeting.opened.values()) <= {1}

    def settle(self, *parties: str, most: int = 40) -> None:
        for _ in range(most):
            if not self.turn(*parties).something_happened:
                return
        raise AssertionError("letters come and go without an end")

    def begin_run(self) -> None:
        """Everybody has accepted, the consumer's first letters are written, and nobody has read them."""
        self.until(lambda: self.progress_now.began, *OWNERS, CURATOR, WITNESS, CONSUMER)

    def agree(self) -> None:
        """All signed one roster, and nobody computes yet."""
        self.only_syncs = set(COMPUTING)
        self.drop(*COMPUTING)
        self.settle()
        self.drop()
        self.only_syncs = set()

    def run_at(self, party: str) -> Run:
        (run,) = self.sync(party).mail.runs()
        return run

    def files(self, party: str) -> ComputeFolder:
        return ComputeFolder(self.place / party, self.digest)

    def has_shares(self, party: str) -> bool:
        """Whether a key or a letter with shares is left at a compute party."""
        mail, run = self.sync(party).mail, self.run_at(party)
        letters = [row for row in mail.letters(run) if (row.way, row.post) == ("in", "letter")]
        has_key = mail.home.run_key(run.digest) is not None
        return has_key or any(mail.data_of(row) is not None for row in letters)
