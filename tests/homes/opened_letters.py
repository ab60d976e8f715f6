"""Letters that passed, opened by somebody who has everybody's keys: what they said, for looks at what really left."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kill_world import CONSUMER, KEYS_FILE, OWNERS, folder_of

from likeset.errors import LikesetError
from likeset.protocol.party import CURATOR
from likeset.protocol.wire import MOST_BYTES, Message, decode
from likeset.trust.cards import CARD_FILE, Card, SealingSecret, read_card
from likeset.trust.letters import Letter, is_acceptance, letter_in, open_letter


@dataclass(frozen=True)
class Opener:
    """Opens all letters of a network.

    Args:
        cards: of all parties, by fingerprint.
        keys: of all runs and parties.
    """

    cards: dict[str, Card]
    keys: tuple[SealingSecret, ...]

    @classmethod
    def of(cls, place: Path) -> "Opener":
        """For the network in a folder, from what its processes noted."""
        cards = [read_card(folder_of(place, name) / CARD_FILE) for name in (CONSUMER, CURATOR, *OWNERS)]
        keys = [SealingSecret.from_bytes(bytes.fromhex(line)) for line in (place / KEYS_FILE).read_text().split()]
        return cls({card.fingerprint: card for card in cards}, tuple(keys))

    def messages(self, passed: Iterable[bytes]) -> Iterator[tuple[Message, bytes]]:
        """What letters say, in their order; acceptances and receipts say nothing to a party."""
        for data in passed:
            if is_acceptance(data):
                continue
            said = self._opened(letter_in(data, most_bytes=MOST_BYTES))
            if said:
                yield decode(said), said

    def _opened(self, letter: Letter) -> bytes:
        writer, reader = self.cards[letter.header.sender], self.cards[letter.header.recipient]
        for key in self.keys:
            try:
                return open_letter(letter, writer=writer, reader=reader, key=key).message
            except LikesetError:
                continue
        raise AssertionError("a letter passed that nobody can open")
