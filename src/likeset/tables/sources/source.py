"""Rows from anywhere, in blocks: files, directories, queries, databases and data frames, all read in the same way."""

import difflib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from likeset.errors import BadTable
from likeset.tables.sources.row_blocks import Block, Part, Source
from likeset.text import without_secrets

__all__ = ["Block", "Part", "Source", "open_source"]

_FORMS = (
    "give a .csv, .tsv, .parquet, .arrow or .feather file, a directory of Parquet files, sql:SELECT ..., "
    "sqlite:FILE?table=NAME or postgres://HOST/DATABASE?query=SELECT ..."
)
_SCHEMES = ("sql", "sqlite", "postgres", "postgresql")
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):(?![\\])")
_ELSEWHERE = {
    ".xls": "save the sheet as CSV in UTF-8",
    ".xlsx": "save the sheet as CSV in UTF-8",
    ".json": "convert it to CSV or Parquet",
    ".jsonl": "convert it to CSV or Parquet",
    ".sas7bdat": "export it as CSV or Parquet",
    ".sav": "export it as CSV or Parquet",
    ".dta": "export it as CSV or Parquet",
    ".rds": "export it as CSV or Parquet",
    ".zip": "unpack it",
    ".db": "write sqlite:FILE?table=NAME",
    ".sqlite": "write sqlite:FILE?table=NAME",
    ".sqlite3": "write sqlite:FILE?table=NAME",
}


def open_source(given: Any, *, name: str | None = None) -> Source:
    """Rows from wherever they lie.

    Args:
        given: a path, one of the text forms of ``docs/sources.md``, or a pandas, polars or pyarrow frame.
        name: how messages call it; as it was given if None, without passwords.

    Raises:
        BadTable: it cannot be read, or is not what its name says.

    Example:
        >>> with open_source("patients.csv") as source:  # doctest: +SKIP
        ...     for block in source.blocks(["age", "sex"]):
        ...         print(block.first_row, block.table.num_rows)
    """
    if isinstance(given, Path):
        return _open_path(given, name=name or str(given))
    if not isinstance(given, str):
        from likeset.tables.sources.frames_in_memory import open_frame

        return open_frame(given, name=name or "data frame")
    shown = name or without_secrets(given)
    if not given.strip():
        raise BadTable("table", f"an empty name; {_FORMS}")
    scheme = _SCHEME.match(given)
    if scheme is None or Path(given).exists():
        return _open_path(Path(given), name=shown)
    return _open_scheme(scheme.group(1).lower(), given, name=shown)


def _open_scheme(scheme: str, given: str, *, name: str) -> Source:
    rest = given[len(scheme) + 1 :]
    if scheme == "sql":
        from likeset.tables.sources.duckdb_queries import open_query

        return open_query(rest, name=name)
    if scheme == "sqlite":
        from likeset.tables.sources.sqlite import open_sqlite

        return open_sqlite(rest, name=name)
    if scheme in ("postgres", "postgresql"):
        from likeset.tables.sources.postgres import open_postgres

        return open_postgres(given, name=name)
    if scheme in ("http", "https", "s3", "gs", "ftp", "hdfs", "az", "abfs"):
        raise BadTable(name, "likeset reads no network addresses; download the file and give its path")
    near = difflib.get_close_matches(scheme, _SCHEMES, n=1, cutoff=0.8)
    raise BadTable(name, f"{scheme!r} is not known; did you mean {near[0]!r}?" if near else f"unknown form; {_FORMS}")


def _open_path(path: Path, *, name: str) -> Source:
    if path.is_dir():
        from likeset.tables.sources.parquet import open_parquet_directory

        return open_parquet_directory(path, name=name)
    opener = _openers().get(_suffix(path))
    if opener is not None:
        if not path.exists():
            raise BadTable(name, _missing(path))
        if not path.is_file():
            raise BadTable(name, "is no ordinary file; save the rows to one")
        return opener(path, name)
    if not path.exists():
        raise BadTable(name, _missing(path))
    raise BadTable(name, _unknown_kind(path))


def _suffix(path: Path) -> str:
    """The end of the name that tells the kind of file: ``.csv.gz``."""
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    return "".join(suffixes) if suffixes[-1:] == [".gz"] else "".join(suffixes[-1:])


def _openers() -> dict[str, Callable[[Path, str], Source]]:
    """How each kind of file is opened; what reads it is imported only then."""

    def parquet(path: Path, name: str) -> Source:
        from likeset.tables.sources.parquet import open_parquet

        return open_parquet(path, name=name)

    def arrow(path: Path, name: str) -> Source:
        from likeset.tables.sources.arrow_files import open_arrow

        return open_arrow(path, name=name)

    def text(path: Path, name: str) -> Source:
        from likeset.tables.sources.delimited import open_delimited

        return open_delimited(path, name=name, tabs=_suffix(path) == ".tsv")

    def packed_text(path: Path, name: str) -> Source:
        from likeset.tables.sources.private_copies import open_packed

        return open_packed(path, name=name, tabs=_suffix(path) == ".tsv.gz")

    return {
        ".csv": text,
        ".tsv": text,
        ".csv.gz": packed_text,
        ".tsv.gz": packed_text,
        ".parquet": parquet,
        ".pq": parquet,
        ".arrow": arrow,
        ".feather": arrow,
        ".ipc": arrow,
    }


def _missing(path: Path) -> str:
    try:
        beside = [each.name for each in path.parent.iterdir()]
    except OSError:
        return "there is no such file; the directory cannot be read either"
    near = difflib.get_close_matches(path.name, beside, n=1, cutoff=0.7)
    return f"there is no such file; did you mean {near[0]!r}?" if near else f"there is no such file; {_FORMS}"


def _unknown_kind(path: Path) -> str:
    suffix = _suffix(path)
    if suffix in _ELSEWHERE:
        return f"files of the kind {suffix} are not read; {_ELSEWHERE[suffix]}"
    near = difflib.get_close_matches(suffix, _openers(), n=1, cutoff=0.6) if suffix else []
    kind = f"the kind {suffix!r} is not known" if suffix else "the name does not say the kind of file"
    return f"{kind}; did you mean {near[0]!r}?" if near else f"{kind}; {_FORMS}"
