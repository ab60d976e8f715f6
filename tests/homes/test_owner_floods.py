"""Floods at an owner's home: nobody fills its log, hides what matters in it, or keeps others out of the inbox."""

import gc
import json
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from home_world import (
    CONSUMER,
    Clock,
    answered,
    approve,
    cards_of,
    introduce,
    invite,
    logged,
    make_owner,
    opened,
    pin,
    secret_of,
    signed_terms,
    signed_text,
    terms,
    write_policy,
)

from likeset.errors import BadMessage, IllegalMessage, InvalidArgument, LikesetError
from likeset.homes.notify import events_of
from likeset.homes.owner import Owner
from likeset.homes.review import inbox_run, status_of
from likeset.homes.runs import Ending, Invitation, ending_document
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import MOST_TEXT, Kernel, Terms, check_foreign_limits, read_foreign


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def owner(tmp_path: Path, clock: Clock) -> Iterator[Owner]:
    with opened(make_owner(tmp_path, consumers=[CONSUMER, "other-clinic"]), clock=clock) as found:
        yield found


def let_in(owner: Owner, agreed: Terms) -> str:
    """The state of a run whose consumer asks; empty if its terms are not stored."""
    try:
        return invite(owner, agreed).state
    except LikesetError:
        return ""


def names(owner: Owner) -> list[str]:
    return [run.name for run in owner.waiting()]


# Refusals in the log.


def test_refusals_about_one_run_are_logged_a_hundred_times_a_day_and_hide_nothing_else(
    owner: Owner, clock: Clock
) -> None:
    for place in range(150):
        owner.home.refused("first", f"reason {place}")
    assert len(logged(owner.home, "refused")) == 100
    assert ["more" in entry for entry in logged(owner.home, "refused")] == [False] * 99 + [True]
    owner.home.refused("second", "another reason")
    assert logged(owner.home, "refused")[-1]["reason"] == "another reason"
    clock.now += timedelta(days=1)
    owner.home.refused("first", "on another day")
    assert len(logged(owner.home, "refused")) == 102


def test_a_full_disk_is_no_other_answer(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(owner.ledger, "append", full)
    owner.home.refused("run-1", "whatever it is")


# The inbox.


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"expires": "2020-01-01"}, "ended at 2020-01-01"),
        ({"owners": ("b", "c")}, "do not name this home's card"),
        ({"consumer": "nobody"}, "not pinned"),
    ],
)
def test_terms_of_the_past_of_others_and_by_strangers_are_not_stored(
    owner: Owner, changes: dict[str, Any], reason: str
) -> None:
    pin(owner.home, CONSUMER, "consumer")
    with pytest.raises(LikesetError, match=reason):
        owner.mail.invited(signed_terms(terms(**changes)))
    assert (owner.mail.runs(), logged(owner.home, "invited")) == ([], [])


@pytest.mark.parametrize(
    ("changes", "rules"),
    [
        ({"consumer": "nobody"}, ["consumers"]),
        ({"purpose": "Billing"}, ["purposes"]),
        ({"columns": ("age", "name")}, ["columns"]),
        ({"offer_factor": 400.0}, ["per_run.rows", "total.rows"]),
    ],
)
def test_terms_that_a_rule_forbids_are_in_the_inbox_with_the_rule_by_name(
    owner: Owner, clock: Clock, changes: dict[str, Any], rules: list[str]
) -> None:
    run = invite(owner, terms(**changes))
    assert (run.state, status_of(owner, run)) == ("invited", "your rules refuse it")
    (listed,) = [inbox_run(owner, one) for one in owner.waiting()]
    assert set(rules) <= {reason.partition(":")[0] for reason in listed["reasons"]}
    assert owner.mail.last_document(run, "out", "participation", run.consumer) is None, "the consumer hears nothing"
    (event,) = [event for _, event in events_of(owner, owner.mail, ())]
    assert (event["event"], "your rules refuse" in event["text"]) == ("waiting", True)
    clock.now += timedelta(days=400)
    assert names(owner) == []


def test_terms_that_end_soon_do_not_grow_the_log_without_bound(
    owner: Owner, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("likeset.homes.mail._MOST_A_DAY", 5)
    for place in range(10):
        let_in(owner, terms(run=f"short-{place}", expires=(clock.now + timedelta(minutes=1)).isoformat()))
        clock.now += timedelta(minutes=2)
    assert len(logged(owner.home, "invited")) == 5
    with pytest.raises(LikesetError, match="too many came today"):
        invite(owner, terms(run="one-more"))
    assert let_in(owner, terms(run="of-other", consumer="other-clinic")) == "waiting"
    clock.now += timedelta(days=1)
    assert let_in(owner, terms(run="another-day")) == "waiting"


def test_terms_beyond_a_limit_are_not_read_and_refused_ones_are_not_kept(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("likeset.homes.mail._MOST_A_DAY", 3)
    were_read = list[str]()

    def counted(text: str) -> Terms:
        were_read.append(text)
        return read_foreign(text)

    monkeypatch.setattr("likeset.homes.runs.read_foreign", counted)
    introduce(owner.home, terms())
    before = kept_terms()
    for place in range(10):  # of others, so they take no place
        with pytest.raises(LikesetError):
            owner.mail.invited(signed_text(terms(run=f"foreign-{place}", owners=("b",), quorum=1).to_json()))
    assert (len(were_read), kept_terms()) == (10, before)
    for place in range(10):
        let_in(owner, terms(run=f"flood-{place}"))
    assert len(were_read) <= 10 + 2 * 3


def kept_terms() -> int:
    gc.collect()
    return sum(isinstance(each, Terms) for each in gc.get_objects())


@pytest.mark.parametrize("by_hand", [True, False])
def test_when_rules_change_a_person_decides_about_what_they_refused(owner: Owner, *, by_hand: bool) -> None:
    folder, wide = owner.home.folder, [CONSUMER, "nobody"]
    write_policy(folder, manual_approval=by_hand)
    run, denied = invite(owner, terms(consumer="nobody")), invite(owner, terms(run="denied", consumer="nobody"))
    owner.deny("denied", by="Ada", reason="a test")
    for rules, state in ((wide, "waiting"), ([CONSUMER], "invited"), (wide, "waiting"), (wide, "waiting")):
        write_policy(folder, manual_approval=by_hand, consumers=rules)
        assert owner.mail.consider(owner.mail.reload(run)).state == state
        assert owner.mail.consider(owner.mail.reload(denied)).state == "refused", "a denial is final"
    assert logged(owner.home, "approved") == []
    assert owner.approve("run-1", run.digest.hex(), by="Ada").accepted
    assert owner.mail.consider(owner.mail.reload(run)).state == "accepted"
    assert let_in(owner, terms(run="fresh")) == ("waiting" if by_hand else "accepted")


# Terms in the database that this version refuses to read.


def test_an_approved_run_that_cannot_be_read_keeps_no_other_from_being_answered(owner: Owner, clock: Clock) -> None:
    approve(owner, terms(run="old"))
    signed = signed_text(_changed(run="old", protocol="interactive", size=12_000))
    with pytest.raises(InvalidArgument):
        Invitation.read(signed)
    with owner.home.deciding() as t:
        t.connection.execute("UPDATE runs SET signed = ? WHERE digest = ?", (signed, owner.run("old").digest))
    answered(owner, terms())
    assert status_of(owner, owner.run("old")) == "cannot be read here"
    clock.now += timedelta(days=400)
    owner.mail.tick()
    assert owner.run("old").state == "expired"


def test_terms_that_are_not_in_their_one_form_are_not_let_in(owner: Owner) -> None:
    text = json.dumps(json.loads(terms(purpose="é" * 400).to_json()), ensure_ascii=False)
    pin(owner.home, CONSUMER, "consumer")
    with pytest.raises(LikesetError, match="canonical form"):
        owner.mail.invited(signed_text(text))
    assert names(owner) == []


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


@pytest.mark.parametrize("text", UNMEANT.values(), ids=UNMEANT)
def test_terms_that_are_too_large_are_refused_by_readers_and_writers(text: str) -> None:
    signed = signed_text(text)
    for work in (lambda: Invitation.read(signed), lambda: check_foreign_limits(Terms.from_json(text))):
        with pytest.raises(InvalidArgument, match="is too large"):
            work()


def test_terms_that_are_too_long_are_refused_by_readers_and_writers() -> None:
    long = terms(columns=tuple(f"{number:0400}" for number in range(MOST_TEXT // 400)))
    with pytest.raises(BadMessage, match="too long"):
        read_foreign(long.to_json())
    with pytest.raises(BadMessage, match="too long"):
        Invitation.read(signed_terms(long))
    with pytest.raises(InvalidArgument, match="at most 131,072"):
        check_foreign_limits(long)


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
def test_words_that_a_steward_would_not_see_as_they_are_are_refused(owner: Owner, field: str, value: Any) -> None:
    signed = signed_text(_changed(**{field: value}))
    pin(owner.home, CONSUMER, "consumer")
    with pytest.raises(IllegalMessage, match=f"^signed terms: {field} "):
        owner.mail.invited(signed)
    assert owner.waiting() == []


def test_no_feature_map_is_built_before_a_run_begins(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    """2^26 numbers took two minutes and more than a gigabyte, at every look into the inbox."""
    wide = terms(kernel=Kernel(columns=1 << 10, dimension=1 << 16, gamma=0.4, seed=7))
    monkeypatch.delattr("likeset.geometry.features.FourierFeatures._draw")
    assert invite(owner, wide).state == "invited", "no data set has so many columns"
    assert approve(owner, terms(run="small")).state == "accepted"


def test_a_consumer_cannot_replace_the_run_of_another_by_its_name(tmp_path: Path) -> None:
    policy: dict[str, Any] = {"consumers": [CONSUMER, "other-clinic"], "manual_approval": False}
    with opened(make_owner(tmp_path, **policy)) as owner:
        run = invite(owner, terms())
        assert run.state == "accepted"
        assert let_in(owner, terms(consumer="other-clinic")) == "accepted"
        assert owner.mail.reload(run) == run
        assert next(each.name for each in owner.mail.runs()) == run.name == "run-1"


def test_after_many_refused_letters_no_further_one_is_stored(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("likeset.homes.mail._MOST_REFUSED_LETTERS", 2)
    outside, _ = answered(owner, terms())
    for number in range(5):
        with pytest.raises(IllegalMessage):  # and not ``TryLater``: nothing is waited for
            owner.mail.hear(outside.ask(7 + number))
    assert sum(row.state == "refused" for row in owner.mail.letters(outside.run)) == 2


def test_after_many_documents_no_further_one_is_stored(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("likeset.homes.mail._MOST_DOCUMENTS", 2)
    monkeypatch.setattr(Owner, "hear_document", lambda *_: True)
    run = invite(owner, terms())
    hear = partial(owner.mail.hear_document, secret_of(CONSUMER).card, run.digest, "progress")
    assert [hear(b"%d" % number, place=("", str(number))) for number in range(4)] == [True, True, False, False]
    assert sum(row.post == "progress" for row in owner.mail.letters(run)) == 2


def test_a_document_of_more_than_a_megabyte_is_neither_parsed_nor_stored(owner: Owner) -> None:
    run = invite(owner, terms())
    hear = partial(owner.mail.hear_document, secret_of(CONSUMER).card, run.digest, "ending")
    assert not hear(ending_document(Ending.CANCELLED, "x" * (1 << 20)), place=("", "0"))
    assert owner.mail.reload(run).state != "cancelled"
    assert not [row for row in owner.mail.letters(run) if row.post == "ending"]
    assert hear(ending_document(Ending.CANCELLED, "x" * 1000), place=("", "1"))
    assert owner.mail.reload(run).state == "cancelled"
