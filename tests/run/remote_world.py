"""A network in one process: a consumer's directory, nodes and a curator as they are between organisations."""

import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

sys.path.insert(0, str(Path(__file__).parents[1] / "homes"))

from node_world import SCHEMA, make_node, rows_text
from pinned_homes import introduce
from prepared_homes import prepared

from likeset import documents
from likeset.errors import LikesetError, RunCancelled
from likeset.homes.consumer.site import consumer
from likeset.homes.consumer_home import ConsumerHome, make_consumer_home
from likeset.homes.curator_home import curator, make_curator_home
from likeset.homes.mail import ConsumerRun, CuratorRun, Invitation, SiteRun
from likeset.homes.owner.site import owner_run
from likeset.homes.owner_node import OwnerNode
from likeset.protocol.party import CURATOR
from likeset.transports.nvflare.run_report import News, RunReport
from likeset.transports.outcomes import Ending, SiteState
from likeset.trust.letters import Acceptance, Stub, is_acceptance, is_stub, letter_in

OWNERS = ("a", "b")
CONSUMER = "new-clinic"
_MOST_BYTES = 1 << 28


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
    make_consumer_home(folder / "home", name=CONSUMER, kit="kit", user="lead")
    introduce_all(folder)


def introduce_all(folder: Path) -> None:
    """Pin the cards of all who are in a directory such as ``make_world`` makes."""
    introduce(sorted(folder.glob("node-*")), curator=folder / "curator", consumer=folder / "home")


@dataclass
class HereEngine:
    """Submits to nodes in this process; a job has ended when ``submit`` returns.

    Attributes:
        folder: where ``make_world`` made everything.
        absent: owners who give no answer.
        dies: whether jobs end before the curator comes to anything.
    """

    folder: Path
    absent: tuple[str, ...] = ()
    dies: bool = False
    ended: dict[str, list[RunReport]] = field(default_factory=dict)
    cancelled: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def submit(self, *invitations: Invitation) -> str:
        job = f"job-{len(self.ended)}"
        self.ended[job] = [] if self.dies else [self._held(invitation) for invitation in invitations]
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

    def _held(self, invitation: Invitation) -> RunReport:
        """As from the wire: what is read is bytes."""
        invitation = Invitation.read(invitation.to_bytes())
        terms = invitation.terms
        seat = curator(invitation, CURATOR, self.folder / "curator")
        mine = consumer(invitation, CONSUMER, self.folder / "home")
        outcome, detail = Ending.DONE, ""
        with ExitStack() as stack:
            runs: dict[str, SiteRun] = {CURATOR: seat, CONSUMER: mine}
            post = Post(invitation, seat, mine, runs)
            try:
                for name in terms.owners:
                    if name not in self.absent:
                        node = stack.enter_context(OwnerNode(self.folder / f"node-{name}"))
                        if (run := self._asked(node, invitation)) is not None:
                            runs[name] = run
                post.carry()
            except LikesetError as error:
                outcome, detail = Ending.FAILED, type(error).__name__
        gone = dict.fromkeys(self.absent, SiteState.NO_ANSWER)
        return RunReport(terms.run, terms.digest, outcome, gone, (), post.letters, post.bytes_sent, 1.0, 1, 1.0, detail)

    def _asked(self, node: OwnerNode, invitation: Invitation) -> SiteRun | None:
        """Its side of the run, if it takes part."""
        try:
            return owner_run(node, invitation)
        except LikesetError:
            return None


@dataclass
class Post:
    """Carries the letters of one run; it knows whom they are for, and nothing else.

    Attributes:
        invitation: of the run.
        curator: its side.
        consumer: likewise.
        runs: the sides of all who take part.
        letters: how many were carried.
        bytes_sent: how long they were.
        done: whether the consumer took its summary.
    """

    invitation: Invitation
    curator: CuratorRun
    consumer: ConsumerRun
    runs: Mapping[str, SiteRun]
    letters: int = 0
    bytes_sent: int = 0
    done: bool = False

    def carry(self) -> None:
        """The whole run, with its receipts."""
        queue = deque(self._true(self.consumer.begin(self._acceptances()), CONSUMER))
        while queue:
            data = queue.popleft()
            queue.extend(self.give(data))
            if not queue:
                for owner in sorted(self.curator.waiting_for):
                    queue.extend(self.curator.give_up(owner))
        for data in self.curator.end():
            self.give(data)
        if not self.done:
            raise RunCancelled(f"run {self.invitation.terms.run} ended without a summary")

    def _acceptances(self) -> Iterator[bytes]:
        """What all sign who take part."""
        yield self.curator.acceptance()
        for name in self.invitation.terms.owners:
            if name in self.runs:
                with suppress(LikesetError):
                    yield self.runs[name].acceptance()

    def give(self, data: bytes) -> tuple[bytes, ...]:
        """A letter to its reader; the answers, or what the curator says when an owner has none."""
        self.letters += 1
        self.bytes_sent += len(data)
        writer, reader = self._between(data)
        try:
            replies = self._true(self.runs[reader].hear(data), reader)
            self.done |= (writer, reader) == (CURATOR, CONSUMER)
            return replies
        except LikesetError:
            if reader in self.invitation.terms.owners:
                return self.curator.give_up(reader)
            if writer in self.invitation.terms.owners:
                return ()
            raise

    def _true(self, replies: Iterable[bytes], by: str) -> tuple[bytes, ...]:
        """Those that somebody wrote himself; what another one wrote earlier goes back to that one."""
        own = []
        for data in replies:
            writer, _ = self._between(data)
            if writer == by:
                own.append(data)
                continue
            with suppress(LikesetError):
                self.runs[writer].hear(data)
        return tuple(own)

    def _between(self, data: bytes) -> tuple[str, str]:
        """Who wrote something, and to whom."""
        names = {fingerprint: name for name, fingerprint in self.invitation.terms.cards.items()}
        if is_acceptance(data):
            return names[Acceptance.from_bytes(data).card.fingerprint], CONSUMER
        stub = Stub.from_bytes(data) if is_stub(data) else letter_in(data, most_bytes=_MOST_BYTES).stub
        header = stub.header
        return names[header.sender], names[header.recipient]
