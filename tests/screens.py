"""Screens and pages as snapshots: the same whatever the folder, the day, the keys and the coins of a test are."""

import functools
import html
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from syrupy.assertion import SnapshotAssertion

LENGTH = 40
"""Of the path of a test's folder, so that tables are as wide and lines break where they do everywhere."""

_CHANGING = {
    r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?(\+00:00)?)?": "YYYY-MM-DD hh:mm",
    r"\b\d{8}T\d{6}Z": "MOMENT",
    r"\b202\d-\d\d-\d\d\b": "YYYY-MM-DD",
    r"\b[A-Z2-7]{5}([- ][A-Z2-7]{5}){7}\b": "-".join(["FFFFF"] * 8),
    r"\b([1-8]) [A-Z2-7]{5}\b": r"\1 FFFFF",
    r"\b[\d.]+ GB free": "much room",
    r"\b(?=[0-9a-f]*[0-9])[0-9a-f]{12,64}\b": "DIGEST",
}
_BLOCKS = (
    r"</?(?:p|h\d|tr|li|ul|ol|dl|dt|dd|div|section|table|form|nav|label|button|fieldset|legend|caption|summary|option|"
    r"textarea|figure)\b[^>]*>"
)


@dataclass(frozen=True)
class Screens:
    """Compares what people read with the snapshots of a test."""

    snapshot: SnapshotAssertion
    folder: Path

    def check(self, name: str, text: str, *, beside: str = "") -> None:
        """Compare a text with the snapshot of that name; beside another text, those of its lines that are new."""
        changing = {re.escape(str(self.folder)): "FOLDER", **_known_cards(), **_CHANGING}
        known = beside.splitlines()
        lines = [_without(changing, line).rstrip() for line in text.splitlines() if line not in known]
        assert "\n".join(lines).strip("\n") == self.snapshot(name=name)

    def table(self, name: str, told: Mapping[str, str]) -> None:
        """Compare what is said about several things."""
        self.check(name, "\n".join(f"{what}\n    {said}" for what, said in told.items()))

    def show(self, name: str, *words: object, code: int = 0, home: Path | None = None) -> None:
        """Run a command and compare what it prints."""
        import typed  # of tests/app

        self.check(name, typed.run(*words, code=code, home=home).output)

    def page(self, name: str, answer: Any, *, status: int = 200, beside: str = "") -> str:
        """Compare the visible text of a console's page, without its head and menu; the text."""
        assert answer.status == status
        text = visible(re.sub(r".*<main\b[^>]*>", "", answer.text, flags=re.DOTALL))
        self.check(name, text, beside=beside)
        return text

    def mistakes(self, name: str, *commands: str, home: Path | None = None) -> None:
        """Compare what several commands say when they fail."""
        import typed  # of tests/app

        errors = {words: typed.run(*shlex.split(words), code=1, home=home).exception for words in commands}
        told = {words: "; ".join([str(e), *getattr(e, "__notes__", ())]) for words, e in errors.items()}
        self.table(name, told)


@functools.cache
def _known_cards() -> dict[str, str]:
    """Fingerprints of the cards of ``home_world``, by the names on them."""
    from home_world import cards_of

    cards = cards_of("a", "b", "clinic", "curator", "new-clinic", "st-mary", "witness")
    return {re.escape(card).replace(r"\-", "[- ]"): f"<card of {name}>" for name, card in cards.items()}


def _without(changing: Mapping[str, str], line: str) -> str:
    """A line with tokens in place of what differs each time; tokens in a table are as long as what they replace."""
    for pattern, token in changing.items():
        for found in list(re.finditer(pattern, line)):
            told = found.expand(token)
            told = told[: len(found[0])].ljust(len(found[0]), "·") if "│" in line else told
            line = line.replace(found[0], told)
    return line


def visible(markup: str) -> str:
    """The text of HTML: a line for each block, cells divided by bars."""
    text = re.sub(r"\s+", " ", re.sub(r"<style\b.*?</style>", "", markup, flags=re.DOTALL))
    text = re.sub(r"<(?:small|span|br)\b[^>]*>", " ", text)
    text = re.sub(r"<[^>]*>", "", re.sub(r"</t[dh]>", " | ", re.sub(_BLOCKS, "\n", text)))
    lines = (html.unescape(re.sub(" +", " ", line)).strip(" |") for line in text.splitlines())
    return "\n".join(line for line in lines if line)
