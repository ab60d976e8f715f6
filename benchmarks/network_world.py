"""A market as separate processes on this machine that talk over NVFlare, on loopback, with its own start-up kits."""

import os
from dataclasses import dataclass, field
from typing import Self

from likeset.app.demo.network import CONSUMER, MarketHomes
from likeset.transports.nvflare.loopback import LoopbackNetwork
from likeset.transports.nvflare.quiet_client import QuietEngine, quiet_output

_SECONDS_PER_CALL = 25.0
_SECONDS_FOR_DECISIONS = 90.0


@dataclass
class NetworkWorld(MarketHomes):
    """The homes of a market, and the processes of NVFlare; arguments as ``MarketHomes``."""

    network: LoopbackNetwork = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # many processes share the cores
        self.network = LoopbackNetwork(self.folder / "network", self.sites, environment)

    @property
    def sites(self) -> tuple[str, ...]:
        """All but the curator's."""
        return (*self.owners, CONSUMER)

    def engine(self) -> QuietEngine:
        """For the consumer, who may submit jobs."""
        engine = self.network.engine()
        return QuietEngine(engine.kit, engine.user)

    def set_up(self) -> None:
        """Kits with certificates, and a directory for each party."""
        self.network.provision()
        engine = self.engine()
        self.make_homes(kit=str(engine.kit), user=engine.user)
        for name in self.owners:
            self.network.settle(name, factory="likeset.homes.owner.site:owner", folder=self.node(name))
        self.network.settle(CONSUMER, factory="likeset.homes.consumer.site:consumer", folder=self.consumer.folder)
        self.network.settle(
            self.network.server,
            factory="likeset.homes.curator_home:curator",
            folder=self.curator.folder,
            seconds_per_call=_SECONDS_PER_CALL,
            seconds_for_decisions=_SECONDS_FOR_DECISIONS,
        )

    def start(self) -> None:
        """All processes; returns when they are connected."""
        self.network.start(self.network.server, *self.sites)
        with quiet_output():
            self.network.wait_until_connected(*self.sites, seconds=120.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.network.__exit__(None, None, None)
