"""``likeset transcript``: do the owner's and the curator's copies of a run agree?"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from likeset.display.screen import JsonFlag, complain, literal, show_json, show_notes, show_table, stdout
from likeset.errors import InvalidArgument

if TYPE_CHECKING:
    from likeset.homes.owner.node import OwnerNode
    from likeset.homes.receipts import Receipt

__all__ = ["transcript"]

transcript = typer.Typer(
    name="transcript",
    help="What passed between a curator and an owner, as each side kept it.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)


@transcript.command()
def verify(
    node: Annotated[Path, typer.Argument(metavar="NODE", help="The owner's node.", show_default=False)],
    receipt: Annotated[
        Path | None,
        typer.Argument(metavar="[RECEIPT]", help="A receipt; all that the node keeps if not given."),
    ] = None,
    *,
    run: Annotated[str, typer.Option(help="The run, without RECEIPT; by default all.", show_default=False)] = "",
    as_json: JsonFlag = False,
) -> None:
    """Check receipts: that the right card of the run signed them, and that both copies are of the same letters.

    That is the curator's, or where the curator is split the consumer's. Exit code 1 if not: also where whoever signed
    contradicts itself or the node, which `likeset owner audit verify` only notes.

    Without RECEIPT, those that came to the node. Letters that got lost on their way are noted, and are no
    contradiction. What was signed, too, and what contradicts the rest, lies in receipts/aside of the node.

    Example: `likeset transcript verify st-mary`, or
    `likeset transcript verify st-mary receipts/st-mary.json`
    """
    if receipt is None:
        _verify_kept(node, run, as_json=as_json)
        return
    from likeset.homes.receipts import read_receipt

    signed = read_receipt(receipt)
    problems, notes = _judged(signed, node)
    if as_json:
        copy = signed.transcript
        document = {"ok": not problems, "run": copy.run, "owner": copy.owner, "rows": copy.rows}
        show_json({**document, "card": signed.card.fingerprint, "problems": problems, "notes": notes})
    else:
        _show_verdict(signed, problems, notes)
    if problems:
        raise typer.Exit(1)


def _opened_node(folder: Path, argument: str) -> "OwnerNode":
    """The node in a directory that was given as this argument."""
    from likeset.app.cli.owner_setup import opened_node
    from likeset.homes.owner.home import Home

    Home(folder).check(argument=argument)
    return opened_node(folder)


def _judged(receipt: "Receipt", node: Path) -> tuple[list[str], list[str]]:
    """What is wrong with a receipt beside what a node keeps, and what is to be noted."""
    from likeset.homes.owner.kept_receipts import fault_under
    from likeset.homes.transcripts import compare, signer_in_words

    run = receipt.transcript.run
    with _opened_node(node, "NODE") as opened:
        own, record = opened.transcript(run), opened.record_of(run)
        fault = fault_under(receipt, record.version(own.terms))
        signer = signer_in_words(record.version(own.terms))
    problems, notes = compare(own, receipt.transcript, signer)
    if fault is not None:
        problems.insert(0, f"receipt: {fault}")
    return problems, notes


def _verify_kept(node: Path, run: str, *, as_json: bool) -> None:
    """All receipts that a node keeps, or that of a run."""
    from likeset.homes.owner.kept_receipts import check, check_all

    with _opened_node(node, "NODE") as opened:
        verdicts = [check(opened, run)] if run else check_all(opened)
    judged = []
    for verdict in verdicts:
        others = (f"{verdict.signer} also signed something else: {path}" for path in verdict.aside)
        problems = [*verdict.problems, *verdict.contradictions, *others]
        if run and verdict.receipt is None and not problems:
            problems.append("no receipt of this run is kept")
        judged.append((verdict, problems))
    ok = not any(problems for _, problems in judged)
    if as_json:
        shown = [
            {
                "run": verdict.run,
                "rows": verdict.receipt.transcript.rows if verdict.receipt else None,
                "at": verdict.receipt.at if verdict.receipt else None,
                "card": verdict.receipt.card.fingerprint if verdict.receipt else None,
                "problems": problems,
                "notes": list(verdict.notes),
            }
            for verdict, problems in judged
        ]
        show_json({"ok": ok, "receipts": shown})
    else:
        for verdict, problems in judged:
            stdout.print(f"[bold]Run {literal(verdict.run)}[/]")
            _show_verdict(verdict.receipt, problems, verdict.notes)
        if not judged:
            stdout.print("there are no receipts here, and nothing left")
    if not ok:
        raise typer.Exit(1)


def _show_verdict(receipt: "Receipt | None", problems: Sequence[str], notes: Sequence[str]) -> None:
    for problem in problems:
        complain(problem)
    if problems:
        stdout.print("[bold red]do not agree[/]")
        return
    if receipt is not None:
        count, rows = len(receipt.transcript.lines), receipt.transcript.rows
        letters = f"{count} letter{'' if count == 1 else 's'}"
        stdout.print(f"[bold green]agree[/]  {letters}, {rows:,} rows received", soft_wrap=True)
        stdout.print(f"terms {literal(receipt.transcript.terms)}", soft_wrap=True)
        stdout.print(f"signed {literal(receipt.at)} by the card {literal(receipt.card.fingerprint)}", soft_wrap=True)
    show_notes(notes)


@transcript.command()
def keep(
    node: Annotated[Path, typer.Argument(metavar="NODE", help="The owner's node.", show_default=False)],
    receipt: Annotated[Path, typer.Argument(metavar="RECEIPT", help="The curator's receipt.", show_default=False)],
    *,
    as_json: JsonFlag = False,
) -> None:
    """Keep a receipt that came by another way than the network, if it is as good as one that came over it.

    Example: `likeset transcript keep st-mary st-mary.json`
    """
    from likeset.homes.owner.kept_receipts import receipt_path, take_file

    with _opened_node(node, "NODE") as opened:
        signed = take_file(opened, receipt).transcript
        path = receipt_path(opened, signed.run)
    if as_json:
        show_json({"run": signed.run, "rows": signed.rows, "receipt": str(path)})
    else:
        stdout.print(f"[bold green]kept[/]  {literal(str(path))}: {signed.rows:,} rows received", soft_wrap=True)


@transcript.command()
def show(
    copy: Annotated[Path, typer.Argument(metavar="A", help="An owner's node, or a receipt.", show_default=False)],
    *,
    run: Annotated[str, typer.Option(help="The run, where A is a node.", show_default=False)] = "",
    as_json: JsonFlag = False,
) -> None:
    """One copy: every letter by number and digest, with the number of rows in it.

    Example: `likeset transcript show st-mary --run sepsis-2026-07`
    """
    from likeset.homes.receipts import read_receipt

    if copy.is_dir():
        if not run:
            raise InvalidArgument("--run", "missing", "name one that `likeset owner inbox --all` lists")
        with _opened_node(copy, "A") as node:
            shown = node.transcript(run)
    else:
        shown = read_receipt(copy).transcript
    if as_json:
        show_json(shown.document())
        return
    lines = [
        [str(line.round), line.way, str(line.number), line.kind, str(line.rows), f"{line.bytes:,}", line.digest[:16]]
        for line in shown.lines
    ]
    heads = ["round", "way", "number", "message", "rows", "bytes", "SHA-256"]
    show_table(
        f"Run {shown.run}, {shown.owner}", heads, lines, caption=f"{shown.rows:,} rows; terms {shown.terms[:16]}"
    )


@transcript.command()
def receipts(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The curator's directory.", show_default=False)],
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run.", show_default=False)],
    *,
    as_json: JsonFlag = False,
) -> None:
    """Sign what the curator received in a run so far, for each owner; a run that ends does so itself, and sends them.

    For an owner who could not be reached then: it keeps the file with `likeset transcript keep`.

    Example: `likeset transcript receipts curator sepsis-2026-07`
    """
    from likeset.homes.curator.home import CuratorHome

    home = CuratorHome(folder)
    home.check()
    written = home.write_receipts(run)
    if not written:
        raise InvalidArgument("RUN", run, "nothing is known of it here")
    if as_json:
        show_json({"run": run, "receipts": [str(path) for path in written]})
        return
    for path in written:
        stdout.print(literal(str(path)), soft_wrap=True)
