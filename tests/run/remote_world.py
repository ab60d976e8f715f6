"""A network in one process: a consumer's directory, nodes and a curator as they are between organisations."""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

sys.path.insert(0, str(Path(__file__).parents[1] / "homes"))

from node_world import SCHEMA, Wire, make_node, rows_text

from likeset import documents
from likeset.errors import LikesetError
from likeset.homes.consumer.home import ConsumerHome, make_consumer_home
from likeset.homes.consumer.site import consumer
from likeset.homes.curator.home import curator, make_curator_home
from likeset.homes.owner.node import OwnerNode
from likeset.homes.shell import ConsumerShell, CuratorShell
from likeset.homes.site_party import SiteParty
from likeset.protocol.messages import Message, encode
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import Terms
from likeset.transports.nvflare.run_report import Ending, News, RunReport, SiteState
from likeset.transports.plain_messages import PlainCurator, read_parcel
from likeset.transports.pump import Pump

OWNERS = ("a", "b")


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
    for seed, name in enumerate(OWNERS):
        make_node(folder, name, seed=seed, manual_approval=False)
    write_job(folder)
    make_curator_home(folder / "curator").add_schema(folder / "schema.yaml")
    return make_consumer_home(folder / "home", name="new-clinic", kit="kit", user="lead")


@dataclass
class HereEngine:
    """Submits to nodes in this process; a job has ended when ``submit`` returns.

    Attributes:
        folder: where ``make_world`` made everything.
        absent: owners who give no answer.
        dies: whether jobs end before the curator comes to anything.
        seeds: where the curator may see hashes only, the seed that each owner was given beside the network.
    """

    folder: Path
    absent: tuple[str, ...] = ()
    dies: bool = False
    seeds: dict[str, int] = field(default_factory=dict)
    ended: dict[str, list[RunReport]] = field(default_factory=dict)
    cancelled: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def submit(self, *terms: Terms) -> str:
        job = f"job-{len(self.ended)}"
        self.ended[job] = [] if self.dies else [self._held(one) for one in terms]
        return job

    def state(self, job: str) -> str:
        return "FINISHED:COMPLETED" if job in self.ended else "RUNNING"

    def news(self, job: str) -> News | None:  # noqa: ARG002 (nothing runs any more)
        return None

    def cancel(self, job: str) -> None:
        self.cancelled.append(job)

    def report(self, job: str) -> list[RunReport]:
        return self.ended[job]

    def connected_sites(self) -> list[str]:
        return [name for name in ("new-clinic", *OWNERS) if name not in self.absent]

    def _held(self, terms: Terms) -> RunReport:
        seat, mine = (
            curator(terms, CURATOR, self.folder / "curator"),
            consumer(terms, "new-clinic", self.folder / "home"),
        )
        assert isinstance(seat.party, CuratorShell)
        assert isinstance(mine.party, ConsumerShell)
        _keep_on_arrival(mine)
        nodes = {name: OwnerNode(self.folder / f"node-{name}") for name in terms.owners if name not in self.absent}
        outcome, detail = Ending.DONE, ""
        try:
            for node in nodes.values():
                node.invite(terms.to_json())
                if node.name in self.seeds:
                    node.approve(terms.run, terms.digest, by="A. Lovelace", hash_seed=self.seeds[node.name])
            pump = Pump(PlainCurator(seat.party), Wire(nodes, mine.party), read_parcel, workers=1)
            pump.run()
        except LikesetError as error:
            outcome, detail = Ending.FAILED, type(error).__name__
        finally:
            for node in nodes.values():
                node.close()
        gone = dict.fromkeys(self.absent, SiteState.NO_ANSWER)
        sent = (pump.messages, pump.bytes_sent)
        return RunReport(terms.run, terms.digest, outcome, gone, (), *sent, 1.0, 1, 1.0, detail)


def _keep_on_arrival(seat: SiteParty) -> None:
    honest, keep = seat.party.take, seat.keep
    assert keep is not None

    def take(message: Message) -> tuple[Message, ...]:
        replies = honest(message)
        keep(encode(message))
        return replies

    seat.party.take = take  # type: ignore[method-assign]
