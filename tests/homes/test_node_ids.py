"""A person with more rows than declared: the node notices before a run begins, and says so in one way everywhere."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from node_world import SCHEMA, Clock, approve, call, charged, hear, logged, make_node, rows_text, terms

from likeset.errors import BadTable
from likeset.homes.owner import datasets
from likeset.homes.owner.checkup import checkup
from likeset.homes.owner.node import OwnerNode
from likeset.homes.owner.rehearsal import rehearse
from likeset.protocol.messages import encode
from likeset.protocol.terms import Terms
from likeset.tables.schema import rows_per_id
from likeset.tables.schema.schema import Schema

WITH_IDS = SCHEMA + "id: {column: patient, rows_per_id: 2}\n"
SAID = "it has 3 rows of one id, or without one, where the schema declares at most 2"
RUN = terms(schema_digest=Schema.from_text(WITH_IDS).digest, rows_per_unit=2)


def write_rows(path: Path, *, most: int, unnamed: int = 0) -> None:
    """60 rows: ``most`` of them of one patient, written in several ways, some of nobody, the others of one each."""
    head, *rows = rows_text(3).splitlines()
    ids = ["p0", " p0", "p0 "][:most] + ["NA"] * unnamed
    ids += [f"p{place + 1}" for place in range(60 - len(ids))]
    path.write_text(
        "\n".join([f"{head},patient", *(f"{row},{one}" for row, one in zip(rows, ids, strict=True))]) + "\n"
    )


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OwnerNode]:
    (tmp_path / "ids.yaml").write_text(WITH_IDS)
    write_rows(tmp_path / "people.csv", most=2)
    with OwnerNode(make_node(tmp_path), clock=Clock()) as opened:
        opened.registry.add("people", str(tmp_path / "people.csv"), schema=tmp_path / "ids.yaml")
        yield opened


def begins(node: OwnerNode, run: Terms = RUN) -> bool:
    return isinstance(hear(node, encode(call(run))), list)


@pytest.mark.parametrize(("most", "unnamed"), [(3, 0), (2, 3)])
def test_such_data_are_not_registered(node: OwnerNode, tmp_path: Path, most: int, unnamed: int) -> None:
    """Rows that do not say whose they are could be one person's."""
    write_rows(tmp_path / "more.csv", most=most, unnamed=unnamed)
    with pytest.raises(BadTable, match=SAID) as refused:
        node.registry.add("more", str(tmp_path / "more.csv"), schema=tmp_path / "ids.yaml")
    assert "p0" not in str(refused.value)
    assert node.registry.names() == ["patients", "people"]


def test_data_that_came_to_hold_more_rows_of_a_person_begin_no_run(node: OwnerNode, tmp_path: Path) -> None:
    """As it was registered it held what was declared; the check, the dry run and the run itself say the same."""
    approve(node, RUN)
    write_rows(tmp_path / "people.csv", most=3)
    before = charged(node)
    assert not begins(node)
    assert SAID in logged(node, "refused")[-1]["reason"]
    assert (charged(node), logged(node, "began")) == (before, [])
    wrong = [one.words for one in checkup(node) if one.what == "data set people" and not one.ok]
    assert any(SAID in words for words in wrong)
    with pytest.raises(BadTable, match=SAID):
        rehearse(node, RUN)
    write_rows(tmp_path / "people.csv", most=2)
    assert begins(node)
    assert not [one.words for one in checkup(node) if SAID in one.words]


def test_ids_are_counted_once_for_the_same_data(
    node: OwnerNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[str] = []

    def counting(source: object, column: str, *, missing: object) -> int:
        counted.append(column)
        return rows_per_id.most_rows_per_id(source, column, missing=missing)  # type: ignore[arg-type]

    monkeypatch.setattr(datasets, "most_rows_per_id", counting)
    runs = [terms(run=f"run-{place}", schema_digest=RUN.schema_digest, rows_per_unit=2, size=2) for place in range(3)]
    for run in runs:
        approve(node, run)
        with OwnerNode(node.home.folder, clock=Clock()) as another_process:
            assert begins(another_process, run)
    assert len(counted) == 1
    write_rows(tmp_path / "people.csv", most=1)
    rehearse(node, RUN)
    assert len(counted) == 2
    (kept,) = node.home.folder.glob("**/ids.yaml")
    kept.write_text("likeset: ids\nversion: 1\n")
    rehearse(node, RUN)
    assert len(counted) == 3, "what is damaged is not believed"
    without = terms(run="without-ids")
    approve(node, without)
    assert begins(node, without)
    assert len(counted) == 3
