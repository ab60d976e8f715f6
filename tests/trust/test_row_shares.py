"""Words and shares: exact sums and uniform shares."""

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from chance import examples
from likeset.errors import BadDocument, InvalidArgument
from likeset.trust.shares import Words, fixed_point, joined_shares, split_words, word_bytes, words_in

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
    with pytest.raises(InvalidArgument, match="to be shared"):
        fixed_point(np.array([[number]]))


def test_lines_that_are_cut_are_no_words() -> None:
    with pytest.raises(BadDocument, match="lines of 2"):
        words_in(bytes(24), width=2)
