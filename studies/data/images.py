"""Handwritten digits: the images that come with scikit-learn, and MNIST in the forms in which people have it."""

import gzip
import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import fetch_openml, load_digits

from likeset.arguments import Rows
from likeset.errors import BadTable, InvalidArgument

_SIDE = 28
_ARRAYS = ("x_train", "y_train", "x_test", "y_test")
_IDX_NAMES = {
    "x_train": "train-images-idx3-ubyte",
    "y_train": "train-labels-idx1-ubyte",
    "x_test": "t10k-images-idx3-ubyte",
    "y_test": "t10k-labels-idx1-ubyte",
}
_OPENML_TRAIN = 60_000
_IDX_BYTES = 0x08  # the code of unsigned bytes


@dataclass(frozen=True, eq=False)
class Images:
    """Images as rows of pixels between 0 and 1 with their digits: what owners share, and the test images.

    Attributes:
        train: rows that owners share.
        train_digits: their digits.
        test: rows of which the target and the held-out rows are made.
        test_digits: their digits.
        digest: of all of it.
    """

    train: Rows
    train_digits: NDArray[np.int64]
    test: Rows
    test_digits: NDArray[np.int64]
    digest: str


@lru_cache(maxsize=1)
def bundled_images() -> Images:
    """The 1,797 images of 8 x 8 pixels of scikit-learn; every other image of a digit is a test image."""
    pixels, digits = load_digits(return_X_y=True)
    rows, digits = (pixels / 16.0).astype(np.float32), digits.astype(np.int64)
    order = np.random.default_rng(2019).permutation(len(rows))
    rank = np.empty(len(rows), dtype=np.int64)
    for digit in range(10):
        mine = order[digits[order] == digit]
        rank[mine] = np.arange(len(mine))
    test = rank % 2 == 1
    return Images(rows[~test], digits[~test], rows[test], digits[test], _digest(rows, digits))


@lru_cache(maxsize=1)
def mnist_images(source: str) -> Images:
    """MNIST from an npz file, a folder with the four idx files (plain or ``.gz``), or ``openml``."""
    if source == "openml":
        arrays = _from_openml()
    elif Path(source).is_dir():
        arrays = {name: _read_idx(Path(source), file) for name, file in _IDX_NAMES.items()}
    elif Path(source).is_file():
        arrays = _read_npz(Path(source))
    else:
        raise InvalidArgument("--data", source, "is neither a file nor a folder; give mnist.npz, a folder, or openml")
    for part in ("train", "test"):
        images, digits = arrays[f"x_{part}"], arrays[f"y_{part}"]
        shaped = images.ndim in (2, 3) and images[:1].size == _SIDE * _SIDE and images.dtype == np.uint8
        if not shaped or digits.shape != (len(images),) or digits.dtype.kind not in "iu":
            reason = f"x_{part} must be images of {_SIDE} x {_SIDE} bytes and y_{part} one digit for each of them"
            raise BadTable(source, reason)
        if len(digits) == 0 or digits.min() < 0 or digits.max() > 9:
            raise BadTable(source, "labels must be digits from 0 to 9", column=f"y_{part}")
    return Images(
        _pixels(arrays["x_train"]),
        arrays["y_train"].astype(np.int64),
        _pixels(arrays["x_test"]),
        arrays["y_test"].astype(np.int64),
        _digest(*(arrays[name].astype(np.uint8) for name in _ARRAYS)),
    )


def _pixels(images: NDArray[np.uint8]) -> Rows:
    return images.reshape(len(images), -1).astype(np.float32) / np.float32(255.0)


def _digest(*arrays: NDArray[Any]) -> str:
    """Of the content, whatever file it came from."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array.reshape(len(array), -1)).tobytes())
    return digest.hexdigest()[:16]


def _read_npz(path: Path) -> Mapping[str, NDArray[Any]]:
    try:
        with path.open("rb") as opened:
            file = np.load(opened, allow_pickle=False)
            if isinstance(file, np.ndarray):
                raise BadTable(str(path), f"is a single array; an npz file with {', '.join(_ARRAYS)} is needed")
            missing = [name for name in _ARRAYS if name not in file]
            if missing:
                raise BadTable(str(path), f"has no array {', '.join(missing)}; needed are {', '.join(_ARRAYS)}")
            return {name: file[name] for name in _ARRAYS}
    except BadTable:
        raise
    except (OSError, ValueError, EOFError, KeyError, BadZipFile) as error:
        raise BadTable(str(path), "is no npz file that can be read; is the download complete?") from error


def _read_idx(folder: Path, name: str) -> NDArray[Any]:
    """One file of the original distribution: magic number, lengths, bytes."""
    for path in (folder / name, folder / f"{name}.gz", folder / name.replace("-idx", ".idx")):
        if path.is_file():
            break
    else:
        raise BadTable(str(folder), f"has no file {name} or {name}.gz; all four idx files are needed")
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        zero, kind, dimensions = struct.unpack_from(">HBB", data)
        lengths = struct.unpack_from(f">{dimensions}I", data, 4)
    except (OSError, EOFError, struct.error) as error:
        raise BadTable(str(path), "is no idx file that can be read; is the download complete?") from error
    start = 4 + 4 * dimensions
    if zero != 0 or kind != _IDX_BYTES or not 1 <= dimensions <= 3:
        raise BadTable(str(path), "does not begin as an idx file of bytes does")
    if len(data) - start != int(np.prod(lengths, dtype=object)):
        raise BadTable(str(path), "is shorter or longer than it says; is the download complete?")
    return np.frombuffer(data, dtype=np.uint8, offset=start).reshape(lengths)


def _from_openml() -> Mapping[str, NDArray[Any]]:
    try:
        pixels, digits = fetch_openml("mnist_784", version=1, return_X_y=True, as_frame=False, parser="liac-arff")
    except (OSError, ValueError) as error:
        raise InvalidArgument("--data", "openml", "could not be fetched; give a file instead") from error
    images, labels = pixels.astype(np.uint8), digits.astype(np.int64)
    return {
        "x_train": images[:_OPENML_TRAIN],
        "y_train": labels[:_OPENML_TRAIN],
        "x_test": images[_OPENML_TRAIN:],
        "y_test": labels[_OPENML_TRAIN:],
    }
