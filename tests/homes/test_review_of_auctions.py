"""What a steward is told about a run in which not everyone is asked."""

from pathlib import Path
from typing import Any

import pytest
from node_world import invite, make_node, terms

from likeset.homes.owner.node import OwnerNode
from likeset.homes.owner.review import review

THRESHOLD: dict[str, Any] = {"auction": "threshold", "auction_epsilon": 8.0, "auction_offset": 2}


@pytest.mark.parametrize(("options", "said"), [(THRESHOLD, True), ({}, False)], ids=["threshold", "everyone"])
def test_a_price_is_for_what_owners_hear_and_not_for_when(tmp_path: Path, options: dict[str, Any], said: bool) -> None:
    run = terms(owners=("a", "b", "c"), size=2, expires="2099-01-01", **options)
    limits: dict[str, Any] = {"per_run": {"epsilon": 9, "delta": 1e-5, "rows": 20}}
    with OwnerNode(make_node(tmp_path, **limits)) as node:
        invite(node, run)
        answers = dict(review(node, run.run).lines)
    assert ("This counts what they hear, not when" in answers["What may other owners learn about your rows?"]) is said
