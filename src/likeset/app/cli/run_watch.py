"""``likeset run watch`` and ``cancel``: a run that is under way, however it travels."""

from typing import Annotated

import typer

from likeset.app.cli import run_setup
from likeset.app.cli.follow import follow
from likeset.app.cli.follow_mail import consumer_desks, watch_mail
from likeset.app.cli.run_setup import HERE, HomePath, RunName, opened_home
from likeset.display.screen import JsonFlag, complain, literal, show_json, show_notes, stdout
from likeset.errors import LikesetError
from likeset.run.runs import cancel as cancel_mail
from likeset.run.submission import ending_of, obstacle
from likeset.transports.sync import look_once

__all__ = ["cancel", "watch"]


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
    with run_setup.engine_of(consumer) as engine:
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
        run_setup.engine_of(consumer).cancel(kept_run.last_job())
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
