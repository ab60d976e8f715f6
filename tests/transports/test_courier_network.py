"""Runs over a real NVFlare network on this machine, and attacks on a courier that has a user of its own."""

import base64
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NVFLARE_USER = 4001  # as in attack_driver.py

pytestmark = pytest.mark.skipif(importlib.util.find_spec("nvflare") is None, reason="needs likeset[nvflare]")


def outcome_of(driver: str, folder: Path) -> Any:
    """A process of its own: NVFlare changes logging and starts threads."""
    done = subprocess.run(  # noqa: S603 (our own script)
        [sys.executable, str(Path(__file__).parent / driver), str(folder)],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    print(done.stdout)  # noqa: T201 - times, which -rP shows
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads((folder / "outcome.json").read_text())


@pytest.mark.soak
def test_live_runs_come_to_their_end(tmp_path: Path) -> None:
    """50 rows each."""
    assert outcome_of("courier_driver.py", tmp_path) == {"sealed": "done", "interactive": "done"}


@pytest.fixture(scope="module")
def attacked() -> Iterator[Any]:
    if os.geteuid() != 0:
        pytest.skip("NVFlare gets a user of its own, for which this must be root")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:  # which that user can reach
        try:
            yield outcome_of("attack_driver.py", Path(folder))
        finally:  # the processes of NVFlare's jobs outlive the network that began them
            subprocess.run(["/bin/sh", "-c", "kill -KILL -1"], user=NVFLARE_USER, check=False)


def assert_sealed(letter: str, attacked: Any) -> None:
    """It is the victim's letter as it travels, and nothing of the rows in it can be read."""
    assert letter == attacked["letter"]
    data, rows = base64.b64decode(letter), base64.b64decode(attacked["rows"])
    assert len(rows) > 1000
    assert not any(rows[place : place + 16] in data for place in range(0, len(rows) - 16, 16) if any(rows[place:][:16]))


@pytest.mark.slow
def test_another_site_reaches_a_sealed_letter_and_nothing_of_the_home(attacked: Any) -> None:
    """NVFlare lets it ask for a few shell commands; they run as NVFlare's user."""
    site = attacked["site"]
    assert "error" not in site
    assert all("Permission denied" in site[name] for name in ("card", "database", "key")), site
    assert "matches" in site["letter"]


@pytest.mark.slow
def test_another_site_that_asks_the_courier_gets_no_answer(attacked: Any) -> None:
    assert attacked["site"]["look"] == ["invalid_request", "None"]


@pytest.mark.slow
def test_code_of_an_administrator_of_role_super_reads_a_sealed_letter_and_nothing_of_the_home(attacked: Any) -> None:
    assert [attacked["super"][name] for name in ("card", "database", "key")] == ["PermissionError"] * 3
    assert_sealed(attacked["super"]["letter"], attacked)


@pytest.mark.slow
def test_an_owner_that_poses_as_the_curator_gets_a_sealed_letter_and_no_answer(attacked: Any) -> None:
    posed = attacked["curator"]
    assert (posed["opened"], posed["heard"], posed["answers"]) == (False, 0, 0)
    assert posed["refused"] == 2
    assert_sealed(posed["letter"], attacked)
