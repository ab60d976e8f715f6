"""Tables with declared columns: hospitals, census rows, and a file in the layout of Kaggle's Allstate competition."""

import csv
import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from chance import public_coins
from likeset.errors import BadTable, InvalidArgument
from studies.allstate import STUDY as ALLSTATE
from studies.contract import Options
from studies.data.adult import LEFT_OUT, adult_market
from studies.data.allstate import COLUMNS, PRODUCTS, allstate_market
from studies.data.columns import Choice, Number, encode_columns, random_rows, read_table
from studies.data.heart import HOSPITALS, heart_digest, heart_market
from studies.runner import run_study

Table = list[dict[str, str]]


def write(path: Path, rows: Table) -> str:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return str(path)


def allstate_rows(coins: np.random.Generator, *, florida: int = 400, connecticut: int = 200, ohio: int = 200) -> Table:
    """Customers with one to five quotes each; car_value, risk_factor, C_previous, duration_previous may be missing."""
    rows: Table = []
    states = ["FL"] * florida + ["CT"] * connecticut + ["OH"] * ohio + ["NY"] * 50
    for customer, state in enumerate(states):
        quotes = int(coins.integers(1, 6))
        known = {
            "group_size": str(coins.integers(1, 5)),
            "homeowner": str(coins.integers(2)),
            "car_age": str(coins.integers(0, 40)),
            "car_value": "" if coins.random() < 0.05 else "abcdefghi"[coins.integers(9)],
            "risk_factor": "NA" if coins.random() < 0.35 else str(coins.integers(1, 5)),
            "age_oldest": str(coins.integers(18, 76)),
            "age_youngest": str(coins.integers(16, 76)),
            "married_couple": str(coins.integers(2)),
            "C_previous": "NA" if coins.random() < 0.1 else str(coins.integers(1, 5)),
            "duration_previous": "NA" if coins.random() < 0.1 else str(coins.integers(16)),
        }
        rows += [
            {
                "customer_ID": str(10_000_000 + customer),
                "shopping_pt": str(point),
                "record_type": str(int(point == quotes)),
                "day": str(coins.integers(7)),
                "time": f"{coins.integers(24):02d}:{coins.integers(60):02d}",
                "state": state,
                "location": str(coins.integers(10_001, 16_000)),
                **known,
                **{product: options[coins.integers(len(options))] for product, options in PRODUCTS.items()},
                "cost": str(coins.integers(260, 900)),
            }
            for point in range(1, quotes + 1)
        ]
    order = coins.permutation(len(rows))  # a file that somebody sorted otherwise is the same file
    return [{name: rows[place][name] for name in COLUMNS} for place in order]


def test_the_papers_split_of_the_states(tmp_path: Path) -> None:
    """Florida: 400, 100 for each owner; 70% of 200 of Connecticut, 140, to the first; of 60 left 15 are the target."""
    rows = allstate_rows(public_coins(0))
    market = allstate_market(write(tmp_path / "train.csv", rows), "states", 0, None)
    assert [len(one) for one in market.owners.values()] == [240, 100, 100, 100]
    assert (len(market.target), len(market.test)) == (15, 45)
    assert market.public is not None
    assert len(market.public) == 150
    assert set(market.more_labels) == set("ABCDEFG")
    assert all(len(pool) == 540 and len(test) == 45 for pool, test in market.more_labels.values())
    np.testing.assert_array_equal(market.more_labels["A"][0], market.pool_labels)
    assert market.pool.min() >= 0.0
    assert market.pool.max() <= 1.0
    assert np.isfinite(market.pool).all()


def test_the_last_record_of_each_customer_counts(tmp_path: Path) -> None:
    """All records but the last get A = 2, the last A = 1: then only 1 (the second option) is left."""
    rows = allstate_rows(public_coins(1))
    for row in rows:
        row["A"] = "1" if row["record_type"] == "1" else "2"
    market = allstate_market(write(tmp_path / "train.csv", rows), "states", 0, None)
    assert set(market.pool_labels.tolist()) == {1}
    assert len(market.pool) + len(market.target) + len(market.test) == 600


def test_the_study_of_that_file_judges_all_seven_products(tmp_path: Path) -> None:
    place = write(tmp_path / "train.csv", allstate_rows(public_coins(3)))
    options = Options(data=place, seeds=1, sizes=(20,), methods=("exact", "sealed", "uniform"))
    lines = run_study(ALLSTATE, options, out=tmp_path / "out", workers=0)
    assert [line.failure for line in lines if not line.done] == []
    for line in lines:
        each = line.results["svm_each"]
        assert set(each) == set("ABCDEFG")
        assert line.results["svm"] == pytest.approx(np.mean(list(each.values())), abs=1e-4)
    assert place not in (tmp_path / "out" / "cells.jsonl").read_text(encoding="utf-8")
    assert len(ALLSTATE.present(lines, tmp_path / "out").figures) == 3


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda rows: [row.pop("cost") for row in rows], ("exactly the columns", "missing: cost")),
        (lambda rows: [row.update({"odd": "s3cret"}) for row in rows], ("1 columns are not known",)),
        (lambda rows: rows[5].update(A="s3cret"), ("line 7", "'A'")),
        (lambda rows: rows[5].update(B=""), ("line 7", "'B'", "missing")),
        (lambda rows: rows[5].update(car_age="s3cret"), ("line 7", "'car_age'", "number")),
        (lambda rows: rows[5].update(time="s3cret"), ("line 7", "'time'")),
        (lambda rows: rows[5].update(car_value="s3cret"), ("line 7", "'car_value'")),
        (lambda rows: rows[5].update(customer_ID="s3cret"), ("customer_ID",)),
        (lambda rows: [row.update(state="NY") for row in rows if row["state"] == "CT"], ("customers of CT",)),
    ],
)
def test_a_file_of_another_layout_is_refused_with_place_and_without_values(
    tmp_path: Path, change: Callable[[Table], object], words: tuple[str, ...]
) -> None:
    rows = allstate_rows(public_coins(2), florida=40, connecticut=40, ohio=40)
    change(rows)
    with pytest.raises(BadTable) as caught:
        allstate_market(write(tmp_path / "train.csv", rows), "states", 0, None)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert "s3cret" not in str(caught.value)


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


def test_bad_hospital_tables_are_named(tmp_path: Path) -> None:
    rows = heart_rows(public_coins(0))
    rows[3]["hospital"] = "s3cret"
    with pytest.raises(BadTable, match="line 5, column 'hospital'"):
        heart_digest(write(tmp_path / "heart.csv", rows))


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
