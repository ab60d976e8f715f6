"""A market as separate processes on this machine: an owner's node for each table, a curator, a consumer.

All on loopback, with NVFlare's own start-up kits and certificates. For the demo and for measurements; every directory
is what its party would have on a machine of its own.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from likeset import documents
from likeset.homes.consumer.home import ConsumerHome, make_consumer_home
from likeset.homes.curator.home import CuratorHome, make_curator_home
from likeset.homes.owner.home import Home, make_home
from likeset.homes.owner.node import OwnerNode
from likeset.homes.party_home import PartyHome
from likeset.homes.pinning import pins_to_change
from likeset.transports.nvflare.loopback import LoopbackNetwork
from likeset.transports.nvflare.quiet_client import QuietEngine, quiet_output
from likeset.trust.pins import Role

__all__ = ["CONSUMER", "NetworkWorld"]

CONSUMER = "clinic"
_BY = "the demo"
_SECONDS_PER_CALL = 25.0
_SECONDS_FOR_DECISIONS = 90.0


@dataclass
class NetworkWorld:
    """Where everything lies, and the processes.

    Args:
        folder: a directory.
        owners: the table of each owner.
        schema: of all tables.
        columns: that may leave an owner.
        most_rows: that may leave an owner, in a run and in total.
        epsilon: what the others may learn about an owner's rows, in a run and in total.
        manual_approval: whether somebody decides about each run at each owner.
    """

    folder: Path
    owners: Mapping[str, str]
    schema: Path
    columns: tuple[str, ...]
    most_rows: int = 500
    epsilon: float = 0.0
    manual_approval: bool = True
    network: LoopbackNetwork = field(init=False)

    def __post_init__(self) -> None:
        self.folder = self.folder.resolve()
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # many processes share the cores
        self.network = LoopbackNetwork(self.folder / "network", self.sites, environment)

    @property
    def sites(self) -> tuple[str, ...]:
        """All but the curator's."""
        return (*self.owners, CONSUMER)

    def node(self, name: str) -> Path:
        """The directory of an owner."""
        return self.folder / "owners" / name

    @property
    def curator(self) -> CuratorHome:
        """The curator's directory."""
        return CuratorHome(self.folder / "curator")

    @property
    def consumer(self) -> ConsumerHome:
        """The consumer's directory."""
        return ConsumerHome(self.folder / CONSUMER)

    def engine(self) -> QuietEngine:
        """For the consumer, who may submit jobs."""
        engine = self.network.engine()
        return QuietEngine(engine.kit, engine.user)

    def set_up(self) -> None:
        """Kits with certificates, and a directory for each party."""
        self.network.provision()
        make_curator_home(self.curator.folder).add_schema(self.schema)
        engine = self.engine()
        make_consumer_home(self.consumer.folder, name=CONSUMER, kit=str(engine.kit), user=engine.user)
        for name in self.owners:
            self._make_node(name)
        self._introduce()
        for name in self.owners:
            self.network.settle(name, factory="likeset.homes.owner.site:owner", folder=self.node(name))
        self.network.settle(CONSUMER, factory="likeset.homes.consumer.site:consumer", folder=self.consumer.folder)
        self.network.settle(
            self.network.server,
            factory="likeset.homes.curator.home:curator",
            folder=self.curator.folder,
            seconds_per_call=_SECONDS_PER_CALL,
            seconds_for_decisions=_SECONDS_FOR_DECISIONS,
        )

    def start(self) -> None:
        """All processes; returns when they are connected."""
        self.network.start(self.network.server, *self.sites)
        with quiet_output():
            self.network.wait_until_connected(*self.sites, seconds=120.0)

    def _make_node(self, name: str) -> None:
        """An owner's node; its policy names the consumer and bounds what may leave."""
        self.node(name).parent.mkdir(exist_ok=True)
        home = make_home(self.node(name), name=name)
        limits = {"epsilon": self.epsilon, "delta": 1e-5, "rows": self.most_rows}
        policy: dict[str, Any] = {
            "likeset": "owner",
            "version": 1,
            "name": name,
            "consumers": [CONSUMER],
            "purposes": ["to recognise *"],
            "columns": list(self.columns),
            "smallest_group": 1,
            "per_run": dict(limits),
            "total": limits,
            "manual_approval": self.manual_approval,
        }
        documents.write(home.policy, policy)
        with OwnerNode(home.folder) as node:
            node.registry.add("images", str(Path(self.owners[name]).resolve()), schema=self.schema)

    def _introduce(self) -> None:
        """Pin everybody's card at everybody else's; between houses people compare fingerprints by telephone first."""
        owners = [Home(self.node(name)) for name in self.owners]
        for owner in owners:
            _pin(owner, self.consumer, "consumer")
            _pin(owner, self.curator, "curator")
            _pin(self.consumer, owner, "owner")
        _pin(self.consumer, self.curator, "curator")
        _pin(self.curator, self.consumer, "consumer")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.network.__exit__(None, None, None)


def _pin(home: PartyHome, other: PartyHome, role: Role) -> None:
    with pins_to_change(home, by=_BY) as pins:
        pins.pin(other.card(), role, fingerprint=None)
