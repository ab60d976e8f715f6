"""What a compute party asks of another's word: is it as the terms say, and did that party sign it?"""

from dataclasses import dataclass, field

from likeset.errors import BadDocument
from likeset.privacy.events import Relation
from likeset.protocol.split.run_shape import offer_context, target_commitment
from likeset.protocol.split.split_messages import ShareReceipts, TargetShare
from likeset.protocol.split.split_terms import MOST_SPLIT_TARGET
from likeset.protocol.terms import Terms
from likeset.trust.cards import Card
from likeset.trust.encoding import read_fields
from likeset.trust.headers import DIGEST_BYTES
from likeset.trust.offer_lists import SALT_BYTES
from likeset.trust.row_shares import COMPUTE_ROLES, WORD_BYTES, ComputeRole
from likeset.trust.share_receipts import ShareReceipt

__all__ = ["HeldTarget", "checked_receipts", "checked_target"]


@dataclass(frozen=True, eq=False)
class HeldTarget:
    """A compute party's share of the target.

    Attributes:
        share: its words, as they travel.
        commitments: to the shares of all compute parties, in their order.
    """

    share: bytes = field(repr=False)
    commitments: tuple[bytes, ...]


def checked_target(terms: Terms, role: ComputeRole, body: TargetShare) -> HeldTarget:
    """A party's share of the target, as the consumer committed to it.

    Raises:
        BadDocument: it has another shape than the terms say, or is not what was committed to.
    """
    share, commitments, parties = body.share.tobytes(), body.commitments.tobytes(), COMPUTE_ROLES
    rows, rest = divmod(len(share), WORD_BYTES * terms.kernel.columns)
    declared = terms.target_size if terms.relation is Relation.REPLACE_ONE else rows
    if rest or rows != declared or not 1 <= rows <= MOST_SPLIT_TARGET or len(body.salt) != SALT_BYTES:
        raise BadDocument("target", "does not have the shape of the terms")
    if len(commitments) != DIGEST_BYTES * len(parties):
        raise BadDocument("target", "has not one commitment for each compute party")
    each = tuple(commitments[start : start + DIGEST_BYTES] for start in range(0, len(commitments), DIGEST_BYTES))
    own = target_commitment(terms, role, salt=body.salt.tobytes(), share=share)
    if own != each[parties.index(role)]:
        raise BadDocument("target", "is not the share that the consumer committed to")
    return HeldTarget(share, each)


def checked_receipts(terms: Terms, role: ComputeRole, body: ShareReceipts, *, card: Card) -> tuple[ShareReceipt, ...]:
    """The receipts of the compute party of a role.

    Args:
        terms: of the run.
        role: of whoever sent them.
        body: what it sent.
        card: its own.

    Raises:
        BadDocument: one is of another run or party, of nobody's offer or of one that was named before, or is not
            signed.
    """
    receipts = tuple(map(ShareReceipt.from_bytes, read_fields(body.receipts.tobytes(), None, what="share receipts")))
    names = {terms.cards[owner]: owner for owner in terms.owners}
    told = [names.get(receipt.context.owner) for receipt in receipts]
    if len(set(told)) < len(told):
        raise BadDocument("share receipts", "name an owner twice")
    for receipt, owner in zip(receipts, told, strict=True):
        if owner is None or receipt.context != offer_context(terms, owner) or receipt.role != role:
            raise BadDocument("share receipts", "are of another run, another party, or nobody's offer")
        if not receipt.is_signed_by(card):
            raise BadDocument("share receipts", f"the {role} did not sign them")
    return receipts
