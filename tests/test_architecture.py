"""A house with one staircase: imports go down only, and never sideways.

Every module of ``src/likeset`` and of ``studies``, beside it, must have a layer. Imports inside
functions and under ``TYPE_CHECKING`` count: they bind one part to another just the same.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import likeset
import studies

PACKAGES = [Path(likeset.__file__).parent, Path(studies.__file__).parent]

LAYERS: list[set[str]] = [
    {"text"},
    {"errors"},
    {"files"},
    {"arguments", "documents"},
    {"geometry"},
    {"privacy"},
    {"ledger", "tables", "audit", "trust"},
    {"protocol"},
    {"split"},
    {"homes"},
    {"transports"},
    {"run"},
    {"summarizer"},
    {"simulation", "display"},
    {"app"},
]
"""From the ground up. The parts of one layer do not know each other. ``text`` lies below the exceptions, which
show nothing but what it lets through. ``arguments``, the checks of arguments, lies
between the exceptions that it raises and the mathematics that calls it; ``documents`` reads what people write,
``files`` keeps what nobody else may read. ``simulation`` and ``display`` have what ``app`` and the studies
share."""

LEVEL = {f"likeset.{part}": level for level, parts in enumerate(LAYERS) for part in parts}
LEVEL["studies"] = LEVEL["likeset.app"]  # a program beside that of the package: neither knows the other


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
    """``likeset.geometry`` of ``likeset.geometry.greedy.exact_greedy``; ``studies`` of any study; None of others."""
    words = name.split(".")
    if words[0] == "studies":
        return "studies"
    return ".".join(words[:2]) if words[0] == "likeset" else None


def violations(package: Path) -> list[str]:
    """Everything in the package that breaks the rules, in words."""
    found = []
    for path in sorted(package.rglob("*.py")):
        module = module_name(path, package)
        part = part_of(module)
        if part == "likeset":
            continue  # the public face may import anything
        if part is None or part not in LEVEL:
            found.append(f"{module}: has no layer; give it one in LAYERS")
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
        for line, name in imported_names(tree, module, is_package=path.name == "__init__.py"):
            other = part_of(name)
            if other is None or other == part:
                continue
            where = f"{module}, line {line}: imports {name}"
            if other in ("likeset", "likeset.*", "likeset.__version__"):
                found.append(f"{where}, the public face, which imports everything")
            elif other not in LEVEL:
                found.append(f"{where}, which has no layer")
            elif LEVEL[other] == LEVEL[part]:
                found.append(f"{where}, its neighbour in the same layer")
            elif LEVEL[other] > LEVEL[part]:
                found.append(f"{where}, which lies above it")
    return found


@pytest.mark.parametrize("package", PACKAGES, ids=[package.name for package in PACKAGES])
def test_imports_go_down_only_and_every_module_has_a_layer(package: Path) -> None:
    assert violations(package) == []


def test_ways_of_carrying_letters_do_not_know_each_other() -> None:
    """By mailbox, or over NVFlare with a socket before each home: whoever has the one needs nothing of the other."""
    ways = {"mailbox": {"mailbox"}, "nvflare": {"nvflare", "home_socket"}, "home_socket": {"home_socket"}}
    for way, known in ways.items():
        for path in (PACKAGES[0] / "transports" / way).rglob("*.py"):
            module = module_name(path, PACKAGES[0])
            tree = ast.parse(path.read_text(encoding="utf-8"))
            names = {name for _, name in imported_names(tree, module, is_package=path.name == "__init__.py")}
            others = {name.split(".")[2] for name in names if name.startswith("likeset.transports.")} & set(ways)
            assert others <= known, module


def test_the_walk_sees_every_module() -> None:
    """Otherwise an empty list of violations would mean nothing."""
    modules = {module_name(path, package) for package in PACKAGES for path in package.rglob("*.py")}
    assert {"likeset", "likeset.errors", "likeset.arguments", "likeset.geometry.greedy"} <= modules
    assert {"studies", "studies.command", "studies.data.images"} <= modules
    tree = ast.parse((PACKAGES[0] / "geometry" / "greedy.py").read_text(encoding="utf-8"))
    names = {name for _, name in imported_names(tree, "likeset.geometry.greedy", is_package=False)}
    assert {"likeset.arguments", "likeset.geometry.kernels.PoolKernel", "numpy"} <= names


def test_every_layer_is_named_once() -> None:
    assert sum(len(parts) for parts in LAYERS) + 1 == len(LEVEL)  # and the studies


@pytest.mark.parametrize(
    ("file", "source", "complaint"),
    [
        ("likeset/geometry/bad.py", "import likeset.privacy.noise", "lies above it"),
        ("likeset/geometry/bad.py", "from likeset.privacy import noise", "lies above it"),
        ("likeset/geometry/bad.py", "from likeset import privacy", "lies above it"),
        ("likeset/geometry/bad.py", "from ..privacy import noise", "lies above it"),
        ("likeset/geometry/bad.py", "from .. import privacy", "lies above it"),
        ("likeset/geometry/bad.py", "def f():\n    from likeset.app import cli", "lies above it"),
        (
            "likeset/geometry/bad.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from likeset.ledger.ledger import Ledger",
            "lies above it",
        ),
        (
            "likeset/geometry/bad.py",
            "try:\n    import likeset.audit as a\nexcept ImportError:\n    pass",
            "lies above it",
        ),
        ("likeset/geometry/bad.py", "import importlib\nimportlib.import_module('likeset.app')", "lies above it"),
        ("likeset/geometry/__init__.py", "from ..privacy import noise", "lies above it"),
        ("likeset/geometry/deep/bad.py", "from ...privacy import noise", "lies above it"),
        ("likeset/errors.py", "from likeset import arguments", "lies above it"),
        ("likeset/ledger/bad.py", "from likeset.audit import suite", "neighbour"),
        ("likeset/ledger/bad.py", "import likeset.tables", "neighbour"),
        ("likeset/homes/bad.py", "from likeset.summarizer import Summarizer", "lies above it"),
        ("likeset/display.py", "from likeset.simulation import market", "neighbour"),
        ("likeset/geometry/bad.py", "import likeset", "public face"),
        ("likeset/geometry/bad.py", "from likeset import *", "public face"),
        ("likeset/geometry/bad.py", "from likeset import squared_mmd", "no layer"),
        ("likeset/geometry/bad.py", "from likeset.misc import x", "no layer"),
        ("likeset/app/cli/bad.py", "def f():\n    from studies.registry import STUDIES", "neighbour"),
        ("likeset/run/bad.py", "import studies", "lies above it"),
        ("likeset/app/bad.py", "from likeset.studies.registry import STUDIES", "no layer"),
        ("likeset/simulation/bad.py", "from likeset.display import stdout", "neighbour"),
        ("likeset/studies/__init__.py", "", "likeset.studies: has no layer"),
        ("studies/bad.py", "from likeset.app.cli import main", "neighbour"),
        ("studies/data/bad.py", "from likeset import app", "neighbour"),
        ("studies/bad.py", "from likeset import squared_mmd", "no layer"),
        ("likeset/misc.py", "", "likeset.misc: has no layer"),
        ("likeset/misc/__init__.py", "", "likeset.misc: has no layer"),
    ],
)
def test_a_bad_import_or_a_module_without_a_layer_is_caught(
    tmp_path: Path, file: str, source: str, complaint: str
) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(source, encoding="utf-8")
    (caught,) = violations(tmp_path / Path(file).parts[0])
    assert complaint in caught


@pytest.mark.parametrize(
    ("file", "source"),
    [
        (
            "likeset/geometry/good.py",
            "from likeset import arguments, errors\nfrom .kernels import blocks\nimport numpy",
        ),
        (
            "likeset/app/cli/good.py",
            "from likeset.display import stdout\nfrom likeset.geometry.greedy import exact_greedy",
        ),
        ("likeset/__init__.py", "from likeset.app import cli\nfrom likeset.geometry import greedy"),
        (
            "studies/good.py",
            "import likeset_elsewhere\nfrom likeset.simulation import LabelledMarket\nfrom . import contract",
        ),
        ("likeset/geometry/__init__.py", "from . import kernels\nfrom .kernels import blocks"),
    ],
)
def test_a_good_import_is_not_complained_about(tmp_path: Path, file: str, source: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(source, encoding="utf-8")
    assert violations(tmp_path / Path(file).parts[0]) == []
