"""All parties in one process: the default engine.

Messages travel as bytes here too, so that what works in one process works between organisations. Owners work side by
side in threads. An owner who cannot answer (its policy, its budget, its data) abstains; the run goes on without it.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from likeset.errors import LikesetError, RunCancelled
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
    """

    workers: int = 2
    progress: Progress | None = None
    cancelled: Callable[[], bool] | None = None
    _sent: list[int] = field(default_factory=list, init=False, repr=False)

    def run(self, curator: Curator, owners: Mapping[str, Owner], consumer: Consumer) -> RunResult:
        """Deliver messages until the consumer has its summary.

        Raises:
            QuorumMissed: too few owners took part.
            RunCancelled: ``cancelled`` said so. Running again with the same ledgers resends, and draws nothing anew.
        """
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
                    for call, replies in zip(batch, pool.map(lambda m: _answer(owners, m), batch), strict=True):
                        if isinstance(replies, LikesetError):
                            failures[call.receiver] = str(replies)
                            queue.extend(self._travel(curator.give_up(call.receiver)))
                        else:
                            queue.extend(self._travel(replies))
                    continue
                message = queue.popleft()
                if message.receiver == curator.name:
                    queue.extend(self._travel(curator.receive(message)))
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


def _answer(owners: Mapping[str, Owner], message: Message) -> tuple[Message, ...] | LikesetError:
    try:
        return owners[message.receiver].receive(message)
    except LikesetError as error:
        return error
