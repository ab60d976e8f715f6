"""``make study``, which is ``python -m studies``: experiments that anybody can repeat."""

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from likeset.display import complain, literal, run_program, show_json, show_table, stdout
from likeset.errors import InvalidArgument
from likeset.files import make_directory

if TYPE_CHECKING:
    from studies.contract import Presentation, RecordLine
    from studies.runner import StudyState

_FOLDER = Path("study-results")
_RECORDS = Path(__file__).parent / "results"
_WIDEST_TABLE = 8  # columns that fit a terminal


def study(
    name: Annotated[str | None, typer.Argument(help="Which study; none lists them.", show_default=False)] = None,
    *,
    data: Annotated[str | None, typer.Option(help="File or folder of the data, or openml.")] = None,
    seeds: Annotated[int | None, typer.Option(help="How many seeds.", show_default="by study")] = None,
    sizes: Annotated[str | None, typer.Option(help="Sizes of summaries, such as 50,100,200.")] = None,
    epsilon: Annotated[str | None, typer.Option(help="Budgets toward owners, such as 0.5,1,4.")] = None,
    methods: Annotated[str | None, typer.Option(help="Methods to compare, such as exact,sealed,uniform.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of record, tables and figures.", show_default="study-results/NAME")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Processes.", show_default="one for each core")] = None,
    page: Annotated[
        bool, typer.Option("--page", help="Run nothing: tables and figures of the record in studies/results, or --out.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document instead of tables, for machines.")
    ] = False,
) -> None:
    """Run a study: every result goes on record, then tables and figures are made of the record.

    A run that was stopped goes on where it was when the same command is given again. Noise is simulated: repeatable,
    and not private.

    Example: [bold]make study NAME=digits SEEDS=2 OUT=digits[/], or python -m studies digits --seeds 2 --out digits
    """
    if name is None:
        _list(as_json=as_json)
        return
    from studies.contract import Options
    from studies.pages import write_page
    from studies.registry import find_study
    from studies.runner import run_study

    chosen_study = find_study(name)
    options = Options(
        data=data,
        seeds=seeds,
        sizes=_numbers("--sizes", sizes, int),
        epsilons=_numbers("--epsilon", epsilon, float),
        methods=None if methods is None else tuple(word.strip() for word in methods.split(",") if word.strip()),
    )
    folder = (_RECORDS if page else _FOLDER) / name if out is None else out
    if page:
        lines = _recorded(folder)
    else:
        make_directory(folder)
        count = (os.cpu_count() or 1) if workers is None else workers
        lines = run_study(chosen_study, options, out=folder, workers=count, progress=None if as_json else _say)
    presentation = chosen_study.present(lines, folder)
    written = write_page(presentation, lines, out=folder, command=_command(name, options))
    _tell(presentation, lines, written, as_json=as_json)
    if not any(line.done for line in lines):
        complain(f"no cell of the study finished; the first says: {lines[0].failure}")
        raise typer.Exit(1)


def _recorded(folder: Path) -> "list[RecordLine]":
    from studies.runner import Record

    if not (folder / "cells.jsonl").exists():
        raise InvalidArgument("--page", folder, "has no record of this study (cells.jsonl)")
    return list(Record(folder).lines.values())


def main() -> None:
    """Run the command line; exit codes are those of ``likeset``."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
    app.command()(study)
    run_program(app)


def _list(*, as_json: bool) -> None:
    from studies.registry import all_studies

    if as_json:
        show_json({"studies": {entry.name: entry.description for entry in all_studies()}})
        return
    show_table("Studies", ("name", "what it does"), [(entry.name, entry.description) for entry in all_studies()])
    stdout.print("Run one: [bold]make study NAME=digits[/]. Noise is simulated: not private.")


def _numbers(option: str, text: str | None, kind: type[Any]) -> tuple[Any, ...] | None:
    if text is None:
        return None
    try:
        return tuple(kind(word) for word in text.split(","))
    except ValueError as error:
        whole = "whole numbers" if kind is int else "numbers"
        raise InvalidArgument(option, repr(text), f"must be {whole} with commas between them") from error


def _say(state: "StudyState") -> None:
    if state.line is None:
        stdout.print(f"{state.total} cells, {state.kept} of them on record")
    else:
        done = state.kept + state.finished
        stdout.print(f"{done}/{state.total} {_words(state.line)}, {state.line.seconds:.1f} s", markup=False)


def _words(line: "RecordLine") -> str:
    """What was run, in a few words."""
    parts = [str(line.settings[key]) for key in ("method", "size") if key in line.settings]
    parts += [f"seed {line.settings['seed']}"] if "seed" in line.settings else []
    return " ".join(parts) + ("" if line.done else f" FAILED: {line.failure}")


def _command(name: str, options: Any) -> str:
    """What to type to get the same; of the data only the last part of the path, which is nobody's secret."""
    words = ["make", "study", f"NAME={name}"]
    if options.data is not None:
        words.append(f"DATA={Path(options.data).name}")
    words += [f"SEEDS={options.seeds}"] if options.seeds is not None else []
    for option, values in (("SIZES", options.sizes), ("EPSILON", options.epsilons), ("METHODS", options.methods)):
        listed = ",".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values or ())
        words += [f"{option}={listed}"] if values else []
    return shlex.join(words)


def _tell(presentation: "Presentation", lines: "list[RecordLine]", page: Path, *, as_json: bool) -> None:
    failed = [line for line in lines if not line.done]
    if as_json:
        show_json(
            {
                "noise": lines[0].noise if lines else "",
                "cells": len(lines),
                "failed": {line.key: line.failure for line in failed},
                "page": str(page),
                "figures": [str(path) for path in presentation.figures],
                "tables": [
                    {"title": table.title, "columns": list(table.columns), "rows": [list(row) for row in table.rows]}
                    for table in presentation.tables
                ],
            }
        )
        return
    for table in presentation.tables:
        shown = range(min(len(table.columns), _WIDEST_TABLE)) if table.brief is None else table.brief
        show_table(
            table.title,
            [table.columns[index] for index in shown],
            [[row[index] for index in shown] for row in table.rows],
            caption=table.caption or None,
        )
    for line in failed[:3]:
        complain(f"{_words(line)} (the same command tries it again)")
    stdout.print(f"\nTables and figures: [bold]{literal(str(page))}[/]", soft_wrap=True)
