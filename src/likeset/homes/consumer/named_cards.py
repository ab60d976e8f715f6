"""Which cards the terms of a run name: the consumer's own, and those that a person here has pinned."""

from collections.abc import Iterable, Mapping

from likeset.documents import near_miss
from likeset.errors import InvalidArgument
from likeset.homes.identity import Identity
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import WITNESS
from likeset.trust.pins import Pin, Role

__all__ = ["named_cards"]

_HOW = "get its card, compare its fingerprint by telephone, and pin it: likeset card pin FILE --as"


def named_cards(
    identity: Identity,
    *,
    consumer: str,
    owners: Iterable[str],
    curator: str | None = None,
    witness: str | None = None,
) -> dict[str, str]:
    """The fingerprints of all parties of a run, by their names in the terms.

    Args:
        identity: the consumer's.
        consumer: its name, which its card must have.
        owners: their names, by which their cards are pinned.
        curator: the name of a pinned curator's card; None for the only one that is pinned.
        witness: the name of a pinned witness's card; None for a run without one.

    Raises:
        InvalidArgument: a party's card is not pinned here, or not in that role; the party is named.
    """
    own = identity.secret.card
    if own.name != consumer:
        reason = f"is not the name on this home's card, which is {own.name}; see `likeset card make --new --name`"
        raise InvalidArgument("consumer", consumer, reason)
    all_pinned = [pin for pin in identity.pins.all() if pin.state == "pinned"]
    pinned = {pin.card.name: pin for pin in reversed(all_pinned)}  # of several under a name the oldest, as Pins.get
    cards = {consumer: own.fingerprint}
    cards |= {owner: _pinned(pinned, "owner", owner, field="owners") for owner in owners}
    cards[CURATOR] = _only_curator(all_pinned) if curator is None else _pinned(pinned, "curator", curator)
    if witness is not None:
        if witness == consumer:
            reason = "is the consumer's own name; a witness is a third organisation, with a card of its own"
            raise InvalidArgument("witness", witness, reason)
        cards[WITNESS] = _pinned(pinned, "witness", witness, field="witness")
    return cards


def _pinned(pins: Mapping[str, Pin], role: Role, name: str, *, field: str = "curator_card") -> str:
    """The fingerprint of the card that is pinned under a name, in that role."""
    pin = pins.get(name)
    if pin is None:
        hint = near_miss(name, {other for other, pin in pins.items() if pin.role == role})
        raise InvalidArgument(field, name, f"no card of that name is pinned here{hint}; {_HOW} {role}")
    if pin.role != role:
        third = "; a witness is a third organisation, which has no other part in the run" if role == "witness" else ""
        reason = f"its card is pinned here as that of the {pin.role}, not of the {role}{third}"
        raise InvalidArgument(field, name, reason)
    return pin.card.fingerprint


def _only_curator(pins: Iterable[Pin]) -> str:
    curators = [pin for pin in pins if pin.role == "curator"]
    if not curators:
        raise InvalidArgument("curator_card", "none", f"no curator's card is pinned here; {_HOW} curator")
    if len(curators) > 1:
        names = ", ".join(pin.card.name for pin in curators)
        reason = f"several curators' cards are pinned here; name one of them in the job (curator_card:): {names}"
        raise InvalidArgument("curator_card", "none", reason)
    return curators[0].card.fingerprint
