"""All parties in one process: the default engine.

Messages travel as bytes here too, so that what works in one process works between organisations. Owners work side by
side in threads. An owner who cannot answer (its policy, its budget, its data) abstains, and a message of an owner that
the curator refuses is as if it had not come; the run goes on.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime

from likeset.errors import BadMessage, IllegalMessage, LikesetError, RunCancelled, TermsExpired
from likeset.protocol.consumer import Consumer
from likeset.protocol.curator import Curator
from likeset.protocol.messages import Message, Summary, decode, encode
from likeset.protocol.owner import Owner

__all__ = ["LocalEngine", "Progress", "RunResult"]

Progress = Callable[[str, int, int], None]
"""Called with (what is being waited for, how many are done, how many there are)."""


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
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    _sent: list[int] = field(default_factory=list, init=False, repr=False)

    def run(self, curator: Curator, owners: Mapping[str, Owner], consumer: Consumer) -> RunResult:
        """Deliver messages until the consumer has its summary.

        Raises:
            TermsExpired: the terms may no longer be used; nothing was released.
            QuorumMissed: too few owners took part.
            RunCancelled: ``cancelled`` said so. Running again with the same ledgers resends, and draws nothing anew.
        """
        end = curator.terms.end
        if end is not None and self.clock() > end:
            raise TermsExpired(f"the terms of run {curator.terms.run} ended at {end.isoformat()}; agree on new ones")
        self._sent = []
        failures: dict[str, str] = {}
        queue = deque(self._travel(consumer.start()))
        with ThreadPoolExecutor(max_workers=self.workers) as pool:
            while consumer.summary is None:
                if self.cancelled is not None and self.cancelled():
                    raise RunCancelled(
                        f"run {curator.terms.run} was cancelled; it can be resumed with the same ledgers"
                    )
                if not queue:
                    # Nobody has anything to say and the curator still waits: those owners will never answer.
                    for owner in sorted(curator.waiting_for):
                        queue.extend(self._travel(curator.give_up(owner)))
                    if not queue:
                        break
                    continue
                batch = _front(queue, owners)
                if batch:
                    for call, replies in zip(
                        batch, pool.map(lambda m: self._answer(owners[m.receiver], m), batch), strict=True
                    ):
                        if isinstance(replies, LikesetError):
                            # What follows from the first failure explains less.
                            failures.setdefault(call.receiver, str(replies))
                            queue.extend(self._travel(curator.give_up(call.receiver)))
                        else:
                            queue.extend(replies)
                    continue
                message = queue.popleft()
                if message.receiver == curator.name:
                    queue.extend(self._heard_by(curator, message, failures))
                    self._report(curator)
                elif message.receiver == consumer.name:
                    queue.extend(self._travel(consumer.receive(message)))
        if consumer.summary is None:
            raise RunCancelled(f"run {curator.terms.run} ended without a summary")
        return RunResult(consumer.summary, len(self._sent), sum(self._sent), failures)

    def _travel(self, messages: Iterable[Message]) -> list[Message]:
        """Through bytes and back."""
        arrived = []
        for message in messages:
            data = encode(message)
            self._sent.append(len(data))
            arrived.append(decode(data))
        return arrived

    def _answer(self, owner: Owner, message: Message) -> list[Message] | LikesetError:
        """An owner's replies, or why it has none; whoever speaks in another's name is not heard."""
        try:
            replies = owner.receive(message)
            if any(reply.sender != owner.name for reply in replies):
                raise IllegalMessage(f"{owner.name} spoke in another party's name")
            return self._travel(replies)
        except LikesetError as error:
            return error

    def _heard_by(self, curator: Curator, message: Message, failures: dict[str, str]) -> list[Message]:
        """What the curator says to a message; one of an owner that it refuses does not stop the run."""
        try:
            replies = curator.receive(message)
        except (BadMessage, IllegalMessage) as error:
            if message.sender not in curator.terms.owners:
                raise
            failures.setdefault(message.sender, str(error))
            return []
        return self._travel(replies)

    def _report(self, curator: Curator) -> None:
        if self.progress is not None:
            total = len(curator.terms.owners)
            self.progress("owners", total - len(curator.waiting_for), total)


def _front(queue: deque[Message], owners: Mapping[str, Owner]) -> list[Message]:
    """The messages at the front of the queue that go to different owners: they can be answered side by side."""
    batch: list[Message] = []
    while queue and queue[0].receiver in owners and queue[0].receiver not in {one.receiver for one in batch}:
        batch.append(queue.popleft())
    return batch
