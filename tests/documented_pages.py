"""Pages of the documentation: their blocks, commands, headings, and whether an output is what a page shows."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
TUTORIAL = ROOT / "docs/tutorial.md"
CLAIMS = ROOT / "docs/claims.md"
COMMANDS = ROOT / "docs/cli.md"
PYTHON = ROOT / "docs/python.md"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


class Block(NamedTuple):
    """A fenced block of a page."""

    kind: str
    lines: list[str]


class Command(NamedTuple):
    """A command of a page, as typed, and the output that the page shows; None if it shows none."""

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
            assert starts, "a console block begins with a command"
            assert starts[0] == 0, "a console block begins with a command"
            for start, end in pairwise([*starts, len(lines)]):
                yield Command(lines[start].removeprefix("$ "), lines[start + 1 : end] or None)


def lines_to_paste(page: Path, *, without: tuple[str, ...]) -> list[str]:
    """The lines of a page's shell blocks, in their order, without those that begin so."""
    lines = [line for block in blocks(page) if block.kind == "sh" for line in block.lines]
    return [line for line in lines if not line.startswith(without)]


def files_to_paste(page: Path) -> dict[str, str]:
    """The files of a page by name: blocks whose first line is a comment with a file's name."""
    texts = {}
    for block in blocks(page):
        name = re.fullmatch(r"# ([\w-]+\.yaml)", block.lines[0])
        if block.kind == "yaml" and name:
            texts[name[1]] = "\n".join(block.lines) + "\n"
    return texts


def words(line: str) -> list[str]:
    """The words of a line, without the frames of tables."""
    return re.sub(r"[─-╿]", " ", line).split()


def alike(shown: list[str], printed: list[str]) -> bool:
    """The same words, and numbers that are near: other machines round otherwise, and secret noise differs.

    Near are numbers with decimals within a factor of three (or both below 0.03: a bound of an interval may be 0), and
    counts and percentages within ten, or a quarter; one owner is as good as several. Those
    with three decimals are times or bounds from random observations: any will do. That figures are of the right size
    is all that holds of a page with any noise: within a quarter, as it was once, one demo in sixty failed.
    """
    if shown[-1] == "...":
        shown, printed = shown[:-1], printed[: len(shown) - 1]
    if len(shown) != len(printed):
        return False
    for one, other in zip(shown, printed, strict=True):
        numbers = [re.fullmatch(r"\(?(\d+(?:\.(\d+))?)([x%.,;)]*)", word) for word in (one, other)]
        if numbers[0] and numbers[1] and numbers[0][3] == numbers[1][3]:
            shown_number, printed_number = float(numbers[0][1]), float(numbers[1][1])
            if numbers[0][2] and numbers[0][3] != "%":
                both = (shown_number, printed_number)
                near = shown_number / 3 <= printed_number <= 3 * shown_number or max(both) < 0.03
            else:
                near = abs(shown_number - printed_number) <= max(10, 0.25 * shown_number)
            if not near and len(numbers[0][2] or "") != 3:
                return False
        elif one != other and {one, other} != {"owner", "owners"}:
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


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", prose(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
