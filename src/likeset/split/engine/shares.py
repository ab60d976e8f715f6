"""Additive shares as the engine has them, and back.

An owner splits a word into three that sum to it modulo 2^64, one for each compute party. The engine's ABY3 wants the
same with each party holding its own share and the next party's: so each party hands its share to the one before it,
and the words need no other sharing.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import spu
import spu.libspu as engine
from numpy.typing import NDArray

from .agreement import Disagreement
from .framing import BadFrame
from .settings import PARTIES

__all__ = ["added_up", "content_of", "joined", "public_value", "secret_words"]

_CHUNK_BYTES = 64 << 20
_STORED_AS = "aby3.AShr<FM64>"


def secret_words(own: NDArray[np.int64], following: NDArray[np.int64]) -> engine.Share:
    """A party's side of shared words.

    Args:
        own: the additive share that it was given.
        following: the next party's.
    """
    return _share(_meta(own.shape), np.ascontiguousarray(np.stack([own, following], axis=-1)).tobytes())


def content_of(share: engine.Share) -> bytes:
    """Of a share of integers: for each word the party's own share and the next party's.

    Raises:
        BadFrame: the engine shares the value in another way.
    """
    meta = _read_meta(share)
    if meta.storage_type != _STORED_AS or meta.data_type != engine.DataType.DT_I64:
        raise BadFrame("the engine shares picks in another way than this version of it does")
    return _content(share)


def added_up(contents: Mapping[int, bytes], shape: tuple[int, ...]) -> NDArray[np.int64]:
    """The words that the contents of two or three parties stand for.

    Args:
        contents: by rank.
        shape: of the words.

    Raises:
        Disagreement: a content has another length, or two parties do not have the same third.
    """
    thirds: dict[int, NDArray[np.int64]] = {}
    for rank, content in contents.items():
        if len(content) != 16 * int(np.prod(shape)):
            raise Disagreement("a share of the picks is not as large as it must be")
        pair = np.frombuffer(content, dtype="<i8").reshape(*shape, 2)
        for step in (0, 1):
            third = thirds.setdefault((rank + step) % PARTIES, pair[..., step])
            if not np.array_equal(third, pair[..., step]):
                raise Disagreement("the compute parties' shares of the picks do not fit together")
    return np.asarray(sum(thirds.values()), dtype=np.int64)


def joined(shares: Sequence[engine.Share]) -> engine.Share:
    """Shares of the blocks of one array, one below another, as a share of all of it. Needs no message."""
    meta = _read_meta(shares[0])
    kind = meta.storage_type
    rows = 0
    for share in shares:
        other = _read_meta(share)
        if other.storage_type != kind:
            raise BadFrame("the engine shares the blocks of an array in different ways")
        rows += int(other.shape.dims[0])
    meta.shape = [rows, *list(meta.shape.dims)[1:]]
    return _share(bytes(meta.SerializeToString()), b"".join(_content(share) for share in shares))


def public_value(io: spu.Io, value: NDArray[np.int64]) -> engine.Share:
    """A value that all parties know."""
    return io.make_shares(value, spu.Visibility.VIS_PUBLIC)[0]


def _share(meta: bytes, content: bytes) -> engine.Share:
    share = engine.Share()
    share.meta = meta
    chunks = []
    for offset in range(0, max(len(content), 1), _CHUNK_BYTES):
        chunk = engine.ValueChunk()
        chunk.content = content[offset : offset + _CHUNK_BYTES]
        chunk.total_bytes, chunk.chunk_offset = len(content), offset
        chunks.append(chunk.SerializeToString())
    share.share_chunks = chunks
    return share


def _content(share: engine.Share) -> bytes:
    pieces = []
    for data in share.share_chunks:
        chunk = engine.ValueChunk()
        chunk.ParseFromString(data)
        pieces.append((chunk.chunk_offset, bytes(chunk.content)))
    return b"".join(content for _, content in sorted(pieces))


def _read_meta(share: engine.Share) -> engine.ValueMeta:
    meta = engine.ValueMeta()
    meta.ParseFromString(share.meta)
    return meta


def _meta(shape: tuple[int, ...]) -> bytes:
    meta = engine.ValueMeta()
    meta.data_type, meta.visibility = engine.DataType.DT_I64, engine.Visibility.VIS_SECRET
    meta.shape, meta.storage_type, meta.is_complex = list(shape), _STORED_AS, False
    return bytes(meta.SerializeToString())
