"""What rows show of columns: identifiers, dead columns, and what a draft makes of them."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from chance import public_coins
from likeset.errors import BadTable
from likeset.tables.profile import (
    BoundsUse,
    ColumnProfile,
    Inspection,
    Reason,
    SchemaDraft,
    TableProfile,
    draft,
    rounded_outward,
    suspicion_of,
    suspicions_in,
    words_of,
)
from likeset.tables.schema import Schema
from likeset.tables.sources import open_source

SUSPECT = """
id ID patient_id PatientID patientid patient.id patient_nbr customerID member_id user_id encounter_id EncounterId
account_no accountNumber policy_number insurance_number passport passport_no iban license_plate licence_plate_no
ip ip_address client_ip url uuid device_id serial_number VIN mac_address zip zip_code postcode lat longitude
pickup_longitude dob date_of_birth birthDate Birthday name surname
first_name LastName nameOrig email e-mail mail_address phone
phone_number fax mobile address home.address street ssn mrn nhs_number medical_record_number
social_security_number host_name username index rownames row_names __index_level_0__ rowid
subject patient national_id id_card studentNo
"""
HARMLESS = """
valid paid humidity grid covid thyroid steroid number_of_visits num_procedures num_lab_procedures number_inpatient
no_of_children no_show native_country native-country age education_num education.num hours_per_week fnlwgt sex NO2
no2_level platelets plate_count birth_weight birth_year birth_country city_mpg latency flatness
longevity zipper emailed phone_calls has_phone email_count url_length name_length account_balance policy_start_date
time_in_hospital cholesterol diag_1 payer_code mean_radius contact smoker region charges bmi children thalach
oldpeak pixel_12 index_of_refraction body_mass_index patient_age nominal unnamed_feature
"""


def test_names_that_speak_of_identifiers() -> None:
    named = [*SUSPECT.split(), "", " ", "Unnamed: 0", "Unnamed: 12", "Date of Birth", "row number"]
    assert [name for name in named if suspicion_of(name) is None] == []
    assert [name for name in HARMLESS.split() if suspicion_of(name) is not None] == []


def test_names_are_split_into_words() -> None:
    assert words_of("PatientIDNumber_2") == ("patient", "id", "number")
    assert words_of("Éco du-client.x") == ("eco", "du", "client", "x")
    assert words_of("humidity") == ("humidity",)


def why(values: Any, name: str = "x", **columns: Any) -> Reason | None:
    """The verdict on a column, the same for typed cells and for their text."""
    typed = pa.table({name: values, **columns})
    verdicts = set()
    for table in (typed, pa.table({name: [None if v is None else str(v) for v in typed[name].to_pylist()]})):
        profile = TableProfile([name])
        for first in range(0, table.num_rows, 97):  # in uneven blocks
            profile.add(table.slice(first, 97))
        suspicion = suspicion_of(name, seen=[profile.columns[name]])
        verdicts.add(None if suspicion is None else suspicion.reason)
    assert len(verdicts) == 1, "a file of text is judged otherwise"
    return verdicts.pop()


Make = Callable[[np.random.Generator, int], Any]
MEASURES: dict[str, Make] = {
    "age": lambda coins, rows: coins.integers(20, 90, rows),
    "cholesterol": lambda coins, rows: coins.normal(246, 51, rows).round().astype(int),
    "proline": lambda coins, rows: coins.normal(746, 314, rows).clip(200).round().astype(int),
    "fnlwgt": lambda coins, rows: np.exp(coins.normal(12, 0.5, rows)).round().astype(int),
    "charges": lambda coins, rows: np.exp(coins.normal(9, 1, rows)).round(2) + 0.005,
    "salary": lambda coins, rows: np.exp(coins.normal(10.8, 0.4, rows)).round().astype(int),
    "population": lambda coins, rows: np.exp(coins.normal(10, 2.5, rows)).round().astype(int),
    "embedding": lambda coins, rows: coins.normal(0, 1, rows),
    "visits": lambda coins, rows: coins.poisson(2, rows),
    "uniform_sensor": lambda coins, rows: coins.integers(0, 65536, rows),
    "admitted": lambda _, rows: [f"20{n // 400:02d}-{n % 12 + 1:02d}-{n % 28 + 1:02d}" for n in range(rows)],
    "icd": lambda coins, rows: [f"{n:.0f}.{n % 7:.0f}" + "V" for n in coins.zipf(1.3, rows).clip(0, 700)],
    "discharge_disposition_id": lambda coins, rows: coins.zipf(1.6, rows).clip(1, 28),
    "store_id": lambda _, rows: np.arange(rows) * 7 % max(2, rows // 40),
    "phone": lambda coins, rows: coins.choice(["yes", "no"], rows),
}


@pytest.mark.parametrize("rows", [50, 300, 5000])
@pytest.mark.parametrize("name", MEASURES)
def test_measures_counts_and_codes_are_kept_however_many_rows_there_are(name: str, rows: int) -> None:
    assert why(MEASURES[name](np.random.default_rng(5), rows), name) is None


def test_hundreds_of_wide_features_are_kept() -> None:
    coins = np.random.default_rng(6)
    table = pa.table({f"f{n}": coins.integers(0, 65536, 800) if n % 2 else coins.normal(size=800) for n in range(800)})
    profile = TableProfile(table.column_names)
    profile.add(table)
    assert not [name for name, seen in profile.columns.items() if suspicion_of(name, seen=[seen])]


def moments(coins: np.random.Generator, rows: int) -> list[datetime]:
    start = datetime(2020, 1, 1, 0, 0, 1, tzinfo=UTC).replace(tzinfo=None)
    return [start + timedelta(seconds=int(second)) for second in coins.integers(0, 10**8, rows)]


GIVEN_OUT: dict[str, tuple[Reason, int, Make]] = {
    "rows in order": (Reason.ROW_NUMBER, 50, lambda _, rows: np.arange(rows)),
    "rows in any order, from 1": (Reason.ROW_NUMBER, 50, lambda coins, rows: coins.permutation(rows) + 1),
    "rows of a larger file": (
        Reason.NUMBERED,
        300,
        lambda coins, rows: coins.permutation(5 * rows)[:rows],
    ),
    "numbers that climb": (Reason.NUMBERED, 300, lambda coins, rows: np.cumsum(coins.integers(1, 10**5, rows))),
    "eight digits at random": (Reason.NUMBERED, 300, lambda coins, rows: coins.integers(10**7, 10**8, rows)),
    "with one missing": (Reason.NUMBERED, 300, lambda coins, rows: [None, *coins.permutation(3 * rows)[1:rows]]),
    "codes of letters": (Reason.OWN_TEXT, 50, lambda coins, rows: [f"P-{n}-x" for n in coins.permutation(rows)]),
    "free text": (
        Reason.OWN_TEXT,
        300,
        lambda coins, rows: [f"seen by {n} at noon" for n in coins.integers(0, 10**6, rows)],
    ),
    "moments": (Reason.OWN_MOMENT, 300, moments),
}


@pytest.mark.parametrize("case", GIVEN_OUT)
def test_values_that_somebody_gave_out_are_suspected_whatever_the_name(case: str) -> None:
    reason, rows, make = GIVEN_OUT[case]
    assert why(make(np.random.default_rng(7), rows)) is reason


@pytest.mark.parametrize("case", GIVEN_OUT)
def test_a_dozen_rows_prove_nothing(case: str) -> None:
    assert why(GIVEN_OUT[case][2](np.random.default_rng(8), 12)) is None


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
    assert [one.column for one in suspicions_in(schema)] == ["encounter_id", "zip", "birth_date", "surname"]
    assert "patient_nbr" not in schema.record_columns, "the id does not leave, so that nobody is warned of it"


def test_a_label_is_looked_at_too() -> None:
    schema = Schema.from_text(SCHEMA.replace("surname, kind: text", "outcome, kind: text"))
    profile = TableProfile(["outcome"])
    profile.add(pa.table({"outcome": [f"words about row {row}" for row in range(60)]}))
    suspected = {one.column: one.reason for one in suspicions_in(schema, profile.columns)}
    assert suspected["outcome"] is Reason.OWN_TEXT


def test_only_the_first_rows_are_profiled_where_identifiers_are_looked_for() -> None:
    profile = TableProfile(["x"], most_rows=100)
    for first in (0, 80, 160):
        profile.add(pa.table({"x": np.arange(first, first + 80)}))
    assert (profile.columns["x"].rows, profile.columns["x"].high) == (100, 99.0)


def drafted(folder: Path, columns: dict[str, list[str]], **wishes: str) -> SchemaDraft:
    """A draft from columns of text, separated by semicolons, each repeated to 600 rows."""
    path = folder / "rows.csv"
    rows = [";".join(values[row % len(values)] for values in columns.values()) for row in range(600)]
    path.write_text("\n".join([";".join(columns), *rows]) + "\n", encoding="utf-8")
    return draft([open_source(str(path))], **wishes)


def kinds(made: SchemaDraft) -> dict[str, str]:
    return {column.name: column.kind for column in Schema.from_text(made.text).describe()}


KINDS: dict[str, tuple[list[str], str]] = {
    "income": (["2500", "7500", "15000", "35000", "75000"], "numeric"),  # its name says a measure
    "num_procedures": (["0", "3", "1", "6", "2", "5", "4"], "numeric"),
    "discharge_disposition_id": ([str(code) for code in range(1, 28)], "category"),  # its name says a code
    "politycode": ([str(code) for code in range(2, 60, 2)], "category"),
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
    "empty": ([""], "text"),
}


def test_the_first_rule_that_applies_decides_the_kind(tmp_path: Path) -> None:
    made = drafted(tmp_path, {name: values for name, (values, _) in KINDS.items()})
    assert kinds(made) == {name: kind for name, (_, kind) in KINDS.items()}
    assert fits(made, str(tmp_path / "rows.csv"))


def test_a_table_of_very_many_numbers_is_told_of_vectors(tmp_path: Path) -> None:
    """And the query that is proposed gives such a column."""
    pixels = {f"pixel{n}": [f"{n % 7}.5", "0.25"] for n in range(100)}
    assert drafted(tmp_path, {**dict(list(pixels.items())[:99]), "kind": ["a", "b"]}).wide_note == ""
    made = drafted(tmp_path, {**pixels, "kind": ["a", "b"]})
    query = re.search(r'"(sql:.*?)"', made.wide_note)
    assert query is not None
    source = query[1].replace("LABEL", "kind").replace("FILE", str(tmp_path / "rows.csv"))
    assert kinds(draft([open_source(source)], label="kind")) == {"pixels": "vector"}


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
    assert "Privacy protects all rows of an id at once" in made.text
    assert "keep: 1" in made.text
    assert made.profile[0].why == "says whose row it is: at most 86 rows of one id"
    assert made.profile[0].bars == (), "whose rows they are is not drawn"
    inspection = Inspection(schema)
    for block in open_source(str(tmp_path / "rows.csv")).blocks(["patient", "age"]):
        inspection.add(block.table, table="t", locate=block.locate)
    assert inspection.ok


def test_decimal_commas_are_named_with_the_remedy_and_do_not_fit(tmp_path: Path) -> None:
    columns = {"density": [f"0,99{digit}" for digit in range(10)], "year": ["1.234,5", "12"]}
    made = drafted(tmp_path, columns)
    assert kinds(made) == {"density": "numeric", "year": "numeric"}
    assert {column.caution for column in made.profile} == {"not read as they are"}
    assert "replace(\"density\", ',', '.') AS \"density\"" in made.comma_remedy
    assert "replace(replace(\"year\", '.', ''), ',', '.') AS \"year\"" in made.comma_remedy
    assert (made.profile[0].low, made.profile[1].high) == (0.99, 1234.5)
    as_words = """
likeset: schema
version: 1
columns:
  density: {kind: text, width: 8}
  year: {kind: category, values: ['1.234,5', '12']}
"""
    for text, words in ((made.text, set()), (as_words, {"density", "year"})):
        inspection = Inspection(Schema.from_text(text))
        for block in open_source(str(tmp_path / "rows.csv")).blocks(["density", "year"]):
            inspection.add(block.table, table="t", locate=block.locate)
        assert not inspection.ok
        assert set(inspection.numbers_as_words()) == words


def test_the_remedy_for_decimal_commas_gives_a_file_that_fits(tmp_path: Path) -> None:
    """With and without points between thousands: the query that is advised, given in place of the file."""
    weights = [f"{kilos},{tenths}" for kilos in range(30, 90) for tenths in range(10)]
    for cells, low, high in ((weights, 30.0, 89.9), (["1.234,5", "12"], 12.0, 1234.5)):
        folder = tmp_path / str(high)
        folder.mkdir()
        rows = str(folder / "rows.csv")
        made = drafted(folder, {"weight": cells, "site": ["north, old", "south"]})
        assert made.left_out == (), "a measure is nobody's own text"
        assert not fits(made, rows)
        query = re.search(r"sql:SELECT .*true\)", made.comma_remedy)
        assert query is not None
        source = query[0].replace("FILE", rows)
        again = draft([open_source(source)])
        weight = next(column for column in again.profile if column.name == "weight")
        assert (weight.kind, weight.low, weight.high, again.comma_remedy) == ("numeric", low, high, "")
        assert fits(again, source)


def fits(made: SchemaDraft, source: str) -> bool:
    schema = Schema.from_text(made.text)
    inspection = Inspection(schema)
    for block in open_source(source).blocks(schema.needed_columns):
        inspection.add(block.table, table="t", locate=block.locate)
    assert bool(inspection.comma_remedy()) == bool(made.comma_remedy)
    return inspection.ok


def test_labels_may_be_in_some_files_only_and_other_columns_may_not(tmp_path: Path) -> None:
    owner, target = tmp_path / "owner.csv", tmp_path / "target.csv"
    owner.write_text("age,ward,ill\n" + "30,a,yes\n41,b,no\n" * 20, encoding="utf-8")
    target.write_text("age,room\n" + "50,1\n62,2\n" * 20, encoding="utf-8")
    for files in ((owner, target), (target, owner)):
        made = draft([open_source(str(file)) for file in files], label="ill")
        assert Schema.from_text(made.text).label_column == "ill"
        assert dict(made.absent) == {"ward": str(target), "room": str(owner)}
        assert {column.name: column.rows for column in made.profile} == {"age": 80, "ill": 40}
        assert "not all files have them" in made.text
    with pytest.raises(BadTable, match=r"target.csv, column 'ward': is missing; draft from files that have it"):
        draft([open_source(str(owner)), open_source(str(target))], include=["ward"])


def test_midnights_are_days_and_moments_are_somebody(tmp_path: Path) -> None:
    days = [f"20{year:02}-01-{day:02} 00:00:00" for year in range(10, 32) for day in range(1, 29)]
    moments = [day.replace("00:00:00", "00:10:00") for day in days]
    made = drafted(tmp_path, {"seen": days, "left": moments})
    assert kinds(made) == {"seen": "date"}
    assert [(one.column, one.reason) for one in made.left_out] == [("left", Reason.OWN_MOMENT)]


def test_rows_without_a_label_are_cautioned(tmp_path: Path) -> None:
    made = drafted(tmp_path, {"age": ["30", "41.5"], "ill": ["yes", "no", ""]}, label="ill")
    assert "without a label cannot be used" in made.profile[1].caution


def test_a_column_that_uses_no_more_than_a_fiftieth_of_its_bounds_hardly_counts() -> None:
    """2% of [0, 2] is 0.04: values within 0.039 are dead, within 0.041 alive; missing ones say nothing."""
    text = (
        "likeset: schema\nversion: 1\ncolumns:\n  a: {kind: numeric, bounds: [0, 2], missing: indicator, weight: 3}\n"
        "  v: {kind: vector, width: 4, bounds: [-100, 100]}\n  c: {kind: category, values: [x]}\n"
    )
    schema = Schema.from_text(text)
    for span, dead in ((0.039, {"a", "v"}), (0.041, {"v"})):
        cells = [0.95, 0.95 + span, *[None] * 5, *[0.96] * 10]
        table = pa.table({"a": cells, "v": [[0.5, 0.2, -0.1, 0.0]] * 17, "c": ["x"] * 17})
        use = BoundsUse(schema)
        for first in (0, 9):
            use.add(schema.map(table.slice(first, 9), table="t", locate=str).rows)
        assert {column.column for column in use.dead_columns()} == dead


def test_a_few_far_values_and_constants_are_pointed_out(tmp_path: Path) -> None:
    far = ["1000000.5", *[f"{number}.5" for number in range(599)]]
    made = drafted(tmp_path, {"far": far, "same": ["7.5"], "empty": [""]})
    cautions = {column.name: column.caution for column in made.profile}
    assert cautions["far"].startswith("a few far values stretch the bounds")
    assert cautions["same"].startswith("every row has the same value")
    assert cautions["empty"] == "leave it out: it is empty"


def test_a_label_with_few_values_is_a_class_and_ids_are_hinted_at(tmp_path: Path) -> None:
    rarer = [str(number) for number, rows in enumerate([50, 20, 10, 4, 1]) for _ in range(rows)]
    columns = {"patient_id": [str(n) for n in range(100, 400)], "x": ["1.5", "2.5"], "degree_of_it": rarer}
    made = drafted(tmp_path, columns, label="degree_of_it")
    assert made.id_hint == "patient_id"
    label = Schema.from_text(made.text).declaration.label
    assert label is not None
    assert (label.kind, label.values) == ("category", (0.0, 1.0, 2.0, 3.0, 4.0))
    assert [column.role for column in made.profile] == ["left out", "column", "label"]


def test_bars_count_each_of_a_few_whole_numbers_and_parts_of_a_range() -> None:
    profile = TableProfile(["few", "range"], most_rows=None)
    profile.add(pa.table({"few": ["1", "1", "2", "4"], "range": [0.0, 0.5, 11.9, 12.0]}))
    few, ranged = profile.columns.values()
    assert few.bars() == (2, 1, 1)
    assert ranged.bars() == (2, *[0] * 10, 2)


def test_files_with_the_same_column_in_different_types_are_one_column() -> None:
    parts = TableProfile(["x"]), TableProfile(["x"]), TableProfile(["x"])
    for part, cells in zip(parts, ([1, 2], ["2", "3.0"], ["a"]), strict=True):
        part.add(pa.table({"x": cells}))
    days = TableProfile(["x"])
    days.add(pa.table({"x": ["2020-01-01"]}))
    mixed = ColumnProfile.union([parts[0].columns["x"], days.columns["x"]])
    assert (mixed.numbers, mixed.days) == (False, False)
    numbers = ColumnProfile.union([part.columns["x"] for part in parts[:2]])
    assert (numbers.numbers, numbers.values()) == (True, {1.0: 1, 2.0: 2, 3.0: 1})
    assert not ColumnProfile.union([part.columns["x"] for part in parts]).numbers
