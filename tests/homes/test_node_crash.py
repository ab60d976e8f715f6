"""A node is killed right after every durable write between approval and the last answer, and comes back."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(("kind", "writes", "rows"), [("sealed", 4, 12), ("threshold", 6, 4), ("interactive", 12, 2)])
def test_a_killed_node_sends_the_same_bytes_and_pays_once(tmp_path: Path, kind: str, writes: int, rows: int) -> None:
    """Rows: 6 * 4 / 2 owners; 2 * 4 / 2 asked; one in each of two rounds.

    Writes: two to begin, and two for each message that is answered.
    """
    result = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, str(HERE / "node_crash_driver.py"), str(tmp_path), kind, "1"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        timeout=600,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    found = json.loads(result.stdout)
    assert len(found) == writes + 1, "killed at each of its writes, and once not at all"
    for one in found:
        assert one["ended"] == 0, one
        assert one["different_answers"] == 1, one
        assert (one["rows_left"], one["rows_twice"]) == (rows, 0), one
        assert one["rows_charged"] == rows, one
        assert one["epsilon_charged"] == found[-1]["epsilon_charged"], one
        assert one["problems"] == [], one
        assert one["unsent"] == 0, one
