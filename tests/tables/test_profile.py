"""What rows show of columns: identifiers, dead columns, and what a draft makes of them."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from chance import public_coins
from documented_pages import ROOT
from likeset.errors import BadTable
from likeset.tables.columns import Trouble
from likeset.tables.profile import (
    ColumnProfile,
    Inspection,
    Reason,
    SchemaDraft,
    TableProfile,
    draft,
    identifying_column,
    identifying_columns,
    rounded_outward,
)
from likeset.tables.schema import Schema
from likeset.tables.sources import open_source
from screens import Screens

SUSPECT = """
id patient_id PatientID patientid patient.id patient_nbr EncounterId account_no accountNumber policy_number passport_no
ip_address uuid device_id mac_address zip_code pickup_longitude dob date_of_birth birthDate name nameOrig LastName
e-mail phone_number home.address medical_record_number host_name index rownames row_names __index_level_0__ rowid
patient national_id studentNo
"""
HARMLESS = """
valid humidity covid number_of_visits num_lab_procedures no_of_children no_show native-country education.num NO2
no2_level platelets plate_count birth_weight birth_year latency zipper phone_calls has_phone email_count url_length
account_balance time_in_hospital diag_1 payer_code pixel_12 index_of_refraction patient_age unnamed_feature
"""


def test_names_that_speak_of_identifiers() -> None:
    named = [*SUSPECT.split(), "Unnamed: 0", "Unnamed: 12", "Date of Birth", "row number"]
    assert [name for name in named if identifying_column(name) is None] == []
    assert [name for name in HARMLESS.split() if identifying_column(name) is not None] == []


def why(values: Any, name: str = "x", **columns: Any) -> Reason | None:
    """The verdict on a column, the same for typed cells and for their text."""
    typed = pa.table({name: values, **columns})
    verdicts = set()
    for table in (typed, pa.table({name: [None if v is None else str(v) for v in typed[name].to_pylist()]})):
        profile = TableProfile([name])
        for first in range(0, table.num_rows, 97):  # in uneven blocks
            profile.add(table.slice(first, 97))
        warning = identifying_column(name, seen=profile.columns[name])
        verdicts.add(None if warning is None else warning.reason)
    assert len(verdicts) == 1, "a file of text is judged otherwise"
    return verdicts.pop()


Make = Callable[[np.random.Generator, int], Any]
MEASURES: dict[str, Make] = {
    "age": lambda coins, rows: coins.integers(20, 90, rows),
    "fnlwgt": lambda coins, rows: np.exp(coins.normal(12, 0.5, rows)).round().astype(int),
    "charges": lambda coins, rows: np.exp(coins.normal(9, 1, rows)).round(2) + 0.005,
    "admitted": lambda _, rows: [f"20{n // 400:02d}-{n % 12 + 1:02d}-{n % 28 + 1:02d}" for n in range(rows)],
    "icd": lambda coins, rows: [f"{n:.0f}.{n % 7:.0f}" + "V" for n in coins.zipf(1.3, rows).clip(0, 700)],
    "discharge_disposition_id": lambda coins, rows: coins.zipf(1.6, rows).clip(1, 28),
    "store_id": lambda _, rows: np.arange(rows) * 7 % max(2, rows // 40),
    "phone": lambda coins, rows: coins.choice(["yes", "no"], rows),
}


@pytest.mark.parametrize("rows", [50, 3000])
@pytest.mark.parametrize("name", MEASURES)
def test_measures_counts_and_codes_are_kept_however_many_rows_there_are(name: str, rows: int) -> None:
    assert why(MEASURES[name](np.random.default_rng(5), rows), name) is None


GIVEN_OUT: dict[str, Make] = {
    "rows in order": lambda _, rows: np.arange(rows),
    "numbers with one missing": lambda coins, rows: [None, *coins.permutation(3 * rows)[:rows]],
    "codes of letters": lambda coins, rows: [f"P-{n}-x" for n in coins.permutation(rows)],
    "free text": lambda coins, rows: [f"seen by {n} at noon" for n in coins.integers(0, 10**6, rows)],
}


@pytest.mark.parametrize("case", GIVEN_OUT)
def test_values_that_somebody_gave_out_are_suspected_whatever_the_name(case: str) -> None:
    assert why(GIVEN_OUT[case](np.random.default_rng(7), 100)) is Reason.OWN_VALUES
    assert why(GIVEN_OUT[case](np.random.default_rng(8), 12)) is None, "a dozen rows prove nothing"


def test_few_values_excuse_a_code_and_not_a_person() -> None:
    coins = np.random.default_rng(9)
    thirty = np.repeat(np.arange(30) * 1000, 10)
    assert why(thirty, "admission_type_id") is None
    assert why(thirty, "patient_id") is Reason.NAME, "thirty patients with ten rows each"
    assert why(coins.choice([12345, 54321, 11111], 300), "zip") is None
    assert why(coins.integers(10_000, 10_500, 20_000), "zip") is Reason.NAME, "forty rows each, and still a few streets"
    assert why(coins.normal(48, 1, 300), "lat") is Reason.NAME, "a measure, and a place"
    assert why(coins.normal(48, 1, 300), "patient_id") is Reason.NAME, "numbers with decimals are no excuse"


SCHEMA = """\
likeset: schema
version: 1
columns:
  encounter_id: {kind: numeric, bounds: [0, 500000000]}
  discharge_disposition_id: {kind: numeric, bounds: [0, 30]}
  admission_type_id: {kind: category, values: [1, 2, 3, 4, 5, 6, 7, 8]}
  zip: {kind: category, values: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]}
  birth_date: {kind: date, bounds: ["1900-01-01", "2030-01-01"]}
  age: {kind: numeric, bounds: [0, 120]}
  has_phone: {kind: boolean}
label: {column: surname, kind: text}
id: {column: patient_nbr}
"""


def test_a_schema_alone_tells_what_leaves_and_how_many_values_it_can_have() -> None:
    schema = Schema.from_text(SCHEMA)
    assert [one.column for one in identifying_columns(schema)] == ["encounter_id", "zip", "birth_date", "surname"]
    assert "patient_nbr" not in schema.record_columns, "the id does not leave, so that nobody is warned of it"


def test_a_label_is_looked_at_too() -> None:
    schema = Schema.from_text(SCHEMA.replace("surname, kind: text", "outcome, kind: text"))
    profile = TableProfile(["outcome"])
    profile.add(pa.table({"outcome": [f"words about row {row}" for row in range(60)]}))
    suspected = {one.column: one.reason for one in identifying_columns(schema, profile.columns)}
    assert suspected["outcome"] is Reason.OWN_VALUES


def test_only_the_first_rows_are_profiled_where_identifiers_are_looked_for() -> None:
    profile = TableProfile(["x"], most_rows=100)
    for first in (0, 80, 160):
        profile.add(pa.table({"x": np.arange(first, first + 80)}))
    assert (profile.columns["x"].rows, profile.columns["x"].high) == (100, 99.0)


def drafted(folder: Path, columns: dict[str, list[str]], **options: str) -> SchemaDraft:
    """A draft from columns of text, separated by semicolons, each repeated to 600 rows."""
    path = folder / "rows.csv"
    rows = [";".join(values[row % len(values)] for values in columns.values()) for row in range(600)]
    path.write_text("\n".join([";".join(columns), *rows]) + "\n", encoding="utf-8")
    return draft([open_source(str(path))], **options)


def kinds(made: SchemaDraft) -> dict[str, str]:
    return {column.name: column.kind for column in Schema.from_text(made.text).describe()}


KINDS: dict[str, tuple[list[str], str]] = {
    "discharge_disposition_id": ([str(code) for code in range(1, 28)], "category"),  # its name says a code
    "big_code": ([str(code) for code in range(200)], "numeric"),  # too many for a category
    "thal": (["3", "6", "7"], "category"),  # a few whole numbers
    "steps": ([str(number) for number in range(11)], "numeric"),
    "dose": (["1.5", "2.25"], "numeric"),
    "smoker": (["N", "Y"], "boolean"),
    "dead": (["0"], "boolean"),
    "part": (["N"], "category"),  # the only code of many, such as north
    "seen": (["2020-01-31", "2021-02-28"], "date"),
    "readmitted": (["<30", ">30", "NO"], "category"),
    "note": ([f"text {number}" for number in range(31)], "text"),
    "mixed": (["1,5", "2,5", "unknown"], "category"),
}


def test_the_first_rule_that_applies_decides_the_kind(tmp_path: Path) -> None:
    made = drafted(tmp_path, {name: values for name, (values, _) in KINDS.items()})
    assert kinds(made) == {name: kind for name, (_, kind) in KINDS.items()}
    assert fits(made, str(tmp_path / "rows.csv"))


@pytest.mark.parametrize(
    ("low", "high", "bounds"),
    [
        (0.99007, 1.00369, [0.99, 1.01]),
        (35.0, 77.0, [30.0, 80.0]),
        (0.0, 148.5, [0.0, 200.0]),
        (-3.2, -3.1, [-3.2, -3.1]),
        (1e6 + 1, 1e6 + 9, [1_000_001.0, 1_000_009.0]),
        (5.0, 5.0, [5.0, 6.0]),
        (0.1 + 0.2, 0.7, [0.3, 0.7]),
    ],
)
def test_bounds_go_outward_by_the_leading_digit_of_the_range_and_not_to_zero(
    low: float, high: float, bounds: list[float]
) -> None:
    """0.99 to 1.00 spans 0.0136, whose leading digit stands at 0.01; bounds of 0 and 2 would leave 0.7% of a unit."""
    assert rounded_outward(low, high) == bounds


def test_every_drafted_range_uses_a_third_of_its_bounds() -> None:
    """The step is no longer than the range, and each bound moves by less than one: at least 1/3 is left."""
    for low, high in np.sort(public_coins("ranges").normal(0.0, 100.0, (2000, 2)), axis=1).tolist():
        least, most = rounded_outward(low, high)
        assert least <= low < high <= most
        assert 3.0 * (high - low) >= (most - least) * (1 - 1e-9)


def test_rows_per_id_is_what_the_file_shows_and_marked_as_from_data(tmp_path: Path) -> None:
    """600 rows of 7 ids in turn: 86 of the first five, 85 of the others."""
    made = drafted(tmp_path, {"patient": [f"p{n}" for n in range(7)], "age": ["30", "40", "55.5"]}, ids="patient")
    schema = Schema.from_text(made.text)
    assert (schema.rows_per_unit, schema.from_data) == (86, ("age", "patient"))
    assert made.profile[0]["becomes"] == "id"
    inspection = Inspection(schema)
    for block in open_source(str(tmp_path / "rows.csv")).blocks(["patient", "age"]):
        inspection.add(block.table, table="t", locate=block.locate)
    assert inspection.ok


@pytest.mark.parametrize("weights", [[f"{n // 10},{n % 10}" for n in range(600)], ["1.234,5", "12"]])
def test_the_remedy_for_decimal_commas_gives_a_file_that_fits(tmp_path: Path, weights: list[str]) -> None:
    made = drafted(tmp_path, {"weight": weights, "site": ["north, old", "south"], "empty": [""]})
    assert set(made.unusable) == {"weight", "empty"}
    assert (kinds(made), made.left_out) == ({"site": "category"}, ()), "a measure is nobody's own text"
    query = re.search(r"sql:SELECT .*','\)", made.unusable["weight"])
    assert query is not None
    source = query[0].replace("FILE", str(tmp_path / "rows.csv")).replace("COLUMN", "weight")
    source = source.replace("',')", "',', thousands='.')") if "1.234,5" in weights else source
    again = draft([open_source(source)])
    assert kinds(again)["weight"] == "numeric" if len(weights) > 2 else "category"
    assert fits(again, source)


def test_values_that_are_not_all_written_alike_are_left_out_and_a_query_converts_them(tmp_path: Path) -> None:
    """Prices, and days, differ between the files; in one file, a word stands for a missing distance."""
    south, north = tmp_path / "south.csv", tmp_path / "north.csv"
    numbers = [f"{n}.5" for n in range(40)]
    south.write_text(
        "price,sold,km,code\n" + "".join(f"{n},2024-01-{1 + i % 28:02},{n},{n}\n" for i, n in enumerate(numbers))
    )
    rows = [
        f"{n};{1 + i % 28:02}.01.2024;{n};V{n}" for i, n in enumerate(number.replace(".", ",") for number in numbers)
    ]
    north.write_text("\n".join(["price;sold;km;code", *rows, "1,5;01.02.2024;k.A.;V1"]) + "\n")
    made = draft([open_source(str(south)), open_source(str(north))], include=["code"])
    assert set(made.unusable) == {"price", "sold", "km"}
    assert kinds(made) == {"code": "text"}, "codes with letters are words"
    assert "south.csv has numbers" in made.unusable["price"]
    assert "north.csv has decimal commas" in made.unusable["price"]
    assert "north.csv has days as %d.%m.%Y" in made.unusable["sold"]
    assert set(draft([open_source(str(north))], include=["code"]).unusable) == {"price", "km"}
    page = (ROOT / "docs/schema.md").read_text(encoding="utf-8")
    query = re.search(r"sql:SELECT .*?%Y'\)", page)
    assert query is not None
    source = query[0].replace("north.csv", str(north))
    again = draft([open_source(str(south)), open_source(source)], include=["code", "km"])
    assert (kinds(again), dict(again.unusable)) == (
        {"price": "numeric", "sold": "date", "km": "numeric", "code": "text"},
        {},
    )
    assert fits(again, source)
    assert fits(again, str(south))


def test_days_are_recognised_in_the_common_formats_and_only_where_they_fit_no_other() -> None:
    days = [(day, month) for month in range(1, 13) for day in range(1, 13)]
    forms = {"%d.%m.%Y": "{0:02}.{1:02}.2023", "%Y/%m/%d": "2023/{1}/{0}"}
    columns: dict[str, list[Any]] = {form: [shape.format(*day) for day in days] for form, shape in forms.items()}
    columns |= {"%d/%m/%Y": [f"{a}/{b}/2023" for a, b in days[:-1]] + ["13/1/2023"]}
    columns |= {"%m/%d/%Y": [f"{a}/{b}/2023" for a, b in days[:-1]] + ["1/13/2023"]}
    columns |= {"either": [f"{a}/{b}/2023" for a, b in days], "age": [30 + day for day, _ in days]}
    table = pa.table(columns)
    halves = [open_source(table.slice(0, 72)), open_source(table.slice(72))]
    made = draft([*halves, open_source(table.slice(0, 0))])
    schema = Schema.from_text(made.text)
    assert {name: getattr(declared, "format", None) for name, declared in schema.declared.items()} == {
        **{form: form for form in columns if "%" in form},
        "age": None,
    }
    assert (set(made.unusable), made.left_out) == ({"either"}, ())
    inspection = Inspection(schema)
    inspection.add(table, table="t", locate=str)
    assert (inspection.ok, inspection.identifying_columns()) == (True, ())
    undashed = Schema.from_text(
        "likeset: schema\nversion: 1\ncolumns:\n  x: {kind: date, format: '%Y%m%d', bounds: [2020-01-01, 2024-01-01]}"
    )
    inspection = Inspection(undashed)
    inspection.add(pa.table({"x": [f"2023{b:02}{a:02}" for a, b in days]}), table="t", locate=str)
    assert (inspection.ok, inspection.identifying_columns()) == (True, ())


def fits(made: SchemaDraft, source: str) -> bool:
    schema = Schema.from_text(made.text)
    inspection = Inspection(schema)
    for block in open_source(source).blocks(schema.needed_columns):
        inspection.add(block.table, table="t", locate=block.locate)
    return inspection.ok


def test_labels_may_be_in_some_files_only_and_other_columns_may_not(tmp_path: Path) -> None:
    owner, target = tmp_path / "owner.csv", tmp_path / "target.csv"
    owner.write_text("age,ward,ill\n" + "30,a,yes\n41,b,no\n" * 20, encoding="utf-8")
    target.write_text("age,room\n" + "50,1\n62,2\n" * 20, encoding="utf-8")
    for files in ((owner, target), (target, owner)):
        made = draft([open_source(str(file)) for file in files], label="ill")
        assert Schema.from_text(made.text).label_column == "ill"
        assert dict(made.unusable) == {"ward": f"not in {target}", "room": f"not in {owner}"}
        assert [column["column"] for column in made.profile] == [*sorted(["age", "ill"])]
    with pytest.raises(BadTable, match=r"target.csv, column 'ward': is missing"):
        draft([open_source(str(owner)), open_source(str(target))], include=["ward"])


def test_a_draft_says_what_it_cannot_do(screens: Screens) -> None:
    two, unnamed = {"x": [1], "y": [2]}, {"": range(40), "ssn": range(40)}
    cases: list[tuple[list[dict[str, Any]], dict[str, Any]]] = [
        ([two, {"z": [1]}], {}), ([{"x": pa.array([], pa.int8())}], {}), ([two], {"label": "Y"}),
        ([{"x": [1], "": [2]}], {"label": ""}), ([unnamed], {}),
    ]  # fmt: skip
    told = []
    for frames, options in cases:
        with pytest.raises(BadTable) as refused:
            draft([open_source(pa.table(frame)) for frame in frames], **options)
        told.append(str(refused.value))
    screens.check("messages", "\n".join(told))


def test_a_draft_from_frames_is_a_schema_with_the_text_to_edit() -> None:
    columns = {"age": [31, 42.5, 78], "sex": ["f", "m", "f"], "patient_id": [1, 2, 3], "picture": [[1, 2]] * 3}
    made = Schema.draft(pa.table(columns), label="sex")
    assert (made.columns, made.label_column, made.from_data) == (("age", "picture"), "sex", ("age", "picture", "sex"))
    assert made.text.count("from_data: true\n") == 3
    assert Schema.from_text(made.text) == made == Schema.from_text(Schema(made.declaration).text)
    assert "patient_id" in made.text, "left out, and said so"


def test_a_drafted_schema_takes_rows_beyond_those_that_it_was_drafted_from() -> None:
    """Bounds of a few rows are no limits of others: a test file is read after epsilon is spent."""
    first = {"age": [31.5, 42.5, 78.25], "day": ["2020-02-03", "2021-02-03", "2021-03-04"], "v": [[0.5, 1.5]] * 3}
    later = {"age": [-1.0, 200.0], "day": ["1990-01-01", "2040-12-31"], "v": [[-9.0, 9.0]] * 2}
    made = Schema.draft(pa.table(first))
    mapped = made.map(pa.table(later), table="later", locate=str).rows
    assert mapped[:, :2].tolist() == [[0.0, 0.0], [1.0, 1.0]]
    assert ((mapped >= 0.0) & (mapped <= 1.0)).all()


def test_a_column_that_uses_no_more_than_a_fiftieth_of_its_bounds_hardly_counts() -> None:
    """2% of [0, 2] is 0.04: values within 0.039 are dead, within 0.041 alive; missing ones say nothing.

    On a logarithmic scale, 2% of [1, 10000] is a factor of 1.2; of 1000 days, 20. Clipped values are at the bound.
    """
    schema = Schema.from_text("""
likeset: schema
version: 1
columns:
  a: {kind: numeric, bounds: [0, 2], missing: indicator, missing_values: [-1], weight: 3}
  clipped: {kind: numeric, bounds: [0, 1], outside: clip}
  l: {kind: numeric, bounds: [1, 10000], scale: log}
  day: {kind: date, bounds: ["2020-01-01", "2022-09-27"]}
  v: {kind: vector, width: 4, bounds: [-100, 100]}
  few: {kind: numeric, bounds: [0, 100], missing: indicator}
  c: {kind: category, values: [x]}
""")
    for step, dead in ((0, {"a", "clipped", "l", "day", "v"}), (1, {"v"})):
        columns = {
            "a": [0.95, 0.95 + 0.039 + 0.002 * step, *[None, -1] * 3, *[0.96] * 9],
            "clipped": [0.99, 5.0, *[1.0 - 0.03 * step] * 15],
            "l": [1.0, 1.19 + 0.02 * step, *[1.1] * 15],
            "day": ["2020-02-01", f"2020-02-{20 + step}", *["2020-02-03"] * 15],
            "v": [[0.5, 0.2, -0.1, 0.0]] * 17,
            "few": [*[1.0] * 9, *[None] * 8],
            "c": ["x"] * 17,
        }
        inspection = Inspection(schema)
        for first in (0, 9):
            inspection.add(pa.table(columns).slice(first, 9), table="t", locate=str)
        assert inspection.ok
        assert {column.column for column in inspection.dead_columns()} == dead


def test_labels_are_classes_or_numbers(tmp_path: Path) -> None:
    for values, kind in ((300, "number"), (10, "category")):
        columns = {"x": ["1.5", "2.5"], "same": ["7.5"], "y": [str(n) for n in range(values)]}
        made = drafted(tmp_path, columns, label="y")
        label = Schema.from_text(made.text).declaration.label
        assert label is not None
        assert label.kind == kind
    with pytest.raises(BadTable, match="no value in any row"):
        drafted(tmp_path, {"x": ["1.5", "2.5"], "y": [""]}, label="y")


def test_files_with_the_same_column_in_different_types_are_one_column() -> None:
    parts = TableProfile(["x"]), TableProfile(["x"]), TableProfile(["x"])
    for part, cells in zip(parts, ([1, 2], ["2", "3.0"], ["a"]), strict=True):
        part.add(pa.table({"x": cells}))
    days = TableProfile(["x"])
    days.add(pa.table({"x": ["2020-01-01"]}))
    mixed = ColumnProfile.union([parts[0].columns["x"], days.columns["x"]])
    assert (mixed.numbers, mixed.days) == (False, False)
    for cells in ([None, "NA"], ["2020-01-02"]):
        days.add(pa.table({"x": cells}))
    assert days.columns["x"].days, "a block without a value says nothing of the others"
    numbers = ColumnProfile.union([part.columns["x"] for part in parts[:2]])
    assert (numbers.numbers, numbers.values()) == (True, [1.0, 2.0, 3.0])
    assert not ColumnProfile.union([part.columns["x"] for part in parts]).numbers


CHECKED = """
likeset: schema
version: 1
columns:
  a: {kind: numeric, bounds: [0, 9], missing: indicator}
  b: {kind: category, values: [x, y], unknown: other}
label: {column: y, kind: category, values: [0, 1]}
id: {column: who, rows_per_id: 2}
"""
TABLE = pa.table(
    {
        "a": ["1", "", "10", "x", "-1", "12", "99"],
        "b": ["x", "y", "z", "x", "", "x", "x"],
        "y": [0, 1, 1, 2, 0, 0, 0],
        "who": ["p", "p", "p", "q", "r", "s", None],
    }
)


def test_every_trouble_is_counted_with_its_first_places_over_blocks() -> None:
    """Column a: one missing (allowed), 10, -1, 12 and 99 outside, x no number; b: z unknown (allowed), one missing."""
    inspection = Inspection(Schema.from_text(CHECKED))
    for first in range(0, 7, 2):
        inspection.add(TABLE.slice(first, 2), table="t", locate=lambda offset, first=first: f"row {first + offset}")  # type: ignore[misc]
    assert inspection.rows == 7
    a, b, y = inspection.columns
    assert a.counts == {Trouble.MISSING: 1, Trouble.OUTSIDE: 4, Trouble.UNKNOWN: 0, Trouble.WRONG: 1}
    assert a.first[Trouble.OUTSIDE] == ["row 2", "row 4", "row 5"]
    assert a.first[Trouble.WRONG] == ["row 3"]
    assert set(a.complaints) == {Trouble.OUTSIDE, Trouble.WRONG}
    assert b.counts[Trouble.UNKNOWN] == 1
    assert set(b.complaints) == {Trouble.MISSING}
    assert (y.kind, y.counts[Trouble.UNKNOWN], y.first[Trouble.UNKNOWN]) == ("label", 1, ["row 3"])
    assert not inspection.ok
    ids = inspection.id_summary()
    assert ids is not None
    assert (ids.ids, ids.most_rows, ids.over, ids.missing) == (4, 3, 1, 1)


def test_rows_that_take_part_are_counted_where_a_few_of_each_id_are_kept() -> None:
    """Three rows of p, one each of q, r and s: with two of each kept, five."""
    for words, taking in (("rows_per_id: 2", None), ("keep: 2", 5)):
        inspection = Inspection(Schema.from_text(CHECKED.replace("rows_per_id: 2", words)))
        inspection.add(TABLE, table="t", locate=str)
        assert inspection.taking_part() == taking
