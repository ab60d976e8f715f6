"""``likeset run start``, ``sync`` and ``collect``: runs by mailbox, from the consumer's side."""

from datetime import timedelta
from typing import Annotated, Any

import typer

from likeset.app.cli.follow_mail import consumer_desks, show_progress
from likeset.app.cli.mailbox import end_if_troubled, look_document, sync_and_show
from likeset.app.cli.result_screen import show_result
from likeset.app.cli.run_setup import (
    HERE,
    Days,
    HomePath,
    JobPath,
    RunName,
    invited,
    opened_home,
    result_of,
)
from likeset.display.screen import JsonFlag, complain, literal, show_json, show_notes, stdout
from likeset.errors import InvalidArgument, LikesetError
from likeset.run.notices import notice_documents
from likeset.run.runs import mailbox_for, mailboxes_in_use, notes_on, open_runs, whereabouts
from likeset.run.runs import start as start_mail
from likeset.transports.stores import open_store
from likeset.transports.sync import look_once

__all__ = ["collect", "start", "sync"]


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
