"""What the protocols cost an owner, and where the time of a whole interactive run goes.

Three measurements, each a comparison within one run:

    a round of ``interactive`` for one owner, by the coordinates that changed, against all coordinates anew;
    the whole cost of ``sealed`` for one owner, against hashing its rows once;
    a whole run of ``interactive`` with the paper's settings, by what the time was spent on.

    python benchmarks/protocols.py             everything (some minutes)
    python benchmarks/protocols.py --only run  one of rounds, sealed and run; only printed
    python benchmarks/protocols.py --quick     small tables: does everything work?
"""

import argparse
import cProfile
import datetime
import os
import pstats
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

import likeset
from likeset.geometry.features import FourierFeatures
from likeset.ledger.budget import Limit
from likeset.ledger.ledger import Ledger, Transaction
from likeset.privacy.auction import auction_epsilon, auction_patience
from likeset.privacy.events import Relation, View
from likeset.privacy.noise import SimulatedNoise
from likeset.protocol.interactive import InteractiveCurator, InteractiveOwner
from likeset.protocol.party import CURATOR
from likeset.protocol.sealed import Consumer, SealedOwner
from likeset.protocol.terms import Budget, Kernel, Terms, digest_of_rows
from likeset.protocol.wire import Asked, Body, Message, SummaryRelease, TargetRelease
from likeset.tables.scan import MemoryScan
from likeset.transports import local
from likeset.transports.local import ChargedParty

_HERE = Path(__file__).parent
_PACKAGE = str(Path(likeset.__file__).parent)
_COLUMNS, _DIMENSION, _TARGET = 50, 140, 400
_CHANGED = 5  # coordinates that the paper's release of a round changes, at most
_NAMES = tuple(f"owner-{number}" for number in range(5))
_ACCEPTED = ("paper-auction", "summary-release")
_BARE_WRITES = 200
_DEEPEST = 40  # calls of libraries within each other
_TOPICS = (
    ("geometry/features", "hashing rows"),
    ("protocol/exact_scores", "scores of rows"),
    ("protocol/messages", "encoding and decoding"),
    ("protocol/party", "encoding and decoding"),
    ("protocol/interactive", "best rows, pool, checks"),
    ("protocol/owner", "best rows, pool, checks"),
    ("protocol/curator", "best rows, pool, checks"),
    ("mechanisms", "releases and auctions"),
    ("privacy", "releases and auctions"),
    ("protocol/plans", "planning and pricing"),
    ("ledger", "ledger (durable writes)"),
    ("protocol/selection", "judging the summary"),
    ("geometry", "judging the summary"),
    ("engines", "engine"),
)

SingleRows = NDArray[np.float32]


def main() -> None:
    """Read the options, measure, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small tables: does everything work?")
    parser.add_argument("--only", choices=("rounds", "sealed", "run"), help="measure one part, and only print it")
    parser.add_argument("--out", type=Path, default=_HERE / "results", help="folder of the results")
    options = parser.parse_args()
    rows, large, size = (2_000, 50_000, 50) if options.quick else (20_000, 1_000_000, 500)
    measures = {
        "rounds": lambda: _measure_rounds(rows),
        "sealed": lambda: _measure_sealed(large),
        "run": lambda: _whole_run(rows, size),
    }
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    chosen = [measure for name, measure in measures.items() if options.only in (None, name)]
    parts = ["\n".join(measure()).rstrip() + f"\n\nMeasured on {today}.\n" for measure in chosen]
    text = "\n".join([_heading(), *parts])
    print(text)
    if options.only is None:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "protocols.md").write_text(text, encoding="utf-8")


def _heading() -> str:
    return (
        "# What the protocols cost\n\n"
        f"Written by `benchmarks/protocols.py` on a machine with {os.cpu_count()} cores that had other "
        "work to do: the\nratios count, each taken within one run; times are of the process's own CPU, one thread.\n"
    )


def _measure_rounds(rows: int) -> Iterator[str]:
    """One owner's round: a release of few coordinates, one of all, and a plain product of all features."""
    terms = _interactive_terms(rounds := 60)
    with _ledger(terms) as ledger:
        owner = ChargedParty(InteractiveOwner(terms, _NAMES[0], scan=MemoryScan(_table(rows)), key=1), ledger)
        owner.take(_to(owner, 0, TargetRelease(release=_direction(0))))
        spent: dict[str, list[float]] = {"few": [], "all": [], "product": []}
        features = np.ascontiguousarray(terms.kernel.features()(_table(rows)))
        for number in range(1, rounds + 1):
            kind = "few" if number % 2 else "all"
            chosen = np.random.default_rng(number).permutation(_DIMENSION)[: _CHANGED if kind == "few" else None]
            release = SummaryRelease(coordinates=np.sort(chosen), values=_direction(number)[: len(chosen)])
            spent[kind].append(_seconds(lambda: owner.take(_to(owner, number, release))))  # noqa: B023 - called now
            owner.take(_to(owner, number, Asked(asked=True)))
            direction = _direction(number).astype(np.float32)
            spent["product"].append(_seconds(lambda: features @ direction))  # noqa: B023 - called now
    few, everything, product = (statistics.median(spent[kind]) for kind in ("few", "all", "product"))
    yield "## A round of `interactive` for one owner\n"
    yield f"{rows:,} rows, d = {_DIMENSION}; medians of {rounds // 2} rounds, in milliseconds. At least 5 must hold.\n"
    yield "| what | ms | over the first |\n|---|---|---|"
    yield f"| {_CHANGED} coordinates changed (the paper's release), a bid included | {1e3 * few:.2f} | 1 |"
    yield f"| all {_DIMENSION} coordinates anew, a bid included | {1e3 * everything:.2f} | {everything / few:.1f} |"
    yield (
        f"| a float32 product of all features with a vector, nothing else | {1e3 * product:.2f} | {product / few:.1f} |"
    )
    yield (
        "\nScores are sums of whole numbers, exact in every order, so that all parties rank rows alike; a float32 "
        "product is not,\nand is shown for scale only.\n"
    )


def _measure_sealed(rows: int) -> Iterator[str]:
    """One owner's whole part in ``sealed`` against hashing its rows once; turns alternate."""
    terms = _terms()
    scan, features = MemoryScan(_table(rows)), terms.kernel.features()
    release = features.mean(_table(_TARGET, shift=0.5)) + np.random.default_rng(3).normal(
        0.0, 0.02, terms.kernel.dimension
    )
    whole, once = [], []
    for turn in range(3):
        with _ledger(terms) as ledger:
            owner = ChargedParty(SealedOwner(terms, _NAMES[0], scan=scan, key=turn), ledger)
            whole.append(_seconds(lambda: owner.take(_to(owner, 1, TargetRelease(release=release)))))  # noqa: B023
        once.append(_seconds(lambda: _hash_all(scan, features)))
    ratio = min(whole) / min(once)
    yield "## The whole of `sealed` for one owner\n"
    yield f"{rows:,} x {_COLUMNS} numbers, d = {_DIMENSION}, {terms.rows_per_owner} rows offered; best of 3."
    yield "At most 2.5 must hold.\n"
    yield "| what | s | over hashing |\n|---|---|---|"
    yield f"| hashing all rows once | {min(once):.2f} | 1 |"
    yield f"| weighing, one scoring pass, draw, thinning, ledger, encoding | {min(whole):.2f} | {ratio:.2f} |\n"


def _hash_all(scan: MemoryScan, features: FourierFeatures) -> None:
    for first, block in scan.blocks():
        for _ in features.blocks(block.rows, first_row=first):
            pass


class _Serial:
    """Stands in for a pool of threads: a profile sees one thread only."""

    def __init__(self, **_: object) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def map(self, work: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        """One after the other."""
        return [work(item) for item in items]


def _whole_run(rows: int, size: int) -> Iterator[str]:
    """The paper's settings end to end as it is, and a fifth of it under a profiler."""
    local.ThreadPoolExecutor = _Serial  # type: ignore[assignment,misc]
    terms = _interactive_terms(size)
    started, cpu_started = time.perf_counter(), time.process_time()
    result, ledger = _run(terms, rows, None)
    clock, cpu = time.perf_counter() - started, time.process_time() - cpu_started
    bare, each = _bare_write(), ledger.waited / ledger.written
    profile = cProfile.Profile(time.process_time)
    _run(_interactive_terms(size // 5), rows, profile)
    spent = _by_topic(profile)
    total = sum(spent.values())
    yield "## A whole run of `interactive` with the paper's settings\n"
    yield (
        f"p = {size}, five owners with {rows:,} x {_COLUMNS} numbers each, d = {_DIMENSION}, simulated noise (not "
        f"private): {cpu:.1f} s of CPU and\n{clock:.1f} s on the clock, {ledger.waited:.1f} s of them in the ledger, "
        f"most of that until the disk has confirmed: {ledger.written:,} times,\n{1e3 * each:.1f} ms each, where a bare "
        f"write that the disk confirms took {1e3 * bare:.1f} ms (median of {_BARE_WRITES}, right after it).\n"
        f"{result.messages:,} messages, {result.bytes_sent / 1e6:.1f} MB, {len(result.summary.rows)} rows selected. "
        f"Where the CPU time of a run of p = {size // 5} goes, under a profiler, which\nmakes small calls look "
        f"dearer than they are ({total:.1f} s in all):\n"
    )
    yield "| what | CPU s | share |\n|---|---|---|"
    for topic, seconds in spent.most_common():
        yield f"| {topic} | {seconds:.2f} | {100 * seconds / total:.0f} % |"
    yield "\n| function | CPU s | share |\n|---|---|---|"
    for function, seconds in _by_function(profile).most_common(10):
        yield f"| `{function}` | {seconds:.2f} | {100 * seconds / total:.0f} % |"


def _bare_write() -> float:
    """Seconds on the clock until the disk has confirmed a page, beside what else it has to do."""
    took = []
    with tempfile.TemporaryFile() as file:
        for number in range(_BARE_WRITES):
            os.pwrite(file.fileno(), bytes(4096), 4096 * number)
            started = time.perf_counter()
            os.fsync(file.fileno())
            took.append(time.perf_counter() - started)
    return statistics.median(took)


def _run(terms: Terms, rows: int, profile: cProfile.Profile | None) -> tuple[local.RunResult, "_TimedLedger"]:
    """One run; returns its result and the ledger, which knows how often it was waited for."""
    noise = SimulatedNoise(0)
    with _ledger(terms) as ledger:
        owners = {
            name: ChargedParty(
                InteractiveOwner(terms, name, scan=MemoryScan(_table(rows, shift=0.2 * number)), key=number), ledger
            )
            for number, name in enumerate(_NAMES)
        }
        seeds = _table(terms.seed_rows)
        curator = ChargedParty(InteractiveCurator(terms, noise=noise, seed_rows=seeds), ledger)
        consumer = ChargedParty(Consumer(terms, target=_table(_TARGET, shift=0.5), noise=noise), ledger)
        with profile or nullcontext():
            result = local.run_local(curator, owners, consumer)
        return result, ledger


class _TimedLedger(Ledger):
    """A ledger that knows how long others waited for it."""

    waited = 0.0
    written = 0

    @contextmanager
    def deciding(self) -> Iterator[Transaction]:
        """As a ledger does, with a look at the clock; parties compute before or after it."""
        started = time.perf_counter()
        with super().deciding() as transaction:
            yield transaction
        self.waited += time.perf_counter() - started
        self.written += 1


def _own_seconds(profile: cProfile.Profile) -> Iterator[tuple[str, str, float]]:
    """File, function and seconds of our functions: their own, and those of libraries that worked for them."""
    stats: Any = pstats.Stats(profile)
    waiting = {function: told[2] for function, told in stats.stats.items()}
    for _ in range(_DEEPEST):  # each time, what a library's function took goes to those who called it
        handed: Counter[Any] = Counter()
        for function, seconds in waiting.items():
            callers = stats.stats[function][4]
            within = sum(told[3] for told in callers.values())
            if _is_ours(function[0]) or not within:
                yield function[0], function[2], seconds
                continue
            for caller, told in callers.items():
                handed[caller] += seconds * told[3] / within
        waiting = handed
    for function, seconds in waiting.items():
        yield function[0], function[2], seconds


def _is_ours(file: str) -> bool:
    return file.startswith((_PACKAGE, str(_HERE)))


def _by_topic(profile: cProfile.Profile) -> Counter[str]:
    spent: Counter[str] = Counter()
    for file, _, seconds in _own_seconds(profile):
        module = file.removeprefix(_PACKAGE).lstrip("/")
        topic = next((words for part, words in _TOPICS if module.startswith(part)), "checks of arguments and the rest")
        spent[topic] += seconds  # type: ignore[assignment]
    return spent


def _by_function(profile: cProfile.Profile) -> Counter[str]:
    spent: Counter[str] = Counter()
    for file, name, seconds in _own_seconds(profile):
        spent[f"{Path(file).stem}.{name}"] += seconds  # type: ignore[assignment]
    return spent


def _table(rows: int, *, shift: float = 0.0) -> SingleRows:
    return np.random.default_rng(rows).normal(shift, 1.0, size=(rows, _COLUMNS)).astype(np.float32)


def _direction(seed: int) -> NDArray[np.float64]:
    return np.random.default_rng([seed, 1]).normal(0.0, 0.1, size=_DIMENSION)


def _seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def _to(owner: ChargedParty[Any], number: int, body: Body) -> Message:
    terms = owner.terms
    sender = terms.consumer if isinstance(body, TargetRelease) else CURATOR
    return Message(terms.run, terms.digest, sender, owner.name, number, body)


@contextmanager
def _ledger(terms: Terms) -> Iterator[_TimedLedger]:
    """A ledger in a passing folder, with accounts that a benchmark cannot empty."""
    large = Limit(1e6, 0.1, terms.relation, accept_unproven=("simulated", "unbounded", *_ACCEPTED))
    with tempfile.TemporaryDirectory() as folder, _TimedLedger(Path(folder) / "ledger.sqlite") as ledger:
        ledger.set_limit(View.owners(terms.consumer), large)
        for owner in terms.owners:
            ledger.set_limit(View.owners(owner), large)
            ledger.set_limit(View.curator(owner), Limit.rows_only(terms.rows_per_owner))
        yield ledger


def _terms(**changes: Any) -> Terms:
    base: dict[str, Any] = {
        "run": "benchmark",
        "consumer": "consumer",
        "purpose": "benchmark",
        "expires": "",
        "owners": _NAMES,
        "quorum": 1,
        "schema_digest": "",
        "columns": (),
        "record_bytes": 0,
        "kernel": Kernel(_COLUMNS, _DIMENSION, 0.01, 1),
        "protocol": "sealed",
        "size": 200,
        "target_size": _TARGET,
        "offer_factor": 10.0,
        "offers": "tilted",
        "labels": "match",
        "thinning": True,
        "target_budget": Budget(1.0, 1e-5),
        "owner_budget": Budget(0.0, 1e-5),
        "relation": Relation.REPLACE_ONE,
        "rows_per_unit": 1,
        "id_column": "",
        "auction": "everyone",
        "auction_epsilon": 0.0,
        "auction_offset": 0,
        "auction_patience": 0,
        "summary_release": "none",
        "seed_rows": 0,
        "seed_digest": "",
        "schedule": "",
        "promised_epsilon": 0.0,
        "price_per_row": 0.0,
        "currency": "",
        "accept_unproven": (),
    }
    return Terms(**{**base, **changes})


def _interactive_terms(size: int) -> Terms:
    return _terms(
        protocol="interactive",
        size=size,
        kernel=Kernel(_COLUMNS, _DIMENSION, 0.01, 1, kind="paper"),
        summary_release="mwem",
        schedule="experiment",
        auction="paper",
        auction_epsilon=auction_epsilon(owners=len(_NAMES), epsilon=1.0, delta=1e-5),
        auction_patience=auction_patience(len(_NAMES)),
        seed_rows=150,
        seed_digest=digest_of_rows(_table(150)),
        accept_unproven=_ACCEPTED,
    )


if __name__ == "__main__":
    main()
