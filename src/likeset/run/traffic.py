"""What one owner hears and sends, at most: from the terms and the schema alone."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likeset.protocol.legality import RELEASE_ROUND
from likeset.protocol.messages import (
    Asked,
    Bid,
    Body,
    Delivery,
    Message,
    Misfit,
    Offer,
    SummaryRelease,
    TargetRelease,
    encode,
)
from likeset.protocol.party import CURATOR
from likeset.protocol.planned_terms import PlannedTerms
from likeset.protocol.split.run_shape import most_part_bytes
from likeset.protocol.split.split_messages import OFFER_ROUND, OfferShare
from likeset.tables.records import DeclaredRecords
from likeset.tables.schema import Schema

__all__ = ["MostTraffic", "most_traffic"]

_LONGEST_NUMBER = -2.2250738585072014e-308
_LARGEST_HANDLE = 2**64 - 1
_ANY_DIGEST = "0" * 64


@dataclass(frozen=True, slots=True)
class MostTraffic:
    """What one owner hears and sends, at most.

    Attributes:
        messages: how many messages go either way, together.
        heard_bytes: how many bytes it hears.
        sent_bytes: how many it sends; None where a label has no declared length.
        largest_sent: bytes of the largest message that it sends; what has no declared length is not counted.
    """

    messages: int
    heard_bytes: int
    sent_bytes: int | None
    largest_sent: int


def most_traffic(terms: PlannedTerms, schema: Schema) -> MostTraffic:
    """The traffic of the owner with the longest name, if everything that may come does."""
    if terms.split is not None:
        return _shared_traffic(terms)
    interactive, release_round = terms.protocol == "interactive", RELEASE_ROUND[terms.protocol]
    release = TargetRelease(release=np.zeros(terms.kernel.dimension if terms.offers == "tilted" else 0))
    width = terms.kernel.columns
    rows = 1 if interactive else terms.rows_per_owner
    matrix = np.zeros((rows, width), dtype=np.float32)
    labels, packed = _labels(schema, rows), _records(schema, rows)
    known = labels is not None
    labels = np.zeros(rows) if labels is None else labels
    heard: list[tuple[int, int, Body]]
    sent: list[tuple[int, int, Body]]
    if interactive:
        changed = terms.kernel.dimension if terms.summary_release != "none" else 0
        summary = SummaryRelease(coordinates=np.zeros(changed, dtype=np.int64), values=np.zeros(changed))
        features = np.zeros((1, terms.kernel.dimension), dtype=np.float32)
        delivery = Delivery(rows=matrix, labels=labels, handle=_LARGEST_HANDLE, features=features, records=packed)
        bid = Bid(gain=_LONGEST_NUMBER, handle=_LARGEST_HANDLE)
        heard = [
            (1, release_round, release),
            (terms.size, terms.size, summary),
            (terms.size, terms.size, Asked(asked=False)),
        ]
        sent = [(terms.size, terms.size, bid), (terms.size, terms.size, delivery)]
    else:
        auctioned = terms.auction != "everyone"
        handles = np.zeros(rows, dtype=np.uint64)
        heard = [(1, release_round, release), *([(1, 2, Asked(asked=False))] if auctioned else [])]
        sent = [(1, 2, Offer(rows=matrix, labels=labels, handles=handles, records=packed))]
        sent += [(1, 1, Misfit(misfit=_LONGEST_NUMBER))] if auctioned else []
    sizes = [(times, _length(terms, body, number)) for times, number, body in sent]
    return MostTraffic(
        messages=sum(times for times, _, _ in heard + sent),
        heard_bytes=sum(times * _length(terms, body, number) for times, number, body in heard),
        sent_bytes=sum(times * size for times, size in sizes) if known else None,
        largest_sent=max(size for _, size in sizes),
    )


def _shared_traffic(terms: PlannedTerms) -> MostTraffic:
    """Of a split run: the release, and one part for each compute party; its length is declared, whatever labels are."""
    release = TargetRelease(release=np.zeros(terms.kernel.dimension if terms.offers == "tilted" else 0))
    parts = [OfferShare(part=np.zeros(size, dtype=np.uint8)) for size in most_part_bytes(terms)]
    sizes = [_length(terms, part, OFFER_ROUND) for part in parts]
    heard = _length(terms, release, RELEASE_ROUND[terms.protocol])
    return MostTraffic(1 + len(parts), heard, sum(sizes), max(sizes))


def _length(terms: PlannedTerms, body: Body, number: int) -> int:
    """Of a message to an owner; one to the curator is as long."""
    sender = terms.consumer if isinstance(body, TargetRelease) else CURATOR
    return len(encode(Message(terms.run, _ANY_DIGEST, sender, max(terms.owners, key=len), number, body)))


def _labels(schema: Schema, rows: int) -> NDArray[Any] | None:
    """Labels of the largest size; None if they have no declared length."""
    label = schema.declaration.label
    if label is None:
        return np.zeros(0)
    if label.kind == "number":
        return np.zeros(rows)
    if label.values is None:
        return None
    words = [value for value in label.values if isinstance(value, str)]
    return np.zeros(rows, dtype=f"<U{max(map(len, words))}") if words else np.zeros(rows)


def _records(schema: Schema, rows: int) -> NDArray[np.uint8]:
    """Room for the largest records."""
    return np.zeros(DeclaredRecords(schema).most_bytes(rows), dtype=np.uint8)
