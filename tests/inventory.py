"""What there is for users, as the program itself knows it: commands, options, fields, arguments and pages."""

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from typer.main import get_command

from likeset import Summarizer, Terms
from likeset.app import cli
from likeset.homes.consumer.home import Connection
from likeset.homes.curator.settings import CuratorSettings
from likeset.homes.owner.policy import Policy
from likeset.homes.witness.settings import WitnessSettings
from likeset.run.job import Job
from likeset.tables.schema.declaration import Declaration
from likeset.transports.sites import SocketSettings

__all__ = ["ROOT", "existing"]

ROOT = Path(__file__).parents[1]


def existing() -> dict[str, set[str]]:
    """Everything by kind, as the tables of ``docs/inventory.md`` name it; an option with its command before it."""
    return {
        "Commands": set(_words_of_commands()),
        "Fields of a job": set(_fields(Job)),
        "Arguments of the Summarizer": set(inspect.signature(Summarizer).parameters),
        "Arguments of fit": set(inspect.signature(Summarizer.fit).parameters) - {"self"},
        "Results of the Summarizer": _results(),
        "Fields of owner.yaml": set(_fields(Policy)),
        "Fields of consumer.yaml": set(_fields(Connection)),
        "Fields of curator.yaml": set(_fields(CuratorSettings)),
        "Fields of witness.yaml": set(_fields(WitnessSettings)),
        "Fields of likeset_site.json": set(inspect.signature(SocketSettings).parameters),
        "Fields of the terms": set(inspect.signature(Terms).parameters),
        "Fields of a schema": set(_fields(Declaration)),
        "Pages": {path.relative_to(ROOT).as_posix() for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))},
    }


def _words_of_commands() -> Iterator[str]:
    for name, command in _commands(get_command(cli.app), ()):
        yield name
        for parameter in command.params:
            is_option = parameter.param_type_name == "option"
            words = (*parameter.opts, *parameter.secondary_opts) if is_option else (parameter.name.upper(),)
            yield from (f"{name} {word}" for word in words)


def _commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield " ".join(path), command
        return
    for name, one in inner.items():
        yield from _commands(one, (*path, name))


def _fields(model: type[BaseModel]) -> Iterator[str]:
    """Fields as a file names them, and those of the parts below them."""
    for name, field in model.model_fields.items():
        shown = field.alias or name
        yield shown
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from (f"{shown}.{inner}" for inner in _fields(field.annotation))


def _results() -> set[str]:
    """As the docstring of the class lists them."""
    lines = (inspect.getdoc(Summarizer) or "").partition("Attributes:\n")[2].splitlines()
    names = {line.strip().partition(":")[0] for line in lines}
    return {name for name in names if name.isidentifier() and name.endswith("_")}
