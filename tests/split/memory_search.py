"""Searches bytes, files and the memory of processes for many planted values at once, at any alignment.

A pattern must be improbable, or something is found that nobody put there; it has 8 bytes at least. The memory of a
process is read from ``/proc``: every page that is not a file's own, whatever it was used for before.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_PIECE = 1 << 24
_ANCHOR = 4
_LEAST = 8
_HASH_BITS = 20
_PAGE = 4096
_IN_MEMORY = np.uint64(3 << 62)  # in the table of pages: it is in memory, or swapped out


class Search:
    """For all of these patterns; the mapping says what each stands for."""

    def __init__(self, patterns: Mapping[bytes, str]) -> None:
        self._by_anchor: dict[int, list[tuple[int, bytes, str]]] = defaultdict(list)
        self._longest = max(map(len, patterns), default=_LEAST)
        for pattern, name in patterns.items():
            offset = _anchor(pattern)
            number = int.from_bytes(pattern[offset : offset + _ANCHOR], "little")
            self._by_anchor[number].append((offset, pattern, name))
        self._anchors = np.array(sorted(self._by_anchor), dtype=np.uint32)
        self._likely = np.zeros(1 << _HASH_BITS, dtype=np.bool_)  # a first sieve: few other numbers pass it
        self._likely[_hashed(self._anchors)] = True

    def within(self, pieces: Iterable[bytes]) -> set[str]:
        found, before = set[str](), b""
        for piece in pieces:
            data = before + piece
            if data.strip(b"\0"):
                for shift in range(_ANCHOR):
                    found |= self._found(data, shift)
            before = data[-self._longest :]
        return found

    def in_files(self, folder: Path) -> set[str]:
        found = set[str]()
        for path in folder.rglob("*"):
            found |= self.within([str(path.relative_to(folder)).encode()])
            if path.is_file() and not path.is_symlink():
                found |= self.within([path.read_bytes()])
        return found

    def _found(self, data: bytes, shift: int) -> set[str]:
        count = max(0, len(data) - shift) // _ANCHOR
        numbers: NDArray[np.uint32] = np.frombuffer(data[shift : shift + _ANCHOR * count], dtype="<u4")
        places = np.flatnonzero(self._likely[_hashed(numbers)])
        known = self._anchors[np.searchsorted(self._anchors, numbers[places]) % len(self._anchors)] == numbers[places]
        found = set[str]()
        for place in places[known].tolist():
            for offset, pattern, name in self._by_anchor[int(numbers[place])]:
                start = _ANCHOR * place + shift - offset
                if start >= 0 and data.startswith(pattern, start):
                    found.add(name)
        return found


def _hashed(numbers: NDArray[np.uint32]) -> NDArray[np.uint32]:
    return (numbers * np.uint32(2654435761)) >> np.uint32(32 - _HASH_BITS)


def _anchor(pattern: bytes) -> int:
    """Where four bytes stand that occur seldom: no zeros, no repetitions."""
    assert len(pattern) >= _LEAST, pattern
    windows = [pattern[place : place + _ANCHOR] for place in range(len(pattern) - _ANCHOR + 1)]
    return max(range(len(windows)), key=lambda place: len(set(windows[place]) - {0, 255}))


def writable_pages(pid: int) -> Iterator[tuple[int, int]]:
    """Where the memory of a process begins and ends, piece by piece, without what files on disk say themselves.

    Pages that were never touched are left out: there is nothing in them.
    """
    with Path(f"/proc/{pid}/pagemap").open("rb", buffering=0) as table:
        for line in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace").splitlines():
            span, modes, _, _, inode, *_ = line.split(maxsplit=5)
            if modes[0] != "r" or (modes[1] != "w" and inode != "0"):
                continue
            first, last = (int(end, 16) for end in span.split("-"))
            table.seek(first // _PAGE * 8)
            entries: NDArray[np.uint64] = np.frombuffer(table.read((last - first) // _PAGE * 8), dtype=np.uint64)
            used = np.concatenate([[False], (entries & _IN_MEMORY) != 0, [False]])
            starts, ends = np.flatnonzero(~used[:-1] & used[1:]), np.flatnonzero(used[:-1] & ~used[1:])
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
                yield first + start * _PAGE, first + end * _PAGE


def memory_of(pid: int) -> Iterator[bytes]:
    """All of it, as it is while it is read; a process of ours, which should stand still meanwhile."""
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for first, last in list(writable_pages(pid)):
            for start in range(first, last, _PIECE):
                try:
                    memory.seek(start)
                    yield memory.read(min(_PIECE, last - start))
                except OSError:
                    continue  # pages that went meanwhile, or that nobody may read
            yield bytes(_LEAST)  # what follows is elsewhere
