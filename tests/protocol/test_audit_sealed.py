"""What an owner hears in whole runs of ``sealed``, observed many times: no lower bound may exceed the claim.

The observer is an owner and writes down everything that it was sent: how many messages there were, how long they were,
and the numbers in them. The bounds are those of ``likeset.audit`` (each exceeds the truth with probability 1e-9 at
most); a twin whose consumer draws half the noise must be caught by the same means.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from protocol_world import CONSUMER, QuickLedger, World, rows, terms

from chance import pinned_coins
from likeset.audit.auditor import lower_bound
from likeset.geometry.selection import Selection
from likeset.privacy.events import View
from likeset.privacy.noise import Integers, SimulatedNoise
from likeset.protocol.prices import planned_views
from likeset.protocol.terms import Budget, Kernel, Terms
from likeset.protocol.wire import Asked, Message, TargetRelease, encode

DELTA = 0.05  # smaller ones are decided in tails that so few observations do not reach
RUNS = 2_400
AUCTIONS = 600  # owners take longer: each fits its offer anew
KERNEL = Kernel(columns=1, dimension=2, gamma=0.5, seed=3)


class HalvedNoise(SimulatedNoise):
    """Half the noise that the terms announce."""

    def discrete_gaussian(self, sigma: float, size: int) -> Integers:
        return super().discrete_gaussian(sigma / 2, size)


def _claim(agreed: Terms, protected: str) -> float:
    views = {planned.view: planned.guarantee.epsilon for planned in planned_views(agreed, width_choice=None)}
    return views[View.owners(protected)]


def _heard(
    agreed: Terms,
    data: dict[str, NDArray[np.float32]],
    target: NDArray[np.float32],
    *,
    listeners: list[str],
    noise: Callable[[int], SimulatedNoise],
    coins: np.random.Generator,
) -> list[list[float]]:
    """For each run all that the listeners are sent, as numbers; a run ends when owners will hear no more."""
    seen = []
    for _ in range(RUNS if agreed.auction == "everyone" else AUCTIONS):
        drawn: Any = noise(int(coins.integers(2**63)))
        made = World(agreed, data, target, QuickLedger(), drawn, selection=Selection(gamma=1.0))
        curator = made.curator()
        sent = list(made.first_words(curator))
        if agreed.auction != "everyone":
            for call in sent[:]:
                for reply in made.owner(call.receiver).take(call):
                    sent += curator.take(reply)
        seen.append([number for name in listeners for number in _numbers(sent, name)])
    return seen


def _numbers(sent: list[Message], name: str) -> Iterator[float]:
    mine = [one for one in sent if one.receiver == name]
    yield len(mine)
    for one in mine:
        yield len(encode(one))
        assert isinstance(one.body, TargetRelease | Asked)
        yield from one.body.release.tolist() if isinstance(one.body, TargetRelease) else [float(one.body.asked)]


def _opposite_targets(agreed: Terms) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Targets that differ in one row; its features point the other way: the sum moves by all of 2."""
    features = agreed.kernel.features()
    frequency = float(features._frequencies[0, 0])
    first = np.zeros((agreed.target_size, 1), dtype=np.float32)
    second = first.copy()
    second[0, 0] = np.pi / frequency
    moved = features(first)[0] - features(second)[0]
    assert np.linalg.norm(moved) == pytest.approx(2.0, abs=1e-3)
    return first, second


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "sound"), [(SimulatedNoise, True), (HalvedNoise, False)])
def test_an_owner_learns_no_more_about_the_target_than_is_claimed(noise: type[SimulatedNoise], sound: bool) -> None:
    agreed = terms(
        owners=("a", "b"), kernel=KERNEL, target_size=4, size=1, offer_factor=2.0, target_budget=Budget(1.0, DELTA)
    )
    data = {name: rows(place, 4, columns=1) for place, name in enumerate(agreed.owners)}
    coins = pinned_coins("what an owner hears")
    both = [
        _heard(agreed, data, target, listeners=["a"], noise=noise, coins=coins) for target in _opposite_targets(agreed)
    ]
    found = lower_bound(*both, delta=DELTA)
    claim = _claim(agreed, CONSUMER)
    assert claim == pytest.approx(1.0, rel=1e-3)
    assert (found.epsilon <= claim) is sound


@pytest.mark.slow
def test_owners_who_compare_notes_learn_no_more_about_a_rival_than_the_auction_is_charged_for() -> None:
    """The rival's rows decide its misfit, and that decides between which of the others it ranks."""
    agreed = terms(
        owners=("a", "b", "c", "d"),
        kernel=KERNEL,
        target_size=4,
        size=1,
        offer_factor=2.0,
        target_budget=Budget(50.0, DELTA),
        owner_budget=Budget(4.0, DELTA),
        auction="threshold",
        auction_epsilon=2.0,
        auction_offset=3,
    )
    target = np.zeros((4, 1), dtype=np.float32)
    far = float(np.pi / agreed.kernel.features()._frequencies[0, 0])
    data = {
        name: np.full((4, 1), share * far, dtype=np.float32) for name, share in {"a": 0.0, "b": 0.4, "c": 0.8}.items()
    }
    coins = pinned_coins("what a coalition hears")
    both = [
        _heard(
            agreed,
            {**data, "d": np.full((4, 1), place * far, dtype=np.float32)},
            target,
            listeners=["a", "b", "c"],
            noise=SimulatedNoise,
            coins=coins,
        )
        for place in (1.0, 0.2)
    ]
    found = lower_bound(*both, delta=0.0)
    assert 0.1 < found.epsilon <= _claim(agreed, "d")
