"""``likeset schema draft``, ``show`` and ``check`` as a person and as a program would use them."""

from functools import partial
from pathlib import Path

import pytest
import typed

from likeset.errors import BadTable
from likeset.tables.schema import Schema

TEXT = """\
likeset: schema
version: 1
columns:
  age: {kind: numeric, bounds: [0, 120]}
  site: {kind: category, values: [north, south], from_data: true}
label: {column: ill, kind: category, values: [0, 1]}
"""
GOOD = "age,site,ill,more\n30,north,0,x\n40,south,1,y\n"
BAD = "age,site,ill\n30,north,0\n4711,west,1\n,south,1\n"


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    path = tmp_path / "schema.yaml"
    path.write_text(TEXT, encoding="utf-8")
    return path


def file(folder: Path, text: str, name: str = "rows.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


run, document = partial(typed.run, "schema"), partial(typed.document, "schema")


def test_check_takes_a_target_without_labels(schema: Path, tmp_path: Path) -> None:
    target = file(tmp_path, "age,site\n30,north\n40,south\n", "target.csv")
    told = document("check", "--schema", schema, target, file(tmp_path, GOOD))
    assert (told["ok"], told["unlabelled"]) == (True, [str(target)])
    matched = tmp_path / "matched.yaml"
    matched.write_text(TEXT.replace("values: [0, 1]}", "values: [0, 1], match: true}"), encoding="utf-8")
    refused = run("check", "--schema", matched, target, code=1).exception
    assert isinstance(refused, BadTable)
    assert refused.column == "ill"


def test_check_says_no_with_counts_and_places_and_never_a_value(schema: Path, tmp_path: Path) -> None:
    good, bad = file(tmp_path, GOOD, "good.csv"), file(tmp_path, BAD, "bad.csv")
    shown = run("check", "--schema", schema, good, bad, code=1).stdout
    assert "4711" not in shown
    assert "west" not in shown
    first, second = document("check", "--schema", schema, good, bad, code=1)["files"]
    assert (first["ok"], second["ok"], second["rows"]) == (True, False, 3)
    age, site, _ = second["columns"]
    assert (age["counts"]["out of range"], age["counts"]["missing"]) == (1, 1)
    assert age["first"]["out of range"] == ["line 3"]
    assert site["counts"]["unknown"] == 1


def test_draft_prints_or_writes_a_schema_that_fits(tmp_path: Path) -> None:
    rows, out = file(tmp_path, GOOD), tmp_path / "draft.yaml"
    assert Schema.from_text(run("draft", rows, "--label", "ill").stdout).label_column == "ill"
    run("draft", rows, "--label", "ill", "--out", out)
    run("check", "--schema", out, rows)
    assert document("draft", rows)["from_data"] == list(Schema.from_text(run("draft", rows).stdout).from_data)


def test_draft_suggests_a_vector_for_a_hundred_numeric_columns(tmp_path: Path) -> None:
    lines = [",".join(f"pixel{place}" for place in range(100)), *(",".join([f"{row}.5"] * 100) for row in range(30))]
    rows = file(tmp_path, "\n".join(lines))
    assert "kind vector" in " ".join(run("draft", rows, "--out", tmp_path / "draft.yaml").stdout.split())
