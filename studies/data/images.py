"""Handwritten digits: the images that come with scikit-learn, and MNIST in the forms in which people have it."""

import gzip
import hashlib
import struct
from collections.abc import Callable, Mapping
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
from likeset.simulation import DIGIT_GROUPS, LabelledMarket

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


RIGHT_DIGITS = (3, 4)
_TARGET_SHARE = (0.7, 0.3)
_OWNERS = 80
_RARE_RIGHT, _RARE_OTHERS = 120, 6000
_PUBLIC = 150

Owned = Mapping[str, NDArray[np.int64]]


def image_market(
    images: Images, kind: str, *, seed: int, validation: float = 0.25, rows_per_owner: int | None = None
) -> LabelledMarket:
    """The market of one seed; the target and the test rows do not depend on the kind.

    Args:
        images: where the rows come from.
        kind: ``groups`` (the paper's five owners), ``rare`` or ``skewed``.
        seed: of the split.
        validation: share of the test digits, mixed as in the paper, that is the target; the others are held out.
        rows_per_owner: most rows of each owner, drawn at random.
    """
    target, held_out = _split_target(images, validation, np.random.default_rng([seed, 0]))
    owned = _KINDS[kind](images.train_digits, np.random.default_rng([seed, 1]))
    kept = {name: rows[:rows_per_owner] for name, rows in owned.items()}
    others = np.flatnonzero(~np.isin(images.test_digits, RIGHT_DIGITS))
    public = np.random.default_rng([seed, 2]).choice(others, size=min(_PUBLIC, len(others)), replace=False)
    return LabelledMarket(
        owners={name: images.train[rows] for name, rows in kept.items()},
        labels={name: images.train_digits[rows] for name, rows in kept.items()},
        target=images.test[target],
        test=images.test[held_out],
        test_labels=images.test_digits[held_out],
        public=images.test[public],
    )


def _split_target(
    images: Images, validation: float, coins: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """As many test images of the right digits as the mix allows: a part of them the target, the others held out."""
    rows_by_digit = [coins.permutation(np.flatnonzero(images.test_digits == digit)) for digit in RIGHT_DIGITS]
    most = min(len(rows) / share for rows, share in zip(rows_by_digit, _TARGET_SHARE, strict=True))
    counts = [int(most * share) for share in _TARGET_SHARE]
    first = [round(validation * count) for count in counts]
    target = np.concatenate([rows[:end] for rows, end in zip(rows_by_digit, first, strict=True)])
    held_out = np.concatenate([rows[a:b] for rows, a, b in zip(rows_by_digit, first, counts, strict=True)])
    return coins.permutation(target), held_out


def _digit_group_owners(labels: NDArray[np.int64], coins: np.random.Generator) -> Owned:
    """The paper's five owners, each with images of two digits."""
    return {
        "digits-" + "-".join(str(digit) for digit in group): coins.permutation(np.flatnonzero(np.isin(labels, group)))
        for group in DIGIT_GROUPS
    }


def _rare_owners(labels: NDArray[np.int64], coins: np.random.Generator) -> Owned:
    """Five alike owners with few right digits among many others."""
    right = coins.permutation(np.flatnonzero(np.isin(labels, RIGHT_DIGITS)))
    others = coins.permutation(np.flatnonzero(~np.isin(labels, RIGHT_DIGITS)))
    owned = {}
    for number in range(5):
        few = right[number * _RARE_RIGHT : (number + 1) * _RARE_RIGHT]
        many = others[number * _RARE_OTHERS : (number + 1) * _RARE_OTHERS]
        owned[f"owner-{number}"] = coins.permutation(np.concatenate([few, many]))
    return owned


def _skewed_owners(labels: NDArray[np.int64], coins: np.random.Generator) -> Owned:
    """Each digit is dealt to 80 owners in proportions of its own; owners who got nothing are not there."""
    dealt: list[list[NDArray[np.int64]]] = [[] for _ in range(_OWNERS)]
    for digit in range(10):
        rows = coins.permutation(np.flatnonzero(labels == digit))
        ends = np.cumsum(coins.dirichlet(np.full(_OWNERS, 0.1)))[:-1] * len(rows)
        for number, part in enumerate(np.split(rows, ends.astype(int))):
            dealt[number].append(part)
    joined = {f"owner-{number}": coins.permutation(np.concatenate(parts)) for number, parts in enumerate(dealt)}
    return {name: rows for name, rows in joined.items() if len(rows)}


_KINDS: Mapping[str, Callable[[NDArray[np.int64], np.random.Generator], Owned]] = {
    "groups": _digit_group_owners,
    "rare": _rare_owners,
    "skewed": _skewed_owners,
}
