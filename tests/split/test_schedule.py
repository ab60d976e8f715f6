"""The order of slots, picks and visits: every position has a seat, every strip its turn, and few stay empty."""

import numpy as np
import pytest

from chance import pinned_coins
from clear_program import clear_selection
from likeset.split.engine.agreement import (
    adding_steps,
    grid,
    seat,
    slot_count,
    slot_order,
    spare_seats,
    strip,
    swapping_steps,
)

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
