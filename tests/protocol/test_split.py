"""A split run: the same rows as with a trusted curator, whoever comes late, stays away or is started again."""

import dataclasses
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from protocol_world import CONSUMER, QuickLedger, ledger_on_disk, rows
from shared_run_world import (
    DECLARED,
    GAMMA,
    SharedRun,
    Told,
    carry_shares,
    clear_picks,
    not_ready,
    secret_of,
    shared_run,
    split_run,
    table_of,
)

from likeset.errors import IllegalMessage, InvalidArgument
from likeset.geometry.selection import Selection
from likeset.ledger.ledger import Ledger
from likeset.privacy.events import Relation, View
from likeset.protocol import split as split_owner
from likeset.protocol.party import ComputeState
from likeset.protocol.split import (
    OWNERS,
    ComputeParty,
    OpenedSlots,
    make_curator,
    most_part_bytes,
    offer_context,
    offer_shape,
    party_name,
    records_of_run,
    slots_in,
)
from likeset.protocol.terms import Terms
from likeset.protocol.wire import (
    Envelopes,
    Message,
    OfferShare,
    PicksOpened,
    RosterVote,
    ShareReceipts,
    Summary,
    TargetShare,
    decode,
)
from likeset.tables.scan import MemoryScan
from likeset.trust import shares
from likeset.trust.shares import ComputeRole, OfferPart, Roster, Words, list_entries, lists_in, share_offer, split_words


def summary_of(told: Told) -> Summary:
    assert told.refused == []
    return told.summary


def test_the_rows_bought_are_those_that_greedy_takes_from_all_that_owners_have() -> None:
    """Each owner offers all its rows, so greedy in the clear over all rows of all owners picks the same."""
    agreed = split_run(offer_factor=9.0)
    run = shared_run(agreed)
    summary = summary_of(carry_shares(run))
    assert offer_shape(agreed).slots == 12
    pool = np.concatenate([run.data[name] for name in agreed.owners])
    expected = Selection(gamma=GAMMA, swaps=0).select(pool, run.target, agreed.size)
    assert np.array_equal(summary.rows, pool[expected.indices])
    assert summary.owners.tolist() == [index // 12 for index in expected.indices]
    assert summary.squared_mmds == pytest.approx(expected.squared_mmds, abs=1e-6)
    assert summary.gains == pytest.approx(expected.gains, abs=1e-6)
    assert summary.rows_seen == 36
    assert len(summary.absent) == len(summary.flagged) == 0
    assert math.isnan(summary.held_out_error)


def test_everybody_ends_settled_knows_the_others_workers_and_owners_find_their_rows() -> None:
    run = shared_run(split_run())
    told = carry_shares(run)
    summary = summary_of(told)
    for name in (CONSUMER, "curator", "witness"):
        assert told.parties[name].party.finished
        others = {"curator", "consumer", "witness"} - {told.parties[name].party.role}
        assert told.parties[name].party.reaches == {role: f"{role}'s worker".encode() for role in others}
    for row, place, handle in zip(summary.rows, summary.owners, summary.handles, strict=True):
        name = run.terms.owners[place]
        number = told.parties[name].party.row_of(int(handle))
        assert np.array_equal(run.data[name][number], row)


def test_labels_come_back_with_their_rows() -> None:
    run = shared_run(split_run(), labels={name: np.array([f"{name} {row}" for row in range(12)]) for name in "abc"})
    told = carry_shares(run)
    summary = summary_of(told)
    for label, place, handle in zip(summary.labels, summary.owners, summary.handles, strict=True):
        name = run.terms.owners[place]
        assert label == run.labels[name][told.parties[name].party.row_of(int(handle))]


def test_the_bytes_that_were_told_beforehand_are_enough_and_not_many_more() -> None:
    agreed = split_run()
    told = carry_shares(shared_run(agreed))
    names = [CONSUMER, "curator", "witness"]
    sent = {
        name: next(len(message.body.part) for message in map(decode, told.heard[name]) if message.sender == "b")  # type: ignore[union-attr]
        for name in names
    }
    bounds = dict(zip(("curator", CONSUMER, "witness"), most_part_bytes(agreed), strict=False))
    for name in names:
        assert sent[name] <= bounds[name] <= sent[name] + 1024


def test_fewer_valid_rows_than_picks_give_a_shorter_summary() -> None:
    run = shared_run(split_run(size=12, offer_factor=3.0))
    run.data = {name: data[:2] for name, data in run.data.items()}
    assert len(summary_of(carry_shares(run)).rows) == 6


def test_an_owner_who_says_nothing_is_absent_and_the_others_are_computed_on() -> None:
    run = shared_run(split_run())
    del run.data["b"]
    summary = summary_of(carry_shares(run))
    assert summary.absent.tolist() == [1]
    assert summary.rows_seen == 8
    assert 1 not in summary.owners


@pytest.mark.parametrize("lost", [("curator",), ("witness",), (CONSUMER,)])
def test_a_part_that_one_compute_party_never_gets_leaves_its_owner_out_everywhere(lost: tuple[str, ...]) -> None:
    run = shared_run(split_run())
    told = carry_shares(
        run, tamper=lambda message: [] if message.sender == "b" and message.receiver in lost else [message]
    )
    summary = summary_of(told)
    assert 1 not in summary.owners
    assert summary.rows_seen == 8
    if lost != (CONSUMER,):
        assert lost[0] in told.faults(CONSUMER)["b"]
        assert "acknowledged no part" in told.faults(CONSUMER)["b"]


def test_a_part_that_comes_late_is_not_used() -> None:
    run = shared_run(split_run())
    kept: list[Message] = []

    def delayed(message: Message) -> list[Message]:
        if message.sender == "b":
            kept.append(message)
            return []
        return [message]

    told = carry_shares(run, tamper=delayed)
    for message in kept:
        assert told.parties[message.receiver].take(message) == ()
    assert len(told.summary.rows) == run.terms.size


@pytest.mark.parametrize("order", range(3))
def test_parts_receipts_and_votes_may_overtake_each_other(order: int) -> None:
    """Letters of different senders come in any order, those of one sender in theirs; the rows are the same."""
    expected = summary_of(carry_shares(shared_run(split_run())))
    run = shared_run(split_run())
    parties = run.parties()
    coins = np.random.default_rng(order)
    lines: dict[tuple[str, str], list[Message]] = {}

    def post(said: Any) -> None:
        for message in said:
            lines.setdefault((message.sender, message.receiver), []).append(message)

    post(parties[CONSUMER].start())
    while any(lines.values()):
        chosen = sorted(pair for pair in lines if lines[pair])
        message = lines[chosen[coins.integers(len(chosen))]].pop(0)
        post(parties[message.receiver].take(message))
    computing = [parties[name] for name in (CONSUMER, "curator", "witness")]
    assert all(shell.party.is_ready for shell in computing)
    parties[CONSUMER].opened(clear_picks({shell.party.role: shell.party.inputs() for shell in computing}))
    summary = parties[CONSUMER].party.summary
    assert np.array_equal(summary.rows, expected.rows)


def test_each_party_made_anew_and_told_the_same_says_the_same() -> None:
    """Whatever it heard before a crash brings it to where it was, and to the same bytes."""
    run = shared_run(split_run())
    first = carry_shares(run)
    again = run.parties()
    started = [message.data for message in again[CONSUMER].start()]
    assert started == [message.data for message in first.consumer.start()]
    for name, heard in first.heard.items():
        replies = [reply.data for data in heard for reply in again[name].take(decode(data))]
        repeated = [reply.data for data in heard for reply in first.parties[name].take(decode(data))]
        assert replies == repeated
        if name not in run.terms.owners and name != CONSUMER:
            assert again[name].party.position == first.parties[name].party.position
    assert again[CONSUMER].party.position.state is ComputeState.READY


def test_an_offer_is_charged_before_its_shares_are_drawn_and_drawn_shares_are_sent_again() -> None:
    agreed = split_run()
    with ledger_on_disk(agreed) as ledger:
        run = shared_run(agreed, ledger)
        release = next(message for message in run.consumer().start() if message.receiver == "a")
        first = run.owner("a").take(release)
        assert len(first) == 3
        again = run.owner("a").take(release)
        assert [message.data for message in again] == [message.data for message in first]
        assert _offered(ledger) == agreed.rows_per_owner


def test_a_crash_while_shares_are_drawn_costs_once_and_nothing_had_left(monkeypatch: pytest.MonkeyPatch) -> None:
    agreed = split_run()

    def interrupted(*_: Any, **__: Any) -> Any:
        raise RuntimeError("killed")

    with ledger_on_disk(agreed) as ledger:
        run = shared_run(agreed, ledger)
        release = next(message for message in run.consumer().start() if message.receiver == "a")
        with monkeypatch.context() as patched:
            patched.setattr(split_owner, "share_offer", interrupted)
            with pytest.raises(RuntimeError):
                run.owner("a").take(release)
        assert _offered(ledger) == agreed.rows_per_owner
        assert len(run.owner("a").take(release)) == 3
        assert _offered(ledger) == agreed.rows_per_owner


def _offered(ledger: Ledger) -> int:
    return next(account.rows for account in ledger.accounts() if account.view == View.curator("a"))


def test_the_size_of_a_protected_target_may_be_another_than_declared() -> None:
    agreed = split_run(relation=Relation.ADD_OR_REMOVE, offers="uniform")
    run = shared_run(agreed)
    run.target = run.target[:20]
    assert len(summary_of(carry_shares(run)).rows) == agreed.size


def test_a_target_beyond_the_range_of_the_terms_is_refused_at_home() -> None:
    run = shared_run(split_run())
    run.target[0, 0] = 31.0
    with pytest.raises(InvalidArgument, match=r"^target"):
        run.consumer()


def test_parties_of_a_trusted_run_are_not_those_of_a_split_one() -> None:
    run, secret = shared_run(split_run()), secret_of("a")
    trusted = replace(run.terms, split=None)
    with pytest.raises(IllegalMessage, match="split curator"):
        make_curator(run.terms, noise=run.consumer().party._noise, fold_key=11)
    with pytest.raises(IllegalMessage, match="trusted"):
        ComputeParty(trusted, "curator", secret=secret_of("curator"), cards=run.cards)
    for signing in (None, secret):
        with pytest.raises(InvalidArgument, match="card"):
            OWNERS["split"](run.terms, "b", scan=MemoryScan(run.data["b"], None), key=1, secret=signing)
    with pytest.raises(InvalidArgument, match="card"):
        ComputeParty(run.terms, "curator", secret=secret, cards=run.cards)


Parts = Mapping[ComputeRole, OfferPart]

AGREED = split_run()
LIAR = "b"
NEAR = np.array([[0.01, -0.59, 0.21], [0.43, 1.01, 1.58]], dtype=np.float32)
"""Where two rows of the target lie: what a liar lets the program see is picked, and stays when picks are swapped."""


def records_of(sold: Any, handles: Sequence[int] = (1, 2)) -> list[bytes]:
    labels = np.array(["kind"] * len(sold))
    return records_of_run(AGREED, DECLARED).encode(table_of(sold), labels, np.array(handles, dtype=np.uint64))


def shared_by(name: str = LIAR, *, seen: Any = NEAR, sold: Any = NEAR, handles: Sequence[int] = (1, 2)) -> Parts:
    """An offer whose shares are of some rows, and whose records are of others."""
    records = records_of(sold, handles)
    shape = offer_shape(AGREED)
    context = offer_context(AGREED, name)
    return share_offer(secret_of(name), context=context, shape=shape, rows=seen, records=records)


def sending(shared: Parts, name: str = LIAR, agreed: Terms = AGREED) -> Callable[[Message], list[Message]]:
    parts = {party_name(agreed, role): part for role, part in shared.items()}

    def lie(message: Message) -> list[Message]:
        if message.sender != name:
            return [message]
        part = np.frombuffer(parts[message.receiver].to_bytes(), dtype=np.uint8)
        return [dataclasses.replace(message, body=OfferShare(part=part))]

    return lie


def carried(shared: Parts, run: SharedRun | None = None) -> Told:
    return carry_shares(run or shared_run(AGREED), tamper=sending(shared))


def bytes_of(data: bytes) -> Any:
    return np.frombuffer(data, dtype=np.uint8)


def check_left_out(told: Told, words: str, *, bought: int | None = None) -> None:
    """The liar's rows are not in the summary, the liar is named with the reason, and all others were bought from."""
    summary = told.summary
    assert 1 not in summary.owners
    assert summary.flagged.tolist() == [1]
    assert words in str(summary.reasons[0])
    assert len(summary.rows) == (AGREED.size if bought is None else bought)


def forged(monkeypatch: pytest.MonkeyPatch, step: str, forger: Any) -> Parts:
    """The liar's offer, with one step of its making done otherwise; all other owners stay honest."""
    with monkeypatch.context() as patched:
        patched.setattr(shares, step, forger)
        return shared_by()


def test_the_liar_in_these_tests_would_be_bought_from_if_it_were_honest() -> None:
    assert 1 in carried(shared_by()).summary.owners


def test_shares_that_do_not_belong_to_the_records() -> None:
    """The program sees rows like the target, the envelopes hold others: the checksum of what was picked tells."""
    told = carried(shared_by(sold=NEAR + np.float32(1.0)))
    check_left_out(told, "does not make the row that was computed on", bought=_others_bought(told))


@pytest.mark.parametrize("number", [2.0**21, 3.0e38])
def test_records_with_numbers_that_nobody_could_share(number: float) -> None:
    """They are left out like any other lie: the rows that honest owners sold are bought all the same."""
    told = carried(shared_by(sold=np.full_like(NEAR, number)))
    check_left_out(told, "does not open to a record", bought=_others_bought(told))


def _others_bought(told: Told) -> int:
    assert 0 < len(told.summary.rows) < AGREED.size  # the liar's picks are left out, and not made up for
    return len(told.summary.rows)


def test_a_valid_bit_that_is_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """No slot but one whose bit is exactly 1 is ever picked."""

    def doubled(words: Words) -> tuple[Words, ...]:
        words[:, offer_shape(AGREED).columns] *= np.uint64(2)
        return split_words(words)

    summary = carried(forged(monkeypatch, "split_words", doubled)).summary
    assert 1 not in summary.owners
    assert len(summary.rows) == AGREED.size


@pytest.mark.parametrize("honest_record", [True, False])
def test_a_row_far_out_of_range(*, honest_record: bool) -> None:
    """It never counts, though everything that does is picked."""
    far = NEAR * np.float32(1e5)
    run = shared_run(split_run(size=12, offer_factor=3.0))
    run.data = {name: data[:3] for name, data in run.data.items()}  # fewer rows than picks: everything is picked
    agreed = run.terms
    records = records_of(far if honest_record else NEAR)
    shared = share_offer(
        secret_of(LIAR), context=offer_context(agreed, LIAR), shape=offer_shape(agreed), rows=far, records=records
    )
    summary = carry_shares(run, tamper=sending(shared, agreed=agreed)).summary
    assert sorted(summary.owners.tolist()) == [0, 0, 0, 2, 2, 2]
    assert not summary.flagged.size


def test_shares_that_differ_between_parties() -> None:
    """Two offers, each sound by itself: no party sees it alone, the receipts together tell."""
    first, second = shared_by(), shared_by()
    told = carried({**first, "witness": second["witness"]})
    for name in (CONSUMER, "curator", "witness"):
        assert "different lists" in told.faults(name)[LIAR]
    check_left_out(told, "different lists")


def test_parts_that_are_for_another_party_or_nothing_at_all() -> None:
    shared = shared_by()
    for data, slots in ((shared["consumer"].to_bytes(), offer_shape(AGREED).slots), (b"", 0), (b"\0" * 1000, 0)):
        assert slots_in(OfferShare(part=bytes_of(data))) == slots

        def lie(message: Message, data: bytes = data) -> list[Message]:
            wrong = message.sender == LIAR and message.receiver == "witness"
            return [dataclasses.replace(message, body=OfferShare(part=bytes_of(data))) if wrong else message]

        told = carry_shares(shared_run(AGREED), tamper=lie)
        assert "a part that is not used" in told.faults("witness")[LIAR]
        assert 1 not in told.summary.owners


@pytest.mark.parametrize("how", ["swapped", "withheld", "short", "another owner's"])
def test_a_curator_that_swaps_or_withholds_envelopes(how: str) -> None:
    """The consumer has the digest of each from its owner. It computes only when it holds all: nothing was opened."""
    shape = offer_shape(AGREED)
    whole = shape.envelope_bytes * shape.slots

    def lie(message: Message) -> list[Message]:
        if not isinstance(message.body, Envelopes):
            return [message]
        data = message.body.envelopes.tobytes()
        lies = {
            "swapped": data[shape.envelope_bytes : 2 * shape.envelope_bytes]
            + data[: shape.envelope_bytes]
            + data[2 * shape.envelope_bytes :],
            "short": data[:-1],
            "another owner's": data[whole : 2 * whole] + data[:whole] + data[2 * whole :],
        }
        return [] if how == "withheld" else [dataclasses.replace(message, body=Envelopes(bytes_of(lies[how])))]

    ledger = QuickLedger()
    told = carry_shares(shared_run(AGREED, ledger), tamper=lie)
    assert not_ready(told)
    assert [name for name, _ in told.refused] == ([] if how == "withheld" else [CONSUMER])
    assert len(ledger.answers) == 5  # the release, the target's shares and one offer of each owner: nothing more


def lying_receipts(role: ComputeRole, change: Callable[[dict[str, bytes]], dict[str, bytes] | bytes]) -> Any:
    """A compute party that tells everybody of other lists than it has."""

    def lie(message: Message) -> list[Message]:
        if not isinstance(message.body, ShareReceipts) or message.sender != party_name(AGREED, role):
            return [message]
        said = change(dict(lists_in(message.body.receipts.tobytes())))
        body = ShareReceipts(bytes_of(said if isinstance(said, bytes) else list_entries(said)))
        return [dataclasses.replace(message, body=body)]

    return lie


def test_a_curator_that_swaps_lists() -> None:
    """It acknowledges a list that no owner signed: the others hold another one, so the owner is left out, and named."""
    other = {AGREED.cards[LIAR]: hashlib.sha256(b"another list").digest()}
    told = carry_shares(shared_run(AGREED), tamper=lying_receipts("curator", lambda lists: {**lists, **other}))
    assert "different lists" in told.faults(CONSUMER)[LIAR]
    assert not_ready(told)  # to itself the curator said otherwise, so it signs another roster, and is found out
    assert any("curator" in words and "roster" in words for _, words in told.refused)


def test_receipts_that_name_nobody_or_somebody_twice() -> None:
    stranger = secret_of("stranger").card.fingerprint
    lies: list[Callable[[dict[str, bytes]], dict[str, bytes] | bytes]] = [
        lambda lists: {**lists, stranger: bytes(32)},
        lambda lists: list_entries(lists) + list_entries(lists)[-57:],
        lambda lists: list_entries(lists)[57:] + list_entries(lists)[:57],
        lambda lists: list_entries(lists)[:-1],
    ]
    for change in lies:
        told = carry_shares(shared_run(AGREED), tamper=lying_receipts("witness", change))
        assert not_ready(told)
        assert {name for name, _ in told.refused} == {CONSUMER, "curator"}


def lying_vote(role: ComputeRole, lists: Callable[[Roster], dict[str, bytes]], *, to: str = "") -> Any:
    """A compute party that signs another roster than the one of the receipts."""

    def lie(message: Message) -> list[Message]:
        body = message.body
        if not isinstance(body, RosterVote) or message.sender != party_name(AGREED, role):
            return [message]
        if to and message.receiver != to:
            return [message]
        honest = Roster.from_bytes(body.roster.tobytes())
        vote = dataclasses.replace(honest, lists=lists(honest)).signed_by(secret_of(message.sender))
        return [dataclasses.replace(message, body=RosterVote(roster=bytes_of(vote.to_bytes()), reach=body.reach))]

    return lie


def without_liar(roster: Roster) -> dict[str, bytes]:
    return {owner: digest for owner, digest in roster.lists.items() if owner != AGREED.cards[LIAR]}


@pytest.mark.parametrize("role", ["curator", "consumer", "witness"])
def test_a_roster_that_drops_an_owner_or_a_party_that_denies_its_receipt(role: ComputeRole) -> None:
    """It said that it had its part. Nobody computes, nothing is opened."""
    told = carry_shares(shared_run(AGREED), tamper=lying_vote(role, without_liar))
    assert not_ready(told)
    assert {name for name, _ in told.refused} == {CONSUMER, "curator", "witness"} - {party_name(AGREED, role)}
    assert all("not the one that follows" in words for _, words in told.refused)


def other_target() -> list[Message]:
    """What a consumer says that threw its ledger away and comes back with another target."""
    again = shared_run(AGREED)
    again.target = rows(77, AGREED.target_size, shift=2.0)
    return [message for message in again.consumer().start() if isinstance(message.body, TargetShare)]


def test_a_consumer_that_comes_back_with_another_target() -> None:
    run = shared_run(AGREED)
    told = carry_shares(run)
    for message in other_target():
        with pytest.raises(IllegalMessage, match="another one came in its place"):
            told.parties[message.receiver].take(message)


def test_a_consumer_that_tells_one_party_another_target() -> None:
    """What each put in has another digest: the workers refuse to compute together, before any input is used."""
    run = shared_run(AGREED)
    second = {message.receiver: message for message in other_target()}

    def lie(message: Message) -> list[Message]:
        wrong = isinstance(message.body, TargetShare) and message.receiver == "witness"
        return [second["witness"] if wrong else message]

    parties = run.parties()

    def disagree(inputs: Any) -> Any:
        assert inputs["witness"].digest != inputs["curator"].digest == inputs["consumer"].digest
        return clear_picks({role: dataclasses.replace(each, digest="") for role, each in inputs.items()})

    carry_shares(run, tamper=lie, parties=parties, picks=disagree)


@pytest.mark.parametrize("part", ["share", "salt", "commitments"])
def test_a_share_of_the_target_that_is_not_what_was_committed_to(part: str) -> None:
    run = shared_run(AGREED)
    message = next(said for said in run.consumer().start() if said.receiver == "curator")
    assert isinstance(message.body, TargetShare)
    damaged = getattr(message.body, part).copy()
    damaged[0] ^= 1
    for wrong in (damaged, damaged[:-1]):
        lie = dataclasses.replace(message, body=dataclasses.replace(message.body, **{part: wrong}))
        with pytest.raises(IllegalMessage, match="target"):
            run.compute("curator").take(lie)


@pytest.mark.parametrize("sender", ["a", "curator", "witness", "stranger"])
def test_nobody_but_the_consumer_fixes_the_target_or_ends_the_run(sender: str) -> None:
    run = shared_run(AGREED)
    told = carry_shares(run)
    said = [message for message in run.consumer().start() if message.receiver == "witness"]
    ends = [message for message in map(decode, told.heard["witness"]) if isinstance(message.body, PicksOpened)]
    for message in (*said, *ends):
        party = run.compute("witness")
        with pytest.raises(IllegalMessage):
            party.take(dataclasses.replace(message, sender=sender))


def test_an_end_that_names_more_openings_than_were_allowed() -> None:
    def lie(message: Message) -> list[Message]:
        if not isinstance(message.body, PicksOpened):
            return [message]
        return [dataclasses.replace(message, body=PicksOpened(openings=message.body.openings + 1))]

    told = carry_shares(shared_run(AGREED), tamper=lie)
    assert {name for name, _ in told.refused} == {"curator", "witness"}
    assert not told.parties["curator"].party.finished


def test_garbage_from_the_computation_is_not_taken_for_rows() -> None:
    """A compute party that deviates can spoil picks: what is opened then does not open an envelope, and that shows."""
    rng = np.random.default_rng(3)

    def spoiled(inputs: Any) -> Any:
        picks = clear_picks(inputs)
        secrets = picks.secrets.copy()
        secrets[0] = rng.integers(-(2**63), 2**63 - 1, 4)
        checksums = picks.checksums.copy()
        checksums[1] += 1
        numbers = picks.numbers.copy()
        numbers[2] = 10_000
        return dataclasses.replace(picks, numbers=numbers, secrets=secrets, checksums=checksums)

    told = carry_shares(shared_run(AGREED), picks=spoiled)
    assert len(told.summary.rows) == 1  # nothing is opened in the place of what did not open
    with pytest.raises(IllegalMessage, match="may not open anything now"):
        told.consumer.opened(OpenedSlots(*[np.empty(0, dtype=np.int64)] * 4))
