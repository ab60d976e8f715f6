"""NVFlare as between organisations: every site a process with a certificate of its own, on loopback."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from engine_scenarios import PYTHONPATH, SCENARIOS, check_traces, run_locally, settle_sites, traces
from network_driver import DYING, GATED, HOMELESS, OVERSIZED, VANISHING

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("nvflare") is None, reason="needs likeset[nvflare]"),
    pytest.mark.slow,
]


def _drive(folder: Path) -> Any:
    done = subprocess.run(  # noqa: S603 (our own script)
        [sys.executable, str(Path(__file__).parent / "network_driver.py"), str(folder)],
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
        capture_output=True,
        text=True,
        timeout=3600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads((folder / "outcome.json").read_text())


def test_processes_with_certificates_come_to_what_the_local_engine_comes_to(tmp_path: Path) -> None:
    local, sites = tmp_path / "local", tmp_path / "sites"
    invited = settle_sites(local, [*SCENARIOS.values(), DYING, GATED, HOMELESS, OVERSIZED, VANISHING])
    shutil.copytree(local, sites)
    outcomes = {name: run_locally(invited[name], local) for name in SCENARIOS}
    found = _drive(tmp_path)
    for name, report in found["first"].items():
        assert report["outcome"] == {"done": "done", "QuorumMissed": "quorum missed"}[outcomes[name]]
    check_traces(sites, local)

    assert found["listening"] == ["0100007F"]  # 127.0.0.1, as the kernel writes it

    heard, ended = found["gated"]
    assert heard == {"hospital": "ready", "a": "ready", "b": "ready", "c": "waiting"}
    assert ended["outcome"] == "done"
    assert ended["unanswered"] == {}

    assert found["certificates"] == {"own": True, "foreign": False, "none": False}

    assert found["foreign"] == "FINISHED:FAILED_TO_RUN"
    assert not (tmp_path / "evil").exists()

    # 16 MiB where 8 are allowed: NVFlare itself does not take them, and the run goes on with the others.
    assert found["oversized"][OVERSIZED.run]["outcome"] == "done"
    assert found["oversized"][OVERSIZED.run]["unanswered"] == {"c": "no answer"}

    # NVFlare ends the job of all when one owner's process dies; the run is resumed with that owner.
    assert found["dying"][DYING.run]["outcome"] == "done"
    assert found["dying"][DYING.run]["unanswered"] == {}
    assert (sites / "c" / "die").exists()
    # The curator's home is killed and comes back; the run is resumed.
    assert found["home-killed"][HOMELESS.run]["outcome"] == "done"
    assert found["home-killed"][HOMELESS.run]["unanswered"] == {}
    # An owner that vanishes with its whole site abstains; when it is back, the same terms bring it in, at no charge.
    assert found["vanishing"][VANISHING.run]["outcome"] == "done"
    assert found["vanishing"][VANISHING.run]["unanswered"] == {"c": "no answer"}
    assert found["again"][VANISHING.run]["outcome"] == "done"
    assert found["again"][VANISHING.run]["unanswered"] == {}
    for agreed in (DYING, HOMELESS, VANISHING):
        assert run_locally(invited[agreed.run], local) == "done"
        assert traces(sites, agreed.run) == traces(local, agreed.run)
    assert [name for name in ("sealed", "interactive") if traces(sites, name) != traces(local, name)] == []
