"""A curator at a mailbox: whom it waits for, when it gives them up, and what it says in the end."""

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

from likeset.homes.expiry import utc_now
from likeset.transports.mailbox.looks import Desk
from likeset.transports.mailbox.stores import Store

__all__ = ["AFTER_AUCTION", "PATIENCE", "curator_desk"]

PATIENCE = timedelta(hours=72)
"""How long a curator waits for an owner's answer."""

AFTER_AUCTION = timedelta(hours=1)
"""In a run with an auction, receipts go no sooner after owners were told whether they are asked."""


def curator_desk(
    folder: Path,
    store: Store,
    *,
    patience: timedelta = PATIENCE,
    after_auction: timedelta = AFTER_AUCTION,
    clock: Callable[[], datetime] = utc_now,
) -> Desk:
    """A curator's desk at one mailbox.

    Args:
        folder: the curator's directory.
        store: the mailbox.
        patience: how long it waits for an owner's answer, from the letter that asked for it.
        after_auction: in a run with an auction, how long receipts wait at least after owners were told.
        clock: tells the time.

    Raises:
        LikesetError: this is no curator's directory, or it has no keys.
    """
    raise NotImplementedError
