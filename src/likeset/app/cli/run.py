"""``likeset run``: the consumer's side of runs between organisations."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from likeset.app.cli.home import HERE, NOUN, HomePath, at_home, stopping_by_signals, sync_document
from likeset.app.lazy import lazy_imports
from likeset.app.report import render
from likeset.display import complain, emit, in_json, literal, show_notes, stderr, stdout
from likeset.errors import BudgetExceeded, InvalidArgument

with lazy_imports():
    from likeset.app.cli import match as screens
    from likeset.homes import consumer as consumers
    from likeset.homes import curator as curators
    from likeset.homes import home as homes
    from likeset.homes import mail as letters
    from likeset.homes import review
    from likeset.homes import runs as home_runs
    from likeset.protocol import notices
    from likeset.run import between, words
    from likeset.run import job as jobs
    from likeset.run import plan as plans
    from likeset.transports import stores
    from likeset.transports import sync as mailboxes

run = typer.Typer(name="run", **NOUN)

RunName = Annotated[str, typer.Argument(metavar="RUN", help="The run, as the job names it.", show_default=False)]
JobPath = Annotated[Path, typer.Argument(metavar="JOB.yaml", help="The job.", show_default=False)]
Days = Annotated[int, typer.Option(min=1, max=3650, help="For how many days the terms last.")]
DecideWithin = Annotated[
    float | None,
    typer.Option(min=0, metavar="DAYS", help="How long owners have to answer.  \\[default: half of the terms' life]"),
]

_LONGEST_PAUSE = 10.0  # a person is watching the screen


@contextmanager
def opened_consumer(folder: Path) -> "Iterator[consumers.Consumer]":
    with homes.Home(folder) as home:
        yield consumers.Consumer(letters.Mail(home))


def invited(job: Path, days: int, answer_within: float | None, consumer: "consumers.Consumer") -> "home_runs.Run":
    loaded = jobs.Job.load(job)
    try:
        return between.invite(consumer, loaded, **between.times_of_terms(days, answer_within))
    except BudgetExceeded as error:
        error.add_note(f"see: likeset ledger show {consumer.home.database_file}")
        error.add_note("the first run sets the limit for all; likeset ledger limit --help says how to change it")
        raise


@run.command()
def plan(job: JobPath, *, home: HomePath = HERE) -> None:
    """Show what a job would do and cost, and the budget that would remain; writes nothing and contacts nobody.

    Without a home the budget counts this run alone.

    Example: `likeset run plan job.yaml --home clinic`
    """
    wanted = jobs.Job.load(job)
    plans.check_owners_files(wanted)
    if home != HERE or (HERE / homes.SETTINGS_FILE).is_file():
        with opened_consumer(home) as consumer:
            wanted = wanted.model_copy(update={"ledger": str(consumer.home.database_file)})
            planned = between.with_own_curator(between.plan_between(wanted), consumer.home, wanted)
    else:
        planned = between.plan_between(wanted)
    notes = [*between.check_carried(wanted), *between.notes_on_terms(planned.terms)]
    document = {**planned.document(), "between_organisations": notices.notice_documents(notes)}
    texts = [notice.text for notice in (*planned.warnings, *notes)]
    emit(document, view=lambda: screens.show_plan(planned, "Nobody was asked, and nothing was spent."), notes=texts)


@run.command()
def start(
    job: JobPath,
    *,
    mailbox: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Where its letters come and go: file:///FOLDER, sftp://USER@HOST/FOLDER or s3://BUCKET/FOLDER.  "
            "\\[default: the only one in home.yaml]",
        ),
    ] = None,
    days: Days = 30,
    decide_within: DecideWithin = None,
    home: HomePath = HERE,
) -> None:
    """Sign the terms of a job and post them to owners and curator, who decide whether to take part.

    The run begins when all have answered, or after --decide-within with those who accepted, if they are enough; the
    signed terms contain that time. Follow the run with `likeset run watch`, or let cron call `likeset sync`. Calling
    this again posts the same terms.

    Example: `likeset run start job.yaml --mailbox sftp://clinic@post.example.org/likeset --home clinic`
    """
    with opened_consumer(home) as consumer:
        # An address that cannot be used is refused before anything is signed.
        store = stores.open_store(between.mailbox_for(consumer.home, mailbox))
        signed = invited(job, days, decide_within, consumer)
        if consumer.home.own_curator is not None:
            with homes.Home(consumer.home.own_curator) as curating:
                curators.Curator(letters.Mail(curating)).add_schema(consumer.folder(signed.name).schema_path)
        consumer.start_run(signed, store.address)
        with mailboxes.opened_syncs(home, [store.address]) as opened:
            done = mailboxes.sync_once(opened)
        progress, warnings = consumer.progress(signed), between.notes_on(consumer, signed)

    def view() -> None:
        _print_status(progress)
        for trouble in done.troubles.values():
            complain(f"{trouble}; the terms are signed and stored, and the next sync posts them")

    document = {
        **progress.document(),
        "digest": signed.terms.digest,
        "mailbox": store.address,
        "warnings": notices.notice_documents(warnings),
        **sync_document(done),
    }
    texts = [*(warning.text for warning in warnings), *done.notes]
    hint = at_home(home, "likeset", "run", "watch", signed.name)
    emit(document, view=view, notes=texts, next_step=hint, ok=not done.troubles)


@run.command()
def watch(
    name: RunName,
    *,
    once: Annotated[bool, typer.Option("--once", help="Sync once, and do not wait for the end.")] = False,
    home: HomePath = HERE,
) -> None:
    """Follow a run: who received the terms, who answered, whom it waits for, until when. Exit code 1 if it failed.

    A run continues only while this command or `likeset up` runs, or when `likeset sync` is called.
    Ctrl-C stops this command, not the run.

    Example: `likeset run watch sepsis-2026-07 --home clinic`
    """
    with opened_consumer(home) as consumer:
        _watch(consumer, _started(consumer, name), home, once=once)


def _started(consumer: "consumers.Consumer", name: str) -> "home_runs.Run":
    found = consumer.run(name)
    if not found.mailbox:
        raise InvalidArgument("RUN", name, "was not started yet; do so with `likeset run start`")
    return found


def _print_status(progress: "consumers.RunProgress") -> None:
    parties = ", ".join(f"{literal(name)}: {literal(progress.stands(name))}" for name in progress.parties)
    more = f"; {literal(progress.outlook)}" if progress.outlook else ""
    stdout.print(f"[bold]{literal(progress.headline)}[/]  {parties}{more}", soft_wrap=True)
    stdout.file.flush()


def _watch(consumer: "consumers.Consumer", followed: "home_runs.Run", home: Path, *, once: bool) -> None:
    """Exit code 1 if the run ended without a summary, or if the one sync met a mailbox in trouble."""
    progress, troubles, is_quiet = consumer.progress(followed), list[str](), in_json()
    was_over = progress.ended is not None
    if not was_over:
        with mailboxes.opened_syncs(home, [followed.mailbox], stays=not once) as opened, stopping_by_signals() as stop:
            if not is_quiet:
                _print_status(progress)

            def synced(done: "mailboxes.Synced") -> None:
                nonlocal progress
                troubles.extend(done.troubles.values())
                before, progress = progress, consumer.progress(followed)
                if progress != before and not is_quiet:
                    _print_status(progress)
                if once or progress.ended is not None:
                    stop.set()

            def tell(line: str) -> None:
                stderr.print(literal(line), soft_wrap=True) if is_quiet else show_notes([line])

            mailboxes.serve(opened, stop=stop, tell=tell, synced=synced, longest=_LONGEST_PAUSE)
    failed = progress.ended is not None and not progress.done
    cancelled = consumer.run(followed.name).state == home_runs.State.CANCELLED
    document = {**progress.document(), "cancelled": cancelled, "troubles": troubles if once else []}
    why = "was cancelled here; give the job another name to ask again" if cancelled else progress.headline
    verb = "report" if progress.done else "watch"

    def view() -> None:
        if failed:
            complain(f"run {followed.name}: {why}")
        elif was_over:
            _print_status(progress)

    hint = () if failed else at_home(home, "likeset", "run", verb, followed.name)
    emit(document, view=view, next_step=hint, ok=not (failed or document["troubles"]))


@run.command()
def cancel(name: RunName, *, home: HomePath = HERE) -> None:
    """Cancel a run. Releases that were drawn stay stored and charged.

    Unread files are removed from the mailbox, and owners are told. Those that have offered no rows close it.

    Example: `likeset run cancel sepsis-2026-07 --home clinic`
    """
    with opened_consumer(home) as consumer:
        followed = _started(consumer, name)
        consumer.cancel(followed)
        with mailboxes.opened_syncs(home, [followed.mailbox]) as opened:
            troubles = mailboxes.sync_once(opened).troubles  # takes back what nobody has read
    notes = ["owners are told; for those that have offered rows it ends with their receipt, or with the terms"]
    if troubles:
        notes.append(f"tell them later, and take the rest back, with: {' '.join(at_home(home, 'likeset sync'))}")
    document = {"run": name, "cancelled": True, "troubles": list(troubles.values())}
    emit(document, notes=notes)


@run.command()
def report(name: RunName, *, home: HomePath = HERE) -> None:
    """Show the result of a finished run: distance, contributions, guarantees, and the path of the report.

    Example: `likeset run report sepsis-2026-07 --home clinic`
    """
    with opened_consumer(home) as consumer:
        result, folder = between.published(consumer, consumer.run(name), render=render), consumer.folder(name).result

    def view() -> None:
        screens.show_result(result)
        if owed := words.owed_in_words(result):
            stdout.print(f"\n{literal(owed)}", soft_wrap=True)
        stdout.print(f"\nEverything is in [bold]{literal(str(folder))}[/].", soft_wrap=True)

    emit({**result, "report": str(folder / "report.html")}, view=view)


@run.command(name="list")
def list_runs(*, home: HomePath = HERE) -> None:
    """List the runs of this consumer.

    Example: `likeset run list --home clinic`
    """
    with opened_consumer(home) as consumer:
        emit({"runs": [between.listed_run(consumer, one) for one in consumer.runs()]})


@run.command()
def export(
    name: RunName,
    *,
    out: Annotated[Path, typer.Option(help="A new directory for the files.", show_default=False)],
    home: HomePath = HERE,
) -> None:
    """Write the signed terms, acceptances and receipts of a run as files that a third party can verify.

    They are described in docs/wire.md. No row, target or key is in them. Works in any home.

    Example: `likeset run export sepsis-2026-07 --out sepsis-evidence --home clinic`
    """
    with homes.Home(home) as opened:
        written = review.export(letters.Mail(opened), name, out)
    emit({"run": name, "files": [str(path) for path in written]})
