"""Where a run between organisations is, as its consumer can tell: a stage, and each site's state."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from likeset.transports.nvflare.run_report import Ending, SiteState

__all__ = ["Stage", "Whereabouts"]


class Stage(StrEnum):
    """Where a run is that has not ended by the curator's word; its value is what people read."""

    STARTING = "starting"
    DECIDING = "waiting for decisions"
    RUNNING = "running"
    CLOSING = "ending"
    """The curator is gone, and the server has not said so yet."""

    AWAY = "the curator's server does not answer"
    INTERRUPTED = "interrupted"
    """The job is over, and the run did not come to an end in it."""


_BEFORE_RESUMING: dict[Stage | Ending, str] = {
    Stage.INTERRUPTED: "",
    Ending.QUORUM_MISSED: "Too few owners answered; ask those who did not.",
    Ending.NO_CONSUMER: "Your own site was not reached, or abstentions.jsonl in its directory says more.",
}


@dataclass(frozen=True)
class Whereabouts:
    """Where a run is.

    Attributes:
        stage: under way, interrupted, or how the curator says that it ended.
        sites: what was last heard of each site.
        detail: what else the curator says about the end, in words.
    """

    stage: Stage | Ending
    sites: Mapping[str, SiteState] = field(default_factory=dict)
    detail: str = ""

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return isinstance(self.stage, Stage) and self.stage is not Stage.INTERRUPTED

    @property
    def is_done(self) -> bool:
        """Whether the consumer has its summary."""
        return self.stage is Ending.DONE

    @property
    def ending(self) -> Ending | None:
        """How it ended by the curator's word; None where there is no such word."""
        return self.stage if isinstance(self.stage, Ending) else None

    @property
    def text(self) -> str:
        """The words."""
        return f"{self.stage}: {self.detail}" if self.detail else str(self.stage)

    @property
    def is_resumable(self) -> bool:
        """Whether it is worth resuming as it is."""
        return self.stage in _BEFORE_RESUMING

    @property
    def before_resuming(self) -> str:
        """What to do first, in words; empty where there is nothing to do."""
        return _BEFORE_RESUMING.get(self.stage, "")
