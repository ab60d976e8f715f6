"""A few rows of each person: an owner draws them by its own key, the same in every run, and offers no others."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from home_world import CANARY, SCHEMA, make_owner, opened, rows_text, terms

from likeset.homes.owner import Owner
from likeset.homes.review import rehearse
from likeset.protocol.terms import Terms
from likeset.tables.schema import Schema

KEPT = SCHEMA + "id: {column: patient, keep: 2}\n"
RUN = terms(schema_digest=Schema.from_text(KEPT).digest, rows_per_unit=2, id_column="patient")


def write_rows(path: Path) -> None:
    """60 rows of six patients, ten each; the dose tells which row it is."""
    head, *rows = rows_text(3).splitlines()
    path.write_text("\n".join([f"{head},patient", *(f"{row},p{place // 10}" for place, row in enumerate(rows))]) + "\n")


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Owner]:
    (tmp_path / "keep.yaml").write_text(KEPT)
    write_rows(tmp_path / "people.csv")
    with opened(make_owner(tmp_path)) as found:
        found.registry.add("people", str(tmp_path / "people.csv"), schema=tmp_path / "keep.yaml")
        yield found


def offered(owner: Owner, run: Terms) -> list[int]:
    """The numbers of the rows that would leave, of those in the file."""
    table = rehearse(owner, run).rows.table
    assert table is not None
    return sorted(int(dose) - 300 for dose in table.column("dose").to_pylist())


def test_two_rows_of_each_patient_leave_and_the_same_ones_in_every_run(owner: Owner) -> None:
    """Twelve rows are asked for, of six patients: all that are kept."""
    first = offered(owner, RUN)
    assert Counter(row // 10 for row in first) == dict.fromkeys(range(6), 2)
    assert offered(owner, replace(RUN, run="run-2")) == first


def test_in_rounds_no_other_row_is_bid(owner: Owner) -> None:
    run = terms(
        schema_digest=Schema.from_text(KEPT).digest,
        rows_per_unit=2,
        id_column="patient",
        protocol="interactive",
        size=15,
    )
    assert offered(owner, run) == offered(owner, RUN)


def test_small_groups_are_counted_among_kept_rows(owner: Owner, tmp_path: Path) -> None:
    """The first ten rows, one patient's, have a value of their own: ten in the file, but two that take part.

    All other rows are alike, whichever the owner's key takes.
    """
    rows = [f"50,{300 + row},{CANARY if row < 10 else 'f'},no,p{row // 10}" for row in range(60)]
    (tmp_path / "people.csv").write_text("\n".join(["age,dose,sex,ill,patient", *rows]) + "\n")
    data = owner.registry.get("people")
    for smallest, withheld in ((2, 0), (3, 2)):
        with data.open_source() as source:
            data_of_run = data.guarded(source, RUN, smallest_group=smallest, key=owner.home.sampling_key())
            assert (data_of_run.withheld, data_of_run.scan.row_count) == (withheld, 12 - withheld)
