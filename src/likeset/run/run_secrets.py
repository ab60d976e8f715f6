"""What the parties of a run in one process draw once and need again to resume it: keys and seeds, from one number."""

import hashlib
from dataclasses import dataclass
from typing import Any, Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from likeset.ledger import Ledger, Request
from likeset.privacy.events import Event
from likeset.privacy.guarantee import View
from likeset.privacy.kept_rows import keep_key
from likeset.protocol.party import CURATOR
from likeset.protocol.planned_terms import PlannedTerms
from likeset.protocol.terms import WITNESS
from likeset.trust.cards import CardSecret
from likeset.trust.sealing import SealingSecret

__all__ = ["SECRETS", "RunSecrets"]

SECRETS = "run/secrets"
"""Under this kind they are kept in the ledger."""

_BYTES = 32


@dataclass(frozen=True, slots=True)
class RunSecrets:
    """Keys and seeds of one run.

    Attributes:
        root: a secret number of 256 bits; everything else follows from it, and nothing tells it.
    """

    root: int

    def kept(self, ledger: Ledger, view: View, *, run: str, content: bytes, told: Event) -> Self:
        """The secrets that this run began with; these, if it begins now.

        They lie in the ledger's journal, which is private and purged by run, and cost nothing. A run that goes on with
        other data than it began with is refused: it would get answers that were made for those.

        Args:
            ledger: where they are kept.
            view: of an account in it.
            run: name of the run.
            content: a digest of the data.
            told: what the terms of the run tell that view (``plans.size_event``): on record from its beginning.

        Raises:
            OtherRelation: the account has another relation than the run.
            DifferentRequest: the run began with other data.
        """
        request = Request(run, 0, SECRETS, content=content)
        data = ledger.answer(view, told, lambda: (self.root.to_bytes(_BYTES, "big"), None), request=request)
        return type(self)(int.from_bytes(data, "big"))

    @classmethod
    def found_in(cls, ledger: Ledger, *, run: str) -> Self | None:
        """The secrets that a run began with; None if it did not begin. Whether its data are the same is not asked."""
        key = Request(run, 0, SECRETS).key
        roots = (stored.message for stored in ledger.messages(run=run) if stored.key == key)
        root = next(roots, None)
        return None if root is None else cls(int.from_bytes(root, "big"))

    @property
    def feature_seed(self) -> int:
        """Of the release's features, where nobody wants a particular one; public."""
        return self._derived("features") >> 192

    @property
    def target_keep_key(self) -> int:
        """Decides which rows of an id of the target take part, where the schema keeps a few."""
        return keep_key(self.root, "target")

    def card(self, name: str) -> CardSecret:
        """The card of a party of a split run in one house: made for the run, and the same when it is resumed."""
        keys = [self._derived(f"card/{part}/{name}").to_bytes(_BYTES, "big") for part in range(4)]
        sealing = SealingSecret.from_bytes(b"".join(keys[1:]))
        return CardSecret(name, Ed25519PrivateKey.from_private_bytes(keys[0]), sealing)

    def named_parties(self, terms: PlannedTerms) -> dict[str, Any]:
        """What the terms of a split run in one house say of its parties: its number, and a card for each."""
        witness = [WITNESS] if terms.split is not None else []
        names = (terms.consumer, *terms.owners, CURATOR, *witness)
        cards = {name: self.card(name).card.fingerprint for name in names}
        return {"run_id": f"{self._derived('run id') >> 128:032x}", "cards": cards}

    def owner_key(self, name: str) -> int:
        """An owner's private sampling key."""
        return self._derived(f"owner/{name}")

    def owner_keep_key(self, name: str) -> int:
        """Decides which rows of an id of an owner in this process take part, where the schema keeps a few."""
        return keep_key(self.owner_key(name), "rows")

    def _derived(self, purpose: str) -> int:
        text = f"likeset/run/{purpose}/".encode() + self.root.to_bytes(_BYTES, "big")
        return int.from_bytes(hashlib.sha256(text).digest(), "big")
