"""Terms between organisations name everybody by card; what is planned, and what is drawn for it, makes terms."""

import json
from dataclasses import fields, replace
from typing import Any

import pytest
from named_parties import CARDS, NAMED, card_text
from protocol_world import KERNEL, PAPER, THRESHOLD, terms

from likeset.errors import InvalidArgument, UnprovenPart
from likeset.protocol.prices import planned_views
from likeset.protocol.terms import KernelShape, PlannedTerms, Terms, check_between


def test_cards_have_one_text_in_whatever_order_they_are_given() -> None:
    named, turned = terms(**NAMED), terms(**{**NAMED, "cards": dict(reversed(CARDS.items()))})
    assert named == turned
    assert hash(named) == hash(turned)
    assert named.to_json() == turned.to_json()
    assert list(json.loads(named.to_json())["cards"]) == sorted(CARDS)
    assert Terms.from_json(named.to_json()).cards == CARDS


def test_cards_are_not_changed_with_what_they_were_given_as() -> None:
    given = dict(CARDS)
    named = terms(**{**NAMED, "cards": given})
    given["a"] = card_text("X")
    assert named.cards["a"] == card_text("B")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"run_id": ""}, "both are given, or neither"),
        ({"cards": {}}, "both are given, or neither"),
        *(({"run_id": number}, "32 hexadecimal digits") for number in ("0a" * 15, "0A" * 16, "0a" * 16 + "\n", 7)),
        ({"cards": {**CARDS, "d": card_text("G")}}, "'d'.*a card for each party, and for nobody else"),
        ({"cards": {name: card for name, card in CARDS.items() if name != "b"}}, "'b'.*a card for each party"),
        ({"cards": {name: card for name, card in CARDS.items() if name != "curator"}}, "'curator'"),
        ({"cards": {name: card for name, card in CARDS.items() if name != "hospital"}}, "'hospital'"),
        ({"cards": {**CARDS, "a": card_text("C")}}, "cards.a.*another party's card"),
        *(
            ({"cards": {**CARDS, "a": card}}, "cards.a.*eight groups of five")
            for card in (
                "",
                "A" * 40,
                card_text("a"),
                card_text("1"),
                card_text("A")[:-1],
                card_text("B") + "\n",
                card_text("B") + "-BBBBB",
                1,
            )
        ),
        ({"cards": [("a", card_text("B"))]}, "must be an object"),
        ({"cards": {1: card_text("B")}}, "must be an object"),
        ({"owners": ("a", "b", "witness"), "cards": {**CARDS, "witness": card_text("G")}}, "another party's name"),
    ],
)
def test_cards_that_do_not_name_each_party_once_are_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidArgument, match=reason):
        terms(**{**NAMED, **changes})


def test_terms_between_organisations_name_everybody() -> None:
    check_between(terms(**NAMED))
    with pytest.raises(InvalidArgument, match="by the fingerprint of its card"):
        check_between(terms())


# What is planned, and what is drawn for it.


PLANNED_KEYS = {declared.name for declared in fields(PlannedTerms)}


def _planned(**changes: Any) -> PlannedTerms:
    agreed = terms(**changes)
    given = {name: getattr(agreed, name) for name in PLANNED_KEYS}
    kernel = KernelShape(agreed.kernel.columns, agreed.kernel.dimension, kind=agreed.kernel.kind)
    return PlannedTerms(**{**given, "kernel": kernel})


DRAWN: dict[str, Any] = {"gamma": KERNEL.gamma, "seed": KERNEL.seed, "largest": KERNEL.largest}


@pytest.mark.parametrize("options", [{}, THRESHOLD, {"protocol": "interactive"}, PAPER])
def test_what_is_planned_and_drawn_makes_the_terms_and_costs_what_was_planned(options: dict[str, Any]) -> None:
    agreed, planned = terms(**options), _planned(**options)
    assert Terms.settled(planned, **DRAWN, expires=agreed.expires) == agreed
    assert planned_views(planned, width_choice=None) == planned_views(agreed, width_choice=None)
    assert planned.rows_per_owner == agreed.rows_per_owner


def test_what_nobody_can_agree_to_has_no_digest_and_no_text() -> None:
    planned = _planned()
    for name in ("digest", "to_json", "expires", "run_id", "cards"):
        assert not hasattr(planned, name)
    assert not hasattr(planned.kernel, "seed")


def test_what_is_wrong_with_a_plan_shows_before_anything_is_drawn() -> None:
    with pytest.raises(InvalidArgument, match="quorum"):
        replace(_planned(), quorum=4)
    with pytest.raises(UnprovenPart):
        replace(_planned(**PAPER), accept_unproven=())
    with pytest.raises(InvalidArgument, match="must be even for paired"):
        KernelShape(3, 17)
