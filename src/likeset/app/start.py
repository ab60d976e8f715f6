"""Where the ``likeset`` script begins. Ctrl-C is one line and exit code 130 also while modules are being imported."""

import signal
import sys
from typing import Any


def main() -> None:
    came: list[int] = []

    def interrupt(number: int, frame: Any) -> None:
        came.append(number)
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, interrupt)
    try:
        from likeset.app.cli import main as run_command_line

        run_command_line()
    except (Exception, KeyboardInterrupt):
        if not came:
            raise
        # A module whose import was interrupted fails again, with another error, when it is next used.
        sys.stderr.write("error: interrupted\n")
        sys.exit(130)
