"""How a program of ours ends: a user's mistake and Ctrl-C become one line on standard error and an exit code."""

import sys
from collections.abc import Callable

from likeset.display.screen import complain
from likeset.errors import LikesetError

__all__ = ["run_program"]


def run_program(app: Callable[[], None]) -> None:
    """Run a command line.

    A user's mistake becomes one line on standard error and exit code 2, Ctrl-C one line and exit code 130.

    Args:
        app: the ``typer.Typer`` of the program.
    """
    try:
        app()
    except LikesetError as error:
        complain("; ".join([str(error), *getattr(error, "__notes__", ())]))
        sys.exit(2)
    except SystemExit as ended:
        interrupt = _interrupt_behind(ended)
        if interrupt is None:
            raise
        complain("; ".join(["interrupted", *getattr(interrupt, "__notes__", ("nothing was left half-written",))]))
        sys.exit(130)


def _interrupt_behind(ended: SystemExit) -> KeyboardInterrupt | None:
    """The Ctrl-C that ended the program: typer turns it into an exit, without what was noted on it."""
    cause: BaseException | None = ended
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__cause__ or cause.__context__
    return cause
