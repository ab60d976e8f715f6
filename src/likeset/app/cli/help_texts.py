"""How ``--help`` looks: paragraphs that fit any width, each option above its meaning, flags that ask for no value."""

import inspect
import re
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

__all__ = ["with_plain_help"]

_INDENT = 2


def _unwrapped(text: str) -> str:
    """Each paragraph on one line: the terminal breaks it where it is wide, and not where the source was."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in inspect.cleandoc(text).split("\n\n"))


def _as_flags(parameters: list[Any]) -> list[Any]:
    """Options, of which those that take no value show none."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False) and parameter.metavar is None:
            parameter.metavar = ""
    return parameters


class _Command(TyperCommand):
    """A command; its options stand one below the other, since side by side they leave no room on a narrow screen."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.help = _unwrapped(self.help or "")

    def get_params(self, ctx: Any) -> list[Any]:
        """All of them, with ``--help``."""
        return _as_flags(super().get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 (the library's own formatter is not used)
        """Write the help to the screen."""
        from rich.padding import Padding

        from likeset.display.screen import literal, stdout

        usage = " ".join([ctx.command_path, *map(_without_braces, self.collect_usage_pieces(ctx))])
        stdout.print(f"[bold]Usage:[/] {literal(usage)}\n")
        for paragraph in filter(None, (self.help or "").split("\n\n")):
            stdout.print(f"{paragraph}\n", highlight=False)
        shown = [parameter for parameter in self.get_params(ctx) if not getattr(parameter, "hidden", False)]
        for title, kind in (("Arguments", "argument"), ("Options", "option")):
            of_kind = [parameter for parameter in shown if parameter.param_type_name == kind]
            if of_kind:
                stdout.print(f"[bold]{title}[/]")
            for parameter in of_kind:
                name, meaning = _name_and_meaning(parameter, ctx)
                stdout.print(Padding(f"[cyan]{name}[/]", (0, 0, 0, _INDENT), expand=False), highlight=False)
                stdout.print(Padding(meaning, (0, 0, 0, 3 * _INDENT), expand=False), highlight=False)
            if of_kind:
                stdout.print()


def _without_braces(piece: str) -> str:
    """An argument that must be given, as it is written elsewhere: ``FILE`` and not ``{FILE}``."""
    return re.sub(r"^\{(.+?)(?:\.\.\.)?\}(\.\.\.)?$", r"\1\2", piece)


def _name_and_meaning(parameter: Any, ctx: Any) -> tuple[str, str]:
    """How an option or argument is written, and its help with what the library adds: default, range, variable."""
    from likeset.display.screen import literal

    written, meaning = parameter.get_help_record(ctx)
    said = parameter.help or ""
    required = "  [required]" if parameter.required and "[required]" not in meaning else ""
    return literal(written), f"{said}{literal(meaning[len(said) :] + required)}"


class _Group(TyperGroup):
    """A command that has commands."""

    def get_params(self, ctx: Any) -> list[Any]:
        """All of them, with ``--help``."""
        return _as_flags(super().get_params(ctx))


def with_plain_help(app: typer.Typer) -> None:
    """Let every command of a program show its help so."""
    app.info.cls = _Group
    for command in app.registered_commands:
        command.cls = _Command
    for group in app.registered_groups:
        group.cls = _Group
        if group.typer_instance is not None:
            with_plain_help(group.typer_instance)
