"""Runs the cells of a study that are not yet on record, in several processes."""

import json
import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from multiprocessing import connection
from pathlib import Path
from threading import Thread
from typing import Any

from likeset import arguments
from likeset.errors import BadDocument, InvalidArgument
from studies.contract import Cell, Options, RecordLine, Study


class Record:
    """The lines in ``cells.jsonl`` of a folder; the last line of a cell counts."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "cells.jsonl"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.path.touch()
        except OSError as error:
            raise InvalidArgument("--out", folder, f"cannot be written: {error.strerror}") from error
        self._drop_torn_line()
        self.lines = self._read()

    def add(self, line: RecordLine) -> None:
        """Append a line; it is on disk when this returns."""
        data = (line.to_json() + "\n").encode()
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        try:
            # One write: what another process appends, or a kill, does not fall between its parts.
            written = os.write(descriptor, data)
            if written < len(data):
                raise InvalidArgument("--out", self.path, "could not take a whole line: is the disk full?")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self.lines[line.key] = line

    def _drop_torn_line(self) -> None:
        """A kill may leave half a line at the end: the file ends without a line's end, and that line is dropped."""
        data = self.path.read_bytes()
        if data and not data.endswith(b"\n"):
            with self.path.open("r+b") as file:
                file.truncate(data.rfind(b"\n") + 1)

    def _read(self) -> dict[str, RecordLine]:
        lines: dict[str, RecordLine] = {}
        try:
            texts = self.path.read_text(encoding="utf-8").split("\n")[:-1]
        except UnicodeDecodeError as error:
            raise BadDocument(str(self.path), "is not text; move it away to start anew") from error
        for number, text in enumerate(texts, start=1):
            try:
                line = RecordLine.from_json(text)
            except ValueError as error:
                reason = "is no line of a study's record; remove it, and its cell is computed anew"
                raise BadDocument(str(self.path), reason, line=number) from error
            lines[line.key] = line
        return lines


_MOST_WORKERS = 256
_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
_DIED = "the process that computed it ended: killed, or out of memory"


@dataclass(frozen=True, slots=True)
class StudyState:
    """How far a run is.

    Attributes:
        total: cells of the study.
        kept: cells that were on record before.
        finished: cells that this run finished, failed ones included.
        line: what the last of them left; None at the start.
    """

    total: int
    kept: int
    finished: int
    line: RecordLine | None


StudyProgress = Callable[[StudyState], None]


def run_study(
    study: Study, options: Options, *, out: Path, workers: int = 1, progress: StudyProgress | None = None
) -> list[RecordLine]:
    """Compute what is not yet on record in ``out`` and give the lines of all cells that the options ask for.

    A cell that fails is recorded with the reason, the others go on, and the next run tries it again. When this is
    interrupted, finished cells stay on record.

    Args:
        study: what to run.
        options: which cells of it.
        out: folder of the record; created if missing.
        workers: processes, each with one thread; 0 computes in this process.
        progress: called at the start and after every cell.
    """
    arguments.count("--workers", workers, least=0, most=_MOST_WORKERS)
    cells = list(study.cells(options))
    keys = [cell.key for cell in cells]
    if len(set(keys)) < len(keys):
        raise InvalidArgument("cells", study.name, "must differ from one another")
    record = Record(out)
    missing = [cell for cell in cells if (line := record.lines.get(cell.key)) is None or not line.done]
    report = progress or _silent
    total, kept = len(cells), len(cells) - len(missing)
    report(StudyState(total, kept, 0, None))
    computed = _in_processes(study, missing, workers) if workers else (_compute(study, cell) for cell in missing)
    # Closed also where Ctrl-C comes while a line is written: else its processes would work on, and be waited for.
    with closing(computed):
        for finished, line in enumerate(computed, start=1):
            record.add(line)
            report(StudyState(total, kept, finished, line))
    return [record.lines[key] for key in keys]


def _silent(_: StudyState) -> None:
    pass


def _compute(study: Study, cell: Cell) -> RecordLine:
    """Run one cell; its errors are recorded in its line."""
    started = time.perf_counter()
    try:
        results = study.run(cell)
        json.dumps(results, allow_nan=False)  # otherwise the record could not be read back
    except Exception as error:
        return _line(cell, {}, failure=f"{type(error).__name__}: {error}", started=started)
    return _line(cell, results, failure="", started=started)


def _line(cell: Cell, results: dict[str, Any], *, failure: str, started: float) -> RecordLine:
    return RecordLine(
        key=cell.key,
        study=cell.study,
        settings=dict(cell.settings),
        results=results,
        failure=failure,
        seconds=round(time.perf_counter() - started, 3),
        version=version("likeset"),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _in_processes(study: Study, cells: Sequence[Cell], workers: int) -> Generator[RecordLine, None, None]:
    """The lines of all cells, as they come; a process that dies takes its cell with it, not the study."""
    rest = deque(cells)
    while rest:
        running: dict[Future[RecordLine], tuple[Cell, float]] = {}
        try:
            with _pool(min(workers, len(rest))) as pool:
                while rest or running:
                    # Not more than can run: so it is known what ran when a process died.
                    while rest and len(running) < workers:
                        future = pool.submit(_compute, study, rest[0])
                        running[future] = rest.popleft(), time.perf_counter()
                    ended, _ = wait(running, return_when=FIRST_COMPLETED)
                    for future in ended:
                        line = future.result()
                        del running[future]
                        yield line
        except BrokenProcessPool:
            for future, (cell, started) in running.items():
                finished = future.done() and future.exception() is None
                yield future.result() if finished else _line(cell, {}, failure=_DIED, started=started)


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Processes with one thread each, which end with the block, even in the middle of a cell."""
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    others = set(multiprocessing.active_children())
    os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))  # read when a process loads numpy
    pool = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"), initializer=_follow_the_first)
    try:
        yield pool
        pool.shutdown()
    finally:
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
        pool.shutdown(wait=False, cancel_futures=True)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _follow_the_first() -> None:
    """The process that started the others decides when they end: at Ctrl-C, and when it is killed itself."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # reaches every process of a terminal
    parent = multiprocessing.parent_process()
    if parent is not None:
        Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)
