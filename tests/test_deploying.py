"""``docs/deploying.md``, pasted word by word on one machine: homes, a mailbox, and no certificate."""

import codecs
import os
import pty
import re
import select
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from mail_servers import ssh_server

from conftest import BaseInstall
from documented_pages import ROOT, files_to_paste, lines_to_paste
from likeset.homes import review
from likeset.homes.consumer import Consumer
from likeset.homes.home import Home
from likeset.homes.mail import Mail
from likeset.homes.owner import open_owner

PAGE = ROOT / "docs/deploying.md"
DONE_HERE = ("pip ", "mkdir trial", "cd ")
LINES = lines_to_paste(PAGE, without=DONE_HERE)
FILES = files_to_paste(PAGE)
SPLIT_BEGINS = "likeset split setup"
SPLIT_ENDS = "likeset run report second --home clinic"
WORKERS = Path(os.environ.get("LIKESET_SPLIT", ROOT / ".venv-split")) / "bin" / "python"
_SECONDS = 300.0


def pasted(*, split: bool) -> list[str]:
    """The lines of the trial; those about a split curator need workers."""
    begin, end = LINES.index(SPLIT_BEGINS), LINES.index(SPLIT_ENDS)
    return LINES if split else [*LINES[:begin], *LINES[end + 1 :]]


class Terminal:
    def __init__(self, line: str, folder: Path, environment: Mapping[str, str]) -> None:
        self.ours, theirs = pty.openpty()
        self.seen, self.decoder = "", codecs.getincrementaldecoder("utf-8")()
        self.program = subprocess.Popen(  # noqa: S603 - what a reader of our own page would paste
            shlex.split(line), cwd=folder, env=dict(environment), stdin=theirs, stdout=theirs, stderr=theirs
        )
        os.close(theirs)

    def until(self, pattern: str) -> str:
        """Read until the screen shows something; returns it."""
        end = time.monotonic() + _SECONDS
        while (found := re.search(pattern, self.seen)) is None:
            assert time.monotonic() < end, self.seen
            if select.select([self.ours], [], [], 1.0)[0]:
                try:
                    read = self.decoder.decode(os.read(self.ours, 1 << 16))
                except OSError as error:  # it ended
                    raise AssertionError(self.seen) from error
                self.seen = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.seen + read)
        self.seen = self.seen[found.end() :]
        return found[1] if found.groups() else found[0]

    def say(self, words: str) -> None:
        os.write(self.ours, f"{words}\n".encode())

    def ends(self) -> None:
        self.until("joined  pinned")
        assert self.program.wait(_SECONDS) == 0
        os.close(self.ours)


class Shell:
    """One shell that runs lines; its jobs stay until it ends."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.said = ""
        self.program = subprocess.Popen(
            ["/bin/bash", "--norc"],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, line: str) -> None:
        assert self.program.stdin is not None
        assert self.program.stdout is not None
        self.program.stdin.write(f"{line}\necho the code is $?\n")
        self.program.stdin.flush()
        for answer in self.program.stdout:
            if answer.startswith("the code is "):
                assert answer == "the code is 0\n", (line, self.said[-5000:])
                return
            self.said += answer


@contextmanager
def opened_shell(folder: Path, environment: Mapping[str, str]) -> Iterator[Shell]:
    shell = Shell(folder, environment)
    try:
        yield shell
    finally:
        shell.program.communicate("kill $(jobs -p) 2>/dev/null\nexit\n", timeout=_SECONDS)


def paste(lines: list[str], folder: Path, environment: Mapping[str, str], host: str) -> str:
    """Run the lines; `invite` and `join` at two terminals, with one person who reads words out and types them."""
    inviter: Terminal | None = None
    with opened_shell(folder, environment) as shell:
        for line in lines:
            if line.startswith("likeset invite"):
                inviter = Terminal(line, folder, environment)
                inviter.until("likeset join")
            elif line.startswith("likeset join"):
                assert inviter is not None
                joiner = Terminal(line, folder, environment)
                if not (folder / line.split()[2].removesuffix(".invite") / "home.yaml").exists():
                    joiner.until("Enter alone writes a file instead")
                    joiner.say(host)
                words = inviter.until(r"these words out:\s+((?:[a-z]+ ?){8,12})\r?\n").strip()
                joiner.until("Enter alone ends")
                joiner.say(words)
                joiner.ends()
                inviter.until("Enter alone pins nothing")
                inviter.say(words)
                inviter.ends()
            else:
                shell.run(line)
    return shell.said


NEEDS_WORKERS = pytest.mark.skipif(
    not WORKERS.exists(), reason=f"there is no environment for workers at {WORKERS}; make it with `make split`"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "split",
    [pytest.param(False, id="trusted"), pytest.param(True, id="then split", marks=[NEEDS_WORKERS, pytest.mark.soak])],
)
def test_owner_and_consumer_get_a_result_when_the_page_is_pasted(
    base_install: BaseInstall, tmp_path: Path, split: bool
) -> None:
    """With the base dependencies alone: jobs that serve stay until the page stops them."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    environment = base_install.variables() | {"COLUMNS": "200", "LIKESET_SPLIT_PYTHON": str(WORKERS)}
    said = paste(pasted(split=split), tmp_path, environment, str(tmp_path / "mailbox"))
    assert "Traceback" not in said
    assert "20 rows from" in re.sub(r"\s+", " ", said)
    with open_owner(tmp_path / "st-mary") as owner:
        assert review.sent_run(owner, "first")["receipt"] == "yes"
    assert "<style>" in (tmp_path / "demo/matched/report.html").read_text(encoding="utf-8")
    if split:
        with Home(tmp_path / "clinic") as home:
            consumer = Consumer(Mail(home))
            run = consumer.run("second")
            assert run.terms.split is not None
            assert len(consumer.folder("second").summary(run.terms).rows) == 20
    for name in ("st-mary", *(["hub", "university"] if split else [])):
        log = (tmp_path / f"{name}.log").read_text(encoding="utf-8")
        assert "stopped between two letters" in log.splitlines()[-1], log


@pytest.mark.slow
def test_the_page_by_sftp(tmp_path: Path) -> None:
    """With the mailbox on a server; the key is named, since no other may be used before words were compared."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "server").mkdir()
    with ssh_server(tmp_path / "server") as server:
        lines = [line.replace('"file://$PWD/mailbox"', server.address) for line in pasted(split=False)]
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, **server.environment, "PATH": path, "COLUMNS": "200", "NO_COLOR": "1"}
        said = paste(lines, tmp_path, environment, "127.0.0.1")
        assert any(server.mailbox.iterdir())
    assert not any((tmp_path / "mailbox").iterdir())
    assert "20 rows from" in re.sub(r"\s+", " ", said)
