"""``likeset run``: the consumer's side of runs between organisations."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.live import Live
from rich.table import Table

from likeset.app.cli.match import show_guarantees, show_result
from likeset.app.cli.party import (
    HERE,
    LinkFlag,
    ListenOption,
    MailboxOption,
    OpenFlag,
    PortOption,
    ReachOption,
    end_if_troubled,
    home_option,
    look_document,
    needing_console,
    serve_console,
    show_link,
    stopping_by_signals,
    sync_and_show,
)
from likeset.app.report import render
from likeset.display import JsonFlag, complain, literal, show_json, show_notes, show_table, stderr, stdout
from likeset.errors import BudgetExceeded, InvalidArgument, LikesetError, NoAnswer, UnfinishedRequest
from likeset.homes.compute import compute_room
from likeset.homes.consumer_home import ConsumerHome, KeptRun, make_consumer_home
from likeset.protocol.notices import notice_documents
from likeset.protocol.party import CURATOR
from likeset.run import submission
from likeset.run.job import Job
from likeset.run.plan import check_owners_files
from likeset.run.runs import cancel as cancel_mail
from likeset.run.runs import (
    check_carried,
    check_not_by_mailbox,
    expiry,
    listed_run,
    mailbox_for,
    mailboxes_in_use,
    notes_on,
    notes_on_size,
    open_runs,
    plan_between,
    published,
    whereabouts,
)
from likeset.run.runs import invite as invite_owners
from likeset.run.runs import start as start_mail
from likeset.run.submission import Engine, Stage, Whereabouts, ending_of, look, obstacle
from likeset.run.words import SHARE, amount, or_bound
from likeset.transports.desks import RunProgress, consumer_desk
from likeset.transports.nvflare.quiet_client import QuietEngine
from likeset.transports.outcomes import SiteState
from likeset.transports.posts import Desk, Look
from likeset.transports.stores import open_store
from likeset.transports.sync import desks_at, look_once, serve

HomePath = Annotated[Path, home_option("The consumer's directory")]
RunName = Annotated[str, typer.Argument(metavar="RUN", help="The run, as the job names it.", show_default=False)]
JobPath = Annotated[Path, typer.Argument(metavar="JOB.yaml", help="The job.", show_default=False)]
Days = Annotated[int, typer.Option(min=1, max=3650, help="For how many days owners may take part.")]


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new directory.", show_default=False)],
    *,
    name: Annotated[str, typer.Option(help="The consumer's name, as it stands in terms.", show_default=False)],
    mailbox: MailboxOption = None,
    kit: Annotated[
        Path | None, typer.Option(help="For runs over NVFlare: start-up kit of the user who submits.")
    ] = None,
    user: Annotated[str, typer.Option(help="That user's name, as provisioned.")] = "",
    listen: ListenOption = "",
    reach_at: ReachOption = "",
    as_json: JsonFlag = False,
) -> None:
    """Make the directory in which a consumer keeps its runs and its ledger.

    Example: `likeset run init clinic --name new-clinic --mailbox file:///mnt/share`
    """
    if kit is not None and not (kit / "startup").is_dir():
        raise InvalidArgument("--kit", kit, "is no start-up kit: it has no folder startup")
    if (kit is None) != (not user):
        raise InvalidArgument("--user", user or "none", "goes with --kit: give both, or none for runs by mailbox")
    home = make_consumer_home(
        folder,
        name=name,
        kit="" if kit is None else str(kit.resolve()),
        user=user,
        mailboxes=mailbox or (),
        listen=listen,
        reach_at=reach_at,
    )
    if as_json:
        show_json({"home": str(home.folder), "name": name, "card": home.card().fingerprint})
        return
    stdout.print(f"[bold green]made[/]  {literal(str(home.folder))}", soft_wrap=True)
    stdout.print(f"its card, for others to pin: {literal(str(home.card_file))} (likeset card show)", soft_wrap=True)


def opened_home(folder: Path) -> ConsumerHome:
    """The consumer's home in a directory."""
    home = ConsumerHome(folder)
    _ = home.connection
    return home


def engine_of(home: ConsumerHome) -> Engine:
    """How a consumer submits to NVFlare.

    Raises:
        InvalidArgument: it has no start-up kit.
    """
    connection = home.connection
    if not connection.kit:
        reason = (
            "has no start-up kit of NVFlare (kit: and user: in consumer.yaml); without one runs travel by mailbox: "
            "likeset run start"
        )
        raise InvalidArgument("--home", home.folder, reason)

    return QuietEngine(Path(connection.kit), connection.user)


def invited(job: Path, days: int, home: ConsumerHome) -> KeptRun:
    """The run of a job, with its terms signed and kept."""
    loaded = Job.load(job)
    try:
        return invite_owners(home, loaded, expires=expiry(days))
    except BudgetExceeded as error:
        error.add_note(f"look at it with: likeset ledger show {home.ledger}")
        error.add_note("the first run sets the limit for all; likeset ledger limit --help says how to change it")
        raise


def result_of(home: ConsumerHome, kept_run: KeptRun) -> dict[str, Any]:
    """The result of a run whose summary has come; published when it is first asked for."""
    return published(home, kept_run, render=render)


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
        show_link(server.new_link(home), as_json=as_json)
        return
    where = server.Listen(port=port)
    serve_console(consumer.consumer_console(opened_home(home), where), open_it=open_it, as_json=as_json)


_SECONDS_WITHOUT_SERVER = 300.0
_SECONDS_BETWEEN_LOOKS = 1.5
_SITE_STATES = {
    SiteState.READY: "[cyan]●[/] ready",
    SiteState.WAITING: "[yellow]●[/] waits for a decision",
    SiteState.WORKING: "[cyan]●[/] working",
    SiteState.DONE: "[green]✓[/] done",
    SiteState.ABSTAINS: "[dim]○ does not take part[/]",
    SiteState.NO_ANSWER: "[red]✗[/] gives no answer",
    SiteState.REFUSED: "[red]✗[/] its message was refused",
}

_Show = Callable[[Whereabouts], None]


def follow(made: KeptRun, engine: Engine, *, once: bool, quiet: bool) -> Whereabouts:
    """Look at a run until it has ended, and show what changes; a server that is away for a while may come back."""
    last: Whereabouts | None = None
    heard = time.monotonic()
    with _site_screen(made.name, live=stdout.is_terminal and not once, quiet=quiet) as show:
        while True:
            try:
                whereabouts = look(made, engine)
                heard = time.monotonic()
            except NoAnswer:
                if once or time.monotonic() - heard > _SECONDS_WITHOUT_SERVER:
                    raise
                whereabouts = Whereabouts(Stage.AWAY, {} if last is None else last.sites)
            if (
                whereabouts.stage is Stage.STARTING
                and last is not None
                and last.stage not in (Stage.STARTING, Stage.AWAY)
            ):
                whereabouts = Whereabouts(Stage.CLOSING, last.sites)
            if whereabouts != last:
                show(whereabouts)
            last = whereabouts
            if once or not whereabouts.is_open:
                return whereabouts
            time.sleep(_SECONDS_BETWEEN_LOOKS)


@contextmanager
def _site_screen(name: str, *, live: bool, quiet: bool) -> Iterator[_Show]:
    if quiet:
        yield lambda _: None
    elif not live:
        yield _print_sites
    else:
        shown = _Table(name)
        with Live(get_renderable=shown.table, console=stdout, refresh_per_second=2) as screen:

            def show(whereabouts: Whereabouts) -> None:
                shown.take(whereabouts)
                screen.refresh()

            yield show


def _print_sites(whereabouts: Whereabouts) -> None:
    words = "  ".join(f"{literal(site)}: {said}" for site, said in whereabouts.sites.items())
    stdout.print(f"[bold]{literal(whereabouts.text)}[/]  {words}", soft_wrap=True)


class _Table:
    """All sites of a run, with the time that it takes."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._began = time.monotonic()
        self._whereabouts = Whereabouts(Stage.STARTING)

    def take(self, whereabouts: Whereabouts) -> None:
        self._whereabouts = whereabouts

    def table(self) -> Table:
        seconds = int(time.monotonic() - self._began)
        title = f"Run {literal(self._name)}: {literal(self._whereabouts.text)}"
        table = Table(title=title, title_style="bold", title_justify="left", min_width=60)
        table.caption, table.caption_style = f"{seconds // 60}:{seconds % 60:02d}", "dim"
        table.add_column("site")
        table.add_column("where it is")
        for site, said in self._whereabouts.sites.items():
            table.add_row(literal(site), _SITE_STATES[said])
        return table


_LONGEST_PAUSE = 10.0  # somebody looks at the screen
_PARTY_MARKS = {
    "has not got the terms": "[dim]○[/]",
    "decides": "[yellow]●[/]",
    "takes part": "[green]✓[/]",
    "has answered": "[green]✓[/]",
    "does not take part": "[dim]○[/]",
}


def watch_mail(home: ConsumerHome, run: KeptRun, *, once: bool, as_json: bool) -> None:
    """Look, and show what changes, until the run has ended, or once.

    Exit code 1 if it ended without a summary, or if the one look met a mailbox in trouble.
    """
    last: list[RunProgress] = [whereabouts(home, run)]
    live, troubles = stdout.is_terminal and not once, list[str]()
    if run.travel is not None and last[0].ended is None and not run.cancelled:
        with (
            consumer_desks(home, run.travel.mailbox, stays=not once) as desks,
            stopping_by_signals() as stop,
            _party_screen(last[0], live=live, quiet=as_json) as show,
        ):

            def looked(_: Look) -> None:
                progress = whereabouts(home, run)
                if progress != last[0]:
                    show(progress)
                last[0] = progress
                if once or progress.ended is not None:
                    stop.set()

            tell = _tell_machines if as_json else _tell_people
            serve(desks, stop=stop, tell=tell, looked=looked, troubled=troubles.append, longest=_LONGEST_PAUSE)
    _tell_end(run, last[0], as_json=as_json, troubles=troubles if once else ())


@contextmanager
def consumer_desks(home: ConsumerHome, *addresses: str, stays: bool = False) -> Iterator[list[Desk]]:
    """A consumer's desks at mailboxes; who stays computes split runs beside the looks."""
    room = compute_room(home) if stays else None
    with desks_at(addresses, lambda store: consumer_desk(home.folder, store, room=room)) as desks:
        yield desks


def _tell_people(line: str) -> None:
    show_notes([line])


def _tell_machines(line: str) -> None:
    stderr.print(literal(line), soft_wrap=True)


def _tell_end(run: KeptRun, progress: RunProgress, *, as_json: bool, troubles: Sequence[str]) -> None:
    failed = run.cancelled or (progress.ended is not None and not progress.done)
    if as_json:
        show_json({**progress.document(), "cancelled": run.cancelled, "troubles": list(troubles)})
    elif progress.done:
        stdout.print(f"See it with: likeset run report {literal(run.name)}", soft_wrap=True)
    elif run.cancelled:
        complain(f"run {run.name} was cancelled here; give the job another name to ask again")
    elif failed:
        complain(f"run {run.name}: {progress.headline}")
    else:
        stdout.print(f"It goes on with the next look: likeset run watch {literal(run.name)}", soft_wrap=True)
    if failed or troubles:
        raise typer.Exit(1)


def show_progress(progress: RunProgress) -> None:
    """Where a run is: a table on a terminal, a line elsewhere."""
    if stdout.is_terminal:
        rows = [[name, progress.stands(name)] for name in progress.parties]
        show_table(f"Run {progress.run}: {progress.headline}", ["who", "where it stands"], rows)
        stdout.print(literal(progress.outlook), soft_wrap=True)
    else:
        _print_parties(progress)


@contextmanager
def _party_screen(first: RunProgress, *, live: bool, quiet: bool) -> Iterator[Callable[[RunProgress], None]]:
    if quiet:
        yield lambda _: None
    elif not live:
        _print_parties(first)
        yield _print_parties
    else:
        shown = [first]
        with Live(get_renderable=lambda: _table(shown[0]), console=stdout, refresh_per_second=1):
            yield lambda progress: shown.__setitem__(0, progress)


def _print_parties(progress: RunProgress) -> None:
    words = ", ".join(f"{literal(name)}: {literal(progress.stands(name))}" for name in progress.parties)
    more = progress.outlook
    stdout.print(f"[bold]{literal(progress.headline)}[/]  {words}{'; ' if more else ''}{literal(more)}", soft_wrap=True)
    stdout.file.flush()


def _table(progress: RunProgress) -> Table:
    title = f"Run {literal(progress.run)}: {literal(progress.headline)}"
    table = Table(title=title, title_style="bold", title_justify="left", min_width=60)
    table.caption, table.caption_style, table.caption_justify = literal(progress.outlook), "dim", "left"
    table.add_column("who")
    table.add_column("where it stands")
    for name in progress.parties:
        words = progress.stands(name)
        table.add_row(literal(name), f"{_PARTY_MARKS.get(words, '[cyan]●[/]')} {literal(words)}")
    return table


def plan(job: JobPath, *, as_json: JsonFlag = False) -> None:
    """Say what a job would do and cost, as `likeset plan` does; writes nothing and asks nobody.

    Example: `likeset run plan job.yaml`
    """
    wanted = Job.load(job)
    check_owners_files(wanted)
    planned = plan_between(wanted)
    notes = [*check_carried(wanted), *notes_on_size(planned.traffic)]
    document = planned.document()
    if as_json:
        show_json({**document, "between_organisations": notice_documents(notes)})
        return
    terms = planned.terms
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
    show_guarantees(document["guarantees"], owners=terms.owners, title="What it will cost")
    stdout.print(f"\n{literal(planned.advice.text)}\n", soft_wrap=True)
    show_notes(notice.text for notice in (*planned.warnings, *notes))


def invite(job: JobPath, *, days: Days = 30, home: HomePath = HERE, as_json: JsonFlag = False) -> None:
    """Sign the terms of a job, for owners to look at before it is submitted; they name all parties by their cards.

    The cards of all owners and of the curator must be pinned here (`likeset card pin`). Where the release's
    width is chosen privately, that choice is made and charged now, once.

    Example: `likeset run invite job.yaml --home clinic`
    """
    consumer = opened_home(home)
    kept_run = invited(job, days, consumer)
    terms, notes = kept_run.terms, notes_on(consumer, kept_run)
    if as_json:
        told = {"run": kept_run.name, "invitation": str(kept_run.invitation_path), "digest": terms.digest}
        told["expires"] = terms.expires
        show_json({**told, "cards": dict(terms.cards), "notes": notice_documents(notes)})
        return
    path = kept_run.invitation_path
    stdout.print(f"[bold]{literal(str(path))}[/]  terms {terms.digest[:12]}, until {terms.expires}", soft_wrap=True)
    stdout.print(
        f"Give this file to owners; they look at it with: likeset owner inbox --add {literal(path.name)}",
        soft_wrap=True,
    )
    stdout.print("Invited are, by these cards:")
    for name, fingerprint in terms.cards.items():
        if name != terms.consumer:
            role = "curator" if name == CURATOR else "owner"
            stdout.print(f"  {fingerprint}  {role}  [bold]{literal(name)}[/]", soft_wrap=True)
    own = terms.cards[terms.consumer]
    stdout.print(f"They take part only if they have pinned yours: {own}", soft_wrap=True)
    show_notes(notice.text for notice in notes)


def list_runs(*, home: HomePath = HERE, as_json: JsonFlag = False) -> None:
    """All runs of this consumer.

    Example: `likeset run list --home clinic`
    """
    runs = [listed_run(kept_run) for kept_run in opened_home(home).runs()]
    if as_json:
        show_json({"runs": [asdict(run) for run in runs]})
        return
    lines = [[run.run, run.expires, run.way, "yes" if run.result else "no", run.digest[:12]] for run in runs]
    show_table("Runs", ["run", "terms until", "travels by", "result", "terms"], lines)


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
    store = open_store(mailbox_for(consumer, mailbox))  # says what is wrong with the address before anything is signed
    kept_run = invited(job, days, consumer)
    start_mail(kept_run, store.address, decide_within=None if decide_within is None else timedelta(days=decide_within))
    with consumer_desks(consumer, store.address) as desks:
        look, troubles = look_once(desks)
    progress = whereabouts(consumer, kept_run)
    terms, warnings = kept_run.terms, notes_on(consumer, kept_run)
    if as_json:
        told = {**progress.document(), "digest": terms.digest, "mailbox": store.address}
        told["warnings"] = notice_documents(warnings)
        show_json({**told, **look_document(look, troubles)})
    else:
        stdout.print(f"[bold green]started[/]  {literal(kept_run.name)}, terms {terms.digest[:12]}", soft_wrap=True)
        show_progress(progress)
        show_notes([*(warning.text for warning in warnings), *look.notes])
        stdout.print(f"Follow it with: likeset run watch {literal(kept_run.name)}", soft_wrap=True)
        if troubles:
            complain("the terms are signed and kept, but not all posted yet; likeset run sync tries again")
    end_if_troubled(troubles, as_json=as_json)


def sync(*, home: HomePath = HERE, as_json: JsonFlag = False) -> None:
    """Look once into the mailboxes of all runs: take what came, send what is due. Exit code 1 if one is in trouble.

    Example: `likeset run sync --home clinic`
    """
    consumer = opened_home(home)

    def progress() -> dict[str, Any]:
        return {"runs": [whereabouts(consumer, kept_run).document() for kept_run in open_runs(consumer)]}

    with consumer_desks(consumer, *mailboxes_in_use(consumer)) as desks:
        try:
            sync_and_show(desks, as_json=as_json, more=progress)
        finally:
            if not as_json:
                for kept_run in open_runs(consumer):
                    show_progress(whereabouts(consumer, kept_run))


def collect(name: RunName, *, home: HomePath = HERE, as_json: JsonFlag = False) -> None:
    """Look once into the mailbox of a run, and show its result if it is there. Exit code 1 if it is not.

    Example: `likeset run collect sepsis-2026-07 --home clinic`
    """
    consumer = opened_home(home)
    kept_run = consumer.known(name)
    travel = kept_run.travel
    if travel is None:
        raise InvalidArgument("RUN", name, "does not travel by mailbox; see `likeset run watch`, and then `run report`")
    troubles: list[LikesetError] = []
    if not kept_run.summary_path.exists() and not kept_run.cancelled:
        with consumer_desks(consumer, travel.mailbox) as desks:
            _, troubles = look_once(desks)
    progress = whereabouts(consumer, kept_run)
    if kept_run.summary_path.exists():
        result = result_of(consumer, kept_run)
        if as_json:
            show_json({**progress.document(), "result": result, "report": str(kept_run.result / "report.html")})
            return
        show_result(result)
        stdout.print(f"\nEverything is in [bold]{literal(str(kept_run.result))}[/].", soft_wrap=True)
        return
    if as_json:
        show_json({**progress.document(), "result": None, "troubles": [str(trouble) for trouble in troubles]})
    else:
        show_progress(progress)
        for trouble in troubles:
            complain(str(trouble))
    raise typer.Exit(1)


def sites(
    job: JobPath,
    *,
    seconds: Annotated[float, typer.Option(min=0, help="How long to wait for those that are not there.")] = 0.0,
    home: HomePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """Are all sites of a job connected to NVFlare? Exit code 1 if one is not.

    Example: `likeset run sites job.yaml --seconds 60 --home clinic`
    """
    wanted, engine = Job.load(job), engine_of(opened_home(home))
    end, presence = time.monotonic() + seconds, dict.fromkeys((wanted.consumer, *wanted.owners), False)
    while True:
        last = time.monotonic() >= end
        try:
            there = engine.connected_sites()
        except LikesetError:
            if last:
                raise
        else:
            presence = {name: name in there for name in presence}
        if last or all(presence.values()):
            break
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    if as_json:
        show_json({"connected": presence})
    else:
        for name, is_there in presence.items():
            stdout.print(f"{'[green]connected[/]' if is_there else '[bold red]absent[/]'}  {literal(name)}")
    if not all(presence.values()):
        raise typer.Exit(1)


def submit(job: JobPath, *, days: Days = 30, home: HomePath = HERE, as_json: JsonFlag = False) -> None:
    """Submit a job to NVFlare. Owners decide by themselves; follow it with `likeset run watch`.

    Example: `likeset run submit job.yaml --home clinic`
    """
    consumer = opened_home(home)
    engine = engine_of(consumer)
    kept_run = invited(job, days, consumer)
    check_not_by_mailbox(kept_run, "submit")
    if kept_run.jobs:
        raise InvalidArgument("run", kept_run.name, "was submitted already; go on with `likeset run resume`")
    _submit(kept_run, engine, as_json=as_json)


def resume(name: RunName, *, home: HomePath = HERE, as_json: JsonFlag = False) -> None:
    """Submit a run over NVFlare that was interrupted again: what was drawn is sent again, and nothing is drawn anew.

    Example: `likeset run resume sepsis-2026-07 --home clinic`
    """
    consumer = opened_home(home)
    consumer.check_able_to_write()
    kept_run = consumer.known(name)
    check_not_by_mailbox(kept_run, "resume")
    engine = engine_of(consumer)
    whereabouts = look(kept_run, engine) if kept_run.jobs else None
    if whereabouts is not None and whereabouts.is_open:
        raise InvalidArgument("RUN", name, f"is {whereabouts.text}; there is nothing to resume")
    if (why := obstacle(kept_run, None if whereabouts is None else whereabouts.ending)) is not None:
        raise UnfinishedRequest(why.text)
    _submit(kept_run, engine, as_json=as_json)


def _submit(kept_run: KeptRun, engine: Engine, *, as_json: bool) -> None:
    job = submission.submit(kept_run, engine)
    if as_json:
        show_json({"run": kept_run.name, "job": job, "digest": kept_run.terms.digest})
        return
    stdout.print(
        f"[bold green]submitted[/]  {literal(kept_run.name)}, terms {kept_run.terms.digest[:12]}", soft_wrap=True
    )
    stdout.print(f"Follow it with: likeset run watch {literal(kept_run.name)}", soft_wrap=True)


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
    kept_run = consumer.known(name)
    if kept_run.travel is not None:
        watch_mail(consumer, kept_run, once=once, as_json=as_json)
        return
    with engine_of(consumer) as engine:
        whereabouts = follow(kept_run, engine, once=once, quiet=as_json)
        if whereabouts.is_done:
            ending_of(kept_run, engine)
    failed = not (whereabouts.is_done or whereabouts.is_open)
    why = obstacle(kept_run, whereabouts.ending) if failed else None
    if as_json:
        told = {"run": name, "state": whereabouts.stage, "detail": whereabouts.detail, "sites": whereabouts.sites}
        show_json({**told, "obstacle": None if why is None else why.document()})
    elif whereabouts.is_done:
        stdout.print(f"See it with: likeset run report {literal(name)}", soft_wrap=True)
    elif failed:
        complain(f"run {name}: {whereabouts.text}" if why is None else why.text)
        if why is None and whereabouts.is_resumable:
            words = f"{literal(whereabouts.before_resuming)} It goes on with: likeset run resume {literal(name)}"
            stdout.print(words.lstrip(), soft_wrap=True)
    if failed:
        raise typer.Exit(1)


def cancel(name: RunName, *, home: HomePath = HERE, as_json: JsonFlag = False) -> None:
    """Stop a run. What was drawn is kept and stays charged. Over NVFlare the run can be resumed.

    A run by mailbox ends here for good: what nobody has read is taken back, and nothing more is posted. Owners who have
    the terms keep them until they end.

    Example: `likeset run cancel sepsis-2026-07 --home clinic`
    """
    consumer = opened_home(home)
    kept_run, troubles = consumer.known(name), list[LikesetError]()
    if kept_run.travel is not None:
        cancel_mail(kept_run)
        with consumer_desks(consumer, kept_run.travel.mailbox) as desks:
            _, troubles = look_once(desks)  # takes back what nobody has read
    else:
        engine_of(consumer).cancel(kept_run.last_job())
    if as_json:
        show_json({"run": name, "cancelled": True, "troubles": [str(trouble) for trouble in troubles]})
        return
    stdout.print(f"[bold]cancelled[/]  {literal(name)}")
    if kept_run.travel is not None:
        stdout.print(
            "What lies in the mailbox is taken back, and nothing more is posted. Nobody is told: for owners who have "
            f"its terms it ends with them, on {literal(kept_run.terms.expires)}. What was charged stays charged.",
            soft_wrap=True,
        )
    for trouble in troubles:
        show_notes([f"{trouble}; likeset run sync takes the rest back"])


def report(name: RunName, *, home: HomePath = HERE, as_json: JsonFlag = False) -> None:
    """The result of a run that is done: the rows, who gave what, and the report's page.

    Example: `likeset run report sepsis-2026-07 --home clinic`
    """
    consumer = opened_home(home)
    kept_run = consumer.known(name)
    result = result_of(consumer, kept_run)
    if as_json:
        show_json({**result, "report": str(kept_run.result / "report.html")})
        return
    show_result(result)
    stdout.print(f"\nEverything is in [bold]{literal(str(kept_run.result))}[/].", soft_wrap=True)


def shares(name: RunName, *, home: HomePath = HERE, as_json: JsonFlag = False) -> None:
    """What each owner's rows were worth, and what it is paid at most: by the rows that left it, which it knows itself.

    Telling an owner its share tells it something about the others and your rows: nobody priced that.

    Example: `likeset run shares sepsis-2026-07 --home clinic`
    """
    told, consumer = ("name", "selected", "share", "payment", "payment_at_most"), opened_home(home)
    result = result_of(consumer, consumer.known(name))
    owners = [{field: owner[field] for field in told} for owner in result["owners"]]
    if as_json:
        show_json({"run": name, "owners": owners})
        return
    rows = [
        [
            owner["name"],
            f"{owner['selected']:,}",
            f"{100 * owner['share']:.1f}%",
            or_bound(owner["payment"], owner["payment_at_most"], amount),
        ]
        for owner in owners
    ]
    caption = f"{SHARE} The payment is by rows disclosed."
    show_table("What owners contributed", ["owner", "rows used", "share", "payment"], rows, caption=caption)


run = typer.Typer(
    name="run",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
run.command()(init)
run.command()(plan)
run.command()(invite)
run.command()(start)
run.command()(watch)
run.command()(sync)
run.command()(collect)
run.command()(cancel)
run.command()(report)
run.command()(shares)
run.command(name="list")(list_runs)
run.command(name="console")(of_consumer)
run.command()(sites)
run.command()(submit)
run.command()(resume)
