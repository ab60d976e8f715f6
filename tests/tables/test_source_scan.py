"""The streamed pass: the same draw as in memory, whatever the blocks, files, threads and interruptions."""

import os
import signal
import stat
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scan_world import SCHEMA, assert_same, drawings, in_memory, table, write

from chance import examples
from likeset.errors import BadTable, InvalidArgument
from likeset.geometry.offers import Drawing
from likeset.tables.scan import row_pass
from likeset.tables.scan.checkpoint import forget
from likeset.tables.scan.memory_scan import FetchedRows
from likeset.tables.scan.pass_progress import Passed
from likeset.tables.scan.source_scan import SourceScan
from likeset.tables.sources.source import open_source

_ROWS = table(9_000)
_EXPECTED = in_memory(_ROWS).draw(*drawings(300))


def _scan(place: Path, **options: object) -> SourceScan:
    return SourceScan(open_source(place), SCHEMA, **options)  # type: ignore[arg-type]


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(
    cuts=st.lists(st.integers(0, 9_000), max_size=6),
    block_rows=st.integers(200, 10_000),
    unit_rows=st.integers(1, 10_000),
    workers=st.integers(1, 4),
    group=st.sampled_from([333, 2048, 9_000]),
)
def test_a_streamed_draw_is_the_draw_from_memory(
    tmp_path_factory: pytest.TempPathFactory,
    cuts: list[int],
    block_rows: int,
    unit_rows: int,
    workers: int,
    group: int,
) -> None:
    edges = [0, *sorted(cuts), 9_000]
    sizes = [after - before for before, after in pairwise(edges)]
    place = write(tmp_path_factory.mktemp("rows"), _ROWS, sizes, group=group)
    for checkpoints in (None, place / ".passes"):
        scan = _scan(place, block_rows=block_rows, unit_rows=unit_rows, workers=workers, checkpoints=checkpoints)
        assert_same(scan.draw(*drawings(300)), _EXPECTED)


def test_a_dictionary_of_words_is_drawn_as_words_are(tmp_path: Path) -> None:
    rows = _ROWS.set_column(2, "ward", _ROWS.column("ward").combine_chunks().dictionary_encode())
    place = write(tmp_path / "rows", rows, [4_000, 5_000])
    assert_same(_scan(place, workers=2).draw(*drawings(300)), _EXPECTED)


def test_more_rows_wanted_than_there_are_gives_all_of_them(tmp_path: Path) -> None:
    place = write(tmp_path / "rows", _ROWS.slice(0, 50), [20, 30])
    (drawn,) = _scan(place, workers=2).draw(Drawing(100, 3))
    assert sorted(drawn.row_numbers.tolist()) == list(range(50))


def test_fetch_and_blocks_agree_with_the_draw(tmp_path: Path) -> None:
    scan = _scan(write(tmp_path / "rows", _ROWS, [2_000, 7_000]))
    (drawn,) = scan.draw(Drawing(40, 3))
    fetched = scan.fetch(drawn.row_numbers)
    assert fetched.rows.tobytes() == drawn.records.rows.tobytes()
    assert fetched.table is not None
    assert fetched.table.equals(drawn.records.table)
    rows = np.concatenate([block.rows for _, block in scan.blocks()])
    assert rows[drawn.row_numbers].tobytes() == drawn.records.rows.tobytes()


def test_progress_counts_every_row_once(tmp_path: Path) -> None:
    seen: list[Passed] = []
    place = write(tmp_path / "rows", _ROWS, [4_000, 5_000])
    _scan(place, workers=3, block_rows=700, progress=seen.append).draw(Drawing(10, 1))
    counts = [one.rows for one in seen]
    assert counts == sorted(set(counts))
    assert counts[-1] == seen[-1].total == 9_000


class _Interrupted(Exception):
    """Stands for the death of the process."""


def test_an_interrupted_pass_goes_on_and_redoes_at_most_one_file(tmp_path: Path) -> None:
    place, kept = write(tmp_path / "rows", _ROWS, [1_500] * 6), tmp_path / "kept"

    def die(passed: Passed) -> None:
        if passed.rows > 5_000:
            raise _Interrupted

    with pytest.raises(_Interrupted):
        _scan(place, checkpoints=kept, unit_rows=1, block_rows=500, progress=die).draw(*drawings(300))
    (file,) = kept.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    seen: list[Passed] = []
    scan = _scan(place, checkpoints=kept, unit_rows=1, block_rows=500, progress=seen.append)
    assert_same(scan.draw(*drawings(300)), _EXPECTED)
    # Three files of 1,500 rows were done; the fourth had begun and is read again.
    assert seen[0].resumed == 4_500
    assert seen[-1].rows == 9_000
    # A finished pass that was not used yet costs nothing at all.
    seen.clear()
    assert_same(scan.draw(*drawings(300)), _EXPECTED)
    assert [one.resumed for one in seen] == [9_000]
    forget(kept)
    assert not kept.exists()


_KILLED = """
import os, signal, sys
from pathlib import Path
from scan_world import SCHEMA, drawings
from likeset.tables.scan.source_scan import SourceScan
from likeset.tables.sources.source import open_source

def die(passed):
    if passed.rows > 5_000:
        os.kill(os.getpid(), signal.SIGKILL)

place, kept = (Path(given) for given in sys.argv[1:])
options = {"checkpoints": kept, "unit_rows": 1, "block_rows": 500, "workers": 2}
SourceScan(open_source(place), SCHEMA, progress=die, **options).draw(*drawings(300))
"""


def test_a_process_that_was_killed_leaves_what_another_goes_on_with(tmp_path: Path) -> None:
    place, kept = write(tmp_path / "rows", _ROWS, [1_500] * 6), tmp_path / "kept"
    killed = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", _KILLED, str(place), str(kept)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    seen: list[Passed] = []
    scan = _scan(place, checkpoints=kept, unit_rows=1, block_rows=500, progress=seen.append)
    assert_same(scan.draw(*drawings(300)), _EXPECTED)
    assert seen[0].resumed == 4_500


def test_a_checkpoint_holds_for_its_own_pass_only(tmp_path: Path) -> None:
    place, kept = write(tmp_path / "rows", _ROWS, [4_500, 4_500]), tmp_path / "kept"
    _scan(place, checkpoints=kept).draw(*drawings(300))
    first = set(kept.iterdir())
    tilted, uniform = drawings(300)
    for others in ((tilted, replace(uniform, key=99)), (uniform, tilted), drawings(200)):
        assert_same(_scan(place, checkpoints=kept).draw(*others), in_memory(_ROWS).draw(*others))
    assert len(set(kept.iterdir()) - first) == 3
    other = table(9_000, seed=5)
    write(place, other, [4_500, 4_500])
    assert_same(_scan(place, checkpoints=kept).draw(*drawings(300)), in_memory(other).draw(*drawings(300)))


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data[:-3] + b"abc", lambda _: b""])
def test_a_damaged_checkpoint_is_as_good_as_none(tmp_path: Path, damage: object) -> None:
    place, kept = write(tmp_path / "rows", _ROWS, [4_500, 4_500]), tmp_path / "kept"
    _scan(place, checkpoints=kept).draw(*drawings(300))
    (file,) = kept.iterdir()
    file.write_bytes(damage(file.read_bytes()))  # type: ignore[operator]
    seen: list[Passed] = []
    assert_same(_scan(place, checkpoints=kept, progress=seen.append).draw(*drawings(300)), _EXPECTED)
    assert seen[0].resumed == 0


def test_a_checkpoint_does_not_hold_the_key(tmp_path: Path) -> None:
    place, kept, key = write(tmp_path / "rows", _ROWS, [9_000]), tmp_path / "kept", 2**255 + 12345
    _scan(place, checkpoints=kept).draw(Drawing(10, key))
    (file,) = kept.iterdir()
    content = file.read_bytes() + file.name.encode()
    for written in (key.to_bytes(32, "big"), key.to_bytes(32, "little"), str(key).encode(), hex(key)[2:].encode()):
        assert written not in content


def test_weights_that_cannot_be_known_again_leave_no_checkpoint(tmp_path: Path) -> None:
    def by_age(block: FetchedRows, _first_row: int) -> NDArray[np.float64]:
        return 3.0 * block.rows[:, 0].astype(np.float64)

    place, kept = write(tmp_path / "rows", _ROWS, [9_000]), tmp_path / "kept"
    wanted = Drawing(50, 3, by_age)
    assert_same(_scan(place, checkpoints=kept).draw(wanted), in_memory(_ROWS).draw(wanted))
    assert not kept.exists()


def _broken(directory: Path, file: int, column: str, value: object) -> None:
    path = directory / f"part-{file:03d}.parquet"
    rows = pq.read_table(path)
    values = rows.column(column).to_pylist()
    values[130] = value
    place = rows.schema.names.index(column)
    pq.write_table(rows.set_column(place, column, pa.array(values)), path, row_group_size=100)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_cell_that_cannot_be_used_is_named_by_file_and_row_group(
    tmp_path: Path, workers: int, *, weighted: bool
) -> None:
    """Also by the pass that only draws a sample, and the earliest one however many threads there are."""
    place = write(tmp_path / "rows", _ROWS, [300] * 30)
    for file in (23, 11, 29):
        _broken(place, file, "ward", "east")
    wanted = drawings(50)[0 if weighted else 1]
    with pytest.raises(BadTable) as caught:
        _scan(place, workers=workers, block_rows=64).draw(wanted)
    assert caught.value.column == "ward"
    assert caught.value.place == "part-011.parquet, row group 1, row 130"
    assert "east" not in str(caught.value)


def test_a_file_that_was_cut_short_ends_the_pass(tmp_path: Path) -> None:
    place = write(tmp_path / "rows", _ROWS, [3_000] * 3)
    scan = _scan(place, workers=2)
    file = place / "part-002.parquet"
    file.write_bytes(file.read_bytes()[:-2_000])
    with pytest.raises(BadTable, match="part-002"):
        scan.draw(Drawing(10, 1))
    with pytest.raises(BadTable, match="part-002"):
        _scan(place)


def test_a_file_with_damaged_pages_ends_the_pass_with_its_row_group(tmp_path: Path) -> None:
    place = write(tmp_path / "rows", _ROWS, [3_000] * 3)
    file = place / "part-001.parquet"
    offset = pq.ParquetFile(file).metadata.row_group(2).column(0).dictionary_page_offset
    data = bytearray(file.read_bytes())
    data[offset : offset + 40] = b"\xff" * 40
    file.write_bytes(bytes(data))
    with pytest.raises(BadTable, match="part-001") as caught:
        _scan(place, workers=2).draw(Drawing(10, 1))
    assert "row group 2" in caught.value.place


def test_a_file_with_other_columns_is_named(tmp_path: Path) -> None:
    place = write(tmp_path / "rows", _ROWS, [3_000] * 3)
    pq.write_table(_ROWS.slice(0, 10).drop_columns(["ward"]), place / "part-009.parquet")
    with pytest.raises(BadTable, match="part-009"):
        _scan(place)


def test_a_column_that_the_table_lacks_is_named(tmp_path: Path) -> None:
    place = write(tmp_path / "rows", _ROWS.rename_columns(["age", "weight", "wards", "outcome"]), [9_000])
    with pytest.raises(BadTable, match=r"'ward'.*nearest names: 'wards'"):
        _scan(place).draw(Drawing(10, 1))


@pytest.mark.parametrize("option", ["workers", "block_rows", "unit_rows"])
def test_a_count_that_is_none_is_refused(tmp_path: Path, option: str) -> None:
    place = write(tmp_path / "rows", _ROWS, [9_000])
    with pytest.raises(InvalidArgument, match=option):
        _scan(place, **{option: 0})


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (1, [[10], [20], [5], [100], [1], [1]]),
        (30, [[10, 20], [5], [100], [1, 1]]),
        (35, [[10, 20, 5], [100], [1, 1]]),
        (1_000, [[10, 20, 5, 100, 1, 1]]),
    ],
)
def test_units_are_runs_of_parts(tmp_path: Path, rows: int, expected: list[list[int]]) -> None:
    sizes = [10, 20, 5, 100, 1, 1]
    parts = open_source(write(tmp_path / "rows", _ROWS.slice(0, sum(sizes)), sizes)).parts
    units = row_pass.units_of(parts, rows=rows)
    assert [[part.row_count for part in unit.parts] for unit in units] == expected
    assert [unit.number for unit in units] == list(range(len(units)))
