"""Cards for tests: one for each name, the same in every process, so that terms can be written before homes are made."""

import hashlib
from functools import lru_cache
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from likeset.homes.mail import CARDS_FOLDER, role_in
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import Terms
from likeset.trust.cards import CARD_FILE, SECRET_FILE, CardSecret, Pins, SealingSecret
from likeset.trust.letters import sign_terms


def _bytes_for(what: str, count: int) -> bytes:
    return hashlib.shake_256(f"of a test: {what}".encode()).digest(count)


@lru_cache(maxsize=4096)
def secret_of(name: str) -> CardSecret:
    """The card of a name, with its keys: known to everybody who reads this, and the same everywhere."""
    signing = Ed25519PrivateKey.from_private_bytes(_bytes_for(f"signing key of {name}", 32))
    sealing = SealingSecret.from_bytes(_bytes_for(f"sealing key of {name}", 96))
    return CardSecret(name, signing, sealing)


def cards_of(*names: str) -> dict[str, str]:
    """The fingerprints of the cards of these names."""
    return {name: secret_of(name).card.fingerprint for name in names}


def run_id_of(run: str) -> str:
    """The number of a run of this name."""
    return _bytes_for(f"run {run}", 16).hex()


@lru_cache(maxsize=1024)
def signed_terms(terms: Terms) -> bytes:
    """Terms as their consumer signs them."""
    return signed_text(terms.to_json(), by=terms.consumer, run_id=terms.run_id)


def signed_text(text: str, *, by: str = "new-clinic", run_id: str = "") -> bytes:
    """Whatever text, signed as terms are."""
    key = SealingSecret.from_bytes(_bytes_for(f"key for {run_id}", 96))
    return sign_terms(text, secret_of(by), key.public).to_bytes()


def give_card(folder: Path, name: str) -> None:
    """A home's card becomes that of its name here."""
    for file in (SECRET_FILE, CARD_FILE):
        (folder / file).unlink(missing_ok=True)
    secret_of(name).write(folder)


def introduce(folder: Path, terms: Terms) -> None:
    """Somebody at a home pins the cards of the consumer and the curator, if none of these names is pinned there."""
    pins = Pins(folder / CARDS_FOLDER)
    for name in (terms.consumer, CURATOR):
        card = secret_of(name).card
        if pins.get(name) is None and pins.by_fingerprint(card.fingerprint) is None:
            pins.pin(card, role_in(terms, name), fingerprint=None)
