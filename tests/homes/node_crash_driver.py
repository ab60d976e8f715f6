"""Kills nodes right after each of their durable writes, and looks at what they leave behind: a program, prints JSON.

A program of its own because it forks: everything slow is imported before the first fork, so that a life costs little.
"""

import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from node_world import Clock, approve, hear, make_node, script, terms

from likeset.homes import review
from likeset.homes.owner_node import OwnerNode
from likeset.ledger.sqlite_file import SqliteFile
from likeset.privacy.guarantee import View
from likeset.protocol.prices import planned_views
from likeset.protocol.wire import Delivery, Offer, decode, encode

RUNS: dict[str, dict[str, Any]] = {
    "sealed": {},
    "interactive": {"protocol": "interactive", "size": 2},
    "threshold": {
        "owners": ("a", "b", "c"),
        "auction": "threshold",
        "auction_epsilon": 8.0,
        "auction_offset": 2,
        "size": 2,
    },
}


def in_a_life(work: Any) -> int:
    """Do something in a process of its own; its exit code, or minus the signal that ended it."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def kill_after(writes: int) -> None:
    """This process ends when it has written for the n-th time."""
    honest, done = SqliteFile.writing, iter(range(1, 1_000_000))

    @contextmanager
    def writing(self: SqliteFile) -> Iterator[Any]:
        with honest(self) as connection:
            yield connection
        if next(done) == writes:
            os.kill(os.getpid(), signal.SIGKILL)

    SqliteFile.writing = writing  # type: ignore[method-assign]


def life(folder: Path, kind: str, writes: int | None) -> None:
    """Hear the whole run; what leaves goes to a file, as it would go to a wire."""
    if writes is not None:
        kill_after(writes)
    with OwnerNode(folder, clock=Clock()) as node, (folder.parent / "wire").open("a") as wire:
        for message in script(terms(**RUNS[kind])):
            answer = hear(node, encode(message))
            if not isinstance(answer, list):
                raise SystemExit(str(node.ledger.entries()[-1].body))
            place = f"{message.round}/{message.body.kind}"
            wire.write(json.dumps([place, [reply.hex() for reply in answer]]) + "\n")
            wire.flush()


def looked_at(folder: Path, kind: str) -> dict[str, Any]:
    """What the directory says, beside what left."""
    lines = [json.loads(line) for line in (folder.parent / "wire").read_text().splitlines()]
    answers: dict[str, set[str]] = {}
    for place, replies in lines:
        answers.setdefault(place, set()).add(json.dumps(replies))
    with OwnerNode(folder, clock=Clock()) as node:
        bodies = [decode(one.data).body for one in review.messages_that_left(node)]
        problems, notes = review.verify(node)
        accounts = {str(one.view): (one.epsilon, one.rows) for one in node.ledger.accounts()}
    handles: list[int] = []
    for body in bodies:
        if isinstance(body, Offer):
            handles += body.handles.tolist()
        elif isinstance(body, Delivery):
            handles.append(body.handle)
    return {
        "kind": kind,
        "different_answers": max(map(len, answers.values())),
        "rows_left": len(handles),
        "rows_twice": len(handles) - len(set(handles)),
        "rows_charged": accounts[str(View.curator("a"))][1],
        "epsilon_charged": accounts[str(View.owners("a"))][0],
        "problems": [str(problem) for problem in problems],
        "unsent": len(notes),
    }


def prepared(place: Path, kind: str) -> Path:
    """A node that approved the run."""
    generous: dict[str, Any] = {"per_run": {"epsilon": 9, "rows": 99}, "total": {"epsilon": 99, "rows": 99}}
    folder = make_node(place, **generous)
    with OwnerNode(folder, clock=Clock()) as node:
        approve(node, terms(**RUNS[kind]))
    return folder


def lives(first: Path, again: Path, kind: str, writes: int) -> dict[str, Any]:
    """One life that ends early, and one that does not."""
    shutil.copytree(first, again)
    folder, report = again / "node-a", again / "report.json"
    code = in_a_life(lambda: life(folder, kind, writes))
    assert code in (0, -signal.SIGKILL), code

    def come_back() -> None:
        life(folder, kind, None)
        report.write_text(json.dumps(looked_at(folder, kind)))

    ended = in_a_life(come_back)
    return {"writes": writes, "killed": code != 0, "ended": ended, **json.loads(report.read_text())}


def main(place: Path, kind: str, step: int) -> None:
    """Kill at every ``step``-th write until a life ends by itself."""
    planned_views(terms(**RUNS[kind]), width_choice=None)  # imports and computes what every life would
    first = place / "first"
    assert in_a_life(lambda: prepared(first, kind)) == 0
    found = [lives(first, place / "after-1", kind, 1)]
    while found[-1]["killed"]:
        writes = found[-1]["writes"] + step
        found.append(lives(first, place / f"after-{writes}", kind, writes))
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
