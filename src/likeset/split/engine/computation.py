"""One attempt at a computation, as one compute party makes it: agree, prepare or go on, select, open."""

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import shares
from .agreement import Checkpoint, Offer, attempt_mark, checksum_factors, commitment, joint_seed, latest_common
from .framing import pack, unpack
from .machine import Machine
from .program import PAYLOAD_WORDS, Program, block_rows, row_words
from .ranges import range_tests
from .schedule import ROUND_STEPS, adding_steps, grid, seat, slot_count, slot_order, strip, swapping_steps
from .settings import CONSUMER, SECRET_WORDS
from .task import Keeper, Task, Words

__all__ = ["compute"]

Array = NDArray[Any]

_BASE = ("rows", "attraction", "payload", "free")
_BLOCK = ("rows", "free", "attraction", "checks")
_ADDING = ("score", "free", "spots")
_SWAPPING = (*_ADDING, "out")


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
    # Inputs are fixed from here on: only now may anybody learn what they are checked with.
    seed = joint_seed(offers, machine.link.all_gather(nonce.hex()))
    if start is None:
        start = attempt.prepare(seed)
    else:
        attempt.go_on(start)
    attempt.open(attempt.select(start, attempt_mark(seed)))


class _Attempt:
    def __init__(self, task: Task, keeper: Keeper, machine: Machine) -> None:
        self._task, self._settings, self._keeper, self._machine = task, task.settings, keeper, machine
        self._program = Program(task.settings)
        offers, size = task.settings.offers, task.settings.size
        self._adding, self._swapping = adding_steps(size), swapping_steps(size)
        self._slots = slot_count(offers, size)
        self._numbers = np.zeros(self._slots, dtype=np.int64)
        self._numbers[:offers] = slot_order(offers) + 1

    def take_inputs(self) -> None:
        own = self._keeper.inputs()
        next_offers, next_target = self._machine.following(own)
        following = None if next_offers is None else self._ordered(next_offers)
        self._offers, self._target = (self._ordered(own[0]), following), (own[1], next_target)

    def _ordered(self, words: Words) -> Words:
        """Shares of offers in the order of slots; those of empty slots are zeros."""
        ordered = np.zeros((self._slots, words.shape[1]), dtype=np.int64)
        ordered[: len(words)] = words[self._numbers[: len(words)] - 1]
        return ordered

    def prepare(self, seed: bytes) -> Checkpoint:
        """Everything before the first pick."""
        settings, machine, plain = self._settings, self._machine, self._settings.target_words
        self._seed = seed
        machine.set_words("target_words", *self._target)
        machine.run(self._program.target, {"target_words": self._target[0]}, ("target", "target_norms", "chances"))
        drawn = {"public_factors": checksum_factors(seed, plain), "public_tests": range_tests(seed, settings)}
        for name, value in drawn.items():
            self._set_public(name, value)
        parts, step = [], block_rows(settings)
        for first in range(0, self._slots, step):
            last = min(first + step, self._slots)
            parts.append(self._prepare_block(slice(first, last), drawn))
            self._keeper.tell("preparing", min(last, settings.offers), settings.offers)
        for name, blocks_of_it in zip(_BLOCK, zip(*parts, strict=True), strict=True):
            machine.variables.set_var(name, shares.joined(blocks_of_it))
        self._set_offers("secrets", slice(None), slice(plain + 1, None))
        self._set_public("public_numbers", self._numbers)
        secrets = np.zeros((self._slots, SECRET_WORDS), dtype=np.int64)
        inputs = {"secrets": secrets, "checks": secrets[:, 0], "public_numbers": self._numbers}
        machine.run(self._program.begin, inputs, ("payload",))
        machine.forget("target_words", "target", "target_norms", "chances", "checks", "secrets")
        del self._offers, self._target
        self._begin()
        base = Checkpoint(0, attempt_mark(seed), attempt_mark(seed))
        kept = [shares.kept_share(name, machine.variables.get_var(name)) for name in _BASE]
        self._keeper.keep(base, pack("base", seed, *kept))
        return base

    def _set_offers(self, name: str, block: slice, words: slice | int) -> Words:
        own, following = self._offers
        self._machine.set_words(name, own[block, words], None if following is None else following[block, words])
        return own[block, words]

    def _prepare_block(self, block: slice, drawn: dict[str, Words]) -> list[object]:
        settings, machine, plain = self._settings, self._machine, self._settings.target_words
        rows, classes = (settings.target_rows, settings.columns), (settings.target_rows, settings.classes)
        inputs: dict[str, Array] = {
            "words": self._set_offers("words", block, slice(plain)),
            "bits": self._set_offers("bits", block, plain),
            "target": np.zeros(rows, dtype=np.float32),
            "target_norms": np.zeros(rows[0], dtype=np.float32),
            "chances": np.zeros(classes, dtype=np.float32),
            **drawn,
        }
        outputs = [f"block_{name}" for name in _BLOCK]
        machine.run(self._program.block, inputs, outputs)
        results = [machine.variables.get_var(name) for name in outputs]
        machine.forget("words", "bits", *outputs)
        return results

    def go_on(self, start: Checkpoint) -> None:
        """From a state that all have."""
        base = unpack(self._keeper.state(Checkpoint(0, start.base, start.base)))
        self._seed = base.parts[0]
        kept = [*base.parts[1:], *(unpack(self._keeper.state(start)).parts if start.round else ())]
        for data in kept:
            self._machine.variables.set_var(*shares.read_kept_share(data))
        if not start.round:
            self._begin()

    def _begin(self) -> None:
        """No pick is made yet."""
        self._machine.variables.set_var("score", self._machine.variables.get_var("attraction"))
        self._set_zeros("spots")

    def _set_zeros(self, name: str) -> None:
        zeros = self._shapes(name)[name]
        self._machine.set_words(name, zeros, None if self._settings.parties == 2 else zeros)

    def select(self, start: Checkpoint, mark: str) -> Checkpoint:
        """All rounds that are left, each on disk before the next one begins: picks, then swaps."""
        latest, adding = start, -(-self._adding // ROUND_STEPS)
        swapping = -(-(self._swapping + 1) // ROUND_STEPS) if self._swapping else 0
        for made in range(start.round, adding + swapping):
            picking = made < adding
            first = ROUND_STEPS * (made if picking else made - adding)
            if picking:
                self._add(first)
            else:
                self._swap(first)
            latest = Checkpoint(made + 1, mark, start.base)
            names = _ADDING if picking else _SWAPPING
            state = [shares.kept_share(name, self._machine.variables.get_var(name)) for name in names]
            self._keeper.keep(latest, pack("round", *state))
            stage, of = ("picking", self._adding) if picking else ("improving", self._swapping)
            self._keeper.tell(stage, min(first + ROUND_STEPS, of), of)
        return latest

    def _add(self, first: int) -> None:
        steps = range(first, min(first + ROUND_STEPS, self._adding))
        self._set_steps("public_seats", [seat(self._settings.size, step) for step in steps])
        self._set_public("public_steps", np.array(len(steps), dtype=np.int64))
        inputs = self._shapes("rows", "attraction", *_ADDING, "public_seats", "public_steps")
        self._machine.run(self._program.adds, inputs, _ADDING)

    def _swap(self, first: int) -> None:
        """Each step takes out the pick that the next one fills; the first of all fills none, the last takes none."""
        size, last = self._settings.size, self._swapping
        if not first:
            self._machine.run(self._program.settle, self._shapes("score", "attraction"), ("score",))
            self._set_zeros("out")
        steps = range(first, min(first + ROUND_STEPS, last + 1))
        self._set_steps("public_strips", [strip(size, step) * (step < last) for step in steps])
        self._set_steps("public_strips_before", [strip(size, max(0, step - 1)) for step in steps])
        self._set_steps("public_fills", [np.array(int(step > 0), dtype=np.int64) for step in steps])
        self._set_public("public_steps", np.array(len(steps), dtype=np.int64))
        told = ("public_strips", "public_strips_before", "public_fills", "public_steps")
        self._machine.run(self._program.swaps, self._shapes("rows", *_SWAPPING, *told), _SWAPPING)

    def _set_steps(self, name: str, steps: list[Words]) -> None:
        """What each step of a round is told; zeros for steps that a round does not have."""
        missing = [np.zeros_like(steps[0])] * (ROUND_STEPS - len(steps))
        self._set_public(name, np.stack([*steps, *missing]))

    def _set_public(self, name: str, value: Words) -> None:
        self._machine.variables.set_var(name, shares.public_value(self._machine.io, value))

    def _shapes(self, *names: str) -> dict[str, Array]:
        """For each variable any array of its shape and type."""
        settings, slots = self._settings, self._slots
        words, decimals, one = np.int64, np.float32, strip(settings.size, 0)
        arrays: dict[str, Array] = {
            "rows": np.zeros((slots, row_words(settings)), dtype=decimals),
            "attraction": np.zeros(slots, dtype=decimals),
            "payload": np.zeros((slots, PAYLOAD_WORDS), dtype=words),
            "score": np.zeros(slots, dtype=decimals),
            "free": np.zeros(slots, dtype=words),
            "spots": np.zeros((settings.size, sum(grid(settings.offers, settings.size))), dtype=words),
            "out": np.zeros(len(one), dtype=words),
            "public_seats": np.zeros((ROUND_STEPS, *seat(settings.size, 0).shape), dtype=words),
            "public_strips": np.zeros((ROUND_STEPS, *one.shape), dtype=words),
            "public_strips_before": np.zeros((ROUND_STEPS, *one.shape), dtype=words),
            "public_fills": np.zeros(ROUND_STEPS, dtype=words),
            "public_steps": np.array(0, dtype=words),
        }
        return {name: arrays[name] for name in names}

    def open(self, last: Checkpoint) -> None:
        """To the consumer only, and for the others at an end when the consumer has it."""
        machine = self._machine
        self._keeper.may_open(last)
        machine.run(self._program.finish, self._shapes("payload", "spots"), ("opened",))
        opened = machine.open_to(CONSUMER, "opened")
        if opened is not None:
            self._keeper.give(self._seed, opened)
        machine.part(CONSUMER)
