"""A worker's environment that is missing or wrong, and shares of a wrong shape, end in one clear line."""

import contextlib
import dataclasses
import resource
import sys
from pathlib import Path

import numpy as np
import pytest

from likeset.errors import InvalidArgument
from likeset.protocol.split import ComputeInputs
from likeset.split.engine.agreement import ProgramSettings, Task
from likeset.split.host import LocalMeeting, OpeningFile, SplitParty, WorkerProcess, program_digest

SETTINGS = ProgramSettings(offers=5, target_rows=2, size=2, gamma=1.0, lows=(0,), highs=(1 << 16,))


def check(folder: Path, **changes: object) -> None:
    """Raise unless a party takes such inputs."""
    usual: dict[str, object] = {
        "rank": 0,
        **dataclasses.asdict(SETTINGS),
        "program": program_digest(),
        "digest": "list",
        "offer_words": np.zeros((5, 6), dtype=np.int64),
        "target_words": np.zeros((2, 1), dtype=np.int64),
    }
    inputs = ComputeInputs(**{**usual, **changes})  # type: ignore[arg-type]
    with contextlib.closing(LocalMeeting()) as meeting:
        SplitParty(inputs, opening=OpeningFile(folder), python=Path(sys.executable), meeting=meeting)


@pytest.mark.parametrize(("changes", "argument"), [({"program": "0" * 64}, "program"), ({"gamma": 0.0}, "terms")])
def test_another_program_or_impossible_settings_do_not_start(
    tmp_path: Path, changes: dict[str, object], argument: str
) -> None:
    check(tmp_path / "own")
    with pytest.raises(InvalidArgument) as refused:
        check(tmp_path / "own", **changes)
    assert refused.value.argument == argument
    assert not (tmp_path / "own").exists()


def test_an_engine_is_reached_by_sockets_in_the_file_system_only() -> None:
    addresses = ("unix:/tmp/a", "unix:/tmp/b", "unix:/tmp/c")
    task = Task(SETTINGS, 0, "p", "i", "attempt", addresses, 5)
    assert Task.from_bytes(task.to_bytes()) == task
    for address in ("127.0.0.1:80", "0.0.0.0:80", "unix:relative"):
        other = Task(SETTINGS, 0, "p", "i", "attempt", (address, *addresses[1:]), 5)
        with pytest.raises(ValueError, match="sockets in the file system"):
            Task.from_bytes(other.to_bytes())


@pytest.mark.skipif(sys.platform != "linux", reason="limits of other processes are Linux's")
def test_a_worker_that_crashes_leaves_no_copy_of_its_memory() -> None:
    """A party can make another's engine crash, and a dump would hold shares when everything else of the run is gone.

    With a limit of 1 neither the kernel nor a program that collects dumps keeps any; 0 would bind the kernel alone.
    """
    before = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))
    worker = WorkerProcess(Path(sys.executable))
    try:
        (line,) = (
            line
            for line in Path(f"/proc/{worker.pid}/limits").read_text(encoding="ascii").splitlines()
            if line.startswith("Max core file size")
        )
        most = "0" if before[1] == 0 else "1"
        assert line.split()[4:6] == [most, most]
    finally:
        worker.close()
        resource.setrlimit(resource.RLIMIT_CORE, before)
