"""Receipts go to all who can be reached, side by side, and nothing that goes wrong with one is heard of."""

import threading
from collections.abc import Mapping

from likeset.transports.receipt_delivery import deliver

SIGNED = {"a": b"for a", "b": b"for b", "c": b"for c"}


def test_each_owner_who_can_be_reached_gets_its_own() -> None:
    sent: dict[str, bytes] = {}
    assert deliver(lambda: SIGNED, owners=["a", "c", "x"], send=sent.__setitem__) == ("a", "c")
    assert sent == {"a": b"for a", "c": b"for c"}


def test_who_does_not_answer_does_not_keep_the_others_from_theirs() -> None:
    def send(owner: str, _: bytes) -> str:
        if owner == "b":
            raise TimeoutError
        return "whatever it says"

    assert deliver(lambda: SIGNED, owners=SIGNED, send=send) == ("a", "c")


def test_nobody_waits_for_another() -> None:
    """All three must be under way at once for the barrier to open."""
    barrier = threading.Barrier(3, timeout=600.0)
    assert deliver(lambda: SIGNED, owners=SIGNED, send=lambda *_: barrier.wait()) == ("a", "b", "c")


def test_a_curator_that_signs_nothing_or_cannot_sends_nothing() -> None:
    def broken() -> Mapping[str, bytes]:
        raise OSError(28, "No space left on device")

    sent: list[str] = []
    for receipts in (None, dict, broken):
        assert deliver(receipts, owners=SIGNED, send=lambda owner, _: sent.append(owner)) == ()
    assert sent == []
