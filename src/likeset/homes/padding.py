"""How long a letter is, whatever it says: a size that follows from the terms alone.

Records are packed, so that their length depends on rows; what is sold depends on all owners' rows; and a target of a
protected size shows it. A body is padded to a multiple of the size that such a message has at most, by its terms.
"""

from likeset.privacy.events import Relation
from likeset.protocol.messages import Delivery, Message, Offer, Summary, Target
from likeset.protocol.split.run_shape import most_part_bytes
from likeset.protocol.split.split_messages import TargetShare
from likeset.protocol.terms import Terms

__all__ = ["most_bytes_from", "most_bytes_to_owner", "most_receipt_bytes", "padded_size"]

_SHORT = 1 << 10  # of messages whose length tells nothing
_HEAD = 1 << 14
_PER_COLUMN = 1 << 9  # of a table, however many rows it has
_PER_LABEL = 1 << 8
_PER_NUMBER = 8
_PER_OWNER = 1 << 10  # in a summary: whether it took part, and why not
_PER_ACCEPTANCE = 1 << 12  # which go to the curator beside the target
_RELEASE_HEAD = 1 << 21
_PER_COORDINATE = 64  # bytes of a release, with its coordinates, and room to spare
_RECEIPT_HEAD, _RECEIPT_PER_ROUND, _LARGEST_RECEIPT = 1 << 14, 1 << 13, 1 << 27
_LARGEST_LETTER = 1 << 28
_AROUND = 1 << 14  # bytes of a letter beyond its message: header, signature, seal, padding, the curator's acceptance


def padded_size(terms: Terms, message: Message | None) -> int:
    """The multiple to which the body of a letter with this message is padded, in bytes."""
    return _padded_size(terms, type(None) if message is None else type(message.body))


def _padded_size(terms: Terms, kind: type[object]) -> int:
    width = terms.kernel.columns
    row = 4 * width + terms.record_bytes + _PER_LABEL + 6 * _PER_NUMBER + len(terms.columns)
    table = _HEAD + _PER_COLUMN * len(terms.columns)
    # A size that is declared is near the true one, which may be the larger of the two.
    target_rows = terms.target_size * (2 if terms.relation is Relation.ADD_OR_REMOVE else 1)
    sizes: dict[type[object], int] = {
        Offer: table + row * terms.rows_per_owner,
        Delivery: table + row + 4 * terms.kernel.dimension,
        Summary: table + row * terms.size + _PER_OWNER * len(terms.owners),
        Target: _HEAD
        + 4 * width * target_rows
        + _PER_NUMBER * terms.kernel.dimension
        + _PER_ACCEPTANCE * len(terms.owners),
        # Of the words of the target alone; parts, receipts, votes and envelopes have lengths that terms fix.
        TargetShare: _HEAD + _PER_NUMBER * width * target_rows + _PER_ACCEPTANCE * (len(terms.owners) + 1),
    }
    return sizes.get(kind, _SHORT)


def most_receipt_bytes(terms: Terms) -> int:
    """No receipt of a run needs more: it has a few lines for each round."""
    rounds = terms.size if terms.protocol == "interactive" else 2
    return min(_RECEIPT_HEAD + _RECEIPT_PER_ROUND * rounds, _LARGEST_RECEIPT)


def most_bytes_to_owner(terms: Terms) -> int:
    """No letter to an owner needs more: it hears releases, yes or no, and a receipt; only a consumer is sent rows."""
    return max(_RELEASE_HEAD + _PER_COORDINATE * terms.kernel.dimension, most_receipt_bytes(terms)) + _AROUND


def most_bytes_from(terms: Terms, party: str) -> int:
    """No letter of this party to one that is no owner needs more."""
    sizes = [most_bytes_to_owner(terms)]
    if party in terms.owners:
        sizes += [_padded_size(terms, Offer), _padded_size(terms, Delivery)] if terms.split is None else []
        sizes += most_part_bytes(terms) if terms.split is not None else ()
    else:
        sizes += [_padded_size(terms, kind) for kind in (Target, TargetShare, Summary)]
        sizes += [sum(most_part_bytes(terms)) * len(terms.owners)] if terms.split is not None else []
    return min(2 * max(sizes), _LARGEST_LETTER)  # twice, since what is padded may take two steps
