"""What a plan predicts is what the run then does: guarantees to the letter, rows and bytes within the bounds."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import job_world
from job_world import World, rows, run, write
from likeset.errors import BudgetExceeded, InvalidArgument
from likeset.protocol import notices
from likeset.run.plan import plan_job

CLINICS = 30


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    made = World.make(tmp_path_factory.mktemp("market"))
    for number in range(CLINICS):
        name = f"clinic-{number}"
        write(made.folder / f"{name}.csv", rows(6, seed=100 + number, age=40.0 + number, whose=name))
    return made


KINDS: dict[str, dict[str, Any]] = {
    "sealed": {},
    "uniform": {"offers": "uniform"},
    "little epsilon": {"epsilon": 0.5},
    "auction": {"size": 6, "auction": "threshold", "auction_epsilon": 4.0, "epsilon": 20.0},
    "interactive": {"protocol": "interactive", "size": 5},
    "interactive, summary": {
        "protocol": "interactive", "size": 4, "summary_release": "gaussian", "owner_epsilon": 4.0,
    },
    "add-or-remove": {"relation": "add-or-remove", "declared_size": 55, "release_gamma": 1.0},
    "simulated": {"noise": "simulated", "seed": 3},
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_predictions_hold(kind: str, world: World, tmp_path: Path) -> None:
    clinics = {f"clinic-{number}": str(world.folder / f"clinic-{number}.csv") for number in range(CLINICS)}
    owners = {"owners": clinics} if kind == "auction" else {}
    asked = world.job(**KINDS[kind], **owners, out=str(tmp_path / "out"))
    planned = plan_job(asked)
    predicted = planned.document()
    result = json.loads(json.dumps(run(asked).result))
    assert predicted["guarantees"] == result["guarantees"]
    assert predicted["private"] == result["private"]
    planned_kinds = ("uniform-offers", "uncertain-width")
    assert predicted["notes"] == [note for note in result["warnings"] if note["kind"] in planned_kinds]
    assert result["rows_seen"] <= predicted["rows_seen_at_most"]
    assert sum(one["messages"] for one in result["owners"]) <= predicted["messages_at_most"]
    for one in result["owners"]:
        assert one["disclosed"] <= predicted["rows_per_owner"]
    if kind != "auction":
        # Every owner has more rows than are wanted of it, and everyone is asked: bounds are reached.
        assert result["rows_seen"] == predicted["rows_seen_at_most"] == predicted["rows_seen_expected"]
        assert sum(one["messages"] for one in result["owners"]) == predicted["messages_at_most"]
    if kind == "auction":
        assert predicted["rows_seen_at_most"] == CLINICS * predicted["rows_per_owner"]
        assert predicted["rows_seen_expected"] < predicted["rows_seen_at_most"]
    assert (predicted["released_coordinates"] == 0) is (kind in ("uniform", "little epsilon"))


def test_the_advice_is_good(world: World) -> None:
    """Whoever takes the epsilon that is suggested gets twice as much signal as noise, and not far more."""
    plan = plan_job(world.job())
    words = plan.advice.text
    assert words.startswith("Your target has 60 rows: epsilon = 8 keeps ")
    suggested = float(words.split("epsilon >= ")[1].split(" ")[0])
    better = plan_job(world.job(epsilon=suggested))
    assert better.advice.noise is not None
    assert better.advice.signal is not None
    assert 2.0 <= better.advice.signal / better.advice.noise < 2.4
    assert "good" in better.advice.text
    for one in (plan, better):
        assert "may be nothing where they are common" in one.advice.text
        assert "are a large part" not in one.advice.text
    assert "are a large part" in plan_job(world.job(offer_factor=3.0)).advice.text
    poor = plan_job(world.job(epsilon=0.5))
    assert poor.advice.noise is None
    assert "offers are uniform" in poor.advice.text


def test_a_target_of_the_size_that_is_named_makes_a_release_possible(world: World) -> None:
    named = int(plan_job(world.job(epsilon=2.0)).advice.text.split("a target of ")[1].split(" ")[0])
    noises = []
    for count in (named - 12, named):
        write(world.folder / "larger.csv", rows(count, seed=1, age=60.0, whose="mine"))
        noises.append(plan_job(world.job(epsilon=2.0, target=str(world.folder / "larger.csv"))).advice.noise)
    assert noises[0] is None
    assert noises[1] is not None


def test_a_plan_reads_no_owner_and_writes_nothing(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Owners' files may hold anything: they need only be there."""
    for name in job_world.OWNERS:
        (tmp_path / world.place(name).name).write_bytes(b"\0garbage\xff")
    before = {path: path.stat().st_mtime_ns for path in (*tmp_path.rglob("*"), *world.folder.rglob("*"))}
    owners = [f"{name}={tmp_path / world.place(name).name}" for name in job_world.OWNERS]
    options = world.options(owner=owners, out=tmp_path / "out", ledger=tmp_path / "book.sqlite")
    assert job_world.call("plan", options) == 0
    shown = capsys.readouterr().out
    assert "No row of any owner was read, and nothing was spent." in shown
    assert job_world.call("plan", options, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    true = plan_job(world.job(ledger=str(tmp_path / "book.sqlite"))).document()
    odd = {name for name in true if document[name] != true[name]}
    assert odd <= {"budget"}
    assert {path: path.stat().st_mtime_ns for path in (*tmp_path.rglob("*"), *world.folder.rglob("*"))} == before


def test_a_plan_names_a_file_of_an_owner_that_is_missing(world: World) -> None:
    with pytest.raises(InvalidArgument) as refused:
        plan_job(world.job(owners={"north": str(world.folder / "none.csv")}))
    assert refused.value.argument == "owner north"


SCHEDULES: list[dict[str, Any]] = [
    {"schedule": "theorem", "summary_release": "mwem", "epsilon": 1.0, "owner_epsilon": 1.0},
    {"schedule": "proof", "summary_release": "mwem", "epsilon": 1.0, "owner_epsilon": 0.2},
    {"preset": "paper", "seed_rows": "target.csv", "accept_unproven": ["paper-auction", "summary-release"]},
    {"preset": "paper", "seed_rows": "target.csv", "auction": "everyone"},
]


@pytest.mark.parametrize("changed", SCHEDULES, ids=str)
def test_a_plan_and_a_run_refuse_the_papers_schedules_alike_and_name_the_limit(
    changed: dict[str, Any], world: World, tmp_path: Path
) -> None:
    """Limits are raised as told, one after the other; what is planned without complaint then runs."""
    options = {"protocol": "interactive", "size": 3, "dimension": 8, "release_gamma": 1.0, "epsilon": 1.0, **changed}
    if "seed_rows" in options:
        options["seed_rows"] = str(world.folder / options["seed_rows"])
    told = []
    for number in range(3):
        out = tmp_path / f"out-{number}"
        try:
            plan_job(world.job(**options, out=str(out)))
        except InvalidArgument as refused:
            told.append(refused.argument)
            with pytest.raises(InvalidArgument, match=re.escape(str(refused))):
                run(world.job(**options, out=str(out)))
            assert not out.exists()
            options[refused.argument] = float(refused.reason.rpartition(" ")[2])
        else:
            break
    assert 1 <= len(told) <= 2
    assert set(told) <= {"epsilon", "owner_epsilon"}
    done = run(world.job(**options, out=str(out)))
    assert done.summary.num_rows == 3


def test_the_advice_for_rounds_is_no_run_that_is_refused(world: World) -> None:
    """Rounds need a release: uniform offers, which need none, are of the sealed protocol."""
    write(world.folder / "few.csv", rows(3, seed=9, age=50.0, whose="few"))
    few: dict[str, Any] = {"target": str(world.folder / "few.csv"), "epsilon": 1e-5, "release_gamma": 1.0}
    assert "protocol: sealed" in plan_job(world.job(**few, protocol="interactive")).advice.text
    assert plan_job(world.job(**few, protocol="sealed")).terms.offers == "uniform"


def test_what_came_from_data_and_what_promises_nothing_is_warned_about(world: World, tmp_path: Path) -> None:
    schema = tmp_path / "schema.yaml"
    schema.write_text(job_world.SCHEMA.replace("[0, 100]}", "[0, 100], from_data: true}"), encoding="utf-8")
    warnings = plan_job(world.job(schema=str(schema), epsilon=40.0, noise="simulated")).warnings
    assert set(warnings) == {notices.SIMULATED_NOISE, notices.weak_promise(40.0), notices.bounds_from_data(["age"])}
    assert plan_job(world.job()).warnings == ()


def test_a_plan_on_a_ledger_says_what_is_left_and_refuses_as_the_run_would(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = str(tmp_path / "book.sqlite")
    asked = world.job(ledger=ledger, out=str(tmp_path / "first"))
    new = plan_job(asked).document()["budget"]
    assert (new["shared"], new["accounts"]) == (True, None)
    assert "no ledger" in new["in_words"]
    run(asked)
    again = world.job(ledger=ledger, out=str(tmp_path / "second"))
    notes = []
    for attempt in (plan_job, run):
        with pytest.raises(BudgetExceeded) as refused:
            attempt(again)
        notes.append((str(refused.value), refused.value.__notes__))
    assert notes[0] == notes[1]
    rows = 2 * plan_job(world.job()).terms.rows_per_owner
    assert f"likeset ledger limit {ledger} --of north --rows {rows}" in notes[0][1][1]
    for name in job_world.OWNERS:
        assert job_world.call("ledger", {}, "limit", ledger, "--of", name, "--rows", str(rows)) == 0
    with pytest.raises(BudgetExceeded) as refused:
        plan_job(again)
    raised = refused.value.__notes__[1].split("likeset ", 1)[1].split()
    assert raised[:-1] == ["ledger", "limit", ledger, "--of", "consumer", "--epsilon"]
    assert job_world.call("ledger", {}, *raised[1:]) == 0
    capsys.readouterr()
    before = Path(ledger).read_bytes()
    about_target, *of_owners = plan_job(again).accounts or [{}]
    assert Path(ledger).read_bytes() == before
    assert about_target["spent"] == pytest.approx(job_world.EPSILON, rel=1e-3)
    assert about_target["spent"] < about_target["after"] <= float(raised[-1])
    assert [[one[name] for name in ("spent", "after", "left")] for one in of_owners] == [[rows / 2, rows, 0.0]] * 3
    assert job_world.call("plan", world.options(ledger=ledger, out=tmp_path / "second")) == 0
    assert "What the ledger leaves" in capsys.readouterr().out
