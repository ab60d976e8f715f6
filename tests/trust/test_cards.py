"""Cards: whole or none, known by their fingerprints, and their private halves for one user alone."""

import itertools
import re
import stat
from pathlib import Path

import pytest
from trust_world import ALICE, BOB, MALLORY

from likeset.errors import BadDocument, InvalidArgument
from likeset.trust.cards import (
    CARD_CONTEXT,
    CONTEXTS,
    SUITE,
    Card,
    CardSecret,
    card_in,
    check_fingerprint,
    check_signing_key,
    fields,
    read_card,
)


def test_a_card_may_come_through_the_mail() -> None:
    text = ALICE.card.to_text()
    assert max(map(len, text.splitlines())) <= 76
    assert card_in("it", "\r\n" + text.replace("\n", " \r\n\r\n")) == ALICE.card


def test_a_sealing_key_that_is_none_is_refused_even_if_the_card_is_signed() -> None:
    for sealing in (bytes(1216), ALICE.card.sealing[:1184] + bytes(32), ALICE.card.sealing[:-1]):
        signature = ALICE.sign(CARD_CONTEXT, SUITE.encode(), b"alice", ALICE.card.signing, sealing)
        with pytest.raises(BadDocument, match="no usable sealing key"):
            Card("alice", ALICE.card.signing, sealing, signature)


@pytest.mark.parametrize("name", ["", "-", "a b", "a\x1b[31m", "a\n", "a" * 129, "ä"])
def test_names_that_nobody_may_have(name: str) -> None:
    with pytest.raises(InvalidArgument, match="name"):
        CardSecret.generate(name)
    parts = SUITE.encode(), name.encode(), ALICE.card.signing, ALICE.card.sealing
    with pytest.raises(BadDocument, match="name"):
        Card.from_bytes(fields(b"likeset card", *parts, ALICE.sign(CARD_CONTEXT, *parts)))


class TestText:
    @pytest.mark.parametrize(
        ("old", "new", "field"),
        [
            ("likeset card 1", "likeset card 2", ""), ("name: alice", "name: bob", "name"),
            ("fingerprint: ", "fingerprint: A", "fingerprint"), ("xs", "!s", ""), ("AAAAAAAAAAxs", "", ""),
        ],
    )  # fmt: skip
    def test_a_changed_text_is_refused_by_name(self, old: str, new: str, field: str) -> None:
        text = ALICE.card.to_text()
        assert old in text
        with pytest.raises(BadDocument) as refused:
            card_in("alice.card", text.replace(old, new, 1))
        assert (refused.value.document, refused.value.field) == ("alice.card", field)
        assert "\n" not in str(refused.value)

    @pytest.mark.parametrize("text", ["", "\n", "hello", "likeset card 1", "likeset card 1\nname: a\nfingerprint: b"])
    def test_other_texts_are_no_cards(self, text: str) -> None:
        with pytest.raises(BadDocument):
            card_in("it", text)

    def test_files_that_are_none_end_in_one_line(self, tmp_path: Path) -> None:
        (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
        (tmp_path / "large").write_text("a" * 100_000, encoding="ascii")
        for name in ("none", "", "binary", "large"):
            with pytest.raises(BadDocument) as refused:
                read_card(tmp_path / name)
            assert "\n" not in str(refused.value)


class TestSignatures:
    def test_a_signature_of_one_kind_is_none_of_another(self) -> None:
        """All pairs of kinds, over the same parts."""
        parts = [b"some", b"parts"]
        for kind, other in itertools.product(CONTEXTS, CONTEXTS):
            assert ALICE.card.verify(other, parts, ALICE.sign(kind, *parts)) == (kind == other)

    def test_an_unknown_kind_is_refused(self) -> None:
        with pytest.raises(InvalidArgument, match="context"):
            ALICE.sign("likeset/invoice/1", b"a")

    @pytest.mark.parametrize("sign", [0, 2**255])
    @pytest.mark.parametrize(
        "coordinate",
        [
            0,
            1,
            2**255 - 20,
            0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7,
            0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826,
            2**255 - 19,  # 0 in another form
            2**255 - 18,  # 1 in another form
            2**255 - 1,
        ],
    )
    def test_no_point_of_small_order_and_no_other_form_is_a_key(self, coordinate: int, sign: int) -> None:
        with pytest.raises(BadDocument, match="no usable signing key"):
            check_signing_key((coordinate + sign).to_bytes(32, "little"), what="card")

    @pytest.mark.parametrize("key", [b"", ALICE.card.signing[:31], ALICE.card.signing + b"\0"])
    def test_a_key_of_another_length_is_refused(self, key: bytes) -> None:
        with pytest.raises(BadDocument, match="no usable signing key"):
            check_signing_key(key, what="card")


class TestFingerprintOfAPerson:
    def test_small_letters_blanks_and_missing_dashes_do_no_harm(self) -> None:
        fingerprint = ALICE.card.fingerprint
        for typed in (fingerprint, fingerprint.lower(), fingerprint.replace("-", ""), fingerprint.replace("-", " ")):
            check_fingerprint(typed, ALICE.card)

    def test_every_group_with_a_wrong_letter_is_named(self) -> None:
        letters = ALICE.card.fingerprint.replace("-", "")
        for place, letter in enumerate(letters):
            wrong = letters[:place] + ("B" if letter == "A" else "A") + letters[place + 1 :]
            with pytest.raises(InvalidArgument, match=f"groups differ: {place // 5 + 1};"):
                check_fingerprint(wrong.lower(), ALICE.card)
        with pytest.raises(InvalidArgument, match="groups differ: 1, 2, 3, 4, 5, 6, 7, 8"):
            check_fingerprint(MALLORY.card.fingerprint, ALICE.card)

    def test_what_is_no_fingerprint_is_said_so(self) -> None:
        letters = ALICE.card.fingerprint.replace("-", "")
        for typed in ("", letters[:-1], letters + "A", *(letters[:7] + letter + letters[8:] for letter in "0ß")):
            with pytest.raises(InvalidArgument, match=r"^fingerprint"):
                check_fingerprint(typed, ALICE.card)


class TestHome:
    def test_keys_survive_their_files(self, tmp_path: Path) -> None:
        ALICE.write(tmp_path / "home")
        loaded = CardSecret.load(tmp_path / "home")
        assert loaded.card == ALICE.card
        assert loaded.sealing.to_bytes() == ALICE.sealing.to_bytes()
        assert loaded.sign(CARD_CONTEXT, b"a") == ALICE.sign(CARD_CONTEXT, b"a")
        assert stat.S_IMODE((tmp_path / "home" / "card.secret").stat().st_mode) == 0o600
        assert read_card(tmp_path / "home" / "card") == ALICE.card
        assert sorted(path.name for path in (tmp_path / "home").iterdir()) == ["card", "card.secret"]

    def test_nothing_secret_is_shown(self) -> None:
        assert repr(ALICE) == "CardSecret('alice', ...)"
        assert repr(ALICE.card) == "Card(name='alice')"

    @pytest.mark.parametrize("there", ["card", "card.secret"])
    def test_keys_are_never_overwritten(self, tmp_path: Path, there: str) -> None:
        (tmp_path / there).write_text("mine", encoding="ascii")
        with pytest.raises(InvalidArgument, match=r"^card"):
            ALICE.write(tmp_path)
        assert [(path.name, path.read_text(encoding="ascii")) for path in tmp_path.iterdir()] == [(there, "mine")]

    def test_a_home_without_keys(self, tmp_path: Path) -> None:
        with pytest.raises(BadDocument):
            CardSecret.load(tmp_path)

    @pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
    def test_keys_that_others_can_read(self, tmp_path: Path, mode: int) -> None:
        ALICE.write(tmp_path)
        (tmp_path / "card.secret").chmod(mode)
        with pytest.raises(BadDocument, match=f"{mode:04o}"):
            CardSecret.load(tmp_path)

    @pytest.mark.parametrize(
        ("old", "new"), [("secret 1", "secret 2"), ("AAAA", "AAA"), ("AAAA", "ä"), ("AAAA", "BAAA"), ("likeset", "")]
    )
    def test_damaged_keys_show_nothing_of_themselves(self, tmp_path: Path, old: str, new: str) -> None:
        ALICE.write(tmp_path)
        path = tmp_path / "card.secret"
        text = path.read_text(encoding="ascii")
        path.write_text(text.replace(old, new, 1), encoding="utf-8")
        with pytest.raises(BadDocument) as refused:
            CardSecret.load(tmp_path)
        assert not any(line in str(refused.value) for line in text.splitlines()[1:])

    def test_a_card_of_other_keys(self, tmp_path: Path) -> None:
        ALICE.write(tmp_path)
        (tmp_path / "card").write_text(BOB.card.to_text(), encoding="ascii")
        with pytest.raises(BadDocument):
            CardSecret.load(tmp_path)

    def test_keys_without_their_card(self, tmp_path: Path) -> None:
        ALICE.write(tmp_path)
        (tmp_path / "card").unlink()
        with pytest.raises(BadDocument, match=re.escape(str(tmp_path / "card"))):
            CardSecret.load(tmp_path)
