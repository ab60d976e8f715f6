"""A bundle: what two parties of a run signed, put together for a third party who has their cards and nothing else.

It holds signed terms, acceptances, stubs of letters and receipts; no letter, so that nobody learns what they say, but
for single ones that whoever made it discloses. A bundle that exists is whole: each part is signed by whom it names and
belongs to the run. Nobody signs the bundle itself, since it proves nothing beyond its parts: it can be incomplete.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Self

from likeset.errors import BadDocument, LetterRefused, LikesetError
from likeset.homes.acceptances import is_acceptance_of
from likeset.homes.receipts import Receipt, receipt_in
from likeset.homes.signed_invitation import Invitation
from likeset.homes.transcripts import acknowledging_party
from likeset.protocol.terms import Terms
from likeset.trust.cards import Card
from likeset.trust.encoding import fields, read_fields, read_tagged
from likeset.trust.letters import Disclosure, Stub
from likeset.trust.signed_terms import Acceptance

__all__ = ["MOST_BUNDLE_BYTES", "Bundle"]

MOST_BUNDLE_BYTES = 1 << 27
_TAG = b"likeset bundle"
_WHAT = "bundle"


@dataclass(frozen=True)
class Bundle:
    """What two parties signed in a run.

    Attributes:
        invitation: the terms, signed by the consumer.
        parties: the names of the two.
        acceptances: of those of the two who are not the consumer.
        stubs: of letters from one to the other, by writer, number and digest.
        receipts: for the owner, of who acknowledges (``acknowledging_party``), where they are these two, by digest.
        disclosures: of some of the letters, in the order of the stubs.

    Raises:
        BadDocument: a part of it is not signed by whom it names, or belongs to something else.
    """

    invitation: Invitation
    parties: tuple[str, str]
    acceptances: tuple[Acceptance, ...] = ()
    stubs: tuple[Stub, ...] = field(default=(), repr=False)
    receipts: tuple[Receipt, ...] = field(default=(), repr=False)
    disclosures: tuple[Disclosure, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        self._check_parties()
        self._check_stubs()
        self._check_receipts()
        self._check_disclosures()

    @property
    def terms(self) -> Terms:
        """Of the run."""
        return self.invitation.terms

    @cached_property
    def cards(self) -> Mapping[str, Card]:
        """The cards that something here is signed with, by the names of their parties."""
        return {self.terms.consumer: self.invitation.signed.card} | {
            accepted.party: accepted.card for accepted in self.acceptances
        }

    def written_by(self, party: str) -> tuple[Stub, ...]:
        """The letters of one of the two, by number."""
        return tuple(stub for stub in self.stubs if stub.header.sender == self.terms.cards[party])

    def writer_of(self, stub: Stub) -> str:
        """Who of the two wrote a letter between them."""
        first, second = self.parties
        return first if stub.header.sender == self.terms.cards[first] else second

    def other(self, party: str) -> str:
        """The other one of the two."""
        first, second = self.parties
        return second if party == first else first

    @property
    def owner(self) -> str | None:
        """The owner among the two, if the other one signs receipts: only owners get some."""
        owners = [party for party in self.parties if party in self.terms.owners]
        return owners[0] if owners and self.signer in self.parties else None

    @property
    def signer(self) -> str:
        """Who signs receipts in this run: the curator, or the consumer where the curator is split."""
        return acknowledging_party(self.terms)

    # As bytes.

    def to_bytes(self) -> bytes:
        """As it stands in a file.

        Raises:
            BadDocument: nobody would read it.
        """
        lists: tuple[Iterable[bytes], ...] = (
            (accepted.to_bytes() for accepted in self.acceptances),
            (stub.to_bytes() for stub in self.stubs),
            (receipt.to_bytes() for receipt in self.receipts),
            (disclosure.to_bytes() for disclosure in self.disclosures),
        )
        names = (party.encode("ascii") for party in self.parties)
        data = fields(_TAG, self.invitation.to_bytes(), *names, *(fields(*parts) for parts in lists))
        if len(data) > MOST_BUNDLE_BYTES:
            raise BadDocument(_WHAT, f"would have more than {MOST_BUNDLE_BYTES:,} bytes; disclose fewer letters")
        return data

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The bundle that ``to_bytes`` wrote.

        Raises:
            BadDocument: it is none, or a part of it does not hold.
        """
        if len(data) > MOST_BUNDLE_BYTES:
            raise BadDocument(_WHAT, f"has more than {MOST_BUNDLE_BYTES:,} bytes")
        invited, first, second, *lists = read_tagged(_TAG, data, 7)
        acceptances, stubs, receipts, disclosures = (read_fields(part, None, what=_WHAT) for part in lists)
        try:
            bundle = cls(
                Invitation.read(invited),
                (first.decode("ascii"), second.decode("ascii")),
                tuple(map(Acceptance.from_bytes, acceptances)),
                tuple(map(Stub.from_bytes, stubs)),
                tuple(receipt_in("receipt", receipt) for receipt in receipts),
                tuple(map(Disclosure.from_bytes, disclosures)),
            )
        except BadDocument:
            raise
        except (LikesetError, UnicodeDecodeError) as error:
            raise BadDocument(_WHAT, f"has a part that cannot be read: {error}") from None
        if bundle.to_bytes() != data:
            raise BadDocument(_WHAT, "is not in its one form")
        return bundle

    # Whether its parts belong together.

    def _check_parties(self) -> None:
        first, second = self.parties
        if first == second or not {first, second} <= self.terms.cards.keys():
            raise BadDocument(_WHAT, "must be about two parties whom the terms name")
        if not all(is_acceptance_of(self.terms, accepted) for accepted in self.acceptances):
            raise BadDocument(_WHAT, "an acceptance in it is of another run, other terms or another card")
        wanted = [party for party in self.parties if party != self.terms.consumer]
        if [accepted.party for accepted in self.acceptances] != wanted:
            raise BadDocument(_WHAT, f"must hold one acceptance each of {' and '.join(wanted)}")

    def _check_stubs(self) -> None:
        run_and_terms = bytes.fromhex(self.terms.run_id), bytes.fromhex(self.terms.digest)
        cards = {self.terms.cards[party] for party in self.parties}
        order = []
        for stub in self.stubs:
            header = stub.header
            if (header.run_id, header.terms) != run_and_terms:
                raise BadDocument(_WHAT, "a letter in it is of another run, or under other terms")
            if {header.sender, header.recipient} != cards:
                raise BadDocument(_WHAT, f"a letter in it is not between {' and '.join(self.parties)}")
            writer = self.writer_of(stub)
            if not stub.is_signed_by(self.cards[writer]):
                raise BadDocument(_WHAT, f"letter {header.number} of {writer} is not signed by its card as it is")
            order.append((self.parties.index(writer), header.number, stub.digest))
        if any(former >= latter for former, latter in pairwise(order)):
            raise BadDocument(_WHAT, "its letters are not in their order, or one is there twice")

    def _check_receipts(self) -> None:
        if self.receipts and self.owner is None:
            raise BadDocument(_WHAT, f"only between an owner and the {self.signer} there are receipts")
        for receipt in self.receipts:
            signed = receipt.transcript
            named = (signed.run, signed.run_id, signed.terms, signed.owner, signed.owner_card)
            owner = self.owner or ""
            if named != (self.terms.run, self.terms.run_id, self.terms.digest, owner, self.terms.cards[owner]):
                raise BadDocument(_WHAT, "a receipt in it is of another run, other terms or another owner")
            if (fault := receipt.fault(self.cards[self.signer])) is not None:
                raise BadDocument(_WHAT, f"a receipt in it does not hold: {fault}")
        digests = [receipt.digest for receipt in self.receipts]
        if digests != sorted(set(digests)):
            raise BadDocument(_WHAT, "its receipts are not in their order, or one is there twice")

    def _check_disclosures(self) -> None:
        known = {stub: position for position, stub in enumerate(self.stubs)}
        positions = []
        for disclosure in self.disclosures:
            if disclosure.stub not in known:
                raise BadDocument(_WHAT, "it discloses a letter that is not in it")
            writer = self.writer_of(disclosure.stub)
            try:
                disclosure.opened_for(self.cards[writer])
            except LetterRefused as error:
                words = (
                    f"letter {disclosure.stub.header.number} of {writer} did not say what is disclosed: {error.reason}"
                )
                raise BadDocument(_WHAT, words) from None
            positions.append(known[disclosure.stub])
        if positions != sorted(set(positions)):
            raise BadDocument(_WHAT, "its disclosures are not in their order, or one is there twice")
