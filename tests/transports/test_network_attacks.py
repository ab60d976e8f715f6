"""Attacks on an owner's site, live and with certificates: by another site, an administrator, in the server's name."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parents[1]
PYTHONPATH = os.pathsep.join(str(path) for path in (TESTS, TESTS / "homes", TESTS / "transports"))

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("nvflare") is None, reason="needs likeset[nvflare]"),
    pytest.mark.slow,
]


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One network for all; see ``attack_driver``."""
    folder = tmp_path_factory.mktemp("attacks")
    done = subprocess.run(  # noqa: S603 (our own script)
        [sys.executable, str(Path(__file__).parent / "attack_driver.py"), str(folder)],
        env={**os.environ, "PYTHONPATH": PYTHONPATH, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return {**json.loads((folder / "outcome.json").read_text()), "key": (folder / "node-bare" / "key").read_text()}


def test_a_site_reads_no_row_and_no_key_of_a_guarded_site(outcome: Any) -> None:
    """The server lets everything pass; without guards the same message shows a site's rows and its keys."""
    answers = outcome["open"]["answers"]
    assert "error" not in answers
    assert ".4242" in answers["bare"]
    assert outcome["key"] in answers["bare"]
    assert "likeset card secret" in answers["bare"]
    assert answers["guarded"] == "None"
    assert "IllegalMessage: NVFlare brought a message of another site" in outcome["home"]["refused"]


def test_an_administrator_of_role_super_runs_no_code_at_a_guarded_site(outcome: Any) -> None:
    """The server takes the job; the site that has no guard runs it."""
    assert outcome["super_traces"] == ["super-at-bare"]
    refused = "IllegalMessage: NVFlare brought a job that brings something else than terms"
    assert refused in outcome["home"]["refused"]


def test_a_site_that_speaks_as_the_server_is_not_obeyed_by_a_guarded_site(outcome: Any) -> None:
    """NVFlare's server passes on a message with the server's name on it; a site cannot see that, and need not."""
    assert outcome["open"]["deleted"] == ["bare"]
    refused = "IllegalMessage: NVFlare brought an administrative command that no run of likeset needs"
    assert refused in outcome["home"]["refused"]


def test_nobody_decided_anything_at_the_guarded_site(outcome: Any) -> None:
    home = outcome["home"]
    assert (home["runs"], home["rows"], home["other"]) == ([], 0, outcome["before"]["other"])
    assert outcome["before"]["refused"] == []


def test_a_settled_server_stops_all_of_it_before_any_site(outcome: Any) -> None:
    """The second wall: also the site without guards is safe behind it."""
    walled = outcome["walled"]
    assert walled["answers"] == {"guarded": "None", "bare": "None"}
    assert walled["deleted"] == []
    assert outcome["walled_super_traces"] == []
    assert outcome["walled_super"] == "FINISHED:FAILED_TO_RUN"
