"""What a home wrote in a run and what comes back to it: it is known, or the home was put back from an old copy."""

from dataclasses import dataclass

from likeset.errors import IllegalMessage, LetterRefused
from likeset.homes.identity import Identity
from likeset.homes.letter_records import OUT
from likeset.protocol.terms import Terms
from likeset.trust.cards import Card
from likeset.trust.letters import Refusal, Stub
from likeset.trust.signed_terms import Acceptance

__all__ = ["OwnPapers", "check_signature"]


@dataclass(frozen=True, eq=False)
class OwnPapers:
    """What a home wrote in one run.

    Args:
        identity: the home's.
        terms: of the run.
    """

    identity: Identity
    terms: Terms

    @property
    def _named(self) -> tuple[bytes, bytes]:
        """The run, by id and terms."""
        return bytes.fromhex(self.terms.run_id), bytes.fromhex(self.terms.digest)

    def meet_stub(self, data: bytes) -> None:
        """The stub of a letter that this home wrote came back: the letter is known, or this home is an old copy.

        Raises:
            HomeRestored: it is not remembered.
            LikesetError: it is, or this home did not sign it.
        """
        stub = Stub.from_bytes(data)
        if (stub.header.run_id, stub.header.terms) != self._named:
            raise IllegalMessage(f"run {self.terms.run}: a stub of another run, or under other terms")
        self.meet(stub)

    def meet(self, stub: Stub) -> None:
        """A letter of this home's own came back; raises as ``meet_stub``."""
        check_signature(stub, self.identity.secret.card)
        kept = (letter.digest for letter in self.identity.book.letters(self._named[1]) if letter.way == OUT)
        if stub.digest not in kept:
            self._stop(stub.to_bytes())
        raise IllegalMessage(f"run {self.terms.run}: a letter of this home's own came back")

    def meet_acceptance(self, data: bytes) -> None:
        """An acceptance that this home signed came back: the same for it.

        Raises:
            HomeRestored: it is not remembered.
            IllegalMessage: it is, or this home did not sign it.
        """
        accepted = Acceptance.from_bytes(data)
        own = accepted.card.fingerprint == self.identity.fingerprint
        if own and (accepted.run_id, accepted.terms) == self._named:
            kept = self.identity.book.run_keys(self._named[1])
            if kept is None or kept.acceptance != data:
                self._stop(data)
        raise IllegalMessage(f"run {self.terms.run}: an acceptance came where letters come")

    def _stop(self, data: bytes) -> None:
        self.identity.book.stop(self._named[1], data)
        self.identity.book.check_running()


def check_signature(stub: Stub, card: Card) -> None:
    """Raise unless a card signed a letter.

    Raises:
        LetterRefused: it did not.
    """
    if not stub.is_signed_by(card):
        raise LetterRefused(Refusal.SIGNATURE)
