"""Records every message between the engines of compute parties, on relays between their sockets.

The engine draws public coins, which all parties know, and by them decides at each truncation which of them sends what
to whom. So that computations can be compared message by message, the relays can let them all draw the same public
coins: the engine adds up one number of each party, and the relays change what a party hears of the others' numbers.
"""

import contextlib
import re
import socket
import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

# The engine's remote calls: magic bytes, then the lengths of all that follows and of what describes it.
_MAGIC, _HEAD = b"PRPC", 12
_COINS = "2:ALLGATHER"
_NUMBER = 1 << 64
_SECONDS = 120.0


@dataclass
class LinkRecords:
    """The relays of one computation; their sockets lie in a folder, the engine of rank r listens at ``engine-r`` in it.

    Messages are kept for each (sender, reader) by the engine's own name and number of each.
    """

    folder: Path
    coins: int | None = None  # public ones of the engine, of 128 bits; drawn by the parties if not given
    sent: dict[tuple[int, int], dict[tuple[str, int], bytes]] = field(default_factory=lambda: defaultdict(dict))
    _drawn: dict[int, int] = field(default_factory=dict)
    _turn: threading.Condition = field(default_factory=threading.Condition)
    _open: list[socket.socket] = field(default_factory=list)

    def close(self) -> None:
        for end in self._open:
            _shut(end)
            end.close()

    def addresses(self, rank: int) -> tuple[str, ...]:
        """Where the engine of a rank reaches every rank; starts the relays that it needs."""
        made = []
        for reader in range(3):
            path = self.folder / (f"engine-{reader}" if reader == rank else f"{rank}-to-{reader}")
            made.append(f"unix:{path}")
            if reader != rank:
                server = self._socket()
                server.bind(str(path))
                server.listen()
                threading.Thread(target=self._serve, args=(server, rank, reader), daemon=True).start()
        return tuple(made)

    def _socket(self) -> socket.socket:
        self._open.append(socket.socket(socket.AF_UNIX))
        return self._open[-1]

    def heard(self, rank: int) -> list[bytes]:
        """All that a party was sent, link by link, in the engine's order."""
        links = sorted(link for link in self.sent if link[1] == rank)
        return [data for link in links for _, data in sorted(self.sent[link].items())]

    def shape(self) -> tuple[tuple[tuple[int, int], tuple[int, ...]], ...]:
        """For each link the lengths of its messages in order."""
        links = sorted(self.sent.items())
        return tuple((link, tuple(len(data) for _, data in sorted(told.items()))) for link, told in links)

    def _serve(self, server: socket.socket, sender: int, reader: int) -> None:
        with contextlib.suppress(OSError):
            while True:
                here, _ = server.accept()
                there = self._socket()
                self._open.append(here)
                try:
                    there.connect(str(self.folder / f"engine-{reader}"))
                except OSError:  # it does not listen yet, and the other one will try again
                    here.close()
                    continue
                for work, ends in ((self._forward, (here, there, sender, reader)), (_answer, (there, here))):
                    threading.Thread(target=work, args=ends, daemon=True).start()

    def _forward(self, here: socket.socket, there: socket.socket, sender: int, reader: int) -> None:
        alone = threading.Lock()

        def pass_on(head: bytes, described: bytes, call: bytes) -> None:
            noted = self._note(call, sender, reader)
            with alone:
                there.sendall(head + described + noted)

        with contextlib.suppress(OSError, EOFError):
            while True:
                head = _exactly(here, _HEAD)
                body = _exactly(here, int.from_bytes(head[4:8], "big"))
                assert head.startswith(_MAGIC)
                parts = head, body[: int.from_bytes(head[8:], "big")], body[int.from_bytes(head[8:], "big") :]
                if self.coins is not None and f":{_COINS}".encode("ascii") in parts[2]:
                    # It waits for another's; what comes after it may be what the other waits for.
                    threading.Thread(target=pass_on, args=parts, daemon=True).start()
                else:
                    pass_on(*parts)
        _shut(here, there)

    def _note(self, call: bytes, sender: int, reader: int) -> bytes:
        """Keep what a call carries; what is sent on for it."""
        parts = dict(_fields(call))
        name = parts[2].partition(b"\1\2")[0].partition(b":")[2].decode("ascii")  # each is used once on a link
        if not name:
            return call
        data = self._changed(name, parts.get(3, b""), sender, reader)
        number = re.search(r"(?:^|-)(\d+)", name)  # 12:ALLGATHER, P2P-12:1->0
        assert number is not None, name
        with self._turn:
            self.sent[sender, reader][name[: number.start(1)] + name[number.end(1) :], int(number[1])] = data
        return call[: len(call) - len(data)] + data

    def _changed(self, name: str, data: bytes, sender: int, reader: int) -> bytes:
        """What is sent on in place of a message: something else only where it carries a part of the coins."""
        return data if self.coins is None or name != _COINS else self._same_coins(data, sender, reader)

    def _same_coins(self, data: bytes, sender: int, reader: int) -> bytes:
        """Of the two or one that a party hears, the first makes its sum what it is to be, the other is zero."""
        assert len(data) == 19
        assert data[:2] == b"\x92\xcf"
        with self._turn:
            self._drawn[sender] = int.from_bytes(data[2:10], "big") * _NUMBER + int.from_bytes(data[11:], "big")
            self._turn.notify_all()
            assert self._turn.wait_for(lambda: reader in self._drawn, _SECONDS)
        is_first = sender == min({*range(3)} - {reader})
        number = ((self.coins or 0) - self._drawn[reader]) % _NUMBER**2 if is_first else 0
        return b"\x92\xcf" + (number // _NUMBER).to_bytes(8, "big") + b"\xcf" + (number % _NUMBER).to_bytes(8, "big")


def _answer(there: socket.socket, here: socket.socket) -> None:
    """What comes back says only that a call came."""
    with contextlib.suppress(OSError):
        while data := there.recv(1 << 16):
            here.sendall(data)
    _shut(here, there)


def _shut(*ends: socket.socket) -> None:
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def _exactly(end: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = end.recv(count - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Of a message of protocol buffers: those that are bytes; others are numbers of a few bytes."""
    place = 0
    while place < len(data):
        tag, place = _number(data, place)
        value, place = _number(data, place)
        if tag & 7 == 2:
            yield tag >> 3, data[place : place + value]
            place += value
        assert tag & 7 in (0, 2)


def _number(data: bytes, place: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        number |= (data[place] & 127) << shift
        shift += 7
        place += 1
        if data[place - 1] < 128:
            return number, place
