"""``likeset demo``: the whole market on one machine, on data that comes with scikit-learn."""

import shutil
from pathlib import Path
from typing import Annotated

import typer

from likeset.app.cli.result_screen import show_result
from likeset.app.demo.network import run_network_demo
from likeset.app.demo.showcase import EPSILON, SIZE, run_showcase
from likeset.app.report import render
from likeset.display.screen import JsonFlag, Waiting, literal, show_json, stdout
from likeset.errors import InvalidArgument
from likeset.files import make_private_folder
from likeset.split.host import split_python

__all__ = ["demo"]

_MARK = ".likeset-demo"


def demo(
    out: Annotated[Path, typer.Option(help="Directory for the files and the report.")] = Path("demo"),
    *,
    network: Annotated[bool, typer.Option("--network", help="Seven processes that write letters.")] = False,
    split: Annotated[
        bool,
        typer.Option("--split", help="With --network: nobody reads a row but its buyer; needs likeset split setup."),
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Run the whole market on one machine: five owners, a consumer, secret noise, a real ledger, a report.

    The files of the market stay in OUT/data, so that you can go on with likeset plan and likeset match. With --network
    owners, curator and consumer are processes of their own; one owner denies, one is killed and comes back. Their
    letters lie in OUT/mailbox. With --split a witness takes part, and owners' rows are shared among it, the curator and
    the consumer, so that nobody reads one but who buys it.

    Example: `likeset demo --out demo`
    """
    if split and not network:
        raise InvalidArgument("--split", "given", "goes with --network")
    if network:
        _network(out, split=split, json=json)
        return
    _clear(out)

    _make(out)
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
        f"\nThe whole story, with pictures: [bold]{literal(str(done.out / 'report.html'))}[/]\n"
        f"Now with these files: [bold]likeset plan {literal(str(done.out / 'job.yaml'))} --epsilon 1[/]\n",
        soft_wrap=True,
    )


def _network(out: Path, *, split: bool, json: bool) -> None:
    """The demo among processes; exit code 1 if a check fails afterwards."""
    if split:
        split_python()  # before anything is removed
    _clear(out)

    _make(out)

    def tell(who: str, what: str) -> None:
        if not json:
            stdout.print(f"[bold]{literal(who)}[/] {literal(what)}", soft_wrap=True)

    done = run_network_demo(out, render=render, tell=tell, split=split)
    if json:
        checks = dict(done.checks)
        show_json(
            {**done.result, "report": str(done.out / "report.html"), "run_seconds": done.seconds, "checks": checks}
        )
    else:
        show_result(done.result)
        for what, holds in done.checks:
            stdout.print(f"{'[green]yes[/]' if holds else '[bold red]no[/] '}  {literal(what)}")
        stdout.print(
            f"\nThe run itself took {done.seconds:.1f} s. The whole story: "
            f"[bold]{literal(str(done.out / 'report.html'))}[/]\nWhat each side keeps: [bold]{literal(str(out))}[/]: "
            "owners, curator, clinic; for instance\n"
            f"[bold]likeset owner outbox --node {literal(str(out / 'owners' / 'digits-3-4'))}[/]",
            soft_wrap=True,
        )
    if not all(holds for _, holds in done.checks):
        raise typer.Exit(1)


def _make(out: Path) -> None:
    try:
        make_private_folder(out)
        (out / _MARK).write_text("Made by likeset demo, which may replace this directory.\n", encoding="utf-8")
    except OSError as error:
        raise InvalidArgument("--out", out, f"cannot be used as a directory: {error.strerror}") from error


def _clear(out: Path) -> None:
    """Make room; only what an earlier demo made is removed."""
    if not out.exists():
        return
    if not (out / _MARK).is_file():
        raise InvalidArgument("--out", out, "is there already; nothing is overwritten: name another directory")
    shutil.rmtree(out)
