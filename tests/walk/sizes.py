"""How long the source is: lines, long modules and long functions, by package."""

import ast
from dataclasses import dataclass
from pathlib import Path

__all__ = ["LONG_FUNCTION", "LONG_MODULE", "Size", "sizes", "total"]

LONG_MODULE, LONG_FUNCTION = 400, 50
"""Lines that a module and a function may have."""


@dataclass(frozen=True)
class Size:
    """How long a part of the source is.

    Attributes:
        modules: how many files it has.
        lines: of all of them, with comments, docstrings and empty ones.
        long_modules: files of more than ``LONG_MODULE`` lines.
        long_functions: functions of more than ``LONG_FUNCTION`` lines, from ``def`` to their last, without decorators.
    """

    modules: int = 0
    lines: int = 0
    long_modules: tuple[str, ...] = ()
    long_functions: tuple[str, ...] = ()

    def __add__(self, other: "Size") -> "Size":
        return Size(
            self.modules + other.modules,
            self.lines + other.lines,
            self.long_modules + other.long_modules,
            self.long_functions + other.long_functions,
        )


def sizes(package: Path) -> dict[str, Size]:
    """The size of each part of a package: a folder with all below it, or a module at the top."""
    parts: dict[str, Size] = {}
    for path in sorted(package.rglob("*.py")):
        inner = path.relative_to(package)
        part = inner.parts[0].removesuffix(".py")
        parts[part] = parts.get(part, Size()) + _size(path, inner.with_suffix("").as_posix())
    return parts


def total(parts: dict[str, Size]) -> Size:
    """Of all parts together."""
    return sum(parts.values(), Size())


def _size(path: Path, name: str) -> Size:
    text = path.read_text(encoding="utf-8")
    lines = len(text.splitlines())
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return Size(
        modules=1,
        lines=lines,
        long_modules=(name,) if lines > LONG_MODULE else (),
        long_functions=tuple(
            f"{name}:{node.name}" for node in functions if (node.end_lineno or 0) - node.lineno + 1 > LONG_FUNCTION
        ),
    )
