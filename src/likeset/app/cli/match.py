"""``likeset match``, ``plan``, ``evaluate``, ``report`` and ``demo``: from files to a matched training set."""

import functools
import inspect
import os
import shutil
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from rich.text import Text

from likeset import documents
from likeset.app.lazy import lazy_imports
from likeset.app.report import Cell, Table, comparison_table, contributions, models_view, render, render_for_owner
from likeset.display import Waiting, emit, literal, show_document, show_next, show_notes, show_table, show_text, stdout
from likeset.errors import InvalidArgument
from likeset.files import make_directory
from likeset.protocol.terms import Setting, settings
from likeset.run.words import (
    distance_notes,
    guarantee_lines,
    guarantee_meanings,
    headline,
    labels_in_words,
    measure_in_words,
    not_private,
    share_in_words,
    short_address,
)
from likeset.text import harmless, percent_at_most

with lazy_imports():
    from likeset.app import demo as demos
    from likeset.run import evaluate as evaluation
    from likeset.run import here
    from likeset.run import job as jobs
    from likeset.run import plan as plans
    from likeset.tables import scan as scans
    from likeset.tables import schema as schemas

JobFile = Annotated[Path | None, typer.Argument(metavar="JOB.yaml", help="A job file; options override its fields.")]
_FINE = "Fine settings"
_CHOICE, _TOO_FEW = 1.5, "hardly a choice; ask more owners, or for fewer rows."


def _text(words: str, *, default: str = "", panel: str | None = None) -> Any:
    text = _with_default(words, default)
    return Annotated[str | None, typer.Option(help=text, show_default=False, rich_help_panel=panel)]


def _with_default(words: str, default: str) -> str:
    """The help text with its default in brackets, as typer shows other defaults."""
    return f"{words}  \\[default: {default}]" if default else words


_OWNERS = typer.Option(metavar="NAME=PATH", help="An owner's rows; once for each owner.")
_FILES: dict[str, Any] = {
    "schema": _text("The schema that declares the columns."),
    "target": _text("Your rows: CSV, Parquet, or another source."),
    "owner": Annotated[list[str] | None, _OWNERS],
}
_PLACES: dict[str, Any] = {
    "preset": _text("Settings by one name: paper, as published; options override them.", panel=_FINE),
    "public_rows": _text("Public rows; they set the release's scale at no privacy cost."),
    "ledger": _text("A ledger for the budgets of several jobs.", default="in the output directory"),
    "run": _text("Name of the run in the ledger; generated if not given."),
    "out": _text("Output directory; must not exist.", default="matched"),
    "seed_rows": _text("Public rows that start the summary of interactive.", panel=_FINE),
    "consumer": _text("Your name in the records.", default="consumer", panel=_FINE),
    "purpose": _text("What the summary is for.", default="a matched training set", panel=_FINE),
}


def _option(setting: Setting) -> Any:
    text = setting.meaning.replace("``", "")
    text = f"{text[0].upper()}{text[1:]}."
    flag = setting.name.replace("_", "-")
    names = (f"--{flag}/--no-{flag}",) if setting.type is bool else ()
    metavar = "PART" if setting.type == tuple[str, ...] else None
    panel = _FINE if setting.is_fine else None
    text = _with_default(text, _shown_default(setting))
    described = typer.Option(*names, help=text, metavar=metavar, show_default=False, rich_help_panel=panel)
    return Annotated[_typed(setting.type), described]


def _shown_default(setting: Setting) -> str:
    """The default as help shows it; empty if there is none."""
    if isinstance(setting.default, bool):
        return "yes" if setting.default else "no"
    if setting.is_required or setting.default in (None, (), ""):
        return ""
    return f"{setting.default:g}" if isinstance(setting.default, float) else str(setting.default)


def _typed(kind: Any) -> Any:
    """The type of an option: text if a word is allowed, and None if it may be missing."""
    if kind == tuple[str, ...]:
        return list[str] | None
    if get_origin(kind) is Literal or _word_of(kind) is not None:
        return str | None
    return kind | None


def _word_of(kind: Any) -> str | None:
    if get_origin(kind) not in (Union, types.UnionType):
        return None
    return next((str(get_args(part)[0]) for part in get_args(kind) if get_origin(part) is Literal), None)


_OPTIONS: dict[str, Any] = {**_FILES, **{setting.name: _option(setting) for setting in settings()}, **_PLACES}


def takes_a_job(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a job; it gets the job that they describe as its first argument."""
    own = list(inspect.signature(command).parameters.values())[1:]

    @functools.wraps(command)
    def with_options(**given: Any) -> None:
        rest = {parameter.name: given.pop(parameter.name) for parameter in own}
        owners = given.pop("owner")
        command(job_from(given.pop("job"), owners=owners, **given), **rest)

    keyword = inspect.Parameter.KEYWORD_ONLY
    shared = [inspect.Parameter(name, keyword, default=None, annotation=kind) for name, kind in _OPTIONS.items()]
    file = inspect.Parameter("job", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=JobFile)
    parameters = [file, *shared, *(parameter.replace(kind=keyword) for parameter in own)]
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
    with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_options


def job_from(path: Path | None, **options: Any) -> "jobs.Job":
    """The job of a file, of options, or of a file with options in place of some of its fields."""
    given = {name: value for name, value in options.items() if value is not None and value != []}
    if "owners" in given:
        given["owners"] = owner_files(given["owners"])
    for setting in settings():
        word = _word_of(setting.type)
        if word is not None and given.get(setting.name, word) != word:
            given[setting.name] = _number(setting, given[setting.name], word)
    if path is not None:
        fields = jobs.Job.load(path).model_dump(by_alias=True, mode="json", exclude_unset=True)
        return jobs.Job.of(**{**{name: value for name, value in fields.items() if value is not None}, **given})
    for name, option in (("schema", "--schema"), ("target", "--target"), ("owners", "--owner"), ("size", "--size")):
        if name not in given:
            raise InvalidArgument(option, "missing", "give this option, or a job file")
    return jobs.Job.of(**given)


def owner_files(pairs: list[str]) -> dict[str, str]:
    owners: dict[str, str] = {}
    for pair in pairs:
        name, sign, source = pair.partition("=")
        if not sign or not name or not source:
            raise InvalidArgument("--owner", pair, "must be NAME=PATH, such as north=north.csv")
        if name in owners:
            raise InvalidArgument("--owner", name, "is given twice; each owner needs a name of its own")
        owners[name] = source
    return owners


def _number(setting: Setting, text: str, word: str) -> float:
    number = get_args(setting.type)[0]
    kind = "a whole number" if number is int else "a number"
    try:
        return number(text)  # type: ignore[no-any-return]
    except ValueError as error:
        raise InvalidArgument(f"--{setting.name.replace('_', '-')}", text, f"must be {kind} or {word}") from error


def show_result(result: Mapping[str, Any]) -> None:
    """The distance to the target, the contributions and the guarantees."""
    if not result["private"]:
        show_not_private(result["noise"])
    head = headline(result)
    sentence = f"[bold]{head.rows}[/] {head.relation} [bold]{head.distance}[/]{head.interval}."
    show_text(f"\n{' '.join([sentence, *distance_notes(result)])}")
    measure = f"{measure_in_words(result['comparison'])[1]} Smaller is closer."
    _show_table("Distance to the target", comparison_table(result["comparison"]), measure)
    if labels := labels_in_words(result["labels"]):
        show_text(f"Labels are {labels}.")
    rows_seen = result["rows_seen"]
    each = rows_seen / max(1, result["rows_selected"])
    seen = (
        f"The curator saw {rows_seen:,} rows, {each:.1f} for each row selected: {_TOO_FEW}" if each < _CHOICE else None
    )
    if result["terms"]["summary"]["split"]:
        seen = f"The curator computed on secret shares of {rows_seen:,} rows and read none of them."
    _show_table("Contributions", contributions(result["owners"]), seen)
    show_text(literal(share_in_words(result["owners"])))
    names = [owner["name"] for owner in result["owners"]]
    show_guarantees(result["guarantees"], owners=names, title="Privacy guarantees")
    show_text(literal(result["budget"]["in_words"]))
    show_notes(warning["text"] for warning in result["warnings"])


def _show_table(title: str, table: Table, caption: str | None) -> None:
    """A table of the report, without its small print."""

    def shown(cell: str | Cell) -> str | Text:
        if isinstance(cell, str):
            return cell
        return Text(harmless(cell.text), style="bold") if cell.kind == "mine" else cell.text

    show_table(title, table.heads, [list(map(shown, row)) for row in table.rows], caption=caption)


def show_not_private(noise: str) -> None:
    stdout.print(f"\n[bold white on red] {not_private(noise)} [/]")


def show_guarantees(guarantees: Sequence[Mapping[str, Any]], *, owners: Sequence[str], title: str) -> None:
    lines = [line.cells for line in guarantee_lines(guarantees, owners=owners)]
    show_table(title, ("who may learn about whose rows", "at most", "delta", "basis"), lines)
    for words in guarantee_meanings(guarantees, owners=owners):
        show_text(literal(words))


@takes_a_job
def match(
    job: "jobs.Job",
    *,
    resume: Annotated[bool, typer.Option("--resume", help="Resume a run that was interrupted.")] = False,
    scan: Annotated[
        str, typer.Option(help="How owners pass over their rows: local, ray, or ray:ADDRESS of a cluster.")
    ] = "local",
    workers: Annotated[
        int | None, typer.Option(min=1, help="Workers of an owner's pass.  \\[default: all cores]")
    ] = None,
) -> None:
    """Collect rows from owners that together look like your target.

    Writes summary.parquet, result.json, report.html, terms.yaml and the ledger into one directory. Nothing is
    overwritten; a run that is interrupted goes on with --resume.

    Example: `likeset match --schema schema.yaml --target mine.csv --owner north=north.csv --owner
    south=south.parquet --size 100 --epsilon 1 --out matched`
    """
    with Waiting() as waiting, scans.scan_factory(scan, workers=workers, progress=waiting.rows) as open_scan:
        done = here.run_job(job, render=render, resume=resume, progress=waiting.step, scan=open_scan)

    def view() -> None:
        show_result(done.result)
        show_text(
            f"\nEverything is in [bold]{literal(str(done.out))}[/]: the rows in summary.parquet, "
            f"the report in [bold]{literal(str(done.out / 'report.html'))}[/]."
        )
        if schemas.Schema.load(job.schema_file).label_column is not None:
            show_next("with labelled rows to judge on,", "likeset", "evaluate", str(done.out), "--test", "FILE")

    emit(done.result, view=view)


@takes_a_job
def plan(job: "jobs.Job") -> None:
    """Show what a job would do and cost; no owner's row is read and nothing is spent.

    Takes the arguments of likeset match, reads the schema and your target, and writes nothing.

    Example: `likeset plan --schema schema.yaml --target mine.csv --owner north=north.csv --owner
    south=south.parquet --size 100 --epsilon 1`
    """
    planned = plans.plan_job(job)

    def view() -> None:
        show_plan(planned, "No row of any owner was read, and nothing was spent.")
        notes = (note for note in planned.notes if note.kind != "uniform-offers")  # the advice says it
        show_notes(note.text for note in (*notes, *planned.warnings))
        changed = "".join(f" and another --{name}" for name in jobs.options_to_change(job))
        changed = " and --resume" if jobs.unfinished(Path(job.out)).is_dir() else changed
        show_text(f"[dim]Next: [/][bold]likeset match[/][dim] with the same arguments{changed}[/]")

    emit(planned.document(), view=view)


def show_plan(planned: "plans.Plan", caption: str) -> None:
    """The messages of a run, their cost, the remaining budget, and whether a release is worthwhile."""
    terms, document = planned.terms, planned.document()
    owners = "owner" if len(terms.owners) == 1 else "owners"
    target = planned.inputs.target
    show_text(
        f"\n[bold]{terms.size:,} rows[/] from {len(terms.owners):,} {owners}, to look like the "
        f"{len(target.rows):,} rows of {literal(short_address(target.name))}. Protocol: {terms.protocol}."
    )
    show_table(
        "What will be sent",
        ("what", "how much"),
        [
            *_offered_rows(planned),
            *([("and as expected", f"{planned.expected_rows_seen:,}")] if terms.auction != "everyone" else []),
            ("messages between curator and owners, at most", f"{planned.messages:,}"),
            ("numbers released about the target", f"{document['released_coordinates']:,}"),
            *_width(planned.width_failure),
        ],
        caption=caption,
    )
    show_guarantees(document["guarantees"], owners=terms.owners, title="What it will cost")
    if not document["private"]:
        show_not_private(planned.settings.noise)
    show_budget(document["budget"])
    mark = "[green]" if planned.advice.pays else "[yellow]"
    show_text(f"\n{mark}{literal(planned.advice.text)}[/]\n")


def _width(failure: float | None) -> list[tuple[str, str]]:
    what = "probability that their kernel's width is far off, usually at most"
    return [] if failure is None else [(what, percent_at_most(failure))]


def _offered_rows(planned: "plans.Plan") -> list[tuple[str, str]]:
    terms = planned.terms
    if terms.split is None:
        return [
            ("rows that each owner discloses to the curator, at most", f"{terms.rows_per_owner:,}"),
            ("rows that the curator sees, at most", f"{planned.rows_seen:,}"),
        ]
    return [
        ("rows that each owner offers, in secret shares", f"{terms.rows_per_owner:,}"),
        ("rows that are computed on and that nobody reads, at most", f"{planned.rows_seen:,}"),
        ("rows that you read, at most", f"{terms.split.openings:,}"),
        ("of these rows of one owner, at most", f"{terms.rows_readable:,}"),
    ]


def show_budget(budget: Mapping[str, Any]) -> None:
    """State the remaining budget of a ledger; without one, that only this run is counted."""
    accounts = budget["accounts"] or []
    if accounts:
        show_document(accounts, "What the ledger leaves")
    if short := [one["about"] for one in accounts if (one["after"] or 0.0) > (one["limit"] or float("inf"))]:
        show_notes([f"too few rows are left of {', '.join(short)}: such an owner does not take part"])
    if budget["in_words"]:
        show_text(literal(budget["in_words"]))


def evaluate(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The output directory of a finished job.")],
    *,
    test: Annotated[
        str, typer.Option(metavar="FILE", help="Labelled rows of your target's kind that no selection used.")
    ],
    schema: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="The schema of the job.  \\[default: the one that its job.yaml names]"),
    ] = None,
    owner: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=PATH", help="All rows of an owner, if you have them; once for each owner."),
    ] = None,
) -> None:
    """Train models on a summary, and score them on a labelled test file.

    A linear model, a forest and gradient boosting, with intervals. With all owners' files, also on as many rows
    drawn at random, and on all rows, with the differences. Where the schema declares an id, the test needs its column:
    intervals then resample persons. Writes evaluation.json, and a section into report.html; an earlier
    evaluation is replaced.

    Example: `likeset evaluate matched --test test.csv`
    """
    files = owner_files(owner or [])
    if folder.exists() and not os.access(folder, os.W_OK | os.X_OK):
        raise InvalidArgument("DIR", folder, "cannot be written to: the evaluation is stored there")
    with Waiting() as waiting:
        found = evaluation.evaluate_job(folder, test, schema_file=schema, owners=files, progress=waiting.step)
    earlier = evaluation.read_evaluation(folder) is not None
    document = evaluation.write_evaluation(folder, found)
    documents.write_text(folder / here.REPORT, render(*here.read_result(folder), document))

    def view() -> None:
        _show(document)
        page = literal(str(folder / here.REPORT))
        show_text(
            f"\nThe report in [bold]{page}[/] has a section on it{', in place of the earlier one' if earlier else ''}."
        )

    emit(document, view=view)


def _show(document: Mapping[str, Any]) -> None:
    models = models_view(document)
    table = models["scores"]  # the report also has the differences of each model
    rows = [list(map(_on_two_lines, row)) for row in table.rows]
    show_table(table.caption, table.heads, rows, caption=models["lead"])
    show_notes(models["notes"])


def _on_two_lines(cell: str | Cell) -> Text:
    """A score above its interval: side by side, three of them do not fit into a row of 80 letters."""
    if isinstance(cell, Cell):
        return Text(f"{harmless(cell.text)}\n{cell.below}")
    value, _, interval = cell.partition(" (")
    return Text(f"{value}\n{interval.removesuffix(')')}".strip())


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The output directory of a finished job.")],
    *,
    for_owner: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The page that this owner may see: its own messages and the public terms."),
    ] = None,
) -> None:
    """Render the report of a finished job again, or the page that one owner may see.

    Example: `likeset report matched --for-owner north`
    """
    result, pictures = here.read_result(folder)
    if for_owner is None:
        page, path = render(result, pictures, evaluation.read_evaluation(folder)), folder / here.REPORT
    else:
        page, path = render_for_owner(result, for_owner), folder / f"report-for-{for_owner.replace('/', '_')}.html"
    documents.write_text(path, page)
    emit({"report": str(path), "for_owner": for_owner, "bytes": len(page.encode())})


_MARK = ".likeset-demo"


def demo(out: Annotated[Path, typer.Option(help="Directory for the files and the report.")] = Path("demo")) -> None:
    """Run the whole market on one machine: five owners, a consumer, secret noise, a real ledger, a report.

    The files of the market stay in OUT/data, so that you can go on with likeset plan and likeset match.

    Example: `likeset demo --out demo`
    """
    if out.exists():
        if not (out / _MARK).is_file():  # only what an earlier demo made is removed
            raise InvalidArgument("--out", out, "already exists; nothing is overwritten: name another directory")
        shutil.rmtree(out)
    make_directory(out)
    (out / _MARK).write_text("Made by likeset demo, which may replace this directory.\n", encoding="utf-8")
    with Waiting() as waiting:
        done = demos.run_demo(out, render=render, progress=waiting.step, tell=lambda name: waiting.step(name, 1, 1))

    def view() -> None:
        show_text(
            "\nFive owners hold handwritten digits, two digits each. A consumer has "
            f"{done.result['target']['rows']} images, 3s and 4s only, "
            f"and wants [bold]{demos.SIZE} rows[/] to train on that look like them. "
            f"Owners may learn epsilon = {demos.EPSILON:g} about any of them."
        )
        show_result(done.result)
        show_text(
            f"\nThe report, with pictures: [bold]{literal(str(done.out / 'report.html'))}[/]\n"
            f"Now with these files: [bold]likeset plan {literal(str(done.out / 'job.yaml'))} --epsilon 2[/]\n"
        )

    emit({**done.result, "report": str(done.out / "report.html")}, view=view)
