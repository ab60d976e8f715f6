"""Tables with declared columns: hospitals and census rows."""

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest

from chance import public_coins
from likeset.errors import BadTable, InvalidArgument
from studies.data.adult import LEFT_OUT, adult_market
from studies.data.columns import Choice, Number, encode_columns, random_rows, read_table
from studies.data.heart import HOSPITALS, heart_market

Table = list[dict[str, str]]


def write(path: Path, rows: Table) -> str:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return str(path)


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


def heart_rows(coins: np.random.Generator) -> Table:
    return [
        {
            "hospital": hospital,
            "age": str(float(coins.integers(30, 75))),
            "sex": "1.0",
            "cp": "4.0",
            "trestbps": "",
            "chol": "0",
            "fbs": "0.0",
            "restecg": "2.0",
            "thalach": "140.0",
            "exang": "",
            "oldpeak": "1.5",
            "slope": "",
            "ca": "",
            "thal": "3.0",
            "num": "2",
            "disease": str(coins.integers(2)),
        }
        for hospital in HOSPITALS
        for _ in range(20)
    ]


@pytest.mark.parametrize("hospital", HOSPITALS)
def test_one_hospital_is_left_out(tmp_path: Path, hospital: str) -> None:
    place = write(tmp_path / "heart.csv", heart_rows(public_coins(0)))
    market = heart_market(place, hospital, 0, None)
    assert set(market.owners) == set(HOSPITALS) - {hospital}
    assert (len(market.target), len(market.test), len(market.pool)) == (10, 10, 60)


def test_census_owners_are_classes_with_enough_rows(tmp_path: Path) -> None:
    """100 rows of each of four classes and 5 of a fifth, too small to be an owner; the target is half of 100."""
    coins = public_coins(0)
    classes = ["Private", "Local-gov", "State-gov", "Federal-gov"] * 100 + ["Without-pay"] * 5
    rows = [
        {
            "age": str(coins.integers(17, 90)),
            "workclass": work,
            "fnlwgt": "1",
            "education": "x",
            "education_num": "9",
            "marital_status": "Divorced",
            "occupation": "",
            "relationship": "Wife",
            "race": "Other",
            "sex": "Female",
            "capital_gain": "0",
            "capital_loss": "0",
            "hours_per_week": "40",
            "native_country": "",
            "income": "<=50K" if coins.random() < 0.5 else ">50K",
            "split": "train",
        }
        for work in classes
    ]
    place = write(tmp_path / "adult.csv", rows)
    market = adult_market(place, "workclass", 0, 30)
    assert set(market.owners) == {"Private", "Local-gov", "State-gov"}
    assert {len(one) for one in market.owners.values()} == {30}
    assert (len(market.target), len(market.test)) == (50, 50)
    with pytest.raises(BadTable, match="native_country"):
        adult_market(place, next(by for by in LEFT_OUT if by != "workclass"), 0, 30)
