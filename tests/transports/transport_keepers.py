"""Keepers of a transport, each of whom does something else with what it carries.

A keeper may be in league with an owner, whose card it has; and it has letters of another run.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from letter_wire import LetterWire
from protocol_world import CONSUMER

from likeset.errors import ProtocolError
from likeset.trust.cards import CardSecret, SealingSecret, fingerprint_bytes
from likeset.trust.letters import Acceptance, accept


@dataclass
class Keeper(LetterWire):
    """Honest, until an attack says otherwise.

    Attributes:
        of_another_run: letters by readers, and acceptances by writers, of honest parties in another run.
        first: what the consumer wrote first in this one, by readers.
        seen: all that passed.
    """

    of_another_run: dict[str, bytes] = field(default_factory=dict)
    accepted_another: dict[str, bytes] = field(default_factory=dict)
    first: dict[str, bytes] = field(default_factory=dict)
    seen: list[bytes] = field(default_factory=list)

    def acceptances(self) -> list[bytes]:
        """Of all, as the keeper passes them on."""
        signed = {Acceptance.from_bytes(data).party: data for data in super().acceptances()}
        return list(self.passed_on(signed).values())

    def start(self) -> Sequence[bytes]:
        """What the consumer writes first, which the keeper has then."""
        letters = super().start()
        self.first = {self.parcel(data).recipient: data for data in letters}
        self.seen.extend(letters)
        return letters

    def ask(self, owner: str, data: bytes) -> Sequence[bytes]:
        """What an owner answers, as the keeper passes it on."""
        handed = self.handed_over(owner, data)
        if handed is None:
            raise ProtocolError("no answer")
        replies = super().ask(owner, handed)
        self.seen.extend([data, *replies])
        return replies if owner == CONSUMER else self.brought_back(owner, replies)

    def passed_on(self, signed: dict[str, bytes]) -> dict[str, bytes]:
        """The acceptances that the consumer gets, given those that were signed, by their writers."""
        return signed

    def handed_over(self, _site: str, data: bytes) -> bytes | None:
        """What a site gets in place of a letter; None if nothing."""
        return data

    def brought_back(self, _owner: str, replies: Sequence[bytes]) -> Sequence[bytes]:
        """What comes from an owner in place of its answer."""
        return replies


class Drops(Keeper):
    """The letter to ``a``."""

    def handed_over(self, site: str, data: bytes) -> bytes | None:
        return None if site == "a" else data


class DropsAnswers(Keeper):
    """What ``a`` answers."""

    def brought_back(self, owner: str, replies: Sequence[bytes]) -> Sequence[bytes]:
        return [] if owner == "a" else replies


class Cuts(Keeper):
    """The letter to ``a``."""

    def handed_over(self, site: str, data: bytes) -> bytes | None:
        return data[:-100] if site == "a" else data


class CutsAnswers(Keeper):
    """What ``a`` answers."""

    def brought_back(self, owner: str, replies: Sequence[bytes]) -> Sequence[bytes]:
        return [reply[:-100] for reply in replies] if owner == "a" else replies


class Changes(Keeper):
    """A bit of what is sealed to ``a``."""

    def handed_over(self, site: str, data: bytes) -> bytes | None:
        return bytes([*data[:1000], data[1000] ^ 1, *data[1001:]]) if site == "a" else data


class ChangesTheSender(Keeper):
    """In the header of the letter to ``a``: its consumer is said to be ``b``."""

    def handed_over(self, site: str, data: bytes) -> bytes | None:
        place = data.index(_on_the_wire(self, CONSUMER)) if site == "a" and data == self.first["a"] else None
        return data if place is None else data[:place] + _on_the_wire(self, "b") + data[place + 25 :]


class Swaps(Keeper):
    """The letters to ``a`` and ``b``."""

    def handed_over(self, site: str, data: bytes) -> bytes | None:
        return self.first.get({"a": "b", "b": "a"}.get(site, ""), data)


class SwapsAnswers(Keeper):
    """What ``a`` answers comes from ``b`` as well."""

    def brought_back(self, owner: str, replies: Sequence[bytes]) -> Sequence[bytes]:
        if owner == "a":
            self.of_another_run["answer"] = replies[0]
        return [self.of_another_run["answer"]] if owner == "b" else replies


class ReplaysAnotherRun(Keeper):
    """``a`` gets the letter to it of another run."""

    def handed_over(self, site: str, data: bytes) -> bytes | None:
        return self.of_another_run["a"] if site == "a" else data


class SendsLettersBack(Keeper):
    """In place of an answer comes what ``a`` was sent."""

    def brought_back(self, owner: str, replies: Sequence[bytes]) -> Sequence[bytes]:
        return [self.first["a"]] if owner == "a" else replies


class RepeatsAnswers(Keeper):
    """What ``a`` answers comes twice."""

    def brought_back(self, owner: str, replies: Sequence[bytes]) -> Sequence[bytes]:
        return [*replies, *replies] if owner == "a" else replies


class Withholds(Keeper):
    """The acceptance of ``a``."""

    def passed_on(self, signed: dict[str, bytes]) -> dict[str, bytes]:
        return {party: data for party, data in signed.items() if party != "a"}


class ForgesAcceptances(Keeper):
    """In the name of ``a``, with the card of ``b`` and a key that the keeper has."""

    def passed_on(self, signed: dict[str, bytes]) -> dict[str, bytes]:
        return {**signed, "a": _accepted_as(self, "a", CardSecret.load(self.folder / "b"))}


class InventsACard(Keeper):
    """For ``a``, with its name on it."""

    def passed_on(self, signed: dict[str, bytes]) -> dict[str, bytes]:
        return {**signed, "a": _accepted_as(self, "a", CardSecret.generate("a"))}


class ReplacesTheKey(Keeper):
    """In what ``a`` signed, by one that the keeper has."""

    def passed_on(self, signed: dict[str, bytes]) -> dict[str, bytes]:
        mine, theirs = SealingSecret.generate().public, Acceptance.from_bytes(signed["a"]).run_key
        return {**signed, "a": signed["a"].replace(theirs, mine)}


class ReplaysAcceptances(Keeper):
    """``a`` accepted another run."""

    def passed_on(self, signed: dict[str, bytes]) -> dict[str, bytes]:
        return {**signed, "a": self.accepted_another["a"]}


def _on_the_wire(keeper: Keeper, party: str) -> bytes:
    """A fingerprint, as it stands in headers."""
    return fingerprint_bytes(keeper.terms.cards[party])


def _accepted_as(keeper: Keeper, party: str, secret: CardSecret) -> bytes:
    return accept(
        secret,
        run_id=bytes.fromhex(keeper.terms.run_id),
        terms=bytes.fromhex(keeper.terms.digest),
        role="owner",
        party=party,
        run_key=SealingSecret.generate().public,
    ).to_bytes()


# Who is absent then, and who of them is charged, since rows left all the same.
ATTACKS: dict[type[Keeper], tuple[str, str]] = {
    Drops: ("a", ""),
    DropsAnswers: ("a", "a"),
    Cuts: ("a", ""),
    CutsAnswers: ("a", "a"),
    Changes: ("a", ""),
    ChangesTheSender: ("a", ""),
    Swaps: ("ab", ""),
    SwapsAnswers: ("b", "b"),
    ReplaysAnotherRun: ("a", ""),
    SendsLettersBack: ("a", "a"),
    RepeatsAnswers: ("a", "a"),
    Withholds: ("a", ""),
    ForgesAcceptances: ("a", ""),
    InventsACard: ("a", ""),
    ReplacesTheKey: ("a", ""),
    ReplaysAcceptances: ("a", ""),
}
