"""Letters at an owner's node: the whole way of a run, and every attack on it, refused, written down and free."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from card_world import cards_of, introduce, secret_of, signed_terms, signed_text
from node_world import Clock, charged, logged, make_node, script, terms
from owner_letters import Outside, seated

from likeset.errors import BadDocument, HomeRestored, IllegalMessage, LetterRefused, LikesetError
from likeset.homes.letter_book import LetterBook
from likeset.homes.owner import kept_receipts, outbox
from likeset.homes.owner.node import OwnerNode
from likeset.homes.owner.review import status_of
from likeset.homes.owner.site import NodeRun, owner_run
from likeset.homes.receipts import sign
from likeset.homes.signed_invitation import Invitation
from likeset.protocol.messages import Message, Offer, TargetRelease
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import Terms
from likeset.trust.cards import CardSecret
from likeset.trust.encoding import LETTER_CONTEXT, TERMS_CONTEXT, fields
from likeset.trust.letters import open_letter
from likeset.trust.signed_terms import Acceptance, accept, sign_terms

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


def _reasons(node: OwnerNode) -> list[str]:
    return [entry["reason"] for entry in logged(node, "refused")]


def _reserved(node: OwnerNode) -> list[str]:
    return [key for kind, key in charged(node) if kind == "reserve"]


def _rows(message: Message) -> Any:
    assert isinstance(message.body, Offer)
    return message.body.handles


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
    assert len(_rows(outside.read(answer))) == 12
    assert run.hear(letter) == (answer,)
    assert len(logged(node, "sent")) == 1
    assert _reasons(node) == []
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
    (kept,) = outbox.messages_that_left(node, RUN.run)
    with OwnerNode(node.home.folder, clock=clock) as again:
        anew = owner_run(again, outside.invitation)
        assert anew is not None
        (answer,) = anew.hear(letter)
        assert outside.read(answer).data == kept.data
        assert charged(again) == before


# Attacks: who speaks.

Attack = Callable[[OwnerNode, Outside], bytes]


def _changed(**changes: Any) -> Attack:
    """A letter that the consumer itself signed, and that belongs elsewhere."""
    return lambda node, outside: outside.forged(node, secret_of(RUN.consumer), **changes)


def _by(writer: CardSecret, message: Message | None = None) -> Attack:
    return lambda node, outside: outside.forged(node, writer, message)


def _resigned(node: OwnerNode, outside: Outside) -> bytes:
    """The consumer's letter, under another's signature."""
    letter = outside.parts(outside.forged(node, secret_of(RUN.consumer)))
    header, ciphertext = letter.header.to_bytes(), bytes(letter.ciphertext)
    signature = secret_of("b").sign(LETTER_CONTEXT, header, letter.stub.ciphertext_digest)
    return fields(b"likeset letter", header, ciphertext, signature)


def _passed_on(node: OwnerNode, outside: Outside) -> bytes:
    """What is sealed in the consumer's letter, as if the curator had written it."""
    letter = outside.parts(outside.forged(node, secret_of(RUN.consumer)))
    header = replace(letter.header, sender=secret_of("b").card.fingerprint).to_bytes()
    signature = secret_of("b").sign(LETTER_CONTEXT, header, letter.stub.ciphertext_digest)
    return fields(b"likeset letter", header, bytes(letter.ciphertext), signature)


def _signed_as_terms(node: OwnerNode, outside: Outside) -> bytes:
    letter = outside.parts(outside.forged(node, secret_of(RUN.consumer)))
    signature = secret_of(RUN.consumer).sign(TERMS_CONTEXT, letter.header.to_bytes(), letter.stub.ciphertext_digest)
    return fields(b"likeset letter", letter.header.to_bytes(), bytes(letter.ciphertext), signature)


def _of_curator_for_other_terms(node: OwnerNode, outside: Outside) -> bytes:
    """The curator's acceptance of other terms, enclosed by the consumer."""
    other = accept(
        secret_of(CURATOR),
        run_id=bytes.fromhex(RUN.run_id),
        terms=bytes(32),
        role="curator",
        party=CURATOR,
        run_key=secret_of(CURATOR).sealing.public,
    )
    return outside.forged(node, secret_of(RUN.consumer), enclosures=(other.to_bytes(),))


def _flipped(place: int) -> Attack:
    def flip(node: OwnerNode, outside: Outside) -> bytes:
        data = bytearray(outside.forged(node, secret_of(RUN.consumer)))
        data[place] ^= 1
        return bytes(data)

    return flip


_RELEASE = Message(RUN.run, RUN.digest, RUN.consumer, "a", 1, TargetRelease(release=np.full(16, 0.2)))
ATTACKS: dict[str, tuple[Attack, str]] = {
    "another sender: an owner": (_by(secret_of("b")), "a letter of b, who was not introduced"),
    "another sender: the curator": (_by(secret_of(CURATOR)), "a letter of curator, who was not introduced"),
    "another sender: an owner in the consumer's name": (_resigned, "the sender's card did not sign it"),
    "an unpinned card of the consumer's name": (_by(STRANGER), "somebody whom the terms do not name"),
    "another recipient": (_changed(recipient=secret_of("b").card), "it is for another recipient"),
    "sealed to another key": (_changed(recipient_key=secret_of("a").sealing.public), "not sealed to the key for this"),
    "another run": (_changed(run_id=bytes(16)), "a letter of another run"),
    "other terms": (_changed(terms=bytes(32)), "a letter of another run, or under other terms"),
    "another round": (_changed(round=2), "is not what its letter says"),
    "another message: of another sender": (
        _changed(said=replace(_RELEASE, sender=CURATOR).data),
        "is not what its letter says",
    ),
    "another message: for another owner": (
        _changed(said=replace(_RELEASE, receiver="b").data),
        "is not what its letter says",
    ),
    "another message: of another run": (_changed(said=replace(_RELEASE, run="x").data), "is not what its letter"),
    "no message": (_changed(said=b"nonsense, and long enough to be looked at"), "not a message"),
    "an acceptance for other terms enclosed": (_of_curator_for_other_terms, "an acceptance that is enclosed does not"),
    "passed on as another's": (_passed_on, "a letter of b, who was not introduced"),
    "a signature of another kind": (_signed_as_terms, "the sender's card did not sign it"),
    "a bit of the header": (_flipped(40), "a letter of another run"),
    "a bit of what is sealed": (_flipped(-1000), "the sender's card did not sign it"),
    "a bit of the signature": (_flipped(-1), "the sender's card did not sign it"),
    "cut": (lambda node, outside: outside.forged(node, secret_of(RUN.consumer))[:-1], "the form of a letter"),
    "extended": (lambda node, outside: outside.forged(node, secret_of(RUN.consumer)) + b"\0", "the form of a letter"),
    "nothing": (lambda *_: b"", "the form of a letter"),
    "too large": (lambda *_: bytes(1 << 24), "larger than a letter may be"),
    "its own acceptance": (lambda node, _: _own_acceptance(node), "an acceptance came where letters come"),
}


def _own_acceptance(node: OwnerNode) -> bytes:
    keys = node.book.run_keys(bytes.fromhex(RUN.digest))
    assert keys is not None
    return keys.acceptance


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[OwnerNode, NodeRun, Outside]]:
    """A node that has accepted, and waits for the first letter."""
    place = tmp_path_factory.mktemp("attacked")
    outside = Outside(place / "outside", RUN)
    with OwnerNode(make_node(place), clock=Clock()) as node:
        run = seated(node, outside)
        run.acceptance()
        yield node, run, outside


@pytest.mark.parametrize(("attack", "reason"), ATTACKS.values(), ids=ATTACKS)
def test_an_attack_is_refused_logged_and_free(
    attacked: tuple[OwnerNode, NodeRun, Outside], attack: Attack, reason: str
) -> None:
    node, run, outside = attacked
    data, known, before = attack(node, outside), len(_reasons(node)), charged(node)
    with pytest.raises(LikesetError):
        run.hear(data)
    (said,) = _reasons(node)[known:]
    assert reason in said
    assert charged(node) == before
    assert node.ledger.messages() == ()
    assert node.book.introduced(bytes.fromhex(RUN.digest)) == frozenset(), "as if it had not come"


def test_after_all_attacks_the_true_letter_is_answered(node: OwnerNode, tmp_path: Path) -> None:
    outside = Outside(tmp_path / "outside", RUN)
    run = seated(node, outside)
    letter = outside.release(run.acceptance())
    for attack, _ in ATTACKS.values():
        with pytest.raises(LikesetError):
            run.hear(attack(node, outside))
    (answer,) = run.hear(letter)
    assert len(_rows(outside.read(answer))) == 12


def test_the_curator_cannot_say_what_the_consumer_says_also_when_it_was_introduced(
    node: OwnerNode, tmp_path: Path
) -> None:
    outside = Outside(tmp_path / "outside", ROUNDS)
    run = seated(node, outside)
    run.hear(outside.release(run.acceptance()))
    second = Message(ROUNDS.run, ROUNDS.digest, CURATOR, "a", 0, TargetRelease(release=np.full(16, 0.2)))
    before = charged(node)
    with pytest.raises(LikesetError):
        run.hear(outside.ask(second))
    assert "from the consumer" in _reasons(node)[-1]
    assert charged(node) == before


def test_a_letter_of_one_run_is_refused_in_another(node: OwnerNode, tmp_path: Path) -> None:
    first, second = Outside(tmp_path / "one", RUN), Outside(tmp_path / "two", terms(run="run-2"))
    runs = [seated(node, outside) for outside in (first, second)]
    letter = first.release(runs[0].acceptance())
    runs[1].acceptance()
    with pytest.raises(IllegalMessage, match="another run"):
        runs[1].hear(letter)
    assert _reserved(node) == []
    assert len(runs[0].hear(letter)) == 1


def test_other_bytes_under_a_number_are_evidence_and_its_writer_sees_the_first(node: OwnerNode, tmp_path: Path) -> None:
    outside = Outside(tmp_path / "outside", RUN)
    run = seated(node, outside)
    letter = outside.release(run.acceptance())
    run.hear(letter)
    before = charged(node)
    other = outside.forged(node, secret_of(RUN.consumer), _RELEASE)
    assert run.hear(other) == (outside.parts(letter).stub.to_bytes(),)
    assert node.book.evidence(bytes.fromhex(RUN.digest)) == [(RUN.consumer, outside.parts(other).stub)]
    assert "two different letters under the number 0" in _reasons(node)[-1]
    assert charged(node) == before


def test_a_second_release_under_another_number_is_refused(node: OwnerNode, tmp_path: Path) -> None:
    outside = Outside(tmp_path / "outside", RUN)
    run = seated(node, outside)
    run.hear(outside.release(run.acceptance()))
    before = charged(node)
    with pytest.raises(LikesetError):
        run.hear(outside.forged(node, secret_of(RUN.consumer), _RELEASE, number=1))
    assert "another one came in its place before" in _reasons(node)[-1]
    assert charged(node) == before


# Attacks: who asks.


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
    (said,) = _reasons(node)
    assert reason in said


def test_of_a_stranger_nothing_is_written_down_but_the_fingerprint_and_a_count(node: OwnerNode) -> None:
    introduce(node.home.folder, RUN)
    word = "Research that nobody asked for"
    run = _AS_STRANGER.with_changes(purpose=word)
    for _ in range(50):
        assert node.take_invitation(_invited_by(STRANGER, run)) == "abstains"
    entries = [entry.document() for entry in node.log.entries() if entry.kind in ("refused", "refused-more")]
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
    assert f"the card of the {role} was {what} here" in _reasons(node)[-1]
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
    assert "the terms name another card than this node's" in _reasons(node)[-1]


def test_a_curator_that_is_pinned_and_not_allowed_is_refused(tmp_path: Path, clock: Clock) -> None:
    with OwnerNode(make_node(tmp_path, curators=["other-*"]), clock=clock) as node:
        introduce(node.home.folder, RUN)
        assert node.take_invitation(signed_terms(RUN)) == "abstains"
        assert "curator curator is not among the curators that owner.yaml allows" in _reasons(node)[-1]


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


# Run keys.


def _acknowledge(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """Receipts are kept, and acknowledge so many rows."""

    def take(node: OwnerNode, agreed: Terms, data: bytes) -> bool:
        node.note("acknowledged", agreed.run, digest=data.hex(), rows=rows, messages=1, pinned=True)
        return True

    monkeypatch.setattr(kept_receipts, "take", take)
    kept = SimpleNamespace(transcript=SimpleNamespace(rows=rows))
    monkeypatch.setattr(kept_receipts, "kept_receipt", lambda *_: kept)


def _has_key(node: OwnerNode, run: Terms) -> bool:
    keys = node.book.run_keys(bytes.fromhex(run.digest))
    assert keys is not None
    return keys.secret is not None


def _receipt(outside: Outside, data: bytes = b"receipt") -> bytes:
    (letter,) = outside.curator.write_receipts({"a": data})
    return letter


def test_the_key_goes_with_the_receipt_and_what_was_sealed_is_sent_again(
    node: OwnerNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = Outside(tmp_path / "outside", RUN)
    run = seated(node, outside)
    letter = outside.release(run.acceptance())
    answers = run.hear(letter)
    assert _has_key(node, RUN)
    _acknowledge(monkeypatch, rows=12)
    receipt = _receipt(outside)
    assert run.hear(receipt) == ()
    assert not _has_key(node, RUN)
    assert run.hear(letter) == answers, "the curator may have lost it"
    assert run.hear(receipt) == ()
    with pytest.raises(LikesetError, match="settled"):
        run.hear(outside.ask(replace(script(ROUNDS)[1], run=RUN.run, terms=RUN.digest)))
    node.withdraw(RUN.run, by="Ada")
    with pytest.raises(IllegalMessage, match="withdrawn"):
        run.hear(letter)


def test_a_key_that_a_crash_left_goes_when_the_receipt_comes_again(
    node: OwnerNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stayed until the terms ended: a receipt that is kept already is nothing new."""
    outside = Outside(tmp_path / "outside", RUN)
    run = seated(node, outside)
    run.hear(outside.release(run.acceptance()))
    receipt = _receipt(outside, _signed_receipt(node))

    def crash(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(LetterBook, "settle", crash)
        with pytest.raises(KeyboardInterrupt):
            run.hear(receipt)
    assert _has_key(node, RUN)
    assert run.hear(receipt) == ()
    assert not _has_key(node, RUN)


def _signed_receipt(node: OwnerNode) -> bytes:
    """The curator's receipt for all that left."""
    return sign(node.transcript(RUN.run), secret_of(CURATOR)).to_bytes()


def test_a_receipt_for_less_than_left_settles_nothing(
    node: OwnerNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = Outside(tmp_path / "outside", RUN)
    run = seated(node, outside)
    run.hear(outside.release(run.acceptance()))
    _acknowledge(monkeypatch, rows=11)
    run.hear(_receipt(outside))
    assert _has_key(node, RUN)


def test_a_receipt_in_the_middle_of_a_run_settles_nothing_and_the_run_goes_on(
    node: OwnerNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run was cancelled, and is held again."""
    outside = Outside(tmp_path / "outside", ROUNDS)
    run = seated(node, outside)
    run.hear(outside.release(run.acceptance()))
    _acknowledge(monkeypatch, rows=2)
    letters = [outside.ask(message) for message in script(ROUNDS)[1:]]
    run.hear(letters[0])
    run.hear(_receipt(outside))
    assert _has_key(node, ROUNDS)
    assert [len(run.hear(letter)) for letter in letters[1:]] == [1, 1, 1]
    assert _has_key(node, ROUNDS), "the receipt for it is still to come"
    run.hear(_receipt(outside, b"another"))
    assert not _has_key(node, ROUNDS)


def test_after_a_withdrawal_the_key_stays_for_the_receipt(
    node: OwnerNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = Outside(tmp_path / "outside", ROUNDS)
    run = seated(node, outside)
    run.hear(outside.release(run.acceptance()))
    node.withdraw(ROUNDS.run, by="Ada")
    absent = owner_run(node, outside.invitation)
    assert absent is not None
    assert absent.absent
    with pytest.raises(IllegalMessage, match="does not take part"):
        absent.hear(outside.ask(script(ROUNDS)[1]))
    assert _has_key(node, ROUNDS)
    _acknowledge(monkeypatch, rows=0)
    absent.hear(_receipt(outside))
    assert not _has_key(node, ROUNDS)
    assert len(logged(node, "acknowledged")) == 1


def test_keys_go_when_the_terms_end(node: OwnerNode, tmp_path: Path, clock: Clock) -> None:
    outside = Outside(tmp_path / "outside", RUN)
    run = seated(node, outside)
    letter = outside.release(run.acceptance())
    (answer,) = run.hear(letter)
    clock.now += timedelta(days=400)
    with OwnerNode(node.home.folder, clock=clock) as later:
        assert not _has_key(later, RUN)
        assert answer not in later.book.sent(bytes.fromhex(RUN.digest))
    with pytest.raises(LikesetError):
        run.hear(letter)


def test_keys_go_when_the_terms_end_also_at_a_node_that_stays_open(
    node: OwnerNode, tmp_path: Path, clock: Clock
) -> None:
    outside = Outside(tmp_path / "outside", RUN)
    seated(node, outside).acceptance()
    assert _has_key(node, RUN)
    clock.now += timedelta(days=400)
    node.take_invitation(signed_terms(terms(run="next-year", expires="2040-01-01")))
    assert not _has_key(node, RUN)


def test_a_thief_of_all_that_a_settled_node_has_opens_no_letter_that_came(
    node: OwnerNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = Outside(tmp_path / "outside", RUN)
    run = seated(node, outside)
    letter = outside.release(run.acceptance())
    run.hear(letter)
    keys = node.book.run_keys(bytes.fromhex(RUN.digest))
    assert keys is not None
    assert keys.secret is not None
    _acknowledge(monkeypatch, rows=12)
    run.hear(_receipt(outside))
    stolen = [path.read_bytes() for path in node.home.folder.glob("letters.sqlite*")]
    assert not any(keys.secret.to_bytes() in content for content in stolen)
    assert not any(letter[2000:2100] in content for content in stolen)
    thief, sealed = CardSecret.load(node.home.folder), outside.parts(letter)
    parties = {"writer": secret_of(RUN.consumer).card, "reader": thief.card}
    assert open_letter(sealed, key=keys.secret, **parties).message  # it is the key alone that is missing
    with pytest.raises(LetterRefused, match="not sealed to the key"):
        open_letter(sealed, key=thief.sealing, **parties)


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
        assert "old copy" in _reasons(node)[-1]
        for act in (
            lambda: run.hear(letter),
            lambda: node.approve(RUN.run, RUN.digest, by="Ada"),
            lambda: node.deny(RUN.run, by="Ada", reason="no"),
            lambda: node.withdraw(RUN.run, by="Ada"),
            lambda: node.add_invitation(Invitation.read(signed_terms(terms(run="run-2")))),
            lambda: node.take(_RELEASE),
        ):
            with pytest.raises(HomeRestored):
                act()
        assert node.take_invitation(signed_terms(terms(run="run-2"))) == "abstains"
        assert node.standing(RUN.run) == "abstains"
        assert _reserved(node) == []


def test_a_wrong_clock_is_named_with_the_end_of_the_terms(node: OwnerNode, tmp_path: Path, clock: Clock) -> None:
    outside = Outside(tmp_path / "outside", RUN)
    seated(node, outside)
    clock.now = clock.now.replace(year=2031)
    assert node.standing(RUN.run) == "abstains"
    said = _reasons(node)[-1]
    assert "ended at 2030-01-0" in said
    assert "this machine's clock says 2031-03-05, 12 h UTC" in said


def test_terms_name_the_cards_of_this_world() -> None:
    assert dict(RUN.cards) == cards_of(RUN.consumer, CURATOR, "a", "b")
    with pytest.raises(LetterRefused):
        Outside.parts(b"")
