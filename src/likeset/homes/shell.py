"""The shell around a party: every step of a party is carried to its end here, and by nobody else.

A message goes in; each charge that the party wants is committed, and the party goes on with the bytes that the ledger
keeps; the replies come out. Whatever goes wrong on the way, the party has failed: it says nothing more, and whoever
drives it throws it away and makes it anew from what is recorded. Charges are committed one by one in ``Shell``; an
owner's home commits one together with the record of the exchange (``homes.owner.exchanges``).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from likeset.ledger import Request, Unfinished
from likeset.privacy.events import Event, Release
from likeset.privacy.guarantee import View
from likeset.protocol.consumer import Consumer
from likeset.protocol.curator import Curator
from likeset.protocol.messages import Message
from likeset.protocol.party import Party
from likeset.protocol.split.compute_inputs import OpenedSlots
from likeset.protocol.split.compute_party import ComputeParty
from likeset.protocol.split.split_consumer import SplitConsumer
from likeset.protocol.steps import ChargeWanted, Step
from likeset.protocol.terms import Terms

__all__ = [
    "Charges",
    "ComputeShell",
    "ConsumerShell",
    "CuratorShell",
    "Resident",
    "Shell",
    "SplitConsumerShell",
    "carry",
    "request_of",
]


class Charges(Protocol):
    """All that a shell asks of a ledger: charge for a draw, and keep it so that it is never made twice."""

    def answer(
        self,
        view: View,
        event: Event,
        run: Callable[[], tuple[bytes, Release[Any] | None]],
        *,
        request: Request,
        rows: int = 0,
        readable: int | None = None,
        also: Iterable[tuple[View, Event]] = (),
        unfinished: Unfinished = "refuse",
    ) -> bytes:
        """The bytes to use; ``run`` is not called for a request answered before."""


class Resident(Protocol):
    """Whoever answers in a party's name: what transports talk to."""

    @property
    def name(self) -> str:
        """The party's name in the terms."""

    @property
    def failed(self) -> bool:
        """Whether it says nothing more, and must be made anew."""

    def take(self, message: Message) -> tuple[Message, ...]:
        """The replies to a message; all that they cost is charged.

        Raises:
            LikesetError: there are none.
        """


_Party = TypeVar("_Party", bound=Party)


def carry(step: Step, commit: Callable[[ChargeWanted], bytes]) -> tuple[Message, ...]:
    """Carry a step to its end; returns the replies. Where a charge is refused, or its draw fails, its party has failed.

    Args:
        step: as a party returned it.
        commit: charges for a draw, and returns the bytes that are kept for it, drawn now or before.
    """
    while step.charge is not None:
        try:
            kept = commit(step.charge)
        except BaseException:
            step.abandon()
            raise
        step = step.go_on(kept)
    return step.replies


def request_of(wanted: ChargeWanted) -> Request:
    """What a ledger knows a draw by."""
    return Request(wanted.run, wanted.round, wanted.kind, content=wanted.content)


@dataclass(eq=False)
class Shell(Generic[_Party]):
    """A party and the ledger that answers for it.

    Args:
        party: pure; nobody else may drive it.
        charges: where everything that it wants charged is charged and kept.
    """

    party: _Party
    charges: Charges

    @property
    def name(self) -> str:
        """The party's name in the terms."""
        return self.party.name

    @property
    def terms(self) -> Terms:
        """Of the run."""
        return self.party.terms

    @property
    def failed(self) -> bool:
        """Whether a step was not carried to its end: the party must be made anew."""
        return self.party.failed

    def take(self, message: Message) -> tuple[Message, ...]:
        """The replies to a message; all that they cost is charged.

        Raises:
            LikesetError: it may not come, or cannot be answered.
        """
        return carry(self.party.receive(message), self.committed)

    def committed(self, wanted: ChargeWanted) -> bytes:
        """Charge for a draw; the bytes that are kept for it."""
        (view, event), *others = wanted.costs
        return self.charges.answer(
            view,
            event,
            wanted.draw,
            request=request_of(wanted),
            rows=wanted.rows,
            readable=wanted.readable,
            also=others,
            unfinished="resume" if wanted.repeatable else "refuse",
        )


class ConsumerShell(Shell[Consumer]):
    """The consumer, who speaks first."""

    def start(self) -> tuple[Message, ...]:
        """The target and its release; asked again, the same bytes."""
        return carry(self.party.start(), self.committed)


class CuratorShell(Shell[Curator]):
    """The curator, who waits for others, and not for ever."""

    @property
    def waiting_for(self) -> frozenset[str]:
        """The owners whose answer it still waits for."""
        return self.party.waiting_for

    def give_up(self, owner: str) -> tuple[Message, ...]:
        """What it says when it waits for an owner no longer."""
        return carry(self.party.give_up(owner), self.committed)


_Computing = TypeVar("_Computing", bound=ComputeParty)


class ComputeShell(Shell[_Computing]):
    """A compute party of a split run, who waits for owners' parts, and not for ever."""

    @property
    def waiting_for(self) -> frozenset[str]:
        """The owners whose part it still waits for."""
        return self.party.waiting_for

    def give_up(self, owner: str) -> tuple[Message, ...]:
        """What it says when it waits for an owner no longer."""
        return carry(self.party.give_up(owner), self.committed)


class SplitConsumerShell(ComputeShell[SplitConsumer]):
    """The consumer of a split run, who speaks first and last."""

    def start(self) -> tuple[Message, ...]:
        """The target's shares and its release; asked again, the same bytes."""
        return carry(self.party.start(), self.committed)

    def opened(self, picks: OpenedSlots) -> tuple[Message, ...]:
        """What it says once it has what the computation opened; its summary is made then."""
        return carry(self.party.opened(picks), self.committed)
