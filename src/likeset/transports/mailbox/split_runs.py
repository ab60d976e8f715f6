"""Split runs at the desk of a compute party: curator, consumer or witness.

Letters are heard as they come. When owners' parts are there, or their time is over, the party tells which it has; when
all compute parties agree, it computes, if this process stays (``serve``), beside the looks. A run ends for a reason.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Literal

from likeset.errors import BadDocument, HomeRestored, LikesetError, NoAnswer, QuorumMissed
from likeset.homes.compute import ComputeFolder, ComputeRoom, ComputeRun, SplitConsumerRun
from likeset.homes.mail import IN, OUT, KeptLetter
from likeset.protocol.party import CURATOR, ComputeState
from likeset.protocol.split_run import NOTHING_HELD
from likeset.protocol.terms import WITNESS
from likeset.protocol.wire import ShareReceipts
from likeset.transports.mailbox.desk import TRANSIENT, MailDesk
from likeset.transports.mailbox.memory import Answer, KnownRun
from likeset.transports.mailbox.words import EndingWords, ProgressWords, last_time
from likeset.transports.outcomes import Ending
from likeset.trust.letters import letter_in

PROGRESS: Final = "@progress"
"""In the place of a party: whom a run waits for, by the last word of whoever waits."""
COMPUTING: Final = "@computing"
"""In the place of a party: how far the computation is here, in words."""
SOON: Final = timedelta(seconds=2)
"""How soon a desk looks again while something is computed."""

Fate = Literal["heard", "refused", "later"]


@dataclass(eq=False)
class SplitRuns:
    """What a desk does in split runs.

    Args:
        desk: whose runs.
        end: notes how a run ended; the first word counts.
        patience: how long the party waits for owners' parts.
        room: where it computes; None for a process that only looks.
        command: that stays and computes, as a person types it.
    """

    desk: MailDesk
    end: Callable[[KnownRun, Ending, str], None]
    patience: timedelta
    room: ComputeRoom | None
    command: str
    _told: dict[bytes, str] = field(default_factory=dict, init=False)
    _faults: set[str] = field(default_factory=set, init=False)

    def is_split(self, run: KnownRun) -> bool:
        return self.desk.terms(run).split is not None

    def side(self, run: KnownRun) -> ComputeRun:
        """This party's side of it; raises as ``MailDesk.side``."""
        side = self.desk.side(run)
        assert isinstance(side, ComputeRun)  # noqa: S101 - a factory of a compute party makes nothing else
        return side

    # What comes.

    def hear(self, run: KnownRun, party: str, data: bytes) -> Fate:
        """Hear a letter.

        Raises:
            HomeRestored: this home stops.
            LedgerUnavailable, MailboxTrouble: the letter is left.
        """
        try:
            side = self.side(run)
        except (HomeRestored, *TRANSIENT):
            raise
        except LikesetError as error:  # this home's own trouble, which can be mended
            self.desk.postman.note(f"run {self.desk.terms(run).run} waits: {error}")
            return "later"
        if side.party is None and _number(data) > 0:
            return "later"  # the consumer's first letter says who takes part, and files come in any order
        replies = self.desk.heard(lambda: side.hear(data))
        if isinstance(replies, NoAnswer):
            self.desk.postman.note(f"run {side.terms.run} waits: {replies}")
            return "later"
        if isinstance(replies, Exception):
            self._note_refusal(run, party, replies)
            return "refused"
        self.desk.send_back(run, party, replies)
        self._note_faults(side)
        if side.party is not None and side.party.finished and not isinstance(side, SplitConsumerRun):
            self.finish(run, Ending.DONE)
        return "heard"

    def hear_ending(self, run: KnownRun, party: str, document: bytes) -> bool:
        """Another compute party says how the run ended there; where rows were opened, only the consumer says that."""
        words = EndingWords.read(document)
        if words is None or words.ended in (Ending.DONE, Ending.NOT_CURATED):
            return False
        if (
            ComputeFolder(self.desk.folder, run.terms.hex()).opening.picks() is None
        ):  # nobody takes that from its reader
            said = f": {words.detail}" if words.detail else ""
            self.finish(run, words.ended, f"{party} says so{said}")  # its word, which nothing here proves
        return True

    def _note_refusal(self, run: KnownRun, party: str, error: Exception) -> None:
        terms = self.desk.terms(run)
        words = str(error) if isinstance(error, LikesetError) else type(error).__name__
        self.desk.postman.note(f"run {terms.run}: a letter of {party} was refused: {words}")
        if isinstance(error, QuorumMissed):
            self.finish(run, Ending.QUORUM_MISSED, tell=True)
        elif self.side(run).failed:
            self.finish(run, Ending.NOT_COMPUTED, words, tell=True)

    def _note_faults(self, side: ComputeRun) -> None:
        """Parts that are not used stand in the notes, once."""
        for fault in () if side.party is None else side.party.faults:
            words = f"run {side.terms.run}: {fault.party} {fault.reason}"
            if words not in self._faults:
                self._faults.add(words)
                self.desk.postman.note(words)

    # What it is time for.

    def go_on(self, run: KnownRun) -> None:
        """Wait no longer for those whose time is over; compute; end what cannot come to an end."""
        now = self.desk.clock()
        if now >= run.ends:
            self.finish(run, Ending.TERMS_EXPIRED)
            return
        side = self.side(run)
        if side.party is None:
            return
        try:
            self._give_up(run, side, now)
        except QuorumMissed:
            self.finish(run, Ending.QUORUM_MISSED, tell=True)
            return
        if isinstance(side, SplitConsumerRun):
            side.acknowledge()
        began, is_consumer = self._began(run), isinstance(side, SplitConsumerRun)
        if side.party.is_ready:
            self._compute(run, side)
        elif is_consumer:
            self._say_state(run, side)
        if is_consumer and began is not None and now >= last_time(run.ends, began) and not self._is_over(run):
            self.finish(run, Ending.NOT_COMPUTED, self._whom_it_waited_for(side), tell=True)

    def _is_over(self, run: KnownRun) -> bool:
        return self.desk.memory_says_ended(run)

    def _give_up(self, run: KnownRun, side: ComputeRun, now: datetime) -> None:
        deadline = self._deadline(run, side)
        present, answers = self.desk.identity.book.introduced(run.terms), self.desk.memory.answers(run.terms)
        for owner in sorted(side.waiting_for):
            is_gone = isinstance(side, SplitConsumerRun) and (owner not in present or self._abstains(owner, answers))
            if is_gone or (deadline is not None and now >= deadline):
                side.give_up(owner)
        if side.waiting_for and deadline is not None:
            words = ProgressWords(tuple(sorted(side.waiting_for)), deadline)
            self.desk.memory.answer(run.terms, PROGRESS, Answer("", words.to_bytes()))
            self.desk.memory.set_due(run.terms, deadline)
        else:
            self.desk.memory.answer(run.terms, PROGRESS, Answer(""))

    def _abstains(self, owner: str, answers: dict[str, Answer]) -> bool:
        return owner in answers and answers[owner].word == "abstains"

    def _deadline(self, run: KnownRun, side: ComputeRun) -> datetime | None:
        """When owners are given up: so long after the run began, or after the consumer said whose parts it has."""
        began = self._began(run)
        since = began
        if not isinstance(side, SplitConsumerRun):
            since = _first(self._letters(run), IN, side.terms.consumer, ShareReceipts.kind)
        return None if since is None or began is None else min(since + self.patience, last_time(run.ends, began))

    def _began(self, run: KnownRun) -> datetime | None:
        """When the consumer's first letter was written, or came."""
        consumer, letters = self.desk.terms(run).consumer, self._letters(run)
        own = _first(letters, OUT, None, None)
        return _first(letters, IN, consumer, None) or own

    def _letters(self, run: KnownRun) -> list[KeptLetter]:
        return self.desk.identity.book.letters(run.terms)

    # Computing.

    def _compute(self, run: KnownRun, side: ComputeRun) -> None:
        assert side.party is not None  # noqa: S101 - it is ready
        if self.room is None:
            words = f"all compute parties are ready: computing needs `{self.command}` here, and serve at the others"
            self._say(run, words)
            return
        digest = side.terms.digest
        try:
            reaches = side.reaches
        except BadDocument as error:  # it signed that with its vote, and says nothing else any more
            self.finish(run, Ending.NOT_COMPUTED, str(error), tell=True)
            return
        status = self.room.start(digest, side.party.inputs(), reaches)
        self._say(run, str(status))
        self._note_repeats(run)
        if status.state == "failed":
            self.finish(run, Ending.NOT_COMPUTED, status.reason, tell=True)
        elif status.state == "done" and isinstance(side, SplitConsumerRun):
            self._open(run, side)

    def _open(self, run: KnownRun, side: SplitConsumerRun) -> None:
        assert self.room is not None  # noqa: S101 - it computed
        slots = self.room.opened(side.terms.digest)
        if slots is None:
            return
        side.opened(slots)
        self._note_unopened(side)
        # The others heard that it is over, as ever; whether any row held is for the consumer alone.
        if side.has_summary:
            self.finish(run, Ending.DONE)
        else:
            self.finish(run, Ending.NOT_COMPUTED, NOTHING_HELD)

    def _note_repeats(self, run: KnownRun) -> None:
        terms = self.desk.terms(run)
        count = 0 if self.room is None else self.room.repeats(terms.digest)
        if count:
            words = f"run {terms.run}: what was opened was asked for again, and sent as before (request {count})"
            self.desk.postman.note(words)

    def _note_unopened(self, side: SplitConsumerRun) -> None:
        for owner, count in side.unopened_picks.items():
            words = f"{count} rows picked from {owner} did not open and were left out; this does not show who caused it"
            self.desk.postman.note(f"run {side.terms.run}: {words}")

    def finish(self, run: KnownRun, ending: Ending, detail: str = "", *, tell: bool = False) -> None:
        """A run is over here: nothing of it is computed any more.

        Once all compute parties have agreed on a roster, rows may have been opened: letters and their key then stay
        until the terms end. Before that nobody computes, and no share stays.

        Args:
            run: the run.
            ending: how.
            detail: what else there is to say.
            tell: whether the other compute parties are told.
        """
        self._note_repeats(run)
        terms, side = self.desk.terms(run), None if ending is Ending.TERMS_EXPIRED else self.desk.side(run)
        words = EndingWords(ending, detail).to_bytes()
        others = {terms.consumer, CURATOR, WITNESS} & set(terms.cards) - {self.desk.party(terms)}
        for party in sorted(others) if tell else ():
            self.desk.send(run, party, "ending", words)
        if isinstance(side, ComputeRun) and not side.may_have_computed:
            if self.room is not None:
                self.room.end(terms.digest)
            side.forget()
        self.desk.forget_side(run)
        self.end(run, ending, detail)
        self.remove_files(run, ending)  # only what has ended may lose the record of an opening

    def remove_files(self, run: KnownRun, ending: str) -> None:
        """Nothing of a run is computed any more: remove its files, whether this process computes or only looks.

        The record that rows were opened stays until the terms end, unless the consumer's letter says that the run is
        over. Without it the run could be computed once more for whoever brings it back by another mailbox.

        Args:
            run: the run.
            ending: how it ended; empty where only its terms have.
        """
        if self.room is not None:
            self.room.end(run.terms.hex())
        kept = ComputeFolder(self.desk.folder, run.terms.hex())
        with kept.alone() as is_alone:
            if not is_alone:
                return  # another process computes, and may be about to open: the next look removes them
            if ending == Ending.DONE or self.desk.clock() >= run.ends:
                kept.remove()
            else:
                kept.rest()

    # What a person hears of it.

    def _say(self, run: KnownRun, words: str) -> None:
        self.desk.memory.answer(run.terms, COMPUTING, Answer("", words.encode()))
        if self._told.get(run.terms) != words:
            self._told[run.terms] = words
            self.desk.postman.note(f"run {self.desk.terms(run).run}: {words}")

    def _say_state(self, run: KnownRun, side: ComputeRun) -> None:
        if side.party is not None and side.party.position.state is not ComputeState.COLLECTING:
            self._say(run, self._whom_it_waited_for(side))

    def _whom_it_waited_for(self, side: ComputeRun) -> str:
        assert side.party is not None  # noqa: S101 - the caller looked
        state = side.party.position.state
        return f"waits for the other compute parties ({state.value})"

    @property
    def next_look(self) -> datetime | None:
        """When to look again although nothing comes; None if nothing is computed."""
        return self.desk.clock() + SOON if self.room is not None and self.room.is_busy else None


def _number(data: bytes) -> int:
    try:
        return letter_in(data, most_bytes=len(data)).header.number
    except LikesetError:
        return 0


def _first(letters: list[KeptLetter], way: str, peer: str | None, kind: str | None) -> datetime | None:
    for letter in letters:
        if letter.way == way and letter.peer == (peer or letter.peer) and letter.kind == (kind or letter.kind):
            return datetime.fromisoformat(letter.at)
    return None
