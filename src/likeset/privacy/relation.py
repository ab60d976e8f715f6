"""Neighbouring data, and how far a bounded quantity can move between neighbours.

A sensitivity is never a number that somebody passes along: it is asked of the quantity. A quantity says under which
relation it is bounded, and there is no bound under another: the rows of a mean with a public number of rows do not
become protected under add-or-remove by being priced so. Nothing here has a default.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

from likeset.arguments import count, positive
from likeset.errors import InvalidArgument

__all__ = ["ROW", "InRange", "Norm", "PairSplit", "PrivacyUnit", "Quantity", "Relation", "RowSum", "SelectionSum"]


class Relation(StrEnum):
    """When two data sets count as neighbours."""

    REPLACE_ONE = "replace-one"
    """One unit's rows are replaced by others; the number of rows is public."""

    ADD_OR_REMOVE = "add-or-remove"
    """One unit's rows are added or removed; a declared public size takes the place of the number of rows."""


@dataclass(frozen=True, slots=True)
class PrivacyUnit:
    """Whose rows differ between neighbours.

    Args:
        rows: how many rows of one unit take part, at most.
        column: the column of ids that says which rows belong together; empty for single rows, and for groups of rows
            that no column names.
    """

    rows: int
    column: str

    def __post_init__(self) -> None:
        count("rows", self.rows)
        if not isinstance(self.column, str):
            raise InvalidArgument("column", type(self.column).__name__, "must be text")

    def __str__(self) -> str:
        """Equal for units whose prices add up: ids of one column have one, however many of their rows take part."""
        if self.column:
            return f"id in column {self.column!r}"
        return "row" if self.rows == 1 else f"group of {self.rows} rows"


ROW = PrivacyUnit(1, "")
"""A row by itself."""


class Norm(StrEnum):
    """In which norm a row's contribution is bounded, and hence which noise the bound is good for."""

    EUCLIDEAN = "euclidean"
    """The whole vector: what Gaussian noise on all coordinates needs."""

    COORDINATE = "coordinate"
    """Each coordinate by itself: what a noisy choice of a coordinate, or noise on a single one, needs."""


@dataclass(frozen=True, slots=True)
class RowSum:
    """A sum over rows, each of which contributes a vector of norm at most ``radius``.

    Args:
        norm: the norm in which a contribution is bounded.
        radius: the bound.
        unit: of privacy; it can change as many of the summed rows as it has.
        relation: what neighbouring data are.
    """

    norm: Norm
    radius: float
    unit: PrivacyUnit
    relation: Relation

    def __post_init__(self) -> None:
        if not isinstance(self.norm, Norm):
            raise InvalidArgument("norm", repr(self.norm), "must be a Norm")
        if not isinstance(self.relation, Relation):
            raise InvalidArgument("relation", repr(self.relation), "must be a Relation")
        if not isinstance(self.unit, PrivacyUnit):
            raise InvalidArgument("unit", repr(self.unit), "must be a PrivacyUnit")
        positive("radius", self.radius)

    @property
    def rows(self) -> int:
        """How many of the summed rows one unit can change."""
        return self.unit.rows

    @property
    def sensitivity(self) -> float:
        """The largest distance between the sums of two neighbours.

        A removed row takes at most ``radius`` with it; a replaced one moves from one end of a diameter to the
        other.
        """
        match self.relation:
            case Relation.ADD_OR_REMOVE:
                return self.rows * self.radius
            case Relation.REPLACE_ONE:
                return 2.0 * self.rows * self.radius


@dataclass(frozen=True, slots=True)
class SelectionSum:
    """A sum over a fixed number of rows that were *selected* from the protected ones.

    Adding a row to what is selected from does not add a row to the selection: it puts other rows in the place of
    some. And replacing one is removing it and adding another, so it can change twice as many.

    Args:
        norm: the norm in which a contribution is bounded.
        radius: the bound.
        unit: of privacy. For each of its rows that is added or removed one selected row gives way to another; proven
            for the way of selecting (docs/proofs/summary-stream.md: every owner is asked in every round, and rows that
            were sent are kept).
        relation: what neighbouring data are.
    """

    norm: Norm
    radius: float
    unit: PrivacyUnit
    relation: Relation

    def __post_init__(self) -> None:
        RowSum(norm=self.norm, radius=self.radius, unit=self.unit, relation=self.relation)

    @property
    def rows(self) -> int:
        """How many of the selected rows give way, at most, when one unit is added or removed."""
        return self.unit.rows

    @property
    def sensitivity(self) -> float:
        """The largest distance between the sums of two neighbours: a diameter for each row that gives way."""
        match self.relation:
            case Relation.ADD_OR_REMOVE:
                return 2.0 * self.rows * self.radius
            case Relation.REPLACE_ONE:
                return 4.0 * self.rows * self.radius


@dataclass(frozen=True, slots=True)
class PairSplit:
    """How evenly a candidate splits disjoint pairs of rows: the pairs below it less those above, without the sign.

    There is a bound under replace-one only (docs/proofs/width-choice.md): a row more would pair others anew.

    Args:
        unit: of privacy; each of its rows is in one pair at most.
    """

    unit: PrivacyUnit

    def __post_init__(self) -> None:
        if not isinstance(self.unit, PrivacyUnit):
            raise InvalidArgument("unit", repr(self.unit), "must be a PrivacyUnit")

    @property
    def rows(self) -> int:
        """How many rows one unit can change."""
        return self.unit.rows

    @property
    def norm(self) -> Norm:
        """A candidate's score is a coordinate by itself."""
        return Norm.COORDINATE

    @property
    def relation(self) -> Relation:
        """The one under which there is a proof."""
        return Relation.REPLACE_ONE

    @property
    def sensitivity(self) -> float:
        """A pair that passes from one side to the other counts twice."""
        return 2.0 * self.rows


@dataclass(frozen=True, slots=True)
class InRange:
    """One number that lies between two public bounds whatever the data are (a share lies in [0, 1])."""

    lower: float
    upper: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.lower) and math.isfinite(self.upper) and self.lower < self.upper):
            raise InvalidArgument("upper", self.upper, f"must be finite and above lower = {self.lower}")

    @property
    def norm(self) -> Norm:
        """A single number is a coordinate by itself."""
        return Norm.COORDINATE

    @property
    def relation(self) -> None:
        """Any two data sets may be compared: the bound holds under every relation."""
        return None

    @property
    def unit(self) -> None:
        """The bound holds however many rows change."""
        return None

    @property
    def sensitivity(self) -> float:
        """The width of the range: nothing more is known."""
        return self.upper - self.lower


Quantity = RowSum | SelectionSum | PairSplit | InRange
"""Everything that noise may be added to."""
