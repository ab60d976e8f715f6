"""When a run has ended: the curator's receipts go to their owners, to as many as can be reached.

How the run ended is settled by then, and nothing here changes it. Whoever is not reached gets the receipt when the run
is resumed, or by hand.
"""

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor

__all__ = ["deliver"]


def deliver(
    receipts: Callable[[], Mapping[str, bytes]] | None,
    *,
    owners: Collection[str],
    send: Callable[[str, bytes], object],
) -> tuple[str, ...]:
    """Send each owner its receipt, all at once; returns whom they reached. Never raises.

    Args:
        receipts: signs them.
        owners: who can be reached.
        send: to one owner, within a time of its own; called from several threads.
    """
    try:
        made = receipts() if receipts is not None else {}
    except Exception:  # a full disk, a key that is gone: they can be signed again when that is mended
        return ()
    signed = {owner: data for owner, data in made.items() if owner in owners}

    def sent(owner: str) -> bool:
        try:
            send(owner, signed[owner])
        except Exception:
            return False
        return True

    if not signed:
        return ()
    with ThreadPoolExecutor(max_workers=len(signed)) as pool:
        reached = dict(zip(signed, pool.map(sent, signed), strict=True))
    return tuple(owner for owner, arrived in reached.items() if arrived)
