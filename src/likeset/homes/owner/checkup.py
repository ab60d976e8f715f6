"""Before the first run: is everything in order at this node? Verdicts that a person understands."""

import os
import shutil
import stat
import tempfile
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_args

from cryptography import x509

from likeset.errors import BadTable
from likeset.homes.findings import Finding, guarded
from likeset.homes.owner import outbox
from likeset.homes.owner.datasets import DataSet
from likeset.homes.owner.node import OwnerNode
from likeset.homes.owner.setting_up import policy_gaps
from likeset.homes.owner.small_groups import SmallGroups, rare_among
from likeset.tables.scan.kept_rows import KeptRowsOfIds
from likeset.tables.schema.rows_per_id import check_ids
from likeset.tables.schema.table_checks import Inspection
from likeset.tables.sources.source import Source
from likeset.trust.pins import Role

__all__ = ["checkup"]

_LEAST_DISK = 1 << 30
_SOON = timedelta(days=30)
_BUILT = datetime(2025, 1, 1, tzinfo=UTC)


def checkup(node: OwnerNode, *, certificates: tuple[Path, ...] = ()) -> list[Finding]:
    """Look at everything.

    Args:
        node: the node.
        certificates: files to look at besides those that ``owner.yaml`` names.
    """
    findings = [*guarded("home", lambda: _home(node)), *_policy(node), *_files(node)]
    findings += [*guarded("card", lambda: _card(node)), *guarded("pinned cards", lambda: _pinned_cards(node))]
    names = node.registry.names()
    if not names:
        findings.append(Finding("data sets", ok=False, words="there are none; add one with `likeset owner data add`"))
    for name in names:
        findings += guarded(f"data set {name}", lambda name=name: _data(node, node.registry.get(name)))  # type: ignore[misc]
    findings += [
        _disk(place, what) for place, what in ((node.home.folder, "node"), (Path(tempfile.gettempdir()), "copies"))
    ]
    for path in (*map(Path, node.policy.certificates), *certificates):
        findings.append(_certificate(path))
    return [*findings, _clock(node)]


def _home(node: OwnerNode) -> Iterator[Finding]:
    node.check_running()  # raises where it was put back from an old copy
    yield Finding("home", ok=True, words="is not known to be an old copy")


def _policy(node: OwnerNode) -> Iterator[Finding]:
    policy = node.policy
    empty = policy_gaps(node)
    if empty:
        yield Finding("policy", ok=False, words=f"allows nothing yet: fill in {', '.join(empty)} in owner.yaml")
    elif policy.per_run.rows > policy.total.rows or policy.per_run.epsilon > policy.total.epsilon:
        yield Finding("policy", ok=False, words="one run may cost more than all together; lower per_run or raise total")
    else:
        gate = (
            "a person decides about each run" if policy.manual_approval else "runs within it are approved by themselves"
        )
        yield Finding("policy", ok=True, words=f"can be used; {gate}")


def _files(node: OwnerNode) -> Iterator[Finding]:
    mode = stat.S_IMODE(node.home.folder.stat().st_mode)
    if os.name == "posix" and mode & 0o077:
        yield Finding("directory", ok=False, words=f"other users may look into it (mode {mode:04o}); chmod 700 it")
    else:
        yield Finding("directory", ok=True, words="private")
    problems, notes = outbox.verify(node)
    words = "; ".join(map(str, problems)) or "; ".join(["they hold and agree", *notes])
    yield Finding("audit log and ledger", ok=not problems, words=words)


def _card(node: OwnerNode) -> Iterator[Finding]:
    card = node.home.card()
    yield Finding("card", ok=True, words=f"{card.name}, {card.fingerprint}; nobody else can read its keys")


def _pinned_cards(node: OwnerNode) -> Iterator[Finding]:
    """How many of each role; none is no fault: a new node knows nobody yet."""
    counts = Counter(pin.role for pin in node.home.pins().all() if pin.state == "pinned")
    roles = [f"{counts[role]} as {role}" for role in get_args(Role) if counts[role]]
    needed: tuple[Role, ...] = ("consumer", "curator")
    missing = " and ".join(f"no {role}" for role in needed if not counts[role])
    how = f"{missing} yet, so no run can begin: compare cards by telephone, and call `likeset card pin`"
    words = "; ".join([*filter(None, [", ".join(roles)]), *([how] if missing else [])])
    yield Finding("pinned cards", ok=True, words=words)


def _data(node: OwnerNode, data: DataSet) -> Iterator[Finding]:
    what, policy = f"data set {data.name}", node.policy
    with data.open_source() as source:
        inspection, labelled = data.schema.inspection(), data.schema.label_column is not None
        groups = SmallGroups(data.schema, smallest=policy.smallest_group, labelled=labelled)
        keeping = KeptRowsOfIds.of(source, data.schema, key=data.keep_key(node.home.key()))
        for block in source.blocks(data.schema.needed_columns):
            inspection.add(block.table, table=source.name, locate=block.locate)
            (groups if keeping is None else keeping).add(block)
        kept = None if keeping is None else keeping.row_numbers()
        complaints = [*_complaints(inspection), *_about_ids(data, source)]
        for words in complaints:
            yield Finding(what, ok=False, words=words)
        if not complaints:
            yield Finding(what, ok=True, words=f"all {inspection.rows:,} rows are as the schema declares")
        if not inspection.rows:
            yield Finding(what, ok=False, words="has no rows")
        if kept is not None:
            words = f"{len(kept):,} rows take part, drawn in secret: {data.schema.keep} of each id at most"
            yield Finding(what, ok=True, words=words)
        withheld = len(rare_among(groups, source, kept))
        words = f"{withheld:,} rows are in groups of fewer than {policy.smallest_group} and are never offered"
        if policy.smallest_group == 1:
            words = "every row may be offered: owner.yaml sets no smallest group"
        offered = inspection.rows if kept is None else len(kept)
        yield Finding(what, ok=withheld < offered, words=words)
        if inspection.too_long:
            most = f"{data.schema.declaration.text_bytes:,} bytes (text_bytes of the schema)"
            words = f"{inspection.too_long:,} rows have a text of more than {most}: never offered"
            yield Finding(what, ok=inspection.too_long < inspection.rows, words=words)
    forbidden = [name for name in data.schema.record_columns if name not in policy.columns]
    if forbidden:
        listed = ", ".join(map(repr, forbidden))
        yield Finding(what, ok=False, words=f"owner.yaml does not let these columns leave: {listed}")
    suspicions = inspection.suspicions()
    data.keep_suspicions(suspicions)
    for suspicion in suspicions:
        yield Finding(what, ok=True, words=suspicion.warning, suspicion=suspicion)
    for dead in inspection.dead_columns():
        yield Finding(what, ok=True, words=dead.warning, dead=dead)
    if data.schema.from_data:
        listed = ", ".join(map(repr, data.schema.from_data))
        yield Finding(what, ok=False, words=f"what came from data tells something about it: {listed}")


def _complaints(inspection: Inspection) -> Iterator[str]:
    for column in inspection.columns:
        for trouble, complaint in column.complaints.items():
            places = ", ".join(column.first[trouble])
            yield f"column {column.name!r}: {column.counts[trouble]:,} {trouble}, first at {places}: {complaint}"
    for name, complaint in inspection.numbers_as_words().items():
        yield f"column {name!r}: {complaint}"
    ids = inspection.id_count()
    if ids is not None and ids.missing:
        yield f"{ids.missing:,} rows do not say whose they are"


def _about_ids(data: DataSet, source: Source) -> Iterator[str]:
    try:
        check_ids(source, data.schema)
    except BadTable as error:
        yield str(error)


def _disk(place: Path, what: str) -> Finding:
    free = shutil.disk_usage(place).free
    words = f"{free / 1e9:.1f} GB free"
    if free < _LEAST_DISK:
        return Finding(f"disk ({what})", ok=False, words=f"{words}; make room: without it nothing can be answered")
    return Finding(f"disk ({what})", ok=True, words=words)


def _certificate(path: Path) -> Finding:
    what = f"certificate {path.name}"
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
    except OSError:
        return Finding(what, ok=False, words="there is no such file, or it cannot be read")
    except ValueError:
        return Finding(what, ok=False, words="is no certificate in PEM form")
    now, first, last = datetime.now(UTC), certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now < first:
        return Finding(what, ok=False, words=f"is not valid before {first:%Y-%m-%d}; is the clock right?")
    if now > last:
        return Finding(what, ok=False, words=f"ended on {last:%Y-%m-%d}; ask for a new one")
    soon = "; ask for a new one soon" if last - now < _SOON else ""
    return Finding(what, ok=True, words=f"valid until {last:%Y-%m-%d}{soon}")


def _clock(node: OwnerNode) -> Finding:
    now, last = node.now(), node.runs.last_at
    shown = f"{now:%Y-%m-%d %H:%M} UTC"
    if now < _BUILT:
        return Finding("clock", ok=False, words=f"says {shown}, which cannot be; set it")
    if last and now < datetime.fromisoformat(last) - timedelta(minutes=1):
        return Finding("clock", ok=False, words=f"says {shown}, before the last entry of the audit log; set it")
    return Finding("clock", ok=True, words=f"says {shown}")
