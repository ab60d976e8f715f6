"""What a run is planned from: the consumer's rows, public ones, and names."""

from dataclasses import dataclass
from typing import Any, Self

from numpy.typing import ArrayLike

from likeset.arguments import Rows
from likeset.tables.records import DeclaredRecords
from likeset.tables.schema import Schema

__all__ = ["Inputs"]

_LARGEST_FEATURE = 1e6  # the largest weight that a column may have


@dataclass(frozen=True, eq=False, kw_only=True)
class Inputs:
    """All that a plan may know; nothing of it is a row of an owner.

    Attributes:
        target: the consumer's rows.
        owners: names that may stand in records and messages.
        public_rows: rows that anybody may see; they give the width of the release's kernel.
        seed_rows: public rows that start the summary of ``interactive``.
        largest_squared_norm: of all rows, as far as it is known.
        largest_squared_distance: of any row from the target's middle; None where a schema bounds it.
        rows_per_unit: at most so many rows of one unit of privacy take part.
        id_column: the column that says which rows belong to one unit; empty where none does.
        run: the run's name.
        column_names: of what leaves an owner; empty for bare arrays.
        schema_digest: of the schema that declares the columns; empty for bare arrays.
        declared: that schema; None for bare arrays.
        consumer: the consumer's name.
        purpose: what the summary is for, in words.
    """

    target: Rows
    owners: tuple[str, ...]
    public_rows: Rows | None
    seed_rows: ArrayLike | None
    largest_squared_norm: float
    largest_squared_distance: float | None = None
    rows_per_unit: int
    id_column: str = ""
    run: str
    column_names: tuple[str, ...] = ()
    schema_digest: str = ""
    declared: DeclaredRecords | None = None
    consumer: str = "consumer"
    purpose: str = "a matched training set"

    @classmethod
    def declared_by(cls, schema: Schema, **others: Any) -> Self:
        """Inputs whose columns a schema declares; ``others`` are the fields that it says nothing about."""
        return cls(
            largest_squared_norm=_LARGEST_FEATURE**2 * schema.width,
            rows_per_unit=schema.rows_per_unit,
            id_column=schema.id_column or "",
            column_names=schema.record_columns,
            schema_digest=schema.digest,
            declared=DeclaredRecords(schema),
            **others,
        )
