"""``likeset owner row``: the handle inside a bought record finds its row again, and only at its owner."""

from functools import partial
from pathlib import Path

import pytest
import typed
from home_world import CANARY, SCHEMA, SCHEMA_OF_ALL, answered, invite, make_owner, rows_text, terms

from likeset.homes.owner import open_owner
from likeset.homes.review import rows_in_letters
from likeset.protocol.split import records_in
from likeset.protocol.terms import Kernel, SplitTerms, Terms
from likeset.protocol.wire import Offer, OfferShare
from likeset.tables.records import EnvelopeRecords
from likeset.tables.schema import Schema

FAR = {"expires": "2099-01-01"}


ask, found = partial(typed.run, "owner", "row"), partial(typed.document, "owner", "row")
mistake = partial(typed.mistake, "owner", "row")


def offered(folder: Path, run: Terms) -> dict[int, float]:
    """A run with this owner: by handle the dose of each row that left, which tells its line in the file."""
    with open_owner(folder) as owner:
        outside, (letter,) = answered(owner, run)
        body, table = outside.read(letter).body, rows_in_letters(owner, run.run).table
    assert isinstance(body, Offer)
    assert table is not None
    return dict(zip(map(int, body.handles), table.column("dose").to_pylist(), strict=True))


def test_every_row_that_left_is_found_where_it_lies(tmp_path: Path) -> None:
    """The dose of the row in line n of the file, counted from the line after the head, is 300.4242 + n."""
    node = make_owner(tmp_path)
    doses = offered(node, terms(**FAR))
    assert len(doses) == 12
    for handle, dose in doses.items():
        row = found("run-1", handle, home=node)
        line = round(dose - 300.4242)
        assert (row["run"], row["consumer"], row["data"]) == ("run-1", "new-clinic", "patients")
        assert (row["number"], row["place"]) == (line, f"line {line + 2}")
        assert row["source"].endswith("a.csv")
        assert row["record"]["dose"] == dose
        assert set(row["record"]) == {"age", "dose", "sex", "ill"}
        assert (row["handle"], row["id"]) == (str(handle), {})


@pytest.mark.parametrize("kept", ["keep: 2", "rows_per_id: 10"])
def test_whose_row_it_is_stays_with_the_owner(tmp_path: Path, kept: str) -> None:
    schema = SCHEMA + f"id: {{column: patient, {kept}}}\n"
    (tmp_path / "ids.yaml").write_text(schema)
    head, *rows = rows_text(3).splitlines()
    lines = [f"{head},patient", *(f"{row},p{place // 10}" for place, row in enumerate(rows))]
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n")
    node = make_owner(tmp_path)
    with open_owner(node) as opened:
        opened.registry.add("people", str(tmp_path / "people.csv"), schema=tmp_path / "ids.yaml")
    most = 2 if "keep" in kept else 10
    run = terms(schema_digest=Schema.from_text(schema).digest, rows_per_unit=most, id_column="patient", **FAR)
    for handle, dose in offered(node, run).items():
        row, line = found("run-1", handle, home=node), round(dose - 300.4242)
        assert (row["number"], row["id"]) == (line, {"patient": f"p{line // 10}"})
        assert "patient" not in row["record"]


def test_the_handle_of_another_owner_or_of_nobody_finds_nothing(tmp_path: Path) -> None:
    node = make_owner(tmp_path)
    handle = next(iter(offered(node, terms(**FAR))))
    offered(node, terms(run="run-2", **FAR))
    for run, wrong in (("run-1", handle + 1), ("run-2", handle)):
        mistake(run, wrong, home=node)
    mistake("run-3", handle, home=node)
    with open_owner(node) as opened:
        invite(opened, terms(run="run-4", **FAR))
    mistake("run-4", handle, home=node)


@pytest.mark.parametrize("word", ["", "row 7", "-3", "1e5", "18446744073709551616", "7" * 5000])
def test_what_is_no_handle_is_refused(tmp_path: Path, word: str) -> None:
    ask("--", "run-1", word, code=2, home=make_owner(tmp_path))


def test_data_that_changed_or_went_is_said_and_no_other_row_shown(tmp_path: Path) -> None:
    node = make_owner(tmp_path)
    handle = next(iter(offered(node, terms(**FAR))))
    before = (tmp_path / "a.csv").read_text()
    (tmp_path / "a.csv").write_text(before.replace("42,f", "43,f"))
    said = mistake("run-1", handle, home=node)
    assert CANARY not in said
    (tmp_path / "a.csv").write_text(before)
    assert found("run-1", handle, home=node)["run"] == "run-1"
    with open_owner(node) as opened:
        opened.ledger.purge(run="run-1")
    mistake("run-1", handle, home=node)


def test_the_handle_in_a_record_of_a_split_run_finds_its_row(tmp_path: Path) -> None:
    """Handles come to the consumer inside envelopes; each finds the row whose values are in its envelope."""
    kernel = Kernel(columns=SCHEMA_OF_ALL.width, dimension=16, gamma=0.4, seed=7, largest=10.0)
    run = terms(**FAR, split=SplitTerms("ab" * 32, 6, gamma=0.3), kernel=kernel)
    node = make_owner(tmp_path)
    with open_owner(node) as owner:
        outside, letters = answered(owner, run)
        bodies = [outside.read(letter).body for letter in letters]
        left = rows_in_letters(owner, run.run)
    read = EnvelopeRecords(SCHEMA_OF_ALL, labelled=True).read(
        records_in([body for body in bodies if isinstance(body, OfferShare)])
    )
    assert left.table is not None
    assert (left.count, len(read.handles)) == (12, 12)
    for handle, dose in zip(read.handles, left.table.column("dose").to_pylist(), strict=True):
        assert found(run.run, int(handle), home=node)["record"]["dose"] == dose
