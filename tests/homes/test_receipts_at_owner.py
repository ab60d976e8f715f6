"""Receipts at an owner, as letters bring them and as people see them."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from card_world import secret_of
from node_world import approve, logged, make_node, terms
from receipt_house import LATER, RUN, House
from typer.testing import CliRunner

from likeset.app.cli import app
from likeset.errors import LikesetError
from likeset.homes import owner_node
from likeset.homes import review as outbox
from likeset.homes.mail import Line, Receipt, Transcript, most_bytes_to_owner, most_receipt_bytes
from likeset.homes.owner_node import OwnerNode, owner_run
from likeset.homes.review import review
from likeset.protocol.party import CURATOR


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    yield made
    made.node.close()


# In letters.


def test_a_receipt_in_a_letter_is_kept_and_what_is_none_is_refused_and_logged(house: House) -> None:
    """The curator hears nothing of it, whatever becomes of it."""
    good, bad = house.signed(), house.signed_by_stranger()
    house.send(bad)
    assert not house.path.exists()
    house.node.ledger.refresh()
    assert "the curator's card did not sign it" in logged(house.node, "refused")[-1]["reason"]
    house.send(good)
    assert house.kept_bytes() == good.to_bytes()


def test_a_flood_of_bad_receipts_does_not_fill_the_log(house: House) -> None:
    for number in range(60):
        house.send(house.signed(lines=house.without("offer"), owner=f"b{number}"))
        house.send(b"x" * (number + 1))
    assert len(logged(house.node, "refused")) == 40


def test_what_left_is_acknowledged_also_after_a_withdrawal(house: House) -> None:
    less, more = house.signed(lines=house.without("offer")), house.signed()
    house.node.withdraw(RUN.run, by="Ada")
    seat = owner_run(house.node, house.outside.invitation)
    assert seat is not None
    assert seat.absent
    house.seat = seat
    house.send(less)
    assert house.kept_bytes() == less.to_bytes()
    house.take(more)
    assert house.kept_bytes() == more.to_bytes()


def test_whoever_was_never_introduced_sends_no_receipt(tmp_path: Path) -> None:
    """Before the consumer's letter came, nobody has said who curates; what another card wrote is not even opened."""
    house = House(tmp_path, begin=False)
    house.outside.curator.introduce([house.seat.acceptance()])
    with pytest.raises(LikesetError):
        house.send(house.signed(lines=()))
    assert not house.path.exists()
    house.node.close()


def test_the_receipt_of_the_longest_run_fits() -> None:
    size = 300
    run = terms(protocol="interactive", size=size)
    kinds = (("to owner", "summary-release"), ("to owner", "asked"), ("from owner", "bid"), ("from owner", "delivery"))
    lines = [
        Line(number, way, 2 * number + place % 2, kind, "0" * 64, 10**9, 0)  # type: ignore[arg-type]
        for number in range(size + 1)
        for place, (way, kind) in enumerate(kinds)
    ]
    card = secret_of(CURATOR).card
    names = ("r" * 128, "0" * 32, run.digest, "o" * 128, card.fingerprint, card.fingerprint)
    receipt = Receipt(Transcript(*names, tuple(lines)), "2029-01-01T00:00:00+00:00", card, bytes(64))
    assert len(receipt.to_bytes()) < most_receipt_bytes(run) < most_bytes_to_owner(run)


# As people see it.


def test_the_outbox_and_the_review_say_whether_the_curator_acknowledged(house: House) -> None:
    def told() -> tuple[str, str]:
        result = CliRunner().invoke(app, ["owner", "outbox", "--json", "--node", str(house.folder)])
        (message,) = json.loads(result.stdout)["messages"]
        answers = dict(review(house.node, RUN.run).lines)
        return message["acknowledged"], answers["Did the curator acknowledge what left?"]

    assert told() == ("no", "No: no receipt came yet. One comes when the run ends or is resumed.")
    house.take(house.signed(lines=house.without("offer")))
    assert told() == ("no", "Not all: 1 of 1 letters that left are not in its receipt.")
    house.take(house.signed(now=LATER))
    assert told() == ("yes", "Yes: 12 rows, on 2029-03-06.")
    house.path.unlink()
    assert told() == ("no", "Its receipt does not hold: the receipt that was kept is gone.")


def test_a_run_that_sent_nothing_is_not_asked_about(tmp_path: Path) -> None:
    with OwnerNode(make_node(tmp_path)) as node:
        approve(node, RUN)
        assert "Did the curator acknowledge what left?" not in dict(review(node, RUN.run).lines)


def test_all_receipts_of_a_node_are_checked_at_once(house: House) -> None:
    house.take(house.signed())
    house.take_part(terms(run="run-2", expires="2099-01-01"))
    house.begin()
    first, second = owner_node.check_all(house.node)
    assert first.receipt is not None
    assert (first.run, first.receipt.transcript.rows, first.problems) == ("run-1", 12, ())
    assert first.receipt.card.fingerprint == RUN.cards[CURATOR]
    assert (second.run, second.receipt, second.problems) == ("run-2", None, ())
    assert second.notes == ("letters left, and no receipt came yet",)


def test_nothing_of_a_row_is_in_a_receipt_or_the_log(house: House) -> None:
    """Each row's dose ends in .4242, and no other number does."""
    house.take(house.signed())
    for path in (house.path, house.folder / "ledger.sqlite", house.folder / "ledger.sqlite-wal"):
        assert not path.exists() or b".4242" not in path.read_bytes()


def test_a_copied_directory_verifies_elsewhere(house: House, tmp_path: Path) -> None:
    house.take(house.signed())
    house.node.close()
    shutil.copytree(house.folder, tmp_path / "elsewhere")
    with OwnerNode(tmp_path / "elsewhere") as node:
        assert outbox.verify(node) == ([], [])
