"""A split run at a compute party's home: curator, consumer or witness."""

import contextlib
import fcntl
import json
import os
import shutil
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Protocol, Self

from likeset.errors import BadDocument, IllegalMessage, InvalidArgument, LikesetError, NoAnswer, NotCurated, PartyFailed
from likeset.files import keep_private_bytes, make_private_folder, remove_unfinished
from likeset.homes.home import TunnelPlace
from likeset.homes.mail import (
    IN,
    OUT,
    RECEIPT,
    Charges,
    ComputeShell,
    Correspondence,
    HeardLetter,
    Identity,
    Invitation,
    SiteRun,
    SplitConsumerShell,
)
from likeset.protocol.party import ComputeState
from likeset.protocol.split_run import (
    ComputeInputs,
    ComputeParty,
    OpenedSlots,
    SplitConsumer,
    make_compute_party,
    party_name,
)
from likeset.protocol.terms import Terms
from likeset.protocol.wire import MOST_BYTES, Message, OfferShare, ShareReceipts, Summary, TargetShare
from likeset.split.engine.agreement import AGAIN
from likeset.split.host import Opening, Progress, computing_party, opened_slots, program_digest, split_python
from likeset.split.links import RunCertificate, TunnelMeeting, TunnelPeer, read_certificate
from likeset.trust.cards import Card
from likeset.trust.shares import COMPUTE_ROLES

_FOLDER, _TUNNEL, _LOCK = "split", "tunnel.json", ".lock"
_MOST_HOST = 255
_MOST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Reach:
    """Where a compute party is reached in a run, and by which certificate it is known: what a roster vote carries.

    Attributes:
        host: that others call.
        port: likewise.
        certificate: all of its bytes.
    """

    host: str
    port: int
    certificate: bytes

    def to_bytes(self) -> bytes:
        words = {"certificate": self.certificate.hex(), "host": self.host, "port": self.port}
        return json.dumps(words, sort_keys=True, separators=(",", ":")).encode("ascii")

    @classmethod
    def read(cls, data: bytes) -> Self:
        """What another party said.

        Raises:
            BadDocument: it is something else.
        """
        words = _document(data)
        host, port, text = words.get("host"), words.get("port"), words.get("certificate")
        is_host = isinstance(host, str) and 0 < len(host) <= _MOST_HOST and host.isascii() and host.isprintable()
        if not is_host or not isinstance(port, int) or not 0 < port <= _MOST_PORT or not isinstance(text, str):
            raise BadDocument("reach", "does not say where a compute party listens")
        try:
            certificate = bytes.fromhex(text)
        except ValueError:
            raise BadDocument("reach", "has no certificate") from None
        read_certificate(certificate)
        return cls(str(host), port, certificate)

    @property
    def peer(self) -> TunnelPeer:
        return TunnelPeer(self.host, self.port, self.certificate)


@dataclass(frozen=True, slots=True)
class _Tunnel:
    """This party's own end."""

    certificate: RunCertificate
    port: int


@dataclass(frozen=True)
class ComputeFolder:
    """The directory of one run at a compute party.

    Args:
        home: the party's.
        run: the digest of the terms, in hexadecimal digits.
    """

    home: Path
    run: str

    @property
    def folder(self) -> Path:
        return self.home / _FOLDER / self.run

    @property
    def exists(self) -> bool:
        return self.folder.exists()

    @property
    def opening(self) -> Opening:
        return Opening(self.folder)

    def certificate(self, place: TunnelPlace) -> RunCertificate:
        """By which this party is known in the run; made once, and raises as ``reach``."""
        return self._tunnel(place).certificate

    def port(self, place: TunnelPlace) -> int:
        """Where its tunnels listen; chosen once, and raises as ``reach``."""
        return self._tunnel(place).port

    def reach(self, place: TunnelPlace) -> Reach:
        """What the others are told, the same ever after.

        Raises:
            NoAnswer: every port is taken, by other runs or other programs.
        """
        tunnel = self._tunnel(place)
        return Reach(*place.told(tunnel.port), tunnel.certificate.certificate)

    def _tunnel(self, place: TunnelPlace) -> _Tunnel:
        path = self.folder / _TUNNEL
        if not path.exists():
            made = _Tunnel(RunCertificate.generate(), _free_port(place, taken=_ports_of(self.home)))
            make_private_folder(self.folder)
            remove_unfinished(self.folder)
            words = {"port": made.port, "secret": made.certificate.to_bytes().hex()}
            keep_private_bytes(path, json.dumps(words).encode("ascii"))
            return made
        kept = _document(path.read_bytes())
        return _Tunnel(RunCertificate.from_bytes(bytes.fromhex(kept["secret"])), int(kept["port"]))

    @contextlib.contextmanager
    def alone(self) -> Iterator[bool]:
        """Whether this process is the only one that computes in the run, for as long as it does."""
        make_private_folder(self.folder)
        descriptor = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield False
                return
            yield True
        finally:
            os.close(descriptor)

    def rest(self) -> None:
        """Remove everything but the record of an opening, so that a run that is brought back is not opened again."""
        if not self.opening.began:
            self.remove()
            return
        self.opening.forget_share()
        for path in self.folder.iterdir():
            if path != self.opening.record:
                path.unlink(missing_ok=True)

    def remove(self) -> None:
        if self.exists:
            shutil.rmtree(self.folder)


def _ports_of(home: Path) -> set[int]:
    files = (home / _FOLDER).glob(f"*/{_TUNNEL}")
    return {int(_document(path.read_bytes()).get("port", 0)) for path in files}


def _free_port(place: TunnelPlace, *, taken: set[int]) -> int:
    host = place.listen.host
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for port in place.listen.ports:
        if port in taken:
            continue
        with contextlib.suppress(OSError), socket.create_server((host, port), family=family) as server:
            return int(server.getsockname()[1])
    raise NoAnswer(
        f"no port is free at {host}, {place.listen.first} to {place.listen.last}: each run that is computed at the "
        "same time needs one; give listen: and reach_at: more"
    )


def _document(data: bytes) -> dict[str, Any]:
    try:
        words = json.loads(data)
    except (ValueError, RecursionError):
        words = None
    return words if isinstance(words, dict) else {}


MakeParty = Callable[[Mapping[str, Card]], ComputeParty]
"""Given the cards of all who accepted, by their names in the terms: the party."""


@dataclass(eq=False)
class ComputeResident:
    """A compute party, made once it is known who takes part.

    Args:
        name: its name in the terms.
        make: makes it.
        charges: where what it wants charged is charged; only the consumer wants anything.
    """

    name: str
    make: MakeParty
    charges: Charges | None = None
    shell: ComputeShell[Any] | None = field(default=None, init=False)

    @property
    def failed(self) -> bool:
        return self.shell is not None and self.shell.failed

    def begin(self, cards: Mapping[str, Card]) -> None:
        if self.shell is None:
            party, charges = self.make(cards), self.charges or _NoCharges()
            if isinstance(party, SplitConsumer):
                self.shell = SplitConsumerShell(party, charges)
            else:
                self.shell = ComputeShell(party, charges)

    def take(self, message: Message) -> tuple[Message, ...]:
        return self.made.take(message)

    @property
    def made(self) -> ComputeShell[Any]:
        """The party in its shell.

        Raises:
            IllegalMessage: the consumer has not said yet who takes part.
        """
        if self.shell is None:
            raise IllegalMessage(f"{self.name}: the consumer has not said yet who takes part")
        return self.shell

    @property
    def consumer(self) -> SplitConsumerShell:
        """The consumer in its shell.

        Raises:
            IllegalMessage: this is another party.
        """
        made = self.made
        if not isinstance(made, SplitConsumerShell):
            raise IllegalMessage(f"{self.name} is not the consumer")
        return made


class _NoCharges:
    """Of a party that has nothing to charge."""

    def answer(self, *_arguments: object, **_options: object) -> bytes:
        raise IllegalMessage("a compute party other than the consumer draws nothing")


@dataclass(eq=False)
class ComputeRun(SiteRun):
    """At a compute party.

    Args:
        kept: what is kept of the run beside its letters.
    """

    resident: ComputeResident
    kept: ComputeFolder = field(kw_only=True)

    def __post_init__(self) -> None:
        if self.letters.is_begun:
            self.resident.begin(self.letters.cards)
            self._repeat()

    def _repeat(self) -> None:
        """Hear again what was heard; what was answered is in the book, and is not written again."""
        for letter in self.letters.kept:
            if letter.way == OUT and letter.kind == ShareReceipts.kind:
                for owner in sorted(self.waiting_for):  # whom it had given up before it told whose parts it has
                    self.resident.made.give_up(owner)
            elif letter.way == IN and (data := self.letters.data_of(letter)) is not None:
                message = self.letters.read(data, most_bytes=self.most_bytes).message
                if message is not None:
                    self.resident.take(message)

    @property
    def party(self) -> ComputeParty | None:
        return None if self.resident.shell is None else self.resident.shell.party

    @property
    def waiting_for(self) -> frozenset[str]:
        return frozenset() if self.party is None else self.party.waiting_for

    @property
    def reaches(self) -> dict[int, Reach]:
        """Where the other compute parties are reached, by rank, as far as they voted.

        Raises:
            BadDocument: one of them said something else.
        """
        if self.party is None:
            return {}
        ranks = {role: rank for rank, role in enumerate(COMPUTE_ROLES)}
        return {ranks[role]: Reach.read(data) for role, data in self.party.reaches.items()}

    def give_up(self, owner: str) -> tuple[bytes, ...]:
        """What it writes when it waits for an owner's part no longer."""
        return self.letters.write(self.resident.made.give_up(owner))

    @property
    def may_have_computed(self) -> bool:
        """Whether all compute parties agreed on a roster: before that nothing is computed, and nothing opened."""
        states = (ComputeState.READY, ComputeState.SETTLED)
        return self.party is not None and self.party.position.state in states

    def forget(self) -> None:
        """Nothing was opened: no share and no key stays; what was written can be sent again."""
        if self.party is not None:
            self.party.forget()
        self.kept.remove()
        self.letters.settle(resend=True)

    def _admit(self, heard: HeardLetter) -> None:
        super()._admit(heard)
        is_first = heard.message is not None and isinstance(heard.message.body, TargetShare)
        if is_first and self._is_of_consumer(heard):
            self.letters.introduce(heard.enclosures)
            self.resident.begin(self.letters.cards)
        elif heard.enclosures:
            raise IllegalMessage(f"run {self.terms.run}: a letter that encloses what nobody asked for")


@dataclass(eq=False)
class SplitConsumerRun(ComputeRun):
    """At the consumer.

    Args:
        keep: takes the summary, before the others are told that it is over.
        receipts: a signed receipt for each owner whose part came.
    """

    keep: Callable[[Summary], None] = field(kw_only=True)
    receipts: Callable[[Collection[str]], Mapping[str, bytes]] = field(kw_only=True)

    def begin(self, acceptances: Iterable[bytes]) -> tuple[bytes, ...]:
        def start() -> tuple[Message, ...]:
            self.resident.begin(self.letters.cards)
            return self.resident.consumer.start()

        return self.letters.begin(acceptances, start)

    def _repeat(self) -> None:
        self.resident.consumer.start()
        super()._repeat()

    def opened(self, slots: OpenedSlots) -> tuple[bytes, ...]:
        """The computation gave its picks: keep what was bought, and tell the other compute parties that it is over."""
        replies = self.resident.consumer.opened(slots)
        summary = self.resident.consumer.party.summary
        if summary is not None:
            self.keep(summary)
        return self.letters.write(replies)

    @property
    def has_summary(self) -> bool:
        return self.resident.consumer.party.summary is not None

    @property
    def unopened_picks(self) -> dict[str, int]:
        """By owner, how many picks were left out because they did not open to a record."""
        return self.resident.consumer.party.unopened_picks

    def acknowledge(self) -> tuple[bytes, ...]:
        """Receipts for the owners whose part came, in letters to them; written once.

        They say how many rows were offered, and go before anything is computed: neither what they say nor when they
        are written depends on what is bought, or on whether the run comes to an end.
        """
        kept = self.letters.kept
        told = {letter.peer for letter in kept if (letter.way, letter.kind) == (OUT, RECEIPT)}
        came = {letter.peer for letter in kept if (letter.way, letter.kind) == (IN, OfferShare.kind)}
        return self.letters.write_receipts(dict(self.receipts(came - told))) if came - told else ()


PATIENCE: Final = 60.0
"""Seconds without progress after which a computation looks whether it is to go on waiting."""
_LAST_SECONDS = 15.0


@dataclass(frozen=True, eq=False)
class ComputeJob:
    """One party's part.

    Attributes:
        inputs: what it puts in.
        folder: for its share of the picks.
        own: its certificate.
        host: that its tunnels listen on.
        port: likewise.
        peers: the others, by rank.
        progress: told (stage, done, of), or ``AGAIN`` when it is asked for what was opened before.
    """

    inputs: ComputeInputs
    folder: Path
    own: RunCertificate
    host: str
    port: int
    peers: Mapping[int, TunnelPeer]
    progress: Progress


class Computation(Protocol):
    """A party's part, at work."""

    def run(self) -> OpenedSlots | None:
        """Compute with the others until picks are opened: to the consumer, and None at the others.

        Raises:
            NoAnswer: another party is not there; it may be called again.
            LikesetError: it cannot be computed.
        """

    def stop(self) -> None:
        """End it, from any thread. Asked again, nothing happens."""


class WorkerComputation:
    """With a worker process, and tunnels to the others.

    Args:
        job: the party's part.

    Raises:
        InvalidArgument: there is no environment for workers, or the terms name another program.
    """

    def __init__(self, job: ComputeJob) -> None:
        inputs = job.inputs
        self._job, python = job, split_python()
        self._stopping, self._is_stopped = threading.Lock(), False
        self._meeting = TunnelMeeting(
            inputs.rank, session=bytes.fromhex(inputs.digest), own=job.own, host=job.host, port=job.port
        )
        try:
            self._party = computing_party(inputs, folder=job.folder, python=python, meeting=self._meeting)
        except BaseException:
            self._meeting.stop()
            raise
        self._meeting.start(job.peers)

    def run(self) -> OpenedSlots | None:
        picks = self._party.run(progress=self._job.progress, patience=PATIENCE)
        return None if picks is None else opened_slots(picks, self._job.inputs)

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
    """How far a computation is.

    Attributes:
        state: ``waiting`` for other compute parties, ``computing``, ``done``; ``failed`` for good; ``hindered`` by
            something here that can be mended; ``elsewhere`` where another process of this home computes.
        stage: of the computation: offers are prepared, then picks are made.
        done: of the stage.
        of: in all.
        reason: why it waits or failed, in words without any value of a run.
    """

    state: Literal["waiting", "computing", "done", "failed", "hindered", "elsewhere"]
    stage: str = ""
    done: int = 0
    of: int = 0
    reason: str = ""

    def __str__(self) -> str:
        match self.state:
            case "computing":
                return f"computing: {self.stage} {self.done:,} of {self.of:,}"
            case "waiting":
                return "waiting for the other compute parties to serve"
            case "elsewhere":
                return "another process of this home computes"
            case "failed" | "hindered":
                return f"cannot compute: {self.reason}"
            case _:
                return "computed"


@dataclass(eq=False)
class _Task:
    thread: threading.Thread | None = None
    status: ComputeStatus = field(default_factory=lambda: ComputeStatus("waiting"))
    computation: Computation | None = None
    result: OpenedSlots | None = None
    stopped: bool = False
    ended: float = 0.0  # when its thread did, by a clock that only goes on


@dataclass(eq=False)
class ComputeRoom:
    """Where a home computes, one thread for each run.

    Args:
        home: the home's directory.
        place: where its tunnels listen.
        begin: starts a computation; tests give another one than workers.
        pause: seconds until it is tried again what hindered a computation, or whether somebody still needs it.
    """

    home: Path
    place: TunnelPlace
    begin: Callable[[ComputeJob], Computation] = WorkerComputation
    pause: float = 20.0
    _tasks: dict[str, _Task] = field(default_factory=dict, init=False)
    _repeats: Counter[str] = field(default_factory=Counter, init=False)

    def start(self, run: str, inputs: ComputeInputs, reaches: Mapping[int, Reach]) -> ComputeStatus:
        """Let a run be computed, if it is not already; returns how far it is.

        Args:
            run: the digest of its terms.
            inputs: what this party puts in.
            reaches: the other compute parties, by rank.
        """
        task = self._tasks.get(run)
        if task is None or self._is_due_again(task):
            task = self._tasks[run] = _Task()
            peers = {rank: reach.peer for rank, reach in reaches.items()}
            arguments = (task, ComputeFolder(self.home, run), inputs, peers)
            task.thread = threading.Thread(target=self._work, args=arguments, daemon=True)
            task.thread.start()
        return task.status

    def _is_due_again(self, task: _Task) -> bool:
        """What hindered it may be mended; and who is done may be needed by a consumer that was killed before it was."""
        over = task.ended and time.monotonic() - task.ended >= self.pause
        is_without_result = task.status.state == "done" and task.result is None
        return bool(over) and (is_without_result or task.status.state in ("hindered", "elsewhere"))

    @property
    def is_busy(self) -> bool:
        return any(task.status.state in ("waiting", "computing") for task in self._tasks.values())

    def opened(self, run: str) -> OpenedSlots | None:
        task = self._tasks.get(run)
        return None if task is None else task.result

    def repeats(self, run: str) -> int:
        """How often this party was asked again for what was opened before, and sent it as it was."""
        return self._repeats[run]

    def end(self, run: str) -> None:
        self._end(self._tasks.pop(run, None))

    def close(self) -> None:
        for task in list(self._tasks.values()):
            self._end(task)
        self._tasks.clear()

    def _end(self, task: _Task | None) -> None:
        if task is None:
            return
        task.stopped = True
        if task.computation is not None:
            task.computation.stop()
        if task.thread is not None:
            task.thread.join(timeout=_LAST_SECONDS)  # it is a daemon, and its worker ends with it

    def _work(self, task: _Task, folder: ComputeFolder, inputs: ComputeInputs, peers: Mapping[int, TunnelPeer]) -> None:
        def progress(stage: str, done: int, of: int) -> None:
            self._repeats[folder.run] += stage == AGAIN
            task.status = ComputeStatus("computing", stage, done, of)

        try:
            with folder.alone() as is_alone:
                if is_alone:
                    self._compute(task, self._job(folder, inputs, peers, progress))
                else:
                    task.status = ComputeStatus("elsewhere")
        except (IllegalMessage, PartyFailed) as error:
            task.status = ComputeStatus("failed", reason=str(error))
        except LikesetError as error:
            task.status = ComputeStatus("hindered", reason=str(error))
        except Exception as error:  # texts of errors that are not likeset's may quote a value
            task.status = ComputeStatus("hindered", reason=type(error).__name__)
        finally:
            task.ended = time.monotonic()

    def _job(
        self, folder: ComputeFolder, inputs: ComputeInputs, peers: Mapping[int, TunnelPeer], progress: Progress
    ) -> ComputeJob:
        port = folder.port(self.place)
        own = folder.certificate(self.place)
        return ComputeJob(inputs, folder.folder, own, self.place.listen.host, port, peers, progress)

    def _compute(self, task: _Task, job: ComputeJob) -> None:
        computation = task.computation = self.begin(job)
        try:
            while not task.stopped:
                try:
                    task.result = computation.run()
                except NoAnswer as error:
                    task.status = ComputeStatus("waiting", reason=str(error))
                else:
                    task.status = ComputeStatus("done")
                    return
        finally:
            computation.stop()


class ComputingHome(Protocol):
    @property
    def folder(self) -> Path: ...

    @property
    def tunnels(self) -> TunnelPlace: ...


def compute_room(home: ComputingHome) -> ComputeRoom | None:
    """Where a home computes; None where its settings name no place for tunnels: then it accepts no split run."""
    try:
        return ComputeRoom(home.folder, home.tunnels)
    except InvalidArgument:
        return None


def check_computes(home: ComputingHome, terms: Terms, who: str, check_workers: Callable[[], object]) -> TunnelPlace:
    """Raise unless a home can compute in a run: before it accepts, so that nobody waits for it in vain.

    Args:
        home: the home.
        terms: of the run.
        who: it is, in the words that whoever asked for the run reads.
        check_workers: raises where no worker can be started.

    Raises:
        NotCurated: it cannot, and why, in fixed words.
        IllegalMessage: the curator of the run is trusted, and nobody computes.
    """
    if terms.split is None:
        raise IllegalMessage(f"run {terms.run} has a trusted curator; nobody else computes in it")
    if terms.split.program != program_digest():
        raise NotCurated(f"the {who} has another version of the public program than the terms name")
    try:
        check_workers()
    except LikesetError:
        raise NotCurated(f"the {who} has no environment for workers; it is made with `likeset split setup`") from None
    try:
        return home.tunnels
    except LikesetError as error:
        raise NotCurated(f"the {who} cannot be reached for tunnels: {error}") from None


def compute_run(
    home: ComputingHome,
    invitation: Invitation,
    role: Literal["curator", "witness"],
    *,
    identity: Identity,
    check_workers: Callable[[], object],
) -> ComputeRun:
    """The side of a curator or a witness in a split run.

    Args:
        home: of the party.
        invitation: the signed terms.
        role: of the party.
        identity: who it is.
        check_workers: raises where no worker can be started.

    Raises:
        NotCurated: it cannot take part.
    """
    terms = invitation.terms
    place = check_computes(home, terms, role, check_workers)
    kept = ComputeFolder(home.folder, terms.digest)

    def make(cards: Mapping[str, Card]) -> ComputeParty:
        reach = kept.reach(place).to_bytes()
        return make_compute_party(terms, role, secret=identity.secret, cards=cards, reach=reach)

    name = party_name(terms, role)
    letters = Correspondence(identity, invitation, name)
    identity.book.settle_ended()
    return ComputeRun(letters, ComputeResident(name, make), MOST_BYTES, kept=kept)
