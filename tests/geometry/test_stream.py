"""The public stream against its specification and the known answers of Philox."""

import math

import numpy as np
import pytest
import reference_stream
from hypothesis import given, settings
from hypothesis import strategies as st

from chance import examples
from likeset.geometry.features import MAX_SEED, Stream, open_unit

ONES = 2**64 - 1
PI = (0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0, 0x082EFA98EC4E6C89)
KNOWN_ANSWERS = [
    ((0, 0, 0, 0), (0, 0), "16554d9eca36314c db20fe9d672d0fdc d7e772cee186176b 7e68b68aec7ba23b"),
    ((ONES, ONES, ONES, ONES), (ONES, ONES), "87b092c3013fe90b 438c3c67be8d0224 9cc7d7c69cd777b6 a09caebf594f0ba0"),
    (
        PI,
        (0x452821E638D01377, 0xBE5466CF34E90C6C),
        "a528f45403e61d95 38c72dbd566e9788 a5a1610e72fd18b5 57bd43b5e52b7fe6",
    ),
]
"""Lines ``philox4x64 10`` of kat_vectors in the Random123 distribution of the algorithm's authors."""


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN_ANSWERS)
def test_the_reference_gives_the_known_answers_of_random123(
    counter: tuple[int, int, int, int], key: tuple[int, int], answer: str
) -> None:
    assert [f"{word:016x}" for word in reference_stream.philox(counter, key)] == answer.split()


@settings(max_examples=examples(20))
@given(
    purpose=st.text(max_size=20), seed=st.integers(0, MAX_SEED), first=st.integers(0, 2**63), count=st.integers(0, 11)
)
def test_consecutive_words_follow_the_specification(purpose: str, seed: int, first: int, count: int) -> None:
    words = Stream(purpose, seed).words(first, count)
    assert [int(word) for word in words] == [
        reference_stream.word(purpose, seed, position) for position in range(first, first + count)
    ]


def test_uniforms_lie_strictly_between_zero_and_one_at_the_ends_of_the_range() -> None:
    """The largest word gives (2**52 - 1/2) / 2**52 = 1 - 2**-53, which double precision still tells from 1."""
    low, high = open_unit(np.array([0, ONES], dtype=np.uint64))
    assert (low, high) == (2.0**-53, 1 - 2.0**-53)
    assert math.isfinite(-math.log(-math.log(low)))
    assert math.isfinite(-math.log(-math.log(high)))


def test_uniforms_and_normals_follow_the_specification() -> None:
    stream = Stream("values", 3)
    expected = [reference_stream.uniform("values", 3, position) for position in range(5, 12)]
    assert stream.uniforms(5, 7).tolist() == expected
    np.testing.assert_allclose(stream.normals(5, 7), reference_stream.normals("values", 3, 5, 7), rtol=1e-13)
