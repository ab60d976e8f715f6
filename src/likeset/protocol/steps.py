"""What a party wants done before it speaks: charges, each with the draw that follows it, and then its replies.

A party has no ledger. Where something must be charged before it can be drawn, it says so and waits; whoever holds the
ledger has the charge committed, and hands back the bytes that are kept for it (``homes.shell``). So nothing is drawn
that nobody charged, and what a party says next follows from what is kept, whether it was drawn now or before a crash.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from likeset.errors import PartyFailed
from likeset.privacy.events import Event, Release
from likeset.privacy.guarantee import View
from likeset.protocol.messages import Message

__all__ = ["ChargeWanted", "Draw", "PricedDraw", "Step", "Work"]

Draw = Callable[[], tuple[bytes, Release[Any] | None]]
"""Tosses coins and reads rows, once the charge is durable; returns what is to be kept, and the release in it."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ChargeWanted:
    """What must be charged before a draw; a (run, round, kind) is drawn once, and gives the same bytes ever after.

    Attributes:
        costs: who will hear of the draw, and of whose rows, each with the event as that view sees it.
        draw: what follows the charge.
        run: name of the run.
        round: within the run.
        kind: what is drawn, with the name of the party that draws it.
        content: what the draw follows from, to tell a repetition from another request.
        rows: how many rows it discloses, or offers in shares, at most.
        readable: how many of them one party may read; None: all.
        repeatable: whether the draw follows from a key that is kept, and not from coins: then a charge that was
            interrupted is taken up again.
    """

    costs: tuple[tuple[View, Event], ...]
    draw: Draw = field(repr=False)
    run: str
    round: int
    kind: str
    content: bytes = field(repr=False)
    rows: int = 0
    readable: int | None = None
    repeatable: bool = False


_Value = TypeVar("_Value")

PricedDraw = Generator[ChargeWanted, bytes, _Value]
"""A part of a party's work that wants something charged, and returns what was drawn."""

Work = PricedDraw[Sequence[Message]]
"""How a party answers: it yields what it wants charged, is sent the bytes that are kept for it, and returns replies."""


@dataclass(frozen=True, eq=False)
class Step:
    """How far a party has come with what it was asked.

    Attributes:
        charge: what must be charged and drawn before it goes on; None where the step is at its end.
        replies: what is to be sent; nothing before the end.
    """

    charge: ChargeWanted | None = None
    replies: tuple[Message, ...] = ()
    _go_on: Callable[["Step", bytes], "Step"] | None = field(default=None, repr=False)
    _abandon: Callable[["Step"], None] | None = field(default=None, repr=False)

    def go_on(self, data: bytes) -> "Step":
        """The next step, given the bytes that are kept for the charge.

        Raises:
            PartyFailed: this step is at its end, or is not the party's last: it went on, or failed.
        """
        if self._go_on is None:
            raise PartyFailed("a step that is at its end does not go on")
        return self._go_on(self, data)

    def abandon(self) -> None:
        """Say that the charge was refused, or its draw is lost: the party has failed."""
        if self._abandon is not None:
            self._abandon(self)
