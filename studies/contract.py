"""What a study is: cells that can be repeated, the lines that they leave, and the tables and figures made of lines."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

from likeset import arguments
from likeset.errors import InvalidArgument

SIMULATED = "simulated noise: not private"
"""Stands on every figure, table and line: noise of a recorded seed hides nothing."""

SIMULATED_SENTENCE = f"{SIMULATED[0].upper()}{SIMULATED[1:]}."

_MOST_SEEDS = 10_000
_LARGEST_SIZE = 1 << 24


@dataclass(frozen=True, slots=True)
class Options:
    """What a user may set; None leaves it to the study.

    Attributes:
        data: a file, a folder, or the name of a source such as ``openml``.
        seeds: how many seeds, counted from 0.
        sizes: rows wanted of a summary.
        epsilons: budgets toward owners, for the protocols that take one.
        methods: names of the registry of methods.
    """

    data: str | None = None
    seeds: int | None = None
    sizes: tuple[int, ...] | None = None
    epsilons: tuple[float, ...] | None = None
    methods: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.seeds is not None:
            arguments.count("--seeds", self.seeds, most=_MOST_SEEDS)
        for name, values in (("--sizes", self.sizes), ("--epsilon", self.epsilons), ("--methods", self.methods)):
            if values is not None and not values:
                raise InvalidArgument(name, "nothing", "must name at least one")
            if values is not None and len(set(values)) < len(values):
                raise InvalidArgument(name, ", ".join(map(str, values)), "names something twice")
        for size in self.sizes or ():
            arguments.count("--sizes", size, least=2, most=_LARGEST_SIZE)
        for epsilon in self.epsilons or ():
            arguments.positive("--epsilon", epsilon)

    def without_data(self, reason: str) -> None:
        """Refuse ``--data`` of a study whose rows come with it."""
        if self.data is not None:
            raise InvalidArgument("--data", self.data, f"is not used: {reason}")

    def chosen(self, names: Sequence[str]) -> Sequence[str]:
        """What ``--methods`` names among these; all of them by default."""
        if unknown := [name for name in self.methods or () if name not in names]:
            raise InvalidArgument("--methods", ", ".join(unknown), "must be among: " + "; ".join(names))
        return self.methods or names


@dataclass(frozen=True, slots=True)
class Cell:
    """One thing to compute, with everything that is needed to repeat it.

    Attributes:
        study: name of the study.
        settings: plain JSON values: seed, size, method, epsilon, name and digest of the data, revision of the study.
        source: where the data lie on this machine; not part of what the cell is, and not recorded.
    """

    study: str
    settings: Mapping[str, Any]
    source: str | None = None

    @property
    def key(self) -> str:
        """Equal for cells that compute the same."""
        text = json.dumps([self.study, dict(self.settings)], sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:20]

    def __getitem__(self, name: str) -> Any:
        return self.settings[name]


@dataclass(frozen=True, slots=True)
class RecordLine:
    """What a cell left: its results, or why there are none.

    Attributes:
        key: of the cell.
        study: name of the study.
        settings: of the cell.
        results: plain JSON values; empty if the cell failed.
        failure: why; empty if it did not.
        seconds: on the clock.
        version: of likeset.
        noise: what kind of noise the protocols drew.
        date: when the cell ended, in UTC.
    """

    key: str
    study: str
    settings: Mapping[str, Any]
    results: Mapping[str, Any]
    failure: str
    seconds: float
    version: str
    date: str
    noise: str = SIMULATED

    @property
    def done(self) -> bool:
        """Whether there are results."""
        return not self.failure

    def __getitem__(self, name: str) -> Any:
        """A setting or, where there is no such setting, a result."""
        return self.settings[name] if name in self.settings else self.results[name]

    def to_json(self) -> str:
        """As one line of text."""
        return json.dumps(asdict(self), allow_nan=False, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The line that ``to_json`` wrote; anything else is a ``ValueError``."""
        document = json.loads(text)
        if not isinstance(document, dict):
            raise ValueError("not an object")
        try:
            return cls(**document)
        except TypeError as error:
            raise ValueError("not the fields of a line") from error


@dataclass(frozen=True, slots=True)
class Table:
    """A table of text; the first column is words, the others are figures.

    Attributes:
        title: its heading.
        columns: names of the columns.
        rows: their cells.
        caption: what to know in order to read it.
        brief: the columns that a terminal shows; None for as many as fit.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    brief: Sequence[int] | None = None

    def markdown(self) -> str:
        """With its title as a heading."""
        head = ["| " + " | ".join(self.columns) + " |", "|---" + "|---:" * (len(self.columns) - 1) + "|"]
        body = ["| " + " | ".join(row) + " |" for row in self.rows]
        parts = [f"## {self.title}", "", *head, *body]
        return "\n".join([*parts, "", self.caption] if self.caption else parts) + "\n"


@dataclass(frozen=True, slots=True)
class Presentation:
    """What a study shows in the end.

    Attributes:
        title: of the page.
        words: what was done and how to read it, in sentences; one paragraph each.
        tables: the last word in figures.
        figures: files that were written, each with a caption.
    """

    title: str
    words: Sequence[str]
    tables: Sequence[Table]
    figures: Mapping[Path, str] = field(default_factory=dict)


class Study(Protocol):
    """A study. An instance is sent to other processes: it is picklable and has no state."""

    @property
    def name(self) -> str:
        """What the user types."""

    @property
    def description(self) -> str:
        """One line."""

    def cells(self, options: Options) -> Sequence[Cell]:
        """What to compute, in the order in which it is computed; no two cells are equal."""

    def run(self, cell: Cell) -> dict[str, Any]:
        """Compute one cell, from nothing but the cell; the results are plain JSON values."""

    def present(self, lines: Sequence[RecordLine], out: Path) -> Presentation:
        """Tables of the finished cells, and figures as files in ``out``."""
