"""What is still to be done before a node can answer anybody: a few cheap looks; ``checkup`` looks at everything."""

from dataclasses import dataclass
from typing import Literal

from likeset.homes.owner.node import OwnerNode

__all__ = ["SetupStep", "policy_gaps", "steps_left"]


_ASKED = {"consumers": "who may ask", "purposes": "what for", "columns": "which columns may leave"}
_ROWS = "how many rows in one run and in all"


@dataclass(frozen=True, slots=True)
class SetupStep:
    """Something to be done.

    Attributes:
        about: what.
        words: what to do, for a person.
    """

    about: Literal["rules", "data", "cards"]
    words: str


def policy_gaps(node: OwnerNode) -> list[str]:
    """Fields of ``owner.yaml`` that allow nothing yet."""
    policy = node.policy
    gaps = [word for word in ("consumers", "purposes", "columns") if not getattr(policy, word)]
    return gaps if policy.total.rows and policy.per_run.rows else [*gaps, "rows in per_run and total"]


def steps_left(node: OwnerNode) -> list[SetupStep]:
    """What is missing, in the order in which one would do it; nothing if runs can be answered."""
    steps = []
    if gaps := policy_gaps(node):
        asked = ", ".join(_ASKED.get(gap, _ROWS) for gap in gaps)
        steps.append(SetupStep("rules", f"Nothing may leave yet. Say {asked}."))
    if not node.registry.names():
        steps.append(SetupStep("data", "Add a data set."))
    roles = {pin.role for pin in node.home.pins().all() if pin.state == "pinned"}
    missing = [role for role in ("consumer", "curator") if role not in roles]
    if missing:
        steps.append(SetupStep("cards", f"Pin the card of a {' and of a '.join(missing)}."))
    return steps
