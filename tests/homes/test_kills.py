"""Curator, owners and consumer are killed at random moments, each a process of its own, and the run is resumed.

40 kills by default, spread over five kinds of run. ``LIKESET_KILLS`` asks for more, ``LIKESET_SEED`` for others; the
seed of a failure is in what it prints, and repeats it as far as processes keep their pace.
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
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("nvflare") is None, reason="needs likeset[nvflare]"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
]

HERE = Path(__file__).parent
KILLS = int(os.environ.get("LIKESET_KILLS", "40"))
DRAWING = ("threshold", "rounds-of-auctions", "rounds-of-releases")  # where the curator draws, too
KINDS = ("sealed", "interactive", *DRAWING)
ENDS = {
    "done",
    "cancelled",
    "quorum missed",
    "the curator was killed",
    "the consumer gave no answer",
    "the consumer gave no answer: UnfinishedRequest",
    "unfinished: UnfinishedRequest",
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_whose_parties_are_killed_resumes_or_says_why_not(tmp_path: Path, kind: str) -> None:
    """No complaints: kill_looks.py says what is looked at. The first kills are between a charge and its draw."""
    kills = -(-KILLS // len(KINDS))
    result = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, str(HERE / "kill_driver.py"), str(tmp_path), kind, str(kills), str(SEED)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        timeout=300 + 30 * kills,
    )
    assert result.returncode == 0, f"seed {SEED}: {result.stderr[-3000:]}"
    sys.stdout.write(result.stdout)  # how often each end was; `make soak` shows it
    found = json.loads(result.stdout)
    assert found["bad"] == [], f"seed {SEED}"
    assert sum(found["killed"].values()) >= kills
    assert set(found["outcomes"]) <= ENDS
    assert "the consumer gave no answer: UnfinishedRequest" in found["stuck"]
    assert ("unfinished: UnfinishedRequest" in found["stuck"]) == (kind in DRAWING)
    assert found["runs"] > len(found["stuck"]), "some runs came to their end"
    assert found["outcomes"]["done"] >= found["runs"] - len(found["stuck"])
