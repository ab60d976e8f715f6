"""The kernel against its definition, and the median heuristic."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_twins
from chance import examples, public_coins
from likeset.errors import InvalidArgument
from likeset.geometry import kernels
from likeset.geometry.kernels import (
    LabelledKernel,
    PoolKernel,
    blocks,
    kernel_means,
    median_gamma,
    precise_enough,
    rbf_kernel,
)


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
        assert 4 * kernels.BLOCK_ENTRIES == 1 << 20  # bytes in float32: one megabyte
        assert all(
            part.stop - part.start == 1 or (part.stop - part.start) * width <= kernels.BLOCK_ENTRIES for part in parts
        )


@pytest.mark.parametrize(("mean", "copied"), [(9.0, False), (11.0, True)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_kernel_within_a_pool_is_its_definition_whether_or_not_the_pool_is_copied(
    mean: float, copied: bool, dtype: type[np.floating], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy is made where the squared mean exceeds a hundred variances: 100 or 10 in each of two columns."""
    monkeypatch.setattr(kernels, "BLOCK_ENTRIES", 20)
    spread = public_coins(2).normal(size=(30, 2))
    rows = ((spread - spread.mean(axis=0)) / spread.std(axis=0) + mean).astype(dtype)
    pool = PoolKernel(rows, gamma=0.3)
    assert (pool._rows is not rows) == copied
    expected = naive_twins.kernel_matrix(rows, rows, gamma=0.3)
    tolerance = 1e-4 if dtype is np.float32 else 1e-12
    likely = public_coins(3).normal(size=30)
    for position in (7, 4, 9, 7, 0, 29):
        np.testing.assert_allclose(pool.row(position, likely), expected[position], rtol=0, atol=tolerance)


@pytest.mark.parametrize("stored_bytes", [0, 4 * 300 * 40, None])
def test_kernel_rows_are_right_however_few_are_stored_and_whatever_was_likely(stored_bytes: int | None) -> None:
    """Asked for in an order that the likely rows foretell, and in one that they do not."""
    coins = public_coins(4)
    rows = coins.normal(size=(300, 3)).astype(np.float32)
    expected = naive_twins.kernel_matrix(rows, rows, gamma=0.4)
    pool = PoolKernel(rows, gamma=0.4, stored_bytes=stored_bytes)
    for foretold in (True, False, True):
        likely = coins.normal(size=300)
        order = np.argsort(-likely) if foretold else coins.permutation(300)
        for position in order[:150]:
            likely[position] = -np.inf
            np.testing.assert_allclose(pool.row(int(position), likely), expected[position], rtol=0, atol=1e-5)


@pytest.mark.parametrize(("limit", "kept"), [("max\n", True), (f"{8 * 4 * 300 * 40}\n", False)])
def test_stored_rows_stay_within_the_memory_of_a_container(
    limit: str, kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that are asked for again are the same array if they are stored; a limit that holds 40 rows replaces them."""
    (tmp_path / "memory.max").write_text(limit)
    monkeypatch.setattr(kernels, "_CONTAINER_LIMITS", (tmp_path / "memory.max", tmp_path / "none"))
    pool = PoolKernel(public_coins(4).normal(size=(300, 3)).astype(np.float32), gamma=0.4)
    places = {pool.row(position, np.zeros(300)).__array_interface__["data"][0] for position in range(300)}
    assert (len(places) == 300) == kept
    assert kept or len(places) <= 2 * 64


def test_a_labelled_kernel_is_the_kernel_times_the_agreement_of_classes() -> None:
    coins = public_coins(5)
    rows, codes = coins.normal(size=(40, 2)), coins.integers(3, size=40)
    joint = LabelledKernel(PoolKernel(rows, gamma=0.5), codes, 0.75)
    expected = naive_twins.kernel_matrix(rows, rows, gamma=0.5) * np.where(codes[:, None] == codes, 1.0, 0.25)
    for position in range(40):
        np.testing.assert_allclose(joint.row(position, np.zeros(40)), expected[position], rtol=0, atol=1e-12)


@pytest.mark.parametrize(("gamma", "dtype"), [(1.6, np.float32), (1.7, np.float64)])
def test_rows_many_kernel_widths_apart_are_computed_in_double_precision(
    gamma: float, dtype: type[np.floating], monkeypatch: pytest.MonkeyPatch
) -> None:
    """100 from the centre: gamma * 10,000 / 2^24 exceeds 0.001 from gamma = 1.678 on. The farthest row decides."""
    monkeypatch.setattr(kernels, "BLOCK_ENTRIES", 4)
    rows = np.array([[5.0, 7.0], [65.0, 87.0], [6.0, 7.0], [5.0, 8.0], [5.0, 5.0]], dtype=np.float32)
    assert precise_enough(rows, gamma=gamma, centre=np.array([5.0, 7.0])).dtype == dtype
    assert precise_enough(rows.astype(np.float64), gamma=1e-9, centre=np.zeros(2)).dtype == np.float64


def test_median_gamma_of_a_sample_is_that_of_the_rows_it_drew_and_repeats_with_the_coins() -> None:
    rows = public_coins(0).normal(size=(5000, 3)) + 100.0
    first = median_gamma(rows, scale=1.0, coins=public_coins(4))
    assert first == median_gamma(rows, scale=1.0, coins=public_coins(4))
    assert first != median_gamma(rows, scale=1.0, coins=public_coins(5))
    drawn = np.sort(public_coins(4).choice(5000, size=1000, replace=False))
    distances = ((rows[drawn, None] - rows[drawn]) ** 2).sum(axis=2)[np.triu_indices(1000, k=1)]
    assert first == pytest.approx(1.0 / np.median(distances), rel=1e-9)
    small = median_gamma((rows - 100.0) * 1e-3, scale=2.0, coins=public_coins(4))
    assert small == pytest.approx(2e6 * first, rel=1e-6)
    # Squared distances are twice a chi-square of three degrees: median 2 * 2.366.
    assert first == pytest.approx(1 / 4.732, rel=0.1)


def test_median_gamma_needs_rows_that_differ() -> None:
    coins = public_coins(0)
    for rows in ([[1.0, 2.0]], [[5.3, 1e6]] * 10, [[0.0]] * 8 + [[1.0]]):
        with pytest.raises(InvalidArgument) as caught:
            median_gamma(rows, scale=1.0, coins=coins)
        assert caught.value.argument == "rows"


@pytest.mark.parametrize("seed", range(8))
def test_what_rounding_leaves_between_equal_rows_is_no_distance(seed: int) -> None:
    """Eight rows of ten are equal, so 28 distances of 45 are zero; a product and a sum of squares round otherwise."""
    rows = np.repeat(public_coins(seed).normal(size=(3, 700)), [8, 1, 1], axis=0)
    with pytest.raises(InvalidArgument) as caught:
        median_gamma(rows, scale=1.0, coins=public_coins(0))
    assert caught.value.argument == "rows"
