"""``likeset demo --network --split``: eight processes, and no row anywhere but at its owner and at its buyer."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from split_world import PYTHON, needs_engine
from typer.testing import CliRunner

from likeset.app.cli import app
from likeset.app.demo.network import CONSUMER, RUN, WITNESS_NAME
from likeset.errors import InvalidArgument
from likeset.homes.consumer_home import ConsumerHome
from likeset.split.host import PYTHON_VARIABLE

DENYING = "digits-9-2"


def test_a_split_demo_without_processes_or_workers_is_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PYTHON_VARIABLE, str(tmp_path / "none" / "bin" / "python"))
    for words, reason in ((("--split",), "goes with --network"), (("--network", "--split"), "likeset split setup")):
        result = CliRunner().invoke(app, ["demo", *words, "--out", str(tmp_path / "demo")])
        assert isinstance(result.exception, InvalidArgument)
        assert reason in str(result.exception)
        assert not (tmp_path / "demo").exists()


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The demo's directory, and what it says."""
    out = tmp_path_factory.mktemp("split") / "demo"
    program = [sys.executable, "-c", "from likeset.app.cli import main; main()"]
    done = subprocess.run(  # noqa: S603 (our own command)
        [*program, "demo", "--network", "--split", "--json", "--out", str(out)],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        env=os.environ | {PYTHON_VARIABLE: str(PYTHON)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return out, json.loads(done.stdout)


@pytest.mark.slow
@needs_engine
def test_the_split_demo_ends_with_four_owners_and_everything_holds(shown: tuple[Path, dict[str, Any]]) -> None:
    _, result = shown
    assert result["rows_selected"] == 100
    assert result["checks"] == {"transcripts agree": True, "audit logs hold": True, "rows were charged once": True}
    assert [owner["name"] for owner in result["owners"] if not owner["selected"]][-1:] == [DENYING]


def images(out: Path) -> Iterator[bytes]:
    """A stretch of every 20th image as it may stand in a file: its points as bytes, and as numbers."""
    for path in sorted((out / "data").glob("digits-*.parquet")):
        for image in pq.read_table(path).column("image").to_pylist()[::20]:
            points = np.asarray(image)[8:40]
            yield np.rint(points).astype(np.uint8).tobytes()
            yield (points / 16.0).astype("<f4").tobytes()


@pytest.mark.slow
@needs_engine
def test_no_row_and_no_target_is_in_any_file_of_curator_witness_or_mailbox(shown: tuple[Path, dict[str, Any]]) -> None:
    out, _ = shown
    run = ConsumerHome(out / CONSUMER).known(RUN)
    rows = [row[8:40].astype("<f4").tobytes() for row in (*run.target, *run.summary().rows)]
    wanted = [*rows, *(stretch for stretch in images(out) if any(stretch))]
    places = ("curator", WITNESS_NAME, "mailbox", "logs")
    paths = [path for place in places for path in (out / place).rglob("*") if path.is_file()]
    assert len(paths) > 20
    for path in paths:
        data = path.read_bytes()
        assert not [stretch for stretch in wanted if stretch in data], path
    kept = run.summary_path.read_bytes()
    assert all(row.astype("<f4").tobytes() in kept for row in run.summary().rows)
