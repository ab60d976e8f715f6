"""``likeset owner row``: the handle inside a bought record finds its row again, and only at its owner."""

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner, Result

sys.path.insert(0, str(Path(__file__).parents[1] / "homes"))
sys.path.insert(0, str(Path(__file__).parents[1] / "protocol"))
sys.path.insert(0, str(Path(__file__).parents[1] / "transports/mailbox"))

from card_world import give_card, introduce
from node_world import CANARY, SCHEMA, approve, held, make_node, rows_text, terms, write_policy
from split_homes import split_homes_in

from likeset.app import cli
from likeset.homes.owner_node import OwnerNode, make_home
from likeset.protocol.terms import Terms
from likeset.protocol.wire import Offer, decode
from likeset.tables.schema import Schema

FAR = {"expires": "2099-01-01"}


def ask(node: Path, *words: object, code: int = 0) -> Result:
    asked = ["owner", "row", "--node", str(node), *map(str, words)]
    result = CliRunner().invoke(cli.app, asked, env={"COLUMNS": "160"})
    assert result.exit_code == code, (result.output, result.exception)
    return result


def found(node: Path, *words: object) -> Any:
    return json.loads(ask(node, *words, "--json").stdout)


def mistake(node: Path, *words: object) -> str:
    result = ask(node, *words, code=1)
    assert result.exception is not None
    assert not isinstance(result.exception, SystemExit)
    return str(result.exception)


def offered(folder: Path, run: Terms, place: Path) -> dict[int, float]:
    """A whole run with this owner: by handle the dose of each row that left, which tells its line in the file."""
    with OwnerNode(folder) as node:
        approve(node, run)
        _, said_by_node = held(run, {"a": node}, place)
    (body,) = [decode(data).body for said in said_by_node if isinstance(said, list) for data in said]
    assert isinstance(body, Offer)
    with OwnerNode(folder) as node:
        from likeset.homes.review import rows_that_left

        table = rows_that_left(node, run.run).table
    assert table is not None
    return dict(zip(map(int, body.handles), table.column("dose").to_pylist(), strict=True))


def test_every_row_that_left_is_found_where_it_lies(tmp_path: Path) -> None:
    """The dose of the row in line n of the file, counted from the line after the head, is 300.4242 + n."""
    node = make_node(tmp_path)
    doses = offered(node, terms(**FAR), tmp_path / "curator")
    assert len(doses) == 12
    for handle, dose in doses.items():
        row = found(node, handle)
        line = round(dose - 300.4242)
        assert (row["run"], row["consumer"], row["data"]) == ("run-1", "new-clinic", "patients")
        assert (row["number"], row["place"]) == (line, f"line {line + 2}")
        assert row["source"].endswith("a.csv")
        assert row["record"]["dose"] == dose
        assert set(row["record"]) == {"age", "dose", "sex", "ill"}
        assert (row["unchanged"], row["id"]) == (True, {})
    assert "new-clinic" in ask(node, next(iter(doses))).stdout


def test_rows_of_small_groups_are_counted_when_the_line_is_told(tmp_path: Path) -> None:
    """The first two lines are a small group: the rows after them have other numbers in the run than in the file."""
    node = make_node(tmp_path, rare=2, smallest_group=3)
    for handle, dose in offered(node, terms(**FAR), tmp_path / "curator").items():
        assert found(node, handle, "--run", "run-1")["number"] == round(dose - 300.4242)


@pytest.mark.parametrize("kept", ["keep: 2", "rows_per_id: 10"])
def test_whose_row_it_is_stays_with_the_owner(tmp_path: Path, kept: str) -> None:
    schema = SCHEMA + f"id: {{column: patient, {kept}}}\n"
    (tmp_path / "ids.yaml").write_text(schema)
    head, *rows = rows_text(3).splitlines()
    lines = [f"{head},patient", *(f"{row},p{place // 10}" for place, row in enumerate(rows))]
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n")
    node = make_node(tmp_path)
    with OwnerNode(node) as opened:
        opened.registry.add("people", str(tmp_path / "people.csv"), schema=tmp_path / "ids.yaml")
    most = 2 if "keep" in kept else 10
    run = terms(schema_digest=Schema.from_text(schema).digest, rows_per_unit=most, id_column="patient", **FAR)
    for handle, dose in offered(node, run, tmp_path / "curator").items():
        row, line = found(node, handle), round(dose - 300.4242)
        assert (row["number"], row["id"]) == (line, {"patient": f"p{line // 10}"})
        assert "patient" not in row["record"]
    assert "the buyer has the record, and not the id" in ask(node, handle).stdout


def test_a_directory_of_files_tells_which_file(tmp_path: Path) -> None:
    make_home(tmp_path / "node", name="a")
    give_card(tmp_path / "node", "a")
    write_policy(tmp_path / "node", "a")
    (tmp_path / "rows.csv").write_text(rows_text(1))
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    table = pyarrow.csv.read_csv(tmp_path / "rows.csv")
    (tmp_path / "parts").mkdir()
    for part in range(3):
        pyarrow.parquet.write_table(table.slice(20 * part, 20), tmp_path / f"parts/{part}.parquet")
    assert isinstance(table, pa.Table)
    with OwnerNode(tmp_path / "node") as node:
        node.registry.add("patients", str(tmp_path / "parts"), schema=tmp_path / "schema.yaml")
    introduce(tmp_path / "node", terms(**FAR))
    for handle, dose in offered(tmp_path / "node", terms(**FAR), tmp_path / "curator").items():
        line = round(dose - 300.4242)
        assert found(tmp_path / "node", handle)["place"] == f"{line // 20}.parquet, row group 0, row {line % 20}"


def test_the_handle_of_another_owner_or_of_nobody_finds_nothing(tmp_path: Path) -> None:
    node, other = make_node(tmp_path), make_node(tmp_path, "b", seed=2)
    doses = offered(node, terms(**FAR), tmp_path / "curator")
    handle = next(iter(doses))
    assert "names no row that left this node in any run; it may be another owner's" in mistake(other, handle)
    assert "names no row that left this node in any run" in mistake(node, handle + 1)
    with OwnerNode(node) as opened:
        approve(opened, terms(run="run-2", **FAR))
        held(terms(run="run-2", **FAR), {"a": opened}, tmp_path / "curator")
    assert found(node, handle)["run"] == "run-1"
    assert "in run run-2; it may be another owner's" in mistake(node, handle, "--run", "run-2")
    assert "RUN = run-3: is not known here" in mistake(node, handle, "--run", "run-3")


@pytest.mark.parametrize("word", ["", "row 7", "-3", "1e5", "18446744073709551616", "٣", "7" * 5000])
def test_what_is_no_handle_is_one_clear_line(tmp_path: Path, word: str) -> None:
    said = mistake(make_node(tmp_path), "--", word)
    assert "must be a whole number up to 18446744073709551615" in said
    assert "\n" not in said
    assert len(said) < 1200


def test_data_that_changed_or_went_is_said_and_no_other_row_shown(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    handle = next(iter(offered(node, terms(**FAR), tmp_path / "curator")))
    before = (tmp_path / "a.csv").read_text()
    (tmp_path / "a.csv").write_text(before.replace("42,f", "43,f"))
    said = mistake(node, handle)
    assert "left in run run-1, from data set patients, which is not what it was" in said
    assert CANARY not in said
    (tmp_path / "a.csv").write_text(before)
    with OwnerNode(node) as opened:
        opened.ledger.purge(run="run-1")
    assert found(node, handle)["unchanged"] is None
    assert "messages of this run were purged" in ask(node, handle).stdout
    with OwnerNode(node) as opened:
        opened.registry.remove("patients")
    assert "run run-1 used data set patients, which is not registered any more" in mistake(node, handle)


def test_the_handle_in_a_record_of_a_split_run_finds_its_row(tmp_path: Path) -> None:
    """Handles come to the consumer inside envelopes; each finds the row whose values were bought."""
    homes = split_homes_in(tmp_path)
    homes.hold()
    summary = homes.summary
    names = homes.run.terms.owners
    homes.drop()
    for place, handle, label in zip(summary.owners, summary.handles, summary.labels, strict=True):
        row = found(homes.folder(names[place]), int(handle))
        assert row["run"] == homes.run.terms.run
        assert row["record"]["ill"] == str(label)
        for other in set(names) - {names[place]}:
            assert "it may be another owner's" in mistake(homes.folder(other), int(handle))
