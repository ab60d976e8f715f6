"""A run whose curator is split: owners share their offers, and three parties select on shares. Pure."""

import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likeset.arguments import Rows
from likeset.errors import BadDocument, IllegalMessage, InvalidArgument, PartyFailed
from likeset.geometry.selection import Selection
from likeset.ledger.budget import Charge
from likeset.privacy.events import Relation, Unbounded, View
from likeset.privacy.noise import Noise
from likeset.protocol.interactive import InteractiveCurator, InteractiveOwner
from likeset.protocol.party import (
    COMPUTE_RULES,
    CURATOR,
    RELEASE_ROUND,
    ChargeWanted,
    ComputeState,
    Party,
    PricedDraw,
    Sender,
    Step,
    Work,
    title_of_message,
)
from likeset.protocol.prices import size_event
from likeset.protocol.sealed import (
    Curator,
    Flag,
    Owner,
    SealedCurator,
    SealedOwner,
    Weighing,
    draw_offer,
    released_mean,
    target_rows,
)
from likeset.protocol.terms import MOST_SPLIT_TARGET, WITNESS, PlannedTerms, Terms
from likeset.protocol.wire import (
    ENVELOPES_ROUND,
    OFFER_ROUND,
    OPENED_ROUND,
    RECEIPTS_ROUND,
    ROSTER_ROUND,
    TARGET_ROUND,
    Body,
    Envelopes,
    Message,
    OfferShare,
    PicksOpened,
    RosterVote,
    ShareReceipts,
    Summary,
    TargetRelease,
    TargetShare,
    blob,
)
from likeset.tables.records import DeclaredRecords, EnvelopeRecords, most_envelope_bytes
from likeset.trust.cards import DIGEST_BYTES, Card, CardSecret, fields, read_tagged
from likeset.trust.shares import (
    COMPUTE_ROLES,
    FRACTION_BITS,
    RANDOM_WORDS,
    SALT_BYTES,
    SLOT_DIGESTS,
    WORD_BYTES,
    ComputeRole,
    Lists,
    OfferContext,
    OfferPart,
    OfferShape,
    PickedSlot,
    PickFault,
    Roster,
    check_part,
    common_lists,
    fixed_point,
    joined_shares,
    list_entries,
    lists_in,
    new_salts,
    open_envelope,
    open_picks,
    pieces,
    share_offer,
    split_words,
    word_bytes,
    words_in,
)

_AROUND_PART = 1 << 10  # names, lengths, K and a signature
_TARGET_TAG, _INPUTS_TAG = b"likeset target share", b"likeset split inputs"


def party_name(terms: Terms, role: ComputeRole) -> str:
    return {"curator": CURATOR, "consumer": terms.consumer, "witness": WITNESS}[role]


def role_of(terms: Terms, name: str) -> ComputeRole | None:
    return next((role for role in COMPUTE_ROLES if party_name(terms, role) == name), None)


def offer_context(terms: Terms, owner: str) -> OfferContext:
    parties = tuple(terms.cards[party_name(terms, role)] for role in COMPUTE_ROLES)
    return OfferContext(bytes.fromhex(terms.digest), terms.cards[owner], parties)


def most_part_bytes(terms: PlannedTerms) -> tuple[int, ...]:
    """How many bytes each compute party gets of an offer, at most, in the order of their ranks."""
    shape = offer_shape(terms)
    each = DIGEST_BYTES * (1 + SLOT_DIGESTS) + SALT_BYTES + shape.share_bytes
    return tuple(
        _AROUND_PART + shape.slots * (each + (shape.envelope_bytes if role == "curator" else 0))
        for role in COMPUTE_ROLES
    )


def offer_shape(terms: PlannedTerms) -> OfferShape:
    """How large every offer is: labels are in records, and no class is shared."""
    return OfferShape(
        terms.kernel.columns,
        slots=terms.rows_per_owner,
        record_bytes=most_envelope_bytes(terms.record_bytes),
    )


def target_commitment(terms: Terms, role: ComputeRole, *, salt: bytes, share: bytes) -> bytes:
    """To a compute party's share of the target; the salt goes to that party only."""
    parts = (bytes.fromhex(terms.digest), role.encode("ascii"), salt, share)
    return hashlib.sha256(fields(_TARGET_TAG, *parts)).digest()


def records_of_run(terms: Terms, declared: DeclaredRecords | None) -> EnvelopeRecords:
    assert declared is not None  # noqa: S101 - terms of a split run name a schema
    return EnvelopeRecords(declared.schema, labelled=declared.label_column in terms.columns)


def checked_target(terms: Terms, role: ComputeRole, body: TargetShare) -> TargetShare:
    share, commitments, parties = body.share.tobytes(), body.commitments.tobytes(), COMPUTE_ROLES
    rows, rest = divmod(len(share), WORD_BYTES * terms.kernel.columns)
    declared = terms.target_size if terms.relation is Relation.REPLACE_ONE else rows
    if rest or rows != declared or not 1 <= rows <= MOST_SPLIT_TARGET or len(body.salt) != SALT_BYTES:
        raise BadDocument("target", "does not have the shape of the terms")
    if len(commitments) != DIGEST_BYTES * len(parties):
        raise BadDocument("target", "has not one commitment for each compute party")
    own = target_commitment(terms, role, salt=body.salt.tobytes(), share=share)
    if own != pieces(commitments, DIGEST_BYTES)[parties.index(role)]:
        raise BadDocument("target", "is not the share that the consumer committed to")
    return body


@dataclass(frozen=True, eq=False)
class ComputeInputs:
    """Everything that one party's computation needs. All but rank and arrays is public, and alike at all parties."""

    rank: int  # 0 the curator, 1 the consumer, 2 the witness
    offers: int  # slots of all owners of the roster, empty ones included
    target_rows: int
    size: int  # picks
    gamma: float  # of the kernel
    lows: tuple[int, ...]  # for each column the smallest word that a row may have
    highs: tuple[int, ...]  # the largest
    program: str  # digest of the public program, by the terms
    digest: str  # of what is put in: the roster, and commitments to all shares of the target
    offer_words: NDArray[np.int64] = field(repr=False)  # this party's shares of all slots, owner after owner
    target_words: NDArray[np.int64] = field(repr=False)


@dataclass(frozen=True, eq=False)
class OpenedSlots:
    """What the computation opens, to the consumer only: for each pick, in order."""

    numbers: NDArray[np.int64]  # of the slots among all, from 0; -1 where no valid slot was left
    secrets: NDArray[np.int64] = field(repr=False)  # the four words of r of each
    checksums: NDArray[np.int64] = field(repr=False)  # of each one's row
    factors: NDArray[np.int64] = field(repr=False)  # of the checksums, one for each column


_TAG = b"likeset shared offer"


def is_kept_offer(kept: bytes) -> bool:
    return kept.startswith(fields(_TAG))


def shared_replies(heard: Message, kept: bytes, versions: Mapping[str, int]) -> tuple[Message, ...]:
    names = {"curator": CURATOR, "consumer": heard.sender, "witness": WITNESS}
    return tuple(
        Message(
            run=heard.run,
            terms=heard.terms,
            sender=heard.receiver,
            receiver=names[role],
            round=OFFER_ROUND,
            body=OfferShare(part=blob(part)),
            version=versions.get(names[role], heard.version),
        )
        for role, part in zip(COMPUTE_ROLES, read_tagged(_TAG, kept, len(COMPUTE_ROLES)), strict=True)
    )


def records_in(bodies: Sequence[OfferShare]) -> list[bytes]:
    """The records in an offer, for its owner, who has all parts of it: without empty slots, in the order of slots."""
    parts = {part.role: part for part in (OfferPart.from_bytes(body.part.tobytes()) for body in bodies)}
    listed = next((part.offer_list for part in parts.values()), None)
    if listed is None or set(parts) != set(COMPUTE_ROLES) or len(parts) != len(bodies):
        raise BadDocument("shared offer", "is not whole")
    width = len(parts["curator"].share) // (WORD_BYTES * listed.slots)
    words = joined_shares([words_in(part.share, width=width) for part in parts.values()])
    opened = (
        open_envelope(
            parts["curator"].envelope_of(slot),
            context=listed.offer,
            slot=slot,
            key=parts["consumer"].key,
            random=word_bytes(words[slot : slot + 1, -RANDOM_WORDS:]),
        )
        for slot in range(listed.slots)
    )
    return [record for record in opened if record]


def slots_in(body: OfferShare) -> int:
    try:
        return OfferPart.from_bytes(body.part.tobytes()).offer_list.slots
    except BadDocument:
        return 0


MOST_REACH = 1 << 14
"""Bytes that say how a compute party is reached."""


class ComputeParty(Party):
    """Curator or witness of a split run; ``SplitConsumer`` is the third.

    ``reach`` says how the others reach this party's worker; its home keeps it, for a party made anew must say the same.
    """

    def __init__(
        self, terms: Terms, role: ComputeRole, *, secret: CardSecret, cards: Mapping[str, Card], reach: bytes = b""
    ) -> None:
        super().__init__(terms, party_name(terms, role), COMPUTE_RULES[role])
        if terms.split is None:
            raise IllegalMessage(f"run {terms.run} has a trusted curator, and nothing of it is shared")
        self._split = terms.split
        for name, card in {**cards, self.name: secret.card}.items():
            if terms.cards.get(name) != card.fingerprint:
                raise InvalidArgument("cards", card.name, f"is not the card that the terms name for {name}")
        if len(reach) > MOST_REACH:
            raise InvalidArgument("reach", f"{len(reach)} bytes", f"must have at most {MOST_REACH}")
        self.role: ComputeRole = role
        self.faults: list[Flag] = []
        self.reaches: dict[ComputeRole, bytes] = {}
        self._secret, self._cards, self._reach = secret, {**cards, self.name: secret.card}, reach
        self._shape = offer_shape(terms)
        self._peers = tuple(other for other in COMPUTE_ROLES if other != role)
        self._waiting = set(terms.owners)
        self._target: TargetShare | None = None
        self._parts: dict[str, OfferPart] = {}
        self._receipts: dict[ComputeRole, Lists] = {}
        self._votes: dict[ComputeRole, Roster] = {}
        self._roster: Roster | None = None
        self._content: Any = None  # of the message that is being heard, checked

    @property
    def waiting_for(self) -> frozenset[str]:
        return frozenset(self._waiting) if self.position.state is ComputeState.COLLECTING else frozenset()

    @property
    def is_ready(self) -> bool:
        return self.position.state is ComputeState.READY

    @property
    def finished(self) -> bool:
        return self.position.state is ComputeState.SETTLED

    @property
    def rostered(self) -> tuple[str, ...]:
        lists = {} if self._roster is None else self._roster.lists
        return tuple(name for name in self.terms.owners if self.terms.cards[name] in lists)

    def give_up(self, owner: str) -> Step:
        return self._begin_step(self._without(owner))

    def inputs(self) -> ComputeInputs:
        if not self.is_ready or self._roster is None or self._target is None:
            raise IllegalMessage(f"{self.name} may not compute now: {self.position.state.value}")
        split, columns = self._split, self._shape.columns
        words = words_in(b"".join(self._parts[owner].share for owner in self.rostered), width=self._shape.width)
        target = words_in(self._target.share.tobytes(), width=columns)
        commitments = pieces(self._target.commitments.tobytes(), DIGEST_BYTES)
        most = math.ceil(self.terms.kernel.largest * 2.0**FRACTION_BITS)  # of an honest row; others do not count
        return ComputeInputs(
            rank=COMPUTE_ROLES.index(self.role),
            offers=len(words),
            target_rows=len(target),
            size=self._picks,
            gamma=split.gamma,
            lows=(-most,) * columns,
            highs=(most,) * columns,
            program=split.program,
            digest=hashlib.sha256(fields(_INPUTS_TAG, self._roster.digest, *commitments)).hexdigest(),
            offer_words=words.view(np.int64),
            target_words=target.view(np.int64),
        )

    def _sender(self, message: Message) -> Sender:
        name, body = message.sender, message.body
        if name in self.terms.owners:
            return Sender.AWAITED if name in self.waiting_for else Sender.LATE
        if isinstance(body, TargetShare | PicksOpened) and name == self.terms.consumer:
            return Sender.CONSUMER
        if isinstance(body, Envelopes) and role_of(self.terms, name) == "curator":
            return Sender.CURATOR
        return Sender.PEER if role_of(self.terms, name) in self._peers else Sender.STRANGER

    def _check_content(self, message: Message) -> None:
        try:
            self._content = self._checked(message)
        except BadDocument as error:
            raise IllegalMessage(f"{title_of_message(message)}: {error}") from None

    def _checked(self, message: Message) -> Any:
        body, role = message.body, role_of(self.terms, message.sender)
        if isinstance(body, TargetShare):
            return checked_target(self.terms, self.role, body)
        if isinstance(body, ShareReceipts) and role is not None:
            lists = lists_in(body.receipts.tobytes())
            if not lists.keys() <= {self.terms.cards[owner] for owner in self.terms.owners}:
                raise BadDocument("share receipts", "name somebody who is not an owner of this run")
            return lists
        if isinstance(body, RosterVote) and role is not None:
            return self._checked_vote(body, role)
        if isinstance(body, PicksOpened) and body.openings != self._picks:
            raise BadDocument("end", "names another number of openings than the terms allow")
        return None

    def _handle(self, message: Message) -> Work:
        body, role = message.body, role_of(self.terms, message.sender)
        if isinstance(body, OfferShare):
            self._take_part(message.sender, body.part.tobytes())
        elif isinstance(body, TargetShare):
            self._target = self._content
        elif isinstance(body, ShareReceipts) and role is not None:
            self._receipts[role] = self._content
            if role == "consumer":  # owners of whom it has no part are in no roster: nobody waits for them
                self._waiting = {owner for owner in self._waiting if self.terms.cards[owner] in self._content}
        elif isinstance(body, RosterVote) and role is not None:
            self._votes[role] = self._content
            self.reaches[role] = body.reach.tobytes()
        yield from ()  # to collect shares costs nothing
        return self._go_on()

    def _without(self, owner: str) -> Work:
        if owner not in self.waiting_for:
            return ()
        self._waiting.discard(owner)
        yield from ()
        return self._go_on()

    def _take_part(self, owner: str, data: bytes) -> None:
        """An owner's part; one that is refused is as if it had not come, but for the log."""
        if owner not in self.waiting_for:
            return  # too late
        self._waiting.discard(owner)
        try:
            part = OfferPart.from_bytes(data)
            context = offer_context(self.terms, owner)
            if owner not in self._cards:
                raise BadDocument("card", "the owner did not accept these terms")
            card = self._cards[owner]
            check_part(part, context=context, role=self.role, owner=card, shape=self._shape)
        except BadDocument as error:
            self.faults.append(Flag(owner, f"sent a part that is not used: {error}"))
            return
        self._parts[owner] = part

    def _go_on(self) -> list[Message]:
        replies: list[Message] = []
        is_told = self.role == "consumer" or "consumer" in self._receipts
        has_all = self._target is not None and not self._waiting
        if self.position.state is ComputeState.COLLECTING and is_told and has_all:
            replies += self._tell_receipts()
        if self.position.state is ComputeState.COUNTED and len(self._receipts) == 1 + len(self._peers):
            replies += self._vote()
        if self.position.state is ComputeState.VOTED and len(self._votes) == 1 + len(self._peers):
            replies += self._agree()
        return replies

    def _tell_receipts(self) -> list[Message]:
        lists = {self.terms.cards[owner]: part.offer_list.digest for owner, part in self._parts.items()}
        self._receipts[self.role] = lists
        self._move(ComputeState.COUNTED)
        receipts = blob(list_entries(lists))
        return self._to_peers(RECEIPTS_ROUND, ShareReceipts(receipts=receipts))

    def _vote(self) -> list[Message]:
        lists = common_lists(tuple(self._receipts.values()))
        self._check_quorum(len(lists))
        parties = tuple(self.terms.cards[party_name(self.terms, role)] for role in COMPUTE_ROLES)
        roster = Roster(bytes.fromhex(self.terms.digest), parties, lists, self.role).signed_by(self._secret)
        self._log_left_out(roster)
        self._roster = self._votes[self.role] = roster
        self._move(ComputeState.VOTED)
        return self._to_peers(ROSTER_ROUND, RosterVote(roster=blob(roster.to_bytes()), reach=blob(self._reach)))

    def _log_left_out(self, roster: Roster) -> None:
        """Who acknowledged an offer that is not computed on, and who did not: nobody is left out in silence."""
        for owner in self.terms.owners:
            card = self.terms.cards[owner]
            missing = [role for role in COMPUTE_ROLES if card not in self._receipts[role]]
            unheard = len(missing) == len(COMPUTE_ROLES)
            if unheard or card in roster.lists or owner in {fault.owner for fault in self.faults}:
                continue
            reason = f"{' and '.join(missing)} acknowledged no part of it" if missing else "it signed different lists"
            self.faults.append(Flag(owner, f"its offer is not computed on: {reason}"))

    def _agree(self) -> list[Message]:
        """All signed: the same, or somebody told different parties different things, and nobody computes."""
        if len({vote.digest for vote in self._votes.values()}) != 1:
            reason = "the compute parties signed different rosters; nothing is computed"
            raise PartyFailed(f"run {self.terms.run}: {reason}")
        self._move(ComputeState.READY)
        if self.role != "curator":
            return []
        envelopes = b"".join(self._parts[owner].envelopes for owner in self.rostered)
        body = Envelopes(envelopes=blob(envelopes))
        return [self._message(self.terms.consumer, ENVELOPES_ROUND, body)]

    def _checked_vote(self, body: RosterVote, role: ComputeRole) -> Roster:
        vote, card = Roster.from_bytes(body.roster.tobytes()), self._cards.get(party_name(self.terms, role))
        if len(body.reach) > MOST_REACH:
            raise BadDocument("roster", "says at too great length how its signer is reached")
        if vote.role != role or card is None or not vote.is_signed_by(card):
            raise BadDocument("roster", f"the {role} did not sign it")
        if self._roster is not None and vote.digest != self._roster.digest:
            raise BadDocument("roster", "is not the one that follows from the receipts")
        return vote

    @property
    def _picks(self) -> int:
        return min(self._split.openings, self._shape.slots * len(self.rostered))

    def _to_peers(self, round_number: int, body: Body) -> list[Message]:
        return [self._message(party_name(self.terms, role), round_number, body) for role in self._peers]


NOTHING_HELD = "none of the rows that were picked opened to a record"
"""Why there is no summary although picks were opened."""
_KEPT_TAG = b"likeset shared target"


class SplitConsumer(ComputeParty):
    """Holds the target; shares it once, for good; receives index and r of each pick, and with them its rows."""

    def __init__(
        self,
        terms: Terms,
        *,
        target: ArrayLike,
        noise: Noise,
        secret: CardSecret,
        cards: Mapping[str, Card],
        declared: DeclaredRecords | None = None,
        reach: bytes = b"",
    ) -> None:
        super().__init__(terms, "consumer", secret=secret, cards=cards, reach=reach)
        self._rows = target_rows(terms, target)
        if float(np.abs(self._rows).max()) > terms.kernel.largest:
            reason = f"has numbers beyond the {terms.kernel.largest:g} that the terms allow; scale it down"
            raise InvalidArgument("target", f"array of shape {self._rows.shape}", reason)
        self._noise = noise
        self._declared, self._records = declared, records_of_run(terms, declared)
        self._envelopes: dict[str, dict[int, bytes]] | None = None
        self.summary: Summary | None = None
        self.unopened_picks: dict[str, int] = {}

    def start(self) -> Step:
        """The target's shares, for the other compute parties, and then its release, for each owner.

        Asked again, the same bytes.
        """
        return self._begin_step(self._send_target())

    @property
    def is_ready(self) -> bool:
        return super().is_ready and self._envelopes is not None

    def opened(self, picks: OpenedSlots) -> Step:
        """What the computation opened: makes the summary, and tells the others that it is over.

        Where no pick gave a record there is no summary, and the others are told the same: it would tell a curator with
        owners who lie that every pick fell on them.
        """
        if not self.is_ready:
            raise IllegalMessage(f"{self.name} may not open anything now: {self.position.state.value}")
        return self._begin_step(self._buy(picks))

    def _send_target(self) -> Work:
        # Noise first: it is stored before the transaction in which the shares are drawn and their letters are recorded.
        release = yield from released_mean(self.terms, self._rows, self._noise)
        shares = yield from self._shared_target()
        target_release = TargetRelease(release=release)
        number = RELEASE_ROUND[self.terms.protocol]
        return (
            *(self._message(party_name(self.terms, role), TARGET_ROUND, shares[role]) for role in self._peers),
            *(self._message(owner, number, target_release) for owner in self.terms.owners),
        )

    def _shared_target(self) -> PricedDraw[dict[str, TargetShare]]:
        """Shares of the target, drawn once: whatever happens later, the run is about this target."""
        words, roles = fixed_point(self._rows), COMPUTE_ROLES

        def draw() -> tuple[bytes, None]:
            shares = [word_bytes(share) for share in split_words(words)]
            return fields(_KEPT_TAG, *shares, *new_salts(len(roles))), None

        kept = yield ChargeWanted(
            charge=Charge(((View.owners(self.name), size_event(self.terms.relation)),)),
            asked=self._request("target-shares", TARGET_ROUND, self._digest.encode()),
            draw=draw,
            repeatable=True,  # nothing left before it was kept
        )
        parts = read_tagged(_KEPT_TAG, kept, 2 * len(roles))
        shares, salts = parts[: len(roles)], parts[len(roles) :]
        if not np.array_equal(joined_shares([words_in(share, width=words.shape[1]) for share in shares]), words):
            reason = "is another one than this run began with; go on with that one, or begin a new run"
            raise InvalidArgument("target", f"array of shape {words.shape}", reason)
        each = [
            target_commitment(self.terms, role, salt=salt, share=share)
            for role, salt, share in zip(roles, salts, shares, strict=True)
        ]
        commitments = blob(b"".join(each))
        target_shares: dict[str, TargetShare] = {
            role: TargetShare(share=blob(share), salt=blob(salt), commitments=commitments)
            for role, salt, share in zip(roles, salts, shares, strict=True)
        }
        self._target = target_shares[self.role]
        return target_shares

    def _checked(self, message: Message) -> Any:
        body = message.body
        return self._checked_envelopes(body) if isinstance(body, Envelopes) else super()._checked(message)

    def _handle(self, message: Message) -> Work:
        if isinstance(message.body, Envelopes):
            self._envelopes = self._content
        return (yield from super()._handle(message))

    def _checked_envelopes(self, body: Envelopes) -> dict[str, dict[int, bytes]]:
        """By owner and slot; every one of them is that of the owner's list, for which the curator signed."""
        size, slots, data = self._shape.envelope_bytes, self._shape.slots, body.envelopes.tobytes()
        if len(data) != size * slots * len(self.rostered):
            raise BadDocument("envelopes", "are not as many as the roster's owners have slots")
        whole: dict[str, dict[int, bytes]] = {}
        for place, owner in enumerate(self.rostered):
            start = size * slots * place
            mine = {slot: data[start + size * slot : start + size * (slot + 1)] for slot in range(slots)}
            for slot, envelope in mine.items():
                if hashlib.sha256(envelope).digest() != self._parts[owner].digests_of(slot)[-1]:
                    raise BadDocument("envelopes", f"one of {owner} is not that of the owner's list")
            whole[owner] = mine
        return whole

    def _opened_picks(self, opened: OpenedSlots) -> list[tuple[str, bytes | PickFault]]:
        """Of each pick, in order, its owner, and its record or why there is none."""
        places, slots = np.divmod(opened.numbers, self._shape.slots)
        sums, factors = opened.checksums.view(np.uint64), opened.factors.view(np.uint64)
        found: dict[int, tuple[str, bytes | PickFault]] = {}
        for place, owner in enumerate(self.rostered):
            mine, envelopes = np.flatnonzero(places == place).tolist(), (self._envelopes or {})[owner]
            picks = [
                PickedSlot(int(slots[pick]), word_bytes(opened.secrets[pick].view(np.uint64)), int(sums[pick]))
                for pick in mine
            ]
            made = open_picks(self._parts[owner], picks, envelopes=envelopes, factors=factors, read=self._read)
            found |= {pick: (owner, record) for pick, record in zip(mine, made, strict=True)}
        return [found[pick] for pick in sorted(found)]

    def _read(self, records: Sequence[bytes]) -> tuple[NDArray[np.bool_], Rows, NDArray[np.uint64]]:
        decoded = self._records.read(records)
        return decoded.sound, decoded.rows, decoded.handles

    def _buy(self, picks: OpenedSlots) -> Work:
        opened = self._opened_picks(picks)
        bought = [(owner, record) for owner, record in opened if isinstance(record, bytes)]
        faults: dict[str, Counter[str]] = {}
        for owner, fault in opened:
            if isinstance(fault, PickFault):
                faults.setdefault(owner, Counter())[fault.value] += 1
        self.unopened_picks = {owner: faults[owner].total() for owner in self.rostered if owner in faults}
        self.summary = self._summary(bought, faults) if bought else None
        self._move(ComputeState.SETTLED)
        yield from ()  # the rows were charged by their owners
        return self._to_peers(OPENED_ROUND, PicksOpened(openings=self._picks))

    def _summary(self, bought: Sequence[tuple[str, bytes]], faults: Mapping[str, Counter[str]]) -> Summary:
        """As a trusted curator would have sent it; the distance to new rows stays unknown: that needs all offers."""
        assert self._declared is not None  # noqa: S101 - as in ``records_of_run``
        held = self._records.read([record for _, record in bought])
        selection = Selection(gamma=self._split.gamma)
        judged, rows = selection.judge(held.rows, self._rows), np.asarray(held.rows, dtype=np.float32)
        places = {name: number for number, name in enumerate(self.terms.owners)}
        owners = self.rostered
        reasons = {places[fault.owner]: fault.reason for fault in self.faults if fault.owner in places}
        reasons |= {places[owner]: _in_words(counts) for owner, counts in faults.items()}
        absent = {places[name] for name in self.terms.owners if name not in owners} - set(reasons)
        return Summary(
            rows=rows,
            labels=held.labels,
            owners=np.array([places[owner] for owner, _ in bought], dtype=np.int64),
            handles=held.handles,
            gains=judged.gains,
            squared_mmds=judged.squared_mmds,
            rows_seen=self._shape.slots * len(owners),
            absent=np.array(sorted(absent), dtype=np.int64),
            flagged=np.array(sorted(reasons), dtype=np.int64),
            reasons=np.array([reasons[place] for place in sorted(reasons)], dtype=np.str_),
            records=blob(self._declared.pack(held.table)),
        )


def _in_words(faults: Mapping[str, int]) -> str:
    return "; ".join(f"{count} rows that were picked were left out: {reason}" for reason, count in faults.items())


class SplitOwner(SealedOwner):
    """Offers rows that look like the target, one part to each compute party; only the buyer will read any of them.

    Privacy contract:
        Protects:  every row, label and record that is not opened to the consumer, and how many slots are empty.
        Reveals:   to curator and witness, each with any owners: nothing but the terms; to the consumer: the records
                   of at most ``openings`` slots, and what ``docs/proofs/split.md`` says follows from them.
        Costs:     ``rows_per_owner`` rows offered, charged before a share is drawn.
        Assumes:   no two compute parties work together, and all follow the protocol.
        Basis:     cryptographic, docs/proofs/split.md
    """

    _secret: CardSecret

    def _sealed_offer(self, message: Message, weighing: Weighing) -> Work:
        """One part to each compute party, charged before it is drawn and kept so that it can be sent again.

        Which rows are offered follows from the owner's key, so they are drawn and written as records before the
        charge: what cannot be offered costs nothing. Shares are drawn after it, with coins. Nothing leaves before the
        ledger keeps all of them; so where a crash came in between, drawing others for the same charge tells nothing.
        """
        form = records_of_run(self.terms, self._admission.declared)
        handles, leaving = self._leaving(draw_offer(self.terms, self._scan, weighing, key=self._key))
        assert leaving.table is not None  # noqa: S101 - rows of a declared source have records
        records = form.encode(leaving.table, leaving.labels, handles)
        read = form.read(records)
        if not read.sound.all():
            raise IllegalMessage("a row of this owner makes no record that its buyer could read")

        def draw() -> tuple[bytes, None]:
            shared = share_offer(
                self._secret,
                context=offer_context(self.terms, self.name),
                shape=offer_shape(self.terms),
                rows=read.rows,
                records=records,
            )
            return fields(_TAG, *(part.to_bytes() for part in shared.values())), None

        event = Unbounded("rows are offered in shares; the consumer reads those bought")
        kept = yield ChargeWanted(
            charge=Charge(((View.curator(self.name), event),), self.terms.rows_per_owner, self.terms.rows_readable),
            asked=self._request("shared-offer", message.round, message.data),
            draw=draw,
            repeatable=True,
        )
        self.rows_disclosed = len(records)
        return shared_replies(message, kept, self.versions)


OWNERS: Mapping[str, type[Owner]] = {"sealed": SealedOwner, "interactive": InteractiveOwner, "split": SplitOwner}
"""The class of an owner, by ``Terms.kind``."""


def make_curator(
    terms: Terms,
    *,
    noise: Noise,
    fold_key: int | None,
    declared: DeclaredRecords | None = None,
    seed_rows: ArrayLike | None = None,
) -> Curator:
    """The curator of the run; ``SealedCurator`` needs the fold key, ``InteractiveCurator`` the terms' seed rows."""
    if terms.split is not None:
        raise IllegalMessage(f"run {terms.run} has a split curator, which sees no rows")
    if terms.protocol == "sealed":
        return SealedCurator(terms, noise=noise, fold_key=fold_key, declared=declared)
    return InteractiveCurator(terms, noise=noise, declared=declared, seed_rows=seed_rows)
