"""How many modules a match and an owner's reply pass through, and how often a reply is written."""

import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from home_world import CONSUMER, Network, terms
from test_sync import outgoing

import likeset
from likeset.app.cli import main

PACKAGE = str(Path(likeset.__file__).parent)
MATCH_MODULES, REPLY_MODULES, REPLY_WRITES = 45, 31, 3  # ratchets: lower them when the counts fall


@contextmanager
def passed_modules() -> Iterator[set[str]]:
    """The modules of the package of which a function is called meanwhile, in any thread."""
    modules: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_code.co_filename  # of templates: that of the template
        if event == "call" and name.startswith(PACKAGE) and name.endswith(".py") and frame.f_code.co_name != "<module>":
            modules.add(name)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield modules
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def match(folder: Path, out: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["match", "--schema", "schema.yaml", "--target", "target.csv", "--owner", "north=north.csv"]
    monkeypatch.setattr(sys, "argv", ["likeset", *words, "--size=5", "--epsilon=4", "--out", out])
    monkeypatch.chdir(folder)
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code


def test_a_match_passes_few_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "schema.yaml").write_text(
        "likeset: schema\nversion: 1\ncolumns:\n  age: {kind: numeric, bounds: [0, 100]}\n", encoding="utf-8"
    )
    for name, rows in (("target", 60), ("north", 200)):
        ages = np.random.default_rng(3).integers(0, 100, rows)  # pinned: the counts are of one small market
        (tmp_path / f"{name}.csv").write_text("age\n" + "\n".join(map(str, ages)), encoding="utf-8")
    match(tmp_path, "first", monkeypatch)  # imports what it needs
    with passed_modules() as modules:
        match(tmp_path, "second", monkeypatch)
    assert len(modules) <= MATCH_MODULES, sorted(modules)


def test_an_owners_reply_passes_few_modules_and_is_written_few_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    connect = sqlite3.connect

    def counting(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **options)
        connection.set_trace_callback(lambda said: written.append(said) if said.startswith("BEGIN IMM") else None)
        return connection

    monkeypatch.setattr(sqlite3, "connect", counting)
    with Network(tmp_path) as network:
        agreed = terms()
        network.approved(agreed)
        network.turn("a", "b", CONSUMER)
        written.clear()
        with passed_modules() as modules:
            network.turn("a")  # the release came: it replies with its offer
        assert any(outgoing(network, "a", "curator").iterdir()), "the reply was posted"
    assert len(modules) <= REPLY_MODULES, sorted(modules)
    assert 1 <= len(written) <= REPLY_WRITES
