"""Whoever carries letters can keep somebody from taking part, and nothing else: no charge, no row, no other summary."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_scenarios import SITES, charges, settle_sites
from letter_wire import SERVER, LetterWire, letter_from, release_for
from letter_world import make_identity
from protocol_world import CONSUMER, THRESHOLD, carry, same_summary, terms, world
from transport_keepers import ATTACKS, Changes, Drops, Keeper, Withholds

from likeset.errors import LikesetError, ProtocolError, QuorumMissed
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import Terms
from likeset.protocol.wire import Message
from likeset.trust.letters import Acceptance

OTHER = terms(run="another")
PROTOCOLS: dict[str, dict[str, Any]] = {
    "sealed": {},
    "threshold": THRESHOLD,
    "interactive": {"protocol": "interactive"},
}
each_protocol = pytest.mark.parametrize("options", PROTOCOLS.values(), ids=PROTOCOLS)


def _keeper(folder: Path, kind: type[Keeper], agreed: Terms) -> Keeper:
    """Of a transport on which another run has begun."""
    invited = settle_sites(folder, [agreed, OTHER])
    other = LetterWire(folder, invited[OTHER.run])
    accepted = {Acceptance.from_bytes(data).party: data for data in other.acceptances()}
    return kind(folder, invited[agreed.run], of_another_run=other.first_letters(), accepted_another=accepted)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_no_attack_of_a_transport_has_an_effect_but_absence(tmp_path: Path, attack: type[Keeper]) -> None:
    absent, disclosed = ATTACKS[attack]
    keeper = _keeper(tmp_path, attack, terms(run="attacked"))
    keeper.run()
    without = world(keeper.terms)
    for owner in absent:
        del without.data[owner]
    assert keeper.summary is not None
    assert same_summary(keeper.summary, carry(without).summary)
    assert list(keeper.summary.absent) == [keeper.terms.owners.index(owner) for owner in absent]
    charged = {owner: charges(tmp_path, owner, "attacked") for owner in keeper.terms.owners}
    assert charged == {owner: int(owner not in absent or owner in disclosed) for owner in keeper.terms.owners}
    assert charges(tmp_path, CONSUMER, "attacked") == 1  # one release, however letters went
    assert sum(charges(tmp_path, owner, OTHER.run) for owner in keeper.terms.owners) == 0


@each_protocol
@pytest.mark.parametrize("attack", [Drops, Changes, Withholds])
def test_who_is_cut_off_is_absent_in_every_protocol(
    tmp_path: Path, options: dict[str, Any], attack: type[Keeper]
) -> None:
    keeper = _keeper(tmp_path, attack, terms(run="attacked", **options))
    keeper.run()
    assert keeper.summary is not None
    assert list(keeper.summary.absent) == [0]
    assert charges(tmp_path, "a", "attacked") == 0


@pytest.mark.parametrize("party", [CURATOR, "all owners"])
def test_where_acceptances_are_withheld_nothing_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, party: str
) -> None:
    keeper = _keeper(tmp_path, Keeper, terms(run="attacked"))
    withheld = [CURATOR] if party == CURATOR else keeper.terms.owners
    monkeypatch.setattr(
        keeper, "passed_on", lambda signed: {name: data for name, data in signed.items() if name not in withheld}
    )
    with pytest.raises(ProtocolError, match="abstains"):
        keeper.run()
    assert sum(charges(tmp_path, site, "attacked") for site in SITES) == 0
    assert keeper.told == []


@each_protocol
def test_letters_that_are_handed_over_twice_and_answers_that_are_kept_back_change_nothing(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    """Everything twice, then all of it once more in the end: each time the very same answers, charged once."""
    keeper = _keeper(tmp_path, Keeper, terms(run="attacked", **options))
    answers: dict[bytes, Sequence[bytes]] = {}
    honest = keeper.ask

    def twice(owner: str, data: bytes) -> Sequence[bytes]:
        answers[data] = honest(owner, data)
        assert honest(owner, data) == answers[data]
        return answers[data]

    keeper.ask = twice  # type: ignore[method-assign]
    keeper.run()
    before = {site: charges(tmp_path, site, "attacked") for site in SITES}
    read = {data: keeper.parcel(data).recipient for data in answers}
    owners = [data for data, reader in read.items() if reader != CONSUMER]
    assert all(keeper.sites[read[data]].hear(data) == answers[data] for data in reversed(owners))
    assert {site: charges(tmp_path, site, "attacked") for site in SITES} == before
    assert keeper.summary is not None
    assert same_summary(keeper.summary, carry(world(keeper.terms)).summary)


@pytest.mark.parametrize("kind", ["threshold", "interactive"])
def test_letters_that_come_in_another_order_are_refused_until_their_turn_has_come(tmp_path: Path, kind: str) -> None:
    """Owner ``a`` gets the letters of an honest run backwards, at a copy of its home."""
    keeper = _keeper(tmp_path / "honest", Keeper, terms(run="attacked", **PROTOCOLS[kind]))
    keeper.acceptances()
    shutil.copytree(tmp_path / "honest", tmp_path / "copy")
    keeper.run()
    letters = [data for reader, data in keeper.told if reader == "a"]
    assert len(letters) > 2
    site = LetterWire(tmp_path / "copy", keeper.invitation).sites["a"]
    for data in reversed(letters[1:]):
        assert site.hear(data) == "abstains"
        assert charges(tmp_path / "copy", "a", "attacked") == 0
    assert isinstance(site.hear(letters[0]), list)


def _speaker(keeper: Keeper, who: str) -> Path:
    """The home of somebody whom the keeper is in league with, or of nobody."""
    if who == "stranger":
        make_identity(keeper.folder / "stranger", CONSUMER)
    return keeper.folder / who


@pytest.mark.parametrize("who", ["b", "stranger", SERVER])
def test_a_release_that_the_consumer_did_not_write_reaches_no_owner(tmp_path: Path, who: str) -> None:
    """Sealed to the owner's true key, in the consumer's name: by another owner, by the curator, by a stranger."""
    keeper = _keeper(tmp_path, Keeper, terms(run="attacked"))
    (accepted, *_) = keeper.acceptances()
    forged = letter_from(_speaker(keeper, who), accepted, release_for(keeper.terms, "a"))
    assert keeper.sites["a"].hear(forged) == "abstains"
    assert isinstance(keeper.sites["a"].hear(keeper.first_letters()["a"]), list)
    assert keeper.sites["a"].hear(forged) == "abstains"
    assert charges(tmp_path, "a", "attacked") == 1


@pytest.mark.parametrize("who", ["b", "stranger"])
def test_rows_that_the_curator_did_not_send_are_no_summary(tmp_path: Path, who: str) -> None:
    """An owner answers the consumer in the curator's place, as a live attack did."""
    keeper = _keeper(tmp_path, Keeper, terms(run="attacked"))
    keeper.run()
    honest = keeper.summary
    assert honest is not None
    agreed, signed = keeper.terms, keeper.invitation.signed
    message = Message(agreed.run, agreed.digest, CURATOR, CONSUMER, 1, honest)
    (tmp_path / CONSUMER / "attacked.summary").unlink()
    forged = letter_from(
        _speaker(keeper, who), keeper.acceptances()[0], message, recipient=signed.card, recipient_key=signed.run_key
    )
    assert keeper.sites[CONSUMER].hear(forged) == "abstains"
    assert keeper.summary is None


@pytest.mark.parametrize("who", ["b", "stranger"])
def test_the_curator_hears_no_owner_in_whose_name_somebody_else_writes(tmp_path: Path, who: str) -> None:
    keeper = _keeper(tmp_path, Keeper, terms(run="attacked"))
    *_, accepted = keeper.acceptances()
    keeper.curator.hear(keeper.first_letters()[CURATOR])
    (answer,) = keeper.ask("a", keeper.first_letters()["a"])
    made = world(keeper.terms)
    (offer,) = made.owner("a").take(next(one for one in made.consumer().start() if one.receiver == "a"))
    with pytest.raises(LikesetError):
        keeper.curator.hear(letter_from(_speaker(keeper, who), accepted, offer))
    assert "a" in keeper.curator.waiting_for
    keeper.curator.hear(answer)
    assert "a" not in keeper.curator.waiting_for


def test_whoever_takes_part_is_fixed_when_the_run_begins(tmp_path: Path) -> None:
    """An acceptance that was withheld is given to the curator by another owner, who cannot introduce anybody."""
    keeper = _keeper(tmp_path, Keeper, terms(run="attacked"))
    signed = {Acceptance.from_bytes(data).party: data for data in keeper.acceptances()}
    late = signed.pop("a")
    first = keeper.sites[CONSUMER].start(keeper.terms.digest, list(signed.values()))
    readers = {keeper.parcel(data).recipient: data for data in first if isinstance(data, bytes)}
    assert set(readers) == {CURATOR, "b", "c"}
    keeper.curator.hear(readers[CURATOR])
    made = world(keeper.terms)
    target = next(one for one in made.consumer().start() if one.receiver == CURATOR)
    message = Message(target.run, target.terms, "b", CURATOR, target.round, target.body)
    with pytest.raises(LikesetError):
        keeper.curator.hear(letter_from(tmp_path / "b", signed[CURATOR], message, enclosures=(late,)))
    assert "a" not in keeper.curator.letters.introduce(())


def test_nobody_on_the_way_sees_a_row_or_the_target(tmp_path: Path) -> None:
    keeper = _keeper(tmp_path, Keeper, terms(run="attacked"))
    keeper.run()
    made = world(keeper.terms)
    secrets_of_all = [row.tobytes() for rows in (*made.data.values(), made.target) for row in rows]
    assert keeper.summary is not None
    assert any(np.asarray(row, dtype=np.float32).tobytes() in secrets_of_all for row in keeper.summary.rows)
    passed = b"".join([*keeper.seen, *(data for _, data in keeper.told)])
    assert len(passed) > 1 << 15
    assert not any(secret in passed for secret in secrets_of_all)


def test_too_few_acceptances_miss_the_quorum_before_anything_is_drawn(tmp_path: Path) -> None:
    keeper = _keeper(tmp_path, Withholds, terms(run="attacked", quorum=3))
    with pytest.raises(ProtocolError, match="abstains"):
        keeper.run()
    assert sum(charges(tmp_path, site, "attacked") for site in SITES) == 0
    assert QuorumMissed.__name__ in (tmp_path / CONSUMER / "abstentions.jsonl").read_text()
