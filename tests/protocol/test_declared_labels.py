"""Labels are held against the schema when they arrive: who sends others is flagged, and the run goes on."""

import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from protocol_world import CONSUMER, THRESHOLD, QuickLedger, World, carry, rows, same_summary, terms, world

from likeset.errors import BadMessage, IllegalMessage
from likeset.protocol import sealed as curators
from likeset.protocol import wire
from likeset.protocol.sealed import SealedCurator
from likeset.protocol.wire import Body, Delivery, Message, Offer, Target, decode, encode
from likeset.tables.records import DeclaredRecords
from likeset.tables.schema import Schema
from likeset.transports.local import ChargedParty, run_local

CANARY = "canary-81724"
SECRET = (1 << 255) + 99
PROTOCOLS: dict[str, dict[str, Any]] = {
    "sealed": {},
    "threshold": THRESHOLD,
    "interactive": {"protocol": "interactive"},
}


def _schema(label: str) -> Schema:
    columns = "".join(f"  {name}: {{kind: numeric, bounds: [-9, 9], outside: clip}}\n" for name in "pqr")
    return Schema.from_text(f"likeset: schema\nversion: 1\ncolumns:\n{columns}{label}")


def _declared_world(options: dict[str, Any], label: str, cells: Any, *, owners: tuple[str, ...] = ("a", "b")) -> World:
    schema = _schema(label)
    named = schema.record_columns
    agreed = terms(
        **options,
        owners=owners,
        columns=named,
        record_bytes=DeclaredRecords(schema).record_bytes,
        kernel=replace(terms().kernel, columns=schema.width),
    )
    data, labels, tables = {}, {}, {}
    target = rows(5, agreed.target_size, shift=0.3)
    for place, name in enumerate(owners):
        # The last owner's rows are those that are wanted.
        values = target[:12] + 0.01 if place == len(owners) - 1 else rows(10 + place, 12, shift=4.0)
        content: dict[str, Any] = {name: values[:, place].astype(np.float64) for place, name in enumerate("pqr")}
        if schema.label_column:
            content["y"] = [cells[number % len(cells)] for number in range(12)]
        table = pa.table(content)
        mapped = schema.map(table, table=name, locate=str)
        data[name], labels[name], tables[name] = mapped.rows, mapped.labels, DeclaredRecords(schema).of(table)
    content = {name: target[:, place].astype(np.float64) for place, name in enumerate("pqr")}
    content |= {"y": [cells[0]] * len(target)} if schema.label_column else {}
    rows_of_target = schema.map(pa.table(content), table="target", locate=str).rows
    return World(
        agreed,
        data,
        rows_of_target,
        QuickLedger(),
        labels=labels if schema.label_column else {},
        secret=SECRET,
        declared=DeclaredRecords(schema),
        tables=tables,
    )


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


def test_an_owner_of_interactive_with_labels_of_another_kind_leaves_the_others_rows() -> None:
    """Without a schema the kind is known at the end only: what is dropped then is replaced by what is at hand."""
    made = world(terms(protocol="interactive", owners=("a", "b")), labels={name: np.arange(12) for name in "ab"})
    made.data["a"] += np.float32(4.0)
    made.data["b"] = made.target[:12] + np.float32(0.01)
    assert set(carry(made).summary.owners.tolist()) == {1}
    made.ledger = QuickLedger()
    summary = carry(made, replies_of={"b": _with_labels(lambda count: np.array(["x"] * count))}).summary
    assert summary.flagged.tolist() == [1]
    assert summary.owners.tolist() == [0] * made.terms.size
    assert summary.labels.dtype.kind == "i"


def _sent(agreed: Any, sender: str, body: Body, number: int = 1) -> bytes:
    return encode(Message(agreed.run, agreed.digest, sender, "curator", number, body))


def _offered(values: NDArray[np.float32], labels: list[str]) -> Offer:
    return Offer(rows=values, labels=np.array(labels), handles=np.arange(len(values), dtype=np.uint64))


def test_one_long_label_costs_the_curator_no_room_for_all_others() -> None:
    """100 KB of short labels and one of 1,000 letters; an array of them all would be 100 MB."""
    count = 25_000
    agreed = terms(owners=("a", "b"), size=2, offer_factor=float(count))
    made = world(agreed)
    curator = ChargedParty(SealedCurator(agreed, noise=made.noise, fold_key=11), QuickLedger())
    target = made.consumer().start()[0].body
    assert isinstance(target, Target)
    curator.take(decode(_sent(agreed, CONSUMER, target, 0)))
    curator.take(decode(_sent(agreed, "a", _offered(rows(1, count), ["no"] * count))))
    tracemalloc.start()
    (reply,) = curator.take(decode(_sent(agreed, "b", _offered(rows(2, 1, shift=99.0), ["x" * 1000]))))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(reply.body, wire.Summary)
    assert reply.body.labels.tolist() == ["no", "no"]
    assert reply.body.labels.dtype == "<U2"
    assert peak < 60 << 20


def test_a_text_of_more_letters_than_allowed_is_neither_written_nor_read(monkeypatch: pytest.MonkeyPatch) -> None:
    agreed = terms()
    longest = _offered(rows(1, 1), ["x" * 1000])
    assert decode(_sent(agreed, "a", longest)).body.labels.tolist() == ["x" * 1000]  # type: ignore[union-attr]
    with pytest.raises(BadMessage, match="more than 1000 letters"):
        _sent(agreed, "a", _offered(rows(1, 1), ["x" * 1001]))
    with monkeypatch.context() as patch:
        patch.setattr(wire, "MOST_LETTERS", 9999)
        data = _sent(agreed, "a", _offered(rows(1, 1), ["x" * 1001]))
        decode(data)
    with pytest.raises(BadMessage, match="more than 1000 letters"):
        decode(data)


@pytest.mark.parametrize("protocol", ["sealed", "interactive"])
def test_labels_too_long_for_the_size_of_a_summary_are_left_out_at_its_end(
    protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = world(terms(protocol=protocol), labels={name: np.array(["word"] * 12) for name in "abc"})
    honest = carry(made).summary
    monkeypatch.setattr(curators, "_LARGEST_LABELS", 4 * made.terms.size * 10)  # ten letters each
    assert same_summary(carry(made).summary, honest)
    made.ledger = QuickLedger()
    outcome = carry(made, replies_of={"b": _with_labels(lambda count: np.array(["x" * 11] * count))})
    assert outcome.summary.flagged.tolist() == [1]
    assert "too long" in str(outcome.summary.reasons[0])
    assert len(outcome.summary.rows) == made.terms.size
    assert 1 not in outcome.summary.owners


def test_declared_values_may_be_long_whatever_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curators, "_LARGEST_LABELS", 1)
    made = _declared_world({}, LABEL, ["no", "yes"])
    assert not len(carry(made).summary.flagged)


def test_engines_pass_what_is_declared_by_every_owner() -> None:
    made = _declared_world({}, LABEL, ["no", "yes"])
    result = run_local(made.curator(), made.owners(), made.consumer())
    assert result.failures == {}
    assert set(result.summary.labels.tolist()) <= {"no", "yes"}
