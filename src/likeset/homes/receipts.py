"""Signed receipts: the curator acknowledges to an owner which messages and rows it received, and which terms hold.

A receipt is a transcript with an Ed25519 signature; it needs the extra ``likeset[nvflare]``, which brings the library
that signs. It is for its owner alone. Receipts of one run can be made again at any time: they say what was received.
"""

import hashlib
import importlib.util
import json
import os
import stat
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from likeset import documents
from likeset.errors import BadDocument, InvalidArgument
from likeset.homes.transcripts import Transcript, transcript_in

__all__ = [
    "Receipt",
    "file_name",
    "has_cryptography",
    "key_in",
    "make_key",
    "public_key",
    "read_receipt",
    "receipt_in",
    "sign",
    "write_receipt",
]

_KIND = "receipt"
_CONTEXT = b"likeset/receipt/1\n"
_OTHERS = 0o077
_KEY_BYTES, _SIGNATURE_BYTES = 32, 64
_LONGEST_NAME = 150


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a curator acknowledges.

    Attributes:
        transcript: the messages that it received and said.
        at: when it signed (UTC).
        key: its public key, in hexadecimal digits.
        signature: likewise.
    """

    transcript: Transcript
    at: str
    key: str
    signature: str

    def document(self) -> dict[str, Any]:
        """As it stands in a file."""
        return {**_content(self.transcript, self.at, self.key), "signature": self.signature}

    def to_bytes(self) -> bytes:
        """As it stands in a file and travels."""
        return (json.dumps(self.document(), indent=1, sort_keys=True) + "\n").encode("ascii")

    @property
    def digest(self) -> str:
        """Of all that it says, with the signature."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def fault(self, trusted: str | None = None) -> str | None:
        """What is wrong with the signature; None if nothing is.

        Args:
            trusted: the public key that the curator is known to have; the one in the receipt if not given, and then
                anybody could have signed.
        """
        if trusted is not None and trusted != self.key:
            return f"it is signed with the key {self.key[:16]}, and the curator's is {trusted[:16]}"
        _need_cryptography()
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            known = Ed25519PublicKey.from_public_bytes(bytes.fromhex(self.key))
            known.verify(bytes.fromhex(self.signature), _signed(self.transcript, self.at, self.key))
        except (InvalidSignature, ValueError):
            return "its signature does not hold: it was changed after it was signed"
        return None


def make_key(path: Path) -> None:
    """A new signing key, in a file that nobody else may read.

    Raises:
        InvalidArgument: there is a file already, or it cannot be written.
    """
    _need_cryptography()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    text = Ed25519PrivateKey.generate().private_bytes_raw().hex()
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise InvalidArgument("key", path, f"cannot be made: {error.strerror}") from error


def public_key(path: Path) -> str:
    """The public key that goes with a signing key, in hexadecimal digits."""
    return str(_signing_key(path).public_key().public_bytes_raw().hex())


def key_in(path: Path) -> str:
    """A public key in a file.

    Raises:
        BadDocument: there is none.
    """
    try:
        text = path.read_text(encoding="ascii").strip().lower()
    except (OSError, ValueError) as error:
        raise BadDocument(str(path), "cannot be read; it must hold the curator's public key") from error
    if not _is_hexadecimal(text, _KEY_BYTES):
        raise BadDocument(str(path), f"must hold a public key: {2 * _KEY_BYTES} hexadecimal digits")
    return text


def sign(transcript: Transcript, key: Path, *, now: datetime | None = None) -> Receipt:
    """The receipt for an owner.

    Args:
        transcript: the curator's copy.
        key: file of the signing key.
        now: when; now if not given.
    """
    signing = _signing_key(key)
    public = signing.public_key().public_bytes_raw().hex()
    at = (now or datetime.now(UTC)).isoformat(timespec="seconds")
    return Receipt(transcript, at, public, signing.sign(_signed(transcript, at, public)).hex())


def write_receipt(path: Path, receipt: Receipt) -> None:
    """Into a file, whole or not at all."""
    documents.write_text(path, receipt.to_bytes().decode("ascii"))
    path.chmod(0o600)


def file_name(name: str) -> str:
    """A run's or an owner's name as it may stand in the name of a file: those may have slashes in them."""
    plain = quote(name, safe="@")
    return plain if len(plain) <= _LONGEST_NAME else hashlib.sha256(name.encode()).hexdigest()


def read_receipt(path: Path) -> Receipt:
    """The receipt in a file; whether its signature holds is asked of it.

    Raises:
        BadDocument: it is none.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadDocument(str(path), "cannot be read as a receipt") from error
    return receipt_in(str(path), data)


def receipt_in(name: str, data: bytes) -> Receipt:
    """The receipt in some bytes; ``name`` stands for them in errors.

    Raises:
        BadDocument: it is none.
    """
    try:
        document = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise BadDocument(name, "cannot be read as a receipt") from error
    if not isinstance(document, dict) or document.get("likeset") != _KIND or document.get("version") != 1:
        raise BadDocument(name, "is no receipt of this version")
    transcript = transcript_in(name, document)
    if not _is_time(document.get("at")):
        raise BadDocument(name, "must be a time with its zone", field="at")
    for field, count in (("key", _KEY_BYTES), ("signature", _SIGNATURE_BYTES)):
        if not _is_hexadecimal(document.get(field), count):
            raise BadDocument(name, f"must be {2 * count} hexadecimal digits", field=field)
    receipt = Receipt(transcript, document["at"], document["key"], document["signature"])
    if document.get("rows") != transcript.rows or set(document) != set(receipt.document()):
        raise BadDocument(name, "its parts do not fit together")
    return receipt


def has_cryptography() -> bool:
    """Whether signatures can be checked here."""
    return importlib.util.find_spec("cryptography") is not None


def _content(transcript: Transcript, at: str, key: str) -> dict[str, Any]:
    return {"likeset": _KIND, "version": 1, **transcript.document(), "rows": transcript.rows, "at": at, "key": key}


def _signed(transcript: Transcript, at: str, key: str) -> bytes:
    """The bytes that are signed: equal receipts give equal ones, and nothing else of likeset's looks like them."""
    text = json.dumps(_content(transcript, at, key), sort_keys=True, separators=(",", ":"))
    return _CONTEXT + text.encode()


def _is_hexadecimal(value: object, count: int) -> bool:
    return isinstance(value, str) and len(value) == 2 * count and set(value) <= set("0123456789abcdef")


def _is_time(value: object) -> bool:
    try:
        return isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def _signing_key(path: Path) -> Any:
    _need_cryptography()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        text = path.read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        raise BadDocument(str(path), "cannot be read; it must hold the signing key") from error
    if os.name == "posix" and mode & _OTHERS:
        raise BadDocument(str(path), f"other users can read it (mode {mode:04o}), and it is secret; chmod 600 it")
    if not _is_hexadecimal(text, _KEY_BYTES):
        raise BadDocument(str(path), "does not hold a signing key; restore it from a copy")
    return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(text))


def _need_cryptography() -> None:
    if not has_cryptography():
        raise InvalidArgument(
            "receipts", "cryptography", "is not installed; install it with: pip install 'likeset[nvflare]'"
        )
