"""Whether terms have ended, by a clock that somebody else reads."""

from datetime import UTC, datetime

from likeset.errors import TermsExpired
from likeset.protocol.terms import Terms

__all__ = ["check_not_expired", "utc_now"]


def utc_now() -> datetime:
    """The time, as terms name it."""
    return datetime.now(UTC)


def check_not_expired(terms: Terms, now: datetime) -> None:
    """Refuse terms that have ended."""
    if terms.end is not None and now > terms.end:
        raise TermsExpired(f"the terms of run {terms.run} ended at {terms.end.isoformat()}; agree on new ones")
