"""Parcels that are letters: whoever carries them knows from whom they say they are and for whom, and no more."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from likeset.errors import BadDocument, IllegalMessage
from likeset.protocol.terms import Terms
from likeset.transports.pump import Parcel
from likeset.trust.letters import Acceptance, Stub, is_acceptance, is_stub, letter_in


def parcel_reader(terms: Terms, *, most_bytes: int) -> Callable[[bytes], Parcel]:
    """Reads off a letter from whom it says it is and for whom, by the names in the terms.

    Nothing is proven by that: who wrote a letter is found out where it is opened. An acceptance is for the consumer.

    Args:
        terms: of the run.
        most_bytes: no letter may be larger.
    """
    names = {fingerprint: name for name, fingerprint in terms.cards.items()}

    def read(data: bytes) -> Parcel:
        if is_acceptance(data):
            return Parcel(_named(_acceptance_in(data).card.fingerprint), terms.consumer, data)
        header = _stub_in(data).header if is_stub(data) else letter_in(data, most_bytes=most_bytes).header
        return Parcel(_named(header.sender), _named(header.recipient), data)

    def _named(fingerprint: str) -> str:
        if fingerprint not in names:
            raise IllegalMessage(f"run {terms.run}: a letter from or to somebody whom the terms do not name")
        return names[fingerprint]

    return read


def _stub_in(data: bytes) -> Stub:
    try:
        return Stub.from_bytes(data)
    except BadDocument as error:
        raise IllegalMessage(str(error)) from None


def _acceptance_in(data: bytes) -> Acceptance:
    try:
        return Acceptance.from_bytes(data)
    except BadDocument as error:
        raise IllegalMessage(str(error)) from None


class CuratorLetters(Protocol):
    """The curator's side of a run, wherever it is."""

    @property
    def terms(self) -> Terms: ...

    @property
    def waiting_for(self) -> frozenset[str]: ...

    def acceptance(self) -> bytes: ...

    def hear(self, data: bytes) -> Sequence[bytes]: ...

    def give_up(self, owner: str) -> Sequence[bytes]: ...

    def end(self) -> Sequence[bytes]: ...


@dataclass(frozen=True)
class LetterCurator:
    """A curator who reads and writes letters.

    Args:
        run: the curator's side of it.
        parcel: reads off a letter for whom it is.
    """

    run: CuratorLetters
    parcel: Callable[[bytes], Parcel]

    @property
    def terms(self) -> Terms:
        return self.run.terms

    @property
    def waiting_for(self) -> frozenset[str]:
        return self.run.waiting_for

    def take(self, data: bytes) -> list[Parcel]:
        return [self.parcel(reply) for reply in self.run.hear(data)]

    def give_up(self, owner: str) -> list[Parcel]:
        return [self.parcel(letter) for letter in self.run.give_up(owner)]
