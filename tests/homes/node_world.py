"""Small nodes for tests: rows in files, a policy, terms, a curator in this process, and the way between them."""

import base64
import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from card_world import cards_of, give_card, introduce, run_id_of, signed_terms
from prepared_homes import prepared

from chance import pinned_coins
from likeset.errors import LikesetError, ProtocolError
from likeset.geometry.selection import Selection
from likeset.homes.home import ABSTAINS, READY, WAITING, Abstains, Standing
from likeset.homes.mail import ConsumerShell, CuratorShell, Invitation, most_bytes_to_owner
from likeset.homes.owner_node import OwnerNode, make_home
from likeset.ledger.budget import Limit
from likeset.ledger.ledger import Journal, Ledger, StoredMessage
from likeset.privacy.events import Relation
from likeset.privacy.guarantee import View
from likeset.privacy.noise import SimulatedNoise
from likeset.protocol.party import CURATOR, RELEASE_ROUND
from likeset.protocol.sealed import Consumer
from likeset.protocol.split_run import make_curator
from likeset.protocol.terms import Budget, Kernel, Terms
from likeset.protocol.wire import Asked, Message, Summary, SummaryRelease, TargetRelease, decode, encode
from likeset.tables.records import DeclaredRecords
from likeset.tables.schema import Schema
from likeset.transports.local import LocalEngine

NOON = datetime(2029, 3, 5, 12, tzinfo=UTC)
CANARY = "Xq7-canary"
SCHEMA = """\
likeset: schema
version: 1
columns:
  age: {kind: numeric, bounds: [0, 120]}
  dose: {kind: numeric, bounds: [0, 1000]}
  sex: {kind: category, values: [f, m, CANARY]}
label: {column: ill, values: ["no", "yes"]}
""".replace("CANARY", CANARY)
SCHEMA_OF_ALL = Schema.from_text(SCHEMA)
POLICY: dict[str, Any] = {
    "consumers": ["new-clinic"],
    "purposes": ["research*"],
    "columns": ["age", "dose", "sex", "ill"],
    "smallest_group": 1,
    "per_run": {"epsilon": 0, "delta": 1e-5, "rows": 36},
    "total": {"epsilon": 0, "delta": 1e-5, "rows": 36},
    "runs_per_month": 9,
}
_TERMS: dict[str, Any] = {
    "run": "run-1",
    "consumer": "new-clinic",
    "purpose": "Research on sepsis",
    "expires": "2030-01-01",
    "owners": ("a", "b"),
    "quorum": 1,
    "schema_digest": SCHEMA_OF_ALL.digest,
    "columns": SCHEMA_OF_ALL.record_columns,
    "record_bytes": DeclaredRecords(SCHEMA_OF_ALL).record_bytes,
    "kernel": Kernel(columns=SCHEMA_OF_ALL.width, dimension=16, gamma=0.4, seed=7),
    "protocol": "sealed",
    "size": 6,
    "target_size": 30,
    "offer_factor": 4.0,
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
    "auction_patience": 0,
    "summary_release": "none",
    "seed_rows": 0,
    "seed_digest": "",
    "schedule": "",
    "promised_epsilon": 0.0,
    "price_per_row": 1.0,
    "accept_unproven": (),
    "version": "0.1",
}


def terms(**changes: Any) -> Terms:
    """Terms of a small run: two owners, twelve rows of each, every party with its card of ``card_world``."""
    words = {**_TERMS, **changes}
    parties = {"run_id": run_id_of(words["run"]), "cards": cards_of(words["consumer"], CURATOR, *words["owners"])}
    return Terms(**{**parties, **words})


def fingerprint(name: str) -> str:
    """Of the card that a party of this name might have."""
    letters = base64.b32encode(hashlib.sha256(name.encode()).digest()[:25]).decode()
    return "-".join(letters[start : start + 5] for start in range(0, 40, 5))


def rows_text(seed: int, count: int = 60, *, rare: int = 0) -> str:
    """A CSV file; ``rare`` rows have a category value of their own."""
    coins = pinned_coins(seed)
    lines = ["age,dose,sex,ill"]
    for place in range(count):
        sex = CANARY if place < rare else coins.choice(["f", "m"])
        ill = coins.choice(["no", "yes"])
        # Doses are told apart from everything else by their digits: a canary in each row. Ages tell apart the rows of
        # two owners, who would otherwise have the same one by chance.
        age = 5 * coins.integers(4, 18) + seed % 5
        lines.append(f"{age},{300 + place}.4242,{sex},{ill}")
    return "\n".join(lines) + "\n"


def write_policy(folder: Path, name: str, **changes: Any) -> None:
    """An ``owner.yaml``."""
    from likeset import documents

    documents.write(folder / "owner.yaml", {"likeset": "owner", "version": 1, "name": name, **POLICY, **changes})


@dataclass
class Clock:
    """Stands still until it is told otherwise."""

    now: datetime = NOON

    def __call__(self) -> datetime:
        return self.now


def make_node(place: Path, name: str = "a", *, seed: int = 1, rare: int = 0, **policy: Any) -> Path:
    """The directory of a node with one data set, which knows nobody yet."""
    key = repr((name, seed, rare, sorted(policy.items())))
    prepared(place, key, lambda template: _make_node(template, name, seed=seed, rare=rare, **policy))
    return place / f"node-{name}"


def _make_node(place: Path, name: str, *, seed: int, rare: int, **policy: Any) -> None:
    folder = place / f"node-{name}"
    make_home(folder, name=name)
    give_card(folder, name)
    write_policy(folder, name, **policy)
    (place / f"{name}.csv").write_text(rows_text(seed, rare=rare))
    (place / "schema.yaml").write_text(SCHEMA)
    with OwnerNode(folder) as node:
        node.registry.add("patients", str(place / f"{name}.csv"), schema=place / "schema.yaml")


def invite(node: OwnerNode, run: Terms, *, by_steward: bool = False) -> Standing:
    """The owner is asked by a consumer whose card it has pinned, as it has the curator's."""
    introduce(node.home.folder, run)
    if not by_steward:
        return node.take_invitation(signed_terms(run))
    node.add_invitation(Invitation.read(signed_terms(run)))
    return node.standing(run.run, run.digest)


def approve(node: OwnerNode, run: Terms, *, by: str = "Ada") -> None:
    """Invited and approved."""
    assert invite(node, run) in (WAITING, READY)
    found = node.approve(run.run, run.digest, by=by)
    assert found.accepted, found.reasons


def call(run: Terms, owner: str = "a", *, release: Any = None, round_number: int | None = None) -> Message:
    """The message with which a run begins at an owner."""
    given = np.linspace(-0.1, 0.1, run.kernel.dimension) if release is None else np.asarray(release, dtype=float)
    body = TargetRelease(release=given if run.offers == "tilted" else np.empty(0))
    number = RELEASE_ROUND[run.protocol] if round_number is None else round_number
    return Message(run.run, run.digest, run.consumer, owner, number, body)


def script(run: Terms, owner: str = "a", *, rounds: int | None = None) -> list[Message]:
    """All that an owner hears who is always asked."""

    def said(number: int, body: Asked | SummaryRelease) -> Message:
        return Message(run.run, run.digest, CURATOR, owner, number, body)

    found = [call(run, owner)]
    if run.protocol == "sealed":
        return found if run.auction == "everyone" else [*found, said(2, Asked(asked=True))]
    for number in range(1, (rounds or run.size) + 1):
        found.append(said(number, SummaryRelease(coordinates=np.empty(0, dtype=np.int64), values=np.empty(0))))
        found.append(said(number, Asked(asked=True)))
    return found


@dataclass(frozen=True)
class Door:
    """An owner's node as somebody reaches it who opens its letters: messages in, messages out.

    Attributes:
        node: the node.
        job: the terms that came with a job, by digest.
        seated: digests of those under which the owner was ready: it is asked whether it still is with each message.
    """

    node: OwnerNode
    job: Mapping[str, Terms]
    seated: set[str] = field(default_factory=set)

    def standing(self, digest: str) -> Standing:
        """Whether the owner takes part."""
        standing = invite(self.node, self.job[digest])
        if standing == READY:
            self.seated.add(digest)
        return standing

    def hear(self, data: bytes) -> list[bytes] | Abstains:
        """What the owner answers to the bytes of a message; what is refused before it is asked, its log says, too."""
        try:
            most = max(most_bytes_to_owner(run) for run in self.job.values())
            message = decode(data, most_bytes=most)
            if message.terms not in self.job:
                raise ProtocolError("it is under terms that did not come with this job")
        except LikesetError as error:
            self.node.refused(f"{type(error).__name__}: {error}")
            return ABSTAINS
        if message.terms not in self.seated and (standing := self.standing(message.terms)) != READY:
            if standing == WAITING:
                self.node.refused("nobody at this site has decided yet")
            return ABSTAINS
        try:
            return [reply.data for reply in self.node.take(message)]
        except Exception:
            return ABSTAINS  # the other side hears one word, whatever it is


def door(node: OwnerNode, *job: Terms) -> Door:
    """The way to a node in a job with these terms."""
    return Door(node, {run.digest: run for run in job})


def hear(node: OwnerNode, data: bytes, *, job: Collection[Terms] = ()) -> list[bytes] | Abstains:
    """What a node answers to the bytes of a message.

    Args:
        node: the node.
        data: what the consumer or the curator says.
        job: the terms that came with the job; all that the node knows if empty, and those of ``terms()``.
    """
    known = [record.readable(digest) for record in node.runs.by_name.values() for digest in record.versions]
    return door(node, *(job or (run for run in (*known, terms()) if run is not None))).hear(data)


@dataclass
class NodeResident:
    """A node as an engine in this process sees it: bytes only, and whatever it says is kept."""

    node: OwnerNode
    said: list[object]
    failed: bool = False

    @property
    def name(self) -> str:
        return self.node.name

    def take(self, message: Message) -> tuple[Message, ...]:
        answer = hear(self.node, encode(message))
        self.said.append(answer)
        if answer == ABSTAINS:
            raise ProtocolError(ABSTAINS)
        assert isinstance(answer, list)
        return tuple(decode(data) for data in answer)


def held(
    run: Terms, nodes: Mapping[str, OwnerNode], place: Path, *, now: Callable[[], datetime] = lambda: NOON
) -> tuple[Summary | None, list[object]]:
    """A whole run; its curator and consumer have a ledger of their own in ``place``."""
    place.mkdir(parents=True, exist_ok=True)
    noise = SimulatedNoise(3)
    with Ledger(place / f"{run.run}.sqlite") as ledger:
        unproven = ("simulated", "unbounded", "threshold-auction")
        for name in run.owners:
            ledger.set_limit(View.owners(name), Limit(100.0, 1e-5, Relation.REPLACE_ONE, 0, unproven))
        ledger.set_limit(View.owners(run.consumer), Limit(100.0, 1e-5, Relation.REPLACE_ONE, 0, unproven))
        target = pinned_coins(9).random((run.target_size, run.kernel.columns), dtype=np.float32)
        consumer = Consumer(run, target=target, noise=noise, selection=Selection(gamma=1.0))
        curator = make_curator(run, noise=noise, fold_key=11, declared=DeclaredRecords(SCHEMA_OF_ALL))
        said: list[object] = []
        owners = {name: NodeResident(node, said) for name, node in nodes.items()}
        LocalEngine(workers=1, clock=now).run(CuratorShell(curator, ledger), owners, ConsumerShell(consumer, ledger))
        return consumer.summary, said


def charged(node: OwnerNode) -> list[tuple[str, str]]:
    """The entries about budgets: which kind, and what for."""
    return [
        (entry.kind, entry.key)
        for entry in node.ledger.entries()
        if entry.kind in ("open", "limit", "reserve", "commit", "purge")
    ]


@contextmanager
def killed_before_on_record(kind: str) -> Iterator[None]:
    """The process ends when an answer to this kind of request is stored, and before any entry says so."""
    stored = Journal.keep

    def keep(self: Journal, messages: Iterable[StoredMessage]) -> None:
        listed = list(messages)
        stored(self, listed)
        if any(message.kind.startswith(kind) for message in listed):
            raise KeyboardInterrupt

    with patch.object(Journal, "keep", keep), pytest.raises(KeyboardInterrupt):
        yield


def logged(node: OwnerNode, kind: str) -> list[dict[str, Any]]:
    """Entries of a kind in the audit log."""
    return [entry.document() for entry in node.ledger.entries() if entry.kind == kind]
