"""Letters by parties who take part and are hostile: whatever they sign, nobody else is harmed, and little is kept."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
from letter_world import LetterWorld
from protocol_world import CONSUMER

from likeset.errors import LetterRefused
from likeset.homes.identity import Identity
from likeset.homes.site_run import ConsumerRun, CuratorRun
from likeset.protocol.party import CURATOR
from likeset.trust.encoding import LETTER_CONTEXT, fields, read_fields
from likeset.trust.letters import write_letter
from likeset.trust.signed_terms import Acceptance

_MOST_BYTES = 1 << 24
_NUMBER_AT = 110  # in a header, as docs/wire.md says


def _first_letters(homes: LetterWorld) -> dict[str, bytes]:
    """The consumer's, by reader, once everybody has accepted."""
    consumer, names = homes.run_at(CONSUMER), [name for name in homes.homes if name != CONSUMER]
    assert isinstance(consumer, ConsumerRun)
    return {homes.reader(data): data for data in consumer.begin([homes.run_at(name).acceptance() for name in names])}


def _signed(homes: LetterWorld, writer: str, reader: str, **changes: Any) -> bytes:
    """A letter that a party writes past its own home, sealed to the reader's key for the run."""
    options: dict[str, Any] = {
        "recipient": homes.homes[reader].secret.card,
        "recipient_key": Acceptance.from_bytes(homes.letters(reader).acceptance()).run_key,
        "run_id": bytes.fromhex(homes.agreed.run_id),
        "terms": bytes.fromhex(homes.agreed.digest),
        "round": 0,
        "number": 0,
        "message": b"",
        **changes,
    }
    return write_letter(homes.homes[writer].secret, **options).data


@pytest.mark.parametrize("number", [2**63, 2**64 - 1])
def test_a_number_that_no_letter_can_have_is_refused_and_ends_nobody_elses_run(tmp_path: Path, number: int) -> None:
    """SQLite has no numbers of 64 bits without a sign: one letter of an owner ended the curator's run for all."""
    homes = LetterWorld(tmp_path)
    first = _first_letters(homes)
    curator = homes.run_at(CURATOR)
    assert isinstance(curator, CuratorRun)
    curator.hear(first[CURATOR])
    with pytest.raises(LetterRefused, match="form"):
        curator.hear(_numbered(_signed(homes, "a", CURATOR), homes.homes["a"], number))
    curator.hear(homes.run_at("a").hear(first["a"])[0])
    assert "a" not in curator.waiting_for


def _numbered(data: bytes, writer: Identity, number: int) -> bytes:
    """The same letter with another number in its header, signed again by its writer."""
    tag, header, ciphertext, _ = read_fields(data, 4, what="letter")
    other = header[:_NUMBER_AT] + number.to_bytes(8, "big") + header[_NUMBER_AT + 8 :]
    signature = writer.secret.sign(LETTER_CONTEXT, other, hashlib.sha256(ciphertext).digest())
    return fields(tag, other, ciphertext, signature)
