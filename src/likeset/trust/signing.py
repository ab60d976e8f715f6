"""Ed25519 as cards use it: keys in their one form, none of small order, and no error but ours."""

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from likeset.errors import BadDocument

__all__ = ["SIGNATURE_BYTES", "SIGNING_KEY_BYTES", "check_signing_key", "holds"]

SIGNING_KEY_BYTES = 32
SIGNATURE_BYTES = 64
_FIELD_PRIME = 2**255 - 19
_SIGN_BIT = 2**255
_ORDER_EIGHT = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
# The second coordinates of the eight points of small order: for such a key a signature exists that holds for
# every message, so that its holder could deny each of them.
_SMALL_ORDER = {0, 1, _FIELD_PRIME - 1, _ORDER_EIGHT, _FIELD_PRIME - _ORDER_EIGHT}


def check_signing_key(public: bytes, *, what: str) -> bytes:
    """A public signing key in the one form that it has, for which signatures prove something.

    Raises:
        BadDocument: it is none.
    """
    coordinate = int.from_bytes(public, "little") % _SIGN_BIT
    if len(public) != SIGNING_KEY_BYTES or coordinate >= _FIELD_PRIME or coordinate in _SMALL_ORDER:
        raise BadDocument(what, "holds no usable signing key")
    return public


def holds(public: bytes, message: bytes, signature: bytes) -> bool:
    """Whether the holder of the key signed the message."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True
