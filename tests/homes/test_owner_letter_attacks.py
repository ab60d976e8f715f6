"""Attacks by letters on an owner's node: each is refused, written down and free."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from card_world import secret_of
from node_world import Clock, charged, make_node, terms
from owner_letters import Outside, handles_in, reasons_of_refusals, seated

from likeset.errors import IllegalMessage, LikesetError
from likeset.homes.owner_node import NodeRun, OwnerNode
from likeset.protocol.party import CURATOR
from likeset.protocol.wire import Message, TargetRelease
from likeset.trust.cards import LETTER_CONTEXT, TERMS_CONTEXT, CardSecret, fields
from likeset.trust.letters import accept

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


# Who speaks.

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
    data, known, before = attack(node, outside), len(reasons_of_refusals(node)), charged(node)
    with pytest.raises(LikesetError):
        run.hear(data)
    (said,) = reasons_of_refusals(node)[known:]
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
    assert len(handles_in(outside.read(answer))) == 12


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
    assert "from the consumer" in reasons_of_refusals(node)[-1]
    assert charged(node) == before


def test_a_letter_of_one_run_is_refused_in_another(node: OwnerNode, tmp_path: Path) -> None:
    first, second = Outside(tmp_path / "one", RUN), Outside(tmp_path / "two", terms(run="run-2"))
    runs = [seated(node, outside) for outside in (first, second)]
    letter = first.release(runs[0].acceptance())
    runs[1].acceptance()
    with pytest.raises(IllegalMessage, match="another run"):
        runs[1].hear(letter)
    assert all(kind != "reserve" for kind, _ in charged(node))
    assert len(runs[0].hear(letter)) == 1


def test_other_bytes_under_a_number_are_refused_and_its_writer_sees_the_first(node: OwnerNode, tmp_path: Path) -> None:
    outside = Outside(tmp_path / "outside", RUN)
    run = seated(node, outside)
    letter = outside.release(run.acceptance())
    run.hear(letter)
    before = charged(node)
    other = outside.forged(node, secret_of(RUN.consumer), _RELEASE)
    assert run.hear(other) == (outside.parts(letter).stub.to_bytes(),)
    assert "two different letters under the number 0" in reasons_of_refusals(node)[-1]
    assert charged(node) == before


def test_a_second_release_under_another_number_is_refused(node: OwnerNode, tmp_path: Path) -> None:
    outside = Outside(tmp_path / "outside", RUN)
    run = seated(node, outside)
    run.hear(outside.release(run.acceptance()))
    before = charged(node)
    with pytest.raises(LikesetError):
        run.hear(outside.forged(node, secret_of(RUN.consumer), _RELEASE, number=1))
    assert "another one came in its place before" in reasons_of_refusals(node)[-1]
    assert charged(node) == before
