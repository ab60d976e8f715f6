"""``likeset match``: from files to a matched training set. ``likeset plan``: what that would do and cost."""

from typing import Annotated

import typer

from likeset.app.cli.job_options import takes_a_job
from likeset.app.cli.result_screen import show_guarantees, show_not_private, show_result
from likeset.app.report import render
from likeset.display.screen import (
    JsonFlag,
    VerboseFlag,
    Waiting,
    literal,
    show_json,
    show_next,
    show_notes,
    show_table,
    stdout,
)
from likeset.protocol.notices import UniformOffers
from likeset.run.job import Job
from likeset.run.runs import AccountOutlook, JobPlan, plan_job, run_job
from likeset.tables.scan import scan_factory
from likeset.tables.schema import Schema

__all__ = ["match", "plan"]


@takes_a_job
def match(
    job: Job,
    *,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was interrupted.")] = False,
    scan: Annotated[
        str, typer.Option(help="How owners pass over their rows: local, ray, or ray:ADDRESS of a cluster.")
    ] = "local",
    compare: Annotated[
        bool,
        typer.Option(
            "--compare",
            help="Add what uniform sampling would have given; it looks at all rows: only if they are yours.",
        ),
    ] = False,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Workers of an owner's pass.  \\[default: all cores]")
    ] = None,
    verbose: VerboseFlag = False,
    json: JsonFlag = False,
) -> None:
    """Collect rows from owners that together look like your target.

    Writes summary.parquet, result.json, report.html, terms.yaml and the ledger into one directory. Nothing is
    overwritten; a run that is interrupted goes on with --resume.

    Example: `likeset match --schema schema.yaml --target mine.csv --owner north=north.csv --owner
    south=south.parquet --size 100 --epsilon 1 --out matched`
    """
    with (
        Waiting(quiet=json) as waiting,
        scan_factory(scan, workers=workers, progress=waiting.rows) as open_scan,
    ):
        done = run_job(job, render=render, resume=resume, progress=waiting.step, scan=open_scan, compare=compare)
    if json:
        show_json(done.result)
        return
    show_result(done.result, all_notes=verbose)
    stdout.print(
        f"\nEverything is in [bold]{literal(str(done.out))}[/]: the rows in summary.parquet, "
        f"the whole story in [bold]{literal(str(done.out / 'report.html'))}[/].",
        soft_wrap=True,
    )
    if Schema.load(job.schema_file).label_column is not None:
        show_next("with labelled rows to judge on,", "likeset", "evaluate", str(done.out), "--test", "FILE")


@takes_a_job
def plan(
    job: Job,
    *,
    verbose: VerboseFlag = False,
    json: JsonFlag = False,
) -> None:
    """Say what a job would do and cost, before any owner's row is read or anything is spent.

    Takes the arguments of likeset match, reads the schema and your target, and writes nothing.

    Example: `likeset plan --schema schema.yaml --target mine.csv --owner north=north.csv --owner
    south=south.parquet --size 100 --epsilon 1`
    """
    planned = plan_job(job)
    if json:
        show_json(planned.document())
        return
    _tell(planned, all_notes=verbose)


def _tell(planned: JobPlan, *, all_notes: bool) -> None:

    terms, document, traffic = planned.terms, planned.document(), planned.traffic
    owners = "owner" if len(terms.owners) == 1 else "owners"
    target, sent = planned.files.target, traffic.sent_bytes
    stdout.print(
        f"\n[bold]{terms.size:,} rows[/] from {len(terms.owners):,} {owners}, to look like the "
        f"{len(target.rows):,} rows of {literal(target.name)}. Protocol: {terms.protocol}.\n",
        soft_wrap=True,
    )
    show_table(
        "What will travel",
        ("what", "how much"),
        [
            *_offered_rows(planned),
            *([("and as expected", f"{planned.expected_rows_seen:,}")] if terms.auction != "everyone" else []),
            ("messages between curator and owners, at most", f"{planned.messages:,}"),
            ("an owner hears, at most", f"{traffic.heard_bytes:,} bytes"),
            ("an owner sends, at most", "not bounded" if sent is None else f"{sent:,} bytes"),
            ("numbers released about the target", f"{document['released_coordinates']:,}"),
        ],
        caption="No row of any owner was read, and nothing was spent.",
    )
    show_guarantees(document["guarantees"], owners=terms.owners, title="What it will cost")
    if not document["private"]:
        show_not_private(planned.job.noise)
    if planned.accounts:
        _tell_accounts(planned.accounts)
    if document["budget"]["in_words"]:
        stdout.print(literal(document["budget"]["in_words"]), soft_wrap=True)
    mark = "[green]" if planned.advice.pays else "[yellow]"
    stdout.print(f"\n{mark}{literal(planned.advice.text)}[/]\n", soft_wrap=True)
    told = (note for note in planned.plan.notes if not isinstance(note, UniformOffers))  # which the advice tells
    show_notes((note.text for note in (*told, *planned.warnings)), all_of_them=all_notes)
    stdout.print("[dim]Next: [/][bold]likeset match[/][dim] with the same arguments[/]", soft_wrap=True)


def _offered_rows(planned: JobPlan) -> list[tuple[str, str]]:
    """How many rows leave owners, and who reads them."""
    terms = planned.terms
    if terms.split is None:
        return [
            ("rows that each owner discloses to the curator, at most", f"{terms.rows_per_owner:,}"),
            ("rows that the curator sees, at most", f"{planned.rows_seen:,}"),
        ]
    return [
        ("rows that each owner offers, in shares that tell nothing", f"{terms.rows_per_owner:,}"),
        ("rows that are computed on and that nobody reads, at most", f"{planned.rows_seen:,}"),
        ("rows that you read: those that you buy, at most", f"{terms.size:,}"),
    ]


def _tell_accounts(accounts: tuple[AccountOutlook, ...]) -> None:
    """What the ledger has, and what this run would leave."""

    def amount(value: float | None, unit: str) -> str:
        if value is None:
            return "no bound"
        return f"{value:,.0f}" if unit == "rows" else f"{value:.3g}"

    rows = [
        (f"{account.unit}, about {account.about}", *(amount(value, account.unit) for value in values))
        for account in accounts
        for values in [(account.limit, account.spent, account.after, account.left)]
    ]
    short = [account.about for account in accounts if (account.after or 0.0) > (account.limit or float("inf"))]
    caption = f"No rows are left for this run of {', '.join(short)}: it would go without." if short else None
    heads = ("what is counted", "limit", "spent", "with this run", "left then")
    show_table("What the ledger leaves", heads, rows, caption=caption)
