"""Sites of a network of NVFlare are killed while runs are under way: an owner, its process, the server, the consumer.

Two kills by default, of the server and of the consumer (of an owner and its process ``test_network.py`` tells, too);
``LIKESET_NETWORK_KILLS`` asks for more, ``LIKESET_SEED`` for others.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from chance import SEED

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("nvflare") is None, reason="needs likeset[nvflare]"),
    pytest.mark.slow,
    pytest.mark.soak,
]

HERE = Path(__file__).parent
KILLS = int(os.environ.get("LIKESET_NETWORK_KILLS", "2"))
ENDS = {"done", "interrupted", "quorum missed", "the consumer gave no answer"}


def _driver(*words: str, seconds: float) -> None:
    command = [sys.executable, str(HERE / "network_kill_driver.py"), *words]
    with subprocess.Popen(  # noqa: S603 - our own program
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    ) as process:
        try:
            _, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.terminate()  # it stops the sites before it ends
            raise
    assert process.returncode == 0, f"seed {SEED}: {errors[-3000:]}"


def test_a_run_goes_on_after_sites_of_the_network_were_killed(tmp_path: Path) -> None:
    _driver("drive", str(tmp_path), str(KILLS), str(SEED), seconds=300 + 120 * KILLS)
    jobs = json.loads((tmp_path / "jobs.json").read_text())
    sys.stdout.writelines(f"{job}\n" for job in jobs)
    disturbed = [job for job in jobs if "blow" in job]
    assert len(disturbed) == KILLS
    assert {job["outcome"] for job in jobs} <= ENDS, jobs
    for last in {job["run"]: job for job in jobs}.values():
        assert last["outcome"] == "done", jobs
        assert set(last["sites"].values()) == {"done"}, jobs
    assert any(job["outcome"] != "done" for job in disturbed), "no kill came in time to be noticed"
    _driver("look", str(tmp_path), seconds=200)
    assert json.loads((tmp_path / "complaints.json").read_text()) == [], f"seed {SEED}: {jobs}"
