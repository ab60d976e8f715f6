"""``likeset evaluate``: what models learn from a summary."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from likeset import documents
from likeset.app.cli.job_options import owner_files
from likeset.app.report import render
from likeset.display.screen import JsonFlag, Waiting, literal, show_json, show_notes, show_table, stdout
from likeset.errors import InvalidArgument
from likeset.run.runs import REPORT, read_result
from likeset.run.words import GAINS, MEASURES, score_in_words, test_in_words
from likeset.text import harmless

__all__ = ["evaluate"]


def evaluate(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The output directory of a finished job.")],
    *,
    test: Annotated[
        str | None, typer.Option(metavar="FILE", help="Labelled rows of your target's kind that nobody selected by.")
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="The schema of the job.  \\[default: the one that its job.yaml names]"),
    ] = None,
    owner: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=PATH", help="All rows of an owner, where you have them; once for each owner."),
    ] = None,
    by_owner: Annotated[
        bool, typer.Option("--by-owner", help="Also say what models lose without each owner's rows.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Train models on a summary, and judge them on a labelled test file.

    A linear model, a forest and gradient boosting, with intervals. With all owners' files, also on as many rows
    drawn at random, and on all rows, with the differences. Where the schema declares an id, the test needs its column:
    intervals then resample persons. Writes evaluation.json, and a section into report.html.

    Example: `likeset evaluate matched --test test.csv --by-owner`
    """
    from likeset.run.evaluate import evaluate_job, write_evaluation

    if test is None:
        reason = "give a labelled file of your target's kind: without one nobody can say how good a model is there"
        raise InvalidArgument("--test", "missing", reason)
    files = owner_files(owner or [])
    with Waiting(quiet=json) as waiting:
        evaluation = evaluate_job(
            folder, test, schema_file=schema, owners=files, by_owner=by_owner, progress=waiting.step
        )
    document = write_evaluation(folder, evaluation)
    documents.write_text(folder / REPORT, render(*read_result(folder), document))
    if json:
        show_json(document)
        return
    _show(document)
    stdout.print(f"\nThe report in [bold]{literal(str(folder / REPORT))}[/] has a section on it.", soft_wrap=True)


def _on_two_lines(score: Mapping[str, Any]) -> Text:
    """A score and below it its interval: side by side, three of them do not fit into a row of 80 letters."""
    value, _, interval = score_in_words(score).partition(" (")
    return Text(f"{value}\n{interval.removesuffix(')')}")


def _show(document: Mapping[str, Any]) -> None:

    lines = document["models"]
    measures = list(lines[0]["scores"])
    for title, kind, caption in (
        ("What models learn", "scores", test_in_words(document)),
        (GAINS, "summary_gains", None),
    ):
        rows = [
            (
                Text(f"{harmless(line['training_set'])}\n{line['rows']:,} rows"),
                line["model"],
                *(_on_two_lines(line[kind][measure]) for measure in measures),
            )
            for line in lines
            if line[kind]
        ]
        if rows:
            heads = ("trained on", "model", *(MEASURES[measure] for measure in measures))
            show_table(title, heads, rows, caption=caption)
    if document["owners"]:
        show_table(
            f"What models lose in {MEASURES[measures[0]]} without an owner's rows",
            ("without", "rows", "model", "loss"),
            [
                (line["owner"], f"{line['rows']:,}", line["model"], score_in_words(line["loss"]))
                for line in document["owners"]
            ],
            caption="Below 0, the model is better without.",
        )
    show_notes(document["notes"])
