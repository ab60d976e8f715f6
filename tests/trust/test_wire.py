"""The vectors beside ``docs/wire.md``: they follow from their keys, and two readers agree about them."""

import ast
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import second_reader
from second_reader import Refused
from wire_vectors import SECRETS, VECTORS, Sealed, vectors

from likeset.errors import BadDocument, LetterRefused
from likeset.homes.runs import read_word
from likeset.trust.cards import LETTER_CONTEXT, Card, SealingSecret, card_in, signed
from likeset.trust.letters import (
    HEADER_BYTES,
    Acceptance,
    Receipt,
    Refusal,
    SignedTerms,
    file_name,
    letter_in,
    open_letter,
    pair_of,
)

CONTENT: dict[str, Any] = json.loads(VECTORS.read_text(encoding="utf-8"))
PARTIES = CONTENT["parties"]
DAMAGED = [
    (kind, label, bytes.fromhex(data)) for kind, cases in CONTENT["damaged"].items() for label, data in cases.items()
]
FORWARDED = "the owner's words under the consumer's name"
REASONS = {
    "S + L in the signature": "signature does not hold",
    "a signing key of small order": "no usable signing key",
    "another suite": "another suite",
    "a byte more": "more than its",
    "changed after signing": "signature does not hold",
    "signed as an acceptance": "signature does not hold",
    "a run key of small order": "no usable sealing key",
    "versions in another order": "versions of messages",
    "another number": Refusal.SIGNATURE,
    "another number, signed again": Refusal.SEAL,
    FORWARDED: Refusal.SEAL,
    "signed by somebody else": Refusal.SIGNATURE,
    "sealed to somebody else": Refusal.SEAL,
    "padding that is not zero": Refusal.BODY,
    "no message": Refusal.BODY,
    "another commitment": Refusal.COMMITMENT,
    "a bit flipped": "not written by the other",
    "cut off": "a length that no post has",
    "a step cut off": "a length that no post has",
    "from the other direction": "not written by the other",
    "from somebody else": "not written by the other",
    "another context": "not written by the other",
    "a kind that nobody knows": "a kind that is not known",
    "padding that is no zero": "something else than zeros",
    "a step of zeros too many": "something else than zeros",
    "a digest of 31 bytes": "names terms by 32 bytes",
    "a part more": "has more than its 4 parts",
}
"""Each is refused for what is wrong with it, and for nothing else."""


def in_bytes(text: str) -> bytes:
    return bytes.fromhex(text)


def card_of(role: str) -> Card:
    return Card.from_bytes(in_bytes(PARTIES[role]["card"]))


def seconds_card_of(role: str) -> second_reader.Card:
    return second_reader.read_card(in_bytes(PARTIES[role]["card"]))


def test_the_vectors_follow_from_their_keys() -> None:
    """All but what is sealed, which is random: that is taken from the file, and opened below."""
    assert vectors(Sealed(CONTENT["sealed"])) == CONTENT


def test_the_second_reader_knows_nothing_of_the_package() -> None:
    tree = ast.parse(Path(second_reader.__file__).read_text(encoding="utf-8"))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    packages = {str(name).partition(".")[0] for name in imported}
    assert packages == {"base64", "cryptography", "hashlib", "re", "struct", "typing"}


def test_the_page_has_the_true_size_of_a_header() -> None:
    page = (Path(__file__).parents[2] / "docs/wire.md").read_text(encoding="utf-8")
    assert f"The header has {HEADER_BYTES} bytes" in page


@pytest.mark.parametrize("role", PARTIES)
def test_both_read_the_cards(role: str) -> None:
    party = PARTIES[role]
    card, second = card_of(role), seconds_card_of(role)
    assert (card.name, card.fingerprint) == (party["name"], party["fingerprint"])
    assert second[:3] == (card.name, card.signing, card.sealing)
    assert second_reader.fingerprint_text(second.fingerprint) == card.fingerprint
    assert card_in("vector", party["card_text"]) == card
    assert second_reader.read_card_text(party["card_text"]) == second
    assert SealingSecret.from_bytes(in_bytes(party["sealing_secret"])).public == card.sealing


def test_both_read_the_terms() -> None:
    data = in_bytes(CONTENT["terms"]["signed"])
    terms = SignedTerms.from_bytes(data)
    assert terms.text == CONTENT["terms"]["text"]
    assert terms.run_key == in_bytes(PARTIES["consumer"]["run_public"])
    assert second_reader.read_terms(data) == (
        terms.text,
        seconds_card_of("consumer"),
        terms.run_key,
        list(terms.reads),
    )


@pytest.mark.parametrize("role", CONTENT["acceptances"])
def test_both_read_the_acceptances(role: str) -> None:
    data = in_bytes(CONTENT["acceptances"][role])
    accepted = Acceptance.from_bytes(data)
    assert (accepted.role, accepted.party) == (role, PARTIES[role]["name"])
    assert (accepted.run_id.hex(), accepted.terms.hex()) == (CONTENT["terms"]["run_id"], CONTENT["terms"]["digest"])
    *said, card, run_key, reads = second_reader.read_acceptance(data)
    assert said == [accepted.run_id, accepted.terms, role, accepted.party]
    assert (card, run_key) == (seconds_card_of(role), in_bytes(PARTIES[role]["run_public"]))
    assert reads == list(accepted.reads) == [7, 9]


@pytest.mark.parametrize("label", CONTENT["letters"])
def test_both_read_the_letters(label: str) -> None:
    vector = CONTENT["letters"][label]
    secret = in_bytes(PARTIES["curator"]["run_secret"])
    letter = letter_in(in_bytes(vector["letter"]), most_bytes=1 << 16)
    key = SealingSecret.from_bytes(secret)
    content = open_letter(letter, writer=card_of("owner"), reader=card_of("curator"), key=key)
    said = key.open(letter.ciphertext, info=signed(LETTER_CONTEXT, letter.header.to_bytes()))
    assert said.hex() == vector["random"] + vector["body"]
    assert letter.digest.hex() == vector["digest"]
    assert (letter.header.round, letter.header.number) == (vector["round"], vector["number"])
    assert letter.stub == in_bytes(vector["stub"])

    owner, curator = seconds_card_of("owner"), seconds_card_of("curator")
    second = second_reader.open_letter(letter.data, sender=owner, recipient=curator, run_secret=secret)
    assert second.parts == [content.message, *content.enclosures]
    assert (second.round, second.number) == (vector["round"], vector["number"])
    assert second.last_received.hex() == vector["last_received"]
    assert second_reader.read_stub(in_bytes(vector["stub"]), sender=owner) == letter.header.to_bytes()


def test_both_find_and_read_the_posts() -> None:
    posts = CONTENT["posts"]
    mine, theirs = seconds_card_of("owner"), seconds_card_of("curator")
    ends = {"writer": mine.fingerprint, "reader": theirs.fingerprint}
    keys = [
        second_reader.pair(in_bytes(PARTIES[role]["sealing_secret"]), other, **ends)
        for role, other in (("owner", theirs), ("curator", mine))
    ]
    assert keys[0] == keys[1]
    folder, key = keys[0]
    back, _ = second_reader.pair(
        in_bytes(PARTIES["owner"]["sealing_secret"]), theirs, writer=theirs.fingerprint, reader=mine.fingerprint
    )
    reader = pair_of(SECRETS["curator"], card_of("owner"))
    assert (folder, back) == (posts["folder"], posts["folder_of_replies"])
    assert (reader.incoming.folder, reader.outgoing.folder) == (folder, back)
    for vector in posts["files"].values():
        data = in_bytes(vector["file"])
        post = reader.incoming.unwrap(data)
        said = (post.kind, post.terms.hex(), post.document.hex())
        assert said == (vector["kind"], vector["terms"], vector["document"])
        assert file_name(data) == vector["name"]
        second = second_reader.read_post(vector["name"], data, key, **ends)
        assert second == (post.kind, post.terms, post.document)


def test_both_read_the_receipt() -> None:
    data = bytes.fromhex(CONTENT["receipt"])
    receipt, second = Receipt.from_bytes(data), second_reader.read_receipt(data)
    assert receipt.is_signed_by(card_of("curator"))
    mine = (receipt.run_id, receipt.terms, receipt.owner, receipt.rows, list(receipt.letters), receipt.at)
    assert mine == second[:6]
    assert receipt.rows == 4
    changed = data.replace((4).to_bytes(8, "big"), (5).to_bytes(8, "big"))
    with pytest.raises(BadDocument):
        Receipt.from_bytes(changed)
    with pytest.raises(Refused):
        second_reader.read_receipt(changed)


def read(kind: str, data: bytes, *, writer: str) -> None:
    if kind == "letter":
        key = SealingSecret.from_bytes(in_bytes(PARTIES["curator"]["run_secret"]))
        letter = letter_in(data, most_bytes=1 << 16)
        open_letter(letter, writer=card_of(writer), reader=card_of("curator"), key=key)
    elif kind == "post":
        pair_of(SECRETS["curator"], card_of(writer)).incoming.unwrap(data)
    elif kind == "card":
        Card.from_bytes(data)
    elif kind == "terms":
        SignedTerms.from_bytes(data)
    else:
        Acceptance.from_bytes(data)


def read_by_the_second(kind: str, data: bytes, *, writer: str) -> None:
    sender = seconds_card_of(writer)
    if kind == "letter":
        secret, recipient = in_bytes(PARTIES["curator"]["run_secret"]), seconds_card_of("curator")
        second_reader.open_letter(data, sender=sender, recipient=recipient, run_secret=secret)
    elif kind == "post":
        ends = {"writer": sender.fingerprint, "reader": seconds_card_of("curator").fingerprint}
        _, key = second_reader.pair(in_bytes(PARTIES["curator"]["sealing_secret"]), sender, **ends)
        second_reader.read_post(hashlib.sha256(data).hexdigest(), data, key, **ends)
    elif kind == "card":
        second_reader.read_card(data)
    elif kind == "terms":
        second_reader.read_terms(data)
    else:
        second_reader.read_acceptance(data)


@pytest.mark.parametrize(("kind", "label", "data"), DAMAGED, ids=[f"{kind}: {label}" for kind, label, _ in DAMAGED])
def test_both_refuse_what_is_damaged(kind: str, label: str, data: bytes) -> None:
    writer = "consumer" if label == FORWARDED else "owner"
    with pytest.raises((BadDocument, LetterRefused), match=REASONS[label]):
        read(kind, data, writer=writer)
    with pytest.raises(Refused):
        read_by_the_second(kind, data, writer=writer)


def test_every_kind_of_document_is_among_the_damaged_ones() -> None:
    assert [label for _, label, _ in DAMAGED] == list(REASONS)
    assert {kind for kind, _, _ in DAMAGED} == {"card", "terms", "acceptance", "letter", "post"}


@pytest.mark.parametrize("word", ["waiting 0", "abstains 12", "leaves 3", f"leaves {10**18 - 1}"])
def test_both_read_a_word(word: str) -> None:
    said, number = word.split(" ")
    assert read_word(word.encode()) == second_reader.read_word(word.encode()) == (said, int(number))


@pytest.mark.parametrize(
    "word",
    ["", "leaves", "leaves ", "leaves -1", "leaves 01", "leaves 1 ", " leaves 1", "Leaves 1", f"leaves {10**18}"],
)
def test_both_refuse_what_is_no_word(word: str) -> None:
    assert read_word(word.encode()) is None
    with pytest.raises(Refused):
        second_reader.read_word(word.encode())
