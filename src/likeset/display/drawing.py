"""What the report's drawings and the studies' have in common, whatever the user's own settings of matplotlib are."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl

__all__ = ["drawing"]

_SETTINGS: dict[str, Any] = {
    "svg.hashsalt": "likeset",  # the same drawing has the same bytes each time
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same letters everywhere
    "font.size": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


@contextmanager
def drawing(look: Mapping[str, Any]) -> Iterator[None]:
    """Everything drawn within the block has this look.

    Args:
        look: settings of matplotlib beyond those that all drawings share.
    """
    with mpl.rc_context():
        mpl.rcdefaults()
        settings: Any = {**_SETTINGS, **look}  # matplotlib's type would name every key
        mpl.rcParams.update(settings)
        yield
