"""The audit log, a page at a time: a log may have very many entries, and a person reads the last ones."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from likeset.homes.owner.node import OwnerNode
from likeset.ledger.chain import Entry

__all__ = ["LogLine", "LogPage", "log_page"]

_LEFT_OUT = frozenset({"at", "signed", "terms", "charge", "fingerprint", "release", "policy", "account"})


@dataclass(frozen=True, slots=True)
class LogLine:
    """An entry of the log.

    Attributes:
        number: its place in the chain.
        at: when it was written (UTC).
        kind: what happened.
        about: the run or data set; empty if it is about none.
        words: what else it says, in short; signed terms and charges are left out.
    """

    number: int
    at: str
    kind: str
    about: str
    words: Mapping[str, Any]

    @property
    def text(self) -> str:
        """The words, on one line."""
        return ", ".join(f"{name}: {_shown(value)}" for name, value in self.words.items())

    def document(self) -> dict[str, Any]:
        """For machines."""
        about, words = self.about, dict(self.words)
        return {"entry": self.number, "at": self.at, "kind": self.kind, "about": about, "words": words}


@dataclass(frozen=True, slots=True)
class LogPage:
    """A part of the log, newest first.

    Attributes:
        lines: the entries.
        newest: the number of the log's last entry.
        older: from where to go on before these; None if there is nothing.
    """

    lines: tuple[LogLine, ...]
    newest: int
    older: int | None


def log_page(node: OwnerNode, *, before: int | None = None, count: int = 50, run: str = "") -> LogPage:
    """The last entries before a number.

    Args:
        node: whose log.
        before: entries with smaller numbers; the last ones if None.
        count: how many at most.
        run: only those about this run, or data set.
    """
    newest = node.ledger.head().number
    end = newest + 1 if before is None else min(before, newest + 1)
    if run:
        entries: Sequence[Entry] = node.log.entries_about(run, before=end, most=count + 1)
    else:
        entries = node.log.entries(first=max(1, end - count - 1), last=end - 1)[::-1]
    lines = tuple(_line(entry) for entry in entries[:count])
    return LogPage(lines, newest, lines[-1].number if len(entries) > count else None)


def _about(entry: Entry) -> str:
    if entry.kind in ("reserve", "commit"):
        return str(json.loads(entry.key)[0])
    return entry.key


def _line(entry: Entry) -> LogLine:
    document = entry.document()
    words = {name: value for name, value in document.items() if name not in _LEFT_OUT}
    if entry.kind == "reserve":
        words["rows"] = document["charge"]["rows"]
    return LogLine(entry.number, str(document["at"]), entry.kind, _about(entry), words)


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
