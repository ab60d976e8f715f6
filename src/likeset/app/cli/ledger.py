"""``likeset ledger``: limits, what was spent, and whether the record is intact."""

import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from likeset.display import emit, literal, show_document, show_notes, show_table, stdout
from likeset.errors import InvalidArgument
from likeset.ledger.budget import Account
from likeset.ledger.ledger import Entry, Head, Ledger, Problem
from likeset.privacy.events import View
from likeset.text import harmless

ledger = typer.Typer(name="ledger", no_args_is_help=True, rich_markup_mode="markdown")
_SIZES = ("sigma", "scale", "rate", "epsilon")

LedgerPath = Annotated[Path, typer.Argument(metavar="PATH", help="The ledger file.", show_default=False)]


@ledger.command()
def show(
    path: LedgerPath,
    *,
    run: Annotated[str | None, typer.Option(help="Only the entries of this run.")] = None,
    last: Annotated[int, typer.Option(min=0, help="How many of the latest entries to list; 0 lists all.")] = 20,
) -> None:
    """Show every account, spent against its limit, and the latest entries.

    A charge counts from the moment it is reserved: one that was never answered stays spent.

    Example: `likeset ledger show ledger.sqlite --run breast-2026-07`
    """
    with Ledger(path, read_only=True) as opened:
        accounts, entries, head = opened.accounts(), opened.entries(), opened.head()
    history = _history(entries, run)

    def view() -> None:
        stdout.print(f"[bold]Ledger[/] {literal(str(path))}  [dim]{len(entries)} entries[/]", soft_wrap=True)
        stdout.print(f"[dim]head {head}[/]\n", soft_wrap=True)
        _show_accounts(accounts)
        shown = history[-last:] if last else history
        heads = ("what", "for", "at", "rows", "state", "entry")
        show_document([{head: line[head] for head in heads} for line in shown] or "no entries", "Entries")
        if len(shown) < len(history):
            show_notes([f"{len(history) - len(shown)} earlier ones not shown: --last 0"])

    documents = [_account_document(account) for account in accounts]
    document = {"path": str(path), "head": str(head), "accounts": documents, "history": history}
    emit(document, view=view)


@ledger.command()
def limit(
    path: LedgerPath,
    *,
    rows_of: Annotated[
        str, typer.Option("--of", metavar="NAME", help="Whose rows are protected: an owner, or the consumer.")
    ],
    epsilon: Annotated[
        float | None, typer.Option(help="What owners may learn about these rows, over all runs.")
    ] = None,
    rows: Annotated[int | None, typer.Option(help="How many of these rows the curator may see, over all runs.")] = None,
) -> None:
    """Change the limits on a party's rows over all runs; spent budget stays spent, and the change is recorded.

    The first job on a ledger opens its accounts with what that job needs; later ones need more.

    Example: `likeset ledger limit budgets.sqlite --of north --rows 1000`
    """
    wanted: dict[View, dict[str, Any]] = {
        View.owners(rows_of): {} if epsilon is None else {"epsilon": epsilon},
        View.curator(rows_of): {} if rows is None else {"rows": rows},
    }
    if not any(wanted.values()):
        raise InvalidArgument("--epsilon", "missing", "give it, or --rows, or both")
    if not path.is_file():
        raise InvalidArgument("PATH", path, "there is no such ledger")
    with Ledger(path) as opened:
        known = {account.view: account for account in opened.accounts()}
        changes = {}
        for view, change in wanted.items():
            if change and view not in known:
                names = ", ".join(sorted({other.protected for other in known})) or "nobody"
                raise InvalidArgument("--of", rows_of, f"has no account {view!s}; there are accounts of {names}")
            if change:
                changes[view] = replace(known[view].limit, **change)
        opened.set_limits(changes)
        accounts = tuple(account for account in opened.accounts() if account.view in changes)
    document = {"path": str(path), "accounts": [_account_document(account) for account in accounts]}
    emit(document, view=lambda: _show_accounts(accounts))


@ledger.command()
def verify(
    path: LedgerPath,
    *,
    head: Annotated[
        str | None, typer.Option(help="A head kept elsewhere, NUMBER:HASH; shows roll-back and rewriting.")
    ] = None,
) -> None:
    """Check every entry, link, sum and stored message. Exit code 1 if anything was altered, removed or overspent.

    The chain has no key: a person who can write the file can cut off its end, restore an old copy, or rewrite it all.
    Keep the head that this prints where that person cannot write, and pass it with `--head`.

    Example: `likeset ledger verify ledger.sqlite --head "$(cat /mnt/elsewhere/head)"`
    """
    with Ledger(path, read_only=True) as opened:
        verification = opened.verify(head=None if head is None else Head.parse(head))
    emit_verification(verification.ok, verification.head, verification.problems)


def emit_verification(ok: bool, head: Head, problems: Iterable[Problem], **more: Any) -> None:
    documents = [{"entry": problem.number, "what": problem.what} for problem in problems]
    emit({"ok": ok, "head": str(head), "problems": documents, **more}, ok=ok)


@ledger.command()
def purge(
    path: LedgerPath,
    *,
    run: Annotated[str | None, typer.Option(help="The messages of this run.")] = None,
    before: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"], help="The messages from before this time (UTC)."),
    ] = None,
) -> None:
    """Remove stored messages, which may hold data rows; the ledger itself keeps every entry.

    Charges stay spent. A request whose answer is removed is refused from then on: it is never drawn again. With
    both options, only messages that meet both go.

    Example: `likeset ledger purge ledger.sqlite --before 2026-01-01`
    """
    if not path.exists():
        raise InvalidArgument("PATH", str(path), "there is no such ledger")
    with Ledger(path) as opened:
        removed = opened.purge(run=run, before=None if before is None else before.replace(tzinfo=UTC))
    emit({"messages_removed": removed})


def _show_accounts(accounts: tuple[Account, ...]) -> None:
    rows: list[tuple[str | Text, ...]] = []
    for account in accounts:
        name, limit = str(account.view), account.limit
        unproven = ", ".join(account.unproven) if account.epsilon is not None else ""
        basis = f"{account.basis}: {unproven}" if unproven else str(account.basis)
        if account.epsilon is not None and limit.epsilon is not None:
            unit = "" if account.unit is None else f" of one {account.unit}"
            budget = [f"ε at δ={account.delta:g}", harmless(f"{limit.relation}{unit}")]
            budget += [f"δ is the sum of {len(account.deltas)} limits"] if len(account.deltas) > 1 else []
            spent = f"{account.epsilon:.3g} / {limit.epsilon:.3g}"
            rows.append((name, Text("\n".join(budget)), spent, basis))
            name = ""
        if limit.rows or account.rows or account.epsilon is None:
            spent = f"{account.rows:,} / {limit.rows:,}"
            rows.append((name, "rows disclosed", spent, "counted"))
    caption = "Sums over several runs hold if no terms were chosen because of rows."
    show_table("Accounts", ("who sees what", "budget", "spent", "basis"), rows, caption=caption)


def _history(entries: tuple[Entry, ...], run: str | None) -> list[dict[str, Any]]:
    """One item per limit, charge and purge; a charge and its answer are one item."""
    answered = {entry.document()["reservation"] for entry in entries if entry.kind == "commit"}
    history = []
    for entry in entries:
        document = entry.document()
        line = {"entry": entry.number, "kind": entry.kind, "at": document["at"], "rows": 0, "state": entry.kind}
        if entry.kind == "reserve":
            name, round_number, kind = json.loads(entry.key)
            costs = document["charge"]["costs"]
            views = ", ".join(str(View.from_json(cost["view"])) for cost in costs)
            line |= {"run": name, "round": round_number, "request": kind, "rows": document["charge"]["rows"]}
            line |= {"what": _in_words(costs[0]["event"]), "for": f"{name}/{round_number}/{kind}: {views}"}
            line["state"] = "answered" if entry.number in answered else "unanswered"
        elif entry.kind == "limit":
            limit = document["limit"]
            promise = "no ε" if limit["epsilon"] is None else f"ε {limit['epsilon']:g}, δ {limit['delta']:g}"
            line |= {"what": f"{promise}, {limit['rows']} rows", "for": str(View.from_json(document["view"]))}
        elif entry.kind == "purge":
            which = [document["run"] or "", f"before {document['before']}" if document["before"] else ""]
            line |= {"run": document["run"], "what": "messages removed", "for": " ".join(filter(None, which))}
        else:
            continue
        if run is None or line.get("run") == run:
            history.append(line)
    return history


def _in_words(event: dict[str, Any]) -> str:
    match event["kind"]:
        case "composition":
            return " + ".join(map(_in_words, event["events"])) or "nothing"
        case "repeated" | "simulated" as kind:
            return f"{kind} {event.get('times', '')} ({_in_words(event['event'])})"
        case "unbounded":
            return str(event["reason"])
        case kind:
            size = next((f" {name} {event[name]:.3g}" for name in _SIZES if name in event), "")
            return f"{kind}{size}"


def _account_document(account: Account) -> dict[str, Any]:
    return {
        "view": account.view.to_json(),
        "limit": account.limit.to_json(),
        "spent": {"epsilon": account.epsilon, "rows": account.rows},
        "basis": str(account.basis),
        "unproven": list(account.unproven),
        "charges": account.charges,
        "unit": account.unit,
        "delta": account.delta,
    }
