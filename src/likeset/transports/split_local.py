"""All parties of a split run in one process: for one house, tests and studies. Nothing is private from whoever runs it.

Messages travel as bytes, as in ``transports.local``. How to compute is the caller's business: this loop carries what
parties say, and asks for the computation once all compute parties are ready for it.
"""

from collections import deque
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from likeset.errors import LikesetError, QuorumMissed, RunCancelled
from likeset.homes.mail import ComputeShell, Resident, SplitConsumerShell, check_not_expired, utc_now
from likeset.protocol.split_run import NOTHING_HELD, ComputeInputs, OpenedSlots
from likeset.protocol.wire import Message, decode
from likeset.transports.local import Progress, RunResult
from likeset.trust.shares import ComputeRole

LocalComputation = Callable[[Mapping[ComputeRole, ComputeInputs]], OpenedSlots]
"""Computes with all parties' inputs; returns what is opened to the consumer."""


def run_split(
    consumer: SplitConsumerShell,
    others: Mapping[ComputeRole, ComputeShell[Any]],
    owners: Mapping[str, Resident],
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
    delivery = _Delivery(consumer, others, owners, compute, progress)
    delivery.send(consumer.start())
    with ThreadPoolExecutor(max_workers=2) as pool:
        while delivery.queue or not consumer.party.finished:
            delivery.next_step(pool)
    summary = consumer.party.summary
    if summary is None:
        raise QuorumMissed(NOTHING_HELD)
    return RunResult(summary, delivery.messages, delivery.bytes_sent, delivery.failures)


@dataclass
class _Delivery:
    consumer: SplitConsumerShell
    others: Mapping[ComputeRole, ComputeShell[Any]]
    owners: Mapping[str, Resident]
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
            for owner, replies in zip(batch, pool.map(self._answer, batch.values()), strict=True):
                self._take(owner, replies)
            return
        message = self.queue.popleft()
        hearer = self._computing.get(message.receiver)
        if hearer is not None:
            self.send(hearer.take(decode(message.data)))
            self._report()

    @property
    def _computing(self) -> dict[str, ComputeShell[Any]]:
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
        waiting = [(shell, owner) for shell in self._computing.values() for owner in sorted(shell.waiting_for)]
        if not waiting:
            raise RunCancelled(f"run {self.consumer.terms.run} ended without a summary")
        shell, owner = waiting[0]
        self.send(shell.give_up(owner))

    def _report(self) -> None:
        if self.progress is not None:
            total = len(self.consumer.terms.owners)
            self.progress("owners", total - len(self.consumer.waiting_for), total)


def _front(queue: deque[Message], owners: Collection[str]) -> dict[str, Message]:
    """The messages at the front of the queue that go to different owners: they can be answered side by side."""
    batch: dict[str, Message] = {}
    while queue and (receiver := queue[0].receiver) in owners and receiver not in batch:
        batch[receiver] = queue.popleft()
    return batch
