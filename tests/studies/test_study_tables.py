"""Tables with declared columns: hospitals and census rows."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from chance import public_coins
from likeset.errors import BadTable, InvalidArgument
from studies.data.columns import Choice, Number, encode_columns, random_rows, read_table


@pytest.mark.parametrize(
    ("content", "word"),
    [(b"", "exactly the columns"), (b"a,b\n", "no rows"), (b"a,b\n1,2\n3\n", "line 3"), (b"\xff\xfe\0", "text")],
)
def test_files_that_are_no_table_are_named(tmp_path: Path, content: bytes, word: str) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    with pytest.raises(BadTable, match=word):
        read_table(str(path), ("a", "b"))
    (tmp_path / "table.csv.gz").write_bytes(content or b"x")
    with pytest.raises(BadTable, match="read"):
        read_table(str(tmp_path / "table.csv.gz"), ("a", "b"))
    with pytest.raises(InvalidArgument, match="--data"):
        read_table(str(tmp_path / "none.csv"), ("a", "b"))


def test_columns_become_numbers_by_what_was_declared(tmp_path: Path) -> None:
    """Bounds 10 to 20: 15 is the middle, 30 is cut to 1, missing is the middle with a mark; categories lie 1 apart."""
    path = tmp_path / "table.csv.gz"
    path.write_bytes(gzip.compress(b"n,c\n15,x\n30,y\nNA,\n0,x\n"))
    columns = (Number("n", 10.0, 20.0, zero_is_missing=True), Choice("c", ("x", "y")))
    half = np.sqrt(0.5)
    rows = encode_columns(read_table(str(path), ("n", "c")), columns)
    np.testing.assert_allclose(rows, [[0.5, 0, half, 0], [1, 0, 0, half], [0.5, 1, 0, 0], [0.5, 1, half, 0]], rtol=1e-6)
    drawn = random_rows(columns, 200, public_coins(0))
    assert drawn.shape == (200, 4)
    np.testing.assert_allclose((drawn[:, 2:] ** 2).sum(axis=1), 0.5, rtol=1e-6)
