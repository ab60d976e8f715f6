"""Which columns may identify people: a table of names, and columns as real tables have them."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from likeset.tables.column_looks import TableLook
from likeset.tables.identifier_names import words_of
from likeset.tables.identifiers import Reason, suspicion_of, suspicions_in
from likeset.tables.schema import Schema

SUSPECT = """
id ID patient_id PatientID patientid patient.id patient_nbr customerID member_id user_id encounter_id EncounterId
account_no accountNumber policy_number insurance_number passport passport_no iban license_plate licence_plate_no
ip ip_address client_ip url uuid device_id serial_number VIN mac_address zip zip_code postcode PLZ lat longitude
pickup_longitude dob date_of_birth birthDate Birthday geburtsdatum date_naissance fecha_nacimiento name surname
first_name LastName nameOrig Vorname nachname prénom nombre apellido cognome email e-mail mail_address phone
phone_number telefon fax mobile address home.address street Straße ssn mrn nhs_number medical_record_number
social_security_number host_name username Kontonummer kundennummer index rownames row_names __index_level_0__ rowid
subject patient national_id id_card studentNo
"""
SUSPECT_WITH_BLANKS = ["", " ", "Unnamed: 0", "Unnamed: 12", "Date of Birth", "row number"]

HARMLESS = """
valid paid humidity grid covid thyroid steroid number_of_visits num_procedures num_lab_procedures number_inpatient
no_of_children no_show native_country native-country age education_num education.num hours_per_week fnlwgt sex NO2
no2_level platelets plate_count birth_weight birth_year birth_country annee_naissance city_mpg latency flatness
longevity zipper emailed phone_calls has_phone email_count url_length name_length account_balance policy_start_date
time_in_hospital cholesterol diag_1 payer_code mean_radius contact smoker region charges bmi children thalach
oldpeak pixel_12 index_of_refraction body_mass_index patient_age nominal unnamed_feature
"""


@pytest.mark.parametrize("name", [*SUSPECT.split(), *SUSPECT_WITH_BLANKS])
def test_names_that_speak_of_identifiers(name: str) -> None:
    assert suspicion_of(name) is not None


@pytest.mark.parametrize("name", HARMLESS.split())
def test_names_that_only_look_like_it(name: str) -> None:
    assert suspicion_of(name) is None


def test_names_are_split_into_words() -> None:
    assert words_of("PatientIDNumber_2") == ("patient", "id", "number")
    assert words_of("Prénom du-client.x") == ("prenom", "du", "client", "x")
    assert words_of("humidity") == ("humidity",)


def why(values: Any, name: str = "x", **columns: Any) -> Reason | None:
    """The verdict on a column, the same for typed cells and for their text."""
    typed = pa.table({name: values, **columns})
    verdicts = set()
    for table in (typed, pa.table({name: [None if v is None else str(v) for v in typed[name].to_pylist()]})):
        look = TableLook([name])
        for first in range(0, table.num_rows, 97):  # in uneven blocks
            look.add(table.slice(first, 97))
        suspicion = suspicion_of(name, seen=[look.summary()[name]])
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
    look = TableLook(table.column_names)
    look.add(table)
    assert not [name for name, seen in look.summary().items() if suspicion_of(name, seen=[seen])]


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
    look = TableLook(["outcome"])
    look.add(pa.table({"outcome": [f"words about row {row}" for row in range(60)]}))
    suspected = {one.column: one.reason for one in suspicions_in(schema, look.summary())}
    assert suspected["outcome"] is Reason.OWN_TEXT


def test_only_the_first_rows_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("likeset.tables.column_looks.MOST_ROWS", 100)
    monkeypatch.setattr("likeset.tables.column_looks._LEAST_ROWS", 100)
    look = TableLook(["x"])
    for first in (0, 80, 160):
        look.add(pa.table({"x": np.arange(first, first + 80)}))
    seen = look.summary()["x"]
    assert seen is not None
    assert (seen.rows, seen.high) == (100, 99.0)
