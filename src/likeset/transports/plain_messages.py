"""Parcels that are messages as they are: among parties of one process, where nobody is there to be kept out."""

from dataclasses import dataclass, field

from likeset.homes.mail import CuratorShell
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import Terms
from likeset.protocol.wire import Message, decode
from likeset.transports.pump import Parcel


@dataclass(frozen=True)
class PlainCurator:
    """A curator who reads and writes messages as they are.

    Args:
        shell: the curator.
    """

    shell: CuratorShell
    _read: dict[bytes, Message] = field(default_factory=dict, init=False, repr=False)

    @property
    def terms(self) -> Terms:
        return self.shell.terms

    @property
    def waiting_for(self) -> frozenset[str]:
        return self.shell.waiting_for

    def take(self, data: bytes) -> list[Parcel]:
        message = self._read.pop(data, None) or decode(data)
        return [_parcel(reply) for reply in self.shell.take(message)]

    def give_up(self, owner: str) -> list[Parcel]:
        return [_parcel(message) for message in self.shell.give_up(owner)]

    def read(self, data: bytes) -> Parcel:
        """As ``read_parcel``; what is for the curator need not be decoded again when it is taken.

        Raises:
            BadMessage: it is none.
        """
        message = decode(data)
        if message.receiver == CURATOR:
            self._read[data] = message
        return _parcel(message)


def read_parcel(data: bytes) -> Parcel:
    """From whom a message is, and for whom.

    Raises:
        BadMessage: it is none.
    """
    return _parcel(decode(data))


def _parcel(message: Message) -> Parcel:
    return Parcel(message.sender, message.receiver, message.data)
