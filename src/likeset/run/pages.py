"""Jinja2 as all pages use it: text is escaped, and control characters are written out."""

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from likeset.run.words import NO_BREAK
from likeset.text import harmless


@cache
def environment(package: str) -> Environment:
    """The templates in ``package/templates``."""
    return Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        finalize=_shown,
    )


def _shown(value: Any) -> Any:
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return NO_BREAK.join(harmless(part) for part in value.split(NO_BREAK))
