"""Runs by mailbox as people type them: ``likeset run start``, ``owner sync``, ``curator sync`` and what goes wrong."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[1] / "run"))
sys.path.insert(0, str(Path(__file__).parents[1] / "transports" / "mailbox"))

from mail_servers import mail_environment, ssh_server
from remote_world import make_world

from likeset.app.cli import app
from likeset.errors import BudgetExceeded, InvalidArgument


class Houses:
    """Two owners who decide by their policies, a curator, a consumer without a kit, and a folder between them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        make_world(folder)
        self.mailbox = folder / "mailbox"
        self.mailbox.mkdir()
        home = folder / "home" / "consumer.yaml"
        home.write_text(f"name: new-clinic\nmailboxes: ['{self.mailbox.as_uri()}']\n", encoding="utf-8")

    def call(self, *words: object, code: int = 0) -> str:
        result = CliRunner().invoke(app, [str(word) for word in words])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return result.stdout

    def run(self, *words: object, code: int = 0) -> Any:
        return json.loads(self.call("run", *words, "--home", self.folder / "home", "--json", code=code))

    def owner(self, name: str, *words: object, code: int = 0) -> Any:
        place = ("--node", self.folder / f"node-{name}", "--mailbox", self.mailbox)
        return json.loads(self.call("owner", "sync", *place, *words, "--json", code=code))

    def curator(self) -> Any:
        place = ("--home", self.folder / "curator", "--mailbox", self.mailbox.as_uri())
        return json.loads(self.call("curator", "sync", *place, "--json"))

    def all_look(self) -> None:
        self.curator()
        for name in ("a", "b"):
            self.owner(name)


@pytest.fixture
def houses(tmp_path: Path) -> Houses:
    return Houses(tmp_path)


def test_a_run_goes_from_the_terms_to_the_result_by_looks_alone(houses: Houses) -> None:
    started = houses.run("start", houses.folder / "job.yaml", "--decide-within", 3)
    assert started["parties"] == dict.fromkeys(("curator", "a", "b"), "has not got the terms")
    assert (started["sent"], started["began"], started["troubles"]) == (3, False, [])
    houses.all_look()
    (progress,) = houses.run("sync")["runs"]
    assert progress["parties"] == dict.fromkeys(("curator", "a", "b"), "takes part")
    assert progress["began"]
    assert houses.run("collect", "run-1", code=1)["result"] is None
    for _ in range(2):
        houses.all_look()
    houses.curator()
    done = houses.run("watch", "run-1")
    assert (done["ended"], done["cancelled"]) == ("done", False)
    collected = houses.run("collect", "run-1")
    assert collected["result"]["rows_selected"] == 6
    assert collected["result"]["warnings"] == []
    (listed,) = houses.run("list")["runs"]
    assert (listed["mailbox"], listed["result"]) == (houses.mailbox.as_uri(), True)
    with pytest.raises(InvalidArgument, match="there is nothing to cancel"):
        houses.run("cancel", "run-1")


def test_people_read_who_has_the_terms_what_is_waited_for_and_until_when(houses: Houses) -> None:
    told = houses.call("run", "start", houses.folder / "job.yaml", "--home", houses.folder / "home")
    assert "a: has not got the terms" in told
    assert "begins when all have answered, or at " in told
    assert "the terms end on " in told
    assert f"likeset run watch run-1 --home {houses.folder / 'home'}" in told
    watched = houses.call("run", "watch", "run-1", "--once", "--home", houses.folder / "home")
    assert f"Next: likeset run watch run-1 --home {houses.folder / 'home'}" in watched


def test_a_cancelled_run_is_taken_back_and_stays_cancelled(houses: Houses) -> None:
    houses.run("start", houses.folder / "job.yaml")
    assert any(path.is_file() for path in houses.mailbox.rglob("*"))
    assert houses.run("cancel", "run-1") == {"run": "run-1", "cancelled": True, "troubles": []}
    assert not any(path.is_file() for path in houses.mailbox.rglob("*"))
    houses.run("sync")
    assert not any(path.is_file() for path in houses.mailbox.rglob("*"))
    assert houses.run("watch", "run-1", code=1)["cancelled"]
    with pytest.raises(InvalidArgument, match="was cancelled; give the job another name"):
        houses.run("start", houses.folder / "job.yaml")


def test_a_run_travels_by_one_mailbox(houses: Houses) -> None:
    houses.run("start", houses.folder / "job.yaml")
    with pytest.raises(InvalidArgument, match="travels by another one already"):
        houses.run("start", houses.folder / "job.yaml", "--mailbox", houses.folder / "other")


def test_a_mailbox_that_is_gone_is_said_in_one_line_and_tried_again(houses: Houses) -> None:
    houses.run("start", houses.folder / "job.yaml")
    aside = houses.folder / "aside"
    houses.mailbox.rename(aside)
    look = houses.owner("a", code=1)
    assert (look["taken"], len(look["troubles"])) == (0, 1)
    assert look["troubles"][0].startswith(f"mailbox {houses.mailbox.as_uri()}: ")
    aside.rename(houses.mailbox)
    assert houses.owner("a")["taken"] == 1


def test_of_a_mailbox_that_is_gone_it_is_not_said_that_nothing_is_new(houses: Houses) -> None:
    sync = ("owner", "sync", "--node", houses.folder / "node-a", "--mailbox", houses.mailbox)
    assert houses.call(*sync) == "nothing new\n"
    houses.mailbox.rmdir()
    assert houses.call(*sync, code=1) == "", "the trouble is on standard error"


@pytest.mark.parametrize(("role", "place"), [("owner", "--node"), ("curator", "--home")])
def test_who_knows_nobody_is_told_that_no_mailbox_is_tried(houses: Houses, role: str, place: str) -> None:
    home = houses.folder / ("node-a" if role == "owner" else "curator")
    sync = (role, "sync", place, home, "--mailbox", houses.mailbox)
    assert "no card is pinned here" not in houses.call(*sync)
    shutil.rmtree(home / "cards")
    houses.mailbox.rmdir()
    assert "no card is pinned here, so no mailbox is tried" in houses.call(*sync)


def test_terms_that_could_not_be_posted_are_kept_and_posted_by_the_next_look(houses: Houses) -> None:
    shutil.rmtree(houses.mailbox)
    assert houses.run("start", houses.folder / "job.yaml", code=1)["troubles"]
    houses.mailbox.mkdir()
    assert houses.run("sync")["sent"] == 3


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (("--mailbox", "sftp://user:hunter2@host/x"), r"--mailbox.*has a password in it"),
        (("--mailbox", "ftp://host/x"), "ftp:// is not known"),
        ((), r"no mailbox is named: .* mailboxes: in owner.yaml"),
    ],
)
def test_an_address_that_cannot_be_used_says_what_to_do(houses: Houses, words: tuple[str, ...], match: str) -> None:
    with pytest.raises(InvalidArgument, match=match) as refused:
        houses.call("owner", "sync", "--node", houses.folder / "node-a", *words)
    assert "hunter2" not in str(refused.value)


def test_a_password_in_the_settings_is_refused_with_file_line_and_field(houses: Houses) -> None:
    policy = houses.folder / "node-a" / "owner.yaml"
    policy.write_text(policy.read_text() + "mailboxes: ['sftp://user:hunter2@host/x']\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"owner.yaml.*mailboxes.*has a password in it") as refused:
        houses.call("owner", "sync", "--node", houses.folder / "node-a")
    assert "hunter2" not in str(refused.value)


@pytest.mark.slow
def test_a_file_name_that_is_not_utf8_on_a_server_ends_no_serve(houses: Houses, tmp_path: Path) -> None:
    """Whoever puts one into its own folder would otherwise stop every peer, at each start."""
    (tmp_path / "ssh").mkdir()
    with ssh_server(tmp_path / "ssh") as server, mail_environment(server):
        home = houses.folder / "home" / "consumer.yaml"
        home.write_text(f"name: new-clinic\nmailboxes: ['{server.address}']\n", encoding="utf-8")
        houses.run("start", houses.folder / "job.yaml")
        for folder in server.mailbox.iterdir():
            Path(os.fsdecode(os.fsencode(folder) + b"/\xff")).touch()
        place = ["--node", houses.folder / "node-a", "--mailbox", server.address]
        script = "from likeset.app.cli import main; main()"
        with subprocess.Popen(  # noqa: S603 (our own command)
            [sys.executable, "-u", "-c", script, *map(str, ("owner", "serve", *place))],
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            told = process.stdout.readline() + process.stdout.readline()
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=600)
        assert "1 letter came, 1 letter went" in told
        assert process.returncode == 0
        assert houses.call("owner", "sync", *place) == "nothing new\n"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serve_ends_between_two_letters_with_one_line_and_exit_code_0(houses: Houses, number: int) -> None:
    words = ["owner", "serve", "--node", houses.folder / "node-a", "--mailbox", houses.mailbox.as_uri()]
    script = "from likeset.app.cli import main; main()"
    with subprocess.Popen(  # noqa: S603 (our own command)
        [sys.executable, "-u", "-c", script, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"COLUMNS": "80"},
    ) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        process.send_signal(number)
        rest = process.communicate(timeout=600)[0]
    assert "looking into 1 mailbox; Ctrl-C ends it" in first
    assert rest.count("\n") == 1
    assert "stopped between two letters" in rest
    assert process.returncode == 0


def test_one_look_at_a_mailbox_in_trouble_ends_with_exit_code_1(houses: Houses) -> None:
    houses.run("start", houses.folder / "job.yaml")
    houses.mailbox.rename(houses.folder / "aside")
    (trouble,) = houses.run("watch", "run-1", "--once", code=1)["troubles"]
    assert trouble.startswith(f"mailbox {houses.mailbox.as_uri()}: ")
    (houses.folder / "aside").rename(houses.mailbox)
    assert houses.run("watch", "run-1", "--once")["troubles"] == []


def test_a_cancelled_run_tells_machines_of_trouble_with_its_mailbox(houses: Houses) -> None:
    houses.run("start", houses.folder / "job.yaml")
    houses.mailbox.rename(houses.folder / "aside")
    told = houses.run("cancel", "run-1")
    assert told["cancelled"]
    assert told["troubles"][0].startswith(f"mailbox {houses.mailbox.as_uri()}: ")


def write_job(houses: Houses, **changes: object) -> Path:
    path = houses.folder / "other.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load((houses.folder / "job.yaml").read_text()) | changes))
    return path


def test_a_run_that_releases_nothing_whatever_its_epsilon_says_so_when_it_starts(houses: Houses) -> None:
    """With 30 rows at epsilon = 1 a release would be noise: none is made, and a spent budget allows the run."""
    first, second = (
        [warning["kind"] for warning in houses.run("start", job)["warnings"]]
        for job in (houses.folder / "job.yaml", write_job(houses, run="run-2", epsilon=1.0))
    )
    assert "uniform-offers" not in first
    assert "uniform-offers" in second


def test_a_purpose_that_stewards_would_not_be_shown_in_full_is_refused_before_anything_is_posted(
    houses: Houses,
) -> None:
    with pytest.raises(InvalidArgument, match=r"purpose = .* at most 500 characters"):
        houses.run("start", write_job(houses, purpose="x" * 501))
    assert list(houses.mailbox.iterdir()) == []


def test_a_spent_budget_refuses_a_run_that_would_release_something(houses: Houses) -> None:
    """Of epsilon = 8 the first run has spent a part; 7.9 more are refused before anything is signed or posted."""
    houses.run("start", houses.folder / "job.yaml")
    posted = sorted(houses.mailbox.rglob("*"))
    with pytest.raises(BudgetExceeded):
        houses.run("start", write_job(houses, run="run-2", epsilon=7.9))
    assert sorted(houses.mailbox.rglob("*")) == posted
    assert [run["run"] for run in houses.run("list")["runs"]] == ["run-1"]


def test_the_plan_of_rounds_says_that_each_is_a_look(houses: Houses) -> None:
    path = write_job(
        houses, protocol="interactive", seed_rows="target.csv", owners={"a": "network:a", "b": "network:b"}
    )
    notes = json.loads(houses.call("run", "plan", path, "--json"))["between_organisations"]
    (note,) = [note for note in notes if note["kind"] == "rounds-are-looks"]
    assert "6 rounds" in note["text"]
    plain = json.loads(houses.call("run", "plan", houses.folder / "job.yaml", "--json"))["between_organisations"]
    assert "rounds-are-looks" not in [note["kind"] for note in plain]
