"""Passes of several owners at once, in one process: what each of them leaves and sets is its own."""

import threading
from pathlib import Path

import pyarrow as pa
import pytest
from scan_world import SCHEMA, assert_same, drawings, in_memory, table, write

from likeset.tables.scan.checkpoint import Checkpoint
from likeset.tables.scan.memory_scan import DrawnRows
from likeset.tables.scan.pass_progress import Passed
from likeset.tables.scan.scan_choice import forget
from likeset.tables.scan.source_scan import SourceScan
from likeset.tables.sources.source import open_source

_UNIT = 1_000
_WANTED = drawings(60)


def side_by_side(owners: list[pa.Table], places: list[Path], kept: Path) -> list[list[list[int]]]:
    """Draw with the same keys from all places at once, unit by unit in step; how many rows each had before."""
    step = threading.Barrier(len(owners), timeout=600.0)
    drawn: dict[int, list[DrawnRows]] = {}
    resumed: list[list[list[int]]] = [[] for _ in owners]

    def draw(number: int) -> None:
        def together(passed: Passed) -> None:
            resumed[number].append([passed.rows, passed.resumed])
            step.wait()

        scan = SourceScan(
            open_source(places[number]), SCHEMA, checkpoints=kept, unit_rows=_UNIT, block_rows=_UNIT, progress=together
        )
        drawn[number] = scan.draw(*_WANTED)

    threads = [threading.Thread(target=draw, args=(number,)) for number in range(len(owners))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, rows in enumerate(owners):
        assert_same(drawn[number], in_memory(rows).draw(*_WANTED))
    return resumed


def test_files_of_the_same_name_share_a_directory_for_checkpoints(tmp_path: Path) -> None:
    owners = [table(3_000, seed=seed) for seed in (1, 2)]
    places = [write(tmp_path / f"owner-{number}" / "rows", rows, [3_000]) for number, rows in enumerate(owners)]
    kept = tmp_path / "kept"
    first = [[1_000, 0], [2_000, 0], [3_000, 0]]
    assert side_by_side(owners, places, kept) == [first, first]
    assert len(list(kept.iterdir())) == 2
    assert side_by_side(owners, places, kept) == [[[3_000, 3_000]], [[3_000, 3_000]]]
    forget(kept)
    assert not kept.exists()


def test_the_same_pass_twice_at_once_leaves_a_whole_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the writing of the one and its move to its place, the other writes and moves."""
    rows, kept = table(3_000), tmp_path / "kept"
    place = write(tmp_path / "rows", rows, [3_000])
    one, other = Checkpoint(kept, "a" * 64), Checkpoint(kept, "a" * 64)
    original, moves = Path.replace, list[str]()

    def replace(path: Path, target: Path) -> Path:
        moves.append(path.name)
        if len(moves) == 1:
            other.save([0, 1], [])
        return original(path, target)

    monkeypatch.setattr(Path, "replace", replace)
    one.save([0], [])
    assert len(set(moves)) == 2
    assert [file.suffix for file in kept.iterdir()] == [".pass"]
    scan = SourceScan(open_source(place), SCHEMA)
    assert one.load(scan._work) == ({0}, [])
