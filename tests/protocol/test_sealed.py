"""``sealed``: what owners hear, what leaves them, who is asked."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from protocol_world import (
    KERNEL,
    THRESHOLD,
    CountingNoise,
    Outcome,
    QuickLedger,
    World,
    carry,
    ledger_on_disk,
    rows,
    same_summary,
    terms,
    world,
)

from chance import examples
from likeset.errors import BadMessage, BudgetExceeded, IllegalMessage, InvalidArgument, QuorumMissed
from likeset.ledger.budget import Limit
from likeset.privacy.events import Event, NoRelease, PublicSize, Relation
from likeset.privacy.guarantee import View
from likeset.privacy.noise import Integers
from likeset.protocol.prices import planned_views
from likeset.protocol.sealed import Consumer
from likeset.protocol.split import make_owner
from likeset.protocol.terms import Budget
from likeset.protocol.wire import Asked, Message, Misfit, Offer, TargetRelease, decode, encode
from likeset.tables.scan import MemoryScan

SETTINGS = settings(max_examples=examples(12))


def _silent(_heard: Message, _replies: tuple[Message, ...]) -> list[Message]:
    return []


def _broken(_heard: Message, replies: tuple[Message, ...]) -> list[Message]:
    """Rows that are no numbers, and an answer that nobody asked for."""
    bad = []
    for reply in replies:
        if isinstance(reply.body, Offer):
            bad.append(replace(reply, body=replace(reply.body, rows=reply.body.rows * np.float32("nan"))))
        else:
            bad.append(replace(reply, round=9))
    return bad


def _twice(_heard: Message, replies: tuple[Message, ...]) -> list[Message]:
    return [*replies, *replies, *(replace(reply, body=Misfit(misfit=1.0)) for reply in replies)]


BEHAVIOURS: dict[str, Callable[[Message, tuple[Message, ...]], list[Message]]] = {
    "honest": lambda _heard, replies: list(replies),
    "silent": _silent,
    "broken": _broken,
    "twice": _twice,
}
others = st.fixed_dictionaries(
    {
        name: st.tuples(
            st.integers(0, 2**32), st.integers(1, 40), st.floats(-5, 5), st.sampled_from([*BEHAVIOURS, "missing"])
        )
        for name in ("b", "c")
    }
)


def _with_others(made: World, drawn: dict[str, tuple[int, int, float, str]]) -> Outcome:
    """A run in which everybody but ``a`` has other rows, another number of them, and other manners."""
    data = {"a": made.data["a"]}
    for name, (seed, count, shift, manner) in drawn.items():
        if manner != "missing":
            data[name] = rows(seed, count, shift=shift)
    liars = {name: BEHAVIOURS[manner] for name, (*_, manner) in drawn.items() if manner in BEHAVIOURS}
    return carry(World(made.terms, data, made.target, QuickLedger(), CountingNoise(3)), replies_of=liars)


@pytest.mark.parametrize("options", [{}, {"offers": "uniform"}], ids=["tilted", "uniform"])
@SETTINGS
@given(first=others, second=others)
def test_with_everyone_asked_an_owner_hears_the_same_whatever_the_others_have_and_do(
    options: dict[str, Any], first: dict[str, Any], second: dict[str, Any]
) -> None:
    """Zero leakage: the same bytes, the same number of them, the same errors."""
    made = world(terms(**options))
    one, other = _with_others(made, first), _with_others(made, second)
    assert one.heard["a"] == other.heard["a"]
    assert len(one.heard["a"]) == 1
    assert isinstance(decode(one.heard["a"][0]).body, TargetRelease)
    assert [words for name, words in one.refused if name == "a"] == []
    assert [words for name, words in other.refused if name == "a"] == []


@SETTINGS
@given(drawn=others)
def test_what_an_owner_says_depends_on_nobody_else_either(drawn: dict[str, Any]) -> None:
    made = world(terms())
    said = [
        [data for data in _with_others(made, case).heard["curator"] if decode(data).sender == "a"]
        for case in (drawn, {"b": (1, 5, 0.0, "honest"), "c": (2, 5, 0.0, "honest")})
    ]
    assert said[0] == said[1]
    assert len(said[0]) == 1


def test_with_a_threshold_an_owner_does_hear_something_about_the_others() -> None:
    """So the comparison above can fail; this is what the auction is charged for."""
    heard = []
    for shift in (0.0, 8.0):
        made = world(terms(**THRESHOLD))
        made.data["b"] = made.data["c"] = made.target[:20] + np.float32(shift)
        heard.append(carry(made).heard["a"])
    assert heard[0] != heard[1]
    assert [len(data) for data in heard[0]] == [len(data) for data in heard[1]]  # but not by the length


def test_errors_that_an_owner_raises_name_nothing_of_the_others() -> None:
    made = world(terms())
    owner = made.owner("a")
    (call, *_) = made.first_words(made.curator())
    for wrong in (
        replace(call, sender="b"),
        replace(call, sender="curator"),
        replace(call, receiver="b"),
        replace(call, run="run-2"),
        replace(call, terms="0" * 64),
        replace(call, round=2),
        replace(call, body=Asked(asked=True)),
        replace(call, body=TargetRelease(release=np.zeros(3))),
        replace(call, body=TargetRelease(release=np.full(16, np.nan))),
    ):
        with pytest.raises(IllegalMessage):
            owner.take(wrong)
    assert [type(reply.body) for reply in owner.take(call)] == [Offer]


def test_an_owner_sends_no_more_than_announced_and_each_row_once() -> None:
    made = world(terms(), count=30)
    outcome = carry(made)
    for data in outcome.heard["curator"]:
        body = decode(data).body
        if isinstance(body, Offer):
            assert len(body.rows) == made.terms.rows_per_owner
            assert len(np.unique(body.rows, axis=0)) == len(body.rows)
            assert body.handles.tolist() == sorted(body.handles.tolist())  # tells nothing about how they were found
    assert outcome.summary.rows_seen == 3 * made.terms.rows_per_owner


def test_an_owner_with_few_rows_sends_them_all() -> None:
    made = world(terms(), count=2)
    outcome = carry(made)
    assert outcome.summary.rows_seen == 6
    assert len(outcome.summary.rows) == 4
    assert len(carry(world(terms(size=10), count=2)).summary.rows) == 6


@pytest.mark.parametrize("options", [{}, THRESHOLD], ids=["everyone", "threshold"])
@pytest.mark.parametrize("restarted", [False, True])
def test_an_owner_finds_its_rows_by_their_handles_also_after_a_restart(
    options: dict[str, Any], restarted: bool
) -> None:
    made = world(terms(**options))
    parties: dict[str, Any] = {"curator": made.curator(), "hospital": made.consumer(), **made.owners()}
    summary = carry(made, parties=parties).summary
    if restarted:
        parties = {"curator": made.curator(), "hospital": made.consumer(), **made.owners()}
        carry(made, parties=parties)
    for place, handle, row in zip(summary.owners, summary.handles, summary.rows, strict=True):
        name = made.terms.owners[place]
        owner = parties[name]
        assert np.array_equal(made.data[name][owner.party.row_of(int(handle))], row)
    with pytest.raises(IllegalMessage):
        parties["a"].party.row_of(1)


def test_a_row_has_another_handle_in_each_run_and_another_draw_decides_about_it() -> None:
    """With the same key and the same data: else whoever sees two runs could tell which rows are the same."""
    first, second = (carry(world(terms(run=name, offers="uniform"), count=2)) for name in ("run-1", "run-2"))
    assert not set(first.summary.handles.tolist()) & set(second.summary.handles.tolist())
    drawn = [carry(world(terms(run=name, offers="uniform", thinning=False), count=400)) for name in ("run-1", "run-2")]
    offered = [outcome.curator.party.offered_rows for outcome in drawn]
    assert offered[0] is not None
    assert offered[1] is not None
    assert {row.tobytes() for row in offered[0]} != {row.tobytes() for row in offered[1]}


def test_uniform_offers_draw_no_noise_and_charge_nothing_for_the_target() -> None:
    agreed = terms(offers="uniform")
    with ledger_on_disk(agreed) as ledger:
        made = world(agreed, ledger)
        carry(made)
        assert made.noise.calls == 0
        spent = {account.view: account for account in ledger.accounts()}
        assert spent[View.owners("hospital")].charges == 0
    views = {view.view: view.guarantee for view in planned_views(agreed, width_choice=None)}
    assert views[View.owners("hospital")].epsilon == 0.0
    assert views[View.owners("a")].epsilon == 0.0


@pytest.mark.parametrize(
    ("relation", "event"), [(Relation.REPLACE_ONE, PublicSize()), (Relation.ADD_OR_REMOVE, NoRelease())]
)
def test_terms_tell_the_exact_size_of_a_target_under_replace_one_alone(relation: Relation, event: Event) -> None:
    views = planned_views(terms(offers="uniform", relation=relation), width_choice=None)
    assert [view.event for view in views if view.view == View.owners("hospital")] == [event]


def test_rows_and_releases_are_charged_before_they_leave() -> None:
    agreed = terms()
    with ledger_on_disk(agreed, rows=agreed.rows_per_owner) as ledger:
        carry(world(agreed, ledger))
        accounts = {account.view: account for account in ledger.accounts()}
        assert accounts[View.owners("hospital")].charges == 1
        for name in agreed.owners:
            assert accounts[View.curator(name)].rows == agreed.rows_per_owner
            assert accounts[View.owners(name)].charges == 0  # nobody hears anything about anybody
        another = terms(run="run-2")
        made = world(another, ledger)
        (call, *_) = made.first_words(made.curator())
        with pytest.raises(BudgetExceeded):
            made.owner("a").take(call)


@pytest.mark.parametrize("options", [{}, THRESHOLD], ids=["everyone", "threshold"])
def test_an_offer_that_is_too_large_to_be_sent_costs_nothing(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    agreed = terms(size=200, **options)
    with ledger_on_disk(agreed) as ledger:
        made = world(agreed, ledger, count=200)
        owner = made.owner("a")
        (call, *_) = made.first_words(made.curator())
        calls = [call]
        if options:
            owner.take(call)
            call = replace(call, sender="curator", round=2, body=Asked(asked=True))
            calls.append(call)
        before = ledger.head()
        with monkeypatch.context() as small:
            small.setattr("likeset.protocol.wire.MOST_BYTES", len(encode(call)) + 200)
            with pytest.raises(BadMessage, match="is too large"):
                owner.take(call)
        assert ledger.head() == before
        assert owner.party.rows_disclosed == 0
        assert owner.party.failed
        owner = made.owner("a")
        for heard in calls:
            owner.take(heard)
        assert owner.party.rows_disclosed == min(200, agreed.rows_per_owner)
        assert ledger.head() != before


def test_an_owner_whose_budget_is_spent_abstains_and_the_others_go_on() -> None:
    agreed = terms()
    with ledger_on_disk(agreed) as ledger:
        ledger.set_limit(View.curator("b"), Limit.rows_only(1))
        outcome = carry(world(agreed, ledger))
    assert outcome.summary.absent.tolist() == [1]
    assert 1 not in outcome.summary.owners


def test_a_missed_quorum_ends_the_run() -> None:
    made = world(terms(quorum=3))
    del made.data["b"]
    with pytest.raises(QuorumMissed):
        carry(made)
    made = world(terms(quorum=2))
    del made.data["b"]
    assert carry(made).summary.absent.tolist() == [1]


def _auction_bits(made: World, noise: int) -> NDArray[np.bool_]:
    """Who is asked if the noise is this."""

    class Fixed(CountingNoise):
        def discrete_laplace(self, scale: float, size: int) -> Integers:
            del scale
            return np.full(size, noise, dtype=np.int64)

    made.noise = Fixed(1)
    made.ledger = QuickLedger()
    calls = made.first_words(made.curator())
    curator = made.curator()
    made.first_words(curator)
    *_, asks = [curator.take(made.owner(call.receiver).take(call)[0]) for call in calls]
    return np.array([isinstance(ask.body, Asked) and ask.body.asked for ask in asks[: len(made.terms.owners)]])


@settings(SETTINGS, max_examples=examples(12))
@given(seed=st.integers(0, 2**32), changed=st.integers(0, 3), shift=st.floats(-6, 6))
def test_whatever_one_owner_holds_moves_the_rank_of_every_other_by_at_most_one(
    seed: int, changed: int, shift: float
) -> None:
    """What the price of one threshold auction rests on: noise larger by 1 makes up for any change of one owner."""
    agreed = terms(owners=("a", "b", "c", "d"), **THRESHOLD)
    before = world(agreed)
    after = world(agreed)
    after.data["abcd"[changed]] = rows(seed, 9, shift=shift)
    rest = np.arange(4) != changed
    for noise in (-1, 0):
        fewer, more = _auction_bits(before, noise)[rest], _auction_bits(after, noise + 1)[rest]
        assert not (fewer & ~more).any()
        fewer, more = _auction_bits(after, noise)[rest], _auction_bits(before, noise + 1)[rest]
        assert not (fewer & ~more).any()


@pytest.mark.parametrize("silent", [(), ("a",), ("a", "b")])
def test_the_auction_is_drawn_once_whoever_is_given_up_and_however_often_it_is_resumed(silent: tuple[str, ...]) -> None:
    agreed = terms(**THRESHOLD)
    with ledger_on_disk(agreed) as ledger:
        made = world(agreed, ledger)
        for name in silent:
            del made.data[name]
        first = carry(made)
        calls = made.noise.calls
        second = carry(made)
        assert made.noise.calls == calls
        assert same_summary(first.summary, second.summary)
        reserved = [entry.key for entry in ledger.entries() if entry.kind == "reserve" and "auction" in entry.key]
        assert len(reserved) == 1
    for name in agreed.owners:
        asked = [decode(data) for data in first.heard[name]]
        assert [message.body.kind for message in asked] == ["target-release", "asked"]
    assert not any(place in first.summary.owners for place in (agreed.owners.index(name) for name in silent))


def test_tilted_offers_find_rare_rows_that_uniform_offers_miss() -> None:
    """6 of 300 rows of each owner lie where the target does; 10 rows are offered by each."""
    found = {}
    for offers in ("tilted", "uniform"):
        agreed = terms(
            offers=offers,
            size=10,
            offer_factor=6.0,
            target_size=200,
            target_budget=Budget(8.0, 1e-5),
            kernel=replace(terms().kernel, dimension=64, gamma=0.05),
        )
        made = world(agreed)
        made.data = {
            name: np.concatenate([rows(place, 294, shift=-2.0), rows(place + 50, 6, shift=2.0)])
            for place, name in enumerate(agreed.owners)
        }
        made.target = rows(5, 200, shift=2.0)
        found[offers] = float((carry(made).summary.rows.mean(axis=1) > 0.5).mean())
    assert found["tilted"] >= 0.9
    assert found["uniform"] <= 0.5


@pytest.mark.parametrize("shape", [(29, KERNEL.columns), (30, KERNEL.columns + 1)])
def test_a_target_of_another_shape_than_agreed_is_refused(shape: tuple[int, int]) -> None:
    with pytest.raises(InvalidArgument, match="as in the terms"):
        Consumer(terms(), target=rows(1, shape[0], columns=shape[1]), noise=CountingNoise())


def test_whoever_is_not_invited_is_no_owner() -> None:
    with pytest.raises(IllegalMessage, match="not among the owners"):
        make_owner(terms(), "stranger", scan=MemoryScan(rows(2)), key=1, declared=None)
