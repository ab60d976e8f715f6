"""``docs/deploying-nvflare.md``, pasted word by word on one machine: an owner, a curator and a consumer talk."""

import importlib.util
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from documented_pages import ROOT, files_to_paste, lines_to_paste
from likeset.homes import review
from likeset.homes.owner import open_owner

PAGE = ROOT / "docs/deploying-nvflare.md"
DONE_HERE = ("pip ", "mkdir ", "cd ")
LINES = lines_to_paste(PAGE, without=DONE_HERE)
FILES = files_to_paste(PAGE)
PORT = "8102"
KITS = ("localhost", "clinic", "st-mary", "curator")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A place whose processes are stopped in any case."""
    yield tmp_path
    for name in KITS:
        kit = tmp_path / "kits/trial/prod_00" / name
        if kit.exists():
            (kit / "shutdown.fl").touch()
    time.sleep(5)
    written = [*tmp_path.glob("kits/trial/prod_00/*/*pid.fl"), *tmp_path.glob("*.pid")]
    for pid in (path.read_text().strip() for path in written):
        if pid.isdigit() and Path(f"/proc/{pid}").exists():
            os.kill(int(pid), 9)


@pytest.mark.skipif(importlib.util.find_spec("nvflare") is None, reason="needs likeset[nvflare]")
@pytest.mark.soak
def test_an_owner_and_a_curator_talk_when_the_page_is_pasted(folder: Path) -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = str(one.getsockname()[1])  # the page's own may be taken here
    for name, text in FILES.items():
        (folder / name).write_text(text.replace(PORT, port))
    environment = os.environ | {"COLUMNS": "100", "OPENBLAS_NUM_THREADS": "1"}
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment.get("PATH", "")])
    written = folder / "console.txt"  # NVFlare's processes go on writing into it
    with written.open("wb") as console:
        done = subprocess.run(  # noqa: S603 - what a reader of our own page would paste
            ["/bin/bash", "-c", "\n".join(["set -e", *LINES])],
            cwd=folder,
            env=environment,
            stdout=console,
            stderr=console,
            timeout=600,
            check=False,
        )
    said = written.read_text(encoding="utf-8", errors="replace")
    assert done.returncode == 0, said[-5000:]
    assert "20 rows from" in re.sub(r"\s+", " ", said)
    with open_owner(folder / "st-mary") as owner:
        assert review.sent_run(owner, "first")["receipt"] == "yes"
