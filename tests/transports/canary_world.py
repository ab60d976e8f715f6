"""Homes of a split run whose every value is a canary, and all forms in which one may stand somewhere.

A number of 16 bits occurs anywhere by chance, and so do two. What is searched for is improbable: three numbers in a row
of a row's words, or of three slots' in a column, in each of the forms that numbers have; one number in double precision
or in its digits; 8 bytes of a secret; a text.
"""

import itertools
import json
import math
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import between_world
import home_world
import numpy as np
import pytest
from between_world import OWNERS, Market
from home_world import Clock, Network
from numpy.typing import NDArray

from chance import pinned_coins

NUMBERS = 12
"""Columns of an encoded row that are numbers with random digits; they come first."""
_PLAIN, _ENTRIES = 6, 6
_NAMES = [f"n{place}" for place in range(_PLAIN)]
_WORD = "Kind-qZ7w"
_SCHEMA = "\n".join(
    [
        "likeset: schema",
        "version: 1",
        "text_bytes: 64",
        "columns:",
        *(f"  {name}: {{kind: numeric, bounds: [0, 1000]}}" for name in _NAMES),
        f"  v: {{kind: vector, width: {_ENTRIES}, bounds: [0, 1]}}",
        f"  kind: {{kind: category, values: [plain, {_WORD}]}}",
        "  note: {kind: text, width: 4}",
        "label: {column: outcome, kind: text}",
        "id: {column: patient}",
        "",
    ]
)
GAMMA = 0.4
"""Of the split selection; the job must ask for it."""
_ROWS = 40


@dataclass(frozen=True)
class CanaryRow:
    """A row as its owner wrote it down; no two rows share a value."""

    numbers: tuple[str, ...]
    entries: tuple[str, ...]
    note: str
    label: str
    patient: str

    @property
    def line(self) -> str:
        """In a CSV file."""
        return ",".join([*self.numbers, f'"[{", ".join(self.entries)}]"', "plain", self.note, self.label, self.patient])

    def forms(self, who: str) -> Iterator[tuple[bytes, str]]:
        """Numbers, texts, label and id as they may stand in a file, in a record or in memory."""
        values = [float(text) for text in (*self.numbers, *self.entries)]
        for text, value in zip((*self.numbers, *self.entries), values, strict=True):
            yield text.encode(), f"{who}: a number in digits"
            for order in "<>":
                yield struct.pack(f"{order}d", value), f"{who}: a number in double precision"
        for three in _groups(values):
            for order in "<>":
                yield struct.pack(f"{order}3f", *three), f"{who}: numbers in single precision"
        for what, text in (("note", self.note), ("label", self.label), ("id", self.patient)):
            for coding in ("utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"):
                yield text.encode(coding), f"{who}: its {what}"
            yield text.encode().hex().encode(), f"{who}: its {what}"


def canary_rows(name: str, count: int = _ROWS) -> list[CanaryRow]:
    coins = pinned_coins(f"canaries of {name}")

    def letters() -> str:
        return "".join(coins.choice(list("bcdfghjklmnpqrstvwxyz0123456789"), 12))

    return [
        CanaryRow(
            tuple(f"{coins.uniform(1, 999):.9f}" for _ in range(_PLAIN)),
            tuple(f"{coins.uniform(0.01, 0.99):.12f}" for _ in range(_ENTRIES)),
            f"note {letters()}",
            f"label {letters()}",
            f"id-{letters()}",
        )
        for _ in range(count)
    ]


def target_rows() -> list[CanaryRow]:
    return canary_rows("target", 30)


def _table(rows: Sequence[CanaryRow]) -> str:
    return "\n".join([",".join([*_NAMES, "v", "kind", "note", "outcome", "patient"]), *(row.line for row in rows), ""])


class CanaryMarket(Market):
    """A market whose owners' rows and target are canaries; made while ``canaries`` is entered."""

    def __init__(self, place: Path) -> None:
        policy = {**between_world.POLICY, "columns": [*_NAMES, "v", "kind", "note", "outcome"]}
        clock = Clock(datetime.now(UTC))
        Network.__init__(self, place, OWNERS, witness=True, policies=dict.fromkeys(OWNERS, policy), clock=clock)


@contextmanager
def canaries() -> Iterator[None]:
    """Homes that are made meanwhile get these rows and their schema."""

    def rows_text(seed: int, **_: object) -> str:
        return _table(canary_rows(OWNERS[seed - 1]) if seed <= len(OWNERS) else target_rows())

    with pytest.MonkeyPatch.context() as patched:
        for module in (home_world, between_world):
            patched.setattr(module, "SCHEMA", _SCHEMA)
            patched.setattr(module, "rows_text", rows_text)
        yield


@dataclass(frozen=True)
class SharedSlots:
    """What an owner shared, or the consumer of its target, which has no envelopes."""

    rows: NDArray[np.float32]  # as the schema encodes them, in any order
    words: NDArray[np.int64]  # before they were shared, one line for each slot
    shares: NDArray[np.int64]  # of the compute parties, in their order
    key: bytes = b""  # K of the envelopes
    records: tuple[bytes, ...] = ()  # of the slots

    def forms(self, who: str, whose: Callable[[int], str]) -> Iterator[tuple[bytes, str]]:
        """The words, secrets and records of all slots with a row, in every form; ``whose`` names the row in a slot."""
        slots = [slot for slot in range(len(self.words)) if not self.records or self.records[slot]]
        for slot in slots:
            line = self.words[slot].tolist()
            yield from _word_forms(line[:NUMBERS], f"{whose(slot)}: its words")
            yield from _number_forms(self._row(line), f"{whose(slot)}: its encoded row")
            if self.records:
                yield from _record_forms(self.records[slot], line[-4:], whose(slot))
        for column in self.words[slots, :NUMBERS].T.tolist():
            yield from _word_forms(column, f"{who}: words of a column", engine=False)
        if self.key:
            yield self.key, f"{who}: K"

    def _row(self, line: Sequence[int]) -> list[float]:
        """The row that words were made of."""
        made = np.rint(self.rows.astype(np.float64) * 65536) == line[: self.rows.shape[1]]
        return [float(number) for number in self.rows[int(np.flatnonzero(made.all(axis=1))[0]), :NUMBERS]]


def read_shared(folder: Path, name: str) -> SharedSlots:
    """What ``held_party`` copied."""
    rows = np.load(folder / f"rows-{name}.npy")
    words, *shares = np.load(folder / f"words-{name}.npy").view(np.int64)
    kept = folder / f"records-{name}.json"
    if not kept.exists():
        return SharedSlots(rows, words, np.array(shares))
    named = json.loads(kept.read_text(encoding="ascii"))
    records = tuple(map(bytes.fromhex, named["records"]))
    return SharedSlots(rows, words, np.array(shares), bytes.fromhex(named["key"]), records)


def _groups(values: Sequence[Any], size: int = 3) -> list[tuple[Any, ...]]:
    """Values that follow one another; the last ones may be left out."""
    return [tuple(values[place : place + size]) for place in range(0, len(values) - size + 1, size)]


def _number_forms(numbers: Sequence[float], what: str) -> Iterator[tuple[bytes, str]]:
    for three in _groups(numbers):
        for order in "<>":
            yield struct.pack(f"{order}3f", *three), f"{what} in single precision"
            yield struct.pack(f"{order}3d", *three), f"{what} in double precision"


def _record_forms(record: bytes, secret: Sequence[int], who: str) -> Iterator[tuple[bytes, str]]:
    for order in "<>":
        for word in secret:
            yield struct.pack(f"{order}q", word), f"{who}: r"
    yield record[1:9], f"{who}: its handle"
    yield record[8:0:-1], f"{who}: its handle"
    yield str(int.from_bytes(record[1:9], "big")).encode(), f"{who}: its handle in digits"
    yield record[:24], f"{who}: its record"


def _word_forms(words: Sequence[int], what: str, *, engine: bool = True) -> Iterator[tuple[bytes, str]]:
    """16-bit fixed point as words of each size, as numbers, and as the engine computes with them."""
    for six in _groups([word & 0xFFFF for word in words], 6):
        for order in "<>":
            yield struct.pack(f"{order}6H", *six), f"{what} in 16 bits"
    for three in _groups(words):
        yield from _number_forms([word / 65536 for word in three], what)
        for order in "<>":
            for kind, name in (("q", "64 bits"), ("i", "32 bits")):
                yield struct.pack(f"{order}3{kind}", *three), f"{what} in {name}"
        if not engine:
            continue
        spread = [part for word in three for part in (word, 0)]
        yield struct.pack("<6q", *spread), f"{what} as a share beside zeros"
        yield struct.pack("<3q", *(word << 8 for word in three)), f"{what} in the engine's fixed point"
        scaled = [math.floor(word * 256 * math.sqrt(GAMMA)) for word in three]
        for off in itertools.product((-1, 0, 1), repeat=3):  # truncation errs by one
            wide = (number + one for number, one in zip(scaled, off, strict=True))
            yield struct.pack("<3q", *wide), f"{what} in the engine's fixed point, scaled"
