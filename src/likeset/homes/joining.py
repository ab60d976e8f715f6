"""Joining: an invitation, a reply, and words that two people compare on a call before cards are pinned.

The words are a stretched digest of the invitation and of the new party's card, so one comparison covers both ways
(docs/limits.md#joining). Nothing here opens a mailbox: callers pass a store.
"""

import base64
import hashlib
import json
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, Self

from mnemonic import Mnemonic
from pydantic import AfterValidator, Field, ValidationError

from likeset import documents
from likeset.arguments import checked_name
from likeset.documents import Document
from likeset.errors import BadDocument, InvalidArgument, PostTrouble
from likeset.files import keep_private_bytes, make_private_folder
from likeset.homes.home import Home, MailboxAddress, PartyName, make_home, stamp
from likeset.homes.policy import NO_RULES, Policy, policy_changes
from likeset.homes.runs import MUST_BE_PINNED
from likeset.protocol import wire
from likeset.tables.schema import Schema
from likeset.trust.cards import (
    INVITE_CONTEXT,
    INVITE_TAG,
    REPLY_CONTEXT,
    SEAL_BYTES,
    Card,
    CardSecret,
    Pin,
    Role,
    Signed,
    fields,
    seal,
    signed,
)
from likeset.trust.letters import SignedTerms, versions_in

JoiningRole = Literal["owner", "curator", "witness"]
SCHEMA_FILE = "schema.yaml"
MOST_BYTES = 1 << 18  # of an invitation: its schema is read before words are compared

_FOLDER = "invitations"
_REPLY_STEP = 4096
_MOST_REPLIES = 32  # files that one check reads in the folder of an invitation
_SLOW_CLOCK = timedelta(hours=1)
_WORDS, _WORDS_INTRODUCED, _BITS = 8, 12, 11
_KEY_BYTES = 17
_SCRYPT = {"n": 1 << 16, "r": 8, "p": 1, "maxmem": 1 << 27}  # 64 MiB
_WORDS_TAG = b"likeset joining words 1"


class ReplyStore(Protocol):
    """The part of ``transports.stores.Store`` that joining needs."""

    def list(self, folder: str) -> Sequence[Any]: ...

    def read(self, folder: str, name: str, *, most_bytes: int) -> bytes: ...


def _checked_time(text: str) -> str:
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("must have a time zone")
    return text


_Time = Annotated[str, AfterValidator(_checked_time)]


class Proposal(Document):
    likeset: Literal["invite"] = "invite"
    version: Literal[1] = 1
    name: PartyName  # of the party that is invited
    role: JoiningRole  # that it is to have
    mailbox: MailboxAddress  # where letters and the reply come and go
    reply_to: Annotated[str, Field(pattern=r"^[a-z2-7]{32}$")]  # the folder of the mailbox for the reply; random
    issued: _Time  # when it was signed (UTC)
    expires: _Time  # when it ends (UTC)
    columns: str = ""  # the text of ``schema.yaml``
    rules: Policy | None = None  # ``owner.yaml`` as proposed; for owners only


@dataclass(frozen=True)
class Invitation(Signed):
    """An invitation to join a market; ``from_bytes`` checks its signature, cards and rules."""

    tag = INVITE_TAG
    context = INVITE_CONTEXT
    text: str
    card: Card  # of the consumer, which signs
    curator: Card | None
    witness: Card | None
    by_curator: bytes = field(repr=False)  # the curator's signature, if it belongs to the consumer
    signature: bytes = field(repr=False)

    @property
    def stated(self) -> tuple[bytes, ...]:
        others = (b"" if card is None else card.to_bytes() for card in (self.curator, self.witness))
        return self.text.encode("utf-8"), self.card.to_bytes(), *others

    @property
    def parts(self) -> tuple[bytes, ...]:
        return *self.stated, self.by_curator

    @classmethod
    def from_bytes(cls, data: bytes, *, name: str = "invitation") -> Self:
        if SignedTerms.is_in(data):
            raise BadDocument(name, "contains the terms of a run, and invites nobody to join")
        try:
            text, card, curator, witness, by_curator, signature = cls.read(data, 5, most_bytes=MOST_BYTES)
            others = [Card.from_bytes(other) if other else None for other in (curator, witness)]
            invitation = cls(text.decode("utf-8"), Card.from_bytes(card), others[0], others[1], by_curator, signature)
            invitation.check()
        except UnicodeDecodeError:
            raise BadDocument(name, "is not an invitation, or is damaged; ask for the file again") from None
        except BadDocument as error:
            raise BadDocument(name, f"{error.reason}; ask for the file again", field=error.field) from None
        return invitation

    def check(self) -> None:
        self.check_signed_by(self.card)
        proposal, cards = self.proposal, [card for card in (self.card, self.curator, self.witness) if card is not None]
        names = [proposal.name, *(card.name for card in cards)]
        if any("/" in name for name in names):
            raise BadDocument("invitation", "has a name with a slash, and names become those of files and folders")
        if len(set(names)) < len(names) or len({card.sealing for card in cards}) < len(cards):
            raise BadDocument("invitation", "gives one name or one key to two parties")
        if (self.curator is None) != (proposal.role == "curator") or (self.witness and proposal.role != "owner"):
            raise BadDocument("invitation", f"does not introduce the parties that the {proposal.role} has to know")
        if self.by_curator:
            if self.curator is None or not self.curator.verify(self.context, self.stated, self.by_curator):
                raise BadDocument("invitation", "its curator's signature does not hold")
            if self.witness is not None or proposal.role == "witness":
                raise BadDocument("invitation", _TWO_OF_THREE)
        if (proposal.rules is None) != (proposal.role != "owner"):
            raise BadDocument("invitation", "rules are proposed to owners, and to them alone", field="rules")
        if proposal.rules is not None:
            check_rules(proposal.rules, self.card.name)
        if proposal.columns:
            Schema.from_text(proposal.columns, name="the invitation's schema")

    @cached_property
    def proposal(self) -> Proposal:
        try:
            proposal = Proposal.model_validate_json(self.text)
        except ValidationError as error:
            places = ", ".join(sorted({".".join(map(str, fault["loc"])) for fault in error.errors()}))
            raise BadDocument("invitation", f"cannot be used ({places})") from None
        if _canonical(proposal) != self.text:
            raise BadDocument("invitation", "is not in its canonical form")
        return proposal

    @property
    def digest(self) -> bytes:
        return hashlib.sha256(self.to_bytes()).digest()

    @property
    def expires(self) -> datetime:
        return datetime.fromisoformat(self.proposal.expires)

    @property
    def cards(self) -> dict[Role, Card]:
        cards: dict[Role, Card | None] = {"consumer": self.card, "curator": self.curator, "witness": self.witness}
        return {role: card for role in MUST_BE_PINNED[self.proposal.role] if (card := cards[role]) is not None}

    @property
    def introduced(self) -> dict[Role, Card]:
        """Cards of other organisations than the inviter's."""
        own = {"consumer", "curator"} if self.by_curator else {"consumer"}
        return {role: card for role, card in self.cards.items() if role not in own}

    def words(self, card: Card) -> tuple[str, ...]:
        """The words that both sides compare, if this card answers this invitation."""
        count = _WORDS_INTRODUCED if self.introduced else _WORDS
        message = fields(_WORDS_TAG, self.digest, hashlib.sha256(card.to_bytes()).digest())
        number = int.from_bytes(_stretched(message), "big") >> 8 * _KEY_BYTES - _BITS * count
        places = (number >> _BITS * place & (1 << _BITS) - 1 for place in reversed(range(count)))
        return tuple(_word_list()[place] for place in places)

    def check_time(self, now: datetime) -> None:
        clock = f"this machine's clock says {stamp(now)}"
        if now > self.expires:
            reason = (
                f"ended at {self.proposal.expires}, and {clock}; ask {self.card.name} for a new one, or set the clock"
            )
            raise InvalidArgument("invitation", self.proposal.name, reason)
        if now < datetime.fromisoformat(self.proposal.issued) - _SLOW_CLOCK:
            raise InvalidArgument(
                "clock", stamp(now), f"the invitation was signed later, at {self.proposal.issued}; set it"
            )

    def rules_changed(self) -> list[dict[str, str]]:
        """The proposed rules that differ from those of a new home, which allow nothing."""
        return [] if self.proposal.rules is None else policy_changes(NO_RULES, self.proposal.rules)


_TWO_OF_THREE = (
    "the curator belongs to the consumer, and with a witness they are two of the three parties that compute on shares: "
    "together they could read every row; a split curator needs a curator of another organisation"
)


@lru_cache(maxsize=256)
def _stretched(message: bytes) -> bytes:
    return hashlib.scrypt(message, salt=_WORDS_TAG, dklen=_KEY_BYTES, **_SCRYPT)


@cache
def _word_list() -> list[str]:
    return Mnemonic("english").wordlist


def _canonical(proposal: Proposal) -> str:
    return json.dumps(proposal.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))


def check_rules(rules: Policy, consumer: str) -> None:
    """Raise if proposed rules would decide in the owner's place, or let others in than the inviter."""
    if not rules.manual_approval:
        reason = "proposes automatic approval, which only an owner may choose; set it to true"
        raise BadDocument("invitation", reason, field="rules.manual_approval")
    if rules.consumers != (consumer,):
        raise BadDocument("invitation", f"must name the inviter alone: [{consumer}]", field="rules.consumers")


@dataclass(frozen=True)
class Reply(Signed):
    tag = b"likeset reply"
    context = REPLY_CONTEXT
    invitation: bytes  # its digest
    card: Card
    reads: tuple[int, ...]  # versions of messages
    signature: bytes = field(repr=False)

    @property
    def parts(self) -> tuple[bytes, ...]:
        return self.invitation, self.card.to_bytes(), bytes(self.reads)

    @property
    def digest(self) -> bytes:
        return hashlib.sha256(self.to_bytes()).digest()

    @classmethod
    def sealed(cls, invitation: Invitation, secret: CardSecret) -> bytes:
        """A reply that only the inviter can read: the operator of the mailbox does not learn who joins."""
        unsigned = cls(invitation.digest, secret.card, wire.READS, b"")
        reply = unsigned.signed_by(secret).to_bytes()
        return seal(invitation.card.sealing, fields(reply, bytes(_REPLY_STEP - len(reply))), info=_info(invitation))

    @classmethod
    def opened(cls, invitation: Invitation, secret: CardSecret, data: bytes) -> Self:
        plaintext = secret.sealing.open(data, info=_info(invitation))
        length = int.from_bytes(plaintext[:8], "big")
        digest, card, versions, signature = cls.read(plaintext[8 : 8 + length], 3)
        reply = cls(digest, Card.from_bytes(card), versions_in(versions, what="reply"), signature)
        reply.check_signed_by(reply.card)
        if reply.invitation != invitation.digest:
            raise BadDocument("reply", "answers another invitation")
        if reply.card.name != invitation.proposal.name:
            raise BadDocument("reply", f"comes from {reply.card.name}, and {invitation.proposal.name} was invited")
        return reply


def _info(invitation: Invitation) -> bytes:
    return signed(REPLY_CONTEXT, invitation.digest)


def _split(text: str) -> tuple[str, ...]:
    return tuple(re.split(r"[\s,;.-]+", text.strip().casefold()))


def check_words(text: str, expected: Sequence[str]) -> None:
    """Raise unless a person typed all the words; the error does not say what they are."""
    heard = _split(text)
    unknown = [f"word {place} ({word})" for place, word in enumerate(heard, 1) if word not in _word_list()]
    if unknown or len(heard) != len(expected):
        spelled = f"; not in the list: {', '.join(unknown[:3])}" if unknown else ""
        reason = f"{len(expected)} words of the list are needed, and {len(heard)} came{spelled}; type them again"
        raise InvalidArgument("--words", "none", reason)
    if not secrets.compare_digest(" ".join(heard), " ".join(expected)):
        wrong = sum(word != other for word, other in zip(heard, expected, strict=True))
        reason = (
            f"{wrong} of {len(expected)} differ, and nothing was pinned; let them be read again once. If they still "
            "differ, somebody changed the invitation or the reply: the inviter signs a new one (`likeset invite "
            "NAME --new`) and sends it by another way"
        )
        raise InvalidArgument("--words", "none", reason)


# The inviter.


def invite(
    home: Home,
    name: str,
    *,
    role: JoiningRole,
    mailbox: str,
    schema: str = "",
    rules: Policy | None = None,
    days: float = 14,
    curator: str | None = None,
    witness: str | None = None,
) -> Invitation:
    """Sign an invitation and store it; one of that name that was not answered no longer counts."""
    home.check_role("consumer")
    checked_name("name", name)
    now = home.clock()
    proposal = Proposal(
        name=name,
        role=role,
        mailbox=mailbox,
        reply_to=base64.b32encode(secrets.token_bytes(20)).decode("ascii").lower(),
        issued=stamp(now),
        expires=stamp(now + timedelta(days=days)),
        columns=schema,
        rules=rules,
    )
    curating = None if role == "curator" else home.pins.chosen("curator", curator, setting="--curator")
    witnessing = None
    if role == "owner" and (witness is not None or home.pins.pinned("witness")):
        witnessing = home.pins.chosen("witness", witness, setting="--witness")
    with_cards = Invitation(_canonical(proposal), home.card, curating, witnessing, by_curator=b"", signature=b"")
    own = home.own_curator
    if own is not None:
        with Home(own) as part:
            if part.card == with_cards.curator:
                by_curator = part.secret.sign(INVITE_CONTEXT, *with_cards.stated)
                with_cards = replace(with_cards, by_curator=by_curator)
    invitation = with_cards.signed_by(home.secret)
    invitation.check()
    if len(invitation.to_bytes()) > MOST_BYTES:
        reason = f"is too long for an invitation, of at most {MOST_BYTES:,} bytes; declare vectors or fewer columns"
        raise InvalidArgument("--schema", f"{len(schema):,} characters", reason)
    make_private_folder(home.folder / _FOLDER)
    home.note("invite", "", name=name, role=role, invitation=invitation.digest.hex(), expires=proposal.expires)
    keep_private_bytes(home.folder / _FOLDER / f"{name}.invite", invitation.to_bytes())
    return invitation


def invitations(home: Home, *, joined: bool = False) -> list[Invitation]:
    return [_stored(path) for path in sorted((home.folder / _FOLDER).glob("*.joined" if joined else "*.invite"))]


def invitation_of(home: Home, name: str) -> Invitation:
    for end in ("invite", "joined"):
        path = home.folder / _FOLDER / f"{checked_name('name', name)}.{end}"
        if path.exists():
            return _stored(path)
    raise InvalidArgument("NAME", name, f"was not invited; do so with: likeset invite {name}")


def _stored(path: Path) -> Invitation:
    return Invitation.from_bytes(documents.bytes_in(path, most=MOST_BYTES), name=str(path))


def replies(home: Home, invitation: Invitation, store: ReplyStore) -> list[Reply]:
    """Valid replies in the mailbox, one for each card; anybody who has the invitation can write one."""
    by_card: dict[str, Reply] = {}
    folder = invitation.proposal.reply_to
    sized = [file for file in store.list(folder) if SEAL_BYTES < file.size <= SEAL_BYTES + 2 * _REPLY_STEP]
    for file in sorted(sized, key=lambda file: file.modified)[:_MOST_REPLIES]:
        try:
            data = store.read(folder, file.name, most_bytes=file.size)
            reply = Reply.opened(invitation, home.secret, data)
        except (PostTrouble, BadDocument):
            continue
        by_card.setdefault(reply.card.fingerprint, reply)
    return list(by_card.values())


def confirm(home: Home, invitation: Invitation, received: Sequence[Reply], typed: str, *, by: str) -> Pin:
    """Pin the card of the reply whose words a person typed."""
    invitation.check_time(home.clock())
    if not received:
        raise InvalidArgument("NAME", invitation.proposal.name, "has not replied yet")
    matching = (reply for reply in received if invitation.words(reply.card) == _split(typed))
    reply = next(matching, received[0])
    check_words(typed, invitation.words(reply.card))
    if not wire.in_common(reply.reads, wire.READS):
        apart = f"reads messages of version {wire.words_of(reply.reads)}, and this home {wire.words_of(wire.READS)}"
        reason = f"{apart}; one of the two needs another likeset. If it is theirs, they then join again"
        raise InvalidArgument("NAME", invitation.proposal.name, reason)
    pin = _pin(home, {invitation.proposal.role: reply.card}, invitation, reply.digest, by=by)[0]
    path = home.folder / _FOLDER / f"{invitation.proposal.name}.invite"
    if path.exists():
        path.replace(path.with_suffix(".joined"))
    return pin


# The party that joins.


def opened_home(invitation: Invitation, folder: Path, *, listen: str = "", reach_at: str = "", by: str) -> Home:
    """The home that joins: a new one, or one that is there and has this name and role."""
    proposal = invitation.proposal
    if not folder.exists() or not any(folder.iterdir()):
        return make_home(folder, name=proposal.name, roles=(proposal.role,), listen=listen, reach_at=reach_at, by=by)
    home = Home(folder)
    home.check_role(proposal.role)
    if home.card.name != proposal.name:
        home.close()
        reason = f"is the home of {home.card.name}, and {proposal.name} is invited; ask for another invitation"
        raise InvalidArgument("HOME", folder, reason)
    return home


def is_joined(home: Home, invitation: Invitation) -> bool:
    pins = home.pins
    return all(not pins.fault(role, card.fingerprint) for role, card in invitation.cards.items())


def join(home: Home, invitation: Invitation, typed: str, *, by: str) -> list[Pin]:
    invitation.check_time(home.clock())
    check_words(typed, invitation.words(home.card))
    return _pin(home, invitation.cards, invitation, b"", by=by)


def _pin(home: Home, cards: dict[Any, Card], invitation: Invitation, reply: bytes, *, by: str) -> list[Pin]:
    """Pin the cards of an invitation, or (with its digest) that of a reply."""
    for role, card in cards.items():
        home.pins.check_pin(card, role)
    answer = {"reply": reply.hex()} if reply else {}
    home.note("joined", "", name=invitation.proposal.name, invitation=invitation.digest.hex(), **answer, by=by)
    introduced, inviter = () if reply else invitation.introduced, invitation.card.name
    pins = []
    for role, card in cards.items():
        own_curator = role == "curator" and invitation.by_curator and not reply
        origin = {"introduced_by": inviter if role in introduced else "", "belongs_to": inviter if own_curator else ""}
        pins.append(home.pins.pin(card, role, by=by, **origin))
    return pins
