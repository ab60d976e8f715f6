"""The files of a result: all of them in a directory that is then moved to its place, whole or not at all."""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from likeset import documents
from likeset.errors import BadDocument, InvalidArgument
from likeset.files import keep_private
from likeset.protocol.notices import Notice
from likeset.run.job_result import FORMAT, JobResult

__all__ = ["REPORT", "SUMMARY", "FinishedJob", "Render", "publish", "read_result", "unfinished", "write_files"]

RESULT, PICTURES, SUMMARY, REPORT = "result.json", "pictures.json", "summary.parquet", "report.html"

Render = Callable[[Mapping[str, Any], Mapping[str, Any]], str]
"""The report's page, from ``result.json`` and ``pictures.json``."""


@dataclass(frozen=True, eq=False)
class FinishedJob:
    """What came of a job, and where it lies.

    Attributes:
        out: the output directory.
        result: what ``result.json`` says.
        warnings: what the user should know.
    """

    out: Path
    result: Mapping[str, Any]
    warnings: tuple[Notice, ...] = ()

    @property
    def summary(self) -> pa.Table:
        """The selected rows, each with label, owner and weight."""
        return pq.read_table(self.out / SUMMARY)

    @property
    def report(self) -> Path:
        """The page with the whole story."""
        return self.out / REPORT


def unfinished(out: Path) -> Path:
    """The directory beside a place in which its files are made."""
    return out.with_name(out.name + ".partial")


def write_files(folder: Path, result: JobResult, *, render: Render) -> dict[str, Any]:
    """Write all that a result consists of into a directory; returns what ``result.json`` says."""
    document, pictures, table = result.document(), result.pictures(), result.table()
    for name, text in (
        (RESULT, json.dumps(document, indent=2, allow_nan=False) + "\n"),
        (PICTURES, json.dumps(pictures, allow_nan=False) + "\n"),
        (REPORT, render(document, pictures)),
    ):
        documents.write_text(folder / name, text)
    keep_private(folder / SUMMARY, lambda path: pq.write_table(table, path))
    return document


def publish(result: JobResult, out: Path, *, render: Render) -> FinishedJob:
    """Write a result into a directory of its own; one that is there is replaced.

    Raises:
        InvalidArgument: it cannot be written.
    """
    folder = unfinished(out)
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        document = write_files(folder, result, render=render)
        if out.exists():
            shutil.rmtree(out)
        folder.rename(out)
    except OSError as error:
        raise InvalidArgument("out", out, f"cannot be written: {error.strerror or error}; make room") from error
    return FinishedJob(out, document)


def read_result(out: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """``result.json`` and ``pictures.json`` of a finished job."""
    result, pictures = (_read(out / name) for name in (RESULT, PICTURES))
    if result.get("format") != FORMAT:
        raise BadDocument(str(out / RESULT), "was written by another version of likeset")
    return result, pictures


def _read(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise BadDocument(str(path), "there is no such file; name the output directory of a finished job") from error
    except (OSError, ValueError) as error:
        raise BadDocument(str(path), "cannot be read; run the job again") from error
    if not isinstance(document, dict):
        raise BadDocument(str(path), "is no result of a job")
    return document
