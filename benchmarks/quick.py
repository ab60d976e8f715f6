"""A budget for regressions: ten ratios of CPU time, each measured within one run, against the numbers of budget.json.

Both sides of a ratio take turns until they used so many seconds of the processor, and the least of each counts: a busy
machine makes that longer, not the ratio larger. Files lie in memory where there is such a place: what counts is work,
not the disk. A ratio outside its band is measured longer before it counts: noise passes, a regression stays. A ratio
below its band is an error, too: its number allows regressions until it is brought down.

    make bench-quick                              compare; exit code 1 if a ratio is outside its band
    make bench-quick ONLY=labels                  one of them
    make bench-quick WRITE=1                      write what was measured into budget.json: for a change that is meant
"""

import argparse
import hashlib
import json
import resource
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import labels as label_market
import letters
import protocols
from likeset.geometry.greedy import exact_greedy
from likeset.geometry.kernels import squared_mmd
from likeset.geometry.selection import Selection
from likeset.ledger.budget import Charge, Limit, Request
from likeset.ledger.ledger import Ledger
from likeset.privacy.events import NoRelease, View
from likeset.protocol.party import CURATOR
from likeset.protocol.sealed import SealedOwner
from likeset.protocol.wire import Delivery, Message, TargetRelease, decode, encode
from likeset.tables.scan import MemoryScan
from likeset.transports.local import ChargedParty

Sides = tuple[Callable[[], object], Callable[[], object]]
"""What is measured, and what it is compared with."""

_FEWEST = 5  # turns
_SECONDS = 4.0  # of the processor, for a ratio that is within its band ...
_SECONDS_OUTSIDE = 20.0  # ... and for one that is not
_MEMORY = "/dev/shm"  # noqa: S108 - folders of our own are made in it


@dataclass(frozen=True)
class Measured:
    """The least CPU seconds of both sides."""

    name: str
    meaning: str
    upper: float
    lower: float

    @property
    def ratio(self) -> float:
        """Of the one over the other."""
        return self.upper / self.lower


def measure(name: str, meaning: str, sides: Sides, *, committed: float | None) -> Measured:
    """Take turns until the time is used; longer as long as the ratio is outside its band."""
    least, used, turns = [float("inf"), float("inf")], 0.0, 0
    while True:
        for place, side in enumerate(sides):
            before = _cpu_seconds()
            side()
            spent = _cpu_seconds() - before
            least[place], used = min(least[place], spent), used + spent
        turns += 1
        found = Measured(name, meaning, *least)
        if turns >= _FEWEST and used > (_SECONDS if _verdict(found, committed) == "ok" else _SECONDS_OUTSIDE):
            return found


def _cpu_seconds() -> float:
    """User and system time of this process and of the children that it waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


_COLUMNS, _GAMMA = 50, 0.01
_POOL, _TARGET, _PICKED = 40_000, 400, 150


@dataclass(frozen=True)
class Ratio:
    """One of the budget's numbers.

    Attributes:
        meaning: what over what.
        ready: makes both sides, and clears up after them.
    """

    meaning: str
    ready: Callable[[], AbstractContextManager[Sides]]


@contextmanager
def _owner() -> Iterator[Sides]:
    """The owner's part of ``sealed``, with a ledger, over hashing the same rows."""
    terms = protocols._terms()
    scan, features = MemoryScan(protocols._table(100_000)), terms.kernel.features()
    release = features.mean(protocols._table(_TARGET, shift=0.5))
    turns = iter(range(1_000_000))

    def answer() -> None:
        with protocols._ledger(terms) as ledger:
            owner = ChargedParty(SealedOwner(terms, terms.owners[0], scan=scan, key=next(turns)), ledger)
            owner.take(protocols._to(owner, 1, TargetRelease(release=release)))

    yield answer, lambda: protocols._hash_all(scan, features)


def _pool() -> tuple[np.ndarray, np.ndarray]:
    coins = np.random.default_rng(1)
    pool = coins.normal(size=(_POOL, _COLUMNS)).astype(np.float32)
    return pool, coins.normal(0.3, 1.0, size=(_TARGET, _COLUMNS)).astype(np.float32)


def _one_pass(pool: np.ndarray, target: np.ndarray) -> None:
    """The mean kernel with the target, by products in blocks: no selection does with less."""
    own, fixed = np.einsum("ij,ij->i", pool, pool), np.einsum("ij,ij->i", target, target)[:, None]
    for first in range(0, len(pool), 512):
        part = slice(first, first + 512)
        kernel = target @ pool[part].T
        kernel *= 2.0
        kernel -= own[part]
        kernel -= fixed
        kernel *= _GAMMA
        np.exp(kernel, out=kernel).mean(axis=0)


@contextmanager
def _greedy() -> Iterator[Sides]:
    pool, target = _pool()
    yield lambda: exact_greedy(pool, target, _PICKED, gamma=_GAMMA), lambda: _one_pass(pool, target)


@contextmanager
def _distance() -> Iterator[Sides]:
    pool, target = _pool()
    few = pool[:4000]
    yield lambda: squared_mmd(few, target, gamma=_GAMMA), lambda: _one_pass(few, few)


@contextmanager
def _labels() -> Iterator[Sides]:
    pool, codes, target = label_market.market()
    pool, codes, target = pool[:1500], codes[:1500], target[:200]
    yield (
        lambda: Selection().select(pool, target, 100, labels=codes),
        lambda: Selection().select(pool, target, 100),
    )


@contextmanager
def _letters() -> Iterator[Sides]:
    wire, message = letters.Correspondence(), bytes(1 << 20)

    def both() -> None:
        for _ in range(5):
            wire.read(wire.write(message).data)

    yield both, lambda: [wire.library(message) for _ in range(5)]


@contextmanager
def _messages() -> Iterator[Sides]:
    coins = np.random.default_rng(2)
    body = Delivery(
        rows=coins.normal(size=(1, _COLUMNS)).astype(np.float32),
        labels=np.array(["a"]),
        features=np.rint(1000 * coins.normal(size=(1, 140))).astype(np.float32),
        handle=1,
        records=np.empty(0, dtype=np.uint8),
    )
    message = Message("run", "0" * 64, "owner-1", CURATOR, 1, body)
    data = encode(message)

    def hash_as_much() -> None:
        for _ in range(5000):
            hashlib.sha256(data).digest()

    yield lambda: [decode(encode(message)) for _ in range(100)], hash_as_much


@contextmanager
def _ledger() -> Iterator[Sides]:
    view, turns = View.curator("a"), iter(range(10_000_000))
    with tempfile.TemporaryDirectory() as folder, Ledger(Path(folder) / "ledger.sqlite") as ledger:
        ledger.set_limit(view, Limit.rows_only(1_000_000))
        plain = sqlite3.connect(Path(folder) / "plain.sqlite", isolation_level=None)
        plain.execute("PRAGMA journal_mode=WAL")
        plain.execute("CREATE TABLE entries (number INTEGER PRIMARY KEY, body BLOB)")

        def charge() -> None:
            for _ in range(40):
                request = Request("run", next(turns), "draw")
                ledger.draw(Charge(((view, NoRelease()),), 1), lambda: (b"m" * 1000, None), request=request)

        def write() -> None:
            for _ in range(80):  # a draw takes two writes: the charge, and the answer with its entry
                plain.execute("BEGIN IMMEDIATE")
                plain.execute("INSERT INTO entries (body) VALUES (?)", (b"m" * 1000,))
                plain.execute("COMMIT")

        yield charge, write
        plain.close()


@contextmanager
def _interactive() -> Iterator[Sides]:
    """A round with five owners over the scoring that it is about: five changed coordinates of all their rows."""
    terms, rows = protocols._interactive_terms(10), 2000
    features = protocols._table(rows)[:, :5].T.copy()

    def score() -> None:
        for _ in range(10 * 5 * 200):
            np.dot(np.ones(5, dtype=np.float32), features)

    yield lambda: protocols._run(terms, rows, None), score


def _start(script: str) -> Callable[[], object]:
    return lambda: subprocess.run([sys.executable, "-c", script], check=True)


@contextmanager
def _import() -> Iterator[Sides]:
    yield _start("import likeset"), _start("")


@contextmanager
def _command() -> Iterator[Sides]:
    libraries = "import typer, rich.console, numpy, pyarrow.compute, pyarrow.parquet, matplotlib.figure, cryptography"
    ours = "import likeset.app.cli, likeset.app.demo, likeset.app.report"
    yield _start(ours), _start(libraries)


RATIOS = {
    "owner": Ratio("an owner's whole part in sealed over hashing its rows", _owner),
    "greedy": Ratio("exact greedy over one pass of the pool with the target", _greedy),
    "distance": Ratio("the squared MMD over one pass of the same rows", _distance),
    "labels": Ratio("a selection with labels over one without", _labels),
    "letters": Ratio("letters of 1 MiB over the library's sealing and signing", _letters),
    "messages": Ratio("encoding and decoding over hashing fifty times as many bytes", _messages),
    "ledger": Ratio("a charge over two plain SQLite writes", _ledger),
    "interactive": Ratio("ten rounds with five owners over plain products", _interactive),
    "import": Ratio("import likeset over Python's start", _import),
    "command": Ratio("loading a match and its report over loading their libraries", _command),
}


_BUDGET = Path(__file__).parent / "budget" / "budget.json"
_BAND = 1.5
"""A ratio may be so many times the committed one, or the committed one so many times the ratio."""


def main() -> int:
    """Measure, compare, print; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=sorted(RATIOS), help="this ratio (may be repeated)")
    parser.add_argument("--write", action="store_true", help="write what was measured into budget.json")
    options = parser.parse_args()
    budget: dict[str, float] = json.loads(_BUDGET.read_text()) if _BUDGET.exists() else {}
    if Path(_MEMORY).is_dir():
        tempfile.tempdir = _MEMORY
    found = []
    for name in options.only or RATIOS:
        with RATIOS[name].ready() as sides:
            found.append(measure(name, RATIOS[name].meaning, sides, committed=budget.get(name)))
        if options.write:
            budget[name] = float(f"{found[-1].ratio:.3g}")
            _BUDGET.write_text(json.dumps({name: budget[name] for name in RATIOS if name in budget}, indent=1) + "\n")
        print(_line(found[-1], budget.get(name)), flush=True)
    return int(any(_verdict(one, budget.get(one.name)) != "ok" for one in found))


def _line(one: Measured, committed: float | None) -> str:
    """A line of the table."""
    shown = "none" if committed is None else f"{committed:.3g}"
    return (
        f"{one.name:12} {one.ratio:8.3g}  committed {shown:>6}  {_verdict(one, committed):6} "
        f"{one.meaning} ({1e3 * one.upper:.1f} / {1e3 * one.lower:.1f} ms)"
    )


def _verdict(one: Measured, committed: float | None) -> str:
    if committed is None:
        return "OVER"  # a ratio without a number has no budget
    if one.ratio > _BAND * committed:
        return "OVER"
    return "UNDER" if one.ratio < committed / _BAND else "ok"


if __name__ == "__main__":
    sys.exit(main())
