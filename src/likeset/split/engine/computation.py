"""One attempt at a computation, as one compute party makes it: agree, prepare or go on, select, open."""

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import shares
from .agreement import Checkpoint, Offer, attempt_mark, checksum_factors, commitment, joint_seed, latest_common
from .framing import pack, unpack
from .machine import Machine
from .program import PAYLOAD_WORDS, Program, block_rows, grid
from .schedule import ROUND_STEPS, adding_steps, seat, strip, swapping_steps
from .settings import CONSUMER, SECRET_WORDS
from .task import Keeper, Task, Words

__all__ = ["compute"]

Array = NDArray[Any]

_BASE = ("rows", "attraction", "payload", "free")
_BLOCK = ("rows", "free", "attraction", "checks")
_ADDING = ("score", "free", "lines", "places")
_SWAPPING = (*_ADDING, "taken")


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
    attempt.open(attempt.select(start, attempt_mark(seed)))


class _Attempt:
    def __init__(self, task: Task, keeper: Keeper, machine: Machine) -> None:
        self._task, self._settings, self._keeper, self._machine = task, task.settings, keeper, machine
        self._program = Program(task.settings)
        self._adding, self._swapping = adding_steps(task.settings.size), swapping_steps(task.settings.size)

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
        self._set_public("public_factors", factors)
        parts, step = [], block_rows(settings)
        for first in range(0, settings.offers, step):
            last = min(first + step, settings.offers)
            parts.append(self._prepare_block(slice(first, last), factors))
            self._keeper.tell("preparing", last, settings.offers)
        for name, blocks_of_it in zip(_BLOCK, zip(*parts, strict=True), strict=True):
            machine.variables.set_var(name, shares.joined(blocks_of_it))
        own, following = self._offers
        machine.set_words("secrets", own[:, plain + 1 :], None if following is None else following[:, plain + 1 :])
        secrets = np.zeros((settings.offers, SECRET_WORDS), dtype=np.int64)
        machine.run(self._program.begin, {"secrets": secrets, "checks": secrets[:, 0]}, ("payload",))
        machine.forget("target_words", "target", "target_norms", "chances", "checks", "secrets")
        del self._offers, self._target
        self._begin()
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
        kept = [*base.parts[1:], *(unpack(self._keeper.state(start)).parts if start.round else ())]
        for data in kept:
            self._machine.variables.set_var(*shares.read_kept_share(data))
        if not start.round:
            self._begin()

    def _begin(self) -> None:
        """No pick is made yet."""
        machine, none = self._machine, self._shapes("lines", "places")
        machine.variables.set_var("score", machine.variables.get_var("attraction"))
        for name, zeros in none.items():
            machine.set_words(name, zeros, None if self._settings.parties == 2 else zeros)

    def select(self, start: Checkpoint, mark: str) -> Checkpoint:
        """All rounds that are left, each on disk before the next one begins: picks, then swaps."""
        latest, adding = start, -(-self._adding // ROUND_STEPS)
        for made in range(start.round, adding + 1 + -(-self._swapping // ROUND_STEPS)):
            if made < adding:
                self._add(ROUND_STEPS * made)
            elif made == adding:
                self._take()
            else:
                self._swap(ROUND_STEPS * (made - adding - 1))
            latest = Checkpoint(made + 1, mark, start.base)
            names = _ADDING if made < adding else _SWAPPING
            state = [shares.kept_share(name, self._machine.variables.get_var(name)) for name in names]
            self._keeper.keep(latest, pack("round", *state))
            stage, done, of = ("picking", made + 1, self._adding)
            if made >= adding:
                stage, done, of = ("improving", made - adding, self._swapping)
            self._keeper.tell(stage, min(ROUND_STEPS * done, of), of)
        return latest

    def _add(self, first: int) -> None:
        steps = range(first, min(first + ROUND_STEPS, self._adding))
        self._set_steps("public_seats", [seat(self._settings.size, step) for step in steps])
        inputs = self._shapes("rows", "attraction", *_ADDING, "public_seats", "public_steps")
        self._machine.run(self._program.adds, inputs, _ADDING)

    def _take(self) -> None:
        self._set_public("public_strip", strip(self._settings.size, 0))
        inputs = self._shapes("rows", "attraction", *_ADDING, "public_strip")
        self._machine.run(self._program.take, inputs, ("score", "free", "taken"))

    def _swap(self, first: int) -> None:
        """Each step takes out the pick that the next one fills; the last of all takes none."""
        steps = range(first + 1, min(first + ROUND_STEPS, self._swapping) + 1)
        following = [strip(self._settings.size, step) * (step < self._swapping) for step in steps]
        self._set_steps("public_strips", following)
        inputs = self._shapes("rows", *_SWAPPING, "public_strips", "public_steps")
        self._machine.run(self._program.swaps, inputs, _SWAPPING)

    def _set_steps(self, name: str, steps: list[Words]) -> None:
        """What each step of a round is told; a round that has fewer is told how many."""
        missing = [np.zeros_like(steps[0])] * (ROUND_STEPS - len(steps))
        self._set_public(name, np.stack([*steps, *missing]))
        self._set_public("public_steps", np.array(len(steps), dtype=np.int64))

    def _set_public(self, name: str, value: Words) -> None:
        self._machine.variables.set_var(name, shares.public_value(self._machine.io, value))

    def _shapes(self, *names: str) -> dict[str, Array]:
        """For each variable any array of its shape and type."""
        settings, (lines, places) = self._settings, grid(self._settings.offers)
        words, decimals = np.int64, np.float32
        arrays: dict[str, Array] = {
            "rows": np.zeros((settings.offers, settings.columns + 1 + settings.classes), dtype=decimals),
            "attraction": np.zeros(settings.offers, dtype=decimals),
            "payload": np.zeros((settings.offers, PAYLOAD_WORDS), dtype=words),
            "score": np.zeros(settings.offers, dtype=decimals),
            "free": np.zeros(settings.offers, dtype=words),
            "lines": np.zeros((settings.size, lines), dtype=words),
            "places": np.zeros((settings.size, places), dtype=words),
            "taken": np.zeros(settings.size, dtype=words),
            "public_seats": np.zeros((ROUND_STEPS, *seat(settings.size, 0).shape), dtype=words),
            "public_strip": strip(settings.size, 0),
            "public_strips": np.zeros((ROUND_STEPS, *strip(settings.size, 0).shape), dtype=words),
            "public_steps": np.array(0, dtype=words),
        }
        return {name: arrays[name] for name in names}

    def open(self, last: Checkpoint) -> None:
        """To the consumer only, and for the others at an end when the consumer has it."""
        machine = self._machine
        self._keeper.may_open(last)
        machine.run(self._program.finish, self._shapes("payload", "lines", "places"), ("opened",))
        opened = machine.open_to(CONSUMER, "opened")
        if opened is not None:
            self._keeper.give(self._seed, opened)
        machine.part(CONSUMER)
