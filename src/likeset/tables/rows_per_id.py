"""The unit of privacy: how many rows one id has at most, and which rows of each id take part."""

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from likeset.errors import BadTable, InvalidArgument
from likeset.privacy.kept_rows import KeptRows, digests_of_ids
from likeset.tables.cells import MissingWords, is_text, plain_array
from likeset.tables.schema import Schema
from likeset.tables.sources import Block, Source, checked_columns

if TYPE_CHECKING:
    import duckdb

_FEW_ROWS = 1_000_000


def check_ids(source: Source, schema: Schema) -> None:
    """One reading of the ids, and ``check_most_rows`` with what it told."""
    ids = IdCount.of(source, schema)
    if ids is not None:
        with ids:
            for block in source.blocks(ids.columns):
                ids.add(block)
            check_most_rows(ids.most_rows(), source, schema)


def check_most_rows(most: int, source: Source, schema: Schema, *, whose: str = "it") -> None:
    """What is promised to a person with several rows holds only if nobody has more of them than declared.

    Nobody has more than ``most`` rows; ``whose`` these are, in words.
    """
    allowed = schema.most_rows_per_id
    if schema.id_column is not None and allowed is not None and most > allowed:
        raise BadTable(
            source.name,
            f"{whose} has {most} rows of one id, or without one, where the schema declares at most {allowed}; raise "
            "rows_per_id, or declare keep in its place: so many rows of each id, drawn in secret, then take part",
            column=schema.id_column,
        )


class IdCount:
    """The largest number of rows that share an id, of all rows that went by; many ids are put on disk.

    Blanks around an id do not count. Rows without an id are taken for one person's: they could be.
    """

    def __init__(self, source: Source, column: str, *, missing: Sequence[str]) -> None:
        checked_columns([column], source.schema, table=source.name)
        self.columns = (column,)
        self._absent = MissingWords.of(missing)
        self._kind = plain_ids(pa.array([], source.schema.field(column).type), self._absent.words).type
        self._pieces: list[pa.Array] = []
        self._held = 0
        self._database: duckdb.DuckDBPyConnection | None = None
        self._open = ExitStack()

    @classmethod
    def of(cls, source: Source, schema: Schema) -> Self | None:
        """For the ids that a schema declares; None if it declares none, or lets them have any number of rows."""
        if schema.id_column is None or schema.most_rows_per_id is None:
            return None
        return cls(source, schema.id_column, missing=schema.declaration.missing_words)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def add(self, block: Block) -> None:
        chunks = block.table.column(self.columns[0]).chunks
        self._pieces += [plain_ids(chunk, self._absent.words) for chunk in chunks]
        self._held += len(block)
        if self._held > _FEW_ROWS:
            self._put_away()

    def most_rows(self) -> int:
        if self._database is None:
            ids = pa.chunked_array(self._pieces, self._kind)
            try:
                return int(pc.max(pc.value_counts(ids).field("counts")).as_py() or 1)
            except pa.ArrowNotImplementedError:
                pass
        query = "SELECT max(n) FROM (SELECT count(*) AS n FROM ids GROUP BY id)"
        most = self._put_away().execute(query).fetchone()
        return int(most[0]) if most and most[0] is not None else 1

    def _put_away(self) -> "duckdb.DuckDBPyConnection":
        import duckdb  # late: few tables have so many ids

        held = pa.table({"id": pa.chunked_array(self._pieces, self._kind)})
        if self._database is None:
            folder = Path(self._open.enter_context(tempfile.TemporaryDirectory()))
            database = duckdb.connect(str(folder / "ids.duckdb"), config={"memory_limit": "512MB"})
            self._database = self._open.enter_context(database)
            self._database.register("held", held)
            self._database.execute("CREATE TABLE ids AS SELECT id FROM held")
        else:
            self._database.register("held", held)
            self._database.execute("INSERT INTO ids SELECT id FROM held")
        self._database.unregister("held")
        self._pieces, self._held = [], 0
        return self._database


class KeptRowsOfIds:
    """Draws the rows of each id while blocks go by.

    Ids are those of ``rows_per_id``: without blanks around them, and rows without one are taken for one person's.
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
        if schema.id_column is None or schema.keep is None:
            return None
        if key is None:
            raise InvalidArgument("keep_key", "none", "must be given where the schema keeps some rows of each id only")
        missing = MissingWords.of(schema.declaration.missing_words)
        return cls(source, schema.id_column, keep=schema.keep, key=key, missing=missing)

    def add(self, block: Block) -> None:
        (column,) = self.columns
        encoded = written_ids(block.table.column(column), self._missing, table=self._table, column=column)
        encoded = plain_array(encoded.dictionary_encode())
        digests = digests_of_ids((name.encode() for name in encoded.dictionary.to_pylist()), key=self._key)
        places = pc.fill_null(encoded.indices, len(digests)).to_numpy(zero_copy_only=False)
        self._kept.add(np.concatenate([digests, digests_of_ids([None], key=self._key)])[places], block.first_row)

    def row_numbers(self) -> NDArray[np.int64]:
        return self._kept.row_numbers()


def written_ids(ids: pa.ChunkedArray, missing: MissingWords, *, table: str, column: str) -> pa.ChunkedArray:
    """Ids as text, null where there is none; ``BadTable`` where they cannot be written as text."""
    try:
        written = [plain_ids(chunk, missing.words).cast(pa.string()) for chunk in ids.chunks]
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise BadTable(table, "ids must be text or numbers", column=column) from error
    return pa.chunked_array(written, pa.string())


def rows_of_each_id(written: pa.ChunkedArray) -> NDArray[np.int64]:
    """How many rows each id has, in no order; those without one are taken for one person's."""
    return np.asarray(pc.value_counts(written).field("counts"), dtype=np.int64)


def plain_ids(ids: Any, missing: Any) -> Any:
    """Text without blanks around it, and null where it says that there is none; anything else as it is."""
    if pa.types.is_dictionary(ids.type):
        ids = ids.dictionary_decode()
    if pa.types.is_string_view(ids.type):
        ids = ids.cast(pa.string())
    if not is_text(ids.type):
        return ids
    trimmed = pc.utf8_trim_whitespace(ids)
    return pc.if_else(pc.is_in(trimmed, value_set=missing.cast(ids.type)), pa.scalar(None, ids.type), trimmed)
