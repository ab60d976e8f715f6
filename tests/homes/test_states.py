"""The two automata of a home, runs and letters: their states are named in one file, and every move is of a table."""

import ast
import re
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from home_world import Outside, approve, make_owner, opened, terms

import likeset
from likeset.errors import IllegalMessage, TryLater
from likeset.homes import mail as letters
from likeset.homes.runs import LETTER_MOVES, MOVES, OPEN, OVER, LetterState, State

SOURCES: Final = Path(likeset.__file__).parent
NAMES: Final = {state.value for state in (*State, *LetterState)}
IN_SQL: Final = re.compile(rf"\b(SELECT|UPDATE|WHERE|AND)\b.*\bstate\b.*'({'|'.join(NAMES)})'", re.DOTALL)


def literals(source: str) -> list[int]:
    """The lines on which a state is compared with a literal, set to one, or named in SQL."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            leaves = [leaf for part in (node.left, *node.comparators) for leaf in ast.walk(part)]
            holders = [leaf.value for leaf in leaves if isinstance(leaf, ast.Attribute) and leaf.attr == "state"]
            of_home = any(ast.unparse(holder).split(".")[-1] not in ("status", "pin") for holder in holders)
            if of_home and any(isinstance(leaf, ast.Constant) and leaf.value in NAMES for leaf in leaves):
                found.append(node.lineno)
        elif isinstance(node, ast.keyword) and node.arg == "state" and getattr(node.value, "value", "") in NAMES:
            found.append(node.value.lineno)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and IN_SQL.search(node.value):
            found.append(node.lineno)
    return found


@pytest.mark.parametrize(
    "source",
    [
        "run.state == 'begun'",
        "x = run.state in ('begun', other)",
        "(row.way, row.state) == ('in', 'heard')",
        "change(t, run, state='closed')",
        "query = \"UPDATE letters SET state = CASE state WHEN 'ready' THEN 'removed' END\"",
    ],
)
def test_a_literal_is_found(source: str) -> None:
    assert literals(source) == [1]


def test_no_state_is_named_by_a_literal_outside_the_tables() -> None:
    modules = [*(SOURCES / "homes").glob("*.py"), *(SOURCES / "transports").glob("*.py")]
    assert len(modules) > 20
    found = {module.name: literals(module.read_text()) for module in modules if module.name != "runs.py"}
    assert not {name: lines for name, lines in found.items() if lines}


def test_the_tables_are_whole() -> None:
    assert set(MOVES) == set(State) == {State.INVITED}.union(*MOVES.values())
    assert set(LETTER_MOVES) == set(LetterState)
    assert not OPEN & OVER


def test_a_stale_row_moves_nothing(tmp_path: Path) -> None:
    with opened(make_owner(tmp_path)) as owner:
        run = approve(owner, terms())
        before = replace(run, state=State.WAITING)  # as it was read before another process moved it
        with pytest.raises(TryLater, match="no longer waiting"), owner.home.deciding() as t:
            owner.mail.change(t, before, state=State.REFUSED)
        with pytest.raises(IllegalMessage, match="cannot become closed"), owner.home.deciding() as t:
            owner.mail.change(t, run, state=State.CLOSED)
        assert owner.run("run-1").state == State.ACCEPTED


def test_a_letter_moves_as_its_table_says(tmp_path: Path) -> None:
    with opened(make_owner(tmp_path)) as owner:
        run = approve(owner, terms())
        owner.mail.hear(Outside(owner, terms()).release())
        row = next(row for row in owner.mail.letters(run) if row.state == LetterState.HEARD)
        with pytest.raises(ValueError, match="a letter that is heard cannot become posted"), owner.home.deciding() as t:
            letters._move(t, {LetterState.HEARD: LetterState.POSTED}, "id = ?", row.id)
        assert row in owner.mail.letters(run)


def test_decisions_are_rows_and_say_how_they_were_made(tmp_path: Path) -> None:
    with opened(make_owner(tmp_path)) as owner:
        run = approve(owner, terms(), by="Ada")
        owner.withdraw("run-1", by="Bob", how="console")
        with owner.home.database.snapshot() as connection:
            query = "SELECT what, who, how FROM decisions WHERE run = ? ORDER BY number"
            made = connection.execute(query, (run.digest,)).fetchall()
        assert made == [("approved", "Ada", "command"), ("withdrawn", "Bob", "console")]
