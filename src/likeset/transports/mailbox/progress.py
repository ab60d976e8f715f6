"""What a consumer knows of a run that travels by mailbox: who answered, whom others wait for, how it ended."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from likeset.errors import InvalidArgument
from likeset.homes.consumer_home import ConsumerHome, KeptRun
from likeset.homes.home import ABSTAINS, READY, WAITING
from likeset.homes.mail import end_of, utc_now
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import WITNESS
from likeset.transports.mailbox.memory import MEMORY_FILE, Answer, KnownRun, MailMemory
from likeset.transports.mailbox.split_runs import COMPUTING, PROGRESS
from likeset.transports.mailbox.words import ProgressWords
from likeset.transports.outcomes import Ending


class PartyState(StrEnum):
    """Where somebody stands; its value is what people read."""

    UNHEARD = "has not got the terms"
    """As far as is known here: nothing came from it."""

    DECIDES = "decides"
    TAKES_PART = "takes part"
    ABSTAINS = "does not take part"


@dataclass(frozen=True)
class RunProgress:
    """What a consumer knows of a run.

    Attributes:
        run: its name.
        parties: where everybody stands, by name; the curator under ``curator``.
        decide_by: when the run begins without those who have not decided, if a quorum accepted.
        terms_end: when the terms end, and with them the run.
        began: whether the first letters were written; nothing is charged before that.
        waited_for: owners whom the curator waits for, by its last word; in a split run, the consumer itself.
        until: when it gives them up.
        computing: in a split run, how far the computation is, in words; empty before it begins.
        split: whether the curator is split, and the consumer computes with it.
        ended: how the run ended; None if it has not.
        detail: what else is said of the end, or what the curator lacks, in words.
    """

    run: str
    parties: Mapping[str, PartyState]
    decide_by: datetime
    terms_end: datetime
    began: bool = False
    waited_for: tuple[str, ...] = ()
    until: datetime | None = None
    ended: Ending | None = None
    detail: str = ""
    computing: str = ""
    split: bool = False

    @property
    def done(self) -> bool:
        return self.ended is Ending.DONE

    @property
    def headline(self) -> str:
        if self.ended is not None:
            return f"{self.ended}: {self.detail}" if self.detail else str(self.ended)
        return "running" if self.began else "waiting for answers"

    @property
    def outlook(self) -> str:
        end = f"the terms end on {_moment(self.terms_end)}"
        if self.ended is not None:
            return ""
        if not self.began:
            return f"begins when all have answered, or at {_moment(self.decide_by)} with those who accepted; {end}"
        if self.waited_for and self.until is not None:
            who, waits = ("shares of", "are waited for ") if self.split else ("the curator waits for", "")
            return f"{who} {', '.join(self.waited_for)} {waits}until {_moment(self.until)}; {end}"
        if self.split:
            return f"{self.computing or 'waiting for the other compute parties'}; {end}"
        return f"waiting for the curator; {end}"

    def stands(self, name: str) -> str:
        state = self.parties[name]
        if self.waited_for and state is PartyState.TAKES_PART and name not in (CURATOR, WITNESS):
            waits = "its shares are waited for" if self.split else "the curator waits for it"
            return waits if name in self.waited_for else "has answered"
        return state.value

    def document(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "parties": {party: state.value for party, state in self.parties.items()},
            "decide_by": self.decide_by.isoformat(),
            "terms_end": self.terms_end.isoformat(),
            "began": self.began,
            "waited_for": list(self.waited_for),
            "until": None if self.until is None else self.until.isoformat(),
            "ended": None if self.ended is None else self.ended.value,
            "detail": self.detail,
            "computing": self.computing,
            "split": self.split,
        }


def _moment(when: datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M} UTC"


_STATES = {
    WAITING: PartyState.DECIDES,
    ABSTAINS: PartyState.ABSTAINS,
    READY: PartyState.TAKES_PART,
}


def progress_of(home: ConsumerHome, run: KeptRun) -> RunProgress:
    """Where a run is, by what this home keeps; nobody is asked.

    Raises:
        InvalidArgument: the run does not travel by mailbox.
    """
    travel, terms = run.travel, run.terms
    if travel is None:
        raise InvalidArgument("RUN", run.name, "does not travel by mailbox; see `likeset run start`")
    digest = bytes.fromhex(terms.digest)
    known, answers = None, dict[str, Answer]()
    if (home.folder / MEMORY_FILE).exists():
        with closing(MailMemory(home.folder, travel.mailbox)) as memory:
            known = next((other for other in memory.runs() if other.terms == digest), None)
            answers = memory.answers(digest)
    said = ProgressWords.read(answers[PROGRESS].document) if PROGRESS in answers else None
    ended = Ending(known.ended) if known is not None and known.ended else None
    if known is None and utc_now() >= end_of(terms):
        ended = Ending.TERMS_EXPIRED  # the desk forgot it
    if run.summary_path.exists():
        ended = Ending.DONE
    with home.identity.book as book:
        began = bool(book.written(digest))
    return RunProgress(
        run=run.name,
        parties={
            party: _STATES[answers[party].word] if party in answers else PartyState.UNHEARD
            for party in (CURATOR, *((WITNESS,) if WITNESS in terms.cards else ()), *terms.owners)
        },
        decide_by=travel.decide_by,
        terms_end=end_of(terms),
        began=began,
        waited_for=said.waiting_for if said is not None and ended is None else (),
        until=said.until if said is not None and ended is None else None,
        ended=ended,
        detail=_detail(known, answers),
        computing=answers[COMPUTING].document.decode() if COMPUTING in answers and ended is None else "",
        split=terms.split is not None,
    )


def _detail(known: KnownRun | None, answers: Mapping[str, Answer]) -> str:
    """What is said of the end, or what the curator or the witness lacks."""
    if known is not None and known.detail:
        return known.detail
    told = (answers.get(party) for party in (CURATOR, WITNESS))
    lacks = (answer.document for answer in told if answer is not None and answer.word == ABSTAINS)
    return "; ".join(data.decode("utf-8", "replace") for data in lacks if data)
