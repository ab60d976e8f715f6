"""Posts: found, opened and written by two parties alone, and always with the same bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trust_world import ALICE, BOB, MALLORY, TERMS

from likeset.errors import BadDocument
from likeset.trust.letters import POST_STEP, Post, is_post_size, pair_of, size_of_post

HERS, HIS = pair_of(ALICE, BOB.card), pair_of(BOB, ALICE.card)
WORD = Post("standing", TERMS, b"waiting")


@given(
    kind=st.sampled_from(["terms", "standing", "acceptance", "letter", "progress", "ending"]),
    terms=st.binary(min_size=32, max_size=32),
    document=st.binary(max_size=3 * POST_STEP),
)
def test_what_one_of_the_two_wraps_the_other_one_reads(kind: str, terms: bytes, document: bytes) -> None:
    post = Post(kind, terms, document)  # type: ignore[arg-type]
    data = HERS.outgoing.wrap(post)
    assert HIS.incoming.unwrap(data) == HERS.outgoing.unwrap(data) == post
    assert HERS.outgoing.wrap(post) == data
    assert is_post_size(len(data))
    assert len(data) <= size_of_post(len(document))


def test_a_length_tells_no_more_than_how_many_steps_a_document_fills() -> None:
    lengths = {len(HERS.outgoing.wrap(Post("letter", TERMS, bytes(size)))) for size in range(0, POST_STEP - 200, 97)}
    assert lengths == {POST_STEP + 16}


def test_three_parties_have_six_folders_and_nobody_else_computes_them() -> None:
    others = [pair_of(MALLORY, card) for card in (ALICE.card, BOB.card)]
    folders = [folder for pair in (HERS, *others) for folder in (pair.outgoing.folder, pair.incoming.folder)]
    assert len(set(folders)) == 6
    assert (HIS.outgoing.folder, HIS.incoming.folder) == (HERS.incoming.folder, HERS.outgoing.folder)
    assert all(len(folder) == 32 and folder.islower() and folder.isalnum() for folder in folders)


def test_an_exchange_needs_a_sealing_key() -> None:
    with pytest.raises(BadDocument):
        ALICE.sealing.exchange_with(BOB.card.sealing[:1184] + bytes(32))
