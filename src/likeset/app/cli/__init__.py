"""The command line, one file per noun.

Exit codes: 0 done; 1 done, and the answer is no (a check failed); 2 the input or the arguments cannot be used;
130 interrupted.
"""

import sys

import typer

from likeset.app.cli import (
    account,
    audit,
    demo,
    ledger,
    match,
    owner,
    reference,
    report,
    run,
    schema,
    site,
    study,
    transcript,
)
from likeset.app.cli.screen import complain
from likeset.errors import LikesetError

__all__ = ["app", "main"]

app = typer.Typer(
    name="likeset",
    help="Get a training set that looks like your target, from data owners who never learn about each other.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # a user's mistake is told in one line by main(); a bug shows its plain traceback
    rich_markup_mode="rich",
)
app.command(name="demo")(demo.demo)
app.command(name="match")(match.match)
app.command(name="plan")(match.plan)
app.command(name="report")(report.report)
app.command(name="account")(account.account)
app.command(name="audit")(audit.audit)
app.command(name="study")(study.study)
app.command(name="reference", hidden=True)(reference.reference)
app.add_typer(ledger.ledger)
app.add_typer(owner.owner)
app.add_typer(run.run)
app.add_typer(schema.schema)
app.add_typer(site.site)
app.add_typer(transcript.transcript)


def main() -> None:
    """Run the command line; a user's mistake becomes one line on standard error and exit code 2."""
    try:
        app()
    except LikesetError as error:
        complain("; ".join([str(error), *getattr(error, "__notes__", ())]))
        sys.exit(2)
    except SystemExit as ended:
        interrupt = _interrupt_behind(ended)
        if interrupt is None:
            raise
        complain("; ".join(["interrupted", *getattr(interrupt, "__notes__", ("nothing was left half-written",))]))
        sys.exit(130)


def _interrupt_behind(ended: SystemExit) -> KeyboardInterrupt | None:
    """The Ctrl-C that ended the program: typer turns it into an exit, without what was noted on it."""
    found: BaseException | None = ended
    while found is not None and not isinstance(found, KeyboardInterrupt):
        found = found.__cause__ or found.__context__
    return found
