"""The owner's second pass on a Ray cluster: workers read the rows where they lie, and only what is kept travels.

A worker that is lost takes nothing with it: its unit is read again elsewhere, with the same result. The cluster is the
owner's own, and its workers see the owner's rows and keys. likeset never starts one.
"""

import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

import pyarrow as pa

from likeset.errors import BadTable, InvalidArgument, missing_extra
from likeset.geometry.offers import Drawing
from likeset.tables.scan import DrawnRows, Keeper, Work, pass_over
from likeset.tables.sources import Part

_RETRIES = 5
_UNITS_A_WORKER = 4  # at least, where there are enough parts: so that all are done at about the same time
_IN_FLIGHT = 2  # units for each worker that are handed out at a time
_SECONDS_TO_REACH = 10.0
_SECONDS_TO_ANSWER = 120.0

Unit = list[Part]


def ray_pass(
    ray: Any,
    parts: Sequence[Part],
    work: Work,
    keepers: Sequence[Keeper],
    *,
    workers: int,
    advance: Callable[[int], None],
) -> None:
    """As ``pass_over``, by the workers of a cluster, which must see the files under the same paths."""
    task = ray.remote(num_cpus=1, max_retries=_RETRIES)(_pass_over_unit)
    shared = ray.put((work, tuple(keeper.drawing for keeper in keepers)))
    most = _IN_FLIGHT * max(1, int(ray.cluster_resources().get("CPU", 1)))
    rows = sum(part.row_count for part in parts) // (_UNITS_A_WORKER * workers)
    waiting, running = units_of(parts, rows=rows)[::-1], dict[Any, Unit]()
    died = (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError, ray.exceptions.NodeDiedError)
    try:
        while waiting or running:
            while waiting and len(running) < most:
                unit = waiting.pop()
                running[task.remote(shared, unit, [keeper.least for keeper in keepers])] = unit
            (ready, *_), _ = ray.wait(list(running), num_returns=1)
            unit = running.pop(ready)
            try:
                outcome = ray.get(ready)
            except died:
                reason = "the workers that read these rows died again and again; give them more memory"
                raise BadTable(work.table, reason, place=unit[0].place(unit[0].first_row)) from None
            if isinstance(outcome, tuple):
                raise BadTable(outcome[0], outcome[1], place=outcome[2], column=outcome[3])
            for keeper, kept in zip(keepers, outcome, strict=True):
                if kept is not None:
                    keeper.add(kept)
            advance(sum(part.row_count for part in unit))
    finally:
        for other in running:
            ray.cancel(other)


def units_of(parts: Sequence[Part], *, rows: int) -> list[Unit]:
    """Consecutive parts in units of at most ``rows`` rows; a larger part is a unit by itself."""
    units: list[Unit] = []
    for part in parts:
        if units and sum(held.row_count for held in units[-1]) + part.row_count <= rows:
            units[-1].append(part)
        else:
            units.append([part])
    return units


def _pass_over_unit(
    shared: tuple[Work, tuple[Drawing, ...]], parts: Unit, leasts: list[float]
) -> list[DrawnRows | None] | tuple[str, str, str, str]:
    """What a worker does: one unit in one thread. What is wrong with the rows comes back as words."""
    pa.set_cpu_count(1)
    work, drawings = shared
    keepers = [Keeper(drawing, least=least) for drawing, least in zip(drawings, leasts, strict=True)]
    try:
        pass_over(parts, work, keepers)
    except BadTable as error:
        return error.table, error.reason, error.place, error.column
    return [keeper.best_rows() for keeper in keepers]


@contextmanager
def ray_cluster(address: str | None = None) -> Iterator[Any]:
    """Ray, connected by this block to a cluster that runs; without an address, to the one that RAY_ADDRESS names."""
    ray, place = import_ray(), address or os.environ.get("RAY_ADDRESS")
    if not place or place == "local":  # Ray would start a cluster, which other users of this machine can enter
        raise InvalidArgument("scan", "ray", _NO_ADDRESS)
    _check_reachable(place)
    try:
        try:
            ray.init(address=place, log_to_driver=False, logging_level=logging.ERROR)
        except Exception as error:  # Ray raises many kinds, some of them its own private ones
            raise _unusable(place, f"{_NOT_JOINED} ({type(error).__name__})") from None
        _check_workers(ray, place)
        yield ray
    finally:
        ray.shutdown()


def import_ray() -> Any:
    try:
        import ray
    except ImportError:
        raise InvalidArgument("scan", "ray", missing_extra("ray")) from None
    return ray


_NO_ADDRESS = (
    "names no cluster; start one of your own (docs/performance.md), give it as ray:ADDRESS or in RAY_ADDRESS, or use "
    "--scan local, which needs no Ray"
)
_NOT_JOINED = (
    "no cluster there lets this program in; give the address that `ray start` printed, with the same versions of Ray "
    "and Python on both sides; an address with :// needs pip install 'ray[client]', and a cluster that wants a token "
    "RAY_AUTH_MODE=token and RAY_AUTH_TOKEN"
)


def _unusable(address: str, reason: str) -> InvalidArgument:
    return InvalidArgument("scan", f"ray:{address}", reason)


def _check_reachable(address: str) -> None:
    """Ray itself would wait for minutes, and then end the process.

    It looks names such as ``auto`` up in a file that every user of the machine can write.
    """
    host, _, port = address.rpartition("://")[2].rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_SECONDS_TO_REACH).close()
    except (OSError, ValueError, OverflowError):
        raise _unusable(address, "no cluster can be reached there; give the address that `ray start` printed") from None


def _check_workers(ray: Any, address: str) -> None:
    """Workers must have likeset too, in the same version: found now, before anything is paid for."""
    task = ray.remote(num_cpus=0, max_retries=0)(_version)
    try:
        theirs = ray.get(task.remote(), timeout=_SECONDS_TO_ANSWER)
    except (ray.exceptions.GetTimeoutError, ray.exceptions.RayError):
        theirs = "no likeset, or do not start (look at `ray status` there)"
    if theirs != _version():
        reason = f"its workers have {theirs}, and this is likeset {_version()}; install the same version on both sides"
        raise _unusable(address, reason)


def _version() -> str:
    return version("likeset")
