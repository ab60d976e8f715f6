"""What a bundle proves to somebody who has the cards of the parties, and what it does not prove.

What is proven rests on signatures alone, and each fact says on whose. What a letter is about, how many rows it holds
and when it was written does not stand on its stub: that is proven by a receipt, on the word of who signed it (the
curator, in a split run the consumer), or where the letter is disclosed.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from likeset.errors import BadMessage
from likeset.homes.bundles import Bundle
from likeset.homes.receipts import Receipt
from likeset.homes.transcripts import FROM_OWNER, Line
from likeset.protocol.messages import Delivery, Offer, Summary, decode
from likeset.trust.letters import NOTHING_RECEIVED, Disclosure, Stub

__all__ = ["Fact", "facts", "unproven"]

FactKind = Literal["terms", "accepted", "wrote", "acknowledged", "contradiction", "elsewhere", "said"]


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that a bundle proves.

    Attributes:
        kind: what it is about; ``contradiction`` if somebody signed two things of which one is wrong, ``elsewhere`` if
            something is named that is not in the bundle.
        by: on whose signature it rests.
        words: a sentence.
        numbers: of the letters that it is about.
    """

    kind: FactKind
    by: str
    words: str
    numbers: tuple[int, ...] = ()


def facts(bundle: Bundle) -> tuple[Fact, ...]:
    """All that a bundle proves, in an order to be read."""
    return tuple(_facts(bundle))


def _facts(bundle: Bundle) -> Iterator[Fact]:
    terms = bundle.terms
    words = (
        f"{terms.consumer} signed the terms {terms.digest[:16]} of run {terms.run}, which name all its parties by card"
    )
    yield Fact("terms", terms.consumer, f"{words}.")
    for accepted in bundle.acceptances:
        yield Fact("accepted", accepted.party, f"{accepted.party} accepted these terms, as {accepted.role}.")
    for party in bundle.parties:
        yield _wrote(bundle, party)
    for party in bundle.parties:
        yield from _two_under_one_number(bundle, party)
    for party in bundle.parties:
        yield from _acknowledged_in_letters(bundle, party)
    for receipt in bundle.receipts:
        yield from _about_receipt(bundle, receipt)
    yield from _receipts_that_differ(bundle.receipts, bundle.signer)
    for disclosure in bundle.disclosures:
        yield _said(bundle, disclosure)


def unproven(bundle: Bundle, known: Collection[str]) -> list[str]:
    """What a reader might take for proven, and what is not; in sentences.

    Args:
        bundle: what is at hand.
        known: fingerprints that its reader knows to be those of the parties.
    """
    sentences = [
        f"Whose card {card.fingerprint} is: it calls itself {card.name}, and what {party} signed is that card's word. "
        "Compare the fingerprint with them, and give it with --card."
        for party, card in bundle.cards.items()
        if card.fingerprint not in known
    ]
    shown = {disclosure.stub for disclosure in bundle.disclosures}
    if shown != set(bundle.stubs):
        sentences.append("What letters say that are not disclosed, how many rows they hold, or when they were written.")
    for party in bundle.parties:
        other = bundle.other(party)
        missing = sorted({stub.header.number for stub in bundle.written_by(party)} - _acknowledged(bundle, party))
        if missing:
            sentences.append(f"That {other} received {_letters(missing)} of {party}: nothing here acknowledges that.")
    sentences.append("That nothing was left out: whoever made the bundle chose what to put into it.")
    return sentences


def _wrote(bundle: Bundle, party: str) -> Fact:
    other = bundle.other(party)
    numbers = tuple(sorted({stub.header.number for stub in bundle.written_by(party)}))
    if not numbers:
        return Fact("wrote", party, f"No letter from {party} to {other} is here.")
    count = "1 letter" if len(numbers) == 1 else f"{len(numbers)} letters"
    return Fact("wrote", party, f"{party} wrote {count} to {other} in this run: {_letters(numbers)}.", numbers)


def _two_under_one_number(bundle: Bundle, party: str) -> Iterator[Fact]:
    for number, letters in _by_number(bundle.written_by(party)).items():
        if len(letters) > 1:
            words = f"{party} wrote {len(letters)} different letters under the number {number}: it contradicts itself."
            yield Fact("contradiction", party, words, (number,))


def _by_number(stubs: Iterable[Stub]) -> dict[int, list[Stub]]:
    letters: dict[int, list[Stub]] = {}
    for stub in stubs:
        letters.setdefault(stub.header.number, []).append(stub)
    return letters


def _acknowledged_in_letters(bundle: Bundle, writer: str) -> Iterator[Fact]:
    """Which of a party's letters the other one names in its own as the last that came."""
    reader = bundle.other(writer)
    numbers, strange = _named_in_letters(bundle, writer)
    if numbers:
        words = f"{reader} acknowledges {_letters(numbers)} of {writer} in its own letters."
        yield Fact("acknowledged", reader, words, tuple(sorted(numbers)))
    if strange:
        words = f"{_letters(strange, capital=True)} of {reader} name as received a letter of {writer} that is not here."
        yield Fact("elsewhere", reader, words, tuple(sorted(strange)))


def _named_in_letters(bundle: Bundle, writer: str) -> tuple[set[int], set[int]]:
    """Which of a writer's letters the reader acknowledges, and which of the reader's name one that is not here."""
    digests = {stub.digest: stub.header.number for stub in bundle.written_by(writer)}
    numbers, strange = set[int](), set[int]()
    for stub in bundle.written_by(bundle.other(writer)):
        last = stub.header.last_received
        if last in digests:
            numbers.add(digests[last])
        elif last != NOTHING_RECEIVED:
            strange.add(stub.header.number)
    return numbers, strange


def _acknowledged(bundle: Bundle, writer: str) -> set[int]:
    """Numbers of the letters of a writer that the reader acknowledges, in letters or receipts."""
    numbers, _ = _named_in_letters(bundle, writer)
    if writer == bundle.owner:
        digests = {stub.digest.hex() for stub in bundle.written_by(writer)}
        lines = (line for receipt in bundle.receipts for line in receipt.transcript.lines)
        numbers |= {line.number for line in lines if line.way == FROM_OWNER and line.digest in digests}
    return numbers


def _about_receipt(bundle: Bundle, receipt: Receipt) -> Iterator[Fact]:
    """What its signer acknowledges in one receipt, beside the letters that are here."""
    owner, lines, signer = receipt.transcript.owner, receipt.transcript.lines, bundle.signer
    received = [line for line in lines if line.way == FROM_OWNER]
    what = f"no letter of {owner}"
    if received:
        what = f"{_letters(line.number for line in received)} of {owner}, with {receipt.transcript.rows:,} rows"
    words = f"{signer} acknowledges in a receipt of {receipt.at}: {what}."
    yield Fact("acknowledged", signer, words, tuple(line.number for line in received))
    here = {party: _by_number(bundle.written_by(party)) for party in bundle.parties}
    for line in lines:
        writer = owner if line.way == FROM_OWNER else signer
        letters = here[writer].get(line.number, [])
        if any(_is_of(line, stub) for stub in letters):
            continue
        if letters and writer == signer:
            words = f"A receipt of {receipt.at} names another letter {line.number} of {writer} than {writer} signed."
            yield Fact("contradiction", signer, words, (line.number,))
        elif letters:
            # Who wrote two could keep the one that was received out of the bundle, and blame who received it.
            words = f"A receipt of {receipt.at} names another letter {line.number} of {writer} than the one here"
            both = f"either {writer} wrote two, or {signer} names one that {writer} did not write"
            yield Fact("elsewhere", signer, f"{words}: {both}.", (line.number,))
        else:
            words = f"A receipt of {receipt.at} names letter {line.number} of {writer}, which is not here."
            yield Fact("elsewhere", signer, words, (line.number,))


def _is_of(line: Line, stub: Stub) -> bool:
    return line.digest == stub.digest.hex() and line.round == stub.header.round


def _receipts_that_differ(receipts: Sequence[Receipt], signer: str) -> Iterator[Fact]:
    said: dict[tuple[str, int], set[Line]] = {}
    for receipt in receipts:
        for line in receipt.transcript.lines:
            said.setdefault(line.slot, set()).add(line)
    for (way, number), lines in said.items():
        if len(lines) > 1:
            words = f"{signer} signed receipts that say different things of letter {number} {way}."
            yield Fact("contradiction", signer, words, (number,))


def _said(bundle: Bundle, disclosure: Disclosure) -> Fact:
    header = disclosure.stub.header
    writer = bundle.writer_of(disclosure.stub)
    opened = disclosure.opened_for(bundle.cards[writer])
    start = f"Letter {header.number} of {writer} to {bundle.other(writer)} said"
    return Fact("said", writer, f"{start}: {_contents(opened.message, len(opened.enclosures))}.", (header.number,))


def _contents(message: bytes, enclosures: int) -> str:
    enclosed = f", and {enclosures} document{'s' if enclosures > 1 else ''} enclosed" if enclosures else ""
    if not message:
        return f"no message{enclosed}"
    try:
        body = decode(message).body
    except BadMessage:
        return f"{len(message):,} bytes that are no message{enclosed}"
    count = (
        len(body.rows) if isinstance(body, Offer | Delivery) else len(body.handles) if isinstance(body, Summary) else 0
    )
    rows = f" with {count:,} rows" if count else ""
    return f"{body.kind}{rows}, {len(message):,} bytes with the SHA-256 {hashlib.sha256(message).hexdigest()}{enclosed}"


def _letters(numbers: Iterable[int], *, capital: bool = False) -> str:
    """``letter 3``, ``letters 0 to 4 and 7``."""
    ordered = sorted(set(numbers))
    runs: list[list[int]] = []
    for number in ordered:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    parts = [str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs]
    word = "letter" if len(ordered) == 1 else "letters"
    text = ", ".join(parts[:-1]) + (" and " if len(parts) > 1 else "") + parts[-1]
    return f"{word.capitalize() if capital else word} {text}"
