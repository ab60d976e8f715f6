"""What may still be decided about a run; the node checks the same when somebody does."""

from typing import Literal

from likeset.homes.owner import budgets
from likeset.homes.owner.node import OwnerNode
from likeset.homes.owner.run_records import RunRecord

__all__ = ["Choice", "open_decisions"]

Choice = Literal["approve", "deny", "withdraw"]


def open_decisions(node: OwnerNode, record: RunRecord) -> tuple[Choice, ...]:
    """What somebody may decide about the terms of a run that came last."""
    if record.withdrawn is not None:
        return ()
    decision = record.decided(record.latest_digest)
    if record.began or record.run in budgets.began(node.ledger):
        return ("withdraw",)
    if decision is None:
        return ("approve", "deny")
    return ("deny", "withdraw") if decision.what == "approved" else ("approve",)
