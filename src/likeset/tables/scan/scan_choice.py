"""Which way an owner passes over its rows: on this machine, or on a Ray cluster."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Self

from likeset import arguments
from likeset.errors import InvalidArgument
from likeset.tables.scan.checkpoint import forget
from likeset.tables.scan.pass_progress import Passed
from likeset.tables.scan.source_scan import SourceScan
from likeset.tables.schema import Schema
from likeset.tables.sources.source import Source

if TYPE_CHECKING:
    from likeset.tables.scan.ray_cluster import RayCluster

__all__ = ["Passed", "ScanFactory", "forget", "scan_factory"]


class ScanFactory:
    """Opens scans. In a ``with`` block, nothing that they share and that was started for them outlives it.

    Args:
        open_scan: opens one.
        cluster: that they share.
    """

    def __init__(self, open_scan: Callable[[Source, Schema], SourceScan], cluster: "RayCluster | None" = None) -> None:
        self._open_scan, self._cluster = open_scan, cluster

    def __call__(self, source: Source, schema: Schema) -> SourceScan:
        """A scan of these rows."""
        return self._open_scan(source, schema)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._cluster is not None:
            self._cluster.leave()


def scan_factory(
    text: str = "local",
    *,
    workers: int | None = None,
    progress: Callable[[Passed], None] | None = None,
    checkpoints: Path | None = None,
) -> ScanFactory:
    """How scans are opened, from what a user wrote.

    Args:
        text: ``local``: on this machine; ``ray:ADDRESS``: on a Ray cluster that runs; ``ray``: on the one that
            ``RAY_ADDRESS`` names, or else on one that is started here and hears this machine only.
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

        return ScanFactory(open_local)
    if kind == "ray" and (address or ":" not in text):
        from likeset.tables.scan.ray_cluster import RayCluster, import_ray
        from likeset.tables.scan.ray_scan import RayScan

        import_ray(address or None)
        cluster = RayCluster(address or None, workers=count)

        def open_ray(source: Source, schema: Schema) -> SourceScan:
            return RayScan(source, schema, cluster=cluster, progress=progress, checkpoints=checkpoints)

        return ScanFactory(open_ray, cluster)
    raise InvalidArgument("scan", text, "must be local, ray or ray:ADDRESS")


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
