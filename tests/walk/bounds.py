"""What must hold of the walks, and what is aimed at.

A figure may not be above its bound. When a change brings a figure down, ``make walk`` says so: lower the bound here,
in its one line, until it is what is wanted.
"""

from dataclasses import dataclass

__all__ = ["AIMS", "BOUNDS", "Aim", "Bound"]


@dataclass(frozen=True)
class Bound:
    """The most that a count may come to, on whichever of the walks it is largest.

    Attributes:
        walk: the walks whose names begin so.
        count: of what.
        at_most: the test fails above it.
        wanted: where it is to come to.
    """

    walk: str
    count: str
    at_most: int
    wanted: int


@dataclass(frozen=True)
class Aim:
    """What is told and not asserted.

    Attributes:
        walk: the walks whose names begin so; ``source`` for the source itself.
        count: of what.
        aim: where it is to come to.
    """

    walk: str
    count: str
    aim: int


BOUNDS = (
    Bound("match", "plans", at_most=1, wanted=1),
    Bound("match", "terms", at_most=1, wanted=1),
    Bound("match", "passes over csv", at_most=2, wanted=2),
    Bound("match", "passes over parquet", at_most=2, wanted=2),
    Bound("answer", "encodings", at_most=1, wanted=1),
    Bound("answer", "records of rows", at_most=1, wanted=1),
    Bound("answer", "write transactions", at_most=5, wanted=5),
)

AIMS = (
    Aim("match", "modules", 55),
    Aim("answer", "modules", 35),
    Aim("source", "lines", 26_000),
    Aim("source", "modules over 400 lines", 0),
    Aim("source", "functions over 50 lines", 0),
)
