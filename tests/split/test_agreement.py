"""What compute parties agree on to compute: statements, frames, settings, ranges, the schedule of picks."""

import io
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chance import pinned_coins
from clear_program import clear_selection
from likeset.split.engine.agreement import (
    RANGE_TESTS,
    BadFrame,
    BadSettings,
    Disagreement,
    Frame,
    ProgramSettings,
    Statement,
    Words,
    adding_steps,
    checksum_factors,
    commitment,
    grid,
    joint_seed,
    keepers,
    pack,
    range_tests,
    read_frame,
    seat,
    slot_count,
    slot_order,
    spare_seats,
    strip,
    swapping_steps,
    unpack,
)

NONCES = [bytes([rank]) * 32 for rank in (1, 2, 3)]


def statement(*, keeps: bool = False, program: str = "p", inputs: str = "i", nonce: bytes = NONCES[0]) -> Statement:
    return Statement(program, "s", inputs, commitment(nonce), keeps)


@pytest.mark.parametrize("ranks", [[], [0, 1], [0, 2], [1, 2], [0, 1, 2]], ids=str)
def test_two_of_three_shares_are_enough_to_open_again(ranks: list[int]) -> None:
    assert keepers([statement(keeps=rank in ranks) for rank in range(3)]) == ranks


@pytest.mark.parametrize("only", range(3))
def test_a_single_share_that_was_kept_ends_the_run(only: int) -> None:
    with pytest.raises(Disagreement, match="opened before"):
        keepers([statement(keeps=rank == only) for rank in range(3)])


@pytest.mark.parametrize("other", [statement(program="q"), statement(inputs="j")], ids=["program", "inputs"])
@pytest.mark.parametrize("keeps", [False, True])
def test_another_program_or_other_inputs_are_refused(other: Statement, keeps: bool) -> None:
    with pytest.raises(Disagreement, match="do not have the same"):
        keepers([statement(keeps=keeps), statement(keeps=keeps), other])


def test_a_statement_is_read_as_it_was_written_and_nothing_else_is() -> None:
    for said in (statement(), statement(keeps=True)):
        assert Statement.from_text(said.to_text()) == said
    for text in ("", "[]", "[1,2,3,4,5]", '["a","b","c","d",1]', '["a","b","c","d",true,true]', "{}", "1"):
        with pytest.raises(Disagreement):
            Statement.from_text(text)


def test_nobody_can_choose_the_seed_after_the_others() -> None:
    statements = [statement(nonce=nonce) for nonce in NONCES]
    seed = joint_seed(statements, [nonce.hex() for nonce in NONCES])
    assert len(seed) == 32
    with pytest.raises(Disagreement, match="bound itself"):
        joint_seed(statements, [NONCES[0].hex(), NONCES[1].hex(), (b"\x09" * 32).hex()])
    with pytest.raises(Disagreement, match="bound itself"):
        joint_seed(statements, [NONCES[0].hex(), NONCES[1].hex(), "zz"])
    with pytest.raises(Disagreement, match="repeated"):
        joint_seed([statements[0], statements[0]], [NONCES[0].hex(), NONCES[0].hex()])


def test_factors_follow_from_the_seed_alone() -> None:
    assert checksum_factors(b"1" * 32, 3).tolist() == checksum_factors(b"1" * 32, 5).tolist()[:3]
    assert len(set(checksum_factors(b"1" * 32, 1000).tolist())) == 1000


@given(st.text("abc wanted", min_size=1, max_size=20), st.lists(st.binary(max_size=40), max_size=6))
def test_what_was_packed_is_read_again_from_bytes_and_from_a_stream(kind: str, parts: list[bytes]) -> None:
    data = pack(kind, *parts)
    assert unpack(data) == Frame(kind, tuple(parts))
    stream = io.BytesIO(data + data)
    assert [read_frame(stream), read_frame(stream), read_frame(stream)] == [unpack(data), unpack(data), None]


@given(st.binary(max_size=80))
def test_other_bytes_are_refused_with_our_own_error(data: bytes) -> None:
    with pytest.raises(BadFrame):
        unpack(data)


def test_every_cut_and_every_tail_is_refused() -> None:
    data = pack("words", b"one", b"", b"three")
    for end in range(len(data)):
        with pytest.raises(BadFrame):
            unpack(data[:end])
        if end:
            with pytest.raises(BadFrame):
                read_frame(io.BytesIO(data[:end]))
    with pytest.raises(BadFrame, match="after a frame"):
        unpack(data + b"x")


def test_lengths_are_checked_before_anything_is_read_for_them() -> None:
    """The frame says that a part of 2^60 bytes follows; a reader that believed it would run out of memory."""
    head = pack("words", b"")
    with pytest.raises(BadFrame, match="larger"):
        unpack(head[:9] + (1 << 60).to_bytes(8, "big") + head[17:])
    with pytest.raises(BadFrame, match="larger"):
        unpack(pack("words", b"12345"), most=4)
    with pytest.raises(BadFrame, match="too many parts"):
        unpack(b"LSF1\x01" + (1 << 31).to_bytes(4, "big"))


ONE = 1 << 16


def settings(**changes: Any) -> ProgramSettings:
    usual: dict[str, Any] = {
        "offers": 10,
        "target_rows": 4,
        "size": 3,
        "gamma": 0.5,
        "lows": (0, -ONE),
        "highs": (ONE, ONE),
    }
    return ProgramSettings(**{**usual, **changes})


def test_a_change_of_any_field_changes_the_digest() -> None:
    changes = {"offers": 11, "target_rows": 5, "size": 2, "gamma": 0.6, "lows": (1, -ONE), "highs": (ONE, 2 * ONE)}
    assert set(changes) == {field.name for field in fields(ProgramSettings)}
    others = [settings(**{name: value}) for name, value in changes.items()]
    assert len({settings().digest(), *(other.digest() for other in others)}) == 1 + len(others)


@pytest.mark.parametrize(
    "changes",
    [
        {"offers": 0},
        {"target_rows": (1 << 14) + 1},
        {"size": 11},
        {"lows": ()},
        {"lows": (0,)},
        {"lows": (ONE + 1, 0)},
        {"highs": (1 << 25, ONE)},
        {"lows": (-1,) * 8193, "highs": (1,) * 8193},
        {"gamma": 0.0},
        {"gamma": float("nan")},
    ],
)
def test_settings_that_cannot_be_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(BadSettings):
        settings(**changes)


def test_rows_that_can_be_too_far_apart_for_the_ring_are_refused() -> None:
    """Half ranges of 1.0 in n columns: gamma * n may be at most 2^11 = 2048."""
    assert settings(lows=(-ONE,) * 2048, highs=(ONE,) * 2048, gamma=1.0).columns == 2048
    with pytest.raises(BadSettings, match="too far apart"):
        settings(lows=(-ONE,) * 2049, highs=(ONE,) * 2049, gamma=1.0)


MANY = settings(gamma=0.01, lows=(-ONE,) * 300, highs=(ONE,) * 300)
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


SIZES = [1, 2, 7, 8, 15, 16, 17, 31, 50, 99, 100, 128, 129, 200, 353, 1000]


@pytest.mark.parametrize("size", SIZES)
def test_each_position_gets_one_pick_of_one_strip(size: int) -> None:
    made = np.stack([seat(size, step) for step in range(adding_steps(size))])
    assert (made.sum(axis=(0, 2)) == 1).all()
    assert (made.sum(axis=1) <= 1).all()
    assert made.shape[0] * made.shape[2] == size + spare_seats(size)


@pytest.mark.parametrize("size", SIZES)
def test_a_pass_visits_each_position_once_and_has_its_strips_in_the_order_of_rows(size: int) -> None:
    if size == 1:
        assert swapping_steps(size) == 0
        return
    visits = np.stack([strip(size, visit) for visit in range(swapping_steps(size))])
    count = -(-size // visits.shape[1])
    assert len(visits) % count == 0
    for first in range(0, len(visits), count):
        assert (visits[first : first + count].sum(axis=(0, 1)) == 1).all()
    rows = [[int(place.argmax()) // count for place in visit if place.any()] for visit in visits]
    assert all(found == sorted(set(found)) for found in rows)


@pytest.mark.parametrize("size", [*range(2, 40), *range(41, 1001, 37), 1000])
def test_strips_that_follow_one_another_have_no_position_in_common(size: int) -> None:
    """What is taken out of one is chosen before the position taken out of the other is filled."""
    visited = np.stack([strip(size, visit).sum(axis=0) for visit in range(swapping_steps(size))])
    assert visited.max() == 1
    assert not (visited[1:] & visited[:-1]).any()


@pytest.mark.parametrize("offers", [1, 2, 40, 300, 2000])
@pytest.mark.parametrize("size", [1, 100, 353, 1000])
def test_slots_fill_a_grid_that_is_hardly_larger_and_has_whole_strips(offers: int, size: int) -> None:
    lines, line = grid(offers, size)
    slots, strips = slot_count(offers, size), seat(size, 0).shape[1]
    assert slots == lines * line >= offers
    assert slots - offers < line
    assert line % strips == 0
    assert line < np.sqrt(offers) + 1 + strips
    assert sorted(slot_order(offers).tolist()) == list(range(offers))


@pytest.mark.parametrize(
    ("offers", "size", "usable"),
    [(300, 120, 130), (300, 120, 120), (300, 120, 100), (40, 30, 12), (1000, 200, 200), (1000, 200, 130)],
)
def test_what_strips_leave_empty_is_filled_while_a_valid_slot_is_left(offers: int, size: int, usable: int) -> None:
    """All valid slots have numbers that would be those of the first strips, were slots not in another order."""
    coins = pinned_coins("schedule")
    rows = coins.standard_normal((offers, 3))
    among = np.exp(-((rows[:, None] - rows[None]) ** 2).sum(axis=2))
    valid = np.zeros(offers, dtype=bool)
    order = np.argsort(np.arange(offers) % seat(size, 0).shape[1], kind="stable")
    valid[order[:usable]] = True
    picks = clear_selection(among, among[:, :5].mean(axis=1), valid, size)
    made = [pick for pick in picks if pick >= 0]
    assert len(made) == min(size, usable)
    assert len(set(made)) == len(made)
    assert valid[made].all()
