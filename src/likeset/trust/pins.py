"""The cards that a person of this home has compared and pinned, each for one role; replaced and revoked ones stay.

One file for each card, named by its fingerprint and written whole or not at all. A name belongs to one pinned card at
a time, whatever its role: terms and policies that speak of a name mean one card.
"""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, get_args

from pydantic import ValidationError

from likeset.arguments import one_of
from likeset.documents import Document, make_folder, near_miss, write_text
from likeset.errors import BadDocument, InvalidArgument
from likeset.trust.cards import Card, card_in, check_fingerprint
from likeset.trust.fingerprints import typed

__all__ = ["Pin", "PinState", "Pins", "Role"]

Role = Literal["owner", "curator", "consumer", "witness"]
PinState = Literal["pinned", "replaced", "revoked"]
_ENDING = ".json"
_MOST_BYTES = 1 << 16
_LONGEST_REASON = 1000


@dataclass(frozen=True, slots=True)
class Pin:
    """A card that a person pinned.

    Attributes:
        card: the card.
        role: as what the party may take part in runs with this home.
        at: when its state last changed (UTC).
        state: only a ``pinned`` one counts.
        by: the fingerprint of the card that replaced it; empty if none did.
        reason: why it was revoked; empty if it was not.
    """

    card: Card
    role: Role
    at: str
    state: PinState = "pinned"
    by: str = ""
    reason: str = ""


class _PinFile(Document):
    """A pin as it stands in its file."""

    likeset: Literal["pin"] = "pin"
    version: Literal[1] = 1
    role: Role
    at: str
    state: PinState
    by: str
    reason: str
    card: str


_Seen = tuple[int, int, int]  # what changes whenever a file is written anew


class Pins:
    """The pinned cards of a home.

    Args:
        folder: where they are; made with the first card.
        note: is told of each change before it is written, and keeps it from being written by raising.
    """

    def __init__(self, folder: Path, *, note: Callable[[Pin], None] | None = None) -> None:
        self.folder = folder
        self._note = note
        self._known: dict[str, tuple[_Seen, Pin]] = {}  # by the file's name

    def pin(self, card: Card, role: Role, *, fingerprint: str | None, now: datetime | None = None) -> Pin:
        """Pin a card that a person has compared.

        Args:
            card: the card.
            role: as what its party may take part.
            fingerprint: as the party read it out; None where a person has looked at it already.
            now: when; now if not given.

        Raises:
            InvalidArgument: the fingerprint is another, or the card or its name may not be pinned (again).
        """
        if fingerprint is not None:
            check_fingerprint(fingerprint, card)
        return self.check_pin(card, role) or self._write(Pin(card, role, _time(now)))

    def check_pin(self, card: Card, role: Role) -> Pin | None:
        """Whether a card may be pinned, before anybody is asked to compare it; its pin if it is pinned already.

        Raises:
            InvalidArgument: the card or its name may not be pinned (again).
        """
        one_of("role", role, get_args(Role))
        known = self.by_fingerprint(card.fingerprint)
        if known is not None:
            return _pinned_again(known, role)
        holder = self.get(card.name)
        if holder is not None:
            reason = (
                f"is the name of a pinned {holder.role}'s card {holder.card.fingerprint}; if this card follows it, "
                "replace it, and if it is another party, let it choose another name"
            )
            raise InvalidArgument("card", card.name, reason)
        return None

    def get(self, name: str) -> Pin | None:
        """The pinned card of a name; None if there is none."""
        pinned = (pin for pin in self._each() if pin.state == "pinned" and pin.card.name == name)
        return min(pinned, key=_age, default=None)  # there is one, unless somebody put an old file back

    def by_fingerprint(self, fingerprint: str) -> Pin | None:
        """The card of a fingerprint, whatever became of it; None if it was never pinned.

        Raises:
            InvalidArgument: it is no fingerprint.
        """
        path = self._path(typed(fingerprint))
        try:
            seen = _seen(path.stat())
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise BadDocument(str(path), f"cannot be read: {error.strerror}") from error
        return self._known_as(path.name, seen) or self._read(path)

    def all(self) -> tuple[Pin, ...]:
        """Every card that was ever pinned, by name and then by when its state changed.

        Raises:
            BadDocument: a file among them is damaged.
        """
        return tuple(sorted(self._each(), key=lambda pin: (pin.card.name, *_age(pin))))

    def replace(self, card: Card, *, fingerprint: str | None = None, now: datetime | None = None) -> Pin:
        """Pin a party's new card in place of its old one, for the same role; the old one stays, marked.

        Args:
            card: the new card, of the same name.
            fingerprint: as the party read it out; None where a person has looked at it already.
            now: when; now if not given.

        Raises:
            InvalidArgument: no card of that name is pinned, or this one may not be pinned again.
        """
        if fingerprint is not None:
            check_fingerprint(fingerprint, card)
        before = self.check_replacement(card)
        if before.card == card:
            return before
        if before.state == "pinned":
            self._write(Pin(before.card, before.role, _time(now), "replaced", by=card.fingerprint))
        return self._write(Pin(card, before.role, _time(now)))

    def check_replacement(self, card: Card) -> Pin:
        """The pin that a party's new card would follow, before anybody is asked to compare; its own if it has one.

        Raises:
            InvalidArgument: no card of that name is pinned, or this one may not be pinned again.
        """
        known = self.by_fingerprint(card.fingerprint)
        if known is not None:
            return _pinned_again(known, known.role)
        return self.get(card.name) or self._left_by(card)

    def revoke(self, name_or_fingerprint: str, reason: str, *, now: datetime | None = None) -> Pin:
        """Mark a card as one that never counts again.

        Args:
            name_or_fingerprint: a pinned card's name, or the fingerprint of any that is here.
            reason: for those who look later.
            now: when; now if not given.

        Raises:
            InvalidArgument: there is no such card.
        """
        if not reason.strip() or len(reason) > _LONGEST_REASON:
            raise InvalidArgument("reason", f"{len(reason)} letters", f"must have 1 to {_LONGEST_REASON}")
        pin = self.get(name_or_fingerprint) or self._by_typed_fingerprint(name_or_fingerprint)
        if pin is None:
            names = {pin.card.name for pin in self.all() if pin.state == "pinned"}
            hint = near_miss(name_or_fingerprint, names)
            raise InvalidArgument("card", name_or_fingerprint, f"no card of that name or fingerprint is pinned{hint}")
        return self._write(Pin(pin.card, pin.role, _time(now), "revoked", by=pin.by, reason=reason))

    def _left_by(self, card: Card) -> Pin:
        """The old card of a replacement that was interrupted between its two files."""
        for pin in self.all():
            if pin.state == "replaced" and pin.by == card.fingerprint:
                return pin
        raise InvalidArgument("card", card.name, "no card of that name is pinned; pin this one as a new one")

    def _by_typed_fingerprint(self, text: str) -> Pin | None:
        try:
            return self.by_fingerprint(text)
        except InvalidArgument:
            return None

    def _each(self) -> list[Pin]:
        """Every card that was ever pinned, in no order."""
        if not self.folder.is_dir():
            return []
        try:
            with os.scandir(self.folder) as entries:
                seen = {entry.name: _seen(entry.stat()) for entry in entries if entry.name.endswith(_ENDING)}
        except OSError as error:
            raise BadDocument(error.filename or str(self.folder), f"cannot be read: {error.strerror}") from error
        # One that is known is not opened: a home may know a thousand cards, and looks them up often.
        return [self._known_as(name, stamp) or self._read(self.folder / name) for name, stamp in seen.items()]

    def _known_as(self, name: str, seen: _Seen) -> Pin | None:
        """The pin in a file, if it was read before and not written since."""
        stamp, pin = self._known.get(name, (None, None))
        return pin if stamp == seen else None

    def _path(self, fingerprint: str) -> Path:
        return self.folder / f"{fingerprint}{_ENDING}"

    def _write(self, pin: Pin) -> Pin:
        if self._note is not None:
            self._note(pin)
        content = _PinFile(
            role=pin.role, at=pin.at, state=pin.state, by=pin.by, reason=pin.reason, card=pin.card.to_text()
        )
        make_folder(self.folder)
        write_text(self._path(pin.card.fingerprint), json.dumps(content.model_dump(), indent=1, sort_keys=True) + "\n")
        return pin

    def _read(self, path: Path) -> Pin:
        """The pin in a file, which is remembered until the file is written anew."""
        try:
            with path.open("rb") as file:
                seen, data = _seen(os.fstat(file.fileno())), file.read(_MOST_BYTES)
            content = _PinFile.model_validate_json(data)
        except OSError as error:
            raise BadDocument(str(path), f"cannot be read: {error.strerror}") from error
        except ValidationError as error:
            raise BadDocument(str(path), "is damaged; restore it from a copy, or remove it and pin again") from error
        card = card_in(str(path), content.card)
        if path.name != f"{card.fingerprint}{_ENDING}":
            raise BadDocument(str(path), "holds another card than its name says; restore it from a copy")
        pin = Pin(card, content.role, content.at, content.state, content.by, content.reason)
        self._known[path.name] = seen, pin
        return pin


def _age(pin: Pin) -> tuple[str, str]:
    return pin.at, pin.card.fingerprint


def _seen(status: os.stat_result) -> _Seen:
    return status.st_ino, status.st_mtime_ns, status.st_size


def _pinned_again(known: Pin, role: Role) -> Pin:
    """A card that is here already: the same pin is no change; one that does not count any more never comes back."""
    name = known.card.name
    if known.state == "replaced":
        reason = f"was replaced by {known.by} on {known.at}; ask {name} for its new card"
    elif known.state == "revoked":
        reason = f"was revoked on {known.at} and never counts again; ask {name} to make a new card"
    elif known.role != role:
        reason = f"is pinned as {known.role}; a card has one role here: let {name} make another card for {role}"
    else:
        return known
    raise InvalidArgument("card", known.card.fingerprint, reason)


def _time(now: datetime | None) -> str:
    return (now or datetime.now(UTC)).astimezone(UTC).isoformat(timespec="seconds")
