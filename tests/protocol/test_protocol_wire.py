"""The closed set of messages: what is written can be read, and nothing else can."""

import hashlib
import json
import struct
import sys
from dataclasses import fields
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from chance import examples
from likeset.errors import BadMessage
from likeset.protocol import wire
from likeset.protocol.wire import (
    Asked,
    Bid,
    Blob,
    Body,
    Handles,
    Labels,
    Matrix,
    Message,
    Misfit,
    Numbers,
    Offer,
    Vector,
    decode,
    encode,
)

SETTINGS = settings(max_examples=examples(30))

_names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,20}", fullmatch=True)
_any_float = st.floats(allow_nan=True, allow_infinity=True)
_uint64 = st.integers(0, 2**64 - 1)


def _vector(dtype: str) -> st.SearchStrategy[NDArray[Any]]:
    return arrays.arrays(np.dtype(dtype), st.integers(0, 5))


_matrix = arrays.arrays(np.dtype("<f4"), st.tuples(st.integers(0, 4), st.integers(0, 4)))
_text = st.lists(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5), max_size=4
).map(lambda words: np.array(words, dtype=np.str_))
_labels = st.one_of(_vector("<i8"), _vector("<f8"), _vector("|b1"), _vector("<f4"), _vector("|u1"), _text)
_fields: dict[Any, st.SearchStrategy[Any]] = {
    Matrix: _matrix,
    Vector: _vector("<f8"),
    Numbers: _vector("<i8"),
    Handles: _vector("<u8"),
    Blob: _vector("|u1"),
    Labels: _labels,
    float: _any_float,
    bool: st.booleans(),
    int: _uint64,
}
_bodies: dict[str, st.SearchStrategy[Body]] = {
    body.kind: st.builds(body, **{declared.name: _fields[declared.type] for declared in fields(body)})
    for body in get_args(Body)
}


def _envelopes(body: st.SearchStrategy[Body]) -> st.SearchStrategy[Message]:
    return st.builds(
        Message, run=_names, terms=_names, sender=_names, receiver=_names, round=st.integers(0, 2**31), body=body
    )


messages = _envelopes(st.one_of(*_bodies.values()))


def _equal(first: Body, second: Body) -> bool:
    if type(first) is not type(second):
        return False
    for name in first.__dataclass_fields__:
        one, other = getattr(first, name), getattr(second, name)
        if isinstance(one, np.ndarray):
            same = one.shape == other.shape and np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
        else:
            same = struct.pack("<d", one) == struct.pack("<d", other) if isinstance(one, float) else one == other
        if not same:
            return False
    return True


def _message(body: Body, **envelope: Any) -> Message:
    plain: dict[str, Any] = {"run": "r", "terms": "t", "sender": "a", "receiver": "curator", "round": 1}
    return Message(**{**plain, **envelope}, body=body)


def _signed(content: bytes) -> bytes:
    """What somebody sends who knows how messages end: with a digest of all that comes before."""
    return content + hashlib.sha256(content).digest()


PREFIX = encode(_message(Misfit(misfit=0.0)))[:5]


def _content(data: bytes) -> bytes:
    return data[:-32]


def _forged(body: Body, change: dict[str, Any] | None = None, tail: bytes | None = None, **scalars: Any) -> bytes:
    """The bytes of a message with another head or tail."""
    data = _content(encode(_message(body)))
    length = struct.unpack_from("<I", data, 5)[0]
    head = json.loads(data[9 : 9 + length])
    head["scalars"].update(scalars)
    head.update(change or {})
    text = json.dumps(head).encode()
    return _signed(data[:5] + struct.pack("<I", len(text)) + text + (data[9 + length :] if tail is None else tail))


@pytest.mark.parametrize("kind", sorted(_bodies))
@settings(SETTINGS, max_examples=examples(12))
@given(data=st.data())
def test_every_kind_comes_back_as_it_was_sent(kind: str, data: st.DataObject) -> None:
    message = data.draw(_envelopes(_bodies[kind]))
    sent = encode(message)
    back = decode(sent)
    assert _equal(back.body, message.body)
    assert (back.run, back.terms, back.sender, back.receiver, back.round) == (
        message.run,
        message.terms,
        message.sender,
        message.receiver,
        message.round,
    )
    assert encode(back) == sent


def test_equal_messages_give_equal_bytes_however_their_arrays_lie_in_memory() -> None:
    rows = np.arange(12, dtype=np.float32).reshape(3, 4)
    handles = np.arange(3, dtype=np.uint64)
    plain = encode(_message(Offer(rows=rows, labels=np.arange(3), handles=handles)))
    fortran = encode(_message(Offer(rows=np.asfortranarray(rows), labels=np.arange(3, dtype=">i4"), handles=handles)))
    wide = encode(_message(Offer(rows=rows.astype(np.float64), labels=np.arange(3, dtype=np.uint8), handles=handles)))
    assert plain == fortran == wide


def test_a_no_is_as_long_as_a_yes() -> None:
    assert len(encode(_message(Asked(asked=True)))) == len(encode(_message(Asked(asked=False))))


@SETTINGS
@given(gain=_any_float, handle=_uint64)
def test_a_bid_is_as_long_as_any_other(gain: float, handle: int) -> None:
    assert len(encode(_message(Bid(gain=gain, handle=handle)))) == len(encode(_message(Bid(gain=0.0, handle=0))))


@SETTINGS
@given(message=messages)
def test_every_truncation_and_every_extension_is_refused(message: Message) -> None:
    data = encode(message)
    content = _content(data)
    for cut in range(len(data)):
        with pytest.raises(BadMessage):
            decode(data[:cut])
    for cut in range(len(content)):
        with pytest.raises(BadMessage):
            decode(_signed(content[:cut]))
    for more in (b"\0", b"x", data):
        with pytest.raises(BadMessage):
            decode(data + more)
        with pytest.raises(BadMessage):
            decode(_signed(content + more))


@SETTINGS
@given(message=messages, data=st.data())
def test_a_message_that_was_damaged_on_its_way_is_refused(message: Message, data: st.DataObject) -> None:
    sent = bytearray(encode(message))
    sent[data.draw(st.integers(0, len(sent) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(BadMessage):
        decode(bytes(sent))


def test_damage_is_called_by_its_name_and_a_message_of_the_version_before_too() -> None:
    data = encode(_message(Misfit(misfit=0.5)))
    with pytest.raises(BadMessage, match="digest does not match"):
        decode(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(BadMessage, match="not a message of version 7"):
        decode(_signed(b"LKST\x02" + data[5:-32]))


@SETTINGS
@given(message=messages, data=st.data())
def test_changed_bytes_are_refused_or_are_another_legal_message(message: Message, data: st.DataObject) -> None:
    """Whatever can be read can be written again and read to the same: no half-understood message gets through."""
    sent = bytearray(_content(encode(message)))
    modules = set(sys.modules)
    for _ in range(20):
        changed = bytearray(sent)
        for _ in range(data.draw(st.integers(1, 3))):
            changed[data.draw(st.integers(0, len(sent) - 1))] = data.draw(st.integers(0, 255))
        try:
            read = decode(_signed(bytes(changed)))
        except BadMessage:
            continue
        assert _equal(decode(encode(read)).body, read.body)
        str(read)
    assert set(sys.modules) == modules


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(SETTINGS, max_examples=examples(100))
@given(
    field=st.sampled_from(["kind", "run", "terms", "sender", "receiver", "round", "scalars", "arrays", "more"]),
    value=_json,
)
def test_a_head_with_something_else_in_a_field_is_refused(field: str, value: Any) -> None:
    text = json.dumps({field: value})
    try:
        read = decode(_forged(Bid(gain=1.0, handle=1), json.loads(text)))
    except BadMessage:
        return
    assert isinstance(read.body, Bid)  # another name or round: a legal message
    assert field in ("run", "terms", "sender", "receiver", "round") or value == []


OFFER = Offer(
    rows=np.ones((2, 2), dtype=np.float32), labels=np.array(["x", "y"]), handles=np.arange(2, dtype=np.uint64)
)
ROWS, LABELS, HANDLES = ["rows", "<f4", [2, 2]], ["labels", "<U1", [2]], ["handles", "<u8", [2]]


@pytest.mark.parametrize(
    "arrays",
    [
        [ROWS, LABELS],
        [ROWS, LABELS, HANDLES, HANDLES],
        [ROWS, LABELS, ["handles", "<u8", [0]], HANDLES],
        [ROWS, ROWS, HANDLES],
        [["rows", "|O", [2, 2]], LABELS, HANDLES],
        [["rows", "float32", [2, 2]], LABELS, HANDLES],  # the same bytes, by other names of their types
        [ROWS, ["labels", "U1", [2]], HANDLES],
        [["rows", "<f4", [4]], LABELS, HANDLES],
        [["rows", "<f4", [2, -2]], LABELS, HANDLES],
        [["rows", "<f4", [2, 1 << 60]], LABELS, HANDLES],
        [["rows", "<f4", [1 << 20, 1 << 20]], LABELS, HANDLES],
        [["rows", "<f4", [2.0, 2]], LABELS, HANDLES],
        [["rows", "<f4", [True, 2]], LABELS, HANDLES],
        [["rows", "<f4", [1] * 70], LABELS, HANDLES],
        [["rows", "<f4", [1 << 30] * 80_000], LABELS, HANDLES],  # whose product would take minutes
        [["rows", "<M8[s]", [2, 1]], LABELS, HANDLES],
        [["rows", "V16", [1, 1]], LABELS, HANDLES],
        [["rows", "f4,O", [1, 1]], LABELS, HANDLES],
        [["rows", "<f4", [2, 2], 1], LABELS, HANDLES],
        {"rows": "<f4"},
        "rows",
        [["__class__", "<f4", [2, 2]], LABELS, HANDLES],
        [[["rows"], "<f4", [2, 2]], LABELS, HANDLES],
    ],
)
def test_arrays_of_another_type_shape_or_number_are_refused(arrays: Any) -> None:
    records = ["records", "|u1", [0]]
    decode(_forged(OFFER, {"arrays": [ROWS, LABELS, HANDLES, records]}))
    with pytest.raises(BadMessage):
        decode(_forged(OFFER, {"arrays": [*arrays, records] if isinstance(arrays, list) else arrays}))


def test_an_array_of_another_width_than_the_message_has_is_refused_and_not_converted() -> None:
    """A float64 that does not fit a float32 would become infinite, with a warning, on its way in."""
    huge = np.full((1, 1), 1e300)
    tail = huge.tobytes() + np.arange(1, dtype=np.uint64).tobytes()
    arrays = [["rows", "<f8", [1, 1]], ["labels", "<f8", [0]], ["handles", "<u8", [1]], ["records", "|u1", [0]]]
    with pytest.raises(BadMessage, match="another type"):
        decode(_forged(OFFER, {"arrays": arrays}, tail=tail))


def test_labels_of_more_letters_than_allowed_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    longest, longer = (
        _message(Offer(rows=OFFER.rows, labels=np.array(["x", "x" * letters]), handles=OFFER.handles))
        for letters in (1000, 1001)
    )
    assert _equal(decode(encode(longest)).body, longest.body)
    with monkeypatch.context() as patch:
        patch.setattr(wire, "MOST_LETTERS", 1001)
        data = encode(longer)
    with pytest.raises(BadMessage, match="more than 1000 letters"):
        decode(data)


@pytest.mark.parametrize("code", [0x110000, 0xFFFFFFFF, 0xD800])
def test_labels_that_are_no_text_are_refused(code: int) -> None:
    """Such labels would end in an error wherever somebody first looks at them."""
    data = _content(encode(_message(OFFER)))
    place = data.index("x".encode("utf-32-le"), 9 + struct.unpack_from("<I", data, 5)[0])
    with pytest.raises(BadMessage, match="not text"):
        decode(_signed(data[:place] + struct.pack("<I", code) + data[place + 4 :]))


def test_a_truth_value_is_yes_or_no() -> None:
    data = _content(encode(_message(Offer(rows=OFFER.rows, labels=np.array([True, False]), handles=OFFER.handles))))
    place = len(data) - 18
    assert data[place : place + 2] == b"\1\0"
    with pytest.raises(BadMessage):
        decode(_signed(data[:place] + b"\2\0" + data[place + 2 :]))
    for value in (2, True, "1", None):
        with pytest.raises(BadMessage):
            decode(_forged(Asked(asked=True), asked=value))


@pytest.mark.parametrize("number", [-1, 1.0, "1", None, True, 10**30])
def test_a_round_is_a_number_of_ordinary_size(number: Any) -> None:
    with pytest.raises(BadMessage):
        decode(_forged(Asked(asked=True), {"round": number}))


@pytest.mark.parametrize("value", ["", "0" * 15, "0" * 17, "G" * 16, 5, None, "0x00000000000000"])
def test_a_number_travels_as_its_bits(value: Any) -> None:
    with pytest.raises(BadMessage):
        decode(_forged(Bid(gain=1.0, handle=1), gain=value))


def test_oversized_messages_are_refused() -> None:
    data = encode(_message(OFFER))
    decode(data, most_bytes=len(data))
    with pytest.raises(BadMessage):
        decode(data, most_bytes=len(data) - 1)
    with pytest.raises(BadMessage):
        decode(_signed(PREFIX + struct.pack("<I", 1 << 21) + b" " * (1 << 21)))


@pytest.mark.parametrize("text", [b"[" * 100_000, b"1" * 100_000, b'{"a":NaN}', b"\xff\xfe", b"null", b""])
def test_heads_made_to_hurt_are_refused(text: bytes) -> None:
    with pytest.raises(BadMessage):
        decode(_signed(PREFIX + struct.pack("<I", len(text)) + text))


def test_a_refusal_says_nothing_of_the_content_and_names_the_reason() -> None:
    data = encode(_message(Offer(rows=OFFER.rows, labels=np.array(["CANARY", "CANARY"]), handles=OFFER.handles)))
    with pytest.raises(BadMessage) as caught:
        decode(_signed(_content(data) + b"CANARY"))
    assert "CANARY" not in str(caught.value)
    assert "belong to nothing" in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        Offer(rows=np.ones(3, dtype=np.float32), labels=np.empty(0), handles=np.empty(0, dtype=np.uint64)),
        Offer(rows=OFFER.rows, labels=np.array([object(), object()]), handles=OFFER.handles),
        Offer(rows=OFFER.rows, labels=np.array([1j, 2j]), handles=OFFER.handles),
        Offer(rows=OFFER.rows, labels=np.array(["x", 1001 * "x"]), handles=OFFER.handles),
        Offer(rows=OFFER.rows, labels=OFFER.labels, handles=np.zeros(2)),  # type: ignore[arg-type]
    ],
)
def test_what_has_no_place_in_a_message_is_not_written(body: Offer) -> None:
    with pytest.raises(BadMessage):
        encode(_message(body))
