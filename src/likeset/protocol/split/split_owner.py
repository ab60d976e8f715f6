"""An owner of a split run: weighs and draws at home as ever, and lets its rows leave as shares and envelopes only."""

import numpy as np

from likeset.errors import IllegalMessage, InvalidArgument
from likeset.privacy.events import Unbounded
from likeset.privacy.guarantee import View
from likeset.protocol.messages import Message
from likeset.protocol.offers import Weighing, draw_offer
from likeset.protocol.owner import Scan
from likeset.protocol.sealed import SealedOwner
from likeset.protocol.split.run_shape import largest_word, offer_context, offer_shape
from likeset.protocol.split.shared_replies import kept_offer, shared_replies
from likeset.protocol.split.slot_records import records_of_run
from likeset.protocol.steps import ChargeWanted, Work
from likeset.protocol.terms import Terms
from likeset.tables.records import DeclaredRecords
from likeset.trust.cards import CardSecret
from likeset.trust.row_shares import fixed_point
from likeset.trust.shared_offers import share_offer

__all__ = ["SplitOwner"]


class SplitOwner(SealedOwner):
    """Offers rows that look like the target, one part to each compute party; only the buyer will read any of them.

    Args:
        terms: of the run.
        name: the owner's name in the terms.
        scan: its rows.
        key: secret and kept: decides which rows are drawn and how they are named toward others.
        secret: the owner's card, with which it signs its list.
        declared: the schema that declares its rows; None for bare arrays.

    Raises:
        InvalidArgument: the terms name another card for this owner.

    Privacy contract:
        Protects:  every row, label and record that is not opened to the consumer, and how many slots are empty.
        Reveals:   to curator and witness, each with any owners: nothing but the terms; to the consumer: the records
                   of at most ``openings`` slots, and what ``docs/proofs/split.md`` says follows from them.
        Costs:     ``rows_per_owner`` rows offered, charged before a share is drawn.
        Assumes:   no two compute parties work together, and all follow the protocol.
        Basis:     cryptographic, docs/proofs/split.md
    """

    def __init__(
        self,
        terms: Terms,
        name: str,
        *,
        scan: Scan,
        key: int,
        secret: CardSecret,
        declared: DeclaredRecords | None = None,
    ) -> None:
        super().__init__(terms, name, scan=scan, key=key, declared=declared)
        if terms.cards.get(name) != secret.card.fingerprint:
            raise InvalidArgument("secret", secret.card.name, f"is not the card that the terms name for {name}")
        self._secret = secret
        self._records = records_of_run(terms, declared)

    def _sealed_offer(self, message: Message, weighing: Weighing) -> Work:
        """One part to each compute party, charged before it is drawn and kept so that it can be sent again.

        Which rows are offered follows from the owner's key, so they are drawn and written as records before the
        charge: what cannot be offered costs nothing. Shares are drawn after it, with coins. Nothing leaves before the
        ledger keeps all of them; so where a crash came in between, drawing others for the same charge tells nothing.
        """
        handles, leaving = self._leaving(draw_offer(self.terms, self._scan, weighing, keys=self._keys))
        records = self._records.encode(leaving, handles)
        read = self._records.read(records)
        if not read.sound.all():
            raise IllegalMessage("a row of this owner makes no record that its buyer could read")
        if np.abs(fixed_point(read.rows).view(np.int64)).max(initial=0) > largest_word(self.terms):
            raise IllegalMessage("a row of this owner is beyond the range of the terms, so that it would not count")

        def draw() -> tuple[bytes, None]:
            shared = share_offer(
                self._secret,
                context=offer_context(self.terms, self.name),
                shape=offer_shape(self.terms),
                rows=read.rows,
                classes=np.empty(0, dtype=np.int64),
                records=records,
            )
            return kept_offer(shared), None

        kept = yield ChargeWanted(
            costs=(
                (View.curator(self.name), Unbounded("rows are offered in shares; the consumer reads those bought")),
            ),
            draw=draw,
            run=self.terms.run,
            round=message.round,
            kind=f"{self.name}/shared-offer",
            content=message.data,
            rows=self.terms.rows_per_owner,
            readable=self.terms.rows_readable,
            repeatable=True,
        )
        self.rows_disclosed = len(records)
        return shared_replies(message, kept)
