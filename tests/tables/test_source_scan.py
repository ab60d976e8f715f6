"""The streamed pass: the same draw as in memory, whatever the blocks, files and threads."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from protocol_world import ledger_on_disk, terms
from scan_world import SCHEMA, assert_same, drawings, in_memory, spoil, table, write

from chance import examples
from likeset.errors import BadTable
from likeset.geometry.offers import Drawing
from likeset.protocol.prices import target_plan
from likeset.protocol.sealed import SealedOwner
from likeset.protocol.terms import Kernel, Terms
from likeset.protocol.wire import Message, TargetRelease
from likeset.tables.ray_scan import units_of
from likeset.tables.scan import SourceScan
from likeset.tables.sources import open_source
from likeset.transports.local import ChargedParty

_ROWS = table(9_000)
_EXPECTED = in_memory(_ROWS).draw(*drawings(300))


def _scan(place: Path, **options: object) -> SourceScan:
    return SourceScan(open_source(place), SCHEMA, **options)  # type: ignore[arg-type]


@pytest.mark.slow
@settings(max_examples=examples(10), suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(
    cuts=st.lists(st.integers(0, 9_000), max_size=6),
    block_rows=st.integers(200, 10_000),
    workers=st.integers(1, 4),
    group=st.sampled_from([333, 2048, 9_000]),
)
def test_a_streamed_draw_is_the_draw_from_memory(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], block_rows: int, workers: int, group: int
) -> None:
    edges = [0, *sorted(cuts), 9_000]
    sizes = [after - before for before, after in pairwise(edges)]
    place = write(tmp_path_factory.mktemp("rows"), _ROWS, sizes, group=group)
    scan = _scan(place, block_rows=block_rows, workers=workers)
    assert_same(scan.draw(*drawings(300)), _EXPECTED)


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


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_cell_that_cannot_be_used_is_named_by_file_and_row_group(
    tmp_path: Path, workers: int, *, weighted: bool
) -> None:
    """Also by the pass that only draws a sample, and the earliest one however many threads there are."""
    place = write(tmp_path / "rows", _ROWS, [300] * 30)
    for file in (23, 11, 29):
        spoil(place, file, 130, group=100)
    wanted = drawings(50)[0 if weighted else 1]
    with pytest.raises(BadTable) as caught:
        _scan(place, workers=workers, block_rows=64).draw(wanted)
    assert caught.value.column == "ward"
    assert caught.value.place == "part-011.parquet, row group 1, row 130"
    assert "east" not in str(caught.value)


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
    units = units_of(parts, rows=rows)
    assert [[part.row_count for part in unit] for unit in units] == expected


_THRESHOLD = {"auction": "threshold", "auction_epsilon": 8.0, "auction_offset": 2}


def _call(agreed: Terms) -> Message:
    plan = target_plan(agreed)
    assert plan is not None
    target = in_memory(table(9_000).filter(pa.compute.field("ward") == "west").slice(0, 500))
    rows = next(iter(target.blocks()))[1].rows
    release = agreed.kernel.features().mean(rows)
    return Message(agreed.run, agreed.digest, agreed.consumer, "a", 1, TargetRelease(release=release))


@pytest.mark.parametrize("auction", [{}, _THRESHOLD])
def test_a_category_that_appears_in_file_73_only_ends_it_before_anything_is_sent_or_charged(
    tmp_path: Path, auction: dict[str, Any]
) -> None:
    """With an auction, the first pass is followed by a message: so it has to see every cell itself."""
    place = write(tmp_path / "rows", table(9_000), [100] * 90)
    spoil(place, 73, 42)
    kernel = Kernel(columns=SCHEMA.width, dimension=32, gamma=0.5, seed=7)
    agreed = terms(kernel=kernel, schema_digest=SCHEMA.digest, size=60, target_size=2_000, **auction)
    with ledger_on_disk(agreed) as ledger:
        head = ledger.head()
        scan = SourceScan(open_source(place), SCHEMA, workers=2)
        owner = SealedOwner(agreed, "a", scan=scan, key=5)
        with pytest.raises(BadTable) as caught:
            ChargedParty(owner, ledger).take(_call(agreed))
        assert caught.value.place == "part-073.parquet, row group 0, row 42"
        assert ledger.head() == head
        assert owner.traffic.sent_messages == 0
        assert owner.rows_disclosed == 0
