"""A node behind the seat that engines talk to."""

import json
from pathlib import Path

import pytest
from node_world import approve, call, make_node, terms

from likeset.engines.seats import REASONS_FILE, SETTINGS_FILE, Table, load_settings
from likeset.node.owner_node import OwnerNode
from likeset.protocol.messages import encode


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A site whose settings name the node's factory; terms that end in 2099, since sites have a real clock."""
    make_node(tmp_path)
    settings = {"factory": "likeset.node.site:owner", "folder": str(tmp_path / "node-{site}")}
    (tmp_path / SETTINGS_FILE).write_text(json.dumps(settings))
    run = terms(expires="2099-01-01")
    return Table("a", {run.digest: run}, load_settings(tmp_path, "a"))


def test_a_site_waits_for_its_steward_and_answers_when_he_has_approved(table: Table, tmp_path: Path) -> None:
    (run,) = table.terms.values()
    assert table.standing(run.digest) == "waiting"
    assert table.hear(encode(call(run))) == "abstains"
    with OwnerNode(tmp_path / "node-a") as steward:
        approve(steward, run)
    assert table.standing(run.digest) == "ready"
    first = table.hear(encode(call(run)))
    assert isinstance(first, list)
    assert table.hear(encode(call(run))) == first
    with OwnerNode(tmp_path / "node-a") as steward:
        steward.withdraw(run.run, by="Ada")
    assert table.hear(encode(call(run))) == "abstains"


def test_a_site_whose_node_refuses_abstains(table: Table, tmp_path: Path) -> None:
    (run,) = table.terms.values()
    assert table.standing(run.digest) == "waiting"
    with OwnerNode(tmp_path / "node-a") as steward:
        steward.deny(run.run, by="Ada", reason="no contract")
    assert table.standing(run.digest) == "abstains"
    assert "no contract" not in (tmp_path / "node-a" / REASONS_FILE).read_text()


def test_a_site_of_another_name_than_its_node_abstains(table: Table, tmp_path: Path) -> None:
    (run,) = table.terms.values()
    (tmp_path / "node-a").rename(tmp_path / "node-b")
    assert Table("b", table.terms, load_settings(tmp_path, "b")).standing(run.digest) == "abstains"
    assert "the node in this directory is a" in (tmp_path / "node-b" / REASONS_FILE).read_text()
