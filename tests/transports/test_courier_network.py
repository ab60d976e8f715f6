"""Runs over a real NVFlare network on this machine, and attacks on a courier that has a user of its own."""

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

TESTS = Path(__file__).parents[1]

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("nvflare") is None, reason="needs likeset[nvflare]"),
    pytest.mark.slow,
]


def outcome_of(driver: str, folder: Path) -> Any:
    """A process of its own: NVFlare changes logging and starts threads."""
    done = subprocess.run(  # noqa: S603 (our own script)
        [sys.executable, str(Path(__file__).parent / driver), str(folder)],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads((folder / "outcome.json").read_text())


def test_live_runs_come_to_their_end(tmp_path: Path) -> None:
    """Sealed and interactive, 50 rows each; the time per letter is printed, for an idle machine to be judged by."""
    found = outcome_of("courier_driver.py", tmp_path)
    print(found)  # noqa: T201
    assert {name: run["ended"] for name, run in found.items()} == {"sealed": "done", "interactive": "done"}
    assert found["interactive"]["letters"] > 100


@pytest.fixture(scope="module")
def attacked() -> Iterator[Any]:
    if os.geteuid() != 0:
        pytest.skip("NVFlare gets a user of its own, for which this must be root")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:  # which that user can reach
        yield outcome_of("attack_driver.py", Path(folder))


def test_another_site_reads_sealed_letters_and_nothing_of_the_home(attacked: Any) -> None:
    """NVFlare lets it ask for shell commands; they run as NVFlare's user."""
    assert "error" not in attacked["site"]
    assert "Permission denied" in attacked["site"]["home"]
    assert "secret" not in attacked["site"]["home"].replace("card.secret", "")
    assert attacked["site"]["letters"] == "a sealed letter"


def test_another_site_that_asks_the_courier_gets_no_answer(attacked: Any) -> None:
    assert attacked["site"]["look"] == ["invalid_request", "None"]


def test_code_of_an_administrator_of_role_super_reads_sealed_letters_and_nothing_of_the_home(attacked: Any) -> None:
    assert attacked["loot"] == ["PermissionError", "a sealed letter"]
