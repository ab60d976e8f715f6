"""Split runs by mailbox with real workers and tunnels; skipped where the workers' environment is missing."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from kill_world import CONSUMER
from shared_run_world import clear_misfit, clear_picks
from split_homes import SplitHomes, split_homes_in
from split_world import PYTHON, needs_engine

from likeset.homes.compute import Computation, ComputeJob, WorkerComputation
from likeset.protocol.party import CURATOR
from likeset.protocol.split.compute_inputs import ComputeInputs, OpenedSlots
from likeset.protocol.terms import WITNESS
from likeset.split.environment import PYTHON_VARIABLE
from likeset.transports.outcomes import Ending
from likeset.trust.row_shares import COMPUTE_ROLES, ComputeRole

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


@pytest.fixture(params=[True, False], ids=["three parties", "two parties"])
def homes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watched: Watched, request: pytest.FixtureRequest
) -> Iterator[SplitHomes]:
    monkeypatch.setenv(PYTHON_VARIABLE, str(PYTHON))
    made = split_homes_in(tmp_path, witness=request.param)
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
def test_who_stops_in_the_middle_of_the_computation_goes_on_with_the_same_picks(
    homes: SplitHomes, watched: Watched, killed: str
) -> None:
    """The process of one party ends with its worker and its tunnels, and another one takes its place."""
    if killed not in homes.computing:
        pytest.skip("there is no witness")
    homes.settle()
    homes.approve()
    homes.until(lambda: "picks" in homes.progress.computing or homes.over())
    homes.drop(killed)
    homes.until(homes.over)
    homes.settle()
    assert homes.progress.ended is Ending.DONE
    assert len(homes.summary.rows) == 6
    assert len(watched.opened) == 1
