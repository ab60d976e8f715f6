"""Bad arguments of functions of the geometry and the auditor are refused by name, and no message shows a row."""

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from chance import public_coins
from likeset import arguments
from likeset.audit.auditor import lower_bound
from likeset.errors import InvalidArgument, LikesetError
from likeset.geometry.features import FourierFeatures, Projection, Stream
from likeset.geometry.greedy import exact_greedy, swap
from likeset.geometry.kernels import kernel_means, median_gamma, rbf_kernel, squared_mmd
from likeset.geometry.offers import fit, large_perturbations, uniform
from likeset.geometry.shapley import selection_game
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
    "a number": CANARY,
    "no rows": np.empty((0, 2)),
    "no columns": np.empty((3, 0)),
    "NaN": _with(math.nan),
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
    "None": None,
    "a set": {CANARY},
}
BAD_NUMBERS: list[Any] = [0, -0.5, math.nan, math.inf, True, "1", None, [1.0], np.array([CANARY]), 10**400, 1j]

FEATURE_MAP = FourierFeatures(2, 4, 0.5, 1)
ROWS: dict[str, tuple[Callable[..., object], dict[str, Any], tuple[str, ...]]] = {
    # name: function, arguments that work, rows among them
    "squared_mmd": (squared_mmd, {"a": GOOD, "b": GOOD, "gamma": 1.0}, ("a", "b")),
    "rbf_kernel": (rbf_kernel, {"a": GOOD, "b": GOOD, "gamma": 1.0}, ("a", "b")),
    "kernel_means": (kernel_means, {"rows": GOOD, "others": GOOD, "gamma": 1.0}, ("rows", "others")),
    "median_gamma": (median_gamma, {"rows": GOOD, "scale": 1.0, "coins": COINS}, ("rows",)),
    "exact_greedy": (exact_greedy, {"pool": GOOD, "target": GOOD, "size": 2, "gamma": 1.0}, ("pool", "target")),
    "swap": (swap, {"pool": GOOD, "target": GOOD, "selected": [0, 1], "gamma": 1.0}, ("pool", "target")),
    "weights": (weights, {"selected": GOOD, "target": GOOD, "gamma": 1.0}, ("selected", "target")),
    "FourierFeatures()": (FEATURE_MAP, {"rows": GOOD}, ("rows",)),
    "FourierFeatures.mean": (FEATURE_MAP.mean, {"rows": GOOD}, ("rows",)),
    "fit": (fit, {"features": GOOD, "released": [1.0, 0.0], "noise_energy": 0.0, "wanted": 1}, ("features",)),
}


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


@pytest.mark.parametrize("bad", BAD_ROWS)
def test_bad_rows_are_refused_without_showing_them(bad: str) -> None:
    error = refusal(arguments.matrix, {"argument": "x", "value": BAD_ROWS[bad]})
    assert error.argument == "x"
    places = {"both infinities": (0, 1)} | dict.fromkeys(
        ("NaN", "overflowing", "float32 NaN", "overflowing float32"), (1, 1)
    )
    assert (error.row, error.column) == places.get(bad, (None, None))


@pytest.mark.parametrize("bad", BAD_NUMBERS, ids=lambda bad: str(bad)[:12])
def test_bad_numbers_are_refused_and_shown_unless_they_may_be_data(bad: Any) -> None:
    error = refusal(arguments.positive, {"argument": "x", "value": bad})
    if isinstance(bad, float | bool | str):
        assert str(bad) in str(error)


@pytest.mark.parametrize("name", ROWS)
def test_functions_check_their_rows_and_their_gamma_by_name(name: str) -> None:
    call, good, places = ROWS[name]
    call(**good)
    for place in places:
        for bad in (GOOD[0], _with(math.nan), np.empty((0, 2))):
            assert refusal(call, good | {place: bad}).argument == place
    if "gamma" in good:
        assert refusal(call, good | {"gamma": 0.0}).argument == "gamma"
    if len(places) == 2:
        assert refusal(call, good | {places[0]: np.full((3, 3), CANARY)}).argument in places


PAIRS = [0, 0, 1]
CALLS: dict[str, tuple[Callable[..., object], dict[str, Any]]] = {
    **{name: (call, good) for name, (call, good, _) in ROWS.items()},
    "map": (FourierFeatures, {"columns": 3, "dimension": 8, "gamma": 0.5, "seed": 1}),
    "stream": (Stream, {"purpose": "a test", "seed": 1}),
    "disagreement": (FEATURE_MAP.disagreement, {"rows": GOOD}),
    "of_each": (FEATURE_MAP.of_each, {"rows": GOOD}),
    "projection": (Projection, {"features": FEATURE_MAP, "direction": np.ones(4)}),
    "lower_bound": (lower_bound, {"first": np.zeros(9), "second": np.zeros(9), "delta": 0.0}),
    "game": (selection_game, {"selected": GOOD, "owners": PAIRS, "owner_count": 2, "target": GOOD, "gamma": 1.0}),
    "uniform": (uniform, {"owner_sizes": [3, 4], "size": 2, "coins": COINS}),
    "largest": (large_perturbations, {"first_row": 0, "rows": 3, "key": 5, "least": 0.0}),
}


@pytest.mark.parametrize(
    ("name", "argument", "bad"),
    [
        *(("exact_greedy", "size", bad) for bad in (4, 0, 1.0, GOOD)),
        *(("swap", "selected", bad) for bad in ([], [0, 10], [-3, 1], [1, 1], [0.0, 1.0], [[0, 1]], [[0], [1, 2]])),
        *(("swap", "selected", bad) for bad in (["a"], [True, False], None)),
        ("swap", "passes", -1),
        ("median_gamma", "scale", 0),
        *(("fit", "wanted", bad) for bad in (GOOD, 0)),
        *(("fit", "noise_energy", bad) for bad in (GOOD[0], -0.1, math.inf)),
        *(("fit", "released", bad) for bad in (GOOD, ["31337.25", "1"], [1.0], [1.0, math.nan])),
        ("fit", "population", 2),
        *(("squared_mmd", "weights", bad) for bad in (GOOD, [CANARY, CANARY, math.nan], [0.5, 0.6, 0.0])),
        *(("squared_mmd", "weights", bad) for bad in ([1.5, -0.5, 0.0], [1.0], ["a", "b", "c"])),
        ("squared_mmd", "gamma", {"patient": CANARY}),
        *(("map", "columns", bad) for bad in (0, 2.0)),
        *(("map", "dimension", bad) for bad in (-4, 5, True)),
        *(("map", "gamma", bad) for bad in (0, -1.5, math.nan, True, "1", None)),
        *((what, "seed", bad) for what in ("map", "stream") for bad in (-1, 2**256, 1.0, True, "1", None)),
        *(("map", "kind", bad) for bad in ("papier", None)),
        *(
            (way, "rows", GOOD[:, :1])
            for way in ("FourierFeatures()", "FourierFeatures.mean", "of_each", "disagreement")
        ),
        *(("FourierFeatures()", "first_row", bad) for bad in (-1, 1.5, True, None)),
        ("projection", "direction", np.ones(3)),
        *(("lower_bound", "first", bad) for bad in (np.zeros(3), np.full(9, math.nan))),
        ("lower_bound", "second", np.zeros((9, 3))),
        *(("lower_bound", "delta", bad) for bad in (1.0, -0.1)),
        *(("lower_bound", "error", bad) for bad in (1.0, 0.0)),
        *(("game", "owners", bad) for bad in ([0, 1], [0, 1, 2], [0, -1, 1], [0.0, 1.0, 1.0])),
        *(("game", "owner_count", bad) for bad in (0, True)),
        ("game", "target", np.ones((4, 3))),
        ("game", "gamma", -1.0),
        *(("uniform", "size", bad) for bad in (8, 0)),
        *(("uniform", "owner_sizes[1]", [3, bad]) for bad in (-1, 2.5, True)),
        *(("largest", "key", bad) for bad in (-1, 2**256, 0.5, True, None)),
    ],
)
def test_other_arguments_are_refused_by_name(name: str, argument: str, bad: Any) -> None:
    """Also rows in the place of a number: swapped arguments are a common mistake, and a message ends up in a log."""
    call, good = CALLS[name]
    call(**good)
    assert refusal(call, good | {argument.partition("[")[0]: bad}).argument == argument


# The checks themselves.


@pytest.mark.parametrize("row", [0, 65_535, 65_536, 150_000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_place_of_a_missing_value_is_told_in_a_long_table(row: int, dtype: type[np.floating]) -> None:
    rows = np.zeros((150_001, 2), dtype=dtype)
    rows[row, 1] = math.nan
    error = refusal(arguments.matrix, {"argument": "x", "value": rows})
    assert (error.row, error.column) == (row, 1)
    assert f"NaN in row {row}, column 1;" in str(error)


def test_many_large_numbers_are_fine_while_their_distances_are_finite() -> None:
    """Their sum of squares may overflow; it only says that a closer look is needed."""
    assert arguments.matrix("x", np.full((100_000, 20), 2e15, dtype=np.float32)).shape == (100_000, 20)
    assert arguments.positive("x", 0, zero=True) == 0.0


def test_counts_have_bounds_that_say_what_they_are() -> None:
    assert arguments.count("x", np.int32(3), least=3, most=3) == 3
    with pytest.raises(InvalidArgument, match="x = 2: must be at least 3"):
        arguments.count("x", 2, least=3)
    with pytest.raises(InvalidArgument, match="x = 5: must be at most 4, the number of chairs"):
        arguments.count("x", 5, most=4, most_is="the number of chairs")
    with pytest.raises(InvalidArgument, match="bits"):
        arguments.count("x", 10**5000, most=4)


def test_vectors_have_one_dimension_and_the_length_asked_for() -> None:
    np.testing.assert_array_equal(arguments.vector("x", [1, 2], length=2), [1.0, 2.0])
    cases: list[tuple[Any, str]] = [([[1.0]], "one dimension"), ([1.0], "length 2"), ([1.0, math.inf], "position 1")]
    for bad, reason in cases:
        with pytest.raises(InvalidArgument, match=reason):
            arguments.vector("x", bad, length=2)
