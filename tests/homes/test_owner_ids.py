"""A person with more rows than declared: the home notices before a run begins, and says so in one way everywhere."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from home_world import SCHEMA, Outside, approve, charged, heard, logged, make_owner, opened, rows_text, terms

from likeset.errors import BadTable
from likeset.homes.checkup import checkup
from likeset.homes.owner import Owner
from likeset.homes.review import rehearse
from likeset.protocol.sealed import foreseen_sample
from likeset.tables.schema import Schema
from likeset.tables.sources import Block, Source

WITH_IDS = SCHEMA + "id: {column: patient, rows_per_id: 2}\n"
SAID = "it has 3 rows of one id, or without one, where the schema declares at most 2"
RUN, AGAIN = (
    terms(run=run, schema_digest=Schema.from_text(WITH_IDS).digest, rows_per_unit=2, id_column="patient")
    for run in ("run-1", "run-2")
)


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
    approve(owner, AGAIN)
    write_rows(tmp_path / "people.csv", most=3)
    before = charged(owner)
    with pytest.raises(BadTable, match=SAID):
        owner.mail.hear(Outside(owner, RUN).release())
    assert SAID in logged(owner.home, "refused")[-1]["reason"]
    assert (charged(owner), logged(owner.home, "began")) == (before, [])
    wrong = [check.detail for check in checkup(owner.home) if check.check == "data set people" and not check.ok]
    assert any(SAID in words for words in wrong)
    with pytest.raises(BadTable, match=SAID):
        rehearse(owner, RUN)
    write_rows(tmp_path / "people.csv", most=2)
    assert heard(owner, Outside(owner, AGAIN).release())
    assert not [check.detail for check in checkup(owner.home) if SAID in check.detail]


def test_all_that_takes_all_rows_to_know_takes_one_reading(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids, small groups, texts that are too long, rows that cannot be used, and the sample of the answer."""
    read: list[tuple[str, ...]] = []
    blocks = Source.blocks

    def counting(source: Source, columns: Sequence[str], **more: Any) -> Iterator[Block]:
        read.append(tuple(columns))
        return blocks(source, columns, **more)

    monkeypatch.setattr(Source, "blocks", counting)
    data = owner.registry.get("people")
    with data.open_source() as source:
        data_of_run = data.guarded(source, RUN, smallest_group=2, key=owner.home.sampling_key())
        assert len(read) == 1
        assert "patient" in read[0]
        assert (
            len(data_of_run.scan.draw(foreseen_sample(RUN.run, owner.home.sampling_key()))[0].row_numbers)
            == data_of_run.row_count
        )
    assert len(read) == 1
