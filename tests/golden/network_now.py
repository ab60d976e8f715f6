"""A network as it is built now: the only part of the golden runs that knows modules inside.

Whoever rebuilds the inside writes this file anew; what ``test_golden_network.py`` types and reads stays.
"""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "run"))

from remote_world import HereEngine, introduce_all

from likeset.app.cli import run
from likeset.homes.curator_home import make_curator_home
from likeset.homes.mail import Invitation
from likeset.transports.nvflare.engine import simulate

_TESTS = Path(__file__).parents[1]
__all__ = ["HereEngine", "SimulatedEngine", "connect", "make_curator"]


def make_curator(folder: Path, schema: Path) -> None:
    """A curator without a server of its own; ``likeset site curator`` makes it for one that has a start-up kit."""
    make_curator_home(folder).add_schema(schema)


@dataclass
class SimulatedEngine(HereEngine):
    """Submits to NVFlare's simulator: each site is a process of its own."""

    def submit(self, *invitations: Invitation) -> str:
        """Wait until the simulator is done."""
        job = f"job-{len(self.ended)}"
        paths = os.pathsep.join(str(_TESTS / name) for name in (".", "homes", "run"))
        self.ended[job] = simulate(
            *invitations,
            workspace=self.folder / "nvflare",
            factory="whole_network:seat",
            folder=self.folder,
            environment={**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1"},
            seconds=1200.0,
            seconds_per_call=100.0,
            seconds_after_auction=0.0,
        )
        return job


def connect(patch: pytest.MonkeyPatch, engine: HereEngine) -> None:
    """Let ``likeset run`` submit to this engine, once everybody has pinned everybody's card."""
    introduce_all(engine.folder)
    patch.setattr(run, "engine_of", lambda _: engine)
