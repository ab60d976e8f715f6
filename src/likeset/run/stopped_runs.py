"""Why a run between organisations cannot go on: what is spent, and what the consumer can do."""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from likeset.ledger import Ledger
from likeset.privacy.view import View
from likeset.protocol.plans import planned_views
from likeset.run.consumer_home import NetworkRun
from likeset.transports.nvflare.run_report import Ending

__all__ = ["Obstacle", "StoppedParty", "obstacle"]

_AGAIN = (
    "Give the job another name (run: in job.yaml) and invite owners anew; that is paid once more, if the budget allows."
)


class StoppedParty(StrEnum):
    """Who was stopped between a charge and what it was for."""

    CONSUMER = "consumer"
    CURATOR = "curator"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What keeps a run from ever being resumed.

    Attributes:
        run: its name.
        stopped: who has a charge without an answer.
        epsilon: what stays spent of the consumer's budget.
    """

    run: str
    stopped: StoppedParty
    epsilon: float

    @property
    def text(self) -> str:
        """The words."""
        spent = f"epsilon = {self.epsilon:.3g} of your budget"
        if self.stopped is StoppedParty.CONSUMER:
            return (
                f"run {self.run} cannot go on: your site was stopped after it had paid for the target's release and "
                f"before it had kept one. Nothing was released and no owner was asked; {spent} stays spent. {_AGAIN}"
            )
        return (
            f"run {self.run} cannot go on: the curator was stopped after it had paid for a draw and before it had kept "
            f"one. Your release was sent, and {spent} stays spent; rows that owners sent stay disclosed and charged. "
            f"{_AGAIN}"
        )

    def document(self) -> dict[str, Any]:
        """For machines, and with the words for people."""
        return {"stopped": self.stopped, "epsilon": self.epsilon, "text": self.text}


def obstacle(run: NetworkRun, ending: Ending | None = None) -> Obstacle | None:
    """What keeps a run from ever being resumed; None if nothing does.

    A process that is killed between a charge and its draw leaves a charge without an answer. Nobody can tell whether
    something was drawn, so nothing is drawn again under the same terms.

    Args:
        run: the run.
        ending: how its last job ended, as far as that is known.
    """
    if _has_open_charge(run):
        return Obstacle(run.name, StoppedParty.CONSUMER, _spent(run))
    if ending is Ending.UNFINISHED:
        return Obstacle(run.name, StoppedParty.CURATOR, _spent(run))
    return None


def _has_open_charge(run: NetworkRun) -> bool:
    """Whether the consumer's ledger has a charge of this run for which nothing was kept."""
    if not run.ledger_path.exists():
        return False
    with Ledger(run.ledger_path, read_only=True) as ledger:
        entries = ledger.entries()
        answered = {entry.key for entry in entries if entry.kind == "commit"}
        charged = {entry.key for entry in entries if entry.kind == "reserve" and _is_of(entry.key, run)}
        kept = {message.key for message in ledger.messages(run=run.name)} if charged else set()
    return bool(charged - answered - kept)


def _is_of(key: str, run: NetworkRun) -> bool:
    return bool(json.loads(key)[0] == run.name)


def _spent(run: NetworkRun) -> float:
    """Epsilon of the target's release."""
    view = View.owners(run.terms.consumer)
    return next(one.guarantee.epsilon for one in planned_views(run.terms) if one.view == view)
