"""A site's own side: what it lets in, and that whatever goes wrong sounds the same outside."""

import json
import stat
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_scenarios import SCENARIOS, settle_sites
from protocol_world import CONSUMER, terms
from site_factory import seat

from likeset.errors import BadDocument, IllegalMessage, InvalidArgument, LedgerUnavailable
from likeset.homes.site_party import SiteParty
from likeset.ledger import Ledger
from likeset.protocol.messages import Message, TargetRelease, decode, encode
from likeset.protocol.terms import Terms
from likeset.transports.nvflare.job import write_job, write_settings
from likeset.transports.sites import (
    REASONS_FILE,
    SETTINGS_FILE,
    SiteParties,
    SiteSettings,
    load_settings,
    load_terms,
    most_receipt_bytes,
)

SEALED = SCENARIOS["sealed"]
NOW = datetime(2029, 6, 1, tzinfo=UTC)


def _table(folder: Path, site: str, *agreed: Terms, factory: Callable[..., SiteParty | None] = seat) -> SiteParties:
    settings = SiteSettings(factory, folder / site)
    return SiteParties(site, {one.digest: one for one in agreed or (SEALED,)}, settings, clock=lambda: NOW)


def _call(agreed: Terms = SEALED, owner: str = "a", *, length: int = 16) -> bytes:
    body = TargetRelease(release=np.zeros(length))
    return encode(Message(agreed.run, agreed.digest, agreed.consumer, owner, 1, body))


def _reasons(folder: Path, site: str) -> list[str]:
    lines = (folder / site / REASONS_FILE).read_text().splitlines()
    return [json.loads(line)["reason"] for line in lines]


def test_an_owner_answers_the_curator_and_says_the_same_to_the_same(tmp_path: Path) -> None:
    settle_sites(tmp_path, [SEALED])
    table = _table(tmp_path, "a")
    first = table.hear(_call())
    assert isinstance(first, list)
    assert decode(first[0]).body.kind == "offer"
    assert table.hear(_call()) == first
    assert _table(tmp_path, "a").hear(_call()) == first  # after a restart
    assert table.standing(SEALED.digest) == "ready"
    assert not (tmp_path / "a" / REASONS_FILE).exists()


@pytest.mark.parametrize("site", ["a", CONSUMER])
def test_a_party_that_failed_is_made_anew_for_the_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, site: str
) -> None:
    settle_sites(tmp_path, [SEALED])
    table = _table(tmp_path, site)

    def asked() -> list[bytes] | str:
        return table.start(SEALED.digest) if site == CONSUMER else table.hear(_call())

    def locked(*_: object, **__: object) -> bytes:
        raise LedgerUnavailable("another process has it")

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "answer", locked)
        assert asked() == "abstains"
    first = asked()
    assert isinstance(first, list)
    assert asked() == first
    assert [reason.partition(":")[0] for reason in _reasons(tmp_path, site)] == ["LedgerUnavailable"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "shorter than any message"),
        (b"\x00" * 50, "not a message of version"),
        (b"\x00" * (1 << 22), "more than the"),
        (_call(length=1 << 19), "more than the"),
        (_call(length=17), "shape of the terms"),
        (_call(replace(SEALED, size=5)), "did not come with this job"),
        (_call(owner="b"), "is for b, not for a"),
        (_call(terms(run="sealed", owners=("x", "y"))), "did not come with this job"),
    ],
    ids=["empty", "noise", "oversized noise", "oversized message", "wrong shape", "changed terms", "other", "unknown"],
)
def test_a_message_that_may_not_come_is_answered_with_one_word(tmp_path: Path, data: bytes, reason: str) -> None:
    settle_sites(tmp_path, [SEALED])
    assert _table(tmp_path, "a").hear(data) == "abstains"
    (told,) = _reasons(tmp_path, "a")
    assert reason in told


def test_another_message_in_the_place_of_one_that_was_answered_is_refused_also_after_a_restart(tmp_path: Path) -> None:
    """A second release for the same round: the ledger knows the first."""
    settle_sites(tmp_path, [SEALED])
    assert isinstance(_table(tmp_path, "a").hear(_call()), list)
    body = TargetRelease(release=np.ones(16))
    other = encode(Message(SEALED.run, SEALED.digest, SEALED.consumer, "a", 1, body))
    assert _table(tmp_path, "a").hear(other) == "abstains"
    (reason,) = _reasons(tmp_path, "a")
    assert "DifferentRequest" in reason


def test_who_is_no_party_of_the_run_abstains(tmp_path: Path) -> None:
    assert _table(tmp_path, "stranger").hear(_call()) == "abstains"
    assert "no party of run sealed" in _reasons(tmp_path, "stranger")[0]


def test_terms_that_have_ended_are_refused_by_the_owner_too(tmp_path: Path) -> None:
    ended = terms(run="ended", expires="2029-05-31")
    settle_sites(tmp_path, [ended])
    assert _table(tmp_path, "a", ended).hear(_call(ended)) == "abstains"
    assert "2029-05-31" in _reasons(tmp_path, "a")[0]
    assert _table(tmp_path, "a", ended).standing(ended.digest) == "abstains"


def _raising(error: BaseException) -> Callable[..., SiteParty | None]:
    def factory(*_: object) -> SiteParty | None:
        raise error

    return factory


def test_reasons_stay_at_the_site_and_never_quote_what_may_be_a_row(tmp_path: Path) -> None:
    """Errors of likeset hold no data and are kept in full; of others only the kind is kept."""
    known = _table(tmp_path, "a", factory=_raising(IllegalMessage("said no")))
    unknown = _table(tmp_path, "a", factory=_raising(ValueError("row 3 is 123456.789")))
    assert known.hear(_call()) == unknown.hear(_call()) == known.standing(SEALED.digest) == "abstains"
    assert _reasons(tmp_path, "a") == ["IllegalMessage: said no", "ValueError", "IllegalMessage: said no"]
    assert stat.S_IMODE((tmp_path / "a" / REASONS_FILE).stat().st_mode) == 0o600


def test_a_site_that_cannot_write_down_why_sounds_the_same(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("not a folder")
    assert _table(tmp_path, "a", factory=_raising(ValueError())).hear(_call()) == "abstains"


def test_a_site_waits_for_a_decision_and_then_answers(tmp_path: Path) -> None:
    settle_sites(tmp_path, [SEALED])
    answers = iter([None, None, seat(SEALED, "a", tmp_path / "a")])
    table = _table(tmp_path, "a", factory=lambda *_: next(answers))
    assert table.standing(SEALED.digest) == "waiting"
    assert table.hear(_call()) == "abstains"
    assert table.standing(SEALED.digest) == "ready"
    assert isinstance(table.hear(_call()), list)


def test_a_party_of_another_name_or_under_other_terms_is_not_believed(tmp_path: Path) -> None:
    other = terms(run="other")
    settle_sites(tmp_path, [SEALED, other])
    for made in (seat(SEALED, "b", tmp_path / "b"), seat(other, "a", tmp_path / "a")):
        assert _table(tmp_path, "a", factory=lambda *_, made=made: made).hear(_call()) == "abstains"
    consumer = _table(tmp_path, CONSUMER, factory=lambda *_: seat(other, CONSUMER, tmp_path / CONSUMER))
    assert consumer.start(SEALED.digest) == "abstains"
    assert "a consumer under other terms" in _reasons(tmp_path, CONSUMER)[0]


def test_only_the_consumer_starts_a_run_and_keeps_its_summary_before_it_says_so(tmp_path: Path) -> None:
    settle_sites(tmp_path, [SEALED])
    table = _table(tmp_path, CONSUMER)
    target = table.start(SEALED.digest)
    assert isinstance(target, list)
    assert decode(target[0]).body.kind == "target"
    assert _table(tmp_path, "a").start(SEALED.digest) == "abstains"
    assert _table(tmp_path, CONSUMER).start(terms(run="other").digest) == "abstains"


def _took(folder: Path, site: str = "a") -> Path:
    return folder / site / f"{SEALED.run}.receipt"


def test_an_owner_takes_a_receipt_and_the_same_word_answers_whatever_becomes_of_it(tmp_path: Path) -> None:
    settle_sites(tmp_path, [SEALED])
    assert _table(tmp_path, "a").acknowledge(SEALED.digest, b"receipt") == "noted"
    assert _took(tmp_path).read_bytes() == b"receipt"
    assert not (tmp_path / "a" / REASONS_FILE).exists()


@pytest.mark.parametrize(
    ("site", "digest", "data", "reason"),
    [
        ("a", terms(run="other").digest, b"receipt", "did not come with this job"),
        ("a", ["no", "digest"], b"receipt", "TypeError"),
        (CONSUMER, SEALED.digest, b"receipt", "is no owner in run sealed"),
        ("stranger", SEALED.digest, b"receipt", "is no owner in run sealed"),
        ("a", SEALED.digest, b"r" * (most_receipt_bytes(SEALED) + 1), "too large"),
        ("a", SEALED.digest, "receipt", "too large, or none"),
    ],
    ids=["other terms", "no digest", "consumer", "stranger", "oversized", "no bytes"],
)
def test_a_receipt_that_may_not_come_reaches_nobody(
    tmp_path: Path, site: str, digest: Any, data: Any, reason: str
) -> None:
    settle_sites(tmp_path, [SEALED])
    assert _table(tmp_path, site).acknowledge(digest, data) == "noted"
    (told,) = _reasons(tmp_path, site)
    assert reason in told
    assert not list(tmp_path.rglob("*.receipt"))


def test_a_receipt_is_taken_up_to_its_largest_size(tmp_path: Path) -> None:
    settle_sites(tmp_path, [SEALED])
    largest = b"r" * most_receipt_bytes(SEALED)
    assert _table(tmp_path, "a").acknowledge(SEALED.digest, largest) == "noted"
    assert _took(tmp_path).read_bytes() == largest
    long = terms(protocol="interactive", size=200)
    assert most_receipt_bytes(SEALED) < most_receipt_bytes(long) < 1 << 20


def test_an_absent_party_is_not_heard_and_takes_receipts(tmp_path: Path) -> None:
    """It withdrew, or its terms have ended; what left before is acknowledged all the same."""
    settle_sites(tmp_path, [SEALED])
    made = seat(SEALED, "a", tmp_path / "a")
    assert made is not None
    table = _table(tmp_path, "a", factory=lambda *_: replace(made, absent=True))
    assert table.standing(SEALED.digest) == table.hear(_call()) == "abstains"
    assert table.acknowledge(SEALED.digest, b"receipt") == "noted"
    assert _took(tmp_path).read_bytes() == b"receipt"
    ended = terms(run="ended", expires="2029-05-31")
    settle_sites(tmp_path, [ended])
    assert _table(tmp_path, "a", ended).acknowledge(ended.digest, b"receipt") == "noted"
    assert (tmp_path / "a" / "ended.receipt").exists()


@pytest.mark.parametrize(
    "error", [IllegalMessage("is not signed"), OSError(28, "No space left on device"), RuntimeError("row 17")]
)
def test_a_receipt_that_is_refused_or_cannot_be_kept_sounds_the_same(tmp_path: Path, error: Exception) -> None:
    settle_sites(tmp_path, [SEALED])
    made = seat(SEALED, "a", tmp_path / "a")
    assert made is not None

    def refuse(_: bytes) -> None:
        raise error

    for factory in (lambda *_: replace(made, keep_receipt=refuse), lambda *_: replace(made, keep_receipt=None)):
        assert _table(tmp_path, "a", factory=factory).acknowledge(SEALED.digest, b"receipt") == "noted"
    assert _table(tmp_path, "a", factory=lambda *_: None).acknowledge(SEALED.digest, b"receipt") == "noted"
    assert len(_reasons(tmp_path, "a")) == 3
    assert "row 17" not in "".join(_reasons(tmp_path, "a"))


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ("{", "not JSON"),
        ("[]", "must name factory and folder"),
        ('{"factory": "site_factory:seat"}', "must name factory and folder"),
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


def test_settings_name_the_sites_own_folder(tmp_path: Path) -> None:
    write_settings(tmp_path, factory="site_factory:seat", folder="/data/{site}", seconds_per_call=3.0, most_bytes=1e40)
    found = load_settings(tmp_path, "a")
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


def test_terms_are_taken_by_the_digest_that_the_site_computes(tmp_path: Path) -> None:
    config = write_job(tmp_path / "job", SEALED, SCENARIOS["threshold"]) / "app" / "config"
    assert load_terms(config) == {one.digest: one for one in (SEALED, SCENARIOS["threshold"])}
    path = config / f"terms-{SEALED.digest}.json"
    text = path.read_text()
    for changed in (replace(SEALED, size=400).to_json(), text + "\n", "{}"):
        path.write_text(changed)
        with pytest.raises(InvalidArgument, match="terms"):
            load_terms(config)
    with pytest.raises(InvalidArgument, match="names no terms"):
        load_terms(tmp_path)
