"""A ledger for a process that somebody may interrupt."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from likeset.ledger import Ledger

__all__ = ["SteadyLedger"]


class SteadyLedger(Ledger):
    """Ctrl-C waits until a charge has its answer: a draw that was paid for is kept, and can be sent again."""

    def answer(self, *given: Any, **options: Any) -> bytes:
        """As in any ledger."""
        with _interrupts_wait():
            return super().answer(*given, **options)


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    # Only the main thread is interrupted, and may say what happens then.
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    came: list[tuple[int, Any]] = []
    signal.signal(signal.SIGINT, lambda number, frame: came.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            before(*came[0])
