"""One compute party of many small computations, in the workers' environment: ``python -I many_runs.py FOLDER RANK``.

The folder holds, for each computation, a folder with the task and this party's shares. What a worker's own party would
keep and be told goes there, too. A computation named after a leak has one: its curator gets something that it must not
get, so that whoever looks for leaks can show that they find one.
"""

import importlib
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

_ENGINE = Path(__file__).resolve().parents[2] / "src" / "likeset" / "split" / "engine"
_NAME = "likeset_split_engine"


def _module(name: str) -> Any:
    return importlib.import_module(f"{_NAME}.{name}")


def _load() -> None:
    spec = importlib.util.spec_from_file_location(
        _NAME, _ENGINE / "__init__.py", submodule_search_locations=[str(_ENGINE)]
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[_NAME] = package
    spec.loader.exec_module(package)


class FolderKeeper:
    """Keeps everything in a folder."""

    def __init__(self, folder: Path, rank: int) -> None:
        self._folder, self._rank, self._kept = folder, rank, 0

    def inputs(self) -> Any:
        shares = np.load(self._folder / f"shares-{self._rank}.npz")
        return shares["offers"], shares["target"]

    def state(self, checkpoint: Any) -> bytes:
        raise AssertionError(f"{checkpoint}: nothing is gone on from")

    def keep(self, _: Any, state: bytes) -> None:
        (self._folder / f"state-{self._rank}-{self._kept:04d}").write_bytes(state)
        self._kept += 1

    def may_open(self, _: Any) -> None:
        pass

    def give(self, _: bytes, payloads: Any) -> None:
        np.save(self._folder / f"opened-{self._rank}.npy", payloads)

    def tell(self, *_: Any) -> None:
        pass


def _open_picks() -> None:
    """The leak: every pick is opened to the curator in the round in which it is made."""
    machine = _module("machine").Machine
    run = machine.run

    def leaking(self: Any, step: Any, inputs: Any, outputs: Any) -> None:
        run(self, step, inputs, outputs)
        for name in {"picked", "spots"} & set(outputs):  # payloads of picks, or where among the slots they are
            self.open_to(0, name)

    machine.run = leaking


def _compile_once() -> None:
    """All computations here have the same shapes, and compiling takes longer than computing."""
    machine, compiled = _module("machine").Machine, dict[Any, Any]()
    make = machine.__init__

    def made(self: Any, task: Any) -> None:
        make(self, task)
        self._compiled = compiled

    machine.__init__ = made


def main() -> None:
    """See above."""
    folder, rank = Path(sys.argv[1]), int(sys.argv[2])
    _load()
    _compile_once()
    if "leak" in sys.argv:
        _open_picks()
    compute, task = _module("computation").compute, _module("task").Task
    for one in sorted(folder.iterdir()):
        compute(task.from_bytes((one / f"task-{rank}").read_bytes()), FolderKeeper(one, rank))
        sys.stdout.write(json.dumps(one.name) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
