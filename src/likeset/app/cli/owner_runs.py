"""``likeset owner inbox``, ``review``, ``dry-run``, ``approve``, ``deny`` and ``withdraw``: deciding about runs."""

from pathlib import Path
from typing import Annotated, Any

import typer

from likeset.app.cli.owner_rows import row_documents, show_rows, show_runs, write_rows
from likeset.app.cli.owner_setup import HERE, NodePath, login, opened_node
from likeset.display.screen import JsonFlag, complain, literal, show_json, show_suspicions, stdout
from likeset.errors import HomeRestored, InvalidArgument, LikesetError
from likeset.homes.home import Standing
from likeset.homes.mail import Invitation, read_invitation, read_terms
from likeset.homes.owner_node import OwnerNode
from likeset.homes.policy import Verdict
from likeset.homes.review import inbox_records, inbox_run, read_release, rehearse
from likeset.homes.review import review as reviewed

__all__ = ["approve", "deny", "dry_run", "inbox", "policy_test", "review", "withdraw"]

RunName = Annotated[str, typer.Argument(metavar="RUN", help="The run, as the inbox names it.", show_default=False)]
TermsPath = Annotated[
    Path, typer.Argument(metavar="TERMS", help="An invitation, or terms as JSON or YAML.", show_default=False)
]
By = Annotated[str | None, typer.Option("--by", help="Who decides; by default the name of the login.")]
DataName = Annotated[str, typer.Option(help="The data set to use, if several fit.")]


def policy_test(
    path: TermsPath,
    *,
    data: DataName = "",
    node: NodePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """Would a run under these terms be accepted? Every reason against it; exit code 1 if there is one.

    Example: `likeset owner policy test sepsis.invitation --node st-mary`
    """
    terms = read_terms(path)
    with opened_node(node) as opened:
        verdict = opened.judge(terms, data=data)
    if as_json:
        show_json({"run": terms.run, "digest": terms.digest, **_verdict_document(verdict)})
    else:
        _show_verdict(verdict)
    if not verdict.accepted:
        raise typer.Exit(1)


def inbox(
    *,
    every: Annotated[bool, typer.Option("--all", help="Also runs that were decided about.")] = False,
    add: Annotated[Path | None, typer.Option(help="Put a signed invitation that came by another way there.")] = None,
    node: NodePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """List the runs that wait for a decision, and who asks, by their cards.

    Exit code 1 if an invitation that you add cannot be added, or this node was put back from an old copy.

    Example: `likeset owner inbox --node st-mary`
    """
    with opened_node(node) as opened:
        stopped = _stopped(opened)
        added, standing = _added(opened, read_invitation(add)) if add else ("", None)
        runs = [inbox_run(opened, record) for record in inbox_records(opened, every=every)]
    if as_json:
        reason = {"reason": added} if add and standing is None else {}
        show_json({"added": standing, **reason, "stopped": stopped or None, "runs": [run.document() for run in runs]})
    else:
        if stopped:
            complain(stopped)
        if add:
            stdout.print(literal(added), soft_wrap=True)
        show_runs(runs, every=every)
    if stopped or (add and standing is None):
        raise typer.Exit(1)


def _stopped(opened: OwnerNode) -> str:
    """Why this node does nothing any more; empty if it does."""
    try:
        opened.check_running()
    except HomeRestored as error:
        return str(error)
    return ""


def _added(opened: OwnerNode, invitation: Invitation) -> tuple[str, Standing | None]:
    """Put an invitation into the inbox; what happened in words, and where the owner stands if it is there now."""
    terms = invitation.terms
    try:
        new = opened.add_invitation(invitation)
    except LikesetError as error:
        return f"not added: {error}", None
    standing = opened.standing(terms.run, terms.digest)
    verb = "" if standing == "abstains" else "is "
    return f"{'added' if new else 'known already'}: this owner {verb}{standing}", standing


def review(run: RunName, *, node: NodePath = HERE, as_json: JsonFlag = False) -> None:
    """Everything about a run in plain words: who asks, what leaves, what others may learn, what it costs.

    Example: `likeset owner review sepsis-2026-07 --node st-mary`
    """
    with opened_node(node) as opened:
        stopped = _stopped(opened)
        answers = reviewed(opened, run)
        if not stopped:
            opened.note("reviewed", run, digest=answers.terms.digest, by=login())
    if as_json:
        show_json({**answers.document(), "stopped": stopped or None})
        return
    if stopped:
        complain(stopped)
    stdout.print(f"[bold]Run {literal(run)}[/]  {literal(answers.status)}  [dim]terms {answers.terms.digest[:12]}[/]\n")
    for question, answer in answers.lines:
        stdout.print(f"[bold]{literal(question)}[/] {literal(answer)}")
    stdout.print()
    show_suspicions(answers.suspicions)
    _show_verdict(answers.verdict)


def dry_run(
    run: RunName,
    *,
    release: Annotated[Path | None, typer.Option(help="A release of the target (.npy or text).")] = None,
    data: DataName = "",
    show: Annotated[int, typer.Option(min=0, help="How many rows to show.")] = 10,
    out: Annotated[Path | None, typer.Option(help="Write all rows there, as CSV or Parquet.")] = None,
    node: NodePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """Do everything here, send nothing, charge nothing, and show the rows that would leave.

    Exactly those rows would leave for the release that was heard or given. Before one is known, all rows weigh the
    same in its place, and what is shown is an example.

    Example: `likeset owner dry-run sepsis-2026-07 --show 5 --node st-mary`
    """
    with opened_node(node) as opened:
        terms = opened.record_of(run).latest
        given = read_release(release, terms) if release else None
        trial = rehearse(opened, terms, release=given, data=data)
        opened.note("rehearsed", run, digest=terms.digest, by=login(), basis=trial.basis)
    if out is not None:
        write_rows(trial.rows, out)
    if as_json:
        document = {"run": run, "exact": trial.exact, "basis": trial.basis, "rows": trial.rows.count}
        more = {
            "in_data_set": trial.row_count,
            "withheld": trial.withheld,
            "too_long": trial.too_long,
        }
        show_json({**document, **more, "shown": row_documents(trial.rows, show)})
        return
    words = "[bold]exactly these rows would leave[/]" if trial.exact else "[bold yellow]an example[/]"
    stdout.print(f"{words}, for {literal(trial.basis)}; nothing was sent or charged", soft_wrap=True)
    withheld = f", {trial.withheld:,} of them never offered (small groups)" if trial.withheld else ""
    too_long = f", {trial.too_long:,} never offered (longer than text_bytes)" if trial.too_long else ""
    stdout.print(f"{trial.rows.count:,} of {trial.row_count:,} rows{withheld}{too_long}", soft_wrap=True)
    show_rows(trial.rows, show)


def approve(
    run: RunName,
    *,
    terms: Annotated[str, typer.Option(help="Digest of the terms, or its beginning; if not reviewed here.")] = "",
    data: DataName = "",
    by: By = None,
    node: NodePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """Approve the terms that you reviewed; changed terms need a new approval. Exit code 1 if the policy refuses.

    Example: `likeset owner approve sepsis-2026-07 --by "A. Lovelace" --node st-mary`
    """
    with opened_node(node) as opened:
        digest = _digest_to_approve(opened, run, terms)
        verdict = opened.approve(run, digest, by=by or login(), data=data)
    if as_json:
        show_json({"run": run, "digest": digest, "approved": verdict.accepted, **_verdict_document(verdict)})
    elif verdict.accepted:
        stdout.print(f"[bold green]approved[/]  {literal(run)}, terms {digest[:12]}")
    else:
        _show_verdict(verdict)
    if not verdict.accepted:
        raise typer.Exit(1)


def deny(
    run: RunName,
    *,
    reason: Annotated[str, typer.Option(help="Why; stays here.", show_default=False)],
    by: By = None,
    node: NodePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """Deny a run. The other side hears only that you do not take part.

    Example: `likeset owner deny sepsis-2026-07 --reason "no contract yet" --node st-mary`
    """
    with opened_node(node) as opened:
        opened.deny(run, by=by or login(), reason=reason)
    show_json({"run": run, "denied": True}) if as_json else stdout.print(f"[bold]denied[/]  {literal(run)}")


def withdraw(run: RunName, *, by: By = None, node: NodePath = HERE, as_json: JsonFlag = False) -> None:
    """From now on answer no message of this run. What left has left, and stays charged.

    Example: `likeset owner withdraw sepsis-2026-07 --node st-mary`
    """
    with opened_node(node) as opened:
        opened.withdraw(run, by=by or login())
    show_json({"run": run, "withdrawn": True}) if as_json else stdout.print(f"[bold]withdrawn[/]  {literal(run)}")


def _digest_to_approve(opened: OwnerNode, run: str, given: str) -> str:
    """The digest that is approved: the one named, or the one that was reviewed, if no other came since."""
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


def _verdict_document(verdict: Verdict) -> dict[str, Any]:
    return {"accepted": verdict.accepted, "reasons": list(verdict.reasons)}


def _show_verdict(verdict: Verdict) -> None:
    if verdict.accepted:
        stdout.print("[bold green]owner.yaml allows it[/]")
        return
    stdout.print("[bold red]owner.yaml refuses it[/]")
    for reason in verdict.reasons:
        stdout.print(f"- {literal(reason)}", soft_wrap=True)
