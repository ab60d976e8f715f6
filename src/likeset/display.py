"""Output for people and machines: tables or one JSON document, errors, exit codes, the style of figures."""

import json
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import TYPE_CHECKING, Any, Self

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from likeset.errors import LikesetError
from likeset.text import harmless, without_secrets

if TYPE_CHECKING:
    from likeset.tables.scan import Passed

MOST_IN_A_CELL = 400
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_NUMBER = re.compile(r"\W{0,2}[\d.,]+(e-?\d+)?(%|\s(bytes|[kMG]B|of [\d,]+|\(.*))?(\n.*)?")


class _Screen(Console):
    """A console that prints no control characters except those of rich itself."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            lines = segment.text.split("\n")
            yield segment if segment.control else Segment("\n".join(map(harmless, lines)), segment.style)


stdout = _Screen(highlight=False, emoji=False)
stderr = _Screen(stderr=True, highlight=False, emoji=False)

_in_json = ContextVar("in_json", default=False)


def in_json() -> bool:
    """Whether the running command was called with ``--json``: it prints one JSON document and asks nothing."""
    return _in_json.get()


@contextmanager
def answering_in_json(wanted: bool) -> Iterator[None]:
    """Commands in the block answer in JSON, or not."""
    before = _in_json.set(wanted)
    try:
        yield
    finally:
        _in_json.reset(before)


def literal(text: str, *, most: int | None = None) -> str:
    """A text for ``stdout.print``: on one line, without control characters and markup."""
    return escape(harmless(text, most=most))


def complain(message: str) -> None:
    """One line on standard error; markup in the message is shown, not interpreted."""
    stderr.print("[bold red]error:[/]", end=" ")
    stderr.print(harmless(message), markup=False, soft_wrap=True)


def show_json(document: Any) -> None:
    """Print the document, and nothing else, on standard output."""
    sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")


def emit(
    document: Any,
    *,
    view: Callable[[], None] | None = None,
    notes: Iterable[str] = (),
    next_step: Sequence[str] = (),
    ok: bool = True,
) -> None:
    """Show the result of a command: one JSON document for machines, the view or plain tables for people.

    ``next_step`` is the command that people will probably type next; without ``ok`` the exit code is 1.
    """
    if in_json():
        show_json(document)
    else:
        (view or (lambda: show_document(document)))()
        show_notes(notes)
        if next_step:
            show_next("", *next_step)
    if not ok:
        raise typer.Exit(1)


def show_document(document: Any, title: str = "") -> None:
    """Show objects as lines, lists of objects as tables."""
    if isinstance(document, dict):
        tables = {name: value for name, value in document.items() if _is_table(value)}
        lines = {name: value for name, value in document.items() if name not in tables and value not in (None, "", {})}
        width = max((len(name) for name in lines), default=0)
        for name, value in lines.items():
            head = f"[bold]{literal(_words(name).ljust(width))}[/]"
            for line in _sentences(value) or [_cell(value)]:
                stdout.print(f"{head}  {literal(line)}", soft_wrap=True)
                head = " " * width
        for name, value in tables.items():
            show_document(value, _words(name))
    elif _is_table(document):
        heads = list(dict.fromkeys(name for row in document for name in row))
        rows = [[_cell(row.get(name), short=True) for name in heads] for row in document]
        filled = [index for index in range(len(heads)) if any(row[index] for row in rows)]
        show_table(
            title, [_words(heads[index]) for index in filled], [[row[index] for index in filled] for row in rows]
        )
    else:
        stdout.print(literal(_cell(document)), soft_wrap=True)


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _sentences(value: Any) -> list[str]:
    """The lines of an object with several fields, or of a list of texts; empty if one line suffices."""
    if isinstance(value, Mapping) and len(value) > 2:
        width = max(map(len, value))
        return [f"{name.ljust(width)}  {_cell(one)}" for name, one in value.items()]
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        return []
    return value if any(" " in text for text in value) else []


def _words(name: str) -> str:
    return name.replace("_", " ")


def _cell(value: Any, *, short: bool = False) -> str:
    if value is None or value == {}:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() else f"{value:.4g}"
    if isinstance(value, Mapping):
        known = {name: one for name, one in value.items() if one is not None}
        return ", ".join(f"{_words(str(name))} {_cell(one, short=short)}" for name, one in known.items())
    if isinstance(value, list):
        return ", ".join(_cell(one, short=short) for one in value) or "none"
    if _TIME.match(value):
        return str(value[:16].replace("T", " "))
    return str(value[:12]) if short and _DIGEST.fullmatch(value) else str(value)


def show_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str | Text]], *, caption: str | None = None
) -> None:
    """A table whose first column is words and whose other columns are figures.

    No cell is taken for markup; one of the program's own that has a style, or several lines, is a ``Text``.
    """
    table = Table(title=literal(title), title_style="bold", title_justify="left")
    for index, column in enumerate(columns):
        words = index == 0 or not any(_NUMBER.fullmatch(str(row[index])) for row in rows)
        table.add_column(
            Text(column), justify="left" if words else "right", overflow="fold", ratio=1 if index == 0 else None
        )
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(harmless(cell, most=MOST_IN_A_CELL)) for cell in row))
    stdout.print()
    stdout.print(table)
    if caption is not None:
        show_text(f"[dim]{literal(caption)}[/]")


def show_text(markup: str) -> None:
    """Print sentences: wrapped on a terminal, on one line elsewhere, so that programs can search them."""
    stdout.print(markup, soft_wrap=not stdout.is_terminal)


def show_notes(notes: Iterable[str]) -> None:
    """Print a line for each note."""
    for note in notes:
        show_text(f"[yellow]note:[/] {literal(note)}")


def show_next(words: str, *command: str) -> None:
    """Print the next command, quoted for a shell; ``words`` state its purpose or a condition."""
    shown = without_secrets(shlex.join(command))
    stdout.print(f"[dim]Next: {literal(words)}{' ' if words else ''}[/][bold]{literal(shown)}[/]", soft_wrap=True)


class Waiting:
    """Progress of long work: bars on a terminal, a line for each step elsewhere, nothing for machines."""

    def __init__(self) -> None:
        self._quiet = in_json()
        self._bar: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._shown: set[tuple[str, int]] = set()
        self._lock = Lock()

    def __enter__(self) -> Self:
        if not self._quiet and stderr.is_terminal:
            columns = (
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
            )
            self._bar = Progress(*columns, console=stderr, transient=True)
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def step(self, what: str, done: int, total: int | None) -> None:
        """Show the number of completed units; ``total`` is None if unknown."""
        with self._lock:
            if self._bar is not None:
                if what not in self._tasks:
                    self._tasks[what] = self._bar.add_task(what, total=total)
                self._bar.update(self._tasks[what], completed=done, total=total)
            elif not self._quiet and (what, done) not in self._shown:
                self._shown.add((what, done))
                of_all = "" if total is None else f" of {total:,}"
                stderr.print(f"{harmless(what)}: {done:,}{of_all}", markup=False)

    def rows(self, passed: "Passed") -> None:
        """Show how many rows of a table were read, on a terminal only."""
        if self._bar is not None:
            self.step(f"reading {passed.table}", passed.rows, passed.total)


def run_program(app: Callable[[], None]) -> None:
    """Run a command line.

    A user's mistake is one line on standard error and exit code 2; Ctrl-C is one line and exit code 130. With
    ``--json`` a mistake is one JSON object on standard output as well.
    """
    try:
        app()
    except LikesetError as error:
        message = "; ".join([str(error), *getattr(error, "__notes__", ())])
        _show_error(type(error).__name__, message)
        complain(message)
        sys.exit(2)
    except SystemExit as ended:
        cause = _cause_of(ended)
        if isinstance(cause, KeyboardInterrupt):
            complain("; ".join(["interrupted", *getattr(cause, "__notes__", ("nothing was left half-written",))]))
            sys.exit(130)
        if cause is not None:  # typer has printed it for people
            _show_error(type(cause).__name__, cause.format_message())
        raise


def _show_error(kind: str, message: str) -> None:
    if "--json" in sys.argv:
        show_json({"error": {"kind": kind, "message": harmless(message)}})


def _cause_of(ended: SystemExit) -> Any:
    """The cause of an exit, since typer turns Ctrl-C and invalid arguments into exits."""
    cause: BaseException | None = ended
    while cause is not None and not isinstance(cause, KeyboardInterrupt) and not hasattr(cause, "format_message"):
        cause = cause.__cause__ or cause.__context__
    return cause


_DRAWINGS: dict[str, Any] = {
    "svg.hashsalt": "likeset",  # the same drawing has the same bytes each time
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same letters everywhere
    "font.size": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


@contextmanager
def drawing(look: Mapping[str, Any]) -> Iterator[None]:
    """Draw figures in the block with these settings of matplotlib, in addition to the shared ones."""
    import matplotlib as mpl  # heavy, and few commands draw

    with mpl.rc_context():
        mpl.rcdefaults()
        settings: Any = {**_DRAWINGS, **look}  # matplotlib's type would name every key
        mpl.rcParams.update(settings)
        yield
