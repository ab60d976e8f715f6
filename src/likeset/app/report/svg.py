"""Drawings as SVG that can stand in a page: own ids, no dates, no references, colours by the page's names."""

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from matplotlib.figure import Figure

from likeset.app.report.markup import html_text
from likeset.display.drawing import drawing

__all__ = ["INK", "MUTED", "PALETTE", "PAPER", "POOL", "RULE", "SUMMARY", "TARGET", "drawing_in_page", "inline"]

# After Okabe and Ito: told apart with every common kind of colour blindness, and in grey by their lightness.
TARGET: Final = "#0072b2"
SUMMARY: Final = "#d55e00"
POOL: Final = "#9aa5ae"
PALETTE: Final = ("#007a5a", "#b0558a", "#8a6d00", "#3f8fc0", "#6b5bb0", "#5d6b75")
INK: Final = "#1d2830"
MUTED: Final = "#5c6b77"
RULE: Final = "#dde3e8"
PAPER: Final = "#fefefe"

_VARIABLES = {
    TARGET: "target",
    SUMMARY: "summary",
    POOL: "pool",
    INK: "ink",
    MUTED: "muted",
    RULE: "rule",
    PAPER: "paper",
    **{colour: f"line-{index}" for index, colour in enumerate(PALETTE)},
}
_NO_METADATA: dict[str, None] = dict.fromkeys(("Creator", "Date", "Format", "Type"))
_LOOK: dict[str, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,  # a dollar sign in somebody's column name is no formula
    "axes.edgecolor": MUTED,
    "axes.labelcolor": MUTED,
    "axes.linewidth": 0.8,
    "axes.unicode_minus": True,
    "grid.color": RULE,
    "grid.linewidth": 0.8,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelsize": 9.0,
    "ytick.labelsize": 9.0,
    "axes.labelsize": 10.0,
}


@contextmanager
def drawing_in_page() -> Iterator[None]:
    """One look, whatever the user's own settings are."""
    with drawing(_LOOK), warnings.catch_warnings():
        # The browser has the glyphs that the font used for measuring lacks.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing", category=UserWarning)
        yield


def inline(figure: Figure, *, name: str, label: str) -> str:
    """The figure as an ``svg`` element.

    Args:
        figure: to be drawn.
        name: of the figure, unique in the page: it goes before every id.
        label: what the figure shows, for those who do not see it.
    """
    sheet = io.StringIO()
    figure.savefig(sheet, format="svg", transparent=True, metadata=_NO_METADATA)
    whole = sheet.getvalue()
    drawn = whole[whole.index("<svg") :].strip()
    drawn = re.sub(r"<defs>\s*<style[^>]*>.*?</style>\s*</defs>", "", drawn, count=1, flags=re.DOTALL)
    drawn = re.sub(r"<!--.*?-->\s*", "", drawn, flags=re.DOTALL)
    drawn = re.sub(r"<[^>]+>", lambda tag: _restyle_tag(tag[0], name), drawn)
    opening = f'<svg role="img" aria-label="{html_text(label)}" '
    return drawn.replace("<svg ", opening, 1)


def _restyle_tag(tag: str, name: str) -> str:
    """A tag with this figure's ids and the page's colours. Text between tags has no angle brackets, so it stays."""
    tag = re.sub(r'\s(?:xmlns(?::\w+)?|version)="[^"]*"', "", tag)
    tag = tag.replace("xlink:href=", "href=")
    tag = re.sub(r"\s*font-family:[^;\"]*;?", "", tag)  # the page's own
    tag = re.sub(r'\bid="', f'id="{name}-', tag)
    tag = re.sub(r"url\(#", f"url(#{name}-", tag)
    tag = re.sub(r'href="#', f'href="#{name}-', tag)
    if tag.startswith("<svg"):
        tag = re.sub(r'\s(?:width|height)="[^"]*"', "", tag)
    for colour, variable in _VARIABLES.items():
        tag = tag.replace(colour, f"var(--{variable})")
    return tag
