"""The test vectors of ``docs/wire.md``: written by this script, and repeated by ``test_wire.py``.

    PYTHONPATH=tests:tests/trust:tests/protocol python tests/trust/wire_vectors.py

Keys are fixed and no secret. Sealing draws coins that cannot be fixed, so what is sealed is taken from the file that is
there already; without one it is sealed anew. Everything else follows from the keys.
"""

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from offer_vectors import offer_vectors
from protocol_world import terms as some_terms
from trust_world import fixed_bytes, party, sealing_secret

from likeset.protocol.party import CURATOR
from likeset.trust.cards import (
    ACCEPTANCE_CONTEXT,
    CARD_CONTEXT,
    LETTER_CONTEXT,
    TERMS_CONTEXT,
    CardSecret,
    fields,
    fingerprint_bytes,
    seal,
    signed,
)
from likeset.trust.letters import (
    NOTHING_RECEIVED,
    Acceptance,
    Header,
    Letter,
    Post,
    Receipt,
    SignedTerms,
    file_name,
    letter_in,
    pair_of,
)

VECTORS = Path(__file__).with_name("wire-vectors.json")
ROLES = {"consumer": "new-hospital", "owner": "old-hospital", "curator": "registry"}
GROUP_ORDER = 2**252 + 27742317777372353535851937790883648493
RUN_ID = fixed_bytes("run", 16)
TEXT = '{"purpose":"für Ärzte","size":10}'
TERMS = hashlib.sha256(TEXT.encode()).digest()

SECRETS = {role: party(name) for role, name in ROLES.items()}
RUN_KEYS = {role: sealing_secret(f"{role} in the run") for role in ROLES}


class Sealed:
    """What was sealed, by label: as it was sealed before, if it was.

    Args:
        before: by label, in hexadecimal digits.
    """

    def __init__(self, before: dict[str, str]) -> None:
        self.ciphertexts = dict(before)

    def to(self, role: str, plaintext: bytes, *, header: bytes, label: str) -> bytes:
        """Sealed to a party's key for the run under a header."""
        if label not in self.ciphertexts:
            info = signed(LETTER_CONTEXT, header)
            self.ciphertexts[label] = seal(RUN_KEYS[role].public, plaintext, info=info).hex()
        return bytes.fromhex(self.ciphertexts[label])


@dataclasses.dataclass(frozen=True)
class Draft:
    """A letter of the owner to the curator, and what can be changed about it."""

    label: str
    plaintext: bytes
    header: Header

    def data(
        self, sealed: Sealed, *, signer: str = "owner", header: bytes | None = None, reader: str = "curator"
    ) -> bytes:
        """As it travels; under another header or signature where these are given."""
        ciphertext = sealed.to(reader, self.plaintext, header=self.header.to_bytes(), label=self.label)
        header = self.header.to_bytes() if header is None else header
        signature = SECRETS[signer].sign(LETTER_CONTEXT, header, hashlib.sha256(ciphertext).digest())
        return fields(b"likeset letter", header, ciphertext, signature)


def draft(label: str, body: bytes, **changes: Any) -> Draft:
    plaintext = fixed_bytes(f"random {label}", 32) + body
    header = Header(
        run_id=RUN_ID,
        terms=TERMS,
        sender=SECRETS["owner"].card.fingerprint,
        recipient=SECRETS["curator"].card.fingerprint,
        round=1,
        number=0,
        last_received=NOTHING_RECEIVED,
        commitment=hashlib.sha256(plaintext).digest(),
    )
    return Draft(label, plaintext, dataclasses.replace(header, **changes))


def padded(*parts: bytes, step: int = 256, padding: bytes = b"\0") -> bytes:
    content = fields(*parts)
    content = len(content).to_bytes(8, "big") + content
    return content + padding * (-len(content) % step)


MESSAGES = {
    "short": draft("short", padded(b"a message")),
    "with enclosures": draft(
        "with enclosures",
        padded(b"another", b"an enclosure", b"", step=512),
        number=1,
        round=2**40,
        last_received=fixed_bytes("a letter received", 32),
    ),
}


def vectors(sealed: Sealed) -> dict[str, Any]:
    return {
        "parties": {role: _party(secret, role) for role, secret in SECRETS.items()},
        "terms": {"run_id": RUN_ID.hex(), "digest": TERMS.hex(), "text": TEXT, "signed": _signed_terms()},
        "acceptances": {role: _acceptance(role) for role in ("owner", "curator")},
        "letters": {label: _letter(written, sealed) for label, written in MESSAGES.items()},
        "posts": _posts(),
        "receipt": _receipt(),
        "offer": offer_vectors(dict(SECRETS), TERMS),
        "damaged": {
            kind: {label: data.hex() for label, data in cases.items()} for kind, cases in damaged(sealed).items()
        },
        "sealed": sealed.ciphertexts,
    }


def damaged(sealed: Sealed) -> dict[str, dict[str, bytes]]:
    """What every reader must refuse, by kind and by what is wrong with it."""
    card, secret = SECRETS["owner"].card, SECRETS["owner"]
    scalar = int.from_bytes(card.signature[32:], "little") + GROUP_ORDER
    identity = b"\1" + bytes(31)
    card_parts = b"likeset-1", b"old-hospital", card.signing, card.sealing
    other_suite = b"likeset-2", *card_parts[1:]
    terms_parts = TEXT.encode(), SECRETS["consumer"].card.to_bytes(), RUN_KEYS["consumer"].public, b"\7"
    zero_key = (
        RUN_ID,
        TERMS,
        b"owner",
        b"old-hospital",
        card.to_bytes(),
        RUN_KEYS["owner"].public[:1184] + bytes(32),
        b"\7",
    )
    backwards = *zero_key[:5], RUN_KEYS["owner"].public, b"\11\7"
    short = MESSAGES["short"]
    later = dataclasses.replace(short.header, number=9).to_bytes()
    forwarded = dataclasses.replace(short.header, sender=SECRETS["consumer"].card.fingerprint).to_bytes()
    return {
        "card": {
            "S + L in the signature": fields(
                b"likeset card", *card_parts, card.signature[:32] + scalar.to_bytes(32, "little")
            ),
            "a signing key of small order": fields(
                b"likeset card", *card_parts[:2], identity, card.sealing, identity + bytes(32)
            ),
            "another suite": fields(b"likeset card", *other_suite, secret.sign(CARD_CONTEXT, *other_suite)),
            "a byte more": card.to_bytes() + b"\0",
        },
        "terms": {
            "changed after signing": fields(
                b"likeset terms",
                TEXT.replace("10", "11").encode(),
                *terms_parts[1:],
                SECRETS["consumer"].sign(TERMS_CONTEXT, *terms_parts),
            ),
            "signed as an acceptance": fields(
                b"likeset terms", *terms_parts, SECRETS["consumer"].sign(ACCEPTANCE_CONTEXT, *terms_parts)
            ),
        },
        "acceptance": {
            "a run key of small order": fields(
                b"likeset acceptance", *zero_key, secret.sign(ACCEPTANCE_CONTEXT, *zero_key)
            ),
            "versions in another order": fields(
                b"likeset acceptance", *backwards, secret.sign(ACCEPTANCE_CONTEXT, *backwards)
            ),
        },
        "letter": {
            "another number": fields(
                b"likeset letter",
                later,
                sealed.to("curator", short.plaintext, header=short.header.to_bytes(), label="short"),
                short.data(sealed)[-64:],
            ),
            "another number, signed again": short.data(sealed, header=later),
            "the owner's words under the consumer's name": short.data(sealed, header=forwarded, signer="consumer"),
            "signed by somebody else": short.data(sealed, signer="consumer"),
            "sealed to somebody else": draft("to the consumer", padded(b"a message")).data(sealed, reader="consumer"),
            "padding that is not zero": draft("padding", padded(b"a message", padding=b"\1")).data(sealed),
            "no message": draft("empty", bytes(256)).data(sealed),
            "another commitment": draft("commitment", padded(b"a message"), commitment=bytes(32)).data(sealed),
        },
        "post": _damaged_posts(),
    }


POSTS = {
    "a word": Post("participation", TERMS, b"abstains 0"),
    "fills its step": Post("letter", TERMS, fixed_bytes("a letter", 4096 - 4 * 8 - 6 - 32)),
    "a byte more": Post("letter", TERMS, fixed_bytes("a letter", 4096 - 4 * 8 - 6 - 32 + 1)),
}


def _posts() -> dict[str, Any]:
    pair = pair_of(SECRETS["owner"], SECRETS["curator"].card)
    files = {label: pair.outgoing.wrap(post) for label, post in POSTS.items()}
    return {
        "folder": pair.outgoing.folder,
        "folder_of_replies": pair.incoming.folder,
        "files": {
            label: {
                "kind": post.kind,
                "terms": post.terms.hex(),
                "document": post.document.hex(),
                "file": files[label].hex(),
                "name": file_name(files[label]),
            }
            for label, post in POSTS.items()
        },
    }


def wrapped(plaintext: bytes, *, writer: str = "owner", reader: str = "curator", context: bytes = b"") -> bytes:
    """Any plaintext, wrapped by hand as a post would be."""
    ends = [fingerprint_bytes(SECRETS[role].card.fingerprint) for role in (writer, reader)]
    shared = SECRETS[writer].sealing.exchange_with(SECRETS[reader].card.sealing)
    info = fields(b"likeset mailbox pair 1", *ends)
    key = HKDF(hashes.SHA256(), 84, salt=None, info=info).derive(shared)[20:]
    return AESSIV(key).encrypt(plaintext, [context or b"likeset/post/1", *ends])


def _damaged_posts() -> dict[str, bytes]:
    pair = pair_of(SECRETS["owner"], SECRETS["curator"].card)
    good = pair.outgoing.wrap(POSTS["a word"])
    plaintext = fields(b"participation", TERMS, b"abstains 0", bytes(4096 - 4 * 8 - 13 - 32 - 10))
    other_kind = fields(b"greeting", TERMS, b"abstains 0", bytes(4096 - 4 * 8 - 8 - 32 - 10))
    two_steps = fields(b"participation", TERMS, b"abstains 0", bytes(8192 - 4 * 8 - 13 - 32 - 10))
    short_digest = fields(b"participation", TERMS[:31], b"abstains 0", bytes(4096 - 4 * 8 - 13 - 31 - 10))
    return {
        "a bit flipped": good[:-1] + bytes([good[-1] ^ 1]),
        "cut off": good[:-1],
        "a step cut off": good[:16],
        "from the other direction": wrapped(plaintext, writer="curator", reader="owner"),
        "from somebody else": wrapped(plaintext, writer="consumer", reader="curator"),
        "another context": wrapped(plaintext, context=b"likeset/post/2"),
        "a kind that nobody knows": wrapped(other_kind),
        "padding that is no zero": wrapped(plaintext[:-1] + b"\1"),
        "a step of zeros too many": wrapped(two_steps),
        "a digest of 31 bytes": wrapped(short_digest),
        "a part more": wrapped(fields(b"participation", TERMS, b"abstains 0", b"", bytes(4096 - 5 * 8 - 13 - 32 - 10))),
    }


def _party(secret: CardSecret, role: str) -> dict[str, str]:
    return {
        "name": secret.card.name,
        "signing_secret": fixed_bytes(f"signing {secret.card.name} 1", 32).hex(),
        "sealing_secret": secret.sealing.to_bytes().hex(),
        "run_secret": RUN_KEYS[role].to_bytes().hex(),
        "run_public": RUN_KEYS[role].public.hex(),
        "card": secret.card.to_bytes().hex(),
        "card_text": secret.card.to_text(),
        "fingerprint": secret.card.fingerprint,
    }


def _signed_terms() -> str:
    secret = SECRETS["consumer"]
    return SignedTerms(TEXT, secret.card, RUN_KEYS["consumer"].public, (7,)).signed_by(secret).to_bytes().hex()


def _acceptance(role: Any) -> str:
    secret, run_key = SECRETS[role], RUN_KEYS[role].public
    accepted = Acceptance(RUN_ID, TERMS, role, secret.card.name, secret.card, run_key, (7, 9))
    return accepted.signed_by(secret).to_bytes().hex()


def _letter(written: Draft, sealed: Sealed) -> dict[str, Any]:
    letter = letter_in(written.data(sealed), most_bytes=1 << 16)
    random, body = written.plaintext[:32], written.plaintext[32:]
    return {
        "letter": letter.data.hex(),
        "digest": letter.digest.hex(),
        "round": written.header.round,
        "number": written.header.number,
        "last_received": written.header.last_received.hex(),
        "random": random.hex(),
        "body": body.hex(),
        "stub": letter.stub.hex(),
    }


# A receipt is about terms that can be read; what is sealed in the letters does not matter to it.

PARTIES = {"consumer": ROLES["consumer"], "owner": ROLES["owner"], "curator": CURATOR}
AGREED = some_terms(
    consumer=ROLES["consumer"],
    owners=(ROLES["owner"],),
    quorum=1,
    run_id=RUN_ID.hex(),
    cards={name: SECRETS[role].card.fingerprint for role, name in PARTIES.items()},
)


def _digest(number: int, label: str) -> bytes:
    header = Header(
        run_id=RUN_ID,
        terms=bytes.fromhex(AGREED.digest),
        sender=SECRETS["owner"].card.fingerprint,
        recipient=SECRETS["curator"].card.fingerprint,
        round=number + 1,
        number=number,
        last_received=NOTHING_RECEIVED,
        commitment=hashlib.sha256(fixed_bytes(f"random {label}", 32) + padded(label.encode())).digest(),
    )
    return Letter(header, fixed_bytes(f"sealed {label}", 2000), b"", b"").signed_by(SECRETS["owner"]).digest


def _receipt() -> str:
    receipt = Receipt(
        run_id=RUN_ID,
        terms=bytes.fromhex(AGREED.digest),
        owner=ROLES["owner"],
        rows=4,
        letters=(_digest(0, "an offer"), _digest(1, "a delivery")),
        at="2029-03-05T12:00:00+00:00",
        card=SECRETS["curator"].card,
    )
    return receipt.signed_by(SECRETS["curator"]).to_bytes().hex()


def main() -> None:
    """Write the file; what is sealed in it stays as it is."""
    before = json.loads(VECTORS.read_text(encoding="utf-8"))["sealed"] if VECTORS.exists() else {}
    VECTORS.write_text(json.dumps(vectors(Sealed(before)), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
