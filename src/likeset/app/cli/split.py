"""``likeset split``: the environment of the workers that compute on secret shares."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from likeset.display.screen import JsonFlag, literal, show_json, show_table, stdout
from likeset.errors import InvalidArgument
from likeset.split.host import environment_folder, make_environment, program_digest, try_worker, worker_python

__all__ = ["split"]

split = typer.Typer(
    name="split",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
AtOption = Annotated[
    Path | None, typer.Option("--at", metavar="DIR", help="Where it is; by default the place that likeset looks at.")
]


@split.command()
def setup(
    *,
    at: AtOption = None,
    python: Annotated[
        str, typer.Option(metavar="PATH", help="A Python 3.10 or 3.11; by default the one that runs likeset.")
    ] = "",
    as_json: JsonFlag = False,
) -> None:
    """Make the environment of workers from the lock file, every package checked by its hash.

    It lies apart from likeset's own, and takes about 1 GB. What an interrupted call left is made anew; what is whole
    stays as it is. With `--at` other than the usual place, LIKESET_SPLIT_PYTHON must name its interpreter.

    Example: `likeset split setup`
    """
    folder = environment_folder() if at is None else at
    made = False
    try:
        path = worker_python(folder)
    except InvalidArgument:
        path = make_environment(folder, python=python or sys.executable)
        made = True
    if as_json:
        show_json({"environment": str(folder), "python": str(path), "made": made})
        return
    word = "made" if made else "ready"
    stdout.print(f"[bold green]{word}[/]  {literal(str(folder))}", soft_wrap=True)
    stdout.print("Try it with: likeset split check", soft_wrap=True)


@split.command()
def check(*, at: AtOption = None, as_json: JsonFlag = False) -> None:
    """Start a worker and see that it is made of what the lock file says; show the program that terms name.

    Example: `likeset split check`
    """
    folder = environment_folder() if at is None else at
    versions = try_worker(worker_python(folder))
    program = program_digest()
    if as_json:
        show_json({"environment": str(folder), "versions": versions, "program": program})
        return
    show_table("A worker starts", ["part", "version"], [[name, version] for name, version in sorted(versions.items())])
    stdout.print(f"environment  {literal(str(folder))}", soft_wrap=True)
    stdout.print(f"program  {program}", soft_wrap=True)
