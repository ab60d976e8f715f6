"""``likeset owner outbox``, ``budget`` and ``audit verify``: what left, what it cost, and whether the records hold."""

from pathlib import Path
from typing import Annotated, Any

import typer

from likeset.app.cli.owner_rows import row_documents, save_messages, show_rows
from likeset.app.cli.owner_setup import HERE, NodePath, opened_node
from likeset.display.screen import JsonFlag, complain, literal, show_json, show_notes, show_table, stdout
from likeset.homes import review
from likeset.homes.mail import read_terms
from likeset.homes.owner_node import accounts_for
from likeset.homes.review import (
    LeftRun,
    budget_document,
    budget_lines,
    budget_overview,
    left_records,
    left_run,
    log_page,
    messages_with_receipts,
    rows_that_left,
)
from likeset.ledger.ledger import Head

__all__ = ["budget", "list_entries", "outbox", "verify"]


def outbox(
    run: Annotated[str | None, typer.Argument(metavar="[RUN]", help="Of this run only.", show_default=False)] = None,
    *,
    rows: Annotated[bool, typer.Option("--rows", help="Show the rows, too.")] = False,
    show: Annotated[int, typer.Option(min=0, help="How many rows of each run to show.")] = 10,
    save: Annotated[Path | None, typer.Option(help="Write the literal bytes into this directory.")] = None,
    node: NodePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """What left, run by run; of one run its messages, the rows in them, and whether the curator acknowledged them.

    Example: `likeset owner outbox sepsis-2026-07 --rows --node st-mary`
    """
    with opened_node(node) as opened:
        if run is not None:
            opened.record_of(run)
        left = [left_run(opened, record) for record in left_records(opened) if run in (None, record.run)]
        messages = messages_with_receipts(opened, run) if run or rows or save or as_json else []
        runs = list(dict.fromkeys(message.run for message in messages))
        tables = {name: rows_that_left(opened, name) for name in runs} if rows else {}
    if save is not None:
        save_messages(messages, save)
    documents = [message.document() for message in messages]
    if as_json:
        shown = {name: row_documents(table, table.count) for name, table in tables.items()}
        by_run = [one.document() for one in left]
        show_json({"runs": by_run, "messages": documents, **({"rows": shown} if rows else {})})
        return
    if not documents and not left:
        stdout.print("Nothing has left.")
        return
    if run is None:
        heads = ["run", "consumer", "first (UTC)", "last (UTC)", "messages", "rows", "receipt"]
        show_table("What left", heads, [_line_of_run(one) for one in left])
    else:
        heads = ["run", "when (UTC)", "round", "message", "rows", "bytes", "sent", "receipt"]
        show_table("What left", heads, [_line_of_message(document) for document in documents])
    for name, table in tables.items():
        held_back = f"; {table.held_back:,} more were held back, and did not leave" if table.held_back else ""
        stdout.print(f"\n[bold]{literal(name)}[/]: {table.count:,} rows{held_back}")
        show_rows(table, show)
        if table.count > show and table.table is not None:
            stdout.print(f"the first {show:,}; --show {table.count} shows all of them", soft_wrap=True)


def _line_of_run(left: LeftRun) -> list[str]:
    times = [moment[:16].replace("T", " ") for moment in (left.first, left.last)]
    return [left.run, left.consumer, *times, f"{left.messages:,}", f"{left.rows:,}", left.receipt]


def _line_of_message(document: dict[str, Any]) -> list[str]:
    return [
        document["run"],
        document["at"][:16].replace("T", " "),
        str(document["round"]),
        document["kind"],
        str(document["rows"]),
        f"{document['bytes']:,}",
        "yes" if document["sent"] else "held back",
        document["acknowledged"],
    ]


def budget(
    *,
    terms: Annotated[Path | None, typer.Option("--for", help="What a run under these terms would cost.")] = None,
    node: NodePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """Both budgets over all runs, with their history; with `--for`, what a run would leave of them.

    Example: `likeset owner budget --for sepsis.invitation --node st-mary`
    """
    with opened_node(node) as opened:
        policy = opened.policy
        overview = budget_overview(opened)
        after = accounts_for(opened.ledger, read_terms(terms), policy) if terms else None
    if as_json:
        show_json({**overview.document(), "for": None if after is None else budget_document(after)})
        return
    lines = [
        [line.what, line.shown(line.spent), line.shown(line.limit), line.shown(line.left)] for line in overview.lines
    ]
    show_table("Budgets over all runs", ["what", "spent", "limit", "left"], lines)
    stdout.print(f"[dim]Epsilon holds {overview.about_delta}.[/]", soft_wrap=True)
    history_lines = [
        [
            charge.run,
            charge.at[:16].replace("T", " "),
            charge.toward,
            str(charge.rows),
            "yes" if charge.answered else "no",
        ]
        for charge in overview.history
    ]
    show_table("History", ["run", "when (UTC)", "toward", "rows", "answered"], history_lines)
    course_lines = [
        [point.at[:16].replace("T", " "), f"{point.epsilon:.4g}", f"{point.rows:,}", f"{point.readable:,}"]
        for point in overview.course
    ]
    heads = ["when (UTC)", "epsilon to owners", "rows that left", "rows one party may read"]
    show_table("Spent by then", heads, course_lines)
    for question, answer in budget_lines(policy, after) if after else []:
        stdout.print(f"[bold]{literal(question)}[/] {literal(answer)}")


def list_entries(
    *,
    last: Annotated[int, typer.Option(min=1, help="How many entries, at most.")] = 50,
    before: Annotated[int | None, typer.Option(min=2, help="Those before the entry of this number.")] = None,
    about: Annotated[str, typer.Option(metavar="NAME", help="Only those about this run or data set.")] = "",
    node: NodePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """The last entries of the audit log, newest first: what was asked, decided, refused, charged and sent.

    Example: `likeset owner audit list --about sepsis-2026-07 --node st-mary`
    """
    with opened_node(node) as opened:
        page = log_page(opened, before=before, count=last, run=about)
    if as_json:
        show_json({"entries": [line.document() for line in page.lines], "newest": page.newest, "older": page.older})
        return
    rows = [[f"{line.number:,}", line.at[:19], line.kind, line.about, line.text] for line in page.lines]
    show_table("Audit log", ["entry", "when (UTC)", "what", "about", "words"], rows)
    if page.older is not None:
        stdout.print(f"older ones: --before {page.older}")


def verify(
    *,
    head: Annotated[str | None, typer.Option(help="A head kept elsewhere, NUMBER:HASH.")] = None,
    node: NodePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """Check that audit log, ledger and receipts are whole, and agree with what left.

    Exit code 1 if they are not: something in this directory changed. Where the curator signed what contradicts the
    node, that is noted, and the exit code is 0.

    The chain has no key: keep the head that this prints where nobody who can write the directory can write.

    Example: `likeset owner audit verify --node st-mary`
    """
    with opened_node(node) as opened:
        problems, notes = review.verify(opened, head=None if head is None else Head.parse(head))
        last = opened.ledger.head()
    if as_json:
        documents = [{"entry": problem.number, "what": problem.what} for problem in problems]
        show_json({"ok": not problems, "head": str(last), "problems": documents, "notes": notes})
    elif problems:
        for problem in problems:
            complain(str(problem))
        stdout.print("[bold red]does not hold[/]")
    else:
        stdout.print(f"[bold green]holds[/]  {last.number} entries", soft_wrap=True)
        stdout.print(f"head {last}", soft_wrap=True)
        show_notes(notes)
    if problems:
        raise typer.Exit(1)
