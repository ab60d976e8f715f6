"""How long letters are follows from the terms alone, whatever rows and labels are in them."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from protocol_world import CONSUMER, terms

from likeset.homes.mail import padded_size
from likeset.privacy.events import Relation
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import Kernel, Terms
from likeset.protocol.wire import Body, Delivery, Message, Offer, Summary, Target
from likeset.tables.records import DeclaredRecords
from likeset.tables.schema import MOST_LETTERS, Schema, narrow
from likeset.trust.letters import padded

_COLUMNS = (
    "  p: {kind: numeric, bounds: [-9, 9], outside: clip}\n  t: {kind: category, values: [x], unknown: other}\n"
    "  v: {kind: vector, width: 40, bounds: [0, 1]}\n"
)
_LONG = 700
_ACCEPTANCE = 3060  # bytes, with names as long as they may be
LABELS = {
    "none": ("", 0),
    "numbers": ("label: {column: y, kind: number}\n", 0),
    "declared": (f"label: {{column: y, kind: category, values: [a, {'b' * _LONG}]}}\n", _LONG),
    "not declared": ("label: {column: y, kind: category}\n", MOST_LETTERS),
}


def _agreed(schema: Schema) -> Terms:
    declared = DeclaredRecords(schema)
    return terms(
        size=60,
        columns=schema.record_columns,
        schema_digest=schema.digest,
        record_bytes=declared.record_bytes,
        kernel=Kernel(schema.width, 16, 1.0, 7, largest=declared.largest_entry),
    )


def _packed(schema: Schema, rows: int, *, long: bool) -> Any:
    """Records with cells that are as long as they may be, or with cells that are missing."""
    declared, coins = DeclaredRecords(schema), np.random.default_rng(4)
    width, letters = declared.widths["v"], declared.text_bytes["t"]
    content: dict[str, Any] = {"p": [None] * rows, "t": [None] * rows, "v": [None] * rows}
    if long:
        texts = ["".join(map(chr, coins.integers(33, 127, letters))) for _ in range(rows)]
        content = {"p": coins.random(rows), "t": texts, "v": list(coins.random((rows, width)))}
    table = pa.table({name: pa.array(content[name], declared.types.field(name).type) for name in content})
    return np.frombuffer(declared.pack(table), np.uint8)


def _bodies(schema: Schema, agreed: Terms, letters: int, *, long: bool) -> list[Body]:
    """What an owner and the curator may have to say: rows with the longest labels, or with the shortest."""
    offered, chosen = agreed.rows_per_owner, agreed.size

    def labels(rows: int) -> Any:
        if schema.label_column is None:
            return np.empty(0)
        return narrow(np.array(["b" * letters if long else "a"] * rows)) if letters else np.ones(rows)

    def blank(rows: int) -> Any:
        return np.zeros((rows, schema.width), np.float32)

    def handles(rows: int) -> Any:
        return np.arange(rows, dtype=np.uint64)

    features = np.zeros((1, agreed.kernel.dimension), np.float32)
    owners, numbers = np.zeros(chosen, np.int64), np.zeros(chosen)
    nobody, reasons = np.empty(0, np.int64), np.empty(0, np.str_)
    return [
        Offer(blank(offered), labels(offered), handles(offered), _packed(schema, offered, long=long)),
        Delivery(blank(1), labels(1), 7, features, _packed(schema, 1, long=long)),
        Summary(
            rows=blank(chosen),
            labels=labels(chosen),
            owners=owners,
            handles=handles(chosen),
            weights=numbers,
            gains=numbers,
            squared_mmds=numbers,
            rows_seen=60,
            absent=nobody,
            flagged=nobody,
            reasons=reasons,
            records=_packed(schema, chosen, long=long),
        ),
    ]


@pytest.mark.parametrize("label", LABELS)
def test_no_row_and_no_label_makes_a_letter_longer(label: str) -> None:
    """Labels of a thousand letters made offers and summaries several times as long as the others."""
    text, letters = LABELS[label]
    schema = Schema.from_text(f"likeset: schema\nversion: 1\ncolumns:\n{_COLUMNS}{text}")
    agreed = _agreed(schema)
    lengths: dict[str, set[int]] = {}
    for long in (False, True):
        for body in _bodies(schema, agreed, letters, long=long):
            message = Message(agreed.run, agreed.digest, "a", CURATOR, 1, body)
            if isinstance(body, Summary):
                message = replace(message, sender=CURATOR, receiver=CONSUMER)
            sealed = padded(bytes(32), message.data, step=padded_size(agreed, message))
            lengths.setdefault(body.kind, set()).add(len(sealed.body))
    assert {kind: len(different) for kind, different in lengths.items()} == {"offer": 1, "delivery": 1, "summary": 1}


@pytest.mark.parametrize("owners", [2, 9, 40])
def test_a_target_of_a_protected_size_does_not_show_it(owners: int) -> None:
    """Neither where it is somewhat larger than declared, nor where acceptances beside it fill a step."""
    wide = replace(terms().kernel, columns=512)
    names = tuple(f"owner-{place}" for place in range(owners))
    agreed = terms(relation=Relation.ADD_OR_REMOVE, target_size=100, kernel=wide, owners=names)
    lengths = set()
    for rows in range(2, 160):
        body = Target(np.zeros((rows, 512), np.float32), np.zeros(16), 1.0, weighted=False)
        message = Message(agreed.run, agreed.digest, CONSUMER, CURATOR, 0, body)
        step = padded_size(agreed, message)
        lengths.add(len(padded(bytes(32), message.data, (bytes(_ACCEPTANCE),) * owners, step=step).body))
    assert len(lengths) == 1
