"""Every attack that we have a name for, in one place: refused by the other side, written down there, and free.

| attack | on an owner | on the curator | on the consumer |
|---|---|---|---|
| an unknown owner | here | here | here |
| a replayed job, or message | here | here | here |
| terms that changed after approval | here | here | here |
| an oversized message | here | by mailbox | here |
| records that are none | is sent none | here | ``test_declared_records.py`` |
| more rows than the terms say | here | here | here |
| more rounds than the terms say | here | here | hears one message |
| a second release or answer for a round | here | here | here |

Who writes a letter, for whom, in which run and under which terms is tried in ``test_owner_letter_attacks.py``; here an
owner has heard by letter what it is told. An owner writes into its audit log, a curator into its report and the
summary, a consumer into its file of reasons.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from node_world import (
    NOON,
    SCHEMA_OF_ALL,
    Clock,
    NodeResident,
    approve,
    call,
    charged,
    hear,
    invite,
    logged,
    make_node,
    script,
    terms,
)
from owner_letters import Outside, make_home

from chance import public_coins
from likeset.errors import LikesetError
from likeset.geometry.offers import Drawing
from likeset.homes import review
from likeset.homes.home import Abstains
from likeset.homes.mail import ConsumerRun, ConsumerShell, Correspondence, CuratorShell
from likeset.homes.owner_node import OwnerNode
from likeset.ledger.budget import Limit
from likeset.ledger.ledger import Ledger
from likeset.privacy.events import Relation
from likeset.privacy.guarantee import View
from likeset.privacy.noise import SimulatedNoise
from likeset.protocol.party import CURATOR
from likeset.protocol.sealed import Consumer, SealedCurator
from likeset.protocol.terms import Terms
from likeset.protocol.wire import Asked, Message, Offer, Summary, TargetRelease, encode
from likeset.tables.records import DeclaredRecords
from likeset.transports.local import LocalEngine

LATER = "2099-01-01"  # sites have a real clock
AGREED = terms(run="agreed", expires=LATER)
BEGUN = terms(run="begun", expires=LATER)
ROUNDS = terms(run="rounds", expires=LATER, protocol="interactive", size=3)
WAITING = terms(run="waiting", expires=LATER)
OVER = terms(run="over", expires=LATER)
ENDED = terms(run="ended", expires="2020-01-01")
CHANGED = terms(run="agreed", expires=LATER, offer_factor=5.0)
STRANGE = terms(run="strange", expires=LATER, owners=("b", "c"))
GREEDY = terms(run="greedy", expires=LATER, offer_factor=400.0)
NEVER_SENT = terms(run="agreed", expires=LATER, size=5)
JOB = (AGREED, BEGUN, ROUNDS, WAITING, OVER, ENDED, CHANGED, STRANGE, GREEDY)


@dataclass(frozen=True)
class Owner:
    """An owner's whole side, behind whoever opens its letters."""

    node: OwnerNode

    def hear(self, data: bytes) -> list[bytes] | Abstains:
        """What it answers, in a job that came a moment ago."""
        return hear(self.node, data, job=JOB)

    def state(self) -> tuple[object, ...]:
        """What was charged, what left, and what the log says that was sent."""
        left = [message.data for message in review.messages_that_left(self.node)]
        return charged(self.node), left, logged(self.node, "sent")

    def refusals(self) -> list[str]:
        """Reasons in the audit log."""
        return [entry["reason"] for entry in logged(self.node, "refused")]


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Owner]:
    """One run is approved, one has begun, one is at its end, one waits, one was withdrawn."""
    place = tmp_path_factory.mktemp("owner")
    limits: dict[str, Any] = {"per_run": {"epsilon": 0, "rows": 36}, "total": {"epsilon": 0, "rows": 99}}
    folder = make_node(place, **limits)
    with OwnerNode(folder, clock=Clock(NOON.replace(year=2019))) as earlier:
        approve(earlier, ENDED)
    with OwnerNode(folder) as node:
        for run in (AGREED, BEGUN, ROUNDS, OVER):
            approve(node, run)
        invite(node, WAITING)
        invite(node, CHANGED)
        for run in (BEGUN, ROUNDS, OVER):
            for message in script(run):
                assert isinstance(hear(node, encode(message), job=JOB), list)
        node.withdraw("over", by="Ada")
        yield Owner(node)


def _beyond(run: Terms) -> list[Message]:
    return script(run, rounds=run.size + 1)[-2:]


ON_AN_OWNER: dict[str, tuple[Message | bytes, str]] = {
    "unknown owner: terms that do not invite it": (call(STRANGE), "they do not invite a"),
    "unknown owner: a message for another": (call(AGREED, owner="b"), "is for b, not for a"),
    "unknown sender: another owner": (replace(call(AGREED), sender="b"), "and from the consumer"),
    "unknown run": (call(terms(run="never", expires=LATER)), "did not come with this job"),
    "replayed job: withdrawn": (call(OVER), "run over was withdrawn"),
    "replayed job: ended": (call(ENDED), "the terms of run ended ended at 2020-01-01"),
    "replayed message: in another run": (replace(call(BEGUN), run="agreed"), "never came here"),
    "changed terms: waiting for a decision": (call(CHANGED), "nobody at this site has decided yet"),
    "changed terms: never sent": (call(NEVER_SENT), "did not come with this job"),
    "changed terms: under the approved digest": (
        replace(call(CHANGED), terms=AGREED.digest, round=2),
        "may not come now",
    ),
    "not approved": (call(WAITING), "nobody at this site has decided yet"),
    "oversized message": (call(AGREED, release=np.zeros(1 << 20)), "more than the"),
    "oversized message: no message at all": (public_coins(1).bytes(1 << 23), "more than the"),
    "more rows: terms beyond the policy": (call(GREEDY), "rows in one run: 1,200 are asked for, 36 are allowed"),
    "more rows: asked once more": (
        Message("begun", BEGUN.digest, CURATOR, "a", 2, Asked(asked=True)),
        "may not come now",
    ),
    "more rounds: a release": (_beyond(ROUNDS)[0], "may not come now: the terms foresee 3 rounds"),
    "more rounds: asked": (_beyond(ROUNDS)[1], "may not come now: the terms foresee 3 rounds"),
    "second release: of the target": (call(BEGUN, release=np.full(16, 0.2)), "another one came in its place before"),
    "second release: of the target, in rounds": (
        call(ROUNDS, release=np.full(16, 0.2)),
        "another one came in its place before",
    ),
    "second answer of the curator": (
        Message("rounds", ROUNDS.digest, CURATOR, "a", 2, Asked(asked=False)),
        "another one came in its place before",
    ),
}


@pytest.mark.parametrize(("sent", "reason"), ON_AN_OWNER.values(), ids=ON_AN_OWNER)
def test_an_owner_refuses_logs_and_pays_nothing(owner: Owner, sent: Message | bytes, reason: str) -> None:
    state, known = owner.state(), len(owner.refusals())
    assert owner.hear(sent if isinstance(sent, bytes) else encode(sent)) == "abstains"
    (said,) = owner.refusals()[known:]
    assert reason in said
    assert owner.state() == state


def test_a_run_that_begins_again_gets_the_bytes_that_left_and_costs_nothing(owner: Owner) -> None:
    """Also from a new process, for which everything that is in memory is gone."""
    state = owner.state()
    with OwnerNode(owner.node.home.folder) as fresh:
        for run in (BEGUN, ROUNDS):
            answers = [hear(fresh, encode(message), job=JOB) for message in script(run)]
            sent = [data for answer in answers for data in answer if isinstance(data, bytes)]
            assert sent == [message.data for message in review.messages_that_left(fresh, run.run)]
    assert owner.state() == state


def test_an_owner_that_would_send_more_rows_than_the_terms_say_sends_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the protocol's own part does: here it draws 13 rows where the terms say 12."""
    run = terms()
    monkeypatch.setattr(
        "likeset.protocol.sealed.draw_offer",
        lambda _, scan, __, *, key: scan.draw(Drawing(run.rows_per_owner + 1, key))[0],
    )
    with OwnerNode(make_node(tmp_path), clock=Clock()) as node:
        approve(node, run)
        assert hear(node, encode(call(run))) == "abstains"
        assert "more rows would leave than the 12 that the terms allow" in logged(node, "refused")[-1]["reason"]
        assert (review.messages_that_left(node), logged(node, "sent")) == ([], [])


# The curator.

Lie = Callable[[Message], Sequence[Message]]


@dataclass
class LyingNode(NodeResident):
    """Says something else than the node would."""

    lie: Lie = field(default=lambda message: [message])

    def take(self, message: Message) -> tuple[Message, ...]:
        (answer,) = super().take(message)
        return tuple(self.lie(answer))


def _offer(message: Message, **changes: Any) -> list[Message]:
    assert isinstance(message.body, Offer)
    return [replace(message, body=replace(message.body, **changes))]


def _more(message: Message) -> list[Message]:
    body = message.body
    assert isinstance(body, Offer)
    rows = np.vstack([body.rows, body.rows[:1]])
    return _offer(
        message, rows=rows, handles=np.arange(13, dtype=np.uint64), labels=np.append(body.labels, body.labels[0])
    )


def _changed(message: Message) -> Message:
    """Another answer in the place of the first."""
    assert isinstance(message.body, Offer)
    return _offer(message, handles=message.body.handles[::-1].copy())[0]


ON_THE_CURATOR: dict[str, tuple[Lie, str]] = {
    "unknown owner": (lambda one: [replace(one, sender="c")], "b spoke in another party's name"),
    "in another owner's name": (lambda one: [replace(one, sender="a")], "b spoke in another party's name"),
    "replayed: from another run": (lambda one: [replace(one, run="run-0")], "is of run run-0, not of run-1"),
    "changed terms": (lambda one: [replace(one, terms="0" * 64)], "was made under other terms"),
    "more rows": (_more, "sent 13 rows where at most 12 were asked for"),
    "records that are none": (
        lambda one: _offer(one, records=np.frombuffer(public_coins(3).bytes(5000), dtype=np.uint8)),
        "sent records that are not as the schema declares",
    ),
    "another round": (lambda one: [replace(one, round=2)], "may not come now"),
    "a second answer": (lambda one: [one, _changed(one)], "b sent 2 messages where at most 1 may come"),
}


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, OwnerNode]]:
    place = tmp_path_factory.mktemp("nodes")
    with (
        OwnerNode(make_node(place, "a"), clock=Clock()) as first,
        OwnerNode(make_node(place, "b", seed=2), clock=Clock()) as second,
    ):
        for node in (first, second):
            approve(node, terms())
        yield {"a": first, "b": second}


@pytest.mark.parametrize(("lie", "reason"), ON_THE_CURATOR.values(), ids=ON_THE_CURATOR)
def test_a_curator_refuses_says_why_and_goes_on_with_the_others(
    nodes: dict[str, OwnerNode], tmp_path: Path, lie: Lie, reason: str
) -> None:
    run = terms()
    with _ledger(tmp_path / "curator.sqlite", run) as ledger:
        consumer = _consumer(run, ledger)
        declared = DeclaredRecords(SCHEMA_OF_ALL)
        curator = CuratorShell(SealedCurator(run, noise=SimulatedNoise(3), fold_key=11, declared=declared), ledger)
        owners = {"a": NodeResident(nodes["a"], []), "b": LyingNode(nodes["b"], [], lie=lie)}
        result = LocalEngine(workers=1, clock=lambda: NOON).run(curator, owners, consumer)
    summary = result.summary
    assert len(summary.rows) == run.size
    said = [*result.failures.values(), *summary.reasons.tolist()]
    assert any(reason in one for one in said), said
    assert 1 not in summary.owners
    assert {*summary.absent.tolist(), *summary.flagged.tolist()} == {1}


def _ledger(path: Path, run: Terms) -> Ledger:
    ledger = Ledger(path)
    for name in (*run.owners, run.consumer):
        ledger.set_limit(View.owners(name), Limit(100.0, 1e-5, Relation.REPLACE_ONE, 0, ("simulated", "unbounded")))
    return ledger


def _consumer(run: Terms, ledger: Ledger) -> ConsumerShell:
    target = public_coins(9).random((run.target_size, run.kernel.columns), dtype=np.float32)
    return ConsumerShell(Consumer(run, target=target, noise=SimulatedNoise(3)), ledger)


# The consumer.


def _summary(rows: int = 6, *, value: float = 0.5, owner: int = 0) -> Summary:
    ones = np.ones(rows)
    return Summary(
        rows=np.full((rows, SCHEMA_OF_ALL.width), value, dtype=np.float32),
        labels=np.empty(0),
        owners=np.full(rows, owner, dtype=np.int64),
        handles=np.arange(rows, dtype=np.uint64),
        weights=ones / rows,
        gains=ones,
        squared_mmds=ones,
        absent=np.empty(0, dtype=np.int64),
        flagged=np.empty(0, dtype=np.int64),
        reasons=np.empty(0, dtype=str),
        rows_seen=rows,
    )


def _told(body: Any, **changes: Any) -> Message:
    message = Message(AGREED.run, AGREED.digest, CURATOR, AGREED.consumer, 0, body)
    return replace(message, **changes)


ON_THE_CONSUMER: dict[str, tuple[Message | bytes, str]] = {
    "unknown owner among the rows": (_told(_summary(owner=2)), "its parts do not fit together"),
    "from an owner": (_told(_summary(), sender="a"), "is not what its letter says"),
    "replayed: of another run": (_told(_summary(), run="begun"), "is not what its letter says"),
    "changed terms": (_told(_summary(), terms=CHANGED.digest), "is not what its letter says"),
    "oversized message": (public_coins(4).bytes(200_001), "larger than a letter may be"),
    "more rows": (_told(_summary(7)), "its parts do not fit together"),
    "another message": (_told(TargetRelease(release=np.zeros(16))), "nothing but the curator's summary"),
    "another round": (_told(_summary(), round=1), "nothing but the curator's summary"),
}


@dataclass
class Seated:
    """A consumer in its home, and a curator who writes to it."""

    make: Callable[[], ConsumerRun]
    outside: Outside
    acceptances: list[bytes]
    consumer: ConsumerShell
    kept: list[bytes]

    def hear(self, sent: Message | bytes) -> tuple[bytes, ...]:
        """What the consumer answers to a letter in which the curator says this, or to these bytes."""
        return self.make().hear(sent if isinstance(sent, bytes) else self.outside.ask(sent))


@pytest.fixture
def seated(tmp_path: Path) -> Iterator[Seated]:
    kept: list[bytes] = []
    outside = Outside(tmp_path, AGREED)
    accepting = Correspondence(make_home(tmp_path / "a", "a", AGREED), outside.invitation, "a")
    acceptances = [accepting.acceptance(), outside.curator.acceptance()]
    with _ledger(tmp_path / "consumer.sqlite", AGREED) as ledger:
        consumer = _consumer(AGREED, ledger)

        def make() -> ConsumerRun:
            return ConsumerRun(outside.consumer, consumer, 200_000, keep=kept.append)

        assert make().begin(acceptances)
        yield Seated(make, outside, acceptances, consumer, kept)


@pytest.mark.parametrize(("sent", "reason"), ON_THE_CONSUMER.values(), ids=ON_THE_CONSUMER)
def test_a_consumer_refuses_says_why_and_takes_nothing(seated: Seated, sent: Message | bytes, reason: str) -> None:
    with pytest.raises(LikesetError, match=re.escape(reason)):
        seated.hear(sent)
    assert (seated.consumer.party.summary, seated.kept) == (None, [])
    assert seated.hear(_told(_summary())) == ()
    assert len(seated.kept) == 1


def test_a_consumer_keeps_to_its_first_summary(seated: Seated) -> None:
    assert seated.hear(_told(_summary())) == ()
    with pytest.raises(LikesetError, match="another one came in its place before"):
        seated.hear(_told(_summary(value=0.6)))
    assert len(seated.kept) == 1


def test_a_run_that_begins_again_gets_the_same_release_of_the_target_for_one_charge(seated: Seated) -> None:
    first = seated.make().begin(seated.acceptances)
    assert first == seated.make().begin(seated.acceptances)
