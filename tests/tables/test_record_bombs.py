"""Records from a stranger that would take all memory: refused by what they say about themselves, unexpanded."""

import contextlib
import os
import struct
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from likeset.errors import BadMessage
from likeset.tables import records
from likeset.tables.record_headers import BatchHeader

KIND = pa.schema([("age", pa.float64()), ("note", pa.string())])
NUMBERS = pa.schema([("age", pa.float64()), ("ill", pa.bool_())])
ZSTD = pa.ipc.IpcWriteOptions(compression="zstd")
EXPANDED = 1 << 29


def stream(*batches: pa.RecordBatch, options: pa.ipc.IpcWriteOptions = ZSTD) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def note(data: bytes) -> pa.RecordBatch:
    """One row whose note is these bytes."""
    offsets = pa.py_buffer(struct.pack("<ii", 0, len(data)))
    column = pa.StringArray.from_buffers(1, offsets, pa.py_buffer(data))
    return pa.record_batch([pa.array([1.0]), column], schema=KIND)


@pytest.fixture(scope="module")
def bomb() -> bytes:
    """A note that zstd really expands to half a gigabyte, in a stream of some kilobytes.

    In the place of an honest note comes another one that is as long as that when it is packed; before it stands the
    length that it has when it is expanded.
    """
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as packed:
        for _ in range(EXPANDED >> 20):
            packed.write(bytes(1 << 20))
    frame = bytes(sink.getvalue())
    noise = os.urandom(len(frame))
    lengths = range(len(frame) - 100, len(frame))
    length = next(one for one in lengths if len(_packed(noise[:one])) == len(frame))
    honest = stream(note(noise[:length]))
    stored = struct.pack("<q", length) + _packed(noise[:length])
    assert honest.count(stored) == 1
    return honest.replace(stored, struct.pack("<q", EXPANDED) + frame)


def _packed(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="zstd", asbytes=True))


@pytest.fixture
def pool() -> Iterator[pa.MemoryPool]:
    """Knows how much Arrow has held at once since the test began."""
    usual = pa.default_memory_pool()
    counting = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(counting)
    yield counting
    pa.set_memory_pool(usual)


def test_a_bomb_is_refused_and_takes_no_memory(bomb: bytes, pool: pa.MemoryPool) -> None:
    assert len(bomb) < 1 << 17
    with pytest.raises(BadMessage, match=f"would take {EXPANDED + 16} bytes; more than they can need"):
        records.unpack(bomb, kind=KIND, rows=1)
    assert pool.max_memory() < 1 << 20
    with pa.ipc.open_stream(pa.py_buffer(bomb)) as reader:
        reader.read_all()
    assert pool.max_memory() > EXPANDED, "it is a real one"


def test_many_small_batches_are_no_way_around(bomb: bytes) -> None:
    batch = pa.record_batch([pa.array([1.0]), pa.array([True])], schema=NUMBERS)
    with pytest.raises(BadMessage, match="more than one batch"):
        records.unpack(stream(batch, batch), kind=NUMBERS, rows=1)
    two_parts = (
        stream(note(b"x")).removesuffix(b"\xff\xff\xff\xff\x00\x00\x00\x00") + bomb[bomb.index(b"\xff" * 4, 4) :]
    )
    with pytest.raises(BadMessage, match="more than one batch"):
        records.unpack(two_parts, kind=KIND, rows=1)


def test_what_is_honest_comes_through_whatever_its_kind() -> None:
    coins = np.random.default_rng(1)
    count = 300
    table = pa.table(
        {
            "age": coins.random(count),
            "zero": np.zeros(count),
            "ill": coins.random(count) < 0.5,
            "day": pa.array(np.zeros(count, dtype=np.int32)).cast(pa.date32()),
            "note": [None, "n" * 30_000, *["short"] * (count - 2)],
            "image": [[0.5] * 4096] * count,
        }
    )
    assert records.unpack(records.pack(table), kind=table.schema, rows=count).equals(table)
    none = table.slice(0, 0)
    assert records.unpack(records.pack(none), kind=table.schema, rows=0).equals(none)


def test_a_header_says_what_arrow_will_allocate() -> None:
    """1000 doubles that are alike: 8000 bytes when expanded; nothing is missing, so there is no other buffer."""
    batch = pa.record_batch([pa.array(np.zeros(1000))], names=["age"])
    for options in (ZSTD, pa.ipc.IpcWriteOptions(), pa.ipc.IpcWriteOptions(compression="lz4")):
        reader = pa.ipc.MessageReader.open_stream(pa.py_buffer(stream(batch, options=options)))
        reader.read_next_message()
        assert BatchHeader.of(reader.read_next_message()) == BatchHeader(1000, 8000)


@given(place=st.integers(0, 10**6), value=st.integers(0, 255))
def test_a_byte_that_was_changed_is_read_refused_or_harmless(place: int, value: int) -> None:
    table = pa.table({"age": [1.0, 2.0, 3.0], "ill": [True, None, False]})
    data = bytearray(records.pack(table))
    data[place % len(data)] = value
    with contextlib.suppress(BadMessage):
        assert records.unpack(bytes(data), kind=NUMBERS, rows=3).num_rows == 3
