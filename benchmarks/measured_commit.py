"""Which commit a benchmark measures."""

import subprocess
from pathlib import Path


def measured_commit() -> str:
    """The commit that is checked out here, in short."""
    told = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],  # noqa: S607 - whichever git is in use
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent,
    )
    return told.stdout.strip()
