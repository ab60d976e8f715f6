"""Attacks on joining: whoever carries files or keeps the mailbox gets no card pinned; what an inviter can do."""

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from likeset.errors import BadDocument, InvalidArgument
from likeset.homes import joining
from likeset.homes.home import Home, make_home, make_party
from likeset.homes.joining import Invitation, Reply
from likeset.homes.policy import Policy
from likeset.protocol import wire
from likeset.transports.stores import DirectoryStore
from likeset.trust.cards import INVITE_CONTEXT
from likeset.trust.letters import file_name

RULES = Policy(likeset="owner", version=1, consumers=("clinic",), columns=("age",), purposes=("care",))
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class Market:
    """A consumer with its own curator, and a mailbox; ``now`` is everybody's clock."""

    def __init__(self, place: Path) -> None:
        self.place, self.now = place, NOW
        (place / "mailbox").mkdir()
        self.mailbox = f"file://{place}/mailbox"
        self.store = DirectoryStore(place / "mailbox")
        self.clinic = self.party("clinic", "consumer", "curator")

    def party(self, name: str, *roles: Any, folder: str = "") -> Home:
        home = make_party(self.place / (folder or name), name=name, roles=roles)
        home.clock = lambda: self.now
        return home

    def invite(self, name: str = "st-mary", inviter: Home | None = None, **changes: Any) -> Invitation:
        settings: dict[str, Any] = {"role": "owner", "mailbox": self.mailbox, "rules": RULES} | changes
        return joining.invite(inviter or self.clinic, name, **settings)

    def home_of(self, invitation: Invitation, folder: str = "") -> Home:
        home = joining.opened_home(invitation, self.place / (folder or invitation.proposal.name), by="alice")
        home.clock = lambda: self.now
        return home

    def reply(self, invitation: Invitation, home: Home) -> None:
        data = Reply.sealed(invitation, home.secret)
        self.store.write(invitation.proposal.reply_to, file_name(data), data)

    def replies(self, invitation: Invitation) -> list[Reply]:
        return joining.replies(self.clinic, invitation, self.store)

    def confirm(self, invitation: Invitation, words: tuple[str, ...]) -> None:
        joining.confirm(self.clinic, invitation, self.replies(invitation), " ".join(words), by="bob")


@pytest.fixture
def market(tmp_path: Path) -> Iterator[Market]:
    market = Market(tmp_path)
    yield market
    market.clinic.close()


def signed_anew(invitation: Invitation, inviter: Home, **changes: Any) -> Invitation:
    changed = replace(invitation, **changes)
    return replace(changed, signature=inviter.secret.sign(INVITE_CONTEXT, *changed.parts))


def test_words_that_agree_pin_both_ways_with_full_digests_in_the_log(market: Market) -> None:
    invitation = market.invite()
    owner = market.home_of(Invitation.from_bytes(invitation.to_bytes()))
    market.reply(invitation, owner)
    (reply,) = market.replies(invitation)
    words = invitation.words(reply.card)
    assert len(words) == 8
    joining.join(owner, invitation, " ".join(words).upper(), by="alice")
    market.confirm(invitation, words)
    assert [pin.card for pin in owner.pins.pinned("consumer")] == [market.clinic.card]
    assert [(pin.card.name, pin.belongs_to) for pin in owner.pins.pinned("curator")] == [("clinic-curator", "clinic")]
    assert [pin.card for pin in market.clinic.pins.pinned("owner")] == [owner.card]
    for home in (owner, market.clinic):
        (entry,) = [entry for entry in home.database.entries() if entry.kind == "joined"]
        assert invitation.digest.hex() in entry.body
    assert joining.is_joined(owner, invitation)
    joining.join(owner, invitation, " ".join(words), by="alice")  # again: no change
    owner.close()


def test_a_party_whose_messages_nobody_could_read_here_is_not_pinned(
    market: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    invitation = market.invite()
    owner, (now,) = market.home_of(invitation), wire.READS
    with monkeypatch.context() as later:
        later.setattr(wire, "READS", (now + 1,))
        market.reply(invitation, owner)
    (reply,) = market.replies(invitation)
    with pytest.raises(InvalidArgument, match=f"reads messages of version {now + 1}, and this home {now}"):
        market.confirm(invitation, invitation.words(reply.card))
    assert market.clinic.pins.get("st-mary") is None
    monkeypatch.setattr(wire, "READS", (now, now + 1))  # after an upgrade here
    market.confirm(invitation, invitation.words(reply.card))
    assert market.clinic.pins.get("st-mary") is not None


def test_invitation_replaced_in_transit(market: Market) -> None:
    """The carrier shows the owner an invitation of its own, and answers the true one itself."""
    mallory = market.party("clinic", "consumer", "curator", folder="mallory")
    true, false = market.invite(), market.invite(inviter=mallory)
    owner, twin = market.home_of(false), make_home(market.place / "twin", name="st-mary", roles=("owner",))
    market.reply(true, twin)
    heard = true.words(market.replies(true)[0].card)  # what the clinic reads out
    with pytest.raises(InvalidArgument, match=r"^--words"):
        joining.join(owner, false, " ".join(heard), by="alice")
    with pytest.raises(InvalidArgument, match=r"^--words"):
        market.confirm(true, false.words(owner.card))
    assert not owner.pins.all()
    assert not market.clinic.pins.pinned("owner")


def test_invitation_changed_in_transit_is_refused(market: Market) -> None:
    invitation = market.invite()
    data = bytearray(invitation.to_bytes())
    for place in (40, len(data) // 2, len(data) - 1):
        changed = data.copy()
        changed[place] ^= 1
        with pytest.raises(BadDocument):
            Invitation.from_bytes(bytes(changed))


def test_no_name_in_an_invitation_leads_to_another_folder(market: Market) -> None:
    with pytest.raises(BadDocument, match="slash"):
        market.invite("a/../../elsewhere")
    text = market.invite("a-x-elsewhere").text.replace("a-x-elsewhere", "a/../elsewhere")
    hostile = signed_anew(market.invite("other", role="curator", rules=None), market.clinic, text=text, by_curator=b"")
    with pytest.raises(BadDocument, match="slash"):
        Invitation.from_bytes(hostile.to_bytes())


def test_an_invitation_has_one_form(market: Market) -> None:
    honest = market.invite(role="curator", rules=None)
    twice = honest.text.replace('"role":', '"role":"owner","role":')
    dishonest = signed_anew(honest, market.clinic, text=twice, by_curator=b"")
    with pytest.raises(BadDocument, match="canonical form"):
        Invitation.from_bytes(dishonest.to_bytes())


def test_reply_from_someone_else(market: Market) -> None:
    """Whoever saw the invitation can answer it under the owner's name; the words tell the two replies apart."""
    invitation = market.invite()
    owner = market.home_of(invitation)
    other = make_home(market.place / "other", name="st-mary", roles=("owner",))
    market.reply(invitation, other)
    with pytest.raises(InvalidArgument, match=r"^--words"):
        market.confirm(invitation, invitation.words(owner.card))
    market.reply(invitation, owner)
    assert len(market.replies(invitation)) == 2
    typed = ", ".join(invitation.words(owner.card))
    joining.confirm(market.clinic, invitation, market.replies(invitation), typed, by="bob")
    assert [pin.card for pin in market.clinic.pins.pinned("owner")] == [owner.card]


def test_replies_of_another_name_or_to_another_invitation_do_not_count(market: Market) -> None:
    invitation, before = market.invite(), market.invite("st-anna")
    market.reply(invitation, make_home(market.place / "x", name="st-anna", roles=("owner",)))
    data = Reply.sealed(before, market.home_of(invitation).secret)
    market.store.write(invitation.proposal.reply_to, file_name(data), data)
    assert market.replies(invitation) == []
    with pytest.raises(InvalidArgument, match=r"^NAME"):
        market.confirm(invitation, ("abandon",) * 8)


def test_a_mailbox_full_of_rubbish_is_read_within_bounds(market: Market) -> None:
    invitation = market.invite()
    for number in range(100):
        data = os.urandom(6000 + number)
        market.store.write(invitation.proposal.reply_to, file_name(data), data)
    assert market.replies(invitation) == []
    reply = Reply.opened(invitation, market.clinic.secret, Reply.sealed(invitation, market.home_of(invitation).secret))
    joining.confirm(market.clinic, invitation, [reply], " ".join(invitation.words(reply.card)), by="bob")  # by a file


def test_the_mailbox_does_not_show_who_joins(market: Market) -> None:
    invitation = market.invite()
    owner = market.home_of(invitation)
    market.reply(invitation, owner)
    (file,) = market.store.list(invitation.proposal.reply_to)
    data = market.store.read(invitation.proposal.reply_to, file.name, most_bytes=file.size)
    assert b"st-mary" not in data
    assert owner.card.signing not in data


def test_expired_invitation(market: Market) -> None:
    invitation = market.invite(days=1)
    owner = market.home_of(invitation)
    market.reply(invitation, owner)
    words = invitation.words(owner.card)
    market.now += timedelta(days=1, seconds=1)
    with pytest.raises(InvalidArgument, match=r"^invitation"):
        joining.join(owner, invitation, " ".join(words), by="alice")
    with pytest.raises(InvalidArgument, match=r"^invitation"):
        market.confirm(invitation, words)
    market.now = NOW - timedelta(days=2)
    with pytest.raises(InvalidArgument, match="clock"):
        joining.join(owner, invitation, " ".join(words), by="alice")


def test_two_owners_with_one_name(market: Market) -> None:
    invitation = market.invite()
    first = market.home_of(invitation)
    market.reply(invitation, first)
    market.confirm(invitation, invitation.words(first.card))
    again = market.invite()
    second = market.home_of(again, "second")
    market.reply(again, second)
    with pytest.raises(InvalidArgument, match=r"^card"):
        market.confirm(again, again.words(second.card))
    assert [pin.card for pin in market.clinic.pins.pinned("owner")] == [first.card]


@pytest.mark.parametrize("place", [0, 3, 7])
def test_words_that_differ_in_one_place(market: Market, place: int) -> None:
    invitation = market.invite()
    owner = market.home_of(invitation)
    words = list(invitation.words(owner.card))
    words[place] = "zoo" if words[place] != "zoo" else "zone"
    with pytest.raises(InvalidArgument, match="1 of 8 differ"):
        joining.join(owner, invitation, " ".join(words), by="alice")
    with pytest.raises(InvalidArgument, match="8 words"):
        joining.join(owner, invitation, " ".join(words[:7]), by="alice")
    with pytest.raises(InvalidArgument, match=r"word 1 \(yess\)"):
        joining.join(owner, invitation, "yess " + " ".join(words[1:]), by="alice")
    assert not owner.pins.all()


@pytest.mark.parametrize(
    ("rules", "field"), [({"manual_approval": False}, "manual_approval"), ({"consumers": ("*",)}, "consumers")]
)
def test_invitation_proposing_automatic_approval(market: Market, rules: dict[str, Any], field: str) -> None:
    proposed = RULES.model_copy(update=rules)
    with pytest.raises(BadDocument, match=field):
        market.invite(rules=proposed)
    honest = market.invite()
    text = joining._canonical(honest.proposal.model_copy(update={"rules": proposed}))
    dishonest = signed_anew(honest, market.clinic, text=text, by_curator=b"")
    with pytest.raises(BadDocument, match=field):
        Invitation.from_bytes(dishonest.to_bytes())


def test_consumer_that_introduces_a_second_card_of_its_own_as_curator(market: Market) -> None:
    """Undetectable (docs/threat-model.md): the words agree. The review says that nobody confirmed the curator."""
    consumer = make_home(market.place / "shop", name="shop", roles=("consumer",))
    consumer.clock = lambda: market.now
    sock_puppet = make_home(market.place / "hub", name="hub", roles=("curator",))
    consumer.pins.pin(sock_puppet.card, "curator")
    invitation = joining.invite(
        consumer,
        "st-mary",
        role="owner",
        mailbox=market.mailbox,
        rules=RULES.model_copy(update={"consumers": ("shop",)}),
    )
    owner = market.home_of(invitation)
    words = invitation.words(owner.card)
    assert len(words) == 12
    joining.join(owner, invitation, " ".join(words), by="alice")
    (pin,) = owner.pins.pinned("curator")
    assert (pin.introduced_by, pin.belongs_to) == ("shop", "")
    owner.pins.pin(sock_puppet.card, "curator", fingerprint=sock_puppet.card.fingerprint)  # a call of its own
    (pin,) = owner.pins.pinned("curator")
    assert not pin.introduced_by
    joining.join(owner, invitation, " ".join(words), by="alice")
    assert not owner.pins.pinned("curator")[0].introduced_by  # joining again does not undo the call


def test_a_curator_counts_as_the_inviters_own_only_if_it_signed(market: Market) -> None:
    invitation = market.invite()
    assert not invitation.introduced
    stranger = make_home(market.place / "hub", name="hub", roles=("curator",))
    for changes in ({"curator": stranger.card}, {"by_curator": bytes(64)}):
        with pytest.raises(BadDocument, match="curator's signature"):
            Invitation.from_bytes(signed_anew(invitation, market.clinic, **changes).to_bytes())


def test_consumer_and_curator_of_one_organisation_are_no_two_of_three(market: Market) -> None:
    witness = make_home(market.place / "university", name="university", roles=("witness",))
    market.clinic.pins.pin(witness.card, "witness")
    with pytest.raises(BadDocument, match="two of the three"):
        market.invite()


def test_one_name_or_key_for_two_parties_is_refused(market: Market) -> None:
    with pytest.raises(BadDocument, match="one name"):
        market.invite("clinic-curator")
    consumer = make_home(market.place / "shop", name="shop", roles=("consumer",))
    twin = make_home(market.place / "twin", name="shop", roles=("curator",))
    with pytest.raises(BadDocument, match="one name"):
        Invitation.from_bytes(
            signed_anew(market.invite(), consumer, card=consumer.card, curator=twin.card, by_curator=b"").to_bytes()
        )


def test_a_schema_that_takes_seconds_to_read_is_neither_sent_nor_read(
    market: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "".join(f"  c{number}: {{kind: boolean}}\n" for number in range(12_000))
    schema = f"likeset: schema\nversion: 1\ncolumns:\n{lines}"
    with pytest.raises(InvalidArgument, match=r"^--schema"):
        market.invite(schema=schema)
    with monkeypatch.context() as other_version:
        other_version.setattr(joining, "MOST_BYTES", 1 << 20)
        sent = market.invite(schema=schema).to_bytes()
    monkeypatch.setattr("likeset.tables.schema.Schema.from_text", None)  # it is not parsed
    with pytest.raises(BadDocument):
        Invitation.from_bytes(sent)


def test_a_home_of_another_name_or_role_does_not_join(market: Market) -> None:
    invitation = market.invite()
    make_home(market.place / "other", name="other", roles=("owner",)).close()
    make_home(market.place / "hub", name="st-mary", roles=("curator",)).close()
    with pytest.raises(InvalidArgument, match=r"^HOME"):
        market.home_of(invitation, "other")
    with pytest.raises(InvalidArgument, match=r"^--home"):
        market.home_of(invitation, "hub")
