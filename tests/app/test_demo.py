"""``likeset demo``: the table, the picture, the document for machines, and what it refuses."""

import json
import struct
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from likeset.app.cli import app, main

METHODS = ["exact", "block", "feature-greedy", "uniform"]


def invoke(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["demo", *arguments], catch_exceptions=False, env={"COLUMNS": "120"})
    assert result.exit_code == 0
    assert result.stderr == ""
    return result.stdout


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(invoke("--json", "--out", str(tmp_path_factory.mktemp("demo"))))
    return loaded


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that is not there yet."""
    return tmp_path_factory.mktemp("demo") / "new" / "folder"


@pytest.fixture(scope="module")
def printed(folder: Path) -> str:
    return invoke("--out", str(folder))


def test_it_prints_its_table_and_says_that_it_is_not_private(printed: str) -> None:
    lines = [line.split("│")[1].strip() for line in printed.splitlines() if line.startswith("│")]
    assert [line for line in lines if line in METHODS] == METHODS
    assert "MMD² to target" in printed
    assert "linear SVM" in printed
    assert "Not private" in printed
    assert "selected-digits.png" in printed


@pytest.mark.usefixtures("printed")
def test_it_writes_a_picture_into_a_directory_that_it_creates(folder: Path) -> None:
    assert [path.name for path in folder.iterdir()] == ["selected-digits.png"]
    picture = (folder / "selected-digits.png").read_bytes()
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", picture[16:24])  # the header chunk comes first
    assert 800 <= width <= 2400
    assert 200 <= height <= 1200
    assert 10_000 < len(picture) < 100_000


def test_the_document_is_json_and_says_that_it_is_not_private(document: dict[str, Any]) -> None:
    assert document["private"] is False
    assert [method["method"] for method in document["methods"]] == METHODS
    assert Path(document["picture"]).exists()
    for method in document["methods"]:
        assert method["squared_mmd"] > 0
        assert 0 <= method["accuracy"] <= 1
        assert method["seconds"] >= 0


def test_exact_matches_best_and_uniform_is_far_worse(document: dict[str, Any]) -> None:
    """Owners hold ten digits, the target two: four of five rows of a uniform sample are of a wrong kind."""
    squared_mmd = {method["method"]: method["squared_mmd"] for method in document["methods"]}
    accuracy = {method["method"]: method["accuracy"] for method in document["methods"]}
    assert squared_mmd["exact"] == min(squared_mmd.values())
    assert squared_mmd["block"] == pytest.approx(squared_mmd["exact"], rel=1e-3)  # a pool this small is searched whole
    assert squared_mmd["feature-greedy"] < 4 * squared_mmd["exact"]
    assert squared_mmd["uniform"] > 10 * squared_mmd["exact"]
    assert accuracy["exact"] > accuracy["uniform"]


def test_two_runs_select_the_same_rows(document: dict[str, Any], printed: str) -> None:
    for method in document["methods"]:
        line = next(line for line in printed.splitlines() if line.startswith(f"│ {method['method']} "))
        cells = [cell.strip() for cell in line.strip("│").split("│")]
        assert (cells[1], cells[3]) == (f"{method['squared_mmd']:.5f}", f"{100 * method['accuracy']:.1f}%")


def test_a_file_where_the_directory_should_be_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    occupied = tmp_path / "occupied"
    occupied.write_text("mine", encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["likeset", "demo", "--out", str(occupied)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1
    assert printed.err.startswith("error: --out")
    assert "Traceback" not in printed.err
    assert occupied.read_text(encoding="utf-8") == "mine"
