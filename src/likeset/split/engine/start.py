"""Starts a worker, ``python -I start.py``: the package that it lies in can be imported, nothing else of likeset."""

import importlib
import importlib.util
import os
import sys
from pathlib import Path

_FOLDER = Path(__file__).resolve().parent
_NAME = "likeset_split_engine"


def main() -> None:
    """Give frames a descriptor of their own, so that nothing that the engine prints gets between them."""
    frames = os.dup(1)
    os.dup2(2, 1)
    spec = importlib.util.spec_from_file_location(
        _NAME, _FOLDER / "__init__.py", submodule_search_locations=[str(_FOLDER)]
    )
    if spec is None or spec.loader is None:
        sys.exit("the worker's own files are missing")
    package = importlib.util.module_from_spec(spec)
    sys.modules[_NAME] = package
    spec.loader.exec_module(package)
    worker = importlib.import_module(f"{_NAME}.worker")
    with os.fdopen(0, "rb", closefd=False) as given, os.fdopen(frames, "wb") as told:
        worker.serve(given, told)


if __name__ == "__main__":
    main()
