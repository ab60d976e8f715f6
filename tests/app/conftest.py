"""The screen's width is that of each test, not of the process that imported it first."""

import pytest

from likeset.app.cli import screen


@pytest.fixture(autouse=True)
def width_of_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """A console that was made while COLUMNS was set keeps that width; test workers set it."""
    for console in (screen.stdout, screen._stderr):
        monkeypatch.setattr(console, "_width", None)
