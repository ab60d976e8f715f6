"""How split runs end: by nobody's word against the buyer, by no word that depends on rows, and leaving no share."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kill_world import CONSUMER
from split_homes import SplitHomes, split_homes_in

from likeset.errors import PartyFailed
from likeset.homes import compute
from likeset.homes.compute import ComputeFolder, Reach
from likeset.protocol.party import CURATOR
from likeset.protocol.split_run import make_compute_party
from likeset.protocol.terms import WITNESS
from likeset.split.links import RunCertificate
from likeset.transports.desks import ComputingDesk, SplitRuns
from likeset.transports.posts import Ending, EndingWords
from likeset.trust import shares
from likeset.trust.letters import Post, file_name
from likeset.trust.shares import Words, split_words


@pytest.fixture
def homes(tmp_path: Path) -> Iterator[SplitHomes]:
    made = split_homes_in(tmp_path)
    yield made
    made.drop()


def later_certificate() -> bytes:
    """A certificate of a version that there is not: reading it fails otherwise than reading garbage."""
    made = RunCertificate.generate().certificate
    third, tenth = bytes.fromhex("a003020102"), bytes.fromhex("a003020109")
    assert made.count(third) == 1
    return made.replace(third, tenth)


@pytest.mark.parametrize(
    ("reach", "words"),
    [
        (b"nowhere", "does not say where a compute party listens"),
        (Reach("127.0.0.1", 7301, later_certificate()).to_bytes(), "certificate: is none"),
    ],
    ids=["nowhere", "odd certificate"],
)
def test_a_compute_party_that_cannot_be_reached_by_what_it_says_ends_its_run_and_stops_nobody(
    homes: SplitHomes, monkeypatch: pytest.MonkeyPatch, reach: bytes, words: str
) -> None:
    """The consumer looks on, and its other runs with it: this one has ended, with its reason."""

    def lie(terms: Any, role: Any, **more: Any) -> Any:
        return make_compute_party(terms, role, **(more | ({"reach": reach} if role == "curator" else {})))

    monkeypatch.setattr(compute, "make_compute_party", lie)
    homes.settle()
    homes.approve()
    homes.until(homes.over)
    homes.settle()
    assert homes.progress.ended is Ending.NOT_COMPUTED
    assert words in homes.progress.detail


def leave_ending(homes: SplitHomes, writer: str) -> None:
    """A compute party says that the run came to nothing."""
    pair, terms = homes.pair(writer, CONSUMER), bytes.fromhex(homes.run.terms.digest)
    data = pair.wrap(Post("ending", terms, EndingWords(Ending.NOT_COMPUTED, "it failed").to_bytes()))
    homes.store.write(pair.outgoing_folder, file_name(data), data)


@pytest.mark.parametrize("liar", [CURATOR, WITNESS])
def test_nobody_takes_rows_from_the_consumer_that_were_opened_to_it(
    homes: SplitHomes, monkeypatch: pytest.MonkeyPatch, liar: str
) -> None:
    """Its computation has ended, it has not looked at it since, and another party says that there was none."""
    homes.settle()
    homes.approve()
    digest = homes.run.terms.digest

    def is_opened() -> bool:
        desk = homes.desk(CONSUMER)
        assert isinstance(desk, ComputingDesk)
        assert desk.room is not None
        return desk.room.opened(digest) is not None

    with monkeypatch.context() as patched:
        patched.setattr(SplitRuns, "_open", lambda *_: None)
        homes.until(is_opened)
    leave_ending(homes, liar)
    homes.until(homes.over)
    assert homes.progress.ended is Ending.DONE
    assert len(homes.summary.rows) == 6


def test_once_picks_were_opened_only_the_consumer_ends_the_run_there(homes: SplitHomes) -> None:
    """Also where its process is new: what tells is the file on its disk."""
    homes.only_look = set(homes.computing)
    homes.settle()
    homes.approve()
    homes.settle()
    opening = ComputeFolder(homes.folder(CONSUMER), homes.run.terms.digest).opening
    opening.keep_picks(b"picks")
    homes.drop()
    leave_ending(homes, CURATOR)
    homes.settle(CONSUMER)
    assert not homes.over()
    assert opening.picks() == b"picks"


def test_before_that_another_party_that_cannot_compute_ends_it(homes: SplitHomes) -> None:
    homes.only_look = set(homes.computing)
    homes.settle()
    homes.approve()
    homes.settle()
    leave_ending(homes, CURATOR)
    homes.settle(CONSUMER)
    assert homes.progress.ended is Ending.NOT_COMPUTED
    assert homes.progress.detail == "curator says so: it failed", "nobody speaks in another one's name"


def heard_of(homes: SplitHomes, party: str) -> list[tuple[str, int, str]]:
    """What the consumer left for a party: kinds, lengths and words that are not in letters."""
    posts = homes.lying(CONSUMER, party).values()
    return sorted(
        (post.kind, len(post.document), "" if post.kind == "letter" else repr(post.document)) for post in posts
    )


def test_curator_and_witness_hear_the_same_whether_any_row_that_was_picked_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Owners who lie about all rows would else be told, through a curator, whether all picks fell on them."""
    told = []
    for lie in (False, True):
        homes = split_homes_in(tmp_path / str(lie))
        with monkeypatch.context() as patched:
            if lie:
                patched.setattr(shares, "split_words", _of_other_rows)
            homes.hold()
        assert homes.progress.ended is (Ending.NOT_COMPUTED if lie else Ending.DONE)
        assert ("none of the rows that were picked" in homes.progress.detail) == lie
        ended = [[run.ended for run in homes.desk(party).memory.runs()] for party in (CURATOR, WITNESS)]
        told.append((ended, [heard_of(homes, party) for party in (CURATOR, WITNESS)]))
        homes.drop()
    assert told[0] == told[1]


def _of_other_rows(words: Words) -> tuple[Words, ...]:
    return split_words(words + np.eye(1, words.shape[1], dtype=np.uint64))


@pytest.mark.parametrize("party", [CURATOR, WITNESS])
def test_a_look_that_ends_a_run_leaves_its_files_to_the_process_that_computes(homes: SplitHomes, party: str) -> None:
    """That process may open picks in this moment, and the record of it must not be removed."""
    homes.only_look = set(homes.computing)
    homes.settle()
    homes.approve()
    homes.settle()
    kept = ComputeFolder(homes.folder(party), homes.run.terms.digest)
    homes.run.cancel()
    with kept.alone():
        before = {path.name for path in kept.folder.iterdir()}
        homes.settle()
        assert {path.name for path in kept.folder.iterdir()} == before
        kept.opening.keep_share(b"share")
    homes.settle()
    assert [path.name for path in kept.folder.iterdir()] == [kept.opening.record.name]


@pytest.mark.parametrize("party", [CURATOR, WITNESS, CONSUMER])
def test_shares_of_picks_go_with_the_terms_also_where_a_home_only_looks(homes: SplitHomes, party: str) -> None:
    homes.only_look = set(homes.computing)
    homes.settle()
    homes.approve()
    homes.settle()
    kept = ComputeFolder(homes.folder(party), homes.run.terms.digest)
    kept.opening.keep_share(b"share")
    homes.drop()
    homes.clock.now = datetime(2029, 4, 4, tzinfo=UTC)
    homes.settle(party)
    assert not kept.exists


@pytest.mark.parametrize("party", [CURATOR, WITNESS])
def test_that_rows_were_opened_is_known_until_the_terms_end_also_where_the_consumer_says_otherwise(
    homes: SplitHomes, party: str
) -> None:
    """A consumer that has its rows cancels, and brings the run back by another mailbox: nothing is computed there."""
    homes.only_look = set(homes.computing)
    homes.settle()
    homes.approve()
    homes.settle()
    kept = ComputeFolder(homes.folder(party), homes.run.terms.digest)
    kept.opening.keep_share(b"share")
    homes.run.cancel()
    homes.drop(CONSUMER)
    homes.settle()
    assert [run.ended for run in homes.desk(party).memory.runs()] == [Ending.CANCELLED.value]
    assert list(kept.folder.rglob("*")) == [kept.opening.record]
    assert kept.opening.record.read_bytes() == b""
    with pytest.raises(PartyFailed, match="opened already"):
        kept.opening.share()
    with pytest.raises(PartyFailed, match="opened already"):
        kept.opening.keep_share(b"another share")
    homes.clock.now = datetime(2029, 4, 4, tzinfo=UTC)
    homes.settle()
    assert not kept.exists
