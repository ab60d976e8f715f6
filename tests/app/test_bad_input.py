"""What a user gets wrong: one clear message, exit code 2, no directory and no charge, whatever it is."""

import errno
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
from job_world import World, charges, rows, write

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

    def placed(world: World, value: Any) -> Any:
        if isinstance(value, list):
            return [placed(world, one) for one in value]
        return value.format(world.folder) if isinstance(value, str) else value

    def prepare(world: World, _: pytest.MonkeyPatch) -> Options:
        return world.options(**{option: placed(world, value) for option, value in options.items()})

    return Bad(name, prepare, words)


def content(name: str, file: str, text: str, *words: str) -> Bad:
    """A file with another content."""

    def prepare(world: World, _: pytest.MonkeyPatch) -> Options:
        (world.folder / file).write_text(text, encoding="utf-8")
        return world.options()

    return Bad(name, prepare, (file, *words))


def in_schema(name: str, old: str, new: str, *words: str) -> Bad:
    """A schema in which something is written otherwise."""
    return content(name, "schema.yaml", job_world.SCHEMA.replace(old, new, 1), *words)


def in_job(name: str, old: str, new: str, *words: str) -> Bad:
    """A job file in which something is written otherwise."""

    def prepare(world: World, _: pytest.MonkeyPatch) -> Options:
        text = JOB.replace(old, new, 1)
        (world.folder / "job.yaml").write_text(text, encoding="utf-8")
        return {"file": world.folder / "job.yaml"}

    return Bad(name, prepare, words)


def prepared(name: str, *words: str) -> Callable[[Callable[[World, pytest.MonkeyPatch], Options]], Bad]:
    """Anything else: a function that spoils the market."""
    return lambda prepare: Bad(name, prepare, words)


JOB = """\
likeset: job
version: 1
schema: schema.yaml
target: target.csv
owners: {north: north.csv, south: south.csv}
size: 12
epsilon: 8
out: out
"""


def spoiled_rows(file: str) -> list[Bad]:
    """The same mistakes in the target and in an owner's file."""
    line = "c,40,60,chest,no,1\n"
    who = file.split(".", maxsplit=1)[0]
    at = "line 4, column"
    return [
        content(f"{who}: empty file", file, "", "the file is empty", "a header"),
        content(f"{who}: missing column", file, GOOD.replace("age", "agee"), "'age'", "is missing; did you mean agee"),
        content(f"{who}: missing value", file, GOOD + line.replace("40", ""), f"{at} 'age'", "missing: indicator"),
        content(f"{who}: out of bounds", file, GOOD + line.replace("40", CANARY), f"{at} 'age'", "0 to 100", "clip"),
        content(f"{who}: unknown category", file, GOOD + line.replace("chest", CANARY), f"{at} 'site'", "unknown"),
        content(f"{who}: an id too often", file, GOOD + "a,1,60,arm,no,1\n" * 2, "'patient'", "3 rows", "rows_per_id"),
    ]


@prepared("a Parquet file that was cut short", "west.parquet", "cut short")
def truncated(world: World, _: pytest.MonkeyPatch) -> Options:
    data = world.place("west").read_bytes()
    world.place("west").write_bytes(data[: len(data) // 2])
    return world.options()


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


@prepared("a full disk", "job.yaml", "No space left")
def full_disk(world: World, monkeypatch: pytest.MonkeyPatch) -> Options:
    def fsync(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("likeset.documents.os.fsync", fsync)
    return world.options()


@prepared("a ledger that is none", "ledger", "book.sqlite", "not a ledger")
def no_ledger(world: World, _: pytest.MonkeyPatch) -> Options:
    (world.folder / "book.sqlite").write_bytes(b"my notes" * 4096)
    (world.folder / "book.sqlite").chmod(0o600)
    return world.options(ledger=world.folder / "book.sqlite")


@prepared("a ledger that was altered", "book.sqlite", "entry")
def altered_ledger(world: World, _: pytest.MonkeyPatch) -> Options:
    book = paid_ledger(world)
    with closing(sqlite3.connect(book)) as connection, connection:
        connection.execute("UPDATE log SET body = replace(body, '8.0', '9.0') WHERE kind = 'limit'")
    return world.options(ledger=book)


@prepared("a ledger without budget", "budget exceeded", "nothing was charged", "likeset ledger show")
def exhausted(world: World, _: pytest.MonkeyPatch) -> Options:
    return world.options(ledger=paid_ledger(world))


def paid_ledger(world: World) -> Path:
    """A ledger with the charges of one run, as long as the tests run made once."""
    book = world.folder / "book.sqlite"
    if not PAID:
        made = World.make(Path(job_world.scratch()))
        job_world.call("match", made.options(ledger=made.folder / "book.sqlite", run="first"))
        PAID.append(made.folder)
    for path in PAID[0].glob("book.sqlite*"):
        shutil.copy(path, world.folder / path.name)
    return book


PAID: list[Path] = []

BAD: list[Bad] = [
    *spoiled_rows("target.csv"),
    *spoiled_rows("south.csv")[::2],
    content("target: one row", "target.csv", HEAD + "a,30,60,chest,no,1\n", "1 row", "at least 2"),
    replace(content("alike", "target.csv", HEAD + "a,30,60,arm,no,1\nb,30,60,arm,no,1\n"), words=("target", "equal")),
    content("owner: unknown label", "south.csv", GOOD + f"c,40,60,arm,no,{CANARY}\n", "line 4, column 'ill'", "label"),
    truncated, large_target, same_content, read_only, full_disk, no_ledger, altered_ledger, exhausted,
    given("the same file twice", "north.csv", "owner south", "owner north", "its own rows",
          owner=["north={}/north.csv", "south={0}/../{0.name}/north.csv"]),
    given("the target is an owner too", "target.csv", "owner north", "the target", owner=["north={}/target.csv"]),
    given("two owners with one name", "--owner", "north", "twice", owner=["north={}/north.csv", "north={}/south.csv"]),
    given("the name of another party", "owners", "curator", "another party", owner=["curator={}/north.csv"]),
    given("a missing file of an owner", "nort.csv", "no such file", "did you mean north", owner=["north={}/nort.csv"]),
    given("a missing target", "targt.csv", "no such file", "did you mean target.csv", target="{}/targt.csv"),
    given("a missing job file", "job.yml", "no such file", file="{}/job.yml"),
    given("an address in the network", "https://example.org/rows.csv", "download", target="https://example.org/rows.csv"),
    given("no schema", "--schema", "job file", schema=None),
    in_schema("schema: unknown key", "missing: indicator", "mising: indicator", "line 5", "did you mean missing?"),
    in_job("job: unknown key", "epsilon", "epsilom", "job.yaml, line 7", "did you mean epsilon?"),
    in_job("job: not YAML", "south.csv}", "south.csv", "job.yaml, line", "YAML"),
    in_job("job: text for a number", "size: 12", "size: twelve", "job.yaml, line 6", "size", "whole number"),
    given("more rows than there are", "size = 181", "180 rows", "fewer", size=181),
    given("epsilon 0", "epsilon = 0", "raise it", "uniform", epsilon=0),
    given("unknown protocol", "protocol", "did you mean sealed?", protocol="seald"),
    given("nothing to resume", "resume", "no interrupted run", resume=True),
]  # fmt: skip


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.name)
def test_one_message_no_directory_no_charge(
    bad: Bad, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World.make(tmp_path)
    options = bad.prepare(world, monkeypatch)
    file = options.pop("file", None)
    ledger = Path(options.get("ledger", world.folder / "none.sqlite"))
    paid = charges(ledger) if bad is exhausted else None
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
    if paid is not None:
        assert charges(ledger) == paid
