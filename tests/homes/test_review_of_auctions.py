"""What a steward is told about a run in which not everyone is asked."""

import math
from pathlib import Path
from typing import Any

import pytest
from home_world import invite, make_owner, opened, terms

from likeset.app.console.drawings import learned
from likeset.homes.review import review

THRESHOLD: dict[str, Any] = {"auction": "threshold", "auction_epsilon": 8.0, "auction_offset": 2}


@pytest.mark.parametrize(("options", "said"), [(THRESHOLD, True), ({}, False)], ids=["threshold", "everyone"])
def test_a_price_is_for_what_owners_hear_and_not_for_when(tmp_path: Path, options: dict[str, Any], said: bool) -> None:
    run = terms(owners=("a", "b", "c"), size=2, expires="2099-01-01", **options)
    limits: dict[str, Any] = {"per_run": {"epsilon": 9, "delta": 1e-5, "rows": 20}}
    with opened(make_owner(tmp_path, **limits)) as owner:
        invite(owner, run)
        answers = dict(review(owner, run.run).lines)
    assert ("This counts what they hear, not when" in answers["What may other owners learn about your rows?"]) is said


def test_a_steward_reads_how_often_a_guess_about_a_row_is_right(tmp_path: Path) -> None:
    """Heard by a coalition, noise of 1 on ranks costs log(1 + e) = 1.313: (1 + tanh(1.313 / 2)) / 2 = 0.7881."""
    run = terms(
        owners=("a", "b", "c"), size=2, expires="2099-01-01", auction="threshold", auction_epsilon=1.0, auction_offset=5
    )
    with opened(make_owner(tmp_path, per_run={"epsilon": 9, "delta": 1e-5, "rows": 20})) as owner:
        invite(owner, run)
        looked = review(owner, run.run)
    assert looked.others.guess == pytest.approx(0.5 + math.tanh(math.log1p(math.e) / 2.0) / 2.0)
    answer = dict(looked.lines)["What may other owners learn about your rows?"]
    assert "at most 78.9% of the time (epsilon 1.313, delta 1e-05)" in answer
    assert "at most 78.9% of the time" in learned(looked.others, unit="one of your rows")
