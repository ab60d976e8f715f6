"""Who lied, as a third party finds it from what was signed: liars of every kind, and nobody who did not lie."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from offer_world import (
    CARDS,
    CLASSES,
    LAYOUT,
    OTHER_OWNER,
    OWNER,
    PARTIES,
    READER,
    RECORDS,
    ROWS,
    SHAPE,
    evidence,
    offer,
    record,
)
from trust_world import flipped

from likeset.errors import BadDocument
from likeset.trust import shared_offers
from likeset.trust.blame import BlameVerdict, Ruling, blame, signed_two_lists
from likeset.trust.row_shares import Words, slot_words, split_words
from likeset.trust.shared_offers import SharedOffer
from likeset.trust.slot_evidence import OfferEvidence

HONEST = offer()
SLOT, OTHER_SLOT = (int(slot) for slot in HONEST.slot_of_row[:2])


def decide(shown: OfferEvidence, **changes: Any) -> BlameVerdict:
    content: dict[str, Any] = {"owner": OWNER.card, "parties": CARDS, "layout": LAYOUT, "reader": READER}
    return blame(shown, **(content | changes))


def changed_words(monkeypatch: pytest.MonkeyPatch, change: Callable[[Words], None]) -> SharedOffer:
    """The offer of an owner whose shares add up to something else than its records say."""

    def lying(*arguments: Any, **named: Any) -> Words:
        words = slot_words(*arguments, **named)
        change(words)
        return words

    monkeypatch.setattr(shared_offers, "slot_words", lying)
    return offer()


def _another_row(words: Words) -> None:
    words[0, 0] += np.uint64(1)


def _packed(words: Words) -> None:
    words[0, 0] += words[2, 0] << np.uint64(32)


def _far_out(words: Words) -> None:
    words[0, 1] = np.uint64(1) << np.uint64(50)


def _two_classes(words: Words) -> None:
    words[0, LAYOUT.label] = 1


def _valid_is_two(words: Words) -> None:
    words[0, LAYOUT.valid] = 2


def _emptied(words: Words) -> None:
    words[0, LAYOUT.valid] = 0


@pytest.mark.parametrize(
    ("change", "ruling"),
    [
        (_another_row, Ruling.WORDS),
        (_packed, Ruling.WORDS),
        (_far_out, Ruling.WORDS),
        (_two_classes, Ruling.WORDS),
        (_emptied, Ruling.WORDS),
        (_valid_is_two, Ruling.VALID),
    ],
)
def test_shares_that_do_not_belong_to_the_record(
    change: Callable[[Words], None], ruling: Ruling, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = changed_words(monkeypatch, change)
    slot = int(shared.slot_of_row[0])
    assert decide(evidence(shared, slot)) == BlameVerdict(ruling, ("owner",), (slot,))
    untouched = int(shared.slot_of_row[2])
    assert decide(evidence(shared, untouched)).ruling is Ruling.CONSISTENT


def test_a_record_with_numbers_that_nobody_could_share() -> None:
    far = record(11, int(CLASSES[0]), np.full(3, 1e30, dtype=np.float32))
    shared = offer(records=[far, *RECORDS[1:]])
    slot = int(shared.slot_of_row[0])
    assert decide(evidence(shared, slot)) == BlameVerdict(Ruling.RECORD, ("owner",), (slot,))


def test_a_wrong_r(monkeypatch: pytest.MonkeyPatch) -> None:
    def lying(words: Words) -> tuple[Words, ...]:
        words[:, -1] += np.uint64(1)
        return split_words(words)

    monkeypatch.setattr(shared_offers, "split_words", lying)
    shared = offer()
    assert decide(evidence(shared, 0)) == BlameVerdict(Ruling.RANDOM, ("owner",), (0,))


def test_shares_that_one_party_got_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each party's share is as committed, and their sum is no row: the owner gave one of them something else."""

    def lying(words: Words) -> tuple[Words, ...]:
        *others, last = split_words(words)
        return (*others, last[::-1].copy())

    monkeypatch.setattr(shared_offers, "split_words", lying)
    assert decide(evidence(offer(), 0)) == BlameVerdict(Ruling.RANDOM, ("owner",), (0,))


def test_envelopes_that_the_owner_swapped(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = shared_offers._sealed
    monkeypatch.setattr(shared_offers, "_sealed", lambda *records, **named: honest(*records, **named)[::-1])
    shown = evidence(offer(), 0)
    assert decide(shown) == BlameVerdict(Ruling.SEAL, ("owner",), (0,))
    unopened = dataclasses.replace(shown, slots=(dataclasses.replace(shown.slots[0], openings=()),))
    assert decide(unopened).at_fault == ("owner",)  # nobody needs to open a share for that


def test_an_envelope_that_holds_no_record() -> None:
    shared = offer(records=[b"no record", *RECORDS[1:]])
    slot = int(shared.slot_of_row[0])
    assert decide(evidence(shared, slot)) == BlameVerdict(Ruling.RECORD, ("owner",), (slot,))


def test_a_record_sold_twice() -> None:
    shared = offer(
        rows=ROWS[[0, 0, 2, 3]], classes=CLASSES[[0, 0, 2, 3]], records=[RECORDS[0], RECORDS[0], *RECORDS[2:]]
    )
    first, second = sorted(int(slot) for slot in shared.slot_of_row[:2])
    assert decide(evidence(shared, first, second)) == BlameVerdict(Ruling.SOLD_TWICE, ("owner",), (first, second))
    assert decide(evidence(shared, first)).ruling is Ruling.CONSISTENT


def test_two_rows_that_are_alike_are_no_lie() -> None:
    twin = record(99, 0, ROWS[0])
    shared = offer(rows=ROWS[[0, 0]], classes=CLASSES[[0, 0]], records=[RECORDS[0], twin])
    assert decide(evidence(shared, *map(int, shared.slot_of_row))).at_fault == ()


@pytest.mark.parametrize("slot", range(SHAPE.slots))
def test_nobody_can_be_blamed_for_an_honest_offer(slot: int) -> None:
    assert decide(evidence(HONEST, slot)) == BlameVerdict(Ruling.CONSISTENT, (), (slot,))


@pytest.mark.parametrize("role", PARTIES)
def test_whoever_signed_and_does_not_open_is_at_fault(role: Any) -> None:
    """A witness that denies what it got; a curator that withholds an envelope; a consumer that hides K."""
    shown = evidence(HONEST, SLOT, without=[role])
    assert decide(shown) == BlameVerdict(Ruling.PENDING, (), (SLOT,), (role,))
    assert decide(shown, silent=frozenset({role})) == BlameVerdict(Ruling.UNOPENED, (role,), (SLOT,))
    unsigned = dataclasses.replace(shown, receipts=tuple(one for one in shown.receipts if one.role != role))
    assert decide(unsigned, silent=frozenset({role})).at_fault == ()


def test_silence_of_somebody_who_opened_is_none() -> None:
    everybody = frozenset(PARTIES)
    assert decide(evidence(HONEST, SLOT), silent=everybody).at_fault == ()


def test_invented_openings_envelopes_and_keys_count_as_none() -> None:
    """Whoever makes up what another is to show gets nobody blamed."""
    shown = evidence(HONEST, SLOT)
    (slot,) = shown.slots
    curator, consumer, witness = slot.openings
    forged = dataclasses.replace(witness, share=flipped(witness.share, 3))
    cases: dict[Any, OfferEvidence] = {
        "witness": dataclasses.replace(shown, slots=(dataclasses.replace(slot, openings=(curator, consumer, forged)),)),
        "curator": dataclasses.replace(shown, slots=(dataclasses.replace(slot, envelope=flipped(slot.envelope, 3)),)),
        "consumer": dataclasses.replace(shown, key=bytes(32)),
    }
    for role, false in cases.items():
        assert decide(false) == BlameVerdict(Ruling.PENDING, (), (SLOT,), (role,))
    wrong = dataclasses.replace(slot, random=bytes(32))
    assert decide(dataclasses.replace(shown, slots=(wrong,))).ruling is Ruling.CONSISTENT


def test_evidence_travels_as_bytes() -> None:
    shown = evidence(HONEST, SLOT, OTHER_SLOT)
    assert OfferEvidence.from_bytes(shown.to_bytes()) == shown
    for bit in range(0, 8 * len(shown.to_bytes()), 997):
        try:
            changed = OfferEvidence.from_bytes(flipped(shown.to_bytes(), bit))
            verdict = decide(changed)
        except BadDocument:
            continue
        assert verdict.at_fault == ()


def test_evidence_about_something_else_proves_nothing() -> None:
    shown, other = evidence(HONEST, SLOT), evidence(offer(), SLOT)
    for false in (
        dataclasses.replace(shown, offer_list=other.offer_list),
        dataclasses.replace(shown, receipts=other.receipts),
        dataclasses.replace(shown, slots=other.slots),
        dataclasses.replace(shown, slots=(dataclasses.replace(shown.slots[0], slot=OTHER_SLOT),)),
        dataclasses.replace(shown, slots=shown.slots * 2),
        dataclasses.replace(shown, slots=()),
    ):
        with pytest.raises(BadDocument, match="evidence"):
            decide(false)
    with pytest.raises(BadDocument, match="not signed by the owner"):
        decide(shown, owner=OTHER_OWNER.card)
    with pytest.raises(BadDocument, match="other compute parties"):
        decide(shown, parties={**CARDS, "witness": OTHER_OWNER.card})


def test_two_lists_for_one_run_are_the_owners_fault() -> None:
    first, second = HONEST.offer_list, offer().offer_list
    assert signed_two_lists(first, second, OWNER.card)
    assert not signed_two_lists(first, first, OWNER.card)
    assert not signed_two_lists(first, offer(OTHER_OWNER).offer_list, OWNER.card)
