"""The docstring of the Summarizer as it is at run time: its settings are described where they are declared."""

import inspect
from typing import Any

import griffe

from likeset import Summarizer


class SettingsInDocstrings(griffe.Extension):
    """mkdocstrings reads source files without running them, and would not see what is put in."""

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Take the class's docstring from the class itself."""
        if cls.path == f"{Summarizer.__module__}.{Summarizer.__qualname__}" and cls.docstring:
            cls.docstring.value = inspect.getdoc(Summarizer) or ""
