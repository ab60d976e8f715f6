"""What a consumer knows of a run that travels by mailbox: who answered, what is waited for, until when, how it ended."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from likeset.homes.consumer.home import ConsumerHome, KeptRun
from likeset.transports.nvflare.run_report import Ending

__all__ = ["PartyState", "RunProgress", "progress_of"]


class PartyState(StrEnum):
    """Where somebody stands; its value is what people read."""

    UNHEARD = "has not got the terms"
    """As far as is known here: nothing came from it."""

    DECIDES = "decides"
    TAKES_PART = "takes part"
    ABSTAINS = "does not take part"


@dataclass(frozen=True)
class RunProgress:
    """What a consumer knows of a run.

    Attributes:
        run: its name.
        parties: where everybody stands, by name; the curator under ``curator``.
        decide_by: when the run begins without those who have not decided, if a quorum accepted.
        terms_end: when the terms end, and with them the run.
        began: whether the first letters were written; nothing is charged before that.
        waited_for: owners whom the curator waits for, by its last word.
        until: when it gives them up.
        ended: how the run ended; None if it has not.
        detail: what else is said of the end, or what the curator lacks, in words.
    """

    run: str
    parties: Mapping[str, PartyState]
    decide_by: datetime
    terms_end: datetime
    began: bool = False
    waited_for: tuple[str, ...] = ()
    until: datetime | None = None
    ended: Ending | None = None
    detail: str = ""

    @property
    def done(self) -> bool:
        """Whether the summary is here."""
        return self.ended is Ending.DONE

    def document(self) -> dict[str, Any]:
        """As plain data, for ``--json``."""
        raise NotImplementedError


def progress_of(home: ConsumerHome, run: KeptRun) -> RunProgress:
    """Where a run is, by what this home keeps; nobody is asked.

    Raises:
        InvalidArgument: the run does not travel by mailbox.
    """
    raise NotImplementedError
