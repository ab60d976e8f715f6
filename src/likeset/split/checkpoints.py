"""A compute party's checkpoints: its shares of the state after each round, in a directory that nobody else can read.

Shares of one party tell nothing; two parties' checkpoints together tell everything. They go when the run is over.

Two things are kept for good while the directory is: from which checkpoint picks were opened, and, at the consumer,
what was opened. After the first, no other checkpoint is offered to anybody: a computation that was opened and then
repeated would open other rows.
"""

import json
import shutil
from pathlib import Path

from likeset.errors import PartyFailed
from likeset.private_files import keep_private_bytes, make_private_folder, remove_unfinished
from likeset.split.engine.agreement import Checkpoint

__all__ = ["Checkpoints", "opening_noted", "remove_all_but_the_note"]

_OPENING, _OPENED = "opening.json", "opened.frame"
_SUFFIX = ".state"


class Checkpoints:
    """What a party needs in order to go on after it, or its worker, was killed.

    Args:
        folder: the party's own; made if it is not there.
    """

    def __init__(self, folder: Path) -> None:
        make_private_folder(folder)
        remove_unfinished(folder)
        self._folder = folder

    def held(self) -> tuple[Checkpoint, ...]:
        """Those that can be gone on from, in order. After an opening began, only the one that it began with."""
        opening = self.opening()
        points = sorted(_point(path.stem) for path in self._folder.glob(f"*{_SUFFIX}"))
        if opening is None:
            return tuple(points)
        return tuple(point for point in points if point in (opening, Checkpoint(0, opening.base, opening.base)))

    def keep(self, point: Checkpoint, state: bytes) -> None:
        """On disk when this returns. What no party can need any more is removed.

        Parties are at most one round apart, for a round needs messages of all: the round before stays, with the one
        before it. A new round 0 means that the parties had none in common.

        Raises:
            PartyFailed: an opening began with another one.
        """
        self._check_not_opened(point)
        keep_private_bytes(self._path(point), state)
        for other in self.held():
            if (other.round == 0 and other.base != point.base) or 0 < other.round < point.round - 1:
                self._path(other).unlink(missing_ok=True)

    def read(self, point: Checkpoint) -> bytes:
        """A state that is held."""
        return self._path(point).read_bytes()

    def opening(self) -> Checkpoint | None:
        """With which checkpoint opening began; None if it did not."""
        path = self._folder / _OPENING
        return Checkpoint(*json.loads(path.read_text(encoding="ascii"))) if path.exists() else None

    def begin_opening(self, point: Checkpoint) -> None:
        """On disk when this returns, for good.

        Raises:
            PartyFailed: it began with another one, or this one is not held.
        """
        self._check_not_opened(point)
        if point not in self.held():
            raise PartyFailed("picks can be opened from a state only that this party has kept")
        if self.opening() is None:
            text = json.dumps([point.round, point.mark, point.base])
            keep_private_bytes(self._folder / _OPENING, text.encode("ascii"))

    def keep_opened(self, frame: bytes) -> None:
        """What was opened to this party; on disk when this returns."""
        if self.opened() is None:
            keep_private_bytes(self._folder / _OPENED, frame)

    def opened(self) -> bytes | None:
        """What was opened to this party before."""
        path = self._folder / _OPENED
        return path.read_bytes() if path.exists() else None

    def remove(self) -> None:
        """Everything, when the run is over."""
        shutil.rmtree(self._folder)

    def _check_not_opened(self, point: Checkpoint) -> None:
        opening = self.opening()
        if opening is not None and opening != point:
            raise PartyFailed("picks were opened already, and nothing else may be computed from these inputs")

    def _path(self, point: Checkpoint) -> Path:
        return self._folder / f"{point.round:08d}-{point.mark}-{point.base}{_SUFFIX}"


def opening_noted(folder: Path) -> bool:
    """Whether an opening began with a checkpoint of this directory; looking makes none."""
    return (folder / _OPENING).exists()


def remove_all_but_the_note(folder: Path) -> None:
    """No share and nothing that was opened stays in a directory; from which checkpoint it was opened does."""
    for path in folder.iterdir():
        if path.name != _OPENING:
            path.unlink(missing_ok=True)


def _point(stem: str) -> Checkpoint:
    number, mark, base = stem.split("-")
    return Checkpoint(int(number), mark, base)
