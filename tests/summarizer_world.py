"""A small market for the tests of the Summarizer."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chance import pinned_coins
from likeset import Interactive, Summarizer
from likeset.ledger.budget import Account
from likeset.ledger.ledger import Ledger
from likeset.privacy.accounting import Guarantee
from likeset.privacy.events import View

LARGE, SMALL = 200, 40  # rows of a target: a release at epsilon = 1 pays with the first and not with the second
TARGET_VIEW = View.owners("consumer")
PAPER: dict[str, Any] = {
    "protocol": "interactive",
    "dimension": 20,
    "summary_release": "mwem",
    "schedule": "experiment",
    "auction": "paper",
    "auction_epsilon": 0.02,
    "seed_rows": np.zeros((3, 3)),
}
PAPER_PARTS = ("paper-auction", "summary-release")


def rows(seed: int, count: int, *, shift: float = 0.0) -> NDArray[np.float64]:
    return pinned_coins(seed).normal(shift, 1.0, size=(count, 3))


TARGET = rows(0, LARGE)
OWNERS = {"north clinic": rows(1, 70), "south": rows(2, 50, shift=1.0), "west/2": rows(3, 60, shift=-0.5)}
LABELS = {name: np.arange(len(table)) % 4 for name, table in OWNERS.items()}


def arguments(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings as a job has them, as arguments of the ``Summarizer``."""
    if settings.get("protocol") != "interactive":
        return settings
    of_protocol = {field.name for field in fields(Interactive)} & set(settings)
    others = {name: value for name, value in settings.items() if name not in of_protocol}
    return {**others, "protocol": Interactive(**{name: settings[name] for name in of_protocol})}


def simulated(size: int = 6, **settings: Any) -> Summarizer:
    usual = {"size": size, "release_gamma": 0.1, "noise": "simulated", "random_state": 7}
    return Summarizer(**arguments({**usual, **settings}))


def labels_of(fitted: Summarizer) -> list[Any]:
    assert fitted.labels_ is not None
    return list(fitted.labels_.tolist())


def guarantee_of(fitted: Summarizer, view: View) -> Guarantee:
    (found,) = [one.guarantee for one in fitted.guarantees_ if one.view == view]
    assert isinstance(found, Guarantee)
    return found


def account(path: Path, view: View) -> Account:
    with Ledger(path, read_only=True) as ledger:
        (found,) = [one for one in ledger.accounts() if one.view == view]
    return found
