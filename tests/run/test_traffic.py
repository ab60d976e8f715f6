"""What a plan says of traffic, with labels of every kind and without."""

from protocol_world import terms

from likeset.run.plan import most_traffic
from likeset.tables.schema import Schema

_COLUMNS = "likeset: schema\nversion: 1\ncolumns:\n  age: {kind: numeric, bounds: [0, 120]}\n"


def test_without_labels_an_owner_sends_less() -> None:
    labelled = Schema.from_text(_COLUMNS + 'label: {column: ill, values: ["no", "yes"]}\n')
    bare = Schema.from_text(_COLUMNS)
    sent = [most_traffic(terms(), schema).sent_bytes for schema in (bare, labelled)]
    assert sent[0] is not None
    assert sent[1] is not None
    assert sent[0] < sent[1]
    counted = Schema.from_text(_COLUMNS + "label: {column: cost, kind: number}\n")
    assert most_traffic(terms(), counted).sent_bytes is not None
    assert most_traffic(terms(), bare).messages == 2  # the release, and the offer
