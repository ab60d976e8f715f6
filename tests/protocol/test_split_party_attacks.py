"""Compute parties of a split run who lie about offers, rosters and the target: each is refused or found out."""

import dataclasses
import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from lying_offers import AGREED, LIAR, NEAR, bytes_of, carried, check_left_out, sending, shared_by
from protocol_world import CONSUMER, QuickLedger, rows
from shared_run_world import Told, carry_shares, clear_picks, not_ready, secret_of, shared_run

from likeset.errors import IllegalMessage, InvalidArgument
from likeset.protocol.split import OpenedSlots, offer_shape, party_name
from likeset.protocol.wire import Envelopes, Message, PicksOpened, RosterVote, ShareReceipts, TargetShare, decode
from likeset.trust.shares import (
    ComputeRole,
    Roster,
    list_entries,
    lists_in,
    sign_roster,
)


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


def test_a_curator_that_keeps_a_part_back_leaves_the_owner_out_by_name() -> None:
    """To itself it said otherwise, so it signs another roster, and nobody computes."""
    without = lying_receipts("curator", lambda lists: {k: v for k, v in lists.items() if k != AGREED.cards[LIAR]})
    told = carry_shares(shared_run(AGREED), tamper=without)
    assert not_ready(told)
    assert "curator acknowledged no part" in told.faults(CONSUMER)[LIAR]


def lying_vote(role: ComputeRole, lists: Callable[[Roster], dict[str, bytes]], *, to: str = "") -> Any:
    """A compute party that signs another roster than the one of the receipts."""

    def lie(message: Message) -> list[Message]:
        body = message.body
        if not isinstance(body, RosterVote) or message.sender != party_name(AGREED, role):
            return [message]
        if to and message.receiver != to:
            return [message]
        honest = Roster.from_bytes(body.roster.tobytes())
        vote = sign_roster(secret_of(message.sender), dataclasses.replace(honest, lists=lists(honest)))
        return [dataclasses.replace(message, body=RosterVote(roster=bytes_of(vote.to_bytes()), reach=body.reach))]

    return lie


def without_liar(roster: Roster) -> dict[str, bytes]:
    return {owner: digest for owner, digest in roster.lists.items() if owner != AGREED.cards[LIAR]}


@pytest.mark.parametrize("role", ["curator", "witness"])
def test_a_roster_that_drops_an_owner_or_a_party_that_denies_its_receipt(role: ComputeRole) -> None:
    """It said that it had its part. Nobody computes, nothing is opened."""
    told = carry_shares(shared_run(AGREED), tamper=lying_vote(role, without_liar))
    assert not_ready(told)
    assert {name for name, _ in told.refused} == {CONSUMER, "curator", "witness"} - {role}
    assert all("not the one that follows" in words for _, words in told.refused)


def test_a_consumer_that_drops_an_owner_is_refused_by_both_others() -> None:
    told = carry_shares(shared_run(AGREED), tamper=lying_vote("consumer", without_liar))
    assert not_ready(told)
    assert {name for name, _ in told.refused} == {"curator", "witness"}


def test_a_roster_with_an_owner_that_nobody_acknowledged() -> None:
    run = shared_run(AGREED)
    del run.data[LIAR]
    invented = {AGREED.cards[LIAR]: bytes(32)}
    told = carry_shares(run, tamper=lying_vote("curator", lambda roster: {**roster.lists, **invented}))
    assert not_ready(told)
    assert all("not the one that follows" in words for _, words in told.refused)


def test_a_roster_that_one_party_is_told_otherwise() -> None:
    """Whoever hears it refuses it, and waits in vain: the computation needs all three."""
    told = carry_shares(shared_run(AGREED), tamper=lying_vote("curator", without_liar, to="witness"))
    assert [name for name, _ in told.refused] == ["witness"]
    assert not told.parties["witness"].party.is_ready


def test_a_witness_that_denies_what_it_got_leaves_the_owner_out_by_name() -> None:
    """It says so before it signed a receipt, so nobody can prove otherwise; but everybody sees who said it."""

    def deny(message: Message) -> list[Message]:
        return [] if message.sender == LIAR and message.receiver == "witness" else [message]

    told = carry_shares(shared_run(AGREED), tamper=deny)
    for name in (CONSUMER, "curator"):
        assert "witness acknowledged no part" in told.faults(name)[LIAR]
    check_left_out(told, "witness acknowledged no part")


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


def test_a_home_that_goes_on_with_another_target_is_told_so() -> None:
    run = shared_run(AGREED)
    run.consumer().start()
    run.target = run.target + np.float32(0.5)
    with pytest.raises(InvalidArgument, match="another one than this run began with"):
        run.consumer().start()


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


def test_messages_of_another_program_are_of_another_run() -> None:
    """The program's digest is part of the terms: whoever builds another one does not even share a run."""
    assert AGREED.split is not None
    other = AGREED.with_changes(split=dataclasses.replace(AGREED.split, program="ee" * 32))
    foreign = shared_run(other).consumer().start()
    run = shared_run(AGREED)
    for message in foreign:
        with pytest.raises(IllegalMessage, match="other terms"):
            run.parties()[message.receiver].take(message)


def test_messages_out_of_turn_are_refused_and_change_nothing() -> None:
    """All that a whole run says, told to a party that has heard nothing yet but what may come first."""
    told = carry_shares(shared_run(AGREED))
    early = {"offer-share", "share-receipts", "target-share"}
    later: list[Message] = []
    for name in (CONSUMER, "curator", "witness"):
        later += [message for message in _heard(told, name) if message.body.kind not in early]
    assert {message.body.kind for message in later} == {"roster-vote", "envelopes", "picks-opened"}
    for message in later:
        fresh = shared_run(AGREED).parties()[message.receiver]
        before = fresh.party.position
        with pytest.raises(IllegalMessage):
            fresh.take(message)
        assert fresh.party.position == before


def _heard(told: Told, name: str) -> list[Message]:
    return [decode(data) for data in told.heard[name]]


@pytest.mark.parametrize("sender", ["a", "curator", "witness", "stranger"])
def test_nobody_but_the_consumer_fixes_the_target_or_ends_the_run(sender: str) -> None:
    run = shared_run(AGREED)
    told = carry_shares(run)
    said = [message for message in run.consumer().start() if message.receiver == "witness"]
    ends = [message for message in _heard(told, "witness") if isinstance(message.body, PicksOpened)]
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
    summary = told.consumer.party.summary
    assert summary is not None
    assert len(summary.rows) == 1
    assert told.consumer.party.lost_picks == 1


@pytest.mark.parametrize("failing", [1, 2])
def test_a_sock_puppet_of_the_consumer_that_fails_on_purpose_gets_it_no_row_more(failing: int) -> None:
    """An owner that works for the consumer offers what is picked first, and sells nothing that holds.

    What the consumer reads of honest owners is at most the size less the puppet's picks: the others' openings stay what
    they are, and nothing is opened in their place. Without the puppet it reads more.
    """
    honest = carry_shares(shared_run(AGREED)).consumer.party.summary
    assert honest is not None
    puppet = shared_by(seen=NEAR[:failing], sold=NEAR[:failing] + np.float32(1.0), handles=range(1, failing + 1))
    opened: list[OpenedSlots] = []

    def counted(inputs: Any) -> OpenedSlots:
        opened.append(clear_picks(inputs))
        return opened[-1]

    told = carry_shares(shared_run(AGREED), tamper=sending(puppet), picks=counted)
    summary, (picks,) = told.consumer.party.summary, opened
    assert summary is not None
    of_puppet = int((picks.numbers // offer_shape(AGREED).slots == 1).sum())
    assert 1 <= of_puppet <= failing
    assert len(set(picks.numbers.tolist())) == AGREED.size
    assert len(summary.rows) == AGREED.size - of_puppet < len(honest.rows)
    with pytest.raises(IllegalMessage, match="may not open anything now"):
        told.consumer.opened(picks)


def test_a_consumer_that_packs_other_rows_into_the_words_of_its_target() -> None:
    """Words beyond the range are cut to it: what lies in their upper bits is never computed on.

    Target words w + 2^40 v give the picks of the target at its upper bound, whatever v.
    """
    found: list[list[int]] = []

    def packed(inputs: Any) -> OpenedSlots:
        own = inputs["consumer"]
        words, others = own.target_words.view(np.uint64), np.arange(1, 1 + own.target_words.size, dtype=np.uint64)
        bound = words + np.uint64(1 << 41)
        for each in (words, bound, bound + (others.reshape(words.shape) << np.uint64(42))):
            changed = dataclasses.replace(own, target_words=each.view(np.int64))
            found.append(clear_picks({**inputs, "consumer": changed}).numbers.tolist())
        return clear_picks(inputs)

    carry_shares(shared_run(AGREED), picks=packed)
    honest, at_bound, with_rows = found
    assert at_bound == with_rows != honest


def test_owners_hear_nothing_of_any_of_this() -> None:
    """An owner hears the release, whatever others send: the same bytes in every world."""
    honest = carry_shares(shared_run(AGREED))
    lied = carried(shared_by(sold=NEAR + np.float32(1.0)))
    for name in ("a", "c"):
        assert honest.heard[name] == lied.heard[name]
        assert len(honest.heard[name]) == 1
