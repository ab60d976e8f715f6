"""Sums of words find every row that is far out, whatever wraps around, and never one within its ranges."""

from dataclasses import replace

import numpy as np
import pytest

from chance import pinned_coins
from likeset.split.engine.agreement import RANGE_TESTS, ProgramSettings, Words, range_tests

ONE = 1 << 16
MANY = ProgramSettings(offers=10, target_rows=4, size=3, gamma=0.01, lows=(-ONE,) * 300, highs=(ONE,) * 300)
SEED = b"s" * 32


def passed(words: Words, settings: ProgramSettings, seed: bytes = SEED) -> bool:
    """As the program compares: by the signs of differences modulo 2^64."""
    tests = range_tests(seed, settings)
    lows, highs = np.array(settings.lows), np.array(settings.highs)
    with np.errstate(over="ignore"):
        sums = words @ tests
        return bool((sums - lows @ tests >= 0).all() and (highs @ tests - sums >= 0).all())


def test_rows_at_the_ends_of_their_ranges_pass() -> None:
    coins = pinned_coins("ranges")
    ends = np.array([MANY.lows, MANY.highs])
    for number in range(20):
        row = ends[coins.integers(2, size=300), np.arange(300)]
        assert passed(row, MANY, bytes([number]) * 32)
    assert passed(ends[0], MANY)
    assert passed(ends[1], MANY)


@pytest.mark.parametrize("entry", [1 << 32, 1 << 40, 1 << 62, -(1 << 63), 600 * ONE + 1, -(1 << 33)])
@pytest.mark.parametrize("count", [1, 2, 4, 300])
def test_words_whose_squares_wrap_to_something_small_do_not(entry: int, count: int) -> None:
    row = np.zeros(300, dtype=np.int64)
    row[:count] = entry
    assert not passed(row, MANY)
    row[1::2] *= -1  # sums of an even number of them are 0
    assert not passed(row, MANY)


def test_each_word_is_in_half_of_the_sums_and_another_seed_makes_others() -> None:
    tests = range_tests(SEED, MANY)
    assert tests.shape == (300, RANGE_TESTS)
    assert set(np.unique(tests).tolist()) == {0, 1}
    assert abs(tests.mean() - 0.5) < 0.02
    assert len({column.tobytes() for column in tests}) == 300
    assert (tests != range_tests(b"t" * 32, MANY)).any()


def test_few_columns_are_looked_at_one_by_one() -> None:
    few = replace(MANY, lows=MANY.lows[:RANGE_TESTS], highs=MANY.highs[:RANGE_TESTS])
    assert (range_tests(SEED, few) == np.eye(RANGE_TESTS)).all()


@pytest.mark.parametrize("gamma", [0.01, 0.5, 6.0])
def test_no_word_that_sums_leave_unseen_is_too_large_to_be_squared(gamma: float) -> None:
    """A word beyond the sum of all ranges of its block is found; that sum must be below 2^7 in the program."""
    wide = replace(MANY, gamma=gamma)
    tests = range_tests(SEED, wide)
    for column in range(300):
        block = (tests[:, tests[column] > 0] > 0).any(axis=1)
        unseen = 2 * block.sum() * np.sqrt(gamma / 48)
        assert unseen < 128 or block.sum() == 1
    assert tests.shape[1] == {0.01: 64, 0.5: 64, 6.0: 128}[gamma]
