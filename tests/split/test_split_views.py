"""What curator and witness see has the same law whatever the rows, the target and the picks are.

Many small computations by the real engine on four kinds of inputs, all messages recorded between the parties. The
chance of a false alarm is below 1e-9 for each comparison; what has a leak is told apart.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from split_views import View, chance_of_counts, chance_of_difference, features, run_many, set_bits
from split_world import ONE, SplitWorld, needs_engine, world

from chance import pinned_coins

RUNS = 32  # two kinds that differ in one bit for certain: 2 / (64 over 32) = 1e-18, times a million bits
ALARM = 1e-9
CURATOR, CONSUMER, WITNESS = 0, 1, 2
KINDS = ("usual", "neighbour", "target", "picks")


def small_world(kind: str) -> SplitWorld:
    """8 offers, 2 rows of the target, 2 picks; of another kind one thing differs, as much as it can."""
    made = world(pinned_coins("views"), offers=8, target_rows=2, size=2, lows=(0,) * 2, highs=(ONE,) * 2)
    if kind == "neighbour":
        made.rows[made.selected()[0]] ^= ONE - 1
    elif kind == "target":
        made.target = ONE - made.target
    elif kind == "picks":  # the rows in another order
        made.rows = made.rows[::-1].copy()
    return made


Looked = dict[str, dict[int, list[View]]]  # views by kind of inputs, and by rank


def looked(folder: Path, kinds: Sequence[str], *, how: str = "honest") -> Looked:
    """As many computations of each kind, in turn: whatever else changes with time does not follow the kinds."""
    seen = run_many(folder, [small_world(kind) for _ in range(RUNS) for kind in kinds], how=how)
    return {
        kind: {rank: [one[rank] for one in seen[place :: len(kinds)]] for rank in range(3)}
        for place, kind in enumerate(kinds)
    }


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Looked:
    return looked(tmp_path_factory.mktemp("v") / "honest", KINDS)


@pytest.mark.soak  # 256 computations in all: minutes
@needs_engine
def test_with_the_same_public_coins_messages_have_the_same_number_order_and_lengths(seen: Looked) -> None:
    """Which of the parties sends what in a truncation is drawn by public coins of the engine, whatever is truncated."""
    shapes = {view.shape for kind in KINDS for rank in range(3) for view in seen[kind][rank]}
    assert len(shapes) == 1
    assert min(len(lengths) for _, lengths in shapes.pop()) > 10


@pytest.mark.soak  # 256 computations in all: minutes
@needs_engine
@pytest.mark.parametrize("rank", [CURATOR, CONSUMER, WITNESS], ids=["curator", "consumer", "witness"])
def test_every_bit_that_a_party_sees_is_public_or_fair(seen: Looked, rank: int) -> None:
    """Fair: set in half of all computations, but for chance. Public: the same in all of them, whatever the inputs.

    Texts are hashes and random numbers in hexadecimal digits, whose bits are not fair; nor are they with a kept share
    of nothing added to them.
    """
    views = [view for kind in KINDS for view in seen[kind][rank]]
    texts = set()
    for name, lines in features(views):
        if ((lines >= 0x20) & (lines < 0x7F)).all():
            texts.add(name)
        if name.partition(" with ")[0] in texts:
            continue
        counts = set_bits(lines)
        fair = counts[(counts != 0) & (counts != len(views))]
        assert chance_of_counts(fair, len(views)) > ALARM, name


@pytest.mark.soak  # 256 computations in all: minutes
@needs_engine
@pytest.mark.parametrize("kind", KINDS[1:])
@pytest.mark.parametrize("rank", [CURATOR, WITNESS], ids=["curator", "witness"])
def test_views_on_two_kinds_of_inputs_cannot_be_told_apart(seen: Looked, rank: int, kind: str) -> None:
    chance, where = chance_of_difference(seen["usual"][rank], seen[kind][rank])
    assert chance > ALARM, where


@pytest.mark.soak  # 256 computations in all: minutes
@needs_engine
def test_a_program_that_opens_each_pick_to_the_curator_is_told_apart(tmp_path: Path) -> None:
    """The share that it sends is uniform: only with the curator's own shares does it tell anything."""
    leaking = looked(tmp_path / "leak", ("usual", "picks"), how="leak")
    chance, where = chance_of_difference(leaking["usual"][CURATOR], leaking["picks"][CURATOR])
    assert chance < ALARM
    assert "with kept" in where


@pytest.mark.slow
@needs_engine
def test_a_consumer_that_edits_its_own_share_before_the_opening_reads_the_same_picks(tmp_path: Path) -> None:
    """Each opened word differs from that of the pick by a word that the consumer computes from its own shares."""
    small = world(pinned_coins("split"))
    run_many(tmp_path / "edit", [small], how="edit")
    folder = tmp_path / "edit" / "0000"
    opened, noted = np.load(folder / "opened-1.npy"), np.load(folder / "edit.npz")
    (first, second), lines = np.moveaxis(noted["edit"], -1, 0), noted["edit"].shape[1]
    own, following = (noted["payload"][..., step].reshape(lines, -1) for step in (0, 1))
    known = (first @ (own + following) + second @ own).reshape(len(opened), -1, opened.shape[1])
    secrets = {secret.tobytes(): number for number, secret in enumerate(small.secrets)}
    assert not [words for words in opened if words[1:5].tobytes() in secrets]
    tried = [[secrets.get(words[1:5].tobytes()) for words in line] for line in opened[:, None] - known]
    assert [[number for number in line if number is not None] for line in tried] == [[n] for n in small.selected()]
