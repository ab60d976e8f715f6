"""``interactive``: Algorithm 3 round by round, with the sound options and with the paper's own."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from protocol_world import (
    KERNEL,
    PAPER,
    PAPER_PARTS,
    THRESHOLD,
    CountingNoise,
    Outcome,
    QuickLedger,
    World,
    carry,
    ledger_on_disk,
    rows,
    terms,
    world,
)

from chance import examples, pinned_coins, public_coins
from likeset.errors import DifferentRequest, IllegalMessage, InvalidArgument
from likeset.privacy import accounting, gaussian_mean, mwem_mean
from likeset.privacy.accounting import Basis
from likeset.privacy.auction import auction_patience
from likeset.privacy.events import Composition, Relation, Repeated, View
from likeset.privacy.noise import Integers
from likeset.protocol.interactive import InteractiveCurator, direction_on_lattice, exact_sums, features_on_lattice
from likeset.protocol.party import CURATOR
from likeset.protocol.prices import planned_views, summary_event, summary_plan, target_plan
from likeset.protocol.terms import Budget, Kernel
from likeset.protocol.wire import Asked, Bid, Body, Delivery, Message, SummaryRelease, TargetRelease, decode

INTERACTIVE: dict[str, Any] = {"protocol": "interactive"}
GAUSSIAN: dict[str, Any] = {**INTERACTIVE, "summary_release": "gaussian", "owner_budget": Budget(2.0, 1e-5)}
OPTIONS: dict[str, dict[str, Any]] = {
    "default": INTERACTIVE,
    "seeds": {**INTERACTIVE, "seed_rows": 3},
    "gaussian": GAUSSIAN,
    "loud-gaussian": {**GAUSSIAN, "owner_budget": Budget(0.05, 1e-9)},
    "mwem": {**PAPER, "auction": "everyone", "auction_epsilon": 0.0, "schedule": "", "owner_budget": Budget(1.0, 1e-5)},
    "threshold": {**INTERACTIVE, **THRESHOLD},
    "threshold-gaussian": {**GAUSSIAN, **THRESHOLD, "accept_unproven": PAPER_PARTS},
    "paper": PAPER,
    "paper-theorem": {**PAPER, "schedule": "theorem"},
    "paper-proof": {**PAPER, "schedule": "proof"},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("size", [3, 9])
def test_every_option_runs_and_honest_owners_are_never_flagged(options: dict[str, Any], size: int) -> None:
    """The curator checks each row against its bid to the last bit: rounding must not look like a lie."""
    made = world(terms(**options, size=size))
    made.data["c"] = made.data["c"][:4]  # has fewer rows than there are rounds
    outcome = carry(made)
    summary = outcome.summary
    assert len(summary.flagged) == 0
    assert not outcome.refused
    assert summary.rows_seen <= size * 3
    assert len(summary.rows) <= size
    if options.get("auction", "everyone") == "everyone":
        assert len(summary.rows) == size
    for place, row in zip(summary.owners, summary.rows, strict=True):
        assert (made.data[made.terms.owners[place]] == row).all(axis=1).any()  # no seed row, no zeros
    for name in made.terms.owners:
        kinds = [decode(data).body.kind for data in outcome.heard[name]]
        assert kinds == ["target-release"] + size * ["summary-release", "asked"]
        sent = sent_by(outcome, name, Delivery)
        handles = [message.body.handle for message in sent if isinstance(message.body, Delivery)]
        assert len(set(handles)) == len(handles) <= size  # no row twice, no more than announced
        asked = [decode(data) for data in outcome.heard[name]]
        lengths = {
            len(data) for data, one in zip(outcome.heard[name], asked, strict=True) if isinstance(one.body, Asked)
        }
        assert len(lengths) == 1


def test_without_a_summary_release_the_best_rows_under_the_target_release_are_selected() -> None:
    """With everyone asked and the pool, greedy under a fixed direction is the best p rows of all owners together."""
    made = world(terms(**INTERACTIVE, size=6))
    outcome = carry(made)
    (release,) = [
        m.body.release for m in sent_by(outcome, "hospital", TargetRelease)[:1] if isinstance(m.body, TargetRelease)
    ]
    pooled = np.concatenate(list(made.data.values()))
    scores = KERNEL.features()(pooled).astype(np.float64) @ release
    best = pooled[np.argsort(-scores)[:6]]
    assert np.array_equal(outcome.summary.rows, best)
    assert outcome.summary.rows_seen == 18


@pytest.mark.parametrize("name", ["gaussian", "mwem", "paper"])
def test_owners_bids_follow_the_corrected_gain_with_seed_rows_counted(name: str) -> None:
    """Gain = (target - q/(q+1) summary) . h with q = seed rows + round - 1, recomputed here from what was heard."""
    made = world(terms(**{**OPTIONS[name], "seed_rows": 2}, size=5))
    outcome = carry(made)
    for owner in made.terms.owners:
        features = made.terms.kernel.features()(made.data[owner]).astype(np.float64)
        target, summary = np.zeros(16), np.zeros(16)
        bids = {m.round: m.body for m in sent_by(outcome, owner, Bid)}
        sent: set[int] = set()
        for data in outcome.heard[owner]:
            message = decode(data)
            body = message.body
            if isinstance(body, TargetRelease):
                target = body.release
            if isinstance(body, SummaryRelease):
                summary[body.coordinates] = np.clip(body.values, -16.0, 16.0)
                q = 2 + message.round - 1
                scores = features @ (target - q / (q + 1) * summary)
                scores[list(sent)] = -np.inf
                bid = bids[message.round]
                assert isinstance(bid, Bid)
                assert bid.gain == pytest.approx(scores.max(), abs=1e-3 * (1.0 + float(np.abs(summary).max())))
                best = int(scores.argmax())
            if isinstance(body, Asked) and body.asked:
                sent.add(best)


def test_a_row_waits_no_longer_than_the_paper_says() -> None:
    """With tau = ceil(3**(2/3)) = 3, an owner whose same row is outbid three times is asked for it."""
    assert auction_patience(3) == 3
    auction = {"auction": "paper", "auction_epsilon": 50.0, "accept_unproven": PAPER_PARTS}
    made = world(terms(**INTERACTIVE, **auction, size=6))
    made.data["c"] = made.data["c"] + np.float32(9.0)  # never the best, and always with the same row
    outcome = carry(made)
    asked = {m.round for m in sent_by(outcome, "curator", Asked) if m.receiver == "c" and m.body.asked}  # type: ignore[union-attr]
    assert asked == {3, 6}


manners = st.sampled_from(["honest", "missing", "liar", "silent", "short"])
others = st.fixed_dictionaries({name: st.tuples(st.integers(0, 2**32), st.integers(1, 15), manners) for name in "bc"})


def _with_others(drawn: dict[str, tuple[int, int, str]], **options: Any) -> Outcome:
    made = world(terms(**{**INTERACTIVE, **options}, size=3))
    liars: dict[str, Any] = {}
    for name, (seed, count, manner) in drawn.items():
        made.data[name] = rows(seed, 1 if manner == "short" else count)
        if manner == "missing":
            del made.data[name]
        elif manner == "silent":
            liars[name] = lambda _heard, replies: [one for one in replies if one.round % 2]
        elif manner == "liar":
            liars[name] = lambda _heard, replies: [
                replace(one, body=replace(one.body, gain=1e9)) if isinstance(one.body, Bid) else one for one in replies
            ]
    return carry(World(made.terms, made.data, made.target, QuickLedger(), CountingNoise(2)), replies_of=liars)


@settings(max_examples=examples(12))
@given(first=others, second=others)
def test_with_everyone_asked_and_nothing_released_an_owner_hears_the_same_whatever_the_others_have_and_do(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    one, other = _with_others(first), _with_others(second)
    assert one.heard["a"] == other.heard["a"]
    assert len(one.heard["a"]) == 1 + 2 * 3
    assert not [words for name, words in one.refused + other.refused if name == "a"]


def test_the_papers_settings_are_priced_as_this_project_derived() -> None:
    """The paper's settings: epsilon 3.30 at delta = 0.01 and 5.55 at 1e-5 for the target, nothing for owners' rows."""
    for delta, epsilon in ((0.01, 3.30), (1e-5, 5.55)):
        agreed = terms(
            **{
                **PAPER,
                "kernel": Kernel(3, 140, 0.1, 1, kind="paper"),
                "size": 500,
                "target_budget": Budget(1.4, delta),
                "seed_rows": 150,
            }
        )
        views = {view.view: view for view in planned_views(agreed, width_choice=None)}
        target = views[View.owners("hospital")]
        assert target.guarantee.basis is Basis.PROVEN
        assert target.guarantee.epsilon == pytest.approx(epsilon, abs=0.01)
        for name in agreed.owners:
            assert views[View.owners(name)].guarantee.basis is Basis.NONE
            assert views[View.curator(name)].rows == 500


@pytest.mark.parametrize(
    "options", [GAUSSIAN, *[{**OPTIONS["mwem"], "schedule": name} for name in ("", *mwem_mean.SCHEDULES)]]
)
def test_the_releases_of_all_rounds_are_the_event_that_is_charged(options: dict[str, Any]) -> None:
    """Round by round, where the event says the same in one word for rounds that are alike."""
    agreed = terms(**options, size=7)
    each = [plan.event for number in range(2, 8) if (plan := summary_plan(agreed, number)) is not None]
    charged = summary_event(agreed)
    assert isinstance(charged, Composition)
    parts = [part for part in charged.events if isinstance(part, Repeated)]
    assert Counter({part.event: part.times for part in parts}) == Counter(each)


@pytest.mark.parametrize("options", [GAUSSIAN, OPTIONS["mwem"]], ids=["gaussian", "mwem"])
def test_the_releases_of_all_rounds_together_spend_the_budget_of_owners(options: dict[str, Any]) -> None:
    """One row of an owner that is replaced changes two rows of the summary, and so moves a sum by 4."""
    agreed = terms(**options, size=7)
    plan, budget = summary_plan(agreed, 2), agreed.owner_budget
    assert plan is not None
    assert plan.quantity.sensitivity == 4.0
    spent = accounting.guarantee(summary_event(agreed), relation=Relation.REPLACE_ONE, delta=budget.delta).epsilon
    assert 0.999 * budget.epsilon <= spent <= budget.epsilon


@pytest.mark.parametrize("options", [GAUSSIAN, OPTIONS["mwem"]], ids=["gaussian", "mwem"])
@pytest.mark.parametrize(("unit", "delta"), [(1, 1e-5), (3, 1e-9)])
@pytest.mark.parametrize("relation", list(Relation))
def test_the_release_of_the_target_spends_its_budget_and_no_more(
    options: dict[str, Any], unit: int, delta: float, relation: Relation
) -> None:
    budgets = {"target_budget": Budget(4.0, delta)}
    agreed = terms(**{**options, **budgets, "relation": relation, "rows_per_unit": unit})
    plan, budget = target_plan(agreed), agreed.target_budget
    assert plan is not None
    assert plan.quantity.unit.rows == unit
    spent = accounting.guarantee(plan.event, relation=relation, delta=budget.delta).epsilon
    assert 0.999 * budget.epsilon <= spent <= budget.epsilon


def sent_by(outcome: Outcome, sender: str, kind: type[Any]) -> list[Message]:
    messages = [decode(data) for received in outcome.heard.values() for data in received]
    return [message for message in messages if message.sender == sender and isinstance(message.body, kind)]


def test_all_rows_of_a_run_are_charged_before_the_first_leaves_and_only_once() -> None:
    agreed = terms(**INTERACTIVE)
    with ledger_on_disk(agreed, rows=agreed.size) as ledger:
        made = world(agreed, ledger)
        carry(made)
        carry(made)
        accounts = {account.view: account for account in ledger.accounts()}
        assert {accounts[View.curator(name)].rows for name in agreed.owners} == {agreed.size}


def test_an_owner_keeps_to_the_order_of_rounds_and_takes_nothing_else() -> None:
    made = world(terms(**GAUSSIAN, seed_rows=1))
    curator, owner = made.curator(), made.owner("a")
    calls = [call for call in made.first_words(curator) if call.receiver == "a"]
    opening, first = calls
    with pytest.raises(IllegalMessage):
        owner.take(first)  # before the release of the target
    assert owner.take(opening) == ()
    with pytest.raises(IllegalMessage):
        owner.take(replace(first, body=Asked(asked=True)))  # before any bid
    with pytest.raises(IllegalMessage):
        owner.take(replace(first, round=2))
    nothing = np.empty(0, dtype=np.int64)
    for coordinates, values in (
        (np.array([16]), np.zeros(1)),
        (np.array([-1]), np.zeros(1)),
        (np.array([1, 1]), np.zeros(2)),
        (np.array([1]), np.zeros(2)),
        (np.array([1]), np.full(1, np.inf)),
        (nothing, np.zeros(1)),
    ):
        with pytest.raises(IllegalMessage):
            owner.take(replace(first, body=SummaryRelease(coordinates=coordinates, values=values)))
    with pytest.raises(IllegalMessage):
        owner.take(replace(opening, body=TargetRelease(release=np.ones(16))))  # another one in its place
    (bid,) = owner.take(first)
    (again,) = owner.take(first)
    assert bid is again
    assert isinstance(bid.body, Bid)


@pytest.mark.parametrize(
    ("options", "number"),
    [(INTERACTIVE, 1), (INTERACTIVE, 2), ({**INTERACTIVE, "seed_rows": 3}, 1), (GAUSSIAN, 1)],
    ids=["none", "none, later", "none, with seed rows", "gaussian, before there is a summary"],
)
@pytest.mark.parametrize("values", [np.zeros(1), np.ones(1), np.empty(0)], ids=["zero", "one", "coordinate alone"])
def test_an_owner_refuses_a_release_about_the_summary_that_the_terms_do_not_announce(
    options: dict[str, Any], number: int, values: NDArray[np.float64]
) -> None:
    """By directions of its choice a curator would learn rows that it never asks for, feature by feature."""
    made = world(terms(**options))
    owner = made.owner("a")

    def say(round_number: int, body: Body) -> Sequence[Message]:
        sender = "hospital" if isinstance(body, TargetRelease) else "curator"
        return owner.take(Message(made.terms.run, made.terms.digest, sender, "a", round_number, body))

    nothing = SummaryRelease(coordinates=np.empty(0, dtype=np.int64), values=np.empty(0))
    say(0, TargetRelease(release=np.ones(16)))
    for before in range(1, number):
        say(before, nothing)
        say(before, Asked(asked=False))
    with pytest.raises(IllegalMessage, match="announce no release"):
        say(number, SummaryRelease(coordinates=np.array([3]), values=values))
    (bid,) = say(number, nothing)
    assert isinstance(bid.body, Bid)


def test_an_owner_who_misses_a_step_may_take_part_in_the_next_and_late_answers_are_discarded() -> None:
    made = world(terms(**INTERACTIVE))
    curator = made.curator()
    owners = made.owners()
    held_back: list[Message] = []

    def answers(calls: tuple[Message, ...]) -> list[Message]:
        return [reply for call in calls for reply in owners[call.receiver].take(call)]

    bids = answers(made.first_words(curator))
    held_back.append(bids[1])
    curator.take(bids[0])
    curator.take(bids[2])
    asks = curator.give_up("b")  # from bidding in round 1
    assert curator.take(held_back[0]) == ()
    deliveries = answers(asks)
    assert {one.sender for one in deliveries} == {"a", "c"}
    held_back.append(deliveries[0])
    curator.take(deliveries[1])
    second = answers(curator.give_up("a"))  # from delivering in round 1
    assert {one.sender for one in second} == {"a", "b", "c"}
    before = curator.party.rows_seen
    assert curator.take(held_back[1]) == ()  # late in the next round, and its sender is waited for
    assert curator.party.rows_seen == before + 1  # discarded, but seen
    assert curator.party.waiting_for == {"a", "b", "c"}
    assert curator.give_up("nobody") == ()


def test_a_row_that_does_not_come_leaves_the_divisor_of_the_released_mean() -> None:
    """No row comes after the first round. Without noise the mean of round n has length 1/(n - 1) all the same."""

    class Silent(CountingNoise):
        def discrete_gaussian(self, sigma: float, size: int) -> Integers:
            return 0 * super().discrete_gaussian(sigma, size)

    made = world(terms(**{**GAUSSIAN, "owners": ("a",)}, size=5))
    made.noise = Silent()
    outcome = carry(made, replies_of={"a": lambda _heard, replies: [reply for reply in replies if reply.round < 2]})
    mean = np.zeros(made.terms.kernel.dimension)
    lengths = []
    for message in sent_by(outcome, "curator", SummaryRelease):
        release = message.body
        assert isinstance(release, SummaryRelease)
        mean[release.coordinates] = release.values
        lengths.append(float(np.linalg.norm(mean)))
    assert lengths == pytest.approx([0.0, 1.0, 1 / 2, 1 / 3, 1 / 4], abs=1e-5)


@pytest.mark.parametrize("release", ["gaussian", "mwem"])
def test_rounds_without_a_row_still_count(release: str) -> None:
    """Nobody is asked in the first two rounds: releases go on, the divisor is the public number of the round."""

    class LowAtFirst(CountingNoise):
        asked = 0

        def discrete_laplace(self, scale: float, size: int) -> Integers:
            if scale != 1.0 / 8.0:
                return super().discrete_laplace(scale, size)
            self.asked += 1
            return np.full(size, -9 if self.asked <= 2 else 0)

    options = {"gaussian": OPTIONS["threshold-gaussian"], "mwem": {**OPTIONS["mwem"], **THRESHOLD, "seed_rows": 0}}
    made = world(terms(**options[release], size=5))
    made.noise = LowAtFirst()
    outcome = carry(made)
    assert len(outcome.summary.rows) == 3
    assert len(outcome.summary.flagged) == 0
    assert not outcome.refused


def test_an_owner_who_misses_a_step_is_out_where_something_is_released_about_the_summary() -> None:
    made = world(terms(**GAUSSIAN, size=5))
    made.data["b"] = made.target[:12].copy()
    outcome = carry(made, replies_of={"b": lambda _heard, replies: [one for one in replies if one.round != 2]})
    assert outcome.summary.owners.tolist().count(1) <= 1  # what joined the summary before it went
    asked = {m.round: m.body.asked for m in sent_by(outcome, "curator", Asked) if m.receiver == "b"}  # type: ignore[union-attr]
    assert asked == {1: True, 3: False, 4: False, 5: False}  # to a bid that did not come there is no answer


def test_rows_at_hand_of_an_owner_who_misses_a_step_are_out_with_it() -> None:
    """Equal rows are chosen by owner: in the second round the row of b would be."""
    made = world(terms(**GAUSSIAN, size=5))
    made.data = dict.fromkeys(("a", "b"), made.target[:1])
    assert carry(made).summary.owners.tolist() == [0, 1]
    made.ledger = QuickLedger()
    outcome = carry(made, replies_of={"b": lambda _heard, replies: [one for one in replies if one.round != 2]})
    assert outcome.summary.owners.tolist() == [0]


@pytest.mark.parametrize("seeds", [None, rows(1, 2), rows(1, 3)[:, :2], np.full((3, 3), np.nan), rows(98, 3)])
def test_seed_rows_must_be_those_of_the_terms(seeds: Any) -> None:
    with pytest.raises(InvalidArgument, match="seed_rows"):
        InteractiveCurator(terms(**INTERACTIVE, seed_rows=3), noise=CountingNoise(), seed_rows=seeds)


STREAM: dict[str, Any] = {
    "protocol": "interactive",
    "summary_release": "gaussian",
    "owner_budget": Budget(50.0, 1e-5),
    "kernel": Kernel(columns=2, dimension=4, gamma=0.5, seed=7),
    "size": 10,
    "owners": ("a", "b"),
}


def _chosen(made: World, *, missed: set[tuple[str, int, str]]) -> Counter[bytes]:
    """The rows of the summary; messages of these (owner, round, kind) are lost."""

    def lossy(message: Message) -> list[Message]:
        lost = isinstance(message.body, Bid | Delivery) and (message.sender, message.round, message.body.kind) in missed
        return [] if lost else [message]

    outcome = carry(made, tamper=lossy)
    return Counter(row.tobytes() for row in outcome.summary.rows)


def _with_row(made: World, row: NDArray[np.float32], *, replaces: int | None) -> World:
    """The neighbour: one more row at owner a, or another one in the place of one; same releases.

    What the curator drew is drawn the same; what owners sent is their own, and they never lived in the other world.
    """
    data = dict(made.data)
    if replaces is None:
        data["a"] = np.vstack([data["a"], row[None, :]])
    else:
        data["a"] = data["a"].copy()
        data["a"][replaces] = row
    ledger = QuickLedger()
    assert isinstance(made.ledger, QuickLedger)
    ledger.answers = {
        key: kept for key, kept in made.ledger.answers.items() if key.split("/")[1][:3] not in ("bid", "del")
    }
    return World(made.terms, data, made.target, ledger, made.noise)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("release", [pytest.param("gaussian", marks=pytest.mark.slow), "mwem"])
def test_a_row_moves_no_more_rows_of_a_summary_than_its_noise_is_made_for(release: str, relation: Relation) -> None:
    """Also if its owner misses steps: it lags behind its neighbour, and each round that it missed could change one."""
    kernel = Kernel(columns=2, dimension=4, gamma=0.5, seed=7, kind="paper" if release == "mwem" else "paired")
    bound = 1 if relation is Relation.ADD_OR_REMOVE else 2
    coins = pinned_coins("unbought rows")
    for case in range(examples(8)):
        agreed = terms(**{**STREAM, "kernel": kernel, "summary_release": release, "relation": relation})
        made = world(agreed, QuickLedger(), count=14, noise_seed=case)
        made.data = {name: rows(1000 * case + place, 14, columns=2) for place, name in enumerate(agreed.owners)}
        made.target = rows(5, agreed.target_size, columns=2)
        missed = {
            ("a", number, str(coins.choice(["bid", "delivery"])))
            for number in range(1, agreed.size + 1)
            if coins.random() < 0.4 and case % 2
        }
        first = _chosen(made, missed=missed)
        other = rows(9000 + case, 1, columns=2)[0]
        neighbour = _with_row(made, other, replaces=None if relation is Relation.ADD_OR_REMOVE else 0)
        second = _chosen(neighbour, missed=missed)
        plan = summary_plan(agreed, 3)
        assert plan is not None
        assert sum((first - second).values()) <= bound == plan.quantity.sensitivity / 2.0, case


def test_an_owner_who_misses_a_step_is_out_only_where_the_summary_is_released() -> None:
    agreed = terms(protocol="interactive", size=3)
    made = world(agreed, QuickLedger())
    outcome = carry(made, tamper=lambda message: [] if (message.sender, message.round) == ("a", 1) else [message])
    assert 0 in outcome.summary.owners


@pytest.mark.parametrize("size", [1e2, 1e4, 1e7])
def test_an_honest_owner_is_believed_whatever_its_rows_are(size: float) -> None:
    """If one row could get its owner dropped, that row would decide about all others."""
    kernel = Kernel(columns=20, dimension=16, gamma=0.05, seed=7)
    agreed = terms(**{**STREAM, "kernel": kernel, "size": 6})
    made = world(agreed, QuickLedger())
    made.data["a"] = made.data["a"] * np.float32(size)
    outcome = carry(made)
    assert outcome.curator.party.flags == []
    assert 0 in outcome.summary.owners or outcome.curator.party.rows_seen == 2 * agreed.size


def test_a_row_that_float32_cannot_hold_is_not_offered_and_its_owner_stays() -> None:
    agreed = terms(**{**STREAM, "size": 6})
    made = world(agreed, QuickLedger())
    wide = made.data["a"].astype(np.float64)
    wide[0] = 1e30  # within what an owner's table may hold, beyond what a message may
    made.data["a"] = wide  # type: ignore[assignment]
    outcome = carry(made)
    assert outcome.curator.party.flags == []
    assert outcome.curator.party.rows_seen == 2 * agreed.size


@pytest.mark.parametrize("release", ["gaussian", "mwem"])
def test_what_a_row_adds_to_the_released_sum_does_not_depend_on_the_rows_around_it(
    release: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Features computed in one product with other rows differ in their last bits, and far more for large rows."""
    kind = "paper" if release == "mwem" else "paired"
    kernel = Kernel(columns=20, dimension=16, gamma=0.05, seed=7, kind=kind)  # type: ignore[arg-type]
    agreed = terms(
        **{**STREAM, "kernel": kernel, "summary_release": release, "size": 12, "relation": Relation.REPLACE_ONE}
    )
    made = world(agreed, QuickLedger())
    made.data = {name: data * np.float32(1e4) for name, data in made.data.items()}
    curator = made.curator()
    assert isinstance(curator.party, InteractiveCurator)
    seen: list[NDArray[np.float32]] = []
    module = "likeset.protocol.interactive." + ("mwem_mean" if release == "mwem" else "gaussian_mean")
    true_run = (mwem_mean if release == "mwem" else gaussian_mean).run

    def spying(plan: Any, features: NDArray[np.float32], noise: Any, **more: Any) -> Any:
        seen.append(features.copy())
        return true_run(plan, features, noise, **more)

    monkeypatch.setattr(f"{module}.run", spying)
    carry(made, parties={"curator": curator, agreed.consumer: made.consumer(), **made.owners()})
    seen.pop(0)  # the target's
    assert len(seen) == agreed.size - 1
    for earlier, later in pairwise(seen):
        assert (later[: len(earlier)] == earlier).all()


def _is_accepted(direction: NDArray[np.float64]) -> bool:
    try:
        direction_on_lattice(direction)
    except IllegalMessage:
        return False
    return True


def test_scores_are_exact_for_the_longest_directions_that_are_accepted() -> None:
    """An owner adds up differences of directions, a curator takes the last one: both must be whole numbers, exactly."""
    coins = public_coins(0)
    unit = coins.normal(size=8)
    unit *= (1.0 - 1e-9) / np.linalg.norm(unit)
    long = next(length * unit for length in 2.0 ** np.arange(40, 0, -1) if _is_accepted(length * unit))
    lines = features_on_lattice((np.sign(long) / 2.0).astype(np.float32))[:, None]  # of length sqrt(2)
    before, after = direction_on_lattice(-long), direction_on_lattice(long)
    true = sum(int(one) * int(two) for one, two in zip(after, lines[:, 0], strict=True))
    assert int(exact_sums(before, lines)[0] + exact_sums(after - before, lines)[0]) == true
    steps = [int(one) * int(two) for one, two in zip(after - before, lines[:, 0], strict=True)]
    assert max(abs(part) for part in np.cumsum(np.array(steps, dtype=object))) <= 2**53


def test_an_owner_that_starts_anew_and_hears_another_story_sends_no_other_rows() -> None:
    """All rows of a run are charged at once: rows sent in another round's place would leave uncharged."""
    agreed = terms(**{**STREAM, "size": 2})
    with ledger_on_disk(agreed, rows=2) as ledger:
        made = world(agreed, ledger)
        left: set[bytes] = set()
        refused = 0
        for attempt in range(4):
            owner = made.owner("a")  # as after a crash: it remembers what its ledger holds, and nothing else
            story = public_coins(attempt)
            owner.take(_said(made, 0, TargetRelease(release=np.ones(4))))
            for number in (1, 2):
                told = story.normal(size=4) if number > 1 else np.empty(0)
                coordinates = np.arange(len(told))
                try:
                    owner.take(_said(made, number, SummaryRelease(coordinates=coordinates, values=told)))
                    (reply,) = owner.take(_said(made, number, Asked(asked=True)))
                except DifferentRequest:
                    refused += 1
                    break
                assert isinstance(reply.body, Delivery)
                left.add(reply.body.rows.tobytes())
        assert len(left) == 2
        assert refused == 3


def _said(made: World, number: int, body: Body) -> Message:
    sender = made.terms.consumer if isinstance(body, TargetRelease) else CURATOR
    return Message(made.terms.run, made.terms.digest, sender, "a", number, body)
