"""Words, shares and offers in parts: what each compute party gets, checks and signs for, what the consumer opens."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy import stats
from trust_world import TERMS, flipped, party

from chance import examples
from likeset.errors import BadDocument, InvalidArgument
from likeset.trust.cards import CardSecret
from likeset.trust.shares import (
    ComputeRole,
    Lists,
    OfferContext,
    OfferFault,
    OfferList,
    OfferPart,
    OfferShape,
    PickedSlot,
    PickFault,
    Roster,
    Words,
    check_part,
    envelope_bytes,
    fixed_point,
    joined_shares,
    open_envelope,
    open_picks,
    seal_record,
    share_offer,
    split_words,
    word_bytes,
    words_in,
)

IMPOSSIBLE = 1e-9
WORDS = fixed_point(np.full((1000, 63), 0.5))
"""Rows that are all alike: what is not hidden shows."""


def least_probability(share: Words) -> float:
    """Of chi-square tests that the bytes at each of the eight places of a word are uniform; times their number."""
    data = np.frombuffer(word_bytes(share), dtype=np.uint8).reshape(-1, 8)
    return 8 * min(float(stats.chisquare(np.bincount(data[:, place], minlength=256)).pvalue) for place in range(8))


def test_every_share_is_uniform() -> None:
    """63,000 words of equal rows: each place of a byte, of each party, passes a test of level 1e-9."""
    for share in split_words(WORDS):
        assert least_probability(share) > IMPOSSIBLE


def test_every_word_but_the_last_partys_comes_from_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def counted(count: int) -> bytes:
        asked.append(count)
        return bytes(count)

    monkeypatch.setattr(os, "urandom", counted)
    first, second, last = split_words(WORDS)
    assert asked == [WORDS.nbytes, WORDS.nbytes]
    assert not first.any()
    assert not second.any()
    assert np.array_equal(last, WORDS)


@given(arrays(np.uint64, (3, 4), elements=st.integers(0, 2**64 - 1)))
@settings(max_examples=examples(30))
def test_shares_add_up(words: Words) -> None:
    shares = split_words(words)
    assert len(shares) == 3
    assert np.array_equal(joined_shares(shares), words)
    assert all(np.array_equal(words_in(word_bytes(share), width=4), share) for share in shares)


def test_numbers_are_words_in_two_s_complement() -> None:
    """-1.5 is 2^64 - 98304 in 16 bits of fraction."""
    assert fixed_point(np.array([[0.5, -1.5]])).tolist() == [[32768, 2**64 - 98304]]


@given(st.floats(-1000, 1000))
def test_fixed_point_is_off_by_half_a_step_at_most(number: float) -> None:
    word = fixed_point(np.array([[number]])).view(np.int64)[0, 0]
    assert abs(word * 2.0**-16 - number) <= 2.0**-17


@pytest.mark.parametrize("number", [2.0**20 + 1, np.inf, np.nan])
def test_what_cannot_be_shared_is_refused(number: float) -> None:
    with pytest.raises(InvalidArgument, match=r"^rows"):
        fixed_point(np.array([[number]]))


def test_lines_that_are_cut_are_no_words() -> None:
    with pytest.raises(BadDocument, match="lines of 2"):
        words_in(bytes(24), width=2)


Parts = Mapping[ComputeRole, OfferPart]

OWNER, OTHER_OWNER = party("owner"), party("another-owner")
PARTIES: dict[ComputeRole, CardSecret] = {
    "curator": party("curator"),
    "consumer": party("consumer"),
    "witness": party("witness"),
}
CARDS = {role: secret.card for role, secret in PARTIES.items()}
SHAPE = OfferShape(columns=3, slots=6, record_bytes=40)
ROWS = np.array([[0.25, -1.0, 0.5], [0.0, 1.0, 0.125], [1.0, 0.75, -0.5], [-0.25, 0.5, 0.0]], dtype=np.float32)
HANDLES = np.array([11, 12, 13, 14], dtype=np.uint64)
FACTORS: Words = np.arange(3, 9, 2, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)


def context_of(secret: CardSecret = OWNER) -> OfferContext:
    fingerprints = [secret.card.fingerprint for secret in PARTIES.values()]
    return OfferContext(TERMS, secret.card.fingerprint, tuple(fingerprints))


def record(handle: int, row: NDArray[Any]) -> bytes:
    """Handle and row, as ``read_plain`` reads them."""
    return bytes([handle]) + np.asarray(row, dtype="<f4").tobytes()


RECORDS = [record(int(handle), row) for handle, row in zip(HANDLES, ROWS, strict=True)]


def read_plain(records: Sequence[bytes]) -> tuple[NDArray[np.bool_], NDArray[np.float32], NDArray[np.uint64]]:
    sound = np.array([len(data) == 13 for data in records], dtype=np.bool_)
    whole = [data if good else bytes(13) for data, good in zip(records, sound, strict=True)]
    rows = np.array([np.frombuffer(data[1:], dtype="<f4") for data in whole], dtype=np.float32).reshape(-1, 3)
    return sound, rows, np.array([data[0] for data in whole], dtype=np.uint64)


def offer(secret: CardSecret = OWNER, **changes: Any) -> Parts:
    content: dict[str, Any] = {"rows": ROWS, "records": RECORDS, "shape": SHAPE}
    return share_offer(secret, context=context_of(secret), **(content | changes))


def held_of(shared: Parts, owner: CardSecret = OWNER) -> list[Lists]:
    """What each compute party says that it has, once it checked its part."""
    for part in shared.values():
        check_part(part, context=part.offer_list.offer, role=part.role, owner=owner.card, shape=SHAPE)
    return [{owner.card.fingerprint: part.offer_list.digest} for part in shared.values()]


def words_of(shared: Parts) -> Words:
    return joined_shares([words_in(part.share, width=SHAPE.width) for part in shared.values()])


def slots_of(shared: Parts, rows: NDArray[Any] = ROWS) -> list[int]:
    words = words_of(shared)[:, : len(rows[0]) + 1].tolist()
    return [words.index([*row, 1]) for row in fixed_point(rows).tolist()]


def pick(shared: Parts, slot: int) -> PickedSlot:
    words = words_of(shared)[slot]
    return PickedSlot(slot, word_bytes(words[-4:]), int(words[:3] @ FACTORS))


def envelopes_of(shared: Parts) -> dict[int, bytes]:
    return {slot: shared["curator"].envelope_of(slot) for slot in range(SHAPE.slots)}


OFFER = offer()
LISTS = {OWNER.card.fingerprint: OFFER["curator"].offer_list.digest}
ROSTERS = [Roster(context_of().terms, context_of().parties, LISTS, role) for role in PARTIES]


def refused(part: OfferPart, **changes: Any) -> str:
    expected: dict[str, Any] = {"context": context_of(), "role": part.role, "owner": OWNER.card, "shape": SHAPE}
    with pytest.raises(BadDocument) as caught:
        check_part(part, **(expected | changes))
    return caught.value.reason


def opened(shared: Any, *picks: PickedSlot, **changes: Any) -> list[bytes | PickFault]:
    content: dict[str, Any] = {"envelopes": envelopes_of(shared), "factors": FACTORS, "read": read_plain}
    return open_picks(shared["consumer"], picks, **(content | changes))


def test_every_party_finds_its_part_whole_and_the_sum_is_the_row() -> None:
    shared = offer()
    assert len(held_of(shared)) == 3
    words = words_of(shared)
    assert words[slots_of(shared), :4].tolist() == [[*row, 1] for row in fixed_point(ROWS).tolist()]
    assert words[:, 3].sum() == 4
    assert not words[words[:, 3] == 0, :3].any()


def test_what_was_bought_opens_and_nothing_else() -> None:
    picks = [pick(OFFER, int(slot)) for slot in slots_of(OFFER)]
    assert opened(OFFER, *picks) == RECORDS
    part = OFFER["consumer"]
    for slot, envelope in envelopes_of(OFFER).items():
        for other in picks:
            if other.slot != slot:
                with pytest.raises(BadDocument):
                    open_envelope(envelope, context=context_of(), slot=slot, key=part.key, random=other.random)


def test_no_part_holds_a_record_a_row_an_r_or_anothers_secrets() -> None:
    randoms = [pick(OFFER, slot).random for slot in range(SHAPE.slots)]
    for role, part in OFFER.items():
        data = part.to_bytes()
        others = [other for name, other in OFFER.items() if name != role]
        secrets = [
            *RECORDS,
            *randoms,
            *(other.salts[:32] for other in others),
            *(other.share[: SHAPE.share_bytes] for other in others),
        ]
        assert not any(secret in data for secret in secrets)
        assert (OFFER["consumer"].key in data) == (role == "consumer")


def test_empty_slots_look_like_others() -> None:
    empty = offer(rows=ROWS[:0], records=[])
    assert {role: len(part.to_bytes()) for role, part in empty.items()} == {
        role: len(part.to_bytes()) for role, part in OFFER.items()
    }
    assert len(held_of(empty)) == 3
    assert opened(empty, pick(empty, 0)) == [PickFault.UNOPENED]


def test_rows_lie_in_a_secret_order() -> None:
    """In 40 offers no row keeps its slot, but with probability 4 * 6^-39."""
    orders = np.array([slots_of(offer()) for _ in range(40)])
    assert all(len(set(slots)) > 1 for slots in orders.T.tolist())
    assert all(len(set(slots)) == len(ROWS) for slots in orders.tolist())


@pytest.mark.parametrize("changed", ["digests", "share", "envelopes"])
def test_a_part_that_does_not_belong_to_the_list_is_refused(changed: str) -> None:
    part: Any = OFFER["curator"]
    assert refused(dataclasses.replace(part, **{changed: flipped(getattr(part, changed), 5)})) == OfferFault.LIST
    assert refused(dataclasses.replace(part, **{changed: b""})) == OfferFault.SIZE


def test_another_salt_key_order_or_role_is_refused() -> None:
    curator, consumer, witness = OFFER.values()
    size = SHAPE.envelope_bytes
    swapped = curator.envelopes[size : 2 * size] + curator.envelopes[:size] + curator.envelopes[2 * size :]
    assert refused(dataclasses.replace(curator, envelopes=swapped)) == OfferFault.LIST
    assert refused(dataclasses.replace(consumer, key=bytes(32))) == OfferFault.LIST
    assert refused(dataclasses.replace(witness, salts=flipped(witness.salts, 0))) == OfferFault.LIST
    assert refused(witness, role="curator") == OfferFault.SIZE
    assert refused(dataclasses.replace(witness, role="curator"), role="curator") == OfferFault.SIZE
    assert refused(dataclasses.replace(witness, share=consumer.share)) == OfferFault.LIST
    assert refused(witness, shape=dataclasses.replace(SHAPE, slots=7)) == OfferFault.SIZE


def test_a_list_of_another_owner_run_or_signer_is_refused() -> None:
    """A curator that swaps lists: of another owner, of another run, or one that it made itself."""
    part, context = OFFER["witness"], context_of()
    other = offer(OTHER_OWNER)["witness"]
    assert refused(other) == OfferFault.CONTEXT
    earlier = OfferContext(bytes(32), context.owner, context.parties)
    old = OfferList(earlier, bytes(32), part.offer_list.leaves).signed_by(OWNER)
    assert refused(dataclasses.replace(part, offer_list=old)) == OfferFault.CONTEXT
    forged = OfferList(context, bytes(32), part.offer_list.leaves, OTHER_OWNER.sign("likeset/list/1", b"anything"))
    assert refused(dataclasses.replace(part, offer_list=forged)) == OfferFault.SIGNATURE
    assert refused(dataclasses.replace(part, offer_list=other.offer_list), context=context) == OfferFault.CONTEXT
    with pytest.raises(InvalidArgument, match=r"^secret"):
        OfferList(context, bytes(32), bytes(32)).signed_by(OTHER_OWNER)


def test_another_owners_shares_under_ones_own_list_do_not_check() -> None:
    """Commitments name their owner: copied ones open for nobody else."""
    mine, copied = offer(OTHER_OWNER), OFFER["witness"]
    stolen = dataclasses.replace(mine["witness"], share=copied.share, salts=copied.salts)
    assert refused(stolen, context=context_of(OTHER_OWNER), owner=OTHER_OWNER.card) == OfferFault.LIST


def test_an_r_that_is_used_twice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """An owner's generator that repeats itself: whoever opens one slot could open the others."""
    monkeypatch.setattr("os.urandom", lambda count: bytes(count))
    assert refused(offer()["curator"]) == OfferFault.REPEATED


@pytest.mark.parametrize("cut", [0, 1, 100])
def test_whatever_is_no_part_is_refused(cut: int) -> None:
    with pytest.raises(BadDocument):
        OfferPart.from_bytes(OFFER["witness"].to_bytes()[:-1][: cut or None])


def test_faults_of_picks() -> None:
    slot, other = slots_of(OFFER)[:2]
    right, envelopes = pick(OFFER, slot), envelopes_of(OFFER)
    swapped = {**envelopes, slot: envelopes[other], other: envelopes[slot]}
    for wrong in (dataclasses.replace(right, slot=SHAPE.slots), dataclasses.replace(right, random=bytes(32))):
        assert opened(OFFER, wrong) == [PickFault.UNOPENED]
    for held in (swapped, {}):
        assert opened(OFFER, right, envelopes=held) == [PickFault.UNOPENED]
    assert opened(OFFER, dataclasses.replace(right, checksum=right.checksum ^ 1)) == [PickFault.CHECKSUM]
    rows = ROWS[[0, 1]]
    twice = offer(rows=rows, records=[RECORDS[0], record(11, rows[1])])
    assert opened(twice, *(pick(twice, slot) for slot in slots_of(twice, rows))) == [RECORDS[0], PickFault.SOLD_TWICE]
    odd = offer(rows=rows, records=[RECORDS[0], b"no record"])
    assert opened(odd, *(pick(odd, slot) for slot in slots_of(odd, rows))) == [RECORDS[0], PickFault.UNOPENED]


def test_envelopes_are_of_one_length_and_bound_to_their_place() -> None:
    keys: dict[str, Any] = {"context": context_of(), "slot": 3, "key": b"k" * 32, "random": b"r" * 32}
    sealed = seal_record(b"short", **keys, record_bytes=100)
    assert len(sealed) == len(seal_record(b"x" * 100, **keys, record_bytes=100)) == envelope_bytes(100) == 120
    assert open_envelope(sealed, **keys) == b"short"
    other_consumer = (CARDS["curator"].fingerprint, OTHER_OWNER.card.fingerprint, CARDS["witness"].fingerprint)
    for change in (
        {"slot": 4},
        {"key": bytes(32)},
        {"random": bytes(32)},
        {"context": context_of(OTHER_OWNER)},
        {"context": OfferContext(bytes(32), context_of().owner, context_of().parties)},
        {"context": OfferContext(context_of().terms, context_of().owner, other_consumer)},
    ):
        with pytest.raises(BadDocument, match="does not open"):
            open_envelope(sealed, **(keys | change))
    with pytest.raises(InvalidArgument, match="at most 4"):
        seal_record(b"short", **keys, record_bytes=4)


def test_an_owner_never_computes_and_nobody_computes_twice() -> None:
    curator, consumer, witness = context_of().parties
    for owner, parties in ((curator, (curator, consumer, witness)), (context_of().owner, (curator, consumer, curator))):
        with pytest.raises(BadDocument, match="two roles"):
            OfferContext(context_of().terms, owner, parties)


def test_all_sign_one_roster_each_for_itself() -> None:
    rosters = [roster.signed_by(secret) for secret, roster in zip(PARTIES.values(), ROSTERS, strict=True)]
    assert [Roster.from_bytes(roster.to_bytes()) for roster in rosters] == rosters
    assert len({roster.digest for roster in rosters}) == 1
    for roster in rosters:
        assert [role for role, card in CARDS.items() if roster.is_signed_by(card)] == [roster.role]
        other = dataclasses.replace(roster, lists={})
        assert not other.is_signed_by(CARDS[roster.role])
        assert other.digest != roster.digest
