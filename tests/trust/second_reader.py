"""A second reader of the wire format, written from ``docs/wire.md``: it knows nothing of the package.

It needs ``cryptography`` and the standard library. Whatever it refuses raises ``Refused``.
"""

import base64
import hashlib
import re
import struct
from typing import Any, NamedTuple

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes, hpke
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESSIV, ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

P = 2**255 - 19
Y8 = int.from_bytes(bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"), "little")
SUITE = hpke.Suite(hpke.KEM.MLKEM768_X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.CHACHA20_POLY1305)


class Refused(Exception):
    """These bytes are not what they should be."""


class Card(NamedTuple):
    name: str
    signing: bytes
    sealing: bytes
    fingerprint: bytes


class Letter(NamedTuple):
    round: int
    number: int
    last_received: bytes
    random: bytes
    body: bytes
    parts: list[bytes]


def need(condition: bool, what: str) -> None:
    """Refuse unless it holds."""
    if not condition:
        raise Refused(what)


def fields(*parts: bytes) -> bytes:
    return b"".join(struct.pack(">Q", len(part)) + part for part in parts)


def split(data: bytes) -> list[bytes]:
    parts = []
    while data:
        need(len(data) >= 8, "cut")
        (length,) = struct.unpack(">Q", data[:8])
        need(len(data) >= 8 + length, "cut")
        parts.append(data[8 : 8 + length])
        data = data[8 + length :]
    return parts


def parts_of(kind: str, data: bytes, count: int) -> list[bytes]:
    """The parts after the first, which names the kind."""
    parts = split(data)
    need(len(parts) == count + 1 and parts[0] == kind.encode(), f"no {kind}")
    return parts[1:]


def check_signature(signing: bytes, signature: bytes, context: str, *parts: bytes) -> None:
    """It holds. The library checks that S is below the order of the group."""
    try:
        Ed25519PublicKey.from_public_bytes(signing).verify(signature, fields(context.encode(), *parts))
    except (InvalidSignature, ValueError) as error:
        raise Refused("signature") from error


def check_name(name: bytes) -> str:
    need(re.fullmatch(rb"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}", name) is not None, "name")
    return name.decode("ascii")


def check_signing_key(key: bytes) -> None:
    """In its one form, and of large order."""
    y = int.from_bytes(key, "little") % 2**255
    need(len(key) == 32 and y < P and y not in (0, 1, P - 1, Y8, P - Y8), "signing key")


def check_sealing_key(key: bytes) -> None:
    """In its one form, and of large order."""
    need(len(key) == 1216 and int.from_bytes(key[1184:], "little") < P, "sealing key")
    try:
        MLKEM768PublicKey.from_public_bytes(key[:1184])
        X25519PrivateKey.generate().exchange(X25519PublicKey.from_public_bytes(key[1184:]))
    except ValueError as error:
        raise Refused("sealing key") from error


def read_card(data: bytes) -> Card:
    need(len(data) <= 65536, "size")
    suite, name, signing, sealing, signature = parts_of("likeset card", data, 5)
    need(suite == b"likeset-1", "suite")
    check_signing_key(signing)
    check_sealing_key(sealing)
    check_signature(signing, signature, "likeset/card/1", suite, name, signing, sealing)
    return Card(check_name(name), signing, sealing, hashlib.sha256(data).digest()[:25])


def fingerprint_text(fingerprint: bytes) -> str:
    """As people read it."""
    return "-".join(re.findall(".....", base64.b32encode(fingerprint).decode()))


def read_card_text(text: str) -> Card:
    """A card as it stands in a file."""
    title, name, fingerprint, *rest = [line.strip() for line in text.splitlines() if line.strip()]
    data = base64.b64decode("".join(rest), validate=True)
    need(title == "likeset card 1" and base64.b64encode(data).decode() == "".join(rest), "text")
    card = read_card(data)
    need(name == f"name: {card.name}", "name")
    need(fingerprint == f"fingerprint: {fingerprint_text(card.fingerprint)}", "fingerprint")
    return card


def check_versions(data: bytes) -> list[int]:
    """Of messages that the writer reads."""
    need(1 <= len(data) <= 32 and data[0] > 0 and sorted(set(data)) == list(data), "versions")
    return list(data)


def read_terms(data: bytes) -> tuple[str, Card, bytes, list[int]]:
    """Signed terms: their text, the consumer's card, its run key and the versions of messages that it reads."""
    need(len(data) <= 2**20, "size")
    text, card_data, run_key, versions, signature = parts_of("likeset terms", data, 5)
    card = read_card(card_data)
    check_sealing_key(run_key)
    check_signature(card.signing, signature, "likeset/terms/1", text, card_data, run_key, versions)
    return text.decode("utf-8"), card, run_key, check_versions(versions)


def read_acceptance(data: bytes) -> tuple[bytes, bytes, str, str, Card, bytes, list[int]]:
    """An acceptance: run, terms, role, party, card, run key and the versions of messages that the party reads."""
    need(len(data) <= 8192, "size")
    *parts, signature = parts_of("likeset acceptance", data, 8)
    run_id, terms, role, party, card_data, run_key, versions = parts
    need(len(run_id) == 16 and len(terms) == 32 and role in (b"owner", b"curator", b"witness"), "parts")
    card = read_card(card_data)
    check_sealing_key(run_key)
    check_signature(card.signing, signature, "likeset/acceptance/1", *parts)
    return run_id, terms, role.decode(), check_name(party), card, run_key, check_versions(versions)


def check_header(header: bytes, sender: Card) -> None:
    """Of this version and suite, and from this sender."""
    need(len(header) == 182 and header[:4] == b"\0\1\0\1", "header")
    need(header[52:77] == sender.fingerprint, "sender")


def open_letter(data: bytes, *, sender: Card, recipient: Card, run_secret: bytes) -> Letter:
    """What a letter says."""
    header, ciphertext, signature = parts_of("likeset letter", data, 3)
    check_signature(sender.signing, signature, "likeset/letter/1", header, hashlib.sha256(ciphertext).digest())
    check_header(header, sender)
    need(header[77:102] == recipient.fingerprint, "recipient")
    key = hpke.MLKEM768X25519PrivateKey(
        MLKEM768PrivateKey.from_seed_bytes(run_secret[:64]), X25519PrivateKey.from_private_bytes(run_secret[64:])
    )
    try:
        plaintext = SUITE.decrypt(ciphertext, key, fields(b"likeset/letter/1", header))
    except (InvalidTag, ValueError) as error:
        raise Refused("seal") from error
    return said(header, plaintext[:32], plaintext[32:])


def said(header: bytes, random: bytes, body: bytes) -> Letter:
    need(len(random) == 32 and hashlib.sha256(random + body).digest() == header[150:182], "commitment")
    need(len(body) >= 8, "body")
    end = 8 + int.from_bytes(body[:8], "big")
    need(end <= len(body) and not any(body[end:]), "body")
    parts = split(body[8:end])
    need(1 <= len(parts) <= 65536, "message")
    round_, number = struct.unpack(">QQ", header[102:118])
    return Letter(round_, number, header[118:150], random, body, parts)


def read_stub(data: bytes, *, sender: Card) -> bytes:
    """The header of a letter that the sender wrote."""
    header, digest, signature = parts_of("likeset stub", data, 3)
    check_signature(sender.signing, signature, "likeset/letter/1", header, digest)
    check_header(header, sender)
    need(len(digest) == 32, "digest")
    return header


class Receipt(NamedTuple):
    run_id: bytes
    terms: bytes
    owner: str
    rows: int
    letters: list[bytes]
    at: str
    card: Card


def read_receipt(data: bytes) -> Receipt:
    """The content of a receipt; ``card`` is the signer's."""
    need(len(data) <= 2**24, "size")
    *parts, signature = parts_of("likeset receipt", data, 8)
    run_id, terms, owner, rows, letters, at, card_data = parts
    need(len(run_id) == 16 and len(terms) == 32 and len(rows) == 8 and len(letters) % 32 == 0, "parts")
    card = read_card(card_data)
    check_signature(card.signing, signature, "likeset/receipt/3", *parts)
    digests = [letters[place : place + 32] for place in range(0, len(letters), 32)]
    return Receipt(run_id, terms, check_name(owner), int.from_bytes(rows, "big"), digests, at.decode("ascii"), card)


def terms_digest(text: str) -> bytes:
    """How letters, acceptances and receipts name terms."""
    return hashlib.sha256(b"likeset/terms/5\n" + text.encode("utf-8")).digest()


class OfferList(NamedTuple):
    """What an owner signed about its offer."""

    terms: bytes
    owner: bytes
    parties: list[bytes]
    key_digest: bytes
    leaves: list[bytes]
    digest: bytes


ROLES = [b"curator", b"consumer", b"witness"]


def sha(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def pieces(data: bytes, size: int) -> list[bytes]:
    """Equal pieces, nothing left over."""
    need(len(data) % size == 0, "pieces")
    return [data[start : start + size] for start in range(0, len(data), size)]


def number(value: int) -> bytes:
    return struct.pack(">Q", value)


def read_list(data: bytes, owner: Card) -> OfferList:
    """A list that the owner signed."""
    *parts, signature = parts_of("likeset list", data, 7)
    terms, owner_name, parties, key_digest, count, leaves = parts
    check_signature(owner.signing, signature, "likeset/list/1", *parts)
    need(owner_name == owner.fingerprint and len(terms) == 32 and len(key_digest) == 32, "parts")
    fingerprints, each = pieces(parties, 25), pieces(leaves, 32)
    need(len(fingerprints) == 3 and len({owner_name, *fingerprints}) == len(fingerprints) + 1, "parties")
    need(count == number(len(each)) and 1 <= len(each) <= 2**20, "slots")
    return OfferList(terms, owner_name, fingerprints, key_digest, each, sha(fields(b"likeset/list/1", *parts)))


def offer_context(listed: OfferList) -> bytes:
    """What commitments and leaves name."""
    return sha(fields(b"likeset offer", listed.terms, listed.owner, b"".join(listed.parties)))


def check_leaf(listed: OfferList, slot: int, digests: bytes) -> list[bytes]:
    """The digests of a slot, which the list names."""
    each = pieces(digests, 32)
    need(len(each) == len(listed.parties) + 2 and slot < len(listed.leaves), "digests")
    leaf = sha(fields(b"likeset slot", offer_context(listed), number(slot), *each))
    need(leaf == listed.leaves[slot], "leaf")
    return each


def check_share(listed: OfferList, slot: int, role: bytes, *, salt: bytes, share: bytes, commitment: bytes) -> None:
    """The share is the one that was committed to."""
    parts = (offer_context(listed), number(slot), role, salt, share)
    need(len(salt) == 32 and sha(fields(b"likeset share", *parts)) == commitment, "share")


def read_part(data: bytes, owner: Card, *, words: int, record_bytes: int) -> tuple[bytes, OfferList, list[bytes]]:
    """A part of an offer: whose it is, the list, and this party's shares."""
    role, listed_data, digests, salts, share, key, envelopes = parts_of("likeset part", data, 7)
    listed = read_list(listed_data, owner)
    place, slots = ROLES.index(role), len(listed.leaves)
    need(place < len(listed.parties) and len(digests) == 32 * slots * (len(listed.parties) + 2), "part")
    need(len(salts) == 32 * slots and len(share) == 8 * words * slots, "size")
    need(len(envelopes) == ((4 + record_bytes + 16) * slots if role == b"curator" else 0), "size")
    need((sha(key) == listed.key_digest and len(key) == 32) if role == b"consumer" else not key, "key")
    shares = pieces(share, 8 * words)
    for slot, slot_digests in enumerate(pieces(digests, len(digests) // slots)):
        each = check_leaf(listed, slot, slot_digests)
        check_share(listed, slot, role, salt=salts[32 * slot :][:32], share=shares[slot], commitment=each[place])
        if role == b"curator":
            need(sha(pieces(envelopes, len(envelopes) // slots)[slot]) == each[-1], "envelope")
    need(len({one[-32:] for one in shares}) == slots, "repeated")
    return role, listed, shares


def read_roster(data: bytes, signer: Card) -> dict[bytes, bytes]:
    """The digest of each owner's list, by fingerprint."""
    *parts, signature = parts_of("likeset roster", data, 5)
    _, parties, entries, role = parts
    check_signature(signer.signing, signature, "likeset/roster/1", *parts)
    need(pieces(parties, 25)[ROLES.index(role)] == signer.fingerprint, "signer")
    lines = pieces(entries, 57)
    lists = {line[:25]: line[25:] for line in lines}
    need([owner + digest for owner, digest in sorted(lists.items())] == lines, "order")
    return lists


def open_envelope(envelope: bytes, listed: OfferList, slot: int, *, key: bytes, random: bytes) -> bytes:
    """The record in it."""
    info = fields(b"likeset row", listed.terms, listed.owner, number(slot))
    bound = fields(b"likeset row", listed.terms, listed.owner, listed.parties[1], number(slot))
    slot_key = HKDF(SHA256(), 32, None, info).derive(key + random)
    try:
        padded = ChaCha20Poly1305(slot_key).decrypt(bytes(12), envelope, bound)
    except InvalidTag as error:
        raise Refused("seal") from error
    end = 4 + int.from_bytes(padded[:4], "big")
    need(end <= len(padded) and not any(padded[end:]), "padding")
    return padded[4:end]


def read_record(data: bytes, kinds: list[str]) -> tuple[int, list[Any], int]:
    """Handle, cells and class of a record with a label of declared values; ``list 2`` is a list of two numbers."""
    marks, position, widths = -(-len(kinds) // 8), 0, {"number": 8, "truth": 1, "day": 4, "text": 4}
    need(len(data) >= 9 + marks and data[0] == 1, "version")
    position = 9 + marks
    cells: list[Any] = []
    for place, kind in enumerate(kinds):
        width = widths.get(kind) or 8 * int(kind.split()[1])
        cell, position = data[position : position + width], position + width
        need(len(cell) == width, "cut")
        if data[9 + place // 8] >> (7 - place % 8) & 1:
            need(not any(cell), "missing")
            cells.append(None)
        elif kind == "truth":
            need(cell[0] < 2, "truth")
            cells.append(bool(cell[0]))
        elif kind in ("day", "text"):
            cells.append(struct.unpack(">i" if kind == "day" else ">I", cell)[0])
        else:
            numbers = list(struct.unpack(f">{width // 8}d", cell))
            cells.append(numbers[0] if kind == "number" else numbers)
    (label,) = struct.unpack(">H", data[position : position + 2])
    position += 2
    for place, kind in enumerate(kinds):
        if kind == "text" and cells[place] is not None:
            start, position = position, position + cells[place]
            cells[place] = data[start:position].decode("utf-8")
    need(position == len(data), "length")
    return int.from_bytes(data[1:9], "big"), cells, label


KINDS = (b"terms", b"participation", b"acceptance", b"letter", b"progress", b"ending")


def pair(own_secret: bytes, other: Card, *, writer: bytes, reader: bytes) -> tuple[str, bytes]:
    """The folder and the key of one direction between two parties, from the sealing secret of either."""
    exchange = X25519PrivateKey.from_private_bytes(own_secret[64:])
    shared = exchange.exchange(X25519PublicKey.from_public_bytes(other.sealing[1184:]))
    info = fields(b"likeset mailbox pair 1", writer, reader)
    derived = HKDF(hashes.SHA256(), 84, salt=None, info=info).derive(shared)
    return base64.b32encode(derived[:20]).decode().lower(), derived[20:]


def read_word(document: bytes) -> tuple[str, int]:
    """The document of a post of kind participation."""
    word, blank, number = document.partition(b" ")
    need(word in (b"waiting", b"abstains", b"leaves") and blank == b" ", "word")
    need(number.isdigit() and str(int(number)).encode() == number and len(number) <= 18, "number")
    return word.decode(), int(number)


def read_post(name: str, data: bytes, key: bytes, *, writer: bytes, reader: bytes) -> tuple[str, bytes, bytes]:
    """Kind, terms and document of a post."""
    need(hashlib.sha256(data).hexdigest() == name, "name")
    need(len(data) > 16 and len(data) % 4096 == 16, "length")
    try:
        plaintext = AESSIV(key).decrypt(data, [b"likeset/post/1", writer, reader])
    except InvalidTag as error:
        raise Refused("post") from error
    parts = split(plaintext)
    need(len(parts) == 4 and parts[0] in KINDS and len(parts[1]) == 32, "parts")
    need(len(parts[3]) < 4096 and not any(parts[3]), "zeros")
    return parts[0].decode(), parts[1], parts[2]
