"""Why a run between organisations cannot go on, in words for the consumer: what is spent, and what can be done."""

import json

from likeset.jobs.consumer_home import NetworkRun
from likeset.ledger import Ledger
from likeset.privacy.view import View
from likeset.protocol.plans import planned_views

__all__ = ["obstacle"]

_CURATOR_STOPPED = "failed: UnfinishedRequest"
_AGAIN = (
    "Give the job another name (run: in job.yaml) and invite owners anew; that is paid once more, if the budget allows."
)


def obstacle(run: NetworkRun, outcome: str = "") -> str | None:
    """What keeps a run from ever being resumed; None if nothing does.

    A process that is killed between a charge and its draw leaves a charge without an answer. Nobody can tell whether
    something was drawn, so nothing is drawn again under the same terms.

    Args:
        run: the run.
        outcome: how its last job ended.
    """
    if _has_open_charge(run):
        return (
            f"run {run.name} cannot go on: your site was stopped after it had paid for the target's release and before "
            f"it had kept one. Nothing was released and no owner was asked; {_spent(run)} stays spent. {_AGAIN}"
        )
    if outcome == _CURATOR_STOPPED:
        return (
            f"run {run.name} cannot go on: the curator was stopped after it had paid for a draw and before it had kept "
            f"one. Your release was sent, and {_spent(run)} stays spent; rows that owners sent stay disclosed and "
            f"charged. {_AGAIN}"
        )
    return None


def _has_open_charge(run: NetworkRun) -> bool:
    """Whether the consumer's ledger has a charge of this run for which nothing was kept."""
    if not run.ledger_path.exists():
        return False
    with Ledger(run.ledger_path, read_only=True) as ledger:
        entries = ledger.entries()
        answered = {entry.key for entry in entries if entry.kind == "commit"}
        charged = {entry.number: entry.key for entry in entries if entry.kind == "reserve" and _is_of(entry.key, run)}
        kept = {charged.get(message.number) for message in ledger.messages(run=run.name)} if charged else set()
    return bool(set(charged.values()) - answered - kept)


def _is_of(key: str, run: NetworkRun) -> bool:
    return bool(json.loads(key)[0] == run.name)


def _spent(run: NetworkRun) -> str:
    view = View.owners(run.terms.consumer)
    cost = next(one.guarantee for one in planned_views(run.terms) if one.view == view)
    return f"epsilon = {cost.epsilon:.3g} of your budget"
