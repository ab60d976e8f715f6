"""``likeset owner``: an owner's own side: who may ask, what left, what is left of the budgets."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from likeset.app.cli import owner_setup
from likeset.app.cli.owner_setup import HERE, NodePath, login, opened_node
from likeset.display.screen import (
    JsonFlag,
    complain,
    literal,
    show_json,
    show_notes,
    show_suspicions,
    show_table,
    stdout,
)

if TYPE_CHECKING:
    from likeset.homes.owner.node import OwnerNode
    from likeset.homes.owner.policy import Verdict
    from likeset.protocol.terms import Terms
    from likeset.transports.sites import Standing

__all__ = ["owner"]

_SETTINGS: dict[str, Any] = {"no_args_is_help": True, "rich_markup_mode": "rich"}
owner = typer.Typer(name="owner", help="An owner's own side: policy, approvals, what left, budgets.", **_SETTINGS)
_data = typer.Typer(name="data", help="The data sets of this node.", **_SETTINGS)
_policy = typer.Typer(name="policy", help="What owner.yaml allows.", **_SETTINGS)
_audit = typer.Typer(name="audit", help="The audit log.", **_SETTINGS)
for _part in (_data, _policy, _audit):
    owner.add_typer(_part)

RunName = Annotated[str, typer.Argument(metavar="RUN", help="The run, as the inbox names it.", show_default=False)]
TermsPath = Annotated[Path, typer.Argument(metavar="TERMS", help="Terms as JSON or YAML.", show_default=False)]
By = Annotated[str | None, typer.Option("--by", help="Who decides; by default the name of the login.")]
owner.command()(owner_setup.init)
_data.command()(owner_setup.add)
owner.command()(owner_setup.trust)
owner.command()(owner_setup.check)


@_policy.command(name="test")
def policy_test(
    path: TermsPath,
    *,
    data: Annotated[str, typer.Option(help="The data set to use, if several fit.")] = "",
    node: NodePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """Would a run under these terms be accepted? Every reason against it; exit code 1 if there is one.

    Example: [bold]likeset owner policy test terms.json --node st-mary[/]
    """
    from likeset.homes.term_files import read_terms

    terms = read_terms(path)
    with opened_node(node) as opened:
        found = opened.judge(terms, data=data)
    if as_json:
        show_json({"run": terms.run, "digest": terms.digest, **_verdict(found)})
    else:
        _show_verdict(found)
    if not found.accepted:
        raise typer.Exit(1)


@owner.command()
def inbox(
    *,
    every: Annotated[bool, typer.Option("--all", help="Also runs that were decided about.")] = False,
    add: Annotated[Path | None, typer.Option(help="Put terms that came by another way into the inbox.")] = None,
    node: NodePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """List the runs that wait for a decision; exit code 1 if terms that you add cannot be added.

    Example: [bold]likeset owner inbox --node st-mary[/]
    """
    from likeset.app.cli.owner_rows import run_document, show_runs
    from likeset.homes.owner.review import status_of
    from likeset.homes.term_files import read_terms

    with opened_node(node) as opened:
        added, standing = _added(opened, read_terms(add)) if add else ("", None)
        found = list(opened.runs.by_name.values()) if every else [*opened.waiting(), *opened.unreadable()]
        runs = [run_document(one, status_of(opened, one.run)) for one in found]
    if as_json:
        show_json({"added": standing, **({"reason": added} if add and standing is None else {}), "runs": runs})
    else:
        if add:
            stdout.print(literal(added), soft_wrap=True)
        show_runs(runs)
    if add and standing is None:
        raise typer.Exit(1)


def _added(opened: "OwnerNode", terms: "Terms") -> "tuple[str, Standing | None]":
    """Put terms into the inbox; what happened in words, and where the owner stands if they are there now."""
    from likeset.errors import LikesetError

    try:
        new = opened.add(terms)
    except LikesetError as error:
        return f"not added: {error}", None
    standing = opened.standing(terms.run, terms.digest)
    verb = "" if standing == "abstains" else "is "
    return f"{'added' if new else 'known already'}: this owner {verb}{standing}", standing


@owner.command()
def review(run: RunName, *, node: NodePath = HERE, as_json: JsonFlag = False) -> None:
    """Everything about a run in plain words: who asks, what leaves, what others may learn, what it costs.

    Example: [bold]likeset owner review sepsis-2026-07 --node st-mary[/]
    """
    from likeset.homes.owner.review import review as made

    with opened_node(node) as opened:
        found = made(opened, run)
        opened.note("reviewed", run, digest=found.terms.digest, by=login())
    if as_json:
        show_json(found.document())
        return
    stdout.print(f"[bold]Run {literal(run)}[/]  {literal(found.status)}  [dim]terms {found.terms.digest[:12]}[/]\n")
    for question, answer in found.lines:
        stdout.print(f"[bold]{literal(question)}[/] {literal(answer)}")
    stdout.print()
    show_suspicions(found.suspicions)
    _show_verdict(found.verdict)


@owner.command(name="dry-run")
def dry_run(
    run: RunName,
    *,
    release: Annotated[Path | None, typer.Option(help="A release of the target (.npy or text).")] = None,
    data: Annotated[str, typer.Option(help="The data set to use, if several fit.")] = "",
    show: Annotated[int, typer.Option(min=0, help="How many rows to show.")] = 10,
    out: Annotated[Path | None, typer.Option(help="Write all rows there, as CSV or Parquet.")] = None,
    node: NodePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """Do everything here, send nothing, charge nothing, and show the rows that would leave.

    Exactly those rows would leave for the release that was heard or given. Before one is known, all rows weigh the
    same in its place, and what is shown is an example.

    Example: [bold]likeset owner dry-run sepsis-2026-07 --show 5 --node st-mary[/]
    """
    from likeset.app.cli.owner_rows import row_documents, show_rows, write_rows
    from likeset.homes.owner.rehearsal import read_release, rehearse

    with opened_node(node) as opened:
        terms = opened.record_of(run).latest
        given = read_release(release, terms) if release else None
        found = rehearse(opened, terms, release=given, data=data)
        opened.note("rehearsed", run, digest=terms.digest, by=login(), basis=found.basis)
    if out is not None:
        write_rows(found.rows, out)
    if as_json:
        document = {"run": run, "exact": found.exact, "basis": found.basis, "rows": found.rows.count}
        more = {
            "in_data_set": found.row_count,
            "withheld": found.withheld,
            "too_long": found.too_long,
            "hashed": found.rows.hashed,
        }
        show_json({**document, **more, "shown": row_documents(found.rows, show)})
        return
    words = "[bold]exactly these rows would leave[/]" if found.exact else "[bold yellow]an example[/]"
    stdout.print(f"{words}, for {literal(found.basis)}; nothing was sent or charged", soft_wrap=True)
    withheld = f", {found.withheld:,} of them never offered (small groups)" if found.withheld else ""
    too_long = f", {found.too_long:,} never offered (longer than text_bytes)" if found.too_long else ""
    stdout.print(f"{found.rows.count:,} of {found.row_count:,} rows{withheld}{too_long}", soft_wrap=True)
    show_rows(found.rows, show)


@owner.command()
def approve(
    run: RunName,
    *,
    terms: Annotated[str, typer.Option(help="Digest of the terms, or its beginning; if not reviewed here.")] = "",
    data: Annotated[str, typer.Option(help="The data set to use, if several fit.")] = "",
    hash_seed: Annotated[Path | None, typer.Option(help="File with the seed that owners share, for hashes.")] = None,
    by: By = None,
    node: NodePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """Approve the terms that you reviewed; changed terms need a new approval. Exit code 1 if the policy refuses.

    Example: [bold]likeset owner approve sepsis-2026-07 --by "A. Lovelace" --node st-mary[/]
    """
    from likeset.app.cli.owner_rows import read_seed

    with opened_node(node) as opened:
        digest = _chosen(opened, run, terms)
        seed = read_seed(hash_seed) if hash_seed else None
        found = opened.approve(run, digest, by=by or login(), data=data, hash_seed=seed)
    if as_json:
        show_json({"run": run, "digest": digest, "approved": found.accepted, **_verdict(found)})
    elif found.accepted:
        stdout.print(f"[bold green]approved[/]  {literal(run)}, terms {digest[:12]}")
    else:
        _show_verdict(found)
    if not found.accepted:
        raise typer.Exit(1)


@owner.command()
def deny(
    run: RunName,
    *,
    reason: Annotated[str, typer.Option(help="Why; stays here.", show_default=False)],
    by: By = None,
    node: NodePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """Deny a run. The other side hears only that you do not take part.

    Example: [bold]likeset owner deny sepsis-2026-07 --reason "no contract yet" --node st-mary[/]
    """
    with opened_node(node) as opened:
        opened.deny(run, by=by or login(), reason=reason)
    show_json({"run": run, "denied": True}) if as_json else stdout.print(f"[bold]denied[/]  {literal(run)}")


@owner.command()
def withdraw(run: RunName, *, by: By = None, node: NodePath = HERE, as_json: JsonFlag = False) -> None:
    """From now on answer no message of this run. What left has left, and stays charged.

    Example: [bold]likeset owner withdraw sepsis-2026-07 --node st-mary[/]
    """
    with opened_node(node) as opened:
        opened.withdraw(run, by=by or login())
    show_json({"run": run, "withdrawn": True}) if as_json else stdout.print(f"[bold]withdrawn[/]  {literal(run)}")


@owner.command()
def outbox(
    run: Annotated[str | None, typer.Argument(metavar="[RUN]", help="Of this run only.", show_default=False)] = None,
    *,
    rows: Annotated[bool, typer.Option("--rows", help="Show the rows, too.")] = False,
    save: Annotated[Path | None, typer.Option(help="Write the literal bytes into this directory.")] = None,
    node: NodePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """What left: the literal bytes by run, the rows in them, and whether the curator acknowledged them.

    Example: [bold]likeset owner outbox sepsis-2026-07 --rows --node st-mary[/]
    """
    from likeset.app.cli.owner_rows import left_document, row_documents, save_messages, show_rows
    from likeset.homes.owner.kept_receipts import acknowledged_messages
    from likeset.homes.owner.outbox import left, rows_that_left

    with opened_node(node) as opened:
        if run is not None:
            opened.record_of(run)
        found = left(opened, run)
        runs = list(dict.fromkeys(one.run for one in found))
        tables = {name: rows_that_left(opened, name) for name in runs} if rows else {}
        known = {digest: word for name in runs for digest, word in acknowledged_messages(opened, name).items()}
    if save is not None:
        save_messages(found, save)
    documents = [left_document(one, known) for one in found]
    if as_json:
        shown = {name: row_documents(one, one.count) for name, one in tables.items()}
        show_json({"messages": documents, **({"rows": shown} if rows else {})})
        return
    lines = [
        [
            one.run,
            one.at[:16].replace("T", " "),
            str(one.round),
            f"{one.kind} (of an older format)" if one.older else one.kind,
            str(one.rows),
            f"{len(one.data):,}",
            "yes" if one.sent else "held back",
            document["acknowledged"],
        ]
        for one, document in zip(found, documents, strict=True)
    ]
    show_table("What left", ["run", "when (UTC)", "round", "message", "rows", "bytes", "sent", "receipt"], lines)
    for name, table in tables.items():
        held = f"; {table.held_back:,} more were held back, and did not leave" if table.held_back else ""
        older = f"; {table.older:,} more left in an older format, and cannot be shown" if table.older else ""
        stdout.print(f"\n[bold]{literal(name)}[/]: {table.count:,} rows{older}{held}")
        show_rows(table, table.count)


@owner.command()
def budget(
    *,
    terms: Annotated[Path | None, typer.Option("--for", help="What a run under these terms would cost.")] = None,
    node: NodePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """Both budgets over all runs, with their history; with [bold]--for[/], what a run would leave of them.

    Example: [bold]likeset owner budget --for terms.json --node st-mary[/]
    """
    from likeset.app.cli.owner_rows import spent_document
    from likeset.homes.owner.budgets import accounts_for, spent_by_run
    from likeset.homes.owner.review import budget_document, budget_lines
    from likeset.homes.term_files import read_terms

    with opened_node(node) as opened:
        policy, accounts = opened.policy, opened.ledger.accounts()
        spent = spent_by_run(opened.ledger)
        after = accounts_for(opened.ledger, read_terms(terms), opened.name) if terms else None
    limits = [(one, "rows to curators" if one.epsilon is None else "epsilon to owners") for one in accounts]
    if as_json:
        both = {
            "rows": {"spent": sum(one.rows for one in accounts), "limit": policy.total.rows},
            "epsilon": {
                "spent": sum(one.epsilon or 0.0 for one in accounts),
                "limit": policy.total.epsilon,
                "delta": policy.total.delta,
            },
        }
        history = [spent_document(one) for one in spent]
        show_json({**both, "history": history, "for": None if after is None else budget_document(after)})
        return
    lines = []
    for one, what in limits:
        if one.epsilon is None:
            lines.append([what, f"{one.rows:,}", f"{one.limit.rows:,}", f"{max(0, one.limit.rows - one.rows):,}"])
        else:
            most = one.limit.epsilon or 0.0
            lines.append([what, f"{one.epsilon:.4g}", f"{most:.4g}", f"{max(0.0, most - one.epsilon):.4g}"])
    show_table("Budgets over all runs", ["what", "spent", "limit", "left"], lines)
    history_lines = [
        [one.run, one.at[:19], one.toward, str(one.rows), "yes" if one.answered else "no"] for one in spent
    ]
    show_table("History", ["run", "when (UTC)", "toward", "rows", "answered"], history_lines)
    for question, answer in budget_lines(policy, after) if after else []:
        stdout.print(f"[bold]{literal(question)}[/] {literal(answer)}")


@_audit.command()
def verify(
    *,
    head: Annotated[str | None, typer.Option(help="A head kept elsewhere, NUMBER:HASH.")] = None,
    node: NodePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """Check that audit log, ledger and receipts are whole, and agree with what left.

    Exit code 1 if they are not: something in this directory changed. Where the curator signed what contradicts the
    node, that is noted, and the exit code is 0; [bold]likeset transcript verify[/] ends with 1 there.

    The chain has no key: keep the head that this prints where nobody who can write the directory can write.

    Example: [bold]likeset owner audit verify --node st-mary[/]
    """
    from likeset.homes.owner.outbox import verify as checked
    from likeset.ledger import Head

    with opened_node(node) as opened:
        problems, notes = checked(opened, head=None if head is None else Head.parse(head))
        last, _ = opened.log.verify()
    if as_json:
        found = [{"entry": one.number, "what": one.what} for one in problems]
        show_json({"ok": not problems, "head": str(last), "problems": found, "notes": notes})
    elif problems:
        for one in problems:
            complain(str(one))
        stdout.print("[bold red]does not hold[/]")
    else:
        stdout.print(f"[bold green]holds[/]  {last.number} entries", soft_wrap=True)
        stdout.print(f"head {last}", soft_wrap=True)
        show_notes(notes)
    if problems:
        raise typer.Exit(1)


def _chosen(opened: "OwnerNode", run: str, given: str) -> str:
    """The digest that is approved: the one named, or the one that was reviewed, if no other came since."""
    from likeset.errors import InvalidArgument

    record = opened.record_of(run)
    latest = record.latest.digest
    if given:
        matching = [digest for digest in record.versions if digest.startswith(given.lower())]
        if len(given) < 8 or len(matching) != 1:
            raise InvalidArgument(
                "--terms", given, "must be the digest of terms of this run, or at least 8 digits of it"
            )
        return matching[0]
    if record.reviewed != latest:
        changed = "the terms changed after the last review" if record.reviewed else "nobody has looked at it"
        raise InvalidArgument("RUN", run, f"{changed}; look at it with `likeset owner review` first")
    return latest


def _verdict(found: "Verdict") -> dict[str, Any]:
    return {"accepted": found.accepted, "reasons": list(found.reasons)}


def _show_verdict(found: "Verdict") -> None:
    if found.accepted:
        stdout.print("[bold green]owner.yaml allows it[/]")
        return
    stdout.print("[bold red]owner.yaml refuses it[/]")
    for reason in found.reasons:
        stdout.print(f"- {literal(reason)}", soft_wrap=True)
