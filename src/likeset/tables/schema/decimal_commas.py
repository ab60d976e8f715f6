"""Numbers that are written with a decimal comma: recognised everywhere, read nowhere.

A comma means a decimal sign in one country and thousands in another, and a file does not say which. So no number is
read from such a text: whoever holds the file decides, and puts points there.
"""

from collections.abc import Mapping
from typing import Any, overload

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["CommaWatch", "as_points", "remedy"]

_WITH_COMMA = r"^[+-]?([0-9]+|[0-9]{1,3}(\.[0-9]{3})+)(,[0-9]+)?([eE][+-]?[0-9]+)?$"


def remedy(columns: Mapping[str, bool]) -> str:
    """What whoever holds a file can do about its columns with decimal commas, in one query for all of them.

    Args:
        columns: by their names, whether a point stands between thousands in them.
    """
    rows = "FROM read_csv('FILE', all_varchar=true)"
    if any(columns.values()):
        parts = ", ".join(_with_points(name, thousands=thousands) for name, thousands in columns.items())
        return f"write decimal points, or give sql:SELECT * REPLACE ({parts}) {rows} in place of the file"
    query = f"\"sql:SELECT replace(COLUMNS(*), ',', '.') {rows}\""
    return f"write decimal points, or give {query} in place of the file (commas in words become points, too)"


def _with_points(column: str, *, thousands: bool) -> str:
    name = '"' + column.replace('"', '""') + '"'
    digits = f"replace({name}, '.', '')" if thousands else name
    return f"replace({digits}, ',', '.') AS {name}"


@overload
def as_points(texts: str) -> str: ...
@overload
def as_points(texts: Any) -> Any: ...
def as_points(texts: Any) -> Any:
    """The same numbers with a point, and without signs between thousands."""
    if isinstance(texts, str):
        return texts.replace(".", "").replace(",", ".")
    return pc.replace_substring(pc.replace_substring(texts, ".", ""), ",", ".")


class CommaWatch:
    """Whether all texts of a column, as they go by, are numbers with decimal commas."""

    def __init__(self) -> None:
        self._possible, self._some, self._thousands = True, False, False

    def add(self, texts: Any) -> None:
        """The next texts, without blanks around them; null where there is none."""
        if not self._possible:
            return
        different = pc.unique(texts.drop_null()).cast(pa.large_string())
        if len(different):
            self._possible = bool(pc.all(pc.match_substring_regex(different, _WITH_COMMA)).as_py())
            self._some |= bool(pc.any(pc.match_substring(different, ",")).as_py())
            self._thousands |= bool(pc.any(pc.match_substring(different, ".")).as_py())

    @property
    def has_commas(self) -> bool:
        """Whether it looks so."""
        return self._possible and self._some

    @property
    def has_thousands(self) -> bool:
        """Whether points stand between thousands, too."""
        return self.has_commas and self._thousands
