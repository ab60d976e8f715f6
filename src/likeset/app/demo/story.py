"""What the demo between organisations tells, however letters travel: who denies, who is killed, and what is checked."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from likeset.app.demo.market_homes import CONSUMER, WITNESS_NAME, MarketHomes
from likeset.app.demo.showcase import EPSILON, SIZE
from likeset.homes.consumer.home import KeptRun
from likeset.homes.owner import kept_receipts, outbox
from likeset.homes.owner.budgets import spent_by_run
from likeset.homes.owner.node import OwnerNode
from likeset.run.job import Job

__all__ = ["RUN", "SECONDS", "NetworkDemo", "Tell", "checks", "decide", "denying_owner", "job_between", "killed_owner"]

RUN = "digits"
SECONDS = 600.0
"""That anything may take before the demo gives up."""

_APPROVER = "the demo's automatic approver"

Tell = Callable[[str, str], None]
"""Called with who does something, and what."""


@dataclass(frozen=True, eq=False)
class NetworkDemo:
    """What came of it.

    Attributes:
        result: as in ``result.json``.
        out: the directory of the result.
        seconds: how long the run itself took when everybody was there, without NVFlare's start.
        checks: what was checked afterwards, and whether it holds.
    """

    result: Mapping[str, Any]
    out: Path
    seconds: float
    checks: tuple[tuple[str, bool], ...]


def denying_owner(world: MarketHomes) -> str:
    """Who does not take part."""
    return list(world.owners)[-1]


def killed_owner(world: MarketHomes) -> str:
    """Whose process is killed, and comes back."""
    return list(world.owners)[-2]


def job_between(world: MarketHomes, target: str) -> Job:
    """What the consumer asks for."""
    return Job.of(
        schema=str(world.schema),
        target=target,
        owners={name: f"network:{name}" for name in world.owners},
        size=SIZE,
        epsilon=EPSILON,
        quorum=len(world.owners) - 1,
        consumer=CONSUMER,
        purpose="to recognise handwritten 3s and 4s",
        run=RUN,
        **({"curator": "split", "witness": WITNESS_NAME} if world.with_witness else {}),
    )


def decide(world: MarketHomes, node: OwnerNode, tell: Tell) -> bool:
    """Do for a steward what it would do by hand: approve or deny what waits; whether anything did."""
    for record in node.runs.waiting():
        terms = record.latest
        if node.name == denying_owner(world):
            node.deny(record.run, by=_APPROVER, reason="no contract with this consumer yet")
            tell(node.name, f"{_APPROVER} denies; the others hear only that it does not take part")
            return True
        verdict = node.approve(record.run, terms.digest, by=_APPROVER)
        said = f"approves {terms.rows_per_owner} rows at most" if verdict.accepted else "finds it against the policy"
        tell(node.name, f"{_APPROVER} {said}, terms {terms.digest[:12]}")
        return True
    return False


def checks(world: MarketHomes, run: KeptRun) -> tuple[tuple[str, bool], ...]:
    """What a suspicious reader would look at: transcripts, logs, and whether rows left once."""
    rows = run.terms.rows_per_owner
    held: dict[str, bool] = {"transcripts agree": True, "audit logs hold": True, "rows were charged once": True}
    with ExitStack() as stack:
        for name in world.owners:
            node = stack.enter_context(OwnerNode(world.node(name)))
            problems, _ = outbox.verify(node)
            held["audit logs hold"] &= not problems
            spent = sum(run_charge.rows for run_charge in spent_by_run(node.ledger))
            held["rows were charged once"] &= spent == (0 if name == denying_owner(world) else rows)
            if name != denying_owner(world):
                # The owner's own receipt, which came to it when the run ended.
                kept = kept_receipts.check(node, RUN)
                agree = not (kept.problems or kept.contradictions or kept.aside)
                held["transcripts agree"] &= agree and kept.receipt is not None and kept.receipt.transcript.rows == rows
    return tuple(held.items())
