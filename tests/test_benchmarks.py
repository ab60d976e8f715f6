"""Benchmarks run seldom: what they import of likeset must be there all the same."""

import ast
import importlib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"
SCRIPTS = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.py") if ".peers" not in path.parts)


def imported(source: str) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "likeset":
            yield from ((str(node.module), alias.name) for alias in node.names)


def is_there(module: str, name: str) -> bool:
    found = importlib.import_module(module)
    return hasattr(found, name) or (hasattr(found, "__path__") and find_spec(f"{module}.{name}") is not None)


@pytest.mark.parametrize("script", SCRIPTS)
def test_what_a_benchmark_imports_is_there(script: str) -> None:
    for module, name in imported((FOLDER / script).read_text(encoding="utf-8")):
        assert is_there(module, name), f"{script}: from {module} import {name}"


def test_a_name_that_is_gone_is_noticed() -> None:
    source = "import numpy\nfrom likeset.ledger.ledger import Ledger, Gone\nfrom likeset.homes import policy, gone"
    there = {name: is_there(module, name) for module, name in imported(source)}
    assert there == {"Ledger": True, "Gone": False, "policy": True, "gone": False}
    assert len(SCRIPTS) > 20
