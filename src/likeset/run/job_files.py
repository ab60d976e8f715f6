"""The files of a job, opened and checked: what a user got wrong shows here, before anything is spent."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from likeset.arguments import Rows
from likeset.errors import BadTable, InvalidArgument
from likeset.geometry.tilt import Drawing
from likeset.privacy.view import checked_name
from likeset.protocol.notices import Notice
from likeset.protocol.owner import Scan
from likeset.protocol.run_settings import RunSettings
from likeset.run.inputs import Inputs
from likeset.run.job import Job
from likeset.run.notices import (
    BoundsFromData,
    ColumnHardlyCounts,
    NoiseIsSimulated,
    SuspectedIdentifier,
    TooLongRows,
    WeakPromise,
)
from likeset.tables.scan.row_pass import without_dictionaries
from likeset.tables.scan.sampled_scan import SampledScan
from likeset.tables.scan.source_scan import SourceScan
from likeset.tables.scan.withheld_rows import WithholdingScan
from likeset.tables.schema.column_looks import TableLook
from likeset.tables.schema.dead_columns import BoundsUse
from likeset.tables.schema.declared_records import DeclaredRecords
from likeset.tables.schema.identifiers import suspicions_in
from likeset.tables.schema.rows_per_id import check_most_rows
from likeset.tables.schema.schema import Schema
from likeset.tables.sources.source import Block, Source, open_source

__all__ = ["OpenScan", "OpenedJob", "OwnFiles", "Target", "job_warnings", "open_job", "open_own_files", "open_target"]

_MOST_TARGET_ROWS = 1_000_000
_LARGEST_USUAL_EPSILON = 16.0

OpenScan = Callable[[Source, Schema], SourceScan]
"""How an owner passes over its rows: on this machine, or elsewhere."""


@dataclass(frozen=True, eq=False)
class Target:
    """The consumer's rows.

    Attributes:
        name: of the file, as given.
        rows: as the schema maps them.
        table: in the declared columns.
        fingerprint: of the file.
    """

    name: str
    rows: Rows
    table: pa.Table
    fingerprint: str


@dataclass(frozen=True, eq=False)
class OwnFiles:
    """What the consumer has itself: all that a plan is made from.

    Attributes:
        job: what is asked for.
        schema: the declared columns.
        target: the consumer's rows.
        public_rows: rows that anybody may see; None for none.
        seed_rows: public rows that start the summary of ``interactive``; None for none.
        fingerprints: of the files of public and seed rows, by kind.
    """

    job: Job
    schema: Schema
    target: Target
    public_rows: Rows | None
    seed_rows: Rows | None
    fingerprints: Mapping[str, str]

    def inputs(self) -> Inputs:
        """The same for a plan."""
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
    """Owners' files.

    Attributes:
        scans: how each owner reaches its rows.
        content: a digest of everybody's rows: a run goes on with the data that it began with, or not at all.
        names: the owners' files, as given.
        row_counts: how many rows of each can be rows of a run.
        warnings: what the user should know about all files.
    """

    scans: Mapping[str, Scan]
    content: bytes
    names: Mapping[str, str]
    row_counts: Mapping[str, int]
    warnings: tuple[Notice, ...]


def open_own_files(job: Job) -> OwnFiles:
    """Open what the consumer has itself; of owners only the names are looked at."""
    _check_names(job)
    schema = Schema.load(job.schema_file)
    target = open_target(job, schema)
    rows, fingerprints = _extra_rows(job, schema)
    return OwnFiles(job, schema, target, rows.get("public"), rows.get("seed"), fingerprints)


@contextmanager
def open_job(
    files: OwnFiles, *, scan: OpenScan = SourceScan, samples: Mapping[str, Drawing] | None = None
) -> Iterator[OpenedJob]:
    """Open owners' files, and read every owner's rows once; nothing stays open afterwards.

    Args:
        files: what the consumer has itself.
        scan: how owners pass over their rows.
        samples: the draw with which each owner will begin; it is made on the way.
    """
    job, schema, target = files.job, files.schema, files.target
    with ExitStack() as stack:
        owners: dict[str, Scan] = {}
        fingerprints = {target.fingerprint: "the target"}
        shown: dict[str, str] = {}
        warnings = job_warnings(job, schema, target.table, target.rows)
        row_counts, faults = dict[str, int](), list[BadTable]()
        for name, address in job.owners.items():
            source = stack.enter_context(open_source(address))
            every = scan(source, schema)
            # An owner of interactive leaves out what is too long by itself, so that its other rows keep their numbers.
            withhold = job.protocol == "sealed"
            seen = every.first_pass(sample=samples[name] if samples else None, without_too_long=withhold)
            if seen.row_count == 0:
                raise BadTable(source.name, f"owner {name} has no rows; leave it out or give another file")
            twin = fingerprints.setdefault(source.fingerprint(), f"owner {name}")
            if twin != f"owner {name}":
                reason = f"owner {name} has the same content as {twin}; each must bring its own rows"
                raise BadTable(source.name, reason)
            too_long = len(seen.too_long)
            if too_long:
                _check_some_fit(too_long, seen.row_count, source, schema)
                warnings.append(TooLongRows(name, too_long, schema.declaration.text_bytes))
            kept = WithholdingScan(every, schema, seen.too_long) if too_long and withhold else every
            owners[name] = SampledScan(kept, seen.sample)
            shown[name] = source.name
            row_counts[name] = seen.row_count - too_long
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
            rows[kind], _, digests[kind], _ = _mapped(given, schema)
    return rows, digests


def _check_some_fit(too_long: int, rows: int, source: Source, schema: Schema) -> None:
    """Some row of an owner must be as long as the schema declares, or shorter."""
    if too_long == rows:
        most = schema.declaration.text_bytes
        raise BadTable(source.name, f"every row has a text of more than {most:,} bytes; raise text_bytes in the schema")


def open_target(job: Job, schema: Schema) -> Target:
    """The consumer's rows, in memory: a target is small."""
    rows, table, fingerprint, name = _mapped(job.target, schema)
    if len(rows) < 2:
        raise BadTable(name, f"the target has {len(rows)} row{'s' if len(rows) != 1 else ''}; at least 2 are needed")
    return Target(name=name, rows=rows, table=table, fingerprint=fingerprint)


def _mapped(address: str, schema: Schema) -> tuple[Rows, pa.Table, str, str]:
    with open_source(address) as source:
        held = _FewRows(source.name, schema.columns)
        seen = SourceScan(source, schema, labelled=False).first_pass(held)
        if seen.row_count == 0:
            raise BadTable(source.name, "has no rows; give a file with rows")
        check_most_rows(seen.most_rows, source, schema)
        if seen.fault is not None:
            raise seen.fault
        blocks = [
            schema.map(table, table=source.name, locate=str, labels=False, by_columns=True) for table in held.tables
        ]
        table = DeclaredRecords(schema).of(pa.concat_tables(held.tables))
        return np.concatenate([block.rows for block in blocks]), table, source.fingerprint(), source.name


class _FewRows:
    """Holds all rows that go by in a first pass, if they are few."""

    def __init__(self, name: str, columns: tuple[str, ...]) -> None:
        self.columns = columns
        self.tables: list[pa.Table] = []
        self._name = name

    def add(self, block: Block) -> None:
        """The next rows."""
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


def job_warnings(wishes: RunSettings, schema: Schema, target: pa.Table, rows: Rows) -> list[Notice]:
    """What the user should know before any owner's row is read: it reaches the consumer, and depends on none.

    Args:
        wishes: what is asked for; a job is that, too.
        schema: declares the columns.
        target: the consumer's rows in these.
        rows: the same, as the schema maps them.
    """
    look = TableLook(target.column_names, schema.declaration.missing_words)
    look.add(target)
    warnings: list[Notice] = [SuspectedIdentifier(suspicion) for suspicion in suspicions_in(schema, look.summary())]
    if wishes.noise == "simulated":
        warnings.append(NoiseIsSimulated())
    if wishes.epsilon > _LARGEST_USUAL_EPSILON and wishes.offers != "uniform":
        warnings.append(WeakPromise(wishes.epsilon))
    use = BoundsUse(schema)
    use.add(rows)
    warnings += [ColumnHardlyCounts(dead) for dead in use.dead_columns()]
    drafted = dict.fromkeys(schema.from_data, "bounds or values")
    drafted |= {name: "rows of one id" for name in drafted if name == schema.id_column}
    return warnings + [BoundsFromData(name, what) for name, what in drafted.items()]
