"""Whoever carries letters can keep somebody from taking part, and nothing else: no charge, no row, no other summary.

The keeper of the transport may be in league with an owner, whose card it has; and it has letters of another run.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_scenarios import SITES, charges, settle_sites
from letter_wire import SERVER, LetterWire, letter_from, release_for
from letter_world import make_identity
from protocol_world import CONSUMER, THRESHOLD, carry, same_summary, terms, world

from likeset.errors import LikesetError, ProtocolError, QuorumMissed
from likeset.protocol.messages import Message
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import Terms
from likeset.trust.cards import CardSecret
from likeset.trust.fingerprints import fingerprint_bytes
from likeset.trust.sealing import SealingSecret
from likeset.trust.signed_terms import Acceptance, accept

OTHER = terms(run="another")
PROTOCOLS: dict[str, dict[str, Any]] = {
    "sealed": {},
    "threshold": THRESHOLD,
    "interactive": {"protocol": "interactive"},
}
each_protocol = pytest.mark.parametrize("options", PROTOCOLS.values(), ids=PROTOCOLS)


@dataclass
class Keeper(LetterWire):
    """Honest, until an attack says otherwise.

    Attributes:
        of_another_run: letters by readers, and acceptances by writers, of honest parties in another run.
        first: what the consumer wrote first in this one, by readers.
        seen: all that passed.
    """

    of_another_run: dict[str, bytes] = field(default_factory=dict)
    accepted_another: dict[str, bytes] = field(default_factory=dict)
    first: dict[str, bytes] = field(default_factory=dict)
    seen: list[bytes] = field(default_factory=list)

    def acceptances(self) -> list[bytes]:
        """Of all, as the keeper passes them on."""
        signed = {Acceptance.from_bytes(data).party: data for data in super().acceptances()}
        return list(self.passed_on(signed).values())

    def start(self) -> Sequence[bytes]:
        """What the consumer writes first, which the keeper has then."""
        letters = super().start()
        self.first = {self.parcel(data).recipient: data for data in letters}
        self.seen.extend(letters)
        return letters

    def ask(self, owner: str, data: bytes) -> Sequence[bytes]:
        """What an owner answers, as the keeper passes it on."""
        handed = self.handed_over(owner, data)
        if handed is None:
            raise ProtocolError("no answer")
        replies = super().ask(owner, handed)
        self.seen.extend([data, *replies])
        return replies if owner == CONSUMER else self.brought_back(owner, replies)

    def passed_on(self, signed: dict[str, bytes]) -> dict[str, bytes]:
        """The acceptances that the consumer gets, given those that were signed, by their writers."""
        return signed

    def handed_over(self, _site: str, data: bytes) -> bytes | None:
        """What a site gets in place of a letter; None if nothing."""
        return data

    def brought_back(self, _owner: str, replies: Sequence[bytes]) -> Sequence[bytes]:
        """What comes from an owner in place of its answer."""
        return replies


class Drops(Keeper):
    """The letter to ``a``."""

    def handed_over(self, site: str, data: bytes) -> bytes | None:
        return None if site == "a" else data


class DropsAnswers(Keeper):
    """What ``a`` answers."""

    def brought_back(self, owner: str, replies: Sequence[bytes]) -> Sequence[bytes]:
        return [] if owner == "a" else replies


class Cuts(Keeper):
    """The letter to ``a``."""

    def handed_over(self, site: str, data: bytes) -> bytes | None:
        return data[:-100] if site == "a" else data


class CutsAnswers(Keeper):
    """What ``a`` answers."""

    def brought_back(self, owner: str, replies: Sequence[bytes]) -> Sequence[bytes]:
        return [reply[:-100] for reply in replies] if owner == "a" else replies


class Changes(Keeper):
    """A bit of what is sealed to ``a``."""

    def handed_over(self, site: str, data: bytes) -> bytes | None:
        return bytes([*data[:1000], data[1000] ^ 1, *data[1001:]]) if site == "a" else data


class ChangesTheSender(Keeper):
    """In the header of the letter to ``a``: its consumer is said to be ``b``."""

    def handed_over(self, site: str, data: bytes) -> bytes | None:
        place = data.index(_on_the_wire(self, CONSUMER)) if site == "a" and data == self.first["a"] else None
        return data if place is None else data[:place] + _on_the_wire(self, "b") + data[place + 25 :]


class Swaps(Keeper):
    """The letters to ``a`` and ``b``."""

    def handed_over(self, site: str, data: bytes) -> bytes | None:
        return self.first.get({"a": "b", "b": "a"}.get(site, ""), data)


class SwapsAnswers(Keeper):
    """What ``a`` answers comes from ``b`` as well."""

    def brought_back(self, owner: str, replies: Sequence[bytes]) -> Sequence[bytes]:
        if owner == "a":
            self.of_another_run["answer"] = replies[0]
        return [self.of_another_run["answer"]] if owner == "b" else replies


class ReplaysAnotherRun(Keeper):
    """``a`` gets the letter to it of another run."""

    def handed_over(self, site: str, data: bytes) -> bytes | None:
        return self.of_another_run["a"] if site == "a" else data


class SendsLettersBack(Keeper):
    """In place of an answer comes what ``a`` was sent."""

    def brought_back(self, owner: str, replies: Sequence[bytes]) -> Sequence[bytes]:
        return [self.first["a"]] if owner == "a" else replies


class RepeatsAnswers(Keeper):
    """What ``a`` answers comes twice."""

    def brought_back(self, owner: str, replies: Sequence[bytes]) -> Sequence[bytes]:
        return [*replies, *replies] if owner == "a" else replies


class Withholds(Keeper):
    """The acceptance of ``a``."""

    def passed_on(self, signed: dict[str, bytes]) -> dict[str, bytes]:
        return {party: data for party, data in signed.items() if party != "a"}


class ForgesAcceptances(Keeper):
    """In the name of ``a``, with the card of ``b`` and a key that the keeper has."""

    def passed_on(self, signed: dict[str, bytes]) -> dict[str, bytes]:
        return {**signed, "a": _accepted_as(self, "a", CardSecret.load(self.folder / "b"))}


class InventsACard(Keeper):
    """For ``a``, with its name on it."""

    def passed_on(self, signed: dict[str, bytes]) -> dict[str, bytes]:
        return {**signed, "a": _accepted_as(self, "a", CardSecret.generate("a"))}


class ReplacesTheKey(Keeper):
    """In what ``a`` signed, by one that the keeper has."""

    def passed_on(self, signed: dict[str, bytes]) -> dict[str, bytes]:
        mine, theirs = SealingSecret.generate().public, Acceptance.from_bytes(signed["a"]).run_key
        return {**signed, "a": signed["a"].replace(theirs, mine)}


class ReplaysAcceptances(Keeper):
    """``a`` accepted another run."""

    def passed_on(self, signed: dict[str, bytes]) -> dict[str, bytes]:
        return {**signed, "a": self.accepted_another["a"]}


def _on_the_wire(keeper: Keeper, party: str) -> bytes:
    """A fingerprint, as it stands in headers."""
    return fingerprint_bytes(keeper.terms.cards[party])


def _accepted_as(keeper: Keeper, party: str, secret: CardSecret) -> bytes:
    return accept(
        secret,
        run_id=bytes.fromhex(keeper.terms.run_id),
        terms=bytes.fromhex(keeper.terms.digest),
        role="owner",
        party=party,
        run_key=SealingSecret.generate().public,
    ).to_bytes()


# Who is absent then, and who of them is charged, since rows left all the same.
ATTACKS: dict[type[Keeper], tuple[str, str]] = {
    Drops: ("a", ""),
    DropsAnswers: ("a", "a"),
    Cuts: ("a", ""),
    CutsAnswers: ("a", "a"),
    Changes: ("a", ""),
    ChangesTheSender: ("a", ""),
    Swaps: ("ab", ""),
    SwapsAnswers: ("b", "b"),
    ReplaysAnotherRun: ("a", ""),
    SendsLettersBack: ("a", "a"),
    RepeatsAnswers: ("a", "a"),
    Withholds: ("a", ""),
    ForgesAcceptances: ("a", ""),
    InventsACard: ("a", ""),
    ReplacesTheKey: ("a", ""),
    ReplaysAcceptances: ("a", ""),
}


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
    (answer,) = keeper.sites["a"].hear(keeper.first_letters()["a"])
    made = world(keeper.terms)
    (offer,) = made.owner("a").take(next(one for one in made.consumer().start() if one.receiver == "a"))
    with pytest.raises(LikesetError):
        keeper.curator.hear(letter_from(_speaker(keeper, who), accepted, offer))
    assert "a" in keeper.curator.waiting_for
    assert isinstance(answer, bytes)
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
