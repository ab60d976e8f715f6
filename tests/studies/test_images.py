"""MNIST in the forms in which people have it: the same content from each, and a word about what is wrong."""

import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from chance import public_coins
from likeset.errors import BadTable, InvalidArgument
from likeset.simulation import DIGIT_GROUPS
from studies.data.image_markets import image_market
from studies.data.images import Images, bundled_images, mnist_images

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


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda arrays: arrays.pop("y_test"), "y_test"),
        (lambda arrays: arrays.update(x_test=arrays["x_test"][:, :27]), "28 x 28"),
        (lambda arrays: arrays.update(y_train=arrays["y_train"][:-1]), "one digit"),
        (lambda arrays: arrays.update(y_train=arrays["y_train"] + 1), "0 to 9"),
        (lambda arrays: arrays.update(x_train=arrays["x_train"] / 255.0), "bytes"),
    ],
)
def test_a_wrong_npz_is_named(tmp_path: Path, change: Callable[[Arrays], object], word: str) -> None:
    arrays = small_mnist()
    change(arrays)
    with pytest.raises(BadTable, match=word) as caught:
        mnist_images(write_npz(tmp_path, arrays))
    assert "small.npz" in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"no zip", b"PK\x03\x04 torn"])
def test_a_file_that_is_no_npz_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "torn.npz"
    path.write_bytes(content)
    with pytest.raises(BadTable, match=r"torn\.npz"):
        mnist_images(str(path))


def test_a_single_array_and_pickles_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", np.zeros(3))
    with pytest.raises(BadTable, match="single array"):
        mnist_images(str(tmp_path / "one.npy"))
    objects = np.array([{}, {}], dtype=object)
    np.savez(tmp_path / "objects.npz", x_train=objects, y_train=objects, x_test=objects, y_test=objects)
    with pytest.raises(BadTable, match="npz"):
        mnist_images(str(tmp_path / "objects.npz"))


def test_missing_or_damaged_idx_files_are_named(tmp_path: Path) -> None:
    arrays = small_mnist()
    with pytest.raises(BadTable, match="train-images"):
        mnist_images(str(tmp_path))
    for name, file in NAMES.items():
        (tmp_path / file).write_bytes(idx(arrays[name]))
    good = (tmp_path / NAMES["x_test"]).read_bytes()
    for bad, word in ((good[:-1], "shorter"), (good[:3], "idx"), (b"\1" + good[1:], "begin")):
        (tmp_path / NAMES["x_test"]).write_bytes(bad)
        with pytest.raises(BadTable, match=word):
            mnist_images(str(tmp_path))


def test_a_place_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="--data"):
        mnist_images(str(tmp_path / "nowhere.npz"))


def test_the_papers_market_has_its_owners_and_its_mix() -> None:
    market = image_market(bundled_images(), "groups", seed=0, validation=0.6)
    for group, labels in zip(DIGIT_GROUPS, market.labels.values(), strict=True):
        assert set(labels.tolist()) == set(group)
    assert set(market.test_labels.tolist()) == {3, 4}
    assert (market.test_labels == 3).mean() == pytest.approx(0.7, abs=0.02)
    assert market.public is not None
    rows = [one.tobytes() for part in (market.target, market.test, market.pool, market.public) for one in part]
    doubles = len(rows) - len(set(rows))
    assert doubles == len(bundled_images().train) + len(bundled_images().test) - len(
        {one.tobytes() for part in (bundled_images().train, bundled_images().test) for one in part}
    ), "nobody shares a row with anybody but where the data themselves have it twice"


def test_fewer_rows_of_each_owner_are_a_part_of_all() -> None:
    whole = image_market(bundled_images(), "groups", seed=1)
    part = image_market(bundled_images(), "groups", seed=1, rows_per_owner=20)
    for name, rows in part.owners.items():
        np.testing.assert_array_equal(rows, whole.owners[name][:20])
    np.testing.assert_array_equal(part.target, whole.target)


def test_skewed_owners_share_all_rows_and_rare_ones_have_few_right_digits() -> None:
    digits = np.tile(np.arange(10), 7000)
    images = Images(np.zeros((70_000, 1), np.float32), digits, bundled_images().test, bundled_images().test_digits, "")
    assert len(image_market(images, "skewed", seed=0).pool) == 70_000
    rare = image_market(images, "rare", seed=0)
    assert [int(np.isin(labels, (3, 4)).sum()) for labels in rare.labels.values()] == [120] * 5
    assert [len(labels) for labels in rare.labels.values()] == [6120] * 5
