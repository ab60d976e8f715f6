"""``likeset run``: the consumer's side of runs between organisations."""

import typer

from likeset.app.cli import consoles, run_mail, run_nvflare, run_result, run_setup, run_terms, run_watch

__all__ = ["run"]

run = typer.Typer(
    name="run",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
run.command()(run_setup.init)
run.command()(run_terms.plan)
run.command()(run_terms.invite)
run.command()(run_mail.start)
run.command()(run_watch.watch)
run.command()(run_mail.sync)
run.command()(run_mail.collect)
run.command()(run_watch.cancel)
run.command()(run_result.report)
run.command()(run_result.shares)
run.command(name="list")(run_terms.list_runs)
run.command(name="console")(consoles.of_consumer)
run.command()(run_nvflare.sites)
run.command()(run_nvflare.submit)
run.command()(run_nvflare.resume)
