"""Terms under another neighbouring relation than the totals of ``owner.yaml``: refused when they are read."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from home_world import invite, make_owner, opened, terms, write_policy

from likeset.errors import BadDocument
from likeset.homes.owner import open_owner
from likeset.homes.review import review
from likeset.ledger.budget import Charge, Request
from likeset.privacy.events import ROW, Gaussian, Norm, PrivacyUnit, Relation, RowSum, View
from likeset.protocol.terms import Budget

LIMITS: dict[str, Any] = {
    "smallest_group": 1,
    "per_run": {"epsilon": 9, "delta": 1e-5, "rows": 50},
    "total": {"epsilon": 9, "delta": 1e-5, "rows": 500, "relation": "replace-one"},
}
RELEASED: dict[str, Any] = {
    "protocol": "interactive",
    "summary_release": "gaussian",
    "owner_budget": Budget(4.0, 1e-5),
    "labels": "ignore",
    "thinning": False,
}


def under(relation: Relation) -> dict[str, Any]:
    """A policy with room for the run."""
    return {**LIMITS, "total": {**LIMITS["total"], "relation": str(relation)}}


@pytest.mark.parametrize("options", [RELEASED, {}], ids=["priced for owners", "nothing toward owners"])
@pytest.mark.parametrize("mine", list(Relation))
def test_they_are_refused_with_both_relations_and_nothing_is_charged(
    tmp_path: Path, mine: Relation, options: dict[str, Any]
) -> None:
    """At once; and where they came before ``owner.yaml`` said so, when they are reviewed or approved."""
    (other,) = set(Relation) - {mine}
    run = terms(relation=other, **options)
    folder = make_owner(tmp_path, **under(other))
    with opened(folder) as owner:
        assert invite(owner, run).state == "waiting"
        write_policy(folder, **under(mine))
        shown = review(owner, run.run)
        assert shown.status == "your rules refuse it"
        (reason,) = shown.verdict.reasons
        assert f"the terms count under {other}" in reason
        assert f"ask for terms under {mine}" in reason
        assert owner.approve(run.run, run.digest, by="steward").reasons == (reason,)
        assert invite(owner, replace(run, run="run-2")).state == "invited"
        assert "reserve" not in {entry.kind for entry in owner.ledger.entries()}
        assert owner.judge(replace(run, run="run-3", relation=mine)).accepted


def test_terms_for_another_unit_of_privacy_than_earlier_runs_are_refused_with_both(tmp_path: Path) -> None:
    """Those of an earlier run with a schema of its own; and the terms must have the unit of their schema."""
    with opened(make_owner(tmp_path, **LIMITS)) as owner:
        owner.put_policy_in_force()
        quantity = RowSum(Norm.EUCLIDEAN, 1.0, PrivacyUnit(2, "patient"), Relation.REPLACE_ONE)
        charge = Charge(((View.owners("a"), Gaussian(40.0, quantity, 16, 1e-4)),))
        owner.ledger.draw(charge, lambda: (b"", None), request=Request("run-0", 0, "begin"))
        assert invite(owner, terms(run="run-1")).state == "waiting", "nothing is priced toward owners: any unit will do"
        (reason,) = owner.judge(terms(**RELEASED)).reasons
        assert "earlier runs protected one id in column 'patient', and the terms protect one row" in reason
        (reason,) = owner.judge(terms(**RELEASED, id_column="patient")).reasons
        assert "the terms protect one id in column 'patient'" in reason
        reason = "; ".join(owner.judge(terms(**RELEASED, rows_per_unit=2)).reasons)
        assert "the terms protect one group of 2 rows" in reason
        (reason,) = owner.judge(terms(columns=(*terms().columns, "more"))).reasons[:1]
        assert "the terms name other columns" in reason


def test_the_totals_do_not_change_their_relation_under_what_was_charged(tmp_path: Path) -> None:
    folder = make_owner(tmp_path, **LIMITS)
    with opened(folder) as owner:
        owner.put_policy_in_force()
        quantity = RowSum(Norm.EUCLIDEAN, 1.0, ROW, Relation.REPLACE_ONE)
        charge = Charge(((View.owners("a"), Gaussian(40.0, quantity, 16, 1e-4)),))
        owner.ledger.draw(charge, lambda: (b"", None), request=Request("run", 0, "begin"))
    write_policy(folder, **{**LIMITS, "total": {**LIMITS["total"], "relation": "add-or-remove"}})
    with pytest.raises(BadDocument, match=r"owner.yaml.*total.relation.*charged under replace-one"):
        open_owner(folder)
