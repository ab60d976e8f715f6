"""The page of the walks, and the table on the terminal."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bounds import AIMS, BOUNDS
from floors import Floor
from sizes import LONG_FUNCTION, LONG_MODULE, Size, total
from walks import Walk

__all__ = ["Line", "lines", "page"]

_HEAD = """\
# The walk of a run through the package

`make walk` wrote this page and its picture; do not edit them. It lets small runs take place, counts what they do, and
draws the way that they take through the [house](../CONTRIBUTING.md#where-a-change-belongs) to where rows are drawn.
The figures are those of the code when it was last called. `tests/walk/test_walk.py` counts anew each time, and fails
if a figure is above its bound in `tests/walk/bounds.py`.

![Stairs through the floors of the package, from the command, and from a message, to the drawing of rows](walk.svg)

Each orange step is a module that calls the next one; a floor lies above those that it may import from. On the right
every module of a floor is a dot: orange if it is a step, blue if it is called elsewhere on the walk, empty if not at
all.
"""
_HOW = """\
## What is counted, and how

Two kinds of walk. **`likeset match`** runs once under each protocol, with an owner who has a CSV file and one who has
a Parquet file. **An answer** is what an owner's node does from the bytes of a message to the bytes of its reply: the
first message of a sealed run (`offer`), and the two of an interactive run's first round (`bid`, `delivery`). The node
is open then, the run is approved, and the curator knows that the owner is ready. Everything is done once before it is
counted, so that imports are no steps.

- *plans*: outlines of the run, which say what it will do and cost.
- *terms*: constructions of `Terms`, also as changed copies.
- *passes over* a file: readings of all its rows, or of one column of them. Every byte has a counter, and the least
  counts. A digest of the file is a pass; a look at the header, at the footer or at rows chosen by number is none. While
  it is counted, the file lies in memory and zeros lie on the disk, so that no other way to read it works.
- *openings of* a file: calls that open it, for however few bytes.
- *encodings* and *decodings*: calls of `protocol.messages.encode` and `decode`.
- *records of rows*: copies of the reply's rows among the values of SQL statements, or in plain files.
- *write transactions*: those of SQLite that take the write lock from their start, or change something.
- *plain files written*: calls that open a file which is no database, to write it.
- *modules* and *functions*: those below `src/likeset` of which something was called, in whatever thread.
- *lines*: all lines of all files, with comments, docstrings and empty ones.
"""


@dataclass(frozen=True)
class Line:
    """A figure beside what is wanted.

    Attributes:
        what: in words.
        figure: the largest of all walks that the count is of.
        bound: what the test asserts; None of an aim.
        wanted: where it is to come to.
    """

    what: str
    figure: int
    bound: int | None
    wanted: int


def lines(walks: Sequence[Walk], parts: Mapping[str, Size]) -> list[Line]:
    """All bounds, then all aims."""
    source = total(dict(parts))
    of_source = {
        "lines": source.lines,
        f"modules over {LONG_MODULE} lines": len(source.long_modules),
        f"functions over {LONG_FUNCTION} lines": len(source.long_functions),
    }
    asserted = [
        Line(f"{bound.walk}: {bound.count}", largest(walks, bound.walk, bound.count), bound.at_most, bound.wanted)
        for bound in BOUNDS
    ]
    return asserted + [
        Line(
            f"{aim.walk}: {aim.count}",
            of_source[aim.count] if aim.walk == "source" else largest(walks, aim.walk, aim.count),
            None,
            aim.aim,
        )
        for aim in AIMS
    ]


def largest(walks: Sequence[Walk], walk: str, count: str) -> int:
    """A count on whichever of the walks it is largest."""
    return max(each.counts[count] for each in walks if each.name.partition(",")[0] == walk)


def page(walks: Sequence[Walk], floors: Sequence[Floor], parts: Mapping[str, Size]) -> str:
    """The page, in Markdown."""
    figures = lines(walks, parts)
    return "\n".join(
        [
            _HEAD,
            "## What must hold\n",
            _table(
                ("what", "now", "bound", "wanted"),
                ((line.what, line.figure, line.bound, line.wanted) for line in figures if line.bound is not None),
            ),
            "## What is aimed at\n",
            "Told, and not asserted.\n",
            _table(
                ("what", "now", "aim"),
                ((line.what, line.figure, line.wanted) for line in figures if line.bound is None),
            ),
            _HOW,
            "## All counts\n",
            *(_counts(walks, kind) for kind in ("match", "answer")),
            "## Step by step\n",
            *(f"{walk.name}: {' → '.join(f'`{step}`' for step in walk.chain)}.\n" for walk in walks if walk.chain),
            "## Floor by floor\n",
            "How many modules of each part are passed, of how many.\n",
            _table(
                ("part", *(walk.name for walk in walks)),
                (
                    (f"`{part}`", *(_passed(part, floor, walk) for walk in walks))
                    for floor in floors
                    for part in floor.parts
                    if any(_inside(part, walk.modules) for walk in walks)
                ),
            ),
            "## The source\n",
            _table(
                ("part", "files", "lines", f"modules over {LONG_MODULE}", f"functions over {LONG_FUNCTION}"),
                (
                    (f"`{part}`", size.modules, size.lines, _names(size.long_modules), _names(size.long_functions))
                    for part, size in parts.items()
                ),
            ).rstrip("\n"),
            "",
        ]
    )


def _counts(walks: Sequence[Walk], kind: str) -> str:
    those = [walk for walk in walks if walk.name.partition(",")[0] == kind]
    return _table(
        (kind, *(walk.name.partition(", ")[2] for walk in those)),
        ((count, *(walk.counts[count] for walk in those)) for count in those[0].counts),
    )


def _table(head: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    shown = [[f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in rows]
    rule = "|".join(["", *("---" if place == 0 else "---:" for place in range(len(head))), ""])
    return "\n".join([f"| {' | '.join(head)} |", rule, *(f"| {' | '.join(row)} |" for row in shown), ""])


def _inside(part: str, modules: Iterable[str]) -> list[str]:
    return [module for module in modules if module.partition(".")[0] == part]


def _passed(part: str, floor: Floor, walk: Walk) -> str:
    return f"{len(_inside(part, walk.modules))} of {len(_inside(part, floor.modules))}"


def _names(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "0"
