"""Owners of a split run who lie: each is refused or found out, logged, and costs others nothing."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from lying_offers import AGREED, LIAR, NEAR, Parts, bytes_of, carried, check_left_out, sending, shared_by
from protocol_world import CONSUMER
from shared_run_world import Told, carry_shares, secret_of, shared_run, split_run

from likeset.protocol.split import BareRecords, offer_context, offer_shape
from likeset.protocol.wire import Message, OfferShare
from likeset.tables.scan import FetchedRows
from likeset.trust import shares
from likeset.trust.shares import OfferPart, Words, share_offer, split_words, words_in


def forged(monkeypatch: pytest.MonkeyPatch, step: str, forger: Any) -> Parts:
    """The liar's offer, with one step of its making done otherwise; all other owners stay honest."""
    with monkeypatch.context() as patched:
        patched.setattr(shares, step, forger)
        return shared_by()


def test_the_liar_in_these_tests_would_be_bought_from_if_it_were_honest() -> None:
    told = carried(shared_by())
    summary = told.consumer.party.summary
    assert summary is not None
    assert (summary.owners == 1).sum() >= 1


def test_shares_that_do_not_belong_to_the_records() -> None:
    """The program sees rows like the target, the envelopes hold others: the checksum of what was picked tells."""
    told = carried(shared_by(sold=NEAR + np.float32(1.0)))
    check_left_out(told, "does not make the row that was computed on", bought=_others_bought(told))


@pytest.mark.parametrize("number", [2.0**21, 3.0e38])
def test_records_with_numbers_that_nobody_could_share(number: float) -> None:
    """They are left out like any other lie: the rows that honest owners sold are bought all the same."""
    told = carried(shared_by(sold=np.full_like(NEAR, number)))
    check_left_out(told, "holds no record as declared", bought=_others_bought(told))


def _others_bought(told: Told) -> int:
    summary = told.consumer.party.summary
    assert summary is not None
    assert 0 < len(summary.rows) < AGREED.size  # the liar's picks are left out, and not made up for
    return len(summary.rows)


def test_a_record_sold_twice() -> None:
    """Two slots, one row and one handle: the second pick is left out."""
    both = np.concatenate([NEAR[:1], NEAR[:1]])
    run = shared_run(AGREED)
    run.data["a"] += 3.0
    run.data["c"] += 3.0  # so that both slots are picked
    summary = carried(shared_by(seen=both, sold=both, handles=(7, 7)), run).consumer.party.summary
    assert summary is not None
    assert (summary.owners == 1).sum() == 1
    assert summary.flagged.tolist() == [1]
    assert "bought already" in str(summary.reasons[0])


def test_envelopes_that_their_owner_swapped_after_it_signed_its_list() -> None:
    shared = shared_by()
    size = offer_shape(AGREED).envelope_bytes
    part = shared["curator"]
    swapped = part.envelopes[size : 2 * size] + part.envelopes[:size] + part.envelopes[2 * size :]
    told = carried({**shared, "curator": dataclasses.replace(part, envelopes=swapped)})
    assert "not those that the owner committed to" in told.faults("curator")[LIAR]
    assert "curator acknowledged no part" in told.faults(CONSUMER)[LIAR]
    check_left_out(told, "acknowledged no part")


def test_envelopes_that_their_owner_swapped_before_it_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key is made for its slot: what was sealed for another one does not open."""
    honest = shares.seal_record

    def swapped(record: bytes, *, slot: int, **more: Any) -> bytes:
        return honest(record, slot=slot ^ 1, **more)

    told = carried(forged(monkeypatch, "seal_record", swapped))
    check_left_out(told, "does not open", bought=_others_bought(told))


def test_a_wrong_r(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shares add up to another r than the list commits to: whatever was picked does not open, and that shows."""

    def other_r(words: Words) -> tuple[Words, ...]:
        changed = words.copy()
        changed[:, -1] ^= np.uint64(1)
        return split_words(changed)

    told = carried(forged(monkeypatch, "split_words", other_r))
    check_left_out(told, "is not the one of the owner's list", bought=_others_bought(told))


def test_a_valid_bit_that_is_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """No slot but one whose bit is exactly 1 is ever picked."""

    def doubled(words: Words) -> tuple[Words, ...]:
        words[:, offer_shape(AGREED).columns] *= np.uint64(2)
        return split_words(words)

    summary = carried(forged(monkeypatch, "split_words", doubled)).consumer.party.summary
    assert summary is not None
    assert 1 not in summary.owners
    assert len(summary.rows) == AGREED.size


@pytest.mark.parametrize("honest_record", [True, False])
def test_a_row_far_out_of_range(*, honest_record: bool) -> None:
    """It never counts, though everything that does is picked."""
    far = NEAR * np.float32(1e5)
    run = shared_run(split_run(size=12, offer_factor=3.0))
    run.data = {name: data[:3] for name, data in run.data.items()}  # fewer rows than picks: everything is picked
    agreed = run.terms
    records = BareRecords(3).encode(
        FetchedRows(far if honest_record else NEAR, np.empty(0)), np.array([1, 2], dtype=np.uint64)
    )
    shared = share_offer(
        secret_of(LIAR),
        context=offer_context(agreed, LIAR),
        shape=offer_shape(agreed),
        rows=far,
        records=records,
    )
    summary = carry_shares(run, tamper=sending(shared, agreed=agreed)).consumer.party.summary
    assert summary is not None
    assert sorted(summary.owners.tolist()) == [0, 0, 0, 2, 2, 2]
    assert not summary.flagged.size


def test_an_owner_that_repeats_another_ones_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """It got them from a compute party. Which of the two copied is not told: both are left out, and that is logged."""
    run = shared_run(AGREED)
    release = next(message for message in run.consumer().start() if message.receiver == "a")
    parts = [OfferPart.from_bytes(message.body.part.tobytes()) for message in run.owner("a").take(release)]  # type: ignore[union-attr]
    copied = tuple(words_in(part.share, width=offer_shape(AGREED).width) for part in parts)
    told = carried(forged(monkeypatch, "split_words", lambda *_: copied), run)
    for name in (CONSUMER, "curator", "witness"):
        assert {LIAR, "a"} == set(told.faults(name))
        assert all("repeats" in reason for reason in told.faults(name).values())
    summary = told.consumer.party.summary
    assert summary is not None
    assert set(summary.owners.tolist()) == {2}
    assert summary.flagged.tolist() == [0, 1]


def test_an_owner_that_sends_another_ones_parts_as_its_own() -> None:
    run = shared_run(AGREED)
    release = next(message for message in run.consumer().start() if message.receiver == "a")
    stolen = {message.receiver: message.body for message in run.owner("a").take(release)}

    def lie(message: Message) -> list[Message]:
        return [dataclasses.replace(message, body=stolen[message.receiver]) if message.sender == LIAR else message]

    told = carry_shares(run, tamper=lie)
    assert "another owner" in told.faults("witness")[LIAR]
    check_left_out(told, "another owner")


def test_shares_that_differ_between_parties() -> None:
    """Two offers, each sound by itself: no party sees it alone, the receipts together tell."""
    first, second = shared_by(), shared_by()
    told = carried({**first, "witness": second["witness"]})
    for name in (CONSUMER, "curator", "witness"):
        assert "different lists" in told.faults(name)[LIAR]
    check_left_out(told, "different lists")


def test_parts_that_are_for_another_party_or_nothing_at_all() -> None:
    shared = shared_by()
    for data in (shared["consumer"].to_bytes(), b"", b"\0" * 1000):

        def lie(message: Message, data: bytes = data) -> list[Message]:
            wrong = message.sender == LIAR and message.receiver == "witness"
            return [dataclasses.replace(message, body=OfferShare(part=bytes_of(data))) if wrong else message]

        told = carry_shares(shared_run(AGREED), tamper=lie)
        assert "a part that is not used" in told.faults("witness")[LIAR]
        assert told.consumer.party.summary is not None
        assert 1 not in told.consumer.party.summary.owners
