"""Letters at an owner's node: the whole way of a run, and where it is stopped or put back."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from card_world import cards_of, introduce, signed_terms
from node_world import Clock, call, charged, logged, make_node, script, terms
from owner_letters import Outside, handles_in, reasons_of_refusals, seated

from likeset.errors import HomeRestored, LetterRefused
from likeset.homes import review
from likeset.homes.mail import Invitation, LetterBook
from likeset.homes.owner_node import OwnerNode, owner_run
from likeset.protocol.party import CURATOR
from likeset.trust.letters import Acceptance, letter_in

RUN = terms()
ROUNDS = terms(run="rounds", protocol="interactive", size=2)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def node(tmp_path: Path, clock: Clock) -> Iterator[OwnerNode]:
    with OwnerNode(make_node(tmp_path, total={"epsilon": 0, "rows": 99}), clock=clock) as opened:
        yield opened


# The whole way.


def test_from_the_invitation_to_the_offer(node: OwnerNode, tmp_path: Path) -> None:
    outside = Outside(tmp_path / "outside", RUN)
    introduce(node.home.folder, RUN)
    assert owner_run(node, outside.invitation) is None, "a steward has to decide"
    assert node.approve(RUN.run, RUN.digest, by="Ada").accepted
    run = owner_run(node, outside.invitation)
    assert run is not None
    accepted = Acceptance.from_bytes(run.acceptance())
    assert (accepted.party, accepted.role, accepted.terms.hex()) == ("a", "owner", RUN.digest)
    assert run.acceptance() == accepted.to_bytes(), "signed once"
    letter = outside.release(accepted.to_bytes())
    (answer,) = run.hear(letter)
    assert len(handles_in(outside.read(answer))) == 12
    assert run.hear(letter) == (answer,)
    assert len(logged(node, "sent")) == 1
    assert reasons_of_refusals(node) == []
    assert node.record_of(RUN.run).invitation(RUN.digest).to_bytes() == outside.invitation.to_bytes()


def test_a_run_in_rounds_goes_on_in_letters_and_after_a_restart(node: OwnerNode, tmp_path: Path, clock: Clock) -> None:
    outside = Outside(tmp_path / "outside", ROUNDS)
    run = seated(node, outside)
    assert run.hear(outside.release(run.acceptance())) == ()
    asked, *others = [outside.ask(message) for message in script(ROUNDS)[1:]]
    first = run.hear(asked)
    with OwnerNode(node.home.folder, clock=clock) as again:
        anew = owner_run(again, outside.invitation)
        assert anew is not None
        assert anew.hear(asked) == first, "the very bytes"
        kinds = [outside.read(answer).body.kind for letter in others for answer in anew.hear(letter)]
    assert kinds == ["delivery", "bid", "delivery"]


def test_killed_between_ledger_and_letter_book_it_sends_the_same_rows_and_is_charged_once(
    node: OwnerNode, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = Outside(tmp_path / "outside", RUN)
    run = seated(node, outside)
    letter = outside.release(run.acceptance())

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(LetterBook, "exchange", killed)
        with pytest.raises(KeyboardInterrupt):
            run.hear(letter)
    before = charged(node)
    (kept,) = review.messages_that_left(node, RUN.run)
    with OwnerNode(node.home.folder, clock=clock) as again:
        anew = owner_run(again, outside.invitation)
        assert anew is not None
        (answer,) = anew.hear(letter)
        assert outside.read(answer).data == kept.data
        assert charged(again) == before


# A home that was put back.


def test_a_node_put_back_from_an_old_copy_stops_charges_nothing_and_says_so(tmp_path: Path, clock: Clock) -> None:
    folder, outside = make_node(tmp_path), Outside(tmp_path / "outside", RUN)
    with OwnerNode(folder, clock=clock) as node:
        run = seated(node, outside)
        acceptance = run.acceptance()
    shutil.copytree(folder, tmp_path / "copy")
    with OwnerNode(folder, clock=clock) as node:
        run = owner_run(node, outside.invitation)  # type: ignore[assignment]
        letter = outside.release(acceptance)
        (answer,) = run.hear(letter)
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "copy", folder)
    with OwnerNode(folder, clock=clock) as node:
        run = owner_run(node, outside.invitation)  # type: ignore[assignment]
        with pytest.raises(HomeRestored, match="old copy"):
            run.hear(answer)
        assert "old copy" in reasons_of_refusals(node)[-1]
        for act in (
            lambda: run.hear(letter),
            lambda: node.approve(RUN.run, RUN.digest, by="Ada"),
            lambda: node.deny(RUN.run, by="Ada", reason="no"),
            lambda: node.withdraw(RUN.run, by="Ada"),
            lambda: node.add_invitation(Invitation.read(signed_terms(terms(run="run-2")))),
            lambda: node.take(call(RUN)),
        ):
            with pytest.raises(HomeRestored):
                act()
        assert node.take_invitation(signed_terms(terms(run="run-2"))) == "abstains"
        assert node.standing(RUN.run) == "abstains"
        assert all(kind != "reserve" for kind, _ in charged(node))


@pytest.mark.parametrize("settled", [False, True])
def test_a_node_put_back_learns_it_from_the_outside_of_its_own_letter(
    tmp_path: Path, clock: Clock, *, settled: bool
) -> None:
    folder, outside = make_node(tmp_path), Outside(tmp_path / "outside", RUN)
    with OwnerNode(folder, clock=clock) as node:
        acceptance = seated(node, outside).acceptance()
    shutil.copytree(folder, tmp_path / "copy")
    with OwnerNode(folder, clock=clock) as node:
        run = owner_run(node, outside.invitation)
        assert run is not None
        (answer,) = run.hear(outside.release(acceptance))
    stub = letter_in(answer, most_bytes=1 << 20).stub.to_bytes()
    with OwnerNode(tmp_path / "copy", clock=clock) as node:
        run = owner_run(node, outside.invitation)
        assert run is not None
        if settled:
            run.letters.settle(resend=True)
        with pytest.raises(HomeRestored, match="old copy"):
            run.hear(stub)
        with pytest.raises(HomeRestored):
            node.take(call(RUN))


def test_terms_name_the_cards_of_this_world() -> None:
    assert dict(RUN.cards) == cards_of(RUN.consumer, CURATOR, "a", "b")
    with pytest.raises(LetterRefused):
        Outside.parts(b"")
