"""The curator's side, as far as both protocols share it: whom it waits for, whom it no longer believes, what it saw."""

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from likeset import arguments
from likeset.arguments import Rows
from likeset.errors import IllegalMessage, InvalidArgument, QuorumMissed
from likeset.privacy.events import Event, NoRelease, Relation, Simulated
from likeset.privacy.guarantee import View
from likeset.privacy.noise import Noise
from likeset.protocol.admission import Admission
from likeset.protocol.cross_fitting import HeldOut
from likeset.protocol.legality import CuratorState, Sender, curator_rules, title_of_message
from likeset.protocol.message_arrays import Labels
from likeset.protocol.messages import Delivery, Message, Offer, Summary, Target
from likeset.protocol.party import CURATOR, Party
from likeset.protocol.plans import target_plan
from likeset.protocol.run_settings import MOST_FOLDS
from likeset.protocol.selection import Selected, Selection, is_usable_width
from likeset.protocol.steps import ChargeWanted, Draw, Step, Work
from likeset.protocol.terms import Terms
from likeset.tables.records import DeclaredRecords

__all__ = ["Curator", "Flag", "Held", "is_number", "join_labels"]

_LARGEST_LABELS = 1 << 28  # bytes of all labels of a summary, where their length is not declared
_BYTES_PER_LETTER = 4


@dataclass(frozen=True, slots=True)
class Flag:
    """An owner whose message was not used, and why; says nothing about its rows."""

    owner: str
    reason: str


@dataclass(frozen=True, eq=False)
class Held:
    """Rows that the curator holds from one owner."""

    owner: int
    offer: Offer


class Curator(Party):
    """Trusted, coordinates, sees as few rows as the terms say.

    Args:
        terms: of the run.
        noise: where that of auctions and summary releases comes from.
        declared: what records and labels must look like, where owners send any: rows that are not what the schema
            makes of their records are not believed, nor are labels that are not as it declares.

    Attributes:
        flags: owners whose messages were not used, and why.
        absent: owners who did not take part.
        rows_seen: how many rows of owners came in, used or not.
        late: messages that came after their step and were discarded.
        held_out: how like the target's population the summary is, with all details; only runs within one process may
            show them.
    """

    def __init__(self, terms: Terms, *, noise: Noise, declared: DeclaredRecords | None = None) -> None:
        super().__init__(terms, CURATOR, curator_rules(terms))
        self._declared = declared
        self._admission = Admission(terms, declared)
        self._selection = Selection()  # as the consumer wishes, once its target is there
        self._noise = noise
        self._target: Rows | None = None
        self._waiting: set[str] = set()
        self.flags: list[Flag] = []
        self.absent: set[str] = set()
        self.rows_seen = 0
        self.late = 0
        self.held_out: HeldOut | None = None

    @property
    def offered_rows(self) -> Rows | None:
        """The rows that were offered, where it sees rows and is offered more than it takes."""
        return None

    @property
    def waiting_for(self) -> frozenset[str]:
        """The owners whose answer the current step still waits for."""
        return frozenset(self._waiting)

    @property
    def finished(self) -> bool:
        """Whether the summary is made."""
        return self.position.state is CuratorState.FINISHED

    def give_up(self, owner: str) -> Step:
        """Wait for this owner no longer: it abstains from the current step; a late answer is discarded.

        Raises:
            PartyFailed: an earlier step was not carried to its end.
        """
        return self._begin_step(self._without(owner))

    def _without(self, owner: str) -> Work:
        if owner not in self._waiting:
            return ()
        self._abstain(owner)
        return (yield from self._no_longer_waiting(owner))

    def _no_longer_waiting(self, owner: str) -> Work:
        self._waiting.discard(owner)
        return () if self._waiting else (yield from self._go_on())

    def _abstain(self, owner: str) -> None:
        """What it means for the run that an owner did not answer a step."""
        self.absent.add(owner)

    def _sender(self, message: Message) -> Sender:
        owner = message.sender
        if owner not in self.terms.owners:
            return Sender.CONSUMER if owner == self.terms.consumer else Sender.STRANGER
        if self._is_late(message):
            return Sender.LATE
        return Sender.AWAITED if self._awaits(owner) else Sender.OWNER

    def _awaits(self, owner: str) -> bool:
        """Whether an answer of this owner may come now."""
        return owner in self._waiting

    def _is_late(self, message: Message) -> bool:
        """Whether a message answers a step that is over for its sender, and is discarded."""
        return message.sender in self.absent

    def _check_content(self, message: Message) -> None:
        if isinstance(message.body, Target):
            self._check_target(message, message.body)

    def _handle(self, message: Message) -> Work:
        if isinstance(message.body, Target):
            wished = message.body
            self._selection = Selection(gamma=wished.gamma, weighted=wished.weighted, folds=wished.folds)
            self._target = message.body.rows
            return (yield from self._begin(message.body))
        if self._is_late(message):
            self.late += 1
            if isinstance(message.body, Offer | Delivery):
                self.rows_seen += len(message.body.rows)
            return ()
        self._take(message)
        return (yield from self._no_longer_waiting(message.sender))

    def _begin(self, target: Target) -> Work:
        """The target is there, and owners hear its release from the consumer: whom to wait for, and what to say."""
        raise NotImplementedError

    def _take(self, message: Message) -> None:
        """One owner's answer to the current step; a bad one is flagged."""
        raise NotImplementedError

    def _go_on(self) -> Work:
        """All answers of the current step are in: what comes next."""
        raise NotImplementedError

    def _move(self, state: CuratorState) -> None:
        """On to the next thing to wait for."""
        self._position = self._rules.after_move(self._position, state)

    def _charge_to_owners(self, kind: str, event: Event, draw: Draw, *, round_number: int) -> ChargeWanted:
        """A draw about all owners' rows that all owners hear of; drawn with coins, so never drawn again."""
        if not self._noise.private and not isinstance(event, NoRelease):
            event = Simulated(event)
        return ChargeWanted(
            costs=tuple((View.owners(owner), event) for owner in self.terms.owners),
            draw=draw,
            run=self.terms.run,
            round=round_number,
            kind=f"{CURATOR}/{kind}",
            content=self._digest.encode(),
        )

    def _check_target(self, message: Message, target: Target) -> None:
        width = self.terms.kernel.columns
        plan = target_plan(self.terms) if self.terms.protocol == "interactive" else None
        size = self.terms.target_size if self.terms.relation is Relation.REPLACE_ONE else max(1, len(target.rows))
        if target.rows.shape != (size, width) or not _usable(target.rows):
            raise IllegalMessage(f"{title_of_message(message)}: the target does not have the shape of the terms")
        if target.release.shape != (plan.dimension if plan else 0,) or not np.isfinite(target.release).all():
            raise IllegalMessage(f"{title_of_message(message)}: the release does not have the shape of the terms")
        self._check_wishes(message, target)

    def _check_wishes(self, message: Message, target: Target) -> None:
        """How the consumer wants the rows selected; nothing that owners hear depends on it."""
        rows = target.rows.astype(np.float64)
        usable = is_usable_width(target.gamma, float(np.einsum("ij,ij->i", rows, rows).max()))
        if not usable:
            raise IllegalMessage(f"{title_of_message(message)}: rows cannot be compared by a kernel of that width")
        if not 0 <= target.folds <= MOST_FOLDS:
            raise IllegalMessage(f"{title_of_message(message)}: wants more than {MOST_FOLDS} folds, or less than none")
        if target.weighted and self.terms.protocol == "interactive":
            raise IllegalMessage(f"{title_of_message(message)}: weights go with sealed offers of rows")

    def _flag(self, owner: str, reason: str) -> None:
        if all(flag.owner != owner for flag in self.flags):
            self.flags.append(Flag(owner, reason))

    def _fault(self, offer: Offer, *, most: int) -> str | None:
        """What is wrong with rows that came in, in words that say nothing about them; None if nothing is."""
        width = self.terms.kernel.columns
        if len(offer.rows) > most:
            return f"sent {len(offer.rows)} rows where at most {most} were asked for"
        if offer.rows.shape[1] != width:
            return f"sent rows with {offer.rows.shape[1]} columns instead of {width}"
        if len(offer.handles) != len(offer.rows) or len(np.unique(offer.handles)) != len(offer.handles):
            return "sent handles that do not name its rows one by one"
        if len(offer.labels) not in (0, len(offer.rows)):
            return f"sent {len(offer.labels)} labels for {len(offer.rows)} rows"
        fault = self._admission.fault(offer.rows, offer.labels, offer.records)
        return None if fault is None else f"sent {fault}"

    def _drop_odd_labels(self, held: list[Held]) -> list[Held]:
        """Without owners whose labels are of another kind than those of most owners of whom something is held.

        Where two kinds have as many owners, the kind of the first owner in the terms counts. Nor with those whose
        labels are so long that a summary of this size would be too large. That is not asked when rows come in: one row
        of an owner would decide whether its others are used in later rounds.
        """
        kinds: dict[int, set[str]] = {}
        for holding in sorted(held, key=lambda holding: holding.owner):
            if len(holding.offer.rows):
                kinds.setdefault(holding.owner, set()).add(_label_kind(holding.offer.labels))
        votes = Counter(next(iter(kind)) for kind in kinds.values() if len(kind) == 1)
        expected = {kind for kind, _ in votes.most_common(1)}
        odd = {owner for owner, kind in kinds.items() if kind != expected}
        for owner in sorted(odd):
            self._flag(self.terms.owners[owner], "sent labels of another kind than other owners")
        long = {holding.owner for holding in held if _letters(holding.offer.labels) > self._most_letters} - odd
        for owner in sorted(long):
            self._flag(self.terms.owners[owner], "sent labels that are too long for a summary of this size")
        return [holding for holding in held if holding.owner not in odd | long]

    @property
    def _most_letters(self) -> int:
        declared = None if self._declared is None else self._declared.label_letters
        return max(1, _LARGEST_LABELS // (_BYTES_PER_LETTER * self.terms.size)) if declared is None else declared

    def _check_quorum(self, taking_part: int) -> None:
        if taking_part < self.terms.quorum:
            raise QuorumMissed(
                f"{taking_part} of {len(self.terms.owners)} owners took part; the terms ask for {self.terms.quorum}"
            )

    def _summary(self, held: list[Held], selected: Selected, held_out: HeldOut | None = None) -> Message:
        """What the consumer gets."""
        rows, owners, handles = _join_offers(held)
        chosen = selected.indices
        places = {name: number for number, name in enumerate(self.terms.owners)}
        flags = sorted(self.flags, key=lambda flag: places[flag.owner])
        summary = Summary(
            rows=rows[chosen],
            labels=_chosen_labels(held, chosen),
            owners=owners[chosen],
            handles=handles[chosen],
            weights=selected.weights,
            gains=selected.gains,
            squared_mmds=selected.squared_mmds,
            rows_seen=self.rows_seen,
            absent=np.array(sorted(places[name] for name in self.absent), dtype=np.int64),
            flagged=np.array([places[flag.owner] for flag in flags], dtype=np.int64),
            reasons=np.array([flag.reason for flag in flags], dtype=np.str_),
            records=self._chosen_records(held, chosen),
            label_weight=selected.label_weight,
            label_skill=selected.label_skill,
            held_out_squared_mmd=held_out.squared_mmd if held_out else math.nan,
            held_out_error=held_out.error if held_out else math.nan,
        )
        self._move(CuratorState.FINISHED)
        return self._message(self.terms.consumer, 0, summary)

    def _chosen_records(self, held: list[Held], chosen: NDArray[np.int64]) -> NDArray[np.uint8]:
        if self._declared is None:
            return np.empty(0, dtype=np.uint8)
        offers = [holding.offer for holding in held]
        tables = [self._declared.unpack(offer.records.tobytes(), rows=len(offer.rows)) for offer in offers]
        return np.frombuffer(self._declared.pack(pa.concat_tables(tables).take(pa.array(chosen))), dtype=np.uint8)


def _join_offers(held: list[Held]) -> tuple[Rows, NDArray[np.int64], NDArray[np.uint64]]:
    rows = np.concatenate([holding.offer.rows for holding in held])
    counts = [len(holding.offer.rows) for holding in held]
    owners = np.repeat([holding.owner for holding in held], counts).astype(np.int64)
    handles = np.concatenate([holding.offer.handles for holding in held])
    return rows, owners, handles


def join_labels(held: list[Held]) -> Labels:
    """The labels of all rows; texts one by one, for an array gives each the room of the longest."""
    parts = [holding.offer.labels for holding in held]
    if all(part.dtype.kind == "U" for part in parts):
        parts = [part.astype(object) for part in parts]
    return np.concatenate(parts)


def _chosen_labels(held: list[Held], chosen: NDArray[np.int64]) -> Labels:
    labels = join_labels(held)
    labels = labels[chosen] if len(labels) else labels
    return labels if labels.dtype.kind != "O" else labels.astype(np.str_)


def _usable(rows: Rows) -> bool:
    """Whether distances between these rows are numbers."""
    try:
        arguments.matrix("rows", rows, allow_empty=True)
    except InvalidArgument:
        return False
    return True


def _label_kind(labels: Labels) -> str:
    """Numbers go together, text goes with text, and nothing with nothing."""
    if not len(labels):
        return "none"
    return "text" if labels.dtype.kind == "U" else "numbers"


def _letters(labels: Labels) -> int:
    """Of the longest label."""
    return int(np.strings.str_len(labels).max(initial=0)) if labels.dtype.kind == "U" else 0


def is_number(value: float) -> bool:
    """Whether a bid or a misfit can be compared with others."""
    return math.isfinite(value)
