"""Files that are no ledgers, disks that are full, locks that do not open: one clear sentence each."""

import functools
import gc
import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from ledger_world import CURATOR, ROWS, TARGET, answer, commit, gaussian, opened, reserve

from likeset.errors import (
    DifferentRequest,
    InvalidArgument,
    LedgerUnavailable,
    LedgerUnreadable,
    LikesetError,
)
from likeset.ledger import sqlite_file
from likeset.ledger.ledger import Journal, Ledger, Request, StoredMessage, journal_path
from likeset.privacy.guarantee import View

posix = pytest.mark.skipif(os.name != "posix", reason="file modes as POSIX has them")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


def used(path: Path) -> Path:
    """A closed ledger with one answered request."""
    with opened(Ledger(path)) as ledger:
        answer(ledger, TARGET, gaussian(), lambda: (b"message", None), request=Request("run", 0, "mean"))
    return path


class TestUnusableFiles:
    def test_text_is_no_ledger_and_stays_as_it_is(self, path: Path) -> None:
        path.write_text("name,age\n")
        with pytest.raises(LedgerUnreadable, match="not a SQLite file"):
            Ledger(path)
        assert path.read_text() == "name,age\n"

    def test_somebody_elses_database_is_not_touched(self, path: Path) -> None:
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE patients (name TEXT)")
        connection.commit()
        connection.close()
        before = path.read_bytes()
        with pytest.raises(LedgerUnreadable, match="something else"):
            Ledger(path)
        assert path.read_bytes() == before

    def test_a_journal_is_no_ledger(self, path: Path) -> None:
        with pytest.raises(LedgerUnreadable, match="something else"):
            Ledger(journal_path(used(path)))

    @pytest.mark.parametrize("other", [-1, 1])
    def test_a_file_of_another_application_is_no_ledger(self, path: Path, other: int) -> None:
        connection = sqlite3.connect(used(path))
        (own,) = connection.execute("PRAGMA application_id").fetchone()
        connection.execute(f"PRAGMA application_id={own + other}")
        connection.close()
        with pytest.raises(LedgerUnreadable, match="something else"):
            Ledger(path)

    @pytest.mark.parametrize("version", [3, 300])
    def test_a_newer_format_is_refused(self, path: Path, version: int) -> None:
        connection = sqlite3.connect(used(path))
        connection.execute(f"PRAGMA user_version={version}")
        connection.close()
        for read_only in (False, True):
            with pytest.raises(LedgerUnreadable, match="newer likeset"):
                Ledger(path, read_only=read_only)

    def test_an_older_format_is_refused_and_stays_as_it_is(self, path: Path) -> None:
        connection = sqlite3.connect(used(path))
        connection.execute("PRAGMA user_version=1")
        connection.close()
        before = path.read_bytes()
        for read_only in (False, True):
            with pytest.raises(LedgerUnreadable, match=r"of an older likeset.*begin anew"):
                Ledger(path, read_only=read_only)
        assert path.read_bytes() == before

    def test_a_damaged_file_is_named_as_such(self, path: Path) -> None:
        content = bytearray(used(path).read_bytes())
        content[100:4096] = b"\xff" * 3996
        path.write_bytes(content)
        with pytest.raises(LedgerUnreadable, match=r"damaged|something else"):
            Ledger(path).head()

    def test_a_cut_file_is_named_as_such(self, path: Path) -> None:
        content = used(path).read_bytes()
        path.write_bytes(content[:4096])
        with pytest.raises(LedgerUnreadable, match="damaged"):
            Ledger(path, read_only=True)

    def test_a_place_that_cannot_be(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidArgument, match="is a directory"):
            Ledger(tmp_path)
        with pytest.raises(InvalidArgument, match="directory does not exist"):
            Ledger(tmp_path / "nowhere" / "ledger.sqlite")
        with pytest.raises(InvalidArgument, match="no such ledger"):
            Ledger(tmp_path / "ledger.sqlite", read_only=True)
        assert list(tmp_path.iterdir()) == []

    def test_an_empty_file_becomes_a_ledger_only_when_written_to(self, path: Path) -> None:
        path.touch()
        with pytest.raises(LedgerUnreadable, match="is empty"):
            Ledger(path, read_only=True)
        with Ledger(path) as ledger:
            assert ledger.verify().ok


class TestUnavailable:
    def test_a_lock_that_does_not_open(self, path: Path) -> None:
        used(path)
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with Ledger(path, patience=0.05) as ledger:
            with pytest.raises(LedgerUnavailable, match="locked"):
                reserve(ledger, CURATOR, ROWS, request=Request("run", 1, "rows"), rows=1)
            assert ledger.accounts()[1].rows == 0  # reading goes on
            holder.execute("ROLLBACK")
            holder.close()
            reserve(ledger, CURATOR, ROWS, request=Request("run", 1, "rows"), rows=1)

    def test_a_full_disk_charges_nothing_and_later_all_is_well(self, path: Path) -> None:
        """A limit on the file's pages is what a full disk looks like to SQLite."""
        used(path)
        with Ledger(path) as ledger:
            connection = ledger._store._connection
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            connection.execute(f"PRAGMA max_page_count={pages}")
            place = 0
            with pytest.raises(LedgerUnavailable, match="disk is full"):  # noqa: PT012 - somewhere in the loop
                for place in range(1, 100):
                    reserve(ledger, CURATOR, ROWS, request=Request("run", place, "rows"), rows=1)
            connection.execute("PRAGMA max_page_count=1000000")
            assert ledger.accounts()[1].rows == place - 1
            assert ledger.verify().ok
            reserve(ledger, CURATOR, ROWS, request=Request("run", place, "rows"), rows=1)

    @pytest.mark.skipif(sys.platform != "linux", reason="limits the size of files as Linux does")
    def test_a_write_that_the_system_refuses(self, path: Path) -> None:
        """A process that may not write files beyond 64 kB: the write-ahead log hits that limit soon."""
        used(path)
        program = (
            "import resource, sys\n"
            "from ledger_world import CURATOR, ROWS, reserve\n"
            "from likeset.errors import LedgerUnavailable\n"
            "from likeset.ledger.ledger import Ledger, Request\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))\n"
            "with Ledger(sys.argv[1]) as ledger:\n"
            "    granted = 0\n"
            "    try:\n"
            "        for place in range(200):\n"
            "            reserve(ledger, CURATOR, ROWS, request=Request('run', place, 'rows'), rows=1)\n"
            "            granted += 1\n"
            "    except LedgerUnavailable as error:\n"
            "        print('refused', granted, error)\n"
        )
        done = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-c", program, str(path)], capture_output=True, text=True, cwd=Path(__file__).parent
        )
        assert done.stdout.startswith("refused"), done.stderr
        granted = int(done.stdout.split()[1])
        with Ledger(path) as ledger:
            assert ledger.verify().ok
            assert ledger.accounts()[1].rows >= granted > 0

    @posix
    def test_a_directory_that_cannot_be_written(self, tmp_path: Path) -> None:
        """As a user who is not root, whom no mode would stop; what lies there can still be verified."""
        program = (
            "import os, sys\n"
            "from likeset.errors import LedgerUnavailable\n"
            "from likeset.ledger.ledger import Ledger\n"
            "warm, old, new = sys.argv[1:]\n"
            "Ledger(warm, read_only=True).verify()\n"  # imports what only root may be able to read
            "if os.geteuid() == 0:\n"
            "    os.setuid(65534)\n"
            "for path in (old, new):\n"
            "    try:\n"
            "        Ledger(path).head()\n"
            "    except LedgerUnavailable as error:\n"
            "        print(error)\n"
            "print(Ledger(old, read_only=True).verify().ok)\n"
        )
        with tempfile.TemporaryDirectory() as place:
            directory = Path(place)
            path = used(directory / "ledger.sqlite")
            path.chmod(0o644)
            directory.chmod(0o555)
            try:
                done = subprocess.run(  # noqa: S603 - our own program
                    [sys.executable, "-c", program, used(tmp_path / "warm.sqlite"), path, directory / "new.sqlite"],
                    capture_output=True,
                    text=True,
                )
            finally:
                directory.chmod(0o755)
        assert done.returncode == 0, done.stderr
        written, created, verified = done.stdout.splitlines()
        assert "must be writable" in written
        assert "cannot be created" in created
        assert verified == "True"

    @posix
    def test_a_fork_has_to_open_its_own(self, path: Path) -> None:
        with opened(Ledger(path)) as ledger:
            ledger._store._process += 1  # what a forked child would see
            with pytest.raises(LedgerUnavailable, match="fork"):
                ledger.head()
            ledger._store._process -= 1

    def test_a_ledger_opened_for_reading_charges_nothing(self, path: Path) -> None:
        with Ledger(used(path), read_only=True) as ledger:
            with pytest.raises(LikesetError):
                reserve(ledger, CURATOR, ROWS, request=Request("run", 1, "rows"), rows=1)
            with pytest.raises(LikesetError):
                ledger.set_limit(View.consumer("target"), ledger.accounts()[0].limit)

    def test_a_ledger_may_be_made_by_several_at_once(self, tmp_path: Path) -> None:
        for turn in range(10):
            path = tmp_path / f"{turn}.sqlite"
            ledgers: list[Ledger] = []

            def make(path: Path = path, ledgers: list[Ledger] = ledgers) -> None:
                ledgers.append(Ledger(path))

            threads = [threading.Thread(target=make) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(ledgers) == 8
            assert len({str(ledger.head()) for ledger in ledgers}) == 1
            for ledger in ledgers:
                ledger.close()


def test_a_ledger_that_nobody_holds_any_more_closes_its_files(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = []

    class Watched(sqlite3.Connection):
        def close(self) -> None:
            closed.append(True)
            super().close()

    monkeypatch.setattr(
        "likeset.ledger.sqlite_file.sqlite3.connect", functools.partial(sqlite3.connect, factory=Watched)
    )
    answer(opened(Ledger(path)), TARGET, gaussian(), lambda: (b"message", None), request=Request("run", 0, "mean"))
    gc.collect()
    assert len(closed) == 2  # the ledger and its journal


def test_the_log_is_emptied_under_the_write_lock_only(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite's own emptying, which does without the lock, is off; ours keeps the log short."""
    monkeypatch.setattr(sqlite_file, "_LOG_BYTES", 100_000)
    log = path.with_name(path.name + "-wal")
    sizes = []
    with opened(Ledger(path)) as ledger:
        connection = ledger._store._connection
        assert connection.execute("PRAGMA wal_autocheckpoint").fetchone() == (0,)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        for place in range(60):
            reserve(ledger, CURATOR, ROWS, request=Request("run", place, "rows"), rows=1)
            sizes.append(log.stat().st_size)
        assert ledger.verify().ok
    assert max(sizes) < 120_000
    assert 0 in sizes


class TestJournal:
    @posix
    def test_every_file_is_private_whatever_the_umask(self, path: Path) -> None:
        before = os.umask(0)
        try:
            with opened(Ledger(path)) as ledger:
                answer(ledger, TARGET, gaussian(), lambda: (b"m", None), request=Request("run", 0, "mean"))
                modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
        finally:
            os.umask(before)
        assert len(modes) == 6  # the two files, each with its log and the log's index
        assert set(modes.values()) == {0o600}

    @posix
    def test_a_journal_that_others_can_read_is_refused(self, path: Path) -> None:
        journal_path(used(path)).chmod(0o640)
        with Ledger(path) as ledger, pytest.raises(LedgerUnavailable, match="chmod 600"):
            ledger.messages()

    def test_a_journal_of_another_ledger_is_refused(self, path: Path, tmp_path: Path) -> None:
        used(path)
        used(tmp_path / "other.sqlite")
        journal_path(tmp_path / "other.sqlite").replace(journal_path(path))
        with Ledger(path) as ledger, pytest.raises(LedgerUnreadable, match="another ledger"):
            ledger.messages()

    def test_purged_bytes_are_gone_from_every_file(self, path: Path) -> None:
        secret = b"purge me entirely, please"
        with opened(Ledger(path)) as ledger:
            for run in ("run-0", "run-1", "run-2"):
                reservation = reserve(ledger, TARGET, gaussian(), request=Request(run, 0, "mean"))
                commit(ledger, reservation, secret + run.encode())
            assert any(secret in file.read_bytes() for file in path.parent.iterdir())
            assert ledger.purge(run="run-1") == 1
            assert not any(secret + b"run-1" in file.read_bytes() for file in path.parent.iterdir())
            assert [message.run for message in ledger.messages()] == ["run-0", "run-2"]
            assert ledger.purge(before=datetime(2100, 1, 1, tzinfo=UTC)) == 2
            assert not any(secret in file.read_bytes() for file in path.parent.iterdir())

    def test_a_purge_that_a_reader_keeps_from_finishing_says_so(self, path: Path) -> None:
        with Ledger(used(path), patience=0.05) as ledger:
            reader = sqlite3.connect(journal_path(path), isolation_level=None)
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM messages").fetchall()
            with pytest.raises(LedgerUnavailable, match="run the purge again"):
                ledger.purge(run="run")
            reader.execute("COMMIT")
            reader.close()
            assert ledger.purge(run="run") == 0

    def test_the_digest_in_the_ledger_cannot_be_matched_by_trying(self, path: Path) -> None:
        """The same message twice has two digests, and none of them is a plain hash of it."""
        with opened(Ledger(path)) as ledger:
            for place in range(2):
                answer(ledger, TARGET, gaussian(), lambda: (b"yes", None), request=Request("run", place, "mean"))
            digests = [entry.document()["digest"] for entry in ledger.entries() if entry.kind == "commit"]
            assert len(set(digests)) == 2
            first = ledger.messages()[0]
            assert first.digest == digests[0]

    def test_stored_messages_are_compared_with_what_was_recorded(self, path: Path) -> None:
        with opened(Ledger(path)) as ledger:
            for run in ("one", "two", "three"):
                answer(ledger, TARGET, gaussian(), lambda: (b"m", None), request=Request(run, 0, "mean"))
            reserve(ledger, TARGET, gaussian(), request=Request("open", 0, "mean"))
            ledger.purge(run="one")
        with Ledger(path, read_only=True) as ledger:
            assert ledger.verify(messages=True).ok
            assert [message.run for message in ledger.messages()] == ["two", "three"]
        journal = sqlite3.connect(journal_path(path))
        journal.execute("UPDATE messages SET message = x'00' WHERE run = 'two'")
        journal.execute("DELETE FROM messages WHERE run = 'three'")
        journal.commit()
        journal.close()
        with Ledger(path, read_only=True) as ledger:
            assert ledger.verify().ok
            said = [problem.what for problem in ledger.verify(messages=True).problems]
        assert said == [
            "its stored message is not the one that was recorded",
            "its message is missing, and no purge of it is on record",
        ]

    def test_a_journal_keeps_one_message_per_request_and_of_several_all_or_none(self, tmp_path: Path) -> None:
        def answer(number: int, message: bytes) -> StoredMessage:
            return StoredMessage(Request("run", number, "mean").key, "f", 1, "t", "1:" + "0" * 64, message)

        with closing(Journal(tmp_path / "journal", ledger="x")) as journal:
            first = answer(4, b"m")
            journal.keep([first])
            with pytest.raises(DifferentRequest):
                journal.keep([answer(5, b"m"), answer(4, b"n")])
            assert journal.messages() == (first,)
            assert (journal.find(first.key, "f"), first.run, first.kind) == (first, "run", "mean")

    @pytest.mark.parametrize("key", ["x", "[1, 2, 3]", '["run"]'])
    def test_a_damaged_message_is_named_as_such(self, path: Path, key: str) -> None:
        journal = sqlite3.connect(journal_path(used(path)))
        journal.execute("UPDATE messages SET key = ?", (key,))
        journal.commit()
        journal.close()
        with Ledger(path) as ledger, pytest.raises(LedgerUnreadable, match="damaged"):
            ledger.messages()

    def test_a_ledger_that_was_put_back_is_found_by_its_messages(self, path: Path) -> None:
        """The ledger as it was holds by itself; messages remember how far it had come when they were stored."""
        before = used(path).read_bytes()
        with Ledger(path) as ledger:
            for place in (1, 2):
                answer(ledger, TARGET, gaussian(), lambda: (b"m", None), request=Request("run", place, "mean"))
            assert ledger.verify(messages=True).ok
        path.write_bytes(before)
        with Ledger(path) as ledger:
            assert ledger.verify().ok
            (problem,) = ledger.verify(messages=True).problems
            assert "is not the one that stood there when messages were stored" in problem.what
