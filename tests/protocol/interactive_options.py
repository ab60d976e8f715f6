"""Terms of interactive runs that tests share."""

from typing import Any

from protocol_world import PAPER, PAPER_PARTS, THRESHOLD, Outcome

from likeset.protocol.terms import Budget
from likeset.protocol.wire import Message, decode

INTERACTIVE: dict[str, Any] = {"protocol": "interactive"}
GAUSSIAN: dict[str, Any] = {**INTERACTIVE, "summary_release": "gaussian", "owner_budget": Budget(2.0, 1e-5)}
OPTIONS: dict[str, dict[str, Any]] = {
    "default": INTERACTIVE,
    "seeds": {**INTERACTIVE, "seed_rows": 3},
    "gaussian": GAUSSIAN,
    "loud-gaussian": {**GAUSSIAN, "owner_budget": Budget(0.05, 1e-9)},
    "mwem": {**PAPER, "auction": "everyone", "auction_epsilon": 0.0, "schedule": "", "owner_budget": Budget(1.0, 1e-5)},
    "threshold": {**INTERACTIVE, **THRESHOLD},
    "threshold-gaussian": {**GAUSSIAN, **THRESHOLD, "accept_unproven": PAPER_PARTS},
    "paper": PAPER,
    "paper-theorem": {**PAPER, "schedule": "theorem"},
    "paper-proof": {**PAPER, "schedule": "proof"},
}


def sent_by(outcome: Outcome, sender: str, kind: type[Any]) -> list[Message]:
    """Messages of that kind that somebody sent."""
    messages = [decode(data) for received in outcome.heard.values() for data in received]
    return [message for message in messages if message.sender == sender and isinstance(message.body, kind)]
