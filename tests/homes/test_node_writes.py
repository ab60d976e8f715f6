"""How many durable writes lie between a message and its reply: each waits for the disk."""

from pathlib import Path
from typing import Any

import pytest
from node_world import Clock, approve, hear, make_node, script, terms

from durable_writes import durable_writes
from likeset.homes.owner_node import OwnerNode
from likeset.protocol.wire import encode

GENEROUS: dict[str, Any] = {"per_run": {"epsilon": 9, "rows": 99}, "total": {"epsilon": 99, "rows": 99}}
AUCTION: dict[str, Any] = {"owners": ("a", "b", "c"), "auction": "threshold", "auction_epsilon": 8.0, "size": 2}


def writes_of_run(folder: Path, **options: Any) -> list[int]:
    """Writes for each message that a curator says, in order."""
    run, counts = terms(**options), []
    with OwnerNode(folder, clock=Clock()) as node:
        approve(node, run)
        for message in script(run):
            with durable_writes() as writes:
                assert isinstance(hear(node, encode(message)), list)
            counts.append(len(writes))
    return counts


@pytest.mark.parametrize(
    ("options", "most"),
    [
        # To begin: the data's fingerprint, and the charge with it. Each message: the bytes of the exchange, and then
        # what it costs, that it is kept and that it left.
        ({}, [2 + 2]),
        ({**AUCTION, "auction_offset": 2}, [2 + 2, 2]),
        ({"protocol": "interactive", "size": 2}, [2 + 2, 2, 2, 2, 2]),
    ],
    ids=["sealed", "auctioned", "interactive"],
)
def test_an_answer_takes_few_durable_writes(tmp_path: Path, options: dict[str, Any], most: list[int]) -> None:
    assert writes_of_run(make_node(tmp_path, **GENEROUS), **options) == most


def test_a_repeated_message_takes_none(tmp_path: Path) -> None:
    run = terms()
    with OwnerNode(make_node(tmp_path), clock=Clock()) as node:
        approve(node, run)
        first = hear(node, encode(script(run)[0]))
        with durable_writes() as writes:
            assert hear(node, encode(script(run)[0])) == first
        assert writes == []


def test_a_node_that_comes_back_to_a_run_writes_nothing_for_what_it_answered_before(tmp_path: Path) -> None:
    run, folder = terms(), make_node(tmp_path)
    with OwnerNode(folder, clock=Clock()) as node:
        approve(node, run)
        first = hear(node, encode(script(run)[0]))
    with OwnerNode(folder, clock=Clock()) as node, durable_writes() as writes:
        assert hear(node, encode(script(run)[0])) == first
    assert writes == []
