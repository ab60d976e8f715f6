"""``likeset report``: the page of a finished job, again or for one of its owners."""

from pathlib import Path
from typing import Annotated

import typer

from likeset import documents
from likeset.app.report import render, render_for_owner
from likeset.display.screen import JsonFlag, literal, show_json, stdout
from likeset.run.runs import REPORT, read_result

__all__ = ["report"]


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The output directory of a finished job.")],
    *,
    for_owner: Annotated[
        str | None, typer.Option(metavar="NAME", help="The page that this owner may see: its own transcript.")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Render the report of a finished job again, or the page that one owner may see.

    Example: `likeset report matched --for-owner north`
    """
    from likeset.run.evaluate import read_evaluation

    result, pictures = read_result(folder)
    if for_owner is None:
        page, path = render(result, pictures, read_evaluation(folder)), folder / REPORT
    else:
        page, path = render_for_owner(result, for_owner), folder / f"report-for-{for_owner.replace('/', '_')}.html"
    documents.write_text(path, page)
    if json:
        show_json({"report": str(path), "for_owner": for_owner, "bytes": len(page.encode())})
        return
    stdout.print(f"The report is in [bold]{literal(str(path))}[/].", soft_wrap=True)
