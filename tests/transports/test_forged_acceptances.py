"""Who takes part is what its own card signed, and is fixed when the consumer begins."""

from pathlib import Path

import pytest
from engine_scenarios import SERVER, settle_sites
from protocol_world import CONSUMER, terms, world
from site_factory import seat

from likeset.errors import LikesetError
from likeset.homes.mail import ConsumerRun, CuratorRun, Invitation
from likeset.protocol.party import CURATOR
from likeset.protocol.wire import MOST_BYTES, Message
from likeset.trust.cards import CardSecret, SealingSecret
from likeset.trust.letters import Acceptance, accept, letter_in, write_letter


def _parties(folder: Path) -> tuple[Invitation, ConsumerRun, CuratorRun, dict[str, bytes]]:
    """A run that has not begun, and what all signed."""
    invited = settle_sites(folder, [terms(run="attacked")])["attacked"]
    consumer, curator = seat(invited, CONSUMER, folder / CONSUMER), seat(invited, CURATOR, folder / SERVER)
    assert isinstance(consumer, ConsumerRun)
    assert isinstance(curator, CuratorRun)
    signed = {CURATOR: curator.acceptance()}
    for name in invited.terms.owners:
        owner = seat(invited, name, folder / name)
        assert owner is not None
        signed[name] = owner.acceptance()
    return invited, consumer, curator, signed


def _readers(letters: tuple[bytes, ...], invited: Invitation) -> dict[str, bytes]:
    names = {fingerprint: name for name, fingerprint in invited.terms.cards.items()}
    return {names[letter_in(data, most_bytes=MOST_BYTES).header.recipient]: data for data in letters}


def _accepted_as(signed: bytes, card: CardSecret) -> bytes:
    """The same acceptance by another card, with a key that its holder has."""
    true = Acceptance.from_bytes(signed)
    mine = SealingSecret.generate().public
    return accept(card, run_id=true.run_id, terms=true.terms, role="owner", party=true.party, run_key=mine).to_bytes()


@pytest.mark.parametrize("card", ["of another owner", "invented", "replaced key"])
def test_the_release_is_sealed_to_nobody_who_signed_in_an_owners_name(tmp_path: Path, card: str) -> None:
    invited, consumer, _, signed = _parties(tmp_path)
    if card == "replaced key":
        theirs = Acceptance.from_bytes(signed["a"]).run_key
        signed["a"] = signed["a"].replace(theirs, SealingSecret.generate().public)
    else:
        secret = CardSecret.load(tmp_path / "b") if card == "of another owner" else CardSecret.generate("a")
        signed["a"] = _accepted_as(signed["a"], secret)
    assert set(_readers(consumer.begin(list(signed.values())), invited)) == {CURATOR, "b", "c"}


def test_whoever_takes_part_is_fixed_when_the_run_begins(tmp_path: Path) -> None:
    """An acceptance that was withheld is given to the curator by another owner, who cannot introduce anybody."""
    invited, consumer, curator, signed = _parties(tmp_path)
    late = signed.pop("a")
    readers = _readers(consumer.begin(list(signed.values())), invited)
    assert set(readers) == {CURATOR, "b", "c"}
    curator.hear(readers[CURATOR])
    target = next(one for one in world(invited.terms).consumer().start() if one.receiver == CURATOR)
    message = Message(target.run, target.terms, "b", CURATOR, target.round, target.body)
    accepted = Acceptance.from_bytes(signed[CURATOR])
    letter = write_letter(
        CardSecret.load(tmp_path / "b"),
        recipient=accepted.card,
        recipient_key=accepted.run_key,
        run_id=accepted.run_id,
        terms=accepted.terms,
        round=message.round,
        number=0,
        message=message.data,
        enclosures=(late,),
    )
    with pytest.raises(LikesetError):
        curator.hear(letter.data)
    assert "a" not in curator.letters.introduce(())
