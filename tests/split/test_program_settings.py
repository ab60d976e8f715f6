"""Settings have one form, and those that 64 bits cannot carry are refused."""

import dataclasses
import json
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


def test_settings_are_read_as_they_were_written() -> None:
    wanted = settings(classes=3, label_weight=0.9)
    assert ProgramSettings.from_bytes(wanted.to_bytes()) == wanted
    assert (wanted.columns, wanted.target_words, wanted.offer_words) == (2, 5, 10)


def test_a_change_of_any_field_changes_the_digest() -> None:
    wanted = settings(classes=2, label_weight=0.5)
    changes = {"offers": 11, "target_rows": 5, "size": 4, "gamma": 0.6, "classes": 3, "label_weight": 0.4}
    others = [dataclasses.replace(wanted, **{name: value}) for name, value in changes.items()]  # type: ignore[arg-type]
    others += [settings(lows=(1, -ONE), classes=2, label_weight=0.5), settings(highs=(ONE, 2 * ONE))]
    assert len({wanted.digest(), *(other.digest() for other in others)}) == 1 + len(others)


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
        {"gamma": 0.0},
        {"gamma": float("nan")},
        {"label_weight": 0.5},
        {"classes": 2, "label_weight": 1.5},
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


def test_rows_are_only_so_wide_that_rounding_is_small() -> None:
    assert settings(lows=(-1,) * 8192, highs=(1,) * 8192).columns == 8192
    for columns in (0, 8193):
        with pytest.raises(BadSettings, match="columns"):
            settings(lows=(-1,) * columns, highs=(1,) * columns)


def test_only_the_one_form_is_read() -> None:
    spaced = json.dumps(json.loads(settings().to_bytes()), sort_keys=True).encode()
    for data in (spaced, b"[]", b"{}", b"\xff", b"null", settings().to_bytes()[:-1]):
        with pytest.raises(BadSettings):
            ProgramSettings.from_bytes(data)
