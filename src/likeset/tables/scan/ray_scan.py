"""The owner's pass on a Ray cluster: workers read the rows where they lie, and only what is kept travels.

A worker that is lost takes nothing with it: its unit is read again elsewhere, with the same result. The cluster is the
owner's own, and its workers see the owner's rows and keys; a cluster that is started here hears this machine only.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from likeset.errors import BadTable
from likeset.tables.scan.memory_scan import Keeper, Kept
from likeset.tables.scan.pass_progress import Passed, Watch
from likeset.tables.scan.ray_cluster import RayCluster
from likeset.tables.scan.row_pass import Unit, Work, pass_over, units_of
from likeset.tables.scan.source_scan import SourceScan
from likeset.tables.schema import Schema
from likeset.tables.sources.source import Source

__all__ = ["RayScan"]

_RETRIES = 5
_UNITS_A_WORKER = 4  # at least, where there are enough parts: so that all are done at about the same time
_IN_FLIGHT = 2  # units for each worker that are handed out at a time


class RayScan(SourceScan):
    """Rows of a source, passed over by the workers of a cluster.

    Args:
        source: where the rows lie: the workers must see its files under the same paths.
        schema: what they mean.
        cluster: whose workers they are; joined here, so that what is wrong with it shows before anything is paid for.
        labelled: whether the label is read as well.
        progress: called as units are done.
        checkpoints: as for ``SourceScan``.
        unit_rows: how many rows a worker gets at a time; at least one part.
    """

    def __init__(
        self,
        source: Source,
        schema: Schema,
        *,
        cluster: RayCluster,
        labelled: bool = True,
        progress: Callable[[Passed], None] | None = None,
        checkpoints: Path | None = None,
        unit_rows: int | None = None,
    ) -> None:
        super().__init__(
            source,
            schema,
            labelled=labelled,
            workers=cluster.workers,
            progress=progress,
            checkpoints=checkpoints,
        )
        self._asked_rows = unit_rows
        self._ray = cluster.join()

    def _units(self) -> list[Unit]:
        rows = self._asked_rows or max(1, self.row_count // (_UNITS_A_WORKER * self._workers))
        return units_of(self._source.parts, rows=rows)

    def _passes(
        self, units: Sequence[Unit], work: Work, keepers: Sequence[Keeper], watch: Watch
    ) -> Iterator[tuple[Unit, list[Kept | None]]]:
        ray = self._ray
        task = ray.remote(num_cpus=1, max_retries=_RETRIES)(_pass_over_unit)
        shared = ray.put(work)
        most = _IN_FLIGHT * max(1, int(ray.cluster_resources().get("CPU", 1)))
        waiting, running = list(reversed(units)), dict[Any, Unit]()
        failed: list[tuple[int, BadTable]] = []
        try:
            while waiting or running:
                while waiting and len(running) < most:
                    unit = waiting.pop()
                    running[task.remote(shared, unit.parts, tuple(keeper.least for keeper in keepers))] = unit
                (ready, *_), _ = ray.wait(list(running), num_returns=1)
                unit = running.pop(ready)
                try:
                    outcome = ray.get(ready)
                except (
                    ray.exceptions.WorkerCrashedError,
                    ray.exceptions.OutOfMemoryError,
                    ray.exceptions.NodeDiedError,
                ):
                    raise BadTable(
                        self._source.name,
                        "the workers that read these rows died again and again; give them more memory",
                        place=unit.parts[0].place(unit.parts[0].first_row),
                    ) from None
                if isinstance(outcome, tuple):
                    failed.append((unit.number, BadTable(outcome[0], outcome[1], place=outcome[2], column=outcome[3])))
                    # The first in the order of rows is reported: of the others, only earlier ones are waited for.
                    first = min(number for number, _ in failed)
                    waiting = []
                    for other in [ref for ref, unit in running.items() if unit.number > first]:
                        ray.cancel(other)
                        del running[other]
                elif not failed:
                    watch.add(unit.row_count)
                    yield unit, outcome
        finally:
            for other in running:
                ray.cancel(other)
        if failed:
            raise min(failed, key=lambda failure: failure[0])[1]


def _pass_over_unit(
    work: Work, parts: tuple[Any, ...], leasts: tuple[float, ...]
) -> list[Kept | None] | tuple[str, str, str, str]:
    """What a worker does: one unit in one thread. What is wrong with the rows comes back as words."""
    pa.set_cpu_count(1)
    try:
        return pass_over(parts, replace(work, leasts=leasts))
    except BadTable as error:
        return error.table, error.reason, error.place, error.column
