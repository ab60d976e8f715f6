"""A node's state in one directory.

``owner.yaml`` is the policy, ``ledger.sqlite`` holds both budgets (and beside it the messages that left),
``audit.sqlite`` the audit log, ``data`` a folder for each data set, ``key`` the secret that decides which rows are
drawn, ``seeds`` the seeds of runs in which the curator sees hashes only.
"""

import os
import re
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path

from likeset import documents
from likeset.errors import InvalidArgument, LedgerUnavailable
from likeset.ledger import Ledger
from likeset.node.logbook import Logbook
from likeset.node.policy import starting_text

__all__ = ["Home", "make_home"]

_PRIVATE, _PRIVATE_FOLDER = 0o600, 0o700
_OTHERS = 0o077


@dataclass(frozen=True, slots=True)
class Home:
    """The directory of a node.

    Args:
        folder: where it is.
    """

    folder: Path

    @property
    def policy(self) -> Path:
        """The policy's file."""
        return self.folder / "owner.yaml"

    @property
    def ledger(self) -> Path:
        """The ledger's file."""
        return self.folder / "ledger.sqlite"

    @property
    def audit(self) -> Path:
        """The audit log's file."""
        return self.folder / "audit.sqlite"

    @property
    def data(self) -> Path:
        """The folder of the data sets."""
        return self.folder / "data"

    @property
    def key_file(self) -> Path:
        """The file of the sampling key."""
        return self.folder / "key"

    def check(self) -> None:
        """Raise unless this is the directory of a node."""
        if not self.policy.is_file() or not self.key_file.is_file():
            raise InvalidArgument(
                "--node", str(self.folder), "is not the directory of a node; make one with `likeset owner init`"
            )

    def key(self) -> int:
        """The sampling key.

        Raises:
            LedgerUnavailable: other users may read it, or it is damaged.
        """
        return int(_secret(self.key_file), 16)

    def hash_seed(self, digest: str) -> int:
        """The seed of a run in which the curator sees hashes only, by the digest of its terms."""
        path = self.folder / "seeds" / digest
        if not path.exists():
            raise InvalidArgument(
                "--hash-seed", "none", "the run needs the seed that owners and consumer share; give it when approving"
            )
        return int(_secret(path), 16)

    def keep_hash_seed(self, digest: str, seed: int) -> None:
        """Keep the seed of a run."""
        place = self.folder / "seeds"
        place.mkdir(mode=_PRIVATE_FOLDER, exist_ok=True)
        (place / digest).unlink(missing_ok=True)
        _write_secret(place / digest, seed)


def make_home(folder: Path, *, name: str) -> Home:
    """A new node: a policy that allows nothing yet, a key, an empty ledger and an audit log.

    Raises:
        InvalidArgument: the directory holds something already, or cannot be made.
    """
    home = Home(folder)
    text = starting_text(name)
    try:
        folder.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
        occupied = any(folder.iterdir())
    except OSError as error:
        raise InvalidArgument("DIR", str(folder), f"cannot be used as a directory: {error.strerror}") from error
    if occupied:
        raise InvalidArgument("DIR", str(folder), "holds something already; nothing is overwritten: name a new one")
    folder.chmod(_PRIVATE_FOLDER)
    home.data.mkdir(mode=_PRIVATE_FOLDER)
    with Ledger(home.ledger) as ledger, Logbook(home.audit):
        ledger.messages()  # makes their file
    _write_secret(home.key_file, secrets.randbits(256))
    documents.write_text(home.policy, text)
    return home


def _write_secret(path: Path, number: int) -> None:
    """In a new file that nobody else may read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(f"{number:064x}\n")
        file.flush()
        os.fsync(file.fileno())


def _secret(path: Path) -> str:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        text = path.read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        raise LedgerUnavailable(f"{path}: cannot be read; restore it from a copy") from error
    if os.name == "posix" and mode & _OTHERS:
        raise LedgerUnavailable(f"{path}: other users can read it (mode {mode:04o}), and it is secret; chmod 600 it")
    if re.fullmatch(r"[0-9a-f]{64}", text) is None:
        # A new one would draw other rows than were drawn before.
        raise LedgerUnavailable(f"{path}: does not hold a key; restore it from a copy")
    return text
