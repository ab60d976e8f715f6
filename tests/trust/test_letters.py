"""Letters: what is written is read, and third parties can check what they are shown."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trust_world import ALICE, BOB, BOBS_RUN_KEY, MOST_BYTES, letter_to_bob

from chance import examples
from likeset.trust.cards import SEAL_BYTES, fields
from likeset.trust.letters import LetterContent, letter_in, open_letter

COUNTED = st.integers(0, 2**63 - 1)
LETTER = letter_to_bob()


def opened_by_bob(data: bytes) -> LetterContent:
    letter = letter_in(data, most_bytes=MOST_BYTES)
    return open_letter(letter, writer=ALICE.card, reader=BOB.card, key=BOBS_RUN_KEY)


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
    content = opened_by_bob(letter.data)
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
    content = opened_by_bob(letter.data)
    assert b"canary" not in letter.data
    assert all("canary" not in repr(shown) for shown in (letter, content))
