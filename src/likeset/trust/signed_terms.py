"""Terms signed by the consumer, and acceptances signed by everybody else: both name a sealing key for the run.

Neither knows what terms say. Terms that were signed prove who asks; an acceptance proves who agreed to exactly these
terms, and where to seal letters to it in this run.
"""

from dataclasses import dataclass, field
from typing import Literal, Self, cast, get_args

from likeset.errors import BadDocument, InvalidArgument
from likeset.privacy.guarantee import checked_name
from likeset.trust.cards import Card, CardSecret
from likeset.trust.encoding import ACCEPTANCE_CONTEXT, TERMS_CONTEXT, fields, read_tagged
from likeset.trust.headers import DIGEST_BYTES, RUN_ID_BYTES
from likeset.trust.sealing import check_sealing_key

__all__ = [
    "MOST_ACCEPTANCE_BYTES",
    "MOST_TERMS_BYTES",
    "Acceptance",
    "AcceptingRole",
    "SignedTerms",
    "accept",
    "is_acceptance",
    "is_signed_terms",
    "sign_terms",
]

AcceptingRole = Literal["owner", "curator", "witness"]

MOST_TERMS_BYTES = 1 << 20
MOST_ACCEPTANCE_BYTES = 1 << 13
_TERMS_TAG, _ACCEPTANCE_TAG = b"likeset terms", b"likeset acceptance"


@dataclass(frozen=True, slots=True)
class SignedTerms:
    """An invitation: terms, and who asks.

    Attributes:
        text: the canonical JSON of the terms.
        card: of the consumer.
        run_key: its sealing key for the run.
        signature: over all of that, by the card.
    """

    text: str
    card: Card
    run_key: bytes = field(repr=False)
    signature: bytes = field(repr=False)

    def to_bytes(self) -> bytes:
        """As it travels."""
        return fields(_TERMS_TAG, *self._parts(), self.signature)

    @classmethod
    def from_bytes(cls, data: bytes, *, most_bytes: int = MOST_TERMS_BYTES) -> Self:
        """The signed terms that ``to_bytes`` wrote, their signature checked.

        Raises:
            BadDocument: they are none, too large, or changed after they were signed.
        """
        if len(data) > most_bytes:
            raise BadDocument("signed terms", f"have {len(data)} bytes; at most {most_bytes} are read")
        text, card, run_key, signature = read_tagged(_TERMS_TAG, data, 4)
        try:
            terms = cls(text.decode("utf-8"), Card.from_bytes(card), run_key, signature)
        except UnicodeDecodeError:
            raise BadDocument("signed terms", "are no text") from None
        terms.check()
        return terms

    def check(self) -> None:
        """The card signed these terms.

        Raises:
            BadDocument: it did not.
        """
        if not self.card.verify(TERMS_CONTEXT, self._parts(), self.signature):
            raise BadDocument("signed terms", f"{self.card.name}'s signature does not hold: they were changed since")
        check_sealing_key(self.run_key, what="signed terms")

    def _parts(self) -> tuple[bytes, ...]:
        return self.text.encode("utf-8"), self.card.to_bytes(), self.run_key


def sign_terms(text: str, secret: CardSecret, run_key: bytes) -> SignedTerms:
    """Terms, signed by the consumer.

    Args:
        text: their canonical JSON.
        secret: the consumer's.
        run_key: the public half of its sealing key for the run.
    """
    check_sealing_key(run_key, what="run key")
    signature = secret.sign(TERMS_CONTEXT, text.encode("utf-8"), secret.card.to_bytes(), run_key)
    return SignedTerms(text, secret.card, run_key, signature)


@dataclass(frozen=True, slots=True)
class Acceptance:
    """A party takes part in a run under its terms.

    Attributes:
        run_id: of the run, 16 bytes.
        terms: their digest, 32 bytes.
        role: as what it takes part.
        party: its name in the terms.
        card: its card.
        run_key: its sealing key for the run.
        signature: over all of that, by the card.
    """

    run_id: bytes
    terms: bytes
    role: AcceptingRole
    party: str
    card: Card
    run_key: bytes = field(repr=False)
    signature: bytes = field(repr=False)

    def to_bytes(self) -> bytes:
        """As it travels."""
        return fields(_ACCEPTANCE_TAG, *self._parts(), self.signature)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The acceptance that ``to_bytes`` wrote, its signature checked.

        Raises:
            BadDocument: it is none, or was changed after it was signed.
        """
        if len(data) > MOST_ACCEPTANCE_BYTES:
            raise BadDocument("acceptance", "is larger than an acceptance can be")
        run_id, terms, role, party, card, run_key, signature = read_tagged(_ACCEPTANCE_TAG, data, 7)
        try:
            words = role.decode("ascii"), party.decode("ascii")
        except UnicodeDecodeError:
            raise BadDocument("acceptance", "has a role or a name that no party has") from None
        accepted = cls(
            run_id, terms, cast(AcceptingRole, words[0]), words[1], Card.from_bytes(card), run_key, signature
        )
        accepted.check()
        return accepted

    def check(self) -> None:
        """The card signed this acceptance, and it has the form of one.

        Raises:
            BadDocument: it did not, or it has not.
        """
        if not self.card.verify(ACCEPTANCE_CONTEXT, self._parts(), self.signature):
            raise BadDocument("acceptance", f"{self.card.name}'s signature does not hold: it was changed since")
        if (
            len(self.run_id) != RUN_ID_BYTES
            or len(self.terms) != DIGEST_BYTES
            or self.role not in get_args(AcceptingRole)
        ):
            raise BadDocument("acceptance", "names no run, no terms or no role")
        try:
            checked_name("party", self.party)
        except InvalidArgument as error:
            raise BadDocument("acceptance", error.reason, field="party") from None
        check_sealing_key(self.run_key, what="acceptance")

    def _parts(self) -> tuple[bytes, ...]:
        names = self.role.encode("ascii"), self.party.encode("ascii")
        return self.run_id, self.terms, *names, self.card.to_bytes(), self.run_key


def accept(
    secret: CardSecret, *, run_id: bytes, terms: bytes, role: AcceptingRole, party: str, run_key: bytes
) -> Acceptance:
    """The acceptance of the holder of a card.

    Args:
        secret: the party's.
        run_id: of the run.
        terms: their digest.
        role: as what it takes part.
        party: its name in the terms.
        run_key: the public half of its new sealing key for the run.

    Raises:
        BadDocument: a part of it cannot be part of an acceptance.
    """
    unsigned = Acceptance(run_id, terms, role, party, secret.card, run_key, b"")
    accepted = Acceptance(
        run_id, terms, role, party, secret.card, run_key, secret.sign(ACCEPTANCE_CONTEXT, *unsigned._parts())
    )
    accepted.check()
    return accepted


def is_signed_terms(data: bytes) -> bool:
    """Whether bytes say of themselves that they are signed terms; whether they are, reading them tells."""
    return data.startswith(fields(_TERMS_TAG))


def is_acceptance(data: bytes) -> bool:
    """Whether bytes say of themselves that they are an acceptance; whether they are one, reading them tells."""
    return data.startswith(fields(_ACCEPTANCE_TAG))
