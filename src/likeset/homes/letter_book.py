"""What a home keeps of its letters: the keys of its runs, whose letters came, which were sealed, and what contradicts.

A letter is sealed once. Its bytes are on the disk before they leave, and asked for again the same ones are sent again:
two letters under one number would be evidence against their writer. When a run is settled its key goes, and with it the
bytes that only that key opens; signed headers and digests stay.

A run goes by the digest of its terms, which its id is part of: an id alone is whatever a consumer wrote, and another
consumer may have seen it.
"""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Self

from likeset.errors import HomeRestored
from likeset.homes.expiry import utc_now
from likeset.homes.letter_records import (
    IN,
    OUT,
    Arrival,
    Contents,
    KeptLetter,
    Outgoing,
    Peer,
    RunKeys,
    Way,
    WrittenLetter,
)
from likeset.ledger.store import Layout, Store
from likeset.trust.letters import NOTHING_RECEIVED, Letter, Stub
from likeset.trust.sealing import SealingSecret

__all__ = ["LetterBook"]

_MOST_EVIDENCE = 16  # of one writer in one run: a flood must not fill the disk
_LAYOUT = Layout(
    what="letter book",
    application_id=0x4C_53_4C_31,  # "LSL1"
    version=1,
    statements=(
        """CREATE TABLE runs (
            terms BLOB PRIMARY KEY, invitation BLOB NOT NULL, ends REAL NOT NULL, key BLOB,
            acceptance BLOB NOT NULL, settled TEXT NOT NULL
        ) WITHOUT ROWID""",
        """CREATE TABLE peers (
            terms BLOB, party TEXT, card BLOB NOT NULL, run_key BLOB NOT NULL, acceptance BLOB NOT NULL,
            PRIMARY KEY (terms, party)
        ) WITHOUT ROWID""",
        """CREATE TABLE letters (
            terms BLOB, peer TEXT, way TEXT, number INTEGER, digest BLOB NOT NULL, stub BLOB NOT NULL,
            bytes INTEGER NOT NULL, kind TEXT NOT NULL, rows INTEGER NOT NULL, at TEXT NOT NULL,
            answers BLOB, content BLOB, opening BLOB, data BLOB,
            PRIMARY KEY (terms, peer, way, number)
        )""",  # the last three go when the run is settled
        "CREATE INDEX letters_by_content ON letters (terms, peer, way, content)",
        """CREATE TABLE evidence (
            terms BLOB, peer TEXT, number INTEGER, digest BLOB, stub BLOB NOT NULL, at TEXT NOT NULL,
            PRIMARY KEY (terms, peer, number, digest)
        )""",
        "CREATE TABLE stopped (terms BLOB PRIMARY KEY, data BLOB NOT NULL, at TEXT NOT NULL)",
    ),
)


class LetterBook:
    """The letters of all runs of one home, in one file.

    Args:
        path: the file; made if it is not there, unless ``read_only``.
        clock: tells the time.
        read_only: to look at it alone.
    """

    def __init__(self, path: Path, *, clock: Callable[[], datetime] = utc_now, read_only: bool = False) -> None:
        self._store = Store(path, layout=_LAYOUT, read_only=read_only)
        self._clock = clock

    # The keys of a run.

    def open_run(
        self,
        terms: bytes,
        secret: SealingSecret,
        *,
        invitation: bytes,
        ends: datetime,
        acceptance: bytes = b"",
    ) -> RunKeys:
        """Keep the keys of a run; those that were kept first count.

        Args:
            terms: of the run, by their digest.
            secret: opens its letters.
            invitation: the terms as the consumer signed them.
            ends: when the terms end, and with them the key.
            acceptance: what this home signed to take part; empty at the consumer.
        """
        with self._store.writing() as connection:
            row = (terms, invitation, ends.timestamp(), secret.to_bytes(), acceptance, "")
            connection.execute("INSERT OR IGNORE INTO runs VALUES (?, ?, ?, ?, ?, ?)", row)
        kept = self.run_keys(terms)
        assert kept is not None  # noqa: S101 - just written, and never removed
        return kept

    def run_keys(self, terms: bytes) -> RunKeys | None:
        """The keys of a run; None if it is not known."""
        with self._store.reading() as connection:
            row = connection.execute(
                "SELECT key, invitation, acceptance, settled FROM runs WHERE terms = ?", (terms,)
            ).fetchone()
        if row is None:
            return None
        key, invitation, acceptance, settled = row
        secret = None if key is None else SealingSecret.from_bytes(key)
        return RunKeys(terms, secret, invitation, acceptance, settled)

    def is_settled(self, terms: bytes) -> bool:
        """Whether the key of a run that is known here is gone."""
        with self._store.reading() as connection:
            row = connection.execute("SELECT key IS NULL FROM runs WHERE terms = ?", (terms,)).fetchone()
        return row is not None and bool(row[0])

    def invitations(self) -> list[bytes]:
        """The signed terms of all runs that this home took part in."""
        with self._store.reading() as connection:
            return [bytes(data) for (data,) in connection.execute("SELECT invitation FROM runs ORDER BY terms")]

    def settle(self, terms: bytes, *, resend: bool = False) -> bool:
        """Forget the key of a run and the bytes that it opens; returns whether there was one to forget.

        Args:
            terms: of the run, by their digest.
            resend: whether letters that were sealed here stay until the terms end. Their readers' keys open them, no
                key of this home does; somebody who lost them may ask for them again (``sent_in_answer``).
        """
        with self._store.writing() as connection:
            forgotten = self._forget(connection, [terms], resend=resend)
        self._store.empty_log()  # which would hold it until it is written over
        return forgotten > 0

    def settle_ended(self) -> int:
        """The same for all runs whose terms have ended; returns how many keys were forgotten."""
        with self._store.reading() as connection:
            rows = connection.execute(
                "SELECT terms FROM runs WHERE ends <= ? AND (key IS NOT NULL OR EXISTS "
                "(SELECT 1 FROM letters WHERE letters.terms = runs.terms AND data IS NOT NULL))",
                (self._clock().timestamp(),),
            )
            ended = [terms for (terms,) in rows]
        if not ended:
            return 0  # to look writes nothing
        with self._store.writing() as connection:
            forgotten = self._forget(connection, ended)
        self._store.empty_log()
        return forgotten

    def _forget(self, connection: sqlite3.Connection, runs: Iterable[bytes], *, resend: bool = False) -> int:
        count, ways = 0, (IN, IN if resend else OUT)
        for terms in runs:
            count += connection.execute(
                "UPDATE runs SET key = NULL, settled = ? WHERE terms = ? AND key IS NOT NULL", (self._now(), terms)
            ).rowcount
            connection.execute("UPDATE letters SET content = NULL, opening = NULL WHERE terms = ?", (terms,))
            connection.execute("UPDATE letters SET data = NULL WHERE terms = ? AND way IN (?, ?)", (terms, *ways))
        return count

    # Who takes part.

    def introduce(self, terms: bytes, peers: Iterable[Peer]) -> None:
        """Keep whom to write to; who is known stays as it is."""
        with self._store.writing() as connection:
            self._introduce(connection, terms, peers)

    def _introduce(self, connection: sqlite3.Connection, terms: bytes, peers: Iterable[Peer]) -> None:
        rows = [(terms, peer.party, peer.card, peer.run_key, peer.acceptance) for peer in peers]
        connection.executemany("INSERT OR IGNORE INTO peers VALUES (?, ?, ?, ?, ?)", rows)

    def peer(self, terms: bytes, party: str) -> Peer | None:
        """Somebody to write to in a run; None who was not introduced."""
        with self._store.reading() as connection:
            row = connection.execute(
                "SELECT party, card, run_key, acceptance FROM peers WHERE terms = ? AND party = ?", (terms, party)
            ).fetchone()
        return None if row is None else Peer(*row)

    def introduced(self, terms: bytes) -> frozenset[str]:
        """The names of all who were introduced in a run."""
        with self._store.reading() as connection:
            rows = connection.execute("SELECT party FROM peers WHERE terms = ?", (terms,))
            return frozenset(party for (party,) in rows)

    # Letters.

    def came(self, terms: bytes, peer: str, number: int) -> bytes | None:
        """The digest of the letter that came under a number; None if none did."""
        with self._store.reading() as connection:
            row = connection.execute(
                "SELECT digest FROM letters WHERE terms = ? AND peer = ? AND way = ? AND number = ?",
                (terms, peer, IN, number),
            ).fetchone()
        return None if row is None else bytes(row[0])

    def is_said_again(self, terms: bytes, peer: str, contents: Contents, *, number: int) -> bool:
        """Whether this came from somebody before, under another number: who sends it again sends the same letter."""
        with self._store.reading() as connection:
            row = connection.execute(
                "SELECT 1 FROM letters WHERE terms = ? AND peer = ? AND way = ? AND content = ? AND number <> ?",
                (terms, peer, IN, contents.digest, number),
            ).fetchone()
        return row is not None

    def last_received(self, terms: bytes, peer: str) -> bytes:
        """The digest of the letter of the largest number that came from somebody; zeros if none did."""
        with self._store.reading() as connection:
            row = connection.execute(
                "SELECT digest FROM letters WHERE terms = ? AND peer = ? AND way = ? ORDER BY number DESC LIMIT 1",
                (terms, peer, IN),
            ).fetchone()
        return NOTHING_RECEIVED if row is None else bytes(row[0])

    def exchange(
        self,
        terms: bytes,
        *,
        came: Arrival | None = None,
        replies: Sequence[Outgoing] = (),
        newcomers: Iterable[Peer] = (),
    ) -> tuple[bytes, ...]:
        """Write down that a letter came, and seal what is answered: all of it in one write, before anything leaves.

        A reply that says what an earlier letter to the same reader says is that letter, as it was sealed.

        Args:
            terms: of the run, by their digest.
            came: what came, if anything did.
            replies: what is to be sent, in order.
            newcomers: who was introduced by it.

        Returns:
            The bytes of each reply.
        """
        with self._store.writing() as connection:
            self._introduce(connection, terms, newcomers)
            if came is not None:
                data = came.letter.data if came.kept_whole else None
                self._insert(connection, terms, came.peer, IN, came.letter, came.contents, came.opening, data)
            answers = None if came is None else came.letter.digest
            return tuple(self._sealed(connection, terms, reply, answers) for reply in replies)

    def _sealed(self, connection: sqlite3.Connection, terms: bytes, reply: Outgoing, answers: bytes | None) -> bytes:
        place = (terms, reply.peer, OUT)
        kept = connection.execute(
            "SELECT data FROM letters WHERE terms = ? AND peer = ? AND way = ? AND content = ?",
            (*place, reply.contents.digest),
        ).fetchone()
        if kept is not None:
            return bytes(kept[0])
        (number,) = connection.execute(
            "SELECT coalesce(max(number) + 1, 0) FROM letters WHERE terms = ? AND peer = ? AND way = ?", place
        ).fetchone()
        letter = reply.seal(number, self.last_received(terms, reply.peer))
        opening = None if letter.content is None else letter.content.random
        self._insert(connection, terms, reply.peer, OUT, letter, reply.contents, opening, letter.data, answers)
        return letter.data

    def _insert(
        self,
        connection: sqlite3.Connection,
        terms: bytes,
        peer: str,
        way: Way,
        letter: Letter,
        contents: Contents,
        opening: bytes | None,
        data: bytes | None,
        answers: bytes | None = None,
    ) -> None:
        place = (terms, peer, way, letter.header.number)
        kept = (letter.digest, letter.stub.to_bytes(), len(letter.data), contents.kind, contents.rows, self._now())
        row = (*place, *kept, answers, contents.digest, opening, data)
        connection.execute(f"INSERT OR IGNORE INTO letters VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608

    def sent(self, terms: bytes) -> list[bytes]:
        """The letters of a run that were sealed here, in the order in which they were."""
        with self._store.reading() as connection:
            rows = connection.execute(
                "SELECT data FROM letters WHERE terms = ? AND way = ? AND data IS NOT NULL ORDER BY rowid",
                (terms, OUT),
            )
            return [bytes(data) for (data,) in rows]

    def written(self, terms: bytes, *, after: int = 0) -> list[WrittenLetter]:
        """The letters of a run that were sealed here, without their bytes, in the order in which they were.

        Args:
            terms: of the run, by their digest.
            after: only those that were sealed after the letter in this place.
        """
        with self._store.reading() as connection:
            rows = connection.execute(
                "SELECT rowid, peer, number, digest, kind FROM letters WHERE terms = ? AND way = ? AND rowid > ? "
                "ORDER BY rowid",
                (terms, OUT, after),
            )
            return [WrittenLetter(*row) for row in rows]

    def sent_in_answer(self, terms: bytes, digest: bytes) -> tuple[bytes, ...]:
        """The letters that were sealed here in answer to the one of this digest, as far as they are kept."""
        with self._store.reading() as connection:
            rows = connection.execute(
                "SELECT data FROM letters WHERE terms = ? AND way = ? AND answers = ? AND data IS NOT NULL "
                "ORDER BY rowid",
                (terms, OUT, digest),
            )
            return tuple(bytes(data) for (data,) in rows)

    def letters(self, terms: bytes, peer: str | None = None) -> list[KeptLetter]:
        """What is kept of the letters of a run (with one peer), in the order in which they were kept."""
        columns = "peer, way, number, digest, stub, bytes, kind, rows, at, opening"
        with self._store.reading() as connection:
            rows = connection.execute(
                f"SELECT {columns} FROM letters WHERE terms = ? AND peer = coalesce(?, peer) ORDER BY rowid",  # noqa: S608
                (terms, peer),
            )
            return [KeptLetter(*row) for row in rows]

    def letter_data(self, terms: bytes, peer: str, way: Way, number: int) -> bytes | None:
        """The bytes of a letter; None if there is none, or the run is settled."""
        with self._store.reading() as connection:
            row = connection.execute(
                "SELECT data FROM letters WHERE terms = ? AND peer = ? AND way = ? AND number = ?",
                (terms, peer, way, number),
            ).fetchone()
        return None if row is None or row[0] is None else bytes(row[0])

    # What must not be.

    def contradict(self, terms: bytes, peer: str, letter: Letter) -> bytes:
        """Keep the signed header of a letter that has the number of another one; returns the stub of that one.

        It is evidence enough: whoever signed both contradicts itself. The letter may be as large as any.
        """
        with self._store.writing() as connection:
            (count,) = connection.execute(
                "SELECT count(*) FROM evidence WHERE terms = ? AND peer = ?", (terms, peer)
            ).fetchone()
            if count < _MOST_EVIDENCE:
                row = (terms, peer, letter.header.number, letter.digest, letter.stub.to_bytes(), self._now())
                connection.execute("INSERT OR IGNORE INTO evidence VALUES (?, ?, ?, ?, ?, ?)", row)
            (earlier,) = connection.execute(
                "SELECT stub FROM letters WHERE terms = ? AND peer = ? AND way = ? AND number = ?",
                (terms, peer, IN, letter.header.number),
            ).fetchone()
        return bytes(earlier)

    def evidence(self, terms: bytes) -> list[tuple[str, Stub]]:
        """Signed headers of letters that contradict others of their writers, each with its writer's name."""
        with self._store.reading() as connection:
            rows = connection.execute("SELECT peer, stub FROM evidence WHERE terms = ? ORDER BY rowid", (terms,))
            return [(peer, Stub.from_bytes(stub)) for peer, stub in rows]

    def stop(self, terms: bytes, data: bytes) -> None:
        """Answer nothing more in any run: this home signed something that it does not remember."""
        with self._store.writing() as connection:
            connection.execute("INSERT OR IGNORE INTO stopped VALUES (?, ?, ?)", (terms, data, self._now()))

    def check_running(self) -> None:
        """Raise if this home was found to be put back from an old copy.

        Raises:
            HomeRestored: it was.
        """
        with self._store.reading() as connection:
            row = connection.execute("SELECT at FROM stopped ORDER BY at LIMIT 1").fetchone()
        if row is not None:
            raise HomeRestored(row[0])

    def close(self) -> None:
        """Let go of the file."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _now(self) -> str:
        return self._clock().isoformat(timespec="seconds")
