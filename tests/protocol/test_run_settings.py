"""How the consumer wants the rows selected: the curator hears it with the target, and owners hear nothing of it."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from protocol_world import CONSUMER, PAPER, THRESHOLD, Outcome, World, carry, terms, world

from likeset.errors import IllegalMessage, InvalidArgument
from likeset.geometry.kernels import median_gamma, squared_mmd
from likeset.geometry.selection import Selection
from likeset.protocol.terms import Budget
from likeset.protocol.wire import Message, Target, decode, encode

SECRET = (1 << 255) + 99
INTERACTIVE = {"protocol": "interactive"}
KINDS: dict[str, dict[str, Any]] = {
    "sealed": {},
    "uniform": {"offers": "uniform"},
    "threshold": THRESHOLD,
    "interactive": INTERACTIVE,
    "gaussian": {**INTERACTIVE, "summary_release": "gaussian", "owner_budget": Budget(2.0, 1e-5)},
    "paper": PAPER,
}
WISHES = (Selection(), Selection(gamma=40.0), Selection(gamma=1e-3))


def _held(options: dict[str, Any], selection: Selection) -> tuple[World, Outcome]:
    made = world(terms(**options), selection=selection, secret=SECRET)
    return made, carry(made)


def _sent(made: World) -> Message:
    message, *_ = made.consumer().start()
    return decode(encode(message))


def _target(made: World) -> Target:
    body = _sent(made).body
    assert isinstance(body, Target)
    return body


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_is_wished_owners_hear_and_say_the_same_bytes(kind: str) -> None:
    """With the same coins; of what the curator hears, only the consumer's own message differs."""
    wishes = (*WISHES, Selection(weighted=True)) if KINDS[kind].get("protocol") != "interactive" else WISHES
    outcomes = [_held(KINDS[kind], one)[1] for one in wishes]
    first = outcomes[0]
    for other in outcomes[1:]:
        assert other.refused == []
        for name in ("a", "b", "c"):
            assert first.heard[name]
            assert other.heard[name] == first.heard[name]
        assert other.heard["curator"][0] != first.heard["curator"][0]
        assert other.heard["curator"][1:] == first.heard["curator"][1:]
    assert len({outcome.summary.squared_mmds.tobytes() for outcome in outcomes[:3]}) == 3  # they were heeded


@pytest.mark.parametrize("kind", ["sealed", "uniform", "threshold", "interactive"])
def test_the_summary_is_judged_by_the_width_that_was_wished(kind: str) -> None:
    for gamma in (0.05, 3.0):
        made, outcome = _held(KINDS[kind], Selection(gamma=gamma))
        found = outcome.summary
        assert found.squared_mmds[-1] == pytest.approx(squared_mmd(found.rows, made.target, gamma=gamma), rel=1e-4)


def test_without_a_wish_the_width_is_by_the_targets_own_distances() -> None:
    made = world(terms())
    body = _target(made)
    assert body.gamma == median_gamma(made.target, scale=1.0, coins=np.random.default_rng(0))
    assert body.weighted is False


def test_weights_are_made_where_they_are_wished_and_match_better() -> None:
    made, outcome = _held({}, Selection(gamma=0.3, weighted=True))
    plain = _held({}, Selection(gamma=0.3))[1].summary
    found = outcome.summary
    assert np.array_equal(found.handles, plain.handles)
    assert plain.weights.tolist() == [0.25] * 4
    weighed = squared_mmd(found.rows, made.target, gamma=0.3, weights=found.weights)
    assert weighed < plain.squared_mmds[-1] - 1e-6


@pytest.mark.parametrize(
    ("options", "changes"),
    [
        *(({}, {"gamma": gamma}) for gamma in (0.0, -1.0, math.nan, math.inf, -math.inf, 1e37, 1e300)),
        (INTERACTIVE, {"gamma": math.nan}),
        (INTERACTIVE, {"weighted": True}),
    ],
)
def test_a_wish_that_cannot_be_heeded_is_refused_and_nobody_is_asked(
    options: dict[str, Any], changes: dict[str, Any]
) -> None:
    made = world(terms(**options), secret=SECRET)
    curator, honest = made.curator(), _sent(made)
    with pytest.raises(IllegalMessage, match=f"target message of {CONSUMER}") as refusal:
        curator.take(replace(honest, body=replace(honest.body, **changes)))
    assert not any(str(value) in str(refusal.value) for value in changes.values() if value is not True)
    assert curator.party.waiting_for == frozenset()
    curator.take(honest)
    assert curator.party.waiting_for == {"a", "b", "c"}


def test_another_wish_in_the_place_of_the_first_is_refused() -> None:
    """Else a run that is resumed could be selected twice, and compared."""
    made = world(terms())
    curator, honest = made.curator(), _sent(made)
    curator.take(honest)
    with pytest.raises(IllegalMessage, match="another one came in its place"):
        curator.take(replace(honest, body=replace(honest.body, gamma=2.0)))  # type: ignore[arg-type]


def test_a_target_without_distances_needs_a_width_before_anything_is_released() -> None:
    made = world(terms())
    made.target[:] = 1.0
    with pytest.raises(InvalidArgument, match="give gamma"):
        made.consumer()
    made.selection = Selection(gamma=1.0)
    assert made.consumer().start()
