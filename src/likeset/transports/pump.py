"""The loop that every engine runs: give a message to its receiver and take the replies, until the summary is there.

How bytes get from one party to another is the transport's business. Whoever cannot answer (its policy, its budget, its
data, its connection) abstains, and a message of an owner that the curator refuses is as if it had not come.

Everybody talks to the curator and hears the curator: nothing is carried from one owner to another, or to the consumer,
that the curator did not write. An answer is one message, in its sender's own name, for the curator, and none that was
taken before; whoever answers otherwise fails alone.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from likeset.errors import BadMessage, IllegalMessage, LikesetError, RunCancelled
from likeset.homes.expiry import check_not_expired, utc_now
from likeset.homes.shell import CuratorShell
from likeset.protocol.messages import MOST_BYTES, Message, decode

__all__ = ["Progress", "Pump", "Transport"]

Progress = Callable[[str, int, int], None]
"""Called with (what is being waited for, how many are done, how many there are)."""

_Parcel = tuple[Message, bytes]

_MOST_REPLIES = 1  # of a party to one message: no protocol has more


class Transport(Protocol):
    """How the curator reaches the other parties; only bytes of messages go either way."""

    @property
    def owners(self) -> Collection[str]:
        """Owners who can be reached; the others will be given up."""

    @property
    def done(self) -> bool:
        """Whether the consumer has its summary."""

    def start(self) -> Sequence[bytes]:
        """What the consumer has to say first."""

    def ask(self, owner: str, data: bytes) -> Sequence[bytes]:
        """An owner's replies to a message; raises a LikesetError where it has none. Called from several threads."""

    def hand_over(self, data: bytes) -> Sequence[bytes]:
        """The consumer's replies to a message; an error ends the run."""


@dataclass
class Pump:
    """Carries the messages of one run.

    Args:
        curator: of the run.
        transport: to everybody else.
        workers: how many owners are asked at once.
        progress: called as answers come in.
        cancelled: asked between messages.
        clock: tells the time, to see whether the terms have ended.
        most_bytes: no message of another party may be larger.

    Attributes:
        messages: how many messages travelled.
        bytes_sent: and how many bytes.
        failures: owners who could not answer, and why, in the words that reached the curator.
    """

    curator: CuratorShell
    transport: Transport
    workers: int = 2
    progress: Progress | None = None
    cancelled: Callable[[], bool] | None = None
    clock: Callable[[], datetime] = utc_now
    most_bytes: int = MOST_BYTES
    messages: int = field(default=0, init=False)
    bytes_sent: int = field(default=0, init=False)
    failures: dict[str, str] = field(default_factory=dict, init=False)
    _taken_places: set[tuple[str, int, str]] = field(default_factory=set, init=False)

    def run(self) -> None:
        """Deliver messages until the consumer has its summary.

        Raises:
            TermsExpired: the terms may no longer be used; nothing was released.
            QuorumMissed: too few owners took part.
            RunCancelled: ``cancelled`` said so. Running again with the same ledgers resends, and draws nothing anew.
        """
        curator, transport = self.curator, self.transport
        check_not_expired(curator.terms, self.clock())
        queue = deque(self._arrived(transport.start(), curator.terms.consumer))
        with ThreadPoolExecutor(max_workers=self.workers) as pool:
            while not transport.done:
                if self.cancelled is not None and self.cancelled():
                    raise RunCancelled(
                        f"run {curator.terms.run} was cancelled; it can be resumed with the same ledgers"
                    )
                if not queue:
                    # Nobody has anything to say and the curator still waits: those owners will never answer.
                    for owner in sorted(curator.waiting_for):
                        queue.extend(self._sent(curator.give_up(owner)))
                    if not queue:
                        break
                    continue
                batch = _front(queue, transport.owners)
                if batch:
                    for (call, _), replies in zip(batch, pool.map(self._answer, batch), strict=True):
                        queue.extend(self._taken(call.receiver, replies))
                    continue
                message, data = queue.popleft()
                if message.receiver == curator.name:
                    queue.extend(self._heard_by_curator(message))
                    self._report()
                elif message.receiver == curator.terms.consumer:
                    queue.extend(self._arrived(transport.hand_over(data), curator.terms.consumer))
        if not transport.done:
            raise RunCancelled(f"run {curator.terms.run} ended without a summary")

    def _sent(self, messages: Iterable[Message]) -> list[_Parcel]:
        """Messages of the curator, as bytes and counted."""
        return self._counted([(message, message.data) for message in messages])

    def _arrived(self, replies: Sequence[bytes], sender: str) -> list[_Parcel]:
        """A party's messages to the curator from bytes, counted: all of them, or none if one may not come."""
        if len(replies) > _MOST_REPLIES:
            raise IllegalMessage(f"{sender} sent {len(replies)} messages where at most {_MOST_REPLIES} may come")
        parcels = [(decode(data, most_bytes=self.most_bytes), data) for data in replies]
        for message, _ in parcels:
            if message.sender != sender:
                raise IllegalMessage(f"{sender} spoke in another party's name")
            if message.receiver != self.curator.name:
                # Carried on, it would be refused there, and the blame would be the receiver's.
                raise IllegalMessage(f"{sender} wrote to somebody else than the curator")
        return self._counted(parcels)

    def _counted(self, parcels: list[_Parcel]) -> list[_Parcel]:
        self.messages += len(parcels)
        self.bytes_sent += sum(len(data) for _, data in parcels)
        return parcels

    def _answer(self, parcel: _Parcel) -> Sequence[bytes] | LikesetError:
        call, data = parcel
        try:
            return self.transport.ask(call.receiver, data)
        except LikesetError as error:
            return error

    def _taken(self, owner: str, replies: Sequence[bytes] | LikesetError) -> list[_Parcel]:
        """An owner's messages, or what the curator says when it is given up."""
        try:
            if isinstance(replies, LikesetError):
                raise replies
            return self._arrived(replies, owner)
        except LikesetError as error:
            # What follows from the first failure explains less.
            self.failures.setdefault(owner, str(error))
            return self._sent(self.curator.give_up(owner))

    def _heard_by_curator(self, message: Message) -> list[_Parcel]:
        """What the curator says to a message; one of an owner that it refuses does not stop the run."""
        place = (message.sender, message.round, message.body.kind)
        try:
            if place in self._taken_places:
                # The curator would say again what it said then, to all: an owner could go round in circles for ever.
                raise IllegalMessage(f"{message.sender} sent a {message.body.kind} message again that was taken before")
            replies = self.curator.take(message)
        except (BadMessage, IllegalMessage) as error:
            if message.sender not in self.curator.terms.owners:
                raise
            self.failures.setdefault(message.sender, str(error))
            return []
        self._taken_places.add(place)
        return self._sent(replies)

    def _report(self) -> None:
        if self.progress is not None:
            total = len(self.curator.terms.owners)
            self.progress("owners", total - len(self.curator.waiting_for), total)


def _front(queue: deque[_Parcel], owners: Collection[str]) -> list[_Parcel]:
    """The messages at the front of the queue that go to different owners: they can be answered side by side."""
    batch: dict[str, _Parcel] = {}
    while queue and (receiver := queue[0][0].receiver) in owners and receiver not in batch:
        batch[receiver] = queue.popleft()
    return list(batch.values())
