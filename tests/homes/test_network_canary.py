"""No row, bid or misfit of an owner in any file of another side, in whatever form it may stand there."""

import importlib.util
import os
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "run"))

from node_world import write_policy
from remote_world import OWNERS, make_world, write_job

from likeset.homes import owner_node, review
from likeset.homes.consumer_home import ConsumerHome
from likeset.homes.mail import Invitation
from likeset.homes.owner_node import OwnerNode
from likeset.ledger.budget import Limit
from likeset.ledger.ledger import Ledger
from likeset.privacy.events import Relation
from likeset.privacy.guarantee import View
from likeset.protocol.wire import Bid, Delivery, Misfit, Offer, decode
from likeset.run.job import Job
from likeset.run.runs import invite
from likeset.transports.nvflare.engine import simulate

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("nvflare") is None, reason="needs likeset[nvflare]"),
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs in the simulator among real nodes: with bids in each round, sealed, with misfits and an auction."""
    folder = tmp_path_factory.mktemp("whole")
    home = make_world(folder)
    limits = {"epsilon": 50.0, "delta": 1e-5, "rows": 100}
    for name in OWNERS:
        write_policy(folder / f"node-{name}", name, manual_approval=False, per_run=limits, total=dict(limits))
    invited = [
        _invited(home, folder, run="bids", protocol="interactive", size=4),
        _invited(home, folder, run="sealed"),
        _invited(home, folder, run="misfits", auction="threshold", auction_epsilon=4.0),
    ]
    paths = os.pathsep.join(str(Path(__file__).parents[1] / one) for one in (".", "homes", "run"))
    reports = simulate(
        *invited,
        workspace=folder / "nvflare",
        factory="whole_network:seat",
        folder=folder,
        environment={**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1"},
        seconds=1200.0,
        seconds_per_call=100.0,
        seconds_after_auction=0.0,
    )
    assert [report.unanswered for report in reports] == [{}, {}, {}]
    assert [report.outcome for report in reports[:2]] == ["done", "done"]
    return folder


def _invited(home: ConsumerHome, folder: Path, **changes: object) -> Invitation:
    with Ledger(home.ledger) as ledger:
        ledger.set_limit(View.owners("new-clinic"), Limit(100.0, 1e-5, Relation.REPLACE_ONE))
    return invite(home, Job.load(write_job(folder, **changes)), expires="2099-01-01").invitation


def secrets_of(folder: Path, name: str) -> tuple[set[str], dict[str, set[bytes]]]:
    """What left an owner, from its own outbox: kinds of messages, and what of them stands nowhere else."""
    found: dict[str, set[bytes]] = {}
    with OwnerNode(folder / f"node-{name}") as node:
        sent = review.messages_that_left(node)
    for one in sent:
        body = decode(one.data).body
        if isinstance(body, Bid):
            found.setdefault("bid", set()).update({*_forms(body.gain), str(body.handle).encode()})
        elif isinstance(body, Misfit):
            found.setdefault("misfit", set()).update(_forms(body.misfit))
        elif isinstance(body, Offer | Delivery):
            found.setdefault("row", set()).update(row.astype("<f4").tobytes() for row in body.rows)
    return {message.kind for message in sent}, found


def _forms(value: float) -> Iterator[bytes]:
    """A number as it may stand in a file: in digits, as a message carries it, and as it lies in memory."""
    if value == value and value:
        yield f"{value:.9g}".encode()
        yield struct.pack("<d", value).hex().encode()
        yield struct.pack("<d", value)


def test_nothing_of_an_owner_is_in_the_files_of_another_side(world: Path) -> None:
    files = {path: path.read_bytes() for path in world.rglob("*") if path.is_file() and not path.is_symlink()}
    assert any("log" in path.name for path in files)
    for name in OWNERS:
        kinds, secrets = secrets_of(world, name)
        assert {"bid", "misfit"} <= kinds
        for what, forms in secrets.items():
            own = [path for path in files if path.is_relative_to(world / f"node-{name}")]
            assert any(one in files[path] for path in own for one in forms), f"a search for {what} that finds nothing"
            for path, data in files.items():
                bought = what == "row" and path.is_relative_to(world / "home")
                if path not in own and path.suffix != ".csv" and not bought:
                    assert not [one for one in forms if one in data], (what, path)


def test_doses_are_in_no_log(world: Path) -> None:
    """Each dose ends in .4242, and no other number does; the files that owners were given have them, of course."""
    for path in (world / "nvflare").rglob("*"):
        if path.is_file():
            assert b".4242" not in path.read_bytes(), path


def test_receipts_came_to_each_owner_by_themselves_and_agree(world: Path) -> None:
    """Also of a run that may have missed its quorum; each owner has its own and nobody else's."""
    for name in OWNERS:
        with OwnerNode(world / f"node-{name}") as node:
            left = {
                run: sum(message.rows for message in review.messages_that_left(node, run))
                for run in ("bids", "sealed", "misfits")
            }
            for run, rows in left.items():
                found = owner_node.check(node, run)
                assert (found.problems, found.notes, found.aside) == ((), (), ())
                assert found.receipt is not None
                assert (found.receipt.transcript.owner, found.receipt.transcript.rows) == (name, rows)
            assert review.verify(node) == ([], [])
            assert left["bids"] > 0
