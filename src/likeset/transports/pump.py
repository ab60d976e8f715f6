"""The loop that every engine runs: carry a parcel to its recipient and take the replies, until the summary is there.

How bytes get from one party to another is the transport's business. Whoever cannot answer (its policy, its budget, its
data, its connection) abstains, and a parcel of an owner that the curator refuses is as if it had not come. What is in
a parcel the loop does not know: it knows from whom it is and for whom, and no more.

The consumer speaks first, to the curator and to owners. After that everybody talks to the curator and hears the
curator: nothing that an owner says is carried to another owner or to the consumer. An answer is one parcel, in its
sender's own name, for the curator, and none that was taken before; whoever answers otherwise fails alone.

One thing comes back: where somebody wrote two different letters under one number, its reader answers with the one that
came first. That goes to its writer, once, who sees whether it remembers it, and to nobody else.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from likeset.errors import (
    BadMessage,
    IllegalMessage,
    LikesetError,
    RunCancelled,
)
from likeset.homes.mail import AtOnce, check_not_expired, utc_now
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import Terms
from likeset.protocol.wire import MOST_BYTES
from likeset.transports.refused_letters import AS_IF_NOT_COME

Progress = Callable[[str, int, int], None]
"""Called with (what is being waited for, how many are done, how many there are)."""

Replies = Sequence[bytes] | LikesetError
"""What an owner says to a parcel, or why it says nothing."""

_MOST_REPLIES = 1  # of a party to one parcel: no protocol has more


@dataclass(frozen=True, slots=True)
class Parcel:
    """Bytes on their way.

    Attributes:
        sender: who wrote them, by the name in the terms.
        recipient: for whom they are, likewise.
        data: the bytes.
    """

    sender: str
    recipient: str
    data: bytes = field(repr=False)


class CuratorSide(Protocol):
    """The curator of one run, as whoever carries its parcels sees it."""

    @property
    def terms(self) -> Terms: ...

    @property
    def waiting_for(self) -> frozenset[str]: ...

    def take(self, data: bytes) -> Sequence[Parcel]:
        """What it says to bytes that came for it.

        Raises:
            BadMessage, IllegalMessage, LetterRefused, LetterContradicts: they are as if they had not come.
            LikesetError: the run cannot go on.
        """

    def give_up(self, owner: str) -> Sequence[Parcel]: ...


class Transport(Protocol):
    """How the curator reaches the other parties; only bytes go either way."""

    @property
    def owners(self) -> Collection[str]: ...

    @property
    def done(self) -> bool: ...

    def start(self) -> Sequence[bytes]: ...

    def ask_all(self, parcels: Sequence[Parcel], at_once: AtOnce) -> Iterable[Replies]:
        """The replies of different owners, in the order of the parcels; ``at_once`` asks them side by side."""

    def hand_over(self, data: bytes) -> Sequence[bytes]:
        """The consumer's replies to a parcel; an error ends the run."""

    def give_back(self, writer: str, data: bytes) -> None:
        """Show an owner or the consumer what it wrote before; what it says to that is not heard."""


class EachAlone:
    """A transport to owners who have houses of their own: each is asked by itself."""

    def ask(self, owner: str, data: bytes) -> Sequence[bytes]:
        """An owner's replies to a parcel; raises a LikesetError where it has none. Called from several threads."""
        raise NotImplementedError

    def ask_all(self, parcels: Sequence[Parcel], at_once: AtOnce) -> Iterable[Replies]:
        def answer(parcel: Parcel) -> Replies:
            try:
                return self.ask(parcel.recipient, parcel.data)
            except LikesetError as error:
                return error

        return at_once(answer, parcels)


@dataclass
class Pump:
    """Carries the parcels of one run.

    Args:
        curator: of the run.
        transport: to everybody else.
        parcel: reads off bytes from whom they are and for whom; raises a LikesetError where they do not say it.
        workers: how many owners are asked at once.
        progress: called as answers come in.
        cancelled: asked between parcels.
        clock: tells the time, to see whether the terms have ended.
        most_bytes: no parcel of another party may be larger.

    Attributes:
        messages: how many parcels travelled.
        bytes_sent: and how many bytes.
        failures: owners who could not answer, and why, in the words that reached the curator.
    """

    curator: CuratorSide
    transport: Transport
    parcel: Callable[[bytes], Parcel]
    workers: int = 2
    progress: Progress | None = None
    cancelled: Callable[[], bool] | None = None
    clock: Callable[[], datetime] = utc_now
    most_bytes: int = MOST_BYTES
    messages: int = field(default=0, init=False)
    bytes_sent: int = field(default=0, init=False)
    failures: dict[str, str] = field(default_factory=dict, init=False)
    _taken_digests: set[bytes] = field(default_factory=set, init=False)
    _said_digests: set[bytes] = field(default_factory=set, init=False)
    _given_back: set[bytes] = field(default_factory=set, init=False)

    def run(self) -> None:
        """Carry parcels until the consumer has its summary.

        Raises:
            TermsExpired: the terms may no longer be used; nothing was released.
            QuorumMissed: too few owners took part.
            RunCancelled: ``cancelled`` said so. Running again with the same ledgers resends, and draws nothing anew.
        """
        curator, transport, terms = self.curator, self.transport, self.curator.terms
        check_not_expired(terms, self.clock())
        queue = deque(self._opening(transport.start()))
        with ThreadPoolExecutor(max_workers=self.workers) as pool:
            # With one at a time, a thread would cost more than a small answer does.
            at_once: AtOnce = pool.map if self.workers > 1 else map
            while not transport.done:
                if self.cancelled is not None and self.cancelled():
                    raise RunCancelled(f"run {terms.run} was cancelled; it can be resumed with the same ledgers")
                if not queue:
                    # Nobody has anything to say and the curator still waits: those owners will never answer.
                    for owner in sorted(curator.waiting_for):
                        queue.extend(self._said_by_curator(curator.give_up(owner)))
                    if not queue:
                        break
                    continue
                batch = _front(queue, transport.owners)
                if batch:
                    for asked, replies in zip(batch, transport.ask_all(batch, at_once), strict=True):
                        queue.extend(self._taken(asked.recipient, replies))
                    continue
                parcel = queue.popleft()
                if parcel.recipient == CURATOR:
                    queue.extend(self._heard_by_curator(parcel))
                    self._report()
                elif parcel.recipient == terms.consumer:
                    queue.extend(self._arrived(transport.hand_over(parcel.data), terms.consumer))
        if not transport.done:
            raise RunCancelled(f"run {terms.run} ended without a summary")

    def _opening(self, first_words: Sequence[bytes]) -> list[Parcel]:
        """What the consumer says first: one parcel for the curator, and at most one for each owner."""
        consumer, owners = self.curator.terms.consumer, self.curator.terms.owners
        parcels = self._addressed(first_words, consumer)
        recipients = [parcel.recipient for parcel in parcels]
        if len(set(recipients)) < len(recipients) or not {CURATOR} <= set(recipients) <= {CURATOR, *owners}:
            raise IllegalMessage(f"{consumer} must begin with one message to the curator and at most one to each owner")
        # The curator hears it first: it is to wait for owners when the first of them answers.
        return self._counted(sorted(parcels, key=lambda parcel: parcel.recipient != CURATOR))

    def _arrived(self, replies: Sequence[bytes], sender: str) -> list[Parcel]:
        if len(replies) > _MOST_REPLIES:
            raise IllegalMessage(f"{sender} sent {len(replies)} messages where at most {_MOST_REPLIES} may come")
        parcels = self._addressed(replies, sender)
        if len(parcels) < len(replies):
            raise IllegalMessage(f"{sender} sent back what it was sent")
        if any(parcel.recipient != CURATOR for parcel in parcels):
            # Carried on, it would be refused there, and the blame would be the recipient's.
            raise IllegalMessage(f"{sender} wrote to somebody else than the curator")
        return self._counted(parcels)

    def _addressed(self, replies: Sequence[bytes], sender: str) -> list[Parcel]:
        """Bytes of a party, with whom they are for; what was written to it goes back, and is not among them."""
        for data in replies:
            if len(data) > self.most_bytes:
                raise BadMessage(f"{len(data)} bytes are more than the {self.most_bytes} that may come")
        parcels = [self.parcel(data) for data in replies]
        if any(sender not in (parcel.sender, parcel.recipient) for parcel in parcels):
            raise IllegalMessage(f"{sender} spoke in another party's name")
        for parcel in parcels:
            if parcel.sender != sender:
                self._give_back(parcel)
        return [parcel for parcel in parcels if parcel.sender == sender]

    def _give_back(self, parcel: Parcel) -> None:
        """Show a party what it wrote before, once. The curator's side ends the run if it does not remember it."""
        digest = hashlib.sha256(parcel.data).digest()
        if digest in self._given_back:
            return
        self._given_back.add(digest)
        if parcel.sender == CURATOR:
            with suppress(*AS_IF_NOT_COME):
                self.curator.take(parcel.data)
        else:
            with suppress(LikesetError):
                self.transport.give_back(parcel.sender, parcel.data)

    def _counted(self, parcels: Sequence[Parcel]) -> list[Parcel]:
        self.messages += len(parcels)
        self.bytes_sent += sum(len(parcel.data) for parcel in parcels)
        return list(parcels)

    def _taken(self, owner: str, replies: Replies) -> list[Parcel]:
        try:
            if isinstance(replies, LikesetError):
                raise IllegalMessage(str(replies)) from replies
            return self._arrived(replies, owner)
        except AS_IF_NOT_COME as error:
            # What follows from the first failure explains less.
            self.failures.setdefault(owner, str(error))
            return self._said_by_curator(self.curator.give_up(owner))

    def _heard_by_curator(self, parcel: Parcel) -> list[Parcel]:
        """What the curator says to a parcel; one of an owner that it refuses does not stop the run."""
        digest = hashlib.sha256(parcel.data).digest()
        try:
            if digest in self._taken_digests:
                # The curator would say again what it said then, to all: an owner could go round in circles for ever.
                raise IllegalMessage(f"{parcel.sender} sent a message again that was taken before")
            replies = self.curator.take(parcel.data)
            own = [reply for reply in replies if reply.sender == CURATOR]
            if len(own) < len(replies):
                for reply in replies:
                    self._give_back(reply)
                raise IllegalMessage(f"{parcel.sender} wrote two different letters under one number")
        except AS_IF_NOT_COME as error:
            if parcel.sender not in self.curator.terms.owners:
                raise
            self.failures.setdefault(parcel.sender, str(error))
            return []
        self._taken_digests.add(digest)
        return self._said_by_curator(own)

    def _said_by_curator(self, parcels: Sequence[Parcel]) -> list[Parcel]:
        """What the curator says, once: an old message in a new letter gets the old replies again, round and round."""
        new = []
        for parcel in parcels:
            digest = hashlib.sha256(parcel.data).digest()
            if digest not in self._said_digests:
                self._said_digests.add(digest)
                new.append(parcel)
        return self._counted(new)

    def _report(self) -> None:
        if self.progress is not None:
            total = len(self.curator.terms.owners)
            self.progress("owners", total - len(self.curator.waiting_for), total)


def _front(queue: deque[Parcel], owners: Collection[str]) -> list[Parcel]:
    """The parcels at the front of the queue that go to different owners: they can be answered side by side."""
    batch: dict[str, Parcel] = {}
    while queue and (recipient := queue[0].recipient) in owners and recipient not in batch:
        batch[recipient] = queue.popleft()
    return list(batch.values())
