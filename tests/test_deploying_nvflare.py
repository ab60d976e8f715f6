"""``docs/deploying-nvflare.md``, pasted word by word on one machine: two owners and a curator talk."""

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
from likeset.homes import owner_node
from likeset.homes.owner_node import OwnerNode

PAGE = ROOT / "docs/deploying-nvflare.md"
DONE_HERE = ("pip ", "mkdir ", "cd ")
LINES = lines_to_paste(PAGE, without=DONE_HERE)
FILES = files_to_paste(PAGE)
PORT = "8102"
SITES = ("localhost", "clinic", "st-mary", "north", "curator")


def test_the_page_names_its_files_and_commands() -> None:
    assert set(FILES) == {"project.yaml", "st-mary.yaml", "north.yaml", "job.yaml"}
    assert sum(line.startswith("likeset ") for line in LINES) > 25
    assert sum(line.startswith("likeset card pin ") for line in LINES) == 8
    assert sum(line.endswith("start.sh") for line in LINES) == len(SITES)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A place whose sites are stopped in any case."""
    yield tmp_path
    for site in SITES:
        kit = tmp_path / "kits/trial/prod_00" / site
        if kit.exists():
            (kit / "shutdown.fl").touch()
    time.sleep(5)
    written = [*tmp_path.glob("kits/trial/prod_00/*/*pid.fl"), *tmp_path.glob("*.pid")]
    for pid in (path.read_text().strip() for path in written):
        if pid.isdigit() and Path(f"/proc/{pid}").exists():
            os.kill(int(pid), 9)


@pytest.mark.skipif(importlib.util.find_spec("nvflare") is None, reason="needs likeset[nvflare]")
@pytest.mark.slow
def test_two_owners_and_a_curator_talk_when_the_page_is_pasted(folder: Path) -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = str(one.getsockname()[1])  # the page's own may be taken here
    for name, text in FILES.items():
        (folder / name).write_text(text.replace(PORT, port))
    environment = os.environ | {"COLUMNS": "100", "OPENBLAS_NUM_THREADS": "1"}
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment.get("PATH", "")])
    said = ""
    for number, line in enumerate(LINES):
        written = folder / f"console-{number}.txt"  # sites go on writing into theirs
        with written.open("wb") as console:
            done = subprocess.run(  # noqa: S603 - what a reader of our own page would paste
                ["/bin/bash", "-c", line], cwd=folder, env=environment, stdout=console, stderr=console, check=False
            )
        told = written.read_text(encoding="utf-8", errors="replace")
        assert done.returncode == 0, f"{line}\n{told}"
        assert "Traceback" not in told or line.endswith("start.sh"), f"{line}\n{told}"
        said += f"{line}\n{told}\n"
    assert "20 rows from" in re.sub(r"\s+", " ", said)
    for name in ("st-mary", "north"):
        with OwnerNode(folder / name) as node:
            receipt = owner_node.check(node, "first").receipt
        assert receipt is not None
        assert receipt.transcript.rows == 100
