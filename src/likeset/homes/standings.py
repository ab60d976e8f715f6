"""Whether a home takes part in a run: the few words that whatever carries its letters ever hears of it."""

from typing import Final, Literal

__all__ = ["ABSTAINS", "READY", "WAITING", "Abstains", "Standing"]

ABSTAINS: Final = "abstains"
WAITING: Final = "waiting"
READY: Final = "ready"
Abstains = Literal["abstains"]
Standing = Literal["abstains", "waiting", "ready"]
