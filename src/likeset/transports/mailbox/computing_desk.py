"""The desk of a home that computes in split runs: curator, consumer or witness."""

from abc import abstractmethod
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import ClassVar

from likeset.homes.compute import ComputeFolder, ComputeRoom
from likeset.transports.mailbox.desk import MailDesk
from likeset.transports.mailbox.memory import KnownRun
from likeset.transports.mailbox.postman import Arrived
from likeset.transports.mailbox.split_runs import SplitRuns
from likeset.transports.outcomes import Ending


@dataclass(eq=False)
class ComputingDesk(MailDesk):
    """A home at a mailbox that computes beside its looks.

    Args:
        patience: how long it waits for an owner's part.
        room: where it computes; None for a process that only looks.
    """

    stays_by: ClassVar[str]
    """The command that stays and computes, as a person types it."""

    patience: timedelta = field(default=timedelta(hours=72), kw_only=True)
    room: ComputeRoom | None = field(default=None, kw_only=True)
    split: SplitRuns = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.split = SplitRuns(self, self._end, self.patience, self.room, self.stays_by)

    def close(self) -> None:
        """Let go of the home's files; what is computed stops, and goes on with the next process."""
        if self.room is not None:
            self.room.close()
        super().close()

    def _next_deadline(self) -> datetime | None:
        times = (super()._next_deadline(), self.split.next_look)
        return min((time for time in times if time is not None), default=None)

    def _clean_up(self) -> None:
        """Of runs that are over no share is left in files, also where the process was killed when it ended one."""
        now = self.clock()
        for run in self.runs.values():
            if (run.ended or now >= run.ends) and ComputeFolder(self.folder, run.terms.hex()).exists:
                self.split.remove_files(run, run.ended)
        super()._clean_up()

    @abstractmethod
    def _end(self, run: KnownRun, ending: Ending, detail: str = "") -> None: ...

    def _take_share_letter(self, run: KnownRun, party: str, arrived: Arrived) -> None:
        """Hear a letter of a split run, or leave it for the next look."""
        fate = self.split.hear(run, party, arrived.post.document)
        if fate == "later":
            self.postman.tally.left += 1
            return
        self.postman.take(arrived, fate)
        if party == self.terms(run).consumer:
            self.remove(run, "acceptance")  # the consumer has it: it wrote
