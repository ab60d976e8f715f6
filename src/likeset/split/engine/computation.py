"""One attempt at a computation, as one compute party makes it: agree, prepare or go on, pick, open."""

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import shares
from .agreement import Checkpoint, Offer, attempt_mark, checksum_factors, commitment, joint_seed, latest_common
from .framing import pack, unpack
from .machine import Machine
from .program import PAYLOAD_WORDS, Program, block_rows
from .settings import CONSUMER, SECRET_WORDS
from .task import Keeper, Task, Words

__all__ = ["compute"]

Array = NDArray[Any]

_BASE = ("rows", "norms", "classes", "attraction", "payload", "score", "valid")
_BLOCK = ("rows", "norms", "classes", "filled", "attraction", "checks")
_RECEIVED = b"received"


def compute(task: Task, keeper: Keeper) -> None:
    """Until what was picked is opened to the consumer.

    Args:
        task: what to compute, and with whom.
        keeper: the party's own process.
    """
    machine = Machine(task)
    nonce = os.urandom(32)
    said = Offer(task.program, task.settings.digest(), task.inputs, commitment(nonce), task.held)
    offers = [Offer.from_text(text) for text in machine.link.all_gather(said.to_text())]
    start = latest_common(offers)
    attempt = _Attempt(task, keeper, machine)
    if start is None:
        attempt.take_inputs()
    # Inputs are fixed from here on: only now may anybody learn the factors of the checksum.
    seed = joint_seed(offers, machine.link.all_gather(nonce.hex()))
    if start is None:
        start = attempt.prepare(seed)
    else:
        attempt.go_on(start)
    attempt.open(attempt.pick(start, attempt_mark(seed)))
    machine.link.stop_link()


class _Attempt:
    def __init__(self, task: Task, keeper: Keeper, machine: Machine) -> None:
        self._task, self._settings, self._keeper, self._machine = task, task.settings, keeper, machine
        self._program = Program(task.settings)
        self._picked = b""  # the content of this party's shares of all picks so far

    def take_inputs(self) -> None:
        own = self._keeper.inputs()
        next_offers, next_target = self._machine.following(own)
        self._offers, self._target = (own[0], next_offers), (own[1], next_target)

    def prepare(self, seed: bytes) -> Checkpoint:
        """Everything before the first pick."""
        settings, machine, plain = self._settings, self._machine, self._settings.target_words
        self._seed = seed
        machine.set_words("target_words", *self._target)
        machine.run(self._program.target, {"target_words": self._target[0]}, ("target", "target_norms", "chances"))
        factors = checksum_factors(seed, plain)
        machine.variables.set_var("public_factors", shares.public_value(machine.io, factors))
        blocks, step = [], block_rows(settings)
        for first in range(0, settings.offers, step):
            last = min(first + step, settings.offers)
            blocks.append(self._prepare_block(slice(first, last), factors))
            self._keeper.tell("preparing", last, settings.offers)
        for name, parts in zip(_BLOCK, zip(*blocks, strict=True), strict=True):
            machine.variables.set_var(name, shares.joined(parts))
        own, following = self._offers
        machine.set_words("secrets", own[:, plain + 1 :], None if following is None else following[:, plain + 1 :])
        numbers = np.zeros(settings.offers, dtype=np.int64)
        inputs: dict[str, Array] = {"filled": numbers, "attraction": numbers.astype(np.float32)}
        secrets = np.zeros((settings.offers, SECRET_WORDS), dtype=np.int64)
        outputs = ("score", "payload", "valid")
        machine.run(self._program.begin, {**inputs, "secrets": secrets, "checks": numbers}, outputs)
        machine.forget("target_words", "target", "target_norms", "chances", "filled", "checks", "secrets")
        del self._offers, self._target
        base = Checkpoint(0, attempt_mark(seed), attempt_mark(seed))
        kept = [shares.kept_share(name, machine.variables.get_var(name)) for name in _BASE]
        self._keeper.keep(base, pack("base", seed, *kept))
        return base

    def _prepare_block(self, block: slice, factors: Words) -> list[object]:
        settings, machine, wanted = self._settings, self._machine, self._settings.target_words + 1
        own, following = self._offers[0][block, :wanted], self._offers[1]
        following = None if following is None else following[block, :wanted]
        machine.set_words("words", own, following)
        rows, classes = (settings.target_rows, settings.columns), (settings.target_rows, settings.classes)
        inputs: dict[str, Array] = {
            "words": own,
            "target": np.zeros(rows, dtype=np.float32),
            "target_norms": np.zeros(rows[0], dtype=np.float32),
            "chances": np.zeros(classes, dtype=np.float32),
            "public_factors": factors,
        }
        outputs = [f"block_{name}" for name in _BLOCK]
        machine.run(self._program.block, inputs, outputs)
        results = [machine.variables.get_var(name) for name in outputs]
        machine.forget("words", *outputs)
        return results

    def go_on(self, start: Checkpoint) -> None:
        """From a state that all have."""
        base = unpack(self._keeper.state(Checkpoint(0, start.base, start.base)))
        self._seed = base.parts[0]
        kept = list(base.parts[1:])
        if start.round:
            score, self._picked = unpack(self._keeper.state(start)).parts
            kept.append(score)
        for data in kept:
            self._machine.variables.set_var(*shares.read_kept_share(data))

    def pick(self, start: Checkpoint, mark: str) -> Checkpoint:
        """All rounds that are left, each on disk before the next one begins."""
        settings, machine, latest = self._settings, self._machine, start
        numbers = np.zeros(settings.offers, dtype=np.float32)
        inputs: dict[str, Array] = {
            "rows": np.zeros((settings.offers, settings.columns), dtype=np.float32),
            "norms": numbers,
            "classes": np.zeros((settings.offers, settings.classes), dtype=np.float32),
            "attraction": numbers,
            "payload": np.zeros((settings.offers, PAYLOAD_WORDS), dtype=np.int64),
            "score": numbers,
        }
        for made in range(start.round + 1, settings.size + 1):
            machine.run(self._program.pick, inputs, ("score", "picked"))
            self._picked += shares.content_of(machine.variables.get_var("picked"), settings.parties)
            latest = Checkpoint(made, mark, start.base)
            score = shares.kept_share("score", machine.variables.get_var("score"))
            self._keeper.keep(latest, pack("round", score, self._picked))
            self._keeper.tell("picking", made, settings.size)
        return latest

    def open(self, last: Checkpoint) -> None:
        """To the consumer only, and for the others at an end when the consumer has it."""
        machine, shape = self._machine, (self._settings.size, PAYLOAD_WORDS)
        self._keeper.may_open(last)
        payloads = shares.secret_content(self._picked, shape, self._settings.parties)
        machine.variables.set_var("payloads", payloads)
        inputs = {"payloads": np.zeros(shape, dtype=np.int64), "valid": np.array(0, dtype=np.int64)}
        machine.run(self._program.finish, inputs, ("opened",))
        opened = machine.open_to(CONSUMER, "opened")
        if opened is None:
            machine.link.recv(CONSUMER)
            return
        self._keeper.give(self._seed, opened)
        for rank in range(self._settings.parties):
            if rank != CONSUMER:
                machine.link.send(rank, _RECEIVED)
