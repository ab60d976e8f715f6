"""The consumer's console: its runs, who has answered, and plan, report and evaluation of each. It decides nothing."""

import hashlib
from pathlib import Path
from typing import Any

from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp

from likeset.app.console.desk import guarded_app, page_of
from likeset.app.console.guard import Doors
from likeset.app.console.links import Links
from likeset.app.console.paging import Pages
from likeset.app.console.rendering import link
from likeset.app.console.sessions import Sessions
from likeset.app.console.visits import Visit, doing, looking, see_other
from likeset.app.report import render
from likeset.errors import InvalidArgument
from likeset.homes.consumer_home import ConsumerHome, KeptRun
from likeset.run.evaluate import EVALUATION, read_evaluation
from likeset.run.kept_runs import ListedRun, listed_run, published
from likeset.run.plan import guarantee_documents, views_of_run
from likeset.run.runs import read_result, whereabouts
from likeset.run.words import guarantee_lines, guarantee_meanings
from likeset.transports.mailbox.memory import MEMORY_FILE

__all__ = ["ConsumerDesk", "consumer_app"]

_MENU = (("/", "Runs"),)
_REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox; frame-ancestors 'none'"


class ConsumerDesk:
    """A consumer's home, for its pages.

    Args:
        home: the home.
    """

    def __init__(self, home: ConsumerHome) -> None:
        self.home = home
        self.sessions = Sessions()

    def version(self) -> str:
        """When something was last written: runs, what came for them, and their results."""
        folders = (self.home.folder / "runs").glob("*")
        memory = self.home.folder / MEMORY_FILE
        watched = [*sorted(folders), memory, memory.with_name(f"{memory.name}-wal")]
        times = [(path.name, path.stat().st_mtime_ns) for path in watched if path.exists()]
        return hashlib.sha256(repr(times).encode()).hexdigest()[:16]

    def render(self, visit: Visit, template: str, *, status: int = 200, **words: Any) -> Response:
        """A page of this console."""
        name = self.home.connection.name
        return page_of(
            visit, template, menu=_MENU, house=name, status=status, stopped="", version=self.version(), **words
        )


def consumer_app(desk: ConsumerDesk, *, doors: Doors, person: str) -> ASGIApp:
    """All pages of a consumer's console; arguments as ``owner_app``."""
    routes = [
        looking("/", _runs, desk),
        looking("/run", _run, desk),
        looking("/report", _report, desk),
        doing("/publish", _publish, desk),
    ]
    return guarded_app(desk, routes, doors=doors, links=Links(Path(desk.home.folder)), person=person)


def _runs(visit: Visit) -> Response:
    home: ConsumerHome = visit.desk.home
    runs = home.runs()
    pages = Pages.of(len(runs), visit.number("page", 1))
    listed = [_with_progress(home, run) for run in pages.part(runs)]
    return _rendered(visit, "consumer_runs.html", runs=listed, pages=pages)


def _with_progress(home: ConsumerHome, run: KeptRun) -> tuple[ListedRun, Any]:
    listed = listed_run(run)
    return listed, whereabouts(home, run) if listed.mailbox is not None and not listed.cancelled else None


def _run(visit: Visit) -> Response:
    home: ConsumerHome = visit.desk.home
    kept = home.known(visit.query.get("name", ""))
    listed, progress = _with_progress(home, kept)
    result = read_result(kept.result)[0] if listed.result else None
    evaluation = read_evaluation(kept.result) if listed.result else None
    guarantees = guarantee_documents(views_of_run(kept), simulated=False, unit=kept.terms.unit)
    words: dict[str, Any] = {
        "listed": listed,
        "progress": progress,
        "terms": kept.terms,
        "guarantees": [line.cells for line in guarantee_lines(guarantees, owners=kept.terms.owners)],
        "meanings": guarantee_meanings(guarantees, owners=kept.terms.owners),
        "result": result,
        "evaluation": evaluation,
        "can_publish": not listed.result and kept.summary_path.exists(),
        "evaluation_file": EVALUATION,
    }
    return _rendered(visit, "consumer_run.html", **words)


def _publish(visit: Visit) -> Response:
    """Make the report of a run whose summary has come."""
    home: ConsumerHome = visit.desk.home
    kept = home.known(visit.form.text("run"))
    published(home, kept, render=render)
    return see_other(visit, link("/run", name=kept.name), f"The report of {kept.name} is made.")


def _report(visit: Visit) -> Response:
    """The report's page, as it was made: alone, without scripts, and with nothing loaded."""
    kept = visit.desk.home.known(visit.query.get("name", ""))
    if not kept.result.exists():
        raise InvalidArgument("RUN", kept.name, "has no report yet")
    result, pictures = read_result(kept.result)
    page = render(result, pictures, read_evaluation(kept.result))
    return HTMLResponse(page, headers={"content-security-policy": _REPORT_POLICY})


def _rendered(visit: Visit, template: str, **words: Any) -> Response:
    answer: Response = visit.desk.render(visit, template, **words)
    return answer
