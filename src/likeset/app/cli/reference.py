"""``likeset reference``: every command as a page of documentation, made of what the commands say about themselves."""

import re
import sys
from collections.abc import Iterator
from typing import Any

import typer
from typer.main import get_command

__all__ = ["EXIT_CODES", "reference", "reference_page"]

EXIT_CODES = (
    (0, "done"),
    (1, "done, and the answer is no: a check failed, a claim was refuted"),
    (2, "an argument or a file cannot be used; one line on standard error says which and what to do"),
    (130, "interrupted with Ctrl-C; nothing is left half-written"),
)

_HEAD = """\
# The command line

Made by `likeset reference > docs/cli.md`; a test sees that it is current. After `make demo` the program is
`.venv/bin/likeset`; `source .venv/bin/activate` makes it `likeset`.

| command | what it does |
|---|---|
{contents}

## What all commands share

- `--help` explains a command, with an example.
- `--json` prints one JSON document on standard output instead of tables. What is being done goes to standard error:
  bars on a terminal, plain lines elsewhere, nothing with `--json`.
- Where rows are asked for, they may be in a file, a directory, a query or a database: [sources](sources.md). What a
  schema may say: [schema](schema.md).
- No message shows a value of a row.
- `NO_COLOR=1` leaves colours out, `COLUMNS=100` sets the width.

## Exit codes

| code | meaning |
|---:|---|
{codes}

## Shell completion

`likeset --install-completion` sets it up for the shell that it is called from (bash, zsh, fish, PowerShell): from the
next shell on, the Tab key completes commands and options. To look at the script, or to put it somewhere yourself:

```sh
likeset --show-completion
```
"""


def reference(context: typer.Context) -> None:
    """Print the reference of all commands as Markdown.

    Example: [bold]likeset reference[/]
    """
    sys.stdout.write(reference_page(context.find_root().command))


def reference_page(root: Any) -> str:
    """The whole page, ending in a line end.

    Args:
        root: the command line, as a ``typer.Typer`` or as the command that it makes.
    """
    commands = list(_commands(get_command(root) if isinstance(root, typer.Typer) else root))
    contents = "\n".join(
        f"| [{' '.join(path)}](#{'-'.join(path)}) | {_summary(command)} |" for path, command in commands
    )
    codes = "\n".join(f"| {code} | {meaning} |" for code, meaning in EXIT_CODES)
    parts = [_HEAD.format(contents=contents, codes=codes)]
    parts += [_section(path, command) for path, command in commands]
    return "\n".join(parts)


def _commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that does something and is not hidden, with the words that lead to it."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path, command
        return
    for name, subcommand in inner.items():
        if not subcommand.hidden:
            yield from _commands(subcommand, (*path, name))


def _section(path: tuple[str, ...], command: Any) -> str:
    text, _, example = (command.help or "").partition("Example:")
    arguments = [
        parameter
        for parameter in command.params
        if parameter.param_type_name == "argument" and not _is_hidden(parameter)
    ]
    options = [
        parameter for parameter in command.params if parameter.param_type_name == "option" and not _is_hidden(parameter)
    ]
    usage = " ".join(["likeset", *path, *(_argument(parameter) for parameter in arguments), "[OPTIONS]"])
    lines = [f"## {' '.join(path)}", "", *_paragraphs(text), "", "```text", usage, "```", ""]
    if arguments:
        lines += ["| argument | what it is |", "|---|---|"]
        lines += [f"| `{_argument(parameter)}` | {_cell(_words(parameter)[0])} |" for parameter in arguments] + [""]
    lines += ["| option | what it does | default |", "|---|---|---|"]
    lines += [
        f"| {_option(parameter)} | {_cell(_words(parameter)[0])} | {_cell(_words(parameter)[1])} |"
        for parameter in options
    ]
    typed = re.findall(r"\[bold\](.*?)\[/\]", example, flags=re.DOTALL)
    lines += ["", "For example:", "", "```sh", *(" ".join(words.split()) for words in typed), "```", ""]
    return "\n".join(lines)


def _summary(command: Any) -> str:
    """The first paragraph of the help, on one line."""
    return _cell((command.help or "").partition("\n\n")[0])


def _paragraphs(text: str) -> list[str]:
    """The help without its markup."""
    return _without_markup(text.strip()).splitlines()


def _argument(parameter: Any) -> str:
    shown = str(parameter.metavar or parameter.name.upper())
    return shown if parameter.required or shown.startswith("[") else f"[{shown}]"


def _option(parameter: Any) -> str:
    names = ", ".join([*parameter.opts, *parameter.secondary_opts])
    if parameter.is_flag:
        return f"`{names}`"
    return f"`{names} {parameter.metavar or parameter.name.upper()}`"


def _words(parameter: Any) -> tuple[str, str]:
    """What a parameter is for, and its default; some tell the default in their help, where it is decided later."""
    text, default = (parameter.help or "").replace("\\[", "["), ""  # the terminal would take it for markup
    if told := re.search(r"\s*(?:\[default: ([^\]]*)\]|Default: (.*)\.)$", text):
        text, default = text[: told.start()], told[1] or told[2]
    elif isinstance(parameter.show_default, str):
        default = parameter.show_default
    elif parameter.required:
        default = "required"
    elif parameter.default is not None and not getattr(parameter, "is_flag", False) and parameter.show_default:
        default = str(parameter.default)
    if parameter.multiple and "repeatable" not in text and "once for each" not in text:
        text += " Repeatable."
    return text, default


def _is_hidden(parameter: Any) -> bool:
    return bool(parameter.hidden)


def _cell(text: str) -> str:
    return _without_markup(" ".join(text.split())).replace("|", "\\|")


def _without_markup(text: str) -> str:
    """Text without the markup of the terminal; emphasis is always on something to type."""
    return re.sub(r"\[bold\](.*?)\[/\]", r"`\1`", text, flags=re.DOTALL).replace("\\[", "[")
