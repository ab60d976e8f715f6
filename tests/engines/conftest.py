"""Engines are tested with the worlds of the protocols' tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "protocol"))
