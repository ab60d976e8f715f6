"""A few rows of each id: which, how evenly, and that nobody's draw hangs on anybody else's rows."""

from collections import Counter, defaultdict
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chance import examples
from likeset.errors import InvalidArgument
from likeset.privacy import kept_rows
from likeset.privacy.kept_rows import KeptRows, digests_of_ids, keep_key

Ids = list[bytes | None]

NAMES = st.sampled_from([b"a", b"b", b"c", b"", None])
TABLES = st.lists(NAMES, max_size=40)


def kept(ids: Ids, *, keep: int, key: int, blocks: int = 1) -> list[int]:
    rows, first = KeptRows(keep), 0
    for block in np.array_split(np.arange(len(ids)), blocks):
        rows.add(digests_of_ids([ids[row] for row in block], key=key), first)
        first += len(block)
    return list(map(int, rows.row_numbers()))


def own_places(ids: Ids, rows: list[int]) -> dict[bytes | None, list[int]]:
    """For each id, which of its own rows these are: its first, its second, and so on."""
    counts: Counter[bytes | None] = Counter()
    places = []
    for name in ids:
        places.append(counts[name])
        counts[name] += 1
    answer = defaultdict(list)
    for row in rows:
        answer[ids[row]].append(places[row])
    return dict(answer)


def splitmix(seed: int, number: int) -> int:
    """The n-th number of Steele, Lea and Flood's generator, as their paper writes it."""
    word = (seed + (number + 1) * 0x9E3779B97F4A7C15) % 2**64
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    word = (word ^ word >> 27) * 0x94D049BB133111EB % 2**64
    return word ^ word >> 31


@settings(max_examples=examples(60))
@given(TABLES, st.integers(1, 4), st.integers(0, 2**256 - 1), st.integers(1, 7))
def test_it_keeps_what_a_naive_twin_keeps_whatever_the_blocks(ids: Ids, keep: int, key: int, blocks: int) -> None:
    """Sort the rows of each id by their numbers, and take the first."""
    expected = []
    for name in set(ids):
        seed = int.from_bytes(digests_of_ids([name], key=key)[0].ljust(16, b"\0")[:8], "little")
        mine = [row for row, other in enumerate(ids) if other == name]
        order = sorted(range(len(mine)), key=lambda place: (splitmix(seed, place), mine[place]))
        expected += [mine[place] for place in order[:keep]]
    assert kept(ids, keep=keep, key=key, blocks=blocks) == sorted(expected)


@settings(max_examples=examples(60))
@given(TABLES, st.integers(1, 3), st.integers(0, 2**64), TABLES)
def test_nobody_elses_rows_change_what_is_kept_of_an_id(ids: Ids, keep: int, key: int, others: Ids) -> None:
    """For every key: with and without an id, however many rows it has and wherever they lie, all others keep theirs."""
    without = [name for name in ids if name != b"a"]
    coins = np.random.default_rng(len(ids))
    joined: Ids = list(without)
    for name in others:
        joined.insert(int(coins.integers(0, len(joined) + 1)), b"a" if name == b"c" else b"d")
    for world in (ids, without, joined):
        mine = own_places(world, kept(world, keep=keep, key=key))
        assert {name: mine.get(name) for name in without} == own_places(without, kept(without, keep=keep, key=key))
        assert all(len(rows) <= keep for rows in mine.values())


def test_merging_often_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    ids: Ids = [b"%d" % (row * row % 17) for row in range(300)]
    once = kept(ids, keep=3, key=5)
    monkeypatch.setattr(kept_rows, "_LEAST_PENDING", 1)
    assert kept(ids, keep=3, key=5, blocks=100) == once


def test_every_pair_of_an_ids_rows_is_as_likely_as_any_other() -> None:
    """2,100 keys, 21 pairs of seven rows, 100 each expected: chi-square with 20 degrees of freedom below 63, p > 2e-6.

    The keys are pinned, so that it holds or fails for good.
    """
    ids: Ids = [b"a"] * 7
    counts = Counter(tuple(kept(ids, keep=2, key=keep_key(number, "law"))) for number in range(2100))
    expected = dict.fromkeys(combinations(range(7), 2), 100)
    assert sum((counts[pair] - rows) ** 2 / rows for pair, rows in expected.items()) < 63.0


def test_an_interrupted_run_draws_the_same_after_an_update() -> None:
    """Pinned: other rows for the same key would leave twice as many of an id."""
    ids: Ids = [b"%d" % (row % 3) for row in range(30)] + [None] * 4
    assert kept(ids, keep=2, key=keep_key(7, "data/patients")) == [2, 3, 6, 11, 16, 19, 31, 33]
    assert keep_key(7, "data/patients") != keep_key(7, "data/people")


def test_no_row_at_all_and_wrong_numbers() -> None:
    assert KeptRows(2).row_numbers().tolist() == []
    with pytest.raises(InvalidArgument, match="keep = 0"):
        KeptRows(0)
    with pytest.raises(InvalidArgument, match="key = -1"):
        keep_key(-1, "x")
