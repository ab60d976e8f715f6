"""``likeset owner``: what a steward reads and decides: inbox, review, decisions, rows sent, budgets, policy, log."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from likeset.app.cli.home import HERE, NOUN, By, HomePath, at_home, login, warning_documents
from likeset.app.lazy import lazy_imports
from likeset.display import complain, emit, in_json, literal, show_document, show_notes, stdout
from likeset.errors import InvalidArgument
from likeset.text import without_secrets

with lazy_imports():
    from likeset.app.cli import ledger as ledger_commands
    from likeset.homes import checkup, review
    from likeset.homes import owner as owners
    from likeset.ledger import ledger as ledgers

owner = typer.Typer(name="owner", **NOUN)
data_noun = typer.Typer(name="data", help="Add, list, check and remove the data sets of this home.", **NOUN)
policy_noun = typer.Typer(name="policy", help="Change owner.yaml.", **NOUN)
audit_noun = typer.Typer(name="audit", help="List and verify the audit log.", **NOUN)
for _part in (data_noun, policy_noun, audit_noun):
    owner.add_typer(_part)

DataSet = Annotated[str, typer.Argument(metavar="NAME", help="The data set.", show_default=False)]
RunName = Annotated[str, typer.Argument(metavar="RUN", help="The run, as the inbox names it.", show_default=False)]
DataName = Annotated[str, typer.Option(help="The data set to use, if several fit.")]


_NO_EPSILON = "epsilon 0: only runs in which other owners learn nothing about your rows are allowed"


@contextmanager
def opened_owner(folder: Path) -> "Iterator[owners.Owner]":
    """An opened owner; a steward can read and decide even if the disk is full."""
    with owners.open_owner(folder) as opened:
        if full := opened.home.full_disk:
            complain(f"{full}; you can still read, deny and withdraw")
        yield opened


@data_noun.command()
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What you call it.", show_default=False)],
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A file, database or query.", show_default=False)],
    *,
    schema: Annotated[Path, typer.Option(help="The schema that declares its columns.", show_default=False)],
    home: HomePath = HERE,
) -> None:
    """Register a data set. Its rows stay where they are; the schema is copied.

    Example: `likeset owner data add patients patients.csv --schema schema.yaml`
    """
    with opened_owner(home) as opened:
        data = review.register(opened, name, source, schema=schema, by=login())
    document = {
        "data": name,
        "source": without_secrets(data.source),
        "schema": data.schema.digest,
        "columns": list(data.schema.record_columns),
        **warning_documents(data.warnings),
    }
    notes = [one.warning for one in data.warnings]
    emit(document, notes=notes, next_step=at_home(home, "likeset", "check"))


@data_noun.command(name="list")
def list_data(*, home: HomePath = HERE) -> None:
    """List the data sets: their places, the columns of a record, the runs that use them. No row is read.

    Example: `likeset owner data list --home st-mary`
    """
    with opened_owner(home) as opened:
        listed = review.listed_data(opened)
    notes = [one["warning"] for data in listed for one in data["suspected_identifiers"]]
    emit({"data": listed}, notes=notes)


@data_noun.command(name="check")
def check_data(name: DataSet, *, home: HomePath = HERE) -> None:
    """Check every row of a data set: invalid values, small groups, columns that may identify people.

    Exit code 1 if a check fails. Nothing leaves; only this command shows the values of small groups.

    Example: `likeset owner data check patients --home st-mary`
    """
    with opened_owner(home) as opened:
        checked = checkup.check_data(opened, name)
    emit(checked.document(), ok=checked.ok)


@data_noun.command()
def remove(name: DataSet, *, by: By = None, home: HomePath = HERE) -> None:
    """Unregister a data set that no run uses any more. Its rows stay where they are.

    Example: `likeset owner data remove patients --home st-mary`
    """
    with opened_owner(home) as opened:
        review.remove(opened, name, by=by or login())
    emit({"data": name, "removed": True})


@policy_noun.command()
def put(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The new owner.yaml.", show_default=False)],
    *,
    check: Annotated[bool, typer.Option("--check", help="Only say what would change.")] = False,
    by: By = None,
    home: HomePath = HERE,
) -> None:
    """Put a new owner.yaml in force, after a check and an entry in the audit log.

    Example: `likeset owner policy put new-owner.yaml --check --home st-mary`
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument("FILE", file, "cannot be read as UTF-8 text") from error
    with opened_owner(home) as opened:
        changes = owners.changes_to(opened, text) if check else owners.put(opened, text, by=by or login())
    emit({"in_force": not check, "changes": changes})


@owner.command()
def inbox(
    *,
    every: Annotated[bool, typer.Option("--all", help="Also show runs with a decision.")] = False,
    home: HomePath = HERE,
) -> None:
    """List the runs that wait for a decision, and who asks, by their cards.

    Exit code 1 if this home was restored from an old backup.

    Example: `likeset owner inbox --home st-mary`
    """
    with opened_owner(home) as opened:
        stopped = opened.home.stopped
        listed = [review.inbox_run(opened, run) for run in (opened.runs() if every else opened.waiting())]

    def view() -> None:
        if stopped:
            complain(stopped)
        lines = [
            {
                "run": run["run"],
                "who asks": f"{run['consumer']} ({run['consumer_card']})",
                "what for": run["purpose"],
                "rows": run["rows"],
                "came (UTC)": run["came"],
                "answer by (UTC)": "closed" if run["closed"] else run["answer_by"],
                "status": ": ".join([run["status"], *run["reasons"][:1]]),
            }
            for run in listed
        ]
        none = "No run came yet." if every else "No run waits for a decision; --all shows the others."
        show_document(lines or none, "Runs")

    document = {"stopped": stopped or None, "runs": listed}
    waiting = next((run["run"] for run in listed if run["status"] == "waiting"), None)
    hint = at_home(home, "likeset", "owner", "review", waiting) if waiting else ()
    emit(document, view=view, next_step=hint, ok=not stopped)


@owner.command(name="review")
def review_run(run: RunName, *, home: HomePath = HERE) -> None:
    """Show a run in plain words: who asks, what leaves, what others may learn, what it costs.

    Example: `likeset owner review sepsis-2026-07 --home st-mary`
    """
    with opened_owner(home) as opened:
        stopped = opened.home.stopped
        answers = review.review(opened, run)
        choices = review.open_decisions(opened, answers.run)
        if not stopped and not opened.home.full_disk:
            opened.note_review(answers.run, by=login())

    def view() -> None:
        if stopped:
            complain(stopped)
        head = f"[bold]Run {literal(run)}[/]  {literal(answers.status)}  [dim]terms {answers.terms.digest[:12]}[/]\n"
        stdout.print(head)
        for question, answer in answers.lines:
            stdout.print(f"[bold]{literal(question)}[/] {literal(answer)}")
        stdout.print()
        show_notes(one.warning for one in answers.identifying_columns)
        if not {"approve", "deny"} & set(choices):
            return  # it began or ended: what the rules say now changes nothing
        accepted = answers.verdict.accepted
        stdout.print("[bold green]your rules allow it[/]" if accepted else f"[bold red]{review.REFUSED}[/]")
        for reason in answers.verdict.reasons:
            stdout.print(f"- {literal(reason)}", soft_wrap=True)

    may_approve = answers.verdict.accepted and not stopped and "approve" in choices
    hint = at_home(home, "likeset", "owner", "approve", run) if may_approve else ()
    emit({**answers.document(), "stopped": stopped or None}, view=view, next_step=hint)


@owner.command(name="dry-run")
def dry_run(
    run: RunName,
    *,
    data: DataName = "",
    show: Annotated[int, typer.Option(min=0, help="How many rows to show.")] = 10,
    home: HomePath = HERE,
) -> None:
    """Rehearse a run: send nothing, charge nothing, and show the rows that would leave.

    Exactly those rows would leave for the release that was received. Before a release is known, and with an auction or
    releases about the summary, the command shows an example.

    Example: `likeset owner dry-run sepsis-2026-07 --show 5 --home st-mary`
    """
    with opened_owner(home) as opened:
        terms = opened.run(run).terms
        trial = review.rehearse(opened, terms, data=data)
        opened.home.note("rehearsed", run, digest=terms.digest, by=login(), basis=trial.basis)
    document = {
        "run": run,
        "exact": trial.exact,
        "sent": trial.sent,
        "basis": trial.basis,
        "rows": trial.rows.count,
        "in_data_set": trial.row_count,
        "withheld": trial.withheld,
        "too_long": trial.too_long,
        "shown": row_documents(trial.rows, show),
    }
    shown = f"{min(show, trial.rows.count):,} of {trial.rows.count:,} rows are shown"
    emit(document, notes=[f"{trial.words}: {shown}; this command sent and charged nothing"])


@owner.command()
def approve(run: RunName, *, data: DataName = "", by: By = None, home: HomePath = HERE) -> None:
    """Approve the terms that you reviewed. Exit code 1 if the policy refuses.

    Example: `likeset owner approve sepsis-2026-07 --by "A. Lovelace" --home st-mary`
    """
    with opened_owner(home) as opened:
        opened.home.check_running()
        asked = opened.run(run)
        if not asked.reviewed:
            command = " ".join(at_home(home, "likeset", "owner", "review", run))
            raise InvalidArgument("RUN", run, f"nobody has reviewed it; review it first: {command}")
        digest = asked.digest.hex()
        verdict = opened.approve(run, digest, by=by or login(), data=data)
    document = {"run": run, "digest": digest, "approved": verdict.accepted, "reasons": list(verdict.reasons)}
    emit(document, ok=verdict.accepted)


@owner.command()
def deny(
    run: RunName,
    *,
    reason: Annotated[str, typer.Option(help="Why; stays here.", show_default=False)],
    by: By = None,
    home: HomePath = HERE,
) -> None:
    """Deny a run. The other side hears only that you do not take part.

    Example: `likeset owner deny sepsis-2026-07 --reason "no contract yet" --home st-mary`
    """
    with opened_owner(home) as opened:
        opened.deny(run, by=by or login(), reason=reason)
    emit({"run": run, "denied": True})


@owner.command()
def withdraw(run: RunName, *, by: By = None, home: HomePath = HERE) -> None:
    """Answer no further message of this run. Rows that were sent stay charged.

    Example: `likeset owner withdraw sepsis-2026-07 --home st-mary`
    """
    with opened_owner(home) as opened:
        opened.withdraw(run, by=by or login())
    emit({"run": run, "withdrawn": True})


@owner.command()
def outbox(
    run: Annotated[str | None, typer.Argument(metavar="[RUN]", help="Of this run only.", show_default=False)] = None,
    *,
    rows: Annotated[bool, typer.Option("--rows", help="Show the rows, too.")] = False,
    show: Annotated[int, typer.Option(min=0, help="How many rows of each run to show.")] = 10,
    home: HomePath = HERE,
) -> None:
    """Show what was sent in each run; for one run, its letters, their rows, and whether a receipt names them.

    Example: `likeset owner outbox sepsis-2026-07 --rows --home st-mary`
    """
    with opened_owner(home) as opened:
        notes = list(filter(None, [opened.home.stopped]))
        names = review.runs_that_sent(opened) if run is None else [opened.run(run).name]
        letters = {name: review.letters_out(opened, name) for name in names}
        sent = [review.sent_run(opened, name) for name in names if any(letter.sent for letter in letters[name])]
        tables = {name: review.rows_in_letters(opened, name) for name in names if letters[name]} if rows else {}
    listed = [letter for name in names for letter in letters[name]]
    shown_too = listed if run or rows or in_json() else []
    document: dict[str, Any] = {"runs": sent, "letters": [letter.document() for letter in shown_too]}
    if rows:
        shown = {name: row_documents(table, table.count if in_json() else show) for name, table in tables.items()}
        document["rows"] = [{"run": name, **row} for name, found in shown.items() for row in found]
    notes += [f"{table.held_back:,} rows of {name} were held back" for name, table in tables.items() if table.held_back]
    for name, table in tables.items():
        if table.table is None:
            notes.append(f"the rows of {name} cannot be shown")
        elif table.count > show:
            notes.append(f"{name}: the first {show:,} rows; --show {table.count} shows all of them")
    emit(document, notes=notes)


def row_documents(rows: "review.SentRows", most: int) -> list[dict[str, Any]]:
    if rows.table is None:
        return []
    return [{name: _plain(value) for name, value in row.items()} for row in rows.table.slice(0, most).to_pylist()]


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | bool | int | list):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value)


@owner.command()
def row(
    run: RunName,
    handle: Annotated[
        int, typer.Argument(metavar="HANDLE", min=0, max=(1 << 64) - 1, help="As its buyer has it.", show_default=False)
    ],
    *,
    home: HomePath = HERE,
) -> None:
    """Find the row that was sent under a handle: its data set, its place there, and the buyer's record.

    Each bought record contains its owner's handle, in the column likeset_handle. Only the owner can find the row by it;
    a buyer who finds a mistake in a record names it by this number.

    Example: `likeset owner row sepsis-2026-07 11923834061248102733 --home st-mary`
    """
    with opened_owner(home) as opened:
        found = review.find_row(opened, opened.run(run).name, handle)
    cells = {part: {name: _plain(value) for name, value in found[part].items()} for part in ("id", "record")}
    notes = ["the buyer has the record, and not the id"] if found["id"] else []
    emit({**found, **cells}, notes=notes)


@owner.command()
def budget(*, home: HomePath = HERE) -> None:
    """Show the budgets over all runs, with their history; `likeset owner review` shows what would remain after a run.

    Example: `likeset owner budget --home st-mary`
    """
    with opened_owner(home) as opened:
        overview, stopped = review.budget_overview(opened), opened.home.stopped
    note = "epsilon holds at delta, the sum of the deltas of the limits that were in force"
    emit(overview, notes=[*filter(None, [stopped]), note if overview["epsilon"]["limit"] else _NO_EPSILON])


@audit_noun.command(name="list")
def list_entries(
    *,
    last: Annotated[int, typer.Option(min=1, help="How many entries, at most.")] = 50,
    before: Annotated[int | None, typer.Option(min=2, help="Those before the entry of this number.")] = None,
    about: Annotated[str, typer.Option(metavar="NAME", help="Only those about this run or data set.")] = "",
    home: HomePath = HERE,
) -> None:
    """List the last entries of the audit log, newest first: requests, decisions, refusals, charges and letters sent.

    Example: `likeset owner audit list --about sepsis-2026-07 --home st-mary`
    """
    with opened_owner(home) as opened:
        page = review.log_page(opened, before=before, count=last, about=about)
    emit(page)


@audit_noun.command()
def verify(
    *,
    head: Annotated[str | None, typer.Option(help="A head kept elsewhere, NUMBER:HASH.")] = None,
    home: HomePath = HERE,
) -> None:
    """Check that the log, the stored messages and the receipts are intact, and that every row sent was charged.

    Exit code 1 if not: something in this directory changed.

    The chain has no key: keep the head that this prints where nobody who can write the directory can write.

    Example: `likeset owner audit verify --home st-mary`
    """
    with opened_owner(home) as opened:
        problems, notes = review.verify(opened, head=None if head is None else ledgers.Head.parse(head))
        last = opened.ledger.head()
    ledger_commands.emit_verification(not problems, last, problems, notes=notes)
