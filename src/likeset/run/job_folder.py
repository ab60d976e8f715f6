"""A job's directory: everything is made beside its place and moved there at the end, so that nothing is half-written.

While a job runs, its files lie in ``OUT.partial``. A run that ends before anything was charged leaves nothing. One that
was interrupted later leaves that directory, with the ledger and the messages in it: ``resume`` goes on from there and
sends again what was drawn, never draws anew.
"""

import json
import math
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from likeset import documents
from likeset.errors import (
    BadDocument,
    BudgetExceeded,
    DifferentRequest,
    InvalidArgument,
    LikesetError,
    UnfinishedRequest,
)
from likeset.files import remove_unfinished
from likeset.ledger import Ledger
from likeset.ledger.chain import Entry
from likeset.protocol.terms import Terms
from likeset.run.job import Job
from likeset.run.ledger_outlook import note_how_to_raise
from likeset.run.publish import unfinished
from likeset.run.run_secrets import SECRETS
from likeset.run.uninterrupted_ledger import SteadyLedger
from likeset.text import without_secrets

__all__ = ["JOB", "JobFolder", "named_job", "passes_folder"]

_LEDGER, _TERMS, JOB = "ledger.sqlite", "terms.yaml", "job.yaml"


class KeptTerms(documents.Document):
    """``terms.yaml``: the terms of a run, and the digest by which parties name them."""

    digest: str
    terms: dict[str, Any]


@dataclass(frozen=True, eq=False)
class JobFolder:
    """Where a job's files are made.

    Attributes:
        job: what is asked for, with a name for its run, and paths that count from anywhere.
        out: its place, as it was given.
        resume: whether a run goes on that was interrupted.
    """

    job: Job
    out: Path
    resume: bool

    @classmethod
    def checked(cls, job: Job, *, resume: bool) -> Self:
        """See that the directory and the ledger can be used; nothing is made yet.

        Raises:
            LikesetError: with what is wrong and what to do.
        """
        out = Path(job.out)
        _check_place(out, unfinished(out), resume=resume)
        named = named_job(job, unfinished(out) / JOB, resume=resume).beside(Path.cwd())
        _check_ledger(named)
        return cls(named, out, resume)

    @property
    def partial(self) -> Path:
        """The directory while the job runs."""
        return unfinished(self.out)

    @property
    def ledger_path(self) -> Path:
        """The ledger's file."""
        return Path(self.job.ledger) if self.job.ledger else self.partial / _LEDGER

    @contextmanager
    def working(self) -> Iterator[Ledger]:
        """The ledger while the job runs; its directory goes to its place, or away unless something was charged."""
        partial, run = self.partial, str(self.job.run)
        opened, spent = self.resume, 0.0
        if self.resume:
            _check_same_job(partial / JOB, self.job)
            remove_unfinished(partial)
        else:
            spent = _charges(self.ledger_path, run)
            _make(partial)
        try:
            if not self.resume:
                documents.write(partial / JOB, _kept(self.job))
            with SteadyLedger(self.ledger_path) as ledger:
                opened = True
                yield ledger
            shutil.rmtree(passes_folder(self.job), ignore_errors=True)
            partial.rename(self.out)
            _forget_messages(self.job, self.out)
        except BaseException as error:
            told = self._told(error)
            if opened and _charges(self.ledger_path, run) > spent:
                told.add_note(self._how_to_go_on(told))
            else:
                shutil.rmtree(partial, ignore_errors=True)
            if told is error:
                raise
            raise told from error

    def agree(self, terms: Terms) -> None:
        """Write the terms down, or see that they are those that the run began with."""
        path = self.partial / _TERMS
        if path.exists():
            if documents.read(path, KeptTerms).digest != terms.digest:
                raise DifferentRequest(f"{path}: the terms are not those that the run began with")
            return
        documents.write(path, {"digest": terms.digest, "terms": json.loads(terms.to_json())})

    def _told(self, error: BaseException) -> BaseException:
        """The error as the user should hear it."""
        job, partial = self.job, self.partial
        if isinstance(error, OSError) and not isinstance(error, LikesetError):
            return InvalidArgument(
                "out", job.out, f"cannot be written: {error.strerror or error}; make room, or go elsewhere"
            )
        if isinstance(error, DifferentRequest) and error.kind == SECRETS:
            return DifferentRequest(
                f"run {job.run} began with other files or another schema than those of {partial / JOB} now; bring "
                "them back"
                if self.resume
                else f"run {job.run} is in the ledger already, with other files; give another name with --run"
            )
        if isinstance(error, BudgetExceeded):
            note_how_to_raise(error, self.ledger_path)
        return error

    def _how_to_go_on(self, error: BaseException) -> str:
        """What a user does where something was charged."""
        if isinstance(error, DifferentRequest | UnfinishedRequest):
            return (
                f"what was spent stays spent; this run cannot go on: remove {self.partial} and start a new one; what "
                "that spends comes on top"
            )
        return f"what was spent stays spent, and is kept in {self.partial}: go on with --resume"


def passes_folder(job: Job) -> Path:
    """Where owners' passes over many rows may leave what they have while the job runs, for one that is resumed."""
    return unfinished(Path(job.out)) / "passes"


def _check_place(out: Path, partial: Path, *, resume: bool) -> None:
    if out.exists() or out.is_symlink():
        raise InvalidArgument("out", out, "is there already; nothing is overwritten: name another directory")
    if resume and not partial.is_dir():
        raise InvalidArgument(
            "resume", out, f"there is no interrupted run: {partial} does not exist; leave --resume out"
        )
    if resume and not (partial / JOB).exists():
        raise InvalidArgument("resume", out, f"nothing had begun in {partial} yet: remove it, and leave --resume out")
    if not resume and partial.exists():
        raise InvalidArgument(
            "out",
            out,
            f"{partial} holds a run that was interrupted: go on with --resume, or remove it and with it the record of "
            "what it spent",
        )
    parent = out.parent
    if not parent.is_dir():
        raise InvalidArgument("out", out, f"cannot be made: there is no directory {parent}")
    if not os.access(parent, os.W_OK):
        raise InvalidArgument("out", out, f"cannot be made: {parent} may not be written to")


def _forget_messages(job: Job, out: Path) -> None:
    """What was sent is needed to go on, and then no longer: most offered rows were not bought.

    A ledger of the user's own keeps them until it is purged.
    """
    if job.ledger is None:
        with Ledger(out / _LEDGER) as ledger:
            ledger.purge(run=str(job.run))


def _check_ledger(job: Job) -> None:
    """A ledger that cannot be used is better found before files are read."""
    if job.ledger is None:
        return
    path = Path(job.ledger)
    if not path.parent.is_dir():
        raise InvalidArgument("ledger", path, f"cannot be made: there is no directory {path.parent}")
    if path.is_dir():
        raise InvalidArgument("ledger", path, "is a directory; name the ledger file in it")
    if path.exists():
        with Ledger(path):
            pass


def named_job(job: Job, path: Path | None = None, *, resume: bool = False) -> Job:
    """The job with a name for its run: a ledger that outlives the job needs one that was never used."""
    if job.run is not None:
        return job
    if resume and path is not None:
        return job.model_copy(update={"run": documents.read(path, Job).run})
    if job.ledger is None:
        return job.model_copy(update={"run": "run"})
    moment = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    return job.model_copy(update={"run": f"run-{moment}-{secrets.token_hex(3)}"})


def _make(partial: Path) -> None:
    try:
        partial.mkdir(mode=0o700)
    except FileExistsError as error:
        raise InvalidArgument("out", partial, "another run is being made there") from error
    except OSError as error:
        raise InvalidArgument("out", partial, f"cannot be made: {error.strerror}") from error


def _kept(job: Job) -> dict[str, Any]:
    """The job as it is kept with its results: an address may hold a password."""
    document = job.document()
    document["owners"] = {name: without_secrets(source) for name, source in document["owners"].items()}
    for name in ("target", "public_rows", "seed_rows"):
        document[name] = None if document[name] is None else without_secrets(document[name])
    return document


def _check_same_job(path: Path, job: Job) -> None:
    began = documents.read(path, Job).document()
    now = _kept(job)
    odd = sorted(name for name in now if began.get(name) != now[name] and name != "out")
    if odd:
        raise BadDocument(
            str(path), f"the run began with another {', '.join(odd)}; resume it as it began, or start a new one"
        )


def _charges(ledger_path: Path, run: str) -> float:
    """How often the run was charged; in doubt, more often than anybody could count."""
    if not ledger_path.exists():
        return 0
    try:
        with Ledger(ledger_path) as ledger:
            return sum(_spends(entry, run) for entry in ledger.entries())
    except LikesetError:
        return math.inf


def _spends(entry: Entry, run: str) -> bool:
    """Whether an entry is a charge of this run; its secrets are kept there too, and cost nothing."""
    if entry.kind != "reserve":
        return False
    whose, _, kind = json.loads(entry.key)
    return bool(whose == run and kind != SECRETS)
