"""Public rows that a curator knows, from which the summary of ``interactive`` may start; the terms name them by digest.

They are kept as the schemas map them, each table under the digest of its rows.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from likeset.arguments import Rows
from likeset.errors import BadTable, InvalidArgument, NotCurated
from likeset.files import PRIVATE_FOLDER, keep_private
from likeset.protocol.term_parts import digest_of_rows
from likeset.tables.scan.source_scan import SourceScan
from likeset.tables.schema import Schema
from likeset.tables.sources.source import open_source

__all__ = ["PublicRows"]

_MOST_ROWS = 1_000_000


@dataclass(frozen=True, slots=True)
class PublicRows:
    """A folder of public rows.

    Args:
        folder: where it is, or will be.
    """

    folder: Path

    def add(self, place: str, schemas: Iterable[Schema]) -> tuple[str, ...]:
        """Know the rows of a table, as each of these schemas that fits maps them; returns their digests.

        Raises:
            InvalidArgument: none of the schemas fits.
        """
        digests, reason = [], "there is no schema"
        for schema in schemas:
            try:
                rows = _mapped(place, schema)
            except BadTable as error:
                reason = str(error)
                continue
            digests.append(self._keep(rows))
        if not digests:
            raise InvalidArgument("--seed-rows", place, f"fits none of the schemas that are known here: {reason}")
        return tuple(digests)

    def get(self, digest: str) -> Rows:
        """The rows of this digest.

        Raises:
            NotCurated: they are not here, or not what they were.
        """
        path = self.folder / f"{digest}.npy"
        try:
            rows: Rows = np.load(path, allow_pickle=False)
        except FileNotFoundError:
            raise NotCurated(
                f"the curator does not have the public seed rows {digest[:12]} that the terms name"
            ) from None
        except (OSError, ValueError):
            raise NotCurated(f"the curator cannot read the public seed rows {digest[:12]}") from None
        if rows.ndim != 2 or digest_of_rows(rows) != digest:
            raise NotCurated(f"the curator's public seed rows {digest[:12]} are not what they were")
        return rows

    def _keep(self, rows: Rows) -> str:
        digest = digest_of_rows(rows)
        self.folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)

        def write(path: Path) -> None:
            with path.open("wb") as file:
                np.save(file, rows)

        keep_private(self.folder / f"{digest}.npy", write)
        return digest


def _mapped(place: str, schema: Schema) -> Rows:
    with open_source(place) as source:
        if not 0 < source.row_count <= _MOST_ROWS:
            raise BadTable(source.name, f"must have from 1 to {_MOST_ROWS:,} rows")
        return np.concatenate([block.rows for _, block in SourceScan(source, schema, labelled=False).blocks()])
