"""One run between organisations at one home: whose letters are opened, and what is sealed to whom.

Whatever carries letters proves nothing. Who wrote a letter follows from its signature and from a card whose fingerprint
stands in the terms; the terms are signed by the consumer, whose card a person has pinned. What is refused here costs
nothing: no party has heard of it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from likeset.errors import (
    IllegalMessage,
    LetterContradicts,
    QuorumMissed,
)
from likeset.homes.acceptances import is_given_up, peer_in
from likeset.homes.identity import Identity
from likeset.homes.letter_book import LetterBook
from likeset.homes.letter_records import IN, Arrival, KeptLetter, Outgoing, Peer, contents_of
from likeset.homes.own_letters import OwnPapers, check_signature
from likeset.homes.padding import padded_size
from likeset.homes.signed_invitation import Invitation, end_of, role_in, unpinned
from likeset.protocol.messages import Message, decode
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import WITNESS, Terms
from likeset.trust.cards import Card
from likeset.trust.letters import Letter, letter_in, open_letter, write_letter
from likeset.trust.sealing import SealingSecret
from likeset.trust.signed_terms import accept

__all__ = ["Correspondence", "HeardLetter"]


@dataclass(frozen=True, eq=False)
class HeardLetter:
    """A letter that was opened.

    Attributes:
        arrival: what is written down of it.
        message: what it says; None where it only has enclosures.
        enclosures: documents in it.
    """

    arrival: Arrival
    message: Message | None
    enclosures: tuple[bytes, ...] = field(repr=False)


@dataclass(eq=False)
class Correspondence:
    """The letters of one run at one home.

    Args:
        identity: the home's.
        invitation: the signed terms.
        party: the home's name in them.
    """

    identity: Identity
    invitation: Invitation
    party: str
    _newcomers: dict[str, Peer] = field(default_factory=dict, init=False)  # written down with the next letter

    def __post_init__(self) -> None:
        if self.party not in self.terms.cards:
            raise IllegalMessage(f"{self.party} is no party of run {self.terms.run}")
        if self.terms.cards[self.party] != self.identity.fingerprint:
            raise IllegalMessage(f"run {self.terms.run}: the terms name another card than this home's")

    @property
    def terms(self) -> Terms:
        """Of the run."""
        return self.invitation.terms

    @cached_property
    def run_id(self) -> bytes:
        """Of the run."""
        return bytes.fromhex(self.terms.run_id)

    @cached_property
    def _digest(self) -> bytes:
        """Of the terms, by which everything of the run is kept."""
        return bytes.fromhex(self.terms.digest)

    @cached_property
    def own(self) -> OwnPapers:
        """What this home wrote, when it comes back."""
        return OwnPapers(self.identity, self.terms)

    @property
    def _book(self) -> LetterBook:
        return self.identity.book

    # Who takes part.

    def acceptance(self) -> bytes:
        """What this home signs to take part: made once, with a key for the run.

        Also when the run is settled: others may have lost something and hold it again, with what was answered before.

        Raises:
            LikesetError: a card is not pinned, or this home is an old copy.
        """
        self._check_pins()
        role = role_in(self.terms, self.party)
        if role == "consumer":
            raise IllegalMessage(f"run {self.terms.run}: who signed the terms accepts nothing")
        kept = self._book.run_keys(self._digest)
        if kept is None:
            secret = SealingSecret.generate()
            accepted = accept(
                self.identity.secret,
                run_id=self.run_id,
                terms=self._digest,
                role=role,
                party=self.party,
                run_key=secret.public,
            )
            kept = self._book.open_run(
                self._digest,
                secret,
                invitation=self.invitation.to_bytes(),
                ends=end_of(self.terms),
                acceptance=accepted.to_bytes(),
            )
        return kept.acceptance

    def begin(self, acceptances: Iterable[bytes], start: Callable[[], tuple[Message, ...]]) -> tuple[bytes, ...]:
        """The consumer's first letters, once who computes and enough owners take part; asked again, the same ones.

        Owners hear who computes; those who compute hear of each other and of all owners.

        Args:
            acceptances: what others signed, as it came; what does not hold is as if it had not come.
            start: draws and charges what the consumer says first.

        Raises:
            QuorumMissed: too few take part; nothing was drawn.
        """
        self._open_keys()
        admitted = [peer for data in acceptances if (peer := self._admitted(data)) is not None]
        sent = self._book.sent(self._digest)
        if sent:
            # Whoever signed anew does not remember what it signed before, and is shown it.
            known = (self._book.peer(self._digest, peer.party) for peer in admitted)
            signed = {peer.party: peer.acceptance for peer in known if peer is not None}
            echoes = [
                signed[peer.party] for peer in admitted if signed.get(peer.party, peer.acceptance) != peer.acceptance
            ]
            return (*echoes, *sent)
        peers = {peer.party: peer for peer in admitted}
        owners = [name for name in self.terms.owners if name in peers]
        computing = [name for name in (CURATOR, WITNESS) if name in self.terms.cards]
        if not peers.keys() >= set(computing) or len(owners) < self.terms.quorum:
            needed = " and ".join(f"the {name}" for name in computing)
            raise QuorumMissed(f"{len(owners)} owners take part; the terms ask for {self.terms.quorum} and {needed}")
        self._book.introduce(self._digest, peers.values())
        # Where a crash came first, others may be in the book: of them the curator would not hear.
        peers = {name: self._book.peer(self._digest, name) or peer for name, peer in peers.items()}
        enclosed = {
            name: tuple(peers[other].acceptance for other in (*computing, *owners) if other != name)
            for name in computing
        }
        enclosed |= dict.fromkeys(owners, tuple(peers[name].acceptance for name in computing))
        return self.write((message for message in start() if message.receiver in peers), enclosures=enclosed)

    def introduce(self, enclosures: Iterable[bytes]) -> frozenset[str]:
        """Take in who takes part, from what the consumer encloses; returns the names of all who do.

        They are written down with the letter that introduces them, when that is.

        Raises:
            IllegalMessage: something enclosed does not hold.
        """
        peers = []
        for data in enclosures:
            peer = self._admitted(data)
            if peer is None:
                raise IllegalMessage(f"run {self.terms.run}: an acceptance that is enclosed does not hold")
            peers.append(peer)
        known = self._book.introduced(self._digest)
        self._newcomers = {peer.party: peer for peer in peers if peer.party not in known}
        return known | self._newcomers.keys()

    @property
    def is_begun(self) -> bool:
        """Whether it is written down who takes part, and the key that opens their letters is there."""
        keys = self._book.run_keys(self._digest)
        return keys is not None and keys.secret is not None and bool(self._book.introduced(self._digest))

    @property
    def cards(self) -> dict[str, Card]:
        """Of all who take part besides this home, by their names in the terms."""
        names = {self.terms.consumer, *self._book.introduced(self._digest), *self._newcomers} - {self.party}
        peers = (self._peer(name) for name in sorted(names))
        return {peer.party: _card(peer.card) for peer in peers if peer is not None}

    @property
    def kept(self) -> list[KeptLetter]:
        """All letters of the run, in the order in which they came and were written."""
        return self._book.letters(self._digest)

    def data_of(self, letter: KeptLetter) -> bytes | None:
        """The bytes of a letter; None if they are not kept."""
        return self._book.letter_data(self._digest, letter.peer, letter.way, letter.number)

    def _admitted(self, data: bytes) -> Peer | None:
        """Somebody who accepted these terms; None if the acceptance does not hold."""
        return peer_in(data, self.terms, self.identity.pins)

    # Letters.

    def read(self, data: bytes, *, most_bytes: int) -> HeardLetter:
        """Open a letter; nothing is written down but what contradicts.

        Raises:
            LetterContradicts: another one came under its number; that one is in the error.
            HomeRestored: it is this home's own, and not remembered.
            LikesetError: it is refused.
        """
        letter = letter_in(data, most_bytes=most_bytes)
        header = letter.header
        if (header.run_id, header.terms) != (self.run_id, self._digest):
            raise IllegalMessage(f"run {self.terms.run}: a letter of another run, or under other terms")
        if header.sender == self.identity.fingerprint:
            self.own.meet(letter.stub)
        secret = self._open_keys()
        peer = self._writer(header.sender)
        card = _card(peer.card)
        check_signature(letter.stub, card)
        self._check_number(peer, letter)
        opened = open_letter(letter, writer=card, reader=self.identity.secret.card, key=secret)
        message = self._message_in(opened.message, peer, letter, most_bytes)
        contents = contents_of(message, opened.message, opened.enclosures)
        if self._book.is_said_again(self._digest, peer.party, contents, number=header.number):
            raise IllegalMessage(f"run {self.terms.run}: {peer.party} says again, in a new letter, what it said before")
        # A trusted curator would have all offered rows beside the key that opens them, until the terms end.
        kept_whole = self.party != CURATOR or self.terms.split is not None
        arrival = Arrival(peer.party, letter, contents, opened.random, kept_whole=kept_whole)
        return HeardLetter(arrival, message, opened.enclosures)

    def write(
        self,
        messages: Iterable[Message],
        *,
        came: HeardLetter | None = None,
        enclosures: dict[str, tuple[bytes, ...]] | None = None,
    ) -> tuple[bytes, ...]:
        """Seal messages to those of their receivers who take part, and write down what they answer, in one write.

        Args:
            messages: what is said.
            came: the letter that they answer.
            enclosures: documents to go with them, by receiver.

        Raises:
            HomeRestored: this home is an old copy.
        """
        self._book.check_running()
        enclosed = enclosures or {}
        replies = [
            self._outgoing(peer, message, enclosed.get(peer.party, ()))
            for message in messages
            if (peer := self._peer(message.receiver)) is not None
        ]
        newcomers, self._newcomers = self._newcomers, {}
        return self._book.exchange(
            self._digest,
            came=None if came is None else came.arrival,
            replies=replies,
            newcomers=newcomers.values(),
        )

    def write_receipts(self, receipts: dict[str, bytes]) -> tuple[bytes, ...]:
        """Letters that hold nothing but a receipt, each for its owner.

        Raises:
            HomeRestored: this home is an old copy.
        """
        self._book.check_running()
        replies = [
            self._outgoing(peer, None, (receipt,))
            for name, receipt in receipts.items()
            if (peer := self._peer(name)) is not None
        ]
        return self._book.exchange(self._digest, replies=replies) if replies else ()

    def settle(self, *, resend: bool = False) -> None:
        """Forget the key of the run: from now on nobody can open its letters here.

        Args:
            resend: whether letters that were sealed here stay until the terms end, for readers who lost them.
        """
        self._book.settle(self._digest, resend=resend)

    def answered_before(self, data: bytes, *, most_bytes: int) -> tuple[str, tuple[bytes, ...]] | None:
        """In a run that is settled, what kind of message this very letter held, and the letters that answered it.

        None if the run is not settled, or the letter never came.
        """
        if not self._book.is_settled(self._digest):
            return None
        letter = letter_in(data, most_bytes=most_bytes)
        writer = self._names.get(letter.header.sender)
        if writer is None:
            return None
        for kept in self._book.letters(self._digest, writer):
            if (kept.way, kept.digest) == (IN, letter.digest):
                return kept.kind, self._book.sent_in_answer(self._digest, letter.digest)
        return None

    def _outgoing(self, peer: Peer, message: Message | None, enclosures: tuple[bytes, ...]) -> Outgoing:
        data = b"" if message is None else message.data
        size = padded_size(self.terms, message)

        def seal(number: int, last_received: bytes) -> Letter:
            return write_letter(
                self.identity.secret,
                recipient=_card(peer.card),
                recipient_key=peer.run_key,
                run_id=self.run_id,
                terms=self._digest,
                round=0 if message is None else message.round,
                number=number,
                last_received=last_received,
                message=data,
                enclosures=enclosures,
                padding_step=size,
            )

        return Outgoing(peer.party, contents_of(message, data, enclosures), seal)

    # What is asked of a letter.

    def _peer(self, party: str) -> Peer | None:
        """Somebody whom this home may write to in the run; None who was not introduced."""
        if party == self.terms.consumer:
            signed = self.invitation.signed
            return Peer(party, signed.card.to_bytes(), signed.run_key)
        return self._newcomers.get(party) or self._book.peer(self._digest, party)

    @cached_property
    def _names(self) -> dict[str, str]:
        """Of the parties, by the fingerprints of their cards."""
        return {fingerprint: name for name, fingerprint in self.terms.cards.items()}

    def _writer(self, fingerprint: str) -> Peer:
        name = self._names.get(fingerprint)
        if name is None:
            raise IllegalMessage(f"run {self.terms.run}: a letter of somebody whom the terms do not name")
        if is_given_up(fingerprint, self.identity.pins):
            raise IllegalMessage(f"run {self.terms.run}: a letter of {name}, whose card was replaced or revoked here")
        peer = self._peer(name)
        if peer is None:
            raise IllegalMessage(f"run {self.terms.run}: a letter of {name}, who was not introduced")
        return peer

    def _check_number(self, peer: Peer, letter: Letter) -> None:
        known = self._book.came(self._digest, peer.party, letter.header.number)
        if known is not None and known != letter.digest:
            earlier = self._book.contradict(self._digest, peer.party, letter)
            raise LetterContradicts(self.terms.run, peer.party, letter.header.number, earlier)

    def _message_in(self, data: bytes, peer: Peer, letter: Letter, most_bytes: int) -> Message | None:
        if not data:
            return None
        message = decode(data, most_bytes=most_bytes)
        said = (message.run, message.terms, message.sender, message.receiver, message.round)
        if said != (self.terms.run, self.terms.digest, peer.party, self.party, letter.header.round):
            raise IllegalMessage(f"run {self.terms.run}: a message of {peer.party} is not what its letter says")
        return message

    def _open_keys(self) -> SealingSecret:
        self._check_pins()
        keys = self._book.run_keys(self._digest)
        if keys is None:
            raise IllegalMessage(f"run {self.terms.run}: this home has not accepted these terms")
        if keys.secret is None:
            raise IllegalMessage(f"run {self.terms.run}: is settled, and its key is gone")
        return keys.secret

    def _check_pins(self) -> None:
        self._book.check_running()
        reasons = unpinned(self.terms, self.party, self.identity.pins)
        if reasons:
            raise IllegalMessage(f"run {self.terms.run}: {'; '.join(reasons)}")


@lru_cache(maxsize=4096)
def _card(data: bytes) -> Card:
    """A card that was checked when it came."""
    return Card.from_bytes(data)
