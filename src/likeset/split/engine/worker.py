"""The worker: one computation in its own process and environment. It opens no file and holds no key."""

import json
import os
import queue
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from typing import Any, BinaryIO

import numpy as np
import spu
import spu.libspu as engine
from numpy.typing import NDArray
from spu.utils import frontend

from .agreement import (
    AGAIN,
    CONSUMER,
    ENGINE_VERSION,
    PARTIES,
    ROUND_STEPS,
    RUNTIME_FIELDS,
    SECRET_WORDS,
    BadFrame,
    BadRuntime,
    BadSettings,
    Disagreement,
    Frame,
    Statement,
    Task,
    Words,
    adding_steps,
    check_runtime,
    checksum_factors,
    commitment,
    grid,
    joint_seed,
    keepers,
    pack,
    range_tests,
    read_frame,
    seat,
    slot_count,
    slot_order,
    strip,
    swapping_steps,
    unpack,
)
from .program import PAYLOAD_WORDS, Program, block_rows, row_words

_CHUNK_BYTES = 64 << 20
_STORED_AS = "aby3.AShr<FM64>"


def content_of(share: engine.Share) -> bytes:
    """Of a share of integers: for each word the party's own share and the next party's."""
    meta = _read_meta(share)
    if meta.storage_type != _STORED_AS or meta.data_type != engine.DataType.DT_I64:
        raise BadFrame("the engine shares picks in another way than this version of it does")
    return _content(share)


def added_up(contents: Mapping[int, bytes], shape: tuple[int, ...]) -> NDArray[np.int64]:
    """The words that the contents of two or three parties, by rank, stand for."""
    thirds: dict[int, NDArray[np.int64]] = {}
    for rank, content in contents.items():
        if len(content) != 16 * int(np.prod(shape)):
            raise Disagreement("a share of the picks is not as large as it must be")
        pair = np.frombuffer(content, dtype="<i8").reshape(*shape, 2)
        for step in (0, 1):
            third = thirds.setdefault((rank + step) % PARTIES, pair[..., step])
            if not np.array_equal(third, pair[..., step]):
                raise Disagreement("the compute parties' shares of the picks do not fit together")
    return np.asarray(sum(thirds.values()), dtype=np.int64)


def joined(shares: Sequence[engine.Share]) -> engine.Share:
    """Shares of the blocks of one array, one below another, as a share of all of it. Needs no message."""
    meta = _read_meta(shares[0])
    kind = meta.storage_type
    rows = 0
    for share in shares:
        other = _read_meta(share)
        if other.storage_type != kind:
            raise BadFrame("the engine shares the blocks of an array in different ways")
        rows += int(other.shape.dims[0])
    meta.shape = [rows, *list(meta.shape.dims)[1:]]
    return _share(bytes(meta.SerializeToString()), b"".join(_content(share) for share in shares))


def _share(meta: bytes, content: bytes) -> engine.Share:
    share = engine.Share()
    share.meta = meta
    chunks = []
    for offset in range(0, max(len(content), 1), _CHUNK_BYTES):
        chunk = engine.ValueChunk()
        chunk.content = content[offset : offset + _CHUNK_BYTES]
        chunk.total_bytes, chunk.chunk_offset = len(content), offset
        chunks.append(chunk.SerializeToString())
    share.share_chunks = chunks
    return share


def _content(share: engine.Share) -> bytes:
    pieces = []
    for data in share.share_chunks:
        chunk = engine.ValueChunk()
        chunk.ParseFromString(data)
        pieces.append((chunk.chunk_offset, bytes(chunk.content)))
    return b"".join(content for _, content in sorted(pieces))


def _read_meta(share: engine.Share) -> engine.ValueMeta:
    meta = engine.ValueMeta()
    meta.ParseFromString(share.meta)
    return meta


_CONNECT_EVERY_MS = 250
_WORD = "<i8"
_ENUMERATIONS = {
    "protocol": engine.ProtocolKind,
    "field": engine.FieldType,
    "fxp_exp_mode": engine.RuntimeConfig.ExpMode,
    "fxp_log_mode": engine.RuntimeConfig.LogMode,
    "sigmoid_mode": engine.RuntimeConfig.SigmoidMode,
    "sort_method": engine.RuntimeConfig.SortMethod,
    "beaver_type": engine.RuntimeConfig.BeaverType,
}


class Machine:
    """The engine, connected to all other compute parties when it exists."""

    def __init__(self, task: Task) -> None:
        self.rank = task.rank
        config = _configuration()
        self.link = _link(task)
        self.io = spu.Io(PARTIES, config)
        self.variables = spu.Runtime(self.link, config)
        self._compiled: dict[tuple[Any, ...], engine.Executable] = {}

    def run(self, step: Callable[..., Any], inputs: Mapping[str, NDArray[Any]], outputs: Sequence[str]) -> None:
        """Run a step of the program, traced by JAX, on variables.

        Args:
            step: of the program.
            inputs: for each variable in turn any array of its shape and type; ``public_`` begins the name of a
                variable that all parties know.
            outputs: variables that get what it returns.
        """
        key = (step.__name__, *((name, array.shape) for name, array in inputs.items()))
        if key not in self._compiled:
            visible = [_visibility(name) for name in inputs]
            arrays = list(inputs.values())
            self._compiled[key], _ = frontend.compile(
                frontend.Kind.JAX, step, arrays, {}, list(inputs), visible, lambda _: list(outputs)
            )
        self.variables.run(self._compiled[key])

    def set_words(self, name: str, own: Words, following: Words) -> None:
        """Shared words: the additive share that this party was given, and the next party's."""
        meta = engine.ValueMeta()
        meta.data_type, meta.visibility = engine.DataType.DT_I64, engine.Visibility.VIS_SECRET
        meta.shape, meta.storage_type, meta.is_complex = list(own.shape), _STORED_AS, False
        pairs = np.ascontiguousarray(np.stack([own, following], axis=-1)).tobytes()
        self.variables.set_var(name, _share(bytes(meta.SerializeToString()), pairs))

    def set_public(self, name: str, value: Words) -> None:
        self.variables.set_var(name, self.io.make_shares(value, spu.Visibility.VIS_PUBLIC)[0])

    def forget(self, *names: str) -> None:
        for name in names:
            self.variables.del_var(name)

    def following(self, own: Sequence[Words]) -> list[Words]:
        """The next party's additive shares, which ABY3 wants beside ours; ours go to the party before."""
        self.link.send_async(
            (self.rank - 1) % PARTIES, pack("words", *(array.astype(_WORD).tobytes() for array in own))
        )
        parts = unpack(self.link.recv((self.rank + 1) % PARTIES), most=sum(array.nbytes for array in own)).parts
        if [len(part) for part in parts] != [array.nbytes for array in own]:
            raise BadFrame("the next party's words are not as many as ours")
        pairs = zip(parts, own, strict=True)
        return [np.frombuffer(part, dtype=_WORD).reshape(array.shape) for part, array in pairs]

    def sent_to(self, reader: int, data: bytes, senders: Sequence[int]) -> dict[int, bytes]:
        """Send something to one party; that party gets what each sender sent, its own included, and others nothing."""
        if self.rank != reader:
            if self.rank in senders:
                self.link.send_async(reader, data)
            return {}
        return {rank: data if rank == reader else self.link.recv(rank) for rank in senders}


def _visibility(name: str) -> engine.Visibility:
    return engine.Visibility.VIS_PUBLIC if name.startswith("public_") else engine.Visibility.VIS_SECRET


def _configuration() -> engine.RuntimeConfig:
    if spu.__version__ != ENGINE_VERSION:
        raise BadRuntime(f"the engine is not of version {ENGINE_VERSION}")
    config = engine.RuntimeConfig()
    for name, value in RUNTIME_FIELDS.items():
        setattr(config, name, getattr(_ENUMERATIONS[name], str(value)) if name in _ENUMERATIONS else value)
    names = [name for name in dir(config) if name[0].islower()]
    fields = {name: getattr(config, name) for name in names}
    check_runtime({name: value.name if name in _ENUMERATIONS else value for name, value in fields.items()})
    return config


def _link(task: Task) -> engine.link.Context:
    description = engine.link.Desc()
    description.id = task.attempt
    for rank, address in enumerate(task.addresses):
        description.add_party(f"party-{rank}", address)
    # Every message has a key of its own that is never used again, so a number tells nothing more; without numbers no
    # message is acknowledged by another one, which takes a third off the time of a round.
    description.disable_msg_seq_id = True
    description.recv_timeout_ms = 1000 * task.timeout
    description.http_timeout_ms = 1000 * task.timeout
    description.connect_retry_interval_ms = _CONNECT_EVERY_MS
    description.connect_retry_times = max(1, 1000 * task.timeout // _CONNECT_EVERY_MS)
    return engine.link.create_brpc(description, task.rank)


Array = NDArray[Any]

_BLOCK = ("rows", "free", "attraction", "checks")
_ADDING = ("score", "free", "spots")
_SWAPPING = (*_ADDING, "out")


def compute(task: Task, party: "Party") -> None:
    """Until what was picked is opened to the consumer.

    Picks are opened once. A party's share of them is on disk before it leaves. From then on nothing is computed any
    more: a party that stores its share sends the same bytes again.
    """
    machine = Machine(task)
    nonce = os.urandom(32)
    share = party.stored_share()
    said = Statement(task.program, task.settings.digest(), task.inputs, commitment(nonce), bool(share))
    statements = [Statement.from_text(text) for text in machine.link.all_gather(said.to_text())]
    senders = keepers(statements)
    if not senders:
        attempt = _Attempt(task, party, machine)
        attempt.take_inputs()
        # Inputs are fixed from here on: only now may anybody learn what they are checked with.
        seed = joint_seed(statements, machine.link.all_gather(nonce.hex()))
        attempt.prepare(seed)
        attempt.select()
        share = pack("picks", seed, attempt.share_of_picks())
        party.store_share(share)
        senders = list(range(PARTIES))
    elif share:
        party.tell(AGAIN, 1, 1)
    sent = machine.sent_to(CONSUMER, share, senders)
    if sent:
        party.give(*_opened(sent, (task.settings.size, PAYLOAD_WORDS)))
    party.end()  # while the engine is there: what it sent may be on its way


def _opened(sent: dict[int, bytes], shape: tuple[int, ...]) -> tuple[bytes, Words]:
    contents, seeds = {}, set()
    try:
        for rank, data in sent.items():
            seed, contents[rank] = unpack(data, most=2 * len(data)).parts
            seeds.add(seed)
    except ValueError:
        raise Disagreement("a compute party sent something else than its share of the picks") from None
    if len(seeds) != 1:
        raise Disagreement("the compute parties' shares of the picks are not of one computation")
    return seeds.pop(), added_up(contents, shape)


class _Attempt:
    def __init__(self, task: Task, party: "Party", machine: Machine) -> None:
        self._settings, self._party, self._machine = task.settings, party, machine
        self._program = Program(task.settings)
        offers, size = task.settings.offers, task.settings.size
        self._adding, self._swapping = adding_steps(size), swapping_steps(size)
        self._slots = slot_count(offers, size)
        self._numbers = np.zeros(self._slots, dtype=np.int64)
        self._numbers[:offers] = slot_order(offers) + 1

    def take_inputs(self) -> None:
        own = self._party.inputs()
        next_offers, next_target = self._machine.following(own)
        self._offers, self._target = (self._ordered(own[0]), self._ordered(next_offers)), (own[1], next_target)

    def _ordered(self, words: Words) -> Words:
        """Shares of offers in the order of slots; those of empty slots are zeros."""
        ordered = np.zeros((self._slots, words.shape[1]), dtype=np.int64)
        ordered[: len(words)] = words[self._numbers[: len(words)] - 1]
        return ordered

    def prepare(self, seed: bytes) -> None:
        """Everything before the first pick."""
        settings, machine, columns = self._settings, self._machine, self._settings.columns
        machine.set_words("target_words", *self._target)
        machine.run(self._program.target, {"target_words": self._target[0]}, ("target", "target_norms"))
        drawn = {"public_factors": checksum_factors(seed, columns), "public_tests": range_tests(seed, settings)}
        for name, value in drawn.items():
            machine.set_public(name, value)
        parts, step = [], block_rows(settings)
        for first in range(0, self._slots, step):
            last = min(first + step, self._slots)
            parts.append(self._prepare_block(slice(first, last), drawn))
            self._party.tell("preparing", min(last, settings.offers), settings.offers)
        for name, blocks_of_it in zip(_BLOCK, zip(*parts, strict=True), strict=True):
            machine.variables.set_var(name, joined(blocks_of_it))
        self._set_offers("secrets", slice(None), slice(columns + 1, None))
        machine.set_public("public_numbers", self._numbers)
        secrets = np.zeros((self._slots, SECRET_WORDS), dtype=np.int64)
        inputs = {"secrets": secrets, "checks": secrets[:, 0], "public_numbers": self._numbers}
        machine.run(self._program.begin, inputs, ("payload",))
        machine.forget("target_words", "target", "target_norms", "checks", "secrets")
        del self._offers, self._target
        machine.variables.set_var("score", machine.variables.get_var("attraction"))
        self._set_zeros("spots")

    def _set_offers(self, name: str, block: slice, words: slice | int) -> Words:
        own, following = self._offers
        self._machine.set_words(name, own[block, words], following[block, words])
        return own[block, words]

    def _prepare_block(self, block: slice, drawn: dict[str, Words]) -> list[object]:
        machine, rows, columns = self._machine, self._settings.target_rows, self._settings.columns
        inputs: dict[str, Array] = {
            "words": self._set_offers("words", block, slice(columns)),
            "bits": self._set_offers("bits", block, columns),
            "target": np.zeros((rows, columns), dtype=np.float32),
            "target_norms": np.zeros(rows, dtype=np.float32),
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
            self._party.tell("picking", min(first + ROUND_STEPS, self._adding), self._adding)
        for first in range(0, self._swapping + 1 if self._swapping else 0, ROUND_STEPS):
            self._swap(first)
            self._party.tell("improving", min(first + ROUND_STEPS, self._swapping), self._swapping)

    def _add(self, first: int) -> None:
        steps = range(first, min(first + ROUND_STEPS, self._adding))
        self._set_steps("public_seats", [seat(self._settings.size, step) for step in steps])
        self._machine.set_public("public_steps", np.array(len(steps), dtype=np.int64))
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
        self._machine.set_public("public_steps", np.array(len(steps), dtype=np.int64))
        told = ("public_strips", "public_strips_before", "public_fills", "public_steps")
        self._machine.run(self._program.swaps, self._shapes("rows", *_SWAPPING, *told), _SWAPPING)

    def _set_steps(self, name: str, steps: list[Words]) -> None:
        missing = [np.zeros_like(steps[0])] * (ROUND_STEPS - len(steps))
        self._machine.set_public(name, np.stack([*steps, *missing]))

    def _shapes(self, *names: str) -> dict[str, Array]:
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
        self._machine.run(self._program.finish, self._shapes("payload", "spots"), ("picks",))
        return content_of(self._machine.variables.get_var("picks"))


_VERSIONS = ("jax", "jaxlib", "numpy", "spu")


class Party:
    """The party's own process, at the other end of the pipe."""

    def __init__(self, given: BinaryIO, told: BinaryIO) -> None:
        self._told = told
        self._frames: queue.Queue[Frame] = queue.Queue()
        threading.Thread(target=self._read, args=(given,), daemon=True).start()

    def _read(self, given: BinaryIO) -> None:
        try:
            while (frame := read_frame(given)) is not None:
                self._frames.put(frame)
        finally:
            os._exit(0)  # nobody is there any more, whatever the engine is waiting for

    def say(self, kind: str, *parts: bytes) -> None:
        self._told.write(pack(kind, *parts))
        self._told.flush()

    def answer(self, kind: str, count: int) -> tuple[bytes, ...]:
        frame = self._frames.get()
        if frame.kind != kind or len(frame.parts) != count:
            raise BadFrame(f"{kind} was to come, and something else came")
        return frame.parts

    def inputs(self) -> tuple[Words, Words]:
        """The party's additive shares of all offers and of the target."""
        self.say("inputs wanted")
        shapes, offers, target = self.answer("inputs", 3)
        first, second = (tuple(shape) for shape in json.loads(shapes))
        return np.frombuffer(offers, dtype=_WORD).reshape(first), np.frombuffer(target, dtype=_WORD).reshape(second)

    def stored_share(self) -> bytes:
        """The party's share of picks that were opened before; empty if none were."""
        self.say("share wanted")
        return self.answer("share", 1)[0]

    def store_share(self, share: bytes) -> None:
        """Return when the party's share of the picks is on disk: only then may it leave."""
        self.say("store", share)
        self.answer("stored", 0)

    def give(self, seed: bytes, payloads: Words) -> None:
        """Return when the consumer's process has what was opened to it."""
        self.say("opened", seed, payloads.astype(_WORD).tobytes())
        self.answer("taken", 0)

    def end(self) -> None:
        """Done: the party ends this process when the others are done as well."""
        self.say("done")
        threading.Event().wait()

    def tell(self, stage: str, done: int, of: int) -> None:
        self.say("progress", stage.encode("ascii"), b"%d" % done, b"%d" % of)


def serve(given: BinaryIO, told: BinaryIO) -> None:
    """Compute what the first frame asks for."""
    party = Party(given, told)
    versions = {"python": "{}.{}".format(*sys.version_info), **{name: metadata.version(name) for name in _VERSIONS}}
    party.say("hello", json.dumps(versions, sort_keys=True).encode("ascii"))
    try:
        compute(Task.from_bytes(party.answer("task", 1)[0]), party)
    except (Disagreement, BadSettings, BadRuntime) as error:
        party.say("refused", str(error).encode("ascii", "replace"))
    except BadFrame as error:
        party.say("failed", str(error).encode("ascii", "replace"))
    except Exception as error:  # in words that are not ours to show
        sys.stderr.write(f"{type(error).__name__} {error}\n")
        # The engine's links end in a RuntimeError; everything else would happen again.
        kind = "failed" if isinstance(error, RuntimeError) else "refused"
        party.say(kind, f"the engine stopped with {type(error).__name__}".encode("ascii", "replace"))
    os._exit(0)  # threads of the engine may wait for parties that are gone
