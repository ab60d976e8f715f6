"""``likeset evaluate``, as a user calls it."""

import json
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from job_world import OWNERS, SCHEMA, World, call, rows, write
from screens import Screens

pytestmark = pytest.mark.usefixtures("few_trees")
MORE = ("--noise", "simulated", "--seed", "3")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    made = World.make(tmp_path_factory.mktemp("market"))
    write(made.folder / "test.csv", rows(40, seed=9, age=60.0, whose="test"))
    assert call("match", made.options(), *MORE) == 0
    return made


def evaluated(world: World, capsys: pytest.CaptureFixture[str], **changed: Any) -> tuple[int, str, str]:
    given = {"test": world.folder / "test.csv", "schema": world.folder / "schema.yaml"} | changed
    kept = {name: value for name, value in given.items() if value is not None}
    more = kept.pop("more", ())
    capsys.readouterr()
    code = call("evaluate", kept, world.out, *more)
    told = capsys.readouterr()
    return code, told.out, " ".join(told.err.split())


@pytest.mark.slow
def test_models_are_judged_beside_uniform_and_all_rows(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    owners = [f"{name}={world.place(name)}" for name in OWNERS]
    code, out, _ = evaluated(world, capsys, owner=owners, more=("--json",))
    assert code == 0
    document = json.loads(out)
    assert [line["rows"] for line in document["models"][::3]] == [12, 12, 180]
    assert (document["test_rows"], document["test_ids"]) == (40, 20)  # two rows of each patient
    for line in document["models"][3:]:
        own = next(one for one in document["models"] if one["model"] == line["model"])
        for measure, gain in line["summary_gains"].items():
            assert gain["value"] == pytest.approx(own["scores"][measure]["value"] - line["scores"][measure]["value"])
            assert gain["low"] <= gain["value"] <= gain["high"]
    page = (world.out / "report.html").read_text(encoding="utf-8")
    assert "Models trained on the summary" in page
    assert json.loads((world.out / "evaluation.json").read_text(encoding="utf-8")) == document
    assert call("report", {}, world.out) == 0
    assert "Models trained on the summary" in (world.out / "report.html").read_text(encoding="utf-8")


def test_what_cannot_be_evaluated_is_said(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str], screens: Screens
) -> None:
    test = rows(40, seed=9, age=60.0, whose="test")
    write(tmp_path / "gap.csv", test.set_column(5, "ill", [[None, *test["ill"].to_pylist()[1:]]]))
    write(tmp_path / "none.csv", test.drop_columns(["ill"]))
    write(tmp_path / "nobody.csv", test.drop_columns(["patient"]))
    other = tmp_path / "schema.yaml"
    other.write_text(
        (world.folder / "schema.yaml").read_text(encoding="utf-8").replace("100]", "120]"), encoding="utf-8"
    )
    told = []
    for changed in (
        {"schema": other},
        {"test": tmp_path / "gap.csv"},
        {"test": tmp_path / "none.csv"},
        {"test": tmp_path / "nobody.csv"},
    ):
        code, _, err = evaluated(world, capsys, **changed)
        assert code == 2
        told.append(err.replace(str(tmp_path), "FOLDER"))
    screens.check("mistakes", "\n".join(told))


def test_a_test_in_another_unit_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Months in place of years are clipped to the bounds, and only a note tells of them."""
    market, test = World.make(tmp_path), rows(40, seed=9, age=60.0, whose="test")
    schema = SCHEMA.replace("[0, 100]}", "[0, 100], outside: clip}")
    (tmp_path / "schema.yaml").write_text(schema, encoding="utf-8")
    assert call("match", market.options(), *MORE) == 0
    notes = []
    for factor in (1.0, 12.0):
        place = test.column_names.index("age")
        write(tmp_path / "test.csv", test.set_column(place, "age", [pc.multiply(test["age"], factor)]))
        assert evaluated(market, capsys)[0] == 0
        document = json.loads((market.out / "evaluation.json").read_text(encoding="utf-8"))
        notes.append([note for note in document["notes"] if "units of the test in age:" in note])
    assert list(map(len, notes)) == [0, 1]


def test_a_schema_that_is_gone_must_be_given(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    schema, aside = world.folder / "schema.yaml", world.folder / "aside.yaml"
    schema.rename(aside)
    assert evaluated(world, capsys, schema=None)[0] == 2
    assert evaluated(world, capsys, schema=aside)[0] == 0
    assert "in place of the earlier one" in " ".join(evaluated(world, capsys, schema=aside)[1].split())
    aside.rename(schema)
