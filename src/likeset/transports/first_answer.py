"""What the first answer of a run would load: where a process starts is the time for it."""

import contextlib
import importlib

_LIBRARIES = ("dp_accounting.pld", "dp_accounting.rdp", "pandas", "pyarrow.parquet")


def load_libraries() -> None:
    for name in _LIBRARIES:
        with contextlib.suppress(ImportError):  # pandas is there or not
            importlib.import_module(name)
