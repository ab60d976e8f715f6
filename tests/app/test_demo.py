"""``likeset demo``: the whole market on files, once for all tests here, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typed import run

import job_world
from likeset.app import demo
from likeset.ledger.ledger import Ledger
from likeset.run.job import Job
from likeset.run.plan import plan_job
from likeset.simulation import DIGIT_GROUPS
from likeset.tables.schema import Schema

OWNERS = [f"digits-{one}-{other}" for one, other in DIGIT_GROUPS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in a directory that is not there yet."""
    return tmp_path_factory.mktemp("demo") / "new" / "demo"


@pytest.fixture(scope="module")
def result(folder: Path) -> dict[str, Any]:
    run("demo", "--out", folder)
    found: dict[str, Any] = json.loads((folder / "matched" / "result.json").read_text(encoding="utf-8"))
    return found


def test_the_run_is_private_and_real(result: dict[str, Any], folder: Path) -> None:
    assert (result["private"], result["noise"], result["protocol"]) == (True, "secret", "sealed")
    assert [one["name"] for one in result["owners"]] == OWNERS
    assert result["rows_selected"] == demo.SIZE
    about_target = next(one for one in result["guarantees"] if one["protects"] == "consumer" and one["epsilon"])
    assert demo.EPSILON * 0.999 < about_target["epsilon"] <= demo.EPSILON
    with Ledger(folder / "matched" / "ledger.sqlite", read_only=True) as ledger:
        assert ledger.verify().ok
        spent = {str(account.view): account for account in ledger.accounts()}
    assert any(account.epsilon and account.epsilon <= demo.EPSILON for account in spent.values())
    assert sum(account.rows for account in spent.values()) >= result["rows_seen"]


def test_it_is_far_better_than_chance_and_as_good_as_who_sees_everything(result: dict[str, Any]) -> None:
    """Owners hold ten digits, the target two: four of five rows of a uniform sample are of a wrong kind.

    The noise is secret, so bounds are far from what is usual: held-out MMD² is 0.0087 to 0.0091 (exact greedy 0.0094,
    uniform 0.079), and 86.5 of 100 rows come from the right owner, with a standard deviation of 0.8. Whatever the
    release is, half of each owner's rows are offered and the curator selects exactly.
    """
    lines = {line["name"]: line for line in result["comparison"]["lines"]}
    assert {"uniform sampling", "the paper's protocol", "exact greedy, not private"} <= set(lines)
    mine = lines["this summary"]
    assert lines["uniform sampling"]["squared_mmd"] > 5 * mine["squared_mmd"]
    assert mine["squared_mmd"] < 1.3 * lines["exact greedy, not private"]["squared_mmd"]
    assert mine["scores"]["accuracy"] > lines["uniform sampling"]["scores"]["accuracy"]
    for line in lines.values():
        assert not line["scores"] or set(line["scores"]) == {"balanced_accuracy", "accuracy", "auc"}
        assert all(0 <= score <= 1 for score in line["scores"].values())
    selected = {one["name"]: one["selected"] for one in result["owners"]}
    assert selected["digits-3-4"] > 0.6 * demo.SIZE


@pytest.mark.usefixtures("result")
def test_the_files_stay_and_can_be_used(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As the last line of the screen says: plan with these files."""
    report = (folder / "matched" / "report.html").read_text(encoding="utf-8")
    assert report.startswith("<!DOCTYPE html>")
    assert "Rows as images" in report
    schema = Schema.load(folder / "data" / "schema.yaml")
    assert schema.width == 64
    table = pq.read_table(folder / "matched" / "summary.parquet")
    assert table.column_names == ["image", "digit", "owner", "weight"]
    assert job_world.call("plan", {"epsilon": 1}, folder / "matched" / "job.yaml") == 0
    assert "100 rows from 5 owners" in capsys.readouterr().out
    assert plan_job(Job.load(folder / "matched" / "job.yaml")).terms.size == demo.SIZE


def test_only_what_a_demo_made_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory of the user's stays; one of an earlier demo is made anew."""
    made = []

    def showing(out: Path, **_: Any) -> Any:
        made.append(out)
        (out / "matched").mkdir()
        raise KeyboardInterrupt

    monkeypatch.setattr("likeset.app.demo.run_demo", showing)
    out = tmp_path / "demo"
    for _ in range(2):
        assert job_world.call("demo", {"out": out}) == 130
    assert made == [out, out]
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "precious").write_text("kept", encoding="utf-8")
    assert job_world.call("demo", {"out": mine}) == 2
    assert (mine / "precious").read_text(encoding="utf-8") == "kept"
    assert made == [out, out]
