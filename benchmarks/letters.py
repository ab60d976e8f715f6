"""What letters cost: CPU time to write and read one, by size, and those of a thousand owners.

Beside each letter stands what the library alone takes to seal, open, sign and check as many bytes in the same run: the
ratio says what is ours.

    python benchmarks/letters.py [--out benchmarks/results/letters.md]
"""

import argparse
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import hpke
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from likeset.trust.cards import CardSecret, SealingSecret
from likeset.trust.letters import Acceptance, Letter, letter_in, open_letter, write_letter

MEBIBYTE = 1 << 20
SIZES = {"100 bytes": 100, "10 KiB": 10 << 10, "100 KiB": 100 << 10, "1 MiB": MEBIBYTE, "10 MiB": 10 * MEBIBYTE}
REPEATS = 41
ALLOWED_PER_MEBIBYTE, ALLOWED_BEYOND = 5e-3, 0.5e-3
OWNERS, OWNERS_MESSAGE, ALLOWED_FOR_ALL = 1000, 10 << 10, 3.0
RUN_ID, TERMS = bytes(16), bytes(32)


@dataclass(frozen=True, slots=True)
class Cost:
    """Median CPU seconds of a letter."""

    size: str
    length: int
    write: float
    read: float
    library: float

    def beyond(self, seconds: float) -> float:
        """What is left of some CPU time without what is allowed for the length; nothing if it took less."""
        return max(0.0, seconds - ALLOWED_PER_MEBIBYTE * self.length / MEBIBYTE)


class Correspondence:
    """One party that writes to another, and the library's keys for the same."""

    def __init__(self) -> None:
        self.writer, self.reader = CardSecret.generate("writer"), CardSecret.generate("reader")
        self.run_key = SealingSecret.generate()
        self._bare = hpke.MLKEM768X25519PrivateKey(MLKEM768PrivateKey.generate(), X25519PrivateKey.generate())
        self._suite = hpke.Suite(hpke.KEM.MLKEM768_X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.CHACHA20_POLY1305)
        self._signing = Ed25519PrivateKey.generate()

    def write(self, message: bytes) -> Letter:
        """A letter."""
        return written(self.writer, self.reader, self.run_key.public, message)

    def read(self, data: bytes) -> None:
        """Believed, opened, and its digest taken, as every home does."""
        letter = letter_in(data, most_bytes=len(data))
        open_letter(letter, writer=self.writer.card, reader=self.reader.card, key=self.run_key)
        _ = letter.digest

    def library(self, message: bytes) -> None:
        """Sealed, opened, signed and checked, without any format."""
        sealed = self._suite.encrypt(message, self._bare.public_key(), b"info")
        self._suite.decrypt(sealed, self._bare, b"info")
        self._signing.public_key().verify(self._signing.sign(b"m" * 300), b"m" * 300)


def written(writer: CardSecret, reader: CardSecret, run_key: bytes, message: bytes) -> Letter:
    """A letter of some party to another."""
    return write_letter(
        writer,
        recipient=reader.card,
        recipient_key=run_key,
        run_id=RUN_ID,
        terms=TERMS,
        round=0,
        number=0,
        message=message,
    )


def cpu_of(work: Callable[[], object]) -> float:
    """CPU seconds of this process."""
    started = time.process_time()
    work()
    return time.process_time() - started


def cost(correspondence: Correspondence, size: str, length: int) -> Cost:
    """Medians over letters, in turns with the library, so that a busy machine troubles both alike."""
    message = bytes(range(256)) * (length // 256) + bytes(length % 256)
    writes, reads, bare = [], [], []
    for _ in range(REPEATS):
        letter = correspondence.write(message)
        writes.append(cpu_of(lambda: correspondence.write(message)))
        reads.append(cpu_of(lambda: correspondence.read(letter.data)))  # noqa: B023 (called at once)
        bare.append(cpu_of(lambda: correspondence.library(message)))
    return Cost(size, length, *map(statistics.median, (writes, reads, bare)))


def thousand_owners() -> tuple[float, float, float]:
    """CPU seconds: letters written by all owners, read by their curator, and their acceptances read."""
    curator, run_key = CardSecret.generate("curator"), SealingSecret.generate()
    owners = [CardSecret.generate(f"owner-{number}") for number in range(OWNERS)]
    message = bytes(OWNERS_MESSAGE)
    letters: list[Letter] = []
    writing = cpu_of(lambda: letters.extend(written(owner, curator, run_key.public, message) for owner in owners))

    def read_all() -> None:
        for owner, letter in zip(owners, letters, strict=True):
            received = letter_in(letter.data, most_bytes=len(letter.data))
            open_letter(received, writer=owner.card, reader=curator.card, key=run_key)
            _ = received.digest

    acceptances = [
        Acceptance(RUN_ID, TERMS, "owner", owner.card.name, owner.card, run_key.public).signed_by(owner).to_bytes()
        for owner in owners
    ]
    return writing, cpu_of(read_all), cpu_of(lambda: [Acceptance.from_bytes(data) for data in acceptances])


def page(costs: list[Cost], owners: tuple[float, float, float]) -> str:
    """The table."""
    machine = f"Python {platform.python_version()}, {platform.machine()}"
    allowed = f"{ALLOWED_PER_MEBIBYTE * 1e3:.0f} ms for each mebibyte, and beyond that {ALLOWED_BEYOND * 1e3:.1f} ms"
    lines = [
        "# What letters cost",
        "",
        f"`benchmarks/letters.py`, {machine}: CPU time, median of {REPEATS}. Reading is believing, opening and",
        "taking the digest. The library alone seals, opens, signs and checks as many bytes in the same run. A letter",
        f"may take {allowed}; shown for writer and reader apart, and for both as one. Large",
        "letters take hashing (two passes to write, two to read) and, where fresh memory comes slowly, copies.",
        "",
        "| message | write, ms | read, ms | times the library | beyond: write, ms | read, ms | both as one, ms |",
        "|---|---|---|---|---|---|---|",
    ]
    for size in costs:
        both = size.write + size.read
        beyond = " | ".join(f"{size.beyond(seconds) * 1e3:.2f}" for seconds in (size.write, size.read, both))
        figures = f"{size.write * 1e3:.2f} | {size.read * 1e3:.2f} | {both / size.library:.2f}"
        lines.append(f"| {size.size} | {figures} | {beyond} |")
    writing, reading, accepting = owners
    lines += [
        "",
        f"{OWNERS:,} owners, each a letter of {OWNERS_MESSAGE >> 10} KiB to one curator: {writing:.2f} s to write all, "
        f"{reading:.2f} s to read all,",
        f"{writing + reading:.2f} s together (allowed: {ALLOWED_FOR_ALL:.0f} s). Their acceptances, cards included, "
        f"are read and checked in {accepting:.2f} s.",
    ]
    return "\n".join([*lines, ""])


def main() -> None:
    """Measure, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "letters.md")
    out = parser.parse_args().out
    correspondence = Correspondence()
    cost(correspondence, "to warm up", 100)
    costs = [cost(correspondence, size, length) for size, length in SIZES.items()]
    out.write_text(page(costs, thousand_owners()), encoding="utf-8")
    print(out.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
