"""The whole computation in the engine: the picks of the same program in the clear, opened to the consumer alone."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from split_world import ONE, needs_engine, run_parties, world

from chance import pinned_coins
from likeset.errors import IllegalMessage, PartyFailed
from likeset.protocol.split import OpenedSlots
from likeset.split.engine.agreement import AGAIN
from likeset.split.host import LocalMeeting, Meeting

pytestmark = [pytest.mark.slow, needs_engine]

# Coins are pinned: a near tie between two offers may be decided otherwise in fixed point, and these worlds have none.


@pytest.fixture
def local() -> Iterator[list[Meeting]]:
    meeting = LocalMeeting()
    yield [meeting] * 3
    meeting.close()


def test_the_consumer_gets_the_picks_of_the_program_in_the_clear_and_nobody_else_anything(local: list[Meeting]) -> None:
    small = world(pinned_coins("split"))
    curator, consumer, witness = run_parties(small.inputs(), local)
    assert (curator, witness) == (None, None)
    small.check(consumer, small.selected())


def test_rows_out_of_range_and_odd_bits_are_never_picked(local: list[Meeting]) -> None:
    """Row 0 is far out, rows 1 and 2 are at the ends of 64 bits, and 3, 4, 5 say 2, -1 and 0 where 1 is valid.

    Row 8 is out by one word, row 9 lies at the ends of all ranges. Slots that are not valid hold copies of target rows:
    they would be picked first. More picks than valid offers leave places empty.
    """
    small = world(pinned_coins("split liars"), offers=12, size=11)
    small.rows[0], small.rows[1], small.rows[2] = 1 << 40, 2**63 - 1, -(2**63)
    small.rows[3:6] = small.target[:3]
    small.valid[3:6] = 2, -1, 0
    small.rows[8, 0] = ONE + 1
    small.rows[9] = 0, ONE, 0, ONE, ONE, ONE
    _, consumer, _ = run_parties(small.inputs(), local)
    assert isinstance(consumer, OpenedSlots)
    assert sorted(consumer.numbers.tolist()) == [-1] * 6 + [6, 7, 9, 10, 11]


@pytest.mark.soak
def test_many_columns_are_looked_at_by_sums_and_no_square_wraps(local: list[Meeting]) -> None:
    """Rows 0 to 3 have words whose squares are 0 modulo 2^64, or nearly, in the program's units too; row 4 is far out.

    Row 5 has a word outside of its range, and is no farther from the middle than the ends of all ranges: it counts,
    with the checksum of the words that it has. Row 6 lies at those ends; row 7 just beyond.
    """
    columns = 80
    small = world(
        pinned_coins("split sums"), offers=24, size=18, gamma=0.05, lows=(0,) * columns, highs=(ONE,) * columns
    )
    small.rows[:5] = ONE // 2
    small.rows[0, 0] += 1 << 32
    small.rows[1, :2] += 1 << 40, -(1 << 40)
    small.rows[2] += 1 << 32
    small.rows[3, ::2] -= 1 << 62
    small.rows[4, 7] = 40 * ONE
    small.rows[5], small.rows[5, 3] = ONE // 2, 2 * ONE
    small.rows[6] = ONE * (np.arange(columns) % 2)
    small.rows[7] = (ONE + ONE // 50) * (np.arange(columns) % 2)
    _, consumer, _ = run_parties(small.inputs(), local)
    assert isinstance(consumer, OpenedSlots)
    small.check(consumer, consumer.numbers.tolist())
    assert set(consumer.numbers.tolist()) == {5, 6, *range(8, 24)}


def test_what_was_opened_is_sent_again_and_nothing_else_is_opened(local: list[Meeting], tmp_path: Path) -> None:
    """The consumer denies the opening, and all put in other rows: the same is opened, from the shares of any two."""
    small, told = world(pinned_coins("split")), set[str]()
    first = run_parties(small.inputs(), local, folder=tmp_path)[1]
    small.check(first, small.selected())
    assert isinstance(first, OpenedSlots)
    shares = [tmp_path / str(rank) / "opening.share" for rank in range(3)]
    kept = [share.read_bytes() for share in shares]
    small.rows = small.rows[::-1].copy()
    for keeping in ((0, 2), (1, 2), (0, 1), (0,)):
        for rank, share in enumerate(shares):
            share.unlink(missing_ok=True)
            if rank in keeping:
                share.write_bytes(kept[rank])
        again = run_parties(small.inputs(), local, folder=tmp_path, told=lambda _, __, stage, ___: told.add(stage))
        if len(keeping) < 2:
            assert all(isinstance(result, IllegalMessage) for result in again), again
        else:
            assert isinstance(again[1], OpenedSlots)
            assert np.array_equal(again[1].numbers, first.numbers)
            assert np.array_equal(again[1].secrets, first.secrets)
        assert [rank for rank, share in enumerate(shares) if share.exists()] == list(keeping)
    assert told == {AGAIN}
    shares[0].write_bytes(b"")
    (lost,) = run_parties(small.inputs()[:1], local, folder=tmp_path)
    assert isinstance(lost, PartyFailed)


def test_parties_with_other_inputs_do_not_compute_together(local: list[Meeting]) -> None:
    inputs = world(pinned_coins("split inputs")).inputs()
    inputs[2] = replace(inputs[2], digest="another list")
    results = run_parties(inputs, local)
    assert all(isinstance(result, IllegalMessage) for result in results), results
