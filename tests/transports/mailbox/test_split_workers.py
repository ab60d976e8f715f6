"""Split runs by mailbox with real workers and tunnels; skipped where the workers' environment is missing."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from kill_world import CONSUMER
from shared_run_world import clear_misfit, clear_picks
from split_homes import SplitHomes, split_homes_in
from split_world import PYTHON, needs_engine

from likeset.homes.compute import Computation, ComputeFolder, ComputeJob, WorkerComputation
from likeset.protocol.party import CURATOR
from likeset.protocol.split_run import ComputeInputs, OpenedSlots
from likeset.protocol.terms import WITNESS
from likeset.split.host import PYTHON_VARIABLE
from likeset.transports.desks import SplitRuns
from likeset.transports.posts import Ending
from likeset.trust.shares import COMPUTE_ROLES, ComputeRole

pytestmark = [pytest.mark.slow, needs_engine]


@dataclass
class Watched:
    """Computations with workers, and what went in and came out."""

    inputs: dict[ComputeRole, ComputeInputs] = field(default_factory=dict)
    opened: list[OpenedSlots] = field(default_factory=list)

    def begin(self, job: ComputeJob) -> Computation:
        self.inputs[COMPUTE_ROLES[job.inputs.rank]] = job.inputs
        return _WatchedComputation(WorkerComputation(job), self)


@dataclass
class _WatchedComputation:
    computation: WorkerComputation
    watched: Watched

    def run(self) -> OpenedSlots | None:
        slots = self.computation.run()
        self.watched.opened += [slots] if slots is not None else []
        return slots

    def stop(self) -> None:
        self.computation.stop()


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest.fixture
def homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watched: Watched) -> Iterator[SplitHomes]:
    monkeypatch.setenv(PYTHON_VARIABLE, str(PYTHON))
    made = split_homes_in(tmp_path)
    made.begin = watched.begin
    yield made
    made.drop()


def test_workers_behind_tunnels_open_what_the_program_in_the_clear_picks_but_for_rounding(
    homes: SplitHomes, watched: Watched
) -> None:
    homes.hold()
    assert homes.progress.ended is Ending.DONE
    assert len(homes.summary.rows) == 6
    (opened,) = watched.opened
    assert len(set(opened.numbers.tolist())) == 6
    # The engine rounds by chance: of rows alike it may pick others, and the summary is as good.
    assert clear_misfit(watched.inputs, opened) <= 1.05 * clear_misfit(watched.inputs, clear_picks(watched.inputs))


@pytest.mark.parametrize("killed", [CURATOR, CONSUMER, WITNESS])
def test_where_a_party_stops_in_the_middle_of_the_computation_it_begins_anew_and_opens_once(
    homes: SplitHomes, watched: Watched, killed: str
) -> None:
    """The process of one party ends with its worker and its tunnels, and another one takes its place."""
    homes.settle()
    homes.approve()
    homes.until(lambda: "picks" in homes.progress.computing or homes.over())
    homes.drop(killed)
    homes.until(homes.over)
    homes.settle()
    assert homes.progress.ended is Ending.DONE
    assert len(homes.summary.rows) == 6
    assert len(watched.opened) == 1


def test_a_consumer_that_lost_what_was_opened_gets_it_again_and_the_others_note_that(
    homes: SplitHomes, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    homes.settle()
    homes.approve()
    with monkeypatch.context() as patched:
        patched.setattr(SplitRuns, "_open", lambda *_: None)
        homes.until(lambda: bool(watched.opened))
    homes.drop()
    for path in ComputeFolder(homes.folder(CONSUMER), homes.run.terms.digest).folder.glob("open*"):
        path.unlink()
    said = set[str]()
    while not homes.over():
        said |= set(homes.look().notes)
    said |= set(homes.look().notes)
    first, second = watched.opened
    assert np.array_equal(first.numbers, second.numbers)
    assert np.array_equal(first.secrets, second.secrets)
    assert [words for words in said if "asked for again" in words]
    assert homes.progress.ended is Ending.DONE
    assert len(homes.summary.rows) == 6
