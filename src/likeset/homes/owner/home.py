"""A node's state in one directory.

``owner.yaml`` is the policy, ``ledger.sqlite`` the chained log of both budgets and of all that was asked, decided and
sent (and beside it the messages that left), ``data`` a folder for each data set, ``key`` the secret that decides which
rows are drawn. ``card``, ``card.secret`` and ``cards`` are as in every home (``homes.party_home``).
"""

import secrets
from dataclasses import dataclass
from pathlib import Path

from likeset import documents
from likeset.errors import InvalidArgument
from likeset.files import PRIVATE_FOLDER, make_home_folder, read_secret, write_secret
from likeset.homes.owner.policy import Policy, starting_text
from likeset.homes.party_home import PartyHome
from likeset.ledger import Ledger
from likeset.trust.cards import CardSecret

__all__ = ["Home", "make_home"]


@dataclass(frozen=True, slots=True)
class Home(PartyHome):
    """The directory of a node.

    Args:
        folder: where it is.
    """

    @property
    def usual_name(self) -> str:
        """The owner's name, as ``owner.yaml`` has it."""
        return Policy.load(self.policy).name

    @property
    def policy(self) -> Path:
        """The policy's file."""
        return self.folder / "owner.yaml"

    @property
    def ledger(self) -> Path:
        """The file of the ledger and the audit log."""
        return self.folder / "ledger.sqlite"

    @property
    def data(self) -> Path:
        """The folder of the data sets."""
        return self.folder / "data"

    @property
    def key_file(self) -> Path:
        """The file of the sampling key."""
        return self.folder / "key"

    def check(self, *, argument: str = "--node") -> None:
        """Raise unless this is the directory of a node; ``argument`` is what the user gave it as."""
        if not self.policy.is_file() or not self.key_file.is_file():
            raise InvalidArgument(
                argument,
                str(self.folder),
                "is not the directory of a node; give --node DIR or set LIKESET_NODE (new: `likeset owner init DIR`)",
            )

    def key(self) -> int:
        """The sampling key.

        Raises:
            LedgerUnavailable: other users may read it, or it is damaged.
        """
        return read_secret(self.key_file)


def make_home(folder: Path, *, name: str) -> Home:
    """A new node: a policy that allows nothing yet, a key, a card, an empty ledger, which is its audit log too.

    Raises:
        InvalidArgument: the directory holds something already, or cannot be made.
    """
    home = Home(folder)
    text, card = starting_text(name), CardSecret.generate(name)
    make_home_folder(folder)
    home.data.mkdir(mode=PRIVATE_FOLDER)
    with Ledger(home.ledger) as ledger:
        ledger.messages()  # makes their file
    write_secret(home.key_file, secrets.randbits(256))
    card.write(folder)
    documents.write_text(home.policy, text)
    return home
