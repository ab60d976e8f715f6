"""``likeset schema``: which columns are compared, and whether files fit."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from likeset import documents
from likeset.app.lazy import lazy_imports
from likeset.display import emit, literal, show_document, show_next, show_notes, show_text, stdout
from likeset.errors import BadDocument, BadTable
from likeset.text import without_secrets

with lazy_imports():
    from likeset.tables import frames, profile, sources
    from likeset.tables import schema as schemas

schema = typer.Typer(name="schema", no_args_is_help=True, rich_markup_mode="markdown")

_WIDE = 100  # numeric columns

Files = Annotated[
    list[str], typer.Argument(metavar="FILE...", help="CSV, Parquet, Arrow or another source.", show_default=False)
]


@schema.command()
def draft(
    files: Files,
    *,
    out: Annotated[Path | None, typer.Option(help="A new file for the schema; printed if not given.")] = None,
    label: Annotated[str | None, typer.Option(help="The column to predict.")] = None,
    ids: Annotated[str | None, typer.Option("--id", help="The column that says whose row it is.")] = None,
    include: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="A column to declare although it may identify people; repeatable."),
    ] = None,
) -> None:
    """Propose a schema from files, with the reason for every column.

    A schema is public, and bounds or values that come from data reveal something about the data. They are marked:
    replace them by public knowledge. Columns that may identify people, by their names or because nearly every row has
    a value of its own, are left out and listed. Nothing is asked, and nothing is overwritten.

    Example: `likeset schema draft hospital.csv --label disease --out schema.yaml`
    """
    if out is not None and out.exists():
        raise BadDocument(str(out), "already exists; name another file or remove it")
    made = profile.draft([sources.open_source(file) for file in files], label=label, ids=ids, include=include or ())
    loaded = schemas.Schema.from_text(made.text, name="draft")
    document = {
        "out": None if out is None else str(out),
        "schema": made.text,
        "from_data": list(loaded.from_data),
        "columns": list(loaded.columns),
        "left_out": profile.documents_of(made.left_out),
        "suspected_identifiers": profile.documents_of(made.included),
        "unusable": dict(made.unusable),
        "profile": list(made.profile),
    }

    def view() -> None:
        if out is None:
            typer.echo(made.text, nl=False)
            return
        told = [{**one, "why": "see below"} if one["column"] in made.unusable else one for one in made.profile]
        show_document(told, ", ".join(map(without_secrets, files)))
        count = f"{len(loaded.columns)} column{'' if len(loaded.columns) == 1 else 's'}"
        show_text(f"{count} written to [bold]{literal(str(out))}[/]")
        reasons: dict[str, list[str]] = {}
        for name, why in made.unusable.items():
            reasons.setdefault(why, []).append(repr(name))
        show_notes(f"left out, {', '.join(names)}: {why}" for why, names in reasons.items())
        show_notes(one.warning for one in made.included)
        show_notes(_data_notes(loaded))
        show_next(f"edit {out}, then", "likeset", "schema", "check", "--schema", str(out), *files)

    if out is not None:
        documents.write_text(out, made.text)
    emit(document, view=view)


@schema.command()
def show(path: Annotated[Path, typer.Argument(metavar="SCHEMA", help="The schema file.", show_default=False)]) -> None:
    """Show how a schema maps a row: the unit of each column, the features, the digest.

    Example: `likeset schema show schema.yaml`
    """
    loaded = schemas.Schema.load(path)
    document = {
        "path": str(path),
        "digest": loaded.digest,
        "width": loaded.width,
        "columns": [vars(column) for column in loaded.describe()],
        "features": list(loaded.feature_names),
        "label": loaded.label_column,
        "id": loaded.id_column,
        "rows_per_unit": loaded.rows_per_unit,
        "keep": loaded.keep,
        "from_data": list(loaded.from_data),
        "suspected_identifiers": profile.documents_of(profile.identifying_columns(loaded)),
    }
    shown = {name: value for name, value in document.items() if name != "features"}  # the columns tell how many
    emit(document, view=lambda: show_document(shown), notes=_data_notes(loaded))


@schema.command()
def check(
    files: Files,
    *,
    path: Annotated[Path, typer.Option("--schema", help="The schema file.")],
) -> None:
    """Check files against a schema, column by column. Exit code 1 if some rows cannot be used.

    Counts what is missing, out of range, unknown or of the wrong type, and names the first places; never a value.
    Warns of columns that may identify people, as far as names and the first rows tell.

    Example: `likeset schema check --schema schema.yaml hospital-a.csv hospital-b.parquet`
    """
    loaded = schemas.Schema.load(path)
    inspections, unlabelled, repeated = _inspected(files, loaded)
    ok = all(inspection.ok for inspection in inspections.values())
    document = {
        "ok": ok,
        "digest": loaded.digest,
        "from_data": list(loaded.from_data),
        "unlabelled": unlabelled,
        "undeclared_ids": repeated,
        "files": [_inspection_document(name, inspection) for name, inspection in inspections.items()],
    }
    notes = [
        f"{name} has no column {loaded.label_column}: it can be a target; an owner's rows need labels"
        for name in unlabelled
    ]
    notes += [
        f"{name}: values of column {column!r} repeat, but the schema declares no id: privacy protects single rows, "
        f"not persons; declare id: {{column: {column}, keep: 1}}"
        for name, column in repeated.items()
    ]
    notes += _data_notes(loaded)

    def view() -> None:
        for name, inspection in inspections.items():
            _show_inspection(name, inspection)
        show_notes(notes)
        stdout.print("[bold green]fits[/]" if ok else "[bold red]does not fit[/]")

    target = unlabelled[0] if len(unlabelled) == 1 else "FILE"
    options = ("--schema", str(path), "--target", target, "--owner", "NAME=FILE", "--size", "ROWS")
    emit(document, view=view, next_step=("likeset", "plan", *options) if ok else (), ok=ok)


def _inspected(
    files: Sequence[str], schema: "schemas.Schema"
) -> "tuple[dict[str, profile.Inspection], list[str], dict[str, str]]":
    """What is in each file, by its name; the files without labels; undeclared id columns that repeat, by file."""
    inspections: dict[str, profile.Inspection] = {}
    unlabelled: list[str] = []
    repeated: dict[str, str] = {}
    for file in files:
        source = sources.open_source(file)
        there = set(source.schema.names)
        labelled = schema.label_column in (None, *schema.columns) or schema.label_column in there
        inspection = inspections[source.name] = profile.Inspection(schema, labelled=labelled)
        needed = [name for name in schema.needed_columns if labelled or name != schema.label_column]
        _check_columns(source, needed, schema)
        if not labelled:
            unlabelled.append(source.name)
        for block in source.blocks(needed):
            inspection.add(block.table, table=source.name, locate=block.locate)
        if person := profile.undeclared_id(source, schema):
            repeated[source.name] = person
    return inspections, unlabelled, repeated


def _check_columns(source: "sources.Source", needed: Sequence[str], schema: "schemas.Schema") -> None:
    """All columns that a file lacks, in one message; a single one by its near miss."""
    missing = [name for name in needed if name not in source.schema.names]
    if len(missing) == 1:
        schema.column_of(source, missing[0], table=source.name)
    if missing:
        listed = ", ".join(map(repr, missing))
        raise BadTable(source.name, f"has no columns {listed}; add them, or take them out of the schema")


def _show_inspection(name: str, inspection: "profile.Inspection") -> None:
    lines = [
        {
            "column": column.name,
            "kind": column.kind,
            **{str(trouble): count for trouble, count in column.counts.items() if count},
            "first at": "; ".join(place for trouble in column.complaints for place in column.first[trouble]),
        }
        for column in inspection.columns
        if any(column.counts.values())
    ]
    show_document({"file": name, "rows": inspection.rows})
    show_document(lines or "nothing missing, nothing wrong", "columns")
    complaints: dict[str, list[str]] = {}
    for column in inspection.columns:
        for trouble, complaint in column.complaints.items():
            complaints.setdefault(f"{trouble}: {complaint}", []).append(column.name)
    for complaint, columns in complaints.items():
        show_text(f"[red]{literal(', '.join(columns))}[/] {literal(complaint)}")
    ids = inspection.id_summary()
    if ids is not None:
        line = f"{ids.ids:,} ids, at most {ids.most_rows:,} rows each"
        line += f"; {ids.over:,} with more than declared" if ids.over else ""
        show_text(f"{line}; {ids.missing:,} rows without an id" if ids.missing else line)
        if (taking := inspection.taking_part()) is not None:
            keep = inspection.schema.keep
            words = f"{taking:,} of {inspection.rows:,} rows take part: keep: {keep} draws at most {keep} of each id"
            show_text(words)
        if ids.over:
            remedy = "raise rows_per_id, or declare keep in its place: then that many rows of each id take part"
            show_text(f"[red]{literal(str(inspection.schema.id_column))}[/]: {remedy}")
    if inspection.too_long:
        words = "rows have a text that is longer than text_bytes of the schema: as an owner's they take no part"
        show_notes([f"{inspection.too_long:,} {words}"])
    if (classes := inspection.label_classes()) > frames.MANY_CLASSES:
        words = "different whole numbers as labels are a class each; if they are measurements, declare kind: number"
        show_notes([f"{classes:,} {words} in label"])
    show_notes(one.warning for one in inspection.identifying_columns())
    show_notes(one.warning for one in inspection.dead_columns())


def _inspection_document(name: str, inspection: "profile.Inspection") -> dict[str, Any]:
    ids = inspection.id_summary()
    return {
        "file": name,
        "ok": inspection.ok,
        "rows": inspection.rows,
        "too_long": inspection.too_long,
        "ids": None if ids is None else vars(ids),
        "taking_part": inspection.taking_part(),
        "label_classes": inspection.label_classes(),
        "suspected_identifiers": profile.documents_of(inspection.identifying_columns()),
        "dead_columns": profile.documents_of(inspection.dead_columns()),
        "columns": [{**vars(column), "ok": column.ok} for column in inspection.columns],
    }


def _data_notes(loaded: "schemas.Schema") -> list[str]:
    notes = [f"replace what came from data, in: {', '.join(loaded.from_data)}"] if loaded.from_data else []
    numeric = sum(column.kind == "numeric" for column in loaded.describe())
    if numeric >= _WIDE:
        notes.append(
            f"{numeric} columns are single numbers; if they belong together (pixels, an embedding), declare one column "
            "of kind vector; docs/schema.md shows the query that makes one"
        )
    return notes
