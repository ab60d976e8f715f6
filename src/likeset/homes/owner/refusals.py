"""What was refused, in the audit log: one by one up to a limit for each day, and counted beyond it.

The log cannot be shortened, so a flood must not fill it; and a flood of one kind must not hide what is of another.
Each approved run has a limit of its own, so has what the site refuses before the node is reached, and so has the rest.
"""

import contextlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from likeset.errors import LikesetError
from likeset.ledger import ChainedLog

__all__ = ["BY_SITE", "OTHERS", "RefusalCounts", "Refusals", "about_run"]

BY_SITE = "site"
OTHERS = "others"

_MOST_ALIKE = 20  # of one reason in one run and day
_MOST_A_DAY = 500  # of the site, and of all that is about no approved run: a stranger can think of new ones
_MOST_OF_RUN = 200  # of an approved run and day
_MOST_REASON = 600
_MOST_NAME = 100
_DAY = len("2026-01-01")


def about_run(run: str) -> str:
    """The account of an approved run."""
    return f"run {run}"


@dataclass
class RefusalCounts:
    """How many refusals of the newest day the log holds, by account and by reason."""

    day: str = ""
    of_account: Counter[str] = field(default_factory=Counter)
    alike: Counter[tuple[str, str]] = field(default_factory=Counter)

    def take(self, run: str, document: dict[str, Any]) -> None:
        """One more that is written down."""
        if document["at"][:_DAY] > self.day:
            self.day = document["at"][:_DAY]
            self.of_account.clear()
            self.alike.clear()
        self.of_account[document["account"]] += 1
        self.alike[run, document["reason"]] += 1


class Refusals:
    """Writes down what is refused.

    Args:
        log: the audit log.
        counts: what it holds, kept up to date by whoever reads it.
        clock: tells the time.
    """

    def __init__(self, log: ChainedLog, counts: RefusalCounts, clock: Callable[[], datetime]) -> None:
        self._log = log
        self._counts = counts
        self._clock = clock
        self._day = ""
        self._unwritten: Counter[str] = Counter()
        self._told: Counter[str] = Counter()
        self._last: dict[str, str] = {}

    def write(self, run: str, text: str, *, account: str) -> None:
        """Write a refusal down, or count it; never raises, since that could sound different to the other side.

        Args:
            run: that it is about; empty if that is not known.
            text: the reason.
            account: ``about_run``, ``BY_SITE`` or ``OTHERS``.
        """
        with contextlib.suppress(LikesetError, OSError):
            self._write(run[:_MOST_NAME], text[:_MOST_REASON], account)

    def flush(self) -> None:
        """Write down how many were only counted."""
        with contextlib.suppress(LikesetError, OSError):
            for account in self._unwritten:
                self._tell(account)

    def _write(self, run: str, reason: str, account: str) -> None:
        today = f"{self._clock().astimezone(UTC):%Y-%m-%d}"
        if today != self._day:
            self.flush()
            self._day = today
            self._unwritten.clear()
            self._told.clear()
        fresh = today > self._counts.day
        alike = 0 if fresh else self._counts.alike[run, reason]
        written = 0 if fresh else self._counts.of_account[account]
        most = _MOST_A_DAY if account in (BY_SITE, OTHERS) else _MOST_OF_RUN
        if alike < _MOST_ALIKE and written < most:
            more = {}
            if written == most - 1:
                more = {"more": "the rest of this day is counted only"}
            elif alike == _MOST_ALIKE - 1:
                more = {"more": "further ones of this kind are counted only, for this day"}
            self._log.append("refused", run, {"reason": reason, "account": account, **more})
            return
        self._unwritten[account] += 1
        self._last[account] = reason
        # At every doubling: few entries, and after a crash at most half of the count is missing.
        if self._unwritten[account].bit_count() == 1:
            self._tell(account)

    def _tell(self, account: str) -> None:
        more = self._unwritten[account] - self._told[account]
        if more:
            words = {"account": account, "day": self._day, "count": more, "last_reason": self._last[account]}
            self._log.append("refused-more", "", words)
            self._told[account] += more
