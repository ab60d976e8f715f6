"""Who is signed in at a console: sessions in memory, which end with the process, after hours, or when left alone."""

import hashlib
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

__all__ = ["Session", "Sessions"]

_LONGEST = 8 * 3600.0
_IDLE = 3600.0
_MOST = 64


@dataclass(eq=False)
class Session:
    """One person at one browser.

    Attributes:
        person: who it is, as far as is known: the name that a decision carries unless another is typed.
        proven: whether a proxy says who it is; then nobody types another name.
        form_token: must be in every form that is sent.
        began: when, by a clock that only goes on.
        used: when something was last asked for by a person.
        streams: how many pages of it are listening for news.
        notices: what to say on the next page.
    """

    person: str
    proven: bool
    form_token: str
    began: float
    used: float
    streams: int = 0
    notices: list[str] = field(default_factory=list)

    def take_notices(self) -> list[str]:
        """What to say, once."""
        told, self.notices = self.notices, []
        return told


class Sessions:
    """All sessions of a console.

    Args:
        clock: seconds, for tests.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._by_key: dict[str, Session] = {}

    def begin(self, person: str) -> str:
        """A new session; returns the secret of its cookie, of which only a hash is kept."""
        secret = secrets.token_urlsafe(32)
        with self._lock:
            self._put(_key(secret), person, proven=False)
        return secret

    def find(self, secret: str | None, *, quietly: bool = False) -> Session | None:
        """The session of a cookie, unless it has ended; ``quietly`` if no person asks but a page for news."""
        if not secret:
            return None
        with self._lock:
            return self._alive(_key(secret), quietly=quietly)

    def of_user(self, name: str, *, quietly: bool = False) -> Session:
        """The session of somebody whom a proxy has signed in."""
        key = f"user {name}"
        with self._lock:
            return self._alive(key, quietly=quietly) or self._put(key, name, proven=True)

    @property
    def streams(self) -> int:
        """How many pages are listening for news, of all sessions."""
        with self._lock:
            return sum(session.streams for session in self._by_key.values())

    def end(self, session: Session) -> None:
        """It counts no more."""
        with self._lock:
            self._by_key = {key: other for key, other in self._by_key.items() if other is not session}

    def is_open(self, session: Session) -> bool:
        """Whether a session still counts."""
        with self._lock:
            return session in self._by_key.values() and not self._is_over(session)

    def _put(self, key: str, person: str, *, proven: bool) -> Session:
        now = self._clock()
        self._by_key = {other: session for other, session in self._by_key.items() if not self._is_over(session)}
        if len(self._by_key) >= _MOST:  # the one that was left alone longest goes
            del self._by_key[min(self._by_key, key=lambda other: self._by_key[other].used)]
        self._by_key[key] = Session(person, proven, secrets.token_urlsafe(32), now, now)
        return self._by_key[key]

    def _alive(self, key: str, *, quietly: bool) -> Session | None:
        session = self._by_key.get(key)
        if session is None or self._is_over(session):
            self._by_key.pop(key, None)
            return None
        if not quietly:
            session.used = self._clock()
        return session

    def _is_over(self, session: Session) -> bool:
        now = self._clock()
        return now - session.began > _LONGEST or now - session.used > _IDLE


def _key(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
