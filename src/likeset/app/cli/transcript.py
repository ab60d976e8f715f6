"""``likeset transcript``: do the owner's and the curator's copies of a run agree?"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from likeset.display.screen import JsonFlag, complain, literal, show_json, show_notes, show_table, stdout
from likeset.errors import InvalidArgument

if TYPE_CHECKING:
    from likeset.homes.receipts import Receipt
    from likeset.homes.transcripts import Transcript

__all__ = ["transcript"]

transcript = typer.Typer(
    name="transcript",
    help="What passed between a curator and an owner, as each side kept it.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

_PUBLIC_KEY = "curator.pub"


@transcript.command()
def verify(
    first: Annotated[Path, typer.Argument(metavar="A", help="The owner's node, or its copy.", show_default=False)],
    second: Annotated[
        Path | None,
        typer.Argument(metavar="[B]", help="The curator's receipt; all that the node keeps if not given."),
    ] = None,
    *,
    run: Annotated[str, typer.Option(help="The run; by default that of the receipt, or all.", show_default=False)] = "",
    key: Annotated[
        Path | None,
        typer.Option(help="The curator's public key.  [default: curator.pub in the node, if it is there]"),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Check receipts: their signatures, and that both copies are of the same messages.

    Exit code 1 if not: also where the curator contradicts itself or the node, which [bold]likeset owner audit verify[/]
    only notes.

    Without B, those that came to the node from the curator. Messages that got lost on their way are noted, and are no
    contradiction. What the curator signed, too, and what contradicts the rest, lies in receipts/aside of the node.

    Example: [bold]likeset transcript verify st-mary[/], or
    [bold]likeset transcript verify st-mary receipts/st-mary.json --key curator.pub[/]
    """
    if second is None:
        _verify_kept(first, run, key, as_json=as_json)
        return
    from likeset.homes.receipts import read_receipt

    own, signed = (first, second) if _is_receipt(second) else (second, first)
    if not _is_receipt(signed) or _is_receipt(own):
        raise InvalidArgument("A B", f"{first} {second}", "one must be an owner's node or copy, the other a receipt")
    receipt = read_receipt(signed)
    problems, notes = _judged(receipt, own, run, key)
    if as_json:
        signed_copy = receipt.transcript
        document = {"ok": not problems, "run": signed_copy.run, "owner": signed_copy.owner, "rows": signed_copy.rows}
        show_json({**document, "key": receipt.key, "problems": problems, "notes": notes})
    else:
        _show_verdict(receipt, problems, notes)
    if problems:
        raise typer.Exit(1)


def _judged(receipt: "Receipt", own: Path, run: str, key: Path | None) -> tuple[list[str], list[str]]:
    """What is wrong with a receipt beside an owner's copy, and what is to be noted."""
    from likeset.homes.receipts import key_in
    from likeset.homes.transcripts import compare

    beside = own / _PUBLIC_KEY
    given = key or (beside if beside.is_file() else None)
    trusted = None if given is None else key_in(given)
    fault = receipt.fault(trusted)
    problems, notes = compare(_copy(own, run or receipt.transcript.run), receipt.transcript)
    if fault is not None:
        problems.insert(0, f"receipt: {fault}")
    if trusted is None:
        notes.insert(0, "nobody said which key is the curator's: compare this one with what it told you, or give --key")
    return problems, notes


def _verify_kept(node: Path, run: str, key: Path | None, *, as_json: bool) -> None:
    """All receipts that a node keeps, or that of a run."""
    from likeset.app.cli.owner_setup import opened_node
    from likeset.homes.owner.kept_receipts import check, check_all

    if key is not None:
        raise InvalidArgument("--key", key, "is for a receipt in B; pin the node's own with `likeset owner trust`")
    if not node.is_dir():
        raise InvalidArgument("A", node, "is no directory of a node; name the receipt as B")
    with opened_node(node) as opened:
        verdicts = [check(opened, run)] if run else check_all(opened)
    judged = []
    for verdict in verdicts:
        others = (f"the curator also signed something else: {path}" for path in verdict.aside)
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
                "key": verdict.receipt.key if verdict.receipt else None,
                "pinned": verdict.pinned,
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
        messages = "1 message" if count == 1 else f"{count} messages"
        stdout.print(f"[bold green]agree[/]  {messages}, {rows:,} rows received", soft_wrap=True)
        stdout.print(f"terms {literal(receipt.transcript.terms)}", soft_wrap=True)
        stdout.print(f"signed {literal(receipt.at)} with the key {literal(receipt.key)}", soft_wrap=True)
    show_notes(notes)


@transcript.command()
def keep(
    node: Annotated[Path, typer.Argument(metavar="NODE", help="The owner's node.", show_default=False)],
    receipt: Annotated[Path, typer.Argument(metavar="RECEIPT", help="The curator's receipt.", show_default=False)],
    *,
    as_json: JsonFlag = False,
) -> None:
    """Keep a receipt that came by another way than the network, if it is as good as one that came over it.

    Example: [bold]likeset transcript keep st-mary st-mary.json[/]
    """
    from likeset.app.cli.owner_setup import opened_node
    from likeset.homes.owner.kept_receipts import receipt_path, take_file

    with opened_node(node) as opened:
        signed = take_file(opened, receipt).transcript
        path = receipt_path(opened, signed.run)
    if as_json:
        show_json({"run": signed.run, "rows": signed.rows, "receipt": str(path)})
    else:
        stdout.print(f"[bold green]kept[/]  {literal(str(path))}: {signed.rows:,} rows received", soft_wrap=True)


@transcript.command()
def show(
    copy: Annotated[Path, typer.Argument(metavar="A", help="An owner's node, a copy or a receipt.")],
    *,
    run: Annotated[str, typer.Option(help="The run, where A is a node.", show_default=False)] = "",
    as_json: JsonFlag = False,
) -> None:
    """One copy: every message by its digest, with the number of rows in it. With --json a copy to give away.

    Example: [bold]likeset transcript show st-mary --run sepsis-2026-07[/]
    """
    from likeset.homes.receipts import read_receipt

    shown = read_receipt(copy).transcript if _is_receipt(copy) else _copy(copy, run)
    if as_json:
        show_json(shown.document())
        return
    lines = [
        [str(line.round), line.way, line.kind, str(line.rows), f"{line.bytes:,}", line.digest[:16]]
        for line in shown.lines
    ]
    heads = ["round", "way", "message", "rows", "bytes", "SHA-256"]
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

    For an owner who could not be reached then: it keeps the file with [bold]likeset transcript keep[/].

    Example: [bold]likeset transcript receipts curator sepsis-2026-07[/]
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


def _is_receipt(path: Path) -> bool:
    import json

    if not path.is_file():
        return False
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(document, dict) and document.get("likeset") == "receipt"


def _copy(path: Path, run: str) -> "Transcript":
    """An owner's copy, of its node or in a file."""
    from likeset.app.cli.owner_setup import opened_node
    from likeset.homes.transcripts import read_transcript

    if not path.is_dir():
        return read_transcript(path)
    with opened_node(path) as node:
        return node.transcript(run)
