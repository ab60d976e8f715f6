"""A network as it is built now: the only part of the golden runs that knows modules inside.

Whoever rebuilds the inside writes this file anew; what ``test_golden_network.py`` types and reads stays.
"""

import sys
from collections.abc import Collection
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "run"))

from remote_world import hold, introduce_all

from likeset.homes.curator_home import make_curator_home


def make_curator(folder: Path, schema: Path) -> None:
    make_curator_home(folder).add_schema(schema)


def carry(folder: Path, *, absent: Collection[str] = ()) -> None:
    """Bring the run to its end, once everybody has pinned everybody's card."""
    hold(folder, "golden", absent=absent)


introduce = introduce_all
