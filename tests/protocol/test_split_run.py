"""A split run: the same rows as with a trusted curator, whoever comes late, stays away or is started again."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from protocol_world import CONSUMER, QuickLedger, ledger_on_disk
from shared_run_world import GAMMA, Told, carry_shares, clear_picks, secret_of, shared_run, split_run

from likeset.errors import IllegalMessage, InvalidArgument
from likeset.geometry.kernels import squared_mmd
from likeset.geometry.selection import Selection
from likeset.ledger.ledger import Ledger
from likeset.privacy.events import Relation
from likeset.privacy.guarantee import View
from likeset.protocol import split as split_owner
from likeset.protocol.party import ComputeState
from likeset.protocol.split import make_compute_party, make_curator, make_owner, most_part_bytes, offer_shape
from likeset.protocol.wire import Message, Summary, decode, encode
from likeset.tables.scan import MemoryScan


def summary_of(told: Told) -> Summary:
    assert told.refused == []
    summary: Summary | None = told.consumer.party.summary
    assert summary is not None
    return summary


def test_the_rows_bought_are_those_that_greedy_takes_from_all_that_owners_have() -> None:
    """Each owner offers all its rows, so greedy in the clear over all rows of all owners picks the same."""
    agreed = split_run(offer_factor=9.0)
    run = shared_run(agreed)
    summary = summary_of(carry_shares(run))
    assert offer_shape(agreed).slots == 12
    pool = np.concatenate([run.data[name] for name in agreed.owners])
    expected = Selection(gamma=GAMMA, swaps=0).select(pool, run.target, agreed.size)
    assert np.array_equal(summary.rows, pool[expected.indices])
    assert summary.owners.tolist() == [index // 12 for index in expected.indices]
    assert summary.squared_mmds == pytest.approx(expected.squared_mmds, abs=1e-6)
    assert summary.gains == pytest.approx(expected.gains, abs=1e-6)
    assert summary.rows_seen == 36
    assert len(summary.absent) == len(summary.flagged) == 0
    assert math.isnan(summary.held_out_error)


def test_everybody_ends_settled_knows_the_others_workers_and_owners_find_their_rows() -> None:
    run = shared_run(split_run())
    told = carry_shares(run)
    summary = summary_of(told)
    for name in (CONSUMER, "curator", "witness"):
        assert told.parties[name].party.finished
        others = {"curator", "consumer", "witness"} - {told.parties[name].party.role}
        assert told.parties[name].party.reaches == {role: f"{role}'s worker".encode() for role in others}
    for row, place, handle in zip(summary.rows, summary.owners, summary.handles, strict=True):
        name = run.terms.owners[place]
        number = told.parties[name].party.row_of(int(handle))
        assert np.array_equal(run.data[name][number], row)


def test_rows_can_be_weighed_at_home() -> None:
    run = shared_run(split_run(), selection=Selection(weighted=True))
    summary = summary_of(carry_shares(run))
    assert summary.weights.sum() == pytest.approx(1.0)
    plain = squared_mmd(summary.rows, run.target, gamma=GAMMA)
    assert squared_mmd(summary.rows, run.target, gamma=GAMMA, weights=summary.weights) <= plain + 1e-9


LABELS = {
    "whole numbers": np.arange(12) - 3,
    "numbers": np.linspace(-1.0, 2.0, 12),
    "texts": np.array([f"class é{number}" for number in range(12)]),
    "truth values": np.arange(12) % 2 == 0,
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_come_back_with_their_rows(kind: str) -> None:
    labels = dict.fromkeys(("a", "b", "c"), LABELS[kind])
    run = shared_run(split_run(), labels=labels)
    told = carry_shares(run)
    summary = summary_of(told)
    assert summary.labels.dtype.kind == LABELS[kind].dtype.kind
    for label, place, handle in zip(summary.labels, summary.owners, summary.handles, strict=True):
        name = run.terms.owners[place]
        assert label == labels[name][told.parties[name].party.row_of(int(handle))]


def test_rows_whose_labels_are_of_another_kind_than_most_are_left_out_and_their_owner_named() -> None:
    labels = {"a": np.arange(12), "b": np.arange(12), "c": np.array(["x"] * 12)}
    run = shared_run(split_run(size=12, offer_factor=3.0), labels=labels)
    summary = summary_of(carry_shares(run))
    assert 2 not in summary.owners
    assert summary.flagged.tolist() == [2]
    assert "another kind" in str(summary.reasons[0])


def test_a_label_too_long_for_a_record_keeps_its_owner_away_before_anything_is_charged() -> None:
    ledger = QuickLedger()
    run = shared_run(split_run(), ledger, labels={"a": np.array(["x" * 257] * 12)})
    told = carry_shares(run)
    assert [name for name, _ in told.refused] == ["a"]
    assert "shorten" in told.refused[0][1]
    assert not any("a/shared-offer" in key for key in ledger.answers)
    summary: Summary | None = told.consumer.party.summary
    assert summary is not None
    assert summary.absent.tolist() == [0]


def test_an_owner_with_fewer_rows_than_slots_sends_as_many_bytes() -> None:
    few, many = shared_run(split_run()), shared_run(split_run())
    few.data["b"] = few.data["b"][:1]
    lengths = []
    for run in (few, many):
        told = carry_shares(run)
        assert told.consumer.party.summary is not None
        shares = [message for message in map(decode, told.heard["witness"]) if message.sender == "b"]
        lengths.append([len(encode(message)) for message in shares])
    assert lengths[0] == lengths[1] == lengths[0][:1]


def test_the_bytes_that_were_told_beforehand_are_enough_and_not_many_more() -> None:
    agreed = split_run()
    told = carry_shares(shared_run(agreed))
    names = [CONSUMER, "curator", "witness"]
    sent = {
        name: next(len(message.body.part) for message in map(decode, told.heard[name]) if message.sender == "b")  # type: ignore[union-attr]
        for name in names
    }
    bounds = dict(zip(("curator", CONSUMER, "witness"), most_part_bytes(agreed), strict=False))
    for name in names:
        assert sent[name] <= bounds[name] <= sent[name] + 1024


def test_fewer_valid_rows_than_picks_give_a_shorter_summary() -> None:
    run = shared_run(split_run(size=12, offer_factor=3.0))
    run.data = {name: data[:2] for name, data in run.data.items()}
    assert len(summary_of(carry_shares(run)).rows) == 6


def test_an_owner_who_says_nothing_is_absent_and_the_others_are_computed_on() -> None:
    run = shared_run(split_run())
    del run.data["b"]
    summary = summary_of(carry_shares(run))
    assert summary.absent.tolist() == [1]
    assert summary.rows_seen == 8
    assert 1 not in summary.owners


def test_too_few_owners_end_the_run_before_anything_is_computed() -> None:
    run = shared_run(split_run(quorum=3))
    del run.data["b"]
    told = carry_shares(run)
    assert told.consumer.party.summary is None
    assert any("2 of 3 owners took part" in words for _, words in told.refused)


@pytest.mark.parametrize("lost", [("curator",), ("witness",), (CONSUMER,)])
def test_a_part_that_one_compute_party_never_gets_leaves_its_owner_out_everywhere(lost: tuple[str, ...]) -> None:
    run = shared_run(split_run())
    told = carry_shares(
        run, tamper=lambda message: [] if message.sender == "b" and message.receiver in lost else [message]
    )
    summary = summary_of(told)
    assert 1 not in summary.owners
    assert summary.rows_seen == 8
    if lost != (CONSUMER,):
        assert lost[0] in told.faults(CONSUMER)["b"]
        assert "acknowledged no part" in told.faults(CONSUMER)["b"]


def test_a_part_that_comes_late_is_not_used() -> None:
    run = shared_run(split_run())
    kept: list[Message] = []

    def delayed(message: Message) -> list[Message]:
        if message.sender == "b":
            kept.append(message)
            return []
        return [message]

    told = carry_shares(run, tamper=delayed)
    for message in kept:
        assert told.parties[message.receiver].take(message) == ()
        assert told.parties[message.receiver].party.late == 1
    assert told.consumer.party.summary is not None


@pytest.mark.parametrize("order", range(6))
def test_parts_receipts_and_votes_may_overtake_each_other(order: int) -> None:
    """Letters of different senders come in any order, those of one sender in theirs; the rows are the same."""
    expected = summary_of(carry_shares(shared_run(split_run())))
    run = shared_run(split_run())
    parties = run.parties()
    coins = np.random.default_rng(order)
    lines: dict[tuple[str, str], list[Message]] = {}

    def post(said: Any) -> None:
        for message in said:
            lines.setdefault((message.sender, message.receiver), []).append(message)

    post(parties[CONSUMER].start())
    while any(lines.values()):
        chosen = sorted(pair for pair in lines if lines[pair])
        message = lines[chosen[coins.integers(len(chosen))]].pop(0)
        post(parties[message.receiver].take(message))
    computing = [parties[name] for name in (CONSUMER, "curator", "witness")]
    assert all(shell.party.is_ready for shell in computing)
    parties[CONSUMER].opened(clear_picks({shell.party.role: shell.party.inputs() for shell in computing}))
    summary = parties[CONSUMER].party.summary
    assert np.array_equal(summary.rows, expected.rows)


def test_each_party_made_anew_and_told_the_same_says_the_same() -> None:
    """Whatever it heard before a crash brings it to where it was, and to the same bytes."""
    run = shared_run(split_run())
    first = carry_shares(run)
    again = run.parties()
    started = [message.data for message in again[CONSUMER].start()]
    assert started == [message.data for message in first.consumer.start()]
    for name, heard in first.heard.items():
        replies = [reply.data for data in heard for reply in again[name].take(decode(data))]
        repeated = [reply.data for data in heard for reply in first.parties[name].take(decode(data))]
        assert replies == repeated
        if name not in run.terms.owners and name != CONSUMER:
            assert again[name].party.position == first.parties[name].party.position
    assert again[CONSUMER].party.position.state is ComputeState.READY


def test_an_offer_is_charged_before_its_shares_are_drawn_and_drawn_shares_are_sent_again() -> None:
    agreed = split_run()
    with ledger_on_disk(agreed) as ledger:
        run = shared_run(agreed, ledger)
        release = next(message for message in run.consumer().start() if message.receiver == "a")
        first = run.owner("a").take(release)
        assert len(first) == 3
        again = run.owner("a").take(release)
        assert [message.data for message in again] == [message.data for message in first]
        assert _offered(ledger) == agreed.rows_per_owner


def test_a_crash_while_shares_are_drawn_costs_once_and_nothing_had_left(monkeypatch: pytest.MonkeyPatch) -> None:
    agreed = split_run()

    def interrupted(*_: Any, **__: Any) -> Any:
        raise RuntimeError("killed")

    with ledger_on_disk(agreed) as ledger:
        run = shared_run(agreed, ledger)
        release = next(message for message in run.consumer().start() if message.receiver == "a")
        with monkeypatch.context() as patched:
            patched.setattr(split_owner, "share_offer", interrupted)
            with pytest.raises(RuntimeError):
                run.owner("a").take(release)
        assert _offered(ledger) == agreed.rows_per_owner
        assert len(run.owner("a").take(release)) == 3
        assert _offered(ledger) == agreed.rows_per_owner


def _offered(ledger: Ledger) -> int:
    return next(account.rows for account in ledger.accounts() if account.view == View.curator("a"))


def test_the_size_of_a_protected_target_may_be_another_than_declared() -> None:
    agreed = split_run(relation=Relation.ADD_OR_REMOVE, offers="uniform")
    run = shared_run(agreed)
    run.target = run.target[:20]
    assert len(summary_of(carry_shares(run)).rows) == agreed.size


def test_a_target_beyond_the_range_of_the_terms_is_refused_at_home() -> None:
    run = shared_run(split_run())
    run.target[0, 0] = 31.0
    with pytest.raises(InvalidArgument, match="scale it down"):
        run.consumer()


def test_rows_beyond_the_range_of_the_terms_are_no_rows_of_the_run() -> None:
    run = shared_run(split_run(offer_factor=9.0))
    run.data["a"][:6] = 31.0
    told = carry_shares(run)
    summary_of(told)
    assert told.parties["a"].party.rows_disclosed == 6


def test_a_row_that_would_not_count_keeps_its_owner_away_before_anything_is_charged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ledger = QuickLedger()
    monkeypatch.setattr(split_owner, "largest_word", lambda _: 0)
    told = carry_shares(shared_run(split_run(), ledger))
    assert "would not count" in told.refused[0][1]
    assert not any("shared-offer" in key for key in ledger.answers)


def test_parties_of_a_trusted_run_are_not_those_of_a_split_one() -> None:
    run, secret = shared_run(split_run()), secret_of("a")
    trusted = replace(run.terms, split=None)
    with pytest.raises(IllegalMessage, match="split curator"):
        make_curator(run.terms, noise=run.consumer().party._noise, fold_key=11)
    with pytest.raises(IllegalMessage, match="card"):
        make_owner(run.terms, "a", scan=MemoryScan(run.data["a"], None), key=1)
    with pytest.raises(IllegalMessage, match="trusted"):
        make_compute_party(trusted, "curator", secret=secret_of("curator"), cards=run.cards)
    with pytest.raises(IllegalMessage, match="target"):
        make_compute_party(run.terms, "consumer", secret=secret_of(CONSUMER), cards=run.cards)
    with pytest.raises(InvalidArgument, match="card"):
        make_owner(run.terms, "b", scan=MemoryScan(run.data["b"], None), key=1, secret=secret)
    with pytest.raises(InvalidArgument, match="card"):
        make_compute_party(run.terms, "curator", secret=secret, cards=run.cards)


def test_shares_are_forgotten_when_asked() -> None:
    told = carry_shares(shared_run(split_run()))
    witness = told.parties["witness"].party
    assert witness._parts
    assert witness._target is not None
    witness.forget()
    assert not witness._parts
    assert witness._target is None
