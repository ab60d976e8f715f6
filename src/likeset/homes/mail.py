"""The letters of a home. ``Mail.hear`` takes one letter; one transaction records it and all that follows from it.

Draws with noise are the exception: the ledger charges and stores them before.

A run at a home is one row of the table ``runs``; its state moves as ``MOVES`` says. What came, was decided here or
leaves is a row of ``letters``. A party is rebuilt by replaying its numbered inputs: letters and own decisions.
docs/proofs/ledger.md proves what is durable when.
"""

import dataclasses
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal

from likeset.errors import (
    BadDocument,
    ChargeRefused,
    DifferentRequest,
    IllegalMessage,
    LetterRefused,
    LikesetError,
    NotReady,
    PostTrouble,
    TryLater,
    is_final,
)
from likeset.homes.home import Home, stamp
from likeset.homes.runs import (
    DECIDABLE,
    HAS_BYTES,
    LARGEST_LETTER,
    LEAVING,
    LETTER_MOVES,
    MOVES,
    OPEN,
    OVER,
    RECEIPT,
    TO_POST,
    UNDECIDED,
    Decided,
    Ending,
    How,
    Invitation,
    LetterState,
    Run,
    State,
    StoredLetter,
    acknowledging_party,
    duration,
    end_of,
    ending_document,
    in_sql,
    most_bytes_from,
    most_bytes_to_owner,
    must_know,
    padded_size,
    read_word,
    role_in,
    rows_in,
)
from likeset.homes.troubles import Troubles
from likeset.ledger.budget import Charge, Request
from likeset.ledger.ledger import Transaction
from likeset.protocol import wire
from likeset.protocol.party import ChargeWanted, Party, Step
from likeset.protocol.sealed import Consumer, Curator
from likeset.protocol.split import ComputeParty, SplitConsumer
from likeset.protocol.terms import Terms, digest_of_text
from likeset.protocol.wire import Message, decode, in_common, words_of
from likeset.trust.cards import Card, Role, fields
from likeset.trust.letters import (
    NOTHING_RECEIVED,
    Acceptance,
    Letter,
    PostKind,
    Receipt,
    Refusal,
    SignedTerms,
    letter_in,
    open_letter,
    write_letter,
)

CLOCKS_APART: Final = timedelta(hours=1)  # by which the clocks of this machine and of the mailbox may differ
_MOST_A_DAY = 50  # terms that come from one consumer
_MOST_WITHOUT_MEMORY = 5  # attempts at a letter
_MOST_REFUSED_LETTERS = 100  # of one writer in one run; further ones leave no row
_MOST_OF_NAME = 60  # characters of a name that get an end of their own: names have at most 128
_MOST_DOCUMENTS = 10_000  # of one peer in one run
_MOST_DOCUMENT_BYTES = 1 << 20  # of a document that is no letter
_MOST_HELD = 1 << 28  # bytes of messages in parties that are kept; the others are rebuilt when they are needed

_RUN_COLUMNS = tuple(column.name for column in dataclasses.fields(Run))[:-1]  # the last decision is in another table
_DECISION_COLUMNS = tuple(column.name for column in dataclasses.fields(Decided))
_LETTER_COLUMNS = ", ".join(column.name for column in dataclasses.fields(StoredLetter))
_AT_MAILBOX = "EXISTS (SELECT 1 FROM runs WHERE runs.digest = letters.digest AND runs.mailbox = ?)"
_NOT_OVER = in_sql(state for state in State if state not in OVER)
_OVER = in_sql(OVER)
# Runs whose terms are over and that have not ended, or still have bytes: see the index ``letters_with_bytes``.
_TO_END = f"""ends <= ? AND (state IN {_NOT_OVER} OR EXISTS (SELECT 1 FROM letters WHERE digest = runs.digest
    AND {HAS_BYTES}))"""  # noqa: S608
_INTRODUCED = f"AND way = 'in' AND post = 'acceptance' AND state = '{LetterState.HEARD}'"
_TAKEN_BACK = in_sql((LetterState.REFUSED, LetterState.STALE, LetterState.REMOVED))


@dataclass(frozen=True, slots=True)
class Peer:
    name: str
    card: Card
    run_key: bytes = field(repr=False)
    reads: tuple[int, ...]  # versions of messages


@dataclass(frozen=True, eq=False)
class Heard:
    """A letter that was opened; ``message`` is None before it is read, and in a receipt."""

    peer: Peer
    letter: Letter
    data: bytes = field(repr=False)  # of the message
    enclosures: tuple[bytes, ...] = field(repr=False)
    place: tuple[str, str]
    message: Message | None = None
    newcomers: Mapping[str, Acceptance] = field(default_factory=dict)

    @cached_property
    def content(self) -> bytes:
        return hashlib.sha256(fields(self.data, *self.enclosures)).digest()

    @property
    def is_receipt(self) -> bool:
        return not self.data

    @property
    def kind(self) -> str:
        if self.message is not None:
            return self.message.body.kind
        return RECEIPT if self.is_receipt else "letter"


@dataclass(frozen=True, eq=False)
class Decision:
    """A decision of this home, which is an input of its party as a letter is."""

    kind: str
    peer: str = ""  # whom it is about
    enclosed: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)  # acceptances, by the readers of letters

    @property
    def content(self) -> bytes:
        return hashlib.sha256(f"{self.kind} {self.peer}".encode()).digest()


@dataclass(eq=False)
class RoleHandler(ABC):
    """The behaviour of one role in runs: when it takes part, which party answers, what follows, what it waits for."""

    mail: "Mail"
    role: ClassVar[Role]

    def __post_init__(self) -> None:
        self.home.check_role(self.role)
        self.mail.handlers[self.role] = self

    @property
    def home(self) -> Home:
        return self.mail.home

    def runs(self) -> list[Run]:
        return self.mail.runs(role=self.role)

    def open_runs(self) -> list[Run]:
        return [run for run in self.mail.open_runs() if run.role == self.role]

    @abstractmethod
    def consider(self, run: Run) -> tuple[State, str]:
        """Whether this home takes part: ``accepted``, ``waiting``, ``refused`` or ``invited`` (not now), and why."""

    @abstractmethod
    def make(self, run: Run, cards: Mapping[str, Card]) -> tuple[Party, ExitStack]:
        """The party at its start, and what must be closed with it. ``cards`` are those of all who take part."""

    def check(self, run: Run) -> None:  # noqa: B027 - optional
        """Raise if no reply may be made now; called before rows are read and again in the transaction."""

    def start(self, t: Transaction, run: Run) -> None:  # noqa: B027 - optional
        """Called in the transaction that records the first input of a run; charges what the run costs as a whole."""

    def draws_later(self, run: Run) -> bool:  # noqa: ARG002
        """Whether inputs after the first may draw noise."""
        return False

    def charge(self, run: Run, wanted: ChargeWanted) -> Charge:  # noqa: ARG002 - the curator charges accounts of the run
        return wanted.charge

    def after(self, t: Transaction, run: Run, party: Party, heard: Heard | None, replies: Sequence[Message]) -> None:  # noqa: B027 - optional
        """Called in the transaction that records an input, after its replies were charged and sealed."""

    def refuse(self, t: Transaction, run: Run, heard: Heard, error: Exception) -> None:  # noqa: B027 - optional
        """Called in the transaction that records a refused letter; may say that this home abstains, or end the run."""

    def hear_document(self, t: Transaction, run: Run, peer: str, post: PostKind, document: bytes) -> bool:  # noqa: ARG002
        """Take a document that is no letter; returns whether it is permitted."""
        return False

    def due(self, run: Run) -> None:  # noqa: B027 - optional
        """Periodic work, such as deadlines; called in each sync for every run that is not over."""


Act = Callable[[Party], Step]


@dataclass(eq=False)
class _Playing:
    """A party after its first ``version`` inputs."""

    version: int
    party: Party
    resources: ExitStack
    draws: int  # with noise

    @property
    def held_bytes(self) -> int:
        return self.party.traffic.heard_bytes + self.party.traffic.sent_bytes


class Mail:
    def __init__(
        self,
        home: Home,
        *,
        # Reads a letter again: run, peer, folder, file name; None if it is gone.
        fetch: Callable[[Run, str, str, str], bytes | None] = lambda *_: None,
        mailbox_time: Callable[[], datetime] | None = None,
    ) -> None:
        self.home, self.fetch, self.mailbox_time = home, fetch, mailbox_time
        self.handlers: dict[Role, RoleHandler] = {}
        self.troubles = Troubles(home)
        self._parties: dict[bytes, _Playing] = {}  # by the digests of terms; that of the last input is last
        self._peers: dict[tuple[bytes, str], Peer] = {}

    def close(self) -> None:
        for digest in list(self._parties):
            self._drop(digest)

    # Letters: the first entry point.

    def hear(self, data: bytes, *, place: tuple[str, str] = ("", "")) -> None:
        """Take a letter, and store the letters that answer it.

        ``Sync.once`` posts these after ``claim`` has checked the run again. A letter that was answered before changes
        nothing; a refused one is refused again, whatever changed since. ``TryLater``: it cannot be heard yet. Any other
        error for which ``is_final`` is false is a fault of this machine, and no verdict on the letter. ``place`` is the
        folder and the name of its file in the mailbox.
        """
        # Errors up to the signature leave no row here: ``Sync`` notes the file, or tries again after ``TryLater``.
        letter = letter_in(data, most_bytes=LARGEST_LETTER)
        run = self._run_of(letter)
        peer = self._peer_of(run, letter)  # named by the terms, introduced, and not revoked
        if self._was_heard(run, peer, letter):
            return
        if self._count(run, peer.name, f"post = 'letter' AND state = '{LetterState.REFUSED}'") >= _MOST_REFUSED_LETTERS:
            raise IllegalMessage(f"run {run.name}: too many letters of {peer.name} were refused")
        if letter.header.number > self._next_number(run, peer):
            raise TryLater(f"run {run.name}: an earlier letter of {peer.name} has not come yet")
        heard = self._opened(run, peer, letter, place)  # verifies the signature, once
        try:
            if heard.is_receipt:
                self._hear_receipt(run, heard)
            else:
                heard, message = self._read(run, heard)
                self._advance(run, heard, lambda party: party.receive_once(message))
        except MemoryError as error:
            if self.troubles.tries(*place) + 1 < _MOST_WITHOUT_MEMORY:
                raise
            refused = IllegalMessage(f"run {run.name}: a letter of {peer.name} needs more memory than there is")
            self._refuse(run, heard, refused)
            raise refused from error
        except Exception as error:
            if is_final(error):
                self._refuse(run, heard, error)
            raise

    def decide(self, run: Run, decision: Decision, act: Act | None = None) -> None:
        """Record a decision of this home as an input of its party, with the letters that follow from it.

        An error is not recorded: the next sync decides again. ``act`` is for a decision that is never replayed, because
        its run is not resumed.
        """
        self._advance(run, decision, act or (lambda party: _decided(run, party, decision.kind, decision.peer)))

    def _advance(self, run: Run, source: Heard | Decision, act: Act) -> None:
        """Let the party of a run act on an input; one transaction records the input and all that follows from it."""
        heard = source if isinstance(source, Heard) else None
        while True:
            self._check_may_answer(run)
            playing = self._party(run, {} if heard is None else heard.newcomers)
            version, party = playing.version, playing.party
            if heard and self._was_heard(run, heard.peer, heard.letter):
                return  # by another process, and the party has replayed it
            is_recorded = False
            try:
                step = act(party)  # reads rows, without a lock
                # Noise is charged in one transaction and stored in another, both before the block below. If anything
                # fails between them, the draw is never repeated and the letter is refused. Owners draw no noise; their
                # keyed draws are charged in the block.
                step = self._draw_noise(run, playing, step)
                with self.home.deciding() as t:
                    run = self.reload(run)
                    if heard is not None and self._was_heard(run, heard.peer, heard.letter):
                        return
                    self._check_may_answer(run)  # withdrawn or expired meanwhile?
                    if self.version(run) != version:
                        continue  # another input came meanwhile: the step is computed anew
                    drawn = self.home.database.draws(run.name) if self.handlers[run.role].draws_later(run) else 0
                    if drawn > playing.draws:
                        raise TryLater(f"run {run.name}: the input that a draw was made for comes first")
                    self._record(t, run, source, party, step, number=version + 1)
                is_recorded = True
            finally:
                if not is_recorded:
                    self._drop(run.digest)  # its step is not on record
                    self._peers.clear()  # nor are the parties that this letter introduced
            if self._parties.pop(run.digest, None) is not None:  # a run that is answered or over has none
                playing.version += 1
                self._parties[run.digest] = playing
                self._drop_oldest()
            return

    def _check_may_answer(self, run: Run) -> None:
        self.check_open(run)
        self.handlers[run.role].check(run)

    def _record(
        self,
        t: Transaction,
        run: Run,
        source: Heard | Decision,
        party: Party,
        step: Step,
        *,
        number: int,
    ) -> None:
        """Record input ``number`` of a run, charge what the party wants charged, and seal its replies."""
        handler = self.handlers[run.role]
        if number == 1:
            handler.start(t, run)  # charges what the run costs as a whole
            run = self.reload(run)
        if isinstance(source, Decision):
            own = {"kind": source.kind, "content": source.content, "input": number, "state": LetterState.HEARD}
            self._insert(t, run, source.peer, "own", "letter", **own)
        else:
            for name, accepted in source.newcomers.items():
                self._insert(t, run, name, "in", "acceptance", data=accepted.to_bytes(), state=LetterState.HEARD)
            # A trusted curator's home would otherwise hold rows beside the key that opens them.
            stored = None if run.role == "curator" and run.terms.split is None else source.letter.data
            self._insert_heard(t, run, source, LetterState.HEARD, input=number, data=stored)
        replies = step.complete(partial(self._charge_keyed, t, run, party))
        enclosed = source.enclosed if isinstance(source, Decision) else {}
        for reply in replies:
            if peer := self.peer(run, reply.receiver):
                rows = rows_in([reply])
                self._seal(t, run, peer, reply, enclosed.get(peer.name, ()), answers=number, rows=rows)
        handler.after(t, run, party, source if isinstance(source, Heard) else None, replies)

    def _refuse(self, run: Run, heard: Heard, error: Exception) -> None:
        """Record a refusal: it is final, even if a limit is raised later. The reason is for this home alone."""
        self.home.refused(run.name, error)
        with self.home.deciding() as t:
            run, which = self.reload(run), "AND peer = ? AND way = 'in' AND number = ?"
            if not self._select("1", run, which, heard.peer.name, heard.letter.header.number):
                self._insert_heard(t, run, heard, LetterState.REFUSED, data=None)
                self.handlers[run.role].refuse(t, run, heard, error)

    def _seal(
        self, t: Transaction, run: Run, peer: Peer, message: Message | None, enclosed: tuple[bytes, ...], **values: Any
    ) -> None:
        number = self._next_number(run, peer, "out")
        heard = "AND peer = ? AND way = 'in' AND number IS NOT NULL AND state = ? ORDER BY number DESC LIMIT 1"
        last = self._select("letter", run, heard, peer.name, LetterState.HEARD)
        data = b"" if message is None else message.data
        letter = write_letter(
            self.home.secret,
            recipient=peer.card,
            recipient_key=peer.run_key,
            run_id=bytes.fromhex(run.terms.run_id),
            terms=run.digest,
            round=0 if message is None else message.round,
            number=number,
            last_received=last[0][0] if last else NOTHING_RECEIVED,
            message=data,
            enclosures=enclosed,
            padding_step=padded_size(run.terms, type(None) if message is None else type(message.body)),
        )
        values |= {"kind": RECEIPT if message is None else message.body.kind, "round": letter.header.round}
        values |= {"number": number, "letter": letter.digest, "content": hashlib.sha256(data).digest()}
        values |= {"bytes": len(letter.data), "data": letter.data}
        self._insert(t, run, peer.name, "out", "letter", state=LetterState.READY, **values)

    def _insert_heard(self, t: Transaction, run: Run, heard: Heard, state: LetterState, **values: Any) -> None:
        header, (folder, name) = heard.letter.header, heard.place
        values |= {"kind": heard.kind, "round": header.round, "number": header.number, "letter": heard.letter.digest}
        rows = 0 if heard.message is None else rows_in([heard.message])
        values |= {"content": heard.content, "rows": rows, "bytes": len(heard.letter.data)}
        t.connection.execute("DELETE FROM troubles WHERE folder = ? AND name = ? AND name <> ''", heard.place)
        self._insert(t, run, heard.peer.name, "in", "letter", state=state, folder=folder, name=name, **values)

    def _insert(self, t: Transaction, run: Run, peer: str, way: str, post: PostKind, **values: Any) -> None:
        place = {"digest": run.digest, "peer": peer, "way": way, "post": post, "kind": post}
        _insert(t, "letters", {**place, "at": stamp(self.home.clock()), **values})

    # Draws and charges.

    def _draw_noise(self, run: Run, playing: _Playing, step: Step) -> Step:
        handler = self.handlers[run.role]

        def check() -> None:  # called in both transactions
            self.check_open(self.reload(run))
            if self.version(run) != playing.version:
                raise TryLater(f"run {run.name}: another input came meanwhile")

        def draw(wanted: ChargeWanted) -> bytes:
            request = _request(run, wanted, playing.party.heard)
            try:
                data = self.home.database.draw(handler.charge(run, wanted), wanted.draw, request=request, check=check)
            except DifferentRequest as error:
                if handler.draws_later(run):  # a process that died, or still works, drew for another input
                    raise TryLater(str(error)) from None
                raise
            playing.draws += 1
            return data

        while step.charge is not None and not step.charge.repeatable:
            step = step.charged(draw)
        return step

    def _charge_keyed(self, t: Transaction, run: Run, party: Party, wanted: ChargeWanted) -> bytes:
        """Charge for a keyed draw in the transaction that records its letter; noise is rejected before it is drawn."""
        if not wanted.repeatable:
            raise ChargeRefused(f"run {run.name}: noise after a keyed draw, whose charge would not be durable yet")
        message, release = wanted.draw()
        charge = self.handlers[run.role].charge(run, wanted)
        return t.answer(charge, message, release, request=_request(run, wanted, party.heard))

    # Terms: the second entry point.

    def invited(self, data: bytes, *, mailbox: str = "", card: Card | None = None) -> Run:
        """Take signed terms that came in a mailbox from the holder of a card; they are stored once."""
        self.home.check_running()
        with _of_peer("signed terms"):
            signed = SignedTerms.from_bytes(data)
        fault = self.home.pins.fault("consumer", signed.card.fingerprint)
        if fault:
            raise IllegalMessage(f"an invitation: {fault}")
        if self.run(bytes.fromhex(digest_of_text(signed.text))) is None:
            self._check_flood(signed.card.name)  # before anything in them is read
        with _of_peer("signed terms"):
            invitation = Invitation.read(data)
        own = self.home.card.fingerprint
        terms = invitation.terms
        if card is not None and invitation.signed.card != card:
            raise IllegalMessage("terms that another card signed than the sender's")
        self.check_not_expired(terms)
        party = next((name for name, fingerprint in terms.cards.items() if fingerprint == own), None)
        if party is None:
            raise IllegalMessage(f"run {terms.run}: the terms do not name this home's card")
        role = role_in(terms, party)
        if role == "consumer" or role not in self.handlers:
            raise IllegalMessage(f"run {terms.run}: this home has no role {role}")
        known = self.run(invitation.digest)
        if known is not None:
            return self.update(known, mailbox=known.mailbox or mailbox)
        with self.home.deciding() as t:
            return self.add(t, invitation, party, role, mailbox=mailbox)

    def _check_flood(self, consumer: str) -> None:
        today = stamp(self.home.clock())[:10]
        if sum(run.consumer == consumer for run in self._runs("WHERE at >= ?", today)) >= _MOST_A_DAY:
            raise IllegalMessage(f"terms of {consumer}: too many came today")

    def add(self, t: Transaction, invitation: Invitation, party: str, role: Role, *, mailbox: str) -> Run:
        terms = invitation.terms
        known = self.run(invitation.digest)
        if known is not None:
            return known
        run = Run(
            digest=invitation.digest,
            party=party,
            name=self._free_name(terms),
            role=role,
            mailbox=mailbox,
            signed=invitation.signed.to_bytes(),
            acceptance=b"",
            ends=end_of(terms).timestamp(),
            at=stamp(self.home.clock()),
            state=State.INVITED,
        )
        _insert(t, "runs", {column: getattr(run, column) for column in _RUN_COLUMNS})
        entry = {"digest": terms.digest, "consumer": terms.consumer, "card": terms.cards[terms.consumer]}
        t.append("invited", run.name, entry)
        return run

    def _free_name(self, terms: Terms) -> str:
        """The name of a new run at this home; another consumer, or new terms, may have used that of the terms."""
        names = (f"{terms.run[:_MOST_OF_NAME]}-{terms.digest[:size]}" for size in range(8, len(terms.digest) + 1))
        return next(name for name in (terms.run, *names) if not self.runs(name=name))

    # Whether this home takes part.

    def consider(self, run: Run) -> Run:
        """Accept a run, or tell the consumer that this home waits or abstains; the next sync posts the answer."""
        role = run.role
        if run.state not in DECIDABLE or role == "consumer":
            return run
        if role == "owner" and run.state in UNDECIDED and self.passed(run.deadline):
            return run  # too late: nothing is signed, and the next sync closes it
        handler = self.handlers[run.role]
        try:
            self.check_not_expired(run.terms)
            self._check_cards(run.terms, run.party)
            reads, here = run.invitation.signed.reads, wire.READS
            mismatch = f"{run.consumer} reads messages of version {words_of(reads)}, and this home {words_of(here)}"
            state, reason = handler.consider(run) if in_common(reads, here) else (State.INVITED, mismatch)
        except LikesetError as error:
            if not is_final(error):
                raise
            reason = type(error).__name__
            if run.reason != reason:
                self.home.refused(run.name, error)
            state = State.REFUSED if run.decided == "denied" else State.INVITED
        if state == run.state == State.ACCEPTED:
            return run
        with self.home.deciding() as t:
            run = self.reload(run)
            if run.state not in DECIDABLE:
                return run
            if state != run.state or reason != run.reason:
                run = self.change(t, run, state=state, reason=reason)
            if state == State.ACCEPTED:
                if not run.acceptance:  # the key is made in the transaction, so two processes never make two
                    key, run_id = self.home.make_run_key(run.digest).public, bytes.fromhex(run.terms.run_id)
                    accepted = Acceptance(run_id, run.digest, role, run.party, self.home.card, key, wire.READS)
                    run = self.change(t, run, acceptance=accepted.signed_by(self.home.secret).to_bytes())
                self.write_document(t, run, run.consumer, "acceptance", run.acceptance)
                self.take_back(t, run, "participation", "ending")
            elif run.role == "owner":
                if state != State.INVITED or run.acceptance:  # rules may still change: until then nothing is said
                    self.write_word(t, run, run.consumer, "waiting" if state == State.WAITING else "abstains")
            else:
                self.write_document(t, run, run.consumer, "ending", ending_document(Ending.NOT_CURATED, reason))
        return run

    # Whether letters may be answered and posted now.

    def check_open(self, run: Run) -> None:
        """Raise unless letters of a run may be answered and posted now: the one place that decides this."""
        self.home.check_running()
        if run.state not in OPEN and not (run.role == "consumer" and run.state == State.INVITED):
            raise IllegalMessage(f"run {run.name} is {run.state} here")
        self.check_not_expired(run.terms)
        if self.home.run_key(run.digest) is None:  # restored from a backup: it may have drawn and sent
            raise IllegalMessage(f"run {run.name}: its key is not in this home")
        self._check_cards(run.terms, run.party)

    def _check_cards(self, terms: Terms, party: str) -> None:
        if terms.cards.get(party) != self.home.card.fingerprint:
            raise IllegalMessage(f"run {terms.run}: the terms name another card than this home's")
        known = must_know(terms, party).items()
        faults = [fault for role, name in known if (fault := self.home.pins.fault(role, terms.cards[name]))]
        if faults:
            raise IllegalMessage(f"run {terms.run}: {'; '.join(faults)}")

    def check_not_expired(self, terms: Terms) -> None:
        if self.passed(end_of(terms)):
            terms.check_not_expired(self.home.clock())

    def passed(self, moment: datetime) -> bool:
        """Whether a moment is over. Nothing final follows from this machine's clock alone."""
        now = self.home.clock()
        if now < moment or self.mailbox_time is None:
            return now >= moment
        there = self.mailbox_time()
        if there < moment and now - there > CLOCKS_APART:
            raise NotReady(
                f"the clock is {duration(now - there)} ahead of all letters: this machine says {now:%Y-%m-%d %H:%M} "
                f"UTC, the mailbox {there:%Y-%m-%d %H:%M}; nothing is ended until they agree: set the wrong one"
            )
        return True

    # Documents that are no letters: acceptances, participation, progress, endings.

    def hear_document(
        self, card: Card, digest: bytes, post: PostKind, document: bytes, *, place: tuple[str, str]
    ) -> bool:
        """Take a document from a peer; returns whether it is permitted. It is recorded with its file either way."""
        run = self.run(digest)
        if run is None:
            if post == "ending":
                return False  # of terms that were taken back before they came
            raise TryLater("a document under terms that are not known here")
        cards = run.terms.cards.items()
        peer = next((name for name, known in cards if known == card.fingerprint and name != run.party), None)
        with self.home.deciding() as t:
            run = self.reload(run)
            handler = self.handlers[run.role]
            is_flood = peer is not None and self._count(run, peer, "post <> 'letter'") >= _MOST_DOCUMENTS
            is_flood |= len(document) > _MOST_DOCUMENT_BYTES
            if peer is None or run.is_over or is_flood or not handler.hear_document(t, run, peer, post, document):
                self._note_file(t, *place)
                return peer is not None and run.is_over
            # Only the last document of these kinds counts; older ones leave no bytes.
            which = "AND peer = ? AND way = 'in' AND post = ? AND post NOT IN ('acceptance', 'participation')"
            self._update(t, run, "data = NULL", which, peer, post)
            place_of_file = {"folder": place[0], "name": place[1]}
            self._insert(t, run, peer, "in", post, data=document, state=LetterState.HEARD, **place_of_file)
        return True

    def write_document(self, t: Transaction, run: Run, peer: str, post: PostKind, document: bytes) -> None:
        """Write a document to a peer in place of the last one of its kind."""
        if self.last_document(run, "out", post, peer) == document:
            return
        self.take_back(t, run, post, peer=peer)
        self._insert(t, run, peer, "out", post, data=document, bytes=len(document), state=LetterState.READY)

    def write_word(self, t: Transaction, run: Run, peer: str, word: Literal["waiting", "abstains"]) -> None:
        """Say where this owner stands. A mailbox may show older words later, and even after the acceptance."""
        said = "leaves" if run.acceptance else word
        last = read_word(self.last_document(run, "out", "participation", peer) or b"")
        if last is None or last[0] != said:
            which = "AND way = 'out' AND post = 'participation' AND peer = ?"
            ((number,),) = self._select("count(*)", run, which, peer)
            self.write_document(t, run, peer, "participation", f"{said} {number}".encode("ascii"))

    def take_back(self, t: Transaction, run: Run, *posts: PostKind, peer: str | None = None) -> None:
        """Take back documents: those that were not posted are dropped, posted ones are removed from the mailbox."""
        moves = dict.fromkeys(LEAVING, LetterState.STALE) | {LetterState.READY: LetterState.REMOVED}
        for post in posts:
            which = "digest = ? AND way = 'out' AND post = ? AND peer = coalesce(?, peer)"
            _move(t, moves, which, run.digest, post, peer)

    def open_runs_with(self, card: Card) -> list[str]:
        """The names of the runs that a decision or letter could continue and that need a card pinned here."""
        open_runs = self.open_runs()
        going = (run for run in open_runs if not (run.is_over or run.is_stopped or run.decided == "denied"))
        runs = ((run, run.readable) for run in going)
        needed = ((run, terms, must_know(terms, run.party).values()) for run, terms in runs if terms is not None)
        named = (run.name for run, terms, names in needed if card.fingerprint in {terms.cards[name] for name in names})
        return list(dict.fromkeys(named))

    # Posting. ``sync`` claims rows, writes their files, and marks them as posted.

    def claim(self, run: Run) -> list[StoredLetter]:
        """The outgoing rows of a run to post now. Letters are claimed only if they may leave; others are withheld.

        A row that was claimed before a crash is claimed again: writing its file twice changes nothing.
        """
        which = f"WHERE digest = ? AND state IN {in_sql(TO_POST)}"
        claimed = list[StoredLetter]()
        if not self._letters(which, run.digest):
            return claimed
        with self.home.deciding() as t:
            run = self.reload(run)
            for row in self._letters(which, run.digest):  # again: another process may have changed them
                # What was claimed before may be in the mailbox, so it is never said to be held back.
                held_back = LetterState.WITHHELD if row.state == LetterState.READY else LetterState.REMOVED
                state = LetterState.CLAIMED if self._may_leave(run, row) else held_back
                if state == LetterState.WITHHELD:
                    self._withhold(t, run, row)
                elif state != row.state:
                    _move(t, {row.state: state}, "id = ?", row.id)
                claimed += [replace(row, state=state)] if state == LetterState.CLAIMED else []
        return claimed

    def _may_leave(self, run: Run, row: StoredLetter) -> bool:
        """Whether the file of a row may be written now, for the first time or again."""
        if row.post != "letter" or row.kind == RECEIPT:
            return True
        try:
            if run.role == "owner" or not run.is_over:
                self.check_open(run)
            else:  # the last letters of a run that has just ended
                self.home.check_running()
                self.check_not_expired(run.terms)
        except LikesetError as error:
            if not is_final(error):
                raise
            return False
        return True

    def posted(self, row: StoredLetter, folder: str, name: str, *, removed: Iterable[StoredLetter] = ()) -> None:
        """Record where a row was posted, and which others were removed from the mailbox before."""
        with self.home.deciding() as t:
            # A row that was taken back while its file was written is removed from the mailbox by the next sync.
            t.connection.execute("UPDATE letters SET folder = ?, name = ? WHERE id = ?", (folder, name, row.id))
            moves = {LetterState.CLAIMED: LetterState.POSTED, LetterState.REMOVED: LetterState.STALE}
            _move(t, moves, "id = ?", row.id)
            _note_removed(t, removed)

    def removed(self, rows: Iterable[StoredLetter]) -> None:
        with self.home.deciding() as t:
            _note_removed(t, rows)

    def post_again(self, rows: Iterable[int]) -> None:
        """Claim posted rows again whose files somebody else removed; the next claim checks whether they may leave."""
        if gone := list(rows):
            with self.home.deciding() as t:
                for row in gone:
                    _move(t, {LetterState.POSTED: LetterState.CLAIMED}, "id = ?", row)

    def unclaim(self, row: StoredLetter) -> None:
        """Give up a claimed row that can no longer be written; it may be in the mailbox from an earlier attempt."""
        with self.home.deciding() as t:
            _move(t, {LetterState.CLAIMED: LetterState.REMOVED}, "id = ?", row.id)

    def stale(self, mailbox: str) -> list[StoredLetter]:
        """Outgoing rows whose files must be removed."""
        return self._letters(f"WHERE way = 'out' AND state = ? AND {_AT_MAILBOX}", LetterState.STALE, mailbox)

    def posted_files(self, mailbox: str, *, every: bool) -> dict[str, dict[str, int]]:
        """The rows of posted files by name, by folder: every one, or those of runs that are not over."""
        of_open = f"AND digest IN (SELECT digest FROM runs WHERE state IN {_NOT_OVER})"  # noqa: S608
        which = f"{_AT_MAILBOX} {'' if every else of_open}"
        query = f"SELECT folder, name, id FROM letters WHERE way = 'out' AND state = ? AND {which}"  # noqa: S608
        posted: dict[str, dict[str, int]] = {}
        with self.home.database.snapshot() as connection:
            for folder, name, number in connection.execute(query, (LetterState.POSTED, mailbox)):
                posted.setdefault(folder, {})[name] = number
        return posted

    def runs_to_post(self, mailbox: str) -> list[Run]:
        to_post = f"SELECT digest FROM letters WHERE way = 'out' AND state IN {in_sql(TO_POST)}"  # noqa: S608
        return self._runs(f"WHERE mailbox = ? AND digest IN ({to_post})", mailbox)

    def readers(self, mailbox: str, folders: Iterable[str]) -> list[tuple[Run, str]]:
        """To whom rows are to be posted, and for whom those in some folders are: runs and names of parties."""
        query = "SELECT digest, peer FROM letters WHERE way = 'out' AND "
        with self.home.database.snapshot() as connection:
            found = set(connection.execute(f"{query}state IN {in_sql(TO_POST)}"))
            for folder in folders:
                found.update(connection.execute(query + "folder = ? LIMIT 1", (folder,)))
        runs = {digest: self.run(digest) for digest, _ in found}
        named = ((runs[digest], peer) for digest, peer in sorted(found))
        return [(run, peer) for run, peer in named if run is not None and run.mailbox == mailbox]

    def withhold(self, t: Transaction, run: Run) -> None:
        """Withhold letters that were not posted yet; they never leave."""
        for row in self._letters("WHERE digest = ? AND state = ?", run.digest, LetterState.READY):
            if row.post == "letter" and row.kind != RECEIPT:
                self._withhold(t, run, row)

    def _withhold(self, t: Transaction, run: Run, row: StoredLetter) -> None:
        _move(t, {LetterState.READY: LetterState.WITHHELD}, "id = ?", row.id)
        t.append("withheld", run.name, {"kind": row.kind, "rows": row.rows})

    # Receipts.

    def write_receipts(self, t: Transaction, run: Run, owners: Iterable[str]) -> None:
        """Sign a receipt for each owner: the digests of the letters that came, and how many rows they contain."""
        rows = self.letters(run)
        acknowledged = {row.peer for row in rows if (row.way, row.kind) == ("out", RECEIPT)}
        for owner in owners:
            peer = self.peer(run, owner)
            if owner in acknowledged or peer is None:
                continue
            letters = [row for row in rows if (row.way, row.peer) == ("in", owner) and row.number is not None]
            receipt = Receipt(
                run_id=bytes.fromhex(run.terms.run_id),
                terms=run.digest,
                owner=owner,
                rows=sum(row.rows for row in letters),
                letters=tuple(row.letter for row in letters),
                at=stamp(self.home.clock()),
                card=self.home.card,
            ).signed_by(self.home.secret)
            self._seal(t, run, peer, None, (receipt.to_bytes(),), rows=receipt.rows)

    def _hear_receipt(self, run: Run, heard: Heard) -> None:
        """Store a receipt; it may come after a withdrawal, too."""
        self.home.check_running()
        terms = run.terms
        if run.role != "owner" or heard.peer.name != acknowledging_party(terms) or len(heard.enclosures) != 1:
            raise IllegalMessage(f"run {run.name}: a letter without a message and without a receipt")
        with _of_peer(run.name):
            receipt = Receipt.from_bytes(heard.enclosures[0])
        names = (receipt.run_id, receipt.terms, receipt.owner)
        if names != (bytes.fromhex(terms.run_id), run.digest, run.party) or not receipt.is_signed_by(heard.peer.card):
            raise IllegalMessage(f"run {run.name}: a receipt for another run or owner, or signed by another card")
        with self.home.deciding() as t:
            run = self.reload(run)
            if self._was_heard(run, heard.peer, heard.letter):
                return
            sent = {row.letter: row for row in self.letters(run) if row.way == "out" and row.peer == heard.peer.name}
            rows = sum(sent[letter].rows for letter in receipt.letters if letter in sent)
            if not set(receipt.letters) <= sent.keys() or receipt.rows != rows:
                raise IllegalMessage(f"run {run.name}: a receipt for other letters or rows than this home sent")
            if self.receipt(run) is not None:  # each would stay for good
                raise IllegalMessage(f"run {run.name}: a second receipt")
            # The receipt stands alone, so it is stored instead of the letter, which nobody can open later.
            self._insert_heard(t, run, heard, LetterState.HEARD, data=receipt.to_bytes())
            t.append("acknowledged", run.name, {"rows": receipt.rows, "letters": len(receipt.letters)})
            if run.state == State.ANSWERED:
                self.change(t, run, state=State.CLOSED, ended=Ending.DONE, reason="")

    def receipt(self, run: Run) -> Receipt | None:
        rows = [row for row in self.letters(run) if row.is_heard(RECEIPT)]
        data = self.data_of(rows[-1]) if rows else None
        return None if data is None else Receipt.from_bytes(data)

    # The end of the terms.

    def tick(self) -> None:
        """End runs whose terms are over, and delete their keys and the bytes that the keys open."""
        keys, now = self.home.run_keys(), self.home.clock().timestamp()
        with self.home.database.snapshot() as connection:
            ended = {digest for (digest,) in connection.execute("SELECT digest FROM runs WHERE ends <= ?", (now,))}
            left = {digest for (digest,) in connection.execute(f"SELECT digest FROM runs WHERE {_TO_END}", (now,))}  # noqa: S608
        for digest in sorted(left | {digest for digest in ended if digest.hex() in keys}):
            run = self.run(digest)
            if run is not None and self.passed(run.end):
                if not run.is_over:
                    self.end(run, State.EXPIRED, Ending.TERMS_EXPIRED)
                self.forget(run)

    def forget(self, run: Run) -> None:
        """Delete the key of a run and all bytes of its letters; digests of own letters and receipts stay."""
        with self.home.deciding() as t:
            self.withhold(t, run)
            self._update(t, run, "data = NULL", "AND kind <> ?", RECEIPT)
            # A digest without a secret in it lets a reader of this disk try out rows.
            self._update(t, run, "content = NULL", "AND way = 'in'")
            moves = dict.fromkeys(LEAVING, LetterState.REMOVED) | {LetterState.POSTED: LetterState.STALE}
            _move(t, moves, "digest = ? AND way = 'out'", run.digest)
        has_shares = run.readable is None or run.is_split
        if run.has_begun and has_shares and self.home.database.messages(run=run.name):
            self.home.database.purge(run=run.name)  # shares, salts and keys of envelopes
        self._delete_key(run)  # last: while it is there, the next sync does this again

    def forget_shares(self, run: Run) -> None:
        """Delete the key of a run that ended early, and the bytes of the letters that came; receipts leave."""
        if self.home.run_key(run.digest) is None:
            return
        with self.home.deciding() as t:
            self._update(t, run, "data = NULL, content = NULL", "AND way = 'in' AND post = 'letter'")
        self._delete_key(run)

    def _delete_key(self, run: Run) -> None:
        """Delete the key of a run, after the write-ahead log has lost the bytes that it opens."""
        self.home.database.empty_log()
        self.home.delete_run_key(run.digest)

    def delete_unused_keys(self) -> None:
        """Delete keys whose process was killed before it recorded their runs, and files that it had not finished."""

        def unused() -> set[str]:
            with self.home.database.snapshot() as connection:
                return self.home.run_keys() - {
                    digest.hex() for (digest,) in connection.execute("SELECT digest FROM runs")
                }

        if unused():
            with self.home.deciding():  # keys are made in such a block
                for name in unused():
                    self.home.delete_run_key(name)

    # Runs.

    def run(self, digest: bytes) -> Run | None:
        return next(iter(self._runs("WHERE digest = ?", digest)), None)

    def runs(self, *, name: str | None = None, role: Role | None = None, mailbox: str | None = None) -> list[Run]:
        chosen = {"name": name, "role": role, "mailbox": mailbox}
        given = {column: value for column, value in chosen.items() if value is not None}
        which = " AND ".join(f"{column} = ?" for column in given) or "1"
        return self._runs(f"WHERE {which}", *given.values())

    def open_runs(self, mailbox: str | None = None) -> list[Run]:
        """Runs in which something may still come or happen; an owner that withdrew may get a receipt."""
        which = f"(state IN {_NOT_OVER} OR (state = '{State.CANCELLED}' AND ends > ? AND role = 'owner'))"
        given = [self.home.clock().timestamp(), *([] if mailbox is None else [mailbox])]
        return self._runs(f"WHERE {which} {'' if mailbox is None else 'AND mailbox = ?'}", *given)

    def runs_to_clean(self, role: Role) -> list[Run]:
        """Runs that are over and have something left to do."""
        return self._runs(f"WHERE state IN {_OVER} AND due > 0 AND role = ?", role)

    def _runs(self, which: str, *values: object) -> list[Run]:
        last = "LEFT JOIN decisions ON number = (SELECT max(number) FROM decisions WHERE run = runs.digest)"
        columns = ", ".join((*_RUN_COLUMNS, *_DECISION_COLUMNS))
        query = f"SELECT {columns} FROM runs {last} {which} ORDER BY runs.rowid"  # noqa: S608
        with self.home.database.snapshot() as connection:
            rows = connection.execute(query, values).fetchall()
        split = ((row[: len(_RUN_COLUMNS)], row[len(_RUN_COLUMNS) :]) for row in rows)
        return [Run(*row, *([Decided(*decision)] if decision[0] else [])) for row, decision in split]

    def reload(self, run: Run) -> Run:
        now = self.run(run.digest)
        if now is None:
            raise IllegalMessage(f"run {run.name} is not known here")
        return now

    def change(self, t: Transaction, run: Run, **changes: Any) -> Run:
        """Change columns of a run's row; a change of ``state`` must be one of ``MOVES``.

        ``TryLater``: the row has another state than ``run``, which was read too early.
        """
        state = changes.get("state", run.state)
        if state != run.state and state not in MOVES[run.state]:
            raise IllegalMessage(f"run {run.name} is {run.state} here, and cannot become {state}")
        columns = ", ".join(f"{column} = ?" for column in changes)
        query = f"UPDATE runs SET {columns} WHERE digest = ? AND state = ?"  # noqa: S608
        if t.connection.execute(query, (*changes.values(), run.digest, run.state)).rowcount != 1:
            raise TryLater(f"run {run.name} is no longer {run.state} here")
        if state != run.state and (not MOVES[state] or state == State.STOPPED):
            t.connection.execute("DELETE FROM troubles WHERE digest = ?", (run.digest,))
        if state not in (State.ACCEPTED, State.BEGUN):
            self._drop(run.digest)  # its source, a copy of the table and the bytes of its letters
        return replace(run, **changes)

    def note_decision(self, t: Transaction, run: Run, what: str, *, by: str, how: How, why: str = "") -> None:
        made = stamp(self.home.clock())
        _insert(t, "decisions", {"run": run.digest, "what": what, "who": by, "how": how, "made": made, "why": why})

    def update(self, run: Run, **changes: Any) -> Run:
        """Change columns of a run's row in a transaction of its own, unless they are so already."""
        if all(getattr(run, column) == value for column, value in changes.items()):
            return run
        with self.home.deciding() as t:
            return self.change(t, self.reload(run), **changes)

    def end(self, run: Run, state: State, ending: Ending, detail: str = "") -> Run:
        """End a run; the first ending counts."""
        with self.home.deciding() as t:
            return self.end_in(t, self.reload(run), state, ending, detail)

    def end_in(self, t: Transaction, run: Run, state: State, ending: Ending, detail: str = "") -> Run:
        if run.is_over:
            return run
        t.append(state.value, run.name, {"digest": run.digest.hex(), "detail": ending.outcome(detail)})
        # What a split run leaves beside its letters is removed later: see ``ComputeHandler.clean``.
        has_files = run.role != "owner" and run.readable is not None and run.is_split
        due = run.ends if has_files else None
        return self.change(t, run, state=state, ended=ending, reason=detail, due=due)

    # Parties: rebuilt from their inputs, and cached while no other process adds one.

    def version(self, run: Run) -> int:
        """How many inputs the party of a run has heard."""
        return int(self._select("coalesce(max(input), 0)", run)[0][0])

    def party(self, run: Run) -> Party:
        """The party of a run, rebuilt from its inputs if necessary."""
        return self._party(run, {}).party

    def _party(self, run: Run, newcomers: Mapping[str, Acceptance]) -> _Playing:
        cached = self._parties.get(run.digest)
        if cached is not None and (cached.version != self.version(run) or cached.party.failed):
            self._drop(run.digest)
            cached = None
        if cached is None:
            party, sources = self.handlers[run.role].make(run, self._cards(run, newcomers))
            party.versions = self.versions(run)
            cached = _Playing(0, party, sources, 0)
            try:
                self._replay(run, cached)
            except BaseException:
                sources.close()
                raise
            self._parties[run.digest] = cached
        if newcomers:
            cached.party.versions = self.versions(run, newcomers)
        return cached

    def _drop(self, digest: bytes) -> None:
        dropped = self._parties.pop(digest, None)
        if dropped is not None:
            dropped.resources.close()

    def _drop_oldest(self) -> None:
        held = sum(playing.held_bytes for playing in self._parties.values())
        for digest, playing in list(self._parties.items())[:-1]:
            if held > _MOST_HELD:
                self._drop(digest)
                held -= playing.held_bytes

    def _replay(self, run: Run, playing: _Playing) -> None:
        """Let a new party hear all inputs again; what it drew before is in the ledger."""
        rows = self.letters(run)
        inputs = sorted((row for row in rows if row.input is not None), key=lambda row: row.input or 0)
        if not inputs:
            return
        stored = {message.key: message.message for message in self.home.database.messages(run=run.name)}

        def stored_draw(wanted: ChargeWanted) -> bytes:
            key = _request(run, wanted).key
            if key not in stored:
                raise IllegalMessage(f"run {run.name}: a part of its log was purged; it cannot be resumed")
            playing.draws += not wanted.repeatable
            return stored[key]

        answers: dict[int | None, list[bytes]] = {}
        for row in rows:
            answers.setdefault(row.answers, []).append(row.content)
        for row in inputs:
            replies = self._replayed(run, playing.party, row).complete(stored_draw)
            replayed = [hashlib.sha256(reply.data).digest() for reply in replies if self.peer(run, reply.receiver)]
            if replayed != answers.get(row.input, []):
                reason = "replaying the log produced different bytes; this run cannot be resumed"
                raise IllegalMessage(f"run {run.name}: {reason}")
            playing.version = row.input or 0

    def _replayed(self, run: Run, party: Party, row: StoredLetter) -> Step:
        if row.way == "own":
            return _decided(run, party, row.kind, row.peer)
        data = self.data_of(row) or self.fetch(run, row.peer, row.folder, row.name)
        if data is None:
            raise PostTrouble(run.mailbox, f"run {run.name}: a letter of {row.peer} was removed from the mailbox")
        peer = self.peer(run, row.peer)
        if peer is None:
            raise IllegalMessage(f"run {run.name}: {row.peer} is not known")
        letter = letter_in(data, most_bytes=LARGEST_LETTER)
        if letter.digest != row.letter:
            raise IllegalMessage(f"run {run.name}: a letter of {row.peer} is not the one that was heard")
        _, message = self._read(run, self._opened(run, peer, letter, (row.folder, row.name)))
        return party.receive(message)

    # Who writes a letter, and what is in it.

    def _run_of(self, letter: Letter) -> Run:
        run = self.run(letter.header.terms)
        if run is None:
            raise TryLater("a letter under terms that are not known here")
        if run.terms.cards.get(run.party) != letter.header.recipient:
            raise LetterRefused(Refusal.RECIPIENT)
        return run

    def _peer_of(self, run: Run, letter: Letter) -> Peer:
        """The writer of a letter: named by the terms, not revoked, and introduced. Only the consumer introduces."""
        sender = letter.header.sender
        name = next((name for name, card in run.terms.cards.items() if card == sender), None)
        if name is None or name == run.party:
            raise IllegalMessage(f"run {run.name}: a letter of a party that the terms do not name")
        if self.home.pins.is_given_up(sender):
            raise IllegalMessage(f"run {run.name}: a letter of {name}, whose card was revoked here")
        peer = self.peer(run, name)
        if peer is None and run.is_over:
            raise IllegalMessage(f"run {run.name}: a letter of {name} in a run that ended here")
        if peer is None:
            raise TryLater(f"run {run.name}: a letter of {name}, which was not introduced yet")
        return peer

    def peer(self, run: Run, name: str) -> Peer | None:
        """A party that takes part in a run; None if it was not introduced."""
        key = (run.digest, name)
        if key not in self._peers:
            if name == run.terms.consumer:
                signed = run.invitation.signed
                self._peers[key] = Peer(name, signed.card, signed.run_key, signed.reads)
            else:
                rows = self._select("data", run, f"{_INTRODUCED} AND peer = ? LIMIT 1", name)
                if not rows:
                    return None
                accepted = Acceptance.from_bytes(rows[0][0])
                self._peers[key] = Peer(name, accepted.card, accepted.run_key, accepted.reads)
        return self._peers[key]

    def leave_out(self, run: Run, reasons: Mapping[str, str]) -> None:
        """Write nothing to parties that accepted."""
        for name, reason in reasons.items():
            self.home.refused(run.name, reason)
            with self.home.deciding() as t:
                which = "digest = ? AND way = 'in' AND post = 'acceptance' AND peer = ?"
                _move(t, {LetterState.HEARD: LetterState.REFUSED}, which, run.digest, name)
            self._peers.pop((run.digest, name), None)

    def introduced(self, run: Run) -> frozenset[str]:
        """The names of all parties that accepted and were introduced."""
        return frozenset(name for (name,) in self._select("peer", run, _INTRODUCED))

    def _cards(self, run: Run, newcomers: Mapping[str, Acceptance]) -> dict[str, Card]:
        names = {run.terms.consumer, *self.introduced(run)} - {run.party}
        known = {name: peer.card for name in sorted(names) if (peer := self.peer(run, name)) is not None}
        return known | {name: accepted.card for name, accepted in newcomers.items()}

    def versions(self, run: Run, newcomers: Mapping[str, Acceptance] = MappingProxyType({})) -> dict[str, int]:
        """In which version messages to each party are written: the newest that both have signed to read.

        It stays the same in a run whatever is installed meanwhile, so that the same bytes are written again.
        """
        signed = run.invitation.signed
        own = Acceptance.from_bytes(run.acceptance).reads if run.acceptance else signed.reads
        peers = (peer for name in self.introduced(run) | {run.terms.consumer} if (peer := self.peer(run, name)))
        reads = {peer.name: peer.reads for peer in peers} | {name: new.reads for name, new in newcomers.items()}
        return {name: in_common(own, theirs) for name, theirs in reads.items()}

    def accepted(self, run: Run, data: bytes) -> Acceptance | None:
        """An acceptance of these terms by a party that they name; None if it does not hold."""
        try:
            acceptance = Acceptance.from_bytes(data)
        except BadDocument:
            return None
        terms = run.terms
        holds = (
            acceptance.run_id == bytes.fromhex(terms.run_id)
            and acceptance.terms == run.digest
            and terms.cards.get(acceptance.party) == acceptance.card.fingerprint
            and acceptance.party not in (terms.consumer, run.party)
            and acceptance.role == role_in(terms, acceptance.party)
            and not self.home.pins.is_given_up(acceptance.card.fingerprint)
        )
        return acceptance if holds else None

    def _opened(self, run: Run, peer: Peer, letter: Letter, place: tuple[str, str]) -> Heard:
        key = self.home.run_key(run.digest)
        if key is None:
            if run.state in DECIDABLE:
                raise TryLater(f"run {run.name}: this home has not accepted these terms")
            raise IllegalMessage(f"run {run.name}: its key was deleted")
        if len(letter.data) > self.most_bytes(run, peer.name):
            raise IllegalMessage(f"run {run.name}: a letter that is larger than {peer.name} may write")
        opened = open_letter(letter, writer=peer.card, reader=self.home.card, key=key)
        return Heard(peer, letter, opened.message, opened.enclosures, place)

    def _read(self, run: Run, heard: Heard) -> tuple[Heard, Message]:
        """Read the message of a letter, and the acceptances that it encloses."""
        peer, message = heard.peer, decode(heard.data, most_bytes=LARGEST_LETTER)
        names = (message.run, message.terms, message.sender, message.receiver, message.round)
        if names != (run.terms.run, run.terms.digest, peer.name, run.party, heard.letter.header.round):
            raise IllegalMessage(f"run {run.name}: a message of {peer.name} is not the one that its letter names")
        return replace(heard, message=message, newcomers=self._newcomers(run, peer, heard.enclosures)), message

    def _newcomers(self, run: Run, peer: Peer, enclosures: Sequence[bytes]) -> dict[str, Acceptance]:
        """The parties that a letter of the consumer introduces; nobody else may enclose anything but a receipt."""
        if not enclosures:
            return {}
        if peer.name != run.terms.consumer:
            raise IllegalMessage(f"run {run.name}: a letter of {peer.name} with enclosures")
        known, newcomers = self.introduced(run), {}
        for data in enclosures:
            accepted = self.accepted(run, data)
            if accepted is None:
                raise IllegalMessage(f"run {run.name}: an enclosed acceptance does not hold")
            if accepted.party not in known:
                newcomers[accepted.party] = accepted
        return newcomers

    def most_bytes(self, run: Run, peer: str) -> int:
        """The size of the largest letter that a peer may write to this party."""
        return most_bytes_to_owner(run.terms) if run.role == "owner" else most_bytes_from(run.terms, peer)

    # Looking letters up.

    def letters(self, run: Run) -> list[StoredLetter]:
        return self._letters("WHERE digest = ?", run.digest)

    def began(self, run: Run) -> datetime | None:
        """When the consumer's first letter was written, or came."""
        way = "out" if run.role == "consumer" else "in"
        rows = (row for row in self.letters(run) if (row.way, row.post) == (way, "letter"))
        return next((row.time for row in rows if way == "out" or row.peer == run.terms.consumer), None)

    def rows_sent(self, run: Run) -> int:
        """How many rows are in outgoing letters of a run; the parts of one offer are the same rows."""
        total = "max" if run.is_split else "sum"
        return int(self._select(f"coalesce({total}(rows), 0)", run, "AND way = 'out'")[0][0])

    def data_of(self, row: StoredLetter) -> bytes | None:
        with self.home.database.snapshot() as connection:
            ((data,),) = connection.execute("SELECT data FROM letters WHERE id = ?", (row.id,))
        return None if data is None else bytes(data)

    def last_document(self, run: Run, way: str, post: PostKind, peer: str) -> bytes | None:
        """The document of a kind that came last from a peer, or that was last written to it."""
        which = (
            f"AND way = ? AND post = ? AND peer = ? AND state NOT IN {_TAKEN_BACK} AND data IS NOT NULL "
            "ORDER BY id DESC LIMIT 1"
        )
        rows = self._select("data", run, which, way, post, peer)
        return bytes(rows[0][0]) if rows else None

    def message_of(self, run: Run, row: StoredLetter) -> Message | None:
        """The message in an inbound letter whose bytes and key are here; None if they are gone."""
        data, peer = self.data_of(row), self.peer(run, row.peer)
        if data is None or peer is None or self.home.run_key(run.digest) is None:
            return None
        letter = letter_in(data, most_bytes=LARGEST_LETTER)
        return self._read(run, self._opened(run, peer, letter, (row.folder, row.name)))[1]

    def _was_heard(self, run: Run, peer: Peer, letter: Letter) -> bool:
        """Whether a letter was heard before; raises if it was refused, or if another letter had its number."""
        which = "AND peer = ? AND way = 'in' AND number = ?"
        for known, state in self._select("letter, state", run, which, peer.name, letter.header.number):
            if bytes(known) != letter.digest:
                raise IllegalMessage(f"run {run.name}: another letter of {peer.name} had this number")
            if state == LetterState.REFUSED:
                raise IllegalMessage(f"run {run.name}: this letter was refused before")
            return True
        return False

    def _next_number(self, run: Run, peer: Peer, way: str = "in") -> int:
        return int(self._select("coalesce(max(number) + 1, 0)", run, "AND peer = ? AND way = ?", peer.name, way)[0][0])

    def _count(self, run: Run, peer: str, which: str) -> int:
        return int(self._select("count(*)", run, f"AND peer = ? AND way = 'in' AND {which}", peer)[0][0])

    def _letters(self, which: str, *values: object) -> list[StoredLetter]:
        with self.home.database.snapshot() as connection:
            rows = connection.execute(f"SELECT {_LETTER_COLUMNS} FROM letters {which} ORDER BY id", values)  # noqa: S608
            return [StoredLetter(*row) for row in rows]

    def _select(self, what: str, run: Run, which: str = "", *values: object) -> list[Any]:
        query = f"SELECT {what} FROM letters WHERE digest = ? {which}"  # noqa: S608
        with self.home.database.snapshot() as connection:
            return connection.execute(query, (run.digest, *values)).fetchall()

    def _update(self, t: Transaction, run: Run, change: str, which: str, *values: object) -> None:
        query = f"UPDATE letters SET {change} WHERE digest = ? {which}"  # noqa: S608
        t.connection.execute(query, (run.digest, *values))

    # Files of the mailbox.

    def files(self, folder: str, times: Mapping[str, datetime] | None = None) -> dict[str, str]:
        """The files of a folder that this home knows, with the state of their rows.

        ``times`` are those of the files, by the mailbox. They count where this machine's clock was behind: deadlines
        are counted from letters.
        """
        with self.home.database.snapshot() as connection:
            query = "SELECT id, name, state, at FROM letters WHERE folder = ?"
            rows = connection.execute(query, (folder,)).fetchall()
        dated = ((number, at, times[name]) for number, name, _, at in rows if times and name in times)
        late = [(stamp(time), number) for number, at, time in dated if time - datetime.fromisoformat(at) > CLOCKS_APART]
        if late:
            with self.home.deciding() as t:
                t.connection.executemany("UPDATE letters SET at = ? WHERE id = ?", late)
        return {name: state for _, name, state, _ in rows}

    def note_file(self, folder: str, name: str) -> None:
        with self.home.deciding() as t:
            self._note_file(t, folder, name)

    def _note_file(self, t: Transaction, folder: str, name: str) -> None:
        """Remember, while a file is there, that it was read and is recorded nowhere else."""
        t.connection.execute("DELETE FROM troubles WHERE folder = ? AND name = ?", (folder, name))
        row = {"digest": b"", "peer": "", "way": "in", "post": "letter", "kind": "file", "state": LetterState.READ}
        _insert(t, "letters", {**row, "at": stamp(self.home.clock()), "folder": folder, "name": name})

    def forget_files(self, folder: str, names: Iterable[str]) -> None:
        with self.home.deciding() as t:
            t.connection.executemany(
                "DELETE FROM letters WHERE folder = ? AND name = ? AND kind = 'file'",
                [(folder, name) for name in names],
            )

    def is_unknown_own(self, document: bytes) -> bool:
        """Whether this home signed a document that its database does not know: then an old backup was restored.

        Purging keeps the digests of own letters.
        """
        own = self.home.card
        try:
            if SignedTerms.is_in(document):
                is_own, value = SignedTerms.from_bytes(document).card == own, document
                query = "SELECT 1 FROM runs WHERE signed = ?"
            elif Acceptance.is_in(document):
                is_own, value = Acceptance.from_bytes(document).card == own, document
                query = "SELECT 1 FROM runs WHERE acceptance = ?"
            else:
                letter = letter_in(document, most_bytes=len(document))
                is_own, value = letter.is_signed_by(own), letter.digest
                query = "SELECT 1 FROM letters WHERE way = 'out' AND letter = ?"
        except LikesetError:
            return False
        with self.home.database.snapshot() as connection:
            return is_own and connection.execute(query, (value,)).fetchone() is None


@contextmanager
def _of_peer(what: str) -> Iterator[None]:
    """What a peer wrote is read, so a mistake in it is the peer's."""
    try:
        yield
    except LikesetError as error:
        if error.fault != "caller":
            raise
        raise IllegalMessage(f"{what}: {error}") from error


def _decided(run: Run, party: Party, kind: str, peer: str) -> Step:
    """Let a party act on a decision of this home: when it is made, and in a replay."""
    match kind, party:
        case "start", Consumer() | SplitConsumer():
            return party.start()
        case "give-up", Curator() | ComputeParty():
            return party.give_up(peer)
    raise IllegalMessage(f"run {run.name}: the decision {kind!r} cannot be replayed; this run cannot be resumed")


def _request(run: Run, wanted: ChargeWanted, inputs: bytes = b"") -> Request:
    """The ledger's request for a draw: by the name that the run has at this home, and no other run."""
    return replace(wanted.request(inputs=inputs), run=run.name)


def _note_removed(t: Transaction, rows: Iterable[StoredLetter]) -> None:
    for row in rows:
        _move(t, {LetterState.STALE: LetterState.REMOVED}, "id = ?", row.id)


def _move(t: Transaction, moves: Mapping[LetterState, LetterState], which: str, *values: object) -> None:
    """Move the chosen rows of ``letters`` that are in one of these states; each move must be one of the table's."""
    for state, after in moves.items():
        if after not in LETTER_MOVES[state]:
            raise ValueError(f"a letter that is {state} cannot become {after}")
        t.connection.execute(f"UPDATE letters SET state = ? WHERE state = ? AND {which}", (after, state, *values))  # noqa: S608


def _insert(t: Transaction, table: str, row: Mapping[str, Any]) -> None:
    query = f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})"  # noqa: S608
    t.connection.execute(query, list(row.values()))
