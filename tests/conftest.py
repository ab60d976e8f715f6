"""What all tests share."""

import signal
import sys
from pathlib import Path

import pytest

from likeset.app.cli import screen

# Tests that are started in the background ignore Ctrl-C, and so would every process that they start and stop.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Engines are tested with the worlds of the protocols' tests.
sys.path.insert(0, str(Path(__file__).parent / "protocol"))


@pytest.fixture(autouse=True)
def width_of_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """A console that was made while COLUMNS was set keeps that width, and test workers set it."""
    for console in (screen.stdout, screen.stderr):
        monkeypatch.setattr(console, "_width", None)
