"""The simulated market, in processes of its own: its hooks can be put into a process, and not taken out again.

``make simulate SEED=n`` replays a seed, and ``make soak`` tries thousands.
"""

import subprocess
import sys
from pathlib import Path

import pytest


def _simulate(*arguments: str) -> None:
    command = [sys.executable, str(Path(__file__).parent), *arguments]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)  # noqa: S603 - our own
    assert not done.returncode, f"{done.stdout[-4000:]}{done.stderr[-4000:]}"


def test_stories_end_as_they_should() -> None:
    """Those of ``invariants.KNOWN`` violate an invariant: who repairs the product removes the entry."""
    _simulate("--stories")


@pytest.mark.parametrize("step", [24, pytest.param(1, marks=pytest.mark.slow)])
def test_a_fault_at_any_effect_of_a_turn(step: int) -> None:
    _simulate("--sweeps", str(step))


@pytest.mark.parametrize("first", [0, 3])
def test_all_invariants_hold(first: int) -> None:
    _simulate("--seeds", str(first), str(first + 3))


def test_a_seed_is_the_same_twice() -> None:
    _simulate("--seeds", "10", "11", "--twice")
