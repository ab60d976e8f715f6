"""What an owner's answer costs with a split curator, beside the same answer with a trusted one, in one process.

    python benchmarks/split_owner.py --rows 20000 --columns 50 784

An owner weighs and draws its rows alike for both. With a split curator it also encodes what it offers, splits it into
shares, seals a record for each slot and signs its list. Told is the processor time of all owners' answers: the
smallest of some repetitions, in turn. Nothing is computed on the shares. One line of JSON for each number of columns.
"""

import argparse
import contextlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from likeset import Schema, Summarizer
from likeset.run import here
from likeset.split.host import PYTHON_VARIABLE
from likeset.transports.local import ChargedParty

REPEATS = 3
OWNERS = 3


class _EnoughError(Exception):
    """All owners have answered."""


class OwnersClock:
    """Processor time of the answers of owners."""

    def __init__(self) -> None:
        self.seconds = 0.0
        take = ChargedParty.take

        def timed(party: Any, message: Any) -> Any:
            begun = time.thread_time()  # owners answer side by side: the process's time would count each of them twice
            try:
                return take(party, message)
            finally:
                if party.name in party.terms.owners:
                    self.seconds += time.thread_time() - begun

        ChargedParty.take = timed  # type: ignore[method-assign]

    def of(self, curator: str, *, rows: int, columns: int, size: int) -> float:
        """One run until all owners have answered."""
        coins = np.random.default_rng(3)
        owners = {f"owner-{number}": table(coins.uniform(size=(rows, columns))) for number in range(OWNERS)}
        target = table(coins.uniform(size=(200, columns)) ** 1.5)  # owners then weigh their rows, whatever the noise
        self.seconds = 0.0
        options: dict[str, Any] = {"offers": "tilted", "labels": "ignore", "folds": 0, "curator": curator}
        column = f"{{kind: vector, width: {columns}, bounds: [0, 1], weight: {columns**0.5}}}"
        schema = Schema.from_text(f"likeset: schema\nversion: 1\ncolumns:\n  row: {column}\n")
        asked = Summarizer(size, epsilon=4.0, gamma=6.0 / columns, schema=schema, **options)
        with contextlib.suppress(_EnoughError):
            asked.fit(target, owners)
        return self.seconds


def table(rows: NDArray[np.float64]) -> pa.Table:
    return pa.table({"row": list(rows)})


def stop(_inputs: Mapping[Any, Any], **_: object) -> Any:
    """In place of a computation."""
    raise _EnoughError


def main() -> None:
    """Measure every number of columns that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environment", type=Path, default=Path(".venv-split"))
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--size", type=int, default=200)
    parser.add_argument("--columns", type=int, nargs="+", default=[50])
    arguments = parser.parse_args()
    os.environ[PYTHON_VARIABLE] = str(arguments.environment.absolute() / "bin" / "python")
    here.compute_here = stop
    clock = OwnersClock()
    for columns in arguments.columns:
        seconds: dict[str, list[float]] = {"trusted": [], "split": []}
        for _ in range(REPEATS):
            for curator, taken in seconds.items():
                taken.append(clock.of(curator, rows=arguments.rows, columns=columns, size=arguments.size))
        trusted, split = (min(taken) for taken in seconds.values())
        told = {"rows": arguments.rows, "columns": columns, "size": arguments.size}
        found = {"trusted_s": round(trusted, 3), "split_s": round(split, 3), "ratio": round(split / trusted, 2)}
        print(json.dumps({**told, **found}), flush=True)


if __name__ == "__main__":
    main()
