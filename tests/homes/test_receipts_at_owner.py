"""Receipts at an owner, as engines bring them and as people see them."""

import importlib.util
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from node_world import Clock, approve, call, hear, logged, make_node, terms
from receipt_house import LATER, RUN, House, verify
from typer.testing import CliRunner

from likeset.app.cli import app
from likeset.errors import BadDocument, IllegalMessage, InvalidArgument
from likeset.homes import receipts
from likeset.homes.owner import kept_receipts
from likeset.homes.owner.node import OwnerNode
from likeset.homes.owner.review import review
from likeset.homes.receipts import Receipt
from likeset.homes.site_party import NOTED
from likeset.homes.transcripts import Line, Transcript
from likeset.protocol.messages import encode
from likeset.transports.sites import REASONS_FILE, SETTINGS_FILE, SiteParties, load_settings, most_receipt_bytes

pytestmark = pytest.mark.skipif(importlib.util.find_spec("cryptography") is None, reason="needs likeset[nvflare]")


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    yield made
    made.node.close()


# Over the seat that engines talk to.


@pytest.fixture
def table(house: House) -> SiteParties:
    settings = {"factory": "likeset.homes.owner.site:owner", "folder": str(house.place / "node-{site}")}
    (house.place / SETTINGS_FILE).write_text(json.dumps(settings))
    return SiteParties("a", {RUN.digest: RUN}, load_settings(house.place, "a"))


def test_a_site_keeps_its_receipt_and_says_one_word_to_everything(house: House, table: SiteParties) -> None:
    good, bad = house.signed().to_bytes(), house.signed(key=house.stranger.key).to_bytes()
    assert table.acknowledge(RUN.digest, bad) == NOTED
    assert not house.path.exists()
    house.node.log.refresh()
    assert "another key" in logged(house.node, "refused")[-1]["reason"]
    assert table.acknowledge(RUN.digest, good) == NOTED
    assert house.kept_bytes() == good


def test_a_flood_of_bad_receipts_does_not_fill_the_log(house: House, table: SiteParties) -> None:
    for number in range(60):
        table.acknowledge(RUN.digest, house.signed(lines=house.without("offer"), owner=f"b{number}").to_bytes())
        table.acknowledge(RUN.digest, b"x" * number)
    assert len(logged(house.node, "refused")) == 40


def test_what_left_is_acknowledged_also_after_a_withdrawal_and_after_the_end_of_the_terms(
    house: House, table: SiteParties
) -> None:
    less, more = house.signed(lines=house.without("offer")), house.signed()
    house.node.withdraw(RUN.run, by="Ada")
    assert table.standing(RUN.digest) == "abstains"
    assert table.acknowledge(RUN.digest, less.to_bytes()) == NOTED
    assert house.kept_bytes() == less.to_bytes()
    ended = replace(table, clock=Clock(datetime(2100, 1, 1, tzinfo=UTC)))
    assert ended.standing(RUN.digest) == "abstains"
    assert ended.acknowledge(RUN.digest, more.to_bytes()) == NOTED
    assert house.kept_bytes() == more.to_bytes()
    assert table.hear(encode(call(RUN))) == "abstains"


def test_who_has_not_decided_keeps_no_receipt(house: House) -> None:
    other = terms(run="run-2", expires="2099-01-01")
    settings = {"factory": "likeset.homes.owner.site:owner", "folder": str(house.place / "node-{site}")}
    (house.place / SETTINGS_FILE).write_text(json.dumps(settings))
    table = SiteParties("a", {other.digest: other}, load_settings(house.place, "a"))
    receipt = house.signed(run="run-2", terms=other.digest, lines=())
    assert table.acknowledge(other.digest, receipt.to_bytes()) == NOTED
    assert not (house.folder / "receipts" / "run-2.json").exists()
    assert "has decided yet" in (house.folder / REASONS_FILE).read_text()
    house.node.log.refresh()
    house.node.deny("run-2", by="Ada", reason="no contract")
    # The curator says that it received nothing: whoever denied may keep that.
    assert table.acknowledge(other.digest, receipt.to_bytes()) == NOTED
    assert kept_receipts.kept_receipt(house.node, "run-2") == receipt


def test_the_receipt_of_the_longest_run_fits() -> None:
    size = 300
    run = terms(protocol="interactive", size=size)
    kinds = (("to owner", "summary-release"), ("to owner", "asked"), ("from owner", "bid"), ("from owner", "delivery"))
    lines = [
        Line(number, way, kind, "0" * 64, 10**9, 0)  # type: ignore[arg-type]
        for number in range(size + 1)
        for way, kind in kinds
    ]
    receipt = Receipt(Transcript("r" * 128, run.digest, "o" * 128, tuple(lines)), "2029-01-01", "0" * 64, "0" * 128)
    assert len(receipt.to_bytes()) < most_receipt_bytes(run)


# As people see it.


def test_the_outbox_and_the_review_say_whether_the_curator_acknowledged(house: House) -> None:
    def told() -> tuple[str, str]:
        result = CliRunner().invoke(app, ["owner", "outbox", "--json", "--node", str(house.folder)])
        (message,) = json.loads(result.stdout)["messages"]
        answers = dict(review(house.node, RUN.run).lines)
        return message["acknowledged"], answers["Did the curator acknowledge what left?"]

    assert told() == ("no", "No: no receipt came yet. One comes when the run ends or is resumed.")
    house.take(house.signed(lines=house.without("offer")))
    assert told() == ("no", "Not all: 1 of 1 messages that left are not in its receipt.")
    house.take(house.signed(now=LATER))
    assert told() == ("yes", "Yes: 12 rows, on 2029-03-06.")
    (house.folder / "curator.pub").unlink()
    word, sentence = told()
    assert word == "yes", "a pinned key signed it then"
    assert sentence == "Yes: 12 rows, on 2029-03-06."
    house.path.unlink()
    assert told() == ("no", "Its receipt does not hold: the receipt that was kept is gone.")


def test_an_unknown_key_is_called_so_in_the_outbox(house: House) -> None:
    (house.folder / "curator.pub").unlink()
    house.take(house.signed())
    result = CliRunner().invoke(app, ["owner", "outbox", "--node", str(house.folder)], env={"COLUMNS": "160"})
    assert "unknown key" in result.stdout
    said = kept_receipts.in_words(house.node, RUN.run)
    assert said.endswith("signed with a key that nobody here pinned.")


def test_a_run_that_sent_nothing_is_not_asked_about(tmp_path: Path) -> None:
    with OwnerNode(make_node(tmp_path)) as node:
        approve(node, RUN)
        assert "Did the curator acknowledge what left?" not in dict(review(node, RUN.run).lines)


def test_all_receipts_of_a_node_are_verified_at_once_or_that_of_a_run(house: House) -> None:
    second = terms(run="run-2", expires="2099-01-01")
    approve(house.node, second)
    assert isinstance(hear(house.node, encode(call(second))), list)
    house.take(house.signed())
    found = verify(house.folder)
    assert found["ok"]
    assert [(one["run"], one["rows"], one["pinned"]) for one in found["receipts"]] == [
        ("run-1", 12, True),
        ("run-2", None, False),
    ]
    assert found["receipts"][1]["notes"] == ["messages left, and no receipt came yet"]
    assert verify(house.folder, "--run", "run-1")["ok"]
    (missing,) = verify(house.folder, "--run", "run-2", code=1)["receipts"]
    assert missing["problems"] == ["no receipt of this run is kept"]
    shown = CliRunner().invoke(app, ["transcript", "verify", str(house.folder)]).stdout
    assert "1 message, 12 rows received" in shown
    assert isinstance(verify(house.folder, "--run", "run-3", code=1), InvalidArgument)
    assert isinstance(verify(house.folder, "--key", house.curator.public_key, code=1), InvalidArgument)
    assert isinstance(verify(house.path, code=1), InvalidArgument)


def test_a_receipt_that_came_by_hand_is_kept_if_it_is_good(house: House) -> None:
    def keep(receipt: Receipt) -> Any:
        receipts.write_receipt(house.place / "by-hand.json", receipt)
        arguments = ["transcript", "keep", str(house.folder), str(house.place / "by-hand.json"), "--json"]
        return CliRunner().invoke(app, arguments)

    assert isinstance(keep(house.signed(owner="b")).exception, IllegalMessage)
    assert isinstance(keep(house.signed(key=house.stranger.key)).exception, IllegalMessage)
    assert isinstance(keep(house.signed(run="never")).exception, InvalidArgument)
    assert not house.path.exists()
    assert json.loads(keep(house.signed()).stdout)["rows"] == 12
    assert house.checked().pinned


def test_pinning_a_key_is_logged_and_what_is_no_key_is_refused(house: House) -> None:
    def trust(*words: object) -> Any:
        return CliRunner().invoke(app, ["owner", "trust", *map(str, words), "--node", str(house.folder), "--json"])

    assert json.loads(trust(house.curator.public_key).stdout)["key"] == kept_receipts.pinned_key(house.node)
    (house.place / "no-key").write_text("nonsense")
    assert isinstance(trust(house.place / "no-key").exception, BadDocument)
    assert isinstance(trust(house.stranger.public_key).exception, InvalidArgument)
    assert trust(house.stranger.public_key, "--replace", "--by", "Eve").exit_code == 0
    assert [one["by"] for one in logged(house.node, "trusted")] == ["Ada", "Eve"]


def test_check_says_that_no_key_is_pinned(house: House) -> None:
    def told() -> tuple[bool, str]:
        result = CliRunner().invoke(app, ["owner", "check", "--json", "--node", str(house.folder)])
        findings = {one["what"]: one for one in json.loads(result.stdout)["findings"]}
        return findings["curator's key"]["ok"], findings["curator's key"]["words"]

    assert told()[0]
    (house.folder / "curator.pub").write_text("nonsense")
    assert told() == (False, f"{house.folder / 'curator.pub'}: must hold a public key: 64 hexadecimal digits")
    (house.folder / "curator.pub").unlink()
    assert told()[0] is False
    assert "likeset owner trust" in told()[1]


def test_nothing_of_a_row_is_in_a_receipt_or_the_log(house: House) -> None:
    """Each row's dose ends in .4242, and no other number does."""
    house.take(house.signed())
    for path in (house.path, house.folder / "ledger.sqlite", house.folder / "ledger.sqlite-wal"):
        assert not path.exists() or b".4242" not in path.read_bytes()


def test_a_copied_directory_verifies_elsewhere(house: House, tmp_path: Path) -> None:
    house.take(house.signed())
    house.node.close()
    shutil.copytree(house.folder, tmp_path / "elsewhere")
    assert verify(tmp_path / "elsewhere")["ok"]
