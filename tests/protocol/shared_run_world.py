"""A split run over a few rows, with the public program in the clear in place of the workers."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from protocol_world import CONSUMER, World, terms, world

from clear_program import clear_selection, near_rows
from likeset.errors import IllegalMessage, LikesetError
from likeset.ledger.ledger import Ledger
from likeset.protocol.sealed import Owner
from likeset.protocol.split import ComputeInputs, ComputeParty, OpenedSlots, SplitConsumer
from likeset.protocol.terms import Kernel, SplitTerms, Terms
from likeset.protocol.wire import Message, Summary, decode, encode
from likeset.tables.records import DeclaredRecords
from likeset.tables.schema import Schema
from likeset.transports.local import ChargedParty
from likeset.trust.cards import Card, CardSecret
from likeset.trust.shares import ComputeRole

PROGRAM = "5c" * 32
GAMMA = 0.5
KERNEL = Kernel(columns=3, dimension=16, gamma=0.2, seed=7, largest=30.0)
ONE = 1 << 16

# The weight undoes what a norm makes of a vector: its numbers are those of the row.
SCHEMA = """
likeset: schema
version: 1
columns:
  place: {kind: vector, width: 3, norm: 16, weight: 22.62741699796952}
label: {column: kind, kind: text}
"""
DECLARED = DeclaredRecords(Schema.from_text(SCHEMA))

Tamper = Callable[[Message], Iterable[Message]]


@cache
def secret_of(name: str) -> CardSecret:
    return CardSecret.generate(name)


def split_run(**changes: Any) -> Terms:
    names = ["curator", CONSUMER, "witness", *changes.get("owners", ("a", "b", "c"))]
    size = changes.get("size", 4)
    split = SplitTerms(PROGRAM, size, gamma=GAMMA)
    cards = {name: secret_of(name).card.fingerprint for name in names}
    schema = DECLARED.schema
    named = {"run_id": "0b" * 16, "cards": cards, "kernel": KERNEL, "split": split, "schema_digest": schema.digest}
    named |= {"columns": schema.record_columns, "record_bytes": DECLARED.record_bytes}
    return terms(**{**named, **changes})


def clear_picks(inputs: Mapping[ComputeRole, ComputeInputs]) -> OpenedSlots:
    """What the public program opens on these shares, computed in the clear: joined, looked at, selected."""
    public = inputs["curator"]
    assert {(each.digest, each.program, each.size, each.gamma) for each in inputs.values()} == {
        (public.digest, public.program, public.size, public.gamma)
    }
    with np.errstate(over="ignore"):
        words = sum(each.offer_words for each in inputs.values())
        target = sum(each.target_words for each in inputs.values())
    assert isinstance(words, np.ndarray)
    columns = len(public.lows)
    near = near_rows(words[:, :columns], public.lows, public.highs)
    rows = np.where(near[:, None], words[:, :columns], 0)
    factors = np.random.default_rng(11).integers(-(2**63), 2**63 - 1, columns)
    with np.errstate(over="ignore"):
        checks = rows @ factors
    valid = near & (words[:, columns] == 1)
    numbers = _selected(rows / ONE, np.clip(target, public.lows, public.highs) / ONE, valid, public)
    picked = np.array(numbers, dtype=np.int64)
    there = picked >= 0
    secrets, sums = np.zeros((public.size, 4), dtype=np.int64), np.zeros(public.size, dtype=np.int64)
    secrets[there], sums[there] = words[picked[there], columns + 1 :], checks[picked[there]]
    return OpenedSlots(picked, secrets, sums, factors)


def _selected(
    pool: NDArray[np.float64], target: NDArray[np.float64], valid: NDArray[np.bool_], public: ComputeInputs
) -> list[int]:
    def kernel(others: NDArray[np.float64]) -> NDArray[np.float64]:
        distances = ((pool[:, None, :] - others[None, :, :]) ** 2).sum(axis=2)
        return np.asarray(np.exp(np.maximum(-public.gamma * distances, -14.0)))

    return clear_selection(kernel(pool), kernel(target).mean(axis=1), valid, public.size)


def table_of(rows: NDArray[np.float32]) -> pa.Table:
    return pa.table({"place": pa.array(list(rows), pa.list_(pa.float32(), 3))})


class SharedRun(World):
    """The parties of one split run; each can be made anew on the same ledger."""

    def secret_of(self, name: str) -> CardSecret:
        return secret_of(name)

    @property
    def cards(self) -> dict[str, Card]:
        return {name: secret_of(name).card for name in self.terms.cards}

    def owner(self, name: str) -> ChargedParty[Owner]:
        count = len(self.data[name])
        self.tables = {**self.tables, name: table_of(self.data[name])}
        self.labels = {**self.labels, name: self.labels.get(name, np.array(["kind"] * count))[:count]}
        return super().owner(name)

    def consumer(self) -> ChargedParty[Any]:
        party = SplitConsumer(
            self.terms,
            target=self.target,
            noise=self.noise,
            secret=secret_of(CONSUMER),
            cards=self.cards,
            declared=self.declared,
            reach=b"consumer's worker",
        )
        return ChargedParty(party, self.ledger)

    def compute(self, role: ComputeRole) -> ChargedParty[Any]:
        secret = secret_of(role)
        party = ComputeParty(self.terms, role, secret=secret, cards=self.cards, reach=f"{role}'s worker".encode())
        return ChargedParty(party, self.ledger)

    def parties(self) -> dict[str, Any]:
        computing: dict[str, Any] = {CONSUMER: self.consumer(), "curator": self.compute("curator")}
        if "witness" in self.terms.cards:
            computing["witness"] = self.compute("witness")
        return {**computing, **{name: self.owner(name) for name in self.terms.owners if name in self.data}}


def shared_run(agreed: Terms, ledger: Ledger | None = None, **more: Any) -> SharedRun:
    return SharedRun(**vars(world(agreed, ledger, declared=DECLARED, **more)))


@dataclass
class Told:
    """What came of a run: all parties as they are, every byte each heard, who refused what."""

    parties: dict[str, Any]
    heard: dict[str, list[bytes]]
    refused: list[tuple[str, str]]

    @property
    def consumer(self) -> ChargedParty[Any]:
        shell: ChargedParty[Any] = self.parties[CONSUMER]
        return shell

    @property
    def summary(self) -> Summary:
        summary: Summary | None = self.consumer.party.summary
        assert summary is not None
        return summary

    def faults(self, name: str) -> dict[str, str]:
        """What a compute party logged, by party."""
        return {fault.owner: fault.reason for fault in self.parties[name].party.faults}


def carry_shares(
    run: SharedRun,
    *,
    tamper: Tamper = lambda message: [message],
    parties: dict[str, Any] | None = None,
    picks: Callable[[Mapping[ComputeRole, ComputeInputs]], OpenedSlots] = clear_picks,
) -> Told:
    """Deliver messages in order until there is a summary, or nobody has more to say and nothing can be computed."""
    everybody = parties or run.parties()
    told = Told(everybody, {name: [] for name in everybody}, [])
    computing = [everybody[name] for name in (CONSUMER, "curator", "witness") if name in everybody]
    queue = deque(new for message in told.consumer.start() for new in tamper(message))
    while True:
        while queue:
            _deliver(told, queue, tamper)
        if told.consumer.party.finished or any(shell.party.failed for shell in computing):
            return told
        waiting = [(shell, owner) for shell in computing for owner in sorted(shell.party.waiting_for)]
        if all(shell.party.is_ready for shell in computing):
            opened = picks({shell.party.role: shell.party.inputs() for shell in computing})
            said = told.consumer.opened(opened)
        elif waiting:
            said = waiting[0][0].give_up(waiting[0][1])
        else:
            return told
        queue.extend(new for message in said for new in tamper(message))


def _deliver(told: Told, queue: deque[Message], tamper: Tamper) -> None:
    message = queue.popleft()
    data = encode(message)
    if message.receiver not in told.parties:
        return
    told.heard[message.receiver].append(data)
    try:
        replies = told.parties[message.receiver].take(decode(data))
    except LikesetError as error:
        told.refused.append((message.receiver, str(error)))
        return
    queue.extend(new for reply in replies for new in tamper(reply))


def not_ready(told: Told) -> bool:
    """Whether nothing can be computed: no party gives inputs, and nothing was opened."""
    try:
        for name in (CONSUMER, "curator", "witness"):
            told.parties[name].party.inputs()
    except IllegalMessage:
        return told.consumer.party.summary is None
    return False
