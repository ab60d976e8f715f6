"""What a run of the simulator is made of: the shape of the market, and the events that happen in it, in their order."""

import random
import re
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import home_world as hw

from likeset.protocol.party import CURATOR
from likeset.protocol.terms import WITNESS, Budget, Kernel, SplitTerms
from likeset.split.host import program_digest
from likeset.trust.cards import Role

CONSUMERS, OWNERS = ("new-clinic", "old-clinic"), ("a", "b", "c", "d")
OWN_CURATOR = "old-clinic-curator"
COMPUTING = (*CONSUMERS, CURATOR, OWN_CURATOR, WITNESS)
ROLES: dict[str, Role] = {
    **dict.fromkeys(CONSUMERS, "consumer"),
    **dict.fromkeys((CURATOR, OWN_CURATOR), "curator"),
    WITNESS: "witness",
    **dict.fromkeys(OWNERS, "owner"),
}
ANSWER_DAYS, END_DAYS = 10, 60
FOR_EVER = 10**9
ONE_AUCTION = 1.35  # an auction costs 1.313
_SPLIT_KERNEL = Kernel(columns=hw.SCHEMA_OF_ALL.width, dimension=16, gamma=0.4, seed=7, largest=30.0)
PROTOCOLS: dict[str, dict[str, Any]] = {
    "sealed": {},
    "auction": {
        **{"auction": "threshold", "auction_epsilon": 1.0, "auction_offset": 5},
        "owner_budget": Budget(9.0, 1e-5),
    },
    "interactive": {"protocol": "interactive", "size": 3},
    "split": {"split": SplitTerms(program_digest(), 6, gamma=0.4), "kernel": _SPLIT_KERNEL},
}


# What happens, in the order in which it does.


@dataclass(frozen=True)
class Event:
    """One line of a plan. Its coins are its own, so that it stays the same if others are dropped."""

    what: str
    who: str
    run: int = 0
    fault: str = ""
    effect: str = ""
    nth: int = 1
    lasts: int = FOR_EVER
    coins: str = ""
    hours: float | None = None  # of ``skew`` and ``pass``; None for any
    ends: bool = False  # whether the process ends afterwards

    def __str__(self) -> str:
        fault = f" !{self.fault}" + (f" @{self.effect}" if self.effect else "") + f" #{self.nth}" if self.fault else ""
        return f"{self.what} {self.who} r{self.run}{fault}"


_LINE = re.compile(r"(?P<what>[a-z ]+?):? (?P<who>\S+) r(?P<run>\d)(?: !(?P<fault>[a-z ]+?))?(?: @(?P<effect>[\w ]+?))?"
                   r"(?: #(?P<nth>\d+))?(?: (?P<hours>[+-]\d+) h)?")  # fmt: skip


def events_of(text: str) -> list[Event]:
    """The events of a story: lines such as ``turn new-clinic,a r0 !kill @sql COMMIT #2``."""
    events = []
    for number, line in enumerate(filter(None, map(str.strip, text.splitlines()))):
        match = _LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"no event: {line}")
        fault = {"fault": match["fault"] or "", "effect": match["effect"] or "", "nth": int(match["nth"] or 1)}
        for who in match["who"].split(","):
            hours = None if match["hours"] is None else float(match["hours"])
            events.append(
                Event(match["what"], who, int(match["run"]), **fault, coins=f"{number} {who}", hours=hours)  # type: ignore[arg-type]
            )
    return events


@dataclass(frozen=True)
class RunShape:
    consumer: str = CONSUMERS[0]
    curator: str = CURATOR
    owners: tuple[str, ...] = ("a", "b")
    quorum: int = 1
    protocol: str = "sealed"


@dataclass(frozen=True)
class Shape:
    """What a market is made of."""

    runs: tuple[RunShape, ...] = (RunShape(),)
    mailboxes: int = 1
    rows: int = 1000  # that each owner may disclose in all
    epsilon: float = 99.0  # of each owner, for all runs
    automatic: tuple[str, ...] = ()  # owners whose rules decide
    delays: bool = False  # whether files come late
    days: bool = False  # whether days pass between events

    @property
    def consumers(self) -> tuple[str, ...]:
        return tuple(name for name in CONSUMERS if any(run.consumer == name for run in self.runs))

    @property
    def owners(self) -> tuple[str, ...]:
        return tuple(name for name in OWNERS if any(name in run.owners for run in self.runs))

    @property
    def names(self) -> tuple[str, ...]:
        curators = tuple(name for name in (CURATOR, OWN_CURATOR) if any(run.curator == name for run in self.runs))
        witness = (WITNESS,) if any(run.protocol == "split" for run in self.runs) else ()
        return (*self.consumers, *curators, *witness, *self.owners)

    @staticmethod
    def drawn(coins: random.Random) -> "Shape":
        owners = OWNERS[: coins.choice((2, 3, 3, 4))]
        consumers = CONSUMERS[: coins.choice((1, 1, 2))]
        kinds = coins.choice((("sealed",), ("sealed", "auction"), ("sealed", "split"), tuple(PROTOCOLS)))
        runs = []
        for _ in range(coins.choice((1, 1, 2, 2, 3, 4))):
            consumer, protocol = coins.choice(consumers), coins.choice(kinds)
            is_own = consumer == CONSUMERS[1] and protocol != "split" and coins.random() < 0.5
            some = tuple(sorted(coins.sample(owners, coins.randrange(2, len(owners) + 1))))
            curator = OWN_CURATOR if is_own else CURATOR
            runs.append(RunShape(consumer, curator, some, coins.choice((1, 2)), protocol))
        return Shape(
            runs=tuple(runs),
            mailboxes=coins.choice((1, 1, 2)),
            rows=coins.choice((60, 1000, 1000)),
            epsilon=coins.choice((ONE_AUCTION, 99.0, 99.0)),
            automatic=tuple(name for name in owners if coins.random() < 0.15),
            delays=coins.random() < 0.3,
            days=coins.random() < 0.3,
        )


# Mailboxes.


@dataclass(frozen=True)
class File:
    data: bytes = field(repr=False)
    written: datetime
    seen: int  # the step from which others see it
    writer: str


@dataclass
class Mailbox:
    address: str
    folders: dict[str, dict[str, File]] = field(default_factory=lambda: defaultdict(dict))


@dataclass
class Act:
    """What one process does now, and what befalls it."""

    who: str
    coins: random.Random
    fault: str = ""
    effect: str = ""  # the first words of the effects at which the fault befalls it
    nth: int = 1
    lasts: int = FOR_EVER
    seen: int = 0  # such effects so far
    struck: str = ""  # the first effect that failed
    dead: bool = False
