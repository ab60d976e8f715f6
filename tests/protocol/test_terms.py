"""The terms: one digest for one agreement, and nothing that cannot be run or is not accepted."""

import json
from dataclasses import fields, replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from protocol_world import KERNEL, PAPER, PAPER_KERNEL, PAPER_PARTS, THRESHOLD, terms

from likeset.errors import InvalidArgument, UnprovenPart
from likeset.privacy.events import Relation
from likeset.protocol.prices import planned_views, views_of_owners
from likeset.protocol.terms import (
    SUMMARY_RELEASE,
    Budget,
    Kernel,
    KernelShape,
    PlannedTerms,
    SplitTerms,
    Terms,
    check_between,
    digest_of_rows,
    read_foreign,
)


def card_text(letter: str) -> str:
    return "-".join([letter * 5] * 8)


CARDS = {name: card_text(letter) for name, letter in zip(("hospital", "a", "b", "c", "curator"), "ABCDE", strict=True)}
NAMED: dict[str, Any] = {"run_id": "0a" * 16, "cards": CARDS}
SPLIT = SplitTerms("ab" * 32, 4, gamma=0.5)
NARROW = replace(KERNEL, largest=20.0)
WITNESSED = {**CARDS, "witness": card_text("G")}
CHANGES: dict[str, dict[str, Any]] = {
    "run": {"run": "run-2"},
    "consumer": {"consumer": "clinic"},
    "purpose": {"purpose": "another"},
    "expires": {"expires": "2031-01-01"},
    "answer_by": {"answer_by": "2031-01-01"},
    "owners": {"owners": ("a", "c", "b")},
    "quorum": {"quorum": 2},
    "schema_digest": {"schema_digest": "ab" * 32},
    "columns": {"columns": ("age", "weight", "height")},
    "record_bytes": {"record_bytes": 24},
    "kernel": {"kernel": replace(KERNEL, seed=8)},
    "split": {"run_id": "0a" * 16, "cards": WITNESSED, "split": SPLIT, "kernel": NARROW, "schema_digest": "ab" * 32},
    "protocol": {"protocol": "interactive"},
    "size": {"size": 5},
    "target_size": {"target_size": 31},
    "offer_factor": {"offer_factor": 4.0},
    "offers": {"offers": "uniform"},
    "labels": {"labels": "ignore"},
    "thinning": {"thinning": False},
    "target_budget": {"target_budget": Budget(4.0, 2e-5)},
    "owner_budget": {"owner_budget": Budget(1.0, 1e-5)},
    "relation": {"relation": Relation.ADD_OR_REMOVE},
    "rows_per_unit": {"rows_per_unit": 2},
    "id_column": {"id_column": "patient"},
    "auction": THRESHOLD,
    "auction_epsilon": {**THRESHOLD, "auction_epsilon": 7.0},
    "auction_offset": {**THRESHOLD, "auction_offset": 3},
    "auction_patience": {**PAPER, "auction_patience": 4},
    "summary_release": {"protocol": "interactive", "summary_release": "gaussian", "owner_budget": Budget(1.0, 1e-5)},
    "seed_rows": {"seed_rows": 3},
    "seed_digest": {"seed_rows": 3, "seed_digest": "0" * 64},
    "schedule": {"protocol": "interactive", "schedule": "proof", "kernel": PAPER_KERNEL},
    "promised_epsilon": {
        "protocol": "interactive",
        "schedule": "proof",
        "kernel": PAPER_KERNEL,
        "promised_epsilon": 2.0,
    },
    "price_per_row": {"price_per_row": 2.0},
    "currency": {"currency": "EUR"},
    "accept_unproven": {"accept_unproven": ("paper-auction",)},
    "run_id": {"run_id": "0a" * 16, "cards": CARDS},
    "cards": {"run_id": "0a" * 16, "cards": WITNESSED},
    "extensions": {"extensions": {}},
}


def test_every_field_is_part_of_the_digest() -> None:
    assert set(CHANGES) == {field.name for field in fields(Terms)}
    digests = {name: terms(**change).digest for name, change in CHANGES.items()}
    assert len({terms().digest, *digests.values()}) == len(CHANGES) + 1
    assert terms(auction="threshold", auction_epsilon=8.0, auction_offset=2).digest == digests["auction"]


def test_seed_rows_are_named_by_their_numbers_in_their_order() -> None:
    """In single precision, for so they are used; a zero is a zero."""
    plain = np.array([[0.0, 1.0], [2.0, 0.1]])
    same = (plain.astype(np.float32), np.array([[-0.0, 1.0], [2.0, 0.1 + 1e-12]]), np.asfortranarray(plain))
    assert {digest_of_rows(one) for one in same} == {digest_of_rows(plain)}
    others = (plain[::-1], plain.T, plain.reshape(1, 4), plain + 1e-6, plain[:1])
    assert len({digest_of_rows(one) for one in (plain, *others)}) == 6


@pytest.mark.parametrize(
    ("count", "digest"), [(3, ""), (0, "0" * 64), (3, "0" * 63), (3, "G" * 64), (3, "0" * 64 + "\n")]
)
def test_seed_rows_have_a_digest_exactly_where_there_are_some(count: int, digest: str) -> None:
    with pytest.raises(InvalidArgument, match="seed_digest"):
        terms(seed_rows=count, seed_digest=digest)


def split_run(**changes: Any) -> Terms:
    return terms(**{**NAMED, **CHANGES["split"], **changes})


def test_a_split_run_without_a_witness_is_refused_also_in_the_form_of_two_parties() -> None:
    with pytest.raises(InvalidArgument, match="witness"):
        split_run(cards=CARDS)
    document = json.loads(split_run().to_json())
    document["split"]["parties"] = 2
    with pytest.raises(InvalidArgument, match="terms"):
        Terms.from_json(json.dumps(document))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"run_id": "", "cards": {}}, "cards"),
        ({"protocol": "interactive"}, "curator"),
        (THRESHOLD, "curator"),
        ({"size": 5}, "openings"),
        ({"target_size": (1 << 14) + 1}, "target_size"),
        ({"offer_factor": 1e6}, "offer_factor"),
        ({"kernel": KERNEL}, "split.gamma"),
        ({"kernel": replace(KERNEL, largest=40.0)}, "split.gamma"),
    ],
)
def test_terms_of_a_split_run_ask_for_nothing_that_its_program_cannot_do(change: dict[str, Any], named: str) -> None:
    """2000 / (0.5 * 3) is 36.5 squared: rows of 40 could be too far apart for 64 bits, rows of 20 are not."""
    with pytest.raises(InvalidArgument, match=named):
        split_run(**change)


@pytest.mark.parametrize("wrong", [{"program": "ab"}, {"openings": 0}, {"gamma": 0.0}, {"gamma": 1e7}])
def test_what_is_no_split_curator_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=rf"split\.{next(iter(wrong))}"):
        replace(SPLIT, **wrong)


@pytest.mark.parametrize("expires", ["9999-12-31", "9999-12-31T23:59:59-23:59", "2200-01-01", "0001-01-01"])
def test_terms_end_at_a_time_that_can_be_counted_with(expires: str) -> None:
    """A home remembers a run for days after its terms end: at the end of all dates there is no such day."""
    with pytest.raises(InvalidArgument, match="expires"):
        split_run(expires=expires)
    last = split_run(expires="2199-12-31T23:59:59-23:59").end
    assert last is not None
    assert last + timedelta(days=365) > last


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_terms_come_back_from_their_text(name: str) -> None:
    agreed = terms(**CHANGES[name])
    back = Terms.from_json(agreed.to_json())
    assert back == agreed
    assert back.digest == agreed.digest
    assert back.to_json() == agreed.to_json()


def test_equal_terms_have_one_digest_whatever_the_numbers_are_made_of() -> None:
    plain = terms(target_budget=Budget(4.0, 1e-5))
    others = terms(
        target_budget=Budget(4, np.float64(1e-5)),
        offer_factor=np.int64(3),
        size=np.int64(4),
        kernel=Kernel(np.int64(3), 16, np.float64(0.2), 7),  # type: ignore[arg-type]
        price_per_row=1,
        auction_epsilon=0,
    )
    assert others == plain
    assert others.digest == plain.digest


EXTENSIONS = {f"x{number}": "x" * 250 for number in range(8)} | {"x0": "\u0000\r\n\u200b a\u0308 \u00e4 \U0001f600"}


@pytest.mark.parametrize("options", [{}, THRESHOLD, {"protocol": "interactive"}, PAPER, NAMED])
def test_extensions_are_kept_byte_for_byte_and_cost_nothing(options: dict[str, Any]) -> None:
    without, extended = (terms(**options, extensions=extensions) for extensions in ({}, EXTENSIONS))
    assert read_foreign(extended.to_json()).extensions == EXTENSIONS
    assert read_foreign(extended.to_json()).to_json() == extended.to_json()
    assert planned_views(extended, width_choice=None) == planned_views(without, width_choice=None)
    assert (extended.rows_per_owner, extended.rows_readable) == (without.rows_per_owner, without.rows_readable)


_SEED = {"columns": 3, "dimension": 16, "gamma": 0.2, "seed": "7", "kind": "paired"}
ODD: dict[str, list[Any]] = {
    "run": [5, "two words"],
    "purpose": [5],
    "expires": [None],
    "schema_digest": [["x"], "../../key", "ab" * 32 + "\n", "AB" * 32],
    "extensions": [
        None,
        "text",
        {"a": 1},
        {"A": ""},
        {"": ""},
        {"a" * 41: ""},
        {"a": "x" * 501},
        {"a": "\ud800"},
        {f"a{number}": "" for number in range(9)},
        {f"a{number}": "\u20ac" * 300 for number in range(3)},
    ],
    "owners": ["abc", [1, 2], None],
    "columns": ["abc", [1]],
    "accept_unproven": ["paper-auction", [7]],
    "size": [4.0, True, "4"],
    "quorum": [0, 4],
    "offer_factor": ["3", True],
    "labels": ["x", True],
    "thinning": [1],
    "auction_epsilon": [-1.0, "0"],
    "auction_offset": [-1, 0.0],
    "relation": ["other", 5],
    "target_budget": [[4.0, 1e-5], {"epsilon": 1.0}, {"epsilon": -1.0, "delta": 1e-5}],
    "kernel": [None, {**_SEED, "kind": "phased"}, *({**_SEED, "seed": seed} for seed in ("zz", 7, "-7"))],
    "one_more": [1],
}


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in ODD.items() for value in values])
def test_text_with_something_else_in_a_field_is_refused(field: str, value: Any) -> None:
    with pytest.raises(InvalidArgument):
        Terms.from_json(json.dumps({**json.loads(terms().to_json()), field: value}))


@pytest.mark.parametrize("text", ["", "[]", "null", "{}", "{", "NaN", "[" * 100_000])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        Terms.from_json(text)


@pytest.mark.parametrize(
    "change",
    [
        {"owners": ()},
        {"owners": ("a", "a")},
        {"owners": ("a", "curator")},
        {"owners": ("a", "hospital")},
        {"consumer": "curator"},
        {"summary_release": "gaussian", "owner_budget": Budget(1.0, 1e-5)},
        {"auction": "paper", "auction_epsilon": 0.1, "accept_unproven": PAPER_PARTS},
        {"schedule": "theorem", "kernel": PAPER_KERNEL},
        {"protocol": "interactive", "offers": "uniform"},
        {"kernel": PAPER_KERNEL},
        {"target_budget": Budget(0.0, 1e-5)},
        {"auction_epsilon": 1.0},
        {"auction_offset": 1},
        {"auction_patience": 1},
        {**PAPER, "auction_patience": 0},
        {"promised_epsilon": 1.0},
        {**PAPER, "promised_epsilon": 1.0},
        {**PAPER, "schedule": "proof", "promised_epsilon": 0.0},
        {"auction": "threshold", "auction_epsilon": 0.0, "auction_offset": 5},
        {"auction": "threshold", "auction_epsilon": 1.0},
        {"protocol": "interactive", "summary_release": "gaussian"},
        {**PAPER, "kernel": KERNEL},
        # What would fail in a later step, after the release of the target was paid for.
        {"auction": "threshold", "auction_epsilon": 0.1, "auction_offset": 1},
        {**PAPER, "summary_release": "gaussian", "auction": "everyone", "auction_epsilon": 0.0},
        *({**PAPER, "schedule": schedule, "size": 1} for schedule in ("theorem", "proof", "experiment")),
    ],
)
def test_combinations_that_make_no_sense_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        terms(**change)


@pytest.mark.parametrize("accepted", [(), ("paper-auction",), (SUMMARY_RELEASE,), ("everything",)])
def test_unproven_parts_are_refused_unless_each_is_named(accepted: tuple[str, ...]) -> None:
    with pytest.raises(UnprovenPart) as caught:
        terms(**{**PAPER, "accept_unproven": accepted})
    assert caught.value.part in PAPER_PARTS
    assert caught.value.part not in accepted


def test_what_is_proven_needs_no_acceptance() -> None:
    for options in (
        {},
        THRESHOLD,
        {"protocol": "interactive"},
        {"protocol": "interactive", **THRESHOLD},
        {"protocol": "interactive", "summary_release": "gaussian", "owner_budget": Budget(1.0, 1e-5)},
    ):
        agreed = terms(**options)
        assert agreed.unproven_parts() == ()
        owners = [view for view in planned_views(agreed, width_choice=None) if view.view.observer == "owners"]
        assert {view.guarantee.basis.value for view in owners} == {"proven"}


@pytest.mark.parametrize(
    ("change", "most"),
    [({}, 4), ({"offer_factor": 3.1}, 5), (THRESHOLD, 6), ({"protocol": "interactive"}, 4), ({"size": 7}, 7)],
)
def test_how_many_rows_leave_follows_from_public_numbers(change: dict[str, Any], most: int) -> None:
    """Sealed: ceil(factor * size / owners asked) = ceil(3 * 4 / 3), ceil(12.4 / 3), ceil(12 / 2), ceil(21 / 3)."""
    assert terms(**change).rows_per_owner == most
    curator = [view for view in views_of_owners(terms(**change)) if view.view.observer == "curator"]
    assert {(view.rows, view.readable) for view in curator} == {(most, most)}


def test_of_a_split_run_one_party_reads_no_more_rows_than_are_opened() -> None:
    agreed = split_run(offer_factor=6.0)
    assert (agreed.rows_per_owner, agreed.rows_readable) == (8, 4)


@pytest.mark.parametrize(("columns", "dimension"), [(2, 10**9), (1 << 20, 1 << 16), (10**9, 2)])
def test_a_kernel_that_nobody_can_mean_takes_no_memory(columns: int, dimension: int) -> None:
    """Terms come from others; reading them must not exhaust whoever reads."""
    with pytest.raises(InvalidArgument, match="even"):
        KernelShape(3, 17)
    with pytest.raises(InvalidArgument):
        Kernel(columns=columns, dimension=dimension, gamma=1.0, seed=1)
    with pytest.raises(InvalidArgument, match="seed"):
        Kernel(columns=3, dimension=16, gamma=1.0, seed=1 << 256)


def test_cards_have_one_text_in_whatever_order_they_are_given() -> None:
    named, turned = terms(**NAMED), terms(**{**NAMED, "cards": dict(reversed(CARDS.items()))})
    assert named == turned
    assert hash(named) == hash(turned)
    assert named.to_json() == turned.to_json()
    assert list(json.loads(named.to_json())["cards"]) == sorted(CARDS)
    assert Terms.from_json(named.to_json()).cards == CARDS


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
    with pytest.raises(InvalidArgument, match=r"^cards"):
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
    assert Terms.settled(planned, **DRAWN, expires=agreed.expires, extensions=agreed.extensions) == agreed
    assert planned_views(planned, width_choice=None) == planned_views(agreed, width_choice=None)
    assert planned.rows_per_owner == agreed.rows_per_owner
