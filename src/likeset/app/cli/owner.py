"""``likeset owner``: an owner's own side: who may ask, what left, what is left of the budgets."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import pyarrow.csv
import pyarrow.parquet
import typer
from rich.table import Table

from likeset.app.cli.party import (
    ConsoleFlag,
    ConsoleListenOption,
    EveryOption,
    LinkFlag,
    MailboxOption,
    OpenFlag,
    PortOption,
    PublicOption,
    addresses_to_use,
    login,
    needing_console,
    nobody_known,
    serve_and_show,
    serve_console,
    show_link,
    sync_and_show,
    tell_console,
)
from likeset.display import (
    MOST_IN_A_CELL,
    JsonFlag,
    complain,
    emit,
    literal,
    make_directory,
    show_json,
    show_notes,
    show_suspicions,
    show_table,
    stdout,
)
from likeset.errors import HomeRestored, InvalidArgument, LikesetError
from likeset.files import keep_private, keep_private_bytes
from likeset.homes import owner_node
from likeset.homes.home import Standing
from likeset.homes.mail import Invitation, read_invitation, read_terms
from likeset.homes.owner_node import Home, OwnerNode, accounts_for, make_home, written_policy
from likeset.homes.pinning import note_own_card
from likeset.homes.policy import Policy, Verdict
from likeset.homes.review import (
    InboxRun,
    LeftMessage,
    LeftRows,
    LeftRun,
    budget_document,
    budget_lines,
    budget_overview,
    checkup,
    find_row,
    handle_in,
    inbox_records,
    inbox_run,
    left_records,
    left_run,
    listed_data,
    log_page,
    look_at_data,
    messages_with_receipts,
    read_release,
    register,
    rehearse,
    rows_that_left,
)
from likeset.homes.review import remove as remove_data
from likeset.homes.review import review as reviewed
from likeset.homes.review import verify as verify_records
from likeset.ledger.ledger import Head
from likeset.tables.profile import documents_of
from likeset.text import without_secrets
from likeset.transports.desks import owner_desk
from likeset.transports.posts import Desk
from likeset.transports.sync import desks_at

NodePath = Annotated[
    Path, typer.Option("--node", envvar="LIKESET_NODE", help="The node's directory; by default the current one.")
]
HERE = Path()


def opened_node(folder: Path) -> OwnerNode:
    """The node in a directory."""
    return OwnerNode(folder)


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new directory.", show_default=False)],
    *,
    name: Annotated[str, typer.Option(help="The owner's name, as it stands in terms.", show_default=False)],
    as_json: JsonFlag = False,
) -> None:
    """Make a node. It allows nothing until owner.yaml says so.

    The directory holds everything, the sampling key among it: back it up, and let nobody else read it.

    Example: `likeset owner init st-mary --name st-mary`
    """
    home = make_home(folder, name=name)
    with opened_node(folder) as opened:
        opened.put_policy_in_force()  # the first one goes into the audit log
        note_own_card(opened, by=login())
    if as_json:
        show_json({"node": str(folder), "name": name, "policy": str(home.policy), "card": home.card().fingerprint})
        return
    stdout.print(f"[bold green]made[/]  {literal(str(folder))}", soft_wrap=True)
    stdout.print(f"its card, for others to pin: {literal(str(home.card_file))} (likeset card show)", soft_wrap=True)
    stdout.print(f"next: fill in {literal(str(home.policy))}, then likeset owner data add", soft_wrap=True)
    stdout.print(f"or in a browser: likeset owner console --node {literal(str(folder))}", soft_wrap=True)


def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What you call it.", show_default=False)],
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A file, database or query.", show_default=False)],
    *,
    schema: Annotated[Path, typer.Option(help="The schema that declares its columns.", show_default=False)],
    mapping: Annotated[Path | None, typer.Option(help="SQL that turns own columns into declared ones.")] = None,
    node: NodePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """Register a data set. Its rows stay where they are; schema and mapping are copied.

    Example: `likeset owner data add patients patients.csv --schema schema.yaml --mapping mapping.yaml`
    """
    with opened_node(node) as opened:
        data = register(opened, name, source, schema=schema, mapping=mapping)
    shown, digest = without_secrets(data.source), data.schema.digest
    if as_json:
        document = {"data": name, "source": shown, "schema": digest, "columns": list(data.schema.record_columns)}
        dead = documents_of(data.dead_columns)
        show_json({**document, "suspected_identifiers": documents_of(data.suspicions), "dead_columns": dead})
    else:
        stdout.print(f"[bold green]added[/]  {literal(name)}: {literal(shown)}", soft_wrap=True)
        show_suspicions(data.suspicions)
        show_notes(column.warning for column in data.dead_columns)


def check(
    *,
    node: NodePath = HERE,
    kit: Annotated[Path | None, typer.Option(help="NVFlare start-up kit whose certificates to look at.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Look at everything before the first run: policy, data, disk, certificates, clock. Exit code 1 if anything fails.

    Example: `likeset owner check --node st-mary`
    """
    certificates = tuple(sorted((kit / "startup").glob("*.crt"))) if kit else ()
    with opened_node(node) as opened:
        findings = checkup(opened, certificates=certificates)
    ok = all(finding.ok for finding in findings)
    if as_json:
        suspected = documents_of(finding.suspicion for finding in findings if finding.suspicion is not None)
        documents = [{"what": finding.what, "ok": finding.ok, "words": finding.words} for finding in findings]
        dead = documents_of(finding.dead for finding in findings if finding.dead is not None)
        show_json({"ok": ok, "findings": documents, "suspected_identifiers": suspected, "dead_columns": dead})
    else:
        table = Table(show_header=False, box=None)
        for finding in findings:
            mark = "[yellow]warning[/]" if finding.is_warning else "[green]ok[/]"
            table.add_row(mark if finding.ok else "[bold red]no[/]", literal(finding.what), literal(finding.words))
        stdout.print(table)
        stdout.print("[bold green]ready[/]" if ok else "[bold red]not ready[/]")
    if not ok:
        raise typer.Exit(1)


def of_owner(
    *,
    port: PortOption = 0,
    listen: ConsoleListenOption = "127.0.0.1",
    public: PublicOption = "",
    link: LinkFlag = False,
    open_it: OpenFlag = False,
    node: NodePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """Everything that a steward does, in a browser: inbox, review, decisions, budgets, data sets, log, rules.

    It listens on this machine alone, and prints a link that signs in once. SIGTERM and Ctrl-C end it, with exit code 0.

    Example: `likeset owner console --node st-mary`
    """
    with needing_console():
        from likeset.app.console import owner, server
    if link:
        show_link(server.new_link(node), as_json=as_json)
        return
    where = server.Listen(listen, port, public.rstrip("/"))
    serve_console(owner.owner_console(node, where), open_it=open_it, as_json=as_json)


@contextmanager
def console_beside(node: Path, *, port: int, wanted: bool, as_json: bool) -> "Iterator[None]":
    """A steward's console while something else goes on."""
    if not wanted:
        yield
        return
    with needing_console():
        from likeset.app.console import owner, server
    with owner.owner_console(node, server.Listen(port=port)) as started:
        if not as_json:
            tell_console(started)
        yield


def list_data(*, node: NodePath = HERE, as_json: JsonFlag = False) -> None:
    """List the data sets: where their rows lie, what leaves with a record, which runs use them. No row is read.

    Example: `likeset owner data list --node st-mary`
    """
    with opened_node(node) as opened:
        listed = listed_data(opened)
    if as_json:
        show_json({"data": [data.document() for data in listed]})
        return
    if not listed:
        stdout.print("There are no data sets; add one with likeset owner data add.")
        return
    rows = [
        [data.name, data.source, ", ".join(name for name, _ in data.columns), str(len(data.used_by))] for data in listed
    ]
    show_table("Data sets", ["name", "source", "columns", "runs that use it"], rows)
    show_suspicions(suspicion for data in listed for suspicion in data.suspicions)


def check_data(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The data set.", show_default=False)],
    *,
    node: NodePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """Read every row of a data set: what is not as declared, small groups, columns that may identify people.

    Exit code 1 if something is not in order. Nothing leaves; the values of small groups are shown here alone.

    Example: `likeset owner data check patients --node st-mary`
    """
    with opened_node(node) as opened:
        look = look_at_data(opened, name)
    if as_json:
        show_json(look.document())
    else:
        marks = [
            ("warning" if finding.is_warning else "ok" if finding.ok else "no", finding.words)
            for finding in look.findings
        ]
        show_table(f"Data set {name}", ["in order", "words"], [list(mark) for mark in marks])
        if look.groups:
            groups = [[group.column, group.value, f"{group.rows:,}"] for group in look.groups]
            show_table(f"Groups of fewer than {look.smallest} rows: never offered", ["column", "value", "rows"], groups)
    if not look.ok:
        raise typer.Exit(1)


def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The data set.", show_default=False)],
    *,
    by: Annotated[str | None, typer.Option("--by", help="Who removes it; by default the name of the login.")] = None,
    node: NodePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """Forget a data set that no run uses any more. Its rows stay where they are; what left has left.

    Example: `likeset owner data remove patients --node st-mary`
    """
    with opened_node(node) as opened:
        remove_data(opened, name, by=by or login())
    emit({"data": name, "removed": True}, as_json=as_json)


def show(*, node: NodePath = HERE, as_json: JsonFlag = False) -> None:
    """What owner.yaml says now, as its file has it.

    Example: `likeset owner policy show --node st-mary`
    """
    with opened_node(node) as opened:
        written = written_policy(opened)
    if as_json:
        show_json({"policy": written.policy.model_dump(mode="json"), "text": written.text, "mark": written.mark})
        return
    for line in written.text.splitlines():
        stdout.print(literal(line), soft_wrap=True)


def put(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The new owner.yaml.", show_default=False)],
    *,
    check: Annotated[bool, typer.Option("--check", help="Only say what would change.")] = False,
    by: Annotated[str | None, typer.Option("--by", help="Who changes it; by default the name of the login.")] = None,
    node: NodePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """Put a new owner.yaml in force: checked first, and in the audit log before it counts.

    Example: `likeset owner policy put new-owner.yaml --check --node st-mary`
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument("FILE", file, "cannot be read as UTF-8 text") from error
    with opened_node(node) as opened:
        draft = owner_node.draft_of(opened, text) if check else owner_node.put(opened, text, by=by or login())
    changes = [{"field": field, "before": before, "after": after} for field, before, after in draft.changes]
    emit({"in_force": not check, "changes": changes}, as_json=as_json)


def row(
    handle: Annotated[str, typer.Argument(metavar="HANDLE", help="As its buyer has it.", show_default=False)],
    *,
    run: Annotated[str | None, typer.Option(help="The run in which it left, if you know it.")] = None,
    node: NodePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """Find the row that left under a handle: which data set, where it lies there, and what its buyer has of it.

    Each record that a consumer buys holds its owner's handle, in the column likeset_handle: a number that tells nobody
    but the owner anything. A buyer who finds a mistake in a record can name it by this number.

    Example: `likeset owner row 11923834061248102733 --run sepsis-2026-07 --node st-mary`
    """
    wanted = handle_in(handle)
    with opened_node(node) as opened:
        found = find_row(opened, wanted, run=run)
    record = {name: _plain(value) for name, value in found.record.items()}
    whose = {found.id_column: _plain(found.id_value)} if found.id_column else {}
    if as_json:
        named = {"handle": found.handle, "run": found.run, "consumer": found.consumer, "data": found.data}
        where = {"source": found.source, "place": found.place, "number": found.number}
        show_json({**named, **where, "unchanged": found.is_checked or None, "id": whose, "record": record})
        return
    words = f"{found.data}: {found.source}, {found.place}"
    stdout.print(f"[bold green]found[/]  {literal(words)}", soft_wrap=True)
    asked = f"left in run {found.run}, which {found.consumer} asked for"
    stdout.print(literal(asked), soft_wrap=True)
    lines = [[name, str(value), "no: it stays here"] for name, value in whose.items()]
    lines += [[name, str(value), "yes"] for name, value in record.items()]
    show_table("Row", ["column", "value", "its buyer has it"], lines)
    if not found.is_checked:
        show_notes(["messages of this run were purged: whether the data set is what it was then cannot be told"])


def show_rows(rows: LeftRows, most: int) -> None:
    """A table of the first rows."""
    if rows.table is None:
        if rows.count:
            stdout.print("[dim]they cannot be shown[/]")
        return
    table = Table()
    for name in rows.table.column_names:
        table.add_column(literal(name), overflow="fold")
    for row in row_documents(rows, most):
        table.add_row(*(literal(str(value), most=MOST_IN_A_CELL) for value in row.values()))
    stdout.print(table)


def row_documents(rows: LeftRows, most: int) -> list[dict[str, Any]]:
    """The first rows as plain data."""
    if rows.table is None:
        return []
    return [{name: _plain(value) for name, value in row.items()} for row in rows.table.slice(0, most).to_pylist()]


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | bool | int | list):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value)


def write_rows(rows: LeftRows, out: Path) -> None:
    """All rows into a new file, as CSV or Parquet."""
    if rows.table is None:
        raise InvalidArgument("--out", out, "these rows cannot be shown; there is nothing to write")
    writers = {".parquet": pyarrow.parquet.write_table, ".csv": pyarrow.csv.write_csv}
    if out.suffix not in writers:
        raise InvalidArgument("--out", out, "must end in .csv or .parquet")
    if out.exists():
        raise InvalidArgument("--out", out, "is there already; nothing is overwritten")
    try:
        keep_private(out, lambda path: writers[out.suffix](rows.table, path))
    except OSError as error:
        raise InvalidArgument("--out", out, f"cannot be written: {error.strerror}") from error


def show_runs(runs: Sequence[InboxRun], *, every: bool) -> None:
    """A table of runs; ``every`` if not only those that wait."""
    if not runs:
        stdout.print("No run came yet." if every else "No run waits for a decision; --all shows the others.")
        return
    rows = []
    for run in runs:
        asked = "" if run.rows is None else str(run.rows)
        who = f"{run.consumer} ({run.consumer_card})"
        rows.append((run.run, who, run.purpose or "", asked, run.came[:16].replace("T", " "), run.status))
    show_table("Runs", ["run", "who asks", "what for", "rows", "came (UTC)", "status"], rows)


def save_messages(messages: list[LeftMessage], folder: Path) -> None:
    """The literal bytes, one file each."""
    make_directory(folder)
    for message in messages:
        try:
            keep_private_bytes(folder / message.file_name, message.data)
        except OSError as error:
            raise InvalidArgument("--save", folder, f"cannot be written: {error.strerror}") from error


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
    emit({"run": run, "denied": True}, as_json=as_json)


def withdraw(run: RunName, *, by: By = None, node: NodePath = HERE, as_json: JsonFlag = False) -> None:
    """From now on answer no message of this run. What left has left, and stays charged.

    Example: `likeset owner withdraw sepsis-2026-07 --node st-mary`
    """
    with opened_node(node) as opened:
        opened.withdraw(run, by=by or login())
    emit({"run": run, "withdrawn": True}, as_json=as_json)


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


def sync(*, mailbox: MailboxOption = None, node: NodePath = HERE, as_json: JsonFlag = False) -> None:
    """Look into the mailboxes once: take what came, send what is due. Exit code 1 if one cannot be used now.

    Without --mailbox those that owner.yaml names. Terms that come wait in the inbox for a decision, as always; what was
    decided goes out with the next look. Made for cron.

    Example: `likeset owner sync --mailbox file:///mnt/share --node st-mary`
    """
    with _desks(node, mailbox) as desks:
        sync_and_show(desks, as_json=as_json, notes=nobody_known(node))


def serve(
    *,
    mailbox: MailboxOption = None,
    every: EveryOption = 60.0,
    console: ConsoleFlag = False,
    port: PortOption = 0,
    node: NodePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """Stay, and look into the mailboxes again and again, with pauses that grow while nothing comes.

    SIGTERM and Ctrl-C end it between two letters, with exit code 0. A mailbox that is away is tried again. With
    --console, a steward decides in a browser meanwhile; --port is the console's.

    Example: `likeset owner serve --mailbox file:///mnt/share --node st-mary`
    """
    with (
        _desks(node, mailbox) as desks,
        console_beside(node, port=port, wanted=console, as_json=as_json),
    ):
        serve_and_show(desks, every=every, as_json=as_json, notes=nobody_known(node))


@contextmanager
def _desks(node: Path, given: list[str] | None) -> Iterator[list[Desk]]:
    home = Home(node)
    home.check()
    addresses = addresses_to_use(given, Policy.load(home.policy).mailboxes, file="owner.yaml")
    with desks_at(addresses, lambda store: owner_desk(node, store)) as desks:
        yield desks


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
    document = {"entries": [line.document() for line in page.lines], "newest": page.newest, "older": page.older}
    emit(document, as_json=as_json)


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
        problems, notes = verify_records(opened, head=None if head is None else Head.parse(head))
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


_SETTINGS: dict[str, Any] = {"no_args_is_help": True, "rich_markup_mode": "markdown"}
owner = typer.Typer(name="owner", **_SETTINGS)
_data = typer.Typer(name="data", help="The data sets of this node.", **_SETTINGS)
_policy = typer.Typer(name="policy", help="What owner.yaml allows.", **_SETTINGS)
_audit = typer.Typer(name="audit", help="The audit log.", **_SETTINGS)
for _part in (_data, _policy, _audit):
    owner.add_typer(_part)

owner.command()(init)
_data.command()(add)
_data.command(name="list")(list_data)
_data.command(name="check")(check_data)
_data.command()(remove)
owner.command()(check)
_policy.command()(show)
_policy.command()(put)
_policy.command(name="test")(policy_test)
owner.command()(inbox)
owner.command()(review)
owner.command(name="dry-run")(dry_run)
owner.command()(approve)
owner.command()(deny)
owner.command()(withdraw)
owner.command()(sync)
owner.command()(serve)
owner.command(name="console")(of_owner)
owner.command()(outbox)
owner.command()(row)
owner.command()(budget)
_audit.command(name="list")(list_entries)
_audit.command()(verify)
