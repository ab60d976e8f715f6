"""Small worlds for the tests of the protocols: terms, parties, ledgers, and ways to carry messages between them."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chance import pinned_coins
from likeset.errors import LikesetError, UnfinishedRequest
from likeset.geometry.selection import Selection
from likeset.ledger.budget import Charge, Limit, Request
from likeset.ledger.ledger import Ledger
from likeset.privacy.auction import auction_patience
from likeset.privacy.events import Relation, Release, View
from likeset.privacy.mwem_mean import CHANGING_SCHEDULES
from likeset.privacy.noise import Integers, SimulatedNoise
from likeset.protocol.sealed import Consumer, Owner
from likeset.protocol.split import OWNERS, make_curator
from likeset.protocol.terms import SUMMARY_RELEASE, Budget, Kernel, Terms, digest_of_rows
from likeset.protocol.wire import Message, Summary, decode, encode
from likeset.tables.records import DeclaredRecords
from likeset.tables.scan import MemoryScan
from likeset.transports.local import ChargedParty
from likeset.trust.cards import CardSecret

CONSUMER = "hospital"
PAPER_PARTS = ("paper-auction", SUMMARY_RELEASE)
UNPROVEN_KINDS = ("simulated", "unbounded", "paper-auction", "threshold-auction")
KERNEL = Kernel(columns=3, dimension=16, gamma=0.2, seed=7)
PAPER_KERNEL = Kernel(columns=3, dimension=16, gamma=0.2, seed=7, kind="paper")
BASE: dict[str, Any] = {
    "run": "run-1",
    "consumer": CONSUMER,
    "purpose": "test",
    "expires": "2099-01-01",
    "owners": ("a", "b", "c"),
    "quorum": 1,
    "schema_digest": "",
    "columns": (),
    "record_bytes": 0,
    "kernel": KERNEL,
    "protocol": "sealed",
    "size": 4,
    "target_size": 30,
    "offer_factor": 3.0,
    "offers": "tilted",
    "labels": "match",
    "thinning": True,
    "target_budget": Budget(4.0, 1e-5),
    "owner_budget": Budget(0.0, 1e-5),
    "relation": Relation.REPLACE_ONE,
    "rows_per_unit": 1,
    "id_column": "",
    "auction": "everyone",
    "auction_epsilon": 0.0,
    "auction_offset": 0,
    "summary_release": "none",
    "seed_rows": 0,
    "schedule": "",
    "price_per_row": 1.0,
    "currency": "",
    "accept_unproven": (),
    "extensions": {"of-a-later-likeset": "Zu\u0308rich, Z\u00fcrich\n\u202e"},  # nobody may rely on there being none
}
THRESHOLD: dict[str, Any] = {"auction": "threshold", "auction_epsilon": 8.0, "auction_offset": 2}
PAPER: dict[str, Any] = {
    "protocol": "interactive",
    "kernel": PAPER_KERNEL,
    "auction": "paper",
    "auction_epsilon": 0.3,
    "summary_release": "mwem",
    "schedule": "experiment",
    "seed_rows": 2,
    "accept_unproven": PAPER_PARTS,
}


def terms(**changes: Any) -> Terms:
    given = {**BASE, **changes}
    given.setdefault("auction_patience", auction_patience(len(given["owners"])) if given["auction"] == "paper" else 0)
    given.setdefault("promised_epsilon", 4.0 if given["schedule"] in CHANGING_SCHEDULES else 0.0)
    if given["seed_rows"]:
        given.setdefault("seed_digest", digest_of_rows(rows(99, given["seed_rows"])))
    return Terms(**{"seed_digest": "", **given})


def rows(seed: int, count: int = 12, *, columns: int = 3, shift: float = 0.0) -> NDArray[np.float32]:
    return pinned_coins(seed).normal(shift, 1.0, size=(count, columns)).astype(np.float32)


class CountingNoise:
    def __init__(self, seed: int = 0) -> None:
        self._noise = SimulatedNoise(seed)
        self.calls = 0

    @property
    def private(self) -> bool:
        return False

    def discrete_laplace(self, scale: float, size: int) -> Integers:
        self.calls += 1
        return self._noise.discrete_laplace(scale, size)

    def discrete_gaussian(self, sigma: float, size: int) -> Integers:
        self.calls += 1
        return self._noise.discrete_gaussian(sigma, size)

    def exponential_choice(self, scores: Integers, rate: float) -> int:
        self.calls += 1
        return self._noise.exponential_choice(scores, rate)

    def bernoulli(self, probabilities: NDArray[np.float64]) -> NDArray[np.bool_]:
        self.calls += 1
        return self._noise.bernoulli(probabilities)

    def rounding(self, fractions: NDArray[np.float64]) -> NDArray[np.bool_]:
        self.calls += 1
        return self._noise.rounding(fractions)


class QuickLedger(Ledger):
    """Answers once and remembers, without files and limits: for tests that are not about the ledger."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[bytes, bytes | None]] = {}

    def draw(
        self,
        charge: Charge,
        run: Callable[[], tuple[bytes, Release[Any] | None]],
        *,
        request: Request,
        repeatable: bool = False,
        check: Callable[[], None] = lambda: None,
    ) -> bytes:
        del charge, check
        if request.key not in self.answers:
            self.answers[request.key] = (request.content, None)
            self.answers[request.key] = (request.content, run()[0])
        content, data = self.answers[request.key]
        assert content == request.content
        if data is None and repeatable:
            data = run()[0]
            self.answers[request.key] = (content, data)
        if data is None:
            raise UnfinishedRequest(str(request))
        return data

    def charge_of(self, request: Request) -> Charge | None:
        """No request counts as new, so nothing is charged together."""
        del request
        return Charge(())


@contextmanager
def ledger_on_disk(terms: Terms, *, rows: int = 1000) -> Iterator[Ledger]:
    """A ledger with an account for everything that a run may charge."""
    with TemporaryDirectory() as folder, Ledger(Path(folder) / "ledger.sqlite") as ledger:
        open_accounts(ledger, terms, rows=rows)
        yield ledger


def open_accounts(ledger: Ledger, terms: Terms, *, rows: int = 1000) -> None:
    """Limits for all views of a run."""
    large = Limit(1000.0, 0.1, terms.relation, accept_unproven=UNPROVEN_KINDS)
    ledger.set_limit(View.owners(terms.consumer), large)
    for owner in terms.owners:
        ledger.set_limit(View.owners(owner), large)
        ledger.set_limit(View.curator(owner), Limit.rows_only(rows))


@dataclass
class World:
    """The parties of one run over given data; each can be killed and started again on the same ledger."""

    terms: Terms
    data: dict[str, NDArray[np.float32]]
    target: NDArray[np.float32]
    ledger: Ledger
    noise: CountingNoise = field(default_factory=CountingNoise)
    labels: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    fold_key: int | None = 11
    selection: Selection = field(default_factory=Selection)
    declared: DeclaredRecords | None = None
    tables: Mapping[str, pa.Table] = field(default_factory=dict)

    def consumer(self) -> ChargedParty[Any]:
        party = Consumer(
            self.terms, target=self.target, noise=self.noise, selection=self.selection, declared=self.declared
        )
        return ChargedParty(party, self.ledger)

    def curator(self) -> ChargedParty[Any]:
        seeds = rows(99, self.terms.seed_rows) if self.terms.seed_rows else None
        party = make_curator(
            self.terms, noise=self.noise, fold_key=self.fold_key, declared=self.declared, seed_rows=seeds
        )
        return ChargedParty(party, self.ledger)

    def owner(self, name: str) -> ChargedParty[Owner]:
        party = OWNERS[self.terms.kind](
            self.terms,
            name,
            scan=MemoryScan(self.data[name], self.labels.get(name), self.tables.get(name)),
            key=1000 + self.terms.owners.index(name),
            declared=self.declared,
            secret=self.secret_of(name),
        )
        return ChargedParty(party, self.ledger)

    def secret_of(self, name: str) -> CardSecret | None:
        """The party's card; parties of a run in one process have none."""
        del name
        return None

    def first_words(self, curator: ChargedParty[Any]) -> tuple[Message, ...]:
        """What owners hear first: the consumer's release, and then what the curator says to the target."""
        target, *releases = self.consumer().start()
        return (*releases, *curator.take(target))

    def owners(self) -> dict[str, ChargedParty[Owner]]:
        return {name: self.owner(name) for name in self.terms.owners if name in self.data}


def world(terms: Terms, ledger: Ledger | None = None, *, count: int = 12, noise_seed: int = 0, **more: Any) -> World:
    """Owners who differ a little, and a target that looks like a mixture of them."""
    columns = terms.kernel.columns
    data = {
        name: rows(10 + place, count, columns=columns, shift=0.5 * place) for place, name in enumerate(terms.owners)
    }
    target = rows(5, terms.target_size, columns=columns, shift=0.3)
    return World(terms, data, target, ledger or QuickLedger(), CountingNoise(noise_seed), **more)


Tamper = Callable[[Message], Iterable[Message]]


@dataclass
class Outcome:
    """What a run came to.

    Attributes:
        summary: what the consumer got.
        heard: every byte that each party was sent, in order.
        refused: who refused what, and in which words.
        curator: as it was at the end.
    """

    summary: Summary
    heard: dict[str, list[bytes]]
    refused: list[tuple[str, str]]
    curator: ChargedParty[Any]


def carry(
    world: World,
    *,
    tamper: Tamper = lambda message: [message],
    replies_of: Mapping[str, Callable[[Message, tuple[Message, ...]], Iterable[Message]]] | None = None,
    parties: Mapping[str, ChargedParty[Any]] | None = None,
) -> Outcome:
    """Deliver messages in order until the summary is there; owners who say nothing are given up.

    Args:
        world: the parties.
        tamper: what the network makes of a message.
        replies_of: for owners who lie: what they say in place of their honest replies.
        parties: in place of new ones.
    """
    everybody: dict[str, ChargedParty[Any]] = dict(parties or {})
    if not everybody:
        everybody = {"curator": world.curator(), CONSUMER: world.consumer(), **world.owners()}
    curator, consumer = everybody["curator"], everybody[CONSUMER]
    heard: dict[str, list[bytes]] = {name: [] for name in (*world.terms.owners, "curator", CONSUMER)}
    refused: list[tuple[str, str]] = []
    queue = deque(delivered for message in consumer.start() for delivered in tamper(message))
    while consumer.party.summary is None:
        if not queue:
            waiting = sorted(curator.party.waiting_for)
            assert waiting, "nobody has anything to say and there is no summary"
            for name in waiting:
                queue.extend(new for message in curator.give_up(name) for new in tamper(message))
            continue
        message = queue.popleft()
        data = encode(message)
        if message.receiver in heard:
            heard[message.receiver].append(data)
        if message.receiver not in everybody:
            continue
        try:
            replies = everybody[message.receiver].take(decode(data))
        except LikesetError as error:
            if type(error).__name__ == "QuorumMissed":
                raise
            refused.append((message.receiver, str(error)))
            continue
        liar = (replies_of or {}).get(message.receiver)
        queue.extend(new for reply in (liar(message, replies) if liar else replies) for new in tamper(reply))
    return Outcome(consumer.party.summary, heard, refused, curator)


def same_summary(first: Summary, second: Summary) -> bool:
    envelope = {"run": "r", "terms": "t", "sender": "s", "receiver": "r", "round": 0}
    return encode(Message(**envelope, body=first)) == encode(Message(**envelope, body=second))  # type: ignore[arg-type]
