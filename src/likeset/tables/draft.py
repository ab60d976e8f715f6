"""A first schema from files: a profile of every column, and a form to fill in.

It is made from the holder's own rows, at home. A profile stays there; a schema is public. So whatever a draft took from
data (bounds, values, the number of rows of one id) is marked until a person put public knowledge in its place.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import Any

from likeset import documents
from likeset.errors import BadTable
from likeset.tables import cells
from likeset.tables.cells import remedy
from likeset.tables.column_evidence import ColumnEvidence
from likeset.tables.column_looks import Seen, TableLook
from likeset.tables.drafted_kinds import Proposal, proposal
from likeset.tables.identifiers import Reason, Suspicion, id_that_repeats, suspicion_of
from likeset.tables.rows_per_id import IdCount
from likeset.tables.schema import MISSING_WORDS
from likeset.tables.sources import Source

__all__ = ["MARK", "ColumnProfile", "SchemaDraft", "draft"]

MARK = "from data: replace by public knowledge"

_HEAD = """\
# A draft from the types and values of {names}.
# A schema is public. What comes from data tells something about the data: look at every line that says "from data",
# write down what is publicly known instead (a clinical range, the code book's values), and then remove its from_data.
"""
_LEFT_OUT = "# Left out, for they may identify people (likeset schema draft --include COLUMN brings one in):\n"
_FOOT = """\
# What a model is to predict; not used for matching unless match: true.
# label: {column: ..., kind: category, values: [...]}
"""
_FOOT_ID = """\
# Whose rows they are, if one person may have several: privacy then protects all of them.
# id: {column: ..., rows_per_id: 1}
"""
_ABOUT_IDS = """\
# Privacy protects all rows of an id at once, so noise grows with rows_per_id: the most rows that one id may have.
"""
_KEEP_FEW = """\
# Fewer rows of each id give less noise: with keep: 1 in place of rows_per_id, one row of each, drawn in secret, counts.
"""
_ABSENT = "# Left out, for not all files have them: {names}\n"
_MOST_CLASSES = 10


@dataclass(frozen=True, slots=True)
class ColumnProfile:
    """What was seen of one column, and what it would be; for whoever holds the rows.

    Attributes:
        name: of the column.
        role: ``column``, ``label``, ``id`` or ``left out``.
        kind: that it would be declared as; empty where it would not be.
        why: in words.
        caution: what to look at before it is used; empty if nothing.
        rows: how many there are.
        missing: of them, how many have no value.
        different: how many different values there are; None if more than a thousand.
        low: the least number, if it has numbers.
        high: the largest.
        bars: rows in equal parts of the range, or for each of the most frequent values.
    """

    name: str
    role: str
    kind: str
    why: str
    caution: str
    rows: int
    missing: int
    different: int | None
    low: float | None
    high: float | None
    bars: tuple[int, ...]

    def document(self) -> dict[str, Any]:
        """For machines."""
        return {**asdict(self), "bars": list(self.bars)}


@dataclass(frozen=True, slots=True)
class SchemaDraft:
    """A schema to fill in.

    Attributes:
        text: of the schema file.
        profile: every column that all files have.
        left_out: columns that may identify people, and were not asked for by name.
        included: such columns that were, the label among them.
        id_hint: a column that was left out and looks as if it said whose row it is; empty if there is none.
        absent: columns that were left out since a file has none, with the name of that file.
        comma_remedy: what to do about decimal commas; empty if there are none.
    """

    text: str
    profile: tuple[ColumnProfile, ...]
    left_out: tuple[Suspicion, ...]
    included: tuple[Suspicion, ...]
    id_hint: str = ""
    absent: Mapping[str, str] = field(default_factory=dict)
    comma_remedy: str = ""


@dataclass(frozen=True, eq=False)
class _Reading:
    """What one reading of all files told."""

    evidence: dict[str, ColumnEvidence]
    seen: list[dict[str, Seen | None]]
    most_rows: int


def draft(
    sources: Sequence[Source], *, label: str | None = None, ids: str | None = None, include: Collection[str] = ()
) -> SchemaDraft:
    """A schema that fits all sources; what came from data is marked, and what may identify people is left out.

    Args:
        sources: have the columns that the schema is to declare; those that are not in all of them are left out.
        label: the column of labels; a target may have none.
        ids: the column that says whose row it is.
        include: columns to declare although they may identify people.
    """
    first, names, absent = sources[0], *_common_columns(sources, label)
    _check_there(sources, names, (label, ids, *include))
    if not names or set(names) <= {label, ids}:
        raise BadTable(first.name, "there is no column that all files have")
    read = _read(sources, names, ids)
    if not any(evidence.rows for evidence in read.evidence.values()):
        raise BadTable(first.name, "there are no rows to draft from")
    suspected = [suspicion_of(name, seen=[each.get(name) for each in read.seen]) for name in names if name != ids]
    suspicions = [suspicion for suspicion in suspected if suspicion is not None]
    _check_named(first.name, suspicions, (label, *include))
    left_out = {
        suspicion.column: suspicion
        for suspicion in suspicions
        if suspicion.column != label and suspicion.column not in include
    }
    if set(names) - set(left_out) <= {label, ids}:
        listed = ", ".join(map(repr, left_out))
        raise BadTable(first.name, f"every column may identify people: {listed}; name those to keep with --include")
    proposals = {name: proposal(name, evidence) for name, evidence in read.evidence.items() if name not in left_out}
    roles = {name: "label" if name == label else "id" if name == ids else "column" for name in proposals}
    shown = ", ".join(source.name for source in sources)
    text = "".join(
        [
            *_opening(left_out.values(), absent, shown),
            *_columns({name: made for name, made in proposals.items() if roles[name] == "column"}),
            _label_lines(label, read.evidence),
            _id_lines(ids, read.most_rows),
        ]
    )
    return SchemaDraft(
        text,
        tuple(
            _profile(name, evidence, roles.get(name, "left out"), proposals.get(name), left_out.get(name), read)
            for name, evidence in read.evidence.items()
        ),
        tuple(left_out.values()),
        tuple(suspicion for suspicion in suspicions if suspicion.column not in left_out),
        "" if ids is not None else id_that_repeats({name: each.get(name) for name in left_out} for each in read.seen),
        absent,
        _comma_remedy(read.evidence, proposals),
    )


def _common_columns(sources: Sequence[Source], label: str | None) -> tuple[list[str], dict[str, str]]:
    """The columns that all sources have, and the label if one has it; and the others, with a source that has none."""
    names, absent = [], {}
    for name in dict.fromkeys(name for source in sources for name in source.schema.names):
        lacking = next((source.name for source in sources if name not in source.schema.names), None)
        if lacking is None or name == label:
            names.append(name)
        else:
            absent[name] = lacking
    return names, absent


def _check_there(sources: Sequence[Source], names: Sequence[str], wanted: Iterable[str | None]) -> None:
    for name in wanted:
        if name is not None and name not in names:
            lacking = next(source for source in sources if name not in source.schema.names)
            near = documents.near_miss(name, names)
            if near or len(sources) == 1:
                raise BadTable(lacking.name, f"is missing{near}", column=name)
            raise BadTable(lacking.name, "is missing; draft from files that have it", column=name)


def _comma_remedy(evidence: Mapping[str, ColumnEvidence], proposals: Collection[str]) -> str:
    columns = {name: seen.thousands for name, seen in evidence.items() if seen.commas and name in proposals}
    return f"decimal commas are not read: {remedy(columns)}" if columns else ""


def _read(sources: Sequence[Source], names: list[str], ids: str | None) -> _Reading:
    """All files once."""
    there = [[name for name in names if name in source.schema.names] for source in sources]
    kinds = {name: source.schema.field(name).type for source in reversed(sources) for name in source.schema.names}
    evidence = {name: ColumnEvidence(kinds[name]) for name in names}
    looks, most_rows = [TableLook(columns) for columns in there], 1
    for source, columns, look in zip(sources, there, looks, strict=True):
        with ExitStack() as stack:
            counted = None if ids is None else stack.enter_context(IdCount(source, ids, missing=MISSING_WORDS))
            for block in source.blocks(columns):
                look.add(block.table)
                if counted is not None:
                    counted.add(block)
                for name in columns:
                    evidence[name].add(cells.plain_array(block.table.column(name)))
            most_rows = most_rows if counted is None else max(most_rows, counted.most_rows())
    return _Reading(evidence, [look.summary() for look in looks], most_rows)


def _check_named(table: str, suspicions: Sequence[Suspicion], wanted: Collection[str | None]) -> None:
    if any(suspicion.reason is Reason.NAMELESS and suspicion.column in wanted for suspicion in suspicions):
        raise BadTable(table, "a column without a name cannot be a feature or a label; give it a name in the file")


def _profile(
    name: str,
    evidence: ColumnEvidence,
    role: str,
    proposed: Proposal | None,
    suspicion: Suspicion | None,
    read: _Reading,
) -> ColumnProfile:
    kind, why, caution = "", "", ""
    if suspicion is not None:
        why = f"may identify people: {suspicion.why}"
    elif role == "id":
        why = f"says whose row it is: at most {read.most_rows:,} rows of one id"
    elif proposed is not None:
        why, caution = proposed.why, proposed.caution
        if role == "label" and evidence.missing:
            caution = "an owner's row without a label cannot be used: leave such rows out"
        kind = _label_fields(name, evidence)["kind"] if role == "label" else proposed.fields["kind"]
    ranged = evidence.has_range and suspicion is None and role != "id" and not _is_day(kind)
    return ColumnProfile(
        name=name,
        role=role,
        kind=kind,
        why=why,
        caution=caution,
        rows=evidence.rows,
        missing=evidence.missing,
        different=None if evidence.many else len(evidence.counts),
        low=evidence.low if ranged else None,
        high=evidence.high if ranged else None,
        bars=() if suspicion is not None or role == "id" else evidence.bars(),
    )


def _is_day(kind: str) -> bool:
    return kind == "date"


def _opening(left_out: Collection[Suspicion], absent: Collection[str], shown: str) -> Iterable[str]:
    yield _HEAD.format(names=" ".join(shown.split()))
    if left_out:
        yield _LEFT_OUT
        yield from (f"#   {json.dumps(suspicion.column)}: {suspicion.why}\n" for suspicion in left_out)
    if absent:
        yield _ABSENT.format(names=", ".join(map(json.dumps, absent)))
    yield "likeset: schema\nversion: 1\ncolumns:\n"


def _columns(proposals: Mapping[str, Proposal]) -> Iterable[str]:
    for name, proposed in proposals.items():
        if proposed.caution:
            yield f"  # {proposed.caution}\n"
        yield _with_marks(documents.to_yaml({name: proposed.fields}), indent="  ")


def _label_lines(label: str | None, evidence: Mapping[str, ColumnEvidence]) -> str:
    if label is None:
        return _FOOT
    return _with_marks(
        documents.to_yaml({"label": {"column": label, **_label_fields(label, evidence[label])}}), indent=""
    )


def _label_fields(name: str, seen: ColumnEvidence) -> dict[str, Any]:
    """A label with few values is a class, also where a column of its kind would be a count."""
    kind, counts = proposal(name, seen).fields["kind"], {} if seen.many else seen.counts
    classes = kind in ("category", "ordinal", "boolean")
    if counts and (classes or (seen.all_numbers and seen.all_whole and len(counts) <= _MOST_CLASSES)):
        return {"kind": "category", "values": sorted(counts), "from_data": True}
    return {"kind": "category" if classes else "number" if kind == "numeric" else "text"}


def _id_lines(ids: str | None, most_rows: int) -> str:
    if ids is None:
        return _FOOT_ID
    fields = {"column": ids, "rows_per_id": most_rows, "from_data": True}
    declared = _with_marks(documents.to_yaml({"id": fields}), indent="")
    return _ABOUT_IDS + (_KEEP_FEW if most_rows > 1 else "") + declared


def _with_marks(text: str, *, indent: str) -> str:
    lines = []
    for line in text.splitlines():
        if line.strip().startswith(("bounds:", "values:", "rows_per_id:")):
            lines.append(f"{indent}  # {MARK}\n")
        lines.append(f"{indent}{line}\n")
    return "".join(lines)
