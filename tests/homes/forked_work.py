"""Some work in a process of its own, which is forked."""

import os
from collections.abc import Callable
from multiprocessing.connection import Connection, Pipe
from typing import Any


def apart(work: Callable[[], Any]) -> Any:
    """The result of some work in a process of its own: databases that were opened must not cross a fork."""
    here, there = Pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            here.close()
            there.send(work())
            code = 0
        finally:
            os._exit(code)
    there.close()
    found = _received(here)
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        raise RuntimeError("a look failed")
    return found


def _received(line: Connection) -> Any:
    try:
        return line.recv()
    except EOFError:
        return None
