"""Operating a home: backup and restoration, older databases, a systemd unit, containers."""

import configparser
import hashlib
import io
import json
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import threading
from pathlib import Path
from typing import Any

import pytest
from home_world import CONSUMER, Clock, Network, make_owner, terms
from typer.testing import CliRunner

from likeset.app import cli
from likeset.errors import HomeRestored, InvalidArgument, LikesetError
from likeset.homes.home import TABLES, Home, make_party, utc_now
from likeset.ledger import ledger

RUN = terms(expires="2099-01-01")


def likeset(*words: object) -> str:
    result = CliRunner().invoke(cli.app, list(map(str, words)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return make_owner(tmp_path)


class TestBackup:
    def test_a_restored_home_has_everything_but_keys_and_stops_at_a_letter_that_it_forgot(self, tmp_path: Path) -> None:
        clock, file, new = Clock(utc_now()), tmp_path / "a.tar", tmp_path / "new"
        with Network(tmp_path, clock=clock) as network:
            network.ask(RUN)
            network.look(CONSUMER, "a")
            network.owner().approve(RUN.run, RUN.digest, by="Ada")
            home = network.sync("a").home
            home.make_run_key(bytes(32), "a")
            for left_out in ("console", "split"):
                (home.folder / left_out).mkdir()
                (home.folder / left_out / "file").touch()
            for unfinished in ("home.sqlite.lock", ".owner.yaml.0123abcd"):
                (home.folder / unfinished).touch()
            head = home.database.head()
            told = json.loads(likeset("backup", file, "--home", tmp_path / "a", "--json"))  # while it is open
            network.look("a")  # posts what it signs
        assert file.stat().st_mode & 0o777 == 0o600
        assert told["left_out"] == ["keys of runs", "shares of split runs", "locks", "console links"]
        assert [path.name for path in tmp_path.glob(".*")] == []

        told = json.loads(likeset("restore", file, new, "--json"))
        assert (told["name"], len(told["notes"])) == ("a", 2)
        assert {path.relative_to(new).as_posix() for path in new.rglob("*") if path.is_file()} == {
            *("card", "card.secret", "home.sqlite", "home.yaml", "key", "owner.yaml"),
            *(f"data/patients/{name}.yaml" for name in ("schema", "source", "suspected")),
        }
        assert {path.stat().st_mode & 0o777 for path in (new, *new.rglob("*"))} == {0o600, 0o700}
        with Home(new) as opened:
            assert opened.database.head() == head
        with pytest.raises(HomeRestored):
            likeset("sync", "--home", new)

    def test_the_curator_of_a_consumer_is_in_its_backup(self, tmp_path: Path) -> None:
        make_party(tmp_path / "home", name="clinic", roles=["consumer", "curator"]).close()
        likeset("backup", tmp_path / "b.tar", "--home", tmp_path / "home")
        likeset("restore", tmp_path / "b.tar", tmp_path / "new")
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
                likeset("backup", tmp_path / f"{number}.tar", "--home", home)
        finally:
            done.set()
            writer.join()
        heads = []
        for number in range(3):
            likeset("restore", tmp_path / f"{number}.tar", tmp_path / f"new-{number}")
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
        with pytest.raises(InvalidArgument):
            likeset("backup", tmp_path / place, "--home", home)
        assert (tmp_path / "there.tar").read_text() == "mine"
        assert sorted(tmp_path.rglob("*")) == before

    @pytest.mark.parametrize("fault", ["missing", "text", "truncated", "changed", "outside", "link", "no manifest"])
    def test_what_is_no_backup_is_refused_and_leaves_nothing(self, home: Path, tmp_path: Path, fault: str) -> None:
        good, bad = tmp_path / "good.tar", tmp_path / "bad.tar"
        likeset("backup", good, "--home", home)
        _spoil(good, bad, fault)
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(LikesetError):
            likeset("restore", bad, tmp_path / "new")
        assert sorted(tmp_path.rglob("*")) == before

    def test_nothing_is_restored_over_something(self, home: Path, tmp_path: Path) -> None:
        likeset("backup", tmp_path / "b.tar", "--home", home)
        before = (home / "home.sqlite").read_bytes()
        with pytest.raises(InvalidArgument):
            likeset("restore", tmp_path / "b.tar", home)
        assert (home / "home.sqlite").read_bytes() == before
        (tmp_path / "empty").mkdir()
        likeset("restore", tmp_path / "b.tar", tmp_path / "empty")


def _spoil(good: Path, bad: Path, fault: str) -> None:
    content = good.read_bytes()
    if fault == "text":
        bad.write_text("likeset: backup")
    elif fault == "changed":
        bad.write_bytes(content.replace(b"smallest_group: 1", b"smallest_group: 0", 1))
    elif fault == "truncated":
        with tarfile.open(good) as archive:
            bad.write_bytes(content[: archive.getmembers()[-1].offset])  # between two files
    elif fault in ("outside", "link", "no manifest"):
        with tarfile.open(good) as archive, tarfile.open(bad, "w") as spoiled:
            for member in archive.getmembers()[: -1 if fault == "no manifest" else None]:
                spoiled.addfile(member, archive.extractfile(member) if member.isfile() else None)
            added = tarfile.TarInfo("../outside" if fault == "outside" else "home/link")
            if fault == "link":
                added.type, added.linkname = tarfile.SYMTYPE, "/etc/passwd"
            spoiled.addfile(added, io.BytesIO())


def test_a_database_of_an_older_likeset_is_refused_with_what_to_do(home: Path) -> None:
    with sqlite3.connect(home / "home.sqlite") as connection:
        connection.execute("PRAGMA user_version=3")
    result = CliRunner().invoke(cli.app, ["check", "--home", str(home), "--json"])
    assert result.exit_code == 1
    checks: dict[str, Any] = {check["check"]: check for check in json.loads(result.stdout)["checks"]}
    assert not checks["home"]["ok"]
    assert "go on with the likeset that wrote it, or begin anew" in checks["home"]["detail"]


def test_a_change_of_the_tables_needs_a_new_version() -> None:
    """Raise ``version`` in ledger.py with each change of this digest: tables of a home are not converted."""
    statements = [*ledger._LAYOUT.statements, *TABLES.values()]
    text = "\n".join(" ".join(statement.split()) for statement in statements)
    assert (ledger._LAYOUT.version, hashlib.sha256(text.encode()).hexdigest()[:16]) == (4, "2b7cefc522c4ed12")


def test_a_systemd_unit_lets_the_home_write_only_where_it_must(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, mailbox = tmp_path / "100% st mary", tmp_path / "mailbox"
    likeset("init", home, "--name", "st-mary", "--role", "owner", "--mailbox", mailbox.as_uri())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["/bin/true"])
    likeset("up", home, "--no-console", "--every", "5", "--install")
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read("likeset-st-mary.service")
    service = unit["Service"]
    place = str(home).replace("%", "%%")
    assert service["ExecStart"] == f'/bin/true up "{place}" --every 5 --log text --no-console'
    assert service["ReadWritePaths"] == f'"{place}" {mailbox}'
    assert (service["User"], service["Restart"]) == (home.owner(), "on-failure")
    assert (service["ProtectSystem"], service["NoNewPrivileges"]) == ("strict", "yes")
    with pytest.raises(InvalidArgument):  # it may have been changed by hand
        likeset("up", home, "--install")
    if verify := shutil.which("systemd-analyze"):
        judged = subprocess.run(  # noqa: S603
            [verify, "verify", "./likeset-st-mary.service"], capture_output=True, text=True, check=False
        )
        assert (judged.returncode, judged.stderr) == (0, "")
