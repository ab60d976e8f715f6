"""Compute parties of a split run that come back as they were, or otherwise: nothing is opened twice."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from kill_world import CONSUMER
from split_homes import SplitHomes, split_homes_in

from likeset.errors import HomeRestored, LikesetError
from likeset.homes.compute import ComputeFolder
from likeset.protocol.party import CURATOR
from likeset.protocol.split_run import ComputeInputs, ComputeParty
from likeset.protocol.terms import WITNESS
from likeset.split.host import Opening
from likeset.transports.desks import SplitRuns
from likeset.transports.posts import Ending


@pytest.fixture
def homes(tmp_path: Path) -> Iterator[SplitHomes]:
    made = split_homes_in(tmp_path)
    yield made
    made.drop()


def copied(homes: SplitHomes, party: str) -> Path:
    """The party's home as it is now, put aside."""
    homes.drop(party)
    old = homes.place / f"old-{party}"
    shutil.copytree(homes.folder(party), old)
    return old


def put_back(homes: SplitHomes, party: str, old: Path) -> None:
    homes.drop(party)
    shutil.rmtree(homes.folder(party))
    old.rename(homes.folder(party))


def until_ready(homes: SplitHomes) -> None:
    """All signed one roster, and nobody computes yet."""
    homes.only_look = set(homes.computing)
    homes.settle()
    homes.approve()
    homes.settle()
    assert homes.meeting.opened == {}
    homes.drop()
    homes.only_look = set()


@pytest.mark.parametrize("party", [CURATOR, WITNESS])
def test_a_home_from_before_it_accepted_stops_and_says_so(homes: SplitHomes, party: str) -> None:
    """It signs to take part a second time, with another key, and is shown what it signed before."""
    homes.look(CONSUMER)
    old = copied(homes, party)
    homes.hold()
    assert homes.progress.ended is Ending.DONE
    bought = homes.run.summary_path.read_bytes()
    put_back(homes, party, old)
    with pytest.raises(HomeRestored, match="old copy"):
        homes.settle(party, CONSUMER)
    with pytest.raises(HomeRestored):
        homes.look(party)
    assert list(homes.meeting.opened.values()) == [1]
    assert homes.run.summary_path.read_bytes() == bought


@pytest.mark.parametrize("party", [CURATOR, WITNESS])
def test_a_home_from_before_rows_were_opened_opens_nothing_again(homes: SplitHomes, party: str) -> None:
    """The consumer's last word still lies there: the old copy hears that it is over before it computes anything."""
    until_ready(homes)
    old = copied(homes, party)
    homes.until(homes.over)
    homes.settle()
    put_back(homes, party, old)
    homes.settle()
    assert [run.ended for run in homes.desk(party).memory.runs()] == [Ending.DONE.value]
    assert list(homes.meeting.opened.values()) == [1]


def test_a_consumer_from_before_it_began_is_refused_by_everybody(homes: SplitHomes) -> None:
    """It would draw other shares of its target, and a second release: others keep the first, and show it to it."""
    homes.settle()
    homes.approve()
    homes.look(*homes.owners)
    old = copied(homes, CONSUMER)
    homes.until(homes.over)
    homes.settle()
    opened = dict(homes.meeting.opened)
    put_back(homes, CONSUMER, old)
    with pytest.raises(HomeRestored, match="old copy"):
        homes.settle()
    assert homes.meeting.opened == opened
    assert not homes.run.summary_path.exists()


def test_a_consumer_that_stops_and_comes_back_with_another_target_gets_nothing(homes: SplitHomes) -> None:
    """Its own home refuses to go on; with the target that it began with it does, and rows are opened once."""
    until_ready(homes)
    path = homes.run.folder / "target.npy"
    first = path.read_bytes()
    np.save(path, np.load(path) + np.float32(0.25))
    said = ""
    try:
        for _ in range(4):
            said += "\n".join(homes.look().notes)
    except LikesetError as error:
        said += str(error)
    assert "another one than this run began with" in said
    assert homes.meeting.opened == {}
    assert not homes.run.summary_path.exists()
    homes.drop()
    path.write_bytes(first)
    homes.until(homes.over)
    assert homes.progress.ended is Ending.DONE
    assert list(homes.meeting.opened.values()) == [1]


def opening_of(homes: SplitHomes, party: str) -> Opening:
    return ComputeFolder(homes.folder(party), homes.run.terms.digest).opening


def until_sent(homes: SplitHomes, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Picks were opened to the consumer, and its process ends before it looks at them; returns them."""
    homes.settle()
    homes.approve()
    with monkeypatch.context() as patched:
        patched.setattr(SplitRuns, "_open", lambda *_: None)
        homes.until(lambda: opening_of(homes, CONSUMER).picks() is not None)
        homes.drop()
    return opening_of(homes, CONSUMER).picks() or b""


def forget(homes: SplitHomes, *parties: str) -> None:
    """Nothing of the opening is left in the files of some parties."""
    for party in parties:
        for path in ComputeFolder(homes.folder(party), homes.run.terms.digest).folder.glob("open*"):
            path.unlink()


def asked_again(homes: SplitHomes, monkeypatch: pytest.MonkeyPatch) -> tuple[bytes, set[str]]:
    """What is opened to a consumer that has nothing, and what was noted meanwhile."""
    said = set[str]()
    with monkeypatch.context() as patched:
        patched.setattr(SplitRuns, "_open", lambda *_: None)
        while opening_of(homes, CONSUMER).picks() is None:
            said |= set(homes.look().notes)
        said |= set(homes.look().notes)
    return opening_of(homes, CONSUMER).picks() or b"", said


def test_a_consumer_that_edits_its_state_and_asks_again_gets_what_was_opened_before(
    homes: SplitHomes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It denies that anything was opened, and puts in another share of the target, which would select other rows."""
    picks = until_sent(homes, monkeypatch)
    shares = [opening_of(homes, party).share() for party in (CURATOR, WITNESS)]
    forget(homes, CONSUMER)
    honest = ComputeParty.inputs

    def edited(party: ComputeParty) -> ComputeInputs:
        inputs = honest(party)
        return replace(inputs, target_words=-inputs.target_words) if party.role == "consumer" else inputs

    monkeypatch.setattr(ComputeParty, "inputs", edited)
    again, said = asked_again(homes, monkeypatch)
    assert again == picks
    assert [opening_of(homes, party).share() for party in (CURATOR, WITNESS)] == shares
    assert "run run-1: what was opened was asked for again, and sent as before (request 1)" in said
    homes.until(homes.over)
    assert homes.progress.ended is Ending.DONE
    assert list(homes.meeting.opened.values()) == [1]


@pytest.mark.parametrize("party", [CURATOR, WITNESS])
def test_one_party_that_died_before_it_kept_its_share_ends_nothing(
    homes: SplitHomes, monkeypatch: pytest.MonkeyPatch, party: str
) -> None:
    """The shares of any two are enough."""
    picks = until_sent(homes, monkeypatch)
    forget(homes, party)
    opening_of(homes, CONSUMER).record.with_name("opened.frame").unlink()
    assert asked_again(homes, monkeypatch)[0] == picks
    homes.until(homes.over)
    assert homes.progress.ended is Ending.DONE
    assert list(homes.meeting.opened.values()) == [1]


@pytest.mark.parametrize("party", [CURATOR, WITNESS])
def test_a_record_of_an_opening_without_its_share_ends_the_run(
    homes: SplitHomes, monkeypatch: pytest.MonkeyPatch, party: str
) -> None:
    until_sent(homes, monkeypatch)
    opening_of(homes, CONSUMER).record.with_name("opened.frame").unlink()
    opening_of(homes, party).forget_share()
    homes.until(homes.over)
    assert homes.progress.ended is Ending.NOT_COMPUTED
    assert "no longer has its share" in homes.progress.detail
    assert list(homes.meeting.opened.values()) == [1]
    assert not homes.run.summary_path.exists()


def test_a_share_that_one_party_alone_has_kept_ends_the_run(homes: SplitHomes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is computed again for those who say that they know of no opening."""
    until_sent(homes, monkeypatch)
    forget(homes, CONSUMER, WITNESS)
    homes.until(homes.over)
    assert homes.progress.ended is Ending.NOT_COMPUTED
    assert list(homes.meeting.opened.values()) == [1]
    assert not homes.run.summary_path.exists()
