"""``killed_driver.py PLACE ARGUMENTS``: the command line as a program of its own, killed at a place that users can see.

The places are what is said on the screen and what is written into files, so they stay where they are however the
inside is built.
"""

import os
import signal
import sys
from typing import Any

import pyarrow.parquet as pq


def _killed(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class _Listening:
    """Standard error that kills the program once it is told that one owner has answered."""

    def __init__(self, screen: Any) -> None:
        self._screen = screen

    def write(self, text: str) -> int:
        if "1 of 3" in text:
            _killed()
        return int(self._screen.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._screen, name)


def _listen() -> None:
    sys.stderr = _Listening(sys.stderr)


def _stop_at_the_summary() -> None:
    pq.write_table = _killed


PLACES = {"one-owner-answered": _listen, "summary-is-written": _stop_at_the_summary}


def main() -> None:
    """Run the command line up to the place."""
    place, *arguments = sys.argv[1:]
    PLACES[place]()
    from likeset.app import cli

    sys.argv = ["likeset", *arguments]
    cli.main()


if __name__ == "__main__":
    main()
