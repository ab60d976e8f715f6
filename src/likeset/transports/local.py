"""All parties in one process: the default engine.

Messages travel as bytes here too, so that what works in one process works between organisations. Owners work side by
side in threads, and what those who share a ledger answer to one round is one write there. An owner who cannot answer
(its policy, its budget, its data) abstains, and a message of an owner that the curator refuses is as if it had not
come; the run goes on.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from likeset.errors import LikesetError, RunCancelled
from likeset.homes.mail import Answers, AtOnce, ConsumerShell, CuratorShell, Resident, take_together, utc_now
from likeset.protocol.wire import Summary, decode
from likeset.transports.plain_messages import PlainCurator
from likeset.transports.pump import Parcel, Pump, Replies
from likeset.transports.pump import Progress as Progress


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

    def run(self, curator: CuratorShell, owners: Mapping[str, Resident], consumer: ConsumerShell) -> RunResult:
        """Deliver messages until the consumer has its summary.

        Raises:
            TermsExpired: the terms may no longer be used; nothing was released.
            QuorumMissed: too few owners took part.
            RunCancelled: ``cancelled`` said so. Running again with the same ledgers resends, and draws nothing anew.
        """
        plain = PlainCurator(curator)
        pump = Pump(
            plain,
            _InProcess(owners, consumer),
            plain.read,
            workers=self.workers,
            progress=self.progress,
            cancelled=self.cancelled,
            clock=self.clock,
        )
        pump.run()
        summary = consumer.party.summary
        if summary is None:
            raise RunCancelled(f"run {curator.terms.run} ended without a summary")
        return RunResult(summary, pump.messages, pump.bytes_sent, pump.failures)


@dataclass(frozen=True)
class _InProcess:
    parties: Mapping[str, Resident]
    consumer: ConsumerShell

    @property
    def owners(self) -> Collection[str]:
        return self.parties.keys()

    @property
    def done(self) -> bool:
        return self.consumer.party.summary is not None

    def start(self) -> Sequence[bytes]:
        return [message.data for message in self.consumer.start()]

    def ask_all(self, parcels: Sequence[Parcel], at_once: AtOnce) -> Iterable[Replies]:
        asked = [(self.parties[parcel.recipient], decode(parcel.data)) for parcel in parcels]
        return [_bytes_of(answers) for answers in take_together(asked, at_once=at_once)]

    def hand_over(self, data: bytes) -> Sequence[bytes]:
        return [reply.data for reply in self.consumer.take(decode(data))]

    def give_back(self, writer: str, data: bytes) -> None: ...


def _bytes_of(answers: Answers) -> Replies:
    """Replies as they travel; what cannot be written down is no reply."""
    try:
        return answers if isinstance(answers, LikesetError) else [reply.data for reply in answers]
    except LikesetError as error:
        return error
