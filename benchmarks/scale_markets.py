"""What ``benchmarks/scale.py`` measures of the curator, and of markets with many owners."""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import likeset
import mailboxes
from likeset.geometry.selection import Selection
from likeset.ledger.budget import Limit
from likeset.ledger.ledger import Ledger
from likeset.privacy.events import Relation, View
from likeset.protocol.party import CURATOR
from likeset.protocol.wire import Message, Offer, decode, encode

Given = argparse.Namespace


def select(given: Given) -> Callable[[], object]:
    """The curator: exact selection of ``size`` from the candidates that ``owners`` sent, and what it was worth."""
    pool, target = _clusters(given.candidates, 1), _clusters(2000, 2)
    return lambda: Selection(swaps=given.swaps).select(pool, target, given.size)


def offers(given: Given) -> Callable[[], object]:
    """Encode and decode the offers of all owners, and charge each in one ledger that has all their accounts."""
    names = tuple(f"owner-{number}" for number in range(given.owners))
    rows_each = given.candidates // given.owners
    rows = _clusters(rows_each, 1)
    folder = Path(tempfile.mkdtemp())
    ledger = Ledger(folder / "ledger.sqlite")
    large = Limit(1e6, 0.1, Relation.REPLACE_ONE)

    def work() -> None:
        ledger.set_limits({View.owners(name): large for name in names})
        ledger.set_limits({View.curator(name): Limit.rows_only(rows_each) for name in names})
        offer = Offer(
            rows=rows, labels=np.zeros(rows_each, dtype=np.int64), handles=np.arange(rows_each, dtype=np.uint64)
        )
        for name in names:
            decode(encode(Message("run", "terms", name, CURATOR, 1, offer)))

    return work


def market(given: Given) -> Callable[[], object]:
    """A whole run in this process: every owner with 200 rows of 20 numbers, 100 rows selected, all charged."""
    rows = {f"owner-{number:04d}": _clusters(200, number)[:, :20] for number in range(given.owners)}
    target = _clusters(500, 1 << 20)[:, :20]
    return lambda: likeset.Summarizer(100).fit(target, rows)


def mailbox(given: Given) -> Callable[[], object]:
    """A whole run through one directory, every party a home of its own (``mailboxes.py``), the homes' making as well.

    The first run loads what later ones need.
    """
    mailboxes.measure(2)
    return lambda: mailboxes.measure(given.owners) and None


def _clusters(rows: int, seed: int) -> NDArray[np.float32]:
    """Rows of 50 numbers in five clusters."""
    coins = np.random.default_rng(seed)
    centres = np.random.default_rng(0).random((5, 50))
    points = centres[coins.integers(0, 5, rows)] + coins.normal(0.0, 0.15, (rows, 50))
    return points.astype(np.float32)


MEASURES = {
    "select": select,
    "offers": offers,
    "market": market,
    "mailbox": mailbox,
}
