"""How often the rows of a file are read.

While a run is counted, a file's bytes lie in memory, and every way to open it that likeset has leads there. On the
disk lie as many zeros: whoever reads the file in a way that is not counted finds no rows, and the run fails.

A *pass* is a reading of all rows. Every byte has a counter. A column was passed over as often as each byte of it was
read; a file as often as the column that was read most. So looking at the header, at the footer or at the rows that
were chosen, by number, is no pass; but a digest of the file is, and so is a look at one column.
"""

import builtins
import io
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

__all__ = ["CountedFile", "counted"]

_ARROW_OPENERS = (
    (pa, "OSFile"),
    (pa, "memory_map"),
    (pa.csv, "open_csv"),
    (pa.csv, "read_csv"),
    (pa.ipc, "open_file"),
    (pa.ipc, "open_stream"),
    (pq, "read_metadata"),
    (pq, "read_schema"),
    (pq, "read_table"),
)


@dataclass(eq=False)
class CountedFile:
    """A file in memory, with a counter for every byte.

    Attributes:
        data: its bytes.
        columns: for each column where its bytes lie: the first, and the one after the last.
        openings: how often it was opened.
        times: how often each byte was read.
        lock: held while that is counted.
    """

    data: bytes
    columns: Sequence[Sequence[tuple[int, int]]]
    openings: int = 0
    times: NDArray[np.int64] = field(init=False)
    lock: threading.Lock = field(default_factory=threading.Lock)  # numpy adds without Python's own lock

    def __post_init__(self) -> None:
        self.times = np.zeros(len(self.data), dtype=np.int64)

    @property
    def passes(self) -> int:
        """How often all rows were read."""
        return max(min(int(self.times[first:end].min()) for first, end in column) for column in self.columns)


class _Reader(io.RawIOBase):
    """Reads a counted file; all other ways to read come down to ``readinto``."""

    def __init__(self, file: CountedFile) -> None:
        self._file = file
        self._place = 0
        file.openings += 1

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: len(self._file.data)}[whence]
        self._place = start + offset
        return self._place

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        data = self._file.data[self._place : self._place + len(view)]
        view[: len(data)] = data
        with self._file.lock:
            self._file.times[self._place : self._place + len(data)] += 1
        self._place += len(data)
        return len(data)


@contextmanager
def counted(columns: Mapping[Path, Sequence[Sequence[tuple[int, int]]]]) -> Iterator[dict[Path, CountedFile]]:
    """Count how often files are read within ``with``.

    Args:
        columns: for each file where the bytes of its columns lie.
    """
    files = {path.resolve(): CountedFile(path.read_bytes(), where) for path, where in columns.items()}

    def instead(given: Any) -> Any:
        """The counted file if this is its path; else what was given."""
        path = Path(given).resolve() if isinstance(given, str | os.PathLike) else None
        return _Reader(files[path]) if path in files else given

    plain, footer = io.open, pq.ParquetFile.__init__

    def opened(file: Any, mode: str = "r", *given: Any, **named: Any) -> Any:
        reader = instead(file)
        if reader is file:
            return plain(file, mode, *given, **named)
        buffered = io.BufferedReader(reader)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding="utf-8")

    def with_footer(self: Any, source: Any, *given: Any, **named: Any) -> None:
        footer(self, instead(source), *given, **named)

    def by_arrow(opener: Callable[..., Any]) -> Callable[..., Any]:
        def opening(source: Any, *given: Any, **named: Any) -> Any:
            reader = instead(source)
            if reader is not source and opener in handles:
                return pa.PythonFile(reader, mode="r")
            return opener(reader, *given, **named)

        return opening

    handles = (pa.OSFile, pa.memory_map)
    arrow = [patch.object(module, name, by_arrow(getattr(module, name))) for module, name in _ARROW_OPENERS]
    with ExitStack() as stack:
        for path, file in files.items():
            path.write_bytes(bytes(len(file.data)))
            stack.callback(path.write_bytes, file.data)
        stack.enter_context(patch.object(io, "open", opened))
        stack.enter_context(patch.object(builtins, "open", opened))
        stack.enter_context(patch.object(pq.ParquetFile, "__init__", with_footer))
        for replaced in arrow:
            stack.enter_context(replaced)
        yield {path: files[path.resolve()] for path in columns}
