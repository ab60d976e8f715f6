"""How many rows a file has, as far as its size or its footer tells; no row is read."""

import struct
from pathlib import Path
from typing import Literal

from likeset.errors import BadTable
from likeset.tables.sources.source import open_source

__all__ = ["FileKind", "expected_rows", "file_kind"]

FileKind = Literal["csv", "parquet"]

_TEXT = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
_PARQUET = (".parquet", ".pq")
_TRAILER = 4  # bytes at the end of a gzip file: how long its text is


def file_kind(address: str) -> FileKind | None:
    """Which kind of file it is; None where nothing but reading it would tell its number of rows."""
    path = Path(address)
    if path.is_dir():
        return "parquet"
    if not path.is_file():
        return None
    name = path.name.lower()
    return "csv" if name.endswith(_TEXT) else "parquet" if name.endswith(_PARQUET) else None


def expected_rows(address: str, *, row_bytes: float) -> int | None:
    """About how many rows it has; None where that cannot be told.

    Args:
        address: a file, or a directory of Parquet files.
        row_bytes: what a row takes in a text file.
    """
    kind, path = file_kind(address), Path(address)
    try:
        if kind == "parquet":
            with open_source(path) as source:
                return source.row_count
        return None if kind is None or row_bytes <= 0.0 else round(_text_bytes(path) / row_bytes)
    except (OSError, BadTable):  # what is wrong with it shows, and is told, when it is opened
        return None


def _text_bytes(path: Path) -> int:
    """Of the text in it; a packed text of more than 4 gigabytes says less."""
    size = path.stat().st_size
    if path.suffix.lower() != ".gz" or size < _TRAILER:
        return size
    with path.open("rb") as file:
        file.seek(-_TRAILER, 2)
        return max(size, int(struct.unpack("<I", file.read(_TRAILER))[0]))
