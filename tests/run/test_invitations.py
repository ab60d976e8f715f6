"""What a consumer signs: by its own card, naming cards that are pinned; and what it says where it cannot."""

from pathlib import Path
from typing import Any

import pytest
from pinned_homes import introduce, pin
from remote_world import CONSUMER, hold, make_world, write_job

from likeset.app.report import render
from likeset.errors import BadDocument, InvalidArgument, LikesetError
from likeset.homes.consumer_home import ConsumerHome, KeptRun, consumer_run, make_consumer_home
from likeset.homes.curator_home import make_curator_home
from likeset.homes.mail import OUT, Invitation
from likeset.homes.pinning import make_own_card
from likeset.ledger.ledger import Ledger
from likeset.run.job import Job
from likeset.run.runs import collect, conclude, invite
from likeset.trust.cards import CardSecret
from likeset.trust.letters import letter_in, open_letter


@pytest.fixture
def home(tmp_path: Path) -> ConsumerHome:
    return make_world(tmp_path)


def invited(home: ConsumerHome, **changes: Any) -> KeptRun:
    return invite(home, Job.load(write_job(home.folder.parent, **changes)), expires="2099-01-01")


def _refuses(home: ConsumerHome, error: type[LikesetError], words: str, **changes: Any) -> None:
    """In one line, before anything is spent or written."""
    before = sorted(home.folder.rglob("*"))
    with pytest.raises(error, match=words) as told:
        invited(home, **changes)
    assert "\n" not in str(told.value)
    with Ledger(home.ledger) as ledger:
        assert not [entry for entry in ledger.entries() if entry.kind == "reserve"]
    assert home.runs() == []
    assert not (home.folder / "runs").exists()
    assert [path for path in sorted(home.folder.rglob("*")) if path not in before] == []


def test_the_terms_name_all_parties_by_the_cards_that_are_pinned(home: ConsumerHome, tmp_path: Path) -> None:
    run = invited(home)
    cards = {"new-clinic": "home", "curator": "curator", "a": "node-a", "b": "node-b"}
    assert run.terms.cards == {
        name: CardSecret.load(tmp_path / folder).card.fingerprint for name, folder in cards.items()
    }
    read = Invitation.read(run.invitation_path.read_bytes())
    assert read.signed.card == home.card()
    assert read.terms == run.terms
    assert len(bytes.fromhex(run.terms.run_id)) == 16
    assert invited(home, run="run-2", epsilon=0.0, offers="uniform").terms.run_id != run.terms.run_id


@pytest.mark.parametrize(
    ("owners", "words"),
    [
        (("a", "c"), r"owners.*c.*no card of that name is pinned here.*likeset card pin FILE --as owner"),
        (("a", "B"), "did you mean b"),
        (("a", "curator-2"), "is pinned here as that of the curator, not of the owner"),
    ],
)
def test_an_owner_whose_card_is_not_pinned_is_named(
    home: ConsumerHome, tmp_path: Path, owners: tuple[str, ...], words: str
) -> None:
    make_curator_home(tmp_path / "curator-2", name="curator-2")
    pin(home.folder, tmp_path / "curator-2", "curator")
    _refuses(home, InvalidArgument, words, owners={name: f"network:{name}" for name in owners}, curator_card="curator")


def test_a_revoked_card_is_not_named(home: ConsumerHome) -> None:
    home.pins().revoke("b", "keys stolen")
    _refuses(home, InvalidArgument, "no card of that name is pinned here")


def test_among_several_curators_the_job_names_one(home: ConsumerHome, tmp_path: Path) -> None:
    other = make_curator_home(tmp_path / "curator-2", name="curator-2")
    pin(home.folder, other.folder, "curator")
    _refuses(home, InvalidArgument, r"name one of them in the job \(curator_card:\): curator, curator-2")
    _refuses(home, InvalidArgument, "did you mean curator-2", curator_card="curator-3")
    _refuses(home, InvalidArgument, "as that of the owner, not of the curator", curator_card="a")
    assert invited(home, curator_card="curator-2").terms.cards["curator"] == other.card().fingerprint


def test_where_an_old_card_of_the_curator_was_put_back_nobody_chooses_between_two(
    home: ConsumerHome, tmp_path: Path
) -> None:
    pins, old = home.pins(), CardSecret.load(tmp_path / "curator").card
    kept = next(path for path in pins.folder.iterdir() if old.fingerprint in path.name)
    before = kept.read_bytes()
    pins.replace(make_curator_home(tmp_path / "moved").card())
    kept.write_bytes(before)
    _refuses(home, InvalidArgument, "several curators' cards are pinned here")
    named = pins.get("curator")
    assert named is not None
    assert invited(home, curator_card="curator").terms.cards["curator"] == named.card.fingerprint


def test_without_a_curator_nobody_is_invited(home: ConsumerHome) -> None:
    home.pins().revoke("curator", "it closed")
    _refuses(home, InvalidArgument, "no curator's card is pinned here.*likeset card pin FILE --as curator")


def test_a_home_without_keys_says_so(home: ConsumerHome) -> None:
    (home.folder / "card.secret").unlink()
    _refuses(home, BadDocument, r"card\.secret.*there are no keys in this home.*likeset card make")


def test_keys_that_others_can_read_are_not_used(home: ConsumerHome) -> None:
    (home.folder / "card.secret").chmod(0o644)
    _refuses(home, BadDocument, r"card\.secret.*can read it.*chmod 600")


def test_a_card_of_another_name_than_the_consumers_is_not_used(home: ConsumerHome) -> None:
    make_own_card(home, by="Ada", name="other", new=True)
    _refuses(home, InvalidArgument, "is not the name on this home's card, which is other")


def test_a_new_card_ends_runs_under_the_old_one(home: ConsumerHome) -> None:
    run = invited(home)
    make_own_card(home, by="Ada", new=True)
    with pytest.raises(InvalidArgument, match="signed with another card than this home has now"):
        invited(home)
    with pytest.raises(LikesetError, match="another card"):
        consumer_run(run.invitation, CONSUMER, home.folder)


def test_an_invitation_that_was_changed_is_not_read(home: ConsumerHome) -> None:
    run = invited(home)
    data = bytearray(run.invitation_path.read_bytes())
    data[data.index(b"Research")] ^= 1
    run.invitation_path.write_bytes(bytes(data))
    with pytest.raises(BadDocument, match="changed since"):
        home.known("run-1")
    with pytest.raises(BadDocument, match="changed since"):
        invited(home)


def test_when_the_result_is_there_nobody_can_open_the_letters_of_the_run(home: ConsumerHome, tmp_path: Path) -> None:
    """Also who has copied all letters on their way, and steals the home afterwards."""
    run = invited(home)
    hold(tmp_path)
    digest = bytes.fromhex(run.terms.digest)
    curators = CardSecret.load(tmp_path / "curator").card
    with home.identity.book as book:
        keys = book.run_keys(digest)
    sent = _letters_to_consumer(tmp_path, run)
    assert sent
    assert keys is not None
    assert keys.secret is not None
    for data in sent:
        letter = letter_in(data, most_bytes=1 << 28)
        assert open_letter(letter, writer=curators, reader=home.card(), key=keys.secret).message
    conclude(home, run, collect(run), render=render)
    stolen = home.identity
    with stolen.book as book:
        settled = book.run_keys(digest)
        assert settled is not None
        assert settled.secret is None
    for data in sent:
        letter = letter_in(data, most_bytes=1 << 28)
        with pytest.raises(LikesetError):
            open_letter(letter, writer=curators, reader=stolen.secret.card, key=stolen.secret.sealing)
    assert not any(keys.secret.to_bytes() in path.read_bytes() for path in home.folder.rglob("*") if path.is_file())


def _letters_to_consumer(place: Path, run: KeptRun) -> list[bytes]:
    from likeset.homes.mail import Identity

    with Identity.of(place / "curator").book as book:
        digest = bytes.fromhex(run.terms.digest)
        numbers = [kept.number for kept in book.letters(digest, CONSUMER) if kept.way == OUT]
        to_consumer = [
            data
            for data in book.sent(digest)
            if letter_in(data, most_bytes=1 << 28).header.recipient == run.terms.cards[CONSUMER]
        ]
    assert len(numbers) == len(to_consumer)
    return to_consumer


def test_a_new_home_has_a_card_and_knows_nobody(tmp_path: Path) -> None:
    made = make_consumer_home(tmp_path / "clinic", name="clinic")
    assert made.identity.secret.card == made.card()
    assert made.pins().all() == ()
    with pytest.raises(LikesetError):
        introduce([], curator=tmp_path / "nobody", consumer=made.folder)
