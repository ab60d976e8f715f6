"""The node: lets a run in, answers its messages within what was approved, and refuses and logs everything else.

Whatever the curator says, what happens here follows from the owner's policy, from decisions in the audit log, and from
the ledger. The other side hears whether this owner takes part, waits or abstains, and replies of the protocol; never a
reason, for reasons could tell something about rows.
"""

import contextlib
import threading
from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from likeset.errors import IllegalMessage, InvalidArgument, LikesetError
from likeset.homes.expiry import utc_now
from likeset.homes.identity import Identity
from likeset.homes.letter_book import LetterBook
from likeset.homes.owner import exchanges, invitations
from likeset.homes.owner.asking_cards import AskingCard
from likeset.homes.owner.datasets import DataSet
from likeset.homes.owner.home import Home
from likeset.homes.owner.judging import Judge
from likeset.homes.owner.permits import Permits
from likeset.homes.owner.policy import Policy, Verdict
from likeset.homes.owner.refusals import BY_SITE, OTHERS, Refusals, about_run
from likeset.homes.owner.run_answers import RunAnswers
from likeset.homes.owner.run_records import RunRecord, Runs, ended_split_runs
from likeset.homes.signed_invitation import Invitation
from likeset.homes.standings import ABSTAINS, READY, WAITING, Abstains, Standing
from likeset.homes.transcripts import Transcript, transcript_of
from likeset.ledger import Ledger
from likeset.protocol.messages import Message
from likeset.protocol.terms import Terms

__all__ = ["OwnerNode"]

_BY_POLICY = "owner.yaml"

_Answer = TypeVar("_Answer")


class OwnerNode:
    """An owner's side of all its runs, over a directory that several processes may share.

    Args:
        folder: the node's directory.
        clock: tells the time.

    Attributes:
        failed: never: the node makes its parties anew by itself.

    Privacy contract:
        Protects:  the owner's rows, within the limits of ``owner.yaml``.
        Reveals:   to the curator: replies of the protocol in approved runs, and whether it takes part, waits or
                   abstains; to those who read the directory: everything.
        Costs:     what the terms announce, charged to the node's ledger before the first answer of a run.
        Assumes:   the directory and its clock are the owner's own; nothing else answers in its name.
        Basis:     proven, docs/proofs/ledger.md
    """

    failed: ClassVar[bool] = False

    def __init__(self, folder: Path, *, clock: Callable[[], datetime] = utc_now) -> None:
        self.home = Home(folder)
        self.home.check()
        self._clock = clock
        self._lock = threading.RLock()
        self._open = ExitStack()
        self.runs = Runs()
        self.ledger = Ledger(self.home.ledger, clock=clock, reader=self.runs.take)
        self._open.callback(self.ledger.close)
        self.log = self.ledger.log
        self._refusals = Refusals(self.log, self.runs.refusals, clock)
        self._open.callback(self._refusals.flush)
        try:
            self.log.refresh()
            self._judge = Judge(self.home, ledger=self.ledger, runs=self.runs, clock=clock)
            self._permits = Permits(self._judge, self.ledger, self.check_running, clock)
            self.registry = self._judge.registry
            self.name = self.policy.name
            self._answers = RunAnswers(self.home, self.name, ledger=self.ledger, clock=clock)
            self._open.callback(self._answers.close)
        except BaseException:
            self._open.close()
            raise

    @property
    def policy(self) -> Policy:
        """The policy as it is now; to read it changes nothing."""
        return self._judge.policy()

    def put_policy_in_force(self, *, by: str = "") -> Policy:
        """The same; a change is written into the audit log before it counts, with who made it if that is known."""
        return self._judge.policy_in_force(by=by)

    def check_policy(self, policy: Policy) -> None:
        """Raise ``BadDocument`` unless this node may have this policy: its name and its relation stay."""
        self._judge.fitting(policy)

    def now(self) -> datetime:
        """The time, as this node tells it."""
        return self._clock()

    @cached_property
    def book(self) -> LetterBook:
        """The letters of all runs; keys of those whose terms have ended are gone."""
        book = LetterBook(self.home.book_file, clock=self._clock)
        self._open.callback(book.close)
        book.settle_ended()
        return book

    @cached_property
    def identity(self) -> Identity:
        """Who this node is in letters, and whom it knows.

        Raises:
            BadDocument: it has no keys; others can read them, or they are damaged.
        """
        return Identity(self.home.card_secret(), self._judge.pins, self.book)

    def check_running(self) -> None:
        """Raise if this node was found to be put back from an old copy: then it decides and answers nothing.

        Raises:
            HomeRestored: it was.
        """
        if self.home.book_file.exists():
            self.book.check_running()

    def close(self) -> None:
        """Let go of all files."""
        self._open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # What others may ask.

    def take_invitation(self, data: bytes) -> Standing:
        """Terms of a run that a consumer signed; they wait for a decision, unless the policy decides.

        Of terms that the policy forbids only the digest is kept, and of a card that is not pinned only its fingerprint.
        """

        def take() -> Standing:
            invitations.check_known_card(data, self._judge.pins)
            invitation = Invitation.read(data)
            self._take_in(invitation, by_steward=False)
            return self._stand(self.runs.by_name[invitation.terms.run], invitation.terms)

        return self.guarded("", take)

    def add_invitation(self, invitation: Invitation) -> bool:
        """The same for somebody in this house, who sees also what is forbidden, and hears why something is not added.

        Returns:
            Whether these terms were not known before.

        Raises:
            IllegalMessage: they are not for this owner, or the run has begun under other terms.
            HomeRestored: this node was put back from an old copy.
        """
        return self.logging_refusals("", lambda: self._take_in(invitation, by_steward=True))

    def standing(self, run: str, digest: str | None = None) -> Standing:
        """Whether this owner takes part in a run: ready, waiting for a decision, or it abstains.

        Args:
            run: its name.
            digest: of its terms; of those that came last if None.
        """

        def look() -> Standing:
            self.log.refresh()
            record = self._known(run)
            return self._stand(record, record.latest if digest is None else record.version(digest))

        return self.guarded(run, look)

    def take(self, message: Message) -> tuple[Message, ...]:
        """The replies to a message, which somebody else has opened and knows the writer of (``homes.owner.site``).

        Raises:
            LikesetError: it is refused; the reason is in the audit log, and for nobody else.
        """

        def answer() -> tuple[Message, ...]:
            self.log.refresh()
            record = self._known(message.run)
            terms = record.version(message.terms)
            self._permits.check_open(record, terms)
            permits = self._permits
            return self._answers.answer(record, terms, message, permit=permits.permit, stands=permits.check_open)

        return self.logging_refusals(message.run, answer)

    def check_open(self, terms: Terms) -> None:
        """Raise unless messages under these terms may be answered now.

        Raises:
            LikesetError: they may not.
        """
        self.log.refresh()
        self._permits.check_open(self._known(terms.run), terms)

    def logging_refusals(self, run: str, work: Callable[[], _Answer]) -> _Answer:
        """What somebody wants done in a run; where that fails, the audit log says why before the error goes on."""
        with self._lock:
            try:
                return work()
            except Exception as error:
                self._refuse(run, error)
                raise

    def guarded(self, run: str, work: Callable[[], _Answer]) -> _Answer | Abstains:
        """The same for somebody outside, who hears nothing but that this owner abstains."""
        try:
            return self.logging_refusals(run, work)
        except Exception:
            return ABSTAINS

    def refused(self, reason: str, *, run: str = "") -> None:
        """Write down what was refused before it came here: its size, its form, who wrote it.

        Args:
            reason: why.
            run: whose letter it is; empty where that is not known.
        """
        with self._lock, contextlib.suppress(LikesetError, OSError):
            self.log.refresh()
            self._refusals.write(run, reason, account=self._account_of(run) if run else BY_SITE)

    # What the owner decides.

    def judge(self, terms: Terms, *, data: str = "") -> Verdict:
        """Whether the policy allows a run, with every reason against it; the same in reviews and when it begins.

        Args:
            terms: of the run.
            data: the data set to use; the one that fits if empty.
        """
        return self._judge.judge(self.policy, terms, data=data)

    def asking(self, terms: Terms) -> tuple[AskingCard, ...]:
        """Who asks for a run and who curates it, by their cards, and whether this owner knows them."""
        return self._judge.asking(self.policy, terms)

    def record_of(self, run: str) -> RunRecord:
        """What is known of a run.

        Raises:
            InvalidArgument: nobody was invited to a run of that name.
        """
        self.log.refresh()
        if run not in self.runs.by_name:
            raise InvalidArgument("RUN", run, "is not known here; see `likeset owner inbox --all`")
        return self.runs.by_name[run]

    def transcript(self, run: str) -> Transcript:
        """What passed between the curator and this node in a run: under the terms that somebody decided about.

        Raises:
            IllegalMessage: these terms cannot be read here.
        """
        record = self.record_of(run)
        terms = record.version(record.decision.digest if record.decision else record.latest_digest)
        book = self.book if self.home.book_file.exists() else None  # to look leaves no file
        return transcript_of(book, terms, owner=self.name, kept_by="owner")

    def waiting(self) -> list[RunRecord]:
        """Runs that wait for a decision: not those whose terms have ended, but those that cannot be read here."""
        self.log.refresh()
        return [record for record in self.runs.waiting() if not record.has_ended(self._clock())]

    def note(self, kind: str, run: str, **words: Any) -> None:
        """Write something into the audit log."""
        self.log.append(kind, run, words)

    def approve(self, run: str, digest: str, *, by: str, data: str = "", seen: str | None = None) -> Verdict:
        """Approve these very terms, if the policy allows them; others of the same run are approved no longer.

        Args:
            run: its name.
            digest: of the terms that are approved.
            by: who approves.
            data: the data set that may be used; the one that fits if empty.
            seen: ``decision_mark`` of the run as they saw it; whatever it is now if None.

        Raises:
            DecidedMeanwhile: somebody else decided since.
        """
        self.check_running()
        record = self.record_of(run)
        terms = record.version(digest)
        self._permits.check_undecidable(record, digest, seen=seen)
        verdict = self._judge.judge(self.put_policy_in_force(), terms, data=data)
        if verdict.accepted:
            chosen = data or self.registry.for_terms(terms)[0].name
            with self.log.deciding() as append:
                self._permits.check_undecidable(record, digest, seen=seen)
                append("approved", run, {"digest": digest, "by": by, "data": chosen})
        return verdict

    def deny(self, run: str, *, by: str, reason: str, seen: str | None = None) -> None:
        """Refuse the terms of a run that came last; ``seen`` as in ``approve``."""
        self.check_running()
        record = self.record_of(run)
        with self.log.deciding() as append:
            self._permits.check_undecidable(record, record.latest_digest, seen=seen)
            if self._permits.has_begun(record):
                raise InvalidArgument("RUN", run, "has begun; end it with `likeset owner withdraw`")
            append("denied", run, {"digest": record.latest_digest, "by": by, "reason": reason})

    def withdraw(self, run: str, *, by: str, seen: str | None = None) -> None:
        """From now on no message of this run is answered; what left has left, and stays charged.

        An answer that is being computed meanwhile does not leave: it would have to be written down as sent, and after
        this entry it is not. The run's key stays: a receipt for what left before may still come. ``seen`` as in
        ``approve``.
        """
        self.check_running()
        record = self.record_of(run)
        with self.log.deciding() as append:
            self._permits.check_seen(record, seen)
            if record.withdrawn is None:
                append("withdrawn", run, {"by": by})

    def data_for(self, terms: Terms, *, data: str = "") -> DataSet:
        """The data set that a run uses.

        Raises:
            InvalidArgument: none fits, or the choice is not clear.
        """
        return self._judge.data_for(terms, data=data)

    # How a run is let in.

    def _take_in(self, invitation: Invitation, *, by_steward: bool) -> bool:
        """Write terms down that are not known yet; returns whether they were not."""
        self.check_running()
        self.settle_ended()
        terms = invitation.terms
        if self.runs.know(terms):
            return False
        policy = self.put_policy_in_force()
        if self.name not in terms.owners:
            raise IllegalMessage(f"run {terms.run}, terms {terms.digest}: they do not invite {self.name}")
        if not by_steward:
            invitations.check_words(policy, terms, self._clock())
        with self.log.deciding() as append:
            if not self.runs.know(terms):
                invitations.check_not_begun(self.runs, terms)
                if not by_steward:
                    invitations.check_room(self.runs, policy, terms, self._clock())
                append("invited", terms.run, invitations.entry_words(invitation, by_steward=by_steward))
        return True

    def settle_ended(self) -> None:
        """Forget what runs needed whose terms have ended: keys, and what was shared. A node may be open for months."""
        if self.home.book_file.exists():
            self.book.settle_ended()
        self.log.refresh()
        exchanges.forget_exchanges(self.ledger, ended_split_runs(self.runs, self._clock()))

    def _stand(self, record: RunRecord, terms: Terms) -> Standing:
        decision = record.decided(terms.digest)
        self._permits.check_not_ended(record, terms)
        if decision is not None and decision.what == "denied":
            return ABSTAINS
        if decision is not None and record.began:
            return READY
        policy = self.put_policy_in_force()
        self._permits.check_allowed(policy, terms, data=decision.data if decision else "")
        if decision is None:
            if policy.manual_approval:
                return WAITING
            self.approve(terms.run, terms.digest, by=_BY_POLICY)
        return READY

    def _known(self, run: str) -> RunRecord:
        if run not in self.runs.by_name:
            raise IllegalMessage(f"run {run} is unknown here")
        return self.runs.by_name[run]

    def _refuse(self, run: str, error: Exception) -> None:
        # Texts of errors that are not likeset's may quote rows.
        name = type(error).__name__
        reason = f"{name}: {error}" if isinstance(error, LikesetError) else name
        self._refusals.write(run, reason, account=self._account_of(run))

    def _account_of(self, run: str) -> str:
        record = self.runs.by_name.get(run)
        approved = record is not None and record.decision is not None and record.decision.what == "approved"
        return about_run(run) if approved else OTHERS
