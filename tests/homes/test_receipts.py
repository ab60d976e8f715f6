"""Receipts and transcripts: the two copies of a run agree, and whatever is changed in one of them shows."""

import json
import shutil
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from card_world import give_card, introduce, secret_of, signed_terms
from node_world import SCHEMA, make_node, terms
from typer.testing import CliRunner

from chance import public_coins
from likeset.app.cli import app
from likeset.errors import BadDocument, InvalidArgument, NotCurated, QuorumMissed
from likeset.homes import mail, owner_node
from likeset.homes.curator_home import CuratorHome, curator_run, make_curator_home
from likeset.homes.mail import (
    ConsumerRun,
    ConsumerShell,
    Correspondence,
    CuratorRun,
    CuratorShell,
    Identity,
    Invitation,
    Line,
    SiteRun,
    Transcript,
    compare,
)
from likeset.homes.owner_node import OwnerNode, owner_run
from likeset.ledger.budget import Limit
from likeset.ledger.ledger import Ledger
from likeset.privacy.events import Relation
from likeset.privacy.guarantee import View
from likeset.privacy.noise import SecretNoise
from likeset.protocol.party import CURATOR
from likeset.protocol.sealed import Consumer
from likeset.protocol.terms import Terms
from likeset.protocol.wire import MOST_BYTES, Message, Offer
from likeset.trust.cards import SealingSecret
from likeset.trust.letters import Header, accept, letter_in

RUN = terms(expires="2099-01-01")
ROUNDS = terms(expires="2099-01-01", protocol="interactive", size=1)


@dataclass
class Ended:
    """A run that ended: two nodes and a curator."""

    place: Path

    @property
    def home(self) -> CuratorHome:
        return CuratorHome(self.place / "curator")

    def node(self, name: str = "a") -> Path:
        return self.place / f"node-{name}"

    def receipt(self, name: str = "a") -> Path:
        return self.home.folder / "receipts" / RUN.run / f"{name}.json"


def settle(place: Path, run: Terms) -> None:
    """Everybody's home, whose people know one another."""
    (place / "consumer").mkdir(parents=True)
    give_card(place / "consumer", run.consumer)
    home = make_curator_home(place / "curator")
    give_card(home.folder, CURATOR)
    introduce_consumer(home.folder, run)
    (place / "given-schema.yaml").write_text(SCHEMA)
    home.add_schema(place / "given-schema.yaml")
    for seed, name in enumerate(run.owners):
        make_node(place, name, seed=seed)


def introduce_consumer(folder: Path, run: Terms) -> None:
    CuratorHome(folder).pins().pin(secret_of(run.consumer).card, "consumer", fingerprint=None)


Lost = Callable[[Header], bool]


def held(
    place: Path, run: Terms = RUN, *, lost: Lost = lambda _: False, most: int | None = None, end: bool = True
) -> Ended:
    """A whole run in letters between homes that are as they are between organisations.

    Args:
        place: their folders; made if they are not there.
        run: the terms.
        lost: which letters do not arrive; nobody waits for those.
        most: so many letters are carried, and then the run is cancelled.
        end: whether receipts go to owners.
    """
    if not (place / "curator").exists():
        settle(place, run)
    consumer_identity = Identity.of(place / "consumer")
    invitation = Invitation.sign(run, consumer_identity)
    seat = curator_run(invitation, CURATOR, place / "curator")
    assert isinstance(seat, CuratorRun)
    cards = {fingerprint: name for name, fingerprint in run.cards.items()}
    with OwnerNode(place / "node-a") as a, OwnerNode(place / "node-b") as b, Ledger(place / "mine.sqlite") as ledger:
        ledger.set_limit(View.owners(run.consumer), Limit(100.0, 1e-5, Relation.REPLACE_ONE, 0, ()))
        target = public_coins(9).random((run.target_size, run.kernel.columns), dtype=np.float32)
        shell = ConsumerShell(Consumer(run, target=target, noise=SecretNoise()), ledger)
        letters = Correspondence(consumer_identity, invitation, run.consumer)
        consumer = ConsumerRun(letters, shell, MOST_BYTES, keep=lambda _: None)
        runs: dict[str, SiteRun] = {run.consumer: consumer, CURATOR: seat}
        for node in (a, b):
            introduce(node.home.folder, run)
            if owner_run(node, invitation) is None:
                node.approve(run.run, run.digest, by="Ada")
            made = owner_run(node, invitation)
            assert made is not None
            runs[node.name] = made
        try:
            queue = deque(consumer.begin([made.acceptance() for name, made in runs.items() if name != run.consumer]))
            carried = 0
            while queue and carried != most:
                data, carried = queue.popleft(), carried + 1
                header = letter_in(data, most_bytes=MOST_BYTES).header
                if not lost(header):
                    queue.extend(runs[cards[header.recipient]].hear(data))
                for name in sorted(seat.waiting_for) if not queue else ():
                    queue.extend(seat.give_up(name))
        finally:
            for data in seat.end() if end else ():
                runs[cards[letter_in(data, most_bytes=MOST_BYTES).header.recipient]].hear(data)
    return Ended(place)


def from_(name: str, *, number: int | None = None) -> Lost:
    """The letters of an owner, or one of them."""
    card = secret_of(name).card.fingerprint
    return lambda header: header.sender == card and number in (None, header.number)


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    return held(tmp_path_factory.mktemp("run"))


@pytest.fixture
def ended(once: Ended, tmp_path: Path) -> Ended:
    """A copy to spoil."""
    shutil.copytree(once.place, tmp_path / "run")
    return Ended(tmp_path / "run")


def checked(node: Path, receipt: Path) -> owner_node.ReceiptVerdict:
    """What a node says to a receipt of the curator that lies in the place of its own."""
    with OwnerNode(node) as opened:
        shutil.copy(receipt, owner_node.receipt_path(opened, RUN.run))
        return owner_node.check(opened, RUN.run)


def spoil(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def test_both_copies_of_a_run_agree_and_count_its_rows(ended: Ended) -> None:
    """Each owner has 60 rows and offers 12, as the terms say: 4 for each of 6 wanted, from two owners."""
    for name in RUN.owners:
        with OwnerNode(ended.node(name)) as node:
            came = owner_node.check(node, RUN.run)
        assert came.receipt == mail.read_receipt(ended.receipt(name)), "it came in a letter"
        assert came.receipt.transcript.rows == RUN.rows_per_owner
        assert came.findings == ()
    with OwnerNode(ended.node()) as node:
        copy = node.transcript(RUN.run)
    assert [(line.way, line.kind, line.rows) for line in copy.lines] == [
        ("from owner", "offer", RUN.rows_per_owner),
    ]  # the release came from the consumer: it is nothing between the curator and this owner


def test_another_cards_receipt_does_not_hold(ended: Ended) -> None:
    stranger = secret_of("stranger")
    copy = replace(mail.read_receipt(ended.receipt()).transcript, curator_card=stranger.card.fingerprint)
    mail.write_receipt(ended.receipt(), mail.sign(copy, stranger))
    found = checked(ended.node(), ended.receipt())
    assert stranger.card.fingerprint in found.problems[0]
    assert RUN.cards[CURATOR] in found.problems[0]
    with pytest.raises(InvalidArgument, match="is not the card that signs receipts in this run"):
        mail.sign(replace(copy, curator_card=RUN.cards[CURATOR]), stranger)


@pytest.mark.parametrize(
    ("field", "value"),
    [("at", "2031-01-01T00:00:00+00:00"), ("terms", "other"), ("owner", "other"), ("run_id", "0" * 32)],
)
def test_a_receipt_that_was_changed_does_not_hold(ended: Ended, field: str, value: str) -> None:
    spoil(ended.receipt(), lambda document: document.update({field: value}))
    fault = owner_node.fault_under(mail.read_receipt(ended.receipt()), RUN)
    assert fault is not None
    assert "its signature does not hold" in fault


def test_fewer_rows_in_a_receipt_do_not_pass(ended: Ended) -> None:
    def fewer(document: dict[str, Any]) -> None:
        line = next(one for one in document["lines"] if one["kind"] == "offer")
        line["rows"] -= 1
        document["rows"] -= 1

    spoil(ended.receipt(), fewer)
    found = checked(ended.node(), ended.receipt())
    assert "letter 0 from owner (offer, round 1): the two copies do not say the same of it" in found.problems


def test_another_owners_receipt_does_not_agree(ended: Ended) -> None:
    found = checked(ended.node("a"), ended.receipt("b"))
    assert "letter 0 from owner (offer, round 1): the two copies do not say the same of it" in found.problems


def test_a_receipt_has_no_row_in_it(ended: Ended) -> None:
    """Each row's dose ends in .4242, and no other number does."""
    for path in ended.home.folder.rglob("*"):
        if path.is_file():
            assert b".4242" not in path.read_bytes()
            assert path.stat().st_mode & 0o077 == 0 or path.name == f"{RUN.schema_digest}.yaml"


def test_a_run_that_is_held_again_gives_the_same_receipts(ended: Ended) -> None:
    """To the byte: what the curator sends again is the letter that it sent, at the time that stands in it."""
    before = ended.receipt().read_bytes()
    held(ended.place)
    assert ended.receipt().read_bytes() == before


def test_an_answer_that_got_lost_is_noted_and_no_contradiction(tmp_path: Path) -> None:
    lost = held(tmp_path, ROUNDS, lost=from_("b", number=1))
    with OwnerNode(lost.node("b")) as node:
        found = owner_node.check(node, RUN.run)
    assert found.receipt is not None
    assert (found.receipt.transcript.rows, found.problems, found.contradictions) == (0, (), ())
    assert found.notes == (
        "letter 1 from owner (delivery, round 1): left the owner (1 rows); the curator did not acknowledge it",
    )


def test_an_owner_whose_only_answer_got_lost_is_told_that_nothing_was_received(tmp_path: Path) -> None:
    """Whether others answered does not show in whether a receipt comes: who took part gets one."""
    lost = held(tmp_path, lost=from_("b"))
    with OwnerNode(lost.node("b")) as node:
        (note,) = owner_node.check(node, RUN.run).notes
        assert note.endswith("left the owner (12 rows); the curator did not acknowledge it")
        assert owner_node.in_words(node, RUN.run).startswith("Not all: 1 of 1 letters that left are not in")


def test_owners_of_a_run_without_a_quorum_get_receipts_too(tmp_path: Path) -> None:
    missed = Ended(tmp_path)
    with pytest.raises(QuorumMissed):
        held(tmp_path, replace(RUN, quorum=2), lost=from_("b"))
    assert mail.read_receipt(missed.receipt("a")).transcript.rows == RUN.rows_per_owner
    assert mail.read_receipt(missed.receipt("b")).transcript.rows == 0
    assert checked(missed.node("a"), missed.receipt("a")).findings == ()


def test_the_letter_with_which_a_run_fails_is_acknowledged_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the party behind the curator's letters refuses came in, rows and all."""
    take = CuratorShell.take

    def fails(shell: CuratorShell, message: Message) -> tuple[Message, ...]:
        if isinstance(message.body, Offer):
            raise QuorumMissed("too few")
        return take(shell, message)

    monkeypatch.setattr(CuratorShell, "take", fails)
    with pytest.raises(QuorumMissed):
        held(tmp_path)
    assert mail.read_receipt(Ended(tmp_path).receipt("a")).transcript.rows == RUN.rows_per_owner


def test_a_run_that_was_cancelled_is_acknowledged_as_far_as_it_came(tmp_path: Path) -> None:
    """Carried are the target, two releases and the first owner's answer; then it is cancelled, and resumed later."""
    ended = held(tmp_path, most=4)
    assert {name: mail.read_receipt(ended.receipt(name)).transcript.rows for name in RUN.owners} == {
        "a": RUN.rows_per_owner,
        "b": 0,
    }
    with OwnerNode(ended.node("b")) as node:
        assert owner_node.in_words(node, RUN.run).startswith("Not all")
    held(tmp_path)
    assert mail.read_receipt(ended.receipt("b")).transcript.rows == RUN.rows_per_owner
    with OwnerNode(ended.node("b")) as node:
        assert owner_node.in_words(node, RUN.run).startswith("Yes: 12 rows")


def test_what_is_acknowledged_to_one_owner_does_not_depend_on_the_others(once: Ended, tmp_path: Path) -> None:
    """Here the other one never answers, and the run fails. The release is drawn anew, so that digests differ."""

    def told(path: Path) -> list[Line]:
        return [replace(line, digest="") for line in mail.read_receipt(path).transcript.lines]

    with pytest.raises(QuorumMissed):
        held(tmp_path, replace(RUN, quorum=2), lost=from_("b"))
    assert told(Ended(tmp_path).receipt("a")) == told(once.receipt("a"))


def test_what_only_one_side_may_know_is_told_apart() -> None:
    """Said and not heard, or sent and not received: lost. Heard and not said, received and not sent: a lie."""

    def of(*lines: Line) -> Transcript:
        return Transcript("run", "11", "00", "a", "AAAAA", "BBBBB", lines)

    said = Line(1, "to owner", 0, "asked", "11", 5, 0)
    sent = Line(1, "from owner", 0, "offer", "22", 9, 3)
    assert compare(of(said, sent), of(said, sent)) == ([], [])
    assert [len(part) for part in compare(of(sent), of())] == [0, 1]
    assert [len(part) for part in compare(of(), of(said))] == [0, 1]
    assert [len(part) for part in compare(of(said), of())] == [1, 0]
    assert [len(part) for part in compare(of(), of(sent))] == [1, 0]
    for other in (replace(sent, digest="23"), replace(sent, rows=2), replace(sent, bytes=8)):
        assert [len(part) for part in compare(of(sent), of(other))] == [1, 0]
    for name in ("run", "run_id", "terms", "owner", "owner_card", "curator_card"):
        changed: Any = {name: "other"}
        assert len(compare(of(), replace(of(), **changed))[0]) == 1


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda d: d.update(version=1), "is no receipt of this version"),
        (lambda d: d.update(signature="zz"), "signature: must be 128 hexadecimal digits"),
        (lambda d: d.update(rows=1), "its parts do not fit together"),
        (lambda d: d.update(more=1), "its parts do not fit together"),
        (lambda d: d.update(card="AAAA"), "card: must be the curator's card"),
        (lambda d: d.update(card=7), "card: must be the curator's card"),
        (lambda d: d.update(lines={}), "lines: must be a list"),
        (lambda d: d["lines"].append(dict(d["lines"][0])), "two letters have one number"),
        (lambda d: d["lines"][0].update(rows=True), "entry 0 is no line"),
        (lambda d: d["lines"][0].update(way="up"), "entry 0 goes neither"),
        (lambda d: d["lines"][0].update(bytes=-1), "entry 0 has numbers that no letter has"),
        (lambda d: d["lines"][0].update(number=-1), "entry 0 has numbers that no letter has"),
        (lambda d: d["lines"][0].update(round=1 << 60), "entry 0 has numbers that no letter has"),
        (lambda d: d["lines"][0].update(rows=-12), "entry 0 has numbers that no letter has"),
        (lambda d: d["lines"][0].update(way="to owner"), "entry 0 has numbers that no letter has"),
        (lambda d: d["lines"][0].update(kind="offer\x1b[2J"), "entry 0 names no kind of message"),
        (lambda d: d["lines"][0].update(digest="00"), "or no digest"),
        (lambda d: d.update(at="some day"), "at: must be a time with its zone"),
        (lambda d: d.update(at="2031-01-01T00:00:00"), "at: must be a time with its zone"),
        (lambda d: d.pop("owner"), "it must name run, run_id, terms, owner"),
    ],
)
def test_what_is_no_receipt_is_said_to_be_none(ended: Ended, change: Any, reason: str) -> None:
    spoil(ended.receipt(), change)
    with pytest.raises(BadDocument, match=reason):
        mail.read_receipt(ended.receipt())


def test_a_receipt_larger_than_any_is_not_read() -> None:
    with pytest.raises(BadDocument, match="larger than a receipt can be"):
        mail.receipt_in("receipt", b" " * (mail.MOST_RECEIPT_BYTES + 1))


def test_versions_of_the_terms_have_receipts_of_their_own(tmp_path: Path) -> None:
    """A run whose terms changed: neither receipt replaces the other, and an owner is sent that of the terms at hand."""
    settle(tmp_path, RUN)
    home, changed = CuratorHome(tmp_path / "curator"), replace(RUN, size=5, run_id="f" * 32)
    for agreed in (RUN, changed):
        letters = Correspondence(home.identity, Invitation.read(signed_terms(agreed)), CURATOR)
        letters.acceptance()
        place = {"run_id": bytes.fromhex(agreed.run_id), "terms": bytes.fromhex(agreed.digest)}
        key = SealingSecret.generate().public
        letters.introduce([accept(secret_of("a"), **place, role="owner", party="a", run_key=key).to_bytes()])
        letters.write(())
    for agreed in (RUN, changed):
        sent = home.receipts_under(agreed, home.identity)
        assert {name: mail.receipt_in(name, data).transcript.terms for name, data in sent.items()} == {
            "a": agreed.digest
        }


def test_keys_that_others_can_read_sign_nothing(ended: Ended) -> None:
    (ended.home.folder / "card.secret").chmod(0o644)
    with pytest.raises(BadDocument, match="other users can read it"):
        curator_run(Invitation.read(signed_terms(RUN)), CURATOR, ended.home.folder)


def test_a_curator_that_does_not_know_the_schema_does_not_curate(ended: Ended) -> None:
    next(ended.home.schemas.iterdir()).unlink()
    with pytest.raises(NotCurated, match="does not know the schema"):
        curator_run(Invitation.read(signed_terms(RUN)), CURATOR, ended.home.folder)


def test_a_directory_that_holds_something_is_not_taken(tmp_path: Path) -> None:
    make_curator_home(tmp_path / "curator")
    with pytest.raises(InvalidArgument, match="holds something already"):
        make_curator_home(tmp_path / "curator")


def test_a_curators_home_whose_card_was_given_up_and_not_made_anew_is_still_one(tmp_path: Path) -> None:
    home = make_curator_home(tmp_path / "curator")
    home.set_card_aside()
    home.check()
    made = CliRunner().invoke(app, ["card", "make", "--home", str(home.folder)])
    assert made.exit_code == 0, (made.output, made.exception)
    assert home.card().name == CURATOR
