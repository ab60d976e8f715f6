"""A consumer in runs: the folder of each run, when it begins, and the summary that it gets."""

import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from likeset import documents
from likeset.arguments import Rows
from likeset.errors import BadDocument, InvalidArgument, QuorumMissed, UnfinishedRequest
from likeset.files import keep_private_bytes, make_private_folder
from likeset.geometry.selection import Selection
from likeset.homes.compute import ComputeHandler
from likeset.homes.home import Home
from likeset.homes.mail import Decision, Heard
from likeset.homes.runs import (
    Ending,
    Invitation,
    LetterState,
    Run,
    State,
    ending_document,
    read_ending,
    read_progress,
    read_word,
)
from likeset.ledger.ledger import Transaction
from likeset.privacy.noise import SecretNoise
from likeset.protocol import wire
from likeset.protocol.party import CURATOR, Party
from likeset.protocol.sealed import Consumer as ConsumerParty
from likeset.protocol.split import SplitConsumer
from likeset.protocol.terms import WITNESS, Terms, check_between
from likeset.protocol.wire import Message, Summary, decode
from likeset.tables.records import DeclaredRecords
from likeset.tables.schema import Schema
from likeset.trust.cards import CARD_FILE, Card, Role, read_card
from likeset.trust.letters import PostKind, SignedTerms

_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def named_cards(
    home: Home, *, owners: Iterable[str], curator: str | None = None, witness: str | None = None
) -> dict[str, str]:
    """The fingerprints of all parties of a run, by their names in the terms."""
    if home.card.name != home.name:
        reason = f"is not the name on this home's card, which is {home.card.name}; see `likeset card make --new`"
        raise InvalidArgument("consumer", home.name, reason)
    cards = {home.name: home.card.fingerprint}
    cards |= {owner: home.pins.chosen("owner", owner, setting="owners").fingerprint for owner in owners}
    cards[CURATOR] = home.pins.chosen("curator", curator, setting="curator_card").fingerprint
    if witness is not None:
        if home.own_curator is not None and read_card(home.own_curator / CARD_FILE).fingerprint == cards[CURATOR]:
            reason = "a split curator needs a curator of another organisation; name its card in curator_card"
            raise InvalidArgument("witness", witness, reason)
        cards[WITNESS] = home.pins.chosen("witness", witness, setting="witness").fingerprint
    return cards


@dataclass(frozen=True)
class RunFolder:
    folder: Path  # the directory

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def job_path(self) -> Path:
        return self.folder / "job.yaml"

    @property
    def schema_path(self) -> Path:
        return self.folder / "schema.yaml"

    @property
    def summary_path(self) -> Path:
        return self.folder / "summary.bin"

    @property
    def result(self) -> Path:
        return self.folder / "result"

    def schema(self, terms: Terms) -> Schema:
        schema = Schema.load(self.schema_path)
        if schema.digest != terms.schema_digest:
            reason = f"changed since the terms of run {self.name} were signed; restore it from a copy"
            raise BadDocument(str(self.schema_path), reason)
        return schema

    @property
    def target(self) -> Rows:
        rows: Rows = np.load(self.folder / "target.npy", allow_pickle=False)
        return rows

    @property
    def selection(self) -> Selection:
        return Selection(**json.loads((self.folder / "selection.json").read_text(encoding="utf-8")))

    def summary(self, terms: Terms) -> Summary:
        """The summary that came; raises ``InvalidArgument`` before."""
        if not self.summary_path.exists():
            raise InvalidArgument("RUN", self.name, "has no summary yet; follow it with `likeset run watch`")
        message = decode(self.summary_path.read_bytes())
        if not isinstance(message.body, Summary) or message.terms != terms.digest:
            raise BadDocument(str(self.summary_path), "is not the summary of this run")
        return message.body

    def keep(self, *, job: Mapping[str, Any], schema: Path, target: Rows, selection: Selection) -> None:
        """Write the files that a run needs besides its terms, before they are signed."""
        make_private_folder(self.folder)
        documents.write(self.job_path, job)
        documents.write_text(self.schema_path, schema.read_text(encoding="utf-8-sig"))
        keep_rows(self.folder / "target.npy", target)
        settings = {name: value for name, value in asdict(selection).items() if name != "swaps"}
        documents.write_text(self.folder / "selection.json", json.dumps(settings) + "\n")


def keep_rows(path: Path, rows: Rows) -> None:
    with io.BytesIO() as file:
        np.save(file, rows)
        keep_private_bytes(path, file.getvalue())


class PartyState(StrEnum):
    UNHEARD = "has not answered"
    SILENT = "did not answer"
    DECIDES = "decides"
    TAKES_PART = "takes part"
    ABSTAINS = "does not take part"
    NO_ROWS = "accepted, and sent no rows"


_UNDECIDED = (PartyState.UNHEARD, PartyState.DECIDES, PartyState.SILENT)
_PARTICIPATION = {"waiting": PartyState.DECIDES, "abstains": PartyState.ABSTAINS, "leaves": PartyState.ABSTAINS}


@dataclass(frozen=True)
class RunProgress:
    run: str  # its name
    parties: Mapping[str, PartyState]  # where each party stands
    answer_by: datetime  # when the run begins without those who have not answered, if a quorum accepted
    terms_end: datetime  # when the terms end
    began: bool = False  # whether the first letters were written; nothing is charged before that
    waited_for: tuple[str, ...] = ()  # owners that the curator, or in a split run the consumer, waits for
    until: datetime | None = None  # when it stops waiting
    ended: Ending | None = None  # how the run ended; None if it has not
    detail: str = ""  # more about the end, or what the curator lacks
    computing: str = ""  # in a split run, how far the computation is
    split: bool = False  # whether the curator is split

    @property
    def done(self) -> bool:
        return self.ended is Ending.DONE

    @property
    def headline(self) -> str:
        if self.ended is not None:
            return self.ended.outcome(self.detail)
        return "running" if self.began else "waiting for answers"

    @property
    def outlook(self) -> str:
        end = f"the terms end on {_moment(self.terms_end)}"
        if self.ended is not None:
            return ""
        if not self.began:
            return f"begins when all have answered, or at {_moment(self.answer_by)} with those who accepted; {end}"
        if self.waited_for and self.until is not None:
            return f"waiting for {', '.join(self.waited_for)} until {_moment(self.until)}; {end}"
        if self.split:
            return f"{self.computing or 'waiting for the other compute parties'}; {end}"
        return f"waiting for the curator; {end}"

    def stands(self, name: str) -> str:
        state = self.parties[name]
        if self.waited_for and state is PartyState.TAKES_PART and name not in (CURATOR, WITNESS):
            return "is waited for" if name in self.waited_for else "has answered"
        return state.value

    @property
    def answered(self) -> int:
        """How many parties answered."""
        return sum(state not in _UNDECIDED for state in self.parties.values())

    @property
    def unanswered(self) -> dict[str, str]:
        """Owners whose rows are not in the summary, as far as the consumer knows, and why."""
        why = {PartyState.ABSTAINS: "abstains", PartyState.NO_ROWS: PartyState.NO_ROWS.value}
        silent = {
            name: why.get(state, "no answer")
            for name, state in self.parties.items()
            if name not in (CURATOR, WITNESS) and state is not PartyState.TAKES_PART
        }
        return silent | dict.fromkeys(self.waited_for, "no answer")

    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(json.dumps(asdict(self), default=datetime.isoformat))
        return document


def _moment(when: datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M} UTC"


class Consumer(ComputeHandler):
    role: ClassVar[Role] = "consumer"

    # Runs by name.

    def folder(self, name: str) -> RunFolder:
        if _FOLDER.fullmatch(name) is None:
            raise InvalidArgument("run", name, "must be letters, digits, . _ and -: it names a folder")
        return RunFolder(self.home.folder / "runs" / name)

    def find(self, name: str) -> Run | None:
        return next(iter(self.mail.runs(name=name, role="consumer")), None)

    def run(self, name: str) -> Run:
        if (run := self.find(name)) is None:
            raise InvalidArgument("RUN", name, "is not known here; see `likeset run list`")
        return run

    def sign(self, terms: Terms) -> Run:
        """Sign terms and record the run; a second call signs the same bytes."""
        if terms.cards.get(terms.consumer) != self.home.card.fingerprint:
            raise InvalidArgument("terms", terms.run, "name another card than this home's as the consumer's")
        check_between(terms)
        with self.home.deciding() as t:  # two processes never make two keys
            key = self.home.make_run_key(bytes.fromhex(terms.digest))
            signed = SignedTerms(terms.to_json(), self.home.card, key.public, wire.READS).signed_by(self.home.secret)
            return self.mail.add(t, Invitation(signed, terms), terms.consumer, "consumer", mailbox="")

    def start_run(self, run: Run, mailbox: str) -> Run:
        """Assigns a mailbox to a signed run; calling it again changes nothing."""
        if run.state == State.CANCELLED:
            raise InvalidArgument("run", run.name, "was cancelled; give the job another name, and start that")
        if run.mailbox:
            if run.mailbox != mailbox:
                reason = f"run {run.name} already uses another mailbox: {run.mailbox}"
                raise InvalidArgument("--mailbox", mailbox, reason)
            return run
        return self.mail.update(run, mailbox=mailbox)

    def cancel(self, run: Run) -> None:
        """Cancel a run: only the cancellation is posted; owners that have offered nothing close the run."""
        if self.folder(run.name).summary_path.exists() or run.state == State.CLOSED:
            raise InvalidArgument("RUN", run.name, "has its summary; there is nothing to cancel: `likeset run report`")
        if run.is_over:
            return
        with self.home.deciding() as t:
            run = self.mail.reload(run)
            self.mail.withhold(t, run)
            # An owner may have read posted terms although no answer of it was heard yet.
            posted = (row for row in self.mail.letters(run) if (row.way, row.post) == ("out", "terms"))
            sent = [row for row in posted if row.name or row.state == LetterState.CLAIMED]
            self.mail.take_back(t, run, "terms", "letter")
            for owner in {row.peer for row in sent} & set(run.terms.owners):
                self.mail.write_document(t, run, owner, "ending", ending_document(Ending.CANCELLED))
            if run.is_split and run.state == State.BEGUN:
                self.end(t, run, Ending.CANCELLED, tell=True)
            else:
                self.mail.end_in(t, run, State.CANCELLED, Ending.CANCELLED)

    # Who takes part.

    def answers(self, run: Run) -> dict[str, tuple[PartyState, str]]:
        """What each party answered last, and why the curator or the witness cannot take part."""
        asked = (CURATOR, *((WITNESS,) if WITNESS in run.terms.cards else ()), *run.terms.owners)
        answers = dict.fromkeys(asked, (PartyState.UNHEARD, ""))
        begun, last = False, dict[str, tuple[int, str]]()  # the last word of each party, by number
        for row in self.mail.letters(run):
            begun |= row.way == "own"
            if (row.way, row.post, row.state) == ("in", "acceptance", LetterState.REFUSED):
                answers[row.peer] = PartyState.ABSTAINS, ""  # ``leave_out``
            is_heard = (row.way, row.state) == ("in", LetterState.HEARD)
            if not is_heard or row.post not in ("acceptance", "participation", "ending"):
                continue
            data = self.mail.data_of(row)
            if data is None:
                continue  # the terms ended
            has_accepted = answers[row.peer][0] is PartyState.TAKES_PART
            if row.post == "acceptance":
                if last.get(row.peer, (0, ""))[1] != "leaves":
                    answers[row.peer] = PartyState.TAKES_PART, ""
            elif row.post == "participation":
                word, number = read_word(data) or ("", -1)
                # What follows in a run that has begun is the curator's to say, unless the curator is split.
                counts = not has_accepted or (word == "leaves" and (run.is_split or not begun))
                if counts and number > last.get(row.peer, (-1, ""))[0]:
                    last[row.peer] = number, word
                    answers[row.peer] = _PARTICIPATION[word], ""
            elif (ending := read_ending(data)) is not None and ending[0] is Ending.NOT_CURATED and not has_accepted:
                answers[row.peer] = PartyState.ABSTAINS, ending[1]
        accepted = [name for name, (state, _) in answers.items() if state is PartyState.TAKES_PART]
        return answers | {name: (PartyState.ABSTAINS, reason) for name, reason in self._mismatched(run, accepted)}

    def _mismatched(self, run: Run, accepted: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Parties that accepted and cannot read or write what they must; first those who compute, then owners."""
        readers = {run.consumer: run.invitation.signed.reads}
        for name in accepted:
            if (peer := self.mail.peer(run, name)) is None:
                continue
            apart = (other for other, reads in readers.items() if not wire.in_common(peer.reads, reads))
            if (other := next(apart, None)) is not None:
                reads, theirs = wire.words_of(peer.reads), wire.words_of(readers[other])
                yield name, f"{name} reads messages of version {reads}, and {other} those of version {theirs}"
            elif name in (CURATOR, WITNESS):
                readers[name] = peer.reads

    def hear_document(self, t: Transaction, run: Run, peer: str, post: PostKind, document: bytes) -> bool:
        terms = run.terms
        if post == "acceptance":
            accepted = self.mail.accepted(run, document)
            if accepted is None or accepted.party != peer or self._has_begun(run) or self.mail.peer(run, peer):
                return False
            self.mail.take_back(t, run, "terms", peer=peer)
            return True
        if post == "participation":
            return read_word(document) is not None
        if post == "progress" and peer == CURATOR:
            words = read_progress(document)
            return words is not None and set(words[0]) <= set(terms.owners)
        ending = read_ending(document) if post == "ending" and peer in (CURATOR, WITNESS) else None
        if ending is None:
            return False
        if run.is_split and ending[0] is not Ending.NOT_CURATED:
            return super().hear_document(t, run, peer, post, document)
        if ending[0] not in (Ending.NOT_CURATED, Ending.DONE):  # then the summary is on its way
            self.mail.end_in(t, run, State.FAILED, *ending)
        return True

    def _has_begun(self, run: Run) -> bool:
        return self.mail.version(run) > 0

    # The party.

    def make(self, run: Run, cards: Mapping[str, Card]) -> tuple[Party, ExitStack]:
        folder, terms = self.folder(run.name), run.terms
        made: dict[str, Any] = {
            "target": folder.target,
            "noise": SecretNoise(),
            "declared": DeclaredRecords(folder.schema(terms)),
        }
        if run.is_split:
            made |= {"secret": self.home.secret, "cards": cards, "reach": self.reach(run)}
        else:
            made["selection"] = folder.selection
        return (SplitConsumer if run.is_split else ConsumerParty)(terms, **made), ExitStack()

    def after(self, t: Transaction, run: Run, party: Party, heard: Heard | None, replies: Sequence[Message]) -> None:  # noqa: ARG002
        if run.state == State.INVITED:
            run = self.mail.change(t, run, state=State.BEGUN, due=None)
            t.append("began", run.name, {"digest": run.digest.hex()})
            self.mail.take_back(t, run, "terms")
        if isinstance(party, SplitConsumer):
            self.after_split(t, run, party)
        elif heard is not None and heard.message is not None and isinstance(heard.message.body, Summary):
            keep_private_bytes(self.folder(run.name).summary_path, heard.message.data)
            self.mail.end_in(t, run, State.CLOSED, Ending.DONE)

    # Periodic work.

    def due(self, run: Run) -> None:
        if run.state == State.BEGUN:
            if run.is_split:
                self.due_split(run)
            return
        if not run.mailbox:
            return
        answers = self.answers(run)
        computing = {CURATOR, WITNESS} & answers.keys()
        accepted = {party for party, (state, _) in answers.items() if state is PartyState.TAKES_PART}
        decided = all(state not in _UNDECIDED for state, _ in answers.values())
        if computing <= accepted and (decided or self.mail.passed(run.deadline)):
            if len(accepted - computing) >= run.terms.quorum:
                self.mail.leave_out(run, {name: reason for name, (_, reason) in answers.items() if reason})
                self._begin(run, accepted)
            else:
                why = "; ".join(reason for _, reason in answers.values() if reason)
                self.mail.end(run, State.FAILED, Ending.QUORUM_MISSED, why)
        else:
            with self.home.deciding() as t:
                for party in sorted(answers.keys() - accepted - self.mail.introduced(run)):
                    self.mail.write_document(t, run, party, "terms", run.signed)

    def _begin(self, run: Run, accepted: set[str]) -> None:
        """Write the first letters. Owners hear who computes; those who compute hear of all that take part."""
        terms = run.terms
        signed = {name: self.mail.last_document(run, "in", "acceptance", name) or b"" for name in accepted}
        computing = [name for name in (CURATOR, WITNESS) if name in terms.cards]
        owners = [name for name in terms.owners if name in accepted]
        enclosed = {
            name: tuple(signed[other] for other in (*computing, *owners) if other != name) for name in computing
        }
        enclosed |= dict.fromkeys(owners, tuple(signed[name] for name in computing))
        try:
            self.mail.decide(run, Decision("start", enclosed=enclosed))
        except QuorumMissed:
            self.mail.end(run, State.FAILED, Ending.QUORUM_MISSED)
        except UnfinishedRequest as error:
            self.mail.end(run, State.FAILED, Ending.UNFINISHED, str(error))

    # Progress.

    def progress(self, run: Run) -> RunProgress:
        run, terms, answers = self.mail.reload(run), run.terms, self.answers(run)
        waiting = None
        if run.is_split:
            waiting = self.waiting(run)
        elif (document := self.mail.last_document(run, "in", "progress", CURATOR)) is not None:
            waiting = read_progress(document)
        ended, detail = run.ending or (None, "")
        if ended is None and self.home.clock() >= run.end:
            ended = Ending.TERMS_EXPIRED
        parties = {
            party: PartyState.SILENT if ended is not None and state in _UNDECIDED else state
            for party, (state, _) in answers.items()
        }
        lacks = [reason for _, reason in answers.values() if reason]
        lacks += self.mail.troubles.of(run.digest)
        if self.folder(run.name).summary_path.exists():
            for owner in (terms.owners[place] for place in self.folder(run.name).summary(terms).absent):
                if parties[owner] is PartyState.TAKES_PART:
                    parties[owner] = PartyState.NO_ROWS
        return RunProgress(
            run=run.name,
            parties=parties,
            answer_by=run.deadline,
            terms_end=run.end,
            began=self._has_begun(run),
            waited_for=waiting[0] if waiting is not None and ended is None else (),
            until=waiting[1] if waiting is not None and ended is None else None,
            ended=ended,
            detail=detail or "; ".join(lacks if ended is None else []),
            computing=run.progress if run.is_split and ended is None else "",
            split=run.is_split,
        )
