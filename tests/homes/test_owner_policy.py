"""The one function that decides, reason by reason, and the file that it reads."""

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from home_world import NOON, POLICY, terms

from likeset.homes.policy import NO_RULES, Accounts, Policy, Spending, policy_text, runs_this_month, verdict
from likeset.protocol.terms import SUMMARY_RELEASE, Budget, Kernel, Terms
from screens import Screens

NOTHING, OFFERED = Spending(0, 0, 0), Spending(0, 12, 12)
FREE = Accounts(NOTHING, OFFERED, NOTHING)


def policy(**changes: Any) -> Policy:
    return Policy.model_validate({"likeset": "owner", "version": 1, **POLICY, **changes}, strict=False)


def reasons(given: Policy, run: Terms, accounts: Accounts = FREE, began: Any = None) -> tuple[str, ...]:
    found = verdict(given, run, accounts, began=began or {}, now=NOON)
    assert found.accepted == (not found.reasons)
    return found.reasons


def test_a_run_within_everything_is_accepted() -> None:
    assert reasons(policy(), terms()) == ()


REFUSED: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
    ({"consumers": ["other"]}, {}), ({"consumers": []}, {}), ({"purposes": ["billing"]}, {}),
    ({"columns": ["age", "dose", "sex"]}, {}), ({"per_run": {"rows": 11}}, {}), ({"total": {"rows": 11}}, {}),
    ({"runs_per_month": 0}, {}), ({"price_at_least": 1.5}, {}), ({}, {"expires": "2029-03-05T11:59"}),
    ({}, {"schema_digest": ""}),
)  # fmt: skip


def test_every_limit_can_refuse(screens: Screens) -> None:
    told = {f"{changes} {run}": reasons(policy(**changes), terms(**run)) for changes, run in REFUSED}
    assert {len(found) for found in told.values()} == {1}
    screens.table("reasons", {what: found[0] for what, found in told.items()})


def test_words_are_compared_without_regard_to_capitals_and_with_stars() -> None:
    assert reasons(policy(consumers=["new-*"], purposes=["*SEPSIS"]), terms()) == ()


@pytest.mark.parametrize("name", ["NEW-CLINIC", "New-clinic"])
def test_a_consumers_name_is_another_one_in_other_letters(name: str) -> None:
    for allowed in ("new-clinic", "new-*"):
        (reason,) = reasons(policy(consumers=[allowed]), terms(consumer=name))
        assert reason == f"consumers: {name} is not among them"


def test_epsilon_of_a_run_and_of_all_runs() -> None:
    """Spent 1.5 of 2; the run costs 0.5 at its own delta and brings the total to 2.25."""
    accounts = Accounts(Spending(1.5, 0.5, 2.25), OFFERED, NOTHING)
    run = terms(owner_budget=Budget(0.5, 1e-4))
    given = policy(
        per_run={"epsilon": 0.4, "delta": 1e-5, "rows": 20}, total={"epsilon": 2.0, "delta": 1e-5, "rows": 20}
    )
    one, delta, total = reasons(given, run, accounts)
    assert "epsilon toward other owners: 0.5 in this run, 0.4 allowed in one" in one
    assert "per_run.delta: toward other owners 0.0001 in this run, 1e-05 allowed in one" in delta
    assert "1.5 of 2 are spent over all runs, and it would be 2.25 with this run" in total


def test_a_run_that_is_paid_is_not_counted_against_the_totals_again() -> None:
    accounts = Accounts(NOTHING, Spending(36, 12, 36), NOTHING, charged=True)
    assert reasons(policy(runs_per_month=1), terms(), accounts, {"run-1": NOON}) == ()


def test_months_are_counted_by_the_calendar() -> None:
    began = {"run-1": NOON, "run-2": datetime(2029, 3, 1, tzinfo=UTC), "run-3": datetime(2029, 2, 28, 23, tzinfo=UTC)}
    assert runs_this_month(began, NOON) == 2


def test_parts_without_a_proof_must_be_accepted_by_name() -> None:
    paper = terms(
        owners=("a", "b", "c"),
        protocol="interactive",
        kernel=Kernel(columns=5, dimension=16, gamma=0.2, seed=7, kind="paper"),
        auction="paper",
        auction_epsilon=0.3,
        auction_patience=3,
        summary_release="mwem",
        schedule="experiment",
        accept_unproven=("paper-auction", SUMMARY_RELEASE),
    )
    accounts = Accounts(Spending(0.0, math.inf, 0.0), Spending(0, 6, 6), NOTHING)
    found = reasons(policy(), paper, accounts)
    assert any("accept_unproven: not among them is paper-auction" in reason for reason in found)
    assert any("no bound is known" in reason for reason in found)
    assert reasons(policy(accept_unproven=["paper-auction", SUMMARY_RELEASE]), paper, accounts) == ()


def test_a_smallest_group_does_not_go_with_releases_that_are_priced_for_one_row() -> None:
    run = terms(
        protocol="interactive", summary_release="gaussian", owner_budget=Budget(1.0, 1e-5), expires="2030-01-01"
    )
    (reason,) = reasons(policy(smallest_group=5), run)
    assert "priced for one row" in reason
    assert reasons(policy(smallest_group=1), run) == ()


def test_the_policy_of_a_new_home_can_be_read_and_allows_nothing(tmp_path: Path) -> None:
    path = tmp_path / "owner.yaml"
    path.write_text(policy_text(NO_RULES))
    found = Policy.load(path)
    assert found.manual_approval
    assert len(reasons(found, terms())) == 5
