"""``likeset demo``: the whole market on one machine, on data that comes with scikit-learn."""

import shutil
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from likeset.app.cli.result_screen import show_result
from likeset.app.cli.screen import JsonFlag, Waiting, show_json, stdout
from likeset.errors import InvalidArgument

__all__ = ["demo"]

_MARK = ".likeset-demo"


def demo(
    out: Annotated[Path, typer.Option(help="Directory for the files and the report.")] = Path("demo"),
    *,
    json: JsonFlag = False,
) -> None:
    """Run the whole market on one machine: five owners, a consumer, secret noise, a real ledger, a report.

    The files of the market stay in OUT/data, so that you can go on with likeset plan and likeset match.

    Example: [bold]likeset demo --out demo[/]
    """
    _clear(out)
    from likeset.app.report import render
    from likeset.studies.showcase import EPSILON, SIZE, run_showcase

    try:
        out.mkdir(parents=True)
        (out / _MARK).write_text("Made by likeset demo, which may replace this directory.\n", encoding="utf-8")
    except OSError as error:
        raise InvalidArgument("--out", out, f"cannot be used as a directory: {error.strerror}") from error
    with Waiting(quiet=json) as waiting:
        done = run_showcase(out, render=render, progress=waiting.step, tell=lambda name: waiting.step(name, 1, 1))
    if json:
        show_json({**done.result, "report": str(done.out / "report.html")})
        return
    stdout.print(
        "\nFive owners hold handwritten digits, two digits each. A consumer has "
        f"{done.result['target']['rows']} images, 3s and 4s only,\n"
        f"and wants [bold]{SIZE} rows[/] to train on that look like them. "
        f"Owners may learn epsilon = {EPSILON:g} about any of them.",
        soft_wrap=True,
    )
    show_result(done.result)
    stdout.print(
        f"\nThe whole story, with pictures: [bold]{escape(str(done.out / 'report.html'))}[/]\n"
        f"Now with these files: [bold]likeset plan {escape(str(done.out / 'job.yaml'))} --epsilon 1[/]\n",
        soft_wrap=True,
    )


def _clear(out: Path) -> None:
    """Make room; only what an earlier demo made is removed."""
    if not out.exists():
        return
    if not (out / _MARK).is_file():
        raise InvalidArgument("--out", out, "is there already; nothing is overwritten: name another directory")
    shutil.rmtree(out)
