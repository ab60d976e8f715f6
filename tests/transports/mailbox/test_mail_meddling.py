"""Whoever keeps a mailbox, or reaches it, can delete and delay: it is noticed and named, and does no other harm."""

import atexit
import shutil
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kill_world import CONSUMER
from mail_homes import RUN, MailHomes, copy_of, homes_in, posts_of
from test_mail_runs import check_done

from likeset.errors import HomeRestored, MailboxTrouble
from likeset.homes.home import WAITING
from likeset.protocol.party import CURATOR
from likeset.transports.posts import MOST_OPENED, MOST_UNREAD, OLDEST, Ending
from likeset.trust.letters import POST_STEP, Post, PostKind, file_name

SIZE = POST_STEP + 16
_begun: dict[str, MailHomes] = {}


def begun(tmp_path: Path, **job: Any) -> MailHomes:
    """A run whose first letters lie in the mailbox, unread; begun once in each process of tests, and copied."""
    key = repr(sorted(job.items()))
    if key not in _begun:
        folder = Path(tempfile.mkdtemp(prefix="mail-begun-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        _begun[key] = homes_in(folder, **job)
        _begun[key].look()
        _begun[key].approve()
        _begun[key].look("a", "b", CONSUMER)
        assert _begun[key].progress.began
    return copy_of(_begun[key], tmp_path)


def leave(homes: MailHomes, writer: str, reader: str, kind: PostKind, document: bytes) -> str:
    """A post that somebody writes by hand, whatever its home would say; returns the file's name."""
    data = homes.pair(writer, reader).wrap(Post(kind, bytes.fromhex(homes.run.terms.digest), document))
    homes.folder_between(writer, reader)[file_name(data)] = data, homes.clock()
    return file_name(data)


# Deletion.


def test_whatever_is_deleted_at_any_time_is_put_back_and_named(tmp_path: Path) -> None:
    """After each look of somebody everything is gone; in the end everybody put back what was needed."""
    homes = homes_in(tmp_path)
    homes.look()
    homes.approve()
    notes: list[str] = []
    for party in (CONSUMER, "a", CURATOR, "b") * 2:
        for folder in homes.store.files.values():
            folder.clear()
        notes += homes.look(party).notes
    homes.settle()
    check_done(homes)
    assert "to a: a post was removed from the mailbox by somebody else; put back" in notes


def test_what_is_deleted_again_and_again_is_not_put_back_for_ever(tmp_path: Path) -> None:
    homes = begun(tmp_path)
    folder = homes.folder_between(CONSUMER, "a")
    looks = []
    for _ in range(5):
        folder.clear()
        looks.append(homes.look(CONSUMER))
    assert [look.put_back for look in looks] == [1, 1, 1, 0, 0]
    assert "posts to a were removed 3 times by somebody else" in looks[3].notes[0]
    assert looks[4].notes == ()


def test_a_curator_that_begins_anew_waits_for_a_letter_that_somebody_deleted(tmp_path: Path) -> None:
    """It keeps no rows: what it heard it hears again from the mailbox, in the same order or not at all."""
    homes = begun(tmp_path)
    homes.look(CURATOR, "a", CURATOR)
    kept = dict(homes.folder_between("a", CURATOR))
    homes.folder_between("a", CURATOR).clear()
    homes.drop(CURATOR)
    homes.look("b")
    look = homes.look(CURATOR)
    assert any("a letter of a was removed from the mailbox" in note for note in look.notes)
    homes.settle(CURATOR, "b", CONSUMER)
    assert homes.progress.ended is None
    homes.look("a")
    assert {name: data for name, (data, _) in homes.folder_between("a", CURATOR).items()} == {
        name: data for name, (data, _) in kept.items()
    }
    homes.settle()
    check_done(homes)


def test_what_was_taken_away_and_is_brought_back_is_taken_away_again(tmp_path: Path) -> None:
    homes = begun(tmp_path)
    everything = {folder: dict(files) for folder, files in homes.store.files.items()}
    homes.settle()
    check_done(homes)
    paid = homes.charges()
    for folder, files in everything.items():
        homes.store.files[folder] |= files
    homes.drop()
    homes.settle()
    assert homes.charges() == paid
    assert not homes.lying(CONSUMER, "a")
    assert not homes.lying("a", CURATOR)


# Half a file, late files, files of strangers.


def test_half_a_file_is_left_and_read_when_it_is_whole(tmp_path: Path) -> None:
    homes = begun(tmp_path)
    folder = homes.folder_between(CONSUMER, "a")
    ((name, (data, at)),) = folder.items()
    for cut in (0, 16, SIZE, len(data) - 1):
        folder[name] = data[:cut], at
        look = homes.look("a")
        assert (look.taken, look.refused) == (0, 0)
    changed = data[:-1] + bytes([data[-1] ^ 1])
    folder[name] = changed, at
    homes.drop("a")
    assert any("half a file" in note for note in homes.look("a").notes)
    homes.store.calls.clear()
    assert homes.look("a").left == 1
    assert "read" not in homes.store.calls  # only when the place says that it changed
    folder[name] = data, at + timedelta(seconds=1)
    assert homes.look("a").taken == 1
    homes.settle()
    check_done(homes)


def test_letters_that_come_before_what_introduces_them_are_left_until_then(tmp_path: Path) -> None:
    """The curator's word on the auction is there before the consumer's release, and that before the terms."""
    homes = begun(tmp_path, protocol="interactive", size=2)
    late = homes.folder_between(CONSUMER, "a")
    kept = dict(late)
    homes.look(CURATOR, "b", CURATOR)
    letter = leave(homes, CURATOR, "a", "letter", b"whatever")
    late.clear()
    look = homes.look("a")
    assert (look.taken, look.left) == (0, 2)  # that, and what the curator wrote to all
    homes.store.calls.clear()
    assert homes.look("a").left == 2
    assert "read" not in homes.store.calls
    late |= kept
    looks = [homes.look("a") for _ in range(2)]  # whose folder comes first depends on fingerprints
    assert looks[1].left == 0
    assert sum(look.refused for look in looks) == 1  # now all are heard, and one is no letter
    del homes.folder_between(CURATOR, "a")[letter]
    homes.settle()
    assert homes.progress.done


def test_a_letter_under_terms_that_did_not_come_yet_is_left(tmp_path: Path) -> None:
    homes = homes_in(tmp_path)
    leave(homes, CONSUMER, "a", "letter", b"whatever")
    look = homes.look("a")
    assert (look.taken, look.left) == (0, 1)
    homes.look(CONSUMER)
    assert sum(homes.look("a").taken for _ in range(2)) == 2  # which is looked at first depends on names of files


def test_files_of_strangers_are_counted_and_read_once(tmp_path: Path) -> None:
    homes = begun(tmp_path)
    folder = homes.folder_between(CONSUMER, "a")
    for number in range(3):
        data = bytes([number]) * SIZE
        folder[file_name(data)] = data, homes.clock()
    look = homes.look("a")
    assert (look.taken, look.strangers) == (1, 3)
    assert look.notes == (f"files of strangers lie where only {CONSUMER} should write; they are left alone",)
    homes.drop("a")
    homes.store.calls.clear()
    assert homes.look("a").strangers == 3
    assert homes.store.calls.count("read") == 0
    homes.settle()
    check_done(homes)
    assert homes.refusals("a") == []


def test_files_that_are_swapped_between_folders_open_nowhere_else(tmp_path: Path) -> None:
    homes = begun(tmp_path)
    everything = [item for files in homes.store.files.values() for item in files.items()]
    for files in homes.store.files.values():
        files |= dict(everything)
    look = homes.look()
    assert look.strangers > 0
    assert look.refused == 0
    homes.settle()
    check_done(homes)


def test_posts_of_another_run_or_mailbox_do_not_count_in_this_one(tmp_path: Path) -> None:
    """Another consumer's homes, with the same names: neither folders nor posts are the same."""
    homes, others = homes_in(tmp_path / "one"), homes_in(tmp_path / "two", size=5)
    others.look()
    others.approve()
    others.settle()
    for folder, files in others.store.files.items():
        homes.store.files.setdefault(folder, {}).update(files)
        for mine in (homes.pair(a, b).outgoing_folder for a in homes.parties for b in homes.parties if a != b):
            homes.store.files.setdefault(mine, {}).update(files)
    homes.settle()
    homes.approve()
    homes.settle()
    check_done(homes)


# Floods.


def flood(homes: MailHomes, count: int, size: int = SIZE, *, age: timedelta = timedelta(0)) -> None:
    folder = homes.folder_between(CONSUMER, "a")
    for number in range(count):
        folder[f"{number:064x}"] = bytes(size), homes.clock() - age


def test_no_more_files_of_one_sender_are_opened_in_a_look_than_may_be(tmp_path: Path) -> None:
    homes = begun(tmp_path)
    flood(homes, 2 * MOST_UNREAD)
    homes.store.calls.clear()
    look = homes.look("a")
    assert homes.store.calls.count("read") == MOST_OPENED
    assert any(f"more than the {MOST_UNREAD} that one sender may leave unread" in note for note in look.notes)
    assert look.left >= 2 * MOST_UNREAD - MOST_OPENED
    assert homes.look(CURATOR, "b", CURATOR).taken > 0  # nobody else is kept waiting


@pytest.mark.parametrize(
    ("size", "age", "words"),
    [
        (POST_STEP * 4096 + 16, timedelta(0), "larger than anything that may come from there"),
        (SIZE, OLDEST + timedelta(days=1), "older than"),
    ],
)
def test_what_is_too_large_or_too_old_is_not_opened(tmp_path: Path, size: int, age: timedelta, words: str) -> None:
    homes = begun(tmp_path)
    flood(homes, 3, size, age=age)
    homes.store.calls.clear()
    look = homes.look("a")
    assert (look.taken, look.left, homes.store.calls.count("read")) == (1, 3, 1)
    assert any(f"3 files from {CONSUMER}: {words}" in note for note in look.notes)
    assert homes.look("a").notes == ()


# Posts of peers who do not keep to the rules.


def test_what_an_owner_refuses_stands_in_its_audit_log_in_fixed_words(tmp_path: Path) -> None:
    homes = homes_in(tmp_path)
    homes.look()
    homes.look("a")
    for number, kind in enumerate(("standing", "acceptance", "progress", "ending")):
        leave(homes, CONSUMER, "a", kind, b"%d" % number)  # type: ignore[arg-type]
        leave(homes, CURATOR, "a", kind, b"%d" % number)  # type: ignore[arg-type]
    leave(homes, CURATOR, "a", "terms", homes.run.invitation.to_bytes())
    leave(homes, CONSUMER, "a", "terms", b"no terms")
    leave(homes, CONSUMER, "a", "letter", b"no letter")
    look = homes.look("a")
    assert (look.taken, look.refused) == (11, 11)
    homes.drop("a")
    refused = homes.refusals("a")
    assert refused.count("a post that no consumer leaves for an owner") == 4
    assert refused.count("a post that no curator leaves for an owner") == 5
    assert len(refused) == 11
    homes.approve()
    homes.settle()
    assert homes.progress.done


def test_terms_count_only_from_whoever_signed_them(tmp_path: Path) -> None:
    homes, others = homes_in(tmp_path / "one"), homes_in(tmp_path / "two", size=5)
    leave(homes, CONSUMER, "a", "terms", others.run.invitation.to_bytes())
    assert homes.look("a").refused == 1
    assert "terms that somebody else signed than whoever left them" in homes.refusals("a")[0]
    leave(homes, CONSUMER, CURATOR, "terms", others.run.invitation.to_bytes())
    assert homes.look(CURATOR).refused == 1


@pytest.mark.parametrize(
    ("writer", "kind", "document"),
    [
        ("a", "progress", b'{"until": null, "waiting_for": ["b"]}'),
        ("a", "ending", b'{"detail": "", "ended": "failed"}'),
        ("a", "terms", b"whatever"),
        ("a", "standing", b"ready"),
        ("a", "acceptance", b"no acceptance"),
        (CURATOR, "progress", b'{"until": "soon", "waiting_for": []}'),
        (CURATOR, "progress", b'{"until": null, "waiting_for": ["somebody"]}'),
        (CURATOR, "progress", b"[" * 5000),
        (CURATOR, "ending", b'{"detail": 1, "ended": "done"}'),
        (CURATOR, "ending", b'{"detail": "", "ended": "over"}'),
        (CURATOR, "letter", b"no letter"),
    ],
)
def test_a_consumer_refuses_what_nobody_may_tell_it(
    tmp_path: Path, writer: str, kind: PostKind, document: bytes
) -> None:
    homes = begun(tmp_path)
    leave(homes, writer, CONSUMER, kind, document)
    assert homes.look(CONSUMER).refused == 1
    homes.settle()
    check_done(homes)


def test_an_acceptance_of_somebody_else_counts_for_nobody(tmp_path: Path) -> None:
    homes = homes_in(tmp_path)
    homes.look()
    homes.approve("a")
    homes.look("a")
    (accepted,) = [post.document for post in homes.lying("a", CONSUMER).values() if post.kind == "acceptance"]
    leave(homes, "b", CONSUMER, "acceptance", accepted)
    assert homes.look(CONSUMER).refused == 1
    assert homes.progress.parties["b"] == "decides"


def test_an_owner_who_says_that_it_abstains_is_not_waited_for(tmp_path: Path) -> None:
    homes = begun(tmp_path)
    homes.look(CURATOR)
    leave(homes, "b", CURATOR, "standing", b"abstains")
    leave(homes, "b", CURATOR, "standing", WAITING.encode())
    homes.settle(CURATOR, "a", CONSUMER)
    assert homes.progress.done
    assert list(homes.summary.absent) == [1]


def test_a_letter_that_the_curator_refuses_is_not_waited_for(tmp_path: Path) -> None:
    homes = begun(tmp_path)
    homes.look(CURATOR)
    leave(homes, "b", CURATOR, "letter", b"no letter")
    look = homes.settle(CURATOR, "a", CONSUMER)
    assert look.refused == 1
    assert list(homes.summary.absent) == [1]
    homes.settle()
    assert homes.progress.done


def test_the_first_acceptance_counts(tmp_path: Path) -> None:
    """An owner's home that was put back signs anew; it is shown what it signed before, and stops."""
    homes = homes_in(tmp_path)
    homes.look()
    homes.approve()
    copy = tmp_path / "copy"
    copied(homes.folder("a"), copy)
    homes.look("a", CONSUMER)
    homes.drop("a")
    homes.folder_between("a", CONSUMER).clear()  # else it would meet what it signed at its first look
    copied(copy, homes.folder("a"))
    homes.look("a", CONSUMER)
    with pytest.raises(HomeRestored):
        homes.look("a")
    with pytest.raises(HomeRestored):
        homes.look("a")


# Homes put back from old copies.


def copied(home: Path, place: Path) -> None:
    import shutil

    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(home, place)


def accepted(homes: MailHomes) -> None:
    homes.look("a", "b")


def answered(homes: MailHomes) -> None:
    homes.look("a", "b", CONSUMER, CURATOR, "a")


def begins(homes: MailHomes) -> None:
    homes.look("a", "b", CONSUMER)


@pytest.mark.parametrize(
    ("party", "later"), [("a", accepted), ("a", answered), (CONSUMER, begins)], ids=["accepted", "answered", "begun"]
)
def test_a_home_that_meets_what_it_signed_and_does_not_remember_stops(
    tmp_path: Path, party: str, later: Callable[[MailHomes], None]
) -> None:
    homes = homes_in(tmp_path)
    homes.look()
    homes.approve()
    homes.drop()
    copied(homes.folder(party), tmp_path / "copy")
    later(homes)
    homes.drop()
    paid = homes.charges()[party]
    copied(tmp_path / "copy", homes.folder(party))
    with pytest.raises(HomeRestored):
        homes.look(party)
    homes.drop()
    with pytest.raises(HomeRestored):
        homes.look(party)
    assert homes.charges()[party] <= paid


def test_a_memory_that_is_lost_does_no_harm(tmp_path: Path) -> None:
    """What was taken is heard again and answered as before; what was left is written again, with the same names."""
    homes = begun(tmp_path)
    homes.look("a", "b")
    before = {folder: set(files) for folder, files in homes.store.files.items()}
    homes.drop()
    for party in ("a", "b", CONSUMER):
        (homes.folder(party) / "mail.sqlite").unlink()
    homes.look(CONSUMER, "a", "b")
    for folder, files in homes.store.files.items():
        assert before[folder] <= set(files)
    homes.settle()
    check_done(homes)


def test_a_mailbox_in_trouble_stops_a_look_and_nothing_is_lost(tmp_path: Path) -> None:
    homes = homes_in(tmp_path)

    def trouble() -> None:
        raise MailboxTrouble("memory", "is full")

    homes.store.before = trouble
    for _ in range(2):
        with pytest.raises(MailboxTrouble):
            homes.look(CONSUMER)
    homes.store.before = lambda: None
    homes.look()
    homes.approve()
    homes.settle()
    check_done(homes)


def test_an_ending_that_the_curator_tells_ends_the_run(tmp_path: Path) -> None:
    homes = begun(tmp_path)
    leave(homes, CURATOR, CONSUMER, "ending", b'{"detail": "\\u001b[31m", "ended": "unfinished"}')
    homes.look(CONSUMER)
    assert homes.progress.ended is Ending.UNFINISHED
    assert "\x1b" not in homes.progress.detail
    assert not homes.lying(CONSUMER, "a")
    assert posts_of(homes.lying(CONSUMER, CURATOR)) == []
    assert RUN in {run.name for run in homes.home.runs()}
