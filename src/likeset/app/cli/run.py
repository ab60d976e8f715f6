"""``likeset run``: the consumer's side of runs between organisations."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.live import Live
from rich.table import Table

from likeset.app.cli.party import (
    HERE,
    NOUN,
    LinkFlag,
    ListenOption,
    MailboxOption,
    NewFolder,
    OpenFlag,
    PortOption,
    ReachOption,
    at_home,
    home_option,
    look_document,
    needing_console,
    serve_console,
    stopping_by_signals,
    sync_and_show,
)
from likeset.app.lazy import lazy_imports
from likeset.app.report import render
from likeset.display import JsonFlag, complain, emit, literal, show_notes, show_table, stderr, stdout
from likeset.errors import BudgetExceeded, InvalidArgument, LikesetError

with lazy_imports():
    from likeset.app.cli import match as screens
    from likeset.homes import compute, consumer_home
    from likeset.protocol import notices
    from likeset.run import job as jobs
    from likeset.run import plan as plans
    from likeset.run import runs, words
    from likeset.transports import desks, stores
    from likeset.transports import sync as mailboxes

if TYPE_CHECKING:
    from likeset.transports.posts import Desk, Look

run = typer.Typer(name="run", **NOUN)

HomePath = Annotated[Path, home_option("The consumer's directory")]
RunName = Annotated[str, typer.Argument(metavar="RUN", help="The run, as the job names it.", show_default=False)]
JobPath = Annotated[Path, typer.Argument(metavar="JOB.yaml", help="The job.", show_default=False)]
Days = Annotated[int, typer.Option(min=1, max=3650, help="For how many days owners may take part.")]

_LONGEST_PAUSE = 10.0  # somebody looks at the screen


@run.command()
def init(
    folder: NewFolder,
    *,
    name: Annotated[str, typer.Option(help="The consumer's name, as it stands in terms.", show_default=False)],
    mailbox: MailboxOption = None,
    listen: ListenOption = "",
    reach_at: ReachOption = "",
    as_json: JsonFlag = False,
) -> None:
    """Make the directory in which a consumer keeps its runs and its ledger.

    Example: `likeset run init clinic --name new-clinic --mailbox file:///mnt/share`
    """
    home = consumer_home.make_consumer_home(
        folder, name=name, mailboxes=mailbox or (), listen=listen, reach_at=reach_at
    )
    document = {"home": str(home.folder), "name": name, "card": home.card().fingerprint}
    emit(document, as_json=as_json, notes=[f"give others its card, {home.card_file}, to pin"])


def opened_home(folder: Path) -> "consumer_home.ConsumerHome":
    home = consumer_home.ConsumerHome(folder)
    _ = home.connection
    return home


def invited(job: Path, days: int, home: "consumer_home.ConsumerHome") -> "consumer_home.KeptRun":
    loaded = jobs.Job.load(job)
    try:
        return runs.invite(home, loaded, expires=runs.expiry(days))
    except BudgetExceeded as error:
        error.add_note(f"look at it with: likeset ledger show {home.ledger}")
        error.add_note("the first run sets the limit for all; likeset ledger limit --help says how to change it")
        raise


@run.command()
def plan(job: JobPath, *, as_json: JsonFlag = False) -> None:
    """Say what a job would do and cost, as `likeset plan` does; writes nothing and asks nobody.

    Example: `likeset run plan job.yaml`
    """
    wanted = jobs.Job.load(job)
    plans.check_owners_files(wanted)
    planned = runs.plan_between(wanted)
    notes = [*runs.check_carried(wanted), *runs.notes_on_size(planned.traffic)]
    document = {**planned.document(), "between_organisations": notices.notice_documents(notes)}
    terms = planned.terms

    def view() -> None:
        facts = [
            ("rows that each owner discloses to the curator, at most", f"{terms.rows_per_owner:,}"),
            ("rows that the curator sees, at most", f"{planned.rows_seen:,}"),
            ("messages between curator and owners, at most", f"{planned.messages:,}"),
            ("numbers released about the target", f"{document['released_coordinates']:,}"),
        ]
        if terms.split is not None:
            facts[:3] = [
                ("rows that each owner offers, in shares", f"{terms.rows_per_owner:,}"),
                ("rows that three parties compute on, in shares", f"{planned.rows_seen:,}"),
                ("rows that anybody reads: you, in all", f"{terms.split.openings:,}"),
                ("of these rows of one owner, at most", f"{terms.rows_readable:,}"),
            ]
        show_table("What will travel", ("what", "how much"), facts, caption="Nobody was asked, and nothing was spent.")
        screens.show_guarantees(document["guarantees"], owners=terms.owners, title="What it will cost")
        stdout.print(f"\n{literal(planned.advice.text)}\n", soft_wrap=True)

    texts = [notice.text for notice in (*planned.warnings, *notes)]
    emit(document, as_json=as_json, view=view, notes=texts)


@run.command()
def invite(job: JobPath, *, days: Days = 30, home: HomePath = HERE, as_json: JsonFlag = False) -> None:
    """Sign the terms of a job, for owners to look at before it is submitted; they name all parties by their cards.

    The cards of all owners and of the curator must be pinned here (`likeset card pin`). Where the release's
    width is chosen privately, that choice is made and charged now, once.

    Example: `likeset run invite job.yaml --home clinic`
    """
    consumer = opened_home(home)
    kept_run = invited(job, days, consumer)
    terms, path, notes = kept_run.terms, kept_run.invitation_path, runs.notes_on(consumer, kept_run)
    document = {
        "run": kept_run.name,
        "invitation": str(path),
        "digest": terms.digest,
        "expires": terms.expires,
        "cards": dict(terms.cards),
        "notes": notices.notice_documents(notes),
    }
    hints = [
        f"give owners this file; they look at it with: likeset owner inbox --add {path.name}",
        f"they take part only if they have pinned your card: {terms.cards[terms.consumer]}",
    ]
    emit(document, as_json=as_json, notes=hints)


@run.command()
def start(
    job: JobPath,
    *,
    mailbox: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Where its letters come and go: file:///FOLDER, sftp://USER@HOST/FOLDER or s3://BUCKET/FOLDER.  "
            "\\[default: the only one in consumer.yaml]",
        ),
    ] = None,
    days: Days = 30,
    decide_within: Annotated[
        float | None,
        typer.Option(
            min=0, metavar="DAYS", help="Then it begins with those who accepted.  \\[default: half of the terms' life]"
        ),
    ] = None,
    home: HomePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """Sign the terms of a job, and leave them in a mailbox for owners and curator. They decide by themselves.

    It begins when all have answered, or after --decide-within with those who accepted, if they are enough. Follow it
    with `likeset run watch`, or let cron call `likeset run sync`. Called again, it does the same.

    Example: `likeset run start job.yaml --mailbox sftp://clinic@post.example.org/likeset --home clinic`
    """
    consumer = opened_home(home)
    # An address that cannot be used is refused before anything is signed.
    store = stores.open_store(runs.mailbox_for(consumer, mailbox))
    kept_run = invited(job, days, consumer)
    runs.start(kept_run, store.address, decide_within=None if decide_within is None else timedelta(days=decide_within))
    with consumer_desks(consumer, store.address) as opened:
        look, troubles = mailboxes.look_once(opened)
    progress = desks.whereabouts(consumer, kept_run)
    warnings = runs.notes_on(consumer, kept_run)

    def view() -> None:
        _print_status(_Status.of_mail(progress))
        for trouble in troubles:
            complain(f"{trouble}; the terms are signed and kept, and the next look posts them")

    document = {
        **progress.document(),
        "digest": kept_run.terms.digest,
        "mailbox": store.address,
        "warnings": notices.notice_documents(warnings),
        **look_document(look, troubles),
    }
    texts = [*(warning.text for warning in warnings), *look.notes]
    hint = at_home(home, "likeset", "run", "watch", kept_run.name)
    emit(document, as_json=as_json, view=view, notes=texts, next_step=hint, ok=not troubles)


@run.command()
def watch(
    name: RunName,
    *,
    once: Annotated[bool, typer.Option("--once", help="Look once, and do not wait for the end.")] = False,
    home: HomePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """Follow a run: who has the terms, who answered, what is waited for, until when. Exit code 1 if it failed.

    A run by mailbox goes on only while somebody looks: this command does, or `likeset run sync` now and then.
    Ctrl-C ends the watching, not the run.

    Example: `likeset run watch sepsis-2026-07 --home clinic`
    """
    consumer = opened_home(home)
    _watch_mail(consumer, _started(consumer, name)[0], home, once=once, as_json=as_json)


def _started(home: "consumer_home.ConsumerHome", name: str) -> "tuple[consumer_home.KeptRun, str]":
    kept_run = home.known(name)
    if kept_run.travel is None:
        raise InvalidArgument("RUN", name, "was not started yet; do so with `likeset run start`")
    return kept_run, kept_run.travel.mailbox


@dataclass(frozen=True)
class _Status:
    """What the watch screen shows of a run."""

    run: str
    headline: str
    parties: Mapping[str, str]
    outlook: str = ""

    @classmethod
    def of_mail(cls, progress: "desks.RunProgress") -> "_Status":
        parties = {name: progress.stands(name) for name in progress.parties}
        return cls(progress.run, progress.headline, parties, progress.outlook)


_MARKS = {
    "has not got the terms": "[dim]○[/]",
    "decides": "[yellow]●[/]",
    "takes part": "[green]✓[/]",
    "has answered": "[green]✓[/]",
    "does not take part": "[dim]○[/]",
}


@contextmanager
def _screen(first: _Status, *, live: bool, quiet: bool) -> Iterator[Callable[[_Status], None]]:
    """Shows each new status: a table that changes on a terminal, a line elsewhere."""
    if quiet:
        yield lambda _: None
    elif not live:
        yield _print_status
    else:
        shown = [first]
        with Live(get_renderable=lambda: _table(shown[0]), console=stdout, refresh_per_second=2) as screen:

            def show(status: _Status) -> None:
                shown[0] = status
                screen.refresh()

            yield show


def _print_status(status: _Status) -> None:
    parties = ", ".join(f"{literal(name)}: {literal(state)}" for name, state in status.parties.items())
    more = f"; {literal(status.outlook)}" if status.outlook else ""
    stdout.print(f"[bold]{literal(status.headline)}[/]  {parties}{more}", soft_wrap=True)
    stdout.file.flush()


def _table(status: _Status) -> Table:
    title = f"Run {literal(status.run)}: {literal(status.headline)}"
    table = Table("who", "where it stands", title=title, title_style="bold", title_justify="left", min_width=60)
    table.caption, table.caption_style, table.caption_justify = literal(status.outlook), "dim", "left"
    for name, state in status.parties.items():
        table.add_row(literal(name), f"{_MARKS.get(state, '[cyan]●[/]')} {literal(state)}")
    return table


def _watch_mail(
    consumer: "consumer_home.ConsumerHome", kept: "consumer_home.KeptRun", home: Path, *, once: bool, as_json: bool
) -> None:
    """Exit code 1 if the run ended without a summary, or if the one look met a mailbox in trouble."""
    progress = desks.whereabouts(consumer, kept)
    troubles = list[str]()
    if kept.travel is not None and progress.ended is None and not kept.cancelled:
        first, live = _Status.of_mail(progress), stdout.is_terminal and not once
        with (
            consumer_desks(consumer, kept.travel.mailbox, stays=not once) as opened,
            stopping_by_signals() as stop,
            _screen(first, live=live, quiet=as_json) as show,
        ):
            show(first)

            def looked(_: "Look") -> None:
                nonlocal progress
                before, progress = progress, desks.whereabouts(consumer, kept)
                if progress != before:
                    show(_Status.of_mail(progress))
                if once or progress.ended is not None:
                    stop.set()

            def tell(line: str) -> None:
                stderr.print(literal(line), soft_wrap=True) if as_json else show_notes([line])

            mailboxes.serve(
                opened, stop=stop, tell=tell, looked=looked, troubled=troubles.append, longest=_LONGEST_PAUSE
            )
    failed = kept.cancelled or (progress.ended is not None and not progress.done)
    document = {**progress.document(), "cancelled": kept.cancelled, "troubles": troubles if once else []}
    why = "was cancelled here; give the job another name to ask again" if kept.cancelled else progress.headline
    verb = "report" if progress.done else "watch"
    _emit_watched(document, home, verb, f"run {kept.name}: {why}" if failed else "", as_json=as_json)


def _emit_watched(document: dict[str, Any], home: Path, verb: str, complaint: str, *, as_json: bool) -> None:
    def view() -> None:
        if complaint:
            complain(complaint)

    hint = () if complaint else at_home(home, "likeset", "run", verb, document["run"])
    emit(document, as_json=as_json, view=view, next_step=hint, ok=not (complaint or document.get("troubles")))


@contextmanager
def consumer_desks(home: "consumer_home.ConsumerHome", *addresses: str, stays: bool = False) -> "Iterator[list[Desk]]":
    """A consumer's desks at mailboxes; who stays computes split runs beside the looks."""
    room = compute.compute_room(home) if stays else None
    with mailboxes.desks_at(addresses, lambda store: desks.consumer_desk(home.folder, store, room=room)) as opened:
        yield opened


@run.command()
def sync(*, home: HomePath = HERE, as_json: JsonFlag = False) -> None:
    """Check the mailboxes of all runs once: receive letters and send those that are due. Exit code 1 if one fails.

    Example: `likeset run sync --home clinic`
    """
    consumer = opened_home(home)

    def progress() -> "list[desks.RunProgress]":
        return [desks.whereabouts(consumer, kept_run) for kept_run in runs.open_runs(consumer)]

    def show() -> None:
        for one in progress():
            _print_status(_Status.of_mail(one))

    with consumer_desks(consumer, *runs.mailboxes_in_use(consumer)) as opened:
        more = lambda: {"runs": [one.document() for one in progress()]}  # noqa: E731 - asked after the look
        sync_and_show(opened, as_json=as_json, more=more, shown_after=show)


@run.command()
def collect(name: RunName, *, home: HomePath = HERE, as_json: JsonFlag = False) -> None:
    """Look once into the mailbox of a run, and show its result if it is there. Exit code 1 if it is not.

    Example: `likeset run collect sepsis-2026-07 --home clinic`
    """
    consumer = opened_home(home)
    kept_run, mailbox = _started(consumer, name)
    troubles: list[LikesetError] = []
    if not kept_run.summary_path.exists() and not kept_run.cancelled:
        with consumer_desks(consumer, mailbox) as opened:
            _, troubles = mailboxes.look_once(opened)
    progress = desks.whereabouts(consumer, kept_run)
    if kept_run.summary_path.exists():
        result, page = _result_of(consumer, kept_run)
        document = {**progress.document(), "result": result, "report": page}
        emit(document, as_json=as_json, view=lambda: _show_result(result, kept_run))
        return

    def view() -> None:
        _print_status(_Status.of_mail(progress))
        for trouble in troubles:
            complain(str(trouble))

    texts = [str(trouble) for trouble in troubles]
    emit({**progress.document(), "result": None, "troubles": texts}, as_json=as_json, view=view, ok=False)


@run.command()
def cancel(name: RunName, *, home: HomePath = HERE, as_json: JsonFlag = False) -> None:
    """Stop a run for good. What was drawn is kept and stays charged.

    What nobody has read is taken back, and nothing more is posted. Owners who have the terms keep them until they end.

    Example: `likeset run cancel sepsis-2026-07 --home clinic`
    """
    consumer = opened_home(home)
    kept_run, mailbox = _started(consumer, name)
    runs.cancel(kept_run)
    with consumer_desks(consumer, mailbox) as opened:
        _, troubles = mailboxes.look_once(opened)  # takes back what nobody has read
    notes = [f"nobody is told; for owners who have the terms it ends with them, on {kept_run.terms.expires}"]
    if troubles:
        notes.append(f"take the rest back later with: {' '.join(at_home(home, 'likeset run sync'))}")
    document = {"run": name, "cancelled": True, "troubles": [str(trouble) for trouble in troubles]}
    emit(document, as_json=as_json, notes=notes)


def _result_of(consumer: "consumer_home.ConsumerHome", kept_run: "consumer_home.KeptRun") -> tuple[dict[str, Any], str]:
    """The result of a run whose summary has come, published when it is first asked for; and the report's path."""
    return runs.published(consumer, kept_run, render=render), str(kept_run.result / "report.html")


def _show_result(result: Mapping[str, Any], kept_run: "consumer_home.KeptRun") -> None:
    screens.show_result(result)
    stdout.print(f"\nEverything is in [bold]{literal(str(kept_run.result))}[/].", soft_wrap=True)


@run.command()
def report(name: RunName, *, home: HomePath = HERE, as_json: JsonFlag = False) -> None:
    """Show the result of a finished run: distance, contributions, guarantees, and the path of the report.

    Example: `likeset run report sepsis-2026-07 --home clinic`
    """
    consumer = opened_home(home)
    kept_run = consumer.known(name)
    result, page = _result_of(consumer, kept_run)
    emit({**result, "report": page}, as_json=as_json, view=lambda: _show_result(result, kept_run))


@run.command()
def shares(name: RunName, *, home: HomePath = HERE, as_json: JsonFlag = False) -> None:
    """What each owner's rows were worth, and what it is paid at most: by the rows that left it, which it knows itself.

    Telling an owner its share tells it something about the others and your rows: nobody priced that.

    Example: `likeset run shares sepsis-2026-07 --home clinic`
    """
    consumer = opened_home(home)
    result, _ = _result_of(consumer, consumer.known(name))
    told = ("name", "selected", "share", "payment", "payment_at_most")
    owners = [{field: owner[field] for field in told} for owner in result["owners"]]
    emit({"run": name, "owners": owners}, as_json=as_json, notes=[words.SHARE, "the payment is by rows disclosed"])


@run.command(name="list")
def list_runs(*, home: HomePath = HERE, as_json: JsonFlag = False) -> None:
    """List the runs of this consumer.

    Example: `likeset run list --home clinic`
    """
    emit({"runs": [asdict(runs.listed_run(one)) for one in opened_home(home).runs()]}, as_json=as_json)


@run.command(name="console")
def of_consumer(
    *,
    port: PortOption = 0,
    link: LinkFlag = False,
    open_it: OpenFlag = False,
    home: HomePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """The runs of this consumer in a browser: who has answered, and plan, report and evaluation of each.

    Example: `likeset run console --home clinic`
    """
    with needing_console():
        from likeset.app.console import consumer, server
    if link:
        emit({"link": server.new_link(home)}, as_json=as_json)
        return
    where = server.Listen(port=port)
    serve_console(consumer.consumer_console(opened_home(home), where), open_it=open_it, as_json=as_json)
