"""A consumer at a mailbox: it leaves terms, gathers answers, begins when it is time, and takes the summary.

It carries the runs whose folders say so: ``KeptRun.keep_travel`` is what `run start --mailbox` calls after `invite`,
and the next look leaves the terms. A run begins when all have answered, or when its time to decide is over and the
curator and a quorum of owners take part; that time is fixed when it starts, and nobody is asked twice.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import ClassVar

from likeset.errors import HomeRestored, LikesetError, MailboxTrouble, QuorumMissed, UnfinishedRequest
from likeset.homes.compute import ComputeRoom, SplitConsumerRun
from likeset.homes.consumer.site import consumer_by_mail
from likeset.homes.consumer_home import ConsumerHome
from likeset.homes.home import ABSTAINS, READY, WAITING
from likeset.homes.mail import IN, ConsumerRun, Identity, Invitation, end_of, peer_in, utc_now
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import WITNESS, Terms
from likeset.protocol.wire import Summary
from likeset.split.host import split_python
from likeset.transports.mailbox.computing_desk import ComputingDesk
from likeset.transports.mailbox.desk import REMEMBERED, TRANSIENT
from likeset.transports.mailbox.memory import Answer, KnownRun
from likeset.transports.mailbox.postman import Arrived
from likeset.transports.mailbox.split_runs import PROGRESS
from likeset.transports.mailbox.words import EndingWords, ProgressWords
from likeset.transports.outcomes import Ending
from likeset.transports.stores import Store
from likeset.trust.cards import Card
from likeset.trust.letters import MOST_ACCEPTANCE_BYTES, PostKind


@dataclass(frozen=True, slots=True)
class TravellingRun:
    """A run that this consumer lets travel by the mailbox.

    Attributes:
        invitation: the signed terms.
        decide_by: when it begins without those who have not decided.
        cancelled: whether the consumer stopped it.
    """

    invitation: Invitation
    decide_by: datetime
    cancelled: bool = False


@dataclass(eq=False)
class ConsumerDesk(ComputingDesk):
    """A consumer at a mailbox.

    Args:
        travelling: the runs that travel by this mailbox, by name.
        patience: how long it waits for owners in split runs, from its own letter.
        room: where it computes in split runs; None for a process that only looks.
    """

    stays_by: ClassVar[str] = "likeset run watch RUN"

    travelling: Callable[[], Iterable[TravellingRun]] = field(kw_only=True)
    _decide_by: dict[bytes, datetime] = field(default_factory=dict, init=False)

    def _visit(self) -> None:
        for travelling in self.travelling():
            digest = bytes.fromhex(travelling.invitation.terms.digest)
            self._decide_by[digest] = travelling.decide_by
            self._invitations[digest] = travelling.invitation
            is_forgotten = self.clock() >= end_of(travelling.invitation.terms) + REMEMBERED
            if digest not in self.runs and not travelling.cancelled and not is_forgotten:
                self.follow(travelling.invitation)
            if travelling.cancelled and digest in self.runs and not self.runs[digest].ended:
                self._cancel(self.runs[digest])
        self._load_runs()
        open_runs = [run for run in self.runs.values() if not run.ended and run.terms in self._decide_by]
        for run in open_runs:
            self._leave_terms(run)
        self.take_from(
            self._peers(open_runs).values(), wanted=lambda _card, _kind, terms: terms in self.runs, take=self._take
        )
        for run in open_runs:
            self._go_on(run)
        for card in self._peers(self.runs.values()).values():
            self.postman.look_after(card)

    def _cancel(self, run: KnownRun) -> None:
        if self.split.is_split(run) and self._has_begun(run):
            self.split.finish(run, Ending.CANCELLED, tell=True)
        else:
            self._end(run, Ending.CANCELLED)

    def _peers(self, runs: Iterable[KnownRun]) -> dict[str, Card]:
        peers: dict[str, Card] = {}
        for run in runs:
            for party in self.terms(run).cards:
                if party != self.terms(run).consumer:
                    card = self.card_of(run, party)
                    if card is None:
                        self.postman.note(f"the card of {party} is not pinned here any more; nothing of it is read")
                    else:
                        peers[card.fingerprint] = card
        return peers

    def most_letter(self, terms: Terms, party: str) -> int:
        """See ``MailDesk.most_letter``; an owner writes letters to the consumer only in a split run."""
        if party in terms.owners and terms.split is None:
            return MOST_ACCEPTANCE_BYTES
        return super().most_letter(terms, party)

    def _leave_terms(self, run: KnownRun) -> None:
        """For everybody who has not accepted yet, until the run begins."""
        if self._has_begun(run):
            return
        answers = self.memory.answers(run.terms)
        for party in self.terms(run).cards:
            answer = answers.get(party)
            if party != self.terms(run).consumer and (answer is None or answer.word != READY):
                self.send(run, party, "terms", run.invitation)

    def _has_begun(self, run: KnownRun) -> bool:
        return bool(self.identity.book.written(run.terms))

    # What comes.

    def _take(self, card: Card, arrived: Arrived) -> None:
        run = self.runs[arrived.post.terms]
        names = [name for name, fingerprint in self.terms(run).cards.items() if fingerprint == card.fingerprint]
        try:
            if names and not run.ended and arrived.post.kind == "letter" and self.split.is_split(run):
                self._take_split(run, names[0], arrived)
                return
            good = bool(names) and (
                bool(run.ended) or self._dealt_with(run, names[0], arrived.post.kind, arrived.post.document)
            )
        except (HomeRestored, MailboxTrouble):
            raise
        except LikesetError as error:  # this home's own trouble
            self.postman.tally.left += 1
            self.postman.note(f"a post of {card.name} waits: {error}")
            return
        self.postman.take(arrived, "heard" if good else "refused")

    def _dealt_with(self, run: KnownRun, party: str, kind: PostKind, document: bytes) -> bool:
        match kind:
            case "standing":
                return self._take_standing(run, party, document)
            case "acceptance":
                return self._take_acceptance(run, party, document)
            case "letter":
                return self._take_letter(run, party, document)
            case "progress" if party == CURATOR:
                return self._take_progress(run, document)
            case "ending" if party in (CURATOR, WITNESS):
                return self._take_ending(run, party, document)
            case _:
                return False

    def _take_split(self, run: KnownRun, party: str, arrived: Arrived) -> None:
        fate = self.split.hear(run, party, arrived.post.document) if self._has_begun(run) else "refused"
        if fate == "later":
            self.postman.tally.left += 1
        else:
            self.postman.take(arrived, fate)

    def _take_standing(self, run: KnownRun, party: str, document: bytes) -> bool:
        word = {data.encode(): data for data in (WAITING, ABSTAINS)}.get(document)
        if word is None:
            return False
        known = self.memory.answer_of(run.terms, party)
        refuses_now = word == ABSTAINS and self.split.is_split(run) and self._has_begun(run)
        if known is None or known.word != READY or refuses_now:
            self.memory.answer(run.terms, party, Answer(word))
        return True

    def _take_acceptance(self, run: KnownRun, party: str, document: bytes) -> bool:
        peer = peer_in(document, self.terms(run), self.identity.pins)
        if peer is None or peer.party != party:
            self.postman.note(f"run {self.terms(run).run}: an acceptance of {party} does not hold")
            return False
        known = self.memory.answer_of(run.terms, party)
        if self._has_begun(run) or (known is not None and known.word == READY):
            return self._meet_again(run, party, document)
        self.memory.answer(run.terms, party, Answer(READY, document))
        self.remove(run, "terms", party=party)
        return True

    def _meet_again(self, run: KnownRun, party: str, document: bytes) -> bool:
        """Whoever signed anew does not remember what it signed before, and is shown it; who comes late is not heard."""
        known = self.memory.answer_of(run.terms, party)
        if known is not None and known.word == READY and known.document != document:
            self.send(run, party, "letter", known.document)
            return False
        return known is not None and known.word == READY

    def _take_letter(self, run: KnownRun, party: str, document: bytes) -> bool:
        side = self.side(run)
        assert side is not None  # noqa: S101 - a consumer has decided
        replies = self.heard(lambda: side.hear(document))
        if isinstance(replies, Exception):
            self.postman.note(f"run {self.terms(run).run}: a letter of {party} was refused: {_words(replies)}")
            return False
        self.send_back(run, party, replies)
        kept = self.identity.book.letters(run.terms, CURATOR)
        if any((letter.way, letter.kind) == (IN, Summary.kind) for letter in kept):
            self._end(run, Ending.DONE)
        return True

    def _take_progress(self, run: KnownRun, document: bytes) -> bool:
        words = ProgressWords.read(document)
        if words is None or not set(words.waiting_for) <= set(self.terms(run).owners):
            return False
        self.memory.answer(run.terms, PROGRESS, Answer("", document))
        return True

    def _take_ending(self, run: KnownRun, party: str, document: bytes) -> bool:
        words = EndingWords.read(document)
        if words is None:
            return False
        if words.ended is Ending.NOT_CURATED:
            known = self.memory.answer_of(run.terms, party)
            if known is None or known.word != READY:
                self.memory.answer(run.terms, party, Answer(ABSTAINS, words.detail.encode()))
        elif self.split.is_split(run):
            return self.split.hear_ending(run, party, document)
        elif words.ended is not Ending.DONE:  # then the summary is on its way
            self._end(run, words.ended, words.detail)
        return True

    # What it is time for.

    def _go_on(self, run: KnownRun) -> None:
        if self.memory_says_ended(run):
            return
        now, terms = self.clock(), self.terms(run)
        if self._has_begun(run) and self.split.is_split(run):
            self._go_on_split(run)
        elif now >= run.ends:
            self._end(run, Ending.TERMS_EXPIRED)
        elif not self._has_begun(run):
            answers = self.memory.answers(run.terms)
            computing = {CURATOR, WITNESS} & terms.cards.keys()
            asked = computing | set(terms.owners)
            accepted = {party for party in asked if party in answers and answers[party].word == READY}
            all_decided = all(party in answers and answers[party].word != WAITING for party in asked)
            enough = computing <= accepted and len(accepted - computing) >= terms.quorum
            if enough and (all_decided or now >= self._decide_by[run.terms]):
                self._begin(run, [answers[party].document for party in sorted(accepted)])
            elif all_decided and computing <= accepted:
                self._end(run, Ending.QUORUM_MISSED)
            else:
                decide_by = self._decide_by[run.terms]
                self.memory.set_due(run.terms, decide_by if now < decide_by else None)

    def _go_on_split(self, run: KnownRun) -> None:
        try:
            self.split.go_on(run)
        except (HomeRestored, *TRANSIENT):
            raise
        except LikesetError as error:
            self.forget_side(run)
            self.postman.note(f"run {self.terms(run).run} waits: {_words(error)}")

    def _begin(self, run: KnownRun, acceptances: list[bytes]) -> None:
        side = self.side(run)
        assert isinstance(side, ConsumerRun | SplitConsumerRun)  # noqa: S101 - the factory makes nothing else here
        self.memory.set_due(run.terms, None)
        try:
            side.begin(acceptances)
        except HomeRestored:
            raise
        except QuorumMissed:
            self._end(run, Ending.QUORUM_MISSED)
        except UnfinishedRequest as error:
            self._end(run, Ending.UNFINISHED, _words(error))
        except LikesetError as error:
            self.forget_side(run)
            self.postman.note(f"run {self.terms(run).run} cannot begin: {_words(error)}")
        else:
            self.remove(run, "terms")

    def _end(self, run: KnownRun, ending: Ending, detail: str = "") -> None:
        self.memory.end_run(run.terms, ending.value, detail)
        self.memory.set_due(run.terms, None)
        self.forget_side(run)
        self.postman.note(f"run {self.terms(run).run}: {ending.value}{f': {detail}' if detail else ''}")

    def _is_settled(self, run: KnownRun, /) -> bool:
        # After an auction nobody may see when it ended: an owner would see its files go. They go with the terms.
        # In a split run others read its last letters when they look.
        is_seen = self.terms(run).auction != "everyone" and run.ended != Ending.CANCELLED.value
        is_last_word = self.split.is_split(run) and self._has_begun(run)
        return bool(run.ended) and not is_seen and not is_last_word


def _words(error: Exception) -> str:
    """Texts of errors that are not likeset's may quote rows."""
    return str(error) if isinstance(error, LikesetError) else type(error).__name__


def consumer_desk(
    folder: Path,
    store: Store,
    *,
    patience: timedelta | None = None,
    clock: Callable[[], datetime] = utc_now,
    room: ComputeRoom | None = None,
    check_workers: Callable[[], object] = split_python,
) -> ConsumerDesk:
    """A consumer's desk at one mailbox: it carries all runs that travel by it (``run.travel.mailbox``).

    Args:
        folder: the consumer's directory.
        store: the mailbox.
        patience: how long it waits for owners in split runs; by ``consumer.yaml`` if None.
        clock: tells the time.
        room: where it computes in split runs; None for a process that only looks.
        check_workers: raises where no worker can be started, which split runs need.

    Raises:
        LikesetError: this is no consumer's directory, or it has no keys.
    """
    home = ConsumerHome(folder)
    home.check()
    identity = Identity.of(folder, clock=clock)
    known: dict[str, TravellingRun] = {}

    def travelling() -> Iterable[TravellingRun]:
        for run in home.runs():
            if run.name not in known or run.cancelled:
                travel = run.travel
                if travel is None or travel.mailbox != store.address:
                    continue
                known[run.name] = TravellingRun(run.invitation, travel.decide_by, run.cancelled)
        return known.values()

    return ConsumerDesk(
        folder,
        store,
        partial(consumer_by_mail, identity=identity, check_workers=check_workers),
        identity,
        clock,
        travelling=travelling,
        patience=home.connection.patience if patience is None else patience,
        room=room,
    )
