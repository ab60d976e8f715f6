"""What a compute party's home can show about slots of an owner's offer, from the letters that it keeps.

Consumer, curator and witness keep their letters until the terms end, and so can open until then what they signed for. A
home shows a slot to others only if somebody proves that it was opened to the consumer already: by the slot's r, which
nobody can know otherwise. So nobody learns of a row that was not bought by asking about it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from likeset.errors import BadDocument, InvalidArgument
from likeset.homes.letter_book import LetterBook
from likeset.homes.letter_records import IN
from likeset.homes.signed_invitation import Invitation
from likeset.homes.slot_files import SlotFile, merged
from likeset.protocol.messages import MOST_BYTES, decode
from likeset.protocol.split.run_shape import offer_shape, party_name, role_of, split_terms
from likeset.protocol.split.split_messages import Envelopes, OfferShare, RosterVote, ShareReceipts
from likeset.protocol.terms import Terms
from likeset.trust.cards import Card
from likeset.trust.encoding import read_fields
from likeset.trust.letters import letter_in, open_letter
from likeset.trust.row_shares import COMPUTE_ROLES, ComputeRole
from likeset.trust.share_receipts import ShareReceipt, SignedRoster
from likeset.trust.shared_offers import OfferPart
from likeset.trust.signed_terms import Acceptance
from likeset.trust.slot_evidence import OfferEvidence, SlotEvidence, opening_of

__all__ = ["ShownSlots"]

_Body = TypeVar("_Body", OfferShare, ShareReceipts, RosterVote, Envelopes)


@dataclass(frozen=True, eq=False)
class ShownSlots:
    """What one home can show about offers in one run.

    Args:
        book: its letters.
        invitation: the terms, as the consumer signed them.

    Raises:
        InvalidArgument: the home did not compute in this run, or the terms have ended and its key is gone.
    """

    book: LetterBook
    invitation: Invitation

    def __post_init__(self) -> None:
        if self.terms.split is None:
            raise InvalidArgument("RUN", self.terms.run, "had a trusted curator: nothing of it was shared")
        _ = self.role
        keys = self.book.run_keys(self._digest)
        if keys is None or keys.secret is None:
            reason = "is settled here and its key gone: disputes can be decided until the terms end"
            raise InvalidArgument("RUN", self.terms.run, reason)

    @property
    def terms(self) -> Terms:
        """Of the run."""
        return self.invitation.terms

    @cached_property
    def role(self) -> ComputeRole:
        """Of this home in the computation.

        Raises:
            InvalidArgument: it has none.
        """
        keys = self.book.run_keys(self._digest)
        accepted = b"" if keys is None else keys.acceptance
        name = Acceptance.from_bytes(accepted).party if accepted else self.terms.consumer
        role = role_of(self.terms, name)
        if role is None:
            raise InvalidArgument("--home", name, f"did not compute in run {self.terms.run}: only who did has shares")
        return role

    def file(self, owner: str, randoms: Mapping[int, bytes], *, schema: str = "") -> SlotFile:
        """What this home shows about slots of an owner's offer.

        Args:
            owner: its name in the terms.
            randoms: of the slots that are shown, r as it was opened; empty bytes where it is not known.
            schema: the text of the schema, where this home has it.

        Raises:
            InvalidArgument: no part of that owner's offer is here.
        """
        part = self._part(owner)
        outside = [slot for slot in randoms if not 0 <= slot < part.offer_list.slots]
        if outside:
            raise InvalidArgument("slot", outside[0], f"must be one of 0 to {part.offer_list.slots - 1}")
        slots = tuple(
            SlotEvidence(
                slot,
                part.digests_of(slot),
                randoms[slot],
                self._envelope(part, owner, slot),
                (opening_of(part, slot),),
            )
            for slot in sorted(randoms)
        )
        receipts = tuple(
            receipt
            for role in COMPUTE_ROLES
            for receipt in self._receipts(role)
            if (receipt.context, receipt.list_digest) == (part.offer_list.context, part.offer_list.digest)
        )
        evidence = OfferEvidence(part.offer_list, receipts, part.key, slots)
        computing = [party_name(self.terms, role) for role in COMPUTE_ROLES if role != "consumer"]
        acceptances = tuple(self._acceptance(name) for name in (owner, *computing))
        return SlotFile(self.invitation, acceptances, schema, evidence, tuple(self._rosters()))

    def answer(self, asked: SlotFile, *, unproven: bool = False) -> SlotFile:
        """The same evidence with what this home can open of its slots.

        Args:
            asked: evidence from somebody else, about this run.
            unproven: whether slots are opened, too, of which nothing proves that they were opened to the consumer.

        Raises:
            InvalidArgument: it is about another run, or asks to open what was not opened to the consumer.
        """
        if asked.terms.digest != self.terms.digest:
            raise InvalidArgument("--open", asked.terms.run, "is about other terms than those of this home's run")
        if len(asked.evidence.slots) > split_terms(self.terms).openings:
            raise InvalidArgument("--open", len(asked.evidence.slots), "asks about more slots than could be bought")
        part = self._part(asked.owner)
        if part.offer_list.digest != asked.evidence.offer_list.digest:
            return self.file(asked.owner, {})  # the owner signed another list for this home: that is evidence, too
        dark = [shown.slot for shown in asked.evidence.slots if not shown.true_random()]
        if dark and not unproven:
            slots = ", ".join(map(str, dark))
            reason = (
                f"nothing proves that slot {slots} of {asked.owner} was opened to the consumer: whoever gets your "
                "share may learn a row that was not bought. If a third party whom you trust asks, give --unproven, "
                "and the file to that party alone"
            )
            raise InvalidArgument("--open", asked.terms.run, reason)
        randoms = {shown.slot: shown.true_random() for shown in asked.evidence.slots}
        return merged([asked, self.file(asked.owner, randoms)])

    # From letters.

    @property
    def _digest(self) -> bytes:
        return bytes.fromhex(self.terms.digest)

    def _part(self, owner: str) -> OfferPart:
        if owner not in self.terms.owners:
            names = ", ".join(self.terms.owners)
            raise InvalidArgument("--with", owner, f"is no owner of run {self.terms.run}; there are {names}")
        for body in self._bodies(OfferShare, owner):
            part = OfferPart.from_bytes(body.part.tobytes())
            if part.role == self.role:
                return part
        raise InvalidArgument("--with", owner, f"sent this home nothing in run {self.terms.run}")

    def _receipts(self, role: ComputeRole) -> Iterator[ShareReceipt]:
        for body in self._bodies(ShareReceipts, party_name(self.terms, role)):
            yield from map(ShareReceipt.from_bytes, read_fields(body.receipts.tobytes(), None, what="share receipts"))

    def _rosters(self) -> Iterator[SignedRoster]:
        for role in COMPUTE_ROLES:
            for body in self._bodies(RosterVote, party_name(self.terms, role)):
                yield SignedRoster.from_bytes(body.roster.tobytes())

    def _envelope(self, part: OfferPart, owner: str, slot: int) -> bytes:
        """At the curator as it came from the owner, at the consumer as the curator passed it on."""
        if self.role == "curator":
            return part.envelope_of(slot)
        if self.role != "consumer" or owner not in self._passed_on[0]:
            return b""
        size, slots = offer_shape(self.terms).envelope_bytes, offer_shape(self.terms).slots
        start = size * (slots * self._passed_on[0].index(owner) + slot)
        return self._passed_on[1][start : start + size]

    @cached_property
    def _passed_on(self) -> tuple[list[str], bytes]:
        """Whose envelopes the curator passed on to the consumer, and all of them, one after another."""
        rosters = [signed.roster.lists for signed in self._rosters()]
        named = [name for name in self.terms.owners if rosters and self.terms.cards[name] in rosters[0]]
        bodies = list(self._bodies(Envelopes, party_name(self.terms, "curator")))
        return (named, bodies[0].envelopes.tobytes()) if bodies else ([], b"")

    def _bodies(self, kind: type[_Body], writer: str) -> Iterable[_Body]:
        """What letters of a kind from somebody say."""
        keys = self.book.run_keys(self._digest)
        assert keys is not None  # noqa: S101 - looked at first
        assert keys.secret is not None  # noqa: S101 - likewise
        for kept in self.book.letters(self._digest, writer):
            data = self.book.letter_data(self._digest, writer, IN, kept.number)
            if kept.way != IN or kept.kind != kind.kind or data is None:
                continue
            letter = letter_in(data, most_bytes=MOST_BYTES)
            own = party_name(self.terms, self.role)
            opened = open_letter(letter, writer=self._card(writer), reader=self._card(own), key=keys.secret)
            body = decode(opened.message, most_bytes=MOST_BYTES).body
            if isinstance(body, kind):
                yield body

    def _card(self, name: str) -> Card:
        return self.invitation.signed.card if name == self.terms.consumer else self._acceptance(name).card

    def _acceptance(self, name: str) -> Acceptance:
        keys, peer = self.book.run_keys(self._digest), self.book.peer(self._digest, name)
        own = keys is not None and name == party_name(self.terms, self.role)
        data = keys.acceptance if keys is not None and own else peer.acceptance if peer else b""
        if not data:
            raise BadDocument(
                "evidence", f"{name} did not take part in run {self.terms.run}, as far as this home knows"
            )
        return Acceptance.from_bytes(data)
