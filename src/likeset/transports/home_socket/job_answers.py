"""A home's answers to NVFlare's process: a request in, one answer out, and never a word about why not.

Behind it is what always was there: ``SiteParties`` for owners and consumers, and the curator's side of a run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from likeset.errors import BadMessage, IllegalMessage, LikesetError
from likeset.homes.home import ABSTAINS, READY
from likeset.homes.mail import CuratorRun, Invitation
from likeset.protocol.party import CURATOR
from likeset.transports.curator_sides import curator_made
from likeset.transports.home_socket.home_settings import HomeSettings
from likeset.transports.home_socket.verbs import AnswerKind, Verb, error_parts
from likeset.transports.sites import SiteParties, SiteSettings, open_invitations

_SAID_NO = (AnswerKind.WORD.encode(), ABSTAINS.encode())
_MOST_REASON = 200  # characters of what a guard in NVFlare's process refused


class JobAnswers(Protocol):
    def answer(self, verb: Verb, parts: Sequence[bytes]) -> tuple[bytes, ...]: ...

    def refuse(self, reason: str) -> tuple[bytes, ...]: ...


def answers_to_job(home: HomeSettings, parts: Sequence[bytes]) -> JobAnswers:
    """Where the requests of a job are answered whose files came: names and contents in turn."""
    settings = home.site_settings()
    nobody = SiteParties(home.party, {}, settings)
    try:
        if len(parts) % 2:
            raise BadMessage("a file without content")
        names = [part.decode("utf-8", errors="replace") for part in parts[::2]]
        # A guard brings no job: it tells what it refused.
        invitations = open_invitations(list(zip(names, parts[1::2], strict=True))) if parts else {}
    except LikesetError as error:
        nobody.refuse(f"a job whose terms cannot be used: {error}")
        invitations = {}
    if home.party == CURATOR:
        return CuratorAnswers(invitations, settings, nobody)
    return SiteAnswers(SiteParties(home.party, invitations, settings))


@dataclass(frozen=True)
class SiteAnswers:
    """Of an owner or a consumer.

    Args:
        parties: who answers.
    """

    parties: SiteParties

    def answer(self, verb: Verb, parts: Sequence[bytes]) -> tuple[bytes, ...]:
        match verb, *parts:
            case Verb.STANDING, bytes(digest):
                said = self.parties.standing(_text(digest))
                if isinstance(said, bytes):
                    return AnswerKind.SIGNED.encode(), said
                return AnswerKind.WORD.encode(), said.encode()
            case Verb.START, bytes(digest), *_:
                return _letters(self.parties.start(_text(digest), list(parts[1:])))
            case Verb.HEAR, bytes(letter):
                return _letters(self.parties.hear(letter))
            case (Verb.REFUSE,):
                self.parties.refuse_caller()
                return _SAID_NO
            case Verb.REFUSE, bytes(reason):
                return self.refuse(f"NVFlare brought {_text(reason)[:_MOST_REASON]}")
            case _:
                return self.refuse(f"the NVFlare process asked for {verb} in a form that there is not")

    def refuse(self, reason: str) -> tuple[bytes, ...]:
        self.parties.refuse(reason)
        return _SAID_NO


@dataclass
class CuratorAnswers:
    """Of a curator.

    Args:
        invitations: the signed terms of the job's runs, by digest.
        settings: the site's own.
        notes: writes down reasons.
    """

    invitations: Mapping[str, Invitation]
    settings: SiteSettings
    notes: SiteParties
    _runs: dict[str, CuratorRun] = field(default_factory=dict, init=False)

    def answer(self, verb: Verb, parts: Sequence[bytes]) -> tuple[bytes, ...]:
        try:
            return self._answer(verb, parts)
        except Exception as error:
            # Texts of other errors may quote rows.
            self.notes.refuse(
                f"{type(error).__name__}: {error}" if isinstance(error, LikesetError) else type(error).__name__
            )
            return error_parts(error)

    def refuse(self, reason: str) -> tuple[bytes, ...]:
        """That it is refused, and the reason into the home's own files."""
        self.notes.refuse(reason)
        return error_parts(IllegalMessage(reason))

    def _answer(self, verb: Verb, parts: Sequence[bytes]) -> tuple[bytes, ...]:
        match verb, *parts:
            case Verb.CHECK, bytes(digest):
                self._make(_text(digest))
                return AnswerKind.WORD.encode(), READY.encode()
            case Verb.ACCEPTANCE, bytes(digest):
                return AnswerKind.SIGNED.encode(), self._run(digest).acceptance()
            case Verb.TAKE, bytes(digest), bytes(letter):
                return _letters(self._run(digest).hear(letter))
            case Verb.WAITING_FOR, bytes(digest):
                return AnswerKind.NAMES.encode(), *(name.encode() for name in sorted(self._run(digest).waiting_for))
            case Verb.GIVE_UP, bytes(digest), bytes(owner):
                return _letters(self._run(digest).give_up(_text(owner)))
            case Verb.END, bytes(digest):
                return _letters(self._run(digest).end())
            case _:
                raise BadMessage(f"the NVFlare process asked for {verb} in a form that there is not")

    def _make(self, digest: str) -> None:
        if digest not in self.invitations:
            raise IllegalMessage("it is under terms that did not come with this job")
        self._runs[digest] = curator_made(self.settings, self.invitations[digest])

    def _run(self, digest: bytes) -> CuratorRun:
        if _text(digest) not in self._runs:
            raise IllegalMessage("a run that was not checked first")
        return self._runs[_text(digest)]


def _letters(said: Sequence[bytes] | str) -> tuple[bytes, ...]:
    return _SAID_NO if isinstance(said, str) else (AnswerKind.LETTERS.encode(), *said)


def _text(part: bytes) -> str:
    return part.decode("utf-8", errors="replace")
