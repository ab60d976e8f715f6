"""Matrix products that round alike whatever the number of cores.

A library of matrix products that shares one product among threads cuts it into other shapes, and so rounds
differently with the number of threads. Where bits must agree, every product is done by one thread; several of them may
be done at once, by threads of our own.
"""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

__all__ = ["one_thread_a_product"]

Before = list[tuple[Any, int]]

_lock = threading.Lock()
_inside = 0
_before: Before = []  # what the setting of the process was before the first came in
_own = threading.local()  # some libraries have a setting for each thread


@contextmanager
def one_thread_a_product() -> Iterator[None]:
    """While anybody is inside, products of matrices anywhere in the process are done by one thread each."""
    global _inside, _before
    with _lock:
        shared, own = _libraries()
        _own.depth = getattr(_own, "depth", 0) + 1
        if _own.depth == 1:
            _own.before = _set_all((library, 1) for library in own)
        _inside += 1
        if _inside == 1:
            _before = _set_all((library, 1) for library in shared)
    try:
        yield
    finally:
        with _lock:
            _own.depth -= 1
            if _own.depth == 0:
                _set_all(_own.before)
            _inside -= 1
            if _inside == 0:
                _set_all(_before)


def _set_all(wanted: Iterable[tuple[Any, int]]) -> Before:
    """Set the number of threads of each library; returns what it was."""
    before = []
    for library, threads in wanted:
        # Since its version 3.8, threadpoolctl lets one thread at a time change a setting of the whole process. Here,
        # the first to come and the last to leave do, whoever they are, and nobody stays in charge.
        release = getattr(library, "clear_controlling_thread", _nothing)
        release(force=True)
        before.append((library, library.get_num_threads()))
        library.set_num_threads(threads)
        release(force=True)
    return before


def _nothing(*, force: bool) -> None:
    """Older versions have nobody in charge."""


@cache
def _libraries() -> tuple[list[Any], list[Any]]:
    """Those with one setting for the process, and those with one for each thread."""
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # it has no types

    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    own = [
        library for library in libraries if library.internal_api == "openblas" and library.threading_layer == "openmp"
    ]
    return [library for library in libraries if library not in own], own
