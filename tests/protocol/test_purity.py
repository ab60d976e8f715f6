"""The protocol is pure: no file, clock, socket or database, and no ledger; what must be charged, it says."""

import ast
from inspect import signature
from pathlib import Path

import pytest

import likeset.protocol
from likeset.protocol.sealed import Consumer, Curator, Owner

MODULES = sorted(Path(likeset.protocol.__file__).parent.glob("*.py"))
FORBIDDEN = {
    *("likeset.ledger", "likeset.files", "likeset.documents", "likeset.homes", "likeset.transports"),
    *("sqlite3", "duckdb", "pathlib", "os", "io", "shutil", "tempfile", "time", "socket", "ssl", "subprocess"),
    *("threading", "multiprocessing", "asyncio", "concurrent", "signal", "secrets", "random", "logging", "urllib"),
}
"""Modules with which a party could reach the world, or meet it by chance."""

CALLED = {"open", "print", "input", "exec", "eval", "__import__", "now", "utcnow", "today"}


def reaches(source: str) -> list[str]:
    """What in a module reaches beyond its arguments."""
    found = []
    for node in ast.walk(ast.parse(source)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            found += [called] if called in CALLED else []
        found += [name for name in names for bad in FORBIDDEN if name == bad or name.startswith(f"{bad}.")]
    return found


@pytest.mark.parametrize("path", MODULES, ids=[path.stem for path in MODULES])
def test_a_module_of_the_protocol_reaches_nothing_but_its_arguments(path: Path) -> None:
    assert reaches(path.read_text(encoding="utf-8")) == []


def test_all_modules_are_looked_at() -> None:
    assert {"party", "sealed", "interactive", "split", "terms"} <= {path.stem for path in MODULES}


@pytest.mark.parametrize(
    "source",
    [
        "from likeset.ledger import Request",
        "from likeset.ledger.ledger import Request",
        "from likeset import ledger",
        "import sqlite3",
        "def f():\n    from pathlib import Path",
        "import concurrent.futures",
        "def f():\n    open('x')",
        "from datetime import datetime\nx = datetime.now()",
    ],
)
def test_what_reaches_further_is_seen(source: str) -> None:
    assert reaches(source)


@pytest.mark.parametrize("kind", [Owner, Curator, Consumer])
def test_no_party_takes_a_ledger(kind: type) -> None:
    assert not {"ledger", "charges"} & set(signature(kind).parameters)
