"""A certificate for one run: made for it, kept by its party alone until the run is over, known by all of its bytes.

Nobody signs it but its own key. What makes it a party's is that the party sent it, or its digest, in a letter that it
signed; whoever gives a certificate to a tunnel must have it from there.
"""

import datetime
from dataclasses import dataclass, field
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from likeset.errors import BadDocument

__all__ = ["RunCertificate", "read_certificate"]

_KEY_BYTES = 32
_FIRST = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
_LAST = datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC)  # it is pinned, and goes with its run


@dataclass(frozen=True)
class RunCertificate:
    """A party's certificate with its key.

    Attributes:
        certificate: all bytes of it (DER), for the others.
        key: for nobody else.
    """

    certificate: bytes
    key: Ed25519PrivateKey = field(repr=False)

    @classmethod
    def generate(cls) -> Self:
        """A new one, with a new key."""
        key = Ed25519PrivateKey.generate()
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "likeset split")])
        built = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(_FIRST)
            .not_valid_after(_LAST)
            .sign(key, None)
        )
        return cls(built.public_bytes(Encoding.DER), key)

    def to_bytes(self) -> bytes:
        """Secret: for a party's own disk, so that it is known again after it was killed."""
        return self.key.private_bytes_raw() + self.certificate

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """What ``to_bytes`` wrote.

        Raises:
            BadDocument: it is something else.
        """
        secret, certificate = data[:_KEY_BYTES], data[_KEY_BYTES:]
        try:
            key = Ed25519PrivateKey.from_private_bytes(secret)
        except ValueError:
            raise BadDocument("certificate", "is none") from None
        if read_certificate(certificate).public_key() != key.public_key():
            raise BadDocument("certificate", "does not belong to its key")
        return cls(certificate, key)


def read_certificate(data: bytes) -> x509.Certificate:
    """A certificate from its bytes.

    Raises:
        BadDocument: they are none.
    """
    try:
        return x509.load_der_x509_certificate(data)
    except (ValueError, x509.InvalidVersion):
        raise BadDocument("certificate", "is none") from None
