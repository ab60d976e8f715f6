"""A consumer at a mailbox: it leaves terms, gathers answers, begins when it is time, and takes the summary.

It carries the runs whose folders say so: ``KeptRun.keep_travel`` is what `run start --mailbox` calls after `invite`,
and the next look leaves the terms.
"""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from likeset.homes.expiry import utc_now
from likeset.transports.mailbox.looks import Desk
from likeset.transports.mailbox.stores import Store

__all__ = ["consumer_desk"]


def consumer_desk(folder: Path, store: Store, *, clock: Callable[[], datetime] = utc_now) -> Desk:
    """A consumer's desk at one mailbox: it carries all runs that travel by it (``run.travel.mailbox``).

    Args:
        folder: the consumer's directory.
        store: the mailbox.
        clock: tells the time.

    Raises:
        LikesetError: this is no consumer's directory, or it has no keys.
    """
    raise NotImplementedError
