"""Pages of records: budgets over time, what left, and the log."""

import io
import zipfile
from typing import Any

from markupsafe import Markup
from starlette.responses import Response

from likeset.app.console import drawings
from likeset.app.console.paging import Pages
from likeset.app.console.visits import Visit, download
from likeset.homes import review
from likeset.homes.owner_node import OwnerNode
from likeset.homes.review import BudgetOverview, budget_overview, find_row, handle_in, left_records, left_run, log_page
from likeset.ledger.ledger import Head

__all__ = ["budgets", "found_row", "left", "literal_bytes", "log", "verify"]

_ROWS_SHOWN = 50


def budgets(visit: Visit) -> Response:
    """Both budgets, and what was charged when."""
    overview = budget_overview(visit.desk.node)
    history = list(reversed(overview.history))
    pages = Pages.of(len(history), visit.number("page", 1))
    words = {
        "overview": overview,
        "bars": [drawings.budget_bar(line.what, line.spent, line.spent, line.limit) for line in overview.lines],
        "charts": [chart for chart in _charts(overview) if chart is not None],
        "history": pages.part(history),
        "pages": pages,
    }
    return _rendered(visit, "budgets.html", **words)


def _charts(overview: BudgetOverview) -> list[Markup | None]:
    """Each budget over time, those of which nothing is spent left out."""
    epsilon = [(point.at, point.epsilon) for point in overview.course]
    rows = [(point.at, float(point.rows)) for point in overview.course]
    readable = [(point.at, float(point.readable)) for point in overview.course]
    same = (readable, overview.readable.limit) == (rows, overview.rows.limit)  # every curator so far read all rows
    return [
        drawings.over_time(overview.epsilon.what, epsilon, overview.epsilon.limit),
        drawings.over_time(overview.rows.what, rows, overview.rows.limit),
        None if same else drawings.over_time(overview.readable.what, readable, overview.readable.limit),
    ]


def left(visit: Visit) -> Response:
    """What left, by run; of one run also the rows."""
    node: OwnerNode = visit.desk.node
    run = visit.query.get("run", "")
    if run:
        node.record_of(run)
        rows = review.rows_that_left(node, run)
        shown = [] if rows.table is None else rows.table.slice(0, _ROWS_SHOWN).to_pylist()
        messages = review.messages_with_receipts(node, run)
        return _rendered(visit, "left_run.html", run=run, messages=messages, rows=rows, shown=shown)
    records = list(reversed(left_records(node)))
    pages = Pages.of(len(records), visit.number("page", 1))
    return _rendered(visit, "left.html", runs=[left_run(node, record) for record in pages.part(records)], pages=pages)


def literal_bytes(visit: Visit) -> Response:
    """The messages of a run as they left, byte by byte, in one file to keep."""
    node: OwnerNode = visit.desk.node
    run = node.record_of(visit.query.get("run", "")).run
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for message in review.messages_that_left(node, run):
            archive.writestr(zipfile.ZipInfo(message.file_name), message.data)
    return download(packed.getvalue(), f"{run}.zip", kind="application/zip")


def found_row(visit: Visit) -> Response:
    """The row that left under a handle which its buyer named; nothing is written."""
    handle = handle_in(visit.form.text("handle", most=40))
    found = find_row(visit.desk.node, handle, run=visit.form.text("run", most=200) or None)
    return _rendered(visit, "left_row.html", found=found)


def log(visit: Visit) -> Response:
    """The last entries of the log, and its head."""
    return _log_page(visit)


def verify(visit: Visit) -> Response:
    """Check the whole chain, what left and the receipts; with a head that was kept elsewhere, against that."""
    node: OwnerNode = visit.desk.node
    kept = visit.form.text("head", most=100)
    problems, notes = review.verify(node, head=Head.parse(kept) if kept else None)
    return _log_page(visit, checked=True, problems=[str(problem) for problem in problems], remarks=notes)


def _log_page(visit: Visit, **found: Any) -> Response:
    node: OwnerNode = visit.desk.node
    about, before = visit.query.get("about", "").strip(), visit.number("before", 0)
    page = log_page(node, before=before or None, run=about)
    found = {"checked": False, "problems": [], "remarks": [], **found}
    return _rendered(visit, "log.html", page=page, about=about, head=str(node.ledger.head()), **found)


def _rendered(visit: Visit, template: str, **words: Any) -> Response:
    answer: Response = visit.desk.render(visit, template, **words)
    return answer
