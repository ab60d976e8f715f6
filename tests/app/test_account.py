"""``likeset account``: the paper's settings, releases from a file, and mistakes told in one line."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer import Typer
from typer.testing import CliRunner, Result

from likeset.app.cli.account import account
from likeset.errors import InvalidArgument, UnknownEvent
from likeset.privacy.events import (
    ROW,
    VERSION,
    Event,
    Gaussian,
    InRange,
    Laplace,
    NoRelease,
    Norm,
    Relation,
    RowSum,
    Simulated,
    as_json,
)

app = Typer(rich_markup_mode="rich")
app.command()(account)


def _gaussian(relation: Relation) -> Gaussian:
    quantity = RowSum(norm=Norm.EUCLIDEAN, radius=1.0, unit=ROW, relation=relation)
    return Gaussian(sigma=8.0, quantity=quantity, coordinates=140, spacing=2.0**-30)


GAUSSIAN = _gaussian(Relation.REPLACE_ONE)


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def _file(folder: Path, *events: Event) -> Path:
    path = folder / "releases.json"
    path.write_text(json.dumps({"version": VERSION, "events": [as_json(event) for event in events]}))
    return path


@pytest.fixture(scope="module")
def paper_rows() -> list[dict[str, Any]]:
    result = _run("--paper", "--json")
    assert result.exit_code == 0
    rows: list[dict[str, Any]] = json.loads(result.stdout)
    return rows


def _found(rows: list[dict[str, Any]], what: str, protected: str, delta: float, relation: str) -> dict[str, Any]:
    (row,) = [
        row
        for row in rows
        if row["what"].startswith(what)
        and row.get("protected", "").startswith(protected)
        and (row["delta"], row["relation"]) == (delta, relation)
    ]
    return row


def test_every_row_has_the_five_fields(paper_rows: list[dict[str, Any]]) -> None:
    assert all({"what", "delta", "relation", "claimed", "proven"} <= set(row) for row in paper_rows)


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
    paper_rows: list[dict[str, Any]], what: str, protected: str, delta: float, claimed: float, proven: float
) -> None:
    row = _found(paper_rows, what, protected, delta, "replace-one")
    assert row["claimed"] == pytest.approx(claimed, rel=2e-3)
    assert row["proven"] == pytest.approx(proven, rel=0.01)
    assert row["basis"] == "proven"


def test_a_row_added_at_an_owner_replaces_a_row_of_the_summary(paper_rows: list[dict[str, Any]]) -> None:
    """Sensitivity 2 either way: a row of an owner added or removed costs what a replaced row of the summary costs."""
    what = "summary mean, 500 rounds (T"
    added = _found(paper_rows, what, "one row of an owner", 1e-4, "add-or-remove")
    assert added["proven"] == _found(paper_rows, what, "one row of the summary", 1e-4, "replace-one")["proven"]


def test_the_auction_has_a_claim_and_no_proof(paper_rows: list[dict[str, Any]]) -> None:
    row = _found(paper_rows, "private auction", "one row of an owner", 1e-5, "replace-one")
    assert (row["claimed"], row["proven"], row["basis"]) == (1.0, None, "none")


def test_preconditions_are_among_the_rows(paper_rows: list[dict[str, Any]]) -> None:
    needed = {row["what"].split(": ")[1]: row["needed"] for row in paper_rows if "needed" in row}
    assert needed["target rows, |D_v|"] == pytest.approx(1.4e7, rel=0.01)
    assert needed["seed rows, |D_init|"] == pytest.approx(4e13, rel=0.02)


def test_the_table_shows_the_same(paper_rows: list[dict[str, Any]]) -> None:
    shown = _run("--paper").stdout
    assert "1.401" in shown
    assert "3.307" in shown
    assert "Preconditions" in shown
    assert len(paper_rows) >= 20


def test_releases_from_a_file_are_priced_under_the_relation_that_they_were_planned_under(tmp_path: Path) -> None:
    """Noise of 8 on a sum of unit rows, twice: rho = 2 * (2/8)²/2 replaced, 2 * (1/8)²/2 removed.

    As a plan both add up to one Gaussian of shift sqrt(2)/4: below what the filter charges.
    """

    def priced(relation: Relation) -> list[dict[str, Any]]:
        once = _gaussian(relation)
        rows: list[dict[str, Any]] = json.loads(
            _run("--events", str(_file(tmp_path, once, NoRelease(), once)), "--json").stdout
        )
        assert {row["relation"] for row in rows} == {relation}
        return rows

    replaced, removed = priced(Relation.REPLACE_ONE), priced(Relation.ADD_OR_REMOVE)
    assert [row["what"] for row in replaced] == [
        "release 1: gaussian",
        "release 2: none",
        "release 3: gaussian",
        "all, as a plan fixed in advance",
        "all, each chosen after seeing the last",
    ]
    assert replaced[1]["proven"] == 0.0
    assert replaced[0]["proven"] < replaced[3]["proven"] < replaced[4]["proven"]
    assert all(half["proven"] <= whole["proven"] for half, whole in zip(removed, replaced, strict=True))


def test_releases_that_hold_under_each_relation_are_priced_under_both(tmp_path: Path) -> None:
    share = Laplace(scale=2.0, quantity=InRange(0.0, 1.0))
    rows = json.loads(_run("--events", str(_file(tmp_path, share)), "--json").stdout)
    assert {row["relation"] for row in rows} == set(Relation)


def test_releases_planned_under_different_relations_are_refused(tmp_path: Path) -> None:
    mixed = _file(tmp_path, *map(_gaussian, Relation))
    assert "one relation" in str(_run("--events", str(mixed)).exception)


def test_a_single_event_and_several_deltas(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    path.write_text(json.dumps({"version": VERSION, "event": as_json(GAUSSIAN)}))
    rows = json.loads(_run("--events", str(path), "--delta", "1e-3", "--delta", "1e-6", "--json").stdout)
    assert {row["delta"] for row in rows} == {1e-3, 1e-6}


def test_simulated_releases_have_no_epsilon_and_say_why(tmp_path: Path) -> None:
    path = _file(tmp_path, Simulated(GAUSSIAN))
    row = json.loads(_run("--events", str(path), "--json").stdout)[0]
    assert (row["proven"], row["basis"]) == (None, "none")
    assert "simulated" in row["note"]
    assert "simulated" in _run("--events", str(path)).stdout


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"version": 1, "events": []}', '{"version": 3, "events": [{"kind": "free"}]}', '{"version": 3}'],
)
def test_a_file_that_is_not_understood_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text)
    assert isinstance(_run("--events", str(path)).exception, InvalidArgument | UnknownEvent)


@pytest.mark.parametrize(
    "arguments", [(), ("--paper", "--events", "x"), ("--paper", "--delta", "0.1"), ("--events", "/no/such/file")]
)
def test_arguments_that_do_not_go_together_are_refused(arguments: tuple[str, ...]) -> None:
    assert isinstance(_run(*arguments).exception, InvalidArgument)


def test_help_has_an_example() -> None:
    assert "Example" in _run("--help").stdout
