"""A site's own side: what it lets in, and that whatever goes wrong sounds the same outside."""

import json
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from engine_scenarios import SCENARIOS, give_orders, settle_sites
from letter_wire import LetterWire, letter_from, release_for
from protocol_world import CONSUMER, terms
from site_factory import REFUSED_FILE, seat

from likeset.errors import BadDocument, IllegalMessage, InvalidArgument, LedgerUnavailable
from likeset.homes.mail import Identity, Invitation, OwnerRun, SiteRun
from likeset.ledger.ledger import Ledger
from likeset.transports.nvflare.job import write_job, write_settings
from likeset.transports.site_reasons import REASONS_FILE
from likeset.transports.sites import (
    SETTINGS_FILE,
    SiteParties,
    SiteSettings,
    file_of_invitation,
    load_invitations,
    load_settings,
)

SEALED = SCENARIOS["sealed"]
NOW = datetime(2029, 6, 1, tzinfo=UTC)


@pytest.fixture
def wire(tmp_path: Path) -> LetterWire:
    """Sites that were settled for one run."""
    return LetterWire(tmp_path, settle_sites(tmp_path, [SEALED])["sealed"])


def _table(folder: Path, site: str, *invited: Invitation, factory: Callable[..., SiteRun | None] = seat) -> SiteParties:
    settings = SiteSettings(factory, folder / site)
    return SiteParties(site, {one.terms.digest: one for one in invited}, settings, clock=lambda: NOW)


def _reasons(folder: Path, site: str) -> list[str]:
    lines = (folder / site / REASONS_FILE).read_text().splitlines()
    return [json.loads(line)["reason"] for line in lines]


def _charged(folder: Path, site: str) -> bool:
    with Ledger(folder / site / f"{SEALED.run}.sqlite") as ledger:
        return any(entry.kind == "reserve" for entry in ledger.entries())


def test_an_owner_signs_and_answers_and_says_the_same_to_the_same(wire: LetterWire) -> None:
    table, digest = _table(wire.folder, "a", wire.invitation), wire.terms.digest
    signed = table.standing(digest)
    assert isinstance(signed, bytes)
    letter = wire.first_letters()["a"]
    first = table.hear(letter)
    assert isinstance(first, list)
    assert wire.parcel(first[0]).recipient == "curator"
    assert table.hear(letter) == first
    restarted = _table(wire.folder, "a", wire.invitation)
    assert restarted.hear(letter) == first
    assert restarted.standing(digest) == signed
    assert not (wire.folder / "a" / REASONS_FILE).exists()


@pytest.mark.parametrize("site", ["a", CONSUMER])
def test_a_party_that_failed_is_made_anew_for_the_next_call(
    wire: LetterWire, monkeypatch: pytest.MonkeyPatch, site: str
) -> None:
    table, acceptances = _table(wire.folder, site, wire.invitation), wire.acceptances()
    letter = wire.first_letters()["a"] if site == "a" else b""

    def asked() -> list[bytes] | str:
        return table.start(wire.terms.digest, acceptances) if site == CONSUMER else table.hear(letter)

    def locked(*_: object, **__: object) -> bytes:
        raise LedgerUnavailable("another process has it")

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "answer", locked)
        assert asked() == "abstains"
    first = asked()
    assert isinstance(first, list)
    assert asked() == first
    assert [reason.partition(":")[0] for reason in _reasons(wire.folder, site)] == ["LedgerUnavailable"]


def test_bytes_that_are_no_letter_for_this_site_are_answered_with_one_word(wire: LetterWire) -> None:
    letter, other = wire.first_letters()["a"], wire.first_letters()["b"]
    wrong: dict[str, tuple[Any, str]] = {
        "empty": (b"", "form of a letter"),
        "noise": (b"\x00" * 5000, "form of a letter"),
        "oversized": (b"\x00" * (1 << 22), "larger than a letter may be"),
        "no bytes": ("letter", "no bytes"),
        "cut": (letter[:-1], "form of a letter"),
        "cut in the middle": (letter[:3000], "form of a letter"),
        "extended": (letter + b"\x00", "form of a letter"),
        "another's": (other, "for another recipient"),
        "no acceptance": (wire.acceptances()[0][:-1], "acceptance"),
    }
    for name, (data, reason) in wrong.items():
        assert _table(wire.folder, "a", wire.invitation).hear(data) == "abstains", name
        assert reason in _reasons(wire.folder, "a")[-1], name
    assert not _charged(wire.folder, "a")
    # What its home refused, the home was told itself.
    assert (wire.folder / "a" / REFUSED_FILE).read_text() == "letter refused: it is for another recipient\n"


def test_a_letter_of_a_run_that_did_not_come_with_the_job_is_not_heard(tmp_path: Path) -> None:
    other = SCENARIOS["uniform"]
    invited = settle_sites(tmp_path, [SEALED, other])
    letter = LetterWire(tmp_path, invited["uniform"]).first_letters()["a"]
    table = _table(tmp_path, "a", invited["sealed"])
    assert table.hear(letter) == table.standing(invited["uniform"].terms.digest) == "abstains"
    assert "did not come with this job" in _reasons(tmp_path, "a")[0]
    assert "did not come with this job" in _reasons(tmp_path, "a")[1]
    assert isinstance(_table(tmp_path, "a", *invited.values()).hear(letter), list)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"value": 1.0}, "DifferentRequest"), ({"length": 17}, "shape of the terms")],
    ids=["another release", "another shape"],
)
def test_another_message_in_the_place_of_one_that_was_answered_is_refused_also_after_a_restart(
    wire: LetterWire, changes: dict[str, Any], reason: str
) -> None:
    """Signed and sealed by the consumer, under a new number: a second release for the same round."""
    assert isinstance(_table(wire.folder, "a", wire.invitation).hear(wire.first_letters()["a"]), list)
    message = release_for(wire.terms, "a", **changes)
    other = letter_from(wire.folder / CONSUMER, wire.acceptances()[0], message, number=1)
    assert _table(wire.folder, "a", wire.invitation).hear(other) == "abstains"
    assert reason in _reasons(wire.folder, "a")[0]


def test_who_is_no_party_of_the_run_abstains(wire: LetterWire) -> None:
    stranger = _table(wire.folder, "stranger", wire.invitation)
    assert stranger.hear(wire.first_letters()["a"]) == "abstains"
    assert stranger.standing(wire.terms.digest) == "abstains"
    assert "no party of run sealed" in _reasons(wire.folder, "stranger")[0]


def test_terms_that_have_ended_are_refused_by_the_owner_too(tmp_path: Path) -> None:
    ended = settle_sites(tmp_path, [terms(run="ended", expires="2029-05-31")])["ended"]
    letter = LetterWire(tmp_path, ended).first_letters()["a"]
    table = _table(tmp_path, "a", ended)
    assert table.hear(letter) == table.standing(ended.terms.digest) == "abstains"
    assert all("2029-05-31" in reason for reason in _reasons(tmp_path, "a"))


def _raising(error: BaseException) -> Callable[..., SiteRun | None]:
    def factory(*_: object) -> SiteRun | None:
        raise error

    return factory


def test_reasons_stay_at_the_site_and_never_quote_what_may_be_a_row(wire: LetterWire) -> None:
    """Errors of likeset hold no data and are kept in full; of others only the kind is kept."""
    letter = wire.first_letters()["a"]
    known = _table(wire.folder, "a", wire.invitation, factory=_raising(IllegalMessage("said no")))
    unknown = _table(wire.folder, "a", wire.invitation, factory=_raising(ValueError("row 3 is 123456.789")))
    assert known.hear(letter) == unknown.hear(letter) == known.standing(wire.terms.digest) == "abstains"
    assert _reasons(wire.folder, "a") == ["IllegalMessage: said no", "ValueError", "IllegalMessage: said no"]
    assert stat.S_IMODE((wire.folder / "a" / REASONS_FILE).stat().st_mode) == 0o600


def test_a_site_that_cannot_write_down_why_sounds_the_same(wire: LetterWire) -> None:
    (wire.folder / "file").write_text("not a folder")
    table = SiteParties("a", {}, SiteSettings(seat, wire.folder / "file"))
    assert table.standing(wire.terms.digest) == "abstains"


def test_a_site_waits_for_a_decision_and_then_signs_and_answers(wire: LetterWire) -> None:
    letter = wire.first_letters()["a"]
    answers = iter([None, None, seat(wire.invitation, "a", wire.folder / "a")])
    table = _table(wire.folder, "a", wire.invitation, factory=lambda *_: next(answers))
    assert table.standing(wire.terms.digest) == "waiting"
    assert table.hear(letter) == "abstains"
    assert isinstance(table.standing(wire.terms.digest), bytes)
    assert isinstance(table.hear(letter), list)


def test_a_party_of_another_name_or_under_other_terms_is_not_believed(tmp_path: Path) -> None:
    invited = settle_sites(tmp_path, [SEALED, terms(run="other")])
    sealed, other = invited.values()
    letter = LetterWire(tmp_path, sealed).first_letters()["a"]
    for made in (seat(sealed, "b", tmp_path / "b"), seat(other, "a", tmp_path / "a")):
        assert _table(tmp_path, "a", sealed, factory=lambda *_, made=made: made).hear(letter) == "abstains"
    consumer = _table(tmp_path, CONSUMER, sealed, factory=lambda *_: seat(other, CONSUMER, tmp_path / CONSUMER))
    assert consumer.start(sealed.terms.digest, []) == "abstains"
    assert all("made its side of another run" in reason for reason in _reasons(tmp_path, "a"))
    assert "made its side of another run" in _reasons(tmp_path, CONSUMER)[0]


def test_only_the_consumer_starts_a_run_with_acceptances_of_the_parties(wire: LetterWire) -> None:
    digest, acceptances = wire.terms.digest, wire.acceptances()
    table = _table(wire.folder, CONSUMER, wire.invitation)
    assert table.standing(digest) == "ready"
    wrong: list[Any] = [[*acceptances, *acceptances], "acceptances", ["a", "b"], [b"x" * (1 << 14)], None]
    for given in wrong:
        assert table.start(digest, given) == "abstains"
    assert not _charged(wire.folder, CONSUMER)
    first = table.start(digest, acceptances)
    assert isinstance(first, list)
    assert {wire.parcel(data).recipient for data in first} == {"curator", "a", "b", "c"}
    assert _table(wire.folder, "a", wire.invitation).start(digest, acceptances) == "abstains"
    assert table.start("ab" * 32, acceptances) == "abstains"


def _receipt_letter(wire: LetterWire, *receipts: bytes) -> bytes:
    """As the curator writes it by hand."""
    return letter_from(wire.folder / "server", wire.acceptances()[0], None, enclosures=receipts or (b"receipt",))


def _took(wire: LetterWire) -> Path:
    return wire.folder / "a" / f"{SEALED.run}.receipt"


def test_a_receipt_is_taken_from_the_curator_whom_the_consumer_introduced(wire: LetterWire) -> None:
    table = _table(wire.folder, "a", wire.invitation)
    table.standing(wire.terms.digest)
    assert table.hear(_receipt_letter(wire)) == "abstains"
    assert "not introduced" in _reasons(wire.folder, "a")[0]
    assert not _took(wire).exists()
    table.hear(wire.first_letters()["a"])
    assert table.hear(_receipt_letter(wire)) == []
    assert _took(wire).read_bytes() == b"receipt"


def test_a_receipt_is_taken_up_to_its_largest_size(wire: LetterWire) -> None:
    table = _table(wire.folder, "a", wire.invitation)
    table.hear(wire.first_letters()["a"])
    assert table.hear(_receipt_letter(wire, b"r" * (1 << 21))) == []
    assert table.hear(_receipt_letter(wire, b"r" * (1 << 22))) == "abstains"
    assert _took(wire).stat().st_size == 1 << 21


def test_an_absent_party_signs_and_hears_nothing_and_takes_receipts(wire: LetterWire) -> None:
    """It withdrew; what left before is acknowledged all the same, also when the terms have ended."""
    letter = wire.first_letters()["a"]
    wire.sites["a"].hear(letter)
    give_orders(wire.folder, "a", absent=[SEALED.run])
    table = _table(wire.folder, "a", wire.invitation)
    assert table.standing(wire.terms.digest) == table.hear(letter) == "abstains"
    receipt = _receipt_letter(wire)
    assert table.hear(receipt) == []
    _took(wire).unlink()
    table.clock = lambda: datetime(2101, 1, 1, tzinfo=UTC)
    assert table.standing(wire.terms.digest) == table.hear(letter) == "abstains"
    assert table.hear(receipt) == []
    assert _took(wire).exists()


@pytest.mark.parametrize(
    "error", [IllegalMessage("is not signed"), OSError(28, "No space left on device"), RuntimeError("row 17")]
)
def test_a_receipt_that_is_refused_or_cannot_be_kept_is_answered_with_the_one_word(
    wire: LetterWire, error: Exception
) -> None:
    wire.sites["a"].hear(wire.first_letters()["a"])
    made = seat(wire.invitation, "a", wire.folder / "a")
    assert isinstance(made, OwnerRun)

    def refuse(_: bytes) -> bool:
        raise error

    made.keep_receipt = refuse
    table = _table(wire.folder, "a", wire.invitation, factory=lambda *_: made)
    assert table.hear(_receipt_letter(wire)) == "abstains"
    assert "row 17" not in "".join(_reasons(wire.folder, "a"))


def test_a_home_that_meets_its_own_letter_and_does_not_know_it_abstains_from_everything(wire: LetterWire) -> None:
    letter = wire.first_letters()["a"]
    answer = wire.ask("a", letter)
    for path in (wire.folder / "a").glob("letters.sqlite*"):
        path.unlink()
    table = _table(wire.folder, "a", wire.invitation)
    table.standing(wire.terms.digest)
    assert table.hear(answer[0]) == "abstains"
    assert "old copy" in _reasons(wire.folder, "a")[-1]
    assert table.standing(wire.terms.digest) == table.hear(letter) == "abstains"


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ("{", "not JSON"),
        ("[]", "must name socket and home_user"),
        ('{"factory": "site_factory:seat"}', "must name socket and home_user"),
        ('{"factory": "site_factory:seat", "folder": "f", "code": "x"}', "nothing but"),
        ('{"factory": "no_such_module:seat", "folder": "f"}', "factory"),
        ('{"factory": "site_factory:none", "folder": "f"}', "factory"),
        ('{"factory": 3, "folder": "f"}', "factory"),
        ('{"factory": "site_factory:seat", "folder": 3}', "folder"),
        ('{"factory": "site_factory:seat", "folder": "f", "seconds_per_call": "1"}', "seconds_per_call"),
        ('{"factory": "site_factory:seat", "folder": "f", "most_bytes": -1}', "most_bytes"),
    ],
)
def test_settings_that_cannot_be_used_are_named(tmp_path: Path, document: str, field: str) -> None:
    (tmp_path / SETTINGS_FILE).write_text(document)
    with pytest.raises(BadDocument, match=field):
        load_settings(tmp_path, "a")


def test_a_start_up_kit_lets_nvflare_into_no_home(tmp_path: Path) -> None:
    write_settings(tmp_path / "local", factory="site_factory:seat", folder=tmp_path)
    assert isinstance(load_settings(tmp_path / "local", "a"), SiteSettings)
    (tmp_path / "startup").mkdir()
    (tmp_path / "startup" / "start.sh").touch()
    with pytest.raises(BadDocument, match="again"):
        load_settings(tmp_path / "local", "a")


def test_settings_name_the_sites_own_folder(tmp_path: Path) -> None:
    write_settings(tmp_path, factory="site_factory:seat", folder="/data/{site}", seconds_per_call=3.0, most_bytes=1e40)
    found = load_settings(tmp_path, "a")
    assert isinstance(found, SiteSettings)
    assert found.factory is seat
    assert found.folder == Path("/data/a")
    assert found.seconds_per_call == 3.0
    assert found.most_bytes == 1 << 30
    with pytest.raises(BadDocument, match="cannot be read"):
        load_settings(tmp_path / "nowhere", "a")


@pytest.mark.parametrize(
    ("said", "held"),
    [({}, 180.0), ({"seconds_per_call": 5.0}, 15.0), ({"seconds_per_call": 5.0, "seconds_after_auction": 0.0}, 0.0)],
)
def test_settings_that_say_nothing_of_auctions_hold_runs_back_all_the_same(
    tmp_path: Path, said: dict[str, float], held: float
) -> None:
    write_settings(tmp_path, factory="site_factory:seat", folder=tmp_path, **said)
    assert load_settings(tmp_path, "server").seconds_after_auction == held


def test_signed_terms_are_taken_by_the_digest_that_the_site_computes(tmp_path: Path) -> None:
    invited = settle_sites(tmp_path / "sites", [SEALED, SCENARIOS["threshold"]])
    config = write_job(tmp_path / "job", *invited.values()) / "app" / "config"
    expected = {one.terms.digest: one.to_bytes() for one in invited.values()}
    assert {digest: one.to_bytes() for digest, one in load_invitations(config).items()} == expected
    sealed, other = invited["sealed"], invited["threshold"]
    path = config / file_of_invitation(sealed.terms.digest)
    data = path.read_bytes()
    flipped = bytes([*data[:200], data[200] ^ 1, *data[201:]])
    for changed in (flipped, data + b"\n", data[:-1], b"", other.to_bytes(), data + b"\x00" * (1 << 20)):
        path.write_bytes(changed)
        with pytest.raises(InvalidArgument, match="invitation"):
            load_invitations(config)
    with pytest.raises(InvalidArgument, match="to 0 runs"):
        load_invitations(tmp_path)


def test_two_runs_of_one_id_in_a_job_are_refused(tmp_path: Path) -> None:
    sealed = settle_sites(tmp_path / "sites", [SEALED])["sealed"]
    consumer = Identity.of(tmp_path / "sites" / CONSUMER)
    other = Invitation.sign(sealed.terms.with_changes(run="other", run_id="e" * 32), consumer)
    config = write_job(tmp_path / "job", sealed, other) / "app" / "config"
    assert len(load_invitations(config)) == 2
    clash = Invitation.sign(other.terms.with_changes(run="third"), Identity.of(_copy_of_card(tmp_path, consumer)))
    with pytest.raises(InvalidArgument, match="once only"):
        write_job(tmp_path / "clashing", other, clash)
    (config / file_of_invitation(clash.terms.digest)).write_bytes(clash.to_bytes())
    with pytest.raises(InvalidArgument, match="several of one run id"):
        load_invitations(config)


def _copy_of_card(folder: Path, home: Identity) -> Path:
    """A home of the same card that remembers nothing: its own letter book would not sign a run id twice."""
    (folder / "copy").mkdir()
    home.secret.write(folder / "copy")
    return folder / "copy"
