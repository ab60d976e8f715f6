"""The kernel against its definition, and the median heuristic."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_twins
from chance import examples, public_coins
from likeset.errors import InvalidArgument
from likeset.geometry import kernels
from likeset.geometry.kernels import blocks, kernel_means, median_gamma, rbf_kernel


@settings(max_examples=examples(50))
@given(
    seed=st.integers(0, 2**32),
    rows=st.integers(1, 12),
    others=st.integers(1, 12),
    columns=st.integers(1, 5),
    gamma=st.floats(1e-3, 20.0),
)
def test_the_kernel_agrees_with_its_definition(seed: int, rows: int, others: int, columns: int, gamma: float) -> None:
    coins = public_coins(seed)
    a, b = coins.normal(size=(rows, columns)), coins.normal(size=(others, columns))
    expected = [[naive_twins.kernel(x, y, gamma=gamma) for y in b] for x in a]
    np.testing.assert_allclose(rbf_kernel(a, b, gamma=gamma), expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(kernel_means(a, b, gamma=gamma), np.mean(expected, axis=1), rtol=0, atol=1e-12)


def test_the_kernel_of_three_rows_by_hand() -> None:
    """Rows 0, 1 and 3 of one column at gamma = 1/2: squared distances 1, 4 and 9."""
    rows = np.array([[0.0], [1.0], [3.0]])
    expected = [
        [1, math.exp(-0.5), math.exp(-4.5)],
        [math.exp(-0.5), 1, math.exp(-2)],
        [math.exp(-4.5), math.exp(-2), 1],
    ]
    np.testing.assert_allclose(rbf_kernel(rows, rows, gamma=0.5), expected, rtol=1e-15)


def test_float32_rows_give_a_float32_kernel_and_whole_numbers_a_float64_one() -> None:
    rows = np.arange(6).reshape(3, 2)
    assert rbf_kernel(rows.astype(np.float32), rows.astype(np.float32), gamma=1.0).dtype == np.float32
    assert rbf_kernel(rows, rows, gamma=1.0).dtype == np.float64
    assert rbf_kernel(rows.astype(np.float32), rows, gamma=1.0).dtype == np.float64


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 2e-3), (np.float64, 1e-9)])
def test_a_far_offset_does_not_change_the_kernel(dtype: type[np.floating], tolerance: float) -> None:
    """At 1000 a float32 is exact to 3e-5; a distance of a few units then errs by about 1e-4, the kernel by less."""
    rows = public_coins(0).normal(size=(60, 4))
    near, far = rbf_kernel(rows, rows, gamma=0.5), rbf_kernel(*2 * [(rows + 1000).astype(dtype)], gamma=0.5)
    np.testing.assert_allclose(far, near, rtol=0, atol=tolerance)


def test_blocks_cover_every_row_once_in_order_and_stay_within_the_budget() -> None:
    for rows, width in [(0, 5), (1, 1), (10, kernels.BLOCK_ENTRIES), (10, 10 * kernels.BLOCK_ENTRIES), (3_000_000, 3)]:
        parts = list(blocks(rows, width=width))
        assert [part.start for part in parts] == [0, *(part.stop for part in parts)][: len(parts)]
        assert (parts[-1].stop if parts else 0) == rows
        assert all(
            part.stop - part.start == 1 or (part.stop - part.start) * width <= kernels.BLOCK_ENTRIES for part in parts
        )


def test_results_do_not_depend_on_the_size_of_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    coins = public_coins(1)
    a, b = coins.normal(size=(57, 3)), coins.normal(size=(31, 3))
    whole = kernel_means(a, b, gamma=0.7)
    monkeypatch.setattr(kernels, "BLOCK_ENTRIES", 100)
    np.testing.assert_allclose(kernel_means(a, b, gamma=0.7), whole, rtol=1e-13)


def test_median_gamma_by_hand() -> None:
    """Rows 0, 1, 3: squared distances 1, 4, 9, median 4, so a scale of 2 gives 1/2."""
    assert median_gamma([[0.0], [1.0], [3.0]], scale=2.0, coins=public_coins(0)) == pytest.approx(0.5)


def test_median_gamma_of_a_sample_is_that_of_the_rows_it_drew_and_repeats_with_the_coins() -> None:
    rows = public_coins(0).normal(size=(5000, 3)) + 100.0
    first = median_gamma(rows, scale=1.0, coins=public_coins(4), sample=400)
    assert first == median_gamma(rows, scale=1.0, coins=public_coins(4), sample=400)
    assert first != median_gamma(rows, scale=1.0, coins=public_coins(5), sample=400)
    # Squared distances are twice a chi-square of three degrees: median 2 * 2.366.
    assert first == pytest.approx(1 / 4.732, rel=0.1)


def test_median_gamma_needs_rows_that_differ() -> None:
    coins = public_coins(0)
    for rows in ([[1.0, 2.0]], [[5.3, 1e6]] * 10, [[0.0]] * 8 + [[1.0]]):
        with pytest.raises(InvalidArgument) as caught:
            median_gamma(rows, scale=1.0, coins=coins)
        assert caught.value.argument == "rows"
