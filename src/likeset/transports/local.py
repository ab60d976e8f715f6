"""All parties in one process, with a trusted or a split curator. Nothing is private from the person who runs it.

Messages travel as bytes here too, so that what works in one process works between organisations. Owners work side by
side in threads. An owner who cannot answer (its policy, its budget, its data) abstains, and a message of an owner that
the curator refuses is as if it had not come; the run goes on.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Generic, Protocol, TypeVar

from likeset.errors import LikesetError, ProtocolError, QuorumMissed
from likeset.ledger.budget import Charge, Request
from likeset.privacy.events import Release
from likeset.protocol.party import CURATOR, ChargeWanted, Party
from likeset.protocol.sealed import Consumer, Curator
from likeset.protocol.split import NOTHING_HELD, ComputeInputs, ComputeParty, OpenedSlots, SplitConsumer
from likeset.protocol.terms import Terms
from likeset.protocol.wire import Message, Summary, decode
from likeset.trust.shares import ComputeRole


class Charges(Protocol):
    def draw(
        self,
        charge: Charge,
        run: Callable[[], tuple[bytes, Release[Any] | None]],
        *,
        request: Request,
        repeatable: bool = False,
    ) -> bytes: ...


_Party = TypeVar("_Party", bound=Party)


@dataclass(eq=False)
class ChargedParty(Generic[_Party]):
    """A party and the ledger where everything that it wants charged is charged and stored; nobody else drives it."""

    party: _Party
    charges: Charges

    @property
    def name(self) -> str:
        return self.party.name

    @property
    def terms(self) -> Terms:
        return self.party.terms

    def take(self, message: Message) -> tuple[Message, ...]:
        """The replies to a message; all that they cost is charged. Raises if it may not come, or has no answer."""
        return self.party.receive(message).complete(self.committed)

    def start(self: "ChargedParty[Consumer] | ChargedParty[SplitConsumer]") -> tuple[Message, ...]:
        return self.party.start().complete(self.committed)

    def give_up(
        self: "ChargedParty[Curator] | ChargedParty[ComputeParty] | ChargedParty[SplitConsumer]", owner: str
    ) -> tuple[Message, ...]:
        return self.party.give_up(owner).complete(self.committed)

    def opened(self: "ChargedParty[SplitConsumer]", picks: OpenedSlots) -> tuple[Message, ...]:
        return self.party.opened(picks).complete(self.committed)

    def committed(self, wanted: ChargeWanted) -> bytes:
        # An owner that is made anew and hears something else answers nothing for the same charge. The others use what
        # they drew whatever they hear: owners may answer differently when a run is resumed.
        request = wanted.request(inputs=self.party.heard if self.name in self.terms.owners else b"")
        return self.charges.draw(wanted.charge, wanted.draw, request=request, repeatable=wanted.repeatable)


Progress = Callable[[str, int, int], None]
"""Called with (stage, done, of)."""


@dataclass(frozen=True, eq=False)
class RunResult:
    summary: Summary
    messages: int
    bytes_sent: int
    failures: Mapping[str, str]  # owners who could not answer, and why; the reasons are told to no other party


@dataclass
class _Delivery:
    owners: Mapping[str, ChargedParty[Any]]
    others: Sequence[ChargedParty[Any]]
    leader: ChargedParty[Any]  # of the others, the one that gives up owners
    progress: Progress | None
    queue: deque[Message] = field(default_factory=deque)
    messages: int = 0
    bytes_sent: int = 0
    failures: dict[str, str] = field(default_factory=dict)

    def send(self, messages: Sequence[Message]) -> None:
        self.messages += len(messages)
        self.bytes_sent += sum(len(message.data) for message in messages)
        self.queue += [decode(message.data) for message in messages]

    def give_up(self, owner: str, why: LikesetError) -> None:
        self.failures.setdefault(owner, str(why))  # what follows from the first failure explains less
        self.send(self.leader.give_up(owner))

    def next_step(self, pool: ThreadPoolExecutor) -> None:
        batch = self._front()
        if batch:
            for message, answers in zip(batch, pool.map(self._answers, batch), strict=True):
                if isinstance(answers, LikesetError):
                    self.give_up(message.receiver, answers)
                else:
                    self.send(answers)
            return
        message = self.queue.popleft()
        for party in self.others:
            if party.name == message.receiver:
                self._tell(party, message)

    def _answers(self, message: Message) -> tuple[Message, ...] | LikesetError:
        try:
            return self.owners[message.receiver].take(message)
        except LikesetError as error:
            return error

    def _tell(self, party: ChargedParty[Any], message: Message) -> None:
        """A message of an owner that is refused does not stop the run: the owner is given up later."""
        try:
            self.send(party.take(message))
        except LikesetError as error:
            if error.fault != "peer" or message.sender not in party.terms.owners:
                raise
            self.failures.setdefault(message.sender, str(error))
        if self.progress is not None:
            total = len(party.terms.owners)
            self.progress("owners", total - len(self.leader.party.waiting_for), total)

    def _front(self) -> list[Message]:
        """The messages at the front of the queue that go to different owners: they can be answered side by side."""
        batch: dict[str, Message] = {}
        while self.queue and (receiver := self.queue[0].receiver) in self.owners and receiver not in batch:
            batch[receiver] = self.queue.popleft()
        return list(batch.values())

    def result(self, summary: Summary) -> RunResult:
        return RunResult(summary, self.messages, self.bytes_sent, self.failures)


def run_local(
    curator: ChargedParty[Curator],
    owners: Mapping[str, ChargedParty[Any]],
    consumer: ChargedParty[Consumer],
    *,
    progress: Progress | None = None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> RunResult:
    """Deliver messages until the consumer has its summary. Running again with the same ledgers draws nothing anew."""
    curator.terms.check_not_expired(clock())
    delivery = _Delivery(owners, (curator, consumer), curator, progress)
    # The curator hears the consumer first: it is to wait for owners when the first of them answers.
    delivery.send(sorted(consumer.start(), key=lambda message: message.receiver != CURATOR))
    with ThreadPoolExecutor(max_workers=2) as pool:
        while consumer.party.summary is None:
            if delivery.queue:
                delivery.next_step(pool)
                continue
            waiting = sorted(curator.party.waiting_for)  # nobody has anything to say: these will never answer
            if not waiting:
                raise ProtocolError(f"run {curator.terms.run} ended without a summary")
            for owner in waiting:
                delivery.send(curator.give_up(owner))
    return delivery.result(consumer.party.summary)


def run_split(
    consumer: ChargedParty[SplitConsumer],
    others: Mapping[ComputeRole, ChargedParty[Any]],
    owners: Mapping[str, ChargedParty[Any]],
    *,
    compute: Callable[[Mapping[ComputeRole, ComputeInputs]], OpenedSlots],
    progress: Progress | None = None,
) -> RunResult:
    """Deliver messages until the consumer has its summary, and the others (curator and witness) know it.

    The computation is asked for once all compute parties are ready.
    """
    consumer.terms.check_not_expired(datetime.now(UTC))
    computing = (consumer, *others.values())
    delivery = _Delivery(owners, computing, consumer, progress)
    delivery.send(consumer.start())
    with ThreadPoolExecutor(max_workers=2) as pool:
        while delivery.queue or not consumer.party.finished:
            if delivery.queue:
                delivery.next_step(pool)
            elif all(each.party.is_ready for each in computing):
                inputs = {each.party.role: each.party.inputs() for each in computing}
                delivery.send(consumer.opened(compute(inputs)))
            else:
                # The consumer comes first: whom it gives up, the others need not wait for.
                waiting = [(each, owner) for each in computing for owner in sorted(each.party.waiting_for)]
                if not waiting:
                    raise ProtocolError(f"run {consumer.terms.run} ended without a summary")
                party, owner = waiting[0]
                delivery.send(party.give_up(owner))
    if consumer.party.summary is None:
        raise QuorumMissed(NOTHING_HELD)
    return delivery.result(consumer.party.summary)
