"""Receipts and transcripts: the two copies of a run agree, and whatever is changed in one of them shows."""

import importlib.util
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from node_world import SCHEMA, Wire, approve, call, make_node, terms
from typer.testing import CliRunner

from chance import public_coins
from likeset.app.cli import app
from likeset.errors import BadDocument, IllegalMessage, InvalidArgument, NotCurated, QuorumMissed, RunCancelled
from likeset.homes import receipts
from likeset.homes.curator.home import CuratorHome, curator, make_curator_home
from likeset.homes.owner import kept_receipts
from likeset.homes.owner.node import OwnerNode
from likeset.homes.shell import ConsumerShell, CuratorShell
from likeset.homes.transcripts import Line, Transcript, compare
from likeset.ledger import Ledger, Limit
from likeset.privacy.noise import SecretNoise
from likeset.privacy.relation import Relation
from likeset.privacy.view import View
from likeset.protocol.consumer import Consumer
from likeset.protocol.messages import Delivery, Offer, decode
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import Terms
from likeset.transports.plain_messages import PlainCurator, read_parcel
from likeset.transports.pump import Pump

pytestmark = pytest.mark.skipif(importlib.util.find_spec("cryptography") is None, reason="needs likeset[nvflare]")

RUN = terms(expires="2099-01-01")


@dataclass
class Ended:
    """A run that ended: two nodes and a curator."""

    place: Path
    home: CuratorHome

    def node(self, name: str = "a") -> Path:
        return self.place / f"node-{name}"

    def receipt(self, name: str = "a") -> Path:
        return self.home.folder / "receipts" / RUN.run / f"{name}.json"


def held(
    place: Path, run: Terms = RUN, *, wire: Callable[..., Wire] = Wire, cancelled: Callable[[], bool] | None = None
) -> Ended:
    """A whole run between nodes and a curator that are as they are between organisations."""
    if not (place / "curator").exists():
        make_curator_home(place / "curator").add_schema(_schema(place))
        for seed, name in enumerate(run.owners):
            make_node(place, name, seed=seed)
    home = CuratorHome(place / "curator")
    seat = curator(run, CURATOR, home.folder)
    assert isinstance(seat.party, CuratorShell)
    with OwnerNode(place / "node-a") as a, OwnerNode(place / "node-b") as b, Ledger(place / "mine.sqlite") as ledger:
        for node in (a, b):
            approve(node, run)
        ledger.set_limit(View.owners(run.consumer), Limit(100.0, 1e-5, Relation.REPLACE_ONE, 0, ()))
        target = public_coins(9).random((run.target_size, run.kernel.columns), dtype=np.float32)
        consumer = ConsumerShell(Consumer(run, target=target, noise=SecretNoise()), ledger)
        wires = wire({"a": a, "b": b}, consumer)
        Pump(PlainCurator(seat.party), wires, read_parcel, workers=1, cancelled=cancelled).run()
    return Ended(place, home)


def _schema(place: Path) -> Path:
    path = place / "given-schema.yaml"
    path.write_text(SCHEMA)
    return path


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    return held(tmp_path_factory.mktemp("run"))


@pytest.fixture
def ended(once: Ended, tmp_path: Path) -> Ended:
    """A copy to spoil."""
    shutil.copytree(once.place, tmp_path / "run")
    return Ended(tmp_path / "run", CuratorHome(tmp_path / "run" / "curator"))


def verify(*arguments: object) -> tuple[int, dict[str, Any]]:
    result = CliRunner().invoke(app, ["transcript", "verify", *map(str, arguments), "--json"])
    return result.exit_code, json.loads(result.stdout) if result.stdout else {}


def spoil(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def test_both_copies_of_a_run_agree_and_count_its_rows(ended: Ended) -> None:
    """Each owner has 60 rows and offers 12, as the terms say: 4 for each of 6 wanted, from two owners."""
    for name in RUN.owners:
        code, found = verify(ended.node(name), ended.receipt(name), "--key", ended.home.public_key)
        assert (code, found["ok"], found["rows"], found["problems"]) == (0, True, RUN.rows_per_owner, [])
        assert found["notes"] == []
    with OwnerNode(ended.node()) as node:
        copy = node.transcript(RUN.run)
    assert [(line.way, line.kind, line.rows) for line in copy.lines] == [
        ("from owner", "offer", RUN.rows_per_owner),
    ]  # the release came from the consumer: it is nothing between the curator and this owner
    assert verify(ended.receipt(), ended.node())[0] == 0  # in either order


def test_a_key_in_the_node_is_the_one_that_counts(ended: Ended) -> None:
    code, found = verify(ended.node(), ended.receipt())
    assert code == 0
    assert "nobody said which key" in found["notes"][0]
    shutil.copy(ended.home.public_key, ended.node() / "curator.pub")
    assert verify(ended.node(), ended.receipt())[1]["notes"] == []
    (ended.node() / "curator.pub").write_text("ab" * 32)
    code, found = verify(ended.node(), ended.receipt())
    assert code == 1
    assert "and the curator's is abababababababab" in found["problems"][0]


@pytest.mark.parametrize(
    ("field", "value"), [("at", "2031-01-01T00:00:00+00:00"), ("terms", "other"), ("owner", "other"), ("run", "other")]
)
def test_a_receipt_that_was_changed_does_not_hold(ended: Ended, field: str, value: str) -> None:
    spoil(ended.receipt(), lambda document: document.update({field: value}))
    code, found = verify(ended.node(), ended.receipt(), "--run", RUN.run)
    assert code == 1
    assert "its signature does not hold" in found["problems"][0]


def test_fewer_rows_in_a_receipt_do_not_pass(ended: Ended) -> None:
    def fewer(document: dict[str, Any]) -> None:
        line = next(one for one in document["lines"] if one["kind"] == "offer")
        line["rows"] -= 1
        document["rows"] -= 1

    spoil(ended.receipt(), fewer)
    code, found = verify(ended.node(), ended.receipt())
    assert code == 1
    assert found["problems"][1] == "offer from owner, round 1: the two copies are not of the same message"


def test_another_owners_receipt_does_not_agree(ended: Ended) -> None:
    code, found = verify(ended.node("a"), ended.receipt("b"))
    assert code == 1
    assert found["problems"] == ["owner: the owner's copy says a, the curator's b"]


def test_a_receipt_has_no_row_in_it(ended: Ended) -> None:
    """Each row's dose ends in .4242, and no other number does."""
    for path in ended.home.folder.rglob("*"):
        if path.is_file():
            assert b".4242" not in path.read_bytes()
            assert path.stat().st_mode & 0o077 == 0 or path.name in ("curator.pub", f"{RUN.schema_digest}.yaml")


def test_a_run_that_is_held_again_gives_the_same_receipts(ended: Ended) -> None:
    before = receipts.read_receipt(ended.receipt()).transcript
    held(ended.place)
    assert receipts.read_receipt(ended.receipt()).transcript == before


class _Lossy(Wire):
    """Rows of owner ``b`` get lost."""

    def ask(self, owner: str, data: bytes) -> Any:
        found = super().ask(owner, data)
        if owner == "b" and found and isinstance(decode(found[0]).body, Offer | Delivery):
            raise IllegalMessage("lost")
        return found


def test_an_answer_that_got_lost_is_noted_and_no_contradiction(tmp_path: Path) -> None:
    lost = held(tmp_path, replace(RUN, protocol="interactive", size=1), wire=_Lossy)
    code, found = verify(lost.node("b"), lost.receipt("b"), "--key", lost.home.public_key)
    assert code == 0
    assert found["rows"] == 0
    assert found["notes"] == [
        "delivery from owner, round 1: left the owner (1 rows); the curator did not acknowledge it"
    ]


def test_an_owner_whose_only_answer_got_lost_has_no_receipt_and_its_node_says_so(tmp_path: Path) -> None:
    """The curator knows nothing of it; whether others answered must not show in whether a receipt comes."""
    lost = held(tmp_path, wire=_Lossy)
    assert not lost.receipt("b").exists()
    with OwnerNode(lost.node("b")) as node:
        assert kept_receipts.check(node, RUN.run).notes == ("messages left, and no receipt came yet",)


def test_owners_of_a_run_without_a_quorum_get_receipts_too(tmp_path: Path) -> None:
    class Half(Wire):
        def ask(self, owner: str, data: bytes) -> Any:
            if owner == "b":
                raise IllegalMessage("no answer")
            return super().ask(owner, data)

    with pytest.raises(QuorumMissed):
        held(tmp_path, replace(RUN, quorum=2), wire=Half)
    missed = Ended(tmp_path, CuratorHome(tmp_path / "curator"))
    assert receipts.read_receipt(missed.receipt("a")).transcript.rows == RUN.rows_per_owner
    assert not missed.receipt("b").exists()
    assert verify(missed.node("a"), missed.receipt("a"))[0] == 0


def test_a_run_that_was_cancelled_is_acknowledged_as_far_as_it_came(tmp_path: Path) -> None:
    """Looked at before each message: the target, the owners' answers, and then the curator has heard the first one."""
    looks = iter([False, False, False, True])
    with pytest.raises(RunCancelled):
        held(tmp_path, cancelled=lambda: next(looks))
    seat = curator(RUN, CURATOR, tmp_path / "curator")
    assert seat.receipts is not None
    found = {name: receipts.receipt_in(name, data).transcript for name, data in seat.receipts().items()}
    assert {name: one.rows for name, one in found.items()} == {"a": RUN.rows_per_owner}
    assert held(tmp_path).receipt("b").exists()
    resumed = curator(RUN, CURATOR, tmp_path / "curator").receipts
    assert resumed is not None
    assert receipts.receipt_in("b", resumed()["b"]).transcript.rows == RUN.rows_per_owner
    with OwnerNode(tmp_path / "node-b") as node:
        kept_receipts.take(node, RUN, resumed()["b"])
        assert kept_receipts.check(node, RUN.run).notes[0].startswith("signed with the key")


def test_what_is_acknowledged_to_one_owner_does_not_depend_on_the_others(once: Ended, tmp_path: Path) -> None:
    """Here the other one never answers, and the run fails.

    The release is drawn anew, so its digest differs; this owner has a new key and offers rows of another length.
    """

    class Alone(Wire):
        def ask(self, owner: str, data: bytes) -> Any:
            if owner == "b":
                raise IllegalMessage("no answer")
            return super().ask(owner, data)

    def told(path: Path) -> list[tuple[object, ...]]:
        lines = receipts.read_receipt(path).transcript.lines
        return [(line.round, line.way, line.kind, line.bytes * (line.way == "to owner"), line.rows) for line in lines]

    alone = replace(RUN, quorum=2)
    with pytest.raises(QuorumMissed):
        held(tmp_path, alone, wire=Alone)
    failed = Ended(tmp_path, CuratorHome(tmp_path / "curator"))
    assert told(failed.receipt("a")) == told(once.receipt("a"))


def test_what_only_one_side_may_know_is_told_apart() -> None:
    """Said and not heard, or sent and not received: lost. Heard and not said, received and not sent: a lie."""

    def of(*lines: Line) -> Transcript:
        return Transcript("run", "00", "a", lines)

    said = Line(1, "to owner", "asked", "11", 5, 0)
    sent = Line(1, "from owner", "offer", "22", 9, 3)
    assert compare(of(said, sent), of(said, sent)) == ([], [])
    assert [len(part) for part in compare(of(sent), of())] == [0, 1]
    assert [len(part) for part in compare(of(), of(said))] == [0, 1]
    assert [len(part) for part in compare(of(said), of())] == [1, 0]
    assert [len(part) for part in compare(of(), of(sent))] == [1, 0]
    for other in (replace(sent, digest="23"), replace(sent, rows=2), replace(sent, bytes=8)):
        assert [len(part) for part in compare(of(sent), of(other))] == [1, 0]
    assert len(compare(of(), replace(of(), terms="01"))[0]) == 1


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda d: d.update(version=2), "is no receipt of this version"),
        (lambda d: d.update(signature="zz"), "signature: must be 128 hexadecimal digits"),
        (lambda d: d.update(rows=1), "its parts do not fit together"),
        (lambda d: d.update(lines={}), "lines: must be a list"),
        (lambda d: d["lines"].append(dict(d["lines"][0])), "two messages stand in one place"),
        (lambda d: d["lines"][0].update(rows=True), "entry 0 is no line"),
        (lambda d: d["lines"][0].update(way="up"), "entry 0 goes neither"),
        (lambda d: d["lines"][0].update(bytes=-1), "entry 0 has numbers that no message has"),
        (lambda d: d["lines"][0].update(round=1 << 60), "entry 0 has numbers that no message has"),
        (lambda d: d["lines"][0].update(rows=-12), "entry 0 has numbers that no message has"),
        (lambda d: d["lines"][0].update(way="to owner"), "entry 0 has numbers that no message has"),
        (lambda d: d["lines"][0].update(kind="offer\x1b[2J"), "entry 0 names no kind of message"),
        (lambda d: d["lines"][0].update(digest="00"), "or no digest"),
        (lambda d: d.update(at="some day"), "at: must be a time with its zone"),
        (lambda d: d.update(at="2031-01-01T00:00:00"), "at: must be a time with its zone"),
        (lambda d: d.pop("owner"), "names no run, terms or owner"),
    ],
)
def test_what_is_no_receipt_is_said_to_be_none(ended: Ended, change: Any, reason: str) -> None:
    spoil(ended.receipt(), change)
    with pytest.raises(BadDocument, match=reason):
        receipts.read_receipt(ended.receipt())


def test_two_receipts_or_none_cannot_be_compared(ended: Ended) -> None:
    runner = CliRunner()
    for pair in ((ended.receipt(), ended.receipt()), (ended.node(), ended.node())):
        result = runner.invoke(app, ["transcript", "verify", *map(str, pair)])
        assert isinstance(result.exception, InvalidArgument)


def test_an_exported_copy_stands_for_the_node(ended: Ended, tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["transcript", "show", str(ended.node()), "--run", RUN.run, "--json"])
    (tmp_path / "copy.json").write_text(shown.stdout)
    assert verify(tmp_path / "copy.json", ended.receipt())[0] == 0


def test_receipts_of_a_run_can_be_made_again(ended: Ended) -> None:
    shutil.rmtree(ended.home.folder / "receipts")
    result = CliRunner().invoke(app, ["transcript", "receipts", str(ended.home.folder), RUN.run, "--json"])
    assert [Path(one).name for one in json.loads(result.stdout)["receipts"]] == ["a.json", "b.json"]
    assert verify(ended.node(), ended.receipt())[0] == 0
    unknown = CliRunner().invoke(app, ["transcript", "receipts", str(ended.home.folder), "other"])
    assert isinstance(unknown.exception, InvalidArgument)


def test_versions_of_the_terms_have_receipts_of_their_own(tmp_path: Path) -> None:
    """A run whose terms changed: neither receipt replaces the other, and an owner is sent that of the terms at hand."""
    home, changed = make_curator_home(tmp_path / "curator"), replace(RUN, size=5)
    for agreed in (RUN, changed):
        home.transcripts().keep([replace(call(agreed), sender="a", receiver=CURATOR)])
    signed = [receipts.read_receipt(path).transcript.terms for path in home.write_receipts(RUN.run)]
    assert sorted(signed) == sorted([RUN.digest, changed.digest])
    for agreed in (RUN, changed):
        sent = home.receipts_under(agreed)
        assert {name: receipts.receipt_in(name, data).transcript.terms for name, data in sent.items()} == {
            "a": agreed.digest
        }


def test_a_key_that_others_can_read_signs_nothing(ended: Ended) -> None:
    ended.home.key.chmod(0o644)
    with pytest.raises(BadDocument, match="other users can read it"):
        ended.home.write_receipts(RUN.run)
    with pytest.raises(BadDocument, match="other users can read it"):
        curator(RUN, CURATOR, ended.home.folder)


def test_a_curator_that_does_not_know_the_schema_does_not_curate(ended: Ended) -> None:
    next(ended.home.schemas.iterdir()).unlink()
    with pytest.raises(NotCurated, match="does not know the schema"):
        curator(RUN, CURATOR, ended.home.folder)


def test_a_directory_that_holds_something_is_not_taken(tmp_path: Path) -> None:
    make_curator_home(tmp_path / "curator")
    with pytest.raises(InvalidArgument, match="holds something already"):
        make_curator_home(tmp_path / "curator")
