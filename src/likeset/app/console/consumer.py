"""The consumer's console: its runs, who has answered, and plan, report and evaluation of each. It decides nothing."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from starlette.responses import HTMLResponse, Response

from likeset.app.console.server import Listen, Pages, RunningConsole, Site, Visit, link, serving
from likeset.app.report import render
from likeset.errors import InvalidArgument
from likeset.homes.consumer_home import ConsumerHome, KeptRun
from likeset.run.evaluate import read_evaluation
from likeset.run.plan import guarantee_documents, views_of_run
from likeset.run.runs import ListedRun, listed_run, published, read_result
from likeset.run.words import guarantee_lines, guarantee_meanings
from likeset.transports.desks import whereabouts

_REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox; frame-ancestors 'none'"


def consumer_console(home: ConsumerHome, listen: Listen) -> AbstractContextManager[RunningConsole]:
    """The console of a consumer's home until the block ends."""
    return serving(consumer_site(home), listen)


def consumer_site(home: ConsumerHome) -> Site:
    pages = {path: partial(page, home) for path, page in PAGES.items()}
    actions = {path: partial(page, home) for path, page in ACTIONS.items()}
    return Site(Path(home.folder), home.connection.name, (("/", "Runs"),), pages, actions)


def runs(home: ConsumerHome, visit: Visit) -> Response:
    known = home.runs()
    pages = Pages.of(len(known), visit.number("page", 1))
    listed = [_with_progress(home, run) for run in pages.part(known)]
    return visit.render("consumer_runs.html", runs=listed, pages=pages)


def _with_progress(home: ConsumerHome, run: KeptRun) -> tuple[ListedRun, Any]:
    listed = listed_run(run)
    return listed, whereabouts(home, run) if listed.mailbox is not None and not listed.cancelled else None


def show_run(home: ConsumerHome, visit: Visit) -> Response:
    run = home.known(visit.query.get("name", ""))
    listed, progress = _with_progress(home, run)
    guarantees = guarantee_documents(views_of_run(run), simulated=False, unit=run.terms.unit)
    words: dict[str, Any] = {
        "listed": listed,
        "progress": progress,
        "terms": run.terms,
        "guarantees": [line.cells for line in guarantee_lines(guarantees, owners=run.terms.owners)],
        "meanings": guarantee_meanings(guarantees, owners=run.terms.owners),
        "result": read_result(run.result)[0] if listed.result else None,
        "evaluation": read_evaluation(run.result) if listed.result else None,
        "can_publish": not listed.result and run.summary_path.exists(),
    }
    return visit.render("consumer_run.html", **words)


def publish(home: ConsumerHome, visit: Visit) -> Response:
    """Make the report of a run whose summary has come."""
    run = home.known(visit.text("run"))
    published(home, run, render=render)
    return visit.redirect(link("/run", name=run.name), f"The report of {run.name} is made.")


def report(home: ConsumerHome, visit: Visit) -> Response:
    """The report as it was made, without scripts and without anything loaded."""
    run = home.known(visit.query.get("name", ""))
    if not run.result.exists():
        raise InvalidArgument("RUN", run.name, "has no report yet")
    result, pictures = read_result(run.result)
    page = render(result, pictures, read_evaluation(run.result))
    return HTMLResponse(page, headers={"content-security-policy": _REPORT_POLICY})


PAGES: dict[str, Callable[[ConsumerHome, Visit], Response]] = {"/": runs, "/run": show_run, "/report": report}
ACTIONS: dict[str, Callable[[ConsumerHome, Visit], Response]] = {"/publish": publish}
