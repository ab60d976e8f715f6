"""What this machine does in a fraction of a second: small pieces of a job's own work, on copies of the target's rows.

Nothing of any owner is read but how large its files are. Copies of the target's rows lie for that moment in a private
directory, in the kinds of files that owners have, so that every kind of column costs what it costs there.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from likeset.arguments import Rows
from likeset.geometry.features import FourierFeatures
from likeset.geometry.kernels import kernel_means
from likeset.protocol.selection import Selection
from likeset.run.expected_time import Calibration, PassCost
from likeset.run.job_files import OwnFiles
from likeset.tables.scan.row_pass import Work
from likeset.tables.schema.schema import Schema
from likeset.tables.sources.file_sizes import FileKind, file_kind
from likeset.tables.sources.private_copies import Spool
from likeset.tables.sources.source import Source, open_source

__all__ = ["measured_calibration"]

_COPIED_ROWS = 4096
_POOL_ROWS, _FEW_POOL_ROWS, _TARGET_ROWS, _PICKS = 4096, 512, 256, 64
_DECOMPOSED = 300
_WRITES = 4
_TIMES = 3


def measured_calibration(files: OwnFiles, *, dimension: int) -> Calibration:
    """Measure this machine, in well under a second for most schemas.

    Args:
        files: what the consumer has: its rows stand for those of owners.
        dimension: length of a feature vector of the release.
    """
    kinds = {file_kind(address) for address in files.job.owners.values()}
    rows = _copies(files.target.rows, _POOL_ROWS)
    target, selection = rows[:_TARGET_ROWS], Selection(gamma=1.0)
    pair = _seconds(lambda: kernel_means(rows, target, gamma=1.0)) / (len(rows) * len(target))

    def per_pick(pool: Rows) -> float:
        whole = _seconds(lambda: selection.select(pool, target, _PICKS))
        return max(0.0, whole - 2 * len(pool) * len(target) * pair) / _PICKS

    few, many = per_pick(rows[:_FEW_POOL_ROWS]), per_pick(rows)
    each_row = max(0.0, many - few) / (_POOL_ROWS - _FEW_POOL_ROWS)
    square = np.cov(np.random.default_rng(0).standard_normal((_DECOMPOSED, 2 * _DECOMPOSED)))
    return Calibration(
        piece=_seconds(_piece),
        pair=pair,
        pick=max(0.0, few - each_row * _FEW_POOL_ROWS),
        pick_row=each_row,
        cubic=_seconds(lambda: np.linalg.eigh(square)) / _DECOMPOSED**3,
        write=_durable_write(),
        passes={kind: _pass_cost(files, kind, dimension) for kind in kinds if kind is not None},
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
    )


def _seconds(work: Callable[[], object], clock: Callable[[], float] = time.thread_time) -> float:
    """The shortest of a few times, the first of which may have to load something.

    Args:
        work: what is timed.
        clock: by default of this thread alone, which does its share where a library has threads of its own. Clocks of
            processors do not run while somebody else is at work.
    """
    times = []
    for _ in range(_TIMES):
        start = clock()
        work()
        times.append(clock() - start)
    return min(times)


def _piece() -> None:
    """A fixed piece of the interpreter's work: calls, small objects, dictionaries, text."""
    counted: dict[str, int] = {}
    for number in range(100_000):
        word = f"w{number % 97}"
        counted[word] = counted.get(word, 0) + len(word)


def _copies(rows: Rows, count: int) -> Rows:
    return np.ascontiguousarray(rows[np.arange(count) % len(rows)])


def _durable_write() -> float:
    spool = Spool(table="calibration")
    try:
        with closing(sqlite3.connect(spool.new_file("writes.sqlite"), isolation_level=None)) as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = FULL")
            database.execute("CREATE TABLE written (number INTEGER)")
            start = time.perf_counter()
            for number in range(_WRITES):
                database.execute("INSERT INTO written VALUES (?)", (number,))
            return (time.perf_counter() - start) / _WRITES
    finally:
        spool.remove()


def _pass_cost(files: OwnFiles, kind: FileKind, dimension: int) -> PassCost:
    """What a row costs in a file of this kind."""
    spool = Spool(table="calibration")
    try:
        file = spool.directory / f"rows.{kind}"
        stand_in = _stand_in(files, kind)
        _WRITERS[kind](stand_in, file)
        with open_source(file) as source:
            return _timed_pass(source, files.schema, dimension, size=file.stat().st_size if kind == "csv" else 0)
    finally:
        spool.remove()


def _stand_in(files: OwnFiles, kind: FileKind) -> pa.Table:
    """Copies of the target's rows: with all its columns if it is a file of this kind, else with the declared ones."""
    table = files.target.table
    if file_kind(files.job.target) == kind:
        with open_source(files.job.target) as source:
            blocks = source.blocks(source.schema.names)
            table = next(iter(blocks)).table
    places = np.arange(_COPIED_ROWS) % table.num_rows
    return table.take(pa.array(places))


def _write_text(table: pa.Table, file: Path) -> None:
    """Lists, which CSV has none of, are written as owners write them: as JSON."""
    plain = [
        pa.array([None if cell is None else str(cell) for cell in column.to_pylist()])
        if pa.types.is_nested(column.type)
        else column
        for column in table.columns
    ]
    pyarrow.csv.write_csv(pa.table(plain, names=table.schema.names), file)


_WRITERS: Mapping[FileKind, Callable[[pa.Table, Path], None]] = {"csv": _write_text, "parquet": pq.write_table}


def _timed_pass(source: Source, schema: Schema, dimension: int, *, size: int) -> PassCost:
    work = Work("calibration", schema, labelled=False, drawings=(), leasts=())
    tables = [block.table for block in source.blocks(work.columns, words=work.words)]
    rows = sum(table.num_rows for table in tables)
    features = FourierFeatures(work.map_rows(tables[0], str).rows.shape[1], dimension, 1.0, seed=0)

    def read() -> None:
        for _ in source.blocks(work.columns, words=work.words):
            pass

    def check() -> None:
        for table in tables:
            if not schema.sound(table, table=work.table, labels=work.labelled):
                work.map_rows(table, str)

    def score() -> None:
        for table in tables:
            features(work.map_rows(table, str).rows)

    read_in, checked, scored = (_seconds(part, time.process_time) / rows for part in (read, check, score))
    return PassCost(read_in, checked, scored, size / rows)
