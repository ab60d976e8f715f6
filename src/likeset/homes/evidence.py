"""What a home can show a third party of its letters with somebody in a run."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from likeset.errors import BadDocument, InvalidArgument
from likeset.homes.bundles import MOST_BUNDLE_BYTES, Bundle
from likeset.homes.letter_book import LetterBook
from likeset.homes.letter_records import IN, OUT, KeptLetter
from likeset.homes.padding import padded_size
from likeset.homes.receipts import Receipt
from likeset.homes.signed_invitation import Invitation
from likeset.homes.transcripts import acknowledging_party
from likeset.protocol.messages import decode
from likeset.protocol.terms import Terms
from likeset.trust.cards import Card
from likeset.trust.letters import Disclosure, discloses, letter_in, open_letter, padded
from likeset.trust.signed_terms import Acceptance

__all__ = ["Evidence"]


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a home has of its letters with one other party in a run.

    Args:
        book: its letters.
        invitation: the terms, as the consumer signed them.
        party: the home's name in them.
        other: the other party's.
    """

    book: LetterBook
    invitation: Invitation
    party: str
    other: str

    @classmethod
    def of(cls, book: LetterBook, invitation: Invitation, other: str) -> Self:
        """That of the home whose book it is, whatever card it has now: as who it took part, it signed."""
        keys = book.run_keys(bytes.fromhex(invitation.terms.digest))
        accepted = keys.acceptance if keys is not None else b""
        return cls(
            book, invitation, Acceptance.from_bytes(accepted).party if accepted else invitation.terms.consumer, other
        )

    def __post_init__(self) -> None:
        if self.other == self.party or self.other not in self.terms.cards:
            names = ", ".join(name for name in self.terms.cards if name != self.party)
            raise InvalidArgument("--with", self.other, f"is nobody else in run {self.terms.run}; there are {names}")

    @property
    def terms(self) -> Terms:
        """Of the run."""
        return self.invitation.terms

    @property
    def _digest(self) -> bytes:
        return bytes.fromhex(self.terms.digest)

    def letters(self) -> list[KeptLetter]:
        """All between the two."""
        return self.book.letters(self._digest, self.other)

    def bundle(self, receipts: Iterable[Receipt] = (), disclosures: Iterable[Disclosure] = ()) -> Bundle:
        """All of it, for a third party.

        Args:
            receipts: that lie here; those of another run, other terms or other parties are left out.
            disclosures: of single letters.

        Raises:
            BadDocument: the other party never took part in the run, as far as this home knows.
        """
        parties = (self.party, self.other)
        accepted = tuple(self._acceptance(name) for name in parties if name != self.terms.consumer)
        stubs = {letter.signed_header for letter in self.letters()}
        stubs |= {stub for peer, stub in self.book.evidence(self._digest) if peer == self.other}
        mine = self.terms.cards[self.party]
        ordered = sorted(stubs, key=lambda stub: (stub.header.sender != mine, stub.header.number, stub.digest))
        positions = {stub: position for position, stub in enumerate(ordered)}
        kept = {receipt.digest: receipt for receipt in receipts if self._concerns(receipt)}
        return Bundle(
            self.invitation,
            parties,
            accepted,
            tuple(ordered),
            tuple(kept[digest] for digest in sorted(kept)),
            tuple(sorted(disclosures, key=lambda disclosure: positions[disclosure.stub])),
        )

    def disclosure(self, writer: str, number: int, *, messages: Iterable[bytes] = ()) -> Disclosure:
        """What proves what a letter said, to be shown to others.

        Args:
            writer: one of the two.
            number: of the letter among those from the writer to the other.
            messages: that this home wrote in the run, among which that of its own letter is.

        Raises:
            InvalidArgument: there is no such letter, or this home does not know any more what it said.
        """
        way = OUT if writer == self.party else IN
        kept = next((letter for letter in self.letters() if (letter.way, letter.number) == (way, number)), None)
        what = f"{writer}:{number}"
        if kept is None or writer not in (self.party, self.other):
            raise InvalidArgument("--disclose", what, f"is no letter between {self.party} and {self.other}")
        if kept.opening is None:
            raise InvalidArgument("--disclose", what, "the run is settled and its key gone: nobody here can show it")
        body = self._body_that_came(kept) if way == IN else self._body_that_left(kept, messages)
        if body is None:
            raise InvalidArgument(
                "--disclose", what, f"this home keeps no copy of what it says; {self.other} may have one"
            )
        return Disclosure(kept.signed_header, kept.opening, body)

    def _acceptance(self, name: str) -> Acceptance:
        keys, peer = self.book.run_keys(self._digest), self.book.peer(self._digest, name)
        data = keys.acceptance if name == self.party and keys else peer.acceptance if peer else b""
        if not data:
            raise BadDocument("bundle", f"{name} did not take part in run {self.terms.run}, as far as this home knows")
        return Acceptance.from_bytes(data)

    def _concerns(self, receipt: Receipt) -> bool:
        """Whether a receipt that is lying around is the other one's for the owner among the two, and holds."""
        signed, signer = receipt.transcript, acknowledging_party(self.terms)
        return (
            {signed.owner, signer} == {self.party, self.other}
            and (signed.run, signed.run_id, signed.terms) == (self.terms.run, self.terms.run_id, self.terms.digest)
            and (signed.owner_card, signed.curator_card) == (self.terms.cards[signed.owner], self.terms.cards[signer])
            and receipt.fault() is None
        )

    def _card(self, name: str) -> Card:
        return self.invitation.signed.card if name == self.terms.consumer else self._acceptance(name).card

    def _body_that_came(self, kept: KeptLetter) -> bytes | None:
        data, keys = self.book.letter_data(self._digest, self.other, IN, kept.number), self.book.run_keys(self._digest)
        if data is None or keys is None or keys.secret is None:
            return None
        letter = letter_in(data, most_bytes=MOST_BUNDLE_BYTES)
        return open_letter(letter, writer=self._card(self.other), reader=self._card(self.party), key=keys.secret).body

    def _body_that_left(self, kept: KeptLetter, messages: Iterable[bytes]) -> bytes | None:
        random = kept.opening or b""
        for data in messages:
            body = padded(random, data, step=padded_size(self.terms, decode(data))).body
            if discloses(kept.signed_header, random, body):
                return body
        return None
