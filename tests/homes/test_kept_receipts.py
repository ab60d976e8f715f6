"""Receipts at an owner: good ones are kept, others are refused and logged, and none is lost to a weaker one."""

import json
import stat
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from node_world import logged, terms
from receipt_house import LATER, ROUNDS, RUN, House
from typer.testing import CliRunner

from likeset.app.cli import app
from likeset.errors import BadDocument
from likeset.homes import mail, owner_node, review
from likeset.homes.mail import Line, Receipt
from likeset.homes.owner_node import OwnerNode
from likeset.protocol.party import CURATOR
from likeset.trust.cards import CardSecret


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    yield made
    made.node.close()


def test_a_good_receipt_is_kept_for_its_owner_alone_and_logged(house: House) -> None:
    receipt = house.signed()
    house.take(receipt)
    assert house.kept_bytes() == receipt.to_bytes()
    assert stat.S_IMODE(house.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(house.path.parent.stat().st_mode) == 0o700
    (entry,) = logged(house.node, "acknowledged")
    assert (entry["digest"], entry["rows"], entry["letters"]) == (receipt.digest, RUN.rows_per_owner, 1)
    found = house.checked()
    assert (found.receipt, found.problems, found.notes, found.aside) == (receipt, (), (), ())


def test_the_same_receipt_again_changes_nothing(house: House) -> None:
    house.take(house.signed())
    before = house.kept_bytes()
    house.take(house.signed(now=LATER))
    assert house.kept_bytes() == before, "the earlier time is the better evidence"
    assert len(logged(house.node, "acknowledged")) == 1


def tampered(house: House) -> bytes:
    document = house.signed().document()
    document["at"] = LATER.isoformat()
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (tampered, "the curator's card did not sign it"),
        (lambda one: one.signed_by_stranger(), "the curator's card did not sign it"),
        (lambda one: replace(one.signed_by_stranger(), transcript=one.copy), "the curator's card did not sign it"),
        (lambda one: replace(one.signed(), signature=bytes(64)), "the curator's card did not sign it"),
        (lambda one: one.signed(owner="b"), "for another owner"),
        (lambda one: one.signed(terms="00" * 32), "another run, or other terms"),
        (lambda one: one.signed(run="run-2"), "another run, or other terms"),
        (lambda one: one.signed(run_id="0" * 32), "another run, or other terms"),
        (lambda _: b"", "it is none"),
        (lambda _: b"[" * 50_000, "it is none"),
        (lambda _: b"\xff{}", "it is none"),
        (lambda one: json.dumps(one.copy.document()).encode(), "it is none"),
    ],
    ids=[
        "changed",
        "other card",
        "other card, this one's name",
        "no signature",
        "other owner",
        "other terms",
        "other run",
        "other run id",
        "empty",
        "nested",
        "noise",
        "unsigned",
    ],
)
def test_a_bad_receipt_is_refused_logged_and_not_stored(
    house: House, made: Callable[[House], Any], reason: str
) -> None:
    house.refuses(made(house), reason)
    data = made(house)
    data = data.to_bytes() if isinstance(data, Receipt) else data
    assert house.node.guarded(RUN.run, lambda: owner_node.take(house.node, RUN, data)) == "abstains"
    assert reason in logged(house.node, "refused")[-1]["reason"]
    assert house.aside() == []
    assert house.checked().receipt is None


@pytest.mark.parametrize(
    "lie",
    [
        lambda line: replace(line, digest="00" * 32),
        lambda line: replace(line, rows=line.rows - 1),
        lambda line: replace(line, bytes=line.bytes + 1),
        lambda line: replace(line, round=line.round + 1),
        lambda line: replace(line, number=line.number + 1),
    ],
    ids=["digest", "rows", "bytes", "round", "never sent"],
)
def test_what_contradicts_the_nodes_transcript_is_refused_and_set_aside_as_evidence(
    house: House, lie: Callable[[Line], Line]
) -> None:
    lines = tuple(sorted(lie(line) if line.kind == "offer" else line for line in house.copy.lines))
    contradicting = house.signed(lines=lines)
    house.refuses(contradicting, "contradicts what this node wrote")
    house.refuses(house.signed(lines=lines, now=LATER), "contradicts what this node wrote")
    (aside,) = house.aside()
    assert mail.read_receipt(aside) == contradicting
    assert stat.S_IMODE(aside.stat().st_mode) == 0o600
    house.take(house.signed())
    assert house.checked().aside == (aside,)
    problems, notes = review.verify(house.node)
    assert problems == [], "the node's own records hold"
    assert any("signed what contradicts the rest" in note for note in notes)


def test_what_is_set_aside_cannot_fill_the_disk(house: House) -> None:
    for number in range(20):
        lines = tuple(replace(line, bytes=number) for line in house.copy.lines)
        house.refuses(house.signed(lines=lines), "contradicts")
    assert len(house.aside()) == 8


def test_one_that_acknowledges_more_replaces_one_that_acknowledges_less_and_never_the_other_way(house: House) -> None:
    """As when an answer was lost, and the run was resumed; then somebody plays the older one again."""
    less, more = house.signed(lines=house.without("offer")), house.signed()
    house.take(less)
    assert house.checked().receipt == less
    assert house.checked().notes[0].startswith("letter 0 from owner (offer, round 1): left the owner")
    house.take(more)
    assert house.checked().receipt == more
    house.refuses(less, "acknowledges less than one that is kept")
    assert house.checked().receipt == more
    assert [mail.read_receipt(path) for path in house.aside()] == [less]
    assert len(logged(house.node, "acknowledged")) == 2


def test_an_older_receipt_put_back_by_hand_is_found(house: House) -> None:
    house.take(house.signed(lines=house.without("offer")))
    older = house.kept_bytes()
    house.take(house.signed())
    house.path.write_bytes(older)
    assert house.checked().problems == ("it is an older receipt than the one that was kept last",)
    house.path.unlink()
    assert house.checked().problems == ("the receipt that was kept is gone",)
    assert any("is gone" in str(problem) for problem in review.verify(house.node)[0])
    house.path.write_text("{}")
    assert "is no receipt" in house.checked().problems[0]
    with pytest.raises(BadDocument, match="is no receipt"):
        house.take(house.signed())
    assert house.path.read_text() == "{}", "somebody should look at it first"


def test_a_receipt_that_was_stored_when_a_crash_came_is_logged_the_next_time(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(house.node.ledger, "append", full)
        with pytest.raises(OSError, match="No space"):
            house.take(house.signed())
    found = house.checked()
    assert found.problems == ()
    assert "the audit log does not know this receipt" in found.notes[0]
    house.take(house.signed(now=LATER))
    assert house.checked().notes == ()
    assert len(logged(house.node, "acknowledged")) == 1


def test_a_full_disk_keeps_what_was_there_and_leaves_nothing_half_written(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    less = house.signed(lines=house.without("offer"))
    house.take(less)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("likeset.documents.os.fsync", full)
        with pytest.raises(BadDocument, match="cannot be written: No space left"):
            house.take(house.signed())
    assert house.kept_bytes() == less.to_bytes()
    assert sorted(path.name for path in house.path.parent.iterdir()) == [".lock", "run-1.json"]
    house.take(house.signed())
    assert house.checked().notes == ()


def test_a_receipt_counts_by_the_card_of_its_run_whatever_is_pinned_since(house: House) -> None:
    house.take(house.signed(lines=house.without("offer")))
    pins = house.node.home.pins()
    pins.replace(CardSecret.generate(CURATOR).card, fingerprint=None)
    house.refuses(house.signed_by_stranger(), "the curator's card did not sign it")
    house.take(house.signed())
    assert (house.checked().problems, house.checked().notes) == ((), ())
    pins.revoke(CURATOR, "stolen")
    assert house.checked().problems == ()


def test_messages_that_the_owner_removed_stay_acknowledged(house: House) -> None:
    house.take(house.signed())
    house.node.ledger.purge(run=RUN.run)
    house.node.book.settle(bytes.fromhex(RUN.digest))
    found = house.checked()
    assert (found.receipt is not None, found.problems, found.notes) == (True, (), ())
    more = (*house.copy.lines, replace(house.copy.lines[0], round=7, number=9))
    house.refuses(house.signed(lines=more), "contradicts")


def test_of_two_receipts_that_come_at_once_the_stronger_stays(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """The weaker one is about to be written when the stronger comes, to another process; it must wait its turn."""
    less, more = house.signed(lines=house.without("offer")), house.signed()
    writing, written, put = threading.Event(), threading.Event(), mail.write_receipt

    def slow(path: Path, receipt: Receipt) -> None:
        if receipt == less:
            writing.set()
            written.wait(1.0)
        put(path, receipt)

    def late() -> None:
        assert writing.wait(600.0)
        with OwnerNode(house.folder) as node:
            owner_node.take(node, RUN, more.to_bytes())
        written.set()

    monkeypatch.setattr(owner_node, "write_receipt", slow)
    other = threading.Thread(target=late)
    other.start()
    house.take(less)
    other.join()
    assert house.checked().receipt == more
    assert house.checked().problems == ()


def invented(*, number: int = 0, kind: str = "summary-release") -> Line:
    """A letter that the curator says it wrote."""
    return Line(number + 1, "to owner", number, kind, "0" * 64, 1, 0)


@pytest.fixture
def early(tmp_path: Path) -> Iterator[House]:
    """A house whose curator signed before it said anything: that it had said something else."""
    made = House(tmp_path, ROUNDS, begin=False)
    made.take(made.signed(lines=(invented(),)))
    yield made
    made.node.close()


def test_a_receipt_of_what_the_owner_never_heard_does_not_keep_the_true_one_out(early: House) -> None:
    before = early.checked().receipt
    early.begin()
    true = early.signed()
    early.take(true)
    found = early.checked()
    assert (found.receipt, found.problems, found.contradictions, found.notes) == (true, (), (), ())
    assert [mail.read_receipt(path) for path in early.aside()] == [before], "two signed stories are evidence"
    problems, notes = review.verify(early.node)
    assert problems == []
    assert any("signed what contradicts the rest" in note for note in notes)
    assert "Yes: " in owner_node.in_words(early.node, RUN.run)


def test_a_curator_cannot_make_the_owners_own_record_look_damaged(early: House) -> None:
    """It signs, and says something else afterwards; no further receipt ever comes."""
    early.begin()
    found = early.checked()
    assert found.problems == ()
    assert found.contradictions == (
        "letter 0 to owner (summary-release, round 1): the curator signed something else than what came",
    )
    problems, notes = review.verify(early.node)
    assert problems == []
    assert any(note.startswith("the curator contradicts this node, run run-1: letter 0 to owner") for note in notes)
    assert "also contradicts what came here" in owner_node.in_words(early.node, RUN.run)
    told = CliRunner().invoke(app, ["owner", "audit", "verify", "--node", str(early.folder), "--json"])
    assert (told.exit_code, json.loads(told.stdout)["ok"]) == (0, True)
    assert "contradicts this node" in " ".join(json.loads(told.stdout)["notes"])


def test_what_came_after_a_receipt_is_no_contradiction(tmp_path: Path) -> None:
    """As when a run was interrupted, its receipts went out, and it was resumed."""
    house = House(tmp_path, ROUNDS, begin=False)
    house.take(house.signed(lines=()))
    house.begin()
    found = house.checked()
    assert (found.problems, found.contradictions) == ((), ())
    assert "letter 0 to owner (summary-release, round 1): came after the receipt" in found.notes
    assert review.verify(house.node)[0] == []
    house.node.close()


def test_receipts_of_invented_messages_replace_nothing_and_fill_no_log(house: House) -> None:
    house.take(house.signed())
    before = house.kept_bytes()
    for number in range(2, 30):
        lines = tuple(sorted((*house.copy.lines, invented(number=number, kind="asked"))))
        house.take(house.signed(lines=lines))
    assert house.kept_bytes() == before
    assert len(logged(house.node, "acknowledged")) == 1
    assert house.aside() == []


def test_a_receipt_under_terms_that_were_replaced_is_the_curators_contradiction(tmp_path: Path) -> None:
    house = House(tmp_path, begin=False)
    house.take(house.signed(lines=(invented(),)))
    other = RUN.with_changes(purpose="research on something else", run_id="f" * 32)
    house.take_part(other)
    house.begin()
    found = house.checked()
    assert found.problems == ()
    assert f"terms: they are {other.digest} here" in found.contradictions[0]
    assert review.verify(house.node)[0] == []
    house.take(house.signed())
    assert house.checked().contradictions == ()
    house.node.close()


def test_a_receipt_of_another_card_that_somebody_put_here_is_damage(house: House) -> None:
    house.take(house.signed())
    mail.write_receipt(house.path, house.signed_by_stranger())
    assert "and the curator's in this run is" in house.checked().problems[0]


def test_a_kept_receipt_of_rows_that_this_node_forgot_is_damage(house: House) -> None:
    """It was compared when it came: if it does not fit any more, something here changed."""
    offered = next(line for line in house.copy.lines if line.kind == "offer")
    house.path.parent.mkdir(mode=0o700, exist_ok=True)
    more = tuple(sorted((*house.copy.lines, replace(offered, round=2, number=1))))
    mail.write_receipt(house.path, house.signed(lines=more))
    found = house.checked()
    assert "the curator acknowledges it (12 rows); the owner did not write it" in found.problems[0]
    assert found.contradictions == ()
    assert any("the owner did not write it" in str(problem) for problem in review.verify(house.node)[0])


def test_names_of_runs_do_not_lead_out_of_the_directory(tmp_path: Path) -> None:
    run = terms(run="x/../../../y", expires="2099-01-01")
    house = House(tmp_path / "deep" / "er", run)
    house.take(house.signed())
    assert [path.name for path in (house.folder / "receipts").glob("*.json")] == ["x%2F..%2F..%2F..%2Fy.json"]
    assert house.checked().receipt is not None
    house.node.close()
    assert mail.file_name("é" * 120) == mail.file_name("é" * 120) != mail.file_name("è" * 120)
    assert len(mail.file_name("é" * 120)) == 64
