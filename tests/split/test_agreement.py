"""Compute parties go on from a round that all have of one attempt, and from no other."""

import itertools

import pytest

from likeset.split.engine.agreement import (
    Checkpoint,
    Disagreement,
    Offer,
    attempt_mark,
    checksum_factors,
    commitment,
    joint_seed,
    latest_common,
)

A, B, C = "a" * 32, "b" * 32, "c" * 32
NONCES = [bytes([rank]) * 32 for rank in (1, 2, 3)]


def offer(*held: Checkpoint, program: str = "p", inputs: str = "i", nonce: bytes = NONCES[0]) -> Offer:
    return Offer(program, "s", inputs, commitment(nonce), held)


BASE = Checkpoint(0, A, A)


def test_the_last_round_that_all_have_is_taken() -> None:
    rounds = [Checkpoint(number, A, A) for number in range(4)]
    assert latest_common([offer(*rounds), offer(*rounds[:3]), offer(*rounds)]) == rounds[2]


def test_a_round_of_another_attempt_is_not_the_same_round() -> None:
    """Two parties have round 2 of attempt B, the third only that of attempt A: shares of both do not fit together."""
    first, again, other = Checkpoint(1, A, A), Checkpoint(2, B, A), Checkpoint(2, A, A)
    assert (
        latest_common([offer(BASE, first, again), offer(BASE, first, other, again), offer(BASE, first, other)]) == first
    )


def test_without_a_common_round_zero_everything_begins_with_inputs() -> None:
    assert latest_common([offer(BASE), offer(BASE), offer()]) is None
    assert latest_common([offer(BASE), offer(BASE), offer(Checkpoint(0, B, B))]) is None
    lone = Checkpoint(3, B, A)
    assert latest_common([offer(lone), offer(lone), offer(lone)]) is None


def test_all_parties_come_to_the_same_whatever_the_order() -> None:
    held = [(BASE, Checkpoint(2, B, A), Checkpoint(1, A, A)), (Checkpoint(1, A, A), BASE), (BASE, Checkpoint(1, A, A))]
    results = {latest_common([offer(*points) for points in order]) for order in itertools.permutations(held)}
    assert results == {Checkpoint(1, A, A)}


@pytest.mark.parametrize("other", [offer(BASE, program="q"), offer(BASE, inputs="j")], ids=["program", "inputs"])
def test_another_program_or_other_inputs_are_refused(other: Offer) -> None:
    with pytest.raises(Disagreement, match="do not have the same"):
        latest_common([offer(BASE), offer(BASE), other])


def test_an_offer_is_read_as_it_was_written_and_nothing_else_is() -> None:
    said = offer(BASE, Checkpoint(5, B, A))
    assert Offer.from_text(said.to_text()) == said
    for text in ("", "[]", "[1,2,3,4,5]", '["a","b","c","d",[[1,2]]]', '["a","b","c","d",[[-1,"x","y"]]]', "{}", "1"):
        with pytest.raises(Disagreement):
            Offer.from_text(text)


def test_nobody_can_choose_the_seed_after_the_others() -> None:
    offers = [offer(nonce=nonce) for nonce in NONCES]
    seed = joint_seed(offers, [nonce.hex() for nonce in NONCES])
    assert len(seed) == 32
    with pytest.raises(Disagreement, match="bound itself"):
        joint_seed(offers, [NONCES[0].hex(), NONCES[1].hex(), (b"\x09" * 32).hex()])
    with pytest.raises(Disagreement, match="bound itself"):
        joint_seed(offers, [NONCES[0].hex(), NONCES[1].hex(), "zz"])
    with pytest.raises(Disagreement, match="repeated"):
        joint_seed([offers[0], offers[0]], [NONCES[0].hex(), NONCES[0].hex()])


def test_marks_and_factors_follow_from_the_seed_alone() -> None:
    assert attempt_mark(b"1" * 32) != attempt_mark(b"2" * 32)
    assert checksum_factors(b"1" * 32, 3).tolist() == checksum_factors(b"1" * 32, 5).tolist()[:3]
    assert len(set(checksum_factors(b"1" * 32, 1000).tolist())) == 1000
