"""Whether a home remembers what it signed: one that does not was put back from an old copy, and stops."""

from likeset.errors import LikesetError
from likeset.homes.identity import Identity
from likeset.homes.signed_invitation import Invitation
from likeset.trust.letters import Stub, is_stub, letter_in
from likeset.trust.signed_terms import Acceptance, is_acceptance, is_signed_terms

__all__ = ["check_remembered"]


def check_remembered(identity: Identity, data: bytes) -> None:
    """Look at something that seems to be this home's own: terms, an acceptance, a letter or its stub.

    What somebody else signed, or nobody, says nothing about this home.

    Raises:
        HomeRestored: this home signed it, and its letter book does not know it.
    """
    try:
        terms = _unknown_own(identity, data)
    except LikesetError:
        return  # it is none of these
    if terms is not None:
        identity.book.stop(terms, data)
        identity.book.check_running()


def _unknown_own(identity: Identity, data: bytes) -> bytes | None:
    """The digest of the terms under which this home signed it without knowing; None if it did not, or knows."""
    own, book = identity.secret.card, identity.book
    if is_signed_terms(data):
        invitation = Invitation.read(data)
        digest = bytes.fromhex(invitation.terms.digest)
        kept = book.run_keys(digest)
        known = invitation.signed.card != own or (kept is not None and kept.invitation == data)
    elif is_acceptance(data):
        accepted = Acceptance.from_bytes(data)
        digest, kept = accepted.terms, book.run_keys(accepted.terms)
        known = accepted.card != own or (kept is not None and kept.acceptance == data)
    else:
        stub = Stub.from_bytes(data) if is_stub(data) else letter_in(data, most_bytes=len(data)).stub
        digest = stub.header.terms
        written = (letter.digest for letter in book.written(digest))
        known = not stub.is_signed_by(own) or stub.digest in written
    return None if known else digest
