"""Bad arguments of every function of the geometry are refused by name, and no message shows a row."""

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from chance import public_coins
from likeset import arguments
from likeset.errors import InvalidArgument, LikesetError
from likeset.geometry.features import FourierFeatures
from likeset.geometry.greedy import match, swap
from likeset.geometry.kernels import (
    kernel_means,
    median_gamma,
    rbf_kernel,
    squared_mmd,
)
from likeset.geometry.offers import draw, fit, fit_blocks, uniform
from likeset.geometry.weights import weights

CANARY = 31337.25
"""Stands for a patient's value: no message may show it."""

GOOD = np.array([[CANARY, 1.0], [2.0, 3.0], [4.0, 5.0]])
COINS = public_coins(0)


def _with(value: float) -> np.ndarray[Any, Any]:
    rows = GOOD.copy()
    rows[1, 1] = value
    return rows


BAD_ROWS: dict[str, Any] = {
    "one dimension": GOOD[0],
    "three dimensions": GOOD[None],
    "a number": CANARY,
    "no rows": np.empty((0, 2)),
    "no columns": np.empty((3, 0)),
    "NaN": _with(math.nan),
    "infinity": _with(math.inf),
    "minus infinity": _with(-math.inf),
    "both infinities": np.array([[CANARY, math.inf], [-math.inf, 0.0]]),
    "float32 NaN": _with(math.nan).astype(np.float32),
    "overflowing": _with(1e300),
    "overflowing float32": _with(1e30).astype(np.float32),
    "text": [["31337.25", "1"], ["2", "3"]],
    "bytes": np.array([[b"31337.25", b"1"]]),
    "objects": np.array([[Decimal("31337.25"), 1]], dtype=object),
    "complex": GOOD.astype(complex),
    "dates": np.array([["2020-01-01", "2020-01-02"]], dtype="datetime64[D]"),
    "ragged": [[CANARY, 1.0], [2.0]],
    "a word": "31337.25",
    "None": None,
    "a set": {CANARY},
    "wrong columns": np.full((3, 3), CANARY),
}
ALLOWS_EMPTY = {("fit_blocks", "feature_blocks")}
NEEDS_NO_COLUMNS = {"median_gamma"}

BAD_GAMMAS: list[Any] = [0, 0.0, -1, -0.5, math.nan, math.inf, True, "1", None, [1.0], np.array([CANARY]), 10**400, 1j]

FEATURE_MAP = FourierFeatures(2, 4, 0.5, 1)

CALLS: dict[str, tuple[Callable[..., object], dict[str, Any], dict[str, str]]] = {
    # name: function, arguments that work, rows among them -> the name under which a mistake is reported
    "squared_mmd": (squared_mmd, {"a": GOOD, "b": GOOD, "gamma": 1.0}, {"a": "a", "b": "b"}),
    "rbf_kernel": (rbf_kernel, {"a": GOOD, "b": GOOD, "gamma": 1.0}, {"a": "a", "b": "b"}),
    "kernel_means": (kernel_means, {"rows": GOOD, "others": GOOD, "gamma": 1.0}, {"rows": "rows", "others": "others"}),
    "median_gamma": (median_gamma, {"rows": GOOD, "scale": 1.0, "coins": COINS}, {"rows": "rows"}),
    "match": (match, {"pool": GOOD, "target": GOOD, "size": 2, "gamma": 1.0}, {"pool": "pool", "target": "target"}),
    "match exact": (
        match,
        {"pool": GOOD, "target": GOOD, "size": 2, "gamma": 1.0, "method": "exact"},
        {"pool": "pool", "target": "target"},
    ),
    "swap": (
        swap,
        {"pool": GOOD, "target": GOOD, "selected": [0, 1], "gamma": 1.0},
        {"pool": "pool", "target": "target"},
    ),
    "weights": (
        weights,
        {"selected": GOOD, "target": GOOD, "gamma": 1.0},
        {"selected": "selected", "target": "target"},
    ),
    "FourierFeatures()": (FEATURE_MAP, {"rows": GOOD}, {"rows": "rows"}),
    "FourierFeatures.mean": (FEATURE_MAP.mean, {"rows": GOOD}, {"rows": "rows"}),
    "fit": (
        fit,
        {"features": GOOD, "released": [1.0, 0.0], "noise_energy": 0.0, "wanted": 1},
        {"features": "features"},
    ),
    "fit_blocks": (
        lambda feature_blocks: fit_blocks(
            [GOOD, feature_blocks], [1.0, 0.0], own_mean=[0.0, 0.0], noise_energy=0.0, wanted=1
        ),
        {"feature_blocks": GOOD},
        {"feature_blocks": "feature_blocks"},
    ),
}

ROW_CASES = [
    pytest.param(name, place, bad, id=f"{name}-{place}-{bad}")
    for name, (_, _, rows) in CALLS.items()
    for place in rows
    for bad in BAD_ROWS
    if not (bad == "no rows" and (name, place) in ALLOWS_EMPTY)
    if not (bad == "wrong columns" and name in NEEDS_NO_COLUMNS)
]


def refusal(call: Callable[..., object], given: dict[str, Any]) -> InvalidArgument:
    """The refusal, checked for what every refusal must be: ours, a ValueError, brief, and silent about the rows."""
    with pytest.raises(InvalidArgument) as caught:
        call(**given)
    assert isinstance(caught.value, LikesetError)
    assert isinstance(caught.value, ValueError)
    message = str(caught.value)
    assert message.startswith(f"{caught.value.argument} = ")
    assert "31337" not in message
    assert "31337" not in repr(caught.value)
    assert len(message) < 300
    return caught.value


@pytest.mark.parametrize("name", CALLS)
def test_the_arguments_that_the_table_calls_good_are_accepted(name: str) -> None:
    call, good, _ = CALLS[name]
    call(**good)


@pytest.mark.parametrize(("name", "place", "bad"), ROW_CASES)
def test_bad_rows_are_refused_by_name_without_showing_them(name: str, place: str, bad: str) -> None:
    call, good, reported_as = CALLS[name]
    error = refusal(call, good | {place: BAD_ROWS[bad]})
    if bad == "wrong columns":
        # Which of two is wrong cannot be known; the message names one and what it was compared with.
        others = {*reported_as.values(), "released", "rows"}
        assert error.argument in others
        assert "(3, 3)" in str(error) or "(3, 2)" in str(error) or "length" in str(error)
        return
    assert error.argument == reported_as[place]
    if bad in ("NaN", "infinity", "overflowing", "float32 NaN"):
        assert "row 1, column 1" in str(error)


@pytest.mark.parametrize("gamma", BAD_GAMMAS, ids=lambda gamma: str(gamma)[:12])
@pytest.mark.parametrize("name", [name for name, (_, good, _) in CALLS.items() if "gamma" in good])
def test_a_bad_gamma_is_refused_by_name_and_value(name: str, gamma: Any) -> None:
    call, good, _ = CALLS[name]
    error = refusal(call, good | {"gamma": gamma})
    assert error.argument == "gamma"
    if isinstance(gamma, float | bool | str):
        assert str(gamma) in str(error)


@pytest.mark.parametrize(
    ("size", "shown"), [(4, "4"), (0, "0"), (-1, "-1"), (1.0, "1.0"), (True, "True"), ("2", "'2'"), (None, "None")]
)
@pytest.mark.parametrize("name", ["match", "match exact"])
def test_a_size_that_the_pool_cannot_give_is_refused(name: str, size: Any, shown: str) -> None:
    call, good, _ = CALLS[name]
    error = refusal(call, good | {"size": size})
    assert error.argument == "size"
    assert f"size = {shown}" in str(error)
    if size == 4:
        assert "at most 3, the number of rows in the pool" in str(error)


@pytest.mark.parametrize(
    ("name", "changed", "argument"),
    [
        ("match", {"method": "greedy"}, "method"),
        ("match", {"method": None}, "method"),
        ("match", {"method": ["block"]}, "method"),
        ("match", {"method": GOOD}, "method"),
        ("swap", {"passes": -1}, "passes"),
        ("swap", {"passes": 1.5}, "passes"),
        ("median_gamma", {"scale": 0}, "scale"),
        ("median_gamma", {"scale": "1"}, "scale"),
        ("median_gamma", {"sample": 1}, "sample"),
        ("median_gamma", {"sample": GOOD}, "sample"),
        ("fit", {"wanted": GOOD}, "wanted"),
        ("fit", {"noise_energy": GOOD[0]}, "noise_energy"),
        ("fit", {"released": GOOD}, "released"),
        ("fit", {"released": ["31337.25", "1"]}, "released"),
        ("squared_mmd", {"weights": GOOD}, "weights"),
        ("squared_mmd", {"weights": [CANARY, CANARY, math.nan]}, "weights"),
    ],
)
def test_other_settings_are_refused_by_name(name: str, changed: dict[str, Any], argument: str) -> None:
    call, good, _ = CALLS[name]
    assert refusal(call, good | changed).argument == argument


def test_rows_given_in_place_of_a_number_are_not_shown() -> None:
    """Swapped arguments are a common mistake, and a message ends up in a log."""
    swapped: list[tuple[Callable[..., object], dict[str, Any]]] = [
        (match, {"pool": GOOD, "target": GOOD, "size": GOOD, "gamma": 1.0}),
        (squared_mmd, {"a": GOOD, "b": GOOD, "gamma": GOOD}),
        (squared_mmd, {"a": GOOD, "b": GOOD, "gamma": {"patient": CANARY}}),
        (uniform, {"owner_sizes": [GOOD, GOOD], "size": 1, "coins": COINS}),
        (draw, {"scores": [1.0], "row_numbers": [0], "count": GOOD, "key": 0}),
        (draw, {"scores": [1.0], "row_numbers": [0], "count": 1, "key": GOOD}),
        (draw, {"scores": GOOD, "row_numbers": [0], "count": 1, "key": 0}),
    ]
    for call, given in swapped:
        refusal(call, given)


# The checks themselves.


def test_float32_stays_float32_and_other_numbers_become_float64() -> None:
    assert arguments.matrix("x", np.zeros((1, 1), np.float32)).dtype == np.float32
    for same in ([[1]], [[True]], np.zeros((1, 1), np.float16), np.zeros((1, 1), np.uint8), [[1.5]]):
        assert arguments.matrix("x", same).dtype == np.float64


def test_rows_that_are_fine_are_not_copied() -> None:
    for dtype in (np.float32, np.float64):
        rows = GOOD.astype(dtype)
        assert arguments.matrix("x", rows) is rows


@pytest.mark.parametrize("row", [0, 65_535, 65_536, 150_000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_place_of_a_missing_value_is_told_in_a_long_table(row: int, dtype: type[np.floating]) -> None:
    rows = np.zeros((150_001, 2), dtype=dtype)
    rows[row, 1] = math.nan
    with pytest.raises(InvalidArgument, match=f"NaN in row {row}, column 1;"):
        arguments.matrix("x", rows)


def test_many_large_numbers_are_fine_while_their_distances_are_finite() -> None:
    """Their sum of squares may overflow; it only says that a closer look is needed."""
    assert arguments.matrix("x", np.full((100_000, 20), 2e15, dtype=np.float32)).shape == (100_000, 20)
    assert arguments.matrix("x", np.full((1000, 20), 1e120)).shape == (1000, 20)


@pytest.mark.parametrize("value", [0.5, 3, np.float32(0.5), np.int64(3), Fraction(1, 2)])
def test_any_real_number_above_zero_is_positive(value: float) -> None:
    assert arguments.positive("x", value) == float(value)


def test_zero_is_positive_only_on_request() -> None:
    assert arguments.positive("x", 0, zero=True) == 0.0
    for bad in (-1e-300, math.nan):
        with pytest.raises(InvalidArgument, match="zero or more"):
            arguments.positive("x", bad, zero=True)
    with pytest.raises(InvalidArgument, match="above zero"):
        arguments.positive("x", 0)


def test_counts_have_bounds_that_say_what_they_are() -> None:
    assert arguments.count("x", np.int32(3), least=3, most=3) == 3
    with pytest.raises(InvalidArgument, match="x = 2: must be at least 3"):
        arguments.count("x", 2, least=3)
    with pytest.raises(InvalidArgument, match="x = 5: must be at most 4, the number of chairs"):
        arguments.count("x", 5, most=4, most_is="the number of chairs")
    with pytest.raises(InvalidArgument, match="bits"):
        arguments.count("x", 10**5000, most=4)


def test_one_of_a_few_words() -> None:
    assert arguments.one_of("x", "a", ("b", "a")) == "a"
    with pytest.raises(InvalidArgument, match="x = 'c': must be one of a, b"):
        arguments.one_of("x", "c", ("b", "a"))


def test_vectors_have_one_dimension_and_the_length_asked_for() -> None:
    np.testing.assert_array_equal(arguments.vector("x", [1, 2], length=2), [1.0, 2.0])
    cases: list[tuple[Any, str]] = [([[1.0]], "one dimension"), ([1.0], "length 2"), ([1.0, math.inf], "position 1")]
    for bad, reason in cases:
        with pytest.raises(InvalidArgument, match=reason):
            arguments.vector("x", bad, length=2)


def test_row_numbers_are_whole_and_not_negative_and_a_new_array() -> None:
    given = np.array([3, 1])
    found = arguments.row_numbers("x", given)
    assert found.dtype == np.int64
    assert not np.shares_memory(given, found)
    assert arguments.row_numbers("x", []).tolist() == []
    assert arguments.row_numbers("x", np.array([7], np.uint8)).tolist() == [7]
