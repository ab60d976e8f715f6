"""Kills a console at every single step of a decision, and looks at what is left: a program, a line of JSON for a life.

A program of its own because it forks: everything slow is imported before the first fork. A step is something that the
decision does with the node's log: each is a moment to die before and after.
"""

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

_TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(_TESTS / floor) for floor in ("", "app", "homes", "trust", "protocol")]

from card_world import introduce, signed_terms  # noqa: E402 - it runs outside pytest, which knows where they are
from console_world import opened_console, signed_in  # noqa: E402
from node_world import logged, make_node, terms  # noqa: E402

from likeset.homes import review  # noqa: E402
from likeset.homes.owner_node import OwnerNode  # noqa: E402

RUN = terms(expires="2099-01-01")
MOST_STEPS = 500


class Mortal:
    """A connection to the log's file that ends its process at a step."""

    def __init__(self, connection: Any, last: int, *, after: bool) -> None:
        self._connection, self._left, self._after = connection, last, after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, *words: Any) -> Any:
        self._left -= 1
        if self._left == 0 and not self._after:
            os.kill(os.getpid(), signal.SIGKILL)
        done = self._connection.execute(*words)
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return done


def life(folder: Path, choice: str, step: int, *, after: bool, tell: int) -> None:
    """A console whose steward decides; what it answered goes into a pipe, if it came to that."""
    with opened_console(folder) as desk:
        ada = signed_in(desk)
        page = ada.get("/run?name=run-1")
        form = {"run": "run-1", "choice": choice, "by": "Ada", "reason": "no contract", "sure": "yes"}
        seen = {"digest": page.field("digest"), "seen": page.field("seen")}
        token = page.field("form_token")
        store: Any = desk.node.log._store
        store._connection = Mortal(store._connection, step, after=after)
        status = ada.post("/decide", {**form, **seen}, token=token).status
        os.write(tell, str(status).encode())


def main() -> None:
    """Lives of each choice until one ends by itself: then every step was a death."""
    place, kinds = Path(sys.argv[1]), {"approve": "approved", "deny": "denied"}
    template = make_node(place / "template")
    introduce(template, RUN)
    with OwnerNode(template) as node:
        node.put_policy_in_force()
        node.take_invitation(signed_terms(RUN))
        node.judge(RUN)  # loads libraries
    for choice, kind in kinds.items():
        for step in range(1, MOST_STEPS):
            answers = []
            for after in (False, True):
                folder = place / "life" / template.name
                shutil.rmtree(folder.parent, ignore_errors=True)
                shutil.copytree(template.parent, folder.parent)
                answers.append(_lived(folder, choice, kind, step, after=after))
            if all(answers):
                break


def _lived(folder: Path, choice: str, kind: str, step: int, *, after: bool) -> bool:
    """One life, and what it left; whether it came to an answer."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        life(folder, choice, step, after=after, tell=writer)
        os._exit(0)
    os.close(writer)
    answer = os.read(reader, 100).decode()
    os.close(reader)
    _, status = os.waitpid(child, 0)
    with OwnerNode(folder) as node:
        told = {
            "choice": choice,
            "step": step,
            "after": after,
            "killed": os.WIFSIGNALED(status),
            "answer": answer,
            "decided": len(logged(node, kind)),
            "others": sum(len(logged(node, other)) for other in ("approved", "denied", "withdrawn") if other != kind),
            "holds": review.verify(node)[0] == [],
            "can_decide": node.approve("run-1", RUN.digest, by="Bob").accepted,
        }
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()  # before the next fork
    return bool(answer)


if __name__ == "__main__":
    main()
