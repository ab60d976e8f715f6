"""Ways in which a run could tell owners more than its terms charge; each was possible once.

Two worlds that differ in one row of an owner are run on one ledger: stored releases are sent again, so both hear the
same, which is what the proof of docs/proofs/summary-stream.md conditions on. What differs then is the summary, and by
how many rows it may differ is what the noise was made for.
"""

from collections import Counter
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from protocol_world import (
    THRESHOLD,
    CountingNoise,
    QuickLedger,
    World,
    carry,
    ledger_on_disk,
    rows,
    terms,
    world,
)

from chance import examples, pinned_coins, public_coins
from likeset.errors import DifferentRequest, IllegalMessage, NoiseUnavailable, QuorumMissed
from likeset.geometry.selection import Selection
from likeset.privacy import gaussian_mean, mwem_mean
from likeset.privacy.events import Relation
from likeset.privacy.noise import Integers
from likeset.protocol.interactive import InteractiveCurator, direction_on_lattice, exact_sums, features_on_lattice
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import Budget, Kernel
from likeset.protocol.wire import Asked, Bid, Body, Delivery, Message, Offer, SummaryRelease, TargetRelease

STREAM: dict[str, Any] = {
    "protocol": "interactive",
    "summary_release": "gaussian",
    "owner_budget": Budget(50.0, 1e-5),
    "kernel": Kernel(columns=2, dimension=4, gamma=0.5, seed=7),
    "size": 10,
    "owners": ("a", "b"),
}


def _chosen(made: World, *, missed: set[tuple[str, int, str]]) -> Counter[bytes]:
    """The rows of the summary; messages of these (owner, round, kind) are lost."""

    def lossy(message: Message) -> list[Message]:
        lost = isinstance(message.body, Bid | Delivery) and (message.sender, message.round, message.body.kind) in missed
        return [] if lost else [message]

    outcome = carry(made, tamper=lossy)
    return Counter(row.tobytes() for row in outcome.summary.rows)


def _with_row(made: World, row: NDArray[np.float32], *, replaces: int | None) -> World:
    """The neighbour: one more row at owner a, or another one in the place of one; same releases.

    What the curator drew is drawn the same; what owners sent is their own, and they never lived in the other world.
    """
    data = dict(made.data)
    if replaces is None:
        data["a"] = np.vstack([data["a"], row[None, :]])
    else:
        data["a"] = data["a"].copy()
        data["a"][replaces] = row
    ledger = QuickLedger()
    assert isinstance(made.ledger, QuickLedger)
    ledger.answers = {key: kept for key, kept in made.ledger.answers.items() if "/delivery" not in key}
    return World(made.terms, data, made.target, ledger, made.noise)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("release", [pytest.param("gaussian", marks=pytest.mark.slow), "mwem"])
def test_an_owner_who_misses_steps_does_not_make_its_rows_count_for_more(release: str, relation: Relation) -> None:
    """Its rows would lag behind those of its neighbour, and each round that it missed could change one more."""
    kernel = Kernel(columns=2, dimension=4, gamma=0.5, seed=7, kind="paper" if release == "mwem" else "paired")
    bound = 1 if relation is Relation.ADD_OR_REMOVE else 2
    coins = pinned_coins("unbought rows")
    for case in range(examples(8)):
        agreed = terms(**{**STREAM, "kernel": kernel, "summary_release": release, "relation": relation})
        made = world(agreed, QuickLedger(), count=14, noise_seed=case)
        made.data = {name: rows(1000 * case + place, 14, columns=2) for place, name in enumerate(agreed.owners)}
        made.target = rows(5, agreed.target_size, columns=2)
        missed = {
            ("a", number, str(coins.choice(["bid", "delivery"])))
            for number in range(1, agreed.size + 1)
            if coins.random() < 0.4
        }
        first = _chosen(made, missed=missed)
        other = rows(9000 + case, 1, columns=2)[0]
        neighbour = _with_row(made, other, replaces=None if relation is Relation.ADD_OR_REMOVE else 0)
        second = _chosen(neighbour, missed=missed)
        assert sum((first - second).values()) <= bound, case


def test_an_owner_who_misses_a_step_is_out_only_where_the_summary_is_released() -> None:
    agreed = terms(protocol="interactive", size=3)
    made = world(agreed, QuickLedger())
    outcome = carry(made, tamper=lambda message: [] if (message.sender, message.round) == ("a", 1) else [message])
    assert 0 in outcome.summary.owners


@pytest.mark.parametrize("size", [1e2, 1e4, 1e7])
def test_an_honest_owner_is_believed_whatever_its_rows_are(size: float) -> None:
    """If one row could get its owner dropped, that row would decide about all others."""
    kernel = Kernel(columns=20, dimension=16, gamma=0.05, seed=7)
    agreed = terms(**{**STREAM, "kernel": kernel, "size": 6})
    made = world(agreed, QuickLedger())
    made.data["a"] = made.data["a"] * np.float32(size)
    outcome = carry(made)
    assert outcome.curator.party.flags == []
    assert 0 in outcome.summary.owners or outcome.curator.party.rows_seen == 2 * agreed.size


def test_a_row_that_float32_cannot_hold_is_not_offered_and_its_owner_stays() -> None:
    agreed = terms(**{**STREAM, "size": 6})
    made = world(agreed, QuickLedger())
    wide = made.data["a"].astype(np.float64)
    wide[0] = 1e30  # within what an owner's table may hold, beyond what a message may
    made.data["a"] = wide  # type: ignore[assignment]
    outcome = carry(made)
    assert outcome.curator.party.flags == []
    assert outcome.curator.party.rows_seen == 2 * agreed.size


@pytest.mark.parametrize("release", ["gaussian", "mwem"])
def test_what_a_row_adds_to_the_released_sum_does_not_depend_on_the_rows_around_it(
    release: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Features computed in one product with other rows differ in their last bits, and far more for large rows."""
    kind = "paper" if release == "mwem" else "paired"
    kernel = Kernel(columns=20, dimension=16, gamma=0.05, seed=7, kind=kind)  # type: ignore[arg-type]
    agreed = terms(
        **{**STREAM, "kernel": kernel, "summary_release": release, "size": 12, "relation": Relation.REPLACE_ONE}
    )
    made = world(agreed, QuickLedger())
    made.data = {name: data * np.float32(1e4) for name, data in made.data.items()}
    curator = made.curator()
    assert isinstance(curator.party, InteractiveCurator)
    seen: list[NDArray[np.float32]] = []
    module = "likeset.protocol.interactive." + ("mwem_mean" if release == "mwem" else "gaussian_mean")
    true_run = (mwem_mean if release == "mwem" else gaussian_mean).run

    def spying(plan: Any, features: NDArray[np.float32], noise: Any, **more: Any) -> Any:
        seen.append(features.copy())
        return true_run(plan, features, noise, **more)

    monkeypatch.setattr(f"{module}.run", spying)
    carry(made, parties={"curator": curator, agreed.consumer: made.consumer(), **made.owners()})
    seen.pop(0)  # the target's
    assert len(seen) == agreed.size - 1
    for earlier, later in pairwise(seen):
        assert (later[: len(earlier)] == earlier).all()


@pytest.mark.parametrize("kind", ["paired", "paper"])
@pytest.mark.parametrize("size", [0.1, 10.0, 1e3, 1e6])
def test_two_computations_of_the_same_features_never_disagree_by_more_than_is_allowed(kind: str, size: float) -> None:
    features = Kernel(columns=20, dimension=16, gamma=0.05, seed=7, kind=kind).features()  # type: ignore[arg-type]
    table = rows(1, 300, columns=20) * np.float32(size)
    one_by_one = np.concatenate([features.of_few(row[None, :]) for row in table])
    allowed = features.disagreement(table)
    for other in (features(table), features(table, first_row=77), features.of_few(table)):
        assert (np.abs(other.astype(np.float64) - one_by_one) <= allowed).all()


def _is_accepted(direction: NDArray[np.float64]) -> bool:
    try:
        direction_on_lattice(direction)
    except IllegalMessage:
        return False
    return True


def test_scores_are_exact_for_the_longest_directions_that_are_accepted() -> None:
    """An owner adds up differences of directions, a curator takes the last one: both must be whole numbers, exactly."""
    coins = public_coins(0)
    unit = coins.normal(size=8)
    unit *= (1.0 - 1e-9) / np.linalg.norm(unit)
    long = next(length * unit for length in 2.0 ** np.arange(40, 0, -1) if _is_accepted(length * unit))
    lines = features_on_lattice((np.sign(long) / 2.0).astype(np.float32))[:, None]  # of length sqrt(2)
    before, after = direction_on_lattice(-long), direction_on_lattice(long)
    true = sum(int(one) * int(two) for one, two in zip(after, lines[:, 0], strict=True))
    assert int(exact_sums(before, lines)[0] + exact_sums(after - before, lines)[0]) == true
    steps = [int(one) * int(two) for one, two in zip(after - before, lines[:, 0], strict=True)]
    assert max(abs(part) for part in np.cumsum(np.array(steps, dtype=object))) <= 2**53


@pytest.mark.parametrize("declared", [29, 31])
def test_under_add_or_remove_the_true_size_of_the_target_does_not_decide_whether_there_is_a_release(
    declared: int,
) -> None:
    agreed = terms(relation=Relation.ADD_OR_REMOVE, target_size=declared)
    made = world(agreed, QuickLedger())
    made.target = rows(5, 30, shift=0.3)
    outcome = carry(made)
    assert len(outcome.summary.rows) == agreed.size


class _LowNoise(CountingNoise):
    """The threshold is always below 1: nobody is asked."""

    def discrete_laplace(self, scale: float, size: int) -> Integers:
        del scale
        return np.full(size, -100, dtype=np.int64)


@pytest.mark.parametrize("protocol", ["sealed", "interactive"])
def test_whoever_is_not_asked_hears_so_even_if_nobody_is(protocol: str) -> None:
    """Else a no would prove that somebody ranks higher, which is what breaks the paper's auction."""
    agreed = terms(protocol=protocol, size=2, **THRESHOLD)
    made = world(agreed, QuickLedger())
    made.noise = _LowNoise()
    heard: Counter[str] = Counter()

    def listening(message: Message) -> list[Message]:
        if isinstance(message.body, Asked):
            assert not message.body.asked
            heard[message.receiver] += 1
        return [message]

    with pytest.raises(QuorumMissed):
        carry(made, tamper=listening)
    assert heard == dict.fromkeys(agreed.owners, 1 if protocol == "sealed" else agreed.size)


def test_rows_that_nobody_asked_for_are_not_used_even_where_nobody_was_asked() -> None:
    """Then everybody is waited for, in vain; an owner who sends rows all the same would be the only one."""
    made = world(terms(size=2, **THRESHOLD), QuickLedger())
    made.noise = _LowNoise()

    def pushes(heard: Message, replies: tuple[Message, ...]) -> list[Message]:
        if not isinstance(heard.body, Asked):
            return list(replies)
        offer = Offer(rows=rows(3, 2), labels=np.empty(0), handles=np.arange(2, dtype=np.uint64))
        return [replace(heard, sender="b", receiver=CURATOR, body=offer)]

    with pytest.raises(QuorumMissed, match="0 of 3"):
        carry(made, replies_of={"b": pushes})


def test_an_owner_that_starts_anew_and_hears_another_story_sends_no_other_rows() -> None:
    """All rows of a run are charged at once: rows sent in another round's place would leave uncharged."""
    agreed = terms(**{**STREAM, "size": 2})
    with ledger_on_disk(agreed, rows=2) as ledger:
        made = world(agreed, ledger)
        left: set[bytes] = set()
        refused = 0
        for attempt in range(4):
            owner = made.owner("a")  # as after a crash: it remembers what its ledger holds, and nothing else
            story = public_coins(attempt)
            owner.take(_said(made, 0, TargetRelease(release=np.ones(4))))
            for number in (1, 2):
                told = story.normal(size=4) if number > 1 else np.empty(0)
                coordinates = np.arange(len(told))
                owner.take(_said(made, number, SummaryRelease(coordinates=coordinates, values=told)))
                try:
                    (reply,) = owner.take(_said(made, number, Asked(asked=True)))
                except DifferentRequest:
                    refused += 1
                    break
                assert isinstance(reply.body, Delivery)
                left.add(reply.body.rows.tobytes())
        assert len(left) == 2
        assert refused == 3


def _said(made: World, number: int, body: Body) -> Message:
    sender = made.terms.consumer if isinstance(body, TargetRelease) else CURATOR
    return Message(made.terms.run, made.terms.digest, sender, "a", number, body)


def test_under_add_or_remove_a_consumer_starts_only_where_no_place_rounds_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One line of all cosines is off by a unit in the last place."""
    honest = np.cos

    def cosines(angles: Any, out: Any = None) -> Any:
        found = honest(angles, out=out)
        if out is not None:
            out[7] = np.nextafter(out[7], np.float32(np.inf))
        return found

    made = world(terms(relation=Relation.ADD_OR_REMOVE))
    made.consumer()
    monkeypatch.setattr(np, "cos", cosines)
    with pytest.raises(NoiseUnavailable):
        made.consumer()
    assert made.noise.calls == 0
    world(terms(relation=Relation.REPLACE_ONE)).consumer()


GRID = np.stack(np.meshgrid(np.linspace(-1.0, 1.0, 31), np.linspace(-1.0, 1.0, 31)), axis=-1).reshape(-1, 2)
"""Every row that an owner of the next test could have: the consumer knows the schema."""


def _kernel(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.exp(-3.0 * ((one[:, None] - other) ** 2).sum(axis=2)))


def _pairs_that_fit(made: World, *, fold_key: int) -> tuple[int, bool]:
    """How many pairs of rows explain what the consumer is told, for one who knows the folds, and whether the picks do.

    The consumer buys one row. The estimate depends on one more row for each of two folds: the row that the curator
    picked without that fold (geometry/selection.py).
    """
    summary = carry(made).summary
    target, grid = made.target.astype(np.float64), GRID.astype(np.float32).astype(np.float64)
    folds = np.array_split(np.random.default_rng(fold_key).permutation(len(target)), 2)
    within = [_kernel(target[fold], target[fold]).mean() for fold in folds]
    own = (_kernel(target, target).sum() - len(target)) / (len(target) * (len(target) - 1))
    in_sample = 1.0 - 2.0 * _kernel(summary.rows.astype(np.float64), target).mean() + _kernel(target, target).mean()
    near = [_kernel(grid, target[fold]).mean(axis=1) for fold in folds]
    known = in_sample + 0.25 * sum(own - inside for inside in within)
    explained = known + 0.5 * np.add.outer(
        near[1] - near[0], near[0] - near[1]
    )  # picked without fold 0, without fold 1
    digits = Decimal(str(summary.held_out_squared_mmd)).as_tuple().exponent
    fits = np.abs(explained - summary.held_out_squared_mmd) <= max(0.5 * 10.0 ** int(digits), 1e-12)
    offered = np.concatenate(list(made.data.values())).astype(np.float64)
    picks = [offered[np.argmax(_kernel(offered, target[fold]).mean(axis=1))] for fold in reversed(folds)]
    places = tuple(int(np.argmin(((grid - pick) ** 2).sum(axis=1))) for pick in picks)
    return int(fits.sum()), bool(fits[places])


@pytest.mark.parametrize("in_one_process", [True, False])
def test_the_estimate_of_distance_does_not_give_away_rows_that_nobody_bought(*, in_one_process: bool) -> None:
    """In one process the numbers are exact, and a pair of rows out of 920,000 can be read from one of them."""
    agreed = terms(
        owners=("a", "b"),
        size=1,
        offer_factor=400.0,
        offers="uniform",
        target_budget=Budget(0.0, 1e-5),
        target_size=40,
        kernel=Kernel(columns=2, dimension=4, gamma=0.5, seed=7),
    )
    coins = pinned_coins("unbought rows")
    made = world(agreed, selection=Selection(gamma=3.0, folds=2), fold_key=None if in_one_process else 5)
    made.data = {name: GRID[coins.choice(len(GRID), 150, replace=False)].astype(np.float32) for name in ("a", "b")}
    made.target = coins.uniform(-0.6, 0.6, size=(40, 2)).astype(np.float32)
    fitting, is_right = _pairs_that_fit(made, fold_key=0 if in_one_process else 5)
    assert is_right
    assert fitting < 10 if in_one_process else fitting > 1_000


def test_a_target_of_isolated_rows_buys_no_further_digits_of_the_estimate() -> None:
    """Its standard error is tiny: rounded by that alone, the estimate tells how far a row lies that nobody bought."""
    agreed = terms(
        owners=("a", "b"),
        size=1,
        offer_factor=400.0,
        offers="uniform",
        target_budget=Budget(0.0, 1e-5),
        target_size=40,
        kernel=Kernel(columns=2, dimension=4, gamma=0.5, seed=7),
    )
    told, exact = set(), set()
    for distance in np.linspace(0.05, 0.5, 30):
        made = world(agreed, selection=Selection(gamma=16.0, folds=2), fold_key=5)
        made.target = np.stack([np.arange(40.0), np.zeros(40)], axis=1).astype(np.float32)
        others = np.stack([np.arange(20.0), np.full(20, distance)], axis=1).astype(np.float32)
        made.data = {"a": made.target[:1], "b": others}
        run = carry(made)
        assert run.summary.rows.tolist() == [[0.0, 0.0]]
        told.add((run.summary.held_out_squared_mmd, run.summary.held_out_error))
        assert run.curator.party.held_out is not None
        exact.add(run.curator.party.held_out.squared_mmd)
    assert len(exact) == 30
    assert len(told) < 6
