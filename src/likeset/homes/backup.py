"""Backup of a home as one tar file, without the keys of its runs; its restoration into a new directory."""

import hashlib
import os
import shutil
import sqlite3
import tarfile
import tempfile
from contextlib import closing, suppress
from pathlib import Path
from typing import Literal

from likeset import documents
from likeset.documents import Document
from likeset.errors import InvalidArgument
from likeset.files import PRIVATE_FILE, PRIVATE_FOLDER, UNFINISHED, keep_private, make_private_folder
from likeset.homes.home import (
    CONSOLE_FOLDER,
    DATABASE_FILE,
    KEYS_FOLDER,
    RESERVE_FILE,
    SETTINGS_FILE,
    SPLIT_FOLDER,
    UP_FILE,
    Home,
    stamp,
)

LEFT_OUT = ("keys of runs", "the split folder", "locks", "console links", "symbolic links")
_LEFT_OUT = (KEYS_FOLDER, SPLIT_FOLDER, CONSOLE_FOLDER, RESERVE_FILE, UP_FILE)
_HOME, _MANIFEST = "home", "backup.yaml"  # in the archive; the manifest comes last: a truncated archive has none


class Manifest(Document):
    likeset: Literal["backup"] = "backup"
    version: Literal[1] = 1
    name: str  # of the party
    at: str  # when it was begun
    digest: str  # of the names and contents of all files


def write_backup(home: Home, path: Path) -> Manifest:
    """Write a private tar file; other processes may use the home meanwhile."""
    if path.exists():
        raise InvalidArgument("FILE", path, "exists, and nothing is overwritten; name a new file")
    if home.folder.resolve() in path.resolve().parents:
        raise InvalidArgument("FILE", path, "is inside the home; name a file elsewhere")
    at = stamp(home.clock())
    try:
        with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as temporary:
            copy = Path(temporary) / _HOME
            _copy_databases(home, copy)  # first: then each run in them has its files
            shutil.copytree(home.folder, copy, ignore=_ignored, copy_function=_copy_if_there, dirs_exist_ok=True)
            _make_private(copy)
            manifest = Manifest(name=home.name, at=at, digest=_digest(copy))
            documents.write_text(Path(temporary) / _MANIFEST, manifest.model_dump_json())

            def write(partial: Path) -> None:
                with tarfile.open(partial, "w") as archive:
                    for name in (_HOME, _MANIFEST):
                        archive.add(Path(temporary) / name, name)

            keep_private(path, write)
    except (OSError, sqlite3.Error) as error:
        raise InvalidArgument("FILE", path, f"cannot be written: {getattr(error, 'strerror', '') or error}") from error
    return manifest


def restore_backup(path: Path, folder: Path) -> Manifest:
    """Make the home of a backup in a new or empty directory: all of it, after it was checked, or nothing."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidArgument("HOME", folder, "contains something, and nothing is overwritten; name a new directory")
    try:
        make_private_folder(folder.absolute().parent)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.absolute().parent) as temporary:
            with tarfile.open(path, "r:") as archive:
                for member in archive:  # extractall has no filter before Python 3.11.4
                    _copy_member(archive, member, Path(temporary))
            copy = Path(temporary) / _HOME
            manifest = documents.read(Path(temporary) / _MANIFEST, Manifest)
            if manifest.digest != _digest(copy):
                raise InvalidArgument("FILE", path, "is damaged: its files are not those that were backed up")
            _make_private(copy)
            _check_opens(copy)
            os.sync()
            copy.rename(folder)  # refused by the system if something came there meanwhile
    except InvalidArgument:
        raise
    except (tarfile.TarError, ValueError) as error:  # of headers and names, too
        raise InvalidArgument("FILE", path, f"is not a backup of a home: {error}") from error
    except OSError as error:
        raise InvalidArgument("FILE", path, f"cannot be restored: {error.strerror or error}") from error
    return manifest


def _copy_member(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    parts = Path(member.name).parts
    if ".." in parts or Path(member.name).is_absolute():
        raise tarfile.ReadError("it contains a file outside the home")
    if member.isdir():
        folder.joinpath(*parts).mkdir()
    elif member.isfile() and not member.issparse() and (content := archive.extractfile(member)) is not None:
        with content, folder.joinpath(*parts).open("xb") as file:
            shutil.copyfileobj(content, file)
    else:
        raise tarfile.ReadError("it contains links, devices or sparse files")


def _copy_databases(home: Home, copy: Path) -> None:
    copy.mkdir(parents=True)
    home.database.refresh()  # opening it refuses one that is damaged or of an older likeset
    with (
        closing(sqlite3.connect(f"{home.database_file.absolute().as_uri()}?mode=ro", uri=True)) as source,
        closing(sqlite3.connect(copy / DATABASE_FILE)) as target,
    ):
        source.backup(target)  # one consistent state, with what is still in the write-ahead log
    if home.own_curator is not None:
        with Home(home.own_curator) as curator:
            _copy_databases(curator, copy / home.own_curator.name)


def _ignored(folder: str, names: list[str]) -> set[str]:
    left_out = {name for name in names if UNFINISHED.fullmatch(name) or Path(folder, name).is_symlink()}
    if SETTINGS_FILE in names:  # a home, perhaps the curator's in that of a consumer
        left_out |= {name for name in names if name in _LEFT_OUT or name.startswith(DATABASE_FILE)}
    return left_out


def _copy_if_there(source: str, target: str) -> None:
    with suppress(FileNotFoundError):  # removed meanwhile
        shutil.copyfile(source, target)


def _make_private(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        path.chmod(PRIVATE_FOLDER if path.is_dir() else PRIVATE_FILE)


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
            digest.update(f"{content} {path.relative_to(folder).as_posix()}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


def _check_opens(folder: Path) -> None:
    with Home(folder) as home:
        home.database.refresh()
        if home.own_curator is not None:
            _check_opens(home.own_curator)
