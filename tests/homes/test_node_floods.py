"""Floods at a node: nobody fills the log, hides what matters in it, or keeps others out of the inbox."""

import base64
import hashlib
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from card_world import cards_of, signed_terms, signed_text
from node_world import Clock, approve, call, hear, invite, logged, make_node, terms, write_policy

from likeset.errors import BadMessage, IllegalMessage, InvalidArgument, LikesetError
from likeset.homes.mail import Invitation
from likeset.homes.owner_node import OwnerNode
from likeset.homes.review import status_of
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import MOST_TEXT, Kernel, Terms, check_meant, read_foreign_canonical
from likeset.protocol.wire import Asked, Message, encode


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def node(tmp_path: Path, clock: Clock) -> Iterator[OwnerNode]:
    with OwnerNode(make_node(tmp_path, consumers=["new-clinic", "other-clinic"]), clock=clock) as opened:
        yield opened


def nobody(node: OwnerNode, count: int, *, start: int = 0) -> None:
    """Messages of runs that nobody knows, each with a reason of its own."""
    for place in range(start, start + count):
        with pytest.raises(IllegalMessage):
            node.take(call(terms(run=f"run-of-nobody-{place}")))


# What is written down of refusals.


def test_what_is_alike_is_written_down_a_few_times_a_day_and_then_counted(node: OwnerNode, clock: Clock) -> None:
    for _ in range(50):
        assert hear(node, b"nonsense") == "abstains"
    assert len(logged(node, "refused")) == 20
    assert "counted only" in logged(node, "refused")[-1]["more"]
    assert [one["count"] for one in logged(node, "refused-more")] == [1, 1, 2, 4, 8]
    clock.now += timedelta(days=1)
    assert hear(node, b"nonsense") == "abstains"
    assert len(logged(node, "refused")) == 21
    assert sum(one["count"] for one in logged(node, "refused-more")) == 30, "the rest is told when the day is over"
    assert {(one["day"], one["account"]) for one in logged(node, "refused-more")} == {("2029-03-05", "site")}


def test_a_flood_of_different_refusals_is_counted_and_another_day_is_another_day(
    node: OwnerNode, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("likeset.homes.owner_node._MOST_A_DAY", 30)
    nobody(node, 50)
    assert len(logged(node, "refused")) == 30
    assert "counted only" in logged(node, "refused")[-1]["more"]
    clock.now += timedelta(days=1)
    nobody(node, 2, start=50)
    assert len(logged(node, "refused")) == 32
    node.close()
    with OwnerNode(node.home.folder, clock=clock) as again:
        assert sum(one["count"] for one in logged(again, "refused-more")) == 20


def test_what_was_only_counted_is_told_when_the_node_closes(
    node: OwnerNode, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("likeset.homes.owner_node._MOST_A_DAY", 3)
    nobody(node, 10)
    assert sum(one["count"] for one in logged(node, "refused-more")) == 4
    node.close()
    with OwnerNode(node.home.folder, clock=clock) as again:
        assert [one["count"] for one in logged(again, "refused-more")] == [1, 1, 2, 3]
        nobody(again, 1, start=10)
        assert len(logged(again, "refused")) == 3, "a new process knows what the log holds of today"


def test_a_flood_of_strangers_hides_nothing_about_an_approved_run_or_from_the_site(
    node: OwnerNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("likeset.homes.owner_node._MOST_A_DAY", 10)
    real = terms(run="real")
    approve(node, real)
    nobody(node, 20)
    known = len(logged(node, "refused"))
    hear(node, encode(Message(real.run, real.digest, CURATOR, "a", 2, Asked(asked=True))))
    with pytest.raises(IllegalMessage):
        node.take(call(terms(run="real", size=5)))
    node.refused("a call that does not come from the curator's server")
    assert [one["account"] for one in logged(node, "refused")[known:]] == ["run real", "run real", "site"]


def test_a_flood_about_one_approved_run_hides_nothing_about_another(
    node: OwnerNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("likeset.homes.owner_node._MOST_OF_RUN", 5)
    for name in ("first", "second"):
        approve(node, terms(run=name))
    for place in range(2, 12):
        hear(node, encode(call(terms(run="first"), round_number=place)))
    hear(node, encode(call(terms(run="second"), round_number=7)))
    accounts = [one["account"] for one in logged(node, "refused")]
    assert accounts == [*["run first"] * 5, "run second"]
    assert {one["account"] for one in logged(node, "refused-more")} == {"run first"}


# What is kept of invitations.


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"consumer": "nobody"}, "consumer nobody is not among"),
        ({"purpose": "Billing"}, "the purpose is not among"),
        ({"expires": "2020-01-01"}, "the terms ended on 2020-01-01"),
        ({"columns": ("age", "name")}, "columns that may not leave by owner.yaml: 'name'"),
        ({"offer_factor": 400.0}, "rows in one run: 1,200 are asked for, 36 are allowed"),
        ({"owners": ("b", "c")}, "do not invite a"),
    ],
)
def test_of_forbidden_terms_only_the_digest_is_kept_and_nothing_is_computed(
    node: OwnerNode, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], reason: str
) -> None:
    monkeypatch.delattr("likeset.homes.owner_node.costs_of")
    run = terms(**changes)
    assert invite(node, run) == "abstains"
    (said,) = logged(node, "refused")
    assert reason in said["reason"]
    assert run.digest in said["reason"]
    assert (logged(node, "invited"), node.runs.by_name) == ([], {})


def test_what_the_steward_puts_there_is_kept_to_be_looked_at(node: OwnerNode, clock: Clock) -> None:
    forbidden = terms(consumer="nobody")
    assert invite(node, forbidden, by_steward=True) == "abstains"
    assert status_of(node, "run-1") == "owner.yaml refuses it"
    assert [one.run for one in node.waiting()] == ["run-1"]
    clock.now += timedelta(days=400)
    assert node.waiting() == []


def test_forbidden_terms_do_not_grow_the_log(node: OwnerNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("likeset.homes.owner_node._MOST_A_DAY", 10)
    for place in range(100):
        invite(node, terms(run=f"junk-{place}", columns=("x" * 500,) * 120, consumer="nobody"))
    assert sum(len(entry.body) for entry in node.ledger.entries()) < 20_000


def test_forbidden_and_expired_terms_take_nobodys_place(
    node: OwnerNode, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("likeset.homes.owner_node._MOST_WAITING", 3)
    monkeypatch.setattr("likeset.homes.owner_node._MOST_VERSIONS", 3)
    for place in range(4):
        invite(node, terms(run=f"j{place}", consumer="nobody"))
        invite(node, terms(run="sepsis-2026", purpose=f"Nothing {place}", consumer="nobody"))
        invite(node, terms(run=f"soon-over-{place}", expires="2029-03-06"))
    assert invite(node, terms(run="sepsis-2026")) == "abstains", "three that are allowed do wait"
    clock.now += timedelta(days=2)
    assert invite(node, terms(run="sepsis-2026")) == "waiting"
    write_policy(node.home.folder, "a", consumers=["other-clinic"])
    for place in range(3):
        assert invite(node, terms(run=f"o{place}", consumer="other-clinic")) == "waiting"


def test_one_consumer_does_not_crowd_out_another(node: OwnerNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("likeset.homes.owner_node._MOST_WAITING_OF_ONE", 3)
    monkeypatch.setattr("likeset.homes.owner_node._MOST_VERSIONS", 3)
    for place in range(5):
        invite(node, terms(run=f"many-{place}"))
        invite(node, terms(run="many-0", purpose=f"Research {place}"))
    assert len(node.runs.waiting()) == 3
    assert len(node.runs.by_name["many-0"].versions) == 3
    other = terms(run="many-0", consumer="other-clinic")
    assert invite(node, other) == "waiting"
    assert invite(node, terms(run="of-other", consumer="other-clinic")) == "waiting"


def test_terms_that_end_soon_do_not_grow_the_log_without_bound(
    node: OwnerNode, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("likeset.homes.owner_node._MOST_A_DAY_OF_ONE", 5)
    for place in range(10):
        invite(node, terms(run=f"short-{place}", expires=(clock.now + timedelta(minutes=1)).isoformat()))
        clock.now += timedelta(minutes=2)
    assert len(logged(node, "invited")) == 5
    assert "too many terms came today" in logged(node, "refused")[-1]["reason"]
    assert invite(node, terms(run="of-other", consumer="other-clinic")) == "waiting"
    clock.now += timedelta(days=1)
    assert invite(node, terms(run="another-day")) == "waiting"


def test_a_flood_does_not_shut_out_the_steward_who_takes_nobodys_place(
    node: OwnerNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WAITING_OF_ONE", "VERSIONS", "A_DAY_OF_ONE"):
        monkeypatch.setattr(f"likeset.homes.owner_node._MOST_{name}", 3)
    for place in range(5):
        invite(node, terms(run="mine-0", purpose=f"Research {place}"), by_steward=True)
        invite(node, terms(run=f"mine-{place + 1}"), by_steward=True)
    assert len(logged(node, "invited")) == 10
    assert invite(node, terms(run="mine-0")) == "waiting", "what the steward added does not count"
    for place in range(5):
        invite(node, terms(run=f"flood-{place}"))
    assert len(logged(node, "invited")) == 13
    true = Invitation.read(signed_terms(terms(run="true")))
    assert node.add_invitation(true)
    assert not node.add_invitation(true), "it is known already"
    assert node.standing("true") == "waiting"


# Terms that are in the log, and that this likeset refuses to read.


def let_in_before(node: OwnerNode, run: str, *, unsigned: bool = False) -> str:
    """Terms in the log that nobody can read any more; returns their digest."""
    text = _changed(run=run, protocol="interactive", size=12_000)
    signed = signed_text(text)
    with pytest.raises(InvalidArgument):
        Invitation.read(signed)
    digest = hashlib.sha256(text.encode()).hexdigest()
    if unsigned:
        node.note("invited", run, digest=digest, terms=text)
    else:
        encoded = base64.b64encode(signed).decode()
        node.note("invited", run, digest=digest, consumer="new-clinic", card="", signed=encoded)
    return digest


@pytest.mark.parametrize("withdrawn", [False, True])
def test_an_approved_run_that_cannot_be_read_keeps_no_other_from_being_answered(
    node: OwnerNode, withdrawn: bool
) -> None:
    node.note("approved", "old", digest=let_in_before(node, "old"), by="Ada", data="patients")
    if withdrawn:
        node.withdraw("old", by="Ada")
    approve(node, terms())
    assert isinstance(hear(node, encode(call(terms()))), list)
    assert status_of(node, "old") == ("withdrawn" if withdrawn else "cannot be read here")
    assert node.standing("old") == "abstains"


@pytest.mark.parametrize("unsigned", [False, True])
def test_a_waiting_run_that_cannot_be_read_keeps_no_other_out_and_can_be_denied(
    node: OwnerNode, unsigned: bool
) -> None:
    """Such as one that came before terms were signed."""
    let_in_before(node, "old", unsigned=unsigned)
    assert invite(node, terms()) == "waiting"
    assert [record.run for record in node.waiting()] == ["old", "run-1"]
    node.deny("old", by="Ada", reason="nobody can read it")
    assert [record.run for record in node.waiting()] == ["run-1"]
    assert status_of(node, "old") == "denied"


def test_terms_that_are_not_in_their_one_form_are_not_let_in_by_a_steward_either(node: OwnerNode) -> None:
    text = json.dumps(json.loads(terms(purpose="é" * 400).to_json()), ensure_ascii=False)
    with pytest.raises(LikesetError, match="canonical form"):
        node.add_invitation(Invitation.read(signed_text(text)))
    assert node.waiting() == []


# What is read of terms.


def _changed(part: str | None = None, **changes: Any) -> str:
    document = json.loads(terms().to_json())
    (document[part] if part else document).update(changes)
    document["cards"] = cards_of(document["consumer"], CURATOR, *document["owners"])
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


UNMEANT = {
    "owners": _changed(owners=[f"o{place}" for place in range(1025)]),
    "rounds": _changed(protocol="interactive", size=10_001),
    "auctions": _changed(
        owners=list("abcdefghij"),
        protocol="interactive",
        size=1_001,
        auction="threshold",
        auction_epsilon=1.0,
        auction_offset=5,
    ),
    "feature map": _changed("kernel", columns=1 << 14, dimension=1 << 14),
}


@pytest.mark.parametrize(("name", "number"), [("offer_factor", 1e9), ("size", 1_000_001)])
def test_numbers_out_of_range_are_refused_by_nodes_and_terms_of_ones_own(name: str, number: float) -> None:
    change: dict[str, Any] = {name: number}
    text = _changed(**change)
    signed = signed_text(text)
    for read in (
        lambda: Invitation.read(signed),
        lambda: Terms.from_json(text),
        lambda: terms(**change),
    ):
        with pytest.raises(InvalidArgument, match=f"{name} = 1.*must be at most 1"):
            read()


@pytest.mark.parametrize("text", UNMEANT.values(), ids=UNMEANT)
def test_what_nobody_can_mean_is_refused_by_readers_and_writers(text: str) -> None:
    signed = signed_text(text)
    for work in (lambda: Invitation.read(signed), lambda: check_meant(Terms.from_json(text))):
        with pytest.raises(InvalidArgument, match=r"more than anybody can mean|too large a feature map"):
            work()


def test_terms_that_are_too_long_are_refused_by_readers_and_writers() -> None:
    long = terms(columns=tuple(f"{number:0400}" for number in range(MOST_TEXT // 400)))
    with pytest.raises(BadMessage, match="too long"):
        read_foreign_canonical(long.to_json())
    with pytest.raises(BadMessage, match="too long"):
        Invitation.read(signed_terms(long))
    with pytest.raises(InvalidArgument, match="at most 131,072"):
        check_meant(long)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("purpose", "research, " + " " * 500 + "and to train anything"),  # the end of which nobody would be shown
        ("purpose", "half \ud83d"),
        ("columns", ["age", "\ud800"]),
        ("columns", ["x" * 501]),
        ("expires", "2029-06-01\x1b12:00"),
        ("expires", "2029-06-01\u202e12:00"),
    ],
)
def test_words_that_a_steward_would_not_see_as_they_are_are_refused(node: OwnerNode, field: str, value: Any) -> None:
    signed = signed_text(_changed(**{field: value}))
    with pytest.raises(InvalidArgument) as refused:
        node.add_invitation(Invitation.read(signed))
    assert refused.value.argument == field
    assert node.waiting() == []


def test_no_feature_map_is_built_before_a_run_begins(node: OwnerNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """2^26 numbers took two minutes and more than a gigabyte, at every look into the inbox."""
    wide = terms(kernel=Kernel(columns=1 << 10, dimension=1 << 16, gamma=0.4, seed=7))
    monkeypatch.delattr("likeset.geometry.features.FourierFeatures._draw")
    assert invite(node, wide) == "abstains", "no data set has so many columns"
    approve(node, terms(run="small"))
    assert node.standing("small") == "ready"


@pytest.mark.parametrize(("dimension", "seed", "name"), [(15, 7, "dimension"), (16, 1 << 256, "seed")])
def test_what_a_feature_map_would_refuse_is_refused_with_the_terms(dimension: int, seed: int, name: str) -> None:
    with pytest.raises(InvalidArgument, match=name):
        Kernel(columns=5, dimension=dimension, gamma=0.4, seed=seed)


def test_an_owner_that_is_named_twice_is_found_among_many() -> None:
    """By a few comparisons of each name; with each other one it would be 180,000."""
    compared = 0

    class Counted(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

    names = [f"o{place}" for place in range(600)]
    with pytest.raises(InvalidArgument, match="o77"):
        terms(owners=tuple(map(Counted, [*names, "o77"])))
    assert compared < 10 * len(names)
