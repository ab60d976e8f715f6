"""``likeset owner``: an owner's own side: who may ask, what left, what is left of the budgets."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from likeset.app.cli.party import (
    HERE,
    NOUN,
    EveryOption,
    LinkFlag,
    MailboxOption,
    NewFolder,
    OpenFlag,
    PortOption,
    addresses_to_use,
    at_home,
    findings_document,
    login,
    needing_console,
    no_pins_note,
    serve_and_show,
    serve_console,
    sync_and_show,
)
from likeset.app.lazy import lazy_imports
from likeset.display import JsonFlag, complain, emit, literal, make_directory, show_document, show_suspicions, stdout
from likeset.errors import HomeRestored, InvalidArgument, LikesetError
from likeset.files import keep_private, keep_private_bytes
from likeset.text import harmless, without_secrets

with lazy_imports():
    from likeset.app.cli import ledger as ledger_commands
    from likeset.homes import mail, owner_node, pinning, policy, review
    from likeset.ledger import ledger as ledgers
    from likeset.tables import profile
    from likeset.transports import desks
    from likeset.transports import sync as mailboxes

if TYPE_CHECKING:
    from likeset.homes.home import Standing
    from likeset.transports.posts import Desk

owner = typer.Typer(name="owner", **NOUN)
data_noun = typer.Typer(name="data", help="The data sets of this node.", **NOUN)
policy_noun = typer.Typer(name="policy", help="What owner.yaml allows.", **NOUN)
audit_noun = typer.Typer(name="audit", help="The audit log.", **NOUN)
for _part in (data_noun, policy_noun, audit_noun):
    owner.add_typer(_part)

NodePath = Annotated[
    Path, typer.Option("--node", envvar="LIKESET_NODE", help="The node's directory; by default the current one.")
]
DataSet = Annotated[str, typer.Argument(metavar="NAME", help="The data set.", show_default=False)]
RunName = Annotated[str, typer.Argument(metavar="RUN", help="The run, as the inbox names it.", show_default=False)]
TermsPath = Annotated[
    Path, typer.Argument(metavar="TERMS", help="An invitation, or terms as JSON or YAML.", show_default=False)
]
By = Annotated[str | None, typer.Option("--by", help="Who does it; by default the name of the login.")]
DataName = Annotated[str, typer.Option(help="The data set to use, if several fit.")]


def opened_node(folder: Path) -> "owner_node.OwnerNode":
    return owner_node.OwnerNode(folder)


def at_node(node: Path, *command: str) -> tuple[str, ...]:
    return at_home(node, "likeset", *command, option="--node")


@owner.command()
def init(
    folder: NewFolder,
    *,
    name: Annotated[str, typer.Option(help="The owner's name, as it stands in terms.", show_default=False)],
    as_json: JsonFlag = False,
) -> None:
    """Create a node. It allows nothing until owner.yaml is filled in.

    The directory contains everything, including the sampling key: back it up, and let nobody else read it.

    Example: `likeset owner init st-mary --name st-mary`
    """
    home = owner_node.make_home(folder, name=name)
    with opened_node(folder) as opened:
        opened.put_policy_in_force()  # the first one goes into the audit log
        pinning.note_own_card(opened, by=login())
    notes = [f"give others its card, {home.card_file}, to pin", f"fill in {home.policy}: it allows nothing yet"]
    emit(
        {"node": str(folder), "name": name, "policy": str(home.policy), "card": home.card().fingerprint},
        as_json=as_json,
        notes=notes,
        next_step=at_node(folder, "owner", "data", "add", "NAME", "FILE", "--schema", "SCHEMA.yaml"),
    )


@data_noun.command()
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
        data = review.register(opened, name, source, schema=schema, mapping=mapping)
    document = {
        "data": name,
        "source": without_secrets(data.source),
        "schema": data.schema.digest,
        "columns": list(data.schema.record_columns),
        "suspected_identifiers": profile.documents_of(data.suspicions),
        "dead_columns": profile.documents_of(data.dead_columns),
    }
    notes = [one.warning for one in data.suspicions] + [one.warning for one in data.dead_columns]
    emit(document, as_json=as_json, notes=notes, next_step=at_node(node, "owner", "check"))


@data_noun.command(name="list")
def list_data(*, node: NodePath = HERE, as_json: JsonFlag = False) -> None:
    """List the data sets: where their rows lie, what leaves with a record, which runs use them. No row is read.

    Example: `likeset owner data list --node st-mary`
    """
    with opened_node(node) as opened:
        listed = review.listed_data(opened)
    notes = [suspicion.warning for data in listed for suspicion in data.suspicions]
    emit({"data": [data.document() for data in listed]}, as_json=as_json, notes=notes)


@data_noun.command(name="check")
def check_data(name: DataSet, *, node: NodePath = HERE, as_json: JsonFlag = False) -> None:
    """Read every row of a data set: what is not as declared, small groups, columns that may identify people.

    Exit code 1 if something is not in order. Nothing leaves; the values of small groups are shown here alone.

    Example: `likeset owner data check patients --node st-mary`
    """
    with opened_node(node) as opened:
        look = review.look_at_data(opened, name)
    emit(look.document(), as_json=as_json, ok=look.ok)


@data_noun.command()
def remove(name: DataSet, *, by: By = None, node: NodePath = HERE, as_json: JsonFlag = False) -> None:
    """Unregister a data set that no run uses any more. Its rows stay where they are.

    Example: `likeset owner data remove patients --node st-mary`
    """
    with opened_node(node) as opened:
        review.remove(opened, name, by=by or login())
    emit({"data": name, "removed": True}, as_json=as_json)


@owner.command()
def check(
    *,
    node: NodePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """Check the policy, data sets, disk and clock before the first run. Exit code 1 unless ready.

    The state is `ready`, `not set up yet` if nothing is wrong but something is still to be done, or `not ready`.

    Example: `likeset owner check --node st-mary`
    """
    with opened_node(node) as opened:
        findings = review.checkup(opened)
    faults = [finding for finding in findings if not finding.ok]
    state = "ready" if not faults else "not set up yet" if all(fault.to_do for fault in faults) else "not ready"
    document = {
        "ok": not faults,
        "state": state,
        "findings": findings_document(findings),
        "suspected_identifiers": profile.documents_of(one.suspicion for one in findings if one.suspicion is not None),
        "dead_columns": profile.documents_of(one.dead for one in findings if one.dead is not None),
    }
    missing = {fault.what for fault in faults if fault.to_do}
    add_data = at_node(node, "owner", "data", "add", "NAME", "FILE", "--schema", "SCHEMA.yaml")
    emit(document, as_json=as_json, next_step=add_data if "data sets" in missing else (), ok=not faults)


@policy_noun.command()
def show(*, node: NodePath = HERE, as_json: JsonFlag = False) -> None:
    """Print owner.yaml as it is now.

    Example: `likeset owner policy show --node st-mary`
    """
    with opened_node(node) as opened:
        written = owner_node.written_policy(opened)
    document = {"policy": written.policy.model_dump(mode="json"), "text": written.text, "mark": written.mark}
    emit(document, as_json=as_json, view=lambda: typer.echo("\n".join(map(harmless, written.text.splitlines()))))


@policy_noun.command()
def put(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The new owner.yaml.", show_default=False)],
    *,
    check: Annotated[bool, typer.Option("--check", help="Only say what would change.")] = False,
    by: By = None,
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


@policy_noun.command(name="test")
def policy_test(path: TermsPath, *, data: DataName = "", node: NodePath = HERE, as_json: JsonFlag = False) -> None:
    """Test whether owner.yaml allows a run under these terms, with every reason against it. Exit code 1 if not.

    Example: `likeset owner policy test sepsis.invitation --node st-mary`
    """
    terms = mail.read_terms(path)
    with opened_node(node) as opened:
        verdict = opened.judge(terms, data=data)
    document = {"run": terms.run, "digest": terms.digest, **_verdict_document(verdict)}
    emit(document, as_json=as_json, ok=verdict.accepted)


@owner.command()
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
        added, standing = _added(opened, mail.read_invitation(add)) if add else ("", None)
        runs = [review.inbox_run(opened, record) for record in review.inbox_records(opened, every=every)]
    failed = bool(add) and standing is None

    def view() -> None:
        if stopped:
            complain(stopped)
        if added:
            stdout.print(literal(added), soft_wrap=True)
        lines = [
            {
                "run": run.run,
                "who asks": f"{run.consumer} ({run.consumer_card})",
                "what for": run.purpose,
                "rows": run.rows,
                "came (UTC)": run.came,
                "status": run.status,
            }
            for run in runs
        ]
        none = "No run came yet." if every else "No run waits for a decision; --all shows the others."
        show_document(lines or none, "Runs")

    document: dict[str, Any] = {"added": standing, **({"reason": added} if failed else {}), "stopped": stopped or None}
    document["runs"] = [run.document() for run in runs]
    waiting = next((run.run for run in runs if run.status == "waiting"), None)
    hint = at_node(node, "owner", "review", waiting) if waiting else ()
    emit(document, as_json=as_json, view=view, next_step=hint, ok=not (stopped or failed))


def _stopped(opened: "owner_node.OwnerNode") -> str:
    """Why this node does nothing any more; empty if it does."""
    try:
        opened.check_running()
    except HomeRestored as error:
        return str(error)
    return ""


def _added(opened: "owner_node.OwnerNode", invitation: "mail.Invitation") -> "tuple[str, Standing | None]":
    """Put an invitation into the inbox; what happened in words, and where the owner stands if it is there now."""
    terms = invitation.terms
    try:
        new = opened.add_invitation(invitation)
    except LikesetError as error:
        return f"not added: {error}", None
    standing = opened.standing(terms.run, terms.digest)
    verb = "" if standing == "abstains" else "is "
    return f"{'added' if new else 'known already'}: this owner {verb}{standing}", standing


@owner.command(name="review")
def review_run(run: RunName, *, node: NodePath = HERE, as_json: JsonFlag = False) -> None:
    """Everything about a run in plain words: who asks, what leaves, what others may learn, what it costs.

    Example: `likeset owner review sepsis-2026-07 --node st-mary`
    """
    with opened_node(node) as opened:
        stopped = _stopped(opened)
        answers = review.review(opened, run)
        if not stopped:
            opened.note("reviewed", run, digest=answers.terms.digest, by=login())

    def view() -> None:
        if stopped:
            complain(stopped)
        head = f"[bold]Run {literal(run)}[/]  {literal(answers.status)}  [dim]terms {answers.terms.digest[:12]}[/]\n"
        stdout.print(head)
        for question, answer in answers.lines:
            stdout.print(f"[bold]{literal(question)}[/] {literal(answer)}")
        stdout.print()
        show_suspicions(answers.suspicions)
        accepted = answers.verdict.accepted
        stdout.print("[bold green]owner.yaml allows it[/]" if accepted else "[bold red]owner.yaml refuses it[/]")
        for reason in answers.verdict.reasons:
            stdout.print(f"- {literal(reason)}", soft_wrap=True)

    hint = at_node(node, "owner", "approve", run) if answers.verdict.accepted and not stopped else ()
    emit({**answers.document(), "stopped": stopped or None}, as_json=as_json, view=view, next_step=hint)


@owner.command(name="dry-run")
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
    """Rehearse a run: send nothing, charge nothing, and show the rows that would leave.

    Exactly those rows would leave for the release that was heard or given. Before one is known, all rows weigh the
    same in its place, and what is shown is an example.

    Example: `likeset owner dry-run sepsis-2026-07 --show 5 --node st-mary`
    """
    with opened_node(node) as opened:
        terms = opened.record_of(run).latest
        given = review.read_release(release, terms) if release else None
        trial = review.rehearse(opened, terms, release=given, data=data)
        opened.note("rehearsed", run, digest=terms.digest, by=login(), basis=trial.basis)
    if out is not None:
        write_rows(trial.rows, out)
    document = {
        "run": run,
        "exact": trial.exact,
        "basis": trial.basis,
        "rows": trial.rows.count,
        "in_data_set": trial.row_count,
        "withheld": trial.withheld,
        "too_long": trial.too_long,
        "shown": row_documents(trial.rows, show),
    }
    words = "exactly these rows would leave" if trial.exact else "these rows are an example of what would leave"
    emit(document, as_json=as_json, notes=[f"{words}; nothing was sent or charged"])


@owner.command()
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
        digest = _digest_to_approve(opened, run, terms, node)
        verdict = opened.approve(run, digest, by=by or login(), data=data)
    document = {"run": run, "digest": digest, "approved": verdict.accepted, **_verdict_document(verdict)}
    emit(document, as_json=as_json, ok=verdict.accepted)


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

    Example: `likeset owner deny sepsis-2026-07 --reason "no contract yet" --node st-mary`
    """
    with opened_node(node) as opened:
        opened.deny(run, by=by or login(), reason=reason)
    emit({"run": run, "denied": True}, as_json=as_json)


@owner.command()
def withdraw(run: RunName, *, by: By = None, node: NodePath = HERE, as_json: JsonFlag = False) -> None:
    """Answer no further message of this run. Rows that already left stay charged.

    Example: `likeset owner withdraw sepsis-2026-07 --node st-mary`
    """
    with opened_node(node) as opened:
        opened.withdraw(run, by=by or login())
    emit({"run": run, "withdrawn": True}, as_json=as_json)


def _digest_to_approve(opened: "owner_node.OwnerNode", run: str, given: str, node: Path) -> str:
    """The digest that is approved: the given one, or the reviewed one unless newer terms arrived since."""
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
        command = " ".join(at_node(node, "owner", "review", run))
        raise InvalidArgument("RUN", run, f"{changed}; look at it first: {command}")
    return latest


def _verdict_document(verdict: "policy.Verdict") -> dict[str, Any]:
    return {"accepted": verdict.accepted, "reasons": list(verdict.reasons)}


@owner.command()
def sync(*, mailbox: MailboxOption = None, node: NodePath = HERE, as_json: JsonFlag = False) -> None:
    """Check the mailboxes once: receive letters and send those that are due. Exit code 1 if one is not reachable.

    Without --mailbox, the mailboxes in owner.yaml. New terms wait in the inbox for a decision; decisions are sent with
    the next sync. Suitable for cron.

    Example: `likeset owner sync --mailbox file:///mnt/share --node st-mary`
    """
    with _desks(node, mailbox) as opened:
        sync_and_show(opened, as_json=as_json, notes=no_pins_note(node))


@owner.command()
def serve(
    *,
    mailbox: MailboxOption = None,
    every: EveryOption = 60.0,
    console: Annotated[
        bool, typer.Option("--console", help="Also open the steward's console, on this machine alone.")
    ] = False,
    port: PortOption = 0,
    node: NodePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """Keep checking the mailboxes, with pauses that grow while nothing arrives.

    SIGTERM and Ctrl-C end it between two letters, with exit code 0. An unreachable mailbox is tried again. With
    --console, a steward decides in a browser meanwhile; --port is the console's.

    Example: `likeset owner serve --mailbox file:///mnt/share --node st-mary`
    """
    with _desks(node, mailbox) as opened, _console_beside(node, port=port, wanted=console, as_json=as_json):
        serve_and_show(opened, every=every, as_json=as_json, notes=no_pins_note(node))


@contextmanager
def _desks(node: Path, given: list[str] | None) -> "Iterator[list[Desk]]":
    home = owner_node.Home(node)
    home.check()
    addresses = addresses_to_use(given, policy.Policy.load(home.policy).mailboxes, file="owner.yaml")
    with mailboxes.desks_at(addresses, lambda store: desks.owner_desk(node, store)) as opened:
        yield opened


@contextmanager
def _console_beside(node: Path, *, port: int, wanted: bool, as_json: bool) -> Iterator[None]:
    """A steward's console while something else goes on."""
    if not wanted:
        yield
        return
    with needing_console():
        from likeset.app.console import owner, server
    with owner.owner_console(node, server.Listen(port=port)) as started:
        if not as_json:
            emit({"link": started.link}, as_json=False)
        yield


@owner.command(name="console")
def of_owner(
    *,
    port: PortOption = 0,
    listen: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where to listen; others than loopback need --public.")
    ] = "127.0.0.1",
    public: Annotated[
        str, typer.Option(metavar="URL", help="The address that people type, of a proxy before it.")
    ] = "",
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
        emit({"link": server.new_link(node)}, as_json=as_json)
        return
    where = server.Listen(listen, port, public.rstrip("/"))
    serve_console(owner.owner_console(node, where), open_it=open_it, as_json=as_json)


@owner.command()
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
        records = [record for record in review.left_records(opened) if run in (None, record.run)]
        left = [review.left_run(opened, record).document() for record in records]
        messages = review.messages_with_receipts(opened, run) if run or rows or save or as_json else []
        tables = {one.run: review.rows_that_left(opened, one.run) for one in messages} if rows else {}
    if save is not None:
        _save_messages(messages, save)
    document: dict[str, Any] = {"runs": left, "messages": [message.document() for message in messages]}

    def view() -> None:
        show_document({name: lines for name, lines in document.items() if lines} or "Nothing has left.")
        for name, table in tables.items():
            first = row_documents(table, show)
            show_document(first or "these rows cannot be shown", f"{name}: {table.count:,} rows")
            if table.held_back:
                stdout.print(f"{table.held_back:,} more were held back, and did not leave", soft_wrap=True)
            if table.count > show and table.table is not None:
                stdout.print(f"the first {show:,}; --show {table.count} shows all of them", soft_wrap=True)

    shown = {name: row_documents(table, table.count) for name, table in tables.items()} if as_json else {}
    emit({**document, **({"rows": shown} if rows else {})}, as_json=as_json, view=view)


def row_documents(rows: "review.LeftRows", most: int) -> list[dict[str, Any]]:
    if rows.table is None:
        return []
    return [{name: _plain(value) for name, value in row.items()} for row in rows.table.slice(0, most).to_pylist()]


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | bool | int | list):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value)


def write_rows(rows: "review.LeftRows", out: Path) -> None:
    """All rows into a new file, as CSV or Parquet."""
    import pyarrow.csv  # heavy, and few commands write rows
    import pyarrow.parquet

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


def _save_messages(messages: "list[review.LeftMessage]", folder: Path) -> None:
    make_directory(folder)
    for message in messages:
        try:
            keep_private_bytes(folder / message.file_name, message.data)
        except OSError as error:
            raise InvalidArgument("--save", folder, f"cannot be written: {error.strerror}") from error


@owner.command()
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
    wanted = review.handle_in(handle)
    with opened_node(node) as opened:
        found = review.find_row(opened, wanted, run=run)
    document = {
        "handle": found.handle,
        "run": found.run,
        "consumer": found.consumer,
        "data": found.data,
        "source": found.source,
        "place": found.place,
        "number": found.number,
        "unchanged": found.is_checked or None,
        "id": {found.id_column: _plain(found.id_value)} if found.id_column else {},
        "record": {name: _plain(value) for name, value in found.record.items()},
    }
    purged = "messages of this run were purged: whether the data set is what it was then cannot be told"
    notes = [*(["the buyer has the record, and not the id"] if found.id_column else [])]
    emit(document, as_json=as_json, notes=notes if found.is_checked else [*notes, purged])


@owner.command()
def budget(
    *,
    terms: Annotated[Path | None, typer.Option("--for", help="What a run under these terms would cost.")] = None,
    node: NodePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """Show the budgets over all runs, with their history; with `--for`, what a run would leave of them.

    Example: `likeset owner budget --for sepsis.invitation --node st-mary`
    """
    with opened_node(node) as opened:
        rules, overview = opened.policy, review.budget_overview(opened)
        after = owner_node.accounts_for(opened.ledger, mail.read_terms(terms), rules) if terms else None
    document = {**overview.document(), "for": None if after is None else review.budget_document(after)}
    notes = [f"epsilon holds {overview.about_delta}"]
    notes += [f"{question} {answer}" for question, answer in review.budget_lines(rules, after)] if after else []
    emit(document, as_json=as_json, notes=notes)


@audit_noun.command(name="list")
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
        page = review.log_page(opened, before=before, count=last, run=about)
    document = {"entries": [line.document() for line in page.lines], "newest": page.newest, "older": page.older}
    emit(document, as_json=as_json)


@audit_noun.command()
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
        problems, notes = review.verify(opened, head=None if head is None else ledgers.Head.parse(head))
        last = opened.ledger.head()
    ledger_commands.emit_verification(not problems, last, problems, as_json=as_json, notes=notes)
