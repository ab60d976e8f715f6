"""Settings that 64 bits cannot carry are refused, and each of them is in the digest."""

import dataclasses
from typing import Any

import pytest

from likeset.split.engine.agreement import BadSettings, ProgramSettings

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
    assert set(changes) == {field.name for field in dataclasses.fields(ProgramSettings)}
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
