"""What a check-up of a home found, in words that a person understands."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from likeset.errors import LikesetError
from likeset.tables.dead_columns import DeadColumn
from likeset.tables.identifiers import Suspicion

__all__ = ["Finding", "guarded"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        what: was looked at.
        ok: whether it is in order.
        words: what was found, and what to do about it; never a value of a row.
        suspicion: a column that may identify people, where that is what was found: a warning, not a failure.
        dead: a column that hardly counts, where that is it: a warning as well.
    """

    what: str
    ok: bool
    words: str
    suspicion: Suspicion | None = None
    dead: DeadColumn | None = None

    @property
    def is_warning(self) -> bool:
        """Whether somebody should look at it although it is in order."""
        return self.ok and (self.suspicion is not None or self.dead is not None)


def guarded(what: str, look: Callable[[], Iterator[Finding]]) -> list[Finding]:
    """What a look finds; an error of likeset is a finding, too."""
    try:
        return list(look())
    except LikesetError as error:
        return [Finding(what, ok=False, words=str(error))]
