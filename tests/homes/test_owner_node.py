"""What a node answers and what it refuses, whatever the curator says; every refusal is one word outside and logged."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from card_world import introduce, signed_terms, signed_text
from node_world import Clock, approve, call, door, hear, held, invite, logged, make_node, script, terms, write_policy
from owner_answers import abstained, answered, refused, rows_spent

from likeset.errors import BadDocument, IllegalMessage, InvalidArgument, LedgerUnavailable
from likeset.homes.mail import Invitation
from likeset.homes.owner_node import OwnerNode, owner_run
from likeset.homes.review import review, status_of
from likeset.privacy.guarantee import View
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import Terms
from likeset.protocol.wire import Asked, Message, decode, encode


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def node(tmp_path: Path, clock: Clock) -> Iterator[OwnerNode]:
    with OwnerNode(make_node(tmp_path), clock=clock) as opened:
        yield opened


def test_a_run_waits_until_it_is_approved_and_then_answers_once(node: OwnerNode) -> None:
    run = terms()
    assert invite(node, run) == "waiting"
    assert node.standing("run-1") == "waiting"
    assert "nobody at this site has decided yet" in refused(node, call(run))
    with pytest.raises(IllegalMessage, match="nobody has approved these terms"):
        node.take(call(run))
    approve(node, run)
    assert node.standing("run-1") == "ready"
    (offer,) = answered(node, call(run))
    assert len(decode(offer).body.rows) == 12  # type: ignore[union-attr]
    assert rows_spent(node) == 12
    assert answered(node, call(run)) == [offer]
    assert rows_spent(node) == 12
    assert len(logged(node, "sent")) == 1
    (decision,) = logged(node, "approved")
    assert (decision["by"], decision["digest"], decision["data"]) == ("Ada", run.digest, "patients")


def test_an_unknown_run_is_refused(node: OwnerNode) -> None:
    assert "did not come with this job" in refused(node, call(terms(run="never-invited")))
    with pytest.raises(IllegalMessage, match="run never-invited is unknown here"):
        node.take(call(terms(run="never-invited")))
    assert node.standing("never-invited") == "abstains"


def test_terms_that_changed_after_approval_are_refused_and_the_approved_ones_hold(node: OwnerNode) -> None:
    run, changed = terms(), terms(size=5)
    approve(node, run)
    site = door(node, run, changed)
    assert site.standing(run.digest) == "ready"
    assert "did not come with this job" in refused(node, call(changed))
    with pytest.raises(IllegalMessage, match="never came here"):
        node.take(call(changed))
    assert invite(node, changed) == "waiting"
    assert "nobody at this site has decided yet" in refused(node, call(changed))
    assert status_of(node, "run-1") == "changed after a decision, waiting"
    approve(node, changed)
    assert site.hear(encode(call(run))) == "abstains", "a new approval takes the place of the old one"
    assert "other terms" in logged(node, "refused")[-1]["reason"]
    assert len(answered(node, call(changed))) == 1
    assert invite(node, terms(size=4)) == "abstains", "it has begun"


def test_terms_under_another_digest_of_the_same_run_cannot_begin_a_second_time(node: OwnerNode) -> None:
    run, changed = terms(), terms(size=5)
    approve(node, run)
    invite(node, changed)
    answered(node, call(run))
    with pytest.raises(InvalidArgument, match="begun under other terms"):
        node.approve("run-1", changed.digest, by="Ada")
    assert "nobody at this site has decided yet" in refused(node, call(changed))
    with pytest.raises(IllegalMessage, match="other terms than these were decided about"):
        node.take(call(changed))


def test_a_denied_run_is_refused_and_only_the_log_knows_why(node: OwnerNode) -> None:
    run = terms()
    approve(node, run)
    site = door(node, run)
    assert site.standing(run.digest) == "ready"
    node.deny("run-1", by="Ada", reason="no contract")
    assert node.standing("run-1") == "abstains"
    assert site.hear(encode(call(run))) == hear(node, encode(call(run))) == "abstains"
    assert "run run-1 was denied" in logged(node, "refused")[-1]["reason"]
    assert node.ledger.messages() == ()
    assert [one["reason"] for one in logged(node, "denied")] == ["no contract"]


def test_after_a_withdrawal_nothing_is_answered_not_even_again(node: OwnerNode, clock: Clock) -> None:
    run = terms()
    approve(node, run)
    answered(node, call(run))
    with OwnerNode(node.home.folder, clock=clock) as elsewhere:  # a steward at another terminal
        elsewhere.withdraw("run-1", by="Ada")
    assert "withdrawn" in refused(node, call(run))
    assert node.standing("run-1") == "abstains"
    with pytest.raises(InvalidArgument, match="withdrawn"):
        node.approve("run-1", run.digest, by="Ada")
    with pytest.raises(InvalidArgument, match="withdrawn"):
        node.deny("run-1", by="Ada", reason="late")


def test_terms_that_ended_are_refused(node: OwnerNode, clock: Clock) -> None:
    run = terms()
    approve(node, run)
    answered(node, call(run))
    clock.now += timedelta(days=400)
    assert "TermsExpired" in refused(node, call(run))
    assert node.standing("run-1") == "abstains"


def test_messages_that_are_too_large_or_no_messages_are_refused_unread(node: OwnerNode) -> None:
    """The bound is the site's, and there is no other: what is within it is read, and refused for what it is."""
    approve(node, terms())
    assert hear(node, encode(call(terms(), release=np.zeros(1 << 19)))) == "abstains"
    assert "more than the" in logged(node, "refused")[-1]["reason"]
    assert hear(node, encode(call(terms(), release=np.zeros(20_000)))) == "abstains"
    assert "more than the" not in logged(node, "refused")[-1]["reason"]
    for data in (b"", b"LKST", b"\xff" * 400):
        assert hear(node, data) == "abstains"
    assert len(logged(node, "refused")) == 5


def test_terms_that_are_too_long_not_canonical_or_for_somebody_else_are_refused(node: OwnerNode) -> None:
    introduce(node.home.folder, terms())
    for text in ("x" * 900_000, terms().to_json() + " ", "{}", terms(owners=("b", "c")).to_json()):
        assert node.take_invitation(signed_text(text)) == "abstains"
    for data in (b"", b"x" * 2_000_000, terms().to_json().encode()):
        assert node.take_invitation(data) == "abstains"
    assert len(logged(node, "refused")) == 7
    assert not node.runs.by_name


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("kernel", "dimension", 10**9),
        ("kernel", "columns", 10**12),
        (None, "size", 10**15),
        (None, "target_size", 1e300),
        (None, "seed_rows", 10**9),
    ],
)
def test_terms_with_numbers_that_nobody_can_mean_are_refused_before_anything_is_computed(
    node: OwnerNode, part: str | None, name: str, value: float
) -> None:
    """A feature map of a billion coordinates would take all memory of the owner's machine, just to be read."""
    document = json.loads(terms().to_json())
    (document[part] if part else document)[name] = value
    introduce(node.home.folder, terms())
    assert node.take_invitation(signed_text(json.dumps(document, sort_keys=True, separators=(",", ":")))) == "abstains"
    assert f"InvalidArgument: {name} = " in logged(node, "refused")[-1]["reason"]


def test_a_curator_who_asks_for_more_rounds_than_the_terms_say_is_refused(tmp_path: Path, clock: Clock) -> None:
    """Three rounds, a row in each; a fourth does not exist, and no row leaves for it."""
    run = terms(protocol="interactive", size=3)
    folder = make_node(tmp_path)
    with OwnerNode(folder, clock=clock) as node:
        approve(node, run)
        heard = script(run, rounds=4)
        for message in heard[:7]:
            answered(node, message)
        for message in heard[7:]:
            assert "may not come now" in abstained(node, message)
        assert sum(one["rows"] for one in logged(node, "sent")) == 3
        assert rows_spent(node) == 3


def test_a_curator_who_asks_twice_in_a_round_gets_the_same_row(node: OwnerNode) -> None:
    run = terms(protocol="interactive", size=3)
    approve(node, run)
    first, release, asked = script(run, rounds=1)
    answered(node, first)
    answered(node, release)
    row = answered(node, asked)
    assert answered(node, asked) == row
    no = Message(run.run, run.digest, CURATOR, "a", 1, Asked(asked=False))
    assert "another one came in its place" in refused(node, no)


def test_the_total_over_three_runs_is_reached_and_the_fourth_is_refused_everywhere(node: OwnerNode) -> None:
    """36 rows in all, 12 in each run: the same sentence in policy test, in review and where it is enforced."""
    fourth = terms(run="run-4")
    approve(node, fourth)  # while there was still budget
    for number in (1, 2, 3):
        run = terms(run=f"run-{number}")
        approve(node, run)
        answered(node, call(run))
    said = "rows over all runs: 36 of 36 are disclosed already, and this run may disclose 12"
    assert node.judge(fourth).reasons == (said,)
    assert review(node, "run-4").verdict.reasons == (said,)
    assert refused(node, call(fourth)) == f"IllegalMessage: {said}"
    assert node.standing("run-4") == "abstains"
    assert not node.approve("run-4", fourth.digest, by="Ada").accepted
    assert rows_spent(node) == 36


def test_epsilon_toward_others_adds_up_over_runs_and_is_refused_with_the_same_numbers(
    tmp_path: Path, clock: Clock
) -> None:
    """Each run has one threshold auction; the ledger's own sum says how many fit."""
    owners = ("a", "b", "c")
    auction: dict[str, Any] = {"owners": owners, "auction": "threshold", "auction_epsilon": 8.0, "auction_offset": 2}

    def run(number: int) -> Terms:
        return terms(run=f"run-{number}", size=2, **auction)

    limits: dict[str, Any] = {
        "per_run": {"epsilon": 9, "delta": 1e-5, "rows": 20},
        "total": {"epsilon": 20, "delta": 1e-5, "rows": 99},
    }
    with OwnerNode(make_node(tmp_path, **limits), clock=clock) as node:
        for number in (1, 2, 3):
            approve(node, run(number))
        for number in (1, 2):
            (misfit,) = answered(node, call(run(number)))
            assert decode(misfit).body.kind == "misfit"
        (account,) = [one for one in node.ledger.accounts() if one.view == View.owners("a")]
        assert account.epsilon is not None
        assert 8.0 < account.epsilon < 20.0
        (reason,) = node.judge(run(3)).reasons
        assert f"{account.epsilon:.4g} of 20 is spent already" in reason
        assert refused(node, call(run(3))) == f"IllegalMessage: {reason}"
        assert review(node, "run-3").verdict.reasons == (reason,)
        assert rows_spent(node) == 0, "nobody was asked for rows yet"


def test_runs_within_the_policy_are_approved_by_themselves_only_if_it_says_so(tmp_path: Path, clock: Clock) -> None:
    with OwnerNode(make_node(tmp_path, manual_approval=False), clock=clock) as node:
        assert invite(node, terms()) == "ready"
        assert [one["by"] for one in logged(node, "approved")] == ["owner.yaml"]
        assert invite(node, terms(run="run-2", consumer="stranger")) == "abstains"
        assert len(logged(node, "approved")) == 1


def test_a_change_of_the_policy_is_logged_and_counts_for_runs_that_have_not_begun(node: OwnerNode) -> None:
    run = terms()
    approve(node, run)
    before = len(logged(node, "policy"))
    write_policy(node.home.folder, "a", consumers=["nobody"])
    assert "consumer new-clinic" in refused(node, call(run))
    assert len(logged(node, "policy")) == before + 1


def test_a_node_keeps_its_name_since_budgets_are_kept_by_it(node: OwnerNode) -> None:
    write_policy(node.home.folder, "b")
    with pytest.raises(BadDocument, match="keeps its name"):
        _ = node.policy


def test_a_key_that_others_may_read_or_that_is_damaged_is_refused(tmp_path: Path) -> None:
    folder = make_node(tmp_path)
    (folder / "key").chmod(0o644)
    with pytest.raises(LedgerUnavailable, match="chmod 600"):
        OwnerNode(folder)
    (folder / "key").chmod(0o600)
    (folder / "key").write_text("short")
    with pytest.raises(LedgerUnavailable, match="restore it from a copy"):
        OwnerNode(folder)
    with pytest.raises(InvalidArgument, match="owner init"):
        OwnerNode(tmp_path)


@pytest.mark.parametrize("protocol", ["sealed", "interactive"])
def test_a_whole_run_between_two_nodes_and_a_curator(tmp_path: Path, clock: Clock, protocol: str) -> None:
    run = terms(protocol=protocol)
    with (
        OwnerNode(make_node(tmp_path, "a"), clock=clock) as first,
        OwnerNode(make_node(tmp_path, "b", seed=2), clock=clock) as second,
    ):
        nodes = {"a": first, "b": second}
        for node in nodes.values():
            approve(node, run)
        summary, _ = held(run, nodes, tmp_path / "curator")
        assert summary is not None
        assert len(summary.rows) == 6
        assert not len(summary.absent)
        assert not len(summary.flagged)
        assert not logged(first, "refused")


def test_an_owner_who_denies_abstains_and_the_run_goes_on(tmp_path: Path, clock: Clock) -> None:
    run = terms()
    with (
        OwnerNode(make_node(tmp_path, "a"), clock=clock) as first,
        OwnerNode(make_node(tmp_path, "b", seed=2), clock=clock) as second,
    ):
        approve(first, run)
        invite(second, run)
        second.deny("run-1", by="Bea", reason="no")
        summary, said = held(run, {"a": first, "b": second}, tmp_path / "curator")
        assert summary is not None
        assert summary.absent.tolist() == [1]
        assert "abstains" in said


def test_an_engine_gets_a_seat_that_enforces(node: OwnerNode) -> None:
    run, invitation = terms(), Invitation.read(signed_terms(terms()))
    introduce(node.home.folder, run)
    assert owner_run(node, invitation) is None
    approve(node, run)
    seat = owner_run(node, invitation)
    assert seat is not None
    assert (seat.resident.name, seat.absent) == ("a", False)
    assert len(seat.resident.take(call(run))) == 1
    node.withdraw("run-1", by="Ada")
    with pytest.raises(IllegalMessage, match="withdrawn"):
        seat.resident.take(call(run))
    with pytest.raises(IllegalMessage, match="does not take part"):
        seat.acceptance()
    left = owner_run(node, invitation)
    assert left is not None
    assert left.absent
    assert "withdrawn" in logged(node, "refused")[-1]["reason"]
    strange = terms(run="strange", consumer="somebody-else")
    with pytest.raises(IllegalMessage, match="does not take part"):
        owner_run(node, Invitation.read(signed_terms(strange)))


def test_terms_that_cannot_be_priced_are_refused_and_spoil_no_list(
    node: OwnerNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def odd(*_: object) -> None:
        raise OverflowError("math range error")

    monkeypatch.setattr("likeset.homes.owner_node.costs_of", odd)
    assert node.judge(terms()).reasons == ("what it costs cannot be computed (OverflowError)",)
    assert invite(node, terms()) == "abstains"
    assert status_of(node, "run-1") == "owner.yaml refuses it"
