"""A compute party that falls silent, or sends garbage to the others' engines: it goes on, or ends, and says so."""

import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from link_records import LinkRecords
from split_world import needs_engine, run_parties, world

from chance import pinned_coins
from likeset.errors import IllegalMessage, NoAnswer
from likeset.protocol.split import OpenedSlots
from likeset.split import host as compute_parties
from likeset.split.host import Attempt, LocalMeeting, Meeting, SplitParty, WorkerProcess

pytestmark = [pytest.mark.slow, needs_engine]

LIAR, VICTIMS = 2, (0, 1)


@pytest.fixture
def meeting() -> Iterator[LocalMeeting]:
    made = LocalMeeting()
    yield made
    made.close()


@pytest.mark.soak
def test_a_party_that_falls_silent_is_given_up_and_the_computation_begins_anew(
    meeting: LocalMeeting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its worker stands still in the middle of picking: no connection ends, and no message comes."""
    monkeypatch.setattr(compute_parties, "_SILENCE", 15)
    small, stopped = world(pinned_coins("split")), list[int]()

    def stand_still(rank: int, party: SplitParty, stage: str, _: int) -> None:
        if rank == LIAR and stage == "picking" and not stopped and party.worker is not None:
            stopped.append(party.worker.pid)
            os.kill(party.worker.pid, signal.SIGSTOP)

    curator, consumer, witness = run_parties(small.inputs(), [meeting] * 3, told=stand_still)
    assert len(stopped) == 1
    assert (curator, witness) == (None, None)
    small.check(consumer, small.selected())


@dataclass
class SpoiledLinks(LinkRecords):
    """Relays that put garbage into what one party says, from some message on."""

    first: int = 0

    def _changed(self, name: str, data: bytes, sender: int, reader: int) -> bytes:
        is_spoiled = sender == LIAR and len(self.sent[sender, reader]) >= self.first
        return os.urandom(len(data)) if is_spoiled else super()._changed(name, data, sender, reader)


@dataclass
class SpoiledSeat:
    """A party's place at a meeting whose links are spoiled."""

    seat: LocalMeeting
    rank: int
    first: int
    links: dict[str, SpoiledLinks]
    alone: threading.Lock = field(default_factory=threading.Lock)

    def join(self, timeout: float, worker: WorkerProcess) -> Attempt:
        attempt = self.seat.join(timeout, worker)
        with self.alone:
            if attempt.name not in self.links:
                folder = Path(tempfile.mkdtemp(prefix="likeset-"))
                self.links[attempt.name] = SpoiledLinks(folder, first=self.first)
            return Attempt(attempt.name, self.links[attempt.name].addresses(self.rank))

    def leave(self, how: str) -> str:
        return self.seat.leave(how)


@contextmanager
def spoiled(meeting: LocalMeeting, first: int) -> Iterator[list[Meeting]]:
    """Places for all parties; the links are closed at the end."""
    links, alone = dict[str, SpoiledLinks](), threading.Lock()
    yield [SpoiledSeat(meeting, rank, first, links, alone) for rank in range(3)]
    for record in links.values():
        record.close()
        shutil.rmtree(record.folder)


@pytest.mark.parametrize("first", [2, 3, 4], ids=["what it runs", "its number", "its shares"])
def test_garbage_before_the_computation_ends_it_for_all_and_nothing_is_opened(
    meeting: LocalMeeting, first: int
) -> None:
    with spoiled(meeting, first) as seats:
        results = run_parties(world(pinned_coins("split")).inputs(), seats, patience=10.0)
    assert all(isinstance(results[rank], IllegalMessage | NoAnswer) for rank in VICTIMS), results


def test_garbage_in_the_computation_opens_nothing_that_passes_for_a_row(meeting: LocalMeeting) -> None:
    """Messages of the right length cannot be told from shares; but no slot's secret comes out beside its number."""
    small = world(pinned_coins("split"))
    with spoiled(meeting, 30) as seats:
        opened = run_parties(small.inputs(), seats, patience=10.0)[1]
    assert isinstance(opened, OpenedSlots | IllegalMessage | NoAnswer)
    if isinstance(opened, OpenedSlots):
        known = {secret.tobytes() for secret in small.secrets}
        assert not [secret for secret in opened.secrets if secret.any() and secret.tobytes() in known]
