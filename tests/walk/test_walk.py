"""What must hold of the walks through the package (``bounds.py``), and that what counts them misses nothing."""

import io
import os
import sqlite3
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

sys.path.insert(0, str(Path(__file__).parent))  # this file may be collected first

from bounds import AIMS, BOUNDS, Bound
from counted_files import counted
from counted_writes import counted_writes
from floors import floors_of
from footsteps import PACKAGE, Footsteps, constructions, done_before
from page import largest, page
from picture import picture
from sizes import Size, sizes, total
from walks import TERMS, Walk, column_bytes, terms, walks_of_answers, walks_of_matches

from likeset.tables.sources.row_blocks import ahead

DOCS = Path(__file__).parents[2] / "docs"

pytestmark = pytest.mark.slow  # it is about the inside of the house; users feel nothing of it


@pytest.fixture(scope="module")
def matches(tmp_path_factory: pytest.TempPathFactory) -> list[Walk]:
    return walks_of_matches(tmp_path_factory.mktemp("walk") / "matches")


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[Walk]:
    return walks_of_answers(tmp_path_factory.mktemp("walk") / "answers")


@pytest.fixture(scope="module")
def walks(matches: list[Walk], answers: list[Walk]) -> list[Walk]:
    return [*matches, *answers]


@pytest.mark.parametrize("bound", BOUNDS, ids=[f"{bound.walk}: {bound.count}" for bound in BOUNDS])
def test_no_figure_is_above_its_bound(bound: Bound, walks: list[Walk]) -> None:
    """And none is 0: then what is counted would have another name by now (``walks.py``)."""
    assert 1 <= largest(walks, bound.walk, bound.count) <= bound.at_most


def test_no_bound_is_below_what_is_wanted() -> None:
    assert [bound for bound in BOUNDS if bound.at_most < bound.wanted] == []


def test_walks_go_from_top_to_bottom(walks: list[Walk]) -> None:
    ways = {walk.name: walk.chain for walk in walks if walk.chain}
    assert {name: (way[0], way[-1]) for name, way in ways.items()} == {
        "match, sealed": ("app.cli", "geometry.tilt"),
        "answer, offer": ("transports.sites", "geometry.tilt"),
    }
    assert [walk.name for walk in walks if not set(walk.chain) <= walk.modules] == []


def test_the_same_code_gives_the_same_counts(answers: list[Walk], tmp_path: Path) -> None:
    assert walks_of_answers(tmp_path / "again") == answers


def test_the_same_walks_give_the_same_page_and_picture(walks: list[Walk]) -> None:
    floors, parts = floors_of(PACKAGE), sizes(PACKAGE)
    drawn = picture([("a match", walks[0])], floors)
    assert drawn == picture([("a match", walks[0])], floors)
    assert [step for step in walks[0].chain if f">{step.rpartition('.')[2]}<" not in drawn] == []
    written = page(walks, floors, parts)
    assert written == page(walks, floors, parts)
    assert [
        f"{each.walk}: {each.count}" for each in (*BOUNDS, *AIMS) if f"| {each.walk}: {each.count} |" not in written
    ] == []


def test_the_page_is_there_with_every_bound_and_aim() -> None:
    written = (DOCS / "walk.md").read_text(encoding="utf-8")
    assert [each for each in (*BOUNDS, *AIMS) if f"| {each.walk}: {each.count} |" not in written] == []
    assert (DOCS / "walk.svg").read_text(encoding="utf-8").startswith("<?xml")


# Steps


def test_steps_in_threads_are_counted(matches: list[Walk]) -> None:
    assert [walk.name for walk in matches if walk.threads < 2] == []


def test_a_step_in_a_thread_is_counted_with_the_way_that_led_there() -> None:
    """``ahead`` takes its items in a thread; only there the digest is asked for."""
    digest = TERMS.digest.fget.__code__  # type: ignore[attr-defined]
    items = (run.digest for run in [terms()])
    steps = Footsteps(ends={digest: "digest"})
    with steps:
        assert len(list(ahead(items))) == 1
    assert steps.threads == 2
    assert steps.chains["digest"] == ("tables.sources.row_blocks", "protocol.terms")


def test_a_profiler_that_is_taken_away_is_missed() -> None:
    with pytest.raises(RuntimeError, match="not all steps"), Footsteps():
        sys.setprofile(None)
    with pytest.raises(RuntimeError, match="not all steps"), Footsteps():
        threading.setprofile(None)


def test_a_thread_that_would_not_be_watched_is_missed() -> None:
    ended = threading.Event()
    left = threading.Thread(target=ended.wait, name="left behind", daemon=True)
    with pytest.raises(RuntimeError, match="left behind"):
        done_before(left.start)
    ended.set()
    left.join()
    done_before(lambda: None)


def test_changed_copies_are_constructions() -> None:
    with constructions(TERMS) as made:
        terms().with_changes(size=4)
    assert len(made) == 2
    terms()
    assert len(made) == 2


# Reading


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Of some hundred thousand bytes: whoever looks for the footer of a Parquet file reads the last 65536."""
    table = pa.table({"a": [f"{row:0100d}" for row in range(4000)], "b": list(range(4000))})
    pyarrow.csv.write_csv(table, tmp_path / "rows.csv")
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=400, compression="none", use_dictionary=False)
    return tmp_path / "rows.csv", tmp_path / "rows.parquet"


def test_each_way_to_read_a_text_is_a_pass(files: tuple[Path, Path]) -> None:
    text, _ = files
    size = text.stat().st_size
    with counted({text: [[(0, size)]]}) as shelf:
        text.read_bytes()
        text.read_text(encoding="utf-8")
        with io.open(text, "rb") as file:  # noqa: UP020 - the other name of the same function
            assert len(list(file)) == 4001
        pyarrow.csv.read_csv(str(text))
        with pa.OSFile(str(text)) as file:
            file.read()
        with text.open("rb") as file:
            file.read(size // 2)
        assert (shelf[text].passes, shelf[text].openings) == (5, 6)


def test_a_look_at_a_column_is_a_pass_and_the_footer_is_none(files: tuple[Path, Path]) -> None:
    _, packed = files
    with counted({packed: column_bytes(packed)}) as shelf:
        pq.ParquetFile(packed).metadata  # noqa: B018 - it is read
        assert shelf[packed].passes == 0
        pq.ParquetFile(packed).read_row_group(3)
        assert shelf[packed].passes == 0
        for _ in pq.ParquetFile(packed, pre_buffer=False).iter_batches(columns=["b"]):
            pass
        assert shelf[packed].passes == 1
        pq.read_table(packed)
        packed.read_bytes()
        assert shelf[packed].passes == 3


def test_whoever_reads_in_another_way_finds_no_rows(files: tuple[Path, Path]) -> None:
    """Here by a descriptor of the system."""
    text, _ = files
    before = text.read_bytes()
    with counted({text: [[(0, len(before))]]}):
        descriptor = os.open(text, os.O_RDONLY)
        assert os.read(descriptor, len(before) + 1) == bytes(len(before))
        os.close(descriptor)
    assert text.read_bytes() == before


# Writing


def test_write_transactions_are_counted_once(tmp_path: Path) -> None:
    rows = b"these are rows"
    with counted_writes(tmp_path) as writes:
        database = sqlite3.connect(tmp_path / "some.db", isolation_level=None)
        database.execute("CREATE TABLE t (x)")
        writes.reset()
        database.execute("BEGIN IMMEDIATE")
        database.execute("INSERT INTO t VALUES (?)", (b"<" + rows + b">",))
        database.executemany("INSERT INTO t VALUES (?)", [(rows,), ("text",)])
        database.execute("COMMIT")
        assert (writes.transactions, writes.copies(rows)) == (1, 2)
        database.execute("BEGIN IMMEDIATE")  # takes the lock and changes nothing
        database.execute("ROLLBACK")
        assert writes.transactions == 2
        database.execute("BEGIN")
        assert database.execute("SELECT count(*) FROM t WHERE x = ?", (rows,)).fetchone() == (1,)
        database.execute("COMMIT")
        assert (writes.transactions, writes.copies(rows)) == (2, 2)
        database.execute("BEGIN")
        database.execute("UPDATE t SET x = 1")
        database.execute("UPDATE t SET x = 2")
        database.execute("COMMIT")
        database.execute("DELETE FROM t")
        assert writes.transactions == 4
        with pytest.raises(AssertionError, match="not counted"):
            database.cursor()
        (tmp_path / "plain").write_bytes(rows + rows)
        assert (writes.files, writes.copies(rows)) == (1, 4)
        database.close()


# Sizes


def test_long_modules_and_functions_are_found(tmp_path: Path) -> None:
    """A function of 51 lines in a module of 401: its ``def`` and 50 lines, then 350 lines."""
    (tmp_path / "inner" / "deep").mkdir(parents=True)
    (tmp_path / "inner" / "deep" / "long.py").write_text("def f():\n" + "    x = 1\n" * 50 + "y = 1\n" * 350)
    (tmp_path / "inner" / "short.py").write_text("@decorated\ndef f():\n" + "    x = 1\n" * 49 + "y = 1\n" * 349)
    (tmp_path / "top.py").write_text("x = 1\n")
    found = sizes(tmp_path)
    assert found == {"inner": Size(2, 801, ("inner/deep/long",), ("inner/deep/long:f",)), "top": Size(1, 1)}
    assert total(found).lines == 802
