"""Whether terms have ended, by a clock that somebody else reads."""

from datetime import UTC, datetime

from likeset.errors import TermsExpired
from likeset.protocol.terms import Terms

__all__ = ["check_not_expired", "clock_words", "utc_now"]


def utc_now() -> datetime:
    """The time, as terms name it."""
    return datetime.now(UTC)


def clock_words(now: datetime) -> str:
    """What a clock says, to the hour: enough to see that it is wrong, and floods of refusals stay of one kind."""
    return f"{now.astimezone(UTC):%Y-%m-%d, %H} h UTC"


def check_not_expired(terms: Terms, now: datetime) -> None:
    """Refuse terms that have ended."""
    if terms.end is not None and now > terms.end:
        end = f"the terms of run {terms.run} ended at {terms.end.isoformat()}"
        raise TermsExpired(f"{end}, and this machine's clock says {clock_words(now)}; agree on new ones, or set it")
