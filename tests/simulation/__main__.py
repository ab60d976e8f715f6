"""``python tests/simulation``: a process of its own, in which sets have one order."""

import importlib
import os
import sys
from pathlib import Path

if os.environ.get("PYTHONHASHSEED") != "0":
    alone = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **alone})  # noqa: S606 - this very program
tests = Path(__file__).parents[1]
sys.path += [str(tests), *(str(tests / folder) for folder in ("homes", "protocol", "run", "transports"))]
importlib.import_module("simulate").main()
