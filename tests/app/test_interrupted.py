"""A run that is stopped anywhere leaves nothing, or what it takes to go on: nothing is paid twice."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import stop_driver
from stop_driver import stop_at

import job_world
from job_world import World, charges

TIMES = ("created", "seconds")
CHARGES = ["consumer/target-release", "consumer/width", "north/offer", "south/offer", "west/offer"]


@pytest.fixture(autouse=True)
def plain_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("likeset.app.cli.match.render", lambda result, _: f"<p>{result['in_sample_squared_mmd']}</p>")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World.make(tmp_path_factory.mktemp("market"))


def options(world: World, out: Path, **more: Any) -> dict[str, Any]:
    """With noise that repeats itself, so that results can be compared."""
    return world.options(out=out, noise="simulated", seed=5, **more)


@pytest.fixture(scope="module")
def undisturbed(world: World) -> Path:
    out = world.folder / "undisturbed"
    assert job_world.call("match", options(world, out)) == 0
    return out


def result(out: Path) -> dict[str, Any]:
    found = json.loads((out / "result.json").read_text(encoding="utf-8"))
    return {name: value for name, value in found.items() if name not in TIMES}


# Each place is a function that the run calls, and which of its calls is the one that does not come back. Before the
# release nothing is paid; from there on everything is kept.
BEFORE = [
    ("while the schema is read", "likeset.run.job.Schema.load", 1),
    ("while the target is read", "likeset.run.job.TableRows.read", 1),
    ("while an owner's file is opened", "likeset.run.job.open_source", 2),
    ("while ids are counted", "likeset.tables.scan.IdCount.most_rows", 3),
    ("while an owner's rows are checked", "likeset.tables.scan.SourceScan.first_pass", 3),
    ("before the directory is made", "likeset.run.job.Path.mkdir", 1),
    ("while the job is written down", "likeset.documents.write", 1),
    ("before the ledger is made", "likeset.run.job.SteadyLedger", 1),
    ("after the ledger was made", "likeset.run.plan.check_rows_left", 1),
    ("before an account is opened", "likeset.run.plan.open_accounts", 1),
    ("before the budget is looked at", "likeset.run.plan.Plan.check_affordable", 1),
    ("before the secrets are stored", "likeset.run.job.RunSecrets.load_or_store", 1),
    ("after the secrets were kept", "likeset.run.plan.Plan._release_gamma", 1),
]
AFTER = [
    ("after the width was chosen", "likeset.run.plan.Terms.settled", 1),
    ("while the terms are written down", "likeset.documents.write", 2),
    ("before the release", "likeset.protocol.sealed.released_mean", 1),
    ("before the selection", "likeset.protocol.sealed.SealedCurator._select", 1),
    ("during the selection", "likeset.geometry.selection.Selection.select", 1),
    ("after the selection", "likeset.run.here.counted_budget", 1),
    ("while the result is made up", "likeset.run.result.Result.document", 1),
    ("before result.json", "likeset.documents.write_text", 3),
    ("before report.html", "likeset.documents.write_text", 5),
    ("in summary.parquet", "likeset.run.here.pq.write_table", 1),
    ("after summary.parquet", "likeset.documents.os.fsync", 11),
    ("before it is moved to its place", "likeset.run.job.Path.rename", 1),
    # Between a charge and its answer, Ctrl-C waits: else the draw would be lost, and could not be paid again.
    ("while the width is drawn", "likeset.run.plan.width_choice.run", 1),
    ("while the release is drawn", "likeset.protocol.sealed.gaussian_mean.run", 1),
    ("while an offer is made", "likeset.protocol.sealed.SealedOwner._offer", 1),
    ("in an owner's pass", "likeset.protocol.sealed.draw_offer", 1),
]


Stopped = Callable[..., tuple[int, list[str]]]


@pytest.fixture
def stopped(world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Stopped:
    """Runs a match that is stopped somewhere: its exit code, and the lines that it complains in."""

    def run(place: str, call: int, stop: Callable[[], None], out: Path, **more: Any) -> tuple[int, list[str]]:
        with monkeypatch.context() as patched:
            happened = stop_at(patched, place, call, stop)
            code = job_world.call("match", options(world, out, **more))
        assert happened()
        said = capsys.readouterr().err.splitlines()
        assert all(line.startswith("owners: ") for line in said[:-1])
        return code, said

    return run


def check_resumed(world: World, out: Path, undisturbed: Path) -> None:
    """Going on gives what an undisturbed run gives, and nothing is charged a second time."""
    partial = out.with_name(out.name + ".partial")
    terms = partial / "terms.yaml"
    agreed = terms.read_bytes() if terms.exists() else (undisturbed / "terms.yaml").read_bytes()
    assert job_world.call("match", options(world, out, resume=True)) == 0
    assert not partial.exists()
    assert sorted(path.name for path in out.iterdir()) == sorted(path.name for path in undisturbed.iterdir())
    assert (out / "terms.yaml").read_bytes() == agreed == (undisturbed / "terms.yaml").read_bytes()
    assert sorted(charges(out / "ledger.sqlite")) == CHARGES
    assert result(out) == result(undisturbed)
    assert pq.read_table(out / "summary.parquet").equals(pq.read_table(undisturbed / "summary.parquet"))


@pytest.mark.parametrize(
    ("place", "call"),
    [pytest.param(*one[1:], id=one[0], marks=[pytest.mark.slow] * (at % 3 > 0)) for at, one in enumerate(BEFORE)],
)
def test_nothing_is_left_of_a_run_that_paid_nothing(place: str, call: int, stopped: Stopped, tmp_path: Path) -> None:
    ledger = tmp_path / "book.sqlite"
    code, said = stopped(place, call, stop_driver.interrupt, tmp_path / "out", ledger=ledger)
    assert code == 130
    assert said[-1].startswith("error: interrupted; ")
    assert "nothing was left half-written" in said[-1]
    assert {path.name for path in tmp_path.iterdir()} <= {"book.sqlite", "book.sqlite.lock"}
    if ledger.exists():
        assert charges(ledger) == []


@pytest.mark.slow
@pytest.mark.parametrize(("place", "call"), [pytest.param(*one[1:], id=one[0]) for one in AFTER])
def test_a_run_goes_on_where_it_was_interrupted(
    place: str, call: int, stopped: Stopped, world: World, undisturbed: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    code, said = stopped(place, call, stop_driver.interrupt, out)
    assert code == 130
    assert said[-1].startswith("error: interrupted; ")
    assert f"what was spent stays spent, and is kept in {out}.partial: go on with --resume" in said[-1]
    assert not out.exists()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    check_resumed(world, out, undisturbed)


@pytest.mark.parametrize(
    ("place", "call", "words"),
    [
        ("likeset.protocol.sealed.draw_offer", 2, "cannot be written: No space left"),
        ("likeset.documents.os.fsync", 5, "terms.yaml: cannot be written: No space left"),
        ("likeset.run.here.pq.write_table", 1, "cannot be written: No space left"),
    ],
)
def test_a_full_disk_is_told_and_what_was_paid_is_kept(
    place: str, call: int, words: str, stopped: Stopped, world: World, undisturbed: Path, tmp_path: Path
) -> None:
    code, said = stopped(place, call, stop_driver.full_disk, tmp_path / "out")
    assert code == 2
    assert said[-1].startswith("error: ")
    assert words in said[-1]
    assert "go on with --resume" in said[-1]
    check_resumed(world, tmp_path / "out", undisturbed)


def test_a_crash_between_charge_and_draw_loses_budget_and_says_so(
    stopped: Stopped, world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The charge is on the disk before a coin is tossed; a second draw would be a second charge."""
    out = tmp_path / "out"
    assert stopped("likeset.protocol.sealed.gaussian_mean.run", 1, stop_driver.full_disk, out)[0] == 2
    ledger = tmp_path / "out.partial" / "ledger.sqlite"
    before = charges(ledger)
    assert before == ["consumer/width", "consumer/target-release"]
    assert job_world.call("match", options(world, out, resume=True)) == 2
    said = capsys.readouterr().err
    assert "the charge stays spent" in said
    assert f"this run cannot go on: remove {tmp_path / 'out.partial'} and start a new one" in said
    assert charges(ledger) == before
    assert not out.exists()


def stopped_run(world: World, out: Path) -> Path:
    with pytest.MonkeyPatch.context() as patched:
        stop_at(patched, "likeset.run.here.counted_budget", 1, stop_driver.interrupt)
        assert job_world.call("match", options(world, out)) == 130
    return out.with_name(out.name + ".partial")


def test_a_run_goes_on_as_it_began_or_not_at_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With another option, file or content it is refused, and can still go on as it began."""
    world = World.make(tmp_path)
    out = tmp_path / "out"
    partial = stopped_run(world, out)
    paid = charges(partial / "ledger.sqlite")
    north, copy = world.place("north"), tmp_path / "copy.csv"
    copy.write_bytes(north.read_bytes())
    (tmp_path / "other.csv").write_bytes((tmp_path / "target.csv").read_bytes())
    owners = [f"north={north}", f"south={world.place('south')}"]

    def refused(words: str, **changed: Any) -> None:
        capsys.readouterr()
        assert job_world.call("match", options(world, out, resume=True) | changed) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert words in said
        assert charges(partial / "ledger.sqlite") == paid
        assert not out.exists()

    refused("the run began with another epsilon", epsilon=7)
    refused("the run began with another owners", owner=owners)
    refused("the run began with another target", target=tmp_path / "other.csv")
    refused("the run began with another seed, size", size=11, seed=6)
    world.replace("north.csv", age=[50] * 60)
    refused("began with other files")
    north.write_bytes(copy.read_bytes())
    assert job_world.call("match", options(world, out, resume=True)) == 0
    assert charges(out / "ledger.sqlite") == paid
