"""The data sets of a node as people handle them: added, listed and removed, each of it in the audit log."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from likeset.errors import InvalidArgument
from likeset.homes.owner.datasets import DataSet
from likeset.homes.owner.node import OwnerNode
from likeset.tables.identifiers import Suspicion, suspicion_documents
from likeset.text import without_secrets

__all__ = ["ListedData", "listed_data", "register", "remove"]


@dataclass(frozen=True, slots=True)
class ListedData:
    """A data set in a list.

    Attributes:
        name: by which the owner calls it.
        source: where its rows lie, without a password.
        schema: digest of what is declared.
        columns: that leave with a record, with their kinds; the label is one.
        mapped: whether own columns are turned into declared ones.
        suspicions: columns that may identify people.
        used_by: runs that were approved with it and may still ask for rows.
    """

    name: str
    source: str
    schema: str
    columns: tuple[tuple[str, str], ...]
    mapped: bool
    suspicions: tuple[Suspicion, ...]
    used_by: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """For machines."""
        return {
            "data": self.name,
            "source": self.source,
            "schema": self.schema,
            "columns": dict(self.columns),
            "mapped": self.mapped,
            "suspected_identifiers": suspicion_documents(self.suspicions),
            "used_by": list(self.used_by),
        }


def register(
    node: OwnerNode, name: str, source: str, *, schema: Path, mapping: Path | None = None, by: str = ""
) -> DataSet:
    """Add a data set, and write that into the audit log.

    Args:
        node: whose.
        name: by which the owner will call it.
        source: a file, a database or a query; the rows stay there.
        schema: file of the declared columns, which is copied.
        mapping: file of how own columns become declared ones, likewise.
        by: who adds it.

    Raises:
        LikesetError: as ``Registry.add``.
    """
    data = node.registry.add(name, source, schema=schema, mapping=mapping)
    words = {"source": without_secrets(data.source), "schema": data.schema.digest, "mapped": data.mapping is not None}
    node.note("data", name, **words, **({"by": by} if by else {}))
    return data


def remove(node: OwnerNode, name: str, *, by: str) -> None:
    """Forget a data set; its rows stay where they are, and what left has left.

    Raises:
        InvalidArgument: there is none of that name, or a run may still ask for its rows.
    """
    node.registry.get(name)
    used = _used_by(node, name)
    if used:
        runs = ", ".join(used[:5])
        raise InvalidArgument("data set", name, f"is used by {runs}; withdraw from these runs first")
    node.note("data", name, removed=True, by=by)
    node.registry.remove(name)


def listed_data(node: OwnerNode) -> list[ListedData]:
    """All data sets; no row is read."""
    return [_listed(node, node.registry.get(name)) for name in node.registry.names()]


def _listed(node: OwnerNode, data: DataSet) -> ListedData:
    declared, label = data.schema.declaration.columns, data.schema.label_column
    kinds = {name: "label" if name == label else str(declared[name].kind) for name in data.schema.record_columns}
    return ListedData(
        name=data.name,
        source=without_secrets(data.source),
        schema=data.schema.digest,
        columns=tuple(kinds.items()),
        mapped=data.mapping is not None,
        suspicions=data.suspicions,
        used_by=tuple(_used_by(node, data.name)),
    )


def _used_by(node: OwnerNode, name: str) -> list[str]:
    """Runs that were approved with a data set, and that are neither withdrawn nor over."""
    node.log.refresh()
    now = node.now()
    return [
        record.run
        for record in node.runs.by_name.values()
        if record.decision is not None
        and (record.decision.what, record.decision.data) == ("approved", name)
        and record.withdrawn is None
        and not record.has_ended(now)
    ]
