"""Parts in a row of bytes: one way to write them, one way to read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from likeset.errors import BadDocument, InvalidArgument
from likeset.trust.cards import CONTEXTS, fields, read_fields, read_tagged, signed

PARTS = st.lists(st.binary(max_size=40), max_size=6)


@given(PARTS)
def test_what_is_written_is_read(parts: list[bytes]) -> None:
    assert read_fields(fields(*parts), len(parts), what="it") == tuple(parts)
    assert read_fields(fields(*parts), None, what="it") == tuple(parts)


@given(st.binary(max_size=60))
def test_what_can_be_read_was_written_so(data: bytes) -> None:
    """There are no two ways to write the same parts."""
    try:
        parts = read_fields(data, None, what="it")
    except BadDocument:
        return
    assert fields(*parts) == data


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "has 0 parts; 2 are needed"),
        (fields(b"a"), "has 1 parts; 2 are needed"),
        (fields(b"a", b"b", b"c"), "has more than its 2 parts"),
        (fields(b"a", b"b") + b"\0", "has more than its 2 parts"),
        (fields(b"a", b"b")[:-1], "is cut off, or a length"),
        (fields(b"a") + bytes(7), "is cut off in the length"),
        (b"\xff" * 8 + b"a", "is cut off, or a length"),
        (fields(b"a")[:8] + b"a" + (2**63).to_bytes(8, "big"), "is cut off, or a length"),
    ],
)
def test_everything_else_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(BadDocument, match=reason):
        read_fields(data, 2, what="it")


def test_the_name_in_front_is_needed() -> None:
    assert read_tagged(b"likeset stub", fields(b"likeset stub", b"a"), 1) == (b"a",)
    with pytest.raises(BadDocument, match="something else"):
        read_tagged(b"likeset stub", fields(b"likeset card", b"a"), 1)


def test_an_unknown_kind_of_signature_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="context"):
        signed("likeset/invoice/1", b"a")
    assert all(signed(context, b"a") == fields(context.encode(), b"a") for context in CONTEXTS)
