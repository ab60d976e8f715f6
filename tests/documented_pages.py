"""Pages of the documentation: their blocks, commands and headings, and whether an output is what a page shows."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
_PATTERNS = ("*.md", "docs/**/*.md", "benchmarks/*.md", "examples/*.md", "studies/results/*.md")
PAGES = sorted(path for pattern in _PATTERNS for path in ROOT.glob(pattern))


class Block(NamedTuple):
    kind: str
    lines: list[str]


class Command(NamedTuple):
    """A command as typed, and the output that the page shows; None if it shows none."""

    typed: str
    shown: list[str] | None


def blocks(page: Path) -> list[Block]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return [Block(kind, body.splitlines()) for kind, body in found]


def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def commands(page: Path) -> Iterator[Command]:
    for block in blocks(page):
        lines = re.sub(r"\s*\\\n\s*", " ", "\n".join(block.lines)).splitlines()  # a backslash continues a line
        if block.kind == "sh":
            yield from (Command(line, None) for line in lines if line.strip())
        elif block.kind == "console":
            starts = [place for place, line in enumerate(lines) if line.startswith("$ ")]
            for start, end in pairwise([*starts, len(lines)]):
                yield Command(lines[start].removeprefix("$ "), lines[start + 1 : end] or None)


def lines_to_paste(page: Path, *, without: tuple[str, ...]) -> list[str]:
    """The lines of a page's shell blocks, in their order, without those that begin so."""
    return [one.typed for one in commands(page) if not one.typed.startswith(without)]


def files_to_paste(page: Path) -> dict[str, str]:
    """The files of a page by name: blocks whose first line is a comment with a file's name."""
    named = ((re.fullmatch(r"# ([\w-]+\.(?:py|yaml))", block.lines[0]), block) for block in blocks(page))
    return {name[1]: "\n".join(block.lines) + "\n" for name, block in named if name}


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", prose(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def words(line: str) -> list[str]:
    return re.sub(r"[─-╿]", " ", line).split()


def alike(shown: list[str], printed: list[str]) -> bool:
    """The same words, and numbers that are near: other machines round otherwise, and secret noise differs.

    Decimals are near within a factor of three, or if both are below 0.03 (a bound of an interval may be 0); counts and
    percentages within ten or a quarter. Numbers with three decimals are times or random bounds: any will do. With
    narrower bands one demo in sixty failed.
    """
    if shown[-1] == "...":
        shown, printed = shown[:-1], printed[: len(shown) - 1]
    if len(shown) != len(printed):
        return False
    for one, other in zip(shown, printed, strict=True):
        first, second = (re.fullmatch(r"\(?(\d+(?:\.(\d+))?)([x%.,;)]*)", word) for word in (one, other))
        if not (first and second and first[3] == second[3]):
            if one != other and {one, other} != {"owner", "owners"}:
                return False
        elif len(first[2] or "") != 3:
            low, high = sorted((float(first[1]), float(second[1])))
            if first[2] and first[3] != "%":
                near = high <= 3 * low or high < 0.03
            else:
                near = high - low <= max(10, 0.25 * float(first[1]))
            if not near:
                return False
    return True


def assert_shown(shown: list[str], output: str) -> None:
    """Line by line; ``...`` stands for any lines, and after words for the rest of theirs."""
    printed = [split for line in output.splitlines() if (split := words(line))]
    place, anywhere = 0, False
    for line in shown:
        if line.strip() == "...":
            anywhere = True
        elif expected := words(line):
            rest = range(place, len(printed) if anywhere else min(place + 1, len(printed)))
            found = next((number for number in rest if alike(expected, printed[number])), None)
            assert found is not None, f"{line!r} is not in the output:\n{output}"
            place, anywhere = found + 1, False
    assert anywhere or place == len(printed), f"the page does not show the end of the output:\n{output}"
