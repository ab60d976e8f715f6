"""A network as it is built now: the only part of the golden runs that knows modules inside.

Whoever rebuilds the inside writes this file anew; what ``test_golden_network.py`` types and reads stays.
"""

from collections.abc import Collection
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

from home_world import DatedStore

from likeset.homes.consumer import Consumer
from likeset.homes.home import Home
from likeset.transports.sync import Sync, Synced
from likeset.trust.cards import Role

_ROLES: dict[str, Role] = {"home": "consumer", "curator": "curator"}


def introduce(folder: Path) -> None:
    roles = _ROLES | {place.name: "owner" for place in folder.glob("node-*")}
    for name, role in roles.items():
        with Home(folder / name) as home:
            for other, its in roles.items():
                if other != name and ("consumer" in (role, its) or its == "curator"):
                    with Home(folder / other) as peer:
                        home.pins.pin(peer.card, its)


def carry(folder: Path, *, absent: Collection[str] = ()) -> None:
    (folder / "mailbox").mkdir(exist_ok=True)
    late = timedelta()
    store = DatedStore(folder / "mailbox", lambda: datetime.now(UTC) + late)
    names = [*_ROLES, *(place.name for place in sorted(folder.glob("node-*")))]
    with ExitStack() as stack:
        syncs = {
            name: stack.enter_context(
                Sync(stack.enter_context(Home(folder / name, clock=lambda: datetime.now(UTC) + late)), store)
            )
            for name in names
            if name.removeprefix("node-") not in absent
        }
        consumer = syncs["home"].mail.handlers["consumer"]
        assert isinstance(consumer, Consumer)
        run = consumer.run("golden")
        consumer.start_run(run, store.address)
        for _ in range(5):
            look = Synced()
            for _ in range(60):
                look = Synced()
                for sync in syncs.values():
                    look.add(sync.once())
                if not look.something_happened:
                    break
            if consumer.progress(run).ended is not None or look.next_deadline is None:
                return
            late += look.next_deadline - (datetime.now(UTC) + late) + timedelta(seconds=1)
