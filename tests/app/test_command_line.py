"""Exit codes are as ``docs/cli.md`` tells."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import likeset
from likeset.app import cli
from likeset.tables.schema import Schema

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/cli.md"


def ended(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["likeset", *arguments])
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    return int(exit_.value.code or 0)


def test_exit_codes_are_those_of_the_table(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schema, rows = tmp_path / "schema.yaml", tmp_path / "rows.csv"
    schema.write_text(
        "likeset: schema\nversion: 1\ncolumns:\n  age: {kind: numeric, bounds: [0, 9]}\n", encoding="utf-8"
    )
    rows.write_text("age\n5\n", encoding="utf-8")
    check = ("schema", "check", "--schema", str(schema), str(rows))
    found = [ended(monkeypatch, *check)]
    rows.write_text("age\n50\n", encoding="utf-8")
    found.append(ended(monkeypatch, *check))
    rows.unlink()
    found.append(ended(monkeypatch, *check))
    assert capsys.readouterr().err.startswith("error: ")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Schema, "load", interrupted)
    found.append(ended(monkeypatch, *check))
    assert found == [int(code) for code in re.findall(r"^\| (\d+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)]
    assert "interrupted" in capsys.readouterr().err


def test_with_json_a_mistake_is_one_document_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("schema", "show", str(tmp_path / "none.yaml"))
    assert ended(monkeypatch, *arguments) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert ended(monkeypatch, *arguments, "--json") == 2
    shown = capsys.readouterr()
    assert shown.err == told.err
    assert json.loads(shown.out)["error"]["message"] == told.err.removeprefix("error: ").strip()


@pytest.mark.parametrize(("module", "becomes"), [("typer", "raise"), ("likeset.tables.scan", "raise ImportError")])
def test_an_interrupt_while_modules_are_imported_is_one_line(module: str, becomes: str) -> None:
    """A module whose import was interrupted may fail again with another error, where it is next used."""
    script = f"""
import os, signal, sys
class Interrupting:
    def find_spec(name, path=None, target=None):
        if name == {module!r}:
            try: os.kill(os.getpid(), signal.SIGINT)
            except KeyboardInterrupt: {becomes}
sys.meta_path.insert(0, Interrupting)
sys.argv = ["likeset", "schema", "draft", "none.csv"]
from likeset.app.start import main
main()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)  # noqa: S603
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.startswith("error: interrupted")
    assert done.stderr.count("\n") == 1


def test_the_list_of_commands_says_what_each_says_itself() -> None:
    """It is shown without importing them, those between organisations apart."""
    listed = CliRunner().invoke(cli.app, ["--help"], env={"COLUMNS": "100"}).stdout
    assert listed.index(" match ") < listed.index(" Between organisations ") < listed.index(" invite ")
    assert CliRunner().invoke(cli.app, ["--version"]).stdout.strip() == f"likeset {likeset.__version__}"
    for name, command in cli.whole_program().commands.items():
        words = " ".join((command.help or "").partition("\n\n")[0].split())
        assert words == cli.COMMANDS[name][1]
