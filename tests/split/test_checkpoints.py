"""Checkpoints are there after a kill, for nobody else, and after an opening there is only one."""

from pathlib import Path

import pytest

from likeset.errors import PartyFailed
from likeset.split.checkpoints import Checkpoints
from likeset.split.engine.agreement import Checkpoint

A, B = "a" * 32, "b" * 32


def point(number: int, mark: str = A, base: str = A) -> Checkpoint:
    return Checkpoint(number, mark, base)


def test_what_was_kept_is_there_for_the_next_process(tmp_path: Path) -> None:
    Checkpoints(tmp_path / "own").keep(point(0), b"shares")
    again = Checkpoints(tmp_path / "own")
    assert again.held() == (point(0),)
    assert again.read(point(0)) == b"shares"
    assert (tmp_path / "own").stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "own").iterdir())


def test_the_round_before_the_last_stays_and_so_does_round_zero(tmp_path: Path) -> None:
    """Parties are at most one round apart, so one that is killed now may have the round before only."""
    kept = Checkpoints(tmp_path)
    for number in range(6):
        kept.keep(point(number), b"")
    assert kept.held() == (point(0), point(4), point(5))


def test_a_round_that_is_computed_again_leaves_the_one_that_it_began_with(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path)
    for number in range(3):
        kept.keep(point(number), b"")
    kept.keep(point(2, B), b"")
    assert kept.held() == (point(0), point(1), point(2, A), point(2, B))


def test_a_new_round_zero_ends_the_old_one(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path)
    kept.keep(point(0), b"")
    kept.keep(point(0, B, B), b"")
    assert kept.held() == (point(0, B, B),)


def test_after_an_opening_nothing_else_can_be_computed(tmp_path: Path) -> None:
    """A consumer that could have another ending computed from round 1 would read other rows than it pays for."""
    kept = Checkpoints(tmp_path)
    for number in range(3):
        kept.keep(point(number), b"")
    kept.begin_opening(point(2))
    kept.begin_opening(point(2))
    again = Checkpoints(tmp_path)
    assert again.held() == (point(0), point(2))
    for attempted in (point(1), point(2, B), point(3), point(0, B, B)):
        with pytest.raises(PartyFailed, match="opened already"):
            again.keep(attempted, b"")
        with pytest.raises(PartyFailed, match="opened already"):
            again.begin_opening(attempted)


def test_nothing_is_opened_from_a_state_that_was_not_kept(tmp_path: Path) -> None:
    with pytest.raises(PartyFailed, match="has kept"):
        Checkpoints(tmp_path).begin_opening(point(2))


def test_what_was_opened_first_stays(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path)
    assert kept.opened() is None
    kept.keep_opened(b"first")
    kept.keep_opened(b"second")
    assert Checkpoints(tmp_path).opened() == b"first"


def test_when_the_run_is_over_nothing_is_left(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path / "own")
    kept.keep(point(0), b"shares")
    kept.remove()
    assert not (tmp_path / "own").exists()
