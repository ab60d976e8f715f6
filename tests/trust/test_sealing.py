"""Sealed to one reader, and to nobody else."""

import pytest
from trust_world import flipped, sealing_secret

from likeset.errors import BadDocument
from likeset.trust.cards import SealingSecret, check_sealing_key, seal

KEY, OTHER = sealing_secret("one"), sealing_secret("other")
SMALL_ORDER = [  # every point of X25519 of small order; an exchange with one of these gives zeros, whatever the secret
    bytes(32),
    b"\1" + bytes(31),
    bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
    bytes.fromhex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"),
    (2**255 - 20).to_bytes(32, "little"),
]
NOT_IN_ONE_FORM = [
    (2**255 - 19 + 9).to_bytes(32, "little"),  # the point 9, written larger than the field
    (2**255 + 9).to_bytes(32, "little"),  # and with the bit that is ignored
]


def test_a_secret_survives_its_bytes_and_shows_nothing() -> None:
    again = SealingSecret.from_bytes(KEY.to_bytes())
    assert again.public == KEY.public
    assert len(KEY.public) == 1216
    assert again.open(seal(KEY.public, b"text", info=b""), info=b"") == b"text"
    assert repr(KEY) == "SealingSecret(...)"
    assert SealingSecret.generate().public != SealingSecret.generate().public


@pytest.mark.parametrize("length", [0, 95, 97])
def test_a_secret_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(BadDocument, match="96 are needed"):
        SealingSecret.from_bytes(bytes(length))


def test_another_key_another_info_and_any_change_are_refused() -> None:
    sealed = seal(KEY.public, b"text", info=b"info")
    for key, data, info in [
        (OTHER, sealed, b"info"),
        (KEY, sealed, b"other"),
        (KEY, sealed, b""),
        (KEY, sealed[:-1], b"info"),
        (KEY, sealed + b"\0", b"info"),
        (KEY, b"", b"info"),
        (KEY, bytes(1120), b"info"),
        (KEY, bytes(len(sealed)), b"info"),
        (KEY, flipped(sealed, 5), b"info"),
        (KEY, flipped(sealed, 8 * 1088 + 3), b"info"),
        (KEY, flipped(sealed, 8 * len(sealed) - 1), b"info"),
    ]:
        with pytest.raises(BadDocument, match="cannot be opened") as refused:
            key.open(data, info=info)
        assert refused.value.__cause__ is None


@pytest.mark.parametrize("point", SMALL_ORDER, ids=range(len(SMALL_ORDER)))
def test_a_key_that_half_the_world_could_open_is_refused(point: bytes) -> None:
    public = KEY.public[:1184] + point
    with pytest.raises(BadDocument, match="no usable sealing key"):
        check_sealing_key(public, what="card")
    with pytest.raises(BadDocument, match="cannot be used to seal anything"):
        seal(public, b"text", info=b"")


@pytest.mark.parametrize("point", NOT_IN_ONE_FORM, ids=["larger than the field", "ignored bit"])
def test_a_key_in_another_form_is_refused(point: bytes) -> None:
    with pytest.raises(BadDocument, match="one form"):
        check_sealing_key(KEY.public[:1184] + point, what="card")


@pytest.mark.parametrize(
    "public",
    [b"", KEY.public[:-1], KEY.public + b"\0", b"\xff" * 1184 + KEY.public[1184:], KEY.public[1184:]],
    ids=["nothing", "cut", "extended", "numbers too large", "half"],
)
def test_what_is_no_key_is_refused(public: bytes) -> None:
    with pytest.raises(BadDocument):
        check_sealing_key(public, what="card")
    with pytest.raises(BadDocument):
        seal(public, b"text", info=b"")
    check_sealing_key(KEY.public, what="card")
