"""What a job asks for, as arguments of ``likeset match`` or in a ``job.yaml``, and its files, opened and checked."""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import pyarrow as pa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, create_model

from likeset import arguments, documents
from likeset.arguments import Rows
from likeset.documents import Document
from likeset.errors import BadDocument, BadTable, InvalidArgument
from likeset.geometry.offers import Drawing
from likeset.ledger.budget import Charge
from likeset.ledger.ledger import Ledger, Request
from likeset.privacy.events import Event
from likeset.privacy.guarantee import View, checked_name
from likeset.privacy.kept_rows import keep_key
from likeset.protocol import notices
from likeset.protocol.notices import Notice
from likeset.protocol.party import CURATOR
from likeset.protocol.run_settings import PRESETS, RunSettings, settings
from likeset.protocol.sealed import Scan
from likeset.protocol.terms import WITNESS, PlannedTerms
from likeset.tables.cells import MissingWords
from likeset.tables.profile import BoundsUse, TableProfile, suspicions_in, undeclared_id
from likeset.tables.records import DeclaredRecords
from likeset.tables.rows_per_id import check_most_rows, rows_of_each_id, written_ids
from likeset.tables.scan import OfferedScan, SourceScan, without_dictionaries
from likeset.tables.schema import Schema
from likeset.tables.sources import Block, Source, open_source
from likeset.trust.cards import CardSecret, SealingSecret

_FORM = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+:")  # sql:, sqlite:, postgres: and what else is no path
_SQLITE = "sqlite:"


class _Files(Document):
    """What stands first in a job."""

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
    """A whole job."""

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
        """The job in a file; paths in it count from the file's own directory."""
        return documents.read(path, cls)._with_preset().beside(Path(path).parent)

    @classmethod
    def of(cls, **given: Any) -> Self:
        """A job from arguments; an error names the argument."""
        try:
            return documents.read_text(documents.to_yaml(given), cls, name="arguments")._with_preset()
        except BadDocument as error:
            raise BadDocument("arguments", error.reason, field=error.field) from error

    def _with_preset(self) -> Self:
        known = PRESETS[self.preset] if self.preset else {}
        unsaid = {name: value for name, value in known.items() if name not in self.model_fields_set}
        return self.model_copy(update=unsaid)

    def beside(self, folder: Path) -> Self:
        """The same job with paths that count from another directory."""

        def moved(path: str | None) -> str | None:
            if path is None or Path(path).is_absolute():
                return path
            if path.lower().startswith(_SQLITE):
                return _SQLITE + str(folder / path[len(_SQLITE) :])
            return path if _FORM.match(path) and not (folder / path).exists() else str(folder / path)

        return self.model_copy(
            update={
                "schema_file": moved(self.schema_file),
                "target": moved(self.target),
                "owners": {name: str(moved(path)) for name, path in self.owners.items()},
                "public_rows": moved(self.public_rows),
                "seed_rows": moved(self.seed_rows),
                "ledger": moved(self.ledger),
                "out": moved(self.out),
            }
        )

    def wishes(self) -> RunSettings:
        """What it asks for, beside files and names."""
        if self.seed is not None:
            arguments.count("seed", self.seed, least=0)
        return RunSettings(**{field.name: getattr(self, field.name) for field in fields(RunSettings)})

    def document(self) -> dict[str, Any]:
        return self.model_dump(by_alias=True, mode="json")


_LARGEST_FEATURE = 1e6  # the largest weight that a column may have


@dataclass(frozen=True, eq=False, kw_only=True)
class Inputs:
    """All that a plan may know; nothing of it is a row of an owner."""

    target: Rows
    owners: tuple[str, ...]
    public_rows: Rows | None
    seed_rows: ArrayLike | None
    largest_squared_norm: float
    largest_squared_distance: float | None = None
    rows_per_unit: int
    id_column: str = ""
    run: str
    column_names: tuple[str, ...] = ()
    schema_digest: str = ""
    declared: DeclaredRecords | None = None
    consumer: str = "consumer"
    purpose: str = "a matched training set"

    @classmethod
    def declared_by(cls, schema: Schema, **others: Any) -> Self:
        """Inputs whose columns a schema declares; ``others`` are the fields that it says nothing about."""
        return cls(
            largest_squared_norm=_LARGEST_FEATURE**2 * schema.width,
            rows_per_unit=schema.rows_per_unit,
            id_column=schema.id_column or "",
            column_names=schema.record_columns,
            schema_digest=schema.digest,
            declared=DeclaredRecords(schema),
            **others,
        )


_MOST_TARGET_ROWS = 1_000_000
_LARGEST_USUAL_EPSILON = 16.0
_PUBLIC = 0  # a key of public rows, of which all take part: what it draws is not used

OpenScan = Callable[[Source, Schema], SourceScan]
"""How an owner passes over its rows: on this machine, or elsewhere."""


@dataclass(frozen=True, eq=False)
class Target:
    """The consumer's rows."""

    name: str
    rows: Rows
    table: pa.Table
    fingerprint: str
    rows_of_ids: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    undeclared_id: str = ""


@dataclass(frozen=True, eq=False)
class OwnFiles:
    """What the consumer has itself: all that a plan is made from."""

    job: Job
    schema: Schema
    target: Target
    public_rows: Rows | None
    seed_rows: Rows | None
    fingerprints: Mapping[str, str]

    def inputs(self) -> Inputs:
        return Inputs.declared_by(
            self.schema,
            target=self.target.rows,
            owners=tuple(self.job.owners),
            public_rows=self.public_rows,
            seed_rows=self.seed_rows,
            run=self.job.run or "run",
            consumer=self.job.consumer,
            purpose=self.job.purpose,
        )


@dataclass(frozen=True, eq=False)
class OpenedJob:
    """Owners' files."""

    scans: Mapping[str, Scan]
    content: bytes
    names: Mapping[str, str]
    row_counts: Mapping[str, int]
    warnings: tuple[Notice, ...]


def open_own_files(job: Job, *, keep_key: int) -> OwnFiles:
    """Open what the consumer has itself; of owners only the names are looked at."""
    _check_names(job)
    schema = Schema.load(job.schema_file)
    target = open_target(job, schema, keep_key=keep_key)
    rows, fingerprints = _extra_rows(job, schema)
    return OwnFiles(job, schema, target, rows.get("public"), rows.get("seed"), fingerprints)


@contextmanager
def open_job(
    files: OwnFiles,
    *,
    keep_keys: Mapping[str, int],
    scan: OpenScan = SourceScan,
    samples: Mapping[str, Drawing] | None = None,
) -> Iterator[OpenedJob]:
    """Open owners' files, and read every owner's rows once; nothing stays open afterwards."""
    job, schema, target = files.job, files.schema, files.target
    with ExitStack() as stack:
        owners: dict[str, Scan] = {}
        fingerprints = {target.fingerprint: "the target"}
        shown: dict[str, str] = {}
        warnings = target_warnings(job, schema, target)
        row_counts, faults = dict[str, int](), list[BadTable]()
        for name, address in job.owners.items():
            source = stack.enter_context(open_source(address))
            every = scan(source, schema)
            # An owner of interactive leaves out what is too long by itself, so that its other rows keep their numbers.
            withhold = job.protocol == "sealed"
            seen = every.first_pass(
                sample=samples[name] if samples else None, without_too_long=withhold, keep_key=keep_keys[name]
            )
            if seen.row_count == 0:
                raise BadTable(source.name, f"owner {name} has no rows; leave it out or give another file")
            twin = fingerprints.setdefault(source.fingerprint(), f"owner {name}")
            if twin != f"owner {name}":
                reason = f"owner {name} has the same content as {twin}; each must bring its own rows"
                raise BadTable(source.name, reason)
            too_long = len(seen.too_long)
            if too_long:
                _check_some_fit(too_long, seen.row_count, source, schema)
                warnings.append(notices.too_long_rows(name, too_long, schema.declaration.text_bytes))
            taking_part = seen.rows_taking_part()
            if not taking_part:
                raise BadTable(source.name, f"owner {name} has no row that may take part; raise keep in the schema")
            owners[name] = OfferedScan.after(seen, every, withhold=withhold)
            shown[name] = source.name
            row_counts[name] = taking_part
            check_most_rows(seen.most_rows, source, schema, whose=f"owner {name}")
            faults += [] if seen.fault is None else [seen.fault]
        _check_target_size(job, target, sum(row_counts.values()))
        if faults:
            raise faults[0]  # later the owner of the row would have to abstain, and all else is paid
        content = [f"{whose}: {digest}" for digest, whose in fingerprints.items()]  # each file in its own place
        content += [f"{kind}: {digest}" for kind, digest in files.fingerprints.items()]
        digest = hashlib.sha256("\n".join([schema.digest, *content]).encode()).digest()
        yield OpenedJob(owners, digest, shown, row_counts, tuple(warnings))


def _extra_rows(job: Job, schema: Schema) -> tuple[dict[str, Rows], dict[str, str]]:
    """Public rows and seed rows, where the job names any; and the fingerprint of each file."""
    rows, digests = {}, {}
    for kind, given in (("public", job.public_rows), ("seed", job.seed_rows)):
        if given is not None:
            public = _mapped(given, schema, keep_key=None)
            rows[kind], digests[kind] = public.rows, public.fingerprint
    return rows, digests


def _check_some_fit(too_long: int, rows: int, source: Source, schema: Schema) -> None:
    if too_long == rows:
        most = schema.declaration.text_bytes
        raise BadTable(source.name, f"every row has a text of more than {most:,} bytes; raise text_bytes in the schema")


def open_target(job: Job, schema: Schema, *, keep_key: int) -> Target:
    """The consumer's rows, in memory: a target is small. Of each id, as many take part as the schema keeps."""
    target = _mapped(job.target, schema, keep_key=keep_key)
    rows = len(target.rows)
    if rows < 2:
        took = "1 row that takes part" if rows == 1 else f"{rows} rows that take part"
        ids = "" if schema.keep is None else "; rows without an id count as rows of one id"
        raise BadTable(target.name, f"the target has {took}; at least 2 are needed{ids}")
    return target


def _mapped(address: str, schema: Schema, *, keep_key: int | None) -> Target:
    """Rows of a file; all of them if there is no key to keep some by, which is for public rows."""
    with open_source(address) as source:
        ids = () if schema.id_column is None else (schema.id_column,)
        held = _FewRows(source.name, (*schema.columns, *ids))
        scan = SourceScan(source, schema, labelled=False)
        seen = scan.first_pass(held, keep_key=_PUBLIC if keep_key is None else keep_key)
        if seen.row_count == 0:
            raise BadTable(source.name, "has no rows; give a file with rows")
        check_most_rows(seen.most_rows, source, schema)
        if seen.fault is not None:
            raise seen.fault
        whole = pa.concat_tables(held.tables)
        missing = MissingWords.of(schema.declaration.missing_words)
        counts = [
            rows_of_each_id(written_ids(whole.column(name), missing, table=source.name, column=name)) for name in ids
        ]
        tables = held.tables
        if seen.kept is not None and keep_key is not None:
            tables = [whole.take(pa.array(seen.kept))]
        blocks = [schema.map(table, table=source.name, locate=str, labels=False, by_columns=True) for table in tables]
        return Target(
            name=source.name,
            rows=np.concatenate([block.rows for block in blocks]),
            table=DeclaredRecords(schema).of(pa.concat_tables(tables).select(schema.columns)),
            fingerprint=source.fingerprint(),
            rows_of_ids=counts[0] if counts else np.empty(0, dtype=np.int64),
            undeclared_id="" if keep_key is None else undeclared_id(source, schema),
        )


class _FewRows:
    """Holds all rows that go by in a first pass, if they are few."""

    def __init__(self, name: str, columns: tuple[str, ...]) -> None:
        self.columns = columns
        self.tables: list[pa.Table] = []
        self._name = name

    def add(self, block: Block) -> None:
        if block.first_row + len(block) > _MOST_TARGET_ROWS:
            raise BadTable(self._name, f"has more than {_MOST_TARGET_ROWS:,} rows; a sample of them will do")
        self.tables.append(without_dictionaries(block.table.select(self.columns)))


def _check_names(job: Job) -> None:
    addresses: dict[str, str] = {str(Path(job.target).resolve()): "the target"}
    for name, address in job.owners.items():
        try:
            checked_name("owners", name)
        except InvalidArgument as error:
            raise InvalidArgument("owners", repr(name), error.reason) from error
        twin = addresses.setdefault(str(Path(address).resolve()), f"owner {name}")
        if twin != f"owner {name}":
            raise BadTable(address, f"owner {name} has the same file as {twin}; each must bring its own rows")


def _check_target_size(job: Job, target: Target, total: int) -> None:
    # Whether a run starts is seen by all: it must not depend on a size that is protected.
    rows = len(target.rows) if job.declared_size is None else job.declared_size
    if rows > total:
        raise BadTable(
            target.name,
            f"the target has {rows:,} rows, more than the {total:,} of all owners together; if it was not "
            "mixed up with an owner, give a sample of it",
        )


def target_warnings(job: Job, schema: Schema, target: Target) -> list[Notice]:
    given = int(target.rows_of_ids.sum())
    return job_warnings(job, schema, target.table, target.rows, undeclared_id=target.undeclared_id, given=given)


def job_warnings(
    wishes: RunSettings, schema: Schema, target: pa.Table, rows: Rows, *, undeclared_id: str, given: int
) -> list[Notice]:
    """What the user should know before any owner's row is read: it reaches the consumer, and depends on none."""
    profile = TableProfile(target.column_names, schema.declaration.missing_words)
    profile.add(target)
    warnings: list[Notice] = [
        notices.suspected_identifier(suspicion) for suspicion in suspicions_in(schema, profile.columns)
    ]
    if undeclared_id and wishes.offers != "uniform":
        warnings.append(notices.repeated_persons(undeclared_id))
    if schema.keep is not None and given > len(rows):
        warnings.append(notices.rows_of_ids_kept(len(rows), given, schema.keep))
    if wishes.noise == "simulated":
        warnings.append(notices.simulated_noise())
    elif wishes.seed is not None:
        warnings.append(notices.not_repeatable())
    if wishes.epsilon > _LARGEST_USUAL_EPSILON and wishes.offers != "uniform":
        warnings.append(notices.weak_promise(wishes.epsilon))
    use = BoundsUse(schema)
    use.add(rows)
    warnings += [notices.column_hardly_counts(dead) for dead in use.dead_columns()]
    drafted = dict.fromkeys(schema.from_data, "bounds or values")
    drafted |= {name: "rows of one id" for name in drafted if name == schema.id_column}
    return warnings + [notices.bounds_from_data(name, what) for name, what in drafted.items()]


SECRETS = "run/secrets"
"""Under this kind they are kept in the ledger."""

_BYTES = 32


@dataclass(frozen=True, slots=True)
class RunSecrets:
    """Keys and seeds of one run."""

    root: int

    def kept(self, ledger: Ledger, view: View, *, run: str, content: bytes, told: Event) -> Self:
        """The secrets that this run began with; these, if it begins now.

        They lie in the ledger's journal, which is private and purged by run, and cost nothing. A run that goes on with
        other data than it began with is refused: it would get answers that were made for those.
        """
        request = Request(run, 0, SECRETS, content=content)
        root = self.root.to_bytes(_BYTES, "big")
        data = ledger.answer(Charge(((view, told),)), lambda: (root, None), request=request)
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
        """Decides which rows of an id of the target take part, where the schema keeps a few."""
        return keep_key(self.root, "target")

    def card(self, name: str) -> CardSecret:
        """The card of a party of a split run in one house: made for the run, and the same when it is resumed."""
        keys = [self._derived(f"card/{part}/{name}").to_bytes(_BYTES, "big") for part in range(4)]
        sealing = SealingSecret.from_bytes(b"".join(keys[1:]))
        return CardSecret(name, Ed25519PrivateKey.from_private_bytes(keys[0]), sealing)

    def named_parties(self, terms: PlannedTerms) -> dict[str, Any]:
        """What the terms of a split run in one house say of its parties: its number, and a card for each."""
        witness = [WITNESS] if terms.split is not None else []
        names = (terms.consumer, *terms.owners, CURATOR, *witness)
        cards = {name: self.card(name).card.fingerprint for name in names}
        return {"run_id": f"{self._derived('run id') >> 128:032x}", "cards": cards}

    def owner_key(self, name: str) -> int:
        return self._derived(f"owner/{name}")

    def owner_keep_key(self, name: str) -> int:
        """Decides which rows of an id of an owner in this process take part, where the schema keeps a few."""
        return keep_key(self.owner_key(name), "rows")

    def _derived(self, purpose: str) -> int:
        text = f"likeset/run/{purpose}/".encode() + self.root.to_bytes(_BYTES, "big")
        return int.from_bytes(hashlib.sha256(text).digest(), "big")
