"""What a curator tells a consumer beside letters: whom it waits for and until when, and how a run ended there."""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Self

from likeset.text import harmless
from likeset.transports.outcomes import Ending

BEFORE_END: Final = timedelta(hours=24)
"""Nobody is waited for during the last day of the terms, or the last quarter of what was left of them when the run
began: with the terms their keys go, and nobody could read a summary or a receipt any more."""

_MOST_BYTES = 1 << 18
_MOST_DETAIL = 300


@dataclass(frozen=True, slots=True)
class ProgressWords:
    """Whom a curator waits for.

    Attributes:
        waiting_for: owners, in the order of their names.
        until: when it gives the first of them up.
    """

    waiting_for: tuple[str, ...]
    until: datetime | None

    def to_bytes(self) -> bytes:
        until = None if self.until is None else self.until.isoformat()
        return json.dumps({"until": until, "waiting_for": self.waiting_for}).encode("ascii")

    @classmethod
    def read(cls, data: bytes) -> Self | None:
        document = _document(data)
        match document:
            case {"waiting_for": [*names], "until": str() | None as until} if all(isinstance(n, str) for n in names):
                time = _time(until)
                return None if until is not None and time is None else cls(tuple(names), time)
            case _:
                return None


@dataclass(frozen=True, slots=True)
class EndingWords:
    """How a run ended at the curator, in fixed words.

    Attributes:
        ended: how.
        detail: what the curator lacks, in words; empty where the ending says all.
    """

    ended: Ending
    detail: str = ""

    def to_bytes(self) -> bytes:
        return json.dumps({"detail": self.detail, "ended": self.ended.value}).encode("ascii")

    @classmethod
    def read(cls, data: bytes) -> Self | None:
        match _document(data):
            case {"ended": str() as ended, "detail": str() as detail} if ended in {known.value for known in Ending}:
                return cls(Ending(ended), harmless(detail, most=_MOST_DETAIL))
            case _:
                return None


def last_time(ends: datetime, began: datetime) -> datetime:
    """What comes of a run must reach everybody before the terms end, and with them the keys."""
    return ends - min(BEFORE_END, (ends - began) / 4)


def _document(data: bytes) -> Any:
    try:
        return json.loads(data) if len(data) <= _MOST_BYTES else None
    except (ValueError, RecursionError):
        return None


def _time(text: str | None) -> datetime | None:
    try:
        time = None if text is None else datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time is None or time.tzinfo is not None else None
