"""Floods of letters at an owner's node, by those whom it knows: what says nothing new is not kept."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from card_world import secret_of
from node_world import Clock, logged, make_node, terms
from owner_letters import Outside, seated

from likeset.errors import IllegalMessage
from likeset.homes.mail import sign
from likeset.homes.owner_node import NodeRun, OwnerNode
from likeset.protocol.party import CURATOR
from likeset.trust.letters import write_letter

RUN = terms()
NOW = datetime(2029, 3, 5, 12, tzinfo=UTC)
_MANY = 30


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OwnerNode]:
    with OwnerNode(make_node(tmp_path, total={"epsilon": 0, "rows": 99}), clock=Clock()) as opened:
        yield opened


@pytest.fixture
def outside(tmp_path: Path) -> Outside:
    return Outside(tmp_path / "outside", RUN)


@pytest.fixture
def run(node: OwnerNode, outside: Outside) -> NodeRun:
    """The node's side of a run, in which it has answered the call."""
    made = seated(node, outside)
    (answer,) = made.hear(outside.release(made.acceptance()))
    outside.read(answer)
    return made


def _kept(node: OwnerNode) -> int:
    return len(node.book.letters(bytes.fromhex(RUN.digest)))


def _empty(node: OwnerNode, writer: str, number: int, *enclosures: bytes) -> bytes:
    """A letter to the node that says nothing."""
    keys = node.book.run_keys(bytes.fromhex(RUN.digest))
    assert keys is not None
    assert keys.secret is not None
    return write_letter(
        secret_of(writer),
        recipient=node.identity.secret.card,
        recipient_key=keys.secret.public,
        run_id=bytes.fromhex(RUN.run_id),
        terms=bytes.fromhex(RUN.digest),
        round=0,
        number=number,
        message=b"",
        enclosures=enclosures,
    ).data


@pytest.mark.parametrize(
    ("writer", "enclosures"),
    [(CURATOR, ()), (CURATOR, (b"no receipt",)), (CURATOR, (b"one", b"two")), (RUN.consumer, (b"no receipt",))],
)
def test_letters_that_bring_no_receipt_are_not_kept(
    node: OwnerNode, run: NodeRun, writer: str, enclosures: tuple[bytes, ...]
) -> None:
    """A curator could send them as long as the run has a key, each as large as a letter may be."""
    before = _kept(node)
    for number in range(1, _MANY):
        with suppress(IllegalMessage):
            assert run.hear(_empty(node, writer, number, *enclosures, bytes([number]))) == ()
    assert _kept(node) == before


def test_only_the_first_of_receipts_that_say_the_same_is_kept(node: OwnerNode, run: NodeRun) -> None:
    said = replace(node.transcript(RUN.run), lines=())
    before = _kept(node)
    for number in range(1, _MANY):
        receipt = sign(said, secret_of(CURATOR), now=NOW + timedelta(seconds=number))
        assert run.hear(_empty(node, CURATOR, number, receipt.to_bytes())) == ()
    assert _kept(node) == before + 1
    assert len(logged(node, "acknowledged")) == 1


def test_what_was_said_before_is_not_kept_again_under_another_number(
    node: OwnerNode, outside: Outside, run: NodeRun
) -> None:
    before = _kept(node)
    for number in range(1, _MANY):
        with pytest.raises(IllegalMessage, match="says again"):
            run.hear(outside.forged(node, secret_of(RUN.consumer), number=number))
    assert _kept(node) == before
