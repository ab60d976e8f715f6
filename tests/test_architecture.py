"""A house with one staircase: imports go down only, and never sideways.

Every module under ``src/likeset`` must have a layer. Imports inside functions and under ``TYPE_CHECKING`` count: they
bind one part to another just the same.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import likeset

PACKAGE = Path(likeset.__file__).parent

LAYERS: list[set[str]] = [
    {"shown_text"},
    {"errors"},
    {"private_files"},
    {"arguments", "documents"},
    {"geometry"},
    {"privacy"},
    {"mechanisms"},
    {"ledger", "tables", "audit"},
    {"protocol"},
    {"engines"},
    {"market"},
    {"summarizer", "node", "jobs"},
    {"studies"},
    {"app"},
]
"""From the ground up. The parts of one layer do not know each other. ``shown_text`` lies below the exceptions, which
show nothing but what it lets through. ``arguments``, the checks of arguments, lies
between the exceptions that it raises and the mathematics that calls it; ``documents`` reads what people write,
``private_files`` keeps what nobody else may read."""

LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}


def module_name(path: Path, package: Path) -> str:
    """``likeset.geometry.greedy`` of ``<package>/geometry/greedy.py``."""
    parts = list(path.relative_to(package.parent).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_names(tree: ast.AST, module: str, *, is_package: bool) -> Iterator[tuple[int, str]]:
    """Every name that a module imports, with its line, wherever in the module; relative imports made absolute.

    ``from likeset import errors`` names ``likeset.errors``. Calls of ``import_module`` and ``__import__`` with a
    literal name count as well.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = module.split(".")
                above = above[: len(above) - node.level + is_package]
                base = ".".join([*above, base] if base else above)
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in ("import_module", "__import__"):
                yield node.lineno, str(node.args[0].value)


def part_of(name: str) -> str | None:
    """``geometry`` of ``likeset.geometry.greedy.match``; ``""`` of ``likeset`` itself; None of other libraries."""
    words = name.split(".")
    if words[0] != "likeset":
        return None
    return words[1] if len(words) > 1 else ""


def violations(package: Path) -> list[str]:
    """Everything in the package that breaks the rules, in words."""
    found = []
    for path in sorted(package.rglob("*.py")):
        module = module_name(path, package)
        part = part_of(module)
        if part == "":
            continue  # the public face may import anything
        if part not in LEVEL:
            found.append(f"{module}: has no layer; give it one in LAYERS")
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
        for line, name in imported_names(tree, module, is_package=path.name == "__init__.py"):
            other = part_of(name)
            if other is None or other == part:
                continue
            where = f"{module}, line {line}: imports {name}"
            if other == "" or other in ("*", "__version__"):
                found.append(f"{where}, the public face, which imports everything")
            elif other not in LEVEL:
                found.append(f"{where}, which has no layer")
            elif LEVEL[other] == LEVEL[part]:
                found.append(f"{where}, its neighbour in the same layer")
            elif LEVEL[other] > LEVEL[part]:
                found.append(f"{where}, which lies above it")
    return found


def test_imports_go_down_only_and_every_module_has_a_layer() -> None:
    assert violations(PACKAGE) == []


def test_the_walk_sees_every_module() -> None:
    """Otherwise an empty list of violations would mean nothing."""
    modules = {module_name(path, PACKAGE) for path in PACKAGE.rglob("*.py")}
    assert {"likeset", "likeset.errors", "likeset.arguments", "likeset.geometry.greedy"} <= modules
    tree = ast.parse((PACKAGE / "geometry" / "greedy.py").read_text(encoding="utf-8"))
    names = {name for _, name in imported_names(tree, "likeset.geometry.greedy", is_package=False)}
    assert {"likeset.arguments", "likeset.geometry.kernels.PoolKernel", "numpy"} <= names


def test_every_layer_is_named_once() -> None:
    assert sum(len(parts) for parts in LAYERS) == len(LEVEL)


@pytest.mark.parametrize(
    ("file", "source", "complaint"),
    [
        ("geometry/bad.py", "import likeset.privacy.noise", "lies above it"),
        ("geometry/bad.py", "from likeset.privacy import noise", "lies above it"),
        ("geometry/bad.py", "from likeset import privacy", "lies above it"),
        ("geometry/bad.py", "from ..privacy import noise", "lies above it"),
        ("geometry/bad.py", "from .. import privacy", "lies above it"),
        ("geometry/bad.py", "def f():\n    from likeset.app import cli", "lies above it"),
        (
            "geometry/bad.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from likeset.ledger.ledger import Ledger",
            "lies above it",
        ),
        ("geometry/bad.py", "try:\n    import likeset.audit as a\nexcept ImportError:\n    pass", "lies above it"),
        ("geometry/bad.py", "import importlib\nimportlib.import_module('likeset.app')", "lies above it"),
        ("geometry/__init__.py", "from ..privacy import noise", "lies above it"),
        ("geometry/deep/bad.py", "from ...privacy import noise", "lies above it"),
        ("errors.py", "from likeset import arguments", "lies above it"),
        ("ledger/bad.py", "from likeset.audit import suite", "neighbour"),
        ("ledger/bad.py", "import likeset.tables", "neighbour"),
        ("node/bad.py", "from likeset.summarizer import Summarizer", "neighbour"),
        ("summarizer.py", "from likeset.node import policy", "neighbour"),
        ("geometry/bad.py", "import likeset", "public face"),
        ("geometry/bad.py", "from likeset import *", "public face"),
        ("geometry/bad.py", "from likeset import squared_mmd", "no layer"),
        ("geometry/bad.py", "from likeset.misc import x", "no layer"),
        ("misc.py", "", "likeset.misc: has no layer"),
        ("misc/__init__.py", "", "likeset.misc: has no layer"),
    ],
)
def test_a_bad_import_or_a_module_without_a_layer_is_caught(
    tmp_path: Path, file: str, source: str, complaint: str
) -> None:
    path = tmp_path / "likeset" / file
    path.parent.mkdir(parents=True)
    path.write_text(source, encoding="utf-8")
    (caught,) = violations(tmp_path / "likeset")
    assert complaint in caught


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("geometry/good.py", "from likeset import arguments, errors\nfrom .kernels import blocks\nimport numpy"),
        ("app/cli/good.py", "from likeset.studies import figures\nfrom likeset.geometry.greedy import match"),
        ("__init__.py", "from likeset.app import cli\nfrom likeset.geometry import greedy"),
        ("studies/good.py", "import likeset_elsewhere\nfrom likeset.engines.local import run"),
        ("geometry/__init__.py", "from . import kernels\nfrom .kernels import blocks"),
    ],
)
def test_a_good_import_is_not_complained_about(tmp_path: Path, file: str, source: str) -> None:
    path = tmp_path / "likeset" / file
    path.parent.mkdir(parents=True)
    path.write_text(source, encoding="utf-8")
    assert violations(tmp_path / "likeset") == []
