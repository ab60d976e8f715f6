"""Operating a home: backup and restoration, databases of other versions, a systemd unit, containers, notifications."""

import configparser
import hashlib
import io
import json
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from home_world import CANARY, CONSUMER, Clock, Network, answer, approve, invite, make_owner, opened, rows_text, terms
from typed import document, mistake, run

from likeset.errors import BadDocument, LedgerUnavailable, LedgerUnreadable
from likeset.homes import notify, review
from likeset.homes.backup import LEFT_OUT
from likeset.homes.home import TABLES, Home, make_party, utc_now
from likeset.homes.notify import Notifier
from likeset.homes.runs import end_of
from likeset.ledger import ledger, sqlite_file

RUN = terms(expires="2099-01-01")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return make_owner(tmp_path)


class TestBackup:
    def test_a_restored_home_has_everything_but_keys_and_stops_at_a_letter_that_it_forgot(self, tmp_path: Path) -> None:
        clock, file, new = Clock(utc_now()), tmp_path / "a.tar", tmp_path / "new"
        with Network(tmp_path, clock=clock) as network:
            network.ask(RUN)
            network.turn(CONSUMER, "a")
            network.owner().approve(RUN.run, RUN.digest, by="Ada")
            home = network.sync("a").home
            home.make_run_key(bytes(32))
            for left_out in ("console", "split"):
                (home.folder / left_out).mkdir()
                (home.folder / left_out / "file").touch()
            for unfinished in ("home.sqlite.lock", ".owner.yaml.0123abcd"):
                (home.folder / unfinished).touch()
            head = home.database.head()
            told = document("backup", file, "--home", tmp_path / "a")  # while it is open
            network.turn("a")  # posts what it signs
        assert file.stat().st_mode & 0o777 == 0o600
        assert told["left_out"] == list(LEFT_OUT)
        assert [path.name for path in tmp_path.glob(".*")] == []

        told = document("restore", file, new)
        assert (told["name"], len(told["notes"])) == ("a", 2)
        assert {path.relative_to(new).as_posix() for path in new.rglob("*") if path.is_file()} == {
            *("card", "card.secret", "home.sqlite", "home.yaml", "key", "owner.yaml"),
            *(f"data/patients/{name}.yaml" for name in ("schema", "source")),
        }
        assert {path.stat().st_mode & 0o777 for path in (new, *new.rglob("*"))} == {0o600, 0o700}
        with Home(new) as opened:
            assert opened.database.head() == head
        assert "restored from an old backup" in mistake("sync", "--home", new)

    def test_the_curator_of_a_consumer_is_in_its_backup(self, tmp_path: Path) -> None:
        make_party(tmp_path / "home", name="clinic", roles=["consumer", "curator"]).close()
        run("backup", tmp_path / "b.tar", "--home", tmp_path / "home")
        run("restore", tmp_path / "b.tar", tmp_path / "new")
        with Home(tmp_path / "new") as opened:
            assert opened.own_curator is not None
            with Home(opened.own_curator) as curator:
                assert curator.name == "clinic-curator"
                assert curator.pins.get("clinic") is not None

    def test_a_backup_is_whole_while_others_write(self, home: Path, tmp_path: Path) -> None:
        done = threading.Event()

        def write() -> None:
            with Home(home) as opened:
                while not done.is_set():
                    opened.note("refused", "run", reason="a test")

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for number in range(3):
                run("backup", tmp_path / f"{number}.tar", "--home", home)
        finally:
            done.set()
            writer.join()
        heads = []
        for number in range(3):
            run("restore", tmp_path / f"{number}.tar", tmp_path / f"new-{number}")
            with Home(tmp_path / f"new-{number}") as opened:
                assert not opened.database.verify().problems
                heads.append(opened.database.head().number)
        assert heads[0] < heads[-1]

    @pytest.mark.parametrize("place", ["there.tar", "a/inside.tar", "no-folder/b.tar"])
    def test_a_backup_overwrites_nothing_and_stays_out_of_the_home(
        self, home: Path, tmp_path: Path, place: str
    ) -> None:
        (tmp_path / "there.tar").write_text("mine")
        before = sorted(tmp_path.rglob("*"))
        mistake("backup", tmp_path / place, "--home", home)
        assert (tmp_path / "there.tar").read_text() == "mine"
        assert sorted(tmp_path.rglob("*")) == before

    @pytest.mark.parametrize(
        "fault",
        ["missing", "truncated", "changed", "outside", "link", "link beside", "name", "nul", "header", "sparse"],
    )
    def test_what_is_no_backup_is_refused_and_leaves_nothing(self, home: Path, tmp_path: Path, fault: str) -> None:
        good, bad = tmp_path / "good.tar", tmp_path / "bad.tar"
        run("backup", good, "--home", home)
        _spoil(good, bad, fault)
        before = sorted(tmp_path.rglob("*"))
        words = mistake("restore", bad, tmp_path / "new")
        assert fault != "sparse" or "sparse files" in words
        assert sorted(tmp_path.rglob("*")) == before

    def test_nothing_is_restored_over_something(self, home: Path, tmp_path: Path) -> None:
        run("backup", tmp_path / "b.tar", "--home", home)
        before = (home / "home.sqlite").read_bytes()
        mistake("restore", tmp_path / "b.tar", home)
        assert (home / "home.sqlite").read_bytes() == before
        (tmp_path / "empty").mkdir()
        run("restore", tmp_path / "b.tar", tmp_path / "empty")


_HEADERS = {
    "nul": {"path": "home/a\0b"},
    "header": {"GNU.sparse.map": "x", "GNU.sparse.size": "1"},
    "sparse": {"GNU.sparse.map": "0,0", "GNU.sparse.size": "1048576"},  # more could be claimed than a disk has
}


def _spoil(good: Path, bad: Path, fault: str) -> None:
    content = good.read_bytes()
    if fault == "changed":
        bad.write_bytes(content.replace(b"smallest_group: 1", b"smallest_group: 0", 1))
    elif fault == "truncated":
        with tarfile.open(good) as archive:
            bad.write_bytes(content[: archive.getmembers()[-1].offset])  # between two files
    elif fault != "missing":
        with tarfile.open(good) as archive, tarfile.open(bad, "w") as spoiled:
            for member in archive.getmembers():
                spoiled.addfile(member, archive.extractfile(member) if member.isfile() else None)
            names = {"outside": "../outside", "name": "home/\udcff"}
            added = tarfile.TarInfo(names.get(fault, "home/added"))
            if fault in ("link", "link beside"):
                added.type, added.linkname = tarfile.SYMTYPE, "/etc/passwd" if fault == "link" else ".."
            if fault in _HEADERS:
                added.pax_headers = _HEADERS[fault]
            spoiled.addfile(added, io.BytesIO())


def _with_letters(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'letters'").fetchall())


def _mark_letters(connection: sqlite3.Connection) -> None:
    if _with_letters(connection):
        connection.execute("ALTER TABLE letters ADD COLUMN mark TEXT NOT NULL DEFAULT ''")
        connection.execute("UPDATE letters SET mark = 'marked ' || id")


def _index_marks(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE later (name TEXT)")
    if _with_letters(connection):
        connection.execute("CREATE INDEX letters_by_mark ON letters (mark)")


_LATER = (*sqlite_file.MIGRATIONS, _mark_letters, _index_marks)
_NOW = sqlite_file.OLDEST_VERSION + len(sqlite_file.MIGRATIONS)


@pytest.fixture
def used_home(tmp_path: Path) -> Path:
    """The home of an owner that has sent rows."""
    with opened(make_owner(tmp_path)) as owner:
        invite(owner, RUN)
        approve(owner, RUN)
        answer(owner, RUN)
    return tmp_path / "a"


def _rows_of(home: Path, *tables: str) -> dict[str, list[Any]]:
    with closing(sqlite3.connect(home / "home.sqlite")) as connection:
        return {table: connection.execute(f"SELECT * FROM {table}").fetchall() for table in tables}  # noqa: S608


class TestMigrations:
    def test_an_older_database_is_migrated_after_a_copy_and_its_log_stays_as_it_was(
        self, used_home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = _rows_of(used_home, "log", "drawn", "runs", "letters")
        with Home(used_home) as old:
            accounts = old.database.accounts()
        monkeypatch.setattr(sqlite_file, "MIGRATIONS", _LATER)
        with opened(used_home) as owner:
            assert owner.home.database.accounts() == accounts
            assert not owner.home.database.verify().problems
            assert owner.mail.rows_sent(owner.mail.runs()[0]) > 0
        after = _rows_of(used_home, "log", "drawn", "runs", "letters")
        assert before["letters"]
        assert after == before | {"letters": [(*row, f"marked {row[0]}") for row in before["letters"]]}
        copy = used_home / f"home.sqlite.version-{_NOW}"
        assert copy.stat().st_mode & 0o777 == 0o600
        monkeypatch.undo()
        (used_home / "home.sqlite").unlink()
        copy.rename(used_home / "home.sqlite")
        assert _rows_of(used_home, *before) == before
        with Home(used_home) as old:  # the likeset that wrote it reads the copy
            assert old.database.accounts() == accounts

    def test_a_death_at_any_statement_leaves_the_old_database_or_the_new_one(
        self, used_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        deaths = list[Path]()

        class Watched(sqlite3.Connection):
            """Before each statement, copies what a death would leave."""

            def execute(self, *arguments: Any) -> sqlite3.Cursor:
                if copying:
                    deaths.append(tmp_path / "deaths" / str(len(deaths)))
                    shutil.copytree(used_home, deaths[-1])
                return super().execute(*arguments)

        before, copying = _rows_of(used_home, "log", "letters"), True
        real = sqlite3.connect
        monkeypatch.setattr(sqlite_file, "MIGRATIONS", _LATER)
        monkeypatch.setattr(sqlite3, "connect", lambda *given, **named: real(*given, **{"factory": Watched, **named}))
        with Home(used_home) as home:
            home.database.refresh()
        copying = False
        monkeypatch.setattr(sqlite3, "connect", real)
        old = 0
        for death in deaths:
            with closing(sqlite3.connect(death / "home.sqlite")) as connection:
                (version,) = connection.execute("PRAGMA user_version").fetchone()
                assert version in (_NOW, _NOW + 2)
            old += version == _NOW
            if version == _NOW:
                assert _rows_of(death, *before) == before
            with Home(death) as home:
                assert not home.database.verify().problems
            assert _rows_of(death, "log")["log"] == before["log"]
            assert [row[-1] for row in _rows_of(death, "letters")["letters"]] == [
                f"marked {row[0]}" for row in before["letters"]
            ]
            assert (death / f"home.sqlite.version-{_NOW}").exists()
            assert not [path for path in death.glob(".*") if path.name.endswith("-wal")]
        assert 10 < old < len(deaths)

    def test_a_newer_database_is_refused_by_the_commands_and_by_a_process_that_has_it_open(
        self, used_home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with Home(used_home) as running:
            running.database.refresh()
            monkeypatch.setattr(sqlite_file, "MIGRATIONS", _LATER)
            with Home(used_home) as later:
                later.database.refresh()
            monkeypatch.undo()
            for use in (running.database.refresh, lambda: running.note("refused", "run", reason="a test")):
                with pytest.raises(LedgerUnreadable, match="install that likeset again"):
                    use()
        checks = {check["check"]: check for check in document("check", "--home", used_home, code=1)["checks"]}
        assert not checks["home"]["ok"]
        assert f"has format {_NOW + 2}, of a later likeset" in checks["home"]["detail"]

    def test_a_failed_migration_or_copy_changes_nothing(self, used_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        before = _rows_of(used_home, "log", "letters")
        monkeypatch.setattr(sqlite_file, "MIGRATIONS", (*_LATER, _mark_letters))  # adds the column again
        with Home(used_home) as home, pytest.raises(LedgerUnavailable, match="duplicate column"):
            home.database.refresh()
        assert _rows_of(used_home, "log", "letters") == before
        (used_home / f"home.sqlite.version-{_NOW}").unlink()
        (used_home / f"home.sqlite.version-{_NOW}").mkdir()
        monkeypatch.setattr(sqlite_file, "MIGRATIONS", _LATER)
        with Home(used_home) as home, pytest.raises(LedgerUnavailable, match="no copy could be kept"):
            home.database.refresh()
        assert _rows_of(used_home, "log", "letters") == before

    def test_reading_an_older_ledger_changes_nothing(self, used_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with Home(used_home) as home:
            accounts = home.database.accounts()
        content = (used_home / "home.sqlite").read_bytes()
        monkeypatch.setattr(sqlite_file, "MIGRATIONS", _LATER)
        with ledger.Ledger(used_home / "home.sqlite", read_only=True) as only_read:
            assert only_read.accounts() == accounts
            assert not only_read.verify().problems
        assert (used_home / "home.sqlite").read_bytes() == content
        assert not list(used_home.glob("home.sqlite.version-*"))

    def test_a_ledger_that_is_no_home_is_migrated_too(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with ledger.Ledger(tmp_path / "ledger") as old:
            head = old.append("refused", "run", {"reason": "a test"}).number
        monkeypatch.setattr(sqlite_file, "MIGRATIONS", _LATER)
        with ledger.Ledger(tmp_path / "ledger") as new:
            assert new.head().number == head

    def test_copies_go_when_the_bytes_of_a_run_are_deleted(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        clock = Clock(utc_now())
        with opened(make_owner(tmp_path), clock=clock) as owner:
            invite(owner, RUN)
            approve(owner, RUN)
            answer(owner, RUN)
        monkeypatch.setattr(sqlite_file, "MIGRATIONS", _LATER)
        with opened(tmp_path / "a", clock=clock) as owner:
            owner.mail.tick()
            assert (tmp_path / "a" / f"home.sqlite.version-{_NOW}").exists()
            clock.now = end_of(RUN) + timedelta(days=1)
            owner.mail.tick()
            assert not list((tmp_path / "a").glob("home.sqlite.version-*"))


_RUNS_9: Final = """CREATE TABLE runs (
    digest BLOB PRIMARY KEY NOT NULL, party TEXT NOT NULL, name TEXT NOT NULL, role TEXT NOT NULL,
    mailbox TEXT NOT NULL, signed BLOB NOT NULL, acceptance BLOB NOT NULL, ends REAL NOT NULL, at TEXT NOT NULL,
    state TEXT NOT NULL, detail TEXT NOT NULL, due REAL, reviewed INTEGER NOT NULL,
    decided TEXT NOT NULL, decided_by TEXT NOT NULL, decided_at TEXT NOT NULL, reason TEXT NOT NULL,
    data TEXT NOT NULL, smallest_group INTEGER
)"""
_SAME: Final = "digest, party, name, role, mailbox, signed, acceptance, ends, at, due, reviewed, data, smallest_group"


@pytest.mark.parametrize(
    ("was", "decided", "state", "ending", "reason", "words"),
    [
        (("waiting", ""), ("", "", ""), "waiting", None, "", ""),
        (("invited", "epsilon: too much"), ("", "", ""), "invited", None, "epsilon: too much", ""),
        (("refused", "denied"), ("denied", "Ada", "no contract"), "refused", None, "", "denied by Ada at"),
        (("accepted", ""), ("approved", "owner.yaml", ""), "accepted", None, "", "approved by owner.yaml (rules) at"),
        (("begun", "a.csv: is gone"), ("approved", "Ada", ""), "stopped", None, "a.csv: is gone", "approved by Ada at"),
        (("closed", "done"), ("approved", "Ada", ""), "closed", ("done", ""), "", "approved by Ada at"),
        (
            *(("cancelled", "withdrawn: by Bob"), ("approved", "Ada", ""), "cancelled"),
            *(("withdrawn", "by Bob"), "by Bob", "withdrawn by Bob at"),
        ),
    ],
)
def test_a_run_of_the_version_before_states_were_separate(
    used_home: Path,
    was: tuple[str, str],
    decided: tuple[str, str, str],
    state: str,
    ending: tuple[str, str] | None,
    reason: str,
    words: str,
) -> None:
    with closing(sqlite3.connect(used_home / "home.sqlite")) as connection, connection:
        (row,) = connection.execute(f"SELECT {_SAME} FROM runs").fetchall()  # noqa: S608
        connection.executescript(
            f"DROP TABLE runs; DROP TABLE decisions; DROP TABLE troubles; {_RUNS_9}; PRAGMA user_version = 9"
        )
        values = (*row, *was, *decided, "2029-03-05T12:00:00+00:00")
        columns = f"{_SAME}, state, detail, decided, decided_by, reason, decided_at"
        connection.execute(f"INSERT INTO runs ({columns}) VALUES ({', '.join('?' * len(values))})", values)  # noqa: S608
    with opened(used_home) as owner:
        (run,) = owner.mail.runs()
        assert (run.state, run.ending, run.reason, run.progress) == (state, ending, reason, "")
        assert review.last_word(run).startswith(words)
        assert bool(run.decided) == bool(words)
        with owner.home.database.snapshot() as connection:
            schema = {text for (text,) in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
        assert {" ".join(text.split()) for text in TABLES.values()} <= {" ".join(text.split()) for text in schema}


def test_a_change_of_the_tables_needs_a_migration() -> None:
    """Add to ``MIGRATIONS`` in sqlite_file.py with each change of this digest."""
    statements = [*ledger.TABLES, *TABLES.values()]
    text = "\n".join(" ".join(statement.split()) for statement in statements)
    assert (len(sqlite_file.MIGRATIONS), hashlib.sha256(text.encode()).hexdigest()[:16]) == (2, "a84c377ac92d344f")


def test_one_process_at_a_time_runs_a_home_and_a_second_is_told_its_number(home: Path) -> None:
    with Home(home) as held, held.held_by_up():
        assert f"process {os.getpid()}" in mistake("up", home, "--no-console")
        run("sync", "--home", home, "--mailbox", home.parent.as_uri())
    with Home(home) as free, free.held_by_up():
        pass


def test_the_systemd_unit_of_the_page_runs_a_home_that_can_write_only_where_it_must(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "deploying.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```ini\n(\[Unit\].*?)```", page, re.DOTALL)
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(text)
    service = unit["Service"]
    words = shlex.split(service["ExecStart"])
    assert Path(words[0]).name == "likeset"
    assert (words[1], words[3:]) == ("up", ["--port", "8321"])
    assert words[2] in service["ReadWritePaths"].split()
    assert (service["ProtectSystem"], service["NoNewPrivileges"]) == ("strict", "yes")
    if verify := shutil.which("systemd-analyze"):
        path = tmp_path / "likeset-st-mary.service"
        path.write_text(text.replace(words[0], "/bin/true"), encoding="utf-8")
        judged = subprocess.run([verify, "verify", str(path)], capture_output=True, text=True, check=False)  # noqa: S603
        assert (judged.returncode, judged.stderr) == (0, "")


# Notifications, and lines of ``likeset up`` for machines.


@pytest.fixture
def told_to(tmp_path: Path) -> Path:
    """Where the command of ``ask_for`` writes what it was told."""
    (tmp_path / "told").touch()
    return tmp_path / "told"


def ask_for(folder: Path, told_to: Path | None = None, **notify: Any) -> None:
    if told_to is not None:
        notify["command"] = ["sh", "-c", 'cat >> "$0"; echo >> "$0"', str(told_to)]
    settings = folder / "home.yaml"
    lines = [line for line in settings.read_text().splitlines() if not line.startswith("notify:")]
    settings.write_text("\n".join([*lines, f"notify: {json.dumps(notify)}\n"]))


def events_in(path: Path) -> list[tuple[str, str]]:
    documents = map(json.loads, path.read_text().splitlines())
    return [(document["event"], document["run"]) for document in documents]


@contextmanager
def notifier(folder: Path, clock: Clock | None = None) -> Iterator[tuple[Notifier, list[str]]]:
    told = list[str]()
    with Home(folder, clock=clock or Clock()) as home:
        yield Notifier(home, told.append), told


def test_each_event_of_an_owner_is_told_once_and_without_rows(tmp_path: Path, told_to: Path) -> None:
    folder = make_owner(tmp_path, rare=3, smallest_group=1, total={"epsilon": 0, "delta": 1e-5, "rows": 15})
    ask_for(folder, told_to)
    clock, told = Clock(), list[str]()
    home = Home(folder, clock=clock)
    tell = Notifier(home, told.append)

    def checked(*unreachable: str) -> list[tuple[str, str]]:
        told_to.write_text("")
        tell(unreachable)
        tell(unreachable)
        assert told == []
        for row in rows_text(1, rare=3).splitlines()[1:]:
            assert not any(dose in told_to.read_text() for dose in [CANARY, row.split(",")[1]])
        assert str(tmp_path) not in told_to.read_text()
        return events_in(told_to)

    assert checked() == []
    with opened(folder, clock=clock) as owner:
        run = invite(owner, RUN)
    assert checked() == [("waiting", "run-1")]
    assert checked() == []
    clock.now = run.deadline - timedelta(hours=25)
    assert checked() == []
    clock.now = run.deadline - timedelta(hours=23)
    assert checked() == [("deadline", "run-1")]
    document = json.loads(told_to.read_text())
    assert (document["home"], document["deadline"]) == ("a", run.deadline.isoformat())
    assert checked() == []
    with opened(folder, clock=clock) as owner:
        approve(owner, RUN)
        answer(owner, RUN)
    assert ("budget", "") in checked()
    assert checked() == []
    away = f"file://{tmp_path}/away"
    assert checked(away) == [("mailbox", "")]
    assert checked(away) == []
    assert checked() == []
    assert checked(away) == [("mailbox", "")]
    home.close()


def test_a_consumer_is_told_when_owners_have_one_day_left(tmp_path: Path, told_to: Path) -> None:
    with Network(tmp_path) as world:
        run = world.ask(RUN)
        ask_for(world.consumer.home.folder, told_to)
        for hours in (25, 23, -1):
            with notifier(world.consumer.home.folder, Clock(run.deadline - timedelta(hours=hours))) as (tell, _):
                tell()
    assert events_in(told_to) == [("deadline", "run-1")]


def test_a_command_that_fails_is_logged_once_and_tried_again_after_a_rest(
    tmp_path: Path, told_to: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_owner(tmp_path)
    ask_for(folder, command=["sh", "-c", 'cat >> "$0"; echo >> "$0"; test ! -e "$0.fails"', str(told_to)])
    Path(f"{told_to}.fails").touch()
    with notifier(folder) as (tell, failed):
        for _ in range(3):
            tell(["file:///away"])
        assert len(events_in(told_to)) == 1
        monkeypatch.setattr(notify, "_REST", -1.0)
        tell._again = 0.0
        tell(["file:///away"])
        Path(f"{told_to}.fails").unlink()
        for _ in range(3):
            tell(["file:///away"])
        assert len(events_in(told_to)) == 3
        (line,) = failed
        assert "CalledProcessError" in line
        assert "away" not in line


@pytest.mark.parametrize(
    "wrong",
    [
        {"webhook": "https://user:hunter2@example.org/"},
        {"command": ["send", 1]},
        {"command": "send --now"},
    ],
)
def test_wrong_settings_are_refused_by_line_and_without_their_values(tmp_path: Path, wrong: dict[str, Any]) -> None:
    folder = make_owner(tmp_path)
    ask_for(folder, **wrong)
    with Home(folder) as home, pytest.raises(BadDocument) as refused:
        home.settings  # noqa: B018
    assert refused.value.field.startswith("notify")
    assert "hunter2" not in str(refused.value)


@pytest.mark.slow
def test_up_notifies_by_a_command_and_logs_json_with_level_party_and_run(tmp_path: Path) -> None:
    """The command ends ``up``, which is its parent."""
    folder = make_owner(tmp_path)
    script = "import os, signal, sys; told = sys.stdin.read(); open(sys.argv[1], 'a').write(told + '\\n')"
    script += "; 'unreachable' in told and os.kill(os.getppid(), signal.SIGTERM)"
    ask_for(folder, command=[sys.executable, "-c", script, str(tmp_path / "told")])
    with opened(folder) as owner:
        invite(owner, RUN)
    words = ("up", folder, "--log", "json", "--mailbox", f"file://{tmp_path}/none", "--every", "0.1")
    done = subprocess.run(  # noqa: S603 (our own command)
        [sys.executable, "-c", "from likeset.app.cli import main; main()", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env=os.environ | {"JOURNAL_STREAM": "9:1"},
    )
    assert "/enter?token=" not in done.stdout, "others read the journal"
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert {line["party"] for line in lines} == {"a"}
    assert all({"at", "level", "run", "message"} <= line.keys() for line in lines)
    warnings = [line["message"] for line in lines if line["level"] == "warning"]
    assert any(words.startswith("mailbox ") for words in warnings)
    told = [json.loads(line) for line in (tmp_path / "told").read_text().splitlines()]
    assert [document["event"] for document in told] == ["waiting", "mailbox"]
