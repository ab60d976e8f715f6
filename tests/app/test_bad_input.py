"""What a user gets wrong: one clear message, exit code 2 and no directory, whatever it is."""

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import job_world
from job_world import World, rows, write
from likeset.ledger.budget import Limit
from likeset.ledger.ledger import Ledger
from likeset.privacy.events import Relation, View
from screens import Screens

Options = dict[str, Any]
HEAD = "patient,age,pulse,site,smoker,ill\n"
GOOD = HEAD + "a,30,60,chest,no,1\nb,31,61,arm,yes,0\n"
CANARY = "4711"  # stands in for what an error must not quote


@dataclass(frozen=True)
class Bad:
    """One kind of bad input: what is done to a market that works."""

    name: str
    prepare: Callable[[World, pytest.MonkeyPatch], Options]


def given(name: str, **options: Any) -> Bad:
    """Options that cannot be used; {} stands for the folder of the market."""

    def prepare(world: World, _: pytest.MonkeyPatch) -> Options:
        placed = json.loads(json.dumps(options).replace("{}", str(world.folder)))
        return world.options(**placed)

    return Bad(name, prepare)


def content(name: str, file: str, text: str) -> Bad:
    def prepare(world: World, _: pytest.MonkeyPatch) -> Options:
        (world.folder / file).write_text(text, encoding="utf-8")
        return world.options()

    return Bad(name, prepare)


def prepared(name: str) -> Callable[[Callable[[World, pytest.MonkeyPatch], Options]], Bad]:
    """Anything else: a function that spoils the market."""
    return lambda prepare: Bad(name, prepare)


@prepared("the target is larger than all owners")
def large_target(world: World, _: pytest.MonkeyPatch) -> Options:
    write(world.folder / "target.csv", rows(400, seed=1, age=60.0, whose="mine"))
    return world.options()


@prepared("the same content under two names")
def same_content(world: World, _: pytest.MonkeyPatch) -> Options:
    shutil.copy(world.place("north"), world.folder / "copy.csv")
    return world.options(owner=[f"north={world.place('north')}", f"south={world.folder / 'copy.csv'}"])


@prepared("the output may not be written")
def read_only(world: World, monkeypatch: pytest.MonkeyPatch) -> Options:
    # Whoever runs the tests may be allowed everything, so the system's answer is made up.
    monkeypatch.setattr("likeset.run.job.os.access", lambda path, mode: Path(path) != world.folder or mode != os.W_OK)
    return world.options()


@prepared("a ledger that was altered")
def altered_ledger(world: World, _: pytest.MonkeyPatch) -> Options:
    book = world.folder / "book.sqlite"
    with Ledger(book) as ledger:
        ledger.set_limit(View.owners("consumer"), Limit(8.0, 1e-5, Relation.REPLACE_ONE))
    with closing(sqlite3.connect(book)) as connection, connection:
        connection.execute("UPDATE log SET body = replace(body, '8.0', '9.0') WHERE kind = 'limit'")
    return world.options(ledger=book)


OUT_OF_BOUNDS = GOOD + f"c,{CANARY},60,chest,no,1\n"
BAD: list[Bad] = [
    content("target: out of bounds", "target.csv", OUT_OF_BOUNDS),
    content("owner: out of bounds", "south.csv", OUT_OF_BOUNDS),
    content("target: one row", "target.csv", HEAD + "a,30,60,chest,no,1\n"),
    content("alike", "target.csv", HEAD + "a,30,60,arm,no,1\nb,30,60,arm,no,1\n"),
    content("owner: unknown label", "south.csv", GOOD + f"c,40,60,arm,no,{CANARY}\n"),
    large_target, same_content, read_only, altered_ledger,
    given("the same file twice", owner=["north={}/north.csv", "south={}/./north.csv"]),
    given("the target is an owner too", owner=["north={}/target.csv"]),
    given("two owners with one name", owner=["north={}/north.csv", "north={}/south.csv"]),
    given("the name of another party", owner=["curator={}/north.csv"]),
    given("a missing file of an owner", owner=["north={}/nort.csv"]),
    given("more rows than there are", size=181),
    given("a missing job file", file="{}/job.yml"),
    given("no schema", schema=None),
]  # fmt: skip


def test_one_message_and_no_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str], screens: Screens) -> None:
    told = []
    for bad in BAD:
        folder = tmp_path / bad.name.replace(" ", "-").replace(":", "")
        folder.mkdir()
        world = World.make(folder)
        with pytest.MonkeyPatch.context() as monkeypatch:
            options = bad.prepare(world, monkeypatch)
            file = options.pop("file", None)
            capsys.readouterr()
            code = job_world.call("match", options, *([] if file is None else [file]))
        printed = capsys.readouterr()
        assert code == 2, printed.err
        assert printed.out == ""
        assert printed.err.startswith("error: ")
        assert printed.err.count("\n") == 1
        said = printed.err.replace(str(folder), "FOLDER")
        assert CANARY not in said
        assert [path.name for path in folder.iterdir() if path.name.startswith("out")] == []
        told.append(f"{bad.name}\n    {said}")
    screens.check("messages", "".join(told))
