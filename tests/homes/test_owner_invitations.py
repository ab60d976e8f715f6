"""Invitations to an owner's node: who may ask, and whose card counts no longer."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from card_world import introduce, secret_of, signed_terms, signed_text
from node_world import Clock, charged, make_node, script, terms
from owner_letters import Outside, reasons_of_refusals, seated

from likeset.errors import BadDocument, IllegalMessage, LikesetError
from likeset.homes.mail import Invitation
from likeset.homes.owner_node import OwnerNode, owner_run
from likeset.homes.review import status_of
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import Terms
from likeset.trust.cards import CardSecret
from likeset.trust.letters import sign_terms

RUN = terms()
ROUNDS = terms(run="rounds", protocol="interactive", size=2)
STRANGER = CardSecret.generate(RUN.consumer)
"""Somebody who calls themselves as the consumer does."""


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def node(tmp_path: Path, clock: Clock) -> Iterator[OwnerNode]:
    with OwnerNode(make_node(tmp_path, total={"epsilon": 0, "rows": 99}), clock=clock) as opened:
        yield opened


def _invited_by(writer: CardSecret, run: Terms) -> bytes:
    return sign_terms(run.to_json(), writer, writer.sealing.public).to_bytes()


_AS_STRANGER = RUN.with_changes(cards={**RUN.cards, RUN.consumer: STRANGER.card.fingerprint})
INVITATIONS: dict[str, tuple[bytes, str]] = {
    "an unpinned card of the consumer's name": (
        _invited_by(STRANGER, _AS_STRANGER),
        f"the card of the consumer is not pinned here ({STRANGER.card.fingerprint})",
    ),
    "terms of the consumer, signed by an unpinned card": (_invited_by(STRANGER, RUN), "is not pinned here"),
    "signed by an owner": (_invited_by(secret_of("b"), RUN), "is not pinned here"),
    "signed by the curator, who is pinned": (
        _invited_by(secret_of(CURATOR), RUN),
        "the card of the consumer is pinned here as that of a curator",
    ),
    "terms that changed after they were signed": (
        signed_terms(RUN).replace(b'"quorum":1', b'"quorum":2'),
        "signature does not hold",
    ),
    "another curator": (
        signed_terms(terms(cards={**RUN.cards, **{CURATOR: secret_of("c").card.fingerprint}})),
        "the card of the curator is not pinned here",
    ),
    "another card for this owner": (
        signed_terms(terms(cards={**RUN.cards, **{"a": secret_of("c").card.fingerprint}})),
        "another card than this node's",
    ),
    "no signature": (RUN.to_json().encode(), "likeset terms"),
    "terms of one house": (signed_text(RUN.with_changes(run_id="", cards={}).to_json()), "fingerprint of its card"),
}


@pytest.mark.parametrize(("data", "reason"), INVITATIONS.values(), ids=INVITATIONS)
def test_an_invitation_that_proves_nothing_is_refused(node: OwnerNode, data: bytes, reason: str) -> None:
    introduce(node.home.folder, RUN)
    assert node.take_invitation(data) == "abstains"
    (said,) = reasons_of_refusals(node)
    assert reason in said


def test_of_a_stranger_nothing_is_written_down_but_the_fingerprint_and_a_count(node: OwnerNode) -> None:
    introduce(node.home.folder, RUN)
    word = "Research that nobody asked for"
    run = _AS_STRANGER.with_changes(purpose=word)
    for _ in range(50):
        assert node.take_invitation(_invited_by(STRANGER, run)) == "abstains"
    entries = [entry.document() for entry in node.ledger.entries() if entry.kind in ("refused", "refused-more")]
    assert len(entries) < 30, "a flood is counted"
    assert all(word not in str(entry) and run.digest not in str(entry) for entry in entries)
    assert all(STRANGER.card.fingerprint in str(entry) for entry in entries)
    assert node.runs.by_name == {}


def test_what_a_steward_adds_is_shown_also_if_nobody_is_pinned_and_cannot_be_approved(node: OwnerNode) -> None:
    assert node.add_invitation(Invitation.read(signed_terms(RUN)))
    assert status_of(node, RUN.run) == "the consumer's card is not pinned"
    assert not node.approve(RUN.run, RUN.digest, by="Ada").accepted
    assert node.standing(RUN.run) == "abstains"
    introduce(node.home.folder, RUN)
    assert status_of(node, RUN.run) == "waiting"
    assert node.approve(RUN.run, RUN.digest, by="Ada").accepted


# Cards that count no longer.


@pytest.mark.parametrize("whose", [RUN.consumer, CURATOR])
@pytest.mark.parametrize("what", ["revoked", "replaced"])
def test_when_a_card_is_given_up_runs_under_way_end_and_the_log_says_so(
    node: OwnerNode, tmp_path: Path, whose: str, what: str
) -> None:
    outside = Outside(tmp_path / "outside", ROUNDS)
    run = seated(node, outside)
    run.hear(outside.release(run.acceptance()))
    before = charged(node)
    if what == "revoked":
        node.home.pins().revoke(whose, "stolen")
    else:
        node.home.pins().replace(CardSecret.generate(whose).card)
    role = "curator" if whose == CURATOR else "consumer"
    with pytest.raises(IllegalMessage, match=f"the card of the {role} was {what}"):
        run.hear(outside.ask(script(ROUNDS)[1]))
    assert f"the card of the {role} was {what} here" in reasons_of_refusals(node)[-1]
    with pytest.raises(IllegalMessage, match="does not take part"):
        run.acceptance()
    assert status_of(node, ROUNDS.run) == f"the {role}'s card is {what}: the run has ended"
    assert charged(node) == before


def test_when_this_node_has_a_new_card_runs_under_the_old_one_end(node: OwnerNode, tmp_path: Path) -> None:
    outside = Outside(tmp_path / "outside", ROUNDS)
    run = seated(node, outside)
    run.hear(outside.release(run.acceptance()))
    node.home.set_card_aside()
    CardSecret.generate("a").write(node.home.folder)
    with pytest.raises(LikesetError):
        run.hear(outside.ask(script(ROUNDS)[1]))
    assert "the terms name another card than this node's" in reasons_of_refusals(node)[-1]


def test_a_curator_that_is_pinned_and_not_allowed_is_refused(tmp_path: Path, clock: Clock) -> None:
    with OwnerNode(make_node(tmp_path, curators=["other-*"]), clock=clock) as node:
        introduce(node.home.folder, RUN)
        assert node.take_invitation(signed_terms(RUN)) == "abstains"
        assert "curator curator is not among the curators that owner.yaml allows" in reasons_of_refusals(node)[-1]


def test_without_keys_a_node_can_be_looked_at_and_answers_nothing(node: OwnerNode, tmp_path: Path) -> None:
    introduce(node.home.folder, RUN)
    assert node.take_invitation(signed_terms(RUN)) == "waiting"
    assert node.approve(RUN.run, RUN.digest, by="Ada").accepted
    node.home.set_card_aside()
    assert "this node has no card that can be used" in node.judge(RUN).reasons[0]
    with pytest.raises(LikesetError):
        owner_run(node, Outside(tmp_path / "outside", RUN).invitation)
    with pytest.raises(BadDocument, match="there are no keys"):
        _ = node.identity


def test_a_wrong_clock_is_named_with_the_end_of_the_terms(node: OwnerNode, tmp_path: Path, clock: Clock) -> None:
    outside = Outside(tmp_path / "outside", RUN)
    seated(node, outside)
    clock.now = clock.now.replace(year=2031)
    assert node.standing(RUN.run) == "abstains"
    said = reasons_of_refusals(node)[-1]
    assert "ended at 2030-01-0" in said
    assert "this machine's clock says 2031-03-05, 12 h UTC" in said
