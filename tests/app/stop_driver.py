"""Stops a run at a chosen place: in this process, or as a program of its own that is then killed there."""

import errno
import os
import pkgutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def full_disk() -> None:
    """What the system says when nothing more fits."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def stop_at(patch: pytest.MonkeyPatch, place: str, call: int, stop: Callable[[], None]) -> Callable[[], bool]:
    """Stop when a function is called for the given time; returns what tells whether that happened."""
    holder = pkgutil.resolve_name(place.rpartition(".")[0])
    name = place.rpartition(".")[2]
    original = getattr(holder, name)
    calls = 0

    def stopping(*given: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call:
            stop()
        return original(*given, **more)

    # A method of a class is found through its instance, a class method is bound already.
    bound = isinstance(holder, type) and hasattr(original, "__self__")
    patch.setattr(holder, name, staticmethod(stopping) if bound else stopping)
    return lambda: calls >= call


def main() -> None:
    """``stop_driver.py PLACE CALL SIGNAL ARGUMENTS``: run the command line until the signal comes."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from likeset.app import cli

    place, call, number, *arguments = sys.argv[1:]
    patch = pytest.MonkeyPatch()
    patch.setattr("likeset.app.cli.match.render", lambda result, _: f"<p>{result['in_sample_squared_mmd']}</p>")
    stop_at(patch, place, int(call), lambda: os.kill(os.getpid(), int(number)))
    sys.argv = ["likeset", *arguments]
    cli.main()


if __name__ == "__main__":
    main()
