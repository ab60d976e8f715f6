"""What strangers write, on the screens of those who read it: it steers no terminal, and means nothing as markup."""

import contextlib
import io
import json
import sys
from pathlib import Path

import pytest
from home_world import CONSUMER, make_owner, pin, signed_text, terms
from rich.text import Text

from likeset import display as screen
from likeset.app.cli import main
from likeset.errors import LikesetError
from likeset.homes.owner import open_owner

MARKUP = "[red]evil[/red][link=http://evil]x[/link][/]"
HOSTILE = f"\x1b[2J\x9b31m{MARKUP}\u202e\u2066\u200b\r\nerror: forged :warning: \x07"
FREE = ("purpose", "expires", "schema_digest", "seed_digest", "schedule")
NAMES = ("run", "consumer")


def check(shown: str) -> str:
    """No character but line ends does anything, and where the markup is shown, it is shown as it was written."""
    odd = {letter for letter in shown if not letter.isprintable() and letter != "\n"}
    assert not odd, ascii(shown)
    assert not any(line.startswith("error: forged") for line in shown.splitlines())
    if "evil" in shown:
        assert "[red]evil[/red][link=http://evil]" in shown.replace("\n", ""), shown
    return shown


def said(*words: object, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "argv", ["likeset", *map(str, words)])
    monkeypatch.setenv("COLUMNS", "3000")
    with contextlib.suppress(SystemExit):
        main()
    found = capsys.readouterr()
    assert "Usage:" not in found.err
    return check(found.out + found.err)


def hostile(field: str) -> str:
    document = json.loads(terms(expires="2099-01-01").to_json())
    value = document[field]
    extended = {**value, "x": HOSTILE} if isinstance(value, dict) else HOSTILE
    document[field] = [*value, HOSTILE] if isinstance(value, list) else extended
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


@pytest.mark.parametrize("field", [*FREE, *NAMES, "columns", "owners", "accept_unproven", "extensions"])
def test_an_owner_reads_terms(
    tmp_path: Path, field: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    node = make_owner(tmp_path)
    with open_owner(node) as owner, contextlib.suppress(LikesetError):
        pin(owner.home, CONSUMER, "consumer")
        owner.mail.consider(owner.mail.invited(signed_text(hostile(field))))
    for words in (
        ["inbox", "--all"],
        ["review", "run-1"],
        ["review", HOSTILE.replace("\0", "")],
        ["dry-run", "run-1"],
        ["approve", "run-1"],
        ["deny", "run-1", "--reason", HOSTILE],
        ["outbox", "--rows"],
        ["budget"],
        ["audit", "verify"],
    ):
        shown = said("owner", *words, "--home", node, capsys=capsys, monkeypatch=monkeypatch)
        if words[0] == "review" and words[1] == "run-1" and field in ("purpose", "extensions"):
            assert r"\x1b[2J" in shown
            assert r"\u202e" in shown
    said("check", "--home", node, capsys=capsys, monkeypatch=monkeypatch)
    said("ledger", "show", node / "home.sqlite", capsys=capsys, monkeypatch=monkeypatch)


def test_cells_and_titles_of_tables_are_no_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(screen, "stdout", type(screen.stdout)(file=shown, width=3000))
    screen.show_table(HOSTILE, [MARKUP, "b"], [[HOSTILE, Text("x")]], caption=HOSTILE)
    assert check(shown.getvalue()).count("[red]evil[/red]") == 4
    shown.seek(0)
    screen.show_table("long", ["a"], [["x" * 100_000]])
    assert shown.getvalue().count("x") < 1000


def test_what_a_command_forgets_is_done_by_the_screen() -> None:
    """Text that was printed as it came: the terminal is not steered all the same, and colours of likeset stay."""
    shown = io.StringIO()
    console = type(screen.stdout)(file=shown, width=300, force_terminal=True, color_system="standard")
    console.print(f"[bold]own[/] {HOSTILE.replace('[/]', '')}")
    text = shown.getvalue()
    assert "\x1b[1mown\x1b[0m" in text
    assert not {"\x9b", "\u202e", "\u2066", "\u200b", "\x07"} & set(text)
    assert "\x1b[2J" not in text
