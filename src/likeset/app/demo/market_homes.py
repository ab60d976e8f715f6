"""The homes of a market on this machine: an owner's node for each table, a curator, a consumer, and their pinned cards.

For the demo and for measurements; every directory is what its party would have on a machine of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from likeset import documents
from likeset.homes.consumer.home import ConsumerHome, make_consumer_home
from likeset.homes.curator.home import CuratorHome, make_curator_home
from likeset.homes.owner.home import Home, make_home
from likeset.homes.owner.node import OwnerNode
from likeset.homes.party_home import PartyHome
from likeset.homes.pinning import pins_to_change
from likeset.homes.witness.home import WitnessHome, make_witness_home
from likeset.trust.pins import Role

__all__ = ["CONSUMER", "WITNESS_NAME", "MarketHomes"]

CONSUMER = "clinic"
WITNESS_NAME = "university"
_LISTEN = "127.0.0.1:0"
_BY = "the demo"


@dataclass
class MarketHomes:
    """Where everything lies.

    Args:
        folder: a directory.
        owners: the table of each owner.
        schema: of all tables.
        columns: that may leave an owner.
        most_rows: that may leave an owner, in a run and in total.
        epsilon: what the others may learn about an owner's rows, in a run and in total.
        manual_approval: whether somebody decides about each run at each owner.
        with_witness: whether there is a witness, and the curator is split; its tunnels listen on this machine alone.
    """

    folder: Path
    owners: Mapping[str, str]
    schema: Path
    columns: tuple[str, ...]
    most_rows: int = 500
    epsilon: float = 0.0
    manual_approval: bool = True
    with_witness: bool = False

    def __post_init__(self) -> None:
        self.folder = self.folder.resolve()

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

    @property
    def witness(self) -> WitnessHome:
        """The witness's directory, where there is one."""
        return WitnessHome(self.folder / WITNESS_NAME)

    def make_homes(self, *, kit: str = "", user: str = "") -> None:
        """A directory for each party, and everybody's card pinned where it must be."""
        listen = _LISTEN if self.with_witness else ""
        make_curator_home(self.curator.folder, listen=listen).add_schema(self.schema)
        make_consumer_home(self.consumer.folder, name=CONSUMER, kit=kit, user=user, listen=listen)
        if self.with_witness:
            make_witness_home(self.witness.folder, name=WITNESS_NAME, listen=listen)
        for name in self.owners:
            self._make_node(name)
        self._introduce()

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
        if self.with_witness:
            _pin(self.witness, self.consumer, "consumer")
            _pin(self.witness, self.curator, "curator")
            for home in (self.consumer, *owners):
                _pin(home, self.witness, "witness")


def _pin(home: PartyHome, other: PartyHome, role: Role) -> None:
    with pins_to_change(home, by=_BY) as pins:
        pins.pin(other.card(), role, fingerprint=None)
