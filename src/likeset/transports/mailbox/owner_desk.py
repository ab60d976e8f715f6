"""An owner at a mailbox: terms come in, and the node's word on them goes out; letters come in, and answers go out."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from likeset.homes.expiry import utc_now
from likeset.transports.mailbox.looks import Desk
from likeset.transports.mailbox.stores import Store

__all__ = ["owner_desk"]


def owner_desk(folder: Path, store: Store, *, clock: Callable[[], datetime] = utc_now) -> Desk:
    """An owner's desk at one mailbox; an owner with several mailboxes has several desks.

    Args:
        folder: the node's directory.
        store: the mailbox.
        clock: tells the time.

    Raises:
        LikesetError: this is no node, or it has no keys.
    """
    raise NotImplementedError
