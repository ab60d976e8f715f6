"""Of each id a few rows, drawn in secret, so that nobody has more rows in a release than was declared.

Which rows of an id are kept follows from a key, the id and the order of *its own* rows: never from where they lie among
other people's rows. So other people's presence in the table does not change them, for every value of the key.

All rows go by once. What is held is 24 bytes for each id and 24 for each row that is kept so far; beside it wait as
many rows as there are ids, or a million, with 24 bytes each. A merge takes a few times that for a moment.
"""

import hashlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from likeset import arguments

Digests = NDArray[np.bytes_]
"""Keyed digests of ids, 16 bytes each."""

_DIGEST_BYTES = 16
_LEAST_PENDING = 1_000_000
_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


def keep_key(key: int, purpose: str) -> int:
    """A key for the rows of one table, from the secret of its holder."""
    text = f"likeset/keep/{purpose}/".encode() + arguments.count("key", key, least=0).to_bytes(32, "big")
    return int.from_bytes(hashlib.sha256(text).digest(), "big")


def digests_of_ids(ids: Iterable[bytes | None], *, key: int) -> Digests:
    """The id of each row under a key; None if a row has none, which is an id like any other."""
    secret = key.to_bytes(32, "big")
    # With a sign before it, so that no id is the same as none.
    written = (b"-" if name is None else b"+" + name for name in ids)
    digests = [hashlib.blake2b(name, key=secret, digest_size=_DIGEST_BYTES).digest() for name in written]
    return np.array(digests, dtype=f"S{_DIGEST_BYTES}")


class KeptRows:
    """Draws ``keep`` rows of each id, or all if it has fewer, while all rows go by.

    Privacy contract:
        Protects:  nothing by itself: it bounds how many rows of an id are in what is released from the kept ones.
        Reveals:   nothing; which rows are kept stays where they lie.
        Costs:     nothing; every release counts ``keep`` rows for a unit.
        Assumes:   the digests are those of ``digests_of_ids`` under one key; two ids share one with a chance of less
                   than n²/2^129 among n.
        Basis:     proven, docs/proofs/kept-rows.md
    """

    def __init__(self, keep: int) -> None:
        self._keep = arguments.count("keep", keep)
        self._ids: Digests = np.empty(0, dtype=f"S{_DIGEST_BYTES}")
        self._counts = np.empty(0, dtype=np.int64)
        # Of the rows that are kept so far: whose, by its place among the ids; the drawn number; the row's number.
        self._whose = np.empty(0, dtype=np.int64)
        self._drawn = np.empty(0, dtype=np.uint64)
        self._rows = np.empty(0, dtype=np.int64)
        self._pending: list[tuple[Digests, NDArray[np.int64]]] = []
        self._waiting = 0

    def add(self, ids: Digests, first_row: int) -> None:
        """The next rows: the digest of each one's id, and the number of the first."""
        self._pending.append((ids, np.arange(first_row, first_row + len(ids), dtype=np.int64)))
        self._waiting += len(ids)
        if self._waiting > max(_LEAST_PENDING, len(self._ids)):
            self._merge()

    def row_numbers(self) -> NDArray[np.int64]:
        self._merge()
        return np.sort(self._rows)

    def _merge(self) -> None:
        if not self._pending:
            return
        digests = np.concatenate([ids for ids, _ in self._pending])
        rows = np.concatenate([numbers for _, numbers in self._pending])
        self._pending, self._waiting = [], 0
        known = len(self._ids)
        ids, places = np.unique(np.concatenate([self._ids, digests]), return_inverse=True)
        counts = np.zeros(len(ids), dtype=np.int64)
        counts[places[:known]] = self._counts
        whose = places[known:]
        drawn = _drawn_numbers(digests, counts[whose] + _ranks(whose))
        counts += np.bincount(whose, minlength=len(ids))
        whose = np.concatenate([places[:known][self._whose], whose])
        drawn, rows = np.concatenate([self._drawn, drawn]), np.concatenate([self._rows, rows])
        order = np.lexsort((rows, drawn, whose))
        best = order[_ranks(whose[order]) < self._keep]
        self._ids, self._counts = ids, counts
        self._whose, self._drawn, self._rows = whose[best], drawn[best], rows[best]


def _ranks(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each entry how many equal ones stand before it."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    begins = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(ordered) else np.empty(0, dtype=np.int64)
    lengths = np.diff(np.r_[begins, len(ordered)])
    ranks = np.empty(len(groups), dtype=np.int64)
    ranks[order] = np.arange(len(ordered)) - np.repeat(begins, lengths)
    return ranks


def _drawn_numbers(digests: Digests, occurrence: NDArray[np.int64]) -> NDArray[np.uint64]:
    """SplitMix64 (Steele, Lea and Flood, 2014), seeded by the digest: the n-th number of an id for its n-th row."""
    seeds = np.ascontiguousarray(digests).view("<u8").reshape(len(digests), 2)[:, 0].astype(np.uint64)
    words = seeds + (occurrence.astype(np.uint64) + np.uint64(1)) * _STEP
    for shift, factor in _MIX:
        words = (words ^ (words >> np.uint64(shift))) * np.uint64(factor)
    return np.asarray(words ^ (words >> np.uint64(31)))
