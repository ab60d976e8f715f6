"""How a run ended, and what was last heard of a site, in words that are the same whatever carries letters."""

from enum import StrEnum


class Ending(StrEnum):
    """How a run ended; its value is what people read."""

    DONE = "done"
    """The consumer has its summary."""

    CANCELLED = "cancelled"
    QUORUM_MISSED = "quorum missed"
    TERMS_EXPIRED = "terms expired"
    NOT_CURATED = "not curated"
    """The curator lacks something public that the terms name."""

    NO_CONSUMER = "the consumer gave no answer"
    UNFINISHED = "unfinished"
    """The curator has a charge without a draw, and draws nothing again."""

    NOT_COMPUTED = "not computed"
    """In a split run: the compute parties did not come to an end together."""

    FAILED = "failed"


class SiteState(StrEnum):
    READY = "ready"
    WAITING = "waiting"
    """For a person's decision."""

    WORKING = "working"
    DONE = "done"
    ABSTAINS = "abstains"
    NO_ANSWER = "no answer"
    REFUSED = "refused"
    """The curator refused what it sent."""
