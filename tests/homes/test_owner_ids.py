"""Ids of persons: one with more rows than declared begins no run; of many rows an owner draws a few by its own key."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from home_world import CANARY, SCHEMA, Outside, approve, charged, heard, logged, make_owner, opened, rows_text, terms

from likeset.errors import BadTable
from likeset.homes.checkup import checkup
from likeset.homes.owner import Owner
from likeset.homes.review import rehearse
from likeset.protocol.terms import Terms
from likeset.tables.schema import Schema
from likeset.tables.sources import open_source

WITH_IDS = SCHEMA + "id: {column: patient, rows_per_id: 2}\n"
KEPT = SCHEMA + "id: {column: patient, keep: 2}\n"
SAID = "it has 3 rows of one id, or without one, where the schema declares at most 2"
PATIENTS: dict[str, Any] = {"schema_digest": Schema.from_text(KEPT).digest, "rows_per_unit": 2, "id_column": "patient"}
KEEPING = terms(**PATIENTS)
RUN = replace(KEEPING, run="run-1", schema_digest=Schema.from_text(WITH_IDS).digest)


def write_rows(path: Path, *, most: int, unnamed: int = 0) -> None:
    """60 rows: ``most`` of them of one patient, written in several ways, some of nobody, the others of one each."""
    head, *rows = rows_text(3).splitlines()
    ids = ["p0", " p0", "p0 "][:most] + ["NA"] * unnamed
    ids += [f"p{place + 1}" for place in range(60 - len(ids))]
    path.write_text(
        "\n".join([f"{head},patient", *(f"{row},{one}" for row, one in zip(rows, ids, strict=True))]) + "\n"
    )


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Owner]:
    (tmp_path / "ids.yaml").write_text(WITH_IDS)
    write_rows(tmp_path / "people.csv", most=2)
    with opened(make_owner(tmp_path)) as found:
        found.registry.add("people", str(tmp_path / "people.csv"), schema=tmp_path / "ids.yaml")
        yield found


@pytest.fixture
def keeping(tmp_path: Path) -> Iterator[Owner]:
    """60 rows of six patients, ten each; the dose tells which row it is."""
    head, *rows = rows_text(3).splitlines()
    people = [f"{head},patient", *(f"{row},p{place // 10}" for place, row in enumerate(rows))]
    (tmp_path / "keep.yaml").write_text(KEPT)
    (tmp_path / "people.csv").write_text("\n".join(people) + "\n")
    with opened(make_owner(tmp_path)) as found:
        found.registry.add("people", str(tmp_path / "people.csv"), schema=tmp_path / "keep.yaml")
        yield found


@pytest.mark.parametrize(("most", "unnamed"), [(3, 0), (2, 3)])
def test_such_data_are_not_registered(owner: Owner, tmp_path: Path, most: int, unnamed: int) -> None:
    """Rows that do not say whose they are could be one person's."""
    write_rows(tmp_path / "more.csv", most=most, unnamed=unnamed)
    with pytest.raises(BadTable, match=SAID) as refused:
        owner.registry.add("more", str(tmp_path / "more.csv"), schema=tmp_path / "ids.yaml")
    assert "p0" not in str(refused.value)
    assert owner.registry.names() == ["patients", "people"]


def test_data_that_came_to_hold_more_rows_of_a_person_begin_no_run(owner: Owner, tmp_path: Path) -> None:
    """As it was registered it held what was declared; the check, the dry run and the run itself say the same."""
    approve(owner, RUN)
    write_rows(tmp_path / "people.csv", most=3)
    before = charged(owner)
    with pytest.raises(BadTable, match=SAID):
        owner.mail.hear(Outside(owner, RUN).release())
    assert (charged(owner), logged(owner.home, "refused")) == (before, [])
    wrong = [check.detail for check in checkup(owner.home) if check.check == "data set people" and not check.ok]
    assert any(SAID in words for words in wrong)
    with pytest.raises(BadTable, match=SAID):
        rehearse(owner, RUN)
    write_rows(tmp_path / "people.csv", most=2)
    assert heard(owner, Outside(owner, RUN).release())
    assert not [check.detail for check in checkup(owner.home) if SAID in check.detail]


# A few rows of each person: the same in every run, and no others are offered.


def offered(keeping: Owner, run: Terms) -> list[int]:
    table = rehearse(keeping, run).rows.table
    assert table is not None
    return sorted(int(dose) - 300 for dose in table.column("dose").to_pylist())


def test_two_rows_of_each_patient_leave_and_the_same_ones_in_every_run(keeping: Owner) -> None:
    """Twelve rows are asked for, of six patients: all that are kept."""
    first = offered(keeping, KEEPING)
    assert Counter(row // 10 for row in first) == dict.fromkeys(range(6), 2)
    assert offered(keeping, replace(KEEPING, run="run-2")) == first


def test_in_rounds_no_other_row_is_bid(keeping: Owner) -> None:
    run = terms(protocol="interactive", size=15, **PATIENTS)
    assert offered(keeping, run) == offered(keeping, KEEPING)


def test_small_groups_are_counted_among_kept_rows(keeping: Owner, tmp_path: Path) -> None:
    """The first ten rows, one patient's, have a value of their own: ten in the file, but two that take part.

    All other rows are alike, whichever the owner's key takes.
    """
    rows = [f"50,{300 + row},{CANARY if row < 10 else 'f'},no,p{row // 10}" for row in range(60)]
    (tmp_path / "people.csv").write_text("\n".join(["age,dose,sex,ill,patient", *rows]) + "\n")
    data = keeping.registry.get("people")
    for smallest, withheld in ((2, 0), (3, 2)):
        with open_source(data.source) as source:
            key = keeping.home.sampling_key()
            data_of_run = data.guarded(source, KEEPING, smallest_group=smallest, key=key, run_key=key)
            assert (data_of_run.withheld, data_of_run.scan.row_count) == (withheld, 12 - withheld)
