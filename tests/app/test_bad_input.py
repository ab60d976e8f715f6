"""What a user gets wrong: one clear message, exit code 2 and no directory, whatever it is."""

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import job_world
from job_world import World, rows, write
from likeset.ledger.budget import Limit
from likeset.ledger.ledger import Ledger
from likeset.privacy.events import Relation, View

Options = dict[str, Any]
HEAD = "patient,age,pulse,site,smoker,ill\n"
GOOD = HEAD + "a,30,60,chest,no,1\nb,31,61,arm,yes,0\n"
CANARY = "4711"  # stands in for what an error must not quote


@dataclass(frozen=True)
class Bad:
    """One kind of bad input: what is done to a market that works, and what must be said about it."""

    name: str
    prepare: Callable[[World, pytest.MonkeyPatch], Options]
    words: tuple[str, ...]


def given(name: str, *words: str, **options: Any) -> Bad:
    """Options that cannot be used; in words, {} stands for the folder of the market."""

    def prepare(world: World, _: pytest.MonkeyPatch) -> Options:
        placed = json.loads(json.dumps(options).replace("{}", str(world.folder)))
        return world.options(**placed)

    return Bad(name, prepare, words)


def content(name: str, file: str, text: str, *words: str) -> Bad:
    def prepare(world: World, _: pytest.MonkeyPatch) -> Options:
        (world.folder / file).write_text(text, encoding="utf-8")
        return world.options()

    return Bad(name, prepare, (file, *words))


def prepared(name: str, *words: str) -> Callable[[Callable[[World, pytest.MonkeyPatch], Options]], Bad]:
    """Anything else: a function that spoils the market."""
    return lambda prepare: Bad(name, prepare, words)


@prepared("the target is larger than all owners", "target.csv", "400 rows", "180", "sample")
def large_target(world: World, _: pytest.MonkeyPatch) -> Options:
    write(world.folder / "target.csv", rows(400, seed=1, age=60.0, whose="mine"))
    return world.options()


@prepared("the same content under two names", "copy.csv", "same content", "owner north")
def same_content(world: World, _: pytest.MonkeyPatch) -> Options:
    shutil.copy(world.place("north"), world.folder / "copy.csv")
    return world.options(owner=[f"north={world.place('north')}", f"south={world.folder / 'copy.csv'}"])


@prepared("the output may not be written", "out = ", "may not be written")
def read_only(world: World, monkeypatch: pytest.MonkeyPatch) -> Options:
    # Whoever runs the tests may be allowed everything, so the system's answer is made up.
    monkeypatch.setattr("likeset.run.job.os.access", lambda path, mode: Path(path) != world.folder or mode != os.W_OK)
    return world.options()


@prepared("a ledger that was altered", "book.sqlite", "entry")
def altered_ledger(world: World, _: pytest.MonkeyPatch) -> Options:
    book = world.folder / "book.sqlite"
    with Ledger(book) as ledger:
        ledger.set_limit(View.owners("consumer"), Limit(8.0, 1e-5, Relation.REPLACE_ONE))
    with closing(sqlite3.connect(book)) as connection, connection:
        connection.execute("UPDATE log SET body = replace(body, '8.0', '9.0') WHERE kind = 'limit'")
    return world.options(ledger=book)


OUT_OF_BOUNDS = GOOD + f"c,{CANARY},60,chest,no,1\n"
BAD: list[Bad] = [
    content("target: out of bounds", "target.csv", OUT_OF_BOUNDS, "line 4, column 'age'", "0 to 100", "clip"),
    content("owner: out of bounds", "south.csv", OUT_OF_BOUNDS, "line 4, column 'age'", "0 to 100", "clip"),
    content("target: one row", "target.csv", HEAD + "a,30,60,chest,no,1\n", "1 row", "at least 2"),
    replace(content("alike", "target.csv", HEAD + "a,30,60,arm,no,1\nb,30,60,arm,no,1\n"), words=("target", "equal")),
    content("owner: unknown label", "south.csv", GOOD + f"c,40,60,arm,no,{CANARY}\n", "line 4, column 'ill'", "label"),
    large_target, same_content, read_only, altered_ledger,
    given("the same file twice", "north.csv", "owner south", "owner north", "its own rows",
          owner=["north={}/north.csv", "south={}/./north.csv"]),
    given("the target is an owner too", "target.csv", "owner north", "the target", owner=["north={}/target.csv"]),
    given("two owners with one name", "--owner", "north", "twice", owner=["north={}/north.csv", "north={}/south.csv"]),
    given("the name of another party", "owners", "curator", "another party", owner=["curator={}/north.csv"]),
    given("a missing file of an owner", "nort.csv", "no such file", "did you mean north", owner=["north={}/nort.csv"]),
    given("more rows than there are", "size = 181", "180 rows", "fewer", size=181),
    given("a missing job file", "job.yml", "no such file", file="{}/job.yml"),
    given("no schema", "--schema", "job file", schema=None),
]  # fmt: skip


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.name)
def test_one_message_and_no_directory(
    bad: Bad, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World.make(tmp_path)
    options = bad.prepare(world, monkeypatch)
    file = options.pop("file", None)
    capsys.readouterr()
    code = job_world.call("match", options, *([] if file is None else [file]))
    printed = capsys.readouterr()
    assert code == 2, printed.err
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    assert printed.err.count("\n") == 1
    for word in bad.words:
        assert word in printed.err
    assert CANARY not in printed.err.replace(str(tmp_path), "")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("out")] == []
