"""All parties in one process, with a trusted or a split curator. Nothing is private from whoever runs it.

Messages travel as bytes here too, so that what works in one process works between organisations. Owners work side by
side in threads, and what those who share a ledger answer to one round is one write there. An owner who cannot answer
(its policy, its budget, its data) abstains, and a message of an owner that the curator refuses is as if it had not
come; the run goes on.

The consumer speaks first, to the curator and to owners. After that everybody talks to the curator and hears the
curator. An answer is one message, in its sender's own name, for the curator, and none that was taken before; an owner
that answers otherwise fails alone.
"""

import hashlib
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from likeset.errors import IllegalMessage, LikesetError, QuorumMissed, RunCancelled
from likeset.homes.charges import carry, charge_of, request_of
from likeset.homes.curator import AS_IF_NOT_COME
from likeset.homes.home import utc_now
from likeset.homes.mail import check_not_expired
from likeset.ledger.budget import Charge
from likeset.ledger.ledger import Ledger, Request
from likeset.privacy.events import Release
from likeset.protocol.party import CURATOR, ChargeWanted, Party, Step
from likeset.protocol.sealed import Consumer, Curator
from likeset.protocol.split import NOTHING_HELD, ComputeInputs, ComputeParty, OpenedSlots, SplitConsumer
from likeset.protocol.terms import Terms
from likeset.protocol.wire import Message, Summary, decode
from likeset.trust.shares import ComputeRole


class Charges(Protocol):
    """The one method of a ledger that a shell calls."""

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
class Shell(Generic[_Party]):
    """A party and the ledger that answers for it: what transports talk to.

    Args:
        party: pure; nobody else may drive it.
        charges: where everything that it wants charged is charged and kept.
    """

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
        return carry(self.party.receive(message), self.committed)

    def start(self: "Shell[Consumer] | Shell[SplitConsumer]") -> tuple[Message, ...]:
        """What a consumer says first; asked again, the same bytes."""
        return carry(self.party.start(), self.committed)

    def give_up(self: "Shell[Curator] | Shell[ComputeParty] | Shell[SplitConsumer]", owner: str) -> tuple[Message, ...]:
        return carry(self.party.give_up(owner), self.committed)

    def opened(self: "Shell[SplitConsumer]", picks: OpenedSlots) -> tuple[Message, ...]:
        return carry(self.party.opened(picks), self.committed)

    def committed(self, wanted: ChargeWanted) -> bytes:
        charge, request = charge_of(wanted), request_of(wanted)
        return self.charges.draw(charge, wanted.draw, request=request, repeatable=wanted.repeatable)


Answers = tuple[Message, ...] | LikesetError
"""A party's replies, or why there are none."""

AtOnce = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""Calls a function with each of several things, perhaps side by side: ``map``, or that of a pool of threads."""


def take_together(asked: Sequence[tuple[Shell[Any], Message]], *, at_once: AtOnce = map) -> list[Answers]:
    """The replies of different parties to a message each, in their order; all that they cost is charged."""
    begun = list(at_once(_begun, asked))
    houses: dict[int, list[_Waiting]] = defaultdict(list)
    for one in begun:
        if isinstance(one, _Waiting) and one.ledger is not None:
            houses[id(one.ledger)].append(one)
    for neighbours in houses.values():
        if len(neighbours) > 1 and neighbours[0].ledger is not None:
            _charge_together(neighbours[0].ledger, neighbours, at_once)
    return list(at_once(_ended, begun))


@dataclass(eq=False)
class _Waiting:
    """A party that wants something charged before it goes on.

    Attributes:
        shell: with the party.
        step: as far as it came.
        wanted: what it waits for.
        ledger: of the house, if that may be charged there together with what others want: free, new and repeatable.
        kept: what is kept for that.
    """

    shell: Shell[Any]
    step: Step
    wanted: ChargeWanted
    ledger: Ledger | None = None
    kept: bytes | None = None


def _begun(asked: tuple[Shell[Any], Message]) -> _Waiting | Answers:
    """A party's first step; all that it says, if it wants nothing charged."""
    resident, message = asked
    try:
        if type(resident).take is not Shell.take:
            return resident.take(message)  # it has a way of its own
        step = resident.party.receive(message)
        wanted, ledger = step.charge, resident.charges
        if wanted is None:
            return tuple(step.replies)
        charge = charge_of(wanted)
        if not wanted.repeatable or not charge.free or not isinstance(ledger, Ledger):
            return _Waiting(resident, step, wanted)
        return _Waiting(resident, step, wanted, ledger if ledger.charge_of(request_of(wanted)) is None else None)
    except LikesetError as error:
        return error


def _charge_together(ledger: Ledger, waiting: Sequence[_Waiting], at_once: AtOnce) -> None:
    """Draw what costs nothing, and is the same whenever it is drawn, then reserve and commit all in one write."""
    try:
        drawn = list(at_once(lambda one: one.wanted.draw(), waiting))
        with ledger.deciding() as transaction:
            kept = [
                transaction.answer(charge_of(one.wanted), *answer, request=request_of(one.wanted))
                for one, answer in zip(waiting, drawn, strict=True)
            ]
        for one, answer in zip(waiting, kept, strict=True):
            one.kept = answer
    except LikesetError:
        return  # alone, each of them hears what is its own
    except BaseException:
        for one in waiting:
            one.step.abandon()
        raise


def _ended(one: _Waiting | Answers) -> Answers:
    if not isinstance(one, _Waiting):
        return one
    try:
        return carry(one.step if one.kept is None else one.step.go_on(one.kept), one.shell.committed)
    except LikesetError as error:
        return error


Progress = Callable[[str, int, int], None]
"""Called with (what is being waited for, how many are done, how many there are)."""

_MOST_REPLIES = 1  # of a party to one message: no protocol has more


@dataclass(frozen=True, eq=False)
class RunResult:
    """How a run ended.

    Attributes:
        summary: what the consumer received.
        messages: how many messages travelled.
        bytes_sent: and how many bytes.
        failures: owners who could not answer, and why, as they told themselves; nobody else hears it.
    """

    summary: Summary
    messages: int
    bytes_sent: int
    failures: Mapping[str, str]


@dataclass
class LocalEngine:
    """Runs a protocol among parties in this process.

    Args:
        workers: how many owners work at once.
        progress: called as answers come in.
        cancelled: asked between messages; a run that is cancelled spends nothing more and can be resumed.
        clock: tells the time, to see whether the terms have ended.
    """

    workers: int = 2
    progress: Progress | None = None
    cancelled: Callable[[], bool] | None = None
    clock: Callable[[], datetime] = utc_now

    def run(self, curator: Shell[Curator], owners: Mapping[str, Shell[Any]], consumer: Shell[Consumer]) -> RunResult:
        """Deliver messages until the consumer has its summary.

        Raises:
            TermsExpired: the terms may no longer be used; nothing was released.
            QuorumMissed: too few owners took part.
            RunCancelled: ``cancelled`` said so. Running again with the same ledgers resends, and draws nothing anew.
        """
        run = _LocalRun(curator, owners, consumer)
        check_not_expired(curator.terms, self.clock())
        queue = deque(run.opening())
        with ThreadPoolExecutor(max_workers=self.workers) as pool:
            # With one at a time, a thread would cost more than a small answer does.
            at_once: AtOnce = pool.map if self.workers > 1 else map
            while consumer.party.summary is None:
                if self.cancelled is not None and self.cancelled():
                    raise RunCancelled(
                        f"run {curator.terms.run} was cancelled; it can be resumed with the same ledgers"
                    )
                if not queue:
                    queue.extend(run.give_up_waiting())
                    if not queue:
                        break
                    continue
                batch = _front(queue, owners)
                if batch:
                    queue.extend(run.ask(batch, at_once))
                    continue
                message = queue.popleft()
                if message.receiver == CURATOR:
                    queue.extend(run.tell_curator(message))
                    if self.progress is not None:
                        total = len(curator.terms.owners)
                        self.progress("owners", total - len(curator.party.waiting_for), total)
                elif message.receiver == curator.terms.consumer:
                    queue.extend(run.received(consumer.take(message), message.receiver))
        summary = consumer.party.summary
        if summary is None:
            raise RunCancelled(f"run {curator.terms.run} ended without a summary")
        return RunResult(summary, run.messages, run.bytes_sent, run.failures)


@dataclass
class _LocalRun:
    """Checks and counts what the parties of one run say."""

    curator: Shell[Curator]
    owners: Mapping[str, Shell[Any]]
    consumer: Shell[Consumer]
    messages: int = 0
    bytes_sent: int = 0
    failures: dict[str, str] = field(default_factory=dict)
    _taken: set[bytes] = field(default_factory=set)  # digests of messages that the curator took
    _said: set[bytes] = field(default_factory=set)  # and of those that it wrote

    def opening(self) -> list[Message]:
        """What the consumer says first: one message to the curator, and at most one to each owner."""
        name, owners = self.curator.terms.consumer, self.curator.terms.owners
        messages = [_travelled(message) for message in self.consumer.start()]
        receivers = [message.receiver for message in messages]
        if len(set(receivers)) < len(receivers) or not {CURATOR} <= set(receivers) <= {CURATOR, *owners}:
            raise IllegalMessage(f"{name} must begin with one message to the curator and at most one to each owner")
        if any(message.sender != name for message in messages):
            raise IllegalMessage(f"{name} spoke in another party's name")
        # The curator hears it first: it is to wait for owners when the first of them answers.
        return self._counted(sorted(messages, key=lambda message: message.receiver != CURATOR))

    def received(self, replies: Sequence[Message], sender: str) -> list[Message]:
        if len(replies) > _MOST_REPLIES:
            raise IllegalMessage(f"{sender} sent {len(replies)} messages where at most {_MOST_REPLIES} may come")
        messages = [_travelled(message) for message in replies]
        if any(message.sender != sender for message in messages):
            raise IllegalMessage(f"{sender} spoke in another party's name")
        if any(message.receiver != CURATOR for message in messages):
            # Carried on, it would be refused there, and the blame would be the receiver's.
            raise IllegalMessage(f"{sender} wrote to somebody else than the curator")
        return self._counted(messages)

    def ask(self, batch: Sequence[Message], at_once: AtOnce) -> Iterable[Message]:
        answered = take_together([(self.owners[message.receiver], message) for message in batch], at_once=at_once)
        for message, answers in zip(batch, answered, strict=True):
            yield from self._answered(message.receiver, answers)

    def _answered(self, owner: str, answers: Answers) -> list[Message]:
        try:
            if isinstance(answers, LikesetError):
                raise IllegalMessage(str(answers)) from answers
            return self.received(answers, owner)
        except AS_IF_NOT_COME as error:
            # What follows from the first failure explains less.
            self.failures.setdefault(owner, str(error))
            return self._said_by_curator(self.curator.give_up(owner))

    def tell_curator(self, message: Message) -> list[Message]:
        """What the curator says to a message; one of an owner that it refuses does not stop the run."""
        digest = hashlib.sha256(message.data).digest()
        try:
            if digest in self._taken:
                # The curator would say again what it said then, to all: an owner could go round in circles for ever.
                raise IllegalMessage(f"{message.sender} sent a message again that was taken before")
            replies = self.curator.take(message)
        except AS_IF_NOT_COME as error:
            if message.sender not in self.curator.terms.owners:
                raise
            self.failures.setdefault(message.sender, str(error))
            return []
        self._taken.add(digest)
        return self._said_by_curator(replies)

    def give_up_waiting(self) -> list[Message]:
        """Nobody has anything to say and the curator still waits: those owners will never answer."""
        return [
            message
            for owner in sorted(self.curator.party.waiting_for)
            for message in self._said_by_curator(self.curator.give_up(owner))
        ]

    def _said_by_curator(self, messages: Sequence[Message]) -> list[Message]:
        """What the curator says, once: an old message gets the old replies again, round and round."""
        new = []
        for message in map(_travelled, messages):
            digest = hashlib.sha256(message.data).digest()
            if digest not in self._said:
                self._said.add(digest)
                new.append(message)
        return self._counted(new)

    def _counted(self, messages: list[Message]) -> list[Message]:
        self.messages += len(messages)
        self.bytes_sent += sum(len(message.data) for message in messages)
        return messages


def _travelled(message: Message) -> Message:
    arrived = decode(message.data)
    arrived.__dict__["data"] = message.data
    return arrived


def _front(queue: deque[Message], owners: Mapping[str, Shell[Any]]) -> list[Message]:
    """The messages at the front of the queue that go to different owners: they can be answered side by side."""
    batch: dict[str, Message] = {}
    while queue and (receiver := queue[0].receiver) in owners and receiver not in batch:
        batch[receiver] = queue.popleft()
    return list(batch.values())


# A split run: this loop carries what parties say, and asks for the computation once all compute parties are ready.

LocalComputation = Callable[[Mapping[ComputeRole, ComputeInputs]], OpenedSlots]
"""Computes with all parties' inputs; returns what is opened to the consumer."""


def run_split(
    consumer: Shell[SplitConsumer],
    others: Mapping[ComputeRole, Shell[Any]],
    owners: Mapping[str, Shell[Any]],
    *,
    compute: LocalComputation,
    progress: Progress | None = None,
) -> RunResult:
    """Deliver messages until the consumer has its summary, and the others (curator and witness) know it.

    Raises:
        TermsExpired: the terms may no longer be used; nothing was released.
        QuorumMissed: too few owners took part, or no row that was picked held.
    """
    check_not_expired(consumer.terms, utc_now())
    delivery = _SplitRun(consumer, others, owners, compute, progress)
    delivery.send(consumer.start())
    with ThreadPoolExecutor(max_workers=2) as pool:
        while delivery.queue or not consumer.party.finished:
            delivery.next_step(pool)
    summary = consumer.party.summary
    if summary is None:
        raise QuorumMissed(NOTHING_HELD)
    return RunResult(summary, delivery.messages, delivery.bytes_sent, delivery.failures)


@dataclass
class _SplitRun:
    consumer: Shell[SplitConsumer]
    others: Mapping[ComputeRole, Shell[Any]]
    owners: Mapping[str, Shell[Any]]
    compute: LocalComputation
    progress: Progress | None
    queue: deque[Message] = field(default_factory=deque, init=False)
    messages: int = field(default=0, init=False)
    bytes_sent: int = field(default=0, init=False)
    failures: dict[str, str] = field(default_factory=dict, init=False)

    def send(self, said: Collection[Message]) -> None:
        self.messages += len(said)
        self.bytes_sent += sum(len(message.data) for message in said)
        self.queue.extend(said)

    def next_step(self, pool: ThreadPoolExecutor) -> None:
        """One message to a compute party, or several to different owners; what is due where there is none."""
        if not self.queue:
            self._nobody_speaks()
            return
        batch = _front(self.queue, self.owners)
        if batch:
            for message, replies in zip(batch, pool.map(self._answer, batch), strict=True):
                self._take(message.receiver, replies)
            return
        message = self.queue.popleft()
        hearer = self._computing.get(message.receiver)
        if hearer is not None:
            self.send(hearer.take(decode(message.data)))
            self._report()

    @property
    def _computing(self) -> dict[str, Shell[Any]]:
        return {shell.name: shell for shell in (self.consumer, *self.others.values())}

    def _answer(self, message: Message) -> tuple[Message, ...] | LikesetError:
        try:
            return self.owners[message.receiver].take(decode(message.data))
        except LikesetError as error:
            return error

    def _take(self, owner: str, replies: tuple[Message, ...] | LikesetError) -> None:
        if isinstance(replies, LikesetError):
            self.failures.setdefault(owner, str(replies))
            self.send(self.consumer.give_up(owner))
        else:
            self.send(replies)

    def _nobody_speaks(self) -> None:
        """All compute, if they are ready; or else whoever is still waited for will not answer."""
        ready = [shell.party.is_ready for shell in self._computing.values()]
        if all(ready):
            inputs = {shell.party.role: shell.party.inputs() for shell in self._computing.values()}
            self.send(self.consumer.opened(self.compute(inputs)))
            return
        # The consumer comes first: whom it gives up, the others need not wait for.
        waiting = [(shell, owner) for shell in self._computing.values() for owner in sorted(shell.party.waiting_for)]
        if not waiting:
            raise RunCancelled(f"run {self.consumer.terms.run} ended without a summary")
        shell, owner = waiting[0]
        self.send(shell.give_up(owner))

    def _report(self) -> None:
        if self.progress is not None:
            total = len(self.consumer.terms.owners)
            self.progress("owners", total - len(self.consumer.party.waiting_for), total)
