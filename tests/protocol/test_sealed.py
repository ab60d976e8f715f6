"""``sealed``: what owners hear, what leaves them, who is asked."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from protocol_world import (
    CONSUMER,
    KERNEL,
    PAPER,
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

from chance import examples, pinned_coins
from likeset.errors import BadMessage, BudgetExceeded, IllegalMessage, InvalidArgument, NoiseUnavailable, QuorumMissed
from likeset.geometry.kernels import median_gamma, squared_mmd
from likeset.geometry.selection import Selection
from likeset.privacy import gaussian_mean
from likeset.privacy.events import Event, NoRelease, PublicSize, Relation, View
from likeset.privacy.noise import Integers
from likeset.protocol.party import CURATOR
from likeset.protocol.prices import planned_views
from likeset.protocol.sealed import Consumer, SealedOwner
from likeset.protocol.terms import Budget, Kernel
from likeset.protocol.wire import Asked, Message, Misfit, Offer, Target, TargetRelease, decode, encode
from likeset.tables.scan import MemoryScan
from likeset.transports.local import ChargedParty

SETTINGS = settings(max_examples=examples(8))


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
    "silent": lambda _heard, _replies: [],
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


@pytest.mark.parametrize("size", [4, 100])
@pytest.mark.parametrize("options", [{}, {"thinning": False}, {"offers": "uniform"}])
def test_an_owner_sends_no_more_than_announced_and_each_row_once(options: dict[str, Any], size: int) -> None:
    made = world(terms(size=size, **options), count=8 * size)
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
    offered = [outcome.curator.party.offered[0] for outcome in drawn]
    assert offered[0] is not None
    assert offered[1] is not None
    assert {row.tobytes() for row in offered[0]} != {row.tobytes() for row in offered[1]}


@pytest.mark.parametrize("bit", [0, 1, 15, 16, 31, 32, 63, 64, 127, 128, 255])
def test_every_bit_of_a_key_changes_handles_and_draws(bit: int) -> None:
    """Else whoever tries some keys finds which rows were drawn, and their numbers."""
    agreed, scan = terms(offers="uniform", thinning=False), MemoryScan(rows(1, 400))
    offers = []
    for key in (1 << 200, 1 << 200 ^ 1 << bit):
        owner = ChargedParty(SealedOwner(agreed, "a", scan=scan, key=key), QuickLedger())
        release = TargetRelease(release=np.empty(0))
        call = Message(agreed.run, agreed.digest, agreed.consumer, "a", 1, release)
        (reply,) = owner.take(call)
        assert isinstance(reply.body, Offer)
        offers.append(reply.body)
    assert not set(offers[0].handles.tolist()) & set(offers[1].handles.tolist())
    assert {row.tobytes() for row in offers[0].rows} != {row.tobytes() for row in offers[1].rows}


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


@settings(SETTINGS, max_examples=examples(6))
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
    with pytest.raises(InvalidArgument, match=r"^target"):
        Consumer(terms(), target=rows(1, shape[0], columns=shape[1]), noise=CountingNoise())


def test_whoever_is_not_invited_is_no_owner() -> None:
    with pytest.raises(IllegalMessage, match="not among the owners"):
        SealedOwner(terms(), "stranger", scan=MemoryScan(rows(2)), key=1, declared=None)


INTERACTIVE = {"protocol": "interactive"}
KINDS: dict[str, dict[str, Any]] = {
    "sealed": {},
    "uniform": {"offers": "uniform"},
    "threshold": THRESHOLD,
    "interactive": INTERACTIVE,
    "gaussian": {**INTERACTIVE, "summary_release": "gaussian", "owner_budget": Budget(2.0, 1e-5)},
    "paper": PAPER,
}
WISHES = (Selection(), Selection(gamma=40.0), Selection(gamma=1e-3))


def _held(options: dict[str, Any], selection: Selection) -> tuple[World, Outcome]:
    made = world(terms(**options), selection=selection)
    return made, carry(made)


def _sent(made: World) -> Message:
    message, *_ = made.consumer().start()
    return decode(encode(message))


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_is_wished_owners_hear_and_say_the_same_bytes(kind: str) -> None:
    """With the same coins; of what the curator hears, only the consumer's own message differs."""
    outcomes = [_held(KINDS[kind], one)[1] for one in WISHES]
    first = outcomes[0]
    for other in outcomes[1:]:
        assert other.refused == []
        for name in ("a", "b", "c"):
            assert first.heard[name]
            assert other.heard[name] == first.heard[name]
        assert other.heard["curator"][0] != first.heard["curator"][0]
        assert other.heard["curator"][1:] == first.heard["curator"][1:]
    assert len({outcome.summary.squared_mmds.tobytes() for outcome in outcomes[:3]}) == 3  # they were heeded


@pytest.mark.parametrize("kind", ["sealed", "uniform", "threshold", "interactive"])
def test_the_summary_is_judged_by_the_width_that_was_wished(kind: str) -> None:
    for gamma in (0.05, 3.0):
        made, outcome = _held(KINDS[kind], Selection(gamma=gamma))
        found = outcome.summary
        assert found.squared_mmds[-1] == pytest.approx(squared_mmd(found.rows, made.target, gamma=gamma), rel=1e-4)


def test_without_a_wish_the_width_is_by_the_targets_own_distances() -> None:
    made = world(terms())
    body = _sent(made).body
    assert isinstance(body, Target)
    assert body.gamma == median_gamma(made.target, scale=1.0, coins=np.random.default_rng(0))


@pytest.mark.parametrize(
    ("options", "changes"),
    [
        *(({}, {"gamma": gamma}) for gamma in (0.0, -1.0, math.nan, math.inf, -math.inf, 1e37, 1e300)),
        (INTERACTIVE, {"gamma": math.nan}),
    ],
)
def test_a_wish_that_cannot_be_heeded_is_refused_and_nobody_is_asked(
    options: dict[str, Any], changes: dict[str, Any]
) -> None:
    made = world(terms(**options))
    curator, honest = made.curator(), _sent(made)
    with pytest.raises(IllegalMessage, match=f"target message of {CONSUMER}") as refusal:
        curator.take(replace(honest, body=replace(honest.body, **changes)))
    assert not any(str(value) in str(refusal.value) for value in changes.values())
    assert curator.party.waiting_for == frozenset()
    curator.take(honest)
    assert curator.party.waiting_for == {"a", "b", "c"}


def test_a_target_without_distances_needs_a_width_before_anything_is_released() -> None:
    made = world(terms())
    made.target[:] = 1.0
    with pytest.raises(InvalidArgument, match=r"^rows"):
        made.consumer()
    made.selection = Selection(gamma=1.0)
    assert made.consumer().start()


@pytest.mark.parametrize("declared", [29, 31])
def test_under_add_or_remove_the_true_size_of_the_target_does_not_decide_whether_there_is_a_release(
    declared: int,
) -> None:
    agreed = terms(relation=Relation.ADD_OR_REMOVE, target_size=declared)
    made = world(agreed, QuickLedger())
    made.target = rows(5, 30, shift=0.3)
    outcome = carry(made)
    assert len(outcome.summary.rows) == agreed.size


class _LowNoise(CountingNoise):
    """The threshold is always below 1: nobody is asked."""

    def discrete_laplace(self, scale: float, size: int) -> Integers:
        del scale
        return np.full(size, -100, dtype=np.int64)


@pytest.mark.parametrize("protocol", ["sealed", "interactive"])
def test_whoever_is_not_asked_hears_so_even_if_nobody_is(protocol: str) -> None:
    """Else a no would prove that somebody ranks higher, which is what breaks the paper's auction."""
    agreed = terms(protocol=protocol, size=2, **THRESHOLD)
    made = world(agreed, QuickLedger())
    made.noise = _LowNoise()
    heard: Counter[str] = Counter()

    def listening(message: Message) -> list[Message]:
        if isinstance(message.body, Asked):
            assert not message.body.asked
            heard[message.receiver] += 1
        return [message]

    with pytest.raises(QuorumMissed):
        carry(made, tamper=listening)
    assert heard == dict.fromkeys(agreed.owners, 1 if protocol == "sealed" else agreed.size)


def test_rows_that_nobody_asked_for_are_not_used_even_where_nobody_was_asked() -> None:
    """Then everybody is waited for, in vain; an owner who sends rows all the same would be the only one."""
    made = world(terms(size=2, **THRESHOLD), QuickLedger())
    made.noise = _LowNoise()

    def pushes(heard: Message, replies: tuple[Message, ...]) -> list[Message]:
        if not isinstance(heard.body, Asked):
            return list(replies)
        offer = Offer(rows=rows(3, 2), labels=np.empty(0), handles=np.arange(2, dtype=np.uint64))
        return [replace(heard, sender="b", receiver=CURATOR, body=offer)]

    with pytest.raises(QuorumMissed, match="0 of 3"):
        carry(made, replies_of={"b": pushes})


def test_under_add_or_remove_a_consumer_starts_only_where_no_place_rounds_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One line of all cosines is off by a unit in the last place."""
    honest = np.cos

    def cosines(angles: Any, out: Any = None) -> Any:
        found = honest(angles, out=out)
        if out is not None:
            out[7] = np.nextafter(out[7], np.float32(np.inf))
        return found

    made = world(terms(relation=Relation.ADD_OR_REMOVE))
    made.consumer()
    monkeypatch.setattr(np, "cos", cosines)
    with pytest.raises(NoiseUnavailable):
        made.consumer()
    assert made.noise.calls == 0
    world(terms(relation=Relation.REPLACE_ONE)).consumer()


class Silent(CountingNoise):
    """No noise, to see what it would be added to."""

    def discrete_gaussian(self, sigma: float, size: int) -> Integers:
        return 0 * super().discrete_gaussian(sigma, size)


def test_a_row_contributes_the_same_to_the_release_wherever_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a product of matrices rounds every other line otherwise, as some processors do.

    The release is a sum of whole lattice steps over a declared size. Without the first row all others move on by one.
    """
    honest = np.matmul

    def product(first: Any, second: Any, out: Any = None) -> Any:
        found = honest(first, second, out=out)
        found[::2] = np.nextafter(found[::2], np.float32(np.inf))
        return found

    monkeypatch.setattr(np, "matmul", product)
    made = world(terms(relation=Relation.ADD_OR_REMOVE), selection=Selection(gamma=1.0))
    made.noise, rows = Silent(), made.target

    def sums(part: NDArray[np.float32]) -> list[int]:
        made.target, made.ledger = part, QuickLedger()
        release = made.consumer().start()[1].body
        assert isinstance(release, TargetRelease)
        return [round(value) for value in release.release * made.terms.target_size / gaussian_mean.SPACING]

    alone = [sums(row[None]) for row in rows]
    assert sums(rows) == np.sum(alone, axis=0).tolist()
    assert sums(rows[1:]) == np.sum(alone[1:], axis=0).tolist()


ONE_ROW = terms(
    owners=("a", "b"),
    size=1,
    offer_factor=400.0,
    offers="uniform",
    target_budget=Budget(0.0, 1e-5),
    target_size=40,
    kernel=Kernel(columns=2, dimension=4, gamma=0.5, seed=7),
)
"""One row is bought of all that owners have."""
GRID = np.stack(np.meshgrid(np.linspace(-1.0, 1.0, 31), np.linspace(-1.0, 1.0, 31)), axis=-1).reshape(-1, 2)
"""Every row that an owner of the next test could have: the consumer knows the schema."""


def _kernel(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.exp(-3.0 * ((one[:, None] - other) ** 2).sum(axis=2)))


def _pairs_that_fit(made: World, *, fold_key: int) -> tuple[int, bool]:
    """How many pairs of rows explain what the consumer is told, for one who knows the folds, and whether the picks do.

    The consumer buys one row. The estimate depends on one more row for each of two folds: the row that the curator
    picked without that fold (geometry/selection.py).
    """
    summary = carry(made).summary
    target, grid = made.target.astype(np.float64), GRID.astype(np.float32).astype(np.float64)
    folds = np.array_split(np.random.default_rng(fold_key).permutation(len(target)), 2)
    within = [_kernel(target[fold], target[fold]).mean() for fold in folds]
    own = (_kernel(target, target).sum() - len(target)) / (len(target) * (len(target) - 1))
    in_sample = 1.0 - 2.0 * _kernel(summary.rows.astype(np.float64), target).mean() + _kernel(target, target).mean()
    near = [_kernel(grid, target[fold]).mean(axis=1) for fold in folds]
    known = in_sample + 0.25 * sum(own - inside for inside in within)
    explained = known + 0.5 * np.add.outer(
        near[1] - near[0], near[0] - near[1]
    )  # picked without fold 0, without fold 1
    digits = Decimal(str(summary.held_out_squared_mmd)).as_tuple().exponent
    fits = np.abs(explained - summary.held_out_squared_mmd) <= max(0.5 * 10.0 ** int(digits), 1e-12)
    offered = np.concatenate(list(made.data.values())).astype(np.float64)
    picks = [offered[np.argmax(_kernel(offered, target[fold]).mean(axis=1))] for fold in reversed(folds)]
    places = tuple(int(np.argmin(((grid - pick) ** 2).sum(axis=1))) for pick in picks)
    return int(fits.sum()), bool(fits[places])


@pytest.mark.parametrize("in_one_process", [True, False])
def test_the_estimate_of_distance_does_not_give_away_rows_that_nobody_bought(*, in_one_process: bool) -> None:
    """In one process the numbers are exact, and a pair of rows out of 920,000 can be read from one of them."""
    coins = pinned_coins("unbought rows")
    made = world(ONE_ROW, selection=Selection(gamma=3.0, folds=2), fold_key=None if in_one_process else 5)
    made.data = {name: GRID[coins.choice(len(GRID), 150, replace=False)].astype(np.float32) for name in ("a", "b")}
    made.target = coins.uniform(-0.6, 0.6, size=(40, 2)).astype(np.float32)
    fitting, is_right = _pairs_that_fit(made, fold_key=0 if in_one_process else 5)
    assert is_right
    assert fitting < 10 if in_one_process else fitting > 1_000


def test_a_target_of_isolated_rows_buys_no_further_digits_of_the_estimate() -> None:
    """Its standard error is tiny: rounded by that alone, the estimate tells how far a row lies that nobody bought."""
    told, exact = set(), set()
    for distance in np.linspace(0.05, 0.5, 30):
        made = world(ONE_ROW, selection=Selection(gamma=16.0, folds=2), fold_key=5)
        made.target = np.stack([np.arange(40.0), np.zeros(40)], axis=1).astype(np.float32)
        others = np.stack([np.arange(20.0), np.full(20, distance)], axis=1).astype(np.float32)
        made.data = {"a": made.target[:1], "b": others}
        run = carry(made)
        assert run.summary.rows.tolist() == [[0.0, 0.0]]
        told.add((run.summary.held_out_squared_mmd, run.summary.held_out_error))
        assert run.curator.party.held_out is not None
        exact.add(run.curator.party.held_out.squared_mmd)
    assert len(exact) == 30
    assert len(told) < 6


Rows32 = NDArray[np.float32]

GAMMA = 0.1
SELECTION = Selection(gamma=GAMMA)


def _classes(name: str, codes: NDArray[np.int64]) -> Rows32:
    """Rows of classes in a line, each 3 standard deviations from the next."""
    drawn = pinned_coins(name).normal(size=(len(codes), 3)) + 3.0 * codes[:, None] * np.array([1.0, 0.0, 0.0])
    return np.asarray(drawn, dtype=np.float32)


def _run(selection: Selection = SELECTION, *, count: int = 240, size: int = 10, **options: Any) -> Outcome:
    agreed = terms(owners=("a", "b"), size=size, offer_factor=240.0 / size, target_size=60, **options)
    codes = np.resize(np.array([0, 2, 1, 1]), count)
    rows = _classes("classes in a line", codes)
    made = world(agreed, selection=selection)
    made.target = _classes("a target of two classes", 2 * (np.arange(60) % 2))  # some lie nearest to the one between
    made.data = {"a": rows[: count // 2], "b": rows[count // 2 :]}
    made.labels = {"a": codes[: count // 2], "b": codes[count // 2 :]}
    return carry(made)


def test_owners_hear_and_say_the_same_whether_distance_is_measured_and_the_same_rows_are_bought() -> None:
    plain, measured = (_run(replace(SELECTION, folds=folds)) for folds in (0, 5))
    for name in ("a", "b"):
        assert measured.heard[name] == plain.heard[name]
    assert measured.heard["curator"][1:] == plain.heard["curator"][1:]
    assert measured.summary.handles.tolist() == plain.summary.handles.tolist()
    assert math.isnan(plain.summary.held_out_error)
    assert measured.summary.held_out_error > 0.0


def test_the_consumer_is_told_how_much_labels_counted() -> None:
    matched, ignored = _run().summary, _run(labels="ignore").summary
    assert 50 <= matched.label_weight <= matched.label_skill < 100
    assert (ignored.label_weight, ignored.label_skill) == (0, 0)
    assert _run(protocol="interactive").summary.label_weight == 0


def test_numbers_that_depend_on_labels_of_all_offers_are_whole_hundredths() -> None:
    summary = _run().summary
    assert (type(summary.label_weight), type(summary.label_skill)) == (int, int)


@pytest.mark.parametrize(("size", "count"), [(2, 240), (10, 240), (40, 120), (60, 120), (100, 240)])
def test_in_no_market_has_the_estimate_more_digits(size: int, count: int) -> None:
    """Much choice and little; labels that count more than half, half and less."""
    run = _run(replace(SELECTION, folds=3), size=size, count=count)
    summary, exact = run.summary, run.curator.party.held_out
    assert exact is not None
    for told, more, digits in (
        (summary.held_out_squared_mmd, exact.squared_mmd, 2),
        (summary.held_out_error, exact.error, 1),
    ):
        assert told != more
        assert told == pytest.approx(more, abs=0.01)
        assert len(Decimal(str(told)).normalize().as_tuple().digits) <= digits
