"""Matrix products that round alike whatever the number of cores.

A library of matrix products that shares one product among threads cuts it into other shapes, and so rounds
differently with the number of threads. Where bits must agree, every product is done by one thread; several of them may
be done at once, by threads of our own.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

__all__ = ["one_thread_a_product"]

_lock = threading.Lock()
_inside = 0
_limited: Any = None


@contextmanager
def one_thread_a_product() -> Iterator[None]:
    """While anybody is inside, products of matrices anywhere in the process are done by one thread each."""
    global _inside, _limited  # the setting is the process's own, and so is the count
    with _lock:
        if _inside == 0:
            _limited = _controller().limit(limits=1, user_api="blas")
            _limited.__enter__()
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _limited.__exit__(None, None, None)
                _limited = None


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # it has no types

    return ThreadpoolController()
