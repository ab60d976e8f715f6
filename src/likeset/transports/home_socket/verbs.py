"""What NVFlare's process may ask a home's, what it hears, and how errors of a curator are told: words of fixed sets."""

from collections.abc import Sequence
from enum import StrEnum

from likeset.errors import (
    BadMessage,
    IllegalMessage,
    LikesetError,
    NotCurated,
    ProtocolError,
    QuorumMissed,
    TermsExpired,
    UnfinishedRequest,
)
from likeset.homes.home import ABSTAINS, READY, WAITING, Standing
from likeset.transports.refused_letters import AS_IF_NOT_COME

_MOST_WORDS = 1000  # characters of an error that whoever submitted a run may read


class Verb(StrEnum):
    """What is asked; everything but ``JOB``, which comes first, is of the job that it brought."""

    JOB = "job"
    STANDING = "standing"
    START = "start"
    HEAR = "hear"
    REFUSE = "refuse"
    CHECK = "check"
    ACCEPTANCE = "acceptance"
    TAKE = "take"
    WAITING_FOR = "waiting-for"
    GIVE_UP = "give-up"
    END = "end"


class AnswerKind(StrEnum):
    WORD = "word"
    SIGNED = "signed"
    LETTERS = "letters"
    NAMES = "names"
    ERROR = "error"


class HomeFailed(ProtocolError):
    """The curator's home could not go on.

    Attributes:
        kind: of error, by its name in Python; its text stays there.
    """

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class HomeRefused(IllegalMessage):
    """The curator's home refused what came: it is as if it had not come.

    Attributes:
        kind: of error, by its name in Python; its text stays there.
    """

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


_ENDS: dict[str, type[LikesetError]] = {
    "quorum missed": QuorumMissed,
    "terms expired": TermsExpired,
    "unfinished": UnfinishedRequest,
    "not curated": NotCurated,
}


def error_parts(error: Exception) -> tuple[bytes, ...]:
    """An error of the curator's home, by its kind. Texts may quote rows: only one that is written for others goes."""
    group = "refused" if isinstance(error, AS_IF_NOT_COME) else "failed"
    for name, ends in _ENDS.items():
        if isinstance(error, ends):
            group = name
    words = str(error)[:_MOST_WORDS] if isinstance(error, NotCurated) else ""
    return tuple(word.encode() for word in (AnswerKind.ERROR, group, type(error).__name__, words))


def error_in(parts: Sequence[bytes]) -> LikesetError:
    group, kind, words = (_text(part) for part in _parts(parts, AnswerKind.ERROR, count=3))
    kind = kind if kind.isidentifier() else "Exception"
    if group in _ENDS:
        return _ENDS[group](words or kind)
    return HomeRefused(kind) if group == "refused" else HomeFailed(kind)


def standing_in(parts: Sequence[bytes]) -> Standing:
    """One of the few words about whether a home takes part."""
    said = _text(_parts(parts, AnswerKind.WORD, count=1)[0])
    if said == WAITING:
        return WAITING
    return READY if said == READY else ABSTAINS


def signed_in(parts: Sequence[bytes]) -> bytes:
    return _parts(parts, AnswerKind.SIGNED, count=1)[0]


def letters_in(parts: Sequence[bytes]) -> list[bytes]:
    return list(_parts(parts, AnswerKind.LETTERS))


def names_in(parts: Sequence[bytes]) -> frozenset[str]:
    return frozenset(map(_text, _parts(parts, AnswerKind.NAMES)))


def _parts(parts: Sequence[bytes], kind: AnswerKind, *, count: int | None = None) -> Sequence[bytes]:
    if parts[0] != kind.encode() or (count is not None and len(parts) != count + 1):
        raise BadMessage(f"the home answered something else than {kind}")
    return parts[1:]


def _text(part: bytes) -> str:
    try:
        return part.decode("utf-8")
    except UnicodeDecodeError:
        raise BadMessage("a word that is no text") from None
