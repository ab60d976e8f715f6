"""``likeset run sites``, ``submit`` and ``resume``: runs over NVFlare."""

import time
from typing import Annotated

import typer

from likeset.app.cli import run_setup
from likeset.app.cli.run_setup import (
    HERE,
    Days,
    HomePath,
    JobPath,
    RunName,
    invited,
    opened_home,
)
from likeset.display.screen import JsonFlag, literal, show_json, stdout
from likeset.errors import InvalidArgument, LikesetError, UnfinishedRequest
from likeset.homes.consumer_home import KeptRun
from likeset.run import submission
from likeset.run.job import Job
from likeset.run.runs import check_not_by_mailbox
from likeset.run.submission import Engine, look, obstacle

__all__ = ["resume", "sites", "submit"]

_SECONDS_BETWEEN_LOOKS = 1.5


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
    wanted, engine = Job.load(job), run_setup.engine_of(opened_home(home))
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
    engine = run_setup.engine_of(consumer)
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
    engine = run_setup.engine_of(consumer)
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
