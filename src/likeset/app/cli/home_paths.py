"""The option that names the home of a command: one declaration, and words for each kind of home."""

from pathlib import Path
from typing import Any

import typer

__all__ = ["HERE", "home_option"]

HERE = Path()


def home_option(whose: str, *, or_node: bool = False) -> Any:
    """``--home``, which the environment may give, too.

    Args:
        whose: directory it is, in words.
        or_node: whether an owner's node is such a home, so that its own variable counts as well.
    """
    variables = ["LIKESET_HOME", *(["LIKESET_NODE"] if or_node else [])]
    return typer.Option("--home", envvar=variables, help=f"{whose}; by default the current one.")
