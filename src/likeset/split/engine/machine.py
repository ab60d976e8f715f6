"""The engine as one compute party holds it: its links, its configuration, its variables, programs compiled once."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import spu
import spu.libspu as engine
from numpy.typing import NDArray
from spu.utils import frontend

from . import shares
from .framing import BadFrame, pack, unpack
from .runtime import ENGINE_VERSION, RUNTIME_FIELDS, BadRuntime, check_runtime
from .settings import PARTIES
from .task import Task, Words

__all__ = ["Machine"]

_CONNECT_EVERY_MS = 250
_RECEIVED = b"received"
_LAST_SECONDS = 10.0  # that the reader waits for answers
_ON_ITS_WAY = 0.2  # seconds that an answer has to get out of the process
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
    """Connected to all other compute parties when it exists.

    Args:
        task: says with whom.
    """

    def __init__(self, task: Task) -> None:
        self.rank = task.rank
        config = _configuration()
        self.link = _link(task)
        self.io = spu.Io(PARTIES, config)
        self.variables = spu.Runtime(self.link, config)
        self._compiled: dict[tuple[Any, ...], engine.Executable] = {}

    def run(self, step: Callable[..., Any], inputs: Mapping[str, NDArray[Any]], outputs: Sequence[str]) -> None:
        """Run a step of the program on variables.

        Args:
            step: traced by JAX.
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
        """Make a variable of additive shares."""
        self.variables.set_var(name, shares.secret_words(own, following))

    def forget(self, *names: str) -> None:
        """Delete variables that nothing needs any more."""
        for name in names:
            self.variables.del_var(name)

    def following(self, own: Sequence[Words]) -> list[Words]:
        """The next party's additive shares of the same words, which ABY3 wants beside ours; ours go to the one before.

        Raises:
            BadFrame: they are not as many as ours.
        """
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

    def part(self, reader: int) -> None:
        """Leave when the party that reads has what was sent to it, and knows that the others know.

        The engine's messages are not acknowledged, and a process that ends takes those with it that are still on their
        way. So the reader says that it has everything and waits a while for answers; all others answer it.
        """
        if self.rank == reader:
            others = [rank for rank in range(PARTIES) if rank != reader]
            for rank in others:
                self.link.send_async(rank, _RECEIVED)
            answers = threading.Thread(target=lambda: [self.link.recv(rank) for rank in others], daemon=True)
            answers.start()
            answers.join(_LAST_SECONDS)
            return
        self.link.recv(reader)
        self.link.send_async(reader, _RECEIVED)
        time.sleep(_ON_ITS_WAY)


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
