"""What a home can show a third party of its letters, what that proves, and that nothing forged is taken for proof."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from letter_world import MOST_BYTES, NOON, LetterWorld, make_identity, terms_between
from protocol_world import CONSUMER, terms

from chance import public_coins
from likeset.errors import BadDocument, InvalidArgument
from likeset.homes.bundles import Bundle
from likeset.homes.disputes import Fact, facts, unproven
from likeset.homes.evidence import Evidence
from likeset.homes.receipts import Receipt, sign
from likeset.homes.signed_invitation import Invitation
from likeset.homes.transcripts import TO_OWNER
from likeset.protocol.messages import decode
from likeset.protocol.party import CURATOR
from likeset.trust.encoding import fields, read_fields
from likeset.trust.letters import Letter, Stub, letter_in, open_letter, write_letter
from likeset.trust.sealing import SealingSecret
from likeset.trust.signed_terms import Acceptance, accept, sign_terms


@dataclass
class Ended:
    """A run in rounds that ended, so that the curator wrote to owners, too."""

    world: LetterWorld

    def evidence(self, party: str, other: str) -> Evidence:
        return Evidence.of(self.world.letters(party).identity.book, Invitation.read(self.world.invitation), other)

    def bundle(self, party: str = "a", other: str = CURATOR, **options: Any) -> Bundle:
        return self.evidence(party, other).bundle(**options)

    def letter(self, writer: str, reader: str, **changes: Any) -> Letter:
        """A letter that somebody writes beside the run."""
        world = self.world
        accepted = Acceptance.from_bytes(world.letters(reader).acceptance())
        options: dict[str, Any] = {
            "recipient": world.homes[reader].secret.card,
            "recipient_key": accepted.run_key,
            "run_id": bytes.fromhex(world.agreed.run_id),
            "terms": bytes.fromhex(world.agreed.digest),
            "round": 1,
            "number": 0,
            "message": b"something else",
            **changes,
        }
        return write_letter(world.homes[writer].secret, **options)


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    world = LetterWorld(tmp_path_factory.mktemp("run"), terms(protocol="interactive"))
    assert world.carry(world.all_runs()) is not None
    return Ended(world)


def kinds(proven: tuple[Fact, ...]) -> set[str]:
    return {fact.kind for fact in proven}


def of_kind(proven: tuple[Fact, ...], kind: str) -> list[str]:
    return [fact.words for fact in proven if fact.kind == kind]


# What is proven.


@pytest.mark.parametrize(
    ("party", "other"), [("a", CURATOR), (CURATOR, "a"), (CONSUMER, CURATOR), ("a", CONSUMER), (CONSUMER, "a")]
)
def test_both_sides_of_every_pair_can_show_the_same_letters(ended: Ended, party: str, other: str) -> None:
    mine, theirs = ended.bundle(party, other), ended.bundle(other, party)
    assert set(mine.stubs) == set(theirs.stubs)
    assert len(mine.stubs) > 0
    assert Bundle.from_bytes(mine.to_bytes()).to_bytes() == mine.to_bytes()
    assert kinds(facts(mine)) <= {"terms", "accepted", "wrote", "acknowledged"}
    assert {fact.words for fact in facts(mine)} == {fact.words for fact in facts(theirs)}


def test_who_wrote_how_much_to_whom_under_which_terms_is_proven_with_the_cards_alone(ended: Ended) -> None:
    bundle = Bundle.from_bytes(ended.bundle(receipts=[ended.world.receipt("a")]).to_bytes())
    agreed, proven = ended.world.agreed, facts(bundle)
    sent = [line for line in ended.world.transcript("a").lines if line.way != TO_OWNER]
    assert of_kind(proven, "terms") == [
        f"{CONSUMER} signed the terms {agreed.digest[:16]} of run {agreed.run}, which name all its parties by card."
    ]
    assert of_kind(proven, "accepted") == [
        "a accepted these terms, as owner.",
        "curator accepted these terms, as curator.",
    ]
    assert of_kind(proven, "wrote")[0] == (
        f"a wrote {len(sent)} letters to curator in this run: letters 0 to {len(sent) - 1}."
    )
    acknowledged = of_kind(proven, "acknowledged")
    assert acknowledged[-1] == (
        f"curator acknowledges in a receipt of 2029-03-05T12:00:00+00:00: letters 0 to {len(sent) - 1} of a, "
        f"with {ended.world.transcript('a').rows} rows."
    )
    assert acknowledged[0].startswith("curator acknowledges letter")
    assert {fact.by for fact in proven} == {"a", CURATOR, CONSUMER}
    assert not {"contradiction", "elsewhere", "said"} & kinds(proven)


def test_what_is_not_proven_is_said(ended: Ended) -> None:
    bundle = ended.bundle()
    cards = {party: ended.world.homes[party].fingerprint for party in ("a", CURATOR, CONSUMER)}
    nobody = unproven(bundle, [])
    assert [any(card in words for words in nobody) for card in cards.values()] == [True, True, True]
    only_owner = unproven(bundle, [cards["a"]])
    assert not any(cards["a"] in words for words in only_owner)
    assert any(cards[CURATOR] in words for words in only_owner)
    everybody = unproven(bundle, list(cards.values()))
    assert everybody[0].startswith("What letters say that are not disclosed")
    assert everybody[-1].startswith("That nothing was left out")
    # Nobody answered the curator's last letter, which brought the receipt; the owner's last one is named in it.
    last = max(stub.header.number for stub in bundle.written_by(CURATOR))
    assert any(words.endswith(f"{last} of curator: nothing here acknowledges that.") for words in everybody)
    without_last = replace(bundle, stubs=bundle.stubs[:-1])
    assert any("of a: nothing here acknowledges that" in words for words in unproven(without_last, []))
    with_receipt = replace(without_last, receipts=(ended.world.receipt("a"),))
    assert not any("of a: nothing here acknowledges that" in words for words in unproven(with_receipt, []))


def test_two_letters_under_one_number_are_proven_from_their_headers_alone(tmp_path: Path) -> None:
    """The owner kept the second one, which it refused; neither letter itself is in the bundle."""
    world = LetterWorld(tmp_path, terms(protocol="interactive"))
    world.carry(world.all_runs())
    other = Ended(world).letter(CURATOR, "a")
    world.run_at("a").hear(other.data)
    bundle = Bundle.from_bytes(Ended(world).bundle("a", CURATOR).to_bytes())
    (fact,) = [fact for fact in facts(bundle) if fact.kind == "contradiction"]
    assert (fact.by, fact.numbers) == (CURATOR, (0,))
    assert fact.words == "curator wrote 2 different letters under the number 0: it contradicts itself."
    assert other.ciphertext[:64] not in bundle.to_bytes()
    assert not of_kind(facts(Ended(world).bundle(CURATOR, "a")), "contradiction")  # who lies does not show it


def test_a_receipt_that_says_otherwise_than_its_signers_own_letters_is_a_contradiction(ended: Ended) -> None:
    world = ended.world
    lines = world.transcript("a").lines
    said = next(line for line in lines if line.way == TO_OWNER)
    others = tuple(sorted(replace(line, digest="0" * 64) if line == said else line for line in lines))
    lie, truth = world.receipt("a", lines=others), world.receipt("a")
    proven = facts(ended.bundle(receipts=[lie, truth]))
    assert of_kind(proven, "contradiction") == [
        f"A receipt of {lie.at} names another letter {said.number} of curator than curator signed.",
        f"curator signed receipts that say different things of letter {said.number} to owner.",
    ]


def test_an_owner_who_signs_another_letter_afterwards_proves_nothing_against_an_honest_curator(ended: Ended) -> None:
    """It leaves the letter that the curator received out of the bundle, and puts another, never sent, in its place."""
    whole = ended.bundle(receipts=[ended.world.receipt("a")])
    first, *others = whole.written_by("a")
    invented = ended.letter("a", CURATOR, round=first.header.round).stub
    proven = facts(replace(whole, stubs=(invented, *others, *whole.written_by(CURATOR))))
    assert not of_kind(proven, "contradiction")
    assert any(
        "either a wrote two, or curator names one that a did not write" in words
        for words in of_kind(proven, "elsewhere")
    )


def test_letters_that_are_named_and_not_shown_are_said_to_be_elsewhere(ended: Ended) -> None:
    whole = ended.bundle(receipts=[ended.world.receipt("a")])
    without = replace(whole, stubs=tuple(stub for stub in whole.stubs if stub not in whole.written_by("a")[:1]))
    elsewhere = of_kind(facts(without), "elsewhere")
    assert any("of curator name as received a letter of a that is not here" in words for words in elsewhere)
    assert any("names letter 0 of a, which is not here" in words for words in elsewhere)


# What is disclosed.


def test_a_reader_can_show_what_a_letter_said_and_no_other(ended: Ended) -> None:
    evidence = ended.evidence("a", CONSUMER)
    bundle = Bundle.from_bytes(evidence.bundle(disclosures=[evidence.disclosure(CONSUMER, 0)]).to_bytes())
    (said,) = of_kind(facts(bundle), "said")
    assert said.startswith(f"Letter 0 of {CONSUMER} to a said: target-release, ")
    assert said.endswith("and 1 document enclosed.")
    assert "not disclosed" not in " ".join(unproven(bundle, []))  # there is no other letter between the two
    for writer, number in (("a", 0), (CONSUMER, 7), (CURATOR, 0)):
        with pytest.raises(InvalidArgument, match="is no letter between a and"):
            evidence.disclosure(writer, number)


def test_a_writer_can_show_what_it_wrote_if_it_still_has_it(ended: Ended) -> None:
    world, evidence = ended.world, ended.evidence("a", CURATOR)
    delivered = next(line for line in world.transcript("a").lines if line.rows)
    data = world.letters("a").identity.book.letter_data(
        bytes.fromhex(world.agreed.digest), CURATOR, "out", delivered.number
    )
    assert data is not None
    keys = world.letters(CURATOR).identity.book.run_keys(bytes.fromhex(world.agreed.digest))
    assert keys is not None
    assert keys.secret is not None
    cards = {"writer": world.homes["a"].secret.card, "reader": world.homes[CURATOR].secret.card}
    message = bytes(open_letter(letter_in(data, most_bytes=MOST_BYTES), key=keys.secret, **cards).message)
    with pytest.raises(InvalidArgument, match="keeps no copy of what it says; curator may have one"):
        evidence.disclosure("a", delivered.number)
    shown = evidence.disclosure("a", delivered.number, messages=[message])
    with pytest.raises(InvalidArgument, match="keeps no copy of what it says; a may have one"):
        ended.evidence(CURATOR, "a").disclosure("a", delivered.number)
    (said,) = of_kind(facts(evidence.bundle(disclosures=[shown])), "said")
    assert f"said: delivery with {delivered.rows:,} rows" in said
    # No row is in a bundle in which nobody disclosed one.
    row = decode(message).body.rows.tobytes()  # type: ignore[union-attr]
    assert row in evidence.bundle(disclosures=[shown]).to_bytes()
    assert row not in evidence.bundle(receipts=[world.receipt("a")]).to_bytes()


def test_when_a_run_is_settled_all_but_what_letters_said_can_still_be_shown(tmp_path: Path) -> None:
    world = LetterWorld(tmp_path)
    world.carry(world.all_runs())
    before = Ended(world).bundle("a", CURATOR).to_bytes()
    world.letters("a").settle()
    assert Ended(world).bundle("a", CURATOR).to_bytes() == before
    with pytest.raises(InvalidArgument, match="settled and its key gone"):
        Ended(world).evidence("a", CURATOR).disclosure("a", 0)


def test_nobody_shows_letters_with_themselves_or_with_who_did_not_take_part(tmp_path: Path) -> None:
    world = LetterWorld(tmp_path)
    world.carry(world.all_runs(), absent=["b"])
    for name in ("a", "stranger"):
        with pytest.raises(InvalidArgument, match="is nobody else in run"):
            Ended(world).evidence("a", name)
    with pytest.raises(BadDocument, match="b did not take part"):
        Ended(world).bundle(CURATOR, "b")


# Forgeries.


def _invited_again(ended: Ended) -> Invitation:
    """The same parties, asked to another run."""
    world = ended.world
    again = terms_between(world.agreed.with_changes(run_id="", cards={}), world.homes, run_id="f" * 32)
    return Invitation(sign_terms(again.to_json(), world.homes[CONSUMER].secret, SealingSecret.generate().public), again)


def _accepted_again(ended: Ended) -> Acceptance:
    again = _invited_again(ended).terms
    return accept(
        ended.world.homes["a"].secret,
        run_id=bytes.fromhex(again.run_id),
        terms=bytes.fromhex(again.digest),
        role="owner",
        party="a",
        run_key=SealingSecret.generate().public,
    )


def _stub_of(letter: Letter) -> Callable[[Bundle], Bundle]:
    def put(bundle: Bundle) -> Bundle:
        return replace(bundle, stubs=(*bundle.stubs, letter.stub))

    return put


def _damaged(stub: Stub) -> Stub:
    return replace(stub, signature=bytes([stub.signature[0] ^ 1]) + stub.signature[1:])


def _renamed(bundle: Bundle, **changes: Any) -> Receipt:
    receipt = bundle.receipts[0]
    return replace(receipt, transcript=replace(receipt.transcript, **changes))


def _by_mallory(bundle: Bundle, place: Path) -> Receipt:
    mallory = make_identity(place / "mallory", CURATOR).secret
    copy = replace(bundle.receipts[0].transcript, curator_card=mallory.card.fingerprint)
    return sign(copy, mallory, now=NOON)


FORGERIES: dict[str, tuple[Callable[[Ended, Bundle, Path], Any], str]] = {
    "a letter with another signature": (
        lambda _e, b, _p: replace(b, stubs=(_damaged(b.stubs[0]), *b.stubs[1:])),
        "letter 0 of a is not signed by its card",
    ),
    "a letter under another header": (
        lambda _e, b, _p: replace(
            b, stubs=(replace(b.stubs[0], header=replace(b.stubs[0].header, number=0, round=99)), *b.stubs[1:])
        ),
        "letter 0 of a is not signed by its card",
    ),
    "a letter of another run": (
        lambda e, b, _p: _stub_of(e.letter(CURATOR, "a", run_id=bytes(16), number=99))(b),
        "of another run, or under other terms",
    ),
    "a letter under other terms": (
        lambda e, b, _p: _stub_of(e.letter(CURATOR, "a", terms=bytes(32), number=99))(b),
        "of another run, or under other terms",
    ),
    "a letter of somebody else": (
        lambda e, b, _p: _stub_of(e.letter("b", "a", number=99))(b),
        "not between a and curator",
    ),
    "a letter for somebody else": (
        lambda e, b, _p: _stub_of(e.letter(CURATOR, "b", number=99))(b),
        "not between a and curator",
    ),
    "a letter twice": (lambda _e, b, _p: replace(b, stubs=(*b.stubs, b.stubs[-1])), "not in their order, or one"),
    "letters in another order": (lambda _e, b, _p: replace(b, stubs=b.stubs[::-1]), "not in their order, or one"),
    "no acceptance": (lambda _e, b, _p: replace(b, acceptances=b.acceptances[:1]), "one acceptance each of a and"),
    "an acceptance twice": (
        lambda _e, b, _p: replace(b, acceptances=b.acceptances[:1] * 2),
        "one acceptance each of a and curator",
    ),
    "another owner's acceptance": (
        lambda e, b, _p: replace(
            b, acceptances=(Acceptance.from_bytes(e.world.letters("b").acceptance()), b.acceptances[1])
        ),
        "one acceptance each of a and curator",
    ),
    "an acceptance of another run": (
        lambda e, b, _p: replace(b, acceptances=(_accepted_again(e), b.acceptances[1])),
        "of another run, other terms or another card",
    ),
    "somebody who is nobody": (lambda _e, b, _p: replace(b, parties=("a", "mallory")), "two parties whom the terms"),
    "one party twice": (lambda _e, b, _p: replace(b, parties=("a", "a")), "two parties whom the terms"),
    "terms of another run": (
        lambda e, b, _p: replace(b, invitation=_invited_again(e)),
        "an acceptance in it is of another run",
    ),
    "a receipt that was changed": (
        lambda _e, b, _p: replace(b, receipts=(replace(b.receipts[0], at="2031-01-01T00:00:00+00:00"),)),
        "its signature does not hold",
    ),
    "a receipt of another run": (
        lambda _e, b, _p: replace(b, receipts=(_renamed(b, run_id="f" * 32),)),
        "a receipt in it is of another run",
    ),
    "another owner's receipt": (
        lambda e, b, _p: replace(b, receipts=(e.world.receipt("b"),)),
        "a receipt in it is of another run, other terms or another owner",
    ),
    "a receipt that another card signed": (
        lambda _e, b, p: replace(b, receipts=(_by_mallory(b, p),)),
        "a receipt in it does not hold: it is signed by the card",
    ),
    "a letter's signature on a receipt": (
        lambda _e, b, _p: replace(b, receipts=(replace(b.receipts[0], signature=b.stubs[-1].signature),)),
        "its signature does not hold",
    ),
    "a receipt twice": (lambda _e, b, _p: replace(b, receipts=b.receipts * 2), "receipts are not in their order"),
    "a disclosure of another body": (
        lambda _e, b, _p: replace(
            b, disclosures=(replace(b.disclosures[0], body=b.disclosures[0].body + b"\0"), *b.disclosures[1:])
        ),
        "did not say what is disclosed",
    ),
    "a disclosure of a letter that is not there": (
        lambda _e, b, _p: replace(b, stubs=tuple(s for s in b.stubs if s != b.disclosures[0].stub)),
        "discloses a letter that is not in it",
    ),
    "a disclosure twice": (
        lambda _e, b, _p: replace(b, disclosures=b.disclosures * 2),
        "disclosures are not in their order",
    ),
}


@pytest.fixture(scope="module")
def full(ended: Ended) -> Bundle:
    evidence = ended.evidence("a", CURATOR)
    return evidence.bundle(receipts=[ended.world.receipt("a")], disclosures=[evidence.disclosure(CURATOR, 0)])


@pytest.mark.parametrize("what", FORGERIES)
def test_nothing_forged_becomes_a_bundle(ended: Ended, full: Bundle, tmp_path: Path, what: str) -> None:
    forge, reason = FORGERIES[what]
    with pytest.raises(BadDocument, match=reason):
        forge(ended, full, tmp_path)


def test_a_bundle_that_was_cut_or_lengthened_is_refused(full: Bundle) -> None:
    data = full.to_bytes()
    starts = [sum(8 + len(part) for part in read_fields(data, None, what="bundle")[:count]) for count in range(8)]
    for end in (0, 1, 100, *starts, len(data) - 1):
        with pytest.raises(BadDocument):
            Bundle.from_bytes(data[:end])
    for more in (b"\0", fields(b"")):
        with pytest.raises(BadDocument):
            Bundle.from_bytes(data + more)


def test_no_bit_of_a_bundle_can_be_changed(full: Bundle) -> None:
    """A sample of all bits: in terms, cards, acceptances, letters, receipts and disclosures."""
    data = full.to_bytes()
    for bit in map(int, public_coins(31).choice(8 * len(data), size=250, replace=False)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << (bit % 8)
        with pytest.raises(BadDocument):
            Bundle.from_bytes(bytes(changed))


def test_the_same_words_in_another_form_are_refused(full: Bundle) -> None:
    """A receipt is a text that could be written in many ways; in a bundle there is one."""
    tag, *parts = read_fields(full.to_bytes(), None, what="bundle")
    (receipt,) = read_fields(parts[5], 1, what="receipts")
    spaced = fields(receipt.replace(b'"at": ', b'"at":  ', 1))
    with pytest.raises(BadDocument, match="is not in its one form"):
        Bundle.from_bytes(fields(tag, *parts[:5], spaced, *parts[6:]))


def test_a_bundle_is_not_larger_than_anybody_would_read(full: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    data = full.to_bytes()
    monkeypatch.setattr("likeset.homes.bundles.MOST_BUNDLE_BYTES", len(data) - 1)
    with pytest.raises(BadDocument, match="disclose fewer letters"):
        full.to_bytes()
    with pytest.raises(BadDocument, match="has more than"):
        Bundle.from_bytes(data)
