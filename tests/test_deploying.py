"""``docs/deploying.md``, pasted word by word on one machine: four homes, a folder, and no certificate."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from documented_pages import ROOT, blocks

PAGE = ROOT / "docs/deploying.md"
BEFORE = ("pip ", "mkdir trial", "cd ")  # what the test does itself


def pasted() -> list[str]:
    """The commands of the page, in their order."""
    lines = [line for block in blocks(PAGE) if block.kind == "sh" for line in block.lines]
    return [line for line in lines if not line.startswith(BEFORE)]


def files() -> dict[str, str]:
    """The files of the page: blocks whose first line is a comment with a file's name."""
    found = {}
    for block in blocks(PAGE):
        name = re.fullmatch(r"# ([\w-]+\.yaml)", block.lines[0])
        if block.kind == "yaml" and name:
            found[name[1]] = "\n".join(block.lines) + "\n"
    return found


def test_the_page_names_its_files_and_commands_and_no_certificate() -> None:
    assert set(files()) == {"st-mary.yaml", "north.yaml", "job.yaml"}
    assert sum(line.startswith("likeset ") for line in pasted()) > 25
    assert sum(line.startswith("likeset card pin ") for line in pasted()) == 8
    trial = PAGE.read_text(encoding="utf-8").partition("# Between real houses")[0]
    assert trial.lower().count("certificate") == 1  # that there is none
    assert "startup" not in trial


@pytest.mark.slow
def test_two_owners_a_curator_and_a_consumer_talk_when_the_page_is_pasted(tmp_path: Path) -> None:
    """In one shell, as somebody would: jobs that serve stay until the page stops them."""
    for name, text in files().items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    environment = os.environ | {"COLUMNS": "80", "OPENBLAS_NUM_THREADS": "1"}
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment.get("PATH", "")])
    script = "\n".join(["set -e", "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT", *pasted()])
    done = subprocess.run(  # noqa: S603 - what a reader of our own page would paste
        ["/bin/bash", "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-5000:]
    assert "Traceback" not in said
    assert "20 rows of" in re.sub(r"\s+", " ", said)
    assert said.count(", 100 rows received") == 2
    for name in ("curator", "st-mary", "north"):
        log = (tmp_path / f"{name}.log").read_text(encoding="utf-8")
        assert "stopped between two letters" in log.splitlines()[-1], log
