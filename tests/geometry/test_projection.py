"""One number a row instead of its features, and the same bits on any number of threads."""

import subprocess
import sys
import threading
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chance import examples, public_coins
from likeset.geometry import kernels, offers
from likeset.geometry.features import TILE_ROWS, FourierFeatures, Projection, Stream
from likeset.geometry.kernels import one_thread_a_product

_ROWS = public_coins(0).random((3 * TILE_ROWS + 77, 12), dtype=np.float32)
_DIRECTION = public_coins(1).standard_normal(40)
Kind = Literal["paper", "paired", "phased"]


@pytest.mark.parametrize("kind", ["paper", "paired", "phased"])
def test_it_is_the_inner_product_with_the_features(kind: Kind) -> None:
    """Of 40 float32 terms of size below 1, each off by about 1e-7 (angles of a few radians): within 1e-5."""
    features = FourierFeatures(12, 40, 0.3, 5, kind)
    expected = features(_ROWS).astype(np.float64) @ _DIRECTION
    np.testing.assert_allclose(Projection(features, _DIRECTION)(_ROWS), expected, atol=1e-5)


@settings(max_examples=examples(40))
@given(first=st.integers(0, 2 * TILE_ROWS), rows=st.integers(1, 2 * TILE_ROWS), order=st.sampled_from("CF"))
def test_a_block_has_the_bits_of_the_whole(first: int, rows: int, order: Literal["C", "F"]) -> None:
    project = Projection(FourierFeatures(12, 40, 0.3, 5), _DIRECTION)
    block = np.array(_ROWS[first : first + rows], order=order)
    assert project(block, first_row=first).tobytes() == project(_ROWS)[first : first + rows].tobytes()


_PROGRAM = """
import hashlib, numpy as np
from likeset.geometry.features import FourierFeatures
from likeset.geometry.features import Projection
rows = np.random.default_rng(0).random((5000, 50), dtype=np.float32)
features = FourierFeatures(50, 140, 0.3, 5)
found = features(rows).tobytes() + Projection(features, np.ones(140))(rows).tobytes()
print(hashlib.sha256(found).hexdigest())
"""


def test_the_number_of_threads_of_the_library_does_not_change_a_bit() -> None:
    """Shapes at which a product shared by two threads does round differently."""
    digests = set()
    for threads in ("1", "2", "3"):
        environment = {"OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads, "PYTHONPATH": ":".join(sys.path)}
        done = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True, env=environment
        )
        digests.add(done.stdout.strip())
    assert len(digests) == 1


def test_the_setting_of_the_library_comes_back_when_the_last_one_leaves() -> None:
    threadpoolctl = pytest.importorskip("threadpoolctl")

    def threads() -> set[int]:
        return {one["num_threads"] for one in threadpoolctl.threadpool_info() if one["user_api"] == "blas"}

    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        entered, leave = threading.Event(), threading.Event()

        def stay() -> None:
            with one_thread_a_product():
                entered.set()
                leave.wait()

        other = threading.Thread(target=stay)
        with one_thread_a_product():
            other.start()
            entered.wait()
            assert threads() == {1}
        assert threads() == {1}
        leave.set()
        other.join()
        assert threads() == {2}


@dataclass
class _Library:
    """As threadpoolctl describes one."""

    internal_api: str
    threading_layer: str
    threads: int = 4
    wanted: list[int] = field(default_factory=list)

    def get_num_threads(self) -> int:
        return self.threads

    def set_num_threads(self, threads: int) -> None:
        self.threads = threads
        self.wanted.append(threads)


def test_settings_of_the_process_change_once_and_those_of_a_thread_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenBLAS with OpenMP has a setting for each thread; all others have one for the process."""
    threadpoolctl = pytest.importorskip("threadpoolctl")
    kinds = [("openblas", "openmp"), ("openblas", "pthreads"), ("mkl", "openmp"), ("mkl", "intel")]
    own, *shared = libraries = [_Library(*kind) for kind in kinds]
    chosen = SimpleNamespace(lib_controllers=libraries)
    monkeypatch.setattr(threadpoolctl, "ThreadpoolController", lambda: SimpleNamespace(select=lambda **_: chosen))
    monkeypatch.setattr(kernels, "_libraries", kernels._libraries.__wrapped__)
    for _ in range(2):
        with one_thread_a_product(), one_thread_a_product():
            assert {library.threads for library in libraries} == {1}
        assert {library.threads for library in libraries} == {4}
    assert own.wanted == [1, 1, 1, 4] * 2
    assert [library.wanted for library in shared] == [[1, 4] * 2] * 3


@settings(max_examples=examples(60))
@given(
    first=st.integers(0, 10**9),
    rows=st.integers(0, 3000),
    key=st.integers(0, 2**256 - 1),
    least=st.floats(-50.0, 50.0) | st.just(-np.inf),
)
def test_the_large_perturbations_are_found_without_the_small_ones(
    first: int, rows: int, key: int, least: float
) -> None:
    every = -np.log(-np.log(Stream("tilt/perturbations", key).uniforms(first, rows)))
    places, values = offers.large_perturbations(first, rows, key=key, least=least)
    assert places.tolist() == np.flatnonzero(every >= least).tolist()
    assert values.tobytes() == every[places].tobytes()


def test_a_threshold_at_a_perturbation_itself_keeps_it() -> None:
    every = -np.log(-np.log(Stream("tilt/perturbations", 3).uniforms(0, 200)))
    for least in every:
        places, _ = offers.large_perturbations(0, 200, key=3, least=float(least))
        assert places.tolist() == np.flatnonzero(every >= least).tolist()
