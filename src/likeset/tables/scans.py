"""Which way an owner passes over its rows: on this machine, or on a Ray cluster."""

import os
from collections.abc import Callable
from pathlib import Path

from likeset import arguments
from likeset.errors import InvalidArgument
from likeset.tables.checkpoint import forget
from likeset.tables.passing import Passed
from likeset.tables.scan_source import SourceScan
from likeset.tables.schema import Schema
from likeset.tables.sources import Source

__all__ = ["Passed", "forget", "scan_factory"]


def scan_factory(
    text: str = "local",
    *,
    workers: int | None = None,
    progress: Callable[[Passed], None] | None = None,
    checkpoints: Path | None = None,
) -> Callable[[Source, Schema], SourceScan]:
    """How scans are opened, from what a user wrote.

    Args:
        text: ``local``: on this machine; ``ray``: on a Ray cluster that is started here and hears this machine only;
            ``ray:ADDRESS``: on a cluster that runs.
        workers: threads on this machine, or workers of the cluster that is started; as many as there are cores if None.
        progress: called as rows go by.
        checkpoints: a directory of the owner's own, where passes leave what they have, so that an interrupted run
            redoes little; ``forget`` it when the run is over.

    Raises:
        InvalidArgument: the text is none of these, or Ray is not installed.
    """
    count = arguments.count("workers", workers) if workers is not None else _cores()
    kind, _, address = text.partition(":")
    if kind == "local" and not address:

        def open_local(source: Source, schema: Schema) -> SourceScan:
            return SourceScan(source, schema, workers=count, progress=progress, checkpoints=checkpoints)

        return open_local
    if kind == "ray" and (address or ":" not in text):
        from likeset.tables.scan_ray import RayScan, import_ray

        import_ray(address or None)

        def open_ray(source: Source, schema: Schema) -> SourceScan:
            return RayScan(
                source,
                schema,
                address=address or None,
                workers=count,
                progress=progress,
                checkpoints=checkpoints,
            )

        return open_ray
    raise InvalidArgument("scan", text, "must be local, ray or ray:ADDRESS")


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
