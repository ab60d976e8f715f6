"""What a death leaves behind, and what several processes can do to one ledger."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="traces system calls as Linux does")


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """A directory in memory, if there is one: a killed process loses nothing there, and syncs are free."""
    shared = Path("/dev/shm")  # noqa: S108 - private to this test
    if not shared.is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=shared) as directory:
        yield Path(directory)


def driven(scenario: str, directory: Path, *numbers: int) -> dict[str, Any]:
    driver = Path(__file__).with_name("crash_driver.py")
    command = [sys.executable, str(driver), scenario, str(directory), *map(str, numbers)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)  # noqa: S603 - our own program
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    if "unavailable" in report:
        pytest.skip(report["unavailable"])
    return report


@pytest.mark.parametrize("stride", [pytest.param(1, marks=pytest.mark.slow), 10])
def test_a_death_at_any_moment_of_a_release_loses_budget_and_never_privacy(memory: Path, stride: int) -> None:
    """Every system call: one charge for each request, and the same bytes."""
    report = driven("every_step", memory, stride)
    assert report["faults"] == []
    assert report["deaths"] > 50 // stride
    assert stride > 1 or report["sent_at_death"][:3] == [3, 4, 5]


def test_a_charge_is_synced_after_its_last_write_and_before_it_returns(tmp_path: Path) -> None:
    order = driven("calls", tmp_path)["order"]
    assert "write" in order
    assert order[-1] == "sync"


def test_processes_together_never_spend_more_than_the_limit(memory: Path) -> None:
    """Epsilon 1 pays for 24 releases and no 25th (the filter's own count); 150 rows pay for 21 lots of 7."""
    report = driven("hammer", memory)
    assert report["codes"] == [0, 0, 0, 0]
    assert sum(report["means"]) == 24
    assert all(report["means"])
    assert sum(report["rows"]) == report["rows_charged"] == 147
    assert report["epsilon"] <= 1.0
    assert report["faults"] == []
