"""What a draft makes of columns, and why: codes, counts, ranges, bounds, ids and decimal commas."""

import re
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from chance import public_coins
from likeset.app.cli.draft_screen import blocks
from likeset.errors import BadTable
from likeset.tables.column_evidence import ColumnEvidence, _ThinnedNumbers
from likeset.tables.dead_columns import BoundsUse
from likeset.tables.draft import SchemaDraft, draft
from likeset.tables.drafted_kinds import rounded_outward
from likeset.tables.identifiers import Reason
from likeset.tables.schema import Schema
from likeset.tables.sources import open_source
from likeset.tables.table_checks import Inspection

WHOLE_CODES = [str(code) for code in range(1, 28)]
RANGES = [f"[{low}-{low + 10})" for low in range(0, 100, 10)]


def drafted(folder: Path, columns: dict[str, list[str]], **wishes: str) -> SchemaDraft:
    """A draft from columns of text, separated by semicolons, each repeated to 600 rows."""
    path = folder / "rows.csv"
    rows = [";".join(values[row % len(values)] for values in columns.values()) for row in range(600)]
    path.write_text("\n".join([";".join(columns), *rows]) + "\n", encoding="utf-8")
    return draft([open_source(str(path))], **wishes)


def kinds(made: SchemaDraft) -> dict[str, str]:
    return {column.name: column.kind for column in Schema.from_text(made.text).describe()}


def test_an_amount_in_steps_is_a_number_and_a_lone_letter_is_a_code(tmp_path: Path) -> None:
    """A survey of one region: N is the north there, and no truth value; of N and Y together, or of 0 alone, it is."""
    amounts = ["2500", "7500", "15000", "35000", "75000"]
    made = drafted(
        tmp_path,
        {"income": amounts, "population": amounts, "region": ["N"], "smoker": ["N", "Y"], "dead": ["0"], "w": amounts},
    )
    assert kinds(made) == {
        "income": "numeric",
        "population": "numeric",
        "region": "category",
        "smoker": "boolean",
        "dead": "boolean",
        "w": "category",
    }


def test_codes_are_categories_counts_are_numbers_and_ranges_have_an_order(tmp_path: Path) -> None:
    """Both ids have whole numbers: what the name says of them decides. Rarer and rarer numbers without one count."""
    rarer = [str(number) for number, rows in enumerate([50, 20, 10, 4, 1]) for _ in range(rows)]
    made = drafted(
        tmp_path,
        {
            "discharge_disposition_id": WHOLE_CODES,
            "num_procedures": ["0", "3", "1", "6", "2", "5", "4"],
            "emergencies": rarer,
            "thal": ["3", "6", "7"],
            "politycode": [str(code) for code in range(2, 60, 2)],
            "mode": ["1", "2", "3", "4"],
            "age": [*reversed(RANGES)],
            "income": ["<10", "10-20", "20-50", "50+"],
            "cut": ["Ideal", "Very Good", "Fair", "Premium", "Good"],
            "mixed": ["<30", ">30", "NO"],
            "quality": ["5", "3", "8", "6"],
        },
    )
    assert kinds(made) == {
        "discharge_disposition_id": "category",
        "num_procedures": "numeric",
        "emergencies": "numeric",
        "thal": "category",
        "politycode": "category",
        "mode": "category",
        "age": "ordinal",
        "income": "ordinal",
        "cut": "ordinal",
        "mixed": "category",
        "quality": "ordinal",
    }
    values = {name: getattr(column, "values", ()) for name, column in Schema.from_text(made.text).declared.items()}
    assert list(values["age"]) == RANGES
    assert values["income"] == ("<10", "10-20", "20-50", "50+")
    assert values["cut"] == ("Fair", "Good", "Very Good", "Premium", "Ideal")
    assert values["quality"] == (3.0, 5.0, 6.0, 8.0)
    why = {column.name: column.why for column in made.profile}
    assert why["num_procedures"] == "a count or measure: its name says num"
    assert why["thal"] == "codes: 3 different values, and nothing that says count"


def test_people_in_turn_with_several_rows_each_are_asked_about(tmp_path: Path) -> None:
    """600 rows: 75 people with eight of them each. Numbers without gaps, and other orders, are not."""
    people = [str(17 * (row // 8)) for row in range(600)]
    columns = {"nr": people, "other": people[::-1], "steps": [str(row // 8) for row in range(600)]}
    made = drafted(tmp_path, columns)
    cautions = {column.name: column.caution for column in made.profile}
    assert "say --id nr" in cautions["nr"]
    assert cautions["other"] == cautions["steps"] == ""


def test_numbers_of_any_size_are_looked_at_without_a_warning(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wide = ["1e308", "-1e308"]
        columns = {"codes": [*wide, "1"], "decimals": [*wide, "1.5"], "ends": ["-inf", "-inf", "inf"]}
        made = drafted(tmp_path, columns | {"measure": [*wide, *map(str, range(60))]})
    assert {column.name: len(column.bars) for column in made.profile}["decimals"] == 12


def test_whole_numbers_in_a_row_that_begin_late_are_no_codes(tmp_path: Path) -> None:
    """Years of school from 7 to 16; codes from 1 to 8, and numbers with a gap, stay categories."""
    columns = {
        "school": [str(years) for years in range(7, 17)],
        "mode": [str(code) for code in range(1, 9)],
        "gap": ["3", "4", "5", "6", "7", "9"],
    }
    assert kinds(drafted(tmp_path, columns)) == {"school": "numeric", "mode": "category", "gap": "category"}


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


def test_words_that_only_sometimes_have_commas_are_words(tmp_path: Path) -> None:
    made = drafted(tmp_path, {"dose": ["1,5", "2,5", "unknown"], "point": ["1,5", "1.5"]})
    assert kinds(made) == {"dose": "category", "point": "category"}
    inspection = Inspection(Schema.from_text(made.text))
    inspection.add(pa.table({"dose": ["1,5", "unknown"], "point": ["1,5", "1.5"]}), table="t", locate=str)
    assert inspection.ok
    assert inspection.numbers_as_words() == {}


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


def test_long_numbers_that_rows_share_are_asked_about(tmp_path: Path) -> None:
    """1,200 numbers of six digits, two rows of each: no name says whose they are. Four digits are not asked about."""
    rows = [f"{125_000 + row // 2},{1_000 + row}" for row in range(2400)]
    (tmp_path / "rows.csv").write_text("\n".join(["zper,income", *rows]) + "\n", encoding="utf-8")
    made = draft([open_source(str(tmp_path / "rows.csv"))], include=["income"])
    cautions = {column.name: column.caution for column in made.profile}
    assert "say --id zper" in cautions["zper"]
    assert cautions["income"] == ""


def test_a_label_with_few_values_is_a_class_and_ids_are_hinted_at(tmp_path: Path) -> None:
    rarer = [str(number) for number, rows in enumerate([50, 20, 10, 4, 1]) for _ in range(rows)]
    columns = {"patient_id": [str(n) for n in range(100, 400)], "x": ["1.5", "2.5"], "degree_of_it": rarer}
    made = drafted(tmp_path, columns, label="degree_of_it")
    assert made.id_hint == "patient_id"
    label = Schema.from_text(made.text).declaration.label
    assert label is not None
    assert (label.kind, label.values) == ("category", (0.0, 1.0, 2.0, 3.0, 4.0))
    assert [column.role for column in made.profile] == ["left out", "column", "label"]


def test_histograms_hold_few_numbers_evenly_from_all_rows() -> None:
    """After 200,000 numbers every fourth is held, whatever the blocks: the first, the fifth, and so on."""
    held = _ThinnedNumbers()
    numbers = np.arange(200_000.0)
    for block in np.array_split(numbers, 37):
        held.add(block)
    assert held.values().tolist() == numbers[::4].tolist()


def test_block_characters_are_full_for_the_most_and_empty_for_none() -> None:
    assert blocks([0, 1, 50, 100]) == " ▁▅█"
    assert blocks([]) == ""
    evidence = ColumnEvidence(pa.string())
    evidence.add(pa.array(["1", "1", "2", "4"]))
    assert evidence.bars() == (2, 1, 1)
