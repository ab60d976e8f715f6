"""What the commands of ``likeset run`` share, and ``likeset run init``: a consumer's directory before its first run."""

from pathlib import Path
from typing import Annotated, Any

import typer

from likeset.app.cli.home_paths import HERE, home_option
from likeset.app.cli.mailbox import ListenOption, MailboxOption, ReachOption
from likeset.app.report import render
from likeset.display.screen import JsonFlag, literal, show_json, stdout
from likeset.errors import BudgetExceeded, InvalidArgument
from likeset.homes.consumer_home import ConsumerHome, KeptRun, make_consumer_home
from likeset.run.job import Job
from likeset.run.kept_runs import published
from likeset.run.runs import expiry, invite
from likeset.run.submission import Engine
from likeset.transports.nvflare.quiet_client import QuietEngine

__all__ = [
    "HERE",
    "Days",
    "HomePath",
    "JobPath",
    "RunName",
    "engine_of",
    "init",
    "invited",
    "opened_home",
    "result_of",
]

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
        return invite(home, loaded, expires=expiry(days))
    except BudgetExceeded as error:
        error.add_note(f"look at it with: likeset ledger show {home.ledger}")
        error.add_note("the first run sets the limit for all; likeset ledger limit --help says how to change it")
        raise


def result_of(home: ConsumerHome, kept_run: KeptRun) -> dict[str, Any]:
    """The result of a run whose summary has come; published when it is first asked for."""
    return published(home, kept_run, render=render)
