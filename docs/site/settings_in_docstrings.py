"""Docstring and signature of the Summarizer as at run time: its settings are described where they are declared."""

import inspect
from typing import Any

import griffe

from likeset import Summarizer


class SettingsInDocstrings(griffe.Extension):
    """mkdocstrings reads source files without running them and would not see settings that are inserted at run time."""

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Take the docstring of the Summarizer from the class itself."""
        if cls.path == f"{Summarizer.__module__}.{Summarizer.__qualname__}" and cls.docstring:
            cls.docstring.value = inspect.getdoc(Summarizer) or ""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Replace ``**others`` of its constructor by the settings that it stands for."""
        if func.path == f"{Summarizer.__module__}.{Summarizer.__qualname__}.__init__":
            declared = {parameter.name for parameter in func.parameters}
            func.parameters._params = [one for one in func.parameters if one.name != "others"]
            for name, setting in inspect.signature(Summarizer).parameters.items():
                if name not in declared:
                    func.parameters.add(
                        griffe.Parameter(
                            name,
                            annotation=inspect.formatannotation(setting.annotation).replace("typing.", ""),
                            kind=griffe.ParameterKind.keyword_only,
                            default=repr(setting.default),
                        )
                    )
