"""Keys that an owner's node has for one run: they go with the receipt, or with the terms."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from card_world import secret_of, signed_terms
from node_world import Clock, logged, make_node, script, terms
from owner_letters import Outside, seated

from likeset.errors import IllegalMessage, LetterRefused, LikesetError
from likeset.homes import owner_node
from likeset.homes.mail import LetterBook, sign
from likeset.homes.owner_node import OwnerNode, owner_run
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import Terms
from likeset.trust.cards import CardSecret
from likeset.trust.letters import open_letter

RUN = terms()
ROUNDS = terms(run="rounds", protocol="interactive", size=2)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def node(tmp_path: Path, clock: Clock) -> Iterator[OwnerNode]:
    with OwnerNode(make_node(tmp_path, total={"epsilon": 0, "rows": 99}), clock=clock) as opened:
        yield opened


def _acknowledge(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """Receipts are kept, and acknowledge so many rows."""

    def take(node: OwnerNode, agreed: Terms, data: bytes) -> bool:
        node.note("acknowledged", agreed.run, digest=data.hex(), rows=rows, messages=1, pinned=True)
        return True

    monkeypatch.setattr(owner_node, "take", take)
    kept = SimpleNamespace(transcript=SimpleNamespace(rows=rows))
    monkeypatch.setattr(owner_node, "kept_receipt", lambda *_: kept)


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
