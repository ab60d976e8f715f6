"""A split run at a compute party: curator, consumer or witness. Its computation runs beside the letters."""

import contextlib
import json
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import ClassVar, Final, Literal, Protocol

from likeset.errors import (
    BadDocument,
    IllegalMessage,
    InvalidArgument,
    LikesetError,
    NoAnswer,
    NotCurated,
    PartyFailed,
    QuorumMissed,
)
from likeset.files import keep_private_bytes, locked, make_private_folder, remove_unfinished
from likeset.homes.home import SPLIT_FOLDER, Home, TunnelPlace, reason_for_log
from likeset.homes.mail import Decision, Heard, Mail, RoleHandler
from likeset.homes.runs import (
    RECEIPT,
    UNDECIDED,
    Ending,
    LetterState,
    Run,
    State,
    ending_document,
    last_time,
    read_ending,
    read_word,
)
from likeset.ledger.ledger import Transaction
from likeset.protocol.party import CURATOR, ComputeState, Party, Step
from likeset.protocol.split import (
    NOTHING_HELD,
    ComputeInputs,
    ComputeParty,
    OpenedSlots,
    SplitConsumer,
)
from likeset.protocol.terms import WITNESS
from likeset.protocol.wire import Message, OfferShare, RosterVote, ShareReceipts
from likeset.split.engine.agreement import AGAIN
from likeset.split.host import OpeningFile, Progress, SplitParty, program_digest, split_python
from likeset.split.links import RunCertificate, TunnelMeeting, TunnelPeer, read_certificate
from likeset.trust.cards import Card, Role
from likeset.trust.letters import PostKind
from likeset.trust.shares import COMPUTE_ROLES, ComputeRole

_TUNNEL, _LOCK = "tunnel.json", ".lock"
_MOST_HOST = 255
_MOST_PORT = 65535


def reach_document(peer: TunnelPeer) -> bytes:
    """The address and certificate of a compute party in a run, as its roster vote contains them."""
    reach = {"certificate": peer.certificate.hex(), "host": peer.host, "port": peer.port}
    return json.dumps(reach, sort_keys=True, separators=(",", ":")).encode("ascii")


def _read_reach(data: bytes) -> TunnelPeer:
    try:
        reach = json.loads(data)
        peer = TunnelPeer(reach["host"], reach["port"], bytes.fromhex(reach["certificate"]))
    except (KeyError, TypeError, ValueError, RecursionError):
        raise BadDocument("reach", "does not say where a compute party listens") from None
    host, port = peer.host, peer.port
    is_host = isinstance(host, str) and 0 < len(host) <= _MOST_HOST and host.isascii() and host.isprintable()
    if not is_host or type(port) is not int or not 0 < port <= _MOST_PORT:
        raise BadDocument("reach", "does not say where a compute party listens")
    read_certificate(peer.certificate)
    return peer


@dataclass(frozen=True)
class ComputeFolder:
    home: Path  # the party's
    run: str  # the digest of the terms, in hexadecimal digits

    @property
    def folder(self) -> Path:
        return self.home / SPLIT_FOLDER / self.run

    @property
    def exists(self) -> bool:
        return self.folder.exists()

    @property
    def opening(self) -> OpeningFile:
        return OpeningFile(self.folder)

    def tunnel(self, place: TunnelPlace) -> tuple[RunCertificate, int]:
        """This party's certificate and port for the run, created once; ``NoAnswer`` if every port is taken."""
        path = self.folder / _TUNNEL
        if not path.exists():
            files = (self.home / SPLIT_FOLDER).glob(f"*/{_TUNNEL}")
            taken = {json.loads(file.read_bytes())["port"] for file in files}
            tunnel = {"port": _free_port(place, taken), "secret": RunCertificate.generate().to_bytes().hex()}
            make_private_folder(self.folder)
            remove_unfinished(self.folder)
            keep_private_bytes(path, json.dumps(tunnel).encode("ascii"))
        stored = json.loads(path.read_bytes())
        return RunCertificate.from_bytes(bytes.fromhex(stored["secret"])), int(stored["port"])

    @contextlib.contextmanager
    def alone(self) -> Iterator[bool]:
        """Whether this process is the only one that computes in the run, for as long as it does."""
        make_private_folder(self.folder)
        with locked(self.folder / _LOCK) as descriptor:
            yield descriptor is not None

    def keep_only_record(self) -> None:
        """Remove everything but the record of an opening, so that a run that is brought back is not opened again."""
        if not self.opening.began:
            self.remove()
            return
        self.opening.forget_share()
        for path in self.folder.iterdir():
            if path != self.opening.record:
                path.unlink(missing_ok=True)

    @property
    def has_only_record(self) -> bool:
        record = self.opening.record
        return list(self.folder.iterdir()) == [record] and not record.stat().st_size

    def remove(self) -> None:
        if self.exists:
            shutil.rmtree(self.folder)


def _free_port(place: TunnelPlace, taken: set[int]) -> int:
    host = place.listen.host
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for port in place.listen.ports:
        if port in taken:
            continue
        with contextlib.suppress(OSError), socket.create_server((host, port), family=family) as server:
            return int(server.getsockname()[1])
    raise NoAnswer(
        f"no port is free at {host}, {place.listen.ports[0]} to {place.listen.ports[-1]}: each run that is computed at "
        "the same time needs one; give listen: and reach_at: more"
    )


PATIENCE: Final = 60.0
"""Seconds without progress after which a computation checks whether to continue waiting."""
_LAST_SECONDS = 15.0


@dataclass(frozen=True, eq=False)
class ComputeJob:
    inputs: ComputeInputs
    folder: Path  # for its share of the picks
    own: RunCertificate
    host: str  # that its tunnels listen on
    port: int
    peers: Mapping[int, TunnelPeer]  # the others, by rank
    progress: Progress


class Computation(Protocol):
    def run(self) -> OpenedSlots | None:
        """Compute with the others until picks are opened: to the consumer, and None at the others."""

    def stop(self) -> None:
        """Stop it, from any thread; calling it again does nothing."""


class WorkerComputation:
    """With a worker process, and tunnels to the others."""

    def __init__(self, job: ComputeJob) -> None:
        self._progress, python = job.progress, split_python()
        self._stopping, self._is_stopped = threading.Lock(), False
        self._meeting = TunnelMeeting(job.inputs.rank, own=job.own, host=job.host, port=job.port)
        try:
            opening = OpeningFile(job.folder)
            self._party = SplitParty(job.inputs, opening=opening, python=python, meeting=self._meeting)
        except BaseException:
            self._meeting.stop()
            raise
        self._meeting.start(job.peers)

    def run(self) -> OpenedSlots | None:
        return self._party.run(progress=self._progress, patience=PATIENCE)

    def stop(self) -> None:
        with self._stopping:
            if not self._is_stopped:
                self._is_stopped = True
                worker = self._party.worker
                if worker is not None:
                    worker.kill()
                self._meeting.stop()


@dataclass(frozen=True, slots=True)
class ComputeStatus:
    """How far a computation is, in words without any value of a run."""

    state: Literal["waiting", "computing", "done", "failed", "hindered"]  # only ``hindered`` is tried again
    words: str
    stage: str = ""  # of the computation: offers are prepared, then picks are made


_WAITING = ComputeStatus("waiting", "waiting for the other compute parties to serve")


@dataclass(eq=False)
class _Task:
    thread: threading.Thread | None = None
    status: ComputeStatus = _WAITING
    computation: Computation | None = None
    result: OpenedSlots | None = None
    stopped: bool = False
    ended: float = 0.0  # when its thread did, by a clock that only goes on


@dataclass(eq=False)
class Computations:
    """The computations of a home, one thread for each run."""

    home: Path
    place: TunnelPlace  # where its tunnels listen
    # starts a computation; tests give another one than workers
    begin: Callable[[ComputeJob], Computation] = WorkerComputation
    # seconds until a computation that was hindered, or is done, is tried again
    pause: float = 20.0
    tasks: dict[str, _Task] = field(default_factory=dict, init=False)
    asked_again: set[str] = field(default_factory=set, init=False)  # runs whose opened picks this party sent again

    def start(self, run: str, inputs: ComputeInputs, peers: Mapping[int, TunnelPeer]) -> ComputeStatus:
        """Start the computation of a run, unless it is running; returns its status."""
        task = self.tasks.get(run)
        if task is None or self._is_due_again(task):
            task = self.tasks[run] = _Task()
            arguments = (task, ComputeFolder(self.home, run), inputs, peers)
            task.thread = threading.Thread(target=self._work, args=arguments, daemon=True)
            task.thread.start()
        return task.status

    def _is_due_again(self, task: _Task) -> bool:
        """Retry after a pause: the obstacle may be gone, and a consumer that was killed may need this party again."""
        over = task.ended and time.monotonic() - task.ended >= self.pause
        is_without_result = task.status.state == "done" and task.result is None
        return bool(over) and (is_without_result or task.status.state == "hindered")

    def opened(self, run: str) -> OpenedSlots | None:
        return self.tasks[run].result if run in self.tasks else None

    @property
    def is_busy(self) -> bool:
        return any(task.status.state in ("waiting", "computing") for task in self.tasks.values())

    def end(self, run: str) -> None:
        if task := self.tasks.pop(run, None):
            task.stopped = True
            if task.computation is not None:
                task.computation.stop()
            if task.thread is not None:
                task.thread.join(timeout=_LAST_SECONDS)  # it is a daemon, and its worker ends with it

    def close(self) -> None:
        for run in list(self.tasks):
            self.end(run)

    def _work(self, task: _Task, folder: ComputeFolder, inputs: ComputeInputs, peers: Mapping[int, TunnelPeer]) -> None:
        def progress(stage: str, done: int, of: int) -> None:
            if stage == AGAIN:
                self.asked_again.add(folder.run)
            task.status = ComputeStatus("computing", f"computing: {stage} {done:,} of {of:,}", stage)

        try:
            with folder.alone() as is_alone:
                if is_alone:
                    own, port = folder.tunnel(self.place)
                    job = ComputeJob(inputs, folder.folder, own, self.place.listen.host, port, peers, progress)
                    self._compute(task, job)
                else:
                    task.status = ComputeStatus("hindered", "another process of this home computes")
        except (IllegalMessage, PartyFailed) as error:
            task.status = ComputeStatus("failed", str(error))
        except Exception as error:
            task.status = ComputeStatus("hindered", f"cannot compute: {reason_for_log(error)}")
        finally:
            task.ended = time.monotonic()

    def _compute(self, task: _Task, job: ComputeJob) -> None:
        computation = task.computation = self.begin(job)
        try:
            while not task.stopped:
                try:
                    task.result = computation.run()
                except NoAnswer:
                    task.status = _WAITING
                else:
                    task.status = ComputeStatus("done", "computed")
                    return
        finally:
            computation.stop()


def computations_of(home: Home) -> Computations | None:
    """The computations of a home; None if its settings name no place to listen: then it accepts no split run."""
    try:
        return Computations(home.folder, home.settings.tunnels)
    except InvalidArgument:
        return None


SOON: Final = timedelta(seconds=2)
"""The time until the next sync while something is computed."""


class ComputeHandler(RoleHandler):
    """A role that computes in split runs."""

    def __init__(
        self,
        mail: Mail,
        *,
        computations: Computations | None = None,  # None for a process that does not stay
        # called with a line for a person and the name of the run; the same line may come several times
        tell: Callable[[str, str], None] = lambda *_: None,
    ) -> None:
        super().__init__(mail)
        self.computations, self.tell = computations, tell
        self.check_workers: Callable[[], object] = split_python  # raises if no worker can be started

    def compute_folder(self, run: Run) -> ComputeFolder:
        return ComputeFolder(self.home.folder, run.digest.hex())

    # Taking part.

    def consider(self, run: Run) -> tuple[State, str]:
        try:
            self.check_able(run)
        except NotCurated as error:
            return State.INVITED, str(error)
        return State.ACCEPTED, ""

    def check_able(self, run: Run) -> None:
        """Raise ``NotCurated`` if this home lacks something that the run needs."""
        self.check_split(run)

    def check_split(self, run: Run) -> TunnelPlace:
        """Raise ``NotCurated`` unless this home can compute in a split run; returns where it listens."""
        terms, who = run.terms, run.role
        if terms.split is None:
            raise IllegalMessage(f"run {terms.run} has a trusted curator; nobody else computes in it")
        if terms.split.program != program_digest():
            raise NotCurated(f"the {who} has another version of the public program than the terms name")
        try:
            self.check_workers()
        except LikesetError:
            raise NotCurated(f"the {who} has no environment for workers; make it with `likeset split setup`") from None
        try:
            return self.home.settings.tunnels
        except LikesetError:  # the text may name files of this machine, and the consumer reads this one
            reason = "listen: and reach_at: in its home.yaml do not say where"
            raise NotCurated(f"the {who} cannot be reached for tunnels: {reason}") from None

    def reach(self, run: Run) -> bytes:
        """Where the others reach this party in a run."""
        place = self.check_split(run)
        own, port = self.compute_folder(run).tunnel(place)
        return reach_document(TunnelPeer(*place.reached_at(port), own.certificate))

    def make(self, run: Run, cards: Mapping[str, Card]) -> tuple[Party, ExitStack]:
        role: ComputeRole = "curator" if run.role == "curator" else "witness"
        reach = self.reach(run)
        return ComputeParty(run.terms, role, secret=self.home.secret, cards=cards, reach=reach), ExitStack()

    # After a letter.

    def after(self, t: Transaction, run: Run, party: Party, heard: Heard | None, replies: Sequence[Message]) -> None:  # noqa: ARG002
        if run.state == State.ACCEPTED:
            run = self.mail.change(t, run, state=State.BEGUN)
            self.mail.take_back(t, run, "acceptance")
        if isinstance(party, ComputeParty):
            self.after_split(t, run, party)

    def after_split(self, t: Transaction, run: Run, party: ComputeParty) -> None:
        for fault in party.faults:
            self.tell(f"run {run.name}: {fault.owner} {fault.reason}", run.name)
        if party.finished:  # the others hear the same whether any row opened or not
            has_none = isinstance(party, SplitConsumer) and party.summary is None
            self.end(t, run, *((Ending.NOT_COMPUTED, NOTHING_HELD) if has_none else (Ending.DONE, "")))

    def refuse(self, t: Transaction, run: Run, heard: Heard, error: Exception) -> None:  # noqa: ARG002
        if run.is_split and isinstance(error, QuorumMissed):
            self.end(t, run, Ending.QUORUM_MISSED, tell=True)
        elif run.is_split and isinstance(error, PartyFailed):
            self.end(t, run, Ending.NOT_COMPUTED, str(error), tell=True)

    def hear_document(self, t: Transaction, run: Run, peer: str, post: PostKind, document: bytes) -> bool:
        """Another compute party says how the run ended there; only the consumer says that rows were opened."""
        if not run.is_split or post != "ending" or peer not in (run.terms.consumer, CURATOR, WITNESS):
            return False
        ending, detail = read_ending(document) or (None, "")
        if ending is None or ending in (Ending.DONE, Ending.NOT_CURATED):
            return False
        opened = self.computations is not None and self.computations.opened(run.digest.hex()) is not None
        if not opened:  # nobody takes opened picks from their reader
            reason = f": {detail}" if detail else ""
            self.end(t, run, ending, f"{peer} says so{reason}")
        return True

    # Periodic work.

    def due(self, run: Run) -> None:
        if run.state in UNDECIDED:
            self.mail.consider(run)
        elif run.is_split:
            self.due_split(run)

    def due_split(self, run: Run) -> None:
        """Stop waiting for late owners; compute; end what cannot be completed."""
        if run.is_over or self.mail.version(run) == 0:
            return
        party = self.mail.party(run)
        if not isinstance(party, ComputeParty):
            return
        try:
            self._give_up(run, party)
        except QuorumMissed:
            self.finish(run, Ending.QUORUM_MISSED, tell=True)
            return
        run = self.mail.reload(run)
        is_consumer = run.role == "consumer"
        if is_consumer:
            self._acknowledge(run)
        if party.is_ready:
            self._compute(run, party)
        elif is_consumer and party.position.state is not ComputeState.COLLECTING:
            self._note(run, _waits(party))
        began = self.mail.began(run)
        if is_consumer and began is not None and self.mail.passed(last_time(run.end, began)):
            self.finish(run, Ending.NOT_COMPUTED, _waits(party), tell=True)

    def _abstaining(self, run: Run) -> set[str]:
        """Owners that said after their acceptance that they do not take part."""
        kinds = ("in", "participation", LetterState.HEARD)
        said = [row for row in self.mail.letters(run) if (row.way, row.post, row.state) == kinds]
        return {row.peer for row in said if (read_word(self.mail.data_of(row) or b"") or ("",))[0] == "leaves"}

    def _give_up(self, run: Run, party: ComputeParty) -> None:
        deadline, present, abstain = self._deadline(run), self.mail.introduced(run), self._abstaining(run)
        for owner in sorted(party.waiting_for):
            is_gone = run.role == "consumer" and (owner not in present or owner in abstain)
            if is_gone or (deadline is not None and self.mail.passed(deadline)):
                self.mail.decide(run, Decision("give-up", owner))
        self.mail.update(run, due=deadline.timestamp() if party.waiting_for and deadline is not None else None)

    def waiting(self, run: Run) -> tuple[tuple[str, ...], datetime | None] | None:
        """The owners whose parts are missing, and until when they are waited for; None if nobody is."""
        if run.due is None or run.state != State.BEGUN:
            return None
        rows = self.mail.letters(run)
        answered = {row.peer for row in rows if (row.way, row.kind) == ("in", OfferShare.kind) or row.way == "own"}
        waiting = sorted(self.mail.introduced(run) & set(run.terms.owners) - answered)
        return tuple(waiting), datetime.fromtimestamp(run.due, run.end.tzinfo)

    def _deadline(self, run: Run) -> datetime | None:
        """When owners are given up: so long after the run began, or after the consumer said whose parts it has."""
        began = since = self.mail.began(run)
        if run.role != "consumer":
            kinds = ("in", run.terms.consumer, ShareReceipts.kind)
            rows = self.mail.letters(run)
            since = next((row.time for row in rows if (row.way, row.peer, row.kind) == kinds), None)
        if since is None or began is None:
            return None
        return min(since + self.home.settings.patience, last_time(run.end, began))

    def _acknowledge(self, run: Run) -> None:
        """Receipts for owners whose part came: before anything is computed, so that they depend on no pick."""
        rows = self.mail.letters(run)
        offered = {row.peer for row in rows if row.is_heard(OfferShare.kind)}
        acknowledged = {row.peer for row in rows if (row.way, row.kind) == ("out", RECEIPT)}
        if offered - acknowledged:
            with self.home.deciding() as t:
                self.mail.write_receipts(t, self.mail.reload(run), sorted(offered))

    def _compute(self, run: Run, party: ComputeParty) -> None:
        if self.computations is None:
            self._note(run, "all compute parties are ready: computing needs `likeset up` at each of them")
            return
        ranks = {role: rank for rank, role in enumerate(COMPUTE_ROLES)}
        try:
            peers = {ranks[role]: _read_reach(data) for role, data in party.reaches.items()}
        except BadDocument as error:  # the party signed that with its vote, and says nothing else any more
            self.finish(run, Ending.NOT_COMPUTED, str(error), tell=True)
            return
        digest = run.digest.hex()
        status = self.computations.start(digest, party.inputs(), peers)
        self._note(run, status.words, f"computing: {status.stage}" if status.stage else "")
        if digest in self.computations.asked_again:
            self.tell(f"run {run.name}: a party asked again for its picks, and got the stored bytes", run.name)
        if status.state == "failed":
            self.finish(run, Ending.NOT_COMPUTED, status.words, tell=True)
        elif status.state == "done" and isinstance(party, SplitConsumer):
            slots = self.computations.opened(digest)
            if slots is not None:
                self._open(run, slots)

    def _open(self, run: Run, slots: OpenedSlots) -> None:
        """Store the summary, then end the run and tell the other compute parties, in one transaction."""
        summary_path, unopened = self.home.folder / "runs" / run.name / "summary.bin", dict[str, int]()

        def opened(party: Party) -> Step:
            if not isinstance(party, SplitConsumer):
                raise IllegalMessage(f"run {run.name}: this is not the consumer")
            step = party.opened(slots)
            unopened.update(party.unopened_picks)
            if party.summary is not None:
                names = {"sender": run.party, "receiver": run.party, "round": 0, "body": party.summary}
                message = Message(run=run.terms.run, terms=run.terms.digest, **names)  # type: ignore[arg-type]
                keep_private_bytes(summary_path, message.data)
            return step

        self.mail.decide(run, Decision("opened"), opened)
        for owner, count in unopened.items():
            words = f"{count} rows picked from {owner} did not open and were left out; this does not show who caused it"
            self.tell(f"run {run.name}: {words}", run.name)

    def finish(self, run: Run, ending: Ending, detail: str = "", *, tell: bool = False) -> None:
        """End a run here; nothing of it is computed any more. ``tell`` tells the other compute parties."""
        with self.home.deciding() as t:
            self.end(t, self.mail.reload(run), ending, detail, tell=tell)

    def end(self, t: Transaction, run: Run, ending: Ending, detail: str = "", *, tell: bool = False) -> None:
        if run.is_over:
            return
        others = {run.terms.consumer, CURATOR, WITNESS} & set(run.terms.cards) - {run.party}
        for party in sorted(others) if tell else ():
            self.mail.write_document(t, run, party, "ending", ending_document(ending, detail))
        states = {Ending.DONE: State.CLOSED, Ending.CANCELLED: State.CANCELLED}
        self.mail.end_in(t, run, states.get(ending, State.FAILED), ending, detail)

    def clean(self) -> None:
        """Stop computing runs that are over, and remove their shares; called in each sync.

        The record of an opening stays until the terms end. Without it, the run could be computed once more for a party
        that brings it back. Letters with shares stay until then as well, unless nobody may have computed.
        """
        for run in self.mail.runs_to_clean(self.role):
            files, is_past = self.compute_folder(run), self.home.clock() >= run.end
            if self.computations is not None:
                self.computations.end(run.digest.hex())
            if files.exists and (is_past or not files.has_only_record):
                with files.alone() as is_alone:
                    if is_alone:  # else another process computes; the next sync removes them
                        files.remove() if is_past else files.keep_only_record()
            rows = self.mail.letters(run)
            votes = {row.peer for row in rows if row.is_heard(RosterVote.kind)}
            # Nobody computes before all compute parties signed a roster.
            if not is_past and not files.exists and len(votes) < len(COMPUTE_ROLES) - 1:
                self.mail.forget_shares(run)
            if not files.exists and (is_past or self.home.run_key(run.digest) is None):
                self.mail.update(run, due=None)

    def _note(self, run: Run, progress: str, line: str = "") -> None:
        self.tell(f"run {run.name}: {line or progress}", run.name)
        self.mail.update(run, progress=progress)


def _waits(party: ComputeParty) -> str:
    if party.position.state is ComputeState.READY:
        return "waiting for the curator's envelopes or for the computation"
    return f"waiting for the other compute parties: this party {party.position.state.value}"


PROMISES: Final = (
    "to compute, with the curator and the consumer, what the terms name by digest, and nothing else",
    "to show nobody the shares that it gets, neither the curator nor the consumer above all: two of the three together "
    "could read every row that was offered",
    "not to have another role in the run, under any name",
    "to sign for what it got, to open its shares to nobody, and to forget all shares when the terms end",
)
"""A witness reads no row and no target: it gets random numbers, as long as it keeps these promises."""


class Witness(ComputeHandler):
    """It computes, and has no data."""

    role: ClassVar[Role] = "witness"
