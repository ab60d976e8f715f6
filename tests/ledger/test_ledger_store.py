"""Files that are no ledgers, disks that are full, locks that do not open: one clear sentence each."""

import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
from ledger_world import CURATOR, ROWS, TARGET, charge, gaussian, opened, reserve

from likeset.errors import InvalidArgument, LedgerUnavailable, LedgerUnreadable, LikesetError
from likeset.ledger import sqlite_file
from likeset.ledger.budget import Request
from likeset.ledger.ledger import Ledger
from likeset.privacy.events import View

MEAN = charge(TARGET, gaussian())
posix = pytest.mark.skipif(os.name != "posix", reason="file modes as POSIX has them")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


def used(path: Path) -> Path:
    """A closed ledger with one answered request."""
    with opened(Ledger(path)) as ledger:
        ledger.draw(MEAN, lambda: (b"message", None), request=Request("run", 0, "mean"))
    return path


class TestUnusableFiles:
    def test_text_is_no_ledger_and_stays_as_it_is(self, path: Path) -> None:
        path.write_text("name,age\n")
        path.chmod(0o600)
        with pytest.raises(LedgerUnreadable):
            Ledger(path)
        assert path.read_text() == "name,age\n"

    def test_somebody_elses_database_is_not_touched(self, path: Path) -> None:
        connection = sqlite3.connect(path)
        path.chmod(0o600)
        connection.execute("CREATE TABLE patients (name TEXT)")
        connection.commit()
        connection.close()
        before = path.read_bytes()
        with pytest.raises(LedgerUnreadable):
            Ledger(path)
        assert path.read_bytes() == before

    @pytest.mark.parametrize(
        ("pragma", "said"),
        [
            ("application_id=5", "something else"),
            ("user_version=1000", "install that likeset again"),
            ("user_version=1", "new ledger"),
        ],
    )
    def test_a_file_of_another_application_or_format_is_refused_and_stays_as_it_is(
        self, path: Path, pragma: str, said: str
    ) -> None:
        connection = sqlite3.connect(used(path))
        connection.execute(f"PRAGMA {pragma}")
        connection.close()
        before = path.read_bytes()
        for read_only in (False, True):
            with pytest.raises(LedgerUnreadable, match=said):
                Ledger(path, read_only=read_only)
        assert path.read_bytes() == before

    def test_a_cut_file_is_named_as_such(self, path: Path) -> None:
        content = used(path).read_bytes()
        path.write_bytes(content[:4096])
        with pytest.raises(LedgerUnreadable):
            Ledger(path, read_only=True)

    def test_a_place_that_cannot_be(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidArgument, match=r"^path"):
            Ledger(tmp_path)
        with pytest.raises(LedgerUnavailable):
            Ledger(tmp_path / "nowhere" / "ledger.sqlite")
        with pytest.raises(InvalidArgument, match=r"^path"):
            Ledger(tmp_path / "ledger.sqlite", read_only=True)
        assert list(tmp_path.iterdir()) == []

    def test_an_empty_file_becomes_a_ledger_only_when_written_to(self, path: Path) -> None:
        path.touch(0o600)
        with pytest.raises(LedgerUnreadable):
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
            with pytest.raises(LedgerUnavailable, match="is full; nothing was recorded"):  # noqa: PT012 - somewhere in the loop
                for place in range(1, 100):
                    reserve(ledger, CURATOR, ROWS, request=Request("run", place, "rows"), rows=1)
            connection.execute("PRAGMA max_page_count=1000000")
            assert ledger.accounts()[1].rows == place - 1
            assert ledger.verify().ok
            reserve(ledger, CURATOR, ROWS, request=Request("run", place, "rows"), rows=1)

    @posix
    def test_a_directory_that_cannot_be_written(self, tmp_path: Path) -> None:
        """As a user who is not root, whom no mode would stop."""
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
        )
        with tempfile.TemporaryDirectory() as place:
            directory = Path(place)
            path = used(directory / "ledger.sqlite")
            if os.geteuid() == 0:
                os.chown(path, 65534, 65534)
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
        written, created = done.stdout.splitlines()
        assert "must be writable" in written
        assert "cannot be created" in created

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


class TestMessages:
    @posix
    def test_every_file_is_private_whatever_the_umask(self, path: Path) -> None:
        before = os.umask(0)
        try:
            with opened(Ledger(path)) as ledger:
                ledger.draw(MEAN, lambda: (b"m", None), request=Request("run", 0, "mean"))
                modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
        finally:
            os.umask(before)
        assert modes == dict.fromkeys((path.name + end for end in ("", "-wal", "-shm", ".lock")), 0o600)

    @posix
    @pytest.mark.parametrize("read_only", [False, True])
    def test_a_ledger_that_others_can_read_is_refused(self, path: Path, read_only: bool) -> None:
        used(path).chmod(0o640)
        with pytest.raises(LedgerUnavailable):
            Ledger(path, read_only=read_only)

    def test_purged_bytes_are_gone_from_every_file(self, path: Path) -> None:
        secret = b"purge me entirely, please"
        with opened(Ledger(path)) as ledger:
            for run in ("run-0", "run-1", "run-2"):
                ledger.draw(MEAN, lambda run=run: (secret + run.encode(), None), request=Request(run, 0, "mean"))  # type: ignore[misc]
            assert any(secret in file.read_bytes() for file in path.parent.iterdir())
            assert ledger.purge(run="run-1") == 1
            assert not any(secret + b"run-1" in file.read_bytes() for file in path.parent.iterdir())
            assert [message.run for message in ledger.messages()] == ["run-0", "run-2"]
            assert ledger.purge(before=datetime(2100, 1, 1, tzinfo=UTC)) == 2
            assert not any(secret in file.read_bytes() for file in path.parent.iterdir())
            assert ledger.verify().ok

    def test_a_ledger_without_messages_takes_no_room(self, path: Path) -> None:
        """A megabyte was sent; after the purge no megabyte of zeros is left."""
        with opened(Ledger(path)) as ledger:
            ledger.draw(MEAN, lambda: (bytes(1 << 20), None), request=Request("run", 0, "mean"))
            ledger.purge(run="run")
            assert path.stat().st_size < 1 << 17
            assert ledger.verify().ok

    def test_a_purge_that_a_reader_keeps_from_finishing_says_so(self, path: Path) -> None:
        with Ledger(used(path), patience=0.05) as ledger:
            reader = sqlite3.connect(path, isolation_level=None)
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM drawn").fetchall()
            with pytest.raises(LedgerUnavailable):
                ledger.purge(run="run")
            reader.execute("COMMIT")
            reader.close()
            assert ledger.purge(run="run") == 0

    def test_the_digest_in_the_log_cannot_be_matched_by_trying(self, path: Path) -> None:
        """The same message twice has two digests, for each has its salt."""
        with opened(Ledger(path)) as ledger:
            for place in range(2):
                ledger.draw(MEAN, lambda: (b"yes", None), request=Request("run", place, "mean"))
            digests = [entry.document()["digest"] for entry in ledger.entries() if entry.kind == "commit"]
            assert len(set(digests)) == 2
            assert ledger.messages()[0].digest == digests[0]

    @pytest.mark.parametrize(
        ("statement", "number", "said"),
        [
            ("UPDATE drawn SET message = x'00' WHERE run = 'two'", 7, "is not the one that was recorded"),
            ("UPDATE drawn SET key = 'x' WHERE run = 'two'", 7, "is not the one that was recorded"),
            ("UPDATE drawn SET message = 'text' WHERE run = 'two'", 7, "is not the one that was recorded"),
            ("DELETE FROM drawn WHERE run = 'two'", 7, "no purge of it is on record"),
            ("UPDATE drawn SET number = 99 WHERE run = 'two'", 0, "belongs to no entry"),
        ],
    )
    def test_stored_messages_are_compared_with_the_log(
        self, path: Path, statement: str, number: int, said: str
    ) -> None:
        """A purge explains what was stored before it, and not what was stored later."""
        with opened(Ledger(path)) as ledger:
            for run in ("one", "two"):
                ledger.draw(MEAN, lambda: (b"m", None), request=Request(run, 0, "mean"))
                if run == "one":
                    ledger.purge(before=datetime(2100, 1, 1, tzinfo=UTC))
            reserve(ledger, TARGET, gaussian(), request=Request("open", 0, "mean"))
            assert ledger.verify().ok
        connection = sqlite3.connect(path)
        connection.execute(statement)
        connection.commit()
        connection.close()
        with Ledger(path, read_only=True) as ledger:
            first = ledger.verify().problems[0]
        assert (first.number, said in first.what) == (8 if number else 0, True)


OTHER = """
import sys
from likeset.ledger.ledger import Ledger
with Ledger(sys.argv[1]) as ledger:
    ledger.append("sent", "theirs", {})
"""


def test_another_process_that_closes_last_does_not_take_the_log_away_under_one_that_opened_the_file_twice(
    tmp_path: Path,
) -> None:
    """Whoever closes a file drops all locks of its process on it, unless SQLite does; the last one removes the log."""
    path = tmp_path / "ledger.sqlite"
    with Ledger(path) as first:
        first.append("sent", "mine", {})
        Ledger(path).close()
        subprocess.run([sys.executable, "-c", OTHER, str(path)], check=True, timeout=300)  # noqa: S603 (our own)
        assert path.with_name("ledger.sqlite-wal").exists()
        first.append("sent", "mine again", {})
    with Ledger(path) as last:
        assert [entry.key for entry in last.entries()[1:]] == ["mine", "theirs", "mine again"]
