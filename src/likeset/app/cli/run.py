"""``likeset run``: the consumer's side of runs between organisations."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from likeset.app.cli.follow import follow
from likeset.display.screen import JsonFlag, complain, literal, show_json, show_notes, show_table, stdout
from likeset.errors import BudgetExceeded, InvalidArgument, UnfinishedRequest

if TYPE_CHECKING:
    from likeset.homes.consumer.home import ConsumerHome, KeptRun
    from likeset.run.submission import Engine

__all__ = ["run"]

run = typer.Typer(
    name="run",
    help="Runs between organisations, from the consumer's side.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

HomePath = Annotated[
    Path, typer.Option("--home", envvar="LIKESET_HOME", help="The consumer's directory; by default the current one.")
]
HERE = Path()
RunName = Annotated[str, typer.Argument(metavar="RUN", help="The run, as the job names it.", show_default=False)]
JobPath = Annotated[Path, typer.Argument(metavar="JOB.yaml", help="The job.", show_default=False)]
Days = Annotated[int, typer.Option(min=1, max=3650, help="For how many days owners may take part.")]
_SECONDS_BETWEEN_LOOKS = 1.5


@run.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new directory.", show_default=False)],
    *,
    name: Annotated[str, typer.Option(help="The consumer's name, which is its site's.", show_default=False)],
    kit: Annotated[Path, typer.Option(help="Start-up kit of the user who submits.", show_default=False)],
    user: Annotated[str, typer.Option(help="That user's name, as provisioned.", show_default=False)],
    as_json: JsonFlag = False,
) -> None:
    """Make the directory in which a consumer keeps its runs and its ledger.

    Example: [bold]likeset run init clinic --name new-clinic --kit kits/lead@example.org --user lead@example.org[/]
    """
    from likeset.homes.consumer.home import make_consumer_home

    if not (kit / "startup").is_dir():
        raise InvalidArgument("--kit", kit, "is no start-up kit: it has no folder startup")
    home = make_consumer_home(folder, name=name, kit=str(kit.resolve()), user=user)
    if as_json:
        show_json({"home": str(home.folder), "name": name, "card": home.card().fingerprint})
        return
    stdout.print(f"[bold green]made[/]  {literal(str(home.folder))}", soft_wrap=True)
    stdout.print(f"its card, for others to pin: {literal(str(home.card_file))} (likeset card show)", soft_wrap=True)


@run.command()
def plan(job: JobPath, *, as_json: JsonFlag = False) -> None:
    """Say what a job would do and cost, as [bold]likeset plan[/] does; writes nothing and asks nobody.

    Example: [bold]likeset run plan job.yaml[/]
    """
    from likeset.app.cli.result_screen import show_guarantees
    from likeset.run.job import Job
    from likeset.run.job_plan import check_owners_files
    from likeset.run.notices import notice_documents
    from likeset.run.remote import check_carried, notes_on_size, plan_between

    wanted = Job.load(job)
    check_owners_files(wanted)
    planned = plan_between(wanted)
    notes = [*check_carried(wanted, planned.files.schema), *notes_on_size(planned.traffic)]
    document = planned.document()
    if as_json:
        show_json({**document, "between_organisations": notice_documents(notes)})
        return
    terms = planned.terms
    facts = [
        ("rows that each owner discloses to the curator, at most", f"{terms.rows_per_owner:,}"),
        (f"{'hashes of rows' if terms.hashing else 'rows'} that the curator sees, at most", f"{planned.rows_seen:,}"),
        ("messages between curator and owners, at most", f"{planned.messages:,}"),
        ("numbers released about the target", f"{document['released_coordinates']:,}"),
    ]
    show_table("What will travel", ("what", "how much"), facts, caption="Nobody was asked, and nothing was spent.")
    show_guarantees(document["guarantees"], owners=terms.owners, title="What it will cost")
    stdout.print(f"\n{literal(planned.advice.text)}\n", soft_wrap=True)
    show_notes(notice.text for notice in (*planned.warnings, *notes))


@run.command()
def sites(
    job: JobPath,
    *,
    seconds: Annotated[float, typer.Option(min=0, help="How long to wait for those that are not there.")] = 0.0,
    home: HomePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """Are all sites of a job connected? Exit code 1 if one is not.

    Example: [bold]likeset run sites job.yaml --seconds 60 --home clinic[/]
    """
    from likeset.errors import LikesetError
    from likeset.run.job import Job

    wanted, engine = Job.load(job), _engine(_home(home))
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


@run.command()
def invite(job: JobPath, *, days: Days = 30, home: HomePath = HERE, as_json: JsonFlag = False) -> None:
    """Sign the terms of a job, for owners to look at before it is submitted; they name all parties by their cards.

    The cards of all owners and of the curator must be pinned here ([bold]likeset card pin[/]). Where the release's
    width is chosen privately, that choice is made and charged now, once. Where the curator is to see hashes only, the
    seed of the hashes is drawn as well: give it to owners, and never to the curator.

    Example: [bold]likeset run invite job.yaml --home clinic[/]
    """
    from likeset.protocol.party import CURATOR
    from likeset.run.notices import notice_documents
    from likeset.run.remote import notes_on

    kept_run = _invite(job, days, _home(home))
    terms, notes = kept_run.terms, notes_on(kept_run)
    if as_json:
        told = {"run": kept_run.name, "invitation": str(kept_run.invitation_path), "digest": terms.digest}
        told["expires"] = terms.expires
        show_json(
            {**told, "cards": dict(terms.cards), "hash_seed": _seed_file(kept_run), "notes": notice_documents(notes)}
        )
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
    _show_seed(kept_run)
    show_notes(notice.text for notice in notes)


@run.command()
def submit(job: JobPath, *, days: Days = 30, home: HomePath = HERE, as_json: JsonFlag = False) -> None:
    """Submit a job to the network. Owners decide by themselves; follow it with [bold]likeset run watch[/].

    Example: [bold]likeset run submit job.yaml --home clinic[/]
    """
    consumer = _home(home)
    kept_run = _invite(job, days, consumer)
    if kept_run.jobs:
        raise InvalidArgument("run", kept_run.name, "was submitted already; go on with `likeset run resume`")
    _submit(kept_run, _engine(consumer), as_json=as_json)


@run.command()
def resume(name: RunName, *, home: HomePath = HERE, as_json: JsonFlag = False) -> None:
    """Submit a run that was interrupted again: what was drawn is sent again, and nothing is drawn anew.

    Example: [bold]likeset run resume sepsis-2026-07 --home clinic[/]
    """
    from likeset.run.submission import look, obstacle

    consumer = _home(home)
    consumer.check_able_to_write()
    kept_run, engine = consumer.known(name), _engine(consumer)
    whereabouts = look(kept_run, engine) if kept_run.jobs else None
    if whereabouts is not None and whereabouts.is_open:
        raise InvalidArgument("RUN", name, f"is {whereabouts.text}; there is nothing to resume")
    if (why := obstacle(kept_run, None if whereabouts is None else whereabouts.ending)) is not None:
        raise UnfinishedRequest(why.text)
    _submit(kept_run, engine, as_json=as_json)


@run.command()
def watch(
    name: RunName,
    *,
    once: Annotated[bool, typer.Option("--once", help="Look once, and do not wait for the end.")] = False,
    home: HomePath = HERE,
    as_json: JsonFlag = False,
) -> None:
    """Follow a run: which owner waits for approval, works, is done or gave no answer. Exit code 1 if it failed.

    Example: [bold]likeset run watch sepsis-2026-07 --home clinic[/]
    """
    from likeset.run.submission import ending_of, obstacle

    consumer = _home(home)
    kept_run = consumer.known(name)
    with _engine(consumer) as engine:
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


@run.command()
def cancel(name: RunName, *, home: HomePath = HERE, as_json: JsonFlag = False) -> None:
    """Stop a run. What was drawn is kept and stays charged; the run can be resumed.

    Example: [bold]likeset run cancel sepsis-2026-07 --home clinic[/]
    """
    consumer = _home(home)
    kept_run = consumer.known(name)
    _engine(consumer).cancel(kept_run.last_job())
    show_json({"run": name, "cancelled": True}) if as_json else stdout.print(f"[bold]cancelled[/]  {literal(name)}")


@run.command()
def report(name: RunName, *, home: HomePath = HERE, as_json: JsonFlag = False) -> None:
    """The result of a run that is done: the rows, who gave what, and the report's page.

    Example: [bold]likeset run report sepsis-2026-07 --home clinic[/]
    """
    from likeset.app.cli.result_screen import show_result

    consumer = _home(home)
    kept_run = consumer.known(name)
    result = _result(consumer, kept_run)
    if as_json:
        show_json({**result, "report": str(kept_run.result / "report.html")})
        return
    show_result(result)
    stdout.print(f"\nEverything is in [bold]{literal(str(kept_run.result))}[/].", soft_wrap=True)


@run.command()
def shares(name: RunName, *, home: HomePath = HERE, as_json: JsonFlag = False) -> None:
    """What each owner's rows were worth, and what it is paid at most: by the rows that left it, which it knows itself.

    Telling an owner its share tells it something about the others and your rows: nobody priced that.

    Example: [bold]likeset run shares sepsis-2026-07 --home clinic[/]
    """
    from likeset.app.cli.result_screen import known_or_bound

    told, consumer = ("name", "selected", "share", "shapley", "payment", "payment_at_most"), _home(home)
    result = _result(consumer, consumer.known(name))
    owners = [{field: owner[field] for field in told} for owner in result["owners"]]
    if as_json:
        show_json({"run": name, "owners": owners})
        return
    rows = []
    for owner in owners:
        paid = known_or_bound(owner["payment"], owner["payment_at_most"], "{:,.2f}")
        rows.append([owner["name"], str(owner["selected"]), f"{100 * owner['share']:.1f}%", paid])
    show_table("What owners contributed", ["owner", "rows used", "share", "payment"], rows)


@run.command(name="list")
def list_runs(*, home: HomePath = HERE, as_json: JsonFlag = False) -> None:
    """All runs of this consumer.

    Example: [bold]likeset run list --home clinic[/]
    """
    runs: list[dict[str, Any]] = [
        {
            "run": kept_run.name,
            "digest": kept_run.terms.digest,
            "invitation": str(kept_run.invitation_path),
            "expires": kept_run.terms.expires,
            "jobs": len(kept_run.jobs),
            "result": kept_run.result.exists(),
        }
        for kept_run in _home(home).runs()
    ]
    if as_json:
        show_json({"runs": runs})
        return
    lines = [
        [
            run_document["run"],
            run_document["expires"],
            str(run_document["jobs"]),
            "yes" if run_document["result"] else "no",
            run_document["digest"][:12],
        ]
        for run_document in runs
    ]
    show_table("Runs", ["run", "terms until", "submitted", "result", "terms"], lines)


def _seed_file(kept_run: "KeptRun") -> str | None:
    """Where the seed of hashes lies; None where the curator sees rows."""
    return str(kept_run.hash_seed_path) if kept_run.terms.hashing else None


def _show_seed(kept_run: "KeptRun") -> None:
    """How the seed of hashes goes to owners, where there is one."""
    seed = _seed_file(kept_run)
    if seed is not None:
        stdout.print(
            f"[bold]{literal(seed)}[/]  the seed of the hashes, for owners alone: hand it over, or send it encrypted. "
            "Whoever has it and the hashes has the rows, so it must not pass through the curator.",
            soft_wrap=True,
        )
        stdout.print(
            f"They approve with: likeset owner approve {literal(kept_run.name)} --hash-seed FILE", soft_wrap=True
        )


def _home(folder: Path) -> "ConsumerHome":
    from likeset.homes.consumer.home import ConsumerHome

    home = ConsumerHome(folder)
    _ = home.connection
    return home


def _engine(home: "ConsumerHome") -> "Engine":
    from likeset.transports.nvflare.quiet_client import QuietEngine

    connection = home.connection
    return QuietEngine(Path(connection.kit), connection.user)


def _invite(job: Path, days: int, home: "ConsumerHome") -> "KeptRun":
    from likeset.run.job import Job
    from likeset.run.remote import expiry, invite

    loaded = Job.load(job)
    try:
        return invite(home, loaded, expires=expiry(days))
    except BudgetExceeded as error:
        error.add_note(f"look at it with: likeset ledger show {home.ledger}")
        error.add_note("the first run sets the limit for all; likeset ledger limit --help says how to change it")
        raise


def _submit(kept_run: "KeptRun", engine: "Engine", *, as_json: bool) -> None:
    from likeset.run.submission import submit

    job = submit(kept_run, engine)
    if as_json:
        show_json(
            {"run": kept_run.name, "job": job, "digest": kept_run.terms.digest, "hash_seed": _seed_file(kept_run)}
        )
        return
    stdout.print(
        f"[bold green]submitted[/]  {literal(kept_run.name)}, terms {kept_run.terms.digest[:12]}", soft_wrap=True
    )
    _show_seed(kept_run)
    stdout.print(f"Follow it with: likeset run watch {literal(kept_run.name)}", soft_wrap=True)


def _result(home: "ConsumerHome", kept_run: "KeptRun") -> dict[str, Any]:
    from likeset.app.report import render
    from likeset.run.publish import read_result
    from likeset.run.remote import collect, conclude

    if not kept_run.result.exists():
        conclude(home, kept_run, collect(kept_run), render=render)
    return read_result(kept_run.result)[0]
