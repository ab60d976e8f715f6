"""Data of the studies: MNIST in the forms in which people have it, and tables with declared columns."""

import gzip
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from chance import public_coins
from studies.data.columns import Choice, Number, encode_columns, random_rows, read_table
from studies.data.images import mnist_images

NAMES = {
    "x_train": "train-images-idx3-ubyte",
    "y_train": "train-labels-idx1-ubyte",
    "x_test": "t10k-images-idx3-ubyte",
    "y_test": "t10k-labels-idx1-ubyte",
}
Arrays = dict[str, NDArray[np.uint8]]


def small_mnist() -> Arrays:
    coins = public_coins(0)
    return {
        "x_train": coins.integers(256, size=(30, 28, 28), dtype=np.uint8),
        "y_train": np.arange(30, dtype=np.uint8) % 10,
        "x_test": coins.integers(256, size=(20, 28, 28), dtype=np.uint8),
        "y_test": np.arange(20, dtype=np.uint8) % 10,
    }


def idx(array: NDArray[np.uint8]) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def write_npz(folder: Path, arrays: Arrays) -> str:
    path = folder / "small.npz"
    np.savez(path, **arrays)  # type: ignore[arg-type]  # its keywords are arrays
    return str(path)


def test_npz_and_idx_files_plain_or_compressed_give_the_same(tmp_path: Path) -> None:
    arrays = small_mnist()
    plain, packed = tmp_path / "plain", tmp_path / "packed"
    plain.mkdir()
    packed.mkdir()
    for name, file in NAMES.items():
        (plain / file).write_bytes(idx(arrays[name]))
        (packed / f"{file}.gz").write_bytes(gzip.compress(idx(arrays[name])))
    found = [mnist_images(place) for place in (write_npz(tmp_path, arrays), str(plain), str(packed))]
    assert len({one.digest for one in found}) == 1
    for one in found:
        assert one.train.dtype == np.float32
        np.testing.assert_allclose(one.train, arrays["x_train"].reshape(30, 784) / 255.0, rtol=1e-6)
        np.testing.assert_array_equal(one.test_digits, arrays["y_test"])
    other = dict(arrays, y_test=arrays["y_test"][::-1].copy())
    (tmp_path / "other").mkdir()
    assert mnist_images(write_npz(tmp_path / "other", other)).digest != found[0].digest


def test_columns_become_numbers_by_what_was_declared(tmp_path: Path) -> None:
    """Bounds 10 to 20: 15 is the middle, 30 is cut to 1, missing is the middle with a mark; categories lie 1 apart."""
    path = tmp_path / "table.csv.gz"
    path.write_bytes(gzip.compress(b"n,c\n15,x\n30,y\nNA,\n0,x\n"))
    columns = (Number("n", 10.0, 20.0, zero_is_missing=True), Choice("c", ("x", "y")))
    half = np.sqrt(0.5)
    rows = encode_columns(read_table(str(path), ("n", "c")), columns)
    np.testing.assert_allclose(rows, [[0.5, 0, half, 0], [1, 0, 0, half], [0.5, 1, 0, 0], [0.5, 1, half, 0]], rtol=1e-6)
    drawn = random_rows(columns, 200, public_coins(0))
    assert drawn.shape == (200, 4)
    np.testing.assert_allclose((drawn[:, 2:] ** 2).sum(axis=1), 0.5, rtol=1e-6)
