"""Mailboxes that fail while a run is under way: it goes on when they are back, and each trouble is said in one line."""

import atexit
import errno
import functools
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from engine_scenarios import SCENARIOS, run_locally, settle_sites, traces
from mail_servers import mail_environment, ssh_server
from mail_wire import MailWire

import likeset
from likeset.errors import MailboxTrouble, PostTrouble
from likeset.homes.mail import Invitation
from likeset.transports.posts import Look
from likeset.transports.stores import Listing, Store, open_store
from likeset.trust.letters import size_of_post

_PACKAGE = str(Path(likeset.__file__).parent)


class FailingStore:
    """A mailbox that fails once wherever it is used.

    Args:
        store: the mailbox.
        made: makes the trouble from the mailbox's address.
        after: whether it fails when the work is done, as a connection does that breaks before the answer.
    """

    def __init__(self, store: Store, made: Callable[[str], MailboxTrouble], *, after: bool) -> None:
        self._store = store
        self._made = made
        self._after = after
        self.failed: set[tuple[tuple[str, int], ...]] = set()

    @property
    def address(self) -> str:
        return self._store.address

    def list(self, folder: str) -> Listing:
        return self._used(self._store.list, folder)  # type: ignore[no-any-return]

    def read(self, folder: str, name: str, *, most_bytes: int) -> bytes:
        return self._used(self._store.read, folder, name, most_bytes=most_bytes)  # type: ignore[no-any-return]

    def write(self, folder: str, name: str, data: bytes) -> None:
        self._used(self._store.write, folder, name, data)

    def remove(self, folder: str, name: str) -> None:
        self._used(self._store.remove, folder, name)

    def close(self) -> None:
        self._store.close()

    def _used(self, work: Callable[..., Any], *given: Any, **options: Any) -> Any:
        place, frame = list[tuple[str, int]](), sys._getframe(2)
        while frame.f_back is not None:
            if frame.f_code.co_filename.startswith(_PACKAGE):
                place.append((frame.f_code.co_filename, frame.f_lineno))
            frame = frame.f_back
        fails = tuple(place) not in self.failed
        self.failed.add(tuple(place))
        if not fails:
            return work(*given, **options)
        if self._after:
            work(*given, **options)
        raise self._made(self.address)


def settled(folder: Path, name: str = "sealed") -> tuple[Invitation, Path, Path, Path]:
    """The run, homes after letters in one process, a copy of the same homes before it, and a mailbox for those."""
    mailed, mailbox = folder / "mailed", folder / "mailbox"
    invited = settle_sites(mailed, [SCENARIOS[name]])[name]
    mailbox.mkdir()
    return invited, run_through_letters(name), mailed, mailbox


@functools.cache
def run_through_letters(name: str) -> Path:
    """Homes of a run that is over, only to be read."""
    local = Path(tempfile.mkdtemp(prefix="run-through-letters-"))
    atexit.register(shutil.rmtree, local, ignore_errors=True)
    assert run_locally(settle_sites(local, [SCENARIOS[name]])[name], local) == "done"
    return local


def through_troubles(wire: MailWire, *, most: int = 200) -> tuple[list[str], list[Look]]:
    """Rounds of looks until nothing happens and nothing fails; what was said."""
    troubles: list[str] = []
    looks: list[Look] = []
    for _ in range(most):
        before = len(troubles), len(looks)
        for desk in wire.desks.values():
            try:
                looks.append(desk.look())
            except MailboxTrouble as trouble:
                troubles.append(str(trouble))
        if len(troubles) == before[0] and not any(look.something_happened for look in looks[before[1] :]):
            return troubles, looks
    raise AssertionError(f"something still happens after {most} rounds")


def once(wire: MailWire) -> list[str]:
    """Everybody looks once; their troubles."""
    troubles = []
    for desk in wire.desks.values():
        try:
            desk.look()
        except MailboxTrouble as trouble:
            troubles.append(str(trouble))
    return troubles


@pytest.mark.parametrize("name", ["sealed", "interactive", "sealed-denied"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("kind", [MailboxTrouble, PostTrouble])
def test_a_mailbox_that_fails_once_wherever_it_is_used_changes_nothing(
    tmp_path: Path, kind: type[MailboxTrouble], after: bool, name: str
) -> None:
    invited, local, mailed, mailbox = settled(tmp_path, name)
    store = FailingStore(open_store(str(mailbox)), lambda address: kind(address, "is full"), after=after)
    wire = MailWire(mailed, invited, store)
    troubles, looks = through_troubles(wire)
    assert len(store.failed) > 15
    assert all("\n" not in trouble and trouble.startswith("mailbox file://") for trouble in troubles)
    assert wire.known(wire.terms.consumer).ended == "done"
    assert traces(mailed, name) == traces(local, name)
    assert sum(look.put_back for look in looks) == 0
    wire.close()


@pytest.mark.parametrize("rounds", range(1, 6))
def test_a_run_goes_on_when_the_mailbox_is_back(tmp_path: Path, rounds: int) -> None:
    """The share is not mounted for a while: nothing of it counts as removed by somebody."""
    invited, local, mailed, mailbox = settled(tmp_path)
    wire = MailWire(mailed, invited, open_store(str(mailbox)))
    for _ in range(rounds):
        assert once(wire) == []
    mailbox.rename(tmp_path / "away")
    troubles = once(wire)
    assert troubles
    assert all("there is no such folder" in trouble and "\n" not in trouble for trouble in troubles)
    (tmp_path / "away").rename(mailbox)
    troubles, looks = through_troubles(wire)
    assert troubles == []
    assert sum(look.put_back for look in looks) == 0
    assert wire.known(wire.terms.consumer).ended == "done"
    assert traces(mailed, "sealed") == traces(local, "sealed")
    wire.close()


@pytest.mark.parametrize(("number", "words"), [(errno.ENOSPC, "is full"), (errno.EROFS, "is read-only")])
def test_a_run_goes_on_when_a_mailbox_can_be_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    """Each round begins with a look at a mailbox that takes nothing."""
    invited, local, mailed, mailbox = settled(tmp_path)
    wire = MailWire(mailed, invited, open_store(str(mailbox)))
    said = set[str]()

    def refuses(*_place: object, **_options: object) -> None:
        raise OSError(number, os.strerror(number))

    for _ in range(8):
        with monkeypatch.context() as patch:
            patch.setattr(os, "rename", refuses)
            said.update(once(wire))
        assert once(wire) == []
    assert said == {trouble for trouble in said if words in trouble and "\n" not in trouble}
    assert len(said) == 1
    troubles, _ = through_troubles(wire)
    assert troubles == []
    assert wire.known(wire.terms.consumer).ended == "done"
    assert traces(mailed, "sealed") == traces(local, "sealed")
    wire.close()


def test_a_slow_share_that_shows_half_of_each_file_first_delays_a_run_and_no_more(tmp_path: Path) -> None:
    """Every file that is new is cut before anybody else sees it, and whole a round later."""
    invited, local, mailed, mailbox = settled(tmp_path)
    wire = MailWire(mailed, invited, open_store(str(mailbox)))
    shown: set[Path] = set()
    notes: list[str] = []
    quiet = 0
    while quiet < 2:
        halves: dict[Path, bytes] = {}
        looks: list[Look] = []
        for desk in wire.desks.values():
            looks.append(desk.look())
            for path in {path for path in mailbox.rglob("*") if path.is_file()} - shown - set(halves):
                halves[path] = path.read_bytes()
                path.write_bytes(halves[path][: _half(len(halves[path]))])
        for path in halves:
            if path.exists():
                path.write_bytes(halves[path])
        shown |= set(halves)
        together = Look.all_of(looks)
        assert (together.refused, together.put_back) == (0, 0)
        notes += together.notes
        quiet = 0 if together.something_happened or halves else quiet + 1
    assert any(note.startswith("half a file from ") and "\n" not in note for note in notes)
    assert wire.known(wire.terms.consumer).ended == "done"
    assert traces(mailed, "sealed") == traces(local, "sealed")
    wire.close()


def _half(size: int) -> int:
    """About half of a file; of a larger one a size that another post could have."""
    return size_of_post(0) if size > size_of_post(0) else size // 2


@pytest.mark.slow
def test_an_sftp_server_that_is_restarted_between_looks_is_found_again(tmp_path: Path) -> None:
    """Its sessions end after every look; then it is down for a round, in which everybody says so in one line."""
    invited, local, mailed, _ = settled(tmp_path)
    (tmp_path / "ssh").mkdir()
    with ssh_server(tmp_path / "ssh") as server, mail_environment(server):
        wire = MailWire(mailed, invited, open_store(server.address))
        for _ in range(2):
            for desk in wire.desks.values():
                desk.look()
                server.cut_connections()
        server.stop()
        troubles = once(wire)
        assert len(troubles) == len(wire.desks)
        assert all("its server is not reached" in trouble and "\n" not in trouble for trouble in troubles)
        with server.started_again():
            troubles, looks = through_troubles(wire)
            assert troubles == []
            assert sum(look.put_back for look in looks) == 0
            assert wire.known(wire.terms.consumer).ended == "done"
            wire.close()
            wire.store.close()
    assert traces(mailed, "sealed") == traces(local, "sealed")
