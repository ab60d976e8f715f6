"""Owners who lie or break: flagged with a reason, contained, and the summary is right without them."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from protocol_world import THRESHOLD, Outcome, QuickLedger, World, carry, rows, same_summary, terms, world

from likeset.errors import IllegalMessage, QuorumMissed
from likeset.protocol.wire import Bid, Body, Delivery, Message, Misfit, Offer, Summary

CANARY = 123456.789
Lie = Callable[[Body], Body]


def _lying(lie: Lie, *, rounds: Iterable[int] | None = None) -> Callable[[Message, tuple[Message, ...]], list[Message]]:
    chosen = None if rounds is None else set(rounds)

    def replies(_heard: Message, honest: tuple[Message, ...]) -> list[Message]:
        return [replace(one, body=lie(one.body)) if chosen is None or one.round in chosen else one for one in honest]

    return replies


def _offer(**changes: Any) -> Lie:
    """Offers with other parts; a part may be computed from the honest offer."""

    def lie(body: Body) -> Body:
        if not isinstance(body, Offer | Delivery):
            return body
        return replace(body, **{name: part(body) if callable(part) else part for name, part in changes.items()})

    return lie


def _set(value: float) -> Callable[[Offer | Delivery], Any]:
    def changed(body: Offer | Delivery) -> Any:
        rows = body.rows.copy()
        rows[0, 0] = value
        return rows

    return changed


def _without(made: World, name: str) -> World:
    data = {one: rows for one, rows in made.data.items() if one != name}
    return World(made.terms, data, made.target, QuickLedger(), labels=made.labels)


def _assert_flagged(outcome: Outcome, made: World, name: str, reason: str) -> None:
    summary = outcome.summary
    place = made.terms.owners.index(name)
    assert summary.flagged.tolist() == [place]
    assert reason in str(summary.reasons[0])
    assert "123456" not in str(summary.reasons[0])
    assert place not in summary.owners


OFFERS: list[tuple[str, Lie, str]] = [
    ("nan", _offer(rows=_set(float("nan"))), "beyond what the terms declare"),
    ("inf", _offer(rows=_set(float("inf"))), "beyond what the terms declare"),
    ("huge", _offer(rows=_set(3e38)), "beyond what the terms declare"),
    ("narrow", _offer(rows=lambda body: body.rows[:, :2]), "2 columns instead of 3"),
    ("wide", _offer(rows=lambda body: np.hstack([body.rows, body.rows])), "6 columns instead of 3"),
    ("no-columns", _offer(rows=lambda body: body.rows[:, :0]), "0 columns instead of 3"),
    ("twin-handles", _offer(handles=lambda body: np.full(len(body.rows), 5, dtype=np.uint64)), "handles"),
    ("few-handles", _offer(handles=lambda body: body.handles[1:]), "handles"),
    ("few-labels", _offer(labels=lambda body: np.arange(len(body.rows) - 1)), "3 labels for 4 rows"),
    ("many-labels", _offer(labels=np.arange(9)), "9 labels for 4 rows"),
    (
        "many-rows",
        _offer(
            rows=np.full((7, 3), CANARY, dtype=np.float32), labels=np.empty(0), handles=np.arange(7, dtype=np.uint64)
        ),
        "7 rows where at most 4",
    ),
]


@pytest.mark.parametrize(("lie", "reason"), [case[1:] for case in OFFERS], ids=[case[0] for case in OFFERS])
@pytest.mark.parametrize("liar", ["a", "b"])
def test_a_bad_offer_is_flagged_and_the_rest_is_selected_as_if_its_owner_had_not_come(
    lie: Lie, reason: str, liar: str
) -> None:
    made = world(terms())
    outcome = carry(made, replies_of={liar: _lying(lie)})
    _assert_flagged(outcome, made, liar, reason)
    alone = carry(_without(made, liar))
    assert outcome.summary.handles.tolist() == alone.summary.handles.tolist()
    assert outcome.summary.squared_mmds.tolist() == alone.summary.squared_mmds.tolist()
    assert len(outcome.summary.rows) == made.terms.size
    assert not outcome.refused


LABELS = {name: np.arange(12) % 2 for name in ("a", "b", "c")}


@pytest.mark.parametrize("liar", ["a", "b", "c"])
@pytest.mark.parametrize("labels", [np.array(["x"] * 4), np.empty(0)], ids=["text", "none"])
@pytest.mark.parametrize("protocol", ["sealed", "interactive"])
def test_labels_of_another_kind_than_those_of_most_owners_are_flagged(
    liar: str, labels: np.ndarray[Any, Any], protocol: str
) -> None:
    """Whoever comes first in the list must not decide alone what a label is."""
    made = world(terms(protocol=protocol), labels=LABELS)
    most = 4 if protocol == "sealed" else 1
    made.data[liar] = made.target[:12] + np.float32(0.01)  # so that its rows are wanted
    outcome = carry(made, replies_of={liar: _lying(_offer(labels=labels[:most]))})
    _assert_flagged(outcome, made, liar, "labels of another kind")
    assert len(outcome.summary.labels) == len(outcome.summary.rows) == made.terms.size
    assert outcome.summary.labels.dtype.kind == "i"


def test_an_owner_of_interactive_whose_labels_change_kind_is_flagged() -> None:
    made = world(terms(protocol="interactive"), labels=LABELS)
    made.data["b"] = made.target[:12] + np.float32(0.01)
    for labels in (np.empty(0), np.array(["text"])):
        outcome = carry(made, replies_of={"b": _lying(_offer(labels=labels), rounds=[2, 3])})
        _assert_flagged(outcome, made, "b", "labels of another kind")
        assert len(outcome.summary.labels) == len(outcome.summary.rows)


def test_labels_of_different_numbers_go_together() -> None:
    labels = {"a": np.arange(12, dtype=np.uint8), "b": np.arange(12) / 2, "c": np.arange(12) > 3}
    summary = carry(world(terms(), labels=labels)).summary
    assert len(summary.flagged) == 0
    assert len(summary.labels) == len(summary.rows)


@pytest.mark.parametrize("misfit", [float("nan"), float("inf"), -float("inf"), -1.0])
def test_a_misfit_that_cannot_be_one_is_flagged_and_its_owner_not_asked(misfit: float) -> None:
    made = world(terms(**THRESHOLD))
    outcome = carry(
        made, replies_of={"a": _lying(lambda body: Misfit(misfit=misfit) if isinstance(body, Misfit) else body)}
    )
    _assert_flagged(outcome, made, "a", "misfit")
    assert len(outcome.heard["a"]) == 2  # a no, like everybody who is not asked


@pytest.mark.parametrize("gain", [float("inf"), -float("inf")])
def test_a_bid_that_is_not_a_number_is_flagged(gain: float) -> None:
    made = world(terms(protocol="interactive"))
    lie = _lying(lambda body: replace(body, gain=gain) if isinstance(body, Bid) else body)
    _assert_flagged(carry(made, replies_of={"a": lie}), made, "a", "bid")


def _other_row(body: Body) -> Body:
    """Bid high, deliver another row under the same handle."""
    if isinstance(body, Bid):
        return replace(body, gain=body.gain + 5.0)
    return body


DELIVERIES: list[tuple[str, Lie, str]] = [
    ("bid-high", _other_row, "not worth its bid"),
    ("other-row", _offer(rows=rows(77, 1)), "does not have the features"),
    ("other-features", _offer(features=lambda body: body.features + 100), "features"),
    ("features-above-lattice", _offer(features=lambda body: body.features + np.float32(0.25)), "lattice"),
    ("features-below-lattice", _offer(features=lambda body: body.features - np.float32(0.25)), "lattice"),
    ("nan-features", _offer(features=lambda body: body.features * np.float32("nan")), "features of another shape"),
    ("no-features", _offer(features=np.empty((0, 0), dtype=np.float32)), "features of another shape"),
    ("unknown-handle", _offer(handle=5), "another row than the one it bid"),
    ("no-row", _offer(rows=np.empty((0, 3), dtype=np.float32), labels=np.empty(0)), ""),
    ("two-rows", _offer(rows=np.full((2, 3), CANARY, dtype=np.float32)), "2 rows where at most 1"),
    ("nan", _offer(rows=_set(float("nan"))), "beyond what the terms declare"),
    ("huge", _offer(rows=_set(3e38)), "beyond what the terms declare"),
    ("two-labels", _offer(labels=np.arange(2)), "2 labels for 1 rows"),
]


@pytest.mark.parametrize(("lie", "reason"), [case[1:] for case in DELIVERIES], ids=[case[0] for case in DELIVERIES])
def test_a_row_that_is_not_what_was_bid_is_forfeited(lie: Lie, reason: str) -> None:
    made = world(terms(protocol="interactive"))
    made.data["b"] = made.target[:12] + np.float32(0.01)
    outcome = carry(made, replies_of={"b": _lying(lie)})
    _assert_flagged(outcome, made, "b", reason)
    assert len(outcome.summary.rows) == made.terms.size
    asked = [data for data in outcome.heard["b"] if b'"kind":"asked"' in data]
    assert len(asked) == made.terms.size  # an answer in every round, asked or not
    alone = carry(_without(made, "b"))
    assert outcome.summary.handles.tolist() == alone.summary.handles.tolist()


def test_a_row_delivered_a_second_time_is_flagged() -> None:
    """An owner that bids its best row again and again would fill the summary with copies of it."""
    made = world(terms(protocol="interactive"))
    made.data["b"] = made.target[:12] + np.float32(0.01)
    first: dict[str, Body] = {}

    def again(_heard: Message, honest: tuple[Message, ...]) -> list[Message]:
        return [replace(one, body=first.setdefault(one.body.kind, one.body)) for one in honest]

    outcome = carry(made, replies_of={"b": again})
    place = made.terms.owners.index("b")
    assert outcome.summary.flagged.tolist() == [place]
    assert "second time" in str(outcome.summary.reasons[0])
    assert outcome.summary.owners.tolist().count(place) == 1


def test_reasons_come_in_the_order_of_owners_whoever_was_first() -> None:
    made = world(terms(quorum=1))
    bad = _lying(_offer(rows=_set(float("nan"))))
    worse = _lying(_offer(handles=np.empty(0, dtype=np.uint64)))
    summaries = []
    for order in (1, -1):
        curator = made.curator()
        offers: list[Message] = []
        for call in made.first_words(curator):
            honest = made.owner(call.receiver).take(call)
            liar = {"a": bad, "c": worse}.get(call.receiver)
            offers.extend(liar(call, honest) if liar else honest)
        *_, last = [curator.take(offer) for offer in offers[::order]]
        assert isinstance(last[0].body, Summary)
        summaries.append(last[0].body)
    assert same_summary(*summaries)
    assert summaries[0].flagged.tolist() == [0, 2]
    assert "beyond" in str(summaries[0].reasons[0])
    assert "handles" in str(summaries[0].reasons[1])


def test_a_summary_whose_parts_do_not_fit_is_refused_and_a_whole_one_still_taken() -> None:
    made = world(terms())
    body = carry(made).summary
    consumer = made.consumer()
    consumer.start()

    def sent(**changes: Any) -> Message:
        return Message("run-1", made.terms.digest, "curator", "hospital", 0, replace(body, **changes))

    wrong: list[dict[str, Any]] = [
        {"rows": body.rows[:, :2]},
        {"rows": body.rows[:2]},
        {"rows": body.rows * np.float32("nan")},
        {"labels": np.arange(2)},
        {"owners": body.owners + 3},
        {"owners": body.owners - 3},
        {"label_weight": 101},
        {"label_skill": -1},
        {"squared_mmds": body.squared_mmds[:1]},
        {"absent": np.array([3])},
        {"flagged": np.array([0]), "reasons": np.array([], dtype=np.str_)},
        {"flagged": np.array([9]), "reasons": np.array(["x"])},
    ]
    for changes in wrong:
        with pytest.raises(IllegalMessage):
            consumer.take(sent(**changes))
        assert consumer.party.summary is None
    with pytest.raises(IllegalMessage):
        consumer.take(replace(sent(), sender="a"))
    consumer.take(sent())
    assert consumer.party.summary is not None


def test_if_too_few_are_left_there_is_no_summary() -> None:
    bad = _lying(_offer(rows=_set(float("nan"))))
    with pytest.raises(QuorumMissed) as caught:
        carry(world(terms(quorum=2)), replies_of={"a": bad, "c": bad})
    assert "1 of 3" in str(caught.value)
    with pytest.raises(QuorumMissed):
        carry(world(terms(quorum=1)), replies_of=dict.fromkeys("abc", bad))
