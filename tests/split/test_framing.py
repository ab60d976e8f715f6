"""Frames are read as they were written, and nothing else is read."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from likeset.split.engine.agreement import BadFrame, Frame, pack, read_frame, unpack


@given(st.text("abc wanted", min_size=1, max_size=20), st.lists(st.binary(max_size=40), max_size=6))
def test_what_was_packed_is_read_again_from_bytes_and_from_a_stream(kind: str, parts: list[bytes]) -> None:
    data = pack(kind, *parts)
    assert unpack(data) == Frame(kind, tuple(parts))
    stream = io.BytesIO(data + data)
    assert [read_frame(stream), read_frame(stream), read_frame(stream)] == [unpack(data), unpack(data), None]


@given(st.binary(max_size=80))
def test_other_bytes_are_refused_with_our_own_error(data: bytes) -> None:
    with pytest.raises(BadFrame):
        unpack(data)


def test_every_cut_and_every_tail_is_refused() -> None:
    data = pack("words", b"one", b"", b"three")
    for end in range(len(data)):
        with pytest.raises(BadFrame):
            unpack(data[:end])
        if end:
            with pytest.raises(BadFrame):
                read_frame(io.BytesIO(data[:end]))
    with pytest.raises(BadFrame, match="after a frame"):
        unpack(data + b"x")


def test_lengths_are_checked_before_anything_is_read_for_them() -> None:
    """The frame says that a part of 2^60 bytes follows; a reader that believed it would run out of memory."""
    head = pack("words", b"")
    with pytest.raises(BadFrame, match="larger"):
        unpack(head[:9] + (1 << 60).to_bytes(8, "big") + head[17:])
    with pytest.raises(BadFrame, match="larger"):
        unpack(pack("words", b"12345"), most=4)
    with pytest.raises(BadFrame, match="too many parts"):
        unpack(b"LSF1\x01" + (1 << 31).to_bytes(4, "big"))
