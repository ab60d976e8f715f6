"""Additive shares as the engine has them, and back.

An owner splits a word into three that sum to it modulo 2^64, one for each compute party. The engine's ABY3 wants the
same with each party holding its own share and the next party's: so each party hands its share to the one before it,
and the words need no other sharing. With two parties each keeps its own.
"""

from collections.abc import Sequence

import numpy as np
import spu
import spu.libspu as engine
from numpy.typing import NDArray

from .framing import BadFrame, Frame, pack, unpack

__all__ = [
    "content_of",
    "joined",
    "kept_share",
    "opened",
    "public_value",
    "read_kept_share",
    "secret_content",
    "secret_words",
    "values_of",
    "with_values",
]

_CHUNK_BYTES = 64 << 20
_STORED_AS = {3: "aby3.AShr<FM64>", 2: "cheetah.AShr<FM64>"}


def secret_words(own: NDArray[np.int64], following: NDArray[np.int64] | None, parties: int) -> engine.Share:
    """A party's side of shared words.

    Args:
        own: the additive share that it was given.
        following: the next party's, with three parties.
        parties: 3 or 2.
    """
    content = own if following is None else np.stack([own, following], axis=-1)
    return secret_content(np.ascontiguousarray(content).tobytes(), own.shape, parties)


def secret_content(content: bytes, shape: tuple[int, ...], parties: int) -> engine.Share:
    """A share of integers whose content is there already."""
    return _share(_meta(shape, _STORED_AS[parties]), content)


def content_of(share: engine.Share, parties: int) -> bytes:
    """The content of a share of integers, as ``secret_content`` takes it.

    Raises:
        BadFrame: the engine shares the value in another way.
    """
    meta = _read_meta(share)
    if meta.storage_type != _STORED_AS[parties] or meta.data_type != engine.DataType.DT_I64:
        raise BadFrame("the engine shares picks in another way than this version of it does")
    return _content(share)


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


def values_of(share: engine.Share) -> bytes:
    """What a party sends of a share so that another can open it: its content, without what all know of it."""
    return pack("values", *share.share_chunks)


def with_values(share: engine.Share, frame: bytes) -> engine.Share:
    """Another party's share of the same value as ours, from what it sent.

    Raises:
        BadFrame: it is not as large as ours, or in other pieces.
    """
    chunks = unpack(frame, most=2 * sum(map(len, share.share_chunks))).parts
    if [len(chunk) for chunk in chunks] != [len(chunk) for chunk in share.share_chunks]:
        raise BadFrame("a share is not as large as ours of the same value")
    for chunk, ours in zip(chunks, share.share_chunks, strict=True):
        if _place(chunk) != _place(ours):
            raise BadFrame("a share is not in the same pieces as ours")
    other = engine.Share()
    other.meta, other.share_chunks = share.meta, list(chunks)
    return other


def opened(io: spu.Io, shares: Sequence[engine.Share]) -> NDArray[np.int64]:
    """The value that all shares together are."""
    return np.asarray(io.reconstruct(list(shares)), dtype=np.int64)


def kept_share(name: str, share: engine.Share) -> bytes:
    """A share of a variable, for a checkpoint."""
    return pack(name, share.meta, *share.share_chunks)


def read_kept_share(data: bytes) -> tuple[str, engine.Share]:
    """The variable's name and share, from what ``kept_share`` wrote."""
    frame: Frame = unpack(data)
    share = engine.Share()
    share.meta, share.share_chunks = frame.parts[0], list(frame.parts[1:])
    return frame.kind, share


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


def _place(chunk: bytes) -> tuple[int, int, int]:
    parsed = engine.ValueChunk()
    if not parsed.ParseFromString(chunk):
        raise BadFrame("a share is in no form that the engine knows")
    return parsed.total_bytes, parsed.chunk_offset, len(parsed.content)


def _meta(shape: tuple[int, ...], stored_as: str) -> bytes:
    meta = engine.ValueMeta()
    meta.data_type, meta.visibility = engine.DataType.DT_I64, engine.Visibility.VIS_SECRET
    meta.shape, meta.storage_type, meta.is_complex = list(shape), stored_as, False
    return bytes(meta.SerializeToString())
