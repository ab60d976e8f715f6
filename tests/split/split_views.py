"""What a compute party sees of many computations, and whether two kinds of inputs can be told apart by it.

A view is cut into *features*: arrays of bytes that stand at the same place in every computation. They are the party's
own shares of the inputs, every message that it was sent, its shares of all variables, and, since one share
alone is uniform even where something is opened, what a message adds up to with two shares of a variable: modulo 2^64,
and bit by bit.

Each bit of each feature is one test: how often it is set among computations on one kind of inputs and on the other
(Fisher's exact test). The smallest of these probabilities times their number bounds the chance of a false alarm.
"""

import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from link_records import LinkRecords
from numpy.typing import NDArray
from scipy.stats import binom, fisher_exact
from split_world import PYTHON, SplitWorld

from likeset.split.engine.agreement import Task

PUBLIC_COINS = 0x0123456789ABCDEF_0F1E2D3C4B5A6978
_PROGRAM = Path(__file__).with_name("many_runs.py")
_MOST_FRAMING = 64  # bytes around a share when it is sent whole
_SECONDS = 900.0
Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class View:
    shares: tuple[bytes, ...]  # of the inputs, its own
    heard: tuple[bytes, ...]  # messages, in the engine's order
    kept: tuple[bytes, ...]  # contents of its shares of variables; for each word its own share and the next party's
    shape: tuple[tuple[tuple[int, int], tuple[int, ...]], ...]  # lengths of all messages of all links


def run_many(folder: Path, worlds: Sequence[SplitWorld], *, how: str = "honest") -> list[dict[int, View]]:
    """Compute all of them, with the same public coins of the engine; for each the view of every party by rank.

    It is done ``honest``; with a ``leak``; or with a consumer that makes an ``edit`` to its own shares of the picks.
    """
    records = [_prepare(folder / f"{number:04d}", small, f"{number:04d}") for number, small in enumerate(worlds)]
    words = [[str(PYTHON), "-I", str(_PROGRAM), str(folder), str(rank), how] for rank in range(3)]
    with (folder.parent / f"{folder.name}.log").open("wb") as log:
        engines = [subprocess.Popen(one, env={}, stdout=log, stderr=log) for one in words]  # noqa: S603 - our own
        try:
            codes = [engine.wait(_SECONDS) for engine in engines]
        finally:
            for engine in engines:
                engine.kill()
                engine.wait()
            for record in records:
                record.close()
    assert codes == [0] * 3, Path(log.name).read_text(errors="replace")[-3000:]
    return [{rank: _view(record, rank) for rank in range(3)} for record in records]


def _prepare(folder: Path, small: SplitWorld, name: str) -> LinkRecords:
    folder.mkdir(parents=True)
    record = LinkRecords(folder, coins=PUBLIC_COINS)
    for rank, (offers, target) in enumerate(small.shares()):
        np.savez(folder / f"shares-{rank}.npz", offers=offers, target=target)
        task = Task(small.settings, rank, "program", "inputs", name, record.addresses(rank), 300)
        (folder / f"task-{rank}").write_bytes(task.to_bytes())
    return record


def _view(record: LinkRecords, rank: int) -> View:
    states = sorted(record.folder.glob(f"state-{rank}-*"))
    shares = np.load(record.folder / f"shares-{rank}.npz")
    own = tuple(shares[name].astype("<i8").tobytes() for name in ("offers", "target"))
    return View(own, tuple(record.heard(rank)), tuple(path.read_bytes() for path in states), record.shape())


def features(views: Sequence[View]) -> Iterator[tuple[str, Bytes]]:
    """Of computations with the same shape: for each feature its name and its bytes, one line for each computation."""
    assert len({view.shape for view in views}) == 1
    for what in ("shares", "heard", "kept"):
        for place, parts in enumerate(zip(*(getattr(view, what) for view in views), strict=True)):
            yield f"{what} {place}", _lines(parts)
    first = views[0]
    for place, content in enumerate(first.kept):
        words = len(content) // 16
        pairs = np.array([_words(view.kept[place]).reshape(-1, 2) for view in views])
        for number, message in enumerate(first.heard):
            for step in (1, 2):
                if words and 0 <= len(message) - 8 * step * words <= _MOST_FRAMING:
                    tails = [_words(view.heard[number][-8 * step * words :]) for view in views]
                    for offset in range(step):
                        third = np.array([tail[offset::step] for tail in tails])
                        name = f"heard {number} with kept {place}"
                        yield name, (pairs[..., 0] + pairs[..., 1] + third).view(np.uint8)
                        yield name, (pairs[..., 0] ^ pairs[..., 1] ^ third).view(np.uint8)


def _lines(parts: Iterable[bytes]) -> Bytes:
    return np.array([np.frombuffer(part, dtype=np.uint8) for part in parts])


def _words(data: bytes) -> NDArray[np.uint64]:
    return np.frombuffer(data, dtype="<u8").astype(np.uint64)


def set_bits(lines: Bytes) -> NDArray[np.int64]:
    """For each bit of a feature in how many computations it is set."""
    return np.asarray(np.unpackbits(lines, axis=1).sum(axis=0, dtype=np.int64))


@cache
def _fisher(one: int, other: int) -> NDArray[np.float64]:
    table = [[fisher_exact([[a, one - a], [b, other - b]])[1] for b in range(other + 1)] for a in range(one + 1)]
    return np.array(table)


def chance_of_difference(one: Sequence[View], other: Sequence[View]) -> tuple[float, str]:
    """At most how likely two kinds of computations differ so much if their views have the same law; and where."""
    smallest, where, bits = 1.0, "nowhere", 0
    table = _fisher(len(one), len(other))
    for name, lines in features([*one, *other]):
        chances = table[set_bits(lines[: len(one)]), set_bits(lines[len(one) :])]
        bits += chances.size
        if chances.size and chances.min() < smallest:
            smallest, where = float(chances.min()), name
    return min(1.0, smallest * bits), where


def chance_of_counts(counts: NDArray[np.int64], of: int) -> float:
    """At most how likely one of many fair bits is set so often or so seldom, or more so."""
    if not len(counts):
        return 1.0
    far = np.abs(counts - of / 2).max()
    return float(min(1.0, 2 * len(counts) * binom.cdf(of / 2 - far, of, 0.5)))
