"""The command line, one file per noun.

Exit codes: 0 done; 1 done, and the answer is no (a check failed); 2 the input or the arguments cannot be used;
130 interrupted.
"""

from typing import Annotated

import typer

from likeset.app.cli import (
    account,
    audit,
    card,
    curator,
    demo,
    evaluate,
    ledger,
    match,
    owner,
    report,
    run,
    schema,
    site,
    split,
    witness,
)
from likeset.display.program import run_program

__all__ = ["app", "main"]

app = typer.Typer(
    name="likeset",
    help="Get a training set that looks like your target, from data owners who do not see each other's rows.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # a user's mistake is told in one line by main(); a bug shows its plain traceback
    rich_markup_mode="markdown",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"likeset {version('likeset')}")
        raise typer.Exit


@app.callback()
def _of_the_program(
    *,
    _version: Annotated[
        bool, typer.Option("--version", help="Show the version.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """Options of the program itself."""


app.command(name="demo")(demo.demo)
app.command(name="match")(match.match)
app.command(name="plan")(match.plan)
app.command(name="evaluate")(evaluate.evaluate)
app.command(name="report")(report.report)
app.command(name="account")(account.account)
app.command(name="audit")(audit.audit)
app.add_typer(card.card)
app.add_typer(curator.curator)
app.add_typer(ledger.ledger)
app.add_typer(owner.owner)
app.add_typer(run.run)
app.add_typer(schema.schema)
app.add_typer(site.site)
app.add_typer(split.split)
app.add_typer(witness.witness)


def main() -> None:
    """Run the command line."""
    run_program(app)
