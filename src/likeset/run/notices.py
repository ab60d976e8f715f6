"""What a user should know about a job, beside what every run can tell (``likeset.protocol.notices``)."""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from likeset.protocol.notices import Notice, OwnerNotice
from likeset.tables.profile import DeadColumn, Suspicion


class LikesetWarning(UserWarning):
    """A notice as Python's own warning; ``warnings.filterwarnings("error", category=...)`` makes it stop a program.

    Attributes:
        notice: the notice itself, with its kind and the owner whom it concerns.
    """

    def __init__(self, notice: Notice) -> None:
        super().__init__(notice.text)
        self.notice = notice


def warn_of(notices: Iterable[Notice], *, stacklevel: int) -> None:
    """Tell notices by Python's own warnings; ``stacklevel`` counts from the caller of this function."""
    for notice in notices:
        warnings.warn(LikesetWarning(notice), stacklevel=stacklevel + 1)


def notice_documents(notices: Iterable[Notice]) -> list[dict[str, Any]]:
    """Notices as they stand in ``result.json`` and behind ``--json``: kind, owner and words of each."""
    return [notice.document() for notice in notices]


@dataclass(frozen=True, slots=True)
class NoiseIsSimulated(Notice):
    """The noise can be computed again from a seed."""

    kind = "simulated-noise"

    @property
    def text(self) -> str:
        return "simulated, not private: whoever knows the seed knows the noise; use it for trials only"


@dataclass(frozen=True, slots=True)
class NotRepeatable(Notice):
    """A seed was given, but the noise is secret."""

    kind = "not-repeatable"

    @property
    def text(self) -> str:
        """The words."""
        return (
            "the seed fixes public coins only: noise and draws are secret, so another run selects other rows; for "
            "trials, simulated noise can be repeated, and is not private"
        )


@dataclass(frozen=True, slots=True)
class DifferentScales(Notice):
    """The target and the owners' rows cannot be on one scale.

    Attributes:
        columns: that differ.
    """

    kind = "different-scales"
    columns: tuple[str, ...]

    @property
    def text(self) -> str:
        """The words."""
        few = ", ".join(self.columns[:5]) + (" and others" if len(self.columns) > 5 else "")
        return (
            f"target and owners are not on one scale (columns {few}): scale all of them alike, by public knowledge; a "
            "scaler in a pipeline sees the target only"
        )


@dataclass(frozen=True, slots=True)
class WeakPromise(Notice):
    """The budget is so large that it bounds next to nothing.

    Attributes:
        epsilon: that was asked for.
    """

    kind = "weak-promise"
    epsilon: float

    @property
    def text(self) -> str:
        return f"epsilon = {self.epsilon:g} promises next to nothing; values from 0.1 to 10 are usual"


@dataclass(frozen=True, slots=True)
class BoundsFromData(Notice):
    """What a schema declares of a column was drafted from rows.

    Attributes:
        column: its name.
        what: of it is declared.
    """

    kind = "bounds-from-data"
    column: str
    what: str = "bounds or values"

    @property
    def text(self) -> str:
        return (
            f"column {self.column}: its {self.what} were drafted from data; replace them by public knowledge, or they "
            "leak"
        )


@dataclass(frozen=True, slots=True)
class ColumnHardlyCounts(Notice):
    """The target uses next to nothing of a column's bounds.

    Attributes:
        dead: which column.
    """

    kind = "column-hardly-counts"
    dead: DeadColumn

    @property
    def text(self) -> str:
        return f"in the target, {self.dead.warning}"

    def document(self) -> dict[str, Any]:
        return {"kind": self.kind, "owner": None, "text": self.text, "column": self.dead.column}


@dataclass(frozen=True, slots=True)
class SuspectedIdentifier(Notice):
    """A column that leaves with a record may identify people.

    Attributes:
        suspicion: which, and why.
    """

    kind = "suspected-identifier"
    suspicion: Suspicion

    @property
    def text(self) -> str:
        return self.suspicion.warning

    def document(self) -> dict[str, Any]:
        told = self.suspicion.document()
        return {"kind": self.kind, "owner": None, "text": told.pop("warning"), **told}


@dataclass(frozen=True, slots=True)
class RowsOfIdsKept(Notice):
    """The schema keeps a few rows of each id, so that not all rows of the target take part."""

    kind = "rows-of-ids-kept"
    rows: int
    given: int
    keep: int

    @property
    def text(self) -> str:
        return (
            f"{self.rows:,} of the {self.given:,} rows of the target take part: by keep: {self.keep} of the schema, at "
            f"most {self.keep} of each id, drawn in secret"
        )

    def document(self) -> dict[str, Any]:
        counts = {"rows": self.rows, "given": self.given, "keep": self.keep}
        return {"kind": self.kind, "owner": None, "text": self.text, **counts}


@dataclass(frozen=True, slots=True)
class RepeatedPersons(Notice):
    """Somebody has several rows in the target, and the schema declares no id.

    Attributes:
        column: that says whose row it is.
    """

    kind = "repeated-persons"
    column: str

    @property
    def text(self) -> str:
        return (
            f"column {self.column!r} of the target says whose row it is, and its values repeat, but the schema "
            "declares no id: this protects single rows, not persons with several; declare in the schema "
            f"id: {{column: {self.column}, keep: 1}}"
        )

    def document(self) -> dict[str, Any]:
        return {"kind": self.kind, "owner": None, "text": self.text, "column": self.column}


@dataclass(frozen=True, slots=True)
class TooLongRows(OwnerNotice):
    """Rows of an owner that are no rows of the run.

    Attributes:
        rows: how many.
        text_bytes: how long a text may be by the schema.
    """

    kind = "too-long-rows"
    rows: int
    text_bytes: int

    @property
    def text(self) -> str:
        longest = f"{self.text_bytes:,} bytes (text_bytes of the schema)"
        return f"owner {self.owner}: rows with a text of more than {longest} take no part: {self.rows:,}"


@dataclass(frozen=True, slots=True)
class SelectionIsTold(Notice):
    """The curator hears wishes about the selection that are not the usual ones.

    Attributes:
        wishes: name and value of each.
    """

    kind = "selection-is-told"
    wishes: tuple[tuple[str, object], ...]

    @property
    def text(self) -> str:
        wished = ", ".join(f"{name} = {value}" for name, value in self.wishes)
        return f"the curator hears, with your rows, how to select: {wished}; no owner does"


@dataclass(frozen=True, slots=True)
class SeedRowsNeeded(Notice):
    """The curator must have public rows with which the run begins."""

    kind = "seed-rows-needed"

    @property
    def text(self) -> str:
        return "the curator must have the same public seed rows: `likeset site curator ... --seed-rows FILE`"


@dataclass(frozen=True, slots=True)
class RoundsAreLooks(Notice):
    """A run in rounds is slow where letters are fetched now and then.

    Attributes:
        rounds: how many there are.
    """

    kind = "rounds-are-looks"
    rounds: int

    @property
    def text(self) -> str:
        return (
            f"interactive has {self.rounds:,} rounds, one for each row; by mailbox each of them waits until curator "
            f"and owners have looked: with a look every hour, {self.rounds:,} hours or more; sealed needs a few looks"
        )


@dataclass(frozen=True, slots=True)
class LargeOffer(Notice):
    """An owner's offer may be larger than what a curator's site takes.

    Attributes:
        size: bytes that it may have.
        most: bytes that a site takes unless it was settled otherwise.
    """

    kind = "large-offer"
    size: int
    most: int

    @property
    def text(self) -> str:
        return (
            f"an owner's offer may have {self.size / 2**20:,.0f} MiB, and a curator's site takes "
            f"{self.most / 2**20:,.0f} MiB unless it was settled otherwise: such an offer is paid for by its owner and "
            "never arrives; lower size or offer_factor"
        )
