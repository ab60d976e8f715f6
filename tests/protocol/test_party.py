"""Which message may come when: every state, kind, round and sender, in the tables and at the parties themselves."""

import ast
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields, replace
from itertools import product
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from protocol_world import CONSUMER, THRESHOLD, CountingNoise, World, ledger_on_disk, terms, world

import likeset.protocol
from likeset.errors import BudgetExceeded, IllegalMessage, PartyFailed, QuorumMissed
from likeset.ledger import budget
from likeset.ledger.budget import Charge, Limit, Request
from likeset.privacy.events import Unbounded, View
from likeset.privacy.noise import Integers
from likeset.protocol.party import (
    COMPUTE_RULES,
    CONSUMER_RULES,
    ComputeState,
    ConsumerState,
    CuratorState,
    OwnerState,
    Position,
    Rules,
    Sender,
    State,
    curator_rules,
    owner_rules,
)
from likeset.protocol.terms import Terms
from likeset.protocol.wire import Blob, Body, Handles, Labels, Matrix, Message, Numbers, Offer, Vector, encode
from likeset.transports.local import ChargedParty

SEALED, AUCTIONED = terms(), terms(**THRESHOLD)
ROUNDS = terms(protocol="interactive", size=2)
LAST = ROUNDS.size

_CONTENTS: dict[Any, Any] = {
    **{Matrix: np.zeros((1, 3), np.float32), Vector: np.zeros(16), Labels: np.empty(0), Blob: np.empty(0, np.uint8)},
    **{Handles: np.zeros(1, np.uint64), Numbers: np.empty(0, np.int64), float: 1.0, int: 1, bool: False},
}
BODIES: dict[str, Body] = {
    body.kind: body(**{declared.name: _CONTENTS[declared.type] for declared in fields(body)}) for body in get_args(Body)
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
CASES: dict[str, tuple[Rules, type[State], int, Legal]] = {
    # Rules, states, the round in which the party stands, and all that may come then.
    "sealed owner": (owner_rules(SEALED), OWNER, 0, _said(OWNER.INVITED, "target-release", Sender.CONSUMER, 1)),
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
        COMPUTE_RULES["witness"],
        COMPUTING,
        2,
        _COLLECTED
        | _said(COMPUTING.COLLECTING, "target-share", Sender.CONSUMER, 0)
        | _said(COMPUTING.READY, "picks-opened", Sender.CONSUMER, 4),
    ),
    "consumer of a split run": (
        COMPUTE_RULES["consumer"],
        COMPUTING,
        2,
        _COLLECTED
        | _said(COMPUTING.VOTED, "envelopes", Sender.CURATOR, 3)
        | _said(COMPUTING.READY, "envelopes", Sender.CURATOR, 3),
    ),
    "consumer": (CONSUMER_RULES, ConsumerState, 0, _said(ConsumerState.WAITING, "summary", Sender.CURATOR, 0)),
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


def _call(made: World) -> Message:
    return made.first_words(made.curator())[0]


def test_a_step_names_its_charge_and_has_no_replies_before_its_end() -> None:
    made = world(terms())
    owner, call = made.owner("a").party, _call(made)
    step = owner.receive(call)
    wanted = step.charge
    assert wanted is not None
    assert step.replies == ()
    costs = ((View.curator("a"), Unbounded("rows are seen by the curator")),)
    assert wanted.charge == Charge(costs, made.terms.rows_per_owner)
    assert wanted.asked == Request("run-1", 1, "a/offer", encode(call))
    assert wanted.repeatable
    data, release = wanted.draw()
    assert release is None
    end = step.go_on(data)
    assert end.charge is None
    assert [encode(reply) for reply in end.replies] == [data]


def test_what_is_said_is_what_was_kept_and_not_what_was_drawn_now() -> None:
    made = world(terms())
    owner, call = made.owner("a").party, _call(made)
    offer = Offer(np.zeros((1, 3), np.float32), np.empty(0), np.ones(1, np.uint64))
    kept = Message("run-1", made.terms.digest, "a", "curator", 1, offer)
    (reply,) = owner.receive(call).go_on(encode(kept)).replies
    assert encode(reply) == encode(kept)
    assert owner.rows_disclosed == 1


# How a party fails.


def _refuses_everything(party: Any, *messages: Message) -> None:
    assert party.failed
    for message in messages:
        with pytest.raises(PartyFailed, match="rebuild it from the log"):
            party.receive(message)


def test_a_party_whose_charge_is_refused_says_nothing_more() -> None:
    agreed = terms()
    with ledger_on_disk(agreed) as ledger:
        ledger.set_limit(View.curator("a"), Limit.rows_only(1))
        made = world(agreed, ledger)
        owner, call = made.owner("a"), _call(made)
        with pytest.raises(BudgetExceeded):
            owner.take(call)
        _refuses_everything(owner.party, call, replace(call, round=7))
        ledger.set_limit(View.curator("a"), Limit.rows_only(1000))
        with pytest.raises(PartyFailed):
            owner.take(call)
        assert len(made.owner("a").take(call)) == 1


class _NoNoise(CountingNoise):
    """Its machine goes down."""

    def discrete_gaussian(self, sigma: float, size: int) -> Integers:
        del sigma, size
        raise KeyboardInterrupt

    def discrete_laplace(self, scale: float, size: int) -> Integers:
        del scale, size
        raise KeyboardInterrupt


def test_a_party_whose_draw_is_lost_says_nothing_more() -> None:
    made = world(terms())
    made.noise = _NoNoise()
    consumer = made.consumer()
    with pytest.raises(KeyboardInterrupt):
        consumer.start()
    assert consumer.party.failed
    with pytest.raises(PartyFailed):
        consumer.start()


def test_the_next_message_while_a_step_is_open_ends_it() -> None:
    made = world(terms())
    owner, call = made.owner("a").party, _call(made)
    step = owner.receive(call)
    assert not owner.failed
    with pytest.raises(PartyFailed, match="before the end of a step"):
        owner.receive(call)
    _refuses_everything(owner, call)
    assert step.charge is not None
    with pytest.raises(PartyFailed):
        step.go_on(step.charge.draw()[0])


@pytest.mark.parametrize("which", ["ended", "gone on"])
def test_a_step_goes_on_once(which: str) -> None:
    made = world(terms())
    owner, call = made.owner("a").party, _call(made)
    step = owner.receive(call)
    assert step.charge is not None
    data, _ = step.charge.draw()
    end = step.go_on(data)
    with pytest.raises(PartyFailed):
        (end if which == "ended" else step).go_on(data)


def test_a_curator_that_missed_its_quorum_is_done_for() -> None:
    made = world(terms(quorum=2))
    curator = made.curator()
    target, *_ = made.consumer().start()
    curator.take(target)
    curator.give_up("a")
    curator.give_up("b")
    with pytest.raises(QuorumMissed):
        curator.give_up("c")
    _refuses_everything(curator.party, target)


MODULES = [*sorted(Path(likeset.protocol.__file__).parent.glob("*.py")), Path(budget.__file__)]
FORBIDDEN = {
    *("likeset.ledger.ledger", "likeset.ledger.sqlite_file", "likeset.files", "likeset.documents", "likeset.homes"),
    *("likeset.transports", "sqlite3", "pathlib", "os", "io", "tempfile", "time", "socket", "subprocess", "threading"),
    *("multiprocessing", "asyncio", "concurrent", "secrets", "random", "logging", "urllib"),
}
"""Modules with which a party could reach the world, or meet it by chance."""


@pytest.mark.parametrize("path", MODULES, ids=[path.stem for path in MODULES])
def test_the_protocol_and_the_budgets_that_it_names_import_nothing_that_reaches_the_world(path: Path) -> None:
    imported: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported |= {f"{node.module}.{alias.name}" for alias in node.names}
    assert [name for name in imported for bad in FORBIDDEN if f"{name}.".startswith(f"{bad}.")] == []
