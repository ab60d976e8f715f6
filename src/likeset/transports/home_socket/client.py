"""NVFlare's side of a home's socket: it carries signed terms and letters to the home, and knows nothing else of it.

A connection stays for a job. If it breaks, it is made anew and the request is made again: a home says the same to the
same letter. Only a curator's home that was started anew in the midst of a run has to hear the run from its beginning.
"""

import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from likeset.errors import BadMessage, IllegalMessage, LikesetError, NoAnswer, RunCancelled
from likeset.homes.home import ABSTAINS, Abstains, Standing
from likeset.protocol.terms import Terms
from likeset.protocol.wire import MOST_BYTES
from likeset.transports.home_socket.frames import SLACK, SocketLine, address_in
from likeset.transports.home_socket.machine_users import ReadPeer, name_of, peer_of
from likeset.transports.home_socket.verbs import (
    AnswerKind,
    Verb,
    error_in,
    letters_in,
    names_in,
    signed_in,
    standing_in,
)
from likeset.transports.site_reasons import note_reason

_SECONDS_BETWEEN_TRIES = 0.2
_MOST_BYTES = MOST_BYTES + SLACK
_Said = TypeVar("_Said")


@dataclass
class HomeLine:
    """The connection of one job to a home.

    Args:
        socket: where the home listens.
        home_uid: the home's user; nobody else is spoken to.
        files: the signed terms that came with the job, by the names of their files.
        seconds_to_connect: how long to try, also when the home's process was stopped and comes back.
        seconds_for_answer: how long an answer may take.
        read_peer: tells who is at the other end.
    """

    socket: Path
    home_uid: int
    files: Sequence[tuple[str, bytes]] = field(repr=False)
    seconds_to_connect: float = 15.0
    seconds_for_answer: float = 900.0
    read_peer: ReadPeer = peer_of
    _first: list[tuple[Verb, tuple[bytes, ...]]] = field(default_factory=list, init=False, repr=False)
    _line: SocketLine | None = field(default=None, init=False, repr=False)
    _lock: threading.RLock = field(default_factory=threading.RLock, init=False, repr=False)

    def open(self) -> None:
        """Connect, if there is no connection.

        Raises:
            NoAnswer: the home does not answer.
            IllegalMessage: somebody else listens there.
        """
        with self._lock:
            end = time.monotonic() + self.seconds_to_connect
            while self._line is None:
                try:
                    self._line = self._opened()
                except NoAnswer:
                    if time.monotonic() > end:
                        raise
                    time.sleep(_SECONDS_BETWEEN_TRIES)

    def ask(self, verb: Verb, *parts: bytes, again: bool = True) -> tuple[bytes, ...]:
        """One answer to one request.

        Args:
            verb: what is asked.
            parts: with what.
            again: whether it may be asked again, of a home that was started anew.

        Raises:
            NoAnswer: the home does not answer.
            IllegalMessage: somebody else listens there.
            RunCancelled: the home was started anew, and must not be asked this again.
        """
        with self._lock:
            if self._line is None and not again:
                raise RunCancelled("the curator's home was started anew in the midst of a run; resume the run")
            self.open()
            try:
                return self._exchanged(verb, parts)
            except NoAnswer:
                if not again:
                    raise RunCancelled("the curator's home went away in the midst of a run; resume the run") from None
            self.open()
            return self._exchanged(verb, parts)

    def say_first(self, verb: Verb, *parts: bytes) -> None:
        """On every connection that is made from now on, before anything else."""
        if (verb, parts) not in self._first:
            self._first.append((verb, parts))

    def close(self) -> None:
        with self._lock:
            line, self._line = self._line, None
            if line is not None:
                line.close()

    def _opened(self) -> SocketLine:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with address_in(self.socket) as address:
                connection.connect(address)
            uid = self.read_peer(connection).uid
            if uid != self.home_uid:
                told = f"behind {self.socket} is user {name_of(uid)}, not the home's user {name_of(self.home_uid)}"
                raise IllegalMessage(told)
            self._line = SocketLine(connection)
            self._exchanged(Verb.JOB, tuple(part for name, data in self.files for part in (name.encode(), data)))
            for verb, parts in self._first:
                self._exchanged(verb, parts)
        except OSError as error:
            connection.close()
            raise NoAnswer(
                f"no home answers at {self.socket} ({error.strerror}); is `likeset site serve` up?"
            ) from error
        except BaseException:
            self._line = None
            connection.close()
            raise
        return self._line

    def _exchanged(self, verb: Verb, parts: tuple[bytes, ...]) -> tuple[bytes, ...]:
        assert self._line is not None  # noqa: S101 - it was opened
        try:
            self._line.send(verb.encode(), *parts)
            answer = self._line.receive(most_bytes=_MOST_BYTES, seconds=self.seconds_for_answer)
            if answer is None:
                raise NoAnswer("the home hung up")
        except (NoAnswer, BadMessage):
            self.close()  # what comes next would be the answer to something else
            raise
        return answer


@dataclass
class SiteClient:
    """An owner or a consumer, as NVFlare's process sees it; in place of ``SiteParties``, which is in the home's.

    Args:
        line: to the home.
        notes: a folder of the NVFlare site, for the reasons why the home was not reached.
    """

    line: HomeLine
    notes: Path

    def standing(self, digest: str) -> bytes | Standing:
        """What the site signs to take part under these terms, or where it stands."""

        def look() -> bytes | Standing:
            said = self.line.ask(Verb.STANDING, digest.encode())
            return signed_in(said) if said[0] == AnswerKind.SIGNED.encode() else standing_in(said)

        return self._quietly(look)

    def start(self, digest: str, acceptances: Sequence[bytes]) -> list[bytes] | Abstains:
        def say() -> list[bytes] | Abstains:
            request = (digest.encode(), *acceptances)
            said = _letters(self.line.ask(Verb.START, *request))
            self.line.say_first(Verb.START, *request)  # what follows goes on from there
            return said

        return self._quietly(say)

    def hear(self, data: bytes) -> list[bytes] | Abstains:
        return self._quietly(lambda: _letters(self.line.ask(Verb.HEAR, data)))

    def refuse_caller(self) -> Abstains:
        """Answer a call that does not come from the curator's server; the home writes it down."""
        self._quietly(lambda: self.line.ask(Verb.REFUSE))
        return ABSTAINS

    def _quietly(self, work: Callable[[], _Said]) -> _Said | Abstains:
        """The result of some work, or the one word that all reasons have in common."""
        try:
            return work()
        except LikesetError as error:
            note_reason(self.notes, f"{type(error).__name__}: {error}")
        except Exception as error:
            note_reason(self.notes, type(error).__name__)
        return ABSTAINS


@dataclass(frozen=True)
class CuratorClient:
    """The curator's side of one run, as NVFlare's process sees it; in place of ``CuratorRun``.

    Args:
        line: to the home.
        terms: of the run.
    """

    line: HomeLine
    terms: Terms

    @classmethod
    def check(cls, line: HomeLine, terms: Terms) -> "CuratorClient":
        """The curator of a run, if the home curates it.

        Raises:
            LikesetError: it does not.
        """
        client = cls(line, terms)
        client._ask(Verb.CHECK)
        line.say_first(Verb.CHECK, client._digest)
        return client

    @property
    def waiting_for(self) -> frozenset[str]:
        return names_in(self._ask(Verb.WAITING_FOR, again=False))

    def acceptance(self) -> bytes:
        return signed_in(self._ask(Verb.ACCEPTANCE))

    def hear(self, data: bytes) -> list[bytes]:
        return letters_in(self._ask(Verb.TAKE, data, again=False))

    def give_up(self, owner: str) -> list[bytes]:
        return letters_in(self._ask(Verb.GIVE_UP, owner.encode(), again=False))

    def end(self) -> list[bytes]:
        """The receipts, in letters to their owners; also of a home that was started anew."""
        return letters_in(self._ask(Verb.END))

    @property
    def _digest(self) -> bytes:
        return self.terms.digest.encode()

    def _ask(self, verb: Verb, *parts: bytes, again: bool = True) -> tuple[bytes, ...]:
        said = self.line.ask(verb, self._digest, *parts, again=again)
        if said[0] == AnswerKind.ERROR.encode():
            raise error_in(said)
        return said


def _letters(said: Sequence[bytes]) -> list[bytes] | Abstains:
    return letters_in(said) if said[0] == AnswerKind.LETTERS.encode() else ABSTAINS
