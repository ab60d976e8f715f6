"""What is a row: owner, curator and consumer must agree on every one, or one row decides about others."""

import contextlib
import datetime
import decimal
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from protocol_world import CONSUMER, THRESHOLD, CountingNoise, QuickLedger, World, carry, rows, terms

from chance import EXAMPLES, examples, public_coins
from likeset.errors import BadTable, IllegalMessage, InvalidArgument
from likeset.privacy.noise import Integers
from likeset.protocol.interactive import InteractiveCurator
from likeset.protocol.party import PricedDraw
from likeset.protocol.sealed import Admission
from likeset.protocol.terms import Budget, Kernel, Terms, read_foreign
from likeset.protocol.wire import Body, Delivery, Message, Offer, Summary, SummaryRelease
from likeset.tables.records import DeclaredRecords
from likeset.tables.schema import FetchedRows, Schema
from likeset.transports.local import ChargedParty

# Everything that a schema can allow is allowed: whatever a cell is, it is a row wherever that can be declared.
EVERY_KIND = Schema.from_text("""
likeset: schema
version: 1
text_bytes: 12
columns:
  number: {kind: numeric, bounds: [-1, 5], outside: clip, missing: indicator, missing_values: [-9], weight: 0.1}
  share: {kind: numeric, bounds: [0.7, 0.9], outside: clip, missing: indicator}
  dose: {kind: numeric, bounds: [0.1, 1000], scale: log, outside: clip, missing: indicator, weight: 3}
  truth: {kind: boolean, missing: indicator}
  word: {kind: category, values: [a, b], unknown: other, missing: indicator, missing_values: [gone]}
  lost: {kind: category, values: [a, b], unknown: nothing, missing: {value: b}}
  code: {kind: category, values: [1, 2.5], unknown: other, missing: indicator, missing_values: [-9]}
  step: {kind: ordinal, values: [low, mid, high], missing: indicator}
  day: {kind: date, bounds: [2000-01-01, 2020-01-01], outside: clip, missing: indicator, missing_values: [1999-09-09]}
  swiss: {kind: date, bounds: [2000-01-01, 2020-01-01], format: "%d.%m.%Y", outside: clip, missing: indicator}
  note: {kind: text, width: 8, missing: indicator}
  vector: {kind: vector, width: 2, norm: 2, outside: clip, missing: indicator}
  box: {kind: vector, width: 2, bounds: [-1, 1], outside: clip, missing: indicator}
  image: {kind: image, shape: [1, 2], outside: clip, missing: indicator}
label: {column: y, kind: text}
""")

_MOMENT = datetime.datetime(2010, 2, 3, 23, 59, 59, 999999)
_ZONE = datetime.timezone(datetime.timedelta(hours=-11))
NUMBERS: list[tuple[Any, Any]] = [
    *((value, pa.float64()) for value in (0.1, -0.0, 1e308, -1e308, 5e-324, float("nan"), -9.0, 2.5, None)),
    *((value, pa.float32()) for value in (0.1, 0.7, 0.8, 0.9, 3.4e38, None)), (0.7, pa.float16()),
    (2**63 - 1, pa.int64()), (2**64 - 1, pa.uint64()), (-9, pa.int8()),
    (decimal.Decimal("0.3"), pa.decimal128(5, 1)), (True, pa.bool_()), (None, pa.null()),
    *((text, pa.string()) for text in ("0.1", " 1e5 ", "-0", "1e400", "NA", "", "nan", "+3", "1" * 400, "0x10")),
]  # fmt: skip
WORDS: list[tuple[Any, Any]] = [
    *((text, pa.string()) for text in (
        "a", " b\t", "b\x00", "\u00a0a", "gone", "NA", "", "?", "ä", "e\u0301", "\u202ea", "x" * 12, "x" * 13, "ä" * 6,
        "ä" * 7, " " * 40, "\n", "low", " mid ", "-9", "1", "1.0", "x" * 5000, None,
    )),
    ("a", pa.large_string()), ("x" * 13, pa.string_view()), ("a", pa.dictionary(pa.int8(), pa.string())),
    ("x" * 13, pa.dictionary(pa.int32(), pa.large_string())), (1, pa.int64()), (1.0, pa.float64()), (True, pa.bool_()),
]  # fmt: skip
DAYS: list[tuple[Any, Any]] = [
    (datetime.date(2010, 1, 1), pa.date32()), (datetime.date(1, 1, 1), pa.date32()), (None, pa.date32()),
    (datetime.date(9999, 12, 31), pa.date32()), (datetime.date(1999, 9, 9), pa.date32()), (_MOMENT, pa.timestamp("us")),
    (_MOMENT.replace(tzinfo=_ZONE), pa.timestamp("ms", tz="Pacific/Pago_Pago")), (-(2**62), pa.timestamp("s")),
    (datetime.date(2010, 1, 1), pa.date64()), (2**40, pa.timestamp("s")),
    *((text, pa.string()) for text in (
        "2010-01-01", " 2010-01-01 ", "2010-01-01T23:00:00", "0001-01-01", "9999-12-31", "2010-02-30", "01.02.2003",
        "31.12.9999", "01.01.0001", "NA", "",
    )),
]  # fmt: skip
LISTS: list[tuple[Any, Any]] = [
    *((value, pa.list_(pa.float64())) for value in (
        [0.1, -0.2], [1e308, 1e308], [-0.0, 0.0], [5e-324, 1.0], [float("nan"), 1.0], [None, 1.0], [], None, [1.0] * 3,
        [1.4142135623730951, 1.4142135623730951], [255.0, 300.0],
    )),
    ([0.1, 0.2], pa.list_(pa.float32(), 2)), ([1, 2], pa.large_list(pa.uint8())), ("[0.1, 0.2]", pa.string()),
    ("(1;2)", pa.string()), ("", pa.string()), (["0.1", "NA"], pa.list_(pa.string())),
]  # fmt: skip
CELLS: dict[str, list[tuple[Any, Any]]] = {
    **dict.fromkeys(("number", "share", "dose", "truth", "code"), NUMBERS + WORDS),
    **dict.fromkeys(("word", "lost", "step", "note"), WORDS + NUMBERS),
    **dict.fromkeys(("day", "swiss"), DAYS),
    **dict.fromkeys(("vector", "box", "image"), LISTS),
    "y": [(text, pa.string()) for text in ("u", " v ", "x" * 1000, "ä" * 999, "\x00", "NA")],
}  # fmt: skip
DECLARED = DeclaredRecords(EVERY_KIND)


def agreed_on(schema: Schema, **changes: Any) -> Terms:
    declared = DeclaredRecords(schema)
    given: dict[str, Any] = {
        "columns": schema.record_columns,
        "schema_digest": schema.digest,
        "record_bytes": declared.record_bytes,
        "kernel": Kernel(schema.width, 16, 1.0, 7, largest=declared.largest_entry),
    }
    return terms(**{**given, **changes})


@cache
def admission_of(column: str) -> Admission:
    """Of rows that have this column, or a number and this label."""
    everything = EVERY_KIND.declaration
    name, label = ("number", everything.label) if column == "y" else (column, None)
    schema = Schema(everything.model_copy(update={"columns": {name: everything.columns[name]}, "label": label}))
    return Admission(agreed_on(schema), DeclaredRecords(schema))


def verdicts(column: str, cell: pa.Array) -> tuple[bool, bool] | None:
    """Whether the owner admits a row, and whether a curator would; None if no owner's file can have it."""
    admission = admission_of(column)
    declared = admission.declared
    assert declared is not None
    table = pa.table({column: cell} if column != "y" else {"number": pa.array([1.0]), "y": cell})
    try:
        mapped = declared.schema.map(table, table="rows", locate=str)
    except BadTable:
        return None
    at_home = bool(admission.admits(FetchedRows(mapped.rows, mapped.labels, table))[0])
    sent = np.frombuffer(declared.pack(table), dtype=np.uint8)
    return at_home, admission.fault(mapped.rows, mapped.labels, sent) is None


@pytest.mark.parametrize("column", list(CELLS))
def test_owner_and_curator_admit_the_same_rows_of_every_kind(column: str) -> None:
    """And all that the schema allows, but for texts of more than 12 bytes."""
    admitted = 0
    for value, kind in CELLS[column]:
        try:
            cell = pa.array([value], kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            continue
        found = verdicts(column, cell)
        if found is None:
            continue
        open_text = column in ("word", "lost", "note") and isinstance(value, str)
        too_long = open_text and len(value.strip().encode()) > 12
        assert found == (not too_long, not too_long), (column, kind, len(str(value)))
        admitted += found == (True, True)
    assert admitted >= 3


@pytest.mark.parametrize("column", [name for name in CELLS if name in EVERY_KIND.declaration.columns])
def test_what_a_cell_is_does_not_depend_on_the_cells_beside_it(column: str) -> None:
    """Every cell alone and with others of its type before it: the same numbers, and the same verdict.

    In the soak all others; else every third, from another one on for each cell.
    """
    declared = admission_of(column).declared
    assert declared is not None
    by_type: dict[Any, list[Any]] = {}
    for value, kind in CELLS[column]:
        with contextlib.suppress(pa.ArrowInvalid, pa.ArrowTypeError):
            pa.array([value], kind)
            by_type.setdefault(kind, []).append(value)
    compared = 0
    for kind, values in by_type.items():
        for place, value in enumerate(values):
            alone, good_alone = declared.rows_of(pa.table({column: pa.array([value], kind)}))
            for other in values if EXAMPLES > 1 else values[place % 3 :: 3]:
                rows, good = declared.rows_of(pa.table({column: pa.array([other, value], kind)}))
                assert good[1] == good_alone[0], (column, kind)
                assert not good[1] or rows[1].tobytes() == alone[0].tobytes(), (column, kind)
                compared += bool(good[1])
    assert compared >= 5


@settings(max_examples=examples(15))
@given(data=st.data())
def test_owner_and_curator_agree_on_any_row(data: st.DataObject) -> None:
    words = st.text(max_size=20).filter(lambda text: not any(0xD800 <= ord(letter) < 0xE000 for letter in text))
    cells: dict[str, st.SearchStrategy[Any]] = {
        "number": st.floats(allow_infinity=False), "dose": st.floats(allow_infinity=False), "word": words, "y": words,
        "lost": words, "note": words, "code": st.floats(allow_nan=False, allow_infinity=False),
        "box": st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=2),
        "vector": st.lists(st.floats(-1e150, 1e150), min_size=2, max_size=2),
    }  # fmt: skip
    column = data.draw(st.sampled_from(sorted(cells)))
    found = verdicts(column, pa.array([data.draw(cells[column])]))
    assert found is None or found[0] == found[1]


# Neighbouring worlds through the protocol itself.

SHORT = Schema.from_text("""
likeset: schema
version: 1
text_bytes: 64
columns:
  a: {kind: numeric, bounds: [0, 1]}
  b: {kind: numeric, bounds: [0, 1]}
  c: {kind: category, values: [x, y], unknown: other}
""")


class SilentCurator(InteractiveCurator):
    """Releases nothing but zeros, whatever the summary is: what owners hear is the same in all worlds."""

    def _release_summary(self) -> PricedDraw[SummaryRelease]:
        yield from ()  # nothing is drawn
        mean = np.zeros(0 if self._round == 1 else self.terms.kernel.dimension)  # at first there is no summary
        self._released_mean = mean
        return SummaryRelease(coordinates=np.arange(len(mean)), values=mean)


class SilentWorld(World):
    def curator(self) -> ChargedParty[Any]:
        return ChargedParty(SilentCurator(self.terms, noise=self.noise, declared=self.declared), self.ledger)


class ExactRelease(CountingNoise):
    """The target's release without noise."""

    def discrete_gaussian(self, sigma: float, size: int) -> Integers:
        del sigma
        return np.zeros(size, dtype=np.int64)


def _table(seed: int, shift: float, count: int = 20) -> pa.Table:
    coins = public_coins(seed)
    return pa.table(
        {"a": coins.random(count) * 0.2 + shift, "b": coins.random(count) * 0.2 + shift, "c": ["z"] * count}
    )


def _picked(word: str) -> tuple[set[bytes], World, list[str]]:
    """The rows of the summary where the best row of the first owner has this word."""
    best = pa.table({"a": [0.6], "b": [0.6], "c": [word]})
    tables = {"a": pa.concat_tables([best, _table(1, 0.5)]), "b": _table(2, 0.1)}
    released = {"summary_release": "gaussian", "owner_budget": Budget(2.0, 1e-5)}
    agreed = agreed_on(SHORT, protocol="interactive", **released, size=12, owners=("a", "b"))
    data: dict[str, NDArray[np.float32]] = {
        name: SHORT.map(table, table=name, locate=str).rows for name, table in tables.items()
    }
    target = SHORT.map(_table(3, 0.5, agreed.target_size), table="target", locate=str).rows
    declared = DeclaredRecords(SHORT)
    made = SilentWorld(agreed, data, target, QuickLedger(), ExactRelease(0), declared=declared, tables=tables)
    ended = carry(made)
    return {row.tobytes() for row in ended.summary.rows}, made, [flag.reason for flag in ended.curator.party.flags]


@pytest.mark.parametrize("letters", [64, 65, 1000, 200_000])
def test_no_text_moves_more_rows_of_a_summary_than_the_noise_is_made_for(letters: int) -> None:
    """One replaced row moves two rows; a row of more than 64 letters is none, and nobody is flagged for having it."""
    ordinary, _, _ = _picked("z")
    word = "".join(public_coins(1).choice(list("abcdefgh"), size=letters))
    other, _, flagged = _picked(word)
    assert flagged == []
    assert len(ordinary - other) <= 2
    assert len(ordinary - other) == (0 if letters <= 64 else 1)


# The width of the kernel.


@pytest.mark.parametrize("gamma", [1e36, 1e76, 1.7e308])
def test_a_kernel_that_is_too_narrow_for_declared_rows_is_refused_in_foreign_terms(gamma: float) -> None:
    with pytest.raises(InvalidArgument, match="gamma"):
        Kernel(columns=3, dimension=16, gamma=gamma, seed=7, largest=1.0)
    text = terms(kernel=Kernel(columns=3, dimension=16, gamma=0.5, seed=7, largest=1.0)).to_json()
    assert read_foreign(text).kernel.largest == 1.0
    with pytest.raises(InvalidArgument, match="gamma"):
        read_foreign(text.replace('"gamma":0.5', f'"gamma":{gamma!r}'))


@pytest.mark.parametrize("kind", ["paired", "paper"])
@pytest.mark.parametrize("columns", [1, 3, 200])
@pytest.mark.parametrize("gamma", [1e-100, 1e-20, 1.0, 1e20, 1e60])
def test_every_row_that_is_admitted_has_features(gamma: float, columns: int, kind: Any) -> None:
    """Also the longest ones, at the kernel's own bound; warnings are errors here."""
    kernel = Kernel(columns=columns, dimension=16, gamma=gamma, seed=7, kind=kind)
    coins = public_coins(3)
    rows = np.float32(kernel.largest) * coins.choice([-1.0, 1.0, 0.5], size=(40, columns)).astype(np.float32)
    rows = np.clip(rows, -kernel.largest, kernel.largest)
    features = kernel.features()
    admission = Admission(terms(kernel=kernel, **({} if kind == "paired" else _PAPER)), None)
    mask = admission.admits(FetchedRows(rows, np.empty(0)))
    assert mask.sum() >= 20
    assert np.isfinite(features(rows[mask])).all()
    assert np.isfinite(features.of_each(rows[mask])).all()
    beyond = rows.astype(np.float64) * 4.0
    assert not admission.admits(
        FetchedRows(np.where(np.abs(beyond) > kernel.largest, beyond, 9e200), np.empty(0))
    ).any()


_PAPER: dict[str, Any] = {"protocol": "interactive", "summary_release": "mwem", "schedule": "experiment"}


def test_rows_that_are_no_numbers_are_not_admitted() -> None:
    admission = Admission(terms(), None)
    rows = np.array([[0, 0, 0], [np.nan, 0, 0], [0, np.inf, 0], [0, 0, 3e38], [1, 2, 3]], dtype=np.float32)
    assert admission.admits(FetchedRows(rows, np.empty(0))).tolist() == [True, False, False, False, True]


def test_labels_that_no_message_takes_are_not_admitted_and_make_no_room_for_themselves() -> None:
    """Of bare arrays, of which no schema declares anything: 1001 letters, and half of a pair of code units."""
    agreed = terms(protocol="interactive")
    labels = np.array(["u", "x" * 1001, "\ud800", "x" * 1000, ""])
    rows = np.zeros((5, 3), dtype=np.float32)
    assert Admission(agreed, None).admits(FetchedRows(rows, labels)).tolist() == [True, False, False, True, True]
    data = {name: public_coins(name).random((6, 3)).astype(np.float32) for name in agreed.owners}
    odd = np.array(["u", "x" * 1001, "\ud800", "v", "v", "v"])
    target = public_coins("target").random((agreed.target_size, 3)).astype(np.float32)
    ended = carry(World(agreed, data, target, QuickLedger(), labels=dict.fromkeys(agreed.owners, odd)))
    assert ended.curator.party.flags == []
    assert set(ended.summary.labels.tolist()) <= {"u", "v"}
    assert len(ended.summary.rows) == agreed.size


def test_a_label_that_is_not_declared_leaves_out_its_own_row_alone() -> None:
    """A label decides about one row; if it decided about others, a row more or less would move several."""
    everything = EVERY_KIND.declaration
    assert everything.label is not None
    label = everything.label.model_copy(update={"values": ("u", "v")})
    columns = {"number": everything.columns["number"]}
    schema = Schema(everything.model_copy(update={"columns": columns, "label": label}))
    admission = Admission(agreed_on(schema), DeclaredRecords(schema))
    rows = np.zeros((4, schema.width), dtype=np.float32)
    labels = np.array(["u", "v", "w", "u"])
    assert admission.admits(FetchedRows(rows, labels)).tolist() == [True, True, False, True]


# Terms and summaries that are not as the schema says.


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"record_bytes": DECLARED.record_bytes - 1}, "record_bytes"),
        ({"kernel": Kernel(EVERY_KIND.width, 16, 1.0, 7, largest=2.99)}, "kernel.largest"),
    ],
)
def test_terms_that_leave_less_room_than_the_schema_are_refused_by_all(changes: dict[str, Any], field: str) -> None:
    agreed = agreed_on(EVERY_KIND, **changes)
    zeros = np.zeros((30, EVERY_KIND.width), np.float32)
    made = World(agreed, {"a": zeros}, zeros, QuickLedger(), declared=DECLARED)
    for party in (made.curator, made.consumer, lambda: made.owner("a")):
        with pytest.raises(InvalidArgument, match=field):
            party()


def test_a_consumer_takes_no_row_that_is_none() -> None:
    """Records that are too long, of other rows, or none at all."""
    _, made, _ = _picked("z")
    honest: list[Message] = []
    consumer = made.consumer()

    def keep(message: Message) -> list[Message]:
        honest.append(message)
        return [message]

    carry(made, tamper=keep)
    (message,) = [one for one in honest if isinstance(one.body, Summary) and one.receiver == CONSUMER]
    assert isinstance(message.body, Summary)
    declared = DeclaredRecords(SHORT)
    table = declared.unpack(message.body.records.tobytes(), rows=len(message.body.rows))
    longer = table.set_column(2, "c", pa.array(["q" * 65, *table["c"].to_pylist()[1:]]))
    others = table.take(pa.array(np.arange(table.num_rows)[::-1]))
    for packed, reason in ((declared.pack(longer), "longer"), (declared.pack(others), "makes of"), (b"", "not as")):
        body = replace(message.body, records=np.frombuffer(packed, dtype=np.uint8))
        with pytest.raises(IllegalMessage, match=reason):
            consumer.take(replace(message, body=body))
        assert consumer.party.summary is None
    consumer.take(message)
    assert consumer.party.summary is not None


CANARY = "canary-81724"
PROTOCOLS: dict[str, dict[str, Any]] = {
    "sealed": {},
    "threshold": THRESHOLD,
    "interactive": {"protocol": "interactive"},
}


def _declared_world(options: dict[str, Any], label: str, cells: Any) -> World:
    columns = "".join(f"  {name}: {{kind: numeric, bounds: [-9, 9], outside: clip}}\n" for name in "pqr")
    schema = Schema.from_text(f"likeset: schema\nversion: 1\ncolumns:\n{columns}{label}")
    agreed, declared = agreed_on(schema, **options, owners=("a", "b")), DeclaredRecords(schema)
    data, labels, tables = {}, {}, {}
    target = rows(5, agreed.target_size, shift=0.3)
    for name, values in (("a", rows(10, 12, shift=4.0)), ("b", target[:12] + 0.01)):  # those of b are wanted
        content: dict[str, Any] = {name: values[:, place].astype(np.float64) for place, name in enumerate("pqr")}
        if schema.label_column:
            content["y"] = [cells[number % len(cells)] for number in range(12)]
        table = pa.table(content)
        mapped = schema.map(table, table=name, locate=str)
        data[name], labels[name], tables[name] = mapped.rows, mapped.labels, declared.of(table)
    content = {name: target[:, place].astype(np.float64) for place, name in enumerate("pqr")}
    content |= {"y": [cells[0]] * len(target)} if schema.label_column else {}
    rows_of_target = schema.map(pa.table(content), table="target", locate=str).rows
    known = labels if schema.label_column else {}
    return World(agreed, data, rows_of_target, QuickLedger(), labels=known, declared=declared, tables=tables)


def _with_labels(labels: Callable[[int], Any]) -> Callable[[Message, tuple[Message, ...]], list[Message]]:
    def lie(body: Body) -> Body:
        return replace(body, labels=labels(len(body.rows))) if isinstance(body, Offer | Delivery) else body

    return lambda _, honest: [replace(one, body=lie(one.body)) for one in honest]


LABEL = 'label: {column: y, values: ["no", "yes"]}\n'
LIES: list[tuple[str, str, Callable[[int], NDArray[Any]], str]] = [
    ("undeclared", LABEL, lambda count: np.array([CANARY] * count), "none of the declared values"),
    ("long", LABEL, lambda count: np.array(["x" * 1000] * count), "none of the declared values"),
    ("numbers", LABEL, lambda count: np.arange(count), "not text"),
    ("truth", LABEL, lambda count: np.ones(count, dtype=np.bool_), "not text"),
    ("none", LABEL, lambda _: np.empty(0), "rows without labels"),
    ("not-declared", "", lambda count: np.array([CANARY] * count), "labels, which nobody declared"),
    ("nan", "label: {column: y, kind: number}\n", lambda count: np.full(count, np.nan), "not finite"),
    ("text", "label: {column: y, kind: number}\n", lambda count: np.array([CANARY] * count), "not numbers"),
]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(("label", "lie", "reason"), [one[1:] for one in LIES], ids=[one[0] for one in LIES])
def test_labels_that_are_not_as_declared_are_flagged_on_arrival_and_the_run_goes_on(
    protocol: str, label: str, lie: Callable[[int], Any], reason: str
) -> None:
    cells = [1.0, 2.0] if "number" in label else ["no", "yes"]
    made = _declared_world(PROTOCOLS[protocol], label, cells)
    honest = carry(made)
    assert not len(honest.summary.flagged)
    assert not len(honest.summary.absent)
    assert 1 in honest.summary.owners
    made.ledger = QuickLedger()
    outcome = carry(made, replies_of={"b": _with_labels(lie)})
    assert outcome.summary.flagged.tolist() == [1]
    assert reason in str(outcome.summary.reasons[0])
    assert CANARY not in str(outcome.summary.reasons[0])
    assert set(outcome.summary.owners.tolist()) == {0}
    assert CANARY.encode("utf-32-le") not in outcome.heard[CONSUMER][-1]
    assert not outcome.refused


@pytest.mark.parametrize("protocol", ["sealed", "interactive"])
def test_a_label_that_is_matched_must_be_that_of_the_record(protocol: str) -> None:
    label = 'label: {column: y, values: ["no", "yes"], match: true}\n'
    made = _declared_world(PROTOCOLS[protocol], label, ["no", "no"])
    assert not len(carry(made).summary.flagged)
    made.ledger = QuickLedger()
    outcome = carry(made, replies_of={"b": _with_labels(lambda count: np.array(["yes"] * count))})
    assert outcome.summary.flagged.tolist() == [1]
    assert "not those of its records" in str(outcome.summary.reasons[0])


def test_the_consumer_takes_no_summary_with_labels_that_are_not_declared() -> None:
    made = _declared_world({}, LABEL, ["no", "yes"])
    summary = carry(made).summary
    for labels in (np.array([CANARY] * len(summary.rows)), np.arange(len(summary.rows)), np.empty(0)):
        consumer = made.consumer()
        body = replace(summary, labels=labels)
        with pytest.raises(IllegalMessage, match="labels") as caught:
            consumer.take(Message(made.terms.run, made.terms.digest, "curator", CONSUMER, 0, body))
        assert CANARY not in str(caught.value)
        assert consumer.party.summary is None
