"""Letters between homes: a run comes to the same end as without them, and nothing but true letters is heard."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from letter_world import MOST_BYTES, LetterWorld, make_identity, terms_between
from protocol_world import CONSUMER, THRESHOLD, QuickLedger, terms, world

from likeset.errors import (
    HomeRestored,
    IllegalMessage,
    InvalidArgument,
    LetterRefused,
    LikesetError,
    QuorumMissed,
)
from likeset.homes.mail import IN, ConsumerRun, Correspondence, Identity, Invitation, compare, receipt_in, unpinned
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import Terms
from likeset.protocol.wire import Message, TargetRelease
from likeset.transports.local import LocalEngine
from likeset.trust.letters import letter_in, open_letter, sign_terms, write_letter

KINDS: dict[str, dict[str, Any]] = {
    "sealed": {},
    "uniform": {"offers": "uniform"},
    "threshold": THRESHOLD,
    "interactive": {"protocol": "interactive"},
}


def _in_one_house(agreed: Terms) -> list[int]:
    made = world(agreed, QuickLedger())
    owners = {name: made.owner(name) for name in agreed.owners}
    result = LocalEngine().run(made.curator(), owners, made.consumer())
    return list(map(int, result.summary.handles))


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_through_letters_ends_as_in_one_house(tmp_path: Path, kind: str) -> None:
    homes = LetterWorld(tmp_path, terms(**KINDS[kind]))
    summary = homes.carry(homes.all_runs())
    assert summary is not None
    assert list(map(int, summary.handles)) == _in_one_house(homes.agreed)
    for name in homes.agreed.owners:
        receipt = receipt_in("receipt", homes.receipts[name])
        assert receipt.fault(homes.homes[CURATOR].secret.card) is None
        assert compare(homes.transcript(name, kept_by="owner"), receipt.transcript) == ([], [])
        assert receipt.transcript.rows > 0 or kind in ("threshold", "interactive")


@pytest.mark.parametrize("kind", KINDS)
def test_parties_made_anew_send_the_very_letters_again(tmp_path: Path, kind: str) -> None:
    homes = LetterWorld(tmp_path, terms(**KINDS[kind]))
    homes.carry(homes.all_runs())
    before, homes.told, homes.summary = homes.told, [], None
    assert homes.carry(homes.all_runs()) is not None
    assert homes.told == before


def test_nobody_is_asked_who_did_not_accept(tmp_path: Path) -> None:
    homes = LetterWorld(tmp_path)
    summary = homes.carry(homes.all_runs(), absent=["b"])
    assert summary is not None
    assert list(summary.absent) == [1]
    assert {reader for reader, _ in homes.told} == {"a", "c", CURATOR, CONSUMER}


def test_without_a_quorum_nothing_is_drawn(tmp_path: Path) -> None:
    homes = LetterWorld(tmp_path, terms(quorum=3))
    with pytest.raises(QuorumMissed):
        homes.carry(homes.all_runs(), absent=["b"])
    assert homes.ledgers[CONSUMER].answers == {}


def test_without_the_curator_nothing_is_drawn(tmp_path: Path) -> None:
    homes = LetterWorld(tmp_path)
    with pytest.raises(QuorumMissed):
        homes.carry(homes.all_runs(), absent=[CURATOR])
    assert homes.ledgers[CONSUMER].answers == {}


def test_what_has_the_wrong_acceptance_is_as_if_it_had_not_come(tmp_path: Path) -> None:
    """Another run's, another home's in an owner's name, and bytes that are none."""
    homes = LetterWorld(tmp_path)
    consumer = homes.run_at(CONSUMER)
    assert isinstance(consumer, ConsumerRun)
    other = terms_between(homes.agreed.with_changes(run_id="", cards={}), homes.homes, run_id="f" * 32)
    invited = Invitation.sign(other, homes.homes[CONSUMER])
    of_another_run = [Correspondence(homes.homes[name], invited, name).acceptance() for name in ("a", "b", CURATOR)]
    with pytest.raises(QuorumMissed):
        consumer.begin([*of_another_run, b"", b"garbage"])


def _first_letters(homes: LetterWorld) -> dict[str, bytes]:
    consumer = homes.run_at(CONSUMER)
    assert isinstance(consumer, ConsumerRun)
    names = [name for name in homes.homes if name != CONSUMER]
    return {homes.reader(data): data for data in consumer.begin([homes.run_at(name).acceptance() for name in names])}


def _forged(homes: LetterWorld, writer: Identity, owner: str, **changes: Any) -> bytes:
    """A release of somebody's own for an owner, sealed to the owner's true key."""
    message = Message(homes.agreed.run, homes.agreed.digest, CONSUMER, owner, 1, TargetRelease(release=np.zeros(16)))
    kept = homes.letters(owner).identity.book.run_keys(bytes.fromhex(homes.agreed.digest))
    assert kept is not None
    assert kept.secret is not None
    options: dict[str, Any] = {
        "recipient": homes.homes[owner].secret.card,
        "recipient_key": kept.secret.public,
        "run_id": bytes.fromhex(homes.agreed.run_id),
        "terms": bytes.fromhex(homes.agreed.digest),
        "round": 1,
        "number": 0,
        "message": message.data,
        **changes,
    }
    return write_letter(writer.secret, **options).data


def test_an_owner_who_speaks_as_the_consumer_is_not_heard(tmp_path: Path) -> None:
    homes = LetterWorld(tmp_path)
    _first_letters(homes)
    with pytest.raises(LikesetError):
        homes.run_at("a").hear(_forged(homes, homes.homes["b"], "a"))
    assert homes.ledgers["a"].answers == {}


def test_the_curator_cannot_pass_on_a_release_of_its_own(tmp_path: Path) -> None:
    homes = LetterWorld(tmp_path)
    _first_letters(homes)
    with pytest.raises(IllegalMessage, match="not introduced"):
        homes.run_at("a").hear(_forged(homes, homes.homes[CURATOR], "a"))
    assert homes.ledgers["a"].answers == {}


def test_a_card_of_the_same_name_is_another_card(tmp_path: Path) -> None:
    homes = LetterWorld(tmp_path)
    _first_letters(homes)
    impostor = make_identity(tmp_path / "impostor", CONSUMER)
    with pytest.raises(IllegalMessage, match="do not name"):
        homes.run_at("a").hear(_forged(homes, impostor, "a"))


@pytest.mark.parametrize(
    "changes",
    [{"run_id": bytes(16)}, {"terms": bytes(32)}, {"round": 2}, {"number": 7, "round": 0}],
    ids=["run", "terms", "round", "another round"],
)
def test_a_letter_of_another_place_is_refused_although_its_writer_signed_it(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    homes = LetterWorld(tmp_path)
    _first_letters(homes)
    with pytest.raises(IllegalMessage):
        homes.run_at("a").hear(_forged(homes, homes.homes[CONSUMER], "a", **changes))
    assert homes.ledgers["a"].answers == {}


def test_a_letter_for_another_owner_is_refused(tmp_path: Path) -> None:
    homes = LetterWorld(tmp_path)
    first = _first_letters(homes)
    with pytest.raises(LetterRefused):
        homes.run_at("b").hear(first["a"])


def test_other_bytes_under_a_number_are_not_heard(tmp_path: Path) -> None:
    homes = LetterWorld(tmp_path)
    first = _first_letters(homes)
    assert homes.run_at("a").hear(first["a"])
    answers = dict(homes.ledgers["a"].answers)
    forged = _forged(homes, homes.homes[CONSUMER], "a")
    (earlier,) = homes.run_at("a").hear(forged)
    assert earlier == letter_in(first["a"], most_bytes=MOST_BYTES).stub.to_bytes()
    assert homes.ledgers["a"].answers == answers
    assert "two different letters" in homes.refused[0]
    for own in (earlier, first["a"]):  # the consumer remembers the first, and did write it
        with pytest.raises(IllegalMessage, match="came back"):
            homes.run_at(CONSUMER).hear(own)


def test_a_curator_keeps_no_bytes_that_its_key_would_open(tmp_path: Path) -> None:
    """Offers, deliveries and the target go through its memory; what it keeps of them is what third parties check."""
    homes = LetterWorld(tmp_path, terms(protocol="interactive"))
    homes.carry(homes.all_runs())
    book, digest = homes.letters(CURATOR).identity.book, bytes.fromhex(homes.agreed.digest)
    came = [letter for letter in book.letters(digest) if letter.way == IN]
    assert {letter.peer for letter in came} == {CONSUMER, *homes.agreed.owners}
    assert {book.letter_data(digest, letter.peer, IN, letter.number) for letter in came} == {None}
    kept = b"".join(path.read_bytes() for path in (tmp_path / CURATOR).glob("letters.sqlite*"))
    for data in (data for reader, data in homes.told if reader == CURATOR):
        assert bytes(letter_in(data, most_bytes=MOST_BYTES).ciphertext)[2000:2100] not in kept


def test_a_home_put_back_from_an_old_copy_stops_when_it_meets_its_own_letter(tmp_path: Path) -> None:
    homes = LetterWorld(tmp_path)
    first = _first_letters(homes)
    (answer,) = homes.run_at("a").hear(first["a"])
    (tmp_path / "a" / "letters.sqlite").unlink()
    for path in (tmp_path / "a").glob("letters.sqlite-*"):
        path.unlink()
    restored = homes.run_at("a")
    restored.acceptance()
    before = dict(homes.ledgers["a"].answers)
    stub = letter_in(answer, most_bytes=MOST_BYTES).stub.to_bytes()
    with pytest.raises(IllegalMessage):  # of another run, it stops nothing
        restored.hear(stub.replace(bytes.fromhex(homes.agreed.run_id), bytes(16)))
    with pytest.raises(LetterRefused):  # nor does one that somebody else signed
        restored.hear(stub[:-1] + bytes([stub[-1] ^ 1]))
    with pytest.raises(HomeRestored, match="old copy"):
        restored.hear(stub)
    for again in (restored, homes.run_at("a")):
        with pytest.raises(HomeRestored):
            again.hear(first["a"])
        with pytest.raises(HomeRestored):
            again.acceptance()
    assert homes.ledgers["a"].answers == before


def test_a_home_that_accepts_anew_is_shown_what_it_signed_before(tmp_path: Path) -> None:
    homes = LetterWorld(tmp_path)
    first = _first_letters(homes)
    for path in (tmp_path / "a").glob("letters.sqlite*"):
        path.unlink()
    restored, consumer = homes.run_at("a"), homes.run_at(CONSUMER)
    assert isinstance(consumer, ConsumerRun)
    echo, *letters = consumer.begin([restored.acceptance()])
    assert set(letters) == set(first.values())
    assert homes.reader(echo) == "a"
    with pytest.raises(HomeRestored):
        restored.hear(echo)


def test_when_a_run_is_settled_a_stolen_card_opens_nothing_old(tmp_path: Path) -> None:
    """The thief has all that the home has then, its card's secret among it, and all letters that ever travelled."""
    homes = LetterWorld(tmp_path)
    homes.carry(homes.all_runs())
    digest = bytes.fromhex(homes.agreed.digest)
    run_keys = {name: homes.letters(name).identity.book.run_keys(digest) for name in homes.homes}
    cards = {home.fingerprint: home.secret.card for home in homes.homes.values()}
    for name in homes.homes:
        homes.letters(name).settle()
    for reader, data in homes.told:
        letter, thief = letter_in(data, most_bytes=MOST_BYTES), homes.homes[reader].secret
        parties = {"writer": cards[letter.header.sender], "reader": thief.card}
        keys = run_keys[reader]
        assert keys is not None
        assert keys.secret is not None
        assert open_letter(letter, key=keys.secret, **parties).message  # it is the key alone that is missing
        with pytest.raises(LetterRefused, match="not sealed to the key"):
            open_letter(letter, key=thief.sealing, **parties)
    for name in homes.homes:
        keys = run_keys[name]
        assert keys is not None
        assert keys.secret is not None
        assert not any(keys.secret.to_bytes() in path.read_bytes() for path in (tmp_path / name).rglob("*.sqlite*"))
        for path in (tmp_path / name).rglob("letters.sqlite*"):
            content = path.read_bytes()
            assert not any(data[2000:2100] in content for _, data in homes.told), path
        # With the digest of what a letter says a thief could try what it may have said.
        with homes.letters(name).identity.book._store.reading() as connection:
            assert connection.execute("SELECT count(content) FROM letters").fetchone() == (0,)
        with pytest.raises(IllegalMessage, match="settled"):
            homes.run_at(name).hear(next(data for reader, data in homes.told if reader == name))


def test_keys_go_when_the_terms_end(tmp_path: Path) -> None:
    homes = LetterWorld(tmp_path)
    homes.carry(homes.all_runs())
    book = homes.letters("a").identity.book
    assert book.settle_ended() == 0
    ended = Identity.of(tmp_path / "a", clock=lambda: homes.agreed.end)  # type: ignore[arg-type, return-value]
    assert ended.book.settle_ended() == 1
    assert ended.book.settle_ended() == 0
    kept = ended.book.run_keys(bytes.fromhex(homes.agreed.digest))
    assert kept is not None
    assert kept.secret is None


def test_terms_without_an_end_are_not_signed(tmp_path: Path) -> None:
    """Their keys would stay for ever."""
    homes = LetterWorld(tmp_path)
    endless = homes.agreed.with_changes(expires="")
    with pytest.raises(InvalidArgument, match="must end"):
        Invitation.sign(endless, homes.homes[CONSUMER])
    assert homes.homes[CONSUMER].book.run_keys(bytes.fromhex(endless.digest)) is None


def test_nobody_takes_up_the_run_id_of_another_consumer(tmp_path: Path) -> None:
    """Ids are in the terms, which others see: a rival whom the curator knows, too, is there first with the same one."""
    homes = LetterWorld(tmp_path)
    rival = make_identity(tmp_path / "rival", "rival")
    homes.homes[CURATOR].pins.pin(rival.secret.card, "consumer", fingerprint=None)
    cards = {"rival" if name == CONSUMER else name: card for name, card in homes.agreed.cards.items()}
    other = homes.agreed.with_changes(consumer="rival", cards={**cards, "rival": rival.fingerprint})
    assert other.run_id == homes.agreed.run_id
    taken = Correspondence(homes.homes[CURATOR], Invitation.sign(other, rival), CURATOR).acceptance()
    assert homes.carry(homes.all_runs()) is not None
    with pytest.raises(IllegalMessage, match="where letters come"):  # nor does it make a home take itself for a copy
        homes.run_at(CURATOR).hear(taken)


def test_a_card_that_is_revoked_ends_runs_under_way(tmp_path: Path) -> None:
    homes = LetterWorld(tmp_path)
    first = _first_letters(homes)
    homes.homes["a"].pins.revoke(CONSUMER, "stolen")
    with pytest.raises(IllegalMessage, match="revoked"):
        homes.run_at("a").hear(first["a"])
    assert homes.ledgers["a"].answers == {}


@pytest.mark.parametrize(("reader", "writer"), [(CURATOR, "a"), (CONSUMER, CURATOR)])
def test_whoever_is_revoked_is_not_heard_by_those_who_need_no_pin_of_it_either(
    tmp_path: Path, reader: str, writer: str
) -> None:
    homes = LetterWorld(tmp_path)
    homes.carry(homes.all_runs())
    homes.homes[reader].pins.revoke(writer, "stolen")
    names = {home.fingerprint: name for name, home in homes.homes.items()}
    told = [letter_in(data, most_bytes=MOST_BYTES) for name, data in homes.told if name == reader]
    of_writer = next(letter for letter in told if names[letter.header.sender] == writer)
    with pytest.raises(IllegalMessage, match="replaced or revoked"):
        homes.run_at(reader).hear(of_writer.data)


def test_whoever_is_revoked_before_a_run_begins_is_not_in_it(tmp_path: Path) -> None:
    homes = LetterWorld(tmp_path)
    homes.homes[CONSUMER].pins.revoke("b", "stolen")
    assert "b" not in _first_letters(homes)


def test_whoever_is_not_pinned_is_named_with_what_to_do(tmp_path: Path) -> None:
    homes = LetterWorld(tmp_path)
    stranger = make_identity(tmp_path / "stranger", "d")
    (reason, other) = unpinned(homes.agreed, "a", stranger.pins)
    assert homes.homes[CONSUMER].fingerprint in reason
    assert "likeset card pin" in reason
    assert "curator" in other
    assert unpinned(homes.agreed, CONSUMER, stranger.pins) == []


def test_terms_that_another_card_signed_are_refused(tmp_path: Path) -> None:
    homes = LetterWorld(tmp_path)
    forged = sign_terms(homes.agreed.to_json(), homes.homes["b"].secret, homes.homes["b"].secret.sealing.public)
    with pytest.raises(IllegalMessage, match="another card"):
        Invitation.read(forged.to_bytes())


def test_a_letter_says_nothing_by_its_length(tmp_path: Path) -> None:
    """Owners with other rows, and a summary of other rows, give letters of the same lengths."""
    lengths = []
    for place in ("one", "two"):
        homes = LetterWorld(tmp_path / place)
        homes.carry(homes.all_runs())
        lengths.append(sorted((reader, len(data)) for reader, data in homes.told))
    assert lengths[0] == lengths[1]
