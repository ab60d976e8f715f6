"""Signed terms and acceptances: who asks and who agreed, to exactly these terms, and with which key for the run."""

import dataclasses
from typing import Any

import pytest
from trust_world import (
    ALICE,
    BOB,
    BOBS_RUN_KEY,
    MALLORY,
    MALLORYS_RUN_KEY,
    RUN_ID,
    TERMS,
    flipped,
    party,
    sealing_secret,
)

from likeset.errors import BadDocument
from likeset.trust.cards import ACCEPTANCE_CONTEXT, CONTEXTS, TERMS_CONTEXT, Card, fields
from likeset.trust.letters import Acceptance, AcceptingRole, SignedTerms, accept, sign_terms

ALICES_RUN_KEY = sealing_secret("alice's key for the run")
SIGNED = sign_terms('{"size":10}', ALICE, ALICES_RUN_KEY.public)


def acceptance(**changes: Any) -> Acceptance:
    content: dict[str, Any] = {
        "run_id": RUN_ID,
        "terms": TERMS,
        "role": "owner",
        "party": "bob",
        "run_key": BOBS_RUN_KEY.public,
    }
    return accept(BOB, **(content | changes))


ACCEPTED = acceptance()


class TestTerms:
    def test_they_survive_their_bytes(self) -> None:
        assert SignedTerms.from_bytes(SIGNED.to_bytes()) == SIGNED
        text = '{"purpose":"für Ärzte"}'
        assert SignedTerms.from_bytes(sign_terms(text, ALICE, ALICES_RUN_KEY.public).to_bytes()).text == text

    def test_no_bit_can_be_changed(self) -> None:
        data = SIGNED.to_bytes()
        for bit in range(0, 8 * len(data), 11):
            with pytest.raises(BadDocument):
                SignedTerms.from_bytes(flipped(data, bit))

    @pytest.mark.parametrize(
        "changes",
        [
            {"text": '{"size":11}'},
            {"card": MALLORY.card},
            {"run_key": MALLORYS_RUN_KEY.public},
            {"signature": bytes(64)},
        ],
        ids=lambda changes: next(iter(changes)),
    )
    def test_terms_changed_after_signing_are_refused(self, changes: dict[str, Any]) -> None:
        changed = dataclasses.replace(SIGNED, **changes)
        with pytest.raises(BadDocument, match="signature does not hold"):
            changed.check()
        with pytest.raises(BadDocument, match="signature does not hold"):
            SignedTerms.from_bytes(changed.to_bytes())

    def test_a_card_of_the_same_name_is_another_card(self) -> None:
        """Whoever reads terms compares the card with the pinned one; the name alone says nothing."""
        impostor = party("alice", edition=2)
        read = SignedTerms.from_bytes(sign_terms(SIGNED.text, impostor, ALICES_RUN_KEY.public).to_bytes())
        assert read.card.name == ALICE.card.name
        assert read.card.fingerprint != ALICE.card.fingerprint

    def test_a_signature_of_another_kind_is_none(self) -> None:
        parts = SIGNED.text.encode(), ALICE.card.to_bytes(), ALICES_RUN_KEY.public
        for context in CONTEXTS - {TERMS_CONTEXT}:
            with pytest.raises(BadDocument, match="signature does not hold"):
                SignedTerms.from_bytes(fields(b"likeset terms", *parts, ALICE.sign(context, *parts)))

    def test_size_comes_first(self) -> None:
        data = SIGNED.to_bytes()
        assert SignedTerms.from_bytes(data, most_bytes=len(data)) == SIGNED
        with pytest.raises(BadDocument, match="at most"):
            SignedTerms.from_bytes(data, most_bytes=len(data) - 1)

    def test_a_run_key_that_is_none_is_refused_even_if_it_is_signed(self) -> None:
        parts = b"{}", ALICE.card.to_bytes(), bytes(1216)
        with pytest.raises(BadDocument, match="no usable sealing key"):
            SignedTerms.from_bytes(fields(b"likeset terms", *parts, ALICE.sign(TERMS_CONTEXT, *parts)))
        with pytest.raises(BadDocument, match="no usable sealing key"):
            sign_terms("{}", ALICE, bytes(1216))

    def test_terms_that_are_no_text_are_refused(self) -> None:
        parts = b"\xff", ALICE.card.to_bytes(), ALICES_RUN_KEY.public
        with pytest.raises(BadDocument, match="no text"):
            SignedTerms.from_bytes(fields(b"likeset terms", *parts, ALICE.sign(TERMS_CONTEXT, *parts)))

    @pytest.mark.parametrize(
        "data", [b"", bytes(100), ALICE.card.to_bytes(), ACCEPTED.to_bytes(), SIGNED.to_bytes()[:-1]]
    )
    def test_other_bytes_are_no_terms(self, data: bytes) -> None:
        with pytest.raises(BadDocument):
            SignedTerms.from_bytes(data)


class TestAcceptances:
    @pytest.mark.parametrize("role", ["owner", "curator", "witness"])
    def test_they_survive_their_bytes(self, role: AcceptingRole) -> None:
        accepted = acceptance(role=role)
        assert Acceptance.from_bytes(accepted.to_bytes()) == accepted
        assert accepted.role == role

    def test_no_bit_can_be_changed(self) -> None:
        data = ACCEPTED.to_bytes()
        for bit in range(0, 8 * len(data), 11):
            with pytest.raises(BadDocument):
                Acceptance.from_bytes(flipped(data, bit))

    @pytest.mark.parametrize(
        "changes",
        [
            {"run_id": bytes(16)},
            {"terms": bytes(32)},
            {"role": "curator"},
            {"party": "carol"},
            {"card": MALLORY.card},
            {"run_key": MALLORYS_RUN_KEY.public},
        ],
        ids=lambda changes: next(iter(changes)),
    )
    def test_an_acceptance_of_something_else_is_refused(self, changes: dict[str, Any]) -> None:
        changed = dataclasses.replace(ACCEPTED, **changes)
        with pytest.raises(BadDocument, match="signature does not hold"):
            changed.check()
        with pytest.raises(BadDocument, match="signature does not hold"):
            Acceptance.from_bytes(changed.to_bytes())

    def test_a_signature_of_another_kind_is_none(self) -> None:
        parts = RUN_ID, TERMS, b"owner", b"bob", BOB.card.to_bytes(), BOBS_RUN_KEY.public
        for context in CONTEXTS - {ACCEPTANCE_CONTEXT}:
            with pytest.raises(BadDocument, match="signature does not hold"):
                Acceptance.from_bytes(fields(b"likeset acceptance", *parts, BOB.sign(context, *parts)))
        assert (
            Acceptance.from_bytes(fields(b"likeset acceptance", *parts, BOB.sign(ACCEPTANCE_CONTEXT, *parts)))
            == ACCEPTED
        )

    @pytest.mark.parametrize(
        "changes",
        [
            {"run_id": bytes(15)},
            {"terms": bytes(31)},
            {"role": "consumer"},
            {"party": "two words"},
            {"run_key": bytes(1216)},
        ],
        ids=lambda changes: next(iter(changes)),
    )
    def test_what_is_no_acceptance_is_refused_even_if_it_is_signed(self, changes: dict[str, Any]) -> None:
        with pytest.raises(BadDocument):
            acceptance(**changes)

    @pytest.mark.parametrize("data", [b"", bytes(100), SIGNED.to_bytes(), ACCEPTED.to_bytes() + b"\0", bytes(1 << 20)])
    def test_other_bytes_are_no_acceptance(self, data: bytes) -> None:
        with pytest.raises(BadDocument):
            Acceptance.from_bytes(data)

    @pytest.mark.parametrize("place", [2, 3])
    def test_words_that_are_not_ascii_are_refused(self, place: int) -> None:
        parts = [RUN_ID, TERMS, b"owner", b"bob", BOB.card.to_bytes(), BOBS_RUN_KEY.public]
        parts[place] = b"\xff"
        with pytest.raises(BadDocument, match="role or a name"):
            Acceptance.from_bytes(fields(b"likeset acceptance", *parts, BOB.sign(ACCEPTANCE_CONTEXT, *parts)))

    def test_the_card_within_must_be_one(self) -> None:
        parts = [RUN_ID, TERMS, b"owner", b"bob", flipped(BOB.card.to_bytes(), 400), BOBS_RUN_KEY.public]
        with pytest.raises(BadDocument):
            Acceptance.from_bytes(fields(b"likeset acceptance", *parts, BOB.sign(ACCEPTANCE_CONTEXT, *parts)))
        assert isinstance(ACCEPTED.card, Card)
