"""Small random markets with labels: nothing that rounding does may end a selection, or let a warning out."""

import warnings

import numpy as np
import pytest

from chance import examples, public_coins
from likeset.geometry.selection import Selection


def _selected_from_market(seed: int) -> None:
    """A pool of 50 to 120 rows, one to eleven classes in any proportions, columns of any scale, copies of rows."""
    coins = public_coins(f"small market {seed}")
    offers, wanted, columns = int(coins.integers(50, 120)), int(coins.integers(2, 30)), int(coins.integers(1, 6))
    classes, apart = int(coins.integers(1, 12)), float(10.0 ** coins.uniform(-3, 2))
    codes = coins.choice(classes, size=offers, p=coins.dirichlet(np.full(classes, 0.7)))
    centres = coins.normal(size=(classes, columns)) * apart
    pool = (centres[codes] + coins.normal(size=(offers, columns))).astype(np.float32)
    target = (centres[coins.integers(classes, size=wanted)] + coins.normal(size=(wanted, columns))).astype(np.float32)
    if coins.random() < 0.3:
        pool = np.repeat(pool[: offers // 5 + 1], 5, axis=0)[:offers]
    gamma = None if coins.random() < 0.7 else float(10.0 ** coins.uniform(-6, 3))
    if gamma is not None and coins.random() < 0.5:
        target = np.repeat(target[:1], wanted, axis=0)
    size = int(coins.integers(1, offers + 1))
    selection = Selection(gamma=gamma)
    selected = selection.select(pool, target, size, labels=codes[: len(pool)])
    assert len(np.unique(selected.indices)) == size
    assert 0.0 <= selected.label_weight <= selected.label_skill <= 1.0
    assert np.isfinite(selected.squared_mmds).all()


@pytest.mark.parametrize("part", range(4))
def test_no_small_market_ends_with_an_error_or_a_warning(part: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with np.errstate(all="warn", under="ignore"):
            for number in range(examples(15)):
                _selected_from_market(1000 * part + number)
