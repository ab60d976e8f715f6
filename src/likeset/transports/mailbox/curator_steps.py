"""What a curator does in a run, step by step: written down, carried out, and carried out again by the next process.

A curator keeps no rows on its disk. While a run is under way its letters stay in the mailbox, sealed, and a curator
that was stopped hears them again: in the order in which it heard them, with the owners given up whom it had given up.
What it is about to do is written down before it is done, so that a run that is held again is the same run.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

from likeset.errors import LikesetError, QuorumMissed, UnfinishedRequest
from likeset.homes.home import ABSTAINS
from likeset.homes.mail import CuratorRun
from likeset.transports.mailbox.computing_desk import ComputingDesk
from likeset.transports.mailbox.desk import TRANSIENT
from likeset.transports.mailbox.memory import Answer, KnownRun, RunStep
from likeset.transports.outcomes import Ending
from likeset.transports.refused_letters import AS_IF_NOT_COME
from likeset.trust.letters import is_stub, letter_in


@dataclass(eq=False)
class CuratorSteps(ComputingDesk):
    _reached: dict[bytes, int] = field(default_factory=dict, init=False)  # the last step of a side that is made
    _stuck: set[bytes] = field(default_factory=set, init=False)  # runs that wait for something in this look
    _lacking: set[bytes] = field(default_factory=set, init=False)  # of these, for a letter that somebody removed

    @abstractmethod
    def _end(self, run: KnownRun, ending: Ending, detail: str = "") -> None: ...

    def _carry(self, run: KnownRun, step: RunStep, data: bytes | None = None) -> None:
        """Carry a step to its end that was written down; first those before it that this process did not see."""

        def work() -> None:
            side = self._side_before(run, step)
            if side is not None:
                self._apply(run, side, step, data)

        self._patiently(run, work)

    def _patiently(self, run: KnownRun, work: Callable[[], None]) -> None:
        """Do something in a run; what this home cannot do just now, it does at a later look."""
        try:
            work()
        except (*TRANSIENT, OSError) as error:
            self.forget_side(run)
            self._stuck.add(run.terms)
            self.postman.note(f"run {self.terms(run).run} waits: {_words(error)}")

    def _side_before(self, run: KnownRun, step: RunStep | None) -> CuratorRun | None:
        """The curator's side as it was before a step, or after all; None if a letter that it heard is not there now."""
        side = self._made(run)
        for earlier in self.memory.steps(run.terms, after=self._reached[run.terms]):
            if step is not None and earlier.number >= step.number:
                return side
            data = self._letter_of(run, earlier)
            if earlier.name and data is None:
                self.postman.note(
                    f"run {self.terms(run).run}: a letter of {earlier.party} was removed from the mailbox; the run "
                    "goes on when its writer has put it back"
                )
                self._stuck.add(run.terms)
                self._lacking.add(run.terms)
                return None
            self._apply(run, side, earlier, data)
        return side

    def _made(self, run: KnownRun) -> CuratorRun:
        known = self._sides.get(run.terms)
        side = self.side(run)
        assert isinstance(side, CuratorRun)  # noqa: S101 - the factory makes nothing else here
        if side is not known or run.terms not in self._reached:
            self._reached[run.terms] = 0
        return side

    def forget_side(self, run: KnownRun) -> None:
        """Make it anew when it is needed, from what it heard."""
        super().forget_side(run)
        self._reached.pop(run.terms, None)

    def _letter_of(self, run: KnownRun, step: RunStep) -> bytes | None:
        card = self.card_of(run, step.party) if step.name else None
        if card is None:
            return None
        post = self.postman.read_again(card, step.name, most_bytes=self.most_letter(self.terms(run), step.party))
        return None if post is None else post.document

    def _apply(self, run: KnownRun, side: CuratorRun, step: RunStep, data: bytes | None) -> None:
        if step.what == "gives up":
            replies = self.heard(lambda: side.give_up(step.party))
        else:
            replies = self.heard(lambda: side.hear(data or b""))
        self._reached[run.terms] = step.number
        if step.number > self.memory.applied(run.terms):
            self._follow(run, step, replies, data)
            self.memory.apply(run.terms, step.number)
        if side.resident.party.finished:
            self._end(run, Ending.DONE)

    def _follow(self, run: KnownRun, step: RunStep, replies: tuple[bytes, ...] | Exception, data: bytes | None) -> None:
        is_of_owner = step.party in self.terms(run).owners
        match replies:
            case QuorumMissed():
                self._end(run, Ending.QUORUM_MISSED)
            case UnfinishedRequest():
                self._end(run, Ending.UNFINISHED, type(replies).__name__)
            case Exception() if step.what == "gives up" or not isinstance(replies, AS_IF_NOT_COME):
                self._end(run, Ending.FAILED, type(replies).__name__)
            case Exception():
                self._refuse(run, step)
            case _ if any(is_stub(reply) for reply in replies):
                self.send_back(run, step.party, replies)
                self._refuse(run, step)
            case _ if data is not None and is_of_owner:
                self._remove_received(run, step.party, data)
            case _ if data is not None:
                self.remove(run, "acceptance")  # the consumer has it: it wrote

    def _refuse(self, run: KnownRun, step: RunStep) -> None:
        """A letter is as if it had not come; an owner will not write another one."""
        party = step.party
        self.memory.drop_step(step.number)  # else its writer could take it away, and hold the run up
        self.postman.tally.refused += 1
        self.postman.note(f"run {self.terms(run).run}: a letter of {party} was refused")
        if party in self.terms(run).owners:
            self.memory.answer(run.terms, party, Answer(ABSTAINS))

    def _give_up(self, run: KnownRun, owner: str) -> None:
        self._carry(run, self.memory.add_step(run.terms, "gives up", owner))

    def _remove_received(self, run: KnownRun, owner: str, data: bytes) -> None:
        """Take away the letters that an owner has, by its own word in its last one."""
        card, last = self.card_of(run, owner), letter_in(data, most_bytes=len(data)).header.last_received
        if card is None:
            return
        folder = self.postman.pair(card).outgoing_folder
        letters = [file for file in self.memory.posted(folder=folder) if file.terms == run.terms and file.number >= 0]
        numbers = [file.number for file in letters if file.paper == last]
        self.postman.remove(file for file in letters if numbers and file.number <= numbers[0])


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, LikesetError) else type(error).__name__
