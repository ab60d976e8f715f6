"""Peers and keepers of a mailbox who mean harm: nobody else's run is held up, and nothing is said that must not be."""

import math
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from kill_world import CONSUMER
from mail_homes import MailHomes, MemoryStore, copy_of, homes_in
from test_mail_meddling import begun, leave
from test_mail_runs import check_done, receipts_written

from likeset.errors import MailboxTrouble, PostTrouble
from likeset.homes.curator_home import curator_run
from likeset.homes.mail import CuratorShell, end_of
from likeset.protocol.party import CURATOR
from likeset.protocol.sealed import SealedCurator
from likeset.run.runs import collect
from likeset.transports.posts import Ending
from likeset.transports.stores import Listing, StoredFile, time_of
from likeset.trust.letters import POST_STEP, file_name


@dataclass
class SpoiltStore(MemoryStore):
    """A mailbox in which somebody spoilt one folder.

    Attributes:
        spoilt: the folder.
        call: what cannot be done there.
    """

    spoilt: str = ""
    call: str = ""

    def list(self, folder: str) -> Listing:
        self._try("list", folder)
        return super().list(folder)

    def write(self, folder: str, name: str, data: bytes) -> None:
        self._try("write", folder)
        super().write(folder, name, data)

    def remove(self, folder: str, name: str) -> None:
        self._try("remove", folder)
        super().remove(folder, name)

    def _try(self, call: str, folder: str) -> None:
        if (call, folder) == (self.call, self.spoilt):
            raise PostTrouble(self.address, "no permission for one of its folders")


def spoilt(homes: MailHomes, writer: str, reader: str, call: str) -> None:
    """Both of a pair know its folders, and either can make one first that the other cannot use."""
    folder = homes.pair(writer, reader).outgoing_folder
    homes.store = SpoiltStore(homes.clock, homes.store.files, spoilt=folder, call=call)


@pytest.mark.parametrize("call", ["list", "write", "remove"])
@pytest.mark.parametrize("pair", [("b", CONSUMER), (CONSUMER, "b"), ("b", CURATOR), (CURATOR, "b")])
def test_who_spoils_a_folder_of_its_own_holds_nobody_else_up(tmp_path: Path, call: str, pair: tuple[str, str]) -> None:
    homes = homes_in(tmp_path)
    spoilt(homes, *pair, call)
    notes = list(homes.look().notes)
    homes.approve("a")
    for _ in range(4):  # with b's time to decide, and the curator's patience
        homes.clock.pass_by(days=4)
        notes += homes.settle().notes
    assert homes.progress.done
    assert list(homes.summary.absent) == [1]
    assert any("no permission" in note for note in notes) or call != "list"


def test_what_could_not_be_left_is_left_when_it_can_be(tmp_path: Path) -> None:
    """The release for b, while all the others go out."""
    homes = homes_in(tmp_path)
    homes.look()
    homes.approve()
    homes.look("a", "b")
    spoilt(homes, CONSUMER, "b", "write")
    homes.drop(CONSUMER)
    look = homes.look(CONSUMER)
    assert f"nothing can be left for b: {PostTrouble('memory', 'no permission for one of its folders')}" in look.notes
    assert homes.lying(CONSUMER, "a")
    homes.store.call = ""  # type: ignore[attr-defined]
    homes.settle()
    check_done(homes)


def test_a_curator_that_meets_a_full_mailbox_accepts_when_there_is_room(tmp_path: Path) -> None:
    homes = homes_in(tmp_path)
    homes.look(CONSUMER)

    def full() -> None:
        raise MailboxTrouble("memory", "is full")

    homes.store.before = full
    for _ in range(2):
        with pytest.raises(MailboxTrouble):
            homes.look(CURATOR)
        homes.drop(CURATOR)
    homes.store.before = lambda: None
    homes.look("a", "b")
    homes.approve()
    homes.settle()
    check_done(homes)


@pytest.mark.parametrize("reader", [CURATOR, CONSUMER])
def test_a_failure_that_nobody_foresaw_ends_the_turn_of_one_sender_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: str
) -> None:
    homes = begun(tmp_path)
    folder, listed = homes.pair("b", reader).outgoing_folder, homes.store.list

    def fails(asked: str) -> Listing:
        if asked == folder:
            raise KeyError("no library documents this")
        return listed(asked)

    monkeypatch.setattr(homes.store, "list", fails)
    notes = list(homes.settle(CURATOR, "a", CONSUMER).notes)
    homes.clock.pass_by(days=4)
    notes += homes.settle(CURATOR, "a", CONSUMER).notes
    assert homes.progress.done
    assert list(homes.summary.absent) == [1]
    assert any("KeyError" in note for note in notes)
    assert not any("no library" in note for note in notes)


# Files that cost their writer nothing.


@pytest.mark.parametrize("size", [POST_STEP * 256 + 16, (1 << 28) + 16])
def test_a_look_reads_no_more_bytes_of_a_sender_than_its_terms_allow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Forty files with holes take no room on a disk; they are touched again before each look."""
    homes = begun(tmp_path)
    folder, listed, read = homes.pair("b", CURATOR).outgoing_folder, homes.store.list, homes.store.read
    calls, taken = list[tuple[str, str]](), 0

    def with_junk(asked: str) -> Listing:
        calls.append(("list", asked))
        junk = [StoredFile(f"{number:064x}", size, homes.clock()) for number in range(40)]
        return listed(asked) + (junk if asked == folder else [])

    def counted(asked: str, name: str, *, most_bytes: int) -> bytes:
        nonlocal taken
        if asked != folder or not name.startswith("0" * 32):
            return read(asked, name, most_bytes=most_bytes)
        assert size <= most_bytes
        taken += size
        return b"no post"

    monkeypatch.setattr(homes.store, "list", with_junk)
    monkeypatch.setattr(homes.store, "read", counted)
    for _ in range(3):
        taken = 0
        calls.clear()
        homes.clock.pass_by(minutes=1)
        homes.look(CURATOR)
        assert taken <= 16 << 20
    incoming = [homes.pair(party, CURATOR).outgoing_folder for party in ("a", "b")]
    order = [asked for _, asked in calls if asked in incoming]
    assert size > 1 << 27 or order == incoming  # who leaves such files comes last
    homes.look("a")
    homes.clock.pass_by(days=4)
    homes.settle(CURATOR, "a", CONSUMER)
    assert homes.progress.done


# What owners see of the end of an auction.


def auctioned(tmp_path: Path) -> MailHomes:
    """A run with an auction that has ended, of which owners were not told."""
    homes = homes_in(tmp_path, auction="threshold", auction_epsilon=30.0)
    homes.look()
    homes.approve()
    homes.settle()
    assert homes.progress.ended is not None
    return homes


def test_no_file_between_consumer_and_owner_goes_when_an_auction_ends(tmp_path: Path) -> None:
    """The time would tell an owner who heard a no whether anybody heard a yes."""
    homes = auctioned(tmp_path)
    before = {owner: homes.lying(CONSUMER, owner) for owner in homes.owners}
    assert all(before.values())
    homes.drop()
    homes.settle()
    assert {owner: homes.lying(CONSUMER, owner) for owner in homes.owners} == before
    homes.clock.pass_by(days=30)
    homes.look(CONSUMER)
    assert not homes.lying(CONSUMER, "a")


def test_receipts_of_an_auction_come_before_the_keys_go(tmp_path: Path) -> None:
    """However long the curator would wait otherwise."""
    homes = homes_in(tmp_path, auction="threshold", auction_epsilon=30.0)
    homes.options = {"after_auction": timedelta(days=60)}
    homes.look()
    homes.approve()
    homes.settle()
    assert receipts_written(homes) == []
    homes.clock.now = end_of(homes.run.terms) - timedelta(hours=23)
    homes.settle(CURATOR, *homes.owners)
    assert receipts_written(homes) == ["a", "b"]


# Owners who take their letters away.


def test_a_letter_that_was_refused_is_not_needed_again(tmp_path: Path) -> None:
    """Its writer removes it, and the curator begins anew: nobody but the writer loses its part."""
    homes = begun(tmp_path)
    homes.look(CURATOR)
    name = leave(homes, "b", CURATOR, "letter", b"no letter")
    assert homes.look(CURATOR).refused == 1
    del homes.folder_between("b", CURATOR)[name]
    homes.drop(CURATOR)
    homes.settle(CURATOR, "a", CONSUMER)
    assert homes.progress.done
    assert list(homes.summary.absent) == [1]


def test_a_run_that_waits_for_a_letter_that_was_taken_away_ends_in_time_for_receipts(tmp_path: Path) -> None:
    homes = begun(tmp_path)
    homes.look(CURATOR, "a", CURATOR)
    homes.folder_between("a", CURATOR).clear()
    homes.drop(CURATOR)
    homes.look("b", CURATOR)
    homes.clock.now = end_of(homes.run.terms) - timedelta(hours=25)
    homes.look(CURATOR, CONSUMER)
    assert homes.progress.detail == ""
    homes.clock.pass_by(hours=2)
    homes.look(CURATOR, CONSUMER)
    assert homes.progress.ended is Ending.FAILED
    assert homes.progress.detail == "a letter was removed from the mailbox and not put back"
    assert receipts_written(homes) == ["a", "b"]


# Long after a run.


def test_runs_that_are_long_over_cause_nothing(tmp_path: Path) -> None:
    """Also if somebody brings all its files back, or their writers never came to remove them."""
    homes = homes_in(tmp_path)
    homes.look()
    homes.approve()
    homes.look("a", "b", CONSUMER, "a")
    everything = {folder: dict(files) for folder, files in homes.store.files.items()}
    homes.clock.pass_by(days=46)
    homes.settle()
    for folder, files in everything.items():
        homes.store.files[folder] |= files
    homes.settle()
    refused = homes.refusals("a")
    assert not homes.look().something_happened
    assert homes.refusals("a") == refused


def test_terms_that_nobody_answered_are_not_left_again_when_they_are_long_over(tmp_path: Path) -> None:
    homes = homes_in(tmp_path)
    homes.look(CONSUMER)
    homes.clock.pass_by(days=46)
    homes.look(CONSUMER)
    assert homes.look(CONSUMER).sent == 0
    assert homes.store.count == 0


def test_a_consumer_is_not_held_up_by_how_many_runs_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("likeset.transports.desks.MOST_RUNS_OF_ONE", 0)
    homes = homes_in(tmp_path)
    assert homes.look(CONSUMER).sent == 3


def test_what_was_refused_is_forgotten_when_it_is_gone(tmp_path: Path) -> None:
    """A peer who leaves rubbish, removes it and leaves more does not fill the disk."""
    homes = homes_in(tmp_path)
    folder = homes.pair(CONSUMER, "a").outgoing_folder
    for number in range(5):
        homes.folder_between(CONSUMER, "a").clear()
        leave(homes, CONSUMER, "a", "terms", b"no terms %d" % number)
        data = bytes([number]) * (POST_STEP + 16)
        homes.folder_between(CONSUMER, "a")[file_name(data)] = data, homes.clock()
        look = homes.look("a")
        assert (look.refused, look.strangers) == (1, 1)
    assert len(homes.desk("a").memory.taken(folder)) == 2
    homes.look("a")
    assert homes.look("a").taken == 0


def test_a_huge_file_where_this_home_writes_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file with holes costs whoever puts it there nothing, and its reader all memory."""
    homes = homes_in(tmp_path)
    huge = StoredFile("0" * 64, (1 << 50) + 16, homes.clock())
    own = homes.pair("a", CONSUMER).outgoing_folder
    monkeypatch.setattr(homes.store, "list", lambda folder: [huge] if folder == own else [])
    homes.look("a")
    assert "read" not in homes.store.calls


# A clock that lies.


@pytest.mark.parametrize("stamp", [2.0**40, -(2.0**40), 1e300])
def test_a_time_that_no_calendar_has_is_some_time(stamp: float) -> None:
    """A file system may keep it, and whoever wrote the file chose it."""
    assert 1970 <= time_of(stamp).year <= 9999


def test_the_consumer_hears_one_rounded_estimate_of_rows_that_it_did_not_buy(tmp_path: Path) -> None:
    """Exact numbers, one for each pick, let it read rows that were never delivered."""
    homes = homes_in(tmp_path, size=12)
    homes.look()
    homes.approve()
    homes.look("a", "b", CONSUMER, "a", "b")  # offers lie in the mailbox, and the curator has not read them
    again = copy_of(homes, tmp_path / "again")
    homes.settle()
    again.settle()
    summary, run = homes.summary, homes.run
    assert float(f"{summary.held_out_error:.0e}") == summary.held_out_error > 0.0
    digits = -math.floor(math.log10(summary.held_out_error))
    # Everything else is about the rows that it bought, and follows from them and its target.
    exact = {name: value for name, value in vars(summary).items() if isinstance(value, float)}
    assert exact == {
        "held_out_squared_mmd": round(summary.held_out_squared_mmd, digits),
        "held_out_error": summary.held_out_error,
        "label_weight": round(summary.label_weight, 2),
        "label_skill": round(summary.label_skill, 2),
    }
    judged = run.selection.judge(summary.rows, run.target.astype(np.float32))
    numbers = {name for name, value in vars(summary).items() if np.asarray(value).dtype == np.float64} - exact.keys()
    assert numbers == {"gains", "squared_mmds", "weights"}
    assert summary.gains == pytest.approx(judged.gains, abs=1e-14)
    assert summary.squared_mmds == pytest.approx(judged.squared_mmds, abs=1e-14)
    assert summary.weights == pytest.approx(judged.weights, abs=1e-14)
    assert again.summary.held_out_squared_mmd == summary.held_out_squared_mmd  # folds are drawn again as they were
    distance = collect(run).distance
    assert distance is not None
    assert distance.curve == ()


def test_the_curator_draws_folds_with_a_secret_that_it_has_again_after_a_restart(tmp_path: Path) -> None:
    homes = homes_in(tmp_path)

    def fold_key() -> int:
        seat = curator_run(homes.run.invitation, CURATOR, homes.folder(CURATOR)).resident
        assert isinstance(seat, CuratorShell)
        party = seat.party
        assert isinstance(party, SealedCurator)
        assert party._fold_key is not None
        return party._fold_key

    assert fold_key() == fold_key() > 2**128
