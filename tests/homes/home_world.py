"""Homes for tests: cards by name, homes of each role that are made once and copied, terms, rows, letters, a mailbox."""

import atexit
import base64
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Self

import numpy as np
import protocol_world
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from chance import pinned_coins
from likeset import documents
from likeset.geometry.selection import Selection
from likeset.homes.consumer import Consumer
from likeset.homes.curator import Curator
from likeset.homes.home import SETTINGS_FILE, Home, make_home
from likeset.homes.mail import Mail
from likeset.homes.owner import Owner, open_owner
from likeset.homes.runs import Run, must_know, role_in
from likeset.ledger.budget import Limit
from likeset.privacy.events import View
from likeset.protocol import wire
from likeset.protocol.party import CURATOR, RELEASE_ROUND
from likeset.protocol.terms import WITNESS, Kernel, Terms
from likeset.protocol.wire import Asked, Body, Message, SummaryRelease, TargetRelease, decode
from likeset.tables.records import DeclaredRecords
from likeset.tables.schema import Schema
from likeset.transports.stores import DirectoryStore, open_store
from likeset.transports.sync import Sync, Synced
from likeset.trust.cards import CARD_FILE, SECRET_FILE, CardSecret, Role, SealingSecret
from likeset.trust.letters import Acceptance, Receipt, SignedTerms, letter_in, open_letter, write_letter

NOON = datetime(2029, 3, 5, 12, tzinfo=UTC)
CANARY = "Xq7-canary"
CONSUMER = "new-clinic"
SCHEMA = """\
likeset: schema
version: 1
columns:
  age: {kind: numeric, bounds: [0, 120]}
  dose: {kind: numeric, bounds: [0, 1000]}
  sex: {kind: category, values: [f, m, CANARY]}
label: {column: ill, values: ["no", "yes"]}
""".replace("CANARY", CANARY)
SCHEMA_OF_ALL = Schema.from_text(SCHEMA)
POLICY: dict[str, Any] = {
    "consumers": [CONSUMER],
    "purposes": ["research*"],
    "columns": ["age", "dose", "sex", "ill"],
    "smallest_group": 1,
    "per_run": {"epsilon": 0, "delta": 1e-5, "rows": 36},
    "total": {"epsilon": 0, "delta": 1e-5, "rows": 36},
    "runs_per_month": 9,
}
_TERMS: dict[str, Any] = {
    **protocol_world.BASE,
    "consumer": CONSUMER,
    "purpose": "Research on sepsis",
    "expires": "2030-01-01",
    "owners": ("a", "b"),
    "schema_digest": SCHEMA_OF_ALL.digest,
    "columns": SCHEMA_OF_ALL.record_columns,
    "record_bytes": DeclaredRecords(SCHEMA_OF_ALL).record_bytes,
    "kernel": Kernel(columns=SCHEMA_OF_ALL.width, dimension=16, gamma=0.4, seed=7),
    "size": 6,
    "offer_factor": 4.0,
    "auction_patience": 0,
    "seed_digest": "",
    "promised_epsilon": 0.0,
}
_MOST_BYTES = 1 << 28


# Cards: one for each name, the same in every process, so that terms can be written before homes are made.


def _bytes_for(what: str, count: int) -> bytes:
    return hashlib.shake_256(f"of a test: {what}".encode()).digest(count)


@lru_cache(maxsize=4096)
def secret_of(name: str) -> CardSecret:
    signing = Ed25519PrivateKey.from_private_bytes(_bytes_for(f"signing key of {name}", 32))
    return CardSecret(name, signing, SealingSecret.from_bytes(_bytes_for(f"sealing key of {name}", 96)))


def cards_of(*names: str) -> dict[str, str]:
    return {name: secret_of(name).card.fingerprint for name in names}


def fingerprint(name: str) -> str:
    """A fingerprint that a card of this name might have, for thousands of parties that nobody meets."""
    letters = base64.b32encode(hashlib.sha256(name.encode()).digest()[:25]).decode()
    return "-".join(letters[start : start + 5] for start in range(0, 40, 5))


def run_id_of(run: str) -> str:
    return _bytes_for(f"run {run}", 16).hex()


def run_key_of(party: str, run_id: str) -> SealingSecret:
    """The key of a party whose letters are written by hand."""
    return SealingSecret.from_bytes(_bytes_for(f"key of {party} for {run_id}", 96))


# Terms.


def terms(**changes: Any) -> Terms:
    """Terms of a small run: two owners, twelve rows of each; with ``split``, a witness, too."""
    words = {**_TERMS, **changes}
    names = [words["consumer"], CURATOR, *([WITNESS] if words.get("split") else []), *words["owners"]]
    parties = {"run_id": run_id_of(words["run"]), "cards": cards_of(*names)}
    return Terms(**{**parties, **words})


@lru_cache(maxsize=1024)
def signed_terms(agreed: Terms) -> bytes:
    return signed_text(agreed.to_json(), by=agreed.consumer, run_id=agreed.run_id)


def signed_text(text: str, *, by: str = CONSUMER, run_id: str = "") -> bytes:
    """Any text, signed as terms are."""
    secret = secret_of(by)
    return SignedTerms(text, secret.card, run_key_of(by, run_id).public, wire.READS).signed_by(secret).to_bytes()


# Homes.


@dataclass
class Clock:
    """Stands still until a test moves it."""

    now: datetime = NOON

    def __call__(self) -> datetime:
        return self.now


_templates: dict[str, Path] = {}


def prepared(place: Path, name: str, make: Callable[[Path], object]) -> None:
    """Put into a folder what ``make`` writes. It is made once for each name, and copied with its sources."""
    if name not in _templates:
        private = Path(tempfile.mkdtemp(prefix="likeset-homes-")).resolve()
        atexit.register(shutil.rmtree, private, ignore_errors=True)
        template = private / "homes"  # with the usual mode, which copies get as well
        template.mkdir()
        make(template)
        _templates[name] = template
    template = _templates[name]
    shutil.copytree(template, place, dirs_exist_ok=True)
    places = [*template.glob("*/data/*/source.yaml"), *template.glob(f"*/{SETTINGS_FILE}")]
    for copied in (place / made.relative_to(template) for made in places):
        copied.write_text(copied.read_text(encoding="utf-8").replace(str(template), str(place)), encoding="utf-8")


def give_card(folder: Path, name: str) -> None:
    """Replace a home's card by that of its name here."""
    for file in (SECRET_FILE, CARD_FILE):
        (folder / file).unlink(missing_ok=True)
    secret_of(name).write(folder)


def rows_text(seed: int, count: int = 60, *, rare: int = 0) -> str:
    """A CSV file; ``rare`` rows have a category value of their own."""
    coins = pinned_coins(seed)
    lines = ["age,dose,sex,ill"]
    for place in range(count):
        sex = CANARY if place < rare else coins.choice(["f", "m"])
        ill = coins.choice(["no", "yes"])
        # Doses differ from all other numbers by their digits: a canary in each row. Ages differ between two owners, who
        # would otherwise have the same row by chance.
        age = 5 * coins.integers(4, 18) + seed % 5
        lines.append(f"{age},{300 + place}.4242,{sex},{ill}")
    return "\n".join(lines) + "\n"


def write_policy(folder: Path, **changes: Any) -> None:
    documents.write(folder / "owner.yaml", {"likeset": "owner", "version": 1, **POLICY, **changes})


def make_owner(place: Path, name: str = "a", *, seed: int = 1, rare: int = 0, **policy: Any) -> Path:
    """The home of an owner with one data set, ``patients`` in NAME.csv; nobody's card is pinned in it."""
    key = repr((name, seed, rare, sorted(policy.items())))
    prepared(place, key, lambda template: _make_owner(template, name, (), seed=seed, rare=rare, **policy))
    return place / name


def _make_owner(
    place: Path, name: str, mailboxes: Sequence[str], *, seed: int = 1, rare: int = 0, **policy: Any
) -> None:
    folder = place / name
    make_home(folder, name=name, roles=("owner",), mailboxes=mailboxes).close()
    give_card(folder, name)
    write_policy(folder, **policy)
    (place / f"{name}.csv").write_text(rows_text(seed, rare=rare))
    (place / "schema.yaml").write_text(SCHEMA)
    with open_owner(folder) as owner:
        owner.registry.add("patients", str(place / f"{name}.csv"), schema=place / "schema.yaml")


def _make_other(place: Path, name: str, role: Role, mailboxes: Sequence[str], **options: Any) -> None:
    with make_home(place / name, name=name, roles=(role,), mailboxes=mailboxes, **options) as home:
        give_card(home.folder, name)
        if role == "curator":
            (place / "schema.yaml").write_text(SCHEMA)
            Curator(Mail(home)).add_schema(place / "schema.yaml")


def pin(home: Home, name: str, role: Role) -> None:
    """Pin the card of a name, unless this home has one of that name."""
    card = secret_of(name).card
    if home.pins.get(name) is None and home.pins.by_fingerprint(card.fingerprint) is None:
        home.pins.pin(card, role, by="Ada")


def introduce(home: Home, agreed: Terms, party: str | None = None) -> None:
    """Pin the cards that a party of a run must know."""
    for role, name in must_know(agreed, party or home.name).items():
        pin(home, name, role)


@contextmanager
def opened(folder: Path, *, clock: Callable[[], datetime] | None = None) -> Iterator[Owner]:
    """An owner's home; its clock stands at noon."""
    with open_owner(folder, clock=clock or Clock()) as owner:
        yield owner


def logged(home: Home, kind: str) -> list[dict[str, Any]]:
    return [entry.document() for entry in home.database.entries() if entry.kind == kind]


def charged(owner: Owner) -> list[tuple[str, str]]:
    kinds = ("open", "limit", "reserve", "commit", "purge")
    return [(entry.kind, entry.key) for entry in owner.ledger.entries() if entry.kind in kinds]


# An owner's run, whose other parties write by hand.


def invite(owner: Owner, agreed: Terms) -> Run:
    """A consumer whose card is pinned asks the owner, the run as it then stands."""
    introduce(owner.home, agreed, owner.name)
    return owner.mail.consider(owner.mail.invited(signed_terms(agreed)))


def approve(owner: Owner, agreed: Terms, *, by: str = "Ada", data: str = "") -> Run:
    """Invited, approved and accepted."""
    run = invite(owner, agreed)
    judged = owner.approve(agreed.run, agreed.digest, by=by, data=data)
    assert judged.accepted, judged.reasons
    run = owner.mail.consider(owner.mail.reload(run))
    assert run.state == "accepted", (run.state, run.reason)
    return run


def release_to(agreed: Terms, owner: str = "a", *, values: Any = None) -> Message:
    given = np.linspace(-0.1, 0.1, agreed.kernel.dimension) if values is None else np.asarray(values, dtype=float)
    body = TargetRelease(release=given if agreed.offers == "tilted" else np.empty(0))
    return Message(agreed.run, agreed.digest, agreed.consumer, owner, RELEASE_ROUND[agreed.protocol], body)


@dataclass
class Outside:
    """The consumer and the other parties of a run, who write letters by hand to an owner who accepted."""

    owner: Owner
    terms: Terms
    _numbers: dict[str, int] = field(default_factory=dict)

    @property
    def run(self) -> Run:
        found = self.owner.mail.run(bytes.fromhex(self.terms.digest))
        assert found is not None
        return found

    @property
    def _names(self) -> dict[str, bytes]:
        return {"run_id": bytes.fromhex(self.terms.run_id), "terms": bytes.fromhex(self.terms.digest)}

    def acceptance(self, party: str) -> bytes:
        """What another party signs to take part."""
        role: Any = role_in(self.terms, party)
        return self.acceptance_by(secret_of(party), role, party)

    def acceptance_by(self, secret: CardSecret, role: Any, party: str) -> bytes:
        key = run_key_of(secret.card.name, self.terms.run_id).public
        return (
            Acceptance(**self._names, role=role, party=party, card=secret.card, run_key=key, reads=wire.READS)
            .signed_by(secret)
            .to_bytes()
        )

    def letter(
        self, message: Message | None, *, writer: str | None = None, enclosures: tuple[bytes, ...] = (), **changes: Any
    ) -> bytes:
        writer = writer or (CURATOR if message is None else message.sender)
        number = self._numbers.get(writer, 0)
        self._numbers[writer] = number + 1
        options: dict[str, Any] = {
            **self._names,
            "recipient": self.owner.home.card,
            "recipient_key": Acceptance.from_bytes(self.run.acceptance).run_key,
            "round": 0 if message is None else message.round,
            "number": number,
            "message": b"" if message is None else message.data,
            "enclosures": enclosures,
            **changes,
        }
        return write_letter(secret_of(writer), **options).data

    def release(self, message: Message | None = None) -> bytes:
        """The consumer's letter with which the run begins, and which introduces the parties that compute."""
        computing = tuple(self.acceptance(name) for name in (CURATOR, WITNESS) if name in self.terms.cards)
        return self.letter(message or release_to(self.terms, self.owner.name), enclosures=computing)

    def ask(self, number: int, body: Body | None = None) -> bytes:
        """A letter of the curator."""
        said = Asked(asked=True) if body is None else body
        message = Message(self.terms.run, self.terms.digest, CURATOR, self.owner.name, number, said)
        return self.letter(message)

    def script(self, *, rounds: int | None = None) -> Iterator[bytes]:
        """All letters to an owner that is always asked."""
        yield self.release()
        if self.terms.protocol == "sealed":
            if self.terms.auction != "everyone":
                yield self.ask(2)
            return
        nothing = SummaryRelease(coordinates=np.empty(0, dtype=np.int64), values=np.empty(0))
        for number in range(1, (rounds or self.terms.size) + 1):
            yield self.ask(number, nothing)
            yield self.ask(number)

    def read(self, data: bytes) -> Message:
        letter = letter_in(data, most_bytes=_MOST_BYTES)
        reader = next(name for name, card in self.terms.cards.items() if card == letter.header.recipient)
        key = run_key_of(reader, self.terms.run_id)
        content = open_letter(letter, writer=self.owner.home.card, reader=secret_of(reader).card, key=key)
        return decode(content.message)

    def receipt(
        self,
        letters: Sequence[bytes],
        rows: int,
        *,
        signer: str = CURATOR,
        writer: str = "",
        said: int = 0,
        **changes: Any,
    ) -> bytes:
        """A letter with a receipt for letters of the owner; ``said`` replaces its rows after it was signed."""
        digests = tuple(letter_in(data, most_bytes=_MOST_BYTES).digest for data in letters)
        words = {**self._names, "owner": self.owner.name, "rows": rows, "letters": digests, **changes}
        receipt = Receipt(at="2029-03-05T13:00:00+00:00", card=secret_of(signer).card, **words)
        receipt = receipt.signed_by(secret_of(signer))
        receipt = replace(receipt, rows=said or rows)
        return self.letter(None, writer=writer or signer, enclosures=(receipt.to_bytes(),))


def heard(owner: Owner, data: bytes) -> tuple[bytes, ...]:
    """Let an owner hear a letter; its letters that answer it."""
    owner.mail.hear(data)
    digest = letter_in(data, most_bytes=_MOST_BYTES).digest
    rows = [row for run in owner.mail.runs() for row in owner.mail.letters(run)]
    (letter,) = [row for row in rows if (row.way, row.letter) == ("in", digest)]
    answers = [row for row in rows if (row.digest, row.answers) == (letter.digest, letter.input)]
    return tuple(reply for row in answers if letter.input and (reply := owner.mail.data_of(row)))


def approved_script(folder: Path, agreed: Terms, *, rounds: int | None = None) -> list[bytes]:
    """All letters to an owner that approved, and has heard none of them."""
    with opened(folder) as owner:
        approve(owner, agreed)
        return list(Outside(owner, agreed).script(rounds=rounds))


def answer(owner: Owner, agreed: Terms) -> tuple[Outside, list[bytes]]:
    """Let an owner that approved a run say everything, and post it; its letters."""
    run = owner.mail.run(bytes.fromhex(agreed.digest))
    assert run is not None
    run = owner.mail.consider(run)
    assert run.state == "accepted", (run.state, run.reason)
    outside = Outside(owner, agreed)
    letters = [reply for letter in outside.script() for reply in heard(owner, letter)]
    post(owner)
    return outside, letters


def answered(owner: Owner, agreed: Terms) -> tuple[Outside, list[bytes]]:
    """Invited, approved and answered."""
    approve(owner, agreed)
    return answer(owner, agreed)


def post(owner: Owner) -> None:
    """Mark all letters of an owner as posted, as a sync does after it wrote their files."""
    for run in owner.mail.runs(role="owner"):
        for row in owner.mail.claim(run):
            owner.mail.posted(row, "folder", f"file-{row.id}")


class DatedStore(DirectoryStore):
    """A mailbox in a folder whose clock a test sets."""

    def __init__(self, mailbox: Path, clock: Callable[[], datetime]) -> None:
        super().__init__(mailbox)
        self.clock = clock

    def _write(self, folder: str, name: str, data: bytes) -> None:
        super()._write(folder, name, data)
        time = self.clock().timestamp()
        os.utime(self._mailbox / folder / name, (time, time))


# A network: homes of all roles that pinned one another's cards, with a folder as their mailbox.


@dataclass
class Network:
    """A consumer, a curator, owners and perhaps a witness; ``policies`` differ from ``POLICY``, by owner."""

    place: Path
    owners: tuple[str, ...] = ("a", "b")
    witness: bool = False
    policies: dict[str, dict[str, Any]] = field(default_factory=dict)
    made: bool = False
    clock: Clock = field(default_factory=Clock)
    _stack: ExitStack = field(default_factory=ExitStack)
    _syncs: dict[str, Sync] = field(default_factory=dict)

    def __post_init__(self) -> None:
        key = repr((self.owners, self.witness, sorted(self.policies.items())))
        if not self.made:
            prepared(self.place, f"network {key}", self._make)

    def _make(self, place: Path) -> None:
        box = (place / "mailbox").as_uri()
        (place / "mailbox").mkdir()
        roles: dict[str, Role] = {
            CONSUMER: "consumer",
            CURATOR: "curator",
            **({WITNESS: "witness"} if self.witness else {}),
        }
        for name, role in roles.items():
            _make_other(place, name, role, [box])
        for number, name in enumerate(self.owners, start=1):
            _make_owner(place, name, [box], seed=number, **self.policies.get(name, {}))
        roles |= dict.fromkeys(self.owners, "owner")
        for name, role in roles.items():
            with Home(place / name) as home:
                for other, its in roles.items():
                    if other != name and ("consumer" in (role, its) or its in ("curator", "witness")):
                        pin(home, other, its)

    @property
    def address(self) -> str:
        return open_store((self.place / "mailbox").as_uri()).address

    @cached_property
    def store(self) -> DatedStore:
        return DatedStore(self.place / "mailbox", self.clock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def sync(self, name: str, *, stays: bool = False) -> Sync:
        if name not in self._syncs:
            home = self._stack.enter_context(Home(self.place / name, clock=self.clock))
            self._syncs[name] = self._stack.enter_context(Sync(home, self.store, stays=stays))
        return self._syncs[name]

    def owner(self, name: str = "a") -> Owner:
        part = self.sync(name).mail.handlers["owner"]
        assert isinstance(part, Owner)
        return part

    @property
    def consumer(self) -> Consumer:
        part = self.sync(CONSUMER).mail.handlers["consumer"]
        assert isinstance(part, Consumer)
        return part

    def ask(self, agreed: Terms) -> Run:
        """The consumer signs terms, and leaves them in the mailbox with its next look."""
        consumer = self.consumer
        target = pinned_coins(9).random((agreed.target_size, agreed.kernel.columns), dtype=np.float32)
        job = {"likeset": "job", "version": 1}
        schema = self.place / "schema.yaml"
        limit = Limit(9999.0, 1e-5, agreed.relation)  # room for many runs
        consumer.home.database.set_limit(View.owners(agreed.consumer), limit)
        consumer.folder(agreed.run).keep(job=job, schema=schema, target=target, selection=Selection(gamma=1.0))
        return consumer.start_run(consumer.sign(agreed), self.address)

    def approve(self, agreed: Terms, *names: str) -> None:
        """Owners, or all of them, approve the terms that came."""
        for name in names or self.owners:
            judged = self.owner(name).approve(agreed.run, agreed.digest, by="Ada")
            assert judged.accepted, judged.reasons

    def approved(self, agreed: Terms, *names: str) -> Run:
        """Asked for, and approved by these owners or all."""
        run = self.ask(agreed)
        self.settle()
        self.approve(agreed, *names)
        return run

    def held(self, agreed: Terms) -> Run:
        self.approved(agreed)
        self.settle()
        return self.consumer.run(agreed.run)

    def turn(self, *names: str) -> Synced:
        """One look of each of these homes, or of all."""
        together = Synced()
        for name in names or (CONSUMER, *self.owners, CURATOR, *([WITNESS] if self.witness else [])):
            together.add(self.sync(name).once())
        return together

    def drop(self) -> None:
        """All processes end; new ones begin when they are needed."""
        self._stack.close()
        self._syncs.clear()

    def settle(self, *, most: int = 20) -> None:
        """Let all look until nothing happens any more."""
        for _ in range(most):
            if not self.turn().something_happened:
                return
        raise AssertionError("letters come and go without an end")
