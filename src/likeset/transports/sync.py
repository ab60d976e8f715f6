"""Looks into mailboxes once, or again and again with growing pauses, until somebody says stop."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from likeset.errors import HomeRestored, LikesetError
from likeset.homes.mail import utc_now
from likeset.transports.posts import Desk, Look
from likeset.transports.stores import Store, open_store

SHORTEST = 1.0
"""Seconds between two looks while letters come."""

LONGEST = 60.0
"""Seconds between two looks when nothing has come for a while."""

LIVE_SHORTEST, LIVE_LONGEST = 0.05, 2.0
"""The same where a mailbox is live: two directories of this machine, which a courier fills as letters come."""

_GROWTH = 1.5

Tell = Callable[[str], None]
"""Called with one line for a person."""


class Stop(Protocol):
    def is_set(self) -> bool: ...

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until somebody says so, or so many seconds; returns whether somebody did."""


@dataclass
class _Troubles:
    """What was last wrong at each desk, so that it is said once, and once more when it is over."""

    tell: Tell
    last: dict[int, str] = field(default_factory=dict)

    def at(self, place: int, trouble: str) -> None:
        if self.last.get(place) != trouble:
            self.last[place] = trouble
            self.tell(f"{trouble}; trying on")

    def over(self, place: int) -> None:
        if self.last.pop(place, None) is not None:
            self.tell("that is over: the mailbox can be used again")


@contextmanager
def desks_at(addresses: Sequence[str], make: Callable[[Store], Desk]) -> Iterator[list[Desk]]:
    """A desk at each mailbox, let go in the end; two addresses of one place are one."""
    with ExitStack() as stack:
        stores = {store.address: store for store in map(open_store, addresses)}
        for store in stores.values():
            stack.callback(store.close)
        yield [stack.enter_context(make(store)) for store in stores.values()]


def look_once(desks: Sequence[Desk]) -> tuple[Look, list[LikesetError]]:
    """One look at each desk; what came of all, and what was wrong: trouble with one keeps no other from its look.

    Raises:
        HomeRestored: this home was put back from an old copy, and does nothing more.
    """
    looks, troubles = [], []
    for desk in desks:
        try:
            looks.append(desk.look())
        except HomeRestored:
            raise
        except LikesetError as error:
            troubles.append(error)
    return Look.all_of(looks), troubles


def serve(
    desks: Sequence[Desk],
    *,
    stop: Stop,
    tell: Tell,
    looked: Callable[[Look], None] = lambda _: None,
    troubled: Tell = lambda _: None,
    shortest: float = SHORTEST,
    longest: float = LONGEST,
    clock: Callable[[], datetime] = utc_now,
) -> None:
    """Look until told to stop; a look that has begun comes to its end first.

    Pauses grow while nothing happens, start anew when something did, and end at deadlines. Trouble with a mailbox, or
    with a file that somebody is editing, is told in one line when it begins and when it is over.

    Args:
        desks: where to look.
        stop: looked at before each look, and waited for between them.
        tell: told notes and troubles.
        looked: told what came of all desks together, each time.
        troubled: told each trouble, each time.
        shortest: seconds of the first pause; shorter if a mailbox is live.
        longest: seconds that no pause passes; likewise.
        clock: tells the time.

    Raises:
        HomeRestored: this home was put back from an old copy, and does nothing more.
    """
    if any(desk.is_live for desk in desks):
        shortest, longest = min(shortest, LIVE_SHORTEST), min(longest, LIVE_LONGEST)
    troubles, pause = _Troubles(tell), shortest
    while not stop.is_set():
        looks = []
        for place, desk in enumerate(desks):
            if stop.is_set():
                break
            try:
                look = desk.look()
            except HomeRestored:
                raise
            except Exception as error:  # one bad peer or mailbox never ends this loop
                words = str(error) if isinstance(error, LikesetError) else f"internal error ({type(error).__name__})"
                troubles.at(place, words)
                troubled(words)
                continue
            troubles.over(place)
            looks.append(look)
            for note in look.notes:
                tell(note)
        together = Look.all_of(looks)
        looked(together)
        pause = shortest if together.something_happened else min(pause * _GROWTH, longest)
        stop.wait(_until(together.next_deadline, clock(), pause=pause, shortest=shortest))


def _until(deadline: datetime | None, now: datetime, *, pause: float, shortest: float) -> float:
    """How many seconds to wait; a deadline that has passed does not make it busy."""
    if deadline is None:
        return pause
    return min(pause, max(shortest, (deadline - now).total_seconds()))
