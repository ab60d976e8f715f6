"""The consumer's own side of runs between organisations: a directory with its ledger and a folder for each run.

What the settings of the consumer's NVFlare site name: ``"factory": "likeset.run.consumer_home:consumer"``, with the
directory. The site answers only in runs whose very terms lie there: nobody else can make it release a target.
"""

import json
import re
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Protocol, Self

import numpy as np

from likeset import documents
from likeset.arguments import Rows
from likeset.documents import Document
from likeset.errors import BadDocument, IllegalMessage, InvalidArgument
from likeset.ledger import Ledger
from likeset.privacy.noise import SecretNoise
from likeset.private_files import (
    keep_private,
    keep_private_bytes,
    make_home_folder,
    make_private_folder,
    read_secret,
    write_secret,
)
from likeset.protocol.consumer import Consumer
from likeset.protocol.hashing import hash_map
from likeset.protocol.messages import Summary, decode
from likeset.protocol.notices import Notice
from likeset.protocol.selection import Selection
from likeset.protocol.terms import Terms
from likeset.run.job import Job
from likeset.run.local import Amend, FinishedJob, Render
from likeset.run.notices import SuspectedIdentifier
from likeset.run.remote import Ended, check_carried, draft, finish
from likeset.run.uninterrupted_ledger import SteadyLedger
from likeset.run.whereabouts import Stage, Whereabouts
from likeset.tables.schema.declared_records import DeclaredRecords
from likeset.tables.schema.identifiers import suspicions_in
from likeset.tables.schema.schema import Schema
from likeset.transports.nvflare.run_report import Ending, News, RunReport, SiteState
from likeset.transports.sites import Seat

__all__ = ["Connection", "ConsumerHome", "Engine", "NetworkRun", "consumer", "make_consumer_home"]

_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_FINISHED = "FINISHED"


class Connection(Document):
    """``consumer.yaml``: who the consumer is, and with which start-up kit it submits.

    Attributes:
        name: of the consumer, which is its site's name.
        kit: start-up kit of a user who may submit jobs.
        user: that user's name.
    """

    likeset: Literal["consumer"] = "consumer"
    version: Literal[1] = 1
    name: str
    kit: str = ""
    user: str = ""


class Engine(Protocol):
    """How jobs are submitted and followed: ``likeset.transports.nvflare.engine.NvflareEngine``."""

    def __enter__(self) -> Self:
        """Keep the connection over several calls."""

    def __exit__(self, *_: object) -> None:
        """Let it go."""

    def submit(self, *terms: Terms) -> str:
        """Submit runs; returns the job's name."""

    def state(self, job: str) -> str:
        """Where a job is."""

    def news(self, job: str) -> News | None:
        """Where it is, site by site, while it runs."""

    def cancel(self, job: str) -> None:
        """Stop it."""

    def report(self, job: str) -> list[RunReport]:
        """How its runs ended."""

    def connected_sites(self) -> list[str]:
        """Sites that are connected."""


@dataclass(frozen=True)
class NetworkRun:
    """One run, in a folder of its own.

    Args:
        folder: the run's.
        ledger_path: the consumer's ledger.
    """

    folder: Path
    ledger_path: Path

    @property
    def name(self) -> str:
        """The run's name."""
        return self.folder.name

    @property
    def job(self) -> Job:
        """What was asked for."""
        return documents.read(self.folder / "job.yaml", Job)

    @property
    def terms_path(self) -> Path:
        """The terms' file, as owners take it."""
        return self.folder / "terms.json"

    @property
    def terms(self) -> Terms:
        """The terms that were agreed on."""
        try:
            return Terms.from_json(self.terms_path.read_text(encoding="utf-8"))
        except OSError as error:
            raise InvalidArgument("RUN", self.name, "is not known here; see `likeset run list`") from error

    @property
    def notes(self) -> list[Notice]:
        """What its consumer should know."""
        job = self.job
        schema = Schema.load(job.schema_file)
        return [*map(SuspectedIdentifier, suspicions_in(schema)), *check_carried(job, schema)]

    @property
    def hash_seed_path(self) -> Path:
        """The file of the seed by which owners hash, where the curator may see hashes only: for owners alone."""
        return self.folder / "hash-seed"

    @property
    def hash_seed(self) -> int | None:
        """That seed; None where the curator sees rows."""
        return None if self.terms.hashing is None else read_secret(self.hash_seed_path)

    @property
    def selection(self) -> Selection:
        """How the curator is to select."""
        path = self.folder / "selection.json"
        try:
            return Selection(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise BadDocument(str(path), "cannot be read; restore it from a copy") from error

    @property
    def result(self) -> Path:
        """The directory of the result."""
        return self.folder / "result"

    @property
    def jobs(self) -> list[str]:
        """The names of the jobs that were submitted for it, oldest first."""
        path = self.folder / "jobs.txt"
        return path.read_text(encoding="utf-8").split() if path.exists() else []

    def submit(self, engine: Engine) -> str:
        """Submit its terms, or submit them again: ledgers resend, and nothing is drawn anew."""
        if self.result.exists():
            raise InvalidArgument("RUN", self.name, "has ended, and its result is here; see `likeset run report`")
        job = engine.submit(self.terms)
        documents.write_text(self.folder / "jobs.txt", "".join(f"{one}\n" for one in (*self.jobs, job)))
        return job

    def last_job(self) -> str:
        """The job that was submitted last."""
        jobs = self.jobs
        if not jobs:
            raise InvalidArgument("RUN", self.name, "was not submitted yet; do so with `likeset run submit`")
        return jobs[-1]

    def look(self, engine: Engine) -> Whereabouts:
        """Where it is, and what was last heard of each site."""
        job = self.last_job()
        state = engine.state(job)
        if state.startswith(_FINISHED):
            report = self.ended(engine)
            if report is None or report.outcome is Ending.CANCELLED:
                return Whereabouts(Stage.INTERRUPTED)
            sites = {**dict.fromkeys(self.terms.owners, SiteState.DONE), **report.unanswered}
            sites |= dict.fromkeys(report.refused, SiteState.REFUSED)
            return Whereabouts(report.outcome, sites, report.detail)
        news = engine.news(job)
        if news is None or news.run != self.name:
            return Whereabouts(Stage.STARTING)
        sites = {site: SiteState.WORKING if said is SiteState.READY else said for site, said in news.sites.items()}
        return Whereabouts(Stage.DECIDING if SiteState.WAITING in sites.values() else Stage.RUNNING, sites)

    def ended(self, engine: Engine) -> RunReport | None:
        """How the job that was submitted last ended for this run; None if it did not come to it."""
        path, digest = self.folder / "ended.json", self.terms.digest
        for report in engine.report(self.last_job()):
            if report.terms == digest:
                documents.write_text(path, json.dumps(asdict(report), indent=1) + "\n")
                return report
        return None

    def collect(self, *, render: Render, amend: Amend | None = None) -> FinishedJob:
        """Make the result of what the site received.

        Args:
            render: makes the report.
            amend: adds to the result before it is written.

        Raises:
            InvalidArgument: nothing was received yet.
        """
        path, ended = self.folder / "summary.bin", self.folder / "ended.json"
        if not path.exists():
            raise InvalidArgument("RUN", self.name, "has no summary yet; follow it with `likeset run watch`")
        message = decode(path.read_bytes())
        if not isinstance(message.body, Summary) or message.terms != self.terms.digest:
            raise BadDocument(str(path), "is not the summary of this run")
        known = json.loads(ended.read_text(encoding="utf-8")) if ended.exists() else {}
        told = Ended(known.get("unanswered", {}), known.get("seconds", 0.0))
        job = self.job.model_copy(update={"ledger": str(self.ledger_path)})
        with Ledger(self.ledger_path) as ledger:
            return finish(
                job,
                self.terms,
                message.body,
                ended=told,
                ledger=ledger,
                out=self.result,
                render=render,
                amend=amend,
                hash_seed=self.hash_seed,
            )


@dataclass(frozen=True)
class ConsumerHome:
    """The directory of a consumer.

    Args:
        folder: where it is.
    """

    folder: Path

    @property
    def ledger(self) -> Path:
        """The ledger's file: what owners may learn about the consumer's rows, over all runs."""
        return self.folder / "ledger.sqlite"

    @property
    def connection(self) -> Connection:
        """What ``consumer.yaml`` says."""
        path = self.folder / "consumer.yaml"
        if not path.is_file():
            raise InvalidArgument(
                "--home", self.folder, "is not the directory of a consumer; make one with `likeset run init`"
            )
        return documents.read(path, Connection)

    def runs(self) -> list[NetworkRun]:
        """All runs, by name."""
        return [self.run(path.parent.name) for path in sorted((self.folder / "runs").glob("*/terms.json"))]

    def run(self, name: str) -> NetworkRun:
        """A run by its name, known or not."""
        if _FOLDER.fullmatch(name) is None:
            raise InvalidArgument("run", name, "must be letters, digits, . _ and -: it names a folder")
        return NetworkRun(self.folder / "runs" / name, self.ledger)

    def known(self, name: str) -> NetworkRun:
        """A run that was invited to.

        Raises:
            InvalidArgument: it was not.
        """
        found = self.run(name)
        _ = found.terms
        return found

    def invite(self, job: Job, *, expires: str) -> NetworkRun:
        """Draft the terms of a job and keep them; asked again, those that are kept.

        Raises:
            InvalidArgument: the name of the run is taken by another job, or the job cannot be carried.
        """
        if job.run is None:
            raise InvalidArgument("run", "none", "a run between organisations needs a name: write it into the job")
        name = self.connection.name
        if job.consumer != name:
            raise InvalidArgument("consumer", job.consumer, f"must be {name}, as this directory's site is called")
        found = self.run(job.run)
        job = job.beside(Path.cwd())
        if found.terms_path.exists():
            if found.job.document() != job.document():
                raise InvalidArgument("run", job.run, "is known under another job; give this one another name")
            return found
        with SteadyLedger(self.ledger) as ledger:
            drafted = draft(job, ledger, expires=expires)
        make_private_folder(found.folder)
        documents.write(found.folder / "job.yaml", job.document())
        keep_private(found.folder / "target.npy", lambda path: _save(path, drafted.target.rows))
        selection = json.dumps({"gamma": drafted.selection.gamma, "weighted": drafted.selection.weighted})
        documents.write_text(found.folder / "selection.json", selection + "\n")
        if drafted.hash_seed is not None:
            found.hash_seed_path.unlink(missing_ok=True)
            write_secret(found.hash_seed_path, drafted.hash_seed)
        documents.write_text(found.terms_path, drafted.terms.to_json())
        return found


def make_consumer_home(folder: Path, *, name: str, kit: str = "", user: str = "") -> ConsumerHome:
    """A new directory of a consumer.

    Raises:
        InvalidArgument: it holds something already, or cannot be made.
    """
    make_home_folder(folder)
    home = ConsumerHome(folder)
    with Ledger(home.ledger) as ledger:
        ledger.messages()  # makes their file
    documents.write(folder / "consumer.yaml", Connection(name=name, kit=kit, user=user))
    return home


def expiry(days: int, *, now: datetime | None = None) -> str:
    """The day that is so many days from now."""
    moment = now or datetime.now(UTC)
    return datetime.fromordinal(moment.toordinal() + days).date().isoformat()


def consumer(terms: Terms, name: str, folder: Path) -> Seat:
    """The consumer's party in a run.

    Args:
        terms: of the run.
        name: the site's name, which must be the consumer's.
        folder: the consumer's directory.

    Raises:
        LikesetError: these terms are not those that the consumer drafted.
    """
    home = ConsumerHome(folder)
    if home.connection.name != name:
        raise IllegalMessage(f"the consumer of this directory is {home.connection.name}, not {name}")
    run = home.known(terms.run)
    if run.terms.digest != terms.digest:
        raise IllegalMessage(f"run {terms.run}: the consumer drafted other terms")
    schema_file = run.job.schema_file
    schema = Schema.load(schema_file)
    if schema.digest != terms.schema_digest:
        raise BadDocument(schema_file, f"is not the schema of run {terms.run}, as it was when its terms were drafted")
    target = np.load(run.folder / "target.npy", allow_pickle=False)
    seed = run.hash_seed
    party = Consumer(
        terms,
        target=target,
        ledger=Ledger(home.ledger),
        noise=SecretNoise(),
        hashes=None if seed is None else hash_map(terms, seed),
        selection=run.selection,
        declared=DeclaredRecords(schema),
    )

    def keep(data: bytes) -> None:
        keep_private_bytes(run.folder / "summary.bin", data)

    return Seat(party, keep=keep)


def _save(path: Path, rows: Rows) -> None:
    with path.open("wb") as file:  # given a path, numpy would write to another one, which ends in .npy
        np.save(file, rows)
