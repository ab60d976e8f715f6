"""Get a training set that looks like your target, from data owners who do not see each other's rows."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from likeset import errors
    from likeset.app.file_matching import match
    from likeset.geometry.greedy import exact_greedy
    from likeset.geometry.kernels import squared_mmd
    from likeset.protocol.notices import LikesetWarning
    from likeset.protocol.terms import Interactive, Terms
    from likeset.run.evaluate import evaluate
    from likeset.summarizer import Summarizer
    from likeset.tables.schema import Schema

__version__ = "0.1.0"
__all__ = [
    "Interactive",
    "LikesetWarning",
    "Schema",
    "Summarizer",
    "Terms",
    "errors",
    "evaluate",
    "exact_greedy",
    "match",
    "squared_mmd",
]

_HOMES = {
    "Interactive": "likeset.protocol.terms",
    "LikesetWarning": "likeset.protocol.notices",
    "Schema": "likeset.tables.schema",
    "Summarizer": "likeset.summarizer",
    "Terms": "likeset.protocol.terms",
    "evaluate": "likeset.run.evaluate",
    "exact_greedy": "likeset.geometry.greedy",
    "match": "likeset.app.file_matching",
    "squared_mmd": "likeset.geometry.kernels",
}


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


def __getattr__(name: str) -> Any:
    # Load a public name when it is first used: the command line would wait two seconds for what it may not need.
    if name == "errors":
        return import_module("likeset.errors")
    if name not in _HOMES:
        raise AttributeError(f"module 'likeset' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
