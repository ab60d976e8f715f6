"""The command line.

Exit codes: 0 done; 1 done, and the answer is no (a check failed); 2 the input or the arguments cannot be used;
130 interrupted.
"""

import os
from importlib import import_module
from typing import Annotated, Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

from likeset import __version__
from likeset.display import answering_in_json, run_program

__all__ = ["COMMANDS", "app", "main", "whole_program"]

# Each command: the module and the name in it, and what `likeset --help` says without importing the module.
COMMANDS = {
    "demo": (
        "match:demo",
        "Run the whole market on one machine: five owners, a consumer, secret noise, a real ledger, a report.",
    ),
    "match": ("match:match", "Collect rows from owners that together look like your target."),
    "plan": ("match:plan", "Show what a job would do and cost; no owner's row is read and nothing is spent."),
    "evaluate": ("match:evaluate", "Train models on a summary, and score them on a labelled test file."),
    "report": ("match:report", "Render the report of a finished job again, or the page that one owner may see."),
    "account": ("privacy:account", "Compute what releases cost: epsilon at a delta, under a neighbouring relation."),
    "audit": (
        "privacy:audit",
        "Bound every mechanism's epsilon from below by observation, and compare it with the claim.",
    ),
    "backup": ("home:backup", "Write a backup of a home into one private file, also while the home is in use."),
    "card": ("card:card", "Show this home's card; pin and revoke the cards of other parties."),
    "courier": ("courier:courier", "Configure the start-up kits of NVFlare's sites to carry letters, and check them."),
    "check": (
        "home:check",
        "Check a home before its first run: card, pinned cards, mailboxes, clock, disk, policy, data.",
    ),
    "curator": ("home:curator", "A curator's schemas and public rows."),
    "init": (
        "home:init",
        "Make a home: the directory of a party, with its settings, its card, its database and its keys.",
    ),
    "invite": (
        "join:invite",
        "Invite an organisation: write NAME.invite, wait for the reply, compare words on a call, pin its card.",
    ),
    "join": ("join:join", "Join a market by invitation: make a home, reply, and pin the inviter's cards after a call."),
    "ledger": ("ledger:ledger", "Show, limit, verify and purge a ledger: budgets over all runs, and what was spent."),
    "owner": ("owner:owner", "An owner's commands: data sets, policy, decisions, rows sent, budgets, log."),
    "restore": ("home:restore", "Restore a home from a backup into a new directory."),
    "run": ("run:run", "A consumer's runs between organisations: plan, start, watch, cancel, report."),
    "schema": ("schema:schema", "Draft a schema of declared columns, show it, and check files against it."),
    "split": ("home:split", "Make the environment of the workers of split runs."),
    "sync": ("home:sync", "Check the mailboxes of a home once: receive letters and send those that are due."),
    "up": (
        "home:up",
        "Run a home: check its mailboxes, compute its split runs, and serve its console, until it is stopped.",
    ),
}


_ONE_MACHINE = "On one machine"
_PANELS = {"match": _ONE_MACHINE, "schema": _ONE_MACHINE, "ledger": _ONE_MACHINE, "privacy": "Privacy"}  # by module


def _panel(command: str) -> str:
    return _PANELS.get(COMMANDS[command][0].partition(":")[0], "Between organisations")


class _LazyGroup(TyperGroup):
    """Imports a command's module when the command is used."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {
            name: TyperCommand(name, help=words, rich_help_panel=_panel(name)) for name, (_, words) in COMMANDS.items()
        }
        self._to_import = set(COMMANDS)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        self.load(args[0])
        return super().resolve_command(ctx, args)

    def get_params(self, ctx: Any) -> list[Any]:
        return _with_plain_flags(super().get_params(ctx))

    def load(self, name: str) -> None:
        """Put the command in the place of what only has its name and help."""
        if name not in self._to_import:
            return
        module, attribute = COMMANDS[name][0].split(":")
        command = getattr(import_module(f"likeset.app.cli.{module}"), attribute)
        if isinstance(command, typer.Typer):
            self.commands[name] = typer.main.get_group(command)
            self.commands[name].help = COMMANDS[name][1]
        else:
            alone = typer.Typer(add_completion=False, rich_markup_mode="markdown")
            alone.command(name)(command)
            self.commands[name] = typer.main.get_command(alone)
        cast(TyperCommand, self.commands[name]).rich_help_panel = _panel(name)
        _complete(self.commands[name])
        self._to_import.discard(name)


def _complete(command: Any) -> None:
    """Give each command ``--json``, and flags without a metavar."""
    parts = getattr(command, "commands", {})
    for part in parts.values():
        _complete(part)
    if not parts and command.name != "up":  # it stays, and has --log
        command.params.append(_json_option())
    _with_plain_flags(command.get_params(typer.Context(command)))


def _json_option() -> Any:
    def answer_in_json(context: typer.Context, wanted: bool) -> None:
        context.with_resource(answering_in_json(wanted))

    words = "Print one JSON document instead of tables, for machines."
    option = typer.Option("--json", help=words, callback=answer_in_json, expose_value=False)

    def command(*, _json: Annotated[bool, option] = False) -> None: ...

    alone = typer.Typer(add_completion=False)
    alone.command()(command)
    return typer.main.get_command(alone).params[0]


def _with_plain_flags(parameters: list[Any]) -> list[Any]:
    """Without the ``<bool>`` that help shows beside a flag."""
    for option in parameters:
        option.metavar = "" if getattr(option, "is_flag", False) else option.metavar
    return parameters


app = typer.Typer(
    name="likeset",
    help="Get a training set that looks like your target, from data owners who do not see each other's rows.",
    cls=_LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # main() reports a user's mistake in one line; a bug shows its plain traceback
    rich_markup_mode="markdown",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"likeset {__version__}")
        raise typer.Exit


@app.callback()
def _of_the_program(
    *,
    _version: Annotated[
        bool, typer.Option("--version", help="Show the version.", is_eager=True, callback=_show_version)
    ] = False,
) -> None: ...


def whole_program() -> TyperGroup:
    """The program with every command imported: for the reference, and for tests."""
    program: Any = typer.main.get_command(app)
    for name in COMMANDS:
        program.load(name)
    return cast(TyperGroup, program)


def main() -> None:
    # Products of matrices are small here: more threads mostly wait. BLAS reads this when numpy is first imported.
    for library in ("OPENBLAS", "MKL"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    run_program(app)
