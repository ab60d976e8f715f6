"""Which message may come when: every state, kind, round and sender, in the tables and at the parties themselves."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from typing import Any, get_args

import numpy as np
import pytest
from protocol_world import CONSUMER, THRESHOLD, terms, world

from likeset.errors import IllegalMessage
from likeset.protocol.party import (
    ComputeState,
    ConsumerState,
    CuratorState,
    OwnerState,
    Position,
    Rules,
    Sender,
    State,
    compute_rules,
    consumer_rules,
    curator_rules,
    owner_rules,
)
from likeset.protocol.terms import Terms
from likeset.protocol.wire import (
    Asked,
    Bid,
    Body,
    Delivery,
    Envelopes,
    Message,
    Misfit,
    Offer,
    OfferShare,
    PicksOpened,
    RosterVote,
    ShareReceipts,
    Summary,
    SummaryRelease,
    Target,
    TargetRelease,
    TargetShare,
)
from likeset.transports.local import ChargedParty

SEALED, AUCTIONED = terms(), terms(**THRESHOLD)
ROUNDS = terms(protocol="interactive", size=2)
LAST = ROUNDS.size

_NONE, _BYTES = np.empty(0), np.empty(0, dtype=np.uint8)
_ROWS: dict[str, Any] = {"rows": np.zeros((1, 3), np.float32), "labels": _NONE}
BODIES: dict[str, Body] = {
    body.kind: body
    for body in (
        Target(rows=np.zeros((30, 3), np.float32), release=np.zeros(16), gamma=1.0, weighted=False),
        TargetRelease(release=np.zeros(16)),
        Misfit(misfit=1.0),
        Asked(asked=False),
        Offer(**_ROWS, handles=np.zeros(1, np.uint64)),
        SummaryRelease(coordinates=np.empty(0, np.int64), values=_NONE),
        Bid(gain=1.0, handle=1),
        Delivery(**_ROWS, handle=1, features=np.zeros((1, 16), np.float32)),
        Summary(
            **_ROWS,
            owners=np.zeros(1, np.int64),
            handles=np.zeros(1, np.uint64),
            weights=np.ones(1),
            gains=np.ones(1),
            squared_mmds=np.ones(1),
            rows_seen=1,
            absent=np.empty(0, np.int64),
            flagged=np.empty(0, np.int64),
            reasons=np.empty(0, dtype="<U1"),
        ),
        TargetShare(share=_BYTES, salt=_BYTES, commitments=_BYTES),
        OfferShare(part=_BYTES),
        ShareReceipts(receipts=_BYTES),
        RosterVote(roster=_BYTES, reach=_BYTES),
        Envelopes(envelopes=_BYTES),
        PicksOpened(openings=4),
    )
}
Legal = set[tuple[State, str, int, Sender]]


def _said(state: State, kind: str, sender: Sender, *rounds: int) -> Legal:
    return {(state, kind, number, sender) for number in rounds}


OWNER, CURATOR, COMPUTING = OwnerState, CuratorState, ComputeState
_COLLECTED = (
    _said(COMPUTING.COLLECTING, "offer-share", Sender.AWAITED, 1)
    | _said(COMPUTING.COLLECTING, "share-receipts", Sender.PEER, 2)
    | _said(COMPUTING.COUNTED, "share-receipts", Sender.PEER, 2)
    | _said(COMPUTING.COUNTED, "roster-vote", Sender.PEER, 3)
    | _said(COMPUTING.VOTED, "roster-vote", Sender.PEER, 3)
)
FROM_CURATOR = (Sender.CURATOR,)
CASES: dict[str, tuple[Rules, type[State], int, Legal]] = {
    # Rules, states, the round in which the party stands, and all that may come then.
    "sealed owner": (
        owner_rules(SEALED),
        OWNER,
        0,
        _said(OWNER.INVITED, "target-release", Sender.CONSUMER, 1),
    ),
    "owner before an auction": (
        owner_rules(AUCTIONED),
        OWNER,
        1,
        _said(OWNER.INVITED, "target-release", Sender.CONSUMER, 1) | _said(OWNER.WEIGHED, "asked", Sender.CURATOR, 2),
    ),
    "interactive owner, first round": (
        owner_rules(ROUNDS),
        OWNER,
        1,
        _said(OWNER.INVITED, "target-release", Sender.CONSUMER, 0)
        | _said(OWNER.OPENED, "summary-release", Sender.CURATOR, 2)
        | _said(OWNER.BID, "summary-release", Sender.CURATOR, 2)
        | _said(OWNER.BID, "asked", Sender.CURATOR, 1),
    ),
    "interactive owner, last round": (
        owner_rules(ROUNDS),
        OWNER,
        LAST,
        _said(OWNER.INVITED, "target-release", Sender.CONSUMER, 0) | _said(OWNER.BID, "asked", Sender.CURATOR, LAST),
    ),
    "sealed curator": (
        curator_rules(SEALED),
        CURATOR,
        1,
        _said(CURATOR.TARGET, "target", Sender.CONSUMER, 0) | _said(CURATOR.OFFERS, "offer", Sender.AWAITED, 1),
    ),
    "curator of an auction": (
        curator_rules(AUCTIONED),
        CURATOR,
        1,
        _said(CURATOR.TARGET, "target", Sender.CONSUMER, 0)
        | _said(CURATOR.MISFITS, "misfit", Sender.AWAITED, 1)
        | _said(CURATOR.OFFERS, "offer", Sender.AWAITED, 2),
    ),
    "interactive curator": (
        curator_rules(ROUNDS),
        CURATOR,
        LAST,
        _said(CURATOR.TARGET, "target", Sender.CONSUMER, 0)
        | _said(CURATOR.BIDS, "bid", Sender.AWAITED, LAST)
        | _said(CURATOR.DELIVERIES, "delivery", Sender.AWAITED, LAST),
    ),
    "witness of a split run": (
        compute_rules("witness"),
        COMPUTING,
        2,
        _COLLECTED
        | _said(COMPUTING.COLLECTING, "target-share", Sender.CONSUMER, 0)
        | _said(COMPUTING.READY, "picks-opened", Sender.CONSUMER, 4),
    ),
    "consumer of a split run": (
        compute_rules("consumer"),
        COMPUTING,
        2,
        _COLLECTED
        | _said(COMPUTING.VOTED, "envelopes", Sender.CURATOR, 3)
        | _said(COMPUTING.READY, "envelopes", Sender.CURATOR, 3),
    ),
    "consumer": (
        consumer_rules(),
        ConsumerState,
        0,
        _said(ConsumerState.WAITING, "summary", Sender.CURATOR, 0),
    ),
}
LATE = {
    "sealed curator": {"offer"},
    "curator of an auction": {"misfit", "offer"},
    "interactive curator": {"bid", "delivery"},
    "witness of a split run": {"offer-share"},
    "consumer of a split run": {"offer-share"},
}
"""What may come late: in any state, of any round."""


def _message(kind: str, number: int, sender: str = "s", receiver: str = "r", agreed: Terms = SEALED) -> Message:
    return Message(agreed.run, agreed.digest, sender, receiver, number, BODIES[kind])


@pytest.mark.parametrize("name", CASES)
def test_a_message_may_come_exactly_where_the_table_says(name: str) -> None:
    rules, states, standing, legal = CASES[name]
    seen = set()
    everywhere: list[State] = list(states)
    for state, kind, number, sender in product(everywhere, BODIES, (0, 1, 2, 3, 4, 99), Sender):
        late = sender is Sender.LATE and kind in LATE.get(name, set())
        try:
            after = rules.after(Position(state, standing), _message(kind, number), sender)
        except IllegalMessage:
            assert not late
            continue
        seen.add((state, kind, number, sender))
        assert late or (state, kind, number, sender) in legal
        assert after == (Position(state, standing) if late else Position(after.state, number))
    assert legal <= seen


def test_all_kinds_of_messages_are_tried() -> None:
    assert {kind.kind for kind in get_args(Body)} == set(BODIES)


# At the parties themselves: all that is wrong is refused wherever a run stands, and changes nothing.


def _snapshots(agreed: Terms) -> Iterator[dict[str, ChargedParty[Any]]]:
    """The parties of an honest run, before it begins and after each message."""
    made = world(agreed)
    parties: dict[str, Any] = {"curator": made.curator(), CONSUMER: made.consumer(), **made.owners()}
    yield parties
    queue = list(parties[CONSUMER].start())
    while queue:
        message = queue.pop(0)
        queue.extend(parties[message.receiver].take(message))
        yield parties


@pytest.mark.parametrize("agreed", [SEALED, AUCTIONED, ROUNDS], ids=["sealed", "auction", "interactive"])
def test_a_party_takes_what_its_table_allows_and_else_stays_where_it_is(agreed: Terms) -> None:
    tried = set()
    for parties in _snapshots(agreed):
        for name in ("a", "curator", CONSUMER):
            shell: Any = parties[name]
            party = shell.party
            if (name, party.position) in tried:
                continue
            tried.add((name, party.position))
            for kind, number, sender in product(BODIES, range(4), ("curator", CONSUMER, "b", "stranger")):
                message = _message(kind, number, sender, name, agreed)
                before = party.position
                if (sender, number, kind) in party._seen:
                    continue
                with suppress(IllegalMessage):
                    party._rules.after(before, message, party._sender(message))
                    continue  # may come, and would take the run elsewhere
                with pytest.raises(IllegalMessage):
                    shell.take(message)
                assert party.position == before
                assert not party.failed
    assert len(tried) > 5


def test_what_opens_a_run_is_what_an_owner_takes_first() -> None:
    for agreed, opening in ((SEALED, 1), (AUCTIONED, 1), (ROUNDS, 0)):
        for kind, number in product(BODIES, range(3)):
            made = world(agreed).owner("a")
            message = _message(kind, number, CONSUMER, "a", agreed)
            if (kind, number) == ("target-release", opening):
                made.take(message)
                continue
            with pytest.raises(IllegalMessage):
                made.take(message)
