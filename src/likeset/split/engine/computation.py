"""One attempt at a computation, as one compute party makes it: agree, prepare, select, open; or open again."""

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import shares
from .agreement import Disagreement, Offer, checksum_factors, commitment, joint_seed, keepers
from .framing import pack, unpack
from .machine import Machine
from .program import PAYLOAD_WORDS, Program, block_rows, row_words
from .ranges import range_tests
from .schedule import ROUND_STEPS, adding_steps, grid, seat, slot_count, slot_order, strip, swapping_steps
from .settings import CONSUMER, PARTIES, SECRET_WORDS
from .task import AGAIN, Keeper, Task, Words

__all__ = ["compute"]

Array = NDArray[Any]

_BLOCK = ("rows", "free", "attraction", "checks")
_ADDING = ("score", "free", "spots")
_SWAPPING = (*_ADDING, "out")


def compute(task: Task, keeper: Keeper) -> None:
    """Until what was picked is opened to the consumer.

    Picks are opened once. A party's share of them is on disk before it leaves. From then on nothing is computed any
    more: whoever keeps its share sends the same bytes again.

    Args:
        task: what to compute, and with whom.
        keeper: the party's own process.
    """
    machine = Machine(task)
    nonce = os.urandom(32)
    share = keeper.kept()
    said = Offer(task.program, task.settings.digest(), task.inputs, commitment(nonce), bool(share))
    offers = [Offer.from_text(text) for text in machine.link.all_gather(said.to_text())]
    senders = keepers(offers)
    if not senders:
        attempt = _Attempt(task, keeper, machine)
        attempt.take_inputs()
        # Inputs are fixed from here on: only now may anybody learn what they are checked with.
        seed = joint_seed(offers, machine.link.all_gather(nonce.hex()))
        attempt.prepare(seed)
        attempt.select()
        share = pack("picks", seed, attempt.share_of_picks())
        keeper.keep(share)
        senders = list(range(PARTIES))
    elif share:
        keeper.tell(AGAIN, 1, 1)
    sent = machine.sent_to(CONSUMER, share, senders)
    if sent:
        keeper.give(*_opened(sent, (task.settings.size, PAYLOAD_WORDS)))
    machine.part(CONSUMER)


def _opened(sent: dict[int, bytes], shape: tuple[int, ...]) -> tuple[bytes, Words]:
    """The seed of the checksums, and the payloads of all picks."""
    contents, seeds = {}, set()
    try:
        for rank, data in sent.items():
            seed, contents[rank] = unpack(data, most=2 * len(data)).parts
            seeds.add(seed)
    except ValueError:
        raise Disagreement("a compute party sent something else than its share of the picks") from None
    if len(seeds) != 1:
        raise Disagreement("the compute parties' shares of the picks are not of one computation")
    return seeds.pop(), shares.added_up(contents, shape)


class _Attempt:
    def __init__(self, task: Task, keeper: Keeper, machine: Machine) -> None:
        self._settings, self._keeper, self._machine = task.settings, keeper, machine
        self._program = Program(task.settings)
        offers, size = task.settings.offers, task.settings.size
        self._adding, self._swapping = adding_steps(size), swapping_steps(size)
        self._slots = slot_count(offers, size)
        self._numbers = np.zeros(self._slots, dtype=np.int64)
        self._numbers[:offers] = slot_order(offers) + 1

    def take_inputs(self) -> None:
        own = self._keeper.inputs()
        next_offers, next_target = self._machine.following(own)
        self._offers, self._target = (self._ordered(own[0]), self._ordered(next_offers)), (own[1], next_target)

    def _ordered(self, words: Words) -> Words:
        """Shares of offers in the order of slots; those of empty slots are zeros."""
        ordered = np.zeros((self._slots, words.shape[1]), dtype=np.int64)
        ordered[: len(words)] = words[self._numbers[: len(words)] - 1]
        return ordered

    def prepare(self, seed: bytes) -> None:
        """Everything before the first pick."""
        settings, machine, plain = self._settings, self._machine, self._settings.target_words
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
        machine.variables.set_var("score", machine.variables.get_var("attraction"))
        self._set_zeros("spots")

    def _set_offers(self, name: str, block: slice, words: slice | int) -> Words:
        own, following = self._offers
        self._machine.set_words(name, own[block, words], following[block, words])
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

    def _set_zeros(self, name: str) -> None:
        zeros = self._shapes(name)[name]
        self._machine.set_words(name, zeros, zeros)

    def select(self) -> None:
        """All rounds: picks, then swaps."""
        for first in range(0, self._adding, ROUND_STEPS):
            self._add(first)
            self._keeper.tell("picking", min(first + ROUND_STEPS, self._adding), self._adding)
        for first in range(0, self._swapping + 1 if self._swapping else 0, ROUND_STEPS):
            self._swap(first)
            self._keeper.tell("improving", min(first + ROUND_STEPS, self._swapping), self._swapping)

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

    def share_of_picks(self) -> bytes:
        """This party's share of what will be opened."""
        self._machine.run(self._program.finish, self._shapes("payload", "spots"), ("picks",))
        return shares.content_of(self._machine.variables.get_var("picks"))
