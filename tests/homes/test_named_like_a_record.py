"""An owner called like the records of its node: what it drew is not taken for what it heard."""

from pathlib import Path

import pytest
from node_world import Clock, approve, hear, make_node, script, terms

from likeset.homes import review
from likeset.homes.owner_node import OwnerNode
from likeset.protocol.wire import encode


@pytest.mark.parametrize("protocol", ["sealed", "interactive"])
@pytest.mark.parametrize("name", ["node", "ledger", "offers", "target"])
def test_an_owner_called_like_a_record_answers_again_and_shows_what_left(
    tmp_path: Path, name: str, protocol: str
) -> None:
    """Also in another process, which finds its way back by what the ledger says was heard."""
    run, said = terms(owners=(name, "b"), protocol=protocol, size=3), list[object]()
    folder = make_node(tmp_path, name)
    for _ in range(2):
        with OwnerNode(folder, clock=Clock()) as node:
            approve(node, run)
            said.append([hear(node, encode(message)) for message in script(run, name)])
            assert review.verify(node) == ([], [])
            left = [one.data for one in review.messages_that_left(node, run.run)]
            assert said[-1] == said[0]
            assert left == [reply for answer in said[-1] for reply in answer]  # type: ignore[attr-defined]
