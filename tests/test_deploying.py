"""``docs/deploying.md``, pasted word by word on one machine: four homes, a folder, and no certificate."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from conftest import BaseInstall
from documented_pages import ROOT, files_to_paste, lines_to_paste
from likeset.homes import owner_node
from likeset.homes.consumer_home import ConsumerHome
from likeset.homes.owner_node import OwnerNode

PAGE = ROOT / "docs/deploying.md"
DONE_HERE = ("pip ", "mkdir trial", "cd ")
LINES = lines_to_paste(PAGE, without=DONE_HERE)
FILES = files_to_paste(PAGE)
SPLIT_BEGINS = "likeset split setup"
SPLIT_ENDS = "likeset run report second --home clinic"
WORKERS = Path(os.environ.get("LIKESET_SPLIT", ROOT / ".venv-split")) / "bin" / "python"


def pasted(*, split: bool) -> list[str]:
    """The lines of the trial; those about a split curator need workers."""
    begin, end = LINES.index(SPLIT_BEGINS), LINES.index(SPLIT_ENDS)
    return LINES if split else [*LINES[:begin], *LINES[end + 1 :]]


def test_the_page_names_its_files_and_commands_and_no_certificate() -> None:
    assert set(FILES) == {"st-mary.yaml", "north.yaml", "job.yaml", "split.yaml"}
    assert sum(line.startswith("likeset ") for line in LINES) > 25
    assert sum(line.startswith("likeset card pin ") for line in LINES) == 13
    trial = PAGE.read_text(encoding="utf-8").partition("# Between real houses")[0]
    assert trial.lower().count("certificate") == 1  # that there is none
    assert "startup" not in trial


NEEDS_WORKERS = pytest.mark.skipif(
    not WORKERS.exists(), reason=f"there is no environment for workers at {WORKERS}; make it with `make split`"
)


@pytest.mark.slow
@pytest.mark.parametrize("split", [False, pytest.param(True, marks=NEEDS_WORKERS)], ids=["trusted", "then split"])
def test_two_owners_a_curator_and_a_consumer_talk_when_the_page_is_pasted(
    base_install: BaseInstall, tmp_path: Path, split: bool
) -> None:
    """In one shell and with the base dependencies alone: jobs that serve stay until the page stops them."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    environment = base_install.variables() | {"COLUMNS": "80", "LIKESET_SPLIT_PYTHON": str(WORKERS)}
    script = "\n".join(["set -e", "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT", *pasted(split=split)])
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
    assert "20 rows from" in re.sub(r"\s+", " ", said)
    for name in ("st-mary", "north"):
        with OwnerNode(tmp_path / name) as node:
            receipt = owner_node.check(node, "first").receipt
        assert receipt is not None
        assert receipt.transcript.rows == 100
    assert "<style>" in (tmp_path / "demo/matched/report.html").read_text(encoding="utf-8")
    if split:
        home = ConsumerHome(tmp_path / "clinic").known("second")
        assert home.terms.split is not None
        assert len(home.summary().rows) == 20
    for name in ("curator", "st-mary", "north", *(["university"] if split else [])):
        log = (tmp_path / f"{name}.log").read_text(encoding="utf-8")
        assert "stopped between two letters" in log.splitlines()[-1], log
