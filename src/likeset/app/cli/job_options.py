"""The options that ``likeset match`` and ``likeset plan`` share: one for each field of a job."""

import functools
import inspect
import types
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer

from likeset.errors import InvalidArgument
from likeset.protocol.run_settings import Setting, settings
from likeset.run.job import Job

__all__ = ["job_from", "owner_files", "takes_a_job"]

JobFile = Annotated[
    Path | None, typer.Argument(metavar="JOB.yaml", help="A job file; options given beside it count instead.")
]
_FINE = "Fine settings"


def _text(words: str, *, default: str = "", panel: str | None = None) -> Any:
    told = _with_default(words, default)
    return Annotated[str | None, typer.Option(help=told, show_default=False, rich_help_panel=panel)]


def _with_default(words: str, default: str) -> str:
    """Told as a part of the help: a text that is shown as a default stands in brackets of its own."""
    return f"{words}  \\[default: {default}]" if default else words


_OWNERS = typer.Option(metavar="NAME=PATH", help="An owner's rows; once for each owner.")
_FILES: dict[str, Any] = {
    "schema": _text("The schema that declares the columns."),
    "target": _text("Your rows: CSV, Parquet, or another source."),
    "owner": Annotated[list[str] | None, _OWNERS],
}
_PLACES: dict[str, Any] = {
    "preset": _text("Settings by one name: paper, as published; options beside it count instead."),
    "public_rows": _text("Rows that anybody may see; they set the release's scale for free."),
    "ledger": _text("Budgets that outlive this job.", default="in the output directory"),
    "run": _text("Name of the run in the ledger; made up if not given."),
    "out": _text("Output directory; must not exist.", default="matched"),
    "seed_rows": _text("Public rows that start the summary of interactive.", panel=_FINE),
    "consumer": _text("Your name in the records.", default="consumer", panel=_FINE),
    "purpose": _text("What the summary is for.", default="a matched training set", panel=_FINE),
}


def _option(setting: Setting) -> Any:
    """A setting as an option; its words are those of the declaration."""
    text = setting.meaning.replace("``", "")
    text = f"{text[0].upper()}{text[1:]}."
    flag = setting.name.replace("_", "-")
    names = (f"--{flag}/--no-{flag}",) if setting.type is bool else ()
    metavar = "PART" if setting.type == tuple[str, ...] else None
    panel = _FINE if setting.is_fine else None
    told = _with_default(text, _shown_default(setting))
    described = typer.Option(*names, help=told, metavar=metavar, show_default=False, rich_help_panel=panel)
    return Annotated[_typed(setting.type), described]


def _shown_default(setting: Setting) -> str:
    """What counts where neither an option nor a job file says anything; empty where that is nothing."""
    if isinstance(setting.default, bool):
        return "yes" if setting.default else "no"
    if setting.is_required or setting.default in (None, (), ""):
        return ""
    return f"{setting.default:g}" if isinstance(setting.default, float) else str(setting.default)


def _typed(kind: Any) -> Any:
    """What the command line reads for a type: text where a word may stand, and None where nothing is given."""
    if kind == tuple[str, ...]:
        return list[str] | None
    if get_origin(kind) is Literal or _word_of(kind) is not None:
        return str | None
    return kind | None


def _word_of(kind: Any) -> str | None:
    """The word that may stand in a number's place; None where there is none."""
    if get_origin(kind) not in (Union, types.UnionType):
        return None
    return next((str(get_args(part)[0]) for part in get_args(kind) if get_origin(part) is Literal), None)


_OPTIONS: dict[str, Any] = {**_FILES, **{setting.name: _option(setting) for setting in settings()}, **_PLACES}


def takes_a_job(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a job; it gets the job that they describe as its first argument."""
    own = list(inspect.signature(command).parameters.values())[1:]

    @functools.wraps(command)
    def with_options(**given: Any) -> None:
        rest = {parameter.name: given.pop(parameter.name) for parameter in own}
        owners = given.pop("owner")
        command(job_from(given.pop("job"), owners=owners, **given), **rest)

    keyword = inspect.Parameter.KEYWORD_ONLY
    shared = [inspect.Parameter(name, keyword, default=None, annotation=kind) for name, kind in _OPTIONS.items()]
    file = inspect.Parameter("job", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=JobFile)
    parameters = [file, *shared, *(parameter.replace(kind=keyword) for parameter in own)]
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
    with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_options


def job_from(path: Path | None, **options: Any) -> Job:
    """The job of a file, of options, or of a file with options in place of some of its fields."""
    given = {name: value for name, value in options.items() if value is not None and value != []}
    if "owners" in given:
        given["owners"] = owner_files(given["owners"])
    for setting in settings():
        word = _word_of(setting.type)
        if word is not None and given.get(setting.name, word) != word:
            given[setting.name] = _number(setting, given[setting.name], word)
    if path is not None:
        said = Job.load(path).model_dump(by_alias=True, mode="json", exclude_unset=True)
        return Job.of(**{**{name: value for name, value in said.items() if value is not None}, **given})
    for name, option in (("schema", "--schema"), ("target", "--target"), ("owners", "--owner"), ("size", "--size")):
        if name not in given:
            raise InvalidArgument(option, "missing", "give it, or a job file")
    return Job.of(**given)


def owner_files(pairs: list[str]) -> dict[str, str]:
    """Owners and their files, from ``NAME=PATH``."""
    owners: dict[str, str] = {}
    for pair in pairs:
        name, sign, source = pair.partition("=")
        if not sign or not name or not source:
            raise InvalidArgument("--owner", pair, "must be NAME=PATH, such as north=north.csv")
        if name in owners:
            raise InvalidArgument("--owner", name, "is given twice; each owner needs a name of its own")
        owners[name] = source
    return owners


def _number(setting: Setting, text: str, word: str) -> float:
    number = get_args(setting.type)[0]
    kind = "a whole number" if number is int else "a number"
    try:
        return number(text)  # type: ignore[no-any-return]
    except ValueError as error:
        raise InvalidArgument(f"--{setting.name.replace('_', '-')}", text, f"must be {kind} or {word}") from error
