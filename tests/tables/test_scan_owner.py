"""An owner over files: the same offer as from memory, and nothing sent or charged where a cell cannot be used."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from protocol_world import QuickLedger, ledger_on_disk, terms
from scan_world import SCHEMA, in_memory, table, write

from likeset.errors import BadTable
from likeset.homes.mail import Shell
from likeset.protocol.prices import target_plan
from likeset.protocol.sealed import Scan, SealedOwner
from likeset.protocol.terms import Kernel, Terms
from likeset.protocol.wire import Message, TargetRelease, encode
from likeset.tables.scan import SourceScan
from likeset.tables.sources import open_source

_THRESHOLD = {"auction": "threshold", "auction_epsilon": 8.0, "auction_offset": 2}


def _agreed(**changes: Any) -> Terms:
    kernel = Kernel(columns=SCHEMA.width, dimension=32, gamma=0.5, seed=7)
    return terms(kernel=kernel, schema_digest=SCHEMA.digest, size=60, target_size=2_000, **changes)


def _call(agreed: Terms) -> Message:
    plan = target_plan(agreed)
    assert plan is not None
    target = in_memory(table(9_000).filter(pa.compute.field("ward") == "west").slice(0, 500))
    rows = next(iter(target.blocks()))[1].rows
    release = agreed.kernel.features().mean(rows)
    return Message(agreed.run, agreed.digest, agreed.consumer, "a", 1, TargetRelease(release=release))


def _answer(agreed: Terms, scan: Scan) -> list[bytes]:
    owner = Shell(SealedOwner(agreed, "a", scan=scan, key=5), QuickLedger())
    return [encode(reply) for reply in owner.take(_call(agreed))]


@pytest.mark.parametrize("auction", [{}, _THRESHOLD])
def test_the_message_is_the_same_to_the_last_byte(tmp_path: Path, auction: dict[str, Any]) -> None:
    rows = table(9_000)
    place = write(tmp_path / "rows", rows, [1_000, 100, 4_900, 3_000])
    agreed = _agreed(**auction)
    expected = _answer(agreed, in_memory(rows))
    for workers, block_rows in ((1, 32_768), (2, 500), (3, 3_000)):
        scan = SourceScan(open_source(place), SCHEMA, workers=workers, block_rows=block_rows)
        assert _answer(agreed, scan) == expected


@pytest.mark.parametrize("auction", [{}, _THRESHOLD])
def test_a_category_that_appears_in_file_73_only_ends_it_before_anything_is_sent_or_charged(
    tmp_path: Path, auction: dict[str, Any]
) -> None:
    """With an auction, the first pass is followed by a message: so it has to see every cell itself."""
    place = write(tmp_path / "rows", table(9_000), [100] * 90)
    path = place / "part-073.parquet"
    rows = pq.read_table(path)
    wards = rows.column("ward").to_pylist()
    wards[42] = "east"
    pq.write_table(rows.set_column(2, "ward", pa.array(wards)), path)
    agreed = _agreed(**auction)
    with ledger_on_disk(agreed) as ledger:
        head = ledger.head()
        scan = SourceScan(open_source(place), SCHEMA, workers=2)
        owner = SealedOwner(agreed, "a", scan=scan, key=5)
        with pytest.raises(BadTable) as caught:
            Shell(owner, ledger).take(_call(agreed))
        assert caught.value.place == "part-073.parquet, row group 0, row 42"
        assert ledger.head() == head
        assert owner.traffic.sent_messages == 0
        assert owner.rows_disclosed == 0
