"""The rows of each id that take part, where a schema says ``keep``: found while all rows of a table go by once."""

from typing import Self

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from likeset.errors import InvalidArgument
from likeset.privacy.kept_rows import KeptRows, digests_of_ids
from likeset.tables.cells import MissingWords, plain_array
from likeset.tables.rows_per_id import written_ids
from likeset.tables.schema import Schema
from likeset.tables.sources.row_blocks import checked_columns
from likeset.tables.sources.source import Block, Source

__all__ = ["KeptRowsOfIds"]


class KeptRowsOfIds:
    """Draws the rows of each id while blocks go by.

    Ids are those of ``rows_per_id``: without blanks around them, and rows without one are taken for one person's.

    Args:
        source: where the rows lie.
        column: the ids.
        keep: rows of each.
        key: the secret that decides which.
        missing: words that mean that there is none.
    """

    def __init__(self, source: Source, column: str, *, keep: int, key: int, missing: MissingWords) -> None:
        checked_columns([column], source.schema, table=source.name)
        self.columns = (column,)
        self._table = source.name
        self._key = key
        self._missing = missing
        self._kept = KeptRows(keep)

    @classmethod
    def of(cls, source: Source, schema: Schema, *, key: int | None) -> Self | None:
        """For the ids of which a schema keeps a few rows; None if it keeps all.

        Raises:
            InvalidArgument: there is no key to draw them by: no row may pass by unseen.
        """
        if schema.id_column is None or schema.keep is None:
            return None
        if key is None:
            raise InvalidArgument("keep_key", "none", "must be given where the schema keeps some rows of each id only")
        missing = MissingWords.of(schema.declaration.missing_words)
        return cls(source, schema.id_column, keep=schema.keep, key=key, missing=missing)

    def add(self, block: Block) -> None:
        """The next rows."""
        (column,) = self.columns
        encoded = written_ids(block.table.column(column), self._missing, table=self._table, column=column)
        encoded = plain_array(encoded.dictionary_encode())
        digests = digests_of_ids((name.encode() for name in encoded.dictionary.to_pylist()), key=self._key)
        places = pc.fill_null(encoded.indices, len(digests)).to_numpy(zero_copy_only=False)
        self._kept.add(np.concatenate([digests, digests_of_ids([None], key=self._key)])[places], block.first_row)

    def row_numbers(self) -> NDArray[np.int64]:
        """Of the rows that take part, rising."""
        return self._kept.row_numbers()
