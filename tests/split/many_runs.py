"""One compute party of many small computations, in the workers' environment: ``python -I many_runs.py FOLDER RANK``.

The folder holds, for each computation, a folder with the task and this party's shares. What a worker's own party would
keep and be told goes there, too, and the shares of all variables. A computation named after a leak has one: its curator
gets something that it must not get, so that whoever looks for leaks can show that they find one.
"""

import importlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src" / "likeset" / "split"))
agreement, worker = (importlib.import_module(f"engine.{name}") for name in ("agreement", "worker"))


class FolderKeeper:
    """Keeps everything in a folder."""

    def __init__(self, folder: Path, rank: int) -> None:
        self._folder, self._rank = folder, rank

    def inputs(self) -> Any:
        shares = np.load(self._folder / f"shares-{self._rank}.npz")
        return shares["offers"], shares["target"]

    def stored_share(self) -> bytes:
        return b""

    def store_share(self, share: bytes) -> None:
        (self._folder / f"share-{self._rank}").write_bytes(share)

    def give(self, _: bytes, payloads: Any) -> None:
        np.save(self._folder / f"opened-{self._rank}.npy", payloads)

    def end(self) -> None:
        """When the consumer has everything: what this party sent last may be on its way."""
        while not (self._folder / "opened-1.npy").exists():
            time.sleep(0.01)

    def tell(self, *_: Any) -> None:
        pass


def _after_each_step(work: Callable[[Any, str], None]) -> None:
    """Do something with the machine and each variable that a step of the program has set."""
    machine, run = worker.Machine, worker.Machine.run

    def watched(self: Any, step: Any, inputs: Any, outputs: Any) -> None:
        run(self, step, inputs, outputs)
        for name in outputs:
            work(self, name)

    machine.run = watched


def _content(machine: Any, name: str) -> bytes:
    return bytes(worker._content(machine.variables.get_var(name)))


def _keep_state(machine: Any, name: str) -> None:
    """Not the consumer's share of the picks, which adds up to what it is to read."""
    if (name, machine.rank) == ("picks", 1):
        return
    if "AShr" in worker._read_meta(machine.variables.get_var(name)).storage_type:
        (machine.folder / f"state-{machine.rank}-{machine.made:04d}").write_bytes(_content(machine, name))
        machine.made += 1


def _open_picks(machine: Any, name: str) -> None:
    """The leak: where among the slots picks are is opened to the curator in the round in which they are made."""
    if name == "spots":
        machine.sent_to(0, _content(machine, name), range(3))


def _edit_picks() -> None:
    """The consumer changes its own copy of the lines of picks, before they are opened, and notes how."""
    machine, run = worker.Machine, worker.Machine.run

    def edited(self: Any, step: Any, inputs: Any, outputs: Any) -> None:
        if (step.__name__, self.rank) == ("finish", 1):
            shape = inputs["spots"].shape
            edit = np.random.default_rng(5).integers(-(2**63), 2**63 - 1, (*shape, 2))
            edit[:, self.lines :] = 0
            pair = np.frombuffer(_content(self, "spots"), dtype="<i8").reshape(*shape, 2)
            self.set_words("spots", *np.moveaxis(pair + edit, -1, 0))
            payload = np.frombuffer(_content(self, "payload"), dtype="<i8").reshape(*inputs["payload"].shape, 2)
            np.savez(self.folder / "edit.npz", edit=edit[:, : self.lines], payload=payload)
        run(self, step, inputs, outputs)

    machine.run = edited


def _compile_once(folder: Path) -> None:
    """All computations here have the same shapes, and compiling takes longer than computing."""
    machine, make, compiled = worker.Machine, worker.Machine.__init__, dict[Any, Any]()

    def made(self: Any, task: Any) -> None:
        make(self, task)
        self._compiled, self.folder, self.made = compiled, folder / task.attempt, 0
        self.lines = agreement.grid(task.settings.offers, task.settings.size)[0]

    machine.__init__ = made


def main() -> None:
    folder, rank = Path(sys.argv[1]), int(sys.argv[2])
    _compile_once(folder)
    _after_each_step(_keep_state)
    if "leak" in sys.argv:
        _after_each_step(_open_picks)
    if "edit" in sys.argv:
        _edit_picks()
    for one in sorted(folder.iterdir()):
        worker.compute(agreement.Task.from_bytes((one / f"task-{rank}").read_bytes()), FolderKeeper(one, rank))
        sys.stdout.write(json.dumps(one.name) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
