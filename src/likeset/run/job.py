"""A job: what is asked for, as options or in ``job.yaml``; its files, opened and checked; its output directory."""

import hashlib
import json
import math
import os
import re
import secrets
import shlex
import shutil
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import numpy as np
import pyarrow as pa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, create_model

from likeset import documents
from likeset.arguments import Rows
from likeset.documents import Document
from likeset.errors import (
    BadDocument,
    BadTable,
    BudgetExceeded,
    DifferentRequest,
    InvalidArgument,
    LikesetError,
    UnfinishedRequest,
)
from likeset.files import remove_unfinished
from likeset.ledger.budget import Charge, Request
from likeset.ledger.ledger import Ledger
from likeset.privacy.events import Event, View
from likeset.protocol import notices
from likeset.protocol.notices import Notice
from likeset.protocol.party import CURATOR
from likeset.protocol.sealed import Scan, foreseen_sample
from likeset.protocol.terms import PRESETS, WITNESS, PlannedTerms, RunSettings, settings
from likeset.tables.profile import TableProfile, dead_columns, identifying_columns, undeclared_id
from likeset.tables.records import DeclaredRecords
from likeset.tables.scales import NumberSample, samples_apart
from likeset.tables.scan import OfferedScan, SourceScan, check_most_rows
from likeset.tables.schema import Schema
from likeset.tables.sources import Source, open_source
from likeset.text import without_secrets
from likeset.trust.cards import CardSecret, SealingSecret

SECRETS = "run/secrets"
"""The kind of request under which a run's secrets lie in the ledger."""

_FORM = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+:")  # sql:, sqlite:, postgres: and what else is no path
_SQLITE = "sqlite:"
_MOST_ROWS = 1_000_000
_LARGEST_USUAL_EPSILON = 16.0
_LARGEST_FEATURE = 1e6  # the largest weight that a column may have
_PUBLIC = 0  # a key of public rows, of which all take part: what it draws is not used
_BYTES = 32
_LEDGER, TERMS, JOB = "ledger.sqlite", "terms.yaml", "job.yaml"

OpenScan = Callable[[Source, Schema], SourceScan]
"""How an owner passes over its rows: on this machine, or elsewhere."""


class _Files(Document):
    likeset: Literal["job"] = "job"
    version: Literal[1] = 1
    schema_file: str = Field(alias="schema")
    target: str = Field(repr=False)  # an address may hold a password
    owners: dict[str, str] = Field(min_length=1, repr=False)


if TYPE_CHECKING:

    class _Settings(_Files, RunSettings):  # type: ignore[misc]  # a document is frozen by its configuration
        """A type checker reads the fields of ``RunSettings`` here; the model below has the very same."""

else:
    _Settings = create_model(
        "_Settings",
        __base__=_Files,
        **{setting.name: (setting.type, ... if setting.is_required else setting.default) for setting in settings()},
    )


class Job(_Settings):  # type: ignore[misc]  # likewise
    preset: Literal["paper"] | None = None
    public_rows: str | None = Field(None, repr=False)
    seed_rows: str | None = Field(None, repr=False)
    consumer: str = "consumer"
    curator_card: str | None = None
    witness: str | None = None
    purpose: str = "a matched training set"
    ledger: str | None = None
    out: str = "matched"
    run: str | None = None

    @classmethod
    def load(cls, path: str | Path) -> Self:
        return documents.read(path, cls)._with_preset().beside(Path(path).parent)

    @classmethod
    def of(cls, **given: Any) -> Self:
        try:
            return documents.read_text(documents.to_yaml(given), cls, name="arguments")._with_preset()
        except BadDocument as error:
            raise BadDocument("arguments", error.reason, field=error.field) from error

    def _with_preset(self) -> Self:
        known = PRESETS[self.preset] if self.preset else {}
        unsaid = {name: value for name, value in known.items() if name not in self.model_fields_set}
        job = self.model_copy(update=unsaid)
        RunSettings(**{setting.name: getattr(job, setting.name) for setting in settings()})  # checks their ranges
        return job

    def beside(self, folder: Path) -> Self:
        def moved(path: str | None) -> str | None:
            if path is None or Path(path).is_absolute():
                return path
            if path.lower().startswith(_SQLITE):
                return _SQLITE + str(folder / path[len(_SQLITE) :])
            return path if _FORM.match(path) and not (folder / path).exists() else str(folder / path)

        places = ("schema_file", "target", "public_rows", "seed_rows", "ledger", "out")
        update: dict[str, Any] = {name: moved(getattr(self, name)) for name in places}
        return self.model_copy(update=update | {"owners": {name: moved(path) for name, path in self.owners.items()}})

    def document(self) -> dict[str, Any]:
        return self.model_dump(by_alias=True, mode="json")


@dataclass(frozen=True, eq=False)
class TableRows:
    """The rows of one table that take part, in memory: as numbers and, with a schema, as records."""

    name: str
    rows: Rows
    labels: NDArray[Any] = field(default_factory=lambda: np.empty(0))
    table: pa.Table | None = None
    fingerprint: str = ""
    given: int = 0  # rows of the table, where the schema keeps a few of each id
    undeclared_id: str = ""  # a column that looks like a repeated id, where the schema declares none

    @classmethod
    def read(
        cls,
        given: Any,
        schema: Schema,
        *,
        name: str | None = None,
        labelled: bool = False,
        keep_key: int | None = None,
        by_id: bool = True,
    ) -> Self:
        """Read a file, a query or a data frame.

        ``keep_key`` is the secret that selects the rows of each id, if the schema keeps a few; None for public and
        test rows, all of which take part. With ``by_id``, an id with more rows than declared is an error; without, the
        table needs no ids.
        """
        if not by_id:
            schema = Schema(schema.declaration.model_copy(update={"id": None}))
        with open_source(given, name=name) as source:
            scan = SourceScan(source, schema, labelled=labelled)
            seen = scan.first_pass(keep_key=_PUBLIC if keep_key is None else keep_key)
            if seen.row_count == 0:
                raise BadTable(source.name, "has no rows; at least one is needed")
            if seen.row_count > _MOST_ROWS:
                raise BadTable(source.name, f"has more than {_MOST_ROWS:,} rows; a sample of them will do")
            check_most_rows(seen.most_rows, source, schema)
            if seen.fault is not None:
                raise seen.fault
            every = np.arange(seen.row_count)
            fetched = scan.fetch(every if seen.kept is None or keep_key is None else seen.kept)
            return cls(
                name=source.name,
                rows=fetched.rows,
                labels=fetched.labels,
                table=fetched.table,
                fingerprint=source.fingerprint(),
                given=seen.row_count,
                undeclared_id="" if labelled or keep_key is None else undeclared_id(source, schema),
            )


@dataclass(frozen=True, eq=False, kw_only=True)
class Inputs:
    target: TableRows
    owners: tuple[str, ...]  # names that may stand in records and messages
    public_rows: Rows | None
    seed_rows: ArrayLike | None
    run: str
    rows_per_unit: int
    id_column: str = ""
    column_names: tuple[str, ...] = ()
    schema: Schema | None = None
    largest_squared_norm: float  # of all rows, as far as it is known
    largest_squared_distance: float | None = None  # of a row from the target's mean; None if a schema bounds it
    consumer: str = "consumer"
    purpose: str = "a matched training set"
    ledger: str | None = None
    fingerprints: Mapping[str, str] = field(default_factory=dict)  # of the files of public and seed rows

    @classmethod
    def declared_by(cls, schema: Schema, target: TableRows, **others: Any) -> Self:
        """Inputs whose columns a schema declares; ``others`` are the fields that it says nothing about."""
        if len(target.rows) < 2:
            ids = "" if schema.keep is None else "; rows without an id count as rows of one id"
            reason = f"the target has {len(target.rows)} rows that take part; at least 2 are needed{ids}"
            raise BadTable(target.name, reason)
        return cls(
            schema=schema,
            target=target,
            largest_squared_norm=_LARGEST_FEATURE**2 * schema.width,
            rows_per_unit=schema.rows_per_unit,
            id_column=schema.id_column or "",
            column_names=schema.record_columns,
            **others,
        )

    @cached_property
    def declared(self) -> DeclaredRecords | None:
        return None if self.schema is None else DeclaredRecords(self.schema)

    def warnings(self, settings: RunSettings) -> list[Notice]:
        """What the user should know before any owner's row is read: it reaches the consumer, and depends on none."""
        schema, target = self.schema, self.target
        if schema is None or target.table is None:
            return []
        profile = TableProfile.declared(schema, labelled=schema.label_column in target.table.column_names)
        profile.add(target.table)
        warnings = [notices.suspected_identifier(one) for one in identifying_columns(schema, profile.columns)]
        if target.undeclared_id and settings.offers != "uniform":
            warnings.append(notices.repeated_persons(target.undeclared_id))
        if schema.keep is not None and target.given > len(target.rows):
            warnings.append(notices.rows_of_ids_kept(len(target.rows), target.given, schema.keep))
        if settings.noise == "simulated":
            warnings.append(notices.SIMULATED_NOISE)
        elif settings.seed is not None:
            warnings.append(notices.NOT_REPEATABLE)
        if settings.epsilon > _LARGEST_USUAL_EPSILON and settings.offers != "uniform":
            warnings.append(notices.weak_promise(settings.epsilon))
        if dead := dead_columns(schema, profile.columns):
            warnings.append(notices.columns_hardly_count([one.column for one in dead]))
        return warnings + ([notices.bounds_from_data(schema.from_data)] if schema.from_data else [])


def open_inputs(job: Job, *, keep_key: int) -> Inputs:
    """Open the schema, the target and public rows; owners' files stay closed.

    ``keep_key`` decides which rows of an id take part, where the schema keeps a few.
    """
    schema = Schema.load(job.schema_file)
    target = TableRows.read(job.target, schema, keep_key=keep_key)
    extra = {"public": job.public_rows, "seed": job.seed_rows}
    known = {kind: TableRows.read(given, schema) for kind, given in extra.items() if given is not None}
    return Inputs.declared_by(
        schema,
        target,
        owners=tuple(job.owners),
        public_rows=known["public"].rows if "public" in known else None,
        seed_rows=known["seed"].rows if "seed" in known else None,
        run=job.run or "run",
        consumer=job.consumer,
        purpose=job.purpose,
        ledger=job.ledger,
        fingerprints={kind: table.fingerprint for kind, table in known.items()},
    )


@dataclass(frozen=True, eq=False)
class OwnersTables:
    scans: Mapping[str, Scan]
    content: bytes  # a digest of everybody's rows: a run goes on with the data that it began with, or not at all
    names: Mapping[str, str]  # of files, as given
    row_counts: Mapping[str, int]  # rows that may take part
    warnings: tuple[Notice, ...]


@contextmanager
def open_owners(
    tables: Mapping[str, str | Source],
    inputs: Inputs,
    settings: RunSettings,
    *,
    secrets: "RunSecrets",
    scan: OpenScan = SourceScan,
    shown_names: Mapping[str, str] | None = None,
) -> Iterator[OwnersTables]:
    """Read and check the owners' tables once; ``shown_names`` are how owners are called toward the user."""
    target, schema = inputs.target, cast("Schema", inputs.schema)  # a job has one
    # An owner of interactive leaves out what is too long by itself, so that its other rows keep their numbers.
    sealed = settings.protocol == "sealed"
    with ExitStack() as stack:
        scans: dict[str, Scan] = {}
        fingerprints = {target.fingerprint: "the target"}
        shown: dict[str, str] = {}
        warnings = inputs.warnings(settings)
        row_counts, faults, numbers = dict[str, int](), list[BadTable](), dict[str, NumberSample]()
        for name, table in tables.items():
            source = stack.enter_context(table if isinstance(table, Source) else open_source(table))
            known_as = (shown_names or {}).get(name, name)
            owner = f"owner {known_as}"
            every, numbers[known_as] = scan(source, schema), NumberSample(schema)
            seen = every.first_pass(
                numbers[known_as],
                sample=foreseen_sample(inputs.run, secrets.owner_key(name)) if sealed else None,
                without_too_long=sealed,
                keep_key=secrets.owner_keep_key(name),
            )
            twin = fingerprints.setdefault(source.fingerprint(), owner)
            if twin != owner:
                reason = f"{owner} has the same content as {twin}; each must bring its own rows"
                raise BadTable(source.name, reason)
            if len(seen.too_long):
                warnings.append(notices.too_long_rows(known_as, len(seen.too_long), schema.declaration.text_bytes))
            row_counts[name] = seen.rows_taking_part()
            if not row_counts[name]:
                reason = f"{owner} has no rows, or none that may take part (text_bytes and keep in the schema)"
                raise BadTable(source.name, f"{reason}; leave it out, or mend it")
            scans[name] = OfferedScan.after(seen, every, withhold=sealed)
            shown[name] = source.name
            check_most_rows(seen.most_rows, source, schema, whose=owner)
            faults += [] if seen.fault is None else [seen.fault]
        if target.table is not None:
            own = NumberSample(schema)
            own.add_table(target.table)
            odd = samples_apart(own, numbers)
            warnings += [notices.different_scales(odd)] if odd else []
        if faults:
            raise faults[0]  # later the owner of the row would have to abstain, and all else is paid
        content = [f"{whose}: {digest}" for digest, whose in fingerprints.items()]  # each file in its own place
        content += [f"{kind}: {digest}" for kind, digest in inputs.fingerprints.items()]
        digest = hashlib.sha256("\n".join([version("likeset"), schema.digest, *content]).encode()).digest()
        yield OwnersTables(scans, digest, shown, row_counts, tuple(warnings))


@dataclass(frozen=True, slots=True)
class RunSecrets:
    root: int

    def load_or_store(self, ledger: Ledger, view: View, *, run: str, content: bytes, event: Event) -> Self:
        """The stored secrets of this run; stores these if it starts now.

        They lie in the ledger, which is private and purged by run, and cost nothing. A run that goes on with
        other data, or another version, than it began with is refused: it would get answers that were made for those.
        """
        request = Request(run, 0, SECRETS, content=content)
        root = self.root.to_bytes(_BYTES, "big")
        data = ledger.draw(Charge(((view, event),)), lambda: (root, None), request=request)
        return type(self)(int.from_bytes(data, "big"))

    @classmethod
    def found_in(cls, ledger: Ledger, *, run: str) -> Self | None:
        """The secrets that a run began with; None if it did not begin. Whether its data are the same is not asked."""
        key = Request(run, 0, SECRETS).key
        roots = (stored.message for stored in ledger.messages(run=run) if stored.key == key)
        root = next(roots, None)
        return None if root is None else cls(int.from_bytes(root, "big"))

    @property
    def feature_seed(self) -> int:
        """Of the release's features, where nobody wants a particular one; public."""
        return self._derived("features") >> 192

    @property
    def target_keep_key(self) -> int:
        return self._derived("keep/target")

    def card(self, name: str) -> CardSecret:
        keys = [self._derived(f"card/{part}/{name}").to_bytes(_BYTES, "big") for part in range(4)]
        sealing = SealingSecret.from_bytes(b"".join(keys[1:]))
        return CardSecret(name, Ed25519PrivateKey.from_private_bytes(keys[0]), sealing)

    def named_parties(self, terms: PlannedTerms) -> dict[str, Any]:
        """What the terms of a split run in one process say of its parties: its number, and a card for each."""
        names = (terms.consumer, *terms.owners, CURATOR, WITNESS)
        cards = {name: self.card(name).card.fingerprint for name in names}
        return {"run_id": f"{self._derived('run id') >> 128:032x}", "cards": cards}

    def owner_key(self, name: str) -> int:
        return self._derived(f"owner/{name}")

    def owner_keep_key(self, name: str) -> int:
        return self._derived(f"keep/owner/{name}")

    def _derived(self, purpose: str) -> int:
        text = f"likeset/run/{purpose}/".encode() + self.root.to_bytes(_BYTES, "big")
        return int.from_bytes(hashlib.sha256(text).digest(), "big")


class SteadyLedger(Ledger):
    """Ctrl-C waits until a charge has its answer: a draw that was paid for is kept, and can be sent again."""

    def draw(self, *given: Any, **options: Any) -> bytes:
        with _interrupts_wait():
            return super().draw(*given, **options)


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    # Only the main thread is interrupted, and may say what happens then.
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    came: list[tuple[int, Any]] = []
    signal.signal(signal.SIGINT, lambda number, frame: came.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            before(*came[0])


def note_how_to_raise(error: BudgetExceeded, path: Path) -> None:
    error.add_note(f"see: likeset ledger show {shlex.quote(str(path))}")
    with Ledger(path, read_only=True) as ledger:
        protected = [account.view.protected for account in ledger.accounts() if str(account.view) == error.view]
    for name in protected[:1]:
        needed = error.spent + error.requested
        amount = f"--rows {needed:.0f}" if error.unit == "rows" else f"--epsilon {math.ceil(needed * 100.0) / 100.0:g}"
        command = f"likeset ledger limit {shlex.quote(str(path))} --of {name} {amount}"
        error.add_note(f"the person responsible for the data raises the limit with: {command}")


@dataclass(frozen=True, eq=False)
class JobFolder:
    job: Job
    out: Path
    resume: bool

    @classmethod
    def checked(cls, job: Job, *, resume: bool) -> Self:
        out = Path(job.out)
        _check_place(out, unfinished(out), resume=resume)
        named = named_job(job, unfinished(out) / JOB, resume=resume).beside(Path.cwd())
        if named.ledger is not None and (Path(named.ledger).is_dir() or not Path(named.ledger).parent.is_dir()):
            raise InvalidArgument("ledger", named.ledger, "is a directory, or in no directory; name a file in one")
        return cls(named, out, resume)

    @property
    def partial(self) -> Path:
        return unfinished(self.out)

    @property
    def ledger_path(self) -> Path:
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
            try:
                partial.mkdir(mode=0o700)
            except OSError as error:
                raise InvalidArgument("out", partial, f"cannot be made: {error.strerror}") from error
        try:
            if not self.resume:
                documents.write(partial / JOB, _kept(self.job))
            with SteadyLedger(self.ledger_path) as ledger:
                opened = True
                yield ledger
            partial.rename(self.out)
            if self.job.ledger is None:
                # What was sent is needed to go on, and then no longer: most offered rows were not bought. A ledger of
                # the user's own keeps them until it is purged.
                with Ledger(self.out / _LEDGER) as ledger:
                    ledger.purge(run=run)
        except BaseException as error:
            explained = self._explained(error)
            if opened and _charges(self.ledger_path, run) > spent:
                explained.add_note(self._how_to_go_on(explained))
            else:
                shutil.rmtree(partial, ignore_errors=True)
            if explained is error:
                raise
            raise explained from error

    def _explained(self, error: BaseException) -> BaseException:
        job, partial = self.job, self.partial
        if isinstance(error, OSError) and not isinstance(error, LikesetError):
            return InvalidArgument(
                "out", job.out, f"cannot be written: {error.strerror or error}; make room, or go elsewhere"
            )
        if isinstance(error, DifferentRequest) and error.kind == SECRETS:
            remedy = f"bring back those of {partial / JOB}" if self.resume else "give another name with --run"
            return DifferentRequest(f"run {job.run} began with other files or another schema: {remedy}")
        if isinstance(error, BudgetExceeded):
            note_how_to_raise(error, self.ledger_path)
        return error

    def _how_to_go_on(self, error: BaseException) -> str:
        if isinstance(error, DifferentRequest | UnfinishedRequest):
            return (
                f"what was spent stays spent; this run cannot go on: remove {self.partial} and start a new one; what "
                "that spends comes on top"
            )
        return f"what was spent stays spent, and is kept in {self.partial}: go on with --resume"


def _check_place(out: Path, partial: Path, *, resume: bool) -> None:
    if out.exists() or out.is_symlink():
        raise InvalidArgument("out", out, "already exists; nothing is overwritten: name another directory")
    if resume and not (partial / JOB).exists():
        reason = f"there is no interrupted run in {partial}; remove it if it is there, and leave --resume out"
        raise InvalidArgument("resume", out, reason)
    if not resume and partial.exists():
        reason = f"{partial} holds a run that was interrupted: go on with --resume, or remove it with what it spent"
        raise InvalidArgument("out", out, reason)
    if not os.access(out.parent, os.W_OK):
        raise InvalidArgument("out", out, f"cannot be made: {out.parent} is not a directory, or may not be written to")


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


def _kept(job: Job) -> dict[str, Any]:
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


def options_to_change(job: Job) -> tuple[str, ...]:
    """The options that a job needs anew to be run again: its directory, and its name if a ledger has it."""
    if unfinished(Path(job.out)).is_dir():
        return ()  # it can be resumed
    known = job.ledger is not None and job.run is not None and _charges(Path(job.ledger), job.run) > 0
    return (*(["out"] if Path(job.out).exists() else []), *(["run"] if known else []))


def _charges(ledger_path: Path, run: str) -> float:
    """How often the run was charged, except for its secrets, which cost nothing; infinity if that is not known."""
    if not ledger_path.exists():
        return 0
    try:
        with Ledger(ledger_path) as ledger:
            reserved = (json.loads(entry.key) for entry in ledger.entries() if entry.kind == "reserve")
            return sum(bool(whose == run and kind != SECRETS) for whose, _, kind in reserved)
    except LikesetError:
        return math.inf


def unfinished(out: Path) -> Path:
    return out.with_name(out.name + ".partial")
