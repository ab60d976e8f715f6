"""What a user should know about a run. Programs look at a notice's kind and owner; its text is for people alone."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from likeset.protocol.terms import Terms
from likeset.protocol.wire import Summary
from likeset.tables.profile import ColumnWarning
from likeset.text import percent_at_most


@dataclass(frozen=True, slots=True)
class Notice:
    kind: str
    text: str
    owner: str | None = None  # whom it concerns, by the name that the user gave
    details: Mapping[str, Any] = field(default_factory=dict, hash=False)  # what else its document has

    def document(self) -> dict[str, Any]:
        return {"kind": self.kind, "owner": self.owner, "text": self.text, **self.details}

    def __str__(self) -> str:
        return self.text


class LikesetWarning(UserWarning):
    """A notice as Python's own warning; ``warnings.filterwarnings("error", category=...)`` makes it stop a program.

    Attributes:
        notice: the notice itself, with its kind and the owner whom it concerns.
    """

    def __init__(self, notice: Notice) -> None:
        super().__init__(notice.text)
        self.notice = notice


def warn_of(notices: Iterable[Notice], *, stacklevel: int) -> None:
    for notice in notices:
        warnings.warn(LikesetWarning(notice), stacklevel=stacklevel + 1)


def notice_documents(notices: Iterable[Notice]) -> list[dict[str, Any]]:
    return [notice.document() for notice in notices]


def could_not_answer(owner: str, reason: str) -> Notice:
    return Notice("could-not-answer", f"{owner}: {reason}", owner)


def on_summary(terms: Terms, summary: Summary, *, owners: Sequence[str], answers: Mapping[str, str]) -> list[Notice]:
    """Which owners were not believed, or left out by a split run, which did not take part, and whether rows are few.

    ``owners`` are their names as the user knows them, in the order of the terms; ``answers`` their reasons, as far as
    these are known. In a split run nothing shows who caused it that an offer was not used.
    """
    found = []
    for number, why in zip(summary.flagged, summary.reasons, strict=True):
        kind, verb = ("not-believed", " was not believed") if terms.split is None else ("left-out", "")
        found.append(Notice(kind, f"{owners[number]}{verb}: {why}", owners[number]))
    for number in summary.absent:
        answer = f" ({answers[owners[number]]})" if answers.get(owners[number]) else ""
        found.append(Notice("did-not-take-part", f"{owners[number]} did not take part{answer}", owners[number]))
    if (came := len(summary.rows)) < terms.size:
        found.append(Notice("few-rows", f"only {came:,} rows were offered where {terms.size:,} were wanted"))
    return found


def too_long_rows(owner: str, rows: int, text_bytes: int) -> Notice:
    longest = f"{text_bytes:,} bytes (text_bytes of the schema)"
    return Notice(
        "too-long-rows", f"owner {owner}: rows with a text of more than {longest} take no part: {rows:,}", owner
    )


def uniform_offers(target_rows: int, epsilon: float, rows_per_unit: int, *, enough: int | None = None) -> Notice:
    of_ids = f" (up to {rows_per_unit:,} of each id)" if rows_per_unit > 1 else ""
    larger = "a larger target" if enough is None else f"a target of {enough:,} rows"
    return Notice(
        "uniform-offers",
        f"offers are uniform: with {target_rows:,} target rows{of_ids} and epsilon = {epsilon:g} a release would be "
        f"mostly noise, so none is made and no budget is spent; {larger} or a larger epsilon makes one possible",
    )


def uncertain_width(failure: float, target_rows: int, epsilon: float) -> Notice:
    return Notice(
        "uncertain-width",
        f"with {target_rows:,} target rows and epsilon = {epsilon:g} the privately chosen kernel of the release is far "
        f"too wide or too narrow with a probability of usually at most {percent_at_most(failure)}; such a release is "
        "of no use and still costs the budget: give release_gamma, or public_rows on the same scale",
        details={"probability": failure},
    )


SPLIT_CURATOR = Notice(
    "split-curator",
    "curator, consumer and a witness compute on shares: nobody reads a row but its buyer, if all parties follow "
    "the protocol and no two of them work together; public are the program, the width of its kernel and all sizes",
)
LABELS_NOT_MATCHED = Notice(
    "labels-not-matched",
    "labels are not matched: a split curator compares rows only, and look-alikes of other classes may be bought; "
    "labels come with the rows",
)
DISTANCE_IN_SAMPLE = Notice(
    "distance-in-sample",
    "the distance to new rows is not measured: that needs all offers, which nobody reads; only the in-sample "
    "number is known, which is too good",
)
PUBLIC_WIDTH = Notice(
    "public-width",
    "the width of the selection's kernel is public here: it follows from the release's, and not from the target's "
    "own distances; give gamma as a number for another one",
)
AUCTION_TIMES = Notice(
    "auction-times",
    "the price of the auction counts what owners hear, not when: by the clock an owner may see whether others were "
    "asked for rows",
)
SIMULATED_NOISE = Notice(
    "simulated-noise", "simulated, not private: the seed determines the noise; use it for trials only"
)
NOT_REPEATABLE = Notice(
    "not-repeatable",
    "the seed fixes public coins only: noise and draws are secret, so another run selects other rows; for trials, "
    "simulated noise can be repeated, and is not private",
)


def different_scales(columns: Mapping[str, Sequence[str]]) -> Notice:
    """``columns`` with the owners that have another scale than the target."""
    few = ", ".join(f"{column} ({', '.join(owners)})" for column, owners in [*columns.items()][:5])
    return Notice(
        "different-scales",
        f"target and owners seem to differ in unit or scale in {few}{' and others' if len(columns) > 5 else ''}: "
        "no values overlap, or sizes and spread differ by a factor of three; convert all to one unit, or scale all by "
        "the same public constants (a scaler in a pipeline scales the target only)",
        details={"columns": tuple(columns)},
    )


def labels_are_classes(values: int) -> Notice:
    return Notice(
        "labels-are-classes",
        f"the labels are {values:,} different whole numbers, and each is matched as a class of its own; if they are "
        "measurements, give them as numbers with decimals (floats), or set labels to ignore",
        details={"values": values},
    )


def weak_promise(epsilon: float) -> Notice:
    return Notice("weak-promise", f"epsilon = {epsilon:g} promises next to nothing; values from 0.1 to 10 are usual")


def bounds_from_data(columns: Sequence[str]) -> Notice:
    return Notice(
        "bounds-from-data",
        "the schema has bounds, values or rows per id that were drafted from data; replace them by public knowledge, "
        f"or they leak: {', '.join(columns)}",
        details={"columns": tuple(columns)},
    )


def columns_hardly_count(columns: Sequence[str]) -> Notice:
    return Notice(
        "columns-hardly-count",
        f"values in the target use less than 2% of the declared bounds: {', '.join(map(repr, columns))}; check "
        "the unit, declare narrower bounds, or leave such columns out",
        details={"columns": tuple(columns)},
    )


def suspected_identifier(warning: ColumnWarning) -> Notice:
    details = warning.document()
    return Notice("suspected-identifier", details.pop("warning"), details=details)


def rows_of_ids_kept(rows: int, given: int, keep: int) -> Notice:
    return Notice(
        "rows-of-ids-kept",
        f"{rows:,} of the {given:,} rows of the target take part: by keep: {keep} of the schema, at most {keep} of "
        "each id, drawn in secret",
        details={"rows": rows, "given": given, "keep": keep},
    )


def repeated_persons(column: str) -> Notice:
    return Notice(
        "repeated-persons",
        f"column {column!r} of the target says whose row it is, and its values repeat, but the schema declares no id: "
        "this protects single rows, not persons with several; declare in the schema "
        f"id: {{column: {column}, keep: 1}}",
        details={"column": column},
    )


def selection_is_told(settings: Sequence[tuple[str, object]]) -> Notice:
    selection = ", ".join(f"{name} = {value}" for name, value in settings)
    return Notice("selection-is-told", f"the curator hears, with your rows, how to select: {selection}; no owner does")


SEED_ROWS_NEEDED = Notice(
    "seed-rows-needed",
    "the curator must have the same public seed rows: `likeset curator schema --seed-rows FILE`",
)


def rounds_are_syncs(rounds: int) -> Notice:
    return Notice(
        "rounds-are-syncs",
        f"interactive has {rounds:,} rounds, one for each row; by mailbox, each round waits for a sync by curator and "
        f"owners: with hourly syncs, at least {rounds:,} hours; sealed needs only a few syncs",
    )
