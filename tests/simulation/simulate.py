"""The whole market in one process, decided by a seed.

``python tests/simulation --seed 7`` replays a seed, ``--seeds 0 500`` tries many. Faults are in ``faults.py``,
invariants in ``invariants.py``, sequences that chance rarely finds in ``stories.py``.
"""

import argparse
import dataclasses
import functools
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import Pool
from pathlib import Path
from typing import Any

import home_world as hw
import machine
import numpy as np
from invariants import KNOWN, Violation, kind_of
from machine import replace
from market import TEMPLATE, Market, PlainComputations, SimStore, make_homes
from numpy.typing import NDArray
from plan import Event, Shape, events_of
from stories import STORIES, SWEEPS, SWEPT

from faults import AROUND, AT_EFFECTS, EFFECTS, IN_LISTINGS
from likeset import documents
from likeset.homes import consumer, curator, home
from likeset.privacy import noise
from likeset.transports import sync
from likeset.trust import cards

HOLD = "all invariants hold"
_MEMORY = Path("/dev/shm")  # noqa: S108 - folders of our own in it

market: Market | None = None  # the one that is simulated


def _coins() -> random.Random:
    assert market is not None
    return market.coins


class Noise(noise.SimulatedNoise):
    """Another one for each party that is made, so that a second draw shows."""

    private = property(lambda _: True)

    def __init__(self) -> None:
        super().__init__(_coins().getrandbits(40))


def install() -> None:
    """Replace what a seed must decide: mailboxes, noise, keys' order, the split engine, the disk's patience."""

    def store(address: str, **_: Any) -> SimStore:
        assert market is not None
        return SimStore(market, next(box for box in market.boxes if box.address == address), market.opening)

    def computations(of: home.Home) -> PlainComputations:
        assert market is not None
        return PlainComputations(of, market.meetings)

    machine.install(lambda: market.disk if market is not None and market.act is not None else None)

    def words(count: int) -> NDArray[np.uint64]:
        return np.array([_coins().getrandbits(64) for _ in range(count)], dtype=np.uint64)

    replace(consumer, SecretNoise=Noise)
    replace(curator, SecretNoise=Noise)
    replace(noise, _random_words=words)
    replace(sync, open_store=store, computations_of=computations)
    replace(home, RESERVE_BYTES=1 << 10)
    replace(documents, _compose=functools.lru_cache(4096)(documents._compose))  # half of all time
    replace(cards, holds=functools.lru_cache(4096)(cards.holds))


# Plans.

EVENTS = {
    **{"turn": 60, "ask": 6, "approve": 14, "deny": 1, "withdraw": 1, "cancel": 0.5},
    **dict.fromkeys(AROUND, 2.0),
    **{"pass": 4, "restore": 1.5, "renew": 0.3, "revoke": 0.3, "lie": 1, "remove": 3},
}
FAULTS = {
    **dict.fromkeys(AT_EFFECTS, 4.0),
    **dict.fromkeys(IN_LISTINGS, 1.0),
    **{"": 50, "kill": 20, "power": 6, "overlap": 8},
}


def drawn_event(name: str, shape: Shape, kinds: dict[str, float], befalling: dict[str, float]) -> Event:
    coins = random.Random(name)  # noqa: S311 - repeatable
    (what,) = coins.choices(list(kinds), list(kinds.values()))
    (fault,) = coins.choices(list(befalling), list(befalling.values()))
    effect = coins.choice(EFFECTS) if coins.random() < 0.5 and fault not in ("weak", "blind") else ""
    nth = coins.choice((1, 1, 1, 2, 3, 4)) if effect or fault == "weak" else 1 + int(50 * coins.random() ** 2)
    return Event(
        what,
        coins.choice(shape.names),
        coins.randrange(len(shape.runs)),
        fault if what not in AROUND else "",
        effect if fault in AT_EFFECTS else "",
        1 if fault == "blind" else nth,
        coins.choice((1, 3, 10**9)) if fault not in ("weak", "blind") else 10**9,
        coins=f"{name} acts",
        ends=coins.random() < 0.4,
    )


def plan(seed: int) -> tuple[Shape, list[Event]]:
    """Swarm testing: each seed has a market, and its own weights of events and faults, some of them zero."""
    coins = random.Random(f"market {seed}")  # noqa: S311 - repeatable
    shape = Shape.drawn(coins)

    def swarm(of: Mapping[str, float], *times: float) -> dict[str, float]:
        return {kind: weight * coins.choice(times) for kind, weight in sorted(of.items())}

    # A fault that excuses a run from having its summary is rare, or liveness would never be looked at.
    kinds = {**swarm(EVENTS, 0, 0, 0.5, 1, 3), "turn": 60.0, "approve": 14.0, "ask": 2.0}
    befalling = {**swarm(FAULTS, 0, 0.2, 1, 1, 5), "": 50.0}
    events = [drawn_event(f"{seed}/{number}", shape, kinds, befalling) for number in range(coins.randrange(40, 140))]
    for number in range(len(events), 0, -1):  # what is away comes back soon
        if events[number - 1].what in ("data away", "bad policy"):
            events[number - 1] = dataclasses.replace(events[number - 1], who=coins.choice(shape.owners))
            events.insert(number + coins.randrange(6), events[number - 1])
    calm = [Event("ask", run.consumer, number) for number, run in enumerate(shape.runs)]
    head_start = coins.choice((0, 1, 2, 2))  # how far runs come before anything goes wrong
    calm += [Event("turn", name) for name in shape.names if head_start]
    if head_start > 1:
        calm += [Event("approve", who, number) for number, run in enumerate(shape.runs) for who in run.owners]
        calm += [Event("turn", name) for name in shape.owners]
    return shape, [
        dataclasses.replace(event, coins=f"{seed}/calm {number}") for number, event in enumerate(calm)
    ] + events


@dataclass
class Outcome:
    market: Market
    violation: str  # empty if all invariants held


def simulate(
    shape: Shape, events: Sequence[Event], *, seed: object, known: Collection[str] = KNOWN, raises: bool = False
) -> Outcome:
    global market
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        place = Path(folder).resolve() / "market"
        market = Market(place, shape, events, coins=random.Random(f"coins {seed}"), known=known)  # noqa: S311 - repeatable
        found = ""
        try:
            market.play()
        except Violation as violation:
            found = str(violation)
        except Exception as error:
            if raises:
                raise
            found = f"{type(error).__name__}: {error}".replace(folder, "")
        finally:
            done, market = market, None
    return Outcome(done, found)


def fewest(shape: Shape, events: Sequence[Event], found: str, *, seed: object) -> list[Event]:
    """Drop events as long as a violation of this kind remains."""
    kept, size = list(events), len(events) // 2
    while size:
        for start in range(len(kept) - size, -1, -size):
            fewer = kept[:start] + kept[start + size :]
            if kind_of(simulate(shape, fewer, seed=seed).violation) == kind_of(found):
                kept = fewer
        size //= 2
    return kept


@dataclass(frozen=True)
class Result:
    """What came of one seed."""

    seed: int
    runs: int
    violation: str
    covered: Counter[tuple[str, str, str]]


def tried(seed: int, *, twice: bool = False) -> Result:
    shape, events = plan(seed)
    outcome = simulate(shape, events, seed=seed)
    found = outcome.violation
    if twice:
        traces = outcome.market.trace, simulate(shape, events, seed=seed).market.trace
        differ = next((both for both in zip(*traces, strict=False) if both[0] != both[1]), None)
        found = found or ("" if differ is None else f"not the same twice: {differ}")
    return Result(seed, len(outcome.market.terms), found, outcome.market.covered)


def try_seeds(seeds: Sequence[int], *, processes: int, twice: bool, coverage: bool) -> bool:
    """Whether all invariants held in all seeds."""
    began, kinds, runs = time.monotonic(), Counter[str](), 0
    covered = Counter[tuple[str, str, str]]()
    with Pool(processes, initializer=install) as pool:
        for number, result in enumerate(pool.imap(functools.partial(tried, twice=twice), seeds, chunksize=1), start=1):
            runs += result.runs
            covered += result.covered
            if result.violation:
                kinds[kind_of(result.violation)] += 1
                say(f"seed {result.seed}: {result.violation}")
            if number % 500 == 0 or number == len(seeds):
                struck = len({fault for fault, _, _ in covered})
                triples = f"{len(covered)} triples of fault, effect and state; {struck} faults at effects"
                say(f"{number} seeds, {runs} runs, {time.monotonic() - began:.0f} s; {triples}")
    say(*(f"{count:6} {kind}" for kind, count in kinds.most_common()))
    if coverage:
        say(*(f"{count:6} {' | '.join(triple)}" for triple, count in sorted(covered.items())))
    return not kinds


def replay(seed: int, *, minimise: bool) -> bool:
    """Show all that happens in a seed; whether all invariants held."""
    shape, events = plan(seed)
    outcome = simulate(shape, events, seed=seed)
    if minimise and outcome.violation:
        outcome = simulate(shape, fewest(shape, events, outcome.violation, seed=seed), seed=seed)
    say(f"seed {seed}: {shape}", *outcome.market.trace, outcome.violation or HOLD)
    return not outcome.violation


def tell(name: str) -> str:
    """Play a story, in which nothing is known and excused; what was violated."""
    story = STORIES[name]
    outcome = simulate(story.shape, events_of(story.events), seed=name, known=(), raises=True)
    say(f"story: {name}", *outcome.market.trace, outcome.violation or HOLD)
    return outcome.violation


def sweep(name: str, fault: str, *, step: int) -> bool:
    """Let a fault befall each effect of the last turn, or every some; whether all invariants held."""
    held, struck, nth = True, True, 1
    while struck:
        events = events_of(f"{SWEEPS[name]} !{fault} #{nth}")
        outcome = simulate(Shape(), events, seed=name, known=(), raises=True)
        struck = bool(outcome.market.covered)
        if outcome.violation:
            held = False
            say(f"{name}: {fault} at effect {nth}", *outcome.market.trace, outcome.violation)
        nth += step
    say(f"{name}: {fault} at effects up to {nth - 2 * step}")
    return held


def say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seed", type=int, help="replay one seed, with all that happens")
    arguments.add_argument("--minimise", action="store_true", help="drop events of it as long as it fails")
    arguments.add_argument("--seeds", type=int, nargs=2, metavar=("FIRST", "END"), help="try many")
    arguments.add_argument("--processes", type=int, default=1)
    arguments.add_argument("--twice", action="store_true", help="play each seed twice, and compare")
    arguments.add_argument("--coverage", action="store_true", help="count triples of fault, effect and state")
    arguments.add_argument("--stories", nargs="*", metavar="NAME", help="play stories, or all")
    arguments.add_argument("--sweeps", type=int, metavar="STEP", help="faults at every STEPth effect of some turns")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:  # homes are made once, and copied
        hw.prepared(Path(folder), TEMPLATE, make_homes)
    if given.seed is not None:
        install()
        sys.exit(not replay(given.seed, minimise=given.minimise))
    if given.stories is not None:
        install()
        found = {name: bool(tell(name)) for name in given.stories or STORIES}
        wrong = [name for name, is_violated in found.items() if is_violated != bool(STORIES[name].known)]
        say(*(f"not as expected (``Story.known``): {name}" for name in wrong))
        sys.exit(bool(wrong))
    if given.sweeps:
        install()
        swept = [sweep(name, fault, step=given.sweeps) for name in SWEEPS for fault in SWEPT]
        sys.exit(not all(swept))
    seeds: Sequence[int] = range(*given.seeds) if given.seeds else ()
    held = try_seeds(seeds, processes=given.processes, twice=given.twice, coverage=given.coverage)
    sys.exit(not held)
