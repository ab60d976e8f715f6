"""``docs/cli.md`` is what the commands say about themselves; exit codes and shell completion are as it tells."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

import likeset
from likeset.app import cli
from likeset.app.cli.reference import EXIT_CODES, reference_page
from likeset.tables.schema import Schema

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/cli.md"
SCRIPT = Path(sys.executable).parent / "likeset"


def leaves(command: Any, path: tuple[str, ...] = ()) -> list[tuple[str, Any]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        return [(" ".join(path), command)]
    return [leaf for name, one in inner.items() if not one.hidden for leaf in leaves(one, (*path, name))]


def test_the_page_is_current() -> None:
    printed = CliRunner().invoke(cli.app, ["reference"])
    assert printed.exit_code == 0
    assert PAGE.read_text(encoding="utf-8") == printed.stdout, "make it anew: .venv/bin/likeset reference > docs/cli.md"


def test_every_command_and_option_is_in_it() -> None:
    page = reference_page(cli.app)
    sections = dict(re.findall(r"^## ([a-z -]+)\n(.*?)(?=^## |\Z)", page, flags=re.MULTILINE | re.DOTALL))
    commands = leaves(get_command(cli.app))
    assert len(commands) > 10
    for name, command in commands:
        for parameter in command.params:
            shown = parameter.opts if parameter.param_type_name == "option" else []
            assert all(f"`{option}" in sections[name] for option in shown), (name, shown)
        assert f"```sh\nlikeset {name}" in sections[name]
    assert "reference" not in sections, "it is hidden"


def test_defaults_are_found_wherever_they_are_told() -> None:
    small = typer.Typer()

    @small.command()
    def one(
        path: Annotated[str, typer.Argument(help="A | file.")],
        place: Annotated[str, typer.Argument(help="Where.")] = "here",
        *,
        size: Annotated[int, typer.Option(help="How [bold]many[/].")] = 7,
        late: Annotated[str | None, typer.Option(help="Later.  [default: median]")] = None,
        said: Annotated[str | None, typer.Option(help="Said. Default: all.")] = None,
        shown: Annotated[int | None, typer.Option(help="Shown.", show_default="by study")] = None,
        needed: Annotated[str, typer.Option(help="Needed.")],
        many: Annotated[list[str] | None, typer.Option(help="Many\\[extra].")] = None,
        secret: Annotated[bool, typer.Option("--secret", help="Hidden.", hidden=True)] = False,
    ) -> None:
        """Do [bold]one[/] thing.

        Example: [bold]likeset one --size
        8[/]
        """

    @small.command(hidden=True)
    def other() -> None:
        """Nothing.

        Example: [bold]likeset other[/]
        """

    lines = reference_page(small).splitlines()
    for line in (
        "Do `one` thing.",
        "likeset one PATH [PLACE] [OPTIONS]",
        "| `PATH` | A \\| file. |",
        "| `--size SIZE` | How `many`. | 7 |",
        "| `--late LATE` | Later. | median |",
        "| `--said SAID` | Said. | all |",
        "| `--shown SHOWN` | Shown. | by study |",
        "| `--needed NEEDED` | Needed. | required |",
        "| `--many MANY` | Many[extra]. Repeatable. |  |",
        "likeset one --size 8",
    ):
        assert line in lines, line
    assert not any("--secret" in line or "## other" in line for line in lines)


def ended(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The exit code of the whole program."""
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
    assert found == [code for code, _ in EXIT_CODES]
    assert "interrupted" in capsys.readouterr().err


def test_arguments_that_do_not_exist_are_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ended(monkeypatch, "match", "--no-such-option") == 2


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here to complete for")
@pytest.mark.parametrize(
    ("typed", "offered"), [("sch", {"schema"}), ("schema dr", {"draft"}), ("match --ep", {"--epsilon"})]
)
def test_bash_completes_commands_and_options(typed: str, offered: set[str]) -> None:
    """As bash does it: the script is loaded, then the function that it defines is asked."""
    session = f"""
        PATH="{SCRIPT.parent}:$PATH"
        eval "$(likeset --show-completion)"
        COMP_WORDS=(likeset {typed}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
        _likeset_completion likeset
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(  # noqa: S603 - a script of our own
        ["bash", "--norc", "-c", session],  # noqa: S607 - whichever bash is there
        capture_output=True,
        encoding="utf-8",
        check=True,
        timeout=600,
    )
    assert set(done.stdout.split()) == offered, done.stderr


def test_the_program_tells_its_version_and_a_job_file_is_optional_once() -> None:
    told = CliRunner().invoke(cli.app, ["--version"])
    assert (told.exit_code, told.stdout.strip()) == (0, f"likeset {likeset.__version__}")
    assert "[[" not in CliRunner().invoke(cli.app, ["plan", "--help"]).stdout
