"""Which functions of the package a piece of work passes, in whatever thread.

``sys.setprofile`` hears of every call in this thread, ``threading.setprofile`` of those in threads that start
meanwhile. Of all calls, only those of functions that are written below ``src/likeset`` count; what runs while a module
is imported is no step, since the work is done once before it is watched.
"""

import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import likeset

__all__ = ["PACKAGE", "Footsteps", "constructions", "done_before", "module_of"]

PACKAGE = Path(likeset.__file__).parent

Listener = Callable[[FrameType, str, Any], None]
"""Told of every call of some function, and of every return from it, as a profiler is."""


def module_of(file: str) -> str | None:
    """``run.market`` of ``.../src/likeset/run/market.py``; None of a file that is not the package's."""
    path = Path(file)
    if not path.is_relative_to(PACKAGE):
        return None
    words = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(words[:-1] if words[-1] == "__init__" else words) or "likeset"


@dataclass
class Footsteps:
    """Watches what is done within ``with``.

    Attributes:
        listeners: told of the calls of some functions, by their code.
        ends: chains of modules are kept that lead to these functions.
        functions: that were passed, as module and name.
        chains: for each end that was reached, the modules from the first call of the package to it.
        threads: how many threads passed a function of the package.
    """

    listeners: dict[CodeType, Listener] = field(default_factory=dict)
    ends: dict[CodeType, str] = field(default_factory=dict)
    functions: set[tuple[str, str]] = field(default_factory=set)
    chains: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _idents: set[int] = field(default_factory=set)
    _modules: dict[CodeType, str | None] = field(default_factory=dict)
    _before: dict[int, tuple[str, ...]] = field(default_factory=dict)  # by thread: the chain that started it

    @property
    def modules(self) -> set[str]:
        """Modules of which a function was passed."""
        return {module for module, _ in self.functions}

    @property
    def threads(self) -> int:
        """How many threads passed a function of the package."""
        return len(self._idents)

    def __enter__(self) -> "Footsteps":
        if sys.getprofile() is not None or threading.getprofile() is not None:
            raise RuntimeError("somebody else profiles this process: steps cannot be counted")
        self._hook = self._noted
        self._start = threading.Thread.start
        threading.Thread.start = self._starting()  # type: ignore[method-assign, assignment]
        threading.setprofile(self._hook)
        sys.setprofile(self._hook)
        return self

    def __exit__(self, *_: object) -> None:
        here, there = sys.getprofile(), threading.getprofile()
        sys.setprofile(None)
        threading.setprofile(None)
        threading.Thread.start = self._start  # type: ignore[method-assign]
        if here is not self._hook or there is not self._hook:
            raise RuntimeError("somebody took the profiler away: not all steps were counted")

    def _starting(self) -> Callable[[threading.Thread], None]:
        """Starts a thread that remembers by whom it was started; its own stack does not say."""
        start = self._start

        def starting(thread: threading.Thread) -> None:
            before, run = self._chain(sys._getframe(1)), thread.run

            def remembering() -> None:
                self._before[threading.get_ident()] = before
                run()

            thread.run = remembering  # type: ignore[method-assign]
            start(thread)

        return starting

    def _noted(self, frame: FrameType, event: str, value: Any) -> None:
        code = frame.f_code
        if code not in self._modules:
            in_function = code.co_flags & inspect.CO_OPTIMIZED  # the body of a module or class is none
            self._modules[code] = module_of(code.co_filename) if in_function else None
        module = self._modules[code]
        if module is None:
            return
        if event == "call":
            self.functions.add((module, code.co_qualname))
            self._idents.add(threading.get_ident())
            if code in self.ends:
                self.chains.setdefault(self.ends[code], self._chain(frame))
        if code in self.listeners:
            self.listeners[code](frame, event, value)

    def _chain(self, frame: FrameType | None) -> tuple[str, ...]:
        """The modules on the stack, from the first to the last; one that calls itself is named once."""
        steps: list[str] = []
        while frame is not None:
            module = module_of(frame.f_code.co_filename)
            if module is not None and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
                steps.append(module)
            frame = frame.f_back
        steps += reversed(self._before.get(threading.get_ident(), ()))
        steps.reverse()
        return tuple(step for place, step in enumerate(steps) if place == 0 or steps[place - 1] != step)


def done_before(work: Callable[[], object]) -> None:
    """Do some work once before it is watched: imports are made, and what is kept from run to run is there.

    Raises:
        RuntimeError: a thread stays behind; what it did later, nobody would hear of.
    """
    before = set(threading.enumerate())
    work()
    stayed = [thread.name for thread in threading.enumerate() if thread not in before]
    if stayed:
        raise RuntimeError(f"threads go on after the work is done, and are not watched: {', '.join(stayed)}")


@contextmanager
def constructions(kind: type) -> Iterator[list[object]]:
    """All objects of a class that are made within ``with``, also as changed copies of others."""
    made: list[object] = []
    before = kind.__init__  # type: ignore[misc]

    def remembering(self: object, *given: Any, **named: Any) -> None:
        before(self, *given, **named)
        made.append(self)

    kind.__init__ = remembering  # type: ignore[misc]
    try:
        yield made
    finally:
        kind.__init__ = before  # type: ignore[misc]
