"""What can be shown about slots of one owner's offer in a split run, in a file for a third party.

It holds signed terms, acceptances, the owner's signed list, receipts and rosters of compute parties, K, and what was
opened of single slots. Whoever reads it needs nothing else. Nobody signs the file: it proves what its parts prove.
**It shows the records of its slots**, or lets them be found.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

from likeset.errors import BadDocument, LikesetError
from likeset.homes.acceptances import is_acceptance_of
from likeset.homes.signed_invitation import Invitation
from likeset.protocol.split.run_shape import offer_context, party_name
from likeset.protocol.split.slot_records import records_of_run
from likeset.protocol.terms import Terms
from likeset.tables.schema.declared_records import DeclaredRecords
from likeset.tables.schema.schema import Schema
from likeset.trust.cards import Card
from likeset.trust.encoding import fields, read_fields, read_tagged
from likeset.trust.picks import RecordReader
from likeset.trust.row_shares import COMPUTE_ROLES, ComputeRole
from likeset.trust.share_receipts import SignedRoster
from likeset.trust.signed_terms import Acceptance
from likeset.trust.slot_evidence import OfferEvidence, SlotEvidence

__all__ = ["MOST_SLOT_FILE_BYTES", "SlotFile", "is_slot_file", "merged"]

MOST_SLOT_FILE_BYTES = 1 << 27
_TAG = b"likeset slots"
_WHAT = "evidence"


@dataclass(frozen=True)
class SlotFile:
    """What somebody shows about one owner's offer.

    Attributes:
        invitation: the terms, signed by the consumer.
        acceptances: of the owner and of the compute parties but the consumer, in this order.
        schema: the text of the schema that the terms name; empty where whoever made the file does not have it.
        evidence: the owner's list, receipts, K, slots.
        rosters: as compute parties signed them.

    Raises:
        BadDocument: a part of it is not signed by whom it names, or belongs to something else.
    """

    invitation: Invitation
    acceptances: tuple[Acceptance, ...]
    schema: str
    evidence: OfferEvidence = field(repr=False)
    rosters: tuple[SignedRoster, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if self.terms.split is None:
            raise BadDocument(_WHAT, "the curator of this run was trusted: there are no slots")
        self._check_parties()
        listed = self.evidence.offer_list
        if listed.context != offer_context(self.terms, self.owner):
            raise BadDocument(_WHAT, "its list is of another run, other terms or other parties")
        parties = self.compute_cards
        self.evidence.check_signed(self.cards[self.owner], parties)
        for signed in self.rosters:
            if signed.role not in parties or not signed.is_signed_by(parties[signed.role]):
                raise BadDocument(_WHAT, "a roster in it is not signed by whom it names")
            if signed.roster.terms != listed.context.terms or signed.roster.parties != listed.context.parties:
                raise BadDocument(_WHAT, "a roster in it is of another run, or of other parties")
        if self.schema and _schema(self.schema).digest != self.terms.schema_digest:
            raise BadDocument(_WHAT, "its schema is not the one that the terms name")

    @property
    def terms(self) -> Terms:
        """Of the run."""
        return self.invitation.terms

    @cached_property
    def owner(self) -> str:
        """The name of the owner in the terms.

        Raises:
            BadDocument: the terms name nobody of that card as an owner.
        """
        wanted = self.evidence.offer_list.context.owner
        for name in self.terms.owners:
            if self.terms.cards[name] == wanted:
                return name
        raise BadDocument(_WHAT, "its list is of nobody who is an owner in this run")

    @cached_property
    def cards(self) -> dict[str, Card]:
        """Of the owner and the compute parties, by their names in the terms."""
        return {self.terms.consumer: self.invitation.signed.card} | {
            accepted.party: accepted.card for accepted in self.acceptances
        }

    @property
    def compute_cards(self) -> dict[ComputeRole, Card]:
        """Of the compute parties, by role."""
        return {role: self.cards[party_name(self.terms, role)] for role in COMPUTE_ROLES}

    @cached_property
    def reader(self) -> RecordReader | None:
        """Reads records; None where the schema is missing."""
        if not self.terms.schema_digest:
            return records_of_run(self.terms, None)
        return records_of_run(self.terms, DeclaredRecords(_schema(self.schema))) if self.schema else None

    def to_bytes(self) -> bytes:
        """As it stands in a file: secret.

        Raises:
            BadDocument: nobody would read it.
        """
        data = fields(
            _TAG,
            self.invitation.to_bytes(),
            fields(*(accepted.to_bytes() for accepted in self.acceptances)),
            self.schema.encode(),
            self.evidence.to_bytes(),
            fields(*(signed.to_bytes() for signed in self.rosters)),
        )
        if len(data) > MOST_SLOT_FILE_BYTES:
            raise BadDocument(_WHAT, f"would have more than {MOST_SLOT_FILE_BYTES:,} bytes")
        return data

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The evidence that ``to_bytes`` wrote; what it proves, ``slot_disputes`` says.

        Raises:
            BadDocument: it is none, or a part of it does not hold.
        """
        if len(data) > MOST_SLOT_FILE_BYTES:
            raise BadDocument(_WHAT, f"has more than {MOST_SLOT_FILE_BYTES:,} bytes")
        invited, accepted, schema, evidence, rosters = read_tagged(_TAG, data, 5)
        try:
            made = cls(
                Invitation.read(invited),
                tuple(map(Acceptance.from_bytes, read_fields(accepted, None, what=_WHAT))),
                schema.decode("utf-8"),
                OfferEvidence.from_bytes(evidence),
                tuple(map(SignedRoster.from_bytes, read_fields(rosters, None, what=_WHAT))),
            )
        except BadDocument:
            raise
        except (LikesetError, UnicodeDecodeError) as error:
            raise BadDocument(_WHAT, f"has a part that cannot be read: {error}") from None
        if made.to_bytes() != data:
            raise BadDocument(_WHAT, "is not in its one form")
        return made

    def _check_parties(self) -> None:
        if not all(is_acceptance_of(self.terms, accepted) for accepted in self.acceptances):
            raise BadDocument(_WHAT, "an acceptance in it is of another run, other terms or another card")
        computing = [party_name(self.terms, role) for role in COMPUTE_ROLES if role != "consumer"]
        wanted = [self.owner, *computing]
        if [accepted.party for accepted in self.acceptances] != wanted:
            raise BadDocument(_WHAT, f"must hold one acceptance each of {' and '.join(wanted)}")


def is_slot_file(data: bytes) -> bool:
    """Whether these bytes call themselves one."""
    return data.startswith(fields(_TAG))


def merged(files: Iterable[SlotFile]) -> SlotFile:
    """All that files about one list show: of what contradicts, whatever the list commits to.

    Raises:
        BadDocument: they are about different lists, or there is none.
    """
    every = list(files)
    if len({(file.terms.digest, file.evidence.offer_list.digest) for file in every}) != 1:
        raise BadDocument(_WHAT, "the files are about different runs, owners or lists")
    first = every[0]
    receipts = {receipt.role: receipt for file in every for receipt in file.evidence.receipts}
    rosters = {(signed.role, signed.roster.digest): signed for file in every for signed in file.rosters}
    keys = [file.evidence.true_key() for file in every]
    slots: dict[int, SlotEvidence] = {}
    for file in every:
        for shown in file.evidence.slots:
            slots[shown.slot] = _joined(slots.get(shown.slot), shown, file.evidence)
    evidence = OfferEvidence(
        first.evidence.offer_list,
        tuple(receipts[role] for role in COMPUTE_ROLES if role in receipts),
        next((key for key in keys if key), b""),
        tuple(slots[slot] for slot in sorted(slots)),
    )
    schema = next((file.schema for file in every if file.schema), "")
    ordered = tuple(rosters[place] for place in sorted(rosters))
    return SlotFile(first.invitation, first.acceptances, schema, evidence, ordered)


def _joined(known: SlotEvidence | None, more: SlotEvidence, evidence: OfferEvidence) -> SlotEvidence:
    """What two say about a slot, as far as the list commits to it."""
    both = [shown for shown in (known, more) if shown is not None]
    openings = {
        opening.role: opening
        for shown in both
        for opening in shown.openings
        if opening.role in shown.true_shares(evidence.offer_list)
    }
    return SlotEvidence(
        more.slot,
        more.digests,
        next((shown.true_random() for shown in both if shown.true_random()), b""),
        next((shown.true_envelope() for shown in both if shown.true_envelope()), b""),
        tuple(openings[role] for role in COMPUTE_ROLES if role in openings),
    )


def _schema(text: str) -> Schema:
    try:
        return Schema.from_text(text)
    except LikesetError:
        raise BadDocument(_WHAT, "its schema cannot be read") from None
