"""Fingerprints of cards: 200 bits in forty letters that two people can compare by telephone.

A fingerprint is the first 200 bits of the SHA-256 of a card's bytes, in the letters of RFC 4648's base 32, in eight
groups of five: ``K7QXA-...``. On the wire it has 25 bytes.
"""

import base64
import functools
import hashlib
import re

from likeset.errors import BadDocument, InvalidArgument

__all__ = ["FINGERPRINT_BYTES", "check_typed", "fingerprint_bytes", "fingerprint_of", "fingerprint_text", "typed"]

FINGERPRINT_BYTES = 25
_GROUPS, _LETTERS_IN_A_GROUP = 8, 5
_LETTERS = _GROUPS * _LETTERS_IN_A_GROUP
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_FORM = re.compile(rf"[{_ALPHABET}]{{5}}(?:-[{_ALPHABET}]{{5}}){{7}}")
_BETWEEN = re.compile(r"[\s-]+")
_LARGE = {ord(letter.lower()): letter for letter in _ALPHABET}  # str.upper makes ASCII of letters that are not
_REMEMBERED = 4096  # the parties of a run, which every letter names
_SEVERAL = 4  # so many wrong letters are no slip of the pen


def fingerprint_of(data: bytes) -> str:
    """Of the bytes of a card."""
    return fingerprint_text(hashlib.sha256(data).digest()[:FINGERPRINT_BYTES])


@functools.lru_cache(_REMEMBERED)
def fingerprint_text(data: bytes) -> str:
    """The 25 bytes of a fingerprint as people read them."""
    if len(data) != FINGERPRINT_BYTES:
        raise BadDocument("fingerprint", f"has {len(data)} bytes; {FINGERPRINT_BYTES} are needed")
    return _grouped(base64.b32encode(data).decode("ascii"))


@functools.lru_cache(_REMEMBERED)
def fingerprint_bytes(text: str) -> bytes:
    """The 25 bytes of a fingerprint in the form that ``fingerprint_text`` gives it.

    Raises:
        BadDocument: it has another form.
    """
    if _FORM.fullmatch(text) is None:
        raise BadDocument("fingerprint", "must be eight groups of five letters A-Z or 2-7, joined by -")
    return base64.b32decode(text.replace("-", ""))


@functools.lru_cache(_REMEMBERED)
def typed(text: str) -> str:
    """A fingerprint as a person typed it, in its one form: small letters and missing dashes do no harm.

    Raises:
        InvalidArgument: it is none; names the group and letter at fault.
    """
    letters = _BETWEEN.sub("", text).translate(_LARGE)
    for number, letter in enumerate(letters[:_LETTERS]):
        if letter not in _ALPHABET:
            reason = f"{_place(number)} is no letter of a fingerprint; those are A-Z and 2-7 (no 0, 1, 8, 9)"
            raise InvalidArgument("fingerprint", text, reason)
    if len(letters) != _LETTERS:
        reason = f"has {len(letters)} letters; it must have {_LETTERS}, eight groups of five"
        raise InvalidArgument("fingerprint", text, reason)
    return _grouped(letters)


def check_typed(expected: str, actual: str, *, whose: str) -> None:
    """What a person typed is the fingerprint of the card at hand.

    Args:
        expected: as it was read out, typed by a person.
        actual: the card's.
        whose: the name on the card.

    Raises:
        InvalidArgument: it is another; names the first group and letter that differ, not what should stand there:
            that is asked on the telephone, not copied from the card.
    """
    expected = typed(expected)
    pairs = zip(expected.replace("-", ""), actual.replace("-", ""), strict=True)
    wrong = [number for number, (said, due) in enumerate(pairs) if said != due]
    if not wrong:
        return
    if len(wrong) >= _SEVERAL:
        reason = (
            f"is not the fingerprint of {whose}'s card: {len(wrong)} of {_LETTERS} letters differ; this is another card"
        )
    else:
        places = ", ".join(_place(number) for number in wrong)
        differs = "differs" if len(wrong) == 1 else "differ"
        reason = f"is not the fingerprint of {whose}'s card: {places} {differs}; ask for it again"
    raise InvalidArgument("fingerprint", expected, reason)


def _grouped(letters: str) -> str:
    return "-".join(letters[start : start + _LETTERS_IN_A_GROUP] for start in range(0, _LETTERS, _LETTERS_IN_A_GROUP))


def _place(number: int) -> str:
    group, letter = divmod(number, _LETTERS_IN_A_GROUP)
    return f"letter {letter + 1} of group {group + 1}"
