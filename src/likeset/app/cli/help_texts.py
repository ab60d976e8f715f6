"""How ``--help`` looks: paragraphs that fit any width, and flags that ask for no value."""

import inspect
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

__all__ = ["with_plain_help"]


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
    """A command."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.help = _unwrapped(self.help or "")

    def get_params(self, ctx: Any) -> list[Any]:
        """All of them, with ``--help``."""
        return _as_flags(super().get_params(ctx))


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
