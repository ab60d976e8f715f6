"""What the maps of all kinds of columns share: what can be wrong with a cell, and how far apart things lie."""

import math
from enum import StrEnum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from likeset.tables.schema.cell_values import Mask

__all__ = ["ABSENT", "APART", "CHUNK", "MIDDLE", "Encoder", "Trouble", "Troubles", "troubles_in"]

MIDDLE = 0.5
ABSENT = math.sqrt(0.75)  # with the middle as value: one unit from both ends
APART = math.sqrt(0.5)  # two entries of this size are one unit apart
CHUNK = 1 << 20  # entries of wide columns that are worked on at once


class Trouble(StrEnum):
    """What can be wrong with a cell."""

    MISSING = "missing"
    OUTSIDE = "out of range"
    UNKNOWN = "unknown"
    WRONG = "wrong type"


Troubles = dict[Trouble, Mask]
"""Which rows have which trouble; a trouble that no row has is not there."""


class Encoder(Protocol):
    """The fixed map of one column."""

    name: str
    features: tuple[str, ...]

    def encode(self, column: Any, out: NDArray[np.float32]) -> Troubles:
        """Write the features of every cell into ``out``, which holds zeros; rows with trouble get any value."""

    def sound(self, column: Any) -> bool:
        """Whether there is surely no trouble in any cell, found out by less work than encoding; False if unsure."""

    def unit(self) -> str:
        """What one unit of distance means, in words."""

    def complaint(self, trouble: Trouble) -> str | None:
        """What to say about a trouble of this column; None if it is allowed."""


def troubles_in(**masks: Mask | None) -> Troubles:
    """Only the troubles that some row has."""
    return {Trouble[name.upper()]: mask for name, mask in masks.items() if mask is not None and mask.any()}
