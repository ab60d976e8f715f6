"""The worker: reads frames from its party's own process, computes, writes frames back. It opens no file.

Shares come in through the pipe, the share of the picks goes out through it. When the pipe ends, so does the worker.
"""

import json
import os
import queue
import sys
import threading
from importlib import metadata
from typing import BinaryIO

import numpy as np

from .agreement import Disagreement
from .computation import compute
from .framing import BadFrame, Frame, pack, read_frame
from .runtime import BadRuntime
from .settings import BadSettings
from .task import Task, Words

__all__ = ["serve"]

_VERSIONS = ("jax", "jaxlib", "numpy", "spu")


class _Pipe:
    """The other end of the pipe, as the computation sees it."""

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
        self.say("inputs wanted")
        shapes, offers, target = self.answer("inputs", 3)
        first, second = (tuple(shape) for shape in json.loads(shapes))
        return np.frombuffer(offers, dtype="<i8").reshape(first), np.frombuffer(target, dtype="<i8").reshape(second)

    def kept(self) -> bytes:
        self.say("kept wanted")
        return self.answer("share", 1)[0]

    def keep(self, share: bytes) -> None:
        self.say("keep", share)
        self.answer("kept", 0)

    def give(self, seed: bytes, payloads: Words) -> None:
        self.say("opened", seed, payloads.astype("<i8").tobytes())
        self.answer("kept", 0)

    def tell(self, stage: str, done: int, of: int) -> None:
        self.say("progress", stage.encode("ascii"), b"%d" % done, b"%d" % of)


def serve(given: BinaryIO, told: BinaryIO) -> None:
    """Compute what the first frame asks for."""
    pipe = _Pipe(given, told)
    versions = {"python": "{}.{}".format(*sys.version_info), **{name: metadata.version(name) for name in _VERSIONS}}
    pipe.say("hello", json.dumps(versions, sort_keys=True).encode("ascii"))
    try:
        compute(Task.from_bytes(pipe.answer("task", 1)[0]), pipe)
        pipe.say("done")
    except (Disagreement, BadSettings, BadRuntime) as error:
        pipe.say("refused", str(error).encode("ascii", "replace"))
    except BadFrame as error:
        pipe.say("failed", str(error).encode("ascii", "replace"))
    except Exception as error:  # in words that are not ours to show
        sys.stderr.write(f"{type(error).__name__} {error}\n")
        # The engine's links end in a RuntimeError; everything else would happen again.
        kind = "failed" if isinstance(error, RuntimeError) else "refused"
        pipe.say(kind, f"the engine stopped with {type(error).__name__}".encode("ascii", "replace"))
    os._exit(0)  # threads of the engine may wait for parties that are gone
