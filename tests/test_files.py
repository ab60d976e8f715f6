"""Homes and secrets of parties: for one user alone, and never over something that is there."""

import os
from pathlib import Path

import pytest

from likeset.errors import InvalidArgument
from likeset.files import keep_private, make_home_folder, make_private_folder


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_home_is_new_or_empty_and_for_nobody_else(tmp_path: Path) -> None:
    make_home_folder(tmp_path / "some" / "where")
    assert _mode(tmp_path / "some" / "where") == 0o700
    (tmp_path / "open").mkdir(mode=0o755)
    make_home_folder(tmp_path / "open")
    assert _mode(tmp_path / "open") == 0o700
    with pytest.raises(InvalidArgument, match="holds something already"):
        make_home_folder(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(InvalidArgument, match="cannot be used as a directory"):
        make_home_folder(tmp_path / "file")


def test_a_file_is_whole_or_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "file"
    keep_private(path, lambda place: place.write_text("one"))
    assert _mode(path) == 0o600

    def fail(place: Path) -> None:
        place.write_text("half")
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        keep_private(path, fail)
    assert path.read_text() == "one"
    keep_private(path, lambda place: place.write_text("two"))
    assert path.read_text() == "two"
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def synced(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, tuple[str, ...]]]:
    """Every file and folder that is brought to the disk, by name, and what lay in a folder then."""
    seen: list[tuple[str, tuple[str, ...]]] = []
    whole = os.fsync

    def fsync(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        seen.append((path.name, tuple(sorted(each.name for each in path.iterdir())) if path.is_dir() else ()))
        whole(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return seen


def test_a_file_is_kept_under_its_name_when_it_is_said_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is on the disk too, and so are the folders above it: a note that power failure takes back is none."""
    seen = synced(monkeypatch)
    make_private_folder(tmp_path / "run" / "checkpoints")
    assert {(tmp_path.name, ("run",)), ("run", ("checkpoints",))} <= set(seen)
    keep_private(tmp_path / "run" / "checkpoints" / "note", lambda path: path.write_bytes(b"1"))
    assert seen[-1:] == [("checkpoints", ("note",))]
