"""How far a pass over an owner's rows is."""

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Passed", "Watch"]


@dataclass(frozen=True)
class Passed:
    """How far a pass is.

    Attributes:
        table: the source's name.
        rows: how many rows went by.
        total: how many there are; None in a first pass, which finds out.
        resumed: how many of the rows went by before the pass was interrupted.
    """

    table: str
    rows: int
    total: int | None
    resumed: int = 0


class Watch:
    """Counts the rows of one pass and tells somebody.

    Args:
        table: the source's name.
        total: how many rows there are; None if nobody knows yet.
        tell: called as rows go by; nobody if None.
    """

    def __init__(self, table: str, total: int | None, tell: Callable[[Passed], None] | None) -> None:
        self._table, self._total, self._tell = table, total, tell
        self._rows = self._resumed = 0

    def skip(self, rows: int) -> None:
        """Rows that went by in an earlier pass."""
        self._resumed += rows
        self.add(rows)

    def add(self, rows: int) -> None:
        """Rows that went by just now."""
        self._rows += rows
        if self._tell is not None:
            self._tell(Passed(self._table, self._rows, self._total, self._resumed))
