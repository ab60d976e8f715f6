"""``docs/inventory.md`` names all that users have, and nothing that they do not have."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from documented_pages import ROOT
from inventory import existing

PAGE = (ROOT / "docs/inventory.md").read_text(encoding="utf-8")
EXISTING = existing()
_FEATURES = "What stands behind them"
_STATE = re.compile(r"kept|gone: .{10,}|renamed: `[^`]+`")


@dataclass(frozen=True)
class Line:
    """A line of a table: names, and what became of them."""

    names: tuple[str, ...]
    state: str

    @property
    def kept(self) -> tuple[str, ...]:
        """The names under which it exists now."""
        if self.state == "kept":
            return self.names
        return tuple(re.findall(r"`([^`]+)`", self.state)) if self.state.startswith("renamed") else ()

    @property
    def gone(self) -> tuple[str, ...]:
        """The names under which it exists no longer."""
        return () if self.state == "kept" else self.names


def tables(page: str) -> dict[str, list[tuple[str, ...]]]:
    """The cells of the lines of each section's table."""
    found: dict[str, list[tuple[str, ...]]] = {}
    for heading, text in re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", page, flags=re.MULTILINE | re.DOTALL):
        rows = [line for line in text.splitlines() if line.startswith("|")][2:]
        found[heading] = [tuple(cell.strip() for cell in row.strip("|").split("|")) for row in rows]
    return found


def lines(section: str, page: str = PAGE) -> Iterator[Line]:
    """A section's lines; of commands, options are named with the command before them."""
    for first, *more, state in tables(page)[section]:
        names = tuple(re.findall(r"`([^`]+)`", first))
        if section == "Commands":
            (command,) = names
            options = tuple(f"{command} {word}" for word in re.findall(r"`([^`]+)`", more[0]))
            names = options if "gone" in state and options else (command, *options)
        yield Line(names, state)


def wrong(section: str, page: str = PAGE) -> list[str]:
    """What the page says that is not so, and what it does not say."""
    found = list(lines(section, page))
    kept = [name for line in found for name in line.kept]
    gone = [name for line in found for name in line.gone]
    there = EXISTING[section]
    return [
        *(f"{name} exists, and is in no line" for name in sorted(there - set(kept))),
        *(f"{name} does not exist: mark it `gone: because ...`" for name in sorted(set(kept) - there)),
        *(f"{name} is called gone, and exists" for name in sorted(there & set(gone) - set(kept))),
        *(f"{line.names[0]}: {line.state!r} is no state" for line in found if not _STATE.fullmatch(line.state)),
    ]


@pytest.mark.parametrize("section", EXISTING)
def test_the_page_names_what_there_is(section: str) -> None:
    assert wrong(section) == []


def test_each_feature_has_a_test() -> None:
    for feature, shown_by, state in tables(PAGE)[_FEATURES]:
        assert _STATE.fullmatch(state), feature
        files = re.findall(r"`([^`]+)`", shown_by)
        assert files, feature
        missing = [name for name in files if not (ROOT / name).is_file()]
        assert state != "kept" or not missing, f"{feature}: {missing}"


def test_there_is_no_other_section() -> None:
    assert set(tables(PAGE)) == {*EXISTING, _FEATURES}


def test_what_is_missing_and_what_is_too_much_is_found() -> None:
    """The table of the terms without one line, with one line more, and with one that is called gone."""
    section = "Fields of the terms"
    assert wrong(section, PAGE.replace("| `seed_digest` | kept |\n", "")) == ["seed_digest exists, and is in no line"]
    head = f"## {section}\n\n| field | state |\n|---|---|\n"
    assert head in PAGE
    assert wrong(section, PAGE.replace(head, head + "| `x` | kept |\n")) == [
        "x does not exist: mark it `gone: because ...`"
    ]
    gone = PAGE.replace("| `auction_offset` | kept |", "| `auction_offset` | gone: nobody used it |")
    assert wrong(section, gone) == [
        "auction_offset exists, and is in no line",
        "auction_offset is called gone, and exists",
    ]
