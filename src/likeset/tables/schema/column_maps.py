"""Columns as numbers: each kind of column has a fixed map that is made from its declaration alone.

Every step is exact or correctly rounded (sums and differences, products, quotients, square roots), one cell at a time,
and the result is rounded once, to 32 bits: so the same cell has the same bytes at every owner, on every machine, in
blocks of any size.
"""

from typing import Any

from likeset.tables.schema.cell_faults import Encoder
from likeset.tables.schema.cell_values import MissingWords
from likeset.tables.schema.columns import (
    BooleanColumn,
    CategoryColumn,
    DateColumn,
    ImageColumn,
    NumericColumn,
    OrdinalColumn,
    TextColumn,
    VectorColumn,
)
from likeset.tables.schema.scalar_maps import BooleanMap, CategoryMap, DateMap, NumericMap, OrdinalMap
from likeset.tables.schema.vector_maps import TextMap, VectorMap

__all__ = ["encoder_for"]


def encoder_for(name: str, declared: Any, missing: MissingWords) -> Encoder:
    """The fixed map of a declared column."""
    kinds: dict[type, type] = {
        NumericColumn: NumericMap,
        BooleanColumn: BooleanMap,
        CategoryColumn: CategoryMap,
        OrdinalColumn: OrdinalMap,
        DateColumn: DateMap,
        TextColumn: TextMap,
        VectorColumn: VectorMap,
        ImageColumn: VectorMap,
    }
    made: Encoder = kinds[type(declared)](name, declared, missing)
    return made
