"""Who asks, by their cards: whom the terms of a run name, whether a person here has pinned them, and since when.

The one source of what a steward reads about them, of what machines read, and of the reasons against a run.
"""

from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from likeset.errors import BadDocument
from likeset.homes.owner.home import Home
from likeset.homes.owner.policy import Policy
from likeset.homes.signed_invitation import card_fault, must_know
from likeset.protocol.terms import Terms
from likeset.trust.cards import SECRET_FILE, Card
from likeset.trust.pins import Pins, PinState, Role

__all__ = ["AskingCard", "asking_cards", "own_card_fault"]

_PLURALS: dict[Role, str] = {"curator": "curators", "witness": "witnesses"}  # consumers' names are in the terms


@dataclass(frozen=True, slots=True)
class AskingCard:
    """A party of a run whose card must be known here.

    Attributes:
        role: what it is in the run.
        name: on its card; for one that was never pinned, as the terms say, and they give a curator no name.
        fingerprint: of its card.
        state: what became of its card here.
        since: when (UTC); empty if it was never pinned.
        fault: why the run may not go on with it, and what to do; empty if it may.
    """

    role: Role
    name: str
    fingerprint: str
    state: PinState | Literal["not pinned"]
    since: str
    fault: str

    def document(self) -> dict[str, Any]:
        """For machines."""
        return asdict(self)

    def in_words(self) -> str:
        """For a person, without the name."""
        if self.state == "not pinned":
            return f"card {self.fingerprint}, NOT PINNED: {self.fault}"
        known = f"card {self.fingerprint}, {self.state} since {self.since[:10]}"
        return f"{known}: {self.fault}" if self.fault else known


def asking_cards(policy: Policy, terms: Terms, pins: Pins) -> tuple[AskingCard, ...]:
    """Those of the parties whom an owner must know: the consumer, the curator and, if there is one, the witness.

    Args:
        policy: says which of those that are pinned may take part.
        terms: of the run.
        pins: the cards that are pinned here.
    """
    names = must_know(terms, policy.name)
    return tuple(_asking_card(policy, role, name, terms.cards[name], pins) for role, name in names.items())


def _asking_card(policy: Policy, role: Role, name: str, fingerprint: str, pins: Pins) -> AskingCard:
    pin = pins.by_fingerprint(fingerprint)
    fault = card_fault(role, fingerprint, pins)
    if pin is None:
        return AskingCard(role, name if role == "consumer" else "", fingerprint, "not pinned", "", fault)
    if not fault and role in _PLURALS:
        allowed: tuple[str, ...] = getattr(policy, _PLURALS[role])
        if not any(fnmatchcase(pin.card.name, pattern) for pattern in allowed):
            fault = f"{role} {pin.card.name} is not among the {_PLURALS[role]} that owner.yaml allows"
    return AskingCard(role, pin.card.name, fingerprint, pin.state, pin.at, fault)


def own_card_fault(home: Home, name: str, terms: Terms) -> str:
    """Why a node cannot answer under the card that terms name as its own; empty if it can."""
    if not terms.cards:
        return "the terms name no cards, so nobody can prove who asks; ask the consumer for a signed invitation"
    try:
        own = _own_card(home, _files_of(home))
    except BadDocument as error:
        return f"this node has no card that can be used: {Path(error.document).name}: {error.reason}"
    if terms.cards.get(name) != own.fingerprint:
        return f"the terms name another card than this node's, which is {own.fingerprint}; ask for terms that name it"
    return ""


def _files_of(home: Home) -> tuple[tuple[int, ...], ...]:
    """What changes whenever a file of the node's card is written anew, removed, or opened to others."""
    seen: list[tuple[int, ...]] = []
    for path in (home.card_file, home.folder / SECRET_FILE):
        try:
            status = path.stat()
        except OSError:
            seen.append(())
        else:
            seen.append((status.st_ino, status.st_mtime_ns, status.st_size, status.st_mode))
    return tuple(seen)


@lru_cache(maxsize=16)
def _own_card(home: Home, _files: tuple[tuple[int, ...], ...]) -> Card:
    """The node's card, with its keys: an approval that nothing can be signed under would only look like one.

    Read once while its files stay the same: lists judge many runs. What cannot be used is looked at anew each time.
    """
    return home.card()
