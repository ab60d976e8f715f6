"""Split runs by mailbox: nobody reads a row but the buyer, whoever is killed, late or away."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from split_homes import SplitHomes, split_homes_in

from likeset.homes.owner import kept_receipts
from likeset.homes.owner.node import OwnerNode
from likeset.transports.outcomes import Ending


@pytest.fixture
def homes(tmp_path: Path) -> Iterator[SplitHomes]:
    made = split_homes_in(tmp_path)
    yield made
    made.drop()


@pytest.mark.parametrize("witness", [True, False])
def test_a_split_run_gives_the_consumer_rows_and_owners_receipts(tmp_path: Path, witness: bool) -> None:
    homes = split_homes_in(tmp_path, witness=witness)
    homes.hold()
    assert homes.progress.ended is Ending.DONE
    summary = homes.summary
    assert len(summary.rows) == 6
    assert summary.rows_seen == 2 * homes.run.terms.rows_per_owner
    for owner in homes.owners:
        with OwnerNode(homes.folder(owner), clock=homes.clock) as node:
            verdict = kept_receipts.check(node, "run-1")
            assert verdict.receipt is not None
            assert verdict.problems == verdict.contradictions == ()
            assert verdict.receipt.transcript.rows == homes.run.terms.rows_per_owner
    for party in homes.computing:
        assert not any((homes.folder(party) / "split").glob("*"))
    homes.drop()
