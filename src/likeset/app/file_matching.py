"""``likeset.match``: what ``likeset match`` does on the command line, for programs."""

from collections.abc import Mapping
from os import PathLike, fspath
from typing import Any

from likeset.app.report import render
from likeset.errors import InvalidArgument
from likeset.protocol.notices import warn_of
from likeset.run.here import FinishedJob, run_job
from likeset.run.job import Job
from likeset.transports.local import Progress


def match(
    target: str | PathLike[str],
    owners: Mapping[str, str | PathLike[str]],
    *,
    schema: str | PathLike[str],
    size: int,
    out: str | PathLike[str],
    resume: bool = False,
    progress: Progress | None = None,
    **settings: Any,
) -> FinishedJob:
    """Collect rows from owners' files that together look like a target's; data frames go to ``Summarizer``.

    Writes summary.parquet, result.json, report.html, terms.yaml and the ledger into one directory; nothing is
    overwritten.

    Args:
        target: the rows to match: a file, or one of the other forms of docs/sources.md.
        owners: each owner's rows, likewise.
        schema: the file that declares the columns.
        size: how many rows to collect.
        out: the output directory; it must not be there yet.
        resume: go on with a run that was interrupted.
        progress: called as answers come in.
        settings: the other fields of a job, such as ``epsilon``; ``likeset match --help`` describes each.

    Returns:
        Where all of it lies, what ``result.json`` says, and the rows as ``summary``, an Arrow table.

    Raises:
        LikesetError: with what is wrong and what to do.

    Example:
        >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile
        >>> from pathlib import Path
        >>> folder = Path(tempfile.mkdtemp())
        >>> declared = "{likeset: schema, version: 1, columns: {age: {kind: numeric, bounds: [0, 100]}}}"
        >>> _ = (folder / "schema.yaml").write_text(declared)
        >>> pq.write_table(pa.table({"age": [70, 75, 80, 85]}), folder / "mine.parquet")
        >>> pq.write_table(pa.table({"age": list(range(20, 90))}), folder / "north.parquet")
        >>> matched = match(
        ...     folder / "mine.parquet",
        ...     {"north": folder / "north.parquet"},
        ...     schema=folder / "schema.yaml",
        ...     size=8,
        ...     offers="uniform",
        ...     out=folder / "matched",
        ... )
        >>> matched.summary.num_rows, matched.summary.column_names
        (8, ['age', 'owner', 'weight'])
        >>> matched.report.name
        'report.html'
    """
    addresses = {name: _address(f"owners[{name!r}]", place) for name, place in owners.items()}
    job = Job.of(
        target=_address("target", target),
        owners=addresses,
        schema=_address("schema", schema),
        size=size,
        out=_address("out", out),
        **settings,
    )
    finished = run_job(job, render=render, resume=resume, progress=progress)
    warn_of(finished.warnings, stacklevel=2)
    return finished


def _address(argument: str, place: Any) -> str:
    if not isinstance(place, str | PathLike):
        reason = "must be a path or another text of docs/sources.md; data frames go to likeset.Summarizer"
        raise InvalidArgument(argument, type(place).__name__, reason)
    return str(fspath(place))
