"""A look at every row of a data set: what is not as declared, small groups, and columns that may identify people."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from likeset.errors import BadTable
from likeset.homes.findings import Finding
from likeset.homes.owner.datasets import DataSet
from likeset.homes.owner.node import OwnerNode
from likeset.homes.owner.small_groups import SmallGroup, SmallGroups, rare_among
from likeset.tables.rows_per_id import check_ids, undeclared_id
from likeset.tables.scan.kept_rows import KeptRowsOfIds
from likeset.tables.sources.source import Source
from likeset.tables.table_checks import Inspection

__all__ = ["DataLook", "look_at_data"]


@dataclass(frozen=True, slots=True)
class DataLook:
    """What a look at all rows of a data set found.

    Attributes:
        name: of the data set.
        rows: in it.
        smallest: so many rows are no small group, by ``owner.yaml``.
        withheld: rows in small groups, which are never offered.
        groups: the small groups, smallest first; a row may be in several.
        findings: in words.
    """

    name: str
    rows: int
    smallest: int
    withheld: int
    groups: tuple[SmallGroup, ...]
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether everything is in order."""
        return all(finding.ok for finding in self.findings)

    def document(self) -> dict[str, Any]:
        """For machines."""
        return {
            "data": self.name,
            "ok": self.ok,
            "rows": self.rows,
            "smallest_group": self.smallest,
            "withheld": self.withheld,
            "small_groups": [asdict(group) for group in self.groups],
            "findings": [{"ok": finding.ok, "words": finding.words} for finding in self.findings],
        }


def look_at_data(node: OwnerNode, name: str) -> DataLook:
    """Read every row of a data set, and hold it against what is declared and allowed; nothing leaves.

    Raises:
        LikesetError: it cannot be read, or there is none of that name.
    """
    data, policy = node.registry.get(name), node.policy
    with data.open_source() as source:
        inspection, labelled = Inspection(data.schema), data.schema.label_column is not None
        groups = SmallGroups(data.schema, smallest=policy.smallest_group, labelled=labelled)
        keeping = KeptRowsOfIds.of(source, data.schema, key=data.keep_key(node.home.key()))
        for block in source.blocks(data.schema.needed_columns):
            inspection.add(block.table, table=source.name, locate=block.locate)
            (groups if keeping is None else keeping).add(block)
        kept = None if keeping is None else len(keeping.row_numbers())
        complaints = [*_complaints(inspection), *_about_ids(data, source)]
        person = undeclared_id(source, data.schema)
        withheld = len(rare_among(groups, source, None if keeping is None else keeping.row_numbers()))
    suspicions = inspection.suspicions()
    data.keep_suspicions(suspicions)
    found = [
        *_about_rows(inspection, data, complaints, kept),
        _about_groups(withheld, policy.smallest_group, inspection.rows if kept is None else kept),
        *_about_columns(data, policy.columns),
        *_about_persons(person),
    ]
    what = f"data set {name}"
    findings = [Finding(what, ok=ok, words=words) for ok, words in found]
    findings += [Finding(what, ok=True, words=suspicion.warning, suspicion=suspicion) for suspicion in suspicions]
    findings += [Finding(what, ok=True, words=dead.warning, dead=dead) for dead in inspection.dead_columns()]
    return DataLook(name, inspection.rows, policy.smallest_group, withheld, groups.groups(), tuple(findings))


_Found = tuple[bool, str]


def _about_rows(inspection: Inspection, data: DataSet, complaints: list[str], kept: int | None) -> Iterator[_Found]:
    yield from ((False, words) for words in complaints)
    if not complaints:
        yield True, f"all {inspection.rows:,} rows are as the schema declares"
    if not inspection.rows:
        yield False, "has no rows"
    if kept is not None:
        yield True, f"{kept:,} rows take part, drawn in secret: {data.schema.keep} of each id at most"
    if inspection.too_long:
        most = f"{data.schema.declaration.text_bytes:,} bytes (text_bytes of the schema)"
        words = f"{inspection.too_long:,} rows have a text of more than {most}: never offered"
        yield inspection.too_long < inspection.rows, words


def _about_groups(withheld: int, smallest: int, offered: int) -> _Found:
    if smallest == 1:
        return withheld < offered, "every row may be offered: smallest_group in owner.yaml is 1"
    return withheld < offered, f"{withheld:,} rows are in groups of fewer than {smallest} and are never offered"


def _about_persons(column: str) -> Iterator[_Found]:
    if column:
        yield (
            True,
            f"warning: values of column {column!r} repeat, but the schema declares no id: budgets and groups count "
            f"rows, not persons; ask the consumer for a schema with id: {{column: {column}, keep: 1}}",
        )


def _about_columns(data: DataSet, allowed: tuple[str, ...]) -> Iterator[_Found]:
    forbidden = [name for name in data.schema.record_columns if name not in allowed]
    if forbidden:
        yield False, f"owner.yaml does not let these columns leave: {', '.join(map(repr, forbidden))}"
    if data.schema.from_data:
        listed = ", ".join(map(repr, data.schema.from_data))
        yield False, f"what came from data tells something about it: {listed}"


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
