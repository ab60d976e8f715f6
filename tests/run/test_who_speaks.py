"""A consumer takes rows from its curator alone, and a curator curates for consumers whom its people know."""

import dataclasses
import secrets
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pinned_homes import pin
from remote_world import CONSUMER, hold, make_world, write_job

from likeset.errors import LikesetError, NotCurated
from likeset.homes.consumer_home import ConsumerHome, KeptRun, consumer_run, make_consumer_home
from likeset.homes.curator_home import CuratorHome, curator_run, make_curator_home
from likeset.homes.mail import Invitation
from likeset.protocol.party import CURATOR
from likeset.protocol.wire import Message, Summary, decode
from likeset.run.job import Job
from likeset.run.runs import invite
from likeset.trust.cards import CardSecret
from likeset.trust.letters import write_letter


@pytest.fixture
def home(tmp_path: Path) -> ConsumerHome:
    return make_world(tmp_path)


def invited(home: ConsumerHome, **changes: Any) -> KeptRun:
    return invite(home, Job.load(write_job(home.folder.parent, **changes)), expires="2099-01-01")


def _invented(run: KeptRun) -> Summary:
    """Rows of somebody's own, of the right shape."""
    body = decode(run.summary_path.read_bytes()).body
    assert isinstance(body, Summary)
    return dataclasses.replace(body, weights=np.roll(body.weights, 1), handles=body.handles + 1)


def _letter(run: KeptRun, secret: CardSecret, body: Summary, *, sender: str, number: int = 7) -> bytes:
    """A letter to the consumer, sealed to its true key for the run, which everybody knows."""
    message = Message(run.terms.run, run.terms.digest, sender, CONSUMER, 0, body)
    signed = run.invitation.signed
    written = write_letter(
        secret,
        recipient=signed.card,
        recipient_key=signed.run_key,
        run_id=bytes.fromhex(run.terms.run_id),
        terms=bytes.fromhex(run.terms.digest),
        round=0,
        number=number,
        message=message.data,
    )
    return written.data


@pytest.mark.parametrize("forger", ["an owner", "an owner as the curator", "the server", "the server's own curator"])
def test_nobody_but_the_curator_hands_rows_to_the_consumer(home: ConsumerHome, tmp_path: Path, forger: str) -> None:
    """Before the true summary has come, and after it."""
    run = invited(home)
    hold(home.folder.parent)
    true, invented = run.summary_path.read_bytes(), _invented(run)
    run.summary_path.unlink()
    secret, sender = {
        "an owner": (CardSecret.load(tmp_path / "node-a"), "a"),
        "an owner as the curator": (CardSecret.load(tmp_path / "node-a"), CURATOR),
        "the server": (CardSecret.generate("server"), CURATOR),
        "the server's own curator": (CardSecret.generate(CURATOR), CURATOR),
    }[forger]
    mine = consumer_run(run.invitation, CONSUMER, home.folder)
    for number in (0, 1, 7):
        with pytest.raises(LikesetError):
            mine.hear(_letter(run, secret, invented, sender=sender, number=number))
    assert not run.summary_path.exists()
    run.summary_path.write_bytes(true)
    with pytest.raises(LikesetError):
        mine.hear(_letter(run, secret, invented, sender=sender))
    assert run.summary_path.read_bytes() == true


def test_the_same_letter_of_the_curator_is_taken(home: ConsumerHome, tmp_path: Path) -> None:
    """What was refused above was refused for its writer."""
    run = invited(home)
    hold(home.folder.parent)
    invented = _invented(run)
    run.summary_path.unlink()
    mine = consumer_run(run.invitation, CONSUMER, home.folder)
    mine.hear(_letter(run, CardSecret.load(tmp_path / "curator"), invented, sender=CURATOR))
    assert np.array_equal(run.summary().handles, invented.handles)


def _on_disk(home: CuratorHome) -> dict[str, int]:
    return {str(path): path.stat().st_size if path.is_file() else 0 for path in home.folder.rglob("*")}


def test_a_curator_does_not_curate_for_strangers_and_keeps_nothing_of_them(tmp_path: Path) -> None:
    make_world(tmp_path)
    stranger = make_consumer_home(tmp_path / "stranger", name="stranger")
    for node in ("node-a", "node-b"):
        pin(stranger.folder, tmp_path / node, "owner")
    pin(stranger.folder, tmp_path / "curator", "curator")
    run = invited(stranger, consumer="stranger")
    place = CuratorHome(tmp_path / "curator")
    before = _on_disk(place)
    with pytest.raises(NotCurated, match="has not pinned the card of this consumer") as told:
        curator_run(run.invitation, CURATOR, place.folder)
    assert "stranger" not in str(told.value)
    assert run.terms.run not in str(told.value)
    assert _on_disk(place) == before
    pin(place.folder, stranger.folder, "consumer")
    assert curator_run(run.invitation, CURATOR, place.folder).acceptance()
    place.pins().revoke("stranger", "keys stolen")
    with pytest.raises(NotCurated, match="has not pinned the card of this consumer"):
        curator_run(run.invitation, CURATOR, place.folder)


def test_a_curator_does_not_curate_under_another_ones_card(home: ConsumerHome, tmp_path: Path) -> None:
    other = make_curator_home(tmp_path / "other", name="other")
    pin(other.folder, home.folder, "consumer")
    with pytest.raises(NotCurated, match="the terms name another card than the curator's"):
        curator_run(invited(home).invitation, CURATOR, other.folder)


def test_a_curator_whose_keys_others_can_read_curates_nothing(home: ConsumerHome, tmp_path: Path) -> None:
    run = invited(home)
    (tmp_path / "curator" / "card.secret").chmod(0o640)
    with pytest.raises(LikesetError, match="can read it"):
        curator_run(run.invitation, CURATOR, tmp_path / "curator")
    (tmp_path / "curator" / "card.secret").unlink()
    with pytest.raises(LikesetError, match="there are no keys in this home"):
        curator_run(run.invitation, CURATOR, tmp_path / "curator")


def test_terms_of_the_same_consumer_that_it_did_not_keep_release_nothing(home: ConsumerHome) -> None:
    """Its card signed them, elsewhere: the site answers only in runs that lie in its own directory."""
    run = invited(home)
    again = Invitation.sign(dataclasses.replace(run.terms, run_id=secrets.token_hex(16)), home.identity)
    with pytest.raises(LikesetError, match="signed other terms"):
        consumer_run(again, CONSUMER, home.folder)
