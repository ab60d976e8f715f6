"""The floors of the house, as ``tests/test_architecture.py`` has them, with their modules."""

import ast
from dataclasses import dataclass
from pathlib import Path

from footsteps import module_of

from test_architecture import LAYERS

__all__ = ["Floor", "floors_of"]


@dataclass(frozen=True)
class Floor:
    """A floor of the house.

    Attributes:
        parts: packages, or modules at the top, that lie on it.
        modules: all of theirs that have a function, which can be passed.
    """

    parts: tuple[str, ...]
    modules: tuple[str, ...]


def floors_of(package: Path) -> list[Floor]:
    """From the top."""
    names = [module_of(str(path)) or "" for path in sorted(package.rglob("*.py")) if _has_functions(path)]
    return [
        Floor(tuple(sorted(parts)), tuple(name for name in names if name.partition(".")[0] in parts))
        for parts in reversed(LAYERS)
    ]


def _has_functions(path: Path) -> bool:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in ast.walk(tree))
