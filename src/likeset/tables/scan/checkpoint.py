"""What an interrupted pass has kept so far, in a private file of the owner's own.

The file's name is a digest of everything that decides the draw: the data, the schema, the keys, the weights. So what
lies there can only be taken for the pass that it belongs to. The keys themselves are not stored. A file that is not
whole is as good as none.
"""

import hashlib
import json
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from likeset.files import keep_private_bytes, make_private_folder, remove_unfinished
from likeset.geometry.offers import Drawing
from likeset.tables.scan.memory_scan import Kept
from likeset.tables.scan.row_pass import Unit, Work

__all__ = ["Checkpoint", "forget"]

_MAGIC = b"LKSC\x01"
_SUFFIX = ".pass"
_LENGTH = struct.Struct("<Q")
_NUMBER, _SCORE = "likeset row number", "likeset score"


class Checkpoint:
    """The file of one pass.

    Args:
        directory: of the owner's own; made if it is not there.
        identity: a digest of what decides the draw.
    """

    def __init__(self, directory: Path, identity: str) -> None:
        self._file = directory / f"{identity[:40]}{_SUFFIX}"

    @classmethod
    def of(cls, directory: Path, work: Work, *, fingerprint: str, units: Sequence[Unit]) -> "Checkpoint | None":
        """The file of a pass; None if the pass has weights that cannot be known again."""
        described = [_describe(drawing) for drawing in work.drawings]
        if None in described:
            return None
        shape = [[part.first_row for part in unit.parts] for unit in units]
        content = [fingerprint, work.schema.digest, work.labelled, described, shape]
        return cls(directory, hashlib.sha256(json.dumps(content).encode()).hexdigest())

    def save(self, done: Sequence[int], kept: Sequence[Kept]) -> None:
        """Replace what is there: the units that are done, and what each drawing keeps of them."""
        make_private_folder(self._file.parent)
        blobs = [_pack(rows) for rows in kept]
        content = b"".join(
            [json.dumps(sorted(done)).encode(), b"\n", *(_LENGTH.pack(len(blob)) + blob for blob in blobs)]
        )
        keep_private_bytes(self._file, _MAGIC + hashlib.sha256(content).digest() + content)

    def load(self, work: Work) -> tuple[set[int], list[Kept]]:
        """The units that are done and what is kept of them; nothing if there is no whole file."""
        try:
            data = self._file.read_bytes()
        except OSError:
            return set(), []
        start = len(_MAGIC) + hashlib.sha256().digest_size
        content = data[start:]
        if data[:start] != _MAGIC + hashlib.sha256(content).digest():
            return set(), []
        line, _, rest = content.partition(b"\n")
        kept = []
        while rest:
            (length,) = _LENGTH.unpack_from(rest)
            kept.append(_unpack(rest[_LENGTH.size : _LENGTH.size + length], work))
            rest = rest[_LENGTH.size + length :]
        return set(json.loads(line)), kept


def forget(directory: Path) -> None:
    """Remove what interrupted and finished passes left: when their rows were sent, or will never be."""
    for file in directory.glob(f"*{_SUFFIX}"):
        file.unlink(missing_ok=True)
    remove_unfinished(directory)
    if directory.is_dir() and not any(directory.iterdir()):
        directory.rmdir()


def _describe(drawing: Drawing) -> list[object] | None:
    key = hashlib.sha256(b"likeset/checkpoint/" + drawing.key.to_bytes(32, "big")).hexdigest()
    if drawing.score is None:
        return [drawing.count, key, ""]
    fingerprint = getattr(drawing.score, "fingerprint", None)
    return None if fingerprint is None else [drawing.count, key, fingerprint]


def _pack(kept: Kept) -> bytes:
    table = kept.records.table
    assert table is not None  # noqa: S101 - rows of a source have records
    table = table.append_column(_NUMBER, pa.array(kept.row_numbers)).append_column(_SCORE, pa.array(kept.scores))
    plain = table.unify_dictionaries().combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, plain.schema) as writer:
        writer.write_table(plain)
    return bytes(sink.getvalue())


def _unpack(data: bytes, work: Work) -> Kept:
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        table = reader.read_all()
    numbers = np.array(table.column(_NUMBER).to_numpy())
    scores = np.array(table.column(_SCORE).to_numpy())
    table = table.drop_columns([_NUMBER, _SCORE])
    return Kept(numbers, scores, work.map_rows(table, lambda offset: f"row {int(numbers[offset]) + 1}"))
