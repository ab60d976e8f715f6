"""Records from a stranger that would take all memory: refused by what they say about themselves, unexpanded."""

import contextlib
import struct
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chance import public_coins
from likeset.errors import BadMessage
from likeset.tables import records
from likeset.tables.record_headers import BatchHeader
from likeset.tables.records import RecordForm

KIND = pa.schema([("age", pa.float64()), ("note", pa.string())])
NOTES = RecordForm(KIND, {}, {"note": 1 << 16})
NUMBERS = pa.schema([("age", pa.float64()), ("ill", pa.bool_())])
PLAIN = RecordForm(NUMBERS, {}, {})
EVERY_KIND = RecordForm(
    pa.schema(
        [
            ("age", pa.float64()),
            ("ill", pa.bool_()),
            ("day", pa.date32()),
            ("word", pa.string()),
            ("image", pa.list_(pa.float64())),
        ]
    ),
    {"image": 64},
    {"word": 5},
)
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
    noise = public_coins(2).bytes(len(frame))
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
        records.unpack(bomb, form=NOTES, rows=1)
    assert pool.max_memory() < 1 << 20
    with pa.ipc.open_stream(pa.py_buffer(bomb)) as reader:
        reader.read_all()
    assert pool.max_memory() > EXPANDED, "it is a real one"


def test_many_small_batches_are_no_way_around(bomb: bytes) -> None:
    batch = pa.record_batch([pa.array([1.0]), pa.array([True])], schema=NUMBERS)
    with pytest.raises(BadMessage, match="more than one batch"):
        records.unpack(stream(batch, batch), form=PLAIN, rows=1)
    two_parts = (
        stream(note(b"x")).removesuffix(b"\xff\xff\xff\xff\x00\x00\x00\x00") + bomb[bomb.index(b"\xff" * 4, 4) :]
    )
    with pytest.raises(BadMessage, match="more than one batch"):
        records.unpack(two_parts, form=NOTES, rows=1)


def test_what_is_honest_comes_through_whatever_its_kind() -> None:
    coins = public_coins(1)
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
    form = RecordForm(table.schema, {"image": 4096}, {"note": 30_000})
    assert records.unpack(records.pack(table), form=form, rows=count).equals(table)
    for slack in (table.slice(0, 0), table.slice(3, 9), table.take([5, 1, 1])):
        assert records.unpack(records.pack(slack), form=form, rows=slack.num_rows).equals(slack)


def honest(rows: int) -> dict[str, pa.Array]:
    """Cells of every kind, each as large as it is declared."""
    ends = pa.array(np.arange(rows + 1) * 64, pa.int32())
    return {
        "age": pa.array(np.zeros(rows)),
        "ill": pa.array(np.zeros(rows, dtype=np.bool_)),
        "day": pa.array(np.zeros(rows, dtype=np.int32)).cast(pa.date32()),
        "word": pa.array(["abcde"] * rows),
        "image": pa.ListArray.from_arrays(ends, pa.array(np.zeros(rows * 64))),
    }


def larger(column: str, rows: int, *, times: int) -> pa.Array:
    """Cells that take so many times the memory that is declared."""
    if column == "word":
        return pa.array(["abcde" * times] * rows)
    ends = pa.array(np.arange(rows + 1) * 64 * times, pa.int32())
    return pa.ListArray.from_arrays(ends, pa.array(np.zeros(rows * 64 * times)))


def test_what_is_expanded_is_as_large_as_declared(pool: pa.MemoryPool) -> None:
    """1000 rows of 8 + 1/8 + 4 + (4 + 5) + (4 + 8 * 64) bytes: 537 kB, of which no more than twice is ever held."""
    rows = 1000
    data = stream(pa.record_batch(honest(rows), schema=EVERY_KIND.schema))
    before = pool.bytes_allocated()
    assert sum(EVERY_KIND.most_expanded(rows)) < 1.2 * 537_000
    assert records.unpack(data, form=EVERY_KIND, rows=rows).num_rows == rows
    assert pool.max_memory() - before < 2 * 537_000


@pytest.mark.parametrize("column", ["word", "image"])
@pytest.mark.parametrize("times", [2, 2000])
def test_no_cell_expands_to_more_than_is_declared(column: str, times: int) -> None:
    """A list of 64 numbers that comes as 128,000 of them: 60 such rows are 61 MB, in a message of some kilobytes."""
    rows = 60
    data = stream(
        pa.record_batch({**honest(rows), column: larger(column, rows, times=times)}, schema=EVERY_KIND.schema)
    )
    assert len(data) < 20_000
    usual = pa.default_memory_pool()
    counting = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(counting)
    try:
        with pytest.raises(BadMessage, match="more than they can need"):
            records.unpack(data, form=EVERY_KIND, rows=rows)
    finally:
        pa.set_memory_pool(usual)
    assert counting.max_memory() < 64_000


def test_the_room_of_one_column_is_none_of_another() -> None:
    """What a wide column may take says nothing about words: 60 words of 250 bytes instead of 5."""
    word = larger("word", 60, times=50)
    data = stream(pa.record_batch({**honest(60), "word": word}, schema=EVERY_KIND.schema))
    with pytest.raises(BadMessage, match="more than they can need"):
        records.unpack(data, form=EVERY_KIND, rows=60)


def test_every_buffer_has_just_the_room_that_it_needs() -> None:
    """With a missing cell in each column, so that no buffer is left out; Arrow rounds up to 64 bytes."""
    gone = {
        name: pa.array([None, *cells.to_pylist()[1:]], EVERY_KIND.schema.field(name).type)
        for name, cells in honest(600).items()
    }
    reader = pa.ipc.MessageReader.open_stream(pa.py_buffer(stream(pa.record_batch(gone, schema=EVERY_KIND.schema))))
    reader.read_next_message()
    sizes = BatchHeader.of(reader.read_next_message()).expanded
    most = EVERY_KIND.most_expanded(600)
    assert len(sizes) == len(most) == 13
    numbers_of_a_list = 64 * 8
    for size, room in zip(sizes, most, strict=True):
        assert size <= room < size + 64 + numbers_of_a_list or size == 0


def test_a_header_says_what_arrow_will_allocate() -> None:
    """1000 doubles that are alike: 8000 bytes when expanded; nothing is missing, so there is no other buffer."""
    batch = pa.record_batch([pa.array(np.zeros(1000))], names=["age"])
    for options in (ZSTD, pa.ipc.IpcWriteOptions(), pa.ipc.IpcWriteOptions(compression="lz4")):
        reader = pa.ipc.MessageReader.open_stream(pa.py_buffer(stream(batch, options=options)))
        reader.read_next_message()
        assert BatchHeader.of(reader.read_next_message()) == BatchHeader(1000, (0, 8000))


@given(place=st.integers(0, 10**6), value=st.integers(0, 255))
def test_a_byte_that_was_changed_is_read_refused_or_harmless(place: int, value: int) -> None:
    table = pa.table({"age": [1.0, 2.0, 3.0], "ill": [True, None, False]})
    data = bytearray(records.pack(table))
    data[place % len(data)] = value
    with contextlib.suppress(BadMessage):
        assert records.unpack(bytes(data), form=PLAIN, rows=3).num_rows == 3
