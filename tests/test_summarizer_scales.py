"""Rows on any scale: an answer of numbers, or a refusal by name; numpy has nothing to warn of."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from likeset import Summarizer
from likeset.errors import InvalidArgument

Tables = tuple[NDArray[Any], dict[str, NDArray[Any]]]
_KINDS: list[dict[str, Any]] = [{}, {"weights": True}, {"offers": "uniform"}]
_KINDS += [{"protocol": "interactive", "dimension": 16}, {"release_gamma": 1e-9}]


def market(seed: int, *, rows: int = 24) -> Tables:
    coins = np.random.default_rng(seed)
    return coins.normal(size=(rows, 3)), {"a": coins.normal(size=(15, 3)), "b": coins.normal(0.5, 1.0, size=(12, 3))}


def scaled(tables: Tables, kind: str, scale: float) -> Tables:
    target, owners = tables
    if kind == "owner":
        return target, {**owners, "b": owners["b"] * scale}
    if kind == "offset":
        return target + scale, {name: rows + scale for name, rows in owners.items()}
    factors = np.array([1.0, 1.0, scale]) if kind == "column" else np.full(3, scale)
    return target * factors, {name: rows * factors for name, rows in owners.items()}


def outcome(tables: Tables, **settings: Any) -> str:
    target, owners = tables
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            summarizer = Summarizer(3, **{"epsilon": 8.0, "noise": "simulated", "random_state": 1, **settings})
            fitted = summarizer.fit(target, owners)
        except InvalidArgument as refused:
            return refused.argument
    assert np.isfinite([fitted.in_sample_squared_mmd_, *fitted.weights_, *fitted.shares_.values()]).all()
    return "fitted"


def cases() -> Iterator[Any]:
    for number, power in enumerate((-30, -17, -8, -3, 2, 4, 7, 11, 16, 19, 24, 30)):
        for place, kind in enumerate(("all", "owner", "column", "offset")):
            yield pytest.param(kind, 10.0**power, number + place, id=f"{kind}-1e{power}")


@pytest.mark.parametrize(("kind", "scale", "turn"), list(cases()))
def test_rows_on_any_scale_give_numbers_or_a_refusal(kind: str, scale: float, turn: int) -> None:
    tables = scaled(market(turn % 3), kind, scale)
    settings = _KINDS[turn % len(_KINDS)]
    assert outcome(tables, **settings) in {"fitted", "target", "owners['a']", "owners['b']", "gamma_scale", "gamma"} | (
        {"release_gamma"} if "release_gamma" in settings else set()
    )


@pytest.mark.parametrize("settings", _KINDS[:3])
def test_rows_ten_thousand_times_too_wide_are_refused_with_a_word(settings: dict[str, Any]) -> None:
    target, owners = scaled(market(0), "all", 1e4)
    with pytest.raises(InvalidArgument, match=r"not scaled.*public knowledge") as refused:
        Summarizer(3, epsilon=8.0, **settings).fit(target, owners)
    assert refused.value.argument == "target"
    assert outcome((target, owners), release_gamma=1e-9) == "fitted"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_odd_columns_and_few_rows_give_numbers_or_a_refusal(dtype: type) -> None:
    target, owners = market(1)
    target, owners = target.astype(dtype), {name: rows.astype(dtype) for name, rows in owners.items()}
    for value, whose in ((np.nan, "owners['b']"), (np.inf, "owners['b']"), (-np.inf, "owners['b']")):
        spoiled = owners["b"].copy()
        spoiled[:, 1] = value
        assert outcome((target, {**owners, "b": spoiled})) == whose
        wrong = target.copy()
        wrong[:, 2] = value
        assert outcome((wrong, owners)) == "target"
    level = target.copy()
    level[:, 0] = 7.0
    assert outcome((level, owners)) == "fitted"
    assert outcome((np.ones_like(target), owners)) == "target"
    assert outcome((target[:1], owners)) == "target"
    assert outcome((target, {"a": owners["a"], "b": owners["b"][:1]})) == "fitted"
