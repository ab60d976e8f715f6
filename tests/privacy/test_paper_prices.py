"""The paper's settings: its count beside what is proven."""

import json

import pytest
from typer import Typer
from typer.testing import CliRunner

from likeset.app.cli.privacy import account
from likeset.errors import InvalidArgument
from likeset.privacy.events import Relation
from likeset.privacy.guarantee import Basis
from likeset.privacy.paper_prices import PriceComparison, paper_preconditions, price_comparisons

app = Typer()
app.command()(account)


@pytest.fixture(scope="module")
def lines() -> tuple[PriceComparison, ...]:
    return price_comparisons(exact_choices=False)


def _found(
    lines: tuple[PriceComparison, ...], what: str, protected: str, delta: float, relation: Relation
) -> PriceComparison:
    (found,) = [
        line
        for line in lines
        if line.what.startswith(what)
        and line.protected.startswith(protected)
        and (line.proven.delta, line.proven.relation) == (delta, relation)
    ]
    return found


@pytest.mark.parametrize(
    ("what", "protected", "delta", "claimed", "proven"),
    [
        ("target mean, once", "one row of the target", 0.01, 1.4014, 3.30),
        ("target mean, once", "one row of the target", 1e-5, 2.119, 5.55),
        ("summary mean, 500 rounds (T", "one row of the summary", 1e-4, 0.0430, 0.076),
        ("summary mean, 500 rounds (T", "one row of the summary", 1e-5, 0.0481, 0.096),
        ("summary mean, 500 rounds (T", "one row of an owner", 1e-4, 0.0430, 0.166),
        ("summary mean, 500 rounds (T", "one row of an owner", 1e-5, 0.0481, 0.203),
    ],
)
def test_the_papers_totals_stand_beside_what_is_proven(
    lines: tuple[PriceComparison, ...], what: str, protected: str, delta: float, claimed: float, proven: float
) -> None:
    line = _found(lines, what, protected, delta, Relation.REPLACE_ONE)
    assert line.claimed is not None
    assert line.claimed.epsilon == pytest.approx(claimed, rel=2e-3)
    assert line.proven.epsilon == pytest.approx(proven, rel=0.01)
    assert line.proven.basis is Basis.PROVEN


def test_a_row_added_at_an_owner_replaces_a_row_of_the_summary(lines: tuple[PriceComparison, ...]) -> None:
    """Sensitivity 2 either way: a row of an owner added or removed costs what a replaced row of the summary costs."""
    what = "summary mean, 500 rounds (T"
    added = _found(lines, what, "one row of an owner", 1e-4, Relation.ADD_OR_REMOVE)
    replaced = _found(lines, what, "one row of the summary", 1e-4, Relation.REPLACE_ONE)
    assert added.proven.epsilon == replaced.proven.epsilon


def test_the_auction_has_a_claim_and_no_proof(lines: tuple[PriceComparison, ...]) -> None:
    line = _found(lines, "private auction", "one row of an owner", 1e-5, Relation.REPLACE_ONE)
    assert line.claimed is not None
    assert (line.claimed.epsilon, line.proven.basis) == (1.0, Basis.NONE)


def test_preconditions_ask_for_more_than_there_is() -> None:
    needed = {condition.what: condition.needed for condition in paper_preconditions()}
    assert needed["target rows, |D_v|"] == pytest.approx(1.4e7, rel=0.01)
    assert needed["seed rows, |D_init|"] == pytest.approx(4e13, rel=0.02)


def test_the_command_prints_both_tables_and_the_same_numbers_as_json() -> None:
    shown = CliRunner().invoke(app, ["--paper"]).stdout
    assert "1.401" in shown
    assert "3.307" in shown
    document = json.loads(CliRunner().invoke(app, ["--paper", "--json"]).stdout)
    assert round(document["prices"][0]["claimed"], 3) == 1.401
    assert {"what", "needed", "used"} == set(document["preconditions"][0])


def test_exactly_one_question_is_asked() -> None:
    for arguments in ((), ("--paper", "--delta", "0.1")):
        result = CliRunner().invoke(app, list(arguments))
        assert isinstance(result.exception, InvalidArgument)
