"""A network in one process: a consumer's directory, nodes and a curator as they are between organisations."""

import sys
from collections.abc import Collection
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "homes"))

from node_world import SCHEMA, make_node, rows_text
from pinned_homes import introduce
from prepared_homes import prepared

from likeset import documents
from likeset.homes.consumer_home import ConsumerHome, make_consumer_home
from likeset.homes.curator_home import make_curator_home
from likeset.run.runs import start
from likeset.transports.desks import MailDesk, RunProgress, consumer_desk, curator_desk, owner_desk, whereabouts
from likeset.transports.posts import Look
from likeset.transports.stores import open_store

OWNERS = ("a", "b")
CONSUMER = "new-clinic"


def write_job(folder: Path, **changes: Any) -> Path:
    """A job of two owners, by name only."""
    (folder / "schema.yaml").write_text(SCHEMA)
    (folder / "target.csv").write_text(rows_text(7, count=30))
    job = {
        "likeset": "job",
        "version": 1,
        "schema": "schema.yaml",
        "target": "target.csv",
        "owners": {name: f"network:{name}" for name in OWNERS},
        "size": 6,
        "epsilon": 8.0,
        "offer_factor": 4.0,
        "consumer": "new-clinic",
        "purpose": "Research on sepsis",
        "run": "run-1",
    }
    documents.write(folder / "job.yaml", {**job, **changes})
    return folder / "job.yaml"


def make_world(folder: Path) -> ConsumerHome:
    """Two nodes whose policies decide by themselves, a curator, and a consumer."""
    prepared(folder, "world of two nodes", _make_world)
    return ConsumerHome(folder / "home")


def _make_world(folder: Path) -> None:
    for seed, name in enumerate(OWNERS):
        make_node(folder, name, seed=seed, manual_approval=False)
    write_job(folder)
    make_curator_home(folder / "curator").add_schema(folder / "schema.yaml")
    make_consumer_home(folder / "home", name=CONSUMER)
    introduce_all(folder)


def introduce_all(folder: Path) -> None:
    """Pin the cards of all who are in a directory such as ``make_world`` makes."""
    introduce(sorted(folder.glob("node-*")), curator=folder / "curator", consumer=folder / "home")


def hold(
    folder: Path, name: str = "run-1", *, absent: Collection[str] = (), mailbox: Path | None = None
) -> RunProgress:
    """Carry a run by a mailbox until nothing happens any more, also when all deadlines have passed.

    Args:
        folder: where ``make_world`` made everything.
        name: of the run.
        absent: owners who never look.
        mailbox: a folder; beside the homes if None.
    """
    home, place = ConsumerHome(folder / "home"), mailbox or folder / "mailbox"
    place.mkdir(exist_ok=True)
    store, run, late = open_store(str(place)), home.known(name), timedelta()
    start(run, store.address, decide_within=timedelta(days=1))

    def clock() -> datetime:
        return datetime.now(UTC) + late

    with ExitStack() as stack:
        desks: list[MailDesk] = [
            consumer_desk(home.folder, store, clock=clock),
            curator_desk(folder / "curator", store, clock=clock),
            *(owner_desk(folder / f"node-{owner}", store, clock=clock) for owner in OWNERS if owner not in absent),
        ]
        for desk in desks:
            stack.enter_context(desk)
        for _ in range(4):
            for _ in range(60):
                look = Look.all_of([desk.look() for desk in desks])
                if not look.something_happened:
                    break
            progress = whereabouts(home, run)
            if progress.ended is not None or look.next_deadline is None:
                break
            late += look.next_deadline - clock() + timedelta(seconds=1)
    return progress
