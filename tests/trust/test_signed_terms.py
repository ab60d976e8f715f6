"""Signed terms and acceptances: who asks and who agreed, to exactly these terms, and with which key for the run."""

from collections.abc import Mapping
from typing import Any

import pytest
from trust_world import ALICE, BOB, BOBS_RUN_KEY, RUN_ID, TERMS, each_bit, flipped, sealing_secret

from likeset.errors import BadDocument
from likeset.trust import letters
from likeset.trust.cards import Card, CardSecret, fields
from likeset.trust.letters import Acceptance, AcceptingRole, SignedTerms

ALICES_RUN_KEY = sealing_secret("alice's key for the run")
SIGNED = SignedTerms('{"size":10}', ALICE.card, ALICES_RUN_KEY.public, (7,)).signed_by(ALICE)


def acceptance(**changes: Any) -> Acceptance:
    content: dict[str, Any] = {"run_id": RUN_ID, "terms": TERMS, "role": "owner", "party": "bob", "card": BOB.card}
    return Acceptance(**(content | {"run_key": BOBS_RUN_KEY.public, "reads": (7,)} | changes)).signed_by(BOB)


ACCEPTED = acceptance()
Statement = SignedTerms | Acceptance


def signed_anew(
    statement: Statement, signer: CardSecret, context: str = "", parts: Mapping[int, bytes] | None = None
) -> bytes:
    """The bytes of a statement with other parts, by their places, under a signature that holds for them."""
    said = [(parts or {}).get(place, part) for place, part in enumerate(statement.parts)]
    return fields(statement.tag, *said, signer.sign(context or statement.context, *said))


@pytest.mark.parametrize("role", ["owner", "curator", "witness"])
def test_an_acceptance_survives_its_bytes(role: AcceptingRole) -> None:
    accepted = acceptance(role=role)
    assert Acceptance.from_bytes(accepted.to_bytes()) == accepted
    assert accepted.role == role


@each_bit
@pytest.mark.parametrize("statement", [ALICE.card, SIGNED, ACCEPTED], ids=["card", "terms", "acceptance"])
def test_no_bit_can_be_changed(statement: Card | Statement, step: int) -> None:
    data = statement.to_bytes()
    for bit in range(0, 8 * len(data), step):
        with pytest.raises(BadDocument):
            type(statement).from_bytes(flipped(data, bit))


def test_size_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    data = SIGNED.to_bytes()
    monkeypatch.setattr(letters, "MOST_TERMS_BYTES", len(data))
    assert SignedTerms.from_bytes(data) == SIGNED
    monkeypatch.setattr(letters, "MOST_TERMS_BYTES", len(data) - 1)
    with pytest.raises(BadDocument, match="at most"):
        SignedTerms.from_bytes(data)


def test_terms_without_a_text_or_a_key_are_refused_even_if_they_are_signed() -> None:
    with pytest.raises(BadDocument, match="no usable sealing key"):
        SignedTerms.from_bytes(signed_anew(SIGNED, ALICE, parts={2: bytes(1216)}))
    with pytest.raises(BadDocument, match="not text"):
        SignedTerms.from_bytes(signed_anew(SIGNED, ALICE, parts={0: b"\xff"}))


@pytest.mark.parametrize(
    "changes",
    [
        *({"run_id": bytes(15)}, {"terms": bytes(31)}, {"role": "consumer"}, {"party": "a b"}),
        *({"run_key": bytes(1216)}, {"reads": ()}, {"reads": (0,)}, {"reads": (7, 7)}, {"reads": tuple(range(1, 34))}),
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_what_is_no_acceptance_is_refused_even_if_it_is_signed(changes: dict[str, Any]) -> None:
    with pytest.raises(BadDocument):
        Acceptance.from_bytes(acceptance(**changes).to_bytes())


@pytest.mark.parametrize(("place", "part"), [(2, b"\xff"), (3, b"\xff"), (4, flipped(BOB.card.to_bytes(), 400))])
def test_an_acceptance_with_no_words_or_no_card_is_refused_even_if_it_is_signed(place: int, part: bytes) -> None:
    with pytest.raises(BadDocument, match=r"role|name|card|signature"):
        Acceptance.from_bytes(signed_anew(ACCEPTED, BOB, parts={place: part}))


@pytest.mark.parametrize("statement", [ALICE.card, SIGNED, ACCEPTED], ids=["card", "terms", "acceptance"])
def test_other_bytes_are_no_statement(statement: Card | Statement) -> None:
    data, others = statement.to_bytes(), {ALICE.card, SIGNED, ACCEPTED} - {statement}
    odd = [b"", bytes(100), b"\xff" * 100, data[:-1], data + b"\0", data + fields(b"more"), bytes(1 << 20)]
    for document in (*odd, *(other.to_bytes() for other in others)):
        with pytest.raises(BadDocument):
            type(statement).from_bytes(document)
