"""The consumer's console: its runs, who has answered, and plan, report and evaluation of each. It decides nothing."""

from collections.abc import Callable
from typing import Any

from starlette.responses import HTMLResponse, Response

from likeset.app.console.server import PageRequest, Pages
from likeset.app.report import render
from likeset.errors import InvalidArgument
from likeset.homes.consumer import Consumer
from likeset.run.between import listed_run
from likeset.run.evaluate import read_evaluation
from likeset.run.here import read_result

_REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox; frame-ancestors 'none'"


MENU = (("/runs", "Runs"),)


def runs(consumer: Consumer, request: PageRequest) -> Response:
    known = consumer.runs()[::-1]
    pages = Pages.of(len(known), request.number("page", 1))
    listed = [(listed_run(consumer, run), consumer.progress(run) if run.mailbox else None) for run in pages.part(known)]
    return request.render("consumer_runs.html", runs=listed, pages=pages)


def show_run(consumer: Consumer, request: PageRequest) -> Response:
    run = consumer.run(request.query.get("name", ""))
    folder, terms, listed = consumer.folder(run.name), run.terms, listed_run(consumer, run)
    is_published = folder.result.exists()
    words: dict[str, Any] = {
        "listed": listed,
        "progress": consumer.progress(run) if run.mailbox else None,
        "terms": terms,
        "result": read_result(folder.result)[0] if is_published else None,
        "evaluation": read_evaluation(folder.result) if is_published else None,
        "has_summary": folder.summary_path.exists(),
    }
    return request.render("consumer_run.html", **words)


def report(consumer: Consumer, request: PageRequest) -> Response:
    """The report as it was made, without scripts and without anything loaded."""
    folder = consumer.folder(consumer.run(request.query.get("name", "")).name)
    if not folder.result.exists():
        raise InvalidArgument("RUN", folder.name, "has no report yet")
    result, pictures = read_result(folder.result)
    page = render(result, pictures, read_evaluation(folder.result))
    return HTMLResponse(page, headers={"content-security-policy": _REPORT_POLICY})


PAGES: dict[str, Callable[[Consumer, PageRequest], Response]] = {
    "/runs": runs,
    "/runs/run": show_run,
    "/runs/report": report,
}
