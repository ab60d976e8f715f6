"""What a lying owner of a split run sends in place of its honest offer."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from shared_run_world import SharedRun, Told, carry_shares, secret_of, shared_run, split_run

from likeset.protocol.split import BareRecords, offer_context, offer_shape, party_name
from likeset.protocol.terms import Terms
from likeset.protocol.wire import Message, OfferShare
from likeset.tables.scan import FetchedRows
from likeset.trust.shares import ComputeRole, OfferPart, share_offer

Parts = Mapping[ComputeRole, OfferPart]

AGREED = split_run()
LIAR = "b"
NEAR = np.array([[0.01, -0.59, 0.21], [0.43, 1.01, 1.58]], dtype=np.float32)
"""Where two rows of the target lie: what a liar lets the program see is picked, and stays when picks are swapped."""


def shared_by(name: str = LIAR, *, seen: Any = NEAR, sold: Any = NEAR, handles: Sequence[int] = (1, 2)) -> Parts:
    """An offer whose shares are of some rows, and whose records are of others."""
    records = BareRecords(3).encode(FetchedRows(sold, np.empty(0)), np.array(handles, dtype=np.uint64))
    shape = offer_shape(AGREED)
    context = offer_context(AGREED, name)
    return share_offer(secret_of(name), context=context, shape=shape, rows=seen, records=records)


def sending(shared: Parts, name: str = LIAR, agreed: Terms = AGREED) -> Callable[[Message], list[Message]]:
    """An owner that sends this offer in place of its honest one."""
    parts = {party_name(agreed, role): part for role, part in shared.items()}

    def lie(message: Message) -> list[Message]:
        if message.sender != name:
            return [message]
        part = np.frombuffer(parts[message.receiver].to_bytes(), dtype=np.uint8)
        return [dataclasses.replace(message, body=OfferShare(part=part))]

    return lie


def carried(shared: Parts, run: SharedRun | None = None) -> Told:
    """A run in which the liar sends this offer."""
    return carry_shares(run or shared_run(AGREED), tamper=sending(shared))


def bytes_of(data: bytes) -> Any:
    """Bytes as messages carry them."""
    return np.frombuffer(data, dtype=np.uint8)


def check_left_out(told: Told, words: str, *, bought: int | None = None) -> None:
    """The liar's rows are not in the summary, the liar is named with the reason, and all others were bought from."""
    summary = told.consumer.party.summary
    assert summary is not None
    assert 1 not in summary.owners
    assert summary.flagged.tolist() == [1]
    assert words in str(summary.reasons[0])
    assert len(summary.rows) == (AGREED.size if bought is None else bought)
