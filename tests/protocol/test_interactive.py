"""``interactive``: Algorithm 3 round by round, with the sound options and with the paper's own."""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interactive_options import GAUSSIAN, INTERACTIVE, OPTIONS, sent_by
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

from chance import examples
from likeset.errors import UnprovenPart
from likeset.ledger.budget import Limit
from likeset.privacy import accounting, mwem_mean
from likeset.privacy.auction import auction_patience
from likeset.privacy.events import Composition, Event, Relation, Repeated
from likeset.privacy.guarantee import Basis, Guarantee, View
from likeset.protocol.prices import planned_views, summary_event, summary_plan, target_plan
from likeset.protocol.terms import Budget, Kernel
from likeset.protocol.wire import Asked, Bid, Delivery, Message, SummaryRelease, TargetRelease, decode


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


@pytest.mark.parametrize("options", [GAUSSIAN, THRESHOLD], ids=["summary-release", "threshold"])
def test_with_other_options_an_owner_does_hear_something_about_the_others(options: dict[str, Any]) -> None:
    """So the comparison above can fail."""
    heard = [_with_others(dict.fromkeys("bc", (seed, 12, "honest")), **options).heard["a"] for seed in range(6)]
    assert any(one != heard[0] for one in heard)


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


def test_the_papers_settings_run_end_to_end_and_say_what_they_are() -> None:
    agreed = terms(**PAPER)
    with ledger_on_disk(agreed) as ledger:
        outcome = carry(world(agreed, ledger))
        assert len(outcome.summary.rows) > 0
        accounts = {account.view: account for account in ledger.accounts()}
        for name in agreed.owners:
            assert accounts[View.owners(name)].unproven
            assert accounts[View.owners(name)].basis is Basis.NONE
            assert accounts[View.curator(name)].rows == agreed.rows_per_owner
    views = {view.view: view for view in planned_views(agreed, width_choice=None)}
    plan = target_plan(agreed)
    assert plan is not None
    expected = accounting.guarantee(plan.event, relation=Relation.REPLACE_ONE, delta=agreed.target_budget.delta)
    assert views[View.owners("hospital")].guarantee == expected
    simulated = {view.view: view for view in planned_views(agreed, width_choice=None, simulated=True)}
    assert simulated[View.owners("hospital")].guarantee.basis is Basis.NONE


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


@pytest.mark.parametrize("owners", [2, 40])
def test_a_release_to_all_owners_is_priced_once(owners: int, monkeypatch: pytest.MonkeyPatch) -> None:
    agreed = terms(**GAUSSIAN, owners=tuple(f"o{place}" for place in range(owners)))
    planned_views(agreed, width_choice=None)  # its noise is calibrated, once for all
    priced, guarantee = [], accounting.guarantee

    def noted(event: Event, **facts: Any) -> Guarantee:
        priced.append(event)
        return guarantee(event, **facts)

    monkeypatch.setattr(accounting, "guarantee", noted)
    assert len(planned_views(agreed, width_choice=None)) == 3 * owners + 2
    assert len(priced) == 5, "the target, what owners hear, and rows that curator and consumer see, and the target's"


def test_an_account_that_does_not_accept_the_papers_parts_gives_nothing_to_owners() -> None:
    """The ledger has the last word: it refuses before anything about an owner's rows was drawn."""
    agreed = terms(**PAPER)
    with ledger_on_disk(agreed) as ledger:
        for name in agreed.owners:
            ledger.set_limit(View.owners(name), Limit(1.0, 1e-5, Relation.REPLACE_ONE))
        made = world(agreed, ledger)
        with pytest.raises((UnprovenPart, AssertionError)):
            carry(made)
        accounts = {account.view: account for account in ledger.accounts()}
        assert all(accounts[View.owners(name)].unproven == () for name in agreed.owners)


def test_a_row_that_is_not_asked_for_tells_one_number_however_many_rounds_there_are() -> None:
    """With nothing released, the direction is that of the target's release from the first round to the last."""
    made = world(terms(**INTERACTIVE, size=9))
    owner = made.owner("a")
    bids = set()
    owner.take(Message(made.terms.run, made.terms.digest, "hospital", "a", 0, TargetRelease(release=np.ones(16))))
    for number in range(1, 10):
        for body in (SummaryRelease(coordinates=np.empty(0, dtype=np.int64), values=np.empty(0)), Asked(asked=False)):
            replies = owner.take(Message(made.terms.run, made.terms.digest, "curator", "a", number, body))
            bids |= {(reply.body.gain, reply.body.handle) for reply in replies if isinstance(reply.body, Bid)}
    assert len(bids) == 1
