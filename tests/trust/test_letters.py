"""Letters and posts: what is written is read; whatever anybody else changes or makes up is refused, with one error.

Replays, and letters of another run, round or number that are whole, are the business of whoever keeps the run: here
they are believed, and the header says where they belong.
"""

import dataclasses
import hashlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trust_world import ALICE, BOB, BOBS_RUN_KEY, MALLORY, MOST_BYTES, TERMS, each_bit, flipped, letter_to_bob

from chance import examples
from likeset.errors import BadDocument, LetterRefused
from likeset.trust.cards import LETTER_CONTEXT, SEAL_BYTES, Card, CardSecret, SealingSecret, fields, seal, signed
from likeset.trust.letters import (
    HEADER_BYTES,
    POST_STEP,
    LetterContent,
    Post,
    Refusal,
    is_post_size,
    letter_in,
    open_letter,
    pair_of,
    size_of_post,
)

_ROUND_AT, _NUMBER_AT = 102, 110  # in a header
LETTER = letter_to_bob()
CIPHERTEXT = bytes(LETTER.ciphertext)


def opened(
    data: bytes, *, writer: Card = ALICE.card, reader: Card = BOB.card, key: SealingSecret = BOBS_RUN_KEY
) -> LetterContent:
    return open_letter(letter_in(data, most_bytes=MOST_BYTES), writer=writer, reader=reader, key=key)


def refusal(data: bytes, **parties: Any) -> str:
    """Why the bytes are refused; the error says nothing but that."""
    with pytest.raises(LetterRefused) as refused:
        opened(data, **parties)
    assert refused.value.reason in set(Refusal)
    assert str(refused.value) == f"letter refused: {refused.value.reason}"
    assert refused.value.__cause__ is None
    return refused.value.reason


def put_together(header: bytes, ciphertext: bytes, signature: bytes) -> bytes:
    return fields(b"likeset letter", header, ciphertext, signature)


def signed_anew(secret: CardSecret, header: bytes, ciphertext: bytes) -> bytes:
    """A letter of these parts with a signature that holds."""
    return put_together(header, ciphertext, secret.sign(LETTER_CONTEXT, header, hashlib.sha256(ciphertext).digest()))


def sealed_by_alice(plaintext: bytes, *, commitment: bytes | None = None) -> bytes:
    """A letter in which Alice sealed any bytes at all."""
    committed = hashlib.sha256(plaintext).digest() if commitment is None else commitment
    header = dataclasses.replace(LETTER.header, commitment=committed).to_bytes()
    return signed_anew(ALICE, header, seal(BOBS_RUN_KEY.public, plaintext, info=signed(LETTER_CONTEXT, header)))


class TestDamage:
    @each_bit
    def test_every_bit_of_the_header_counts(self, step: int) -> None:
        """What is sealed belongs to its header, even if the sender signs again: no two headers share it."""
        header, bits = LETTER.header.to_bytes(), range(0, 8 * HEADER_BYTES, step)
        for bit in bits:
            reason = refusal(put_together(flipped(header, bit), CIPHERTEXT, LETTER.signature))
            assert reason in {Refusal.VERSION, Refusal.FORM, Refusal.SIGNATURE}
        reasons = [refusal(signed_anew(ALICE, flipped(header, bit), CIPHERTEXT)) for bit in bits]
        named = [Refusal.VERSION] * 4 + [Refusal.SEAL] * 48 + [Refusal.SENDER] * 25 + [Refusal.RECIPIENT] * 25
        expected = [reason for reason in named + [Refusal.SEAL] * 80 for _ in range(8)]
        for first in (_ROUND_AT, _NUMBER_AT):
            expected[8 * first + 7] = Refusal.FORM  # the highest bit: counts have 63
        assert reasons == expected[::step]

    def test_cut_anywhere(self) -> None:
        for length in range(len(LETTER.data)):
            assert refusal(LETTER.data[:length]) == Refusal.FORM

    @pytest.mark.parametrize("more", [b"\0", bytes(8), fields(b"more"), LETTER.data])
    def test_extended(self, more: bytes) -> None:
        assert refusal(LETTER.data + more) == Refusal.FORM
        assert refusal(more + LETTER.data) == Refusal.FORM

    @pytest.mark.parametrize(
        "parts",
        [
            (LETTER.header.to_bytes() + b"\0", CIPHERTEXT, LETTER.signature),
            (LETTER.header.to_bytes(), CIPHERTEXT, LETTER.signature + b"\0"),
            (LETTER.header.to_bytes(), CIPHERTEXT, b""),
            (LETTER.header.to_bytes(), CIPHERTEXT[: SEAL_BYTES + 39], LETTER.signature),
        ],
    )
    def test_parts_of_other_lengths(self, parts: tuple[bytes, bytes, bytes]) -> None:
        assert refusal(put_together(*parts)) == Refusal.FORM

    @given(st.binary(max_size=4000))
    def test_any_bytes(self, data: bytes) -> None:
        refusal(data)

    def test_size_comes_first(self) -> None:
        with pytest.raises(LetterRefused) as refused:
            letter_in(LETTER.data, most_bytes=len(LETTER.data) - 1)
        assert refused.value.reason == Refusal.SIZE


class TestAnotherWriter:
    def test_the_signature_is_checked_before_anything_is_opened(self) -> None:
        class Untouched(SealingSecret):
            def open(self, ciphertext: bytes | memoryview, *, info: bytes) -> bytes:
                raise AssertionError(f"opened {len(ciphertext)} bytes under {len(info)}")

        key = Untouched.from_bytes(BOBS_RUN_KEY.to_bytes())
        assert refusal(letter_to_bob(MALLORY).data, key=key) == Refusal.SIGNATURE
        assert refusal(letter_to_bob(recipient=MALLORY.card).data, key=key) == Refusal.RECIPIENT


class TestASenderWhoLies:
    """All of it is signed and sealed by the rightful sender."""

    def test_a_signature_counts_for_the_card_that_is_named_and_for_no_other(self) -> None:
        """Mallory signs a header that names Alice."""
        data = signed_anew(MALLORY, LETTER.header.to_bytes(), CIPHERTEXT)
        letter = letter_in(data, most_bytes=MOST_BYTES)
        assert LETTER.is_signed_by(ALICE.card)
        assert not letter.is_signed_by(ALICE.card)
        assert not letter.is_signed_by(MALLORY.card)

    @pytest.mark.parametrize(
        "body",
        [
            (2**64 - 1).to_bytes(8, "big") + bytes(80),  # a length without end
            (7).to_bytes(8, "big") + bytes(9),  # a length within a part
            (8).to_bytes(8, "big") + bytes(107) + b"\1",  # padding that ends in something
            (8 * 70_000).to_bytes(8, "big") + bytes(8 * 70_000),  # a flood of enclosures
        ],
    )
    def test_about_the_body(self, body: bytes) -> None:
        assert refusal(sealed_by_alice(bytes(32) + body)) == Refusal.BODY

    @settings(max_examples=examples(50))
    @given(st.binary(min_size=40, max_size=120))
    def test_with_any_bytes(self, plaintext: bytes) -> None:
        """Either refused, or the one way to write what it says."""
        data = sealed_by_alice(plaintext)
        try:
            content = opened(data)
        except LetterRefused:
            assert refusal(data) == Refusal.BODY
            return
        parts = fields(content.message, *content.enclosures)
        assert plaintext[32:] == (len(parts).to_bytes(8, "big") + parts).ljust(len(plaintext) - 32, b"\0")


COUNTED = st.integers(0, 2**63 - 1)


@settings(max_examples=examples(40))
@given(
    message=st.binary(max_size=600),
    enclosures=st.lists(st.binary(max_size=300), max_size=4).map(tuple),
    round_=COUNTED,
    number=COUNTED,
    step=st.integers(1, 2000),
)
def test_what_is_written_is_read(
    message: bytes, enclosures: tuple[bytes, ...], round_: int, number: int, step: int
) -> None:
    letter = letter_to_bob(message=message, enclosures=enclosures, round=round_, number=number, padding_step=step)
    content = opened(letter.data)
    assert (content.message, content.enclosures) == (message, enclosures)
    length = len(letter.ciphertext) - SEAL_BYTES - 32  # of the body, beside 32 random bytes
    assert length % step == 0
    assert length - step < 8 + len(fields(message, *enclosures)) <= length
    assert (letter.header.round, letter.header.number) == (round_, number)


@pytest.mark.parametrize("step", [256, 4096])
def test_padding_hides_the_length(step: int) -> None:
    """8 bytes of length, 8 before the message: up to ``step - 16`` bytes of message have the same size."""
    sizes = {
        len(letter_to_bob(message=bytes(size), enclosures=(), padding_step=step).data) for size in (0, 1, step - 16)
    }
    assert len(sizes) == 1
    assert len(letter_to_bob(message=bytes(step - 15), enclosures=(), padding_step=step).data) == sizes.pop() + step


def test_two_letters_of_the_same_words_have_nothing_in_common() -> None:
    other = letter_to_bob()
    assert other.header.commitment != LETTER.header.commitment
    assert other.ciphertext[:1120] != LETTER.ciphertext[:1120]


def test_nothing_that_is_sealed_is_shown() -> None:
    letter = letter_to_bob(message=b"canary of the message", enclosures=(b"canary of the enclosure",))
    content = opened(letter.data)
    assert b"canary" not in letter.data
    assert all("canary" not in repr(shown) for shown in (letter, content))


HERS, HIS = pair_of(ALICE, BOB.card), pair_of(BOB, ALICE.card)
WORD = Post("participation", TERMS, b"waiting")


@given(
    kind=st.sampled_from(["terms", "participation", "acceptance", "letter", "progress", "ending"]),
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
