"""A curator who may see hashes only: what the secret seed protects, and what it does not."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from protocol_world import CONSUMER, THRESHOLD, carry, rows, terms, world

from chance import public_coins
from likeset.errors import IllegalMessage, InvalidArgument
from likeset.geometry.discrepancy import squared_mmd
from likeset.geometry.features import FourierFeatures
from likeset.protocol.consumer import Consumer
from likeset.protocol.exact_scores import direction_on_lattice, exact_sums, features_on_lattice
from likeset.protocol.hashing import commitment, hash_map
from likeset.protocol.messages import Offer, Target, decode
from likeset.protocol.sealed import SealedOwner
from likeset.protocol.term_parts import Hashing, Kernel
from likeset.protocol.terms import Terms
from likeset.tables.scan.memory_scan import MemoryScan

SECRET = (1 << 255) + 4711
GAMMA = 0.2


def _terms(**changes: Any) -> Terms:
    hashing = Hashing(dimension=256, gamma=GAMMA, commitment=commitment(SECRET))
    return terms(**{"hashing": hashing, **changes})


def test_the_commitment_binds_to_the_seed_and_is_its_own() -> None:
    assert commitment(SECRET) == commitment(SECRET)
    assert len({commitment(SECRET + step) for step in range(50)}) == 50
    assert hash_map(_terms(), SECRET) == FourierFeatures(3, 256, GAMMA, SECRET, "phased")
    with pytest.raises(IllegalMessage):
        hash_map(_terms(), SECRET + 1)
    with pytest.raises(IllegalMessage):
        hash_map(terms(), SECRET)
    assert str(SECRET) not in _terms().to_json()
    assert f"{SECRET:x}" not in _terms().to_json()


@pytest.mark.parametrize("seed", [0, 7, 2**64, 2**128 - 1, 2**256, -1])
def test_a_seed_that_could_be_guessed_is_refused(seed: int) -> None:
    """Whoever can try all seeds finds the one behind a commitment, salted or not."""
    with pytest.raises(InvalidArgument):
        commitment(seed)


def test_parties_need_the_map_exactly_where_the_terms_foresee_hashes() -> None:
    made = world(_terms(), secret=SECRET)
    scan = MemoryScan(rows(1))
    with pytest.raises(IllegalMessage):
        SealedOwner(_terms(), "a", scan=scan, key=1)
    with pytest.raises(IllegalMessage):
        SealedOwner(terms(), "a", scan=scan, key=1, hashes=hash_map(_terms(), SECRET))
    with pytest.raises(IllegalMessage):
        Consumer(_terms(), target=made.target, noise=made.noise)


def test_the_curator_gets_hashes_and_never_a_row() -> None:
    made = world(_terms(), secret=SECRET, labels={name: np.arange(12) for name in "abc"})
    outcome = carry(made)
    secret_map = hash_map(made.terms, SECRET)
    known = {name: secret_map(data) for name, data in made.data.items()}
    for data in outcome.heard["curator"]:
        message = decode(data)
        body = message.body
        if isinstance(body, Target):
            assert np.array_equal(body.rows, secret_map(made.target))
            assert not body.release.size, "in public features it says where the target lies"
        assert isinstance(body, Target | Offer), "a bid or a misfit is a number about rows that is no distance"
        if isinstance(body, Offer):
            assert body.rows.shape[1] == 256
            for row in body.rows:
                assert np.abs(known[message.sender] - row).max(axis=1).min() < 1e-6
        for raw in (*made.data.values(), made.target):
            assert not any(row.tobytes() in data for row in raw)
    summary = outcome.summary
    assert len(summary.flagged) == 0
    assert summary.rows.shape == (4, 256)
    for place, row, label in zip(summary.owners, summary.rows, summary.labels, strict=True):
        number = int(np.abs(known[made.terms.owners[place]] - row).max(axis=1).argmin())
        assert label == number


def test_the_release_to_owners_does_not_use_the_secret_map() -> None:
    """The seed of the release is public; used for hashes as well, it would give the hashes' seed away."""
    made = world(_terms(), secret=SECRET)
    other = world(_terms(hashing=Hashing(256, GAMMA, commitment(SECRET + 1))), secret=SECRET + 1)
    first, second = (decode(carry(one).heard["a"][0]).body for one in (made, other))
    assert np.array_equal(first.release, second.release)  # type: ignore[union-attr]


def test_a_summary_of_hashes_matches_the_target_better_than_chance() -> None:
    """Judged by the rows behind the hashes, which only the owners know."""
    hashing = Hashing(dimension=1024, gamma=GAMMA, commitment=commitment(SECRET))
    agreed = _terms(hashing=hashing, size=12, target_size=80, offer_factor=6.0)
    made = world(agreed, secret=SECRET, count=60)
    made.target = rows(5, 80, shift=0.8)
    parties: dict[str, Any] = {"curator": made.curator(), CONSUMER: made.consumer(), **made.owners()}
    summary = carry(made, parties=parties).summary
    chosen = np.array(
        [
            made.data[made.terms.owners[place]][parties[made.terms.owners[place]].party.row_of(int(handle))]
            for place, handle in zip(summary.owners, summary.handles, strict=True)
        ]
    )
    pooled = np.concatenate(list(made.data.values()))
    coins = public_coins(0)
    chance = [
        squared_mmd(pooled[coins.choice(len(pooled), 12, replace=False)], made.target, gamma=GAMMA) for _ in range(40)
    ]
    assert squared_mmd(chosen, made.target, gamma=GAMMA) * 2.0 < float(np.mean(chance))
    assert summary.squared_mmds[-1] == pytest.approx(squared_mmd(chosen, made.target, gamma=GAMMA), abs=0.01)


SEEDS = 600


def _moved(data: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """The same rows after a rotation and a translation: equal distances, other norms."""
    coins = public_coins(seed)
    frame, _ = np.linalg.qr(coins.normal(size=(data.shape[1], data.shape[1])))
    return np.asarray(data @ frame + 3.0 * coins.normal(size=data.shape[1]))


def _statistics(data: NDArray[np.float64], kind: str, first_seed: int) -> NDArray[np.float64]:
    """Per seed, numbers that somebody who sees the hashes of three rows could compute from one pair of coordinates."""
    found = []
    for seed in range(first_seed, first_seed + SEEDS):
        hashed = FourierFeatures(2, 2, 0.1, seed, kind)(data).astype(np.float64)  # type: ignore[arg-type]
        first, second, third = hashed
        found.append(
            [
                first[0],
                second[0],
                first[0] ** 2,
                second[1] ** 2,
                first[0] * second[0],
                first[1] * third[1],
                first[0] * second[0] * third[0],
                float(first @ second),
                float(first @ third),
                float((first @ second) ** 2),
                float(first[0] > 0.9),
                float(np.cos(3.0 * first[0] + 2.0 * second[1] - third[0])),
            ]
        )
    return np.array(found)


def _largest_difference(kind: str, data: NDArray[np.float64], moved: NDArray[np.float64]) -> float:
    """The largest standardised difference of the means over independent seeds."""
    one, other = _statistics(data, kind, 0), _statistics(moved, kind, 10**6)
    spread = np.sqrt((one.var(axis=0) + other.var(axis=0)) / SEEDS) + 1e-12
    return float(np.abs((one.mean(axis=0) - other.mean(axis=0)) / spread).max())


def test_rows_moved_by_an_isometry_have_the_same_law_of_hashes_and_without_phases_they_do_not() -> None:
    """12 means over 600 seeds: by chance one exceeds 6.5 standard errors with probability below 1e-9 (12 * 8e-11).

    Without a phase the angle of a row is Gaussian with a variance that grows with its norm, so that a row near the
    origin shows: the cosine of its angle is near 1.
    """
    data = rows(3, 3, columns=2).astype(np.float64) * 0.5
    moved = _moved(data, 1)
    assert _largest_difference("phased", data, moved) < 6.5
    assert _largest_difference("paired", data, moved) > 6.5


def test_other_distances_give_another_law_of_hashes() -> None:
    """What the seed does not hide; and so the comparison above can tell laws apart for phased hashes too."""
    data = rows(3, 3, columns=2).astype(np.float64) * 0.5
    assert _largest_difference("phased", data, 4.0 * data) > 6.5


def test_whoever_has_hashes_has_the_distances() -> None:
    """Inner products are kernel values: with 4096 coordinates to about 1/sqrt(4096)."""
    data = rows(8, 20)
    hashed = FourierFeatures(3, 4096, GAMMA, SECRET, "phased")(data).astype(np.float64)
    kernel = np.exp(-GAMMA * ((data[:, None] - data[None]) ** 2).sum(axis=-1))
    assert np.abs(hashed @ hashed.T - kernel).max() < 5.0 / 64.0


def _inverted(hashed: NDArray[np.float64], secret_map: FourierFeatures, starts: int) -> NDArray[np.float64]:
    """The row behind a hash, by Gauss-Newton on the angles from several starts, for somebody who has the seed."""
    frequencies = secret_map._frequencies.T.astype(np.float64)
    phases = secret_map._phases.astype(np.float64)
    pairs = len(phases)
    angles = np.arctan2(hashed[pairs:], hashed[:pairs])
    coins = public_coins(0)
    found: list[tuple[float, NDArray[np.float64]]] = []
    for _ in range(starts):
        row: NDArray[np.float64] = coins.normal(size=(frequencies.shape[1],))
        for _ in range(30):
            off = np.angle(np.exp(1j * (angles - frequencies @ row - phases)))  # unwrapped: to within half a turn
            row = np.asarray(row + np.linalg.lstsq(frequencies, off, rcond=None)[0])
        found.append((float((off**2).sum()), row))
    return min(found, key=lambda one: one[0])[1]


def test_with_the_seed_a_hash_is_as_good_as_the_row_and_with_another_seed_it_is_not() -> None:
    """So one colluding owner undoes the protection: this is what the documentation must say."""
    data = rows(21, 5)
    secret_map = hash_map(_terms(), SECRET)
    hashed = secret_map(data).astype(np.float64)
    found = np.array([_inverted(one, secret_map, 20) for one in hashed])
    assert np.abs(found - data).max() < 1e-3
    guess = FourierFeatures(3, 256, GAMMA, SECRET + 1, "phased")
    wrong = np.array([_inverted(one, guess, 20) for one in hashed])
    assert np.abs(wrong - data).max(axis=1).min() > 0.1


@pytest.mark.parametrize(
    "options", [{"protocol": "interactive"}, {**THRESHOLD}, {**THRESHOLD, "protocol": "interactive"}], ids=str
)
def test_hashes_do_not_go_with_bids(options: dict[str, Any]) -> None:
    """A bid is a number about a row's public features, exact to 40 bits: enough to tell a row of a small schema."""
    with pytest.raises(InvalidArgument, match="sealed protocol and everyone asked"):
        _terms(**options)


def test_one_bid_is_enough_to_tell_a_row_of_a_small_schema() -> None:
    """Why: all rows of four columns with ten values each have different bids under one direction that is known."""
    kernel = Kernel(columns=4, dimension=16, gamma=0.2, seed=7)
    every = np.stack(np.meshgrid(*[np.linspace(0.0, 1.0, 10, dtype=np.float32)] * 4), axis=-1).reshape(-1, 4)
    direction = direction_on_lattice(public_coins(1).normal(size=16))
    bids = exact_sums(direction, features_on_lattice(kernel.features()(every)).T)
    assert len(np.unique(bids)) == len(every) == 10_000
