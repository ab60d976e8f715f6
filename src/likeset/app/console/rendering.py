"""Templates, filled in: whatever is not written in a template is text, and means nothing to a browser but itself."""

from functools import cache
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from likeset.text import harmless

__all__ = ["environment", "link"]

_MOST_WORDS = 2000


@cache
def environment() -> Environment:
    """All templates of this package."""
    made = Environment(
        loader=PackageLoader("likeset.app.console", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        finalize=_shown,
    )
    made.filters.update(lines=_lines, when=_when, groups=_groups, count=_count)
    made.globals["link"] = link
    return made


def link(path: str, **words: object) -> str:
    """The address of a page of this console; whatever is asked for stands in its query."""
    query = urlencode({name: value for name, value in words.items() if value not in ("", None)})
    return f"{path}?{query}" if query else path


def _shown(value: Any) -> Any:
    """Any text on one line, without what steers a screen; escaped afterwards, as everything is."""
    if isinstance(value, Markup):
        return value
    return harmless(str(value), most=_MOST_WORDS) if isinstance(value, str) else value


def _lines(text: str) -> Markup:
    """A text with its lines, each without what steers a screen."""
    return Markup("\n").join(escape(harmless(line)) for line in text.splitlines())


def _when(moment: str) -> str:
    """A time as the log has it, to the minute."""
    return moment[:16].replace("T", " ")


def _groups(fingerprint: str) -> list[str]:
    """A fingerprint in the groups that are read out."""
    return fingerprint.split("-")


def _count(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:,.4g}"
