"""Four hospitals as four CSV files, with the missing values that they really have, from files to report."""

import csv
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import job_world

HEART = Path(__file__).parents[3] / "shared" / "data" / "heart_disease_4hospitals.csv"
SCHEMA = """\
likeset: schema
version: 1
columns:
  age: {kind: numeric, bounds: [18, 100]}
  sex: {kind: boolean}
  cp: {kind: category, values: [1, 2, 3, 4]}
  trestbps: {kind: numeric, bounds: [60, 260], outside: clip, missing: indicator, missing_values: [0]}
  chol: {kind: numeric, bounds: [80, 700], scale: log, outside: clip, missing: indicator, missing_values: [0]}
  fbs: {kind: boolean, missing: indicator}
  restecg: {kind: category, values: [0, 1, 2], missing: indicator}
  thalach: {kind: numeric, bounds: [40, 220], outside: clip, missing: indicator}
  exang: {kind: boolean, missing: indicator}
  oldpeak: {kind: numeric, bounds: [-4, 8], outside: clip, missing: indicator}
label: {column: disease, kind: category, values: [0, 1]}
"""


@pytest.mark.skipif(not HEART.exists(), reason="the heart-disease data are not beside the repository")
def test_from_the_files_of_four_hospitals_to_a_report(tmp_path: Path) -> None:
    hospitals: dict[str, list[dict[str, str]]] = {}
    with HEART.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            hospitals.setdefault(row.pop("hospital"), []).append(row)
    for name, patients in hospitals.items():
        with (tmp_path / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(patients[0]))
            writer.writeheader()
            writer.writerows(patients)
    (tmp_path / "schema.yaml").write_text(SCHEMA, encoding="utf-8")
    owners = [name for name in hospitals if name != "va"]
    options = {
        "schema": tmp_path / "schema.yaml",
        "target": tmp_path / "va.csv",
        "owner": [f"{name}={tmp_path / name}.csv" for name in owners],
        "size": 60,
        "epsilon": 2,
        "out": tmp_path / "out",
    }
    assert job_world.call("match", options) == 0
    found = json.loads((tmp_path / "out" / "result.json").read_text(encoding="utf-8"))
    assert found["target"]["rows"] == len(hospitals["va"])
    assert found["rows_selected"] == 60
    chance = next(one for one in found["comparison"]["lines"] if one["kind"] == "random")
    assert found["distance"]["high"] < chance["squared_mmd"]
    table = pq.read_table(tmp_path / "out" / "summary.parquet")
    assert table.num_rows == 60
    assert set(table["owner"].to_pylist()) <= set(owners)
    assert set(table["disease"].to_pylist()) <= {0, 1}
    # Missing values stay missing: there is none in the map's middle that nobody measured.
    known = {float(row["chol"]) for name in owners for row in hospitals[name] if row["chol"]}
    assert {value for value in table["chol"].to_pylist() if value is not None} <= known
    assert "va.csv" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
