"""Ways in which a run could tell owners more than its terms charge; each was possible once.

Two worlds that differ in one row of an owner are run on one ledger: stored releases are sent again, so both hear the
same, which is what the proof of docs/proofs/summary-stream.md conditions on. What differs then is the summary, and by
how many rows it may differ is what the noise was made for.
"""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from protocol_world import QuickLedger, World, carry, rows, terms, world

from likeset.privacy.relation import Relation
from likeset.protocol.messages import Bid, Delivery, Message
from likeset.protocol.terms import Budget, Kernel

STREAM: dict[str, Any] = {
    "protocol": "interactive",
    "summary_release": "gaussian",
    "owner_budget": Budget(50.0, 1e-5),
    "kernel": Kernel(columns=2, dimension=4, gamma=0.5, seed=7),
    "size": 10,
    "owners": ("a", "b"),
}


def _chosen(made: World, *, missed: set[tuple[str, int, str]]) -> Counter[bytes]:
    """The rows of the summary; messages of these (owner, round, kind) are lost."""

    def lossy(message: Message) -> list[Message]:
        lost = isinstance(message.body, Bid | Delivery) and (message.sender, message.round, message.body.kind) in missed
        return [] if lost else [message]

    outcome = carry(made, tamper=lossy)
    return Counter(row.tobytes() for row in outcome.summary.rows)


def _with_row(made: World, row: NDArray[np.float32], *, replaces: int | None) -> World:
    """The neighbour: one more row at owner a, or another one in the place of one; same ledger, same releases."""
    data = dict(made.data)
    if replaces is None:
        data["a"] = np.vstack([data["a"], row[None, :]])
    else:
        data["a"] = data["a"].copy()
        data["a"][replaces] = row
    return World(made.terms, data, made.target, made.ledger, made.noise)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("release", ["gaussian", "mwem"])
def test_an_owner_who_misses_steps_does_not_make_its_rows_count_for_more(release: str, relation: Relation) -> None:
    """Its rows would lag behind those of its neighbour, and each round that it missed could change one more."""
    kernel = Kernel(columns=2, dimension=4, gamma=0.5, seed=7, kind="paper" if release == "mwem" else "paired")
    bound = 1 if relation is Relation.ADD_OR_REMOVE else 2
    coins = np.random.default_rng(3)
    for case in range(60):
        agreed = terms(**{**STREAM, "kernel": kernel, "summary_release": release, "relation": relation})
        made = world(agreed, QuickLedger(), count=14, noise_seed=case)
        made.data = {name: rows(1000 * case + place, 14, columns=2) for place, name in enumerate(agreed.owners)}
        made.target = rows(5, agreed.target_size, columns=2)
        missed = {
            ("a", number, str(coins.choice(["bid", "delivery"])))
            for number in range(1, agreed.size + 1)
            if coins.random() < 0.4
        }
        first = _chosen(made, missed=missed)
        other = rows(9000 + case, 1, columns=2)[0]
        neighbour = _with_row(made, other, replaces=None if relation is Relation.ADD_OR_REMOVE else 0)
        second = _chosen(neighbour, missed=missed)
        assert sum((first - second).values()) <= bound, case


def test_an_owner_who_misses_a_step_is_out_only_where_the_summary_is_released() -> None:
    agreed = terms(protocol="interactive", size=3)
    made = world(agreed, QuickLedger())
    outcome = carry(made, tamper=lambda message: [] if (message.sender, message.round) == ("a", 1) else [message])
    assert 0 in outcome.summary.owners
