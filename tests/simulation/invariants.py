"""All invariants of the simulator, by observers that keep their own books and read what is on disk.

Safety, after each step: ``Watch.drawn``, ``posted``, ``synced``, ``step``. Liveness, once faults have stopped:
``Watch.summaries``, ``end``, and ``Market.settle`` (letters do not come and go without an end).
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import home_world as hw
import machine
from plan import ANSWER_DAYS, ONE_AUCTION, Mailbox

from likeset.errors import LikesetError
from likeset.protocol.terms import Terms
from likeset.protocol.wire import Delivery, Offer, OfferShare, Summary, TargetRelease, decode
from likeset.transports.sync import Synced
from likeset.trust.cards import SealingSecret
from likeset.trust.letters import Letter, Post, Way, letter_in, open_letter

if TYPE_CHECKING:
    from market import Market

KNOWN: dict[str, str] = {
    # What the product does not survive yet, by fault: runs with it need not have a summary. Each has a story.
}


_MOST_AGAIN = 5
_ALL = ("SELECT * FROM log", "SELECT * FROM runs", "SELECT * FROM letters")


class Violation(BaseException):
    """An invariant does not hold. The product swallows exceptions, so this is none."""


@dataclass
class Book:
    """What people did, and which faults excuse a run from having its summary."""

    may_answer: set[tuple[str, int]] = field(default_factory=set)  # owners that tried to approve
    approved: set[tuple[str, int]] = field(default_factory=set)  # those that did, for certain
    declined: set[tuple[str, int]] = field(default_factory=set)
    stopped: dict[tuple[str, int], int] = field(default_factory=dict)  # home and run: the step at which it stopped
    restored: set[str] = field(default_factory=set)
    liars: set[str] = field(default_factory=set)
    harmed: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # homes: faults of ``KNOWN``
    spoiled: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))

    def spoil(self, run: int, why: str) -> None:
        self.spoiled[run].append(why)

    def harm(self, who: str, fault: str) -> None:
        self.harmed[who].add(fault)

    def restore(self, who: str) -> None:
        self.restored.add(who)
        self.stopped = {key: step for key, step in self.stopped.items() if key[0] != who}  # it has forgotten

    def revoke(self, market: "Market", who: str, other: str) -> None:
        for number, run in enumerate(market.shape.runs):
            if who in run.owners and other in set(market.parties(run)) - set(run.owners):
                self.stopped.setdefault((who, number), market.step)

    def excuse(self, market: "Market", number: int) -> str:
        """Why a run need not have its summary; empty if it must."""
        run = market.shape.runs[number]
        parties = market.parties(run)
        reasons = [*self.spoiled[number]]
        reasons += [f"{name} was put back" for name in parties if name in self.restored]
        reasons += [f"{name} lied" for name in parties if name in self.liars]
        reasons += [
            f"{fault} at {name}"
            for name in parties
            for fault in sorted(self.harmed[name])
            if fault in (*market.known, "data changed")
        ]
        reasons += ["days passed"] if market.shape.days else []
        reasons += ["little budget"] if market.shape.rows < 100 or market.shape.epsilon == ONE_AUCTION else []
        return "; ".join(reasons)


@dataclass(frozen=True)
class Posted:
    box: Mailbox
    writer: str
    post: Post


@dataclass
class Watch:
    market: "Market"
    history: list[Posted] = field(default_factory=list)
    draws: Counter[tuple[Path, str]] = field(default_factory=Counter)
    letters: dict[tuple[bytes, str, str, int], bytes] = field(default_factory=dict)
    releases: dict[tuple[str, str], bytes] = field(default_factory=dict)  # by run and kind
    offers: dict[tuple[str, str], dict[bytes, int]] = field(default_factory=lambda: defaultdict(dict))
    again: Counter[bytes] = field(default_factory=Counter)  # how often a file was posted that is there
    uploads: int = 0

    # Noise.

    def drawn(self, ledger: Path, request: Any) -> None:
        """Noise is charged before it is drawn, and drawn once for one request."""
        with closing(machine.read_only(ledger)) as database:
            query = "SELECT count(*) FROM log WHERE kind = 'reserve' AND key = ?"
            if database.execute(query, (request.key,)).fetchone() != (1,):
                raise Violation(f"{request}: drawn without a durable charge")
        self.draws[ledger, request.key] += 1
        if self.draws[ledger, request.key] > 1:
            raise Violation(f"{request}: drawn twice")

    def forget(self, folder: Path) -> None:
        """A home was put back. It may draw again what it has forgotten; what was posted counts all the same."""
        self.draws = Counter({key: count for key, count in self.draws.items() if folder not in key[0].parents})

    # Letters.

    def posted(self, box: Mailbox, process: str, way: tuple[str, str, Way], data: bytes) -> None:
        """A letter leaves only if it is durable, approved, open and within the terms; always with the same bytes."""
        market, (writer, reader, cipher) = self.market, way
        self.uploads += 1
        self.again[data] += data in (file.data for file in box.folders[cipher.folder].values())
        if self.again[data] > _MOST_AGAIN:
            raise Violation(f"{writer} posts the same file again and again")
        post = cipher.unwrap(data)
        self.history.append(Posted(box, writer, post))
        if process != market.process_of(writer):
            raise Violation(f"{process} writes into a folder of {writer}")
        found = next((number for number, terms in market.terms.items() if terms.digest == post.terms.hex()), None)
        if found is None:
            raise Violation(f"{writer} posts under terms that nobody wrote")
        if post.kind != "letter":
            return
        agreed, letter = market.terms[found], letter_in(post.document, most_bytes=1 << 28)
        which = post.terms, writer, reader, letter.header.number
        if self.letters.setdefault(which, letter.digest) != letter.digest:
            raise Violation(f"two letters {letter.header.number} of {writer} to {reader} in r{found}")
        database = market.folder(writer) / machine.DATABASE
        with closing(machine.read_only(database)) as disk:
            query = "SELECT state FROM letters WHERE way = 'out' AND letter = ?"
            if disk.execute(query, (letter.digest,)).fetchone() is None:
                raise Violation(f"{writer} posts a letter that is not durable")
            charged = [key for (key,) in disk.execute("SELECT key FROM log WHERE kind = 'reserve'")]
        message = self._opened(letter, reader, agreed)
        if not message:  # a receipt, which may come late; or for a home that has no key any more
            return
        self._may_leave(writer, found, agreed)
        if not any(json.loads(key)[0] == agreed.run for key in charged) and writer in (*agreed.owners, agreed.consumer):
            raise Violation(f"{writer} posts a letter of {agreed.run} without a charge")
        self._within_terms(writer, agreed, message)

    def _may_leave(self, writer: str, number: int, agreed: Terms) -> None:
        book, market = self.market.book, self.market
        if book.stopped.get((writer, number), market.step) < market.step:
            raise Violation(f"{writer} posts a letter of {agreed.run}, in which it had stopped")
        if writer in agreed.owners and (writer, number) not in book.may_answer and writer not in market.shape.automatic:
            raise Violation(f"{writer} posts a letter of {agreed.run}, which nobody there approved")
        if agreed.end is None or market.clock(writer)() >= agreed.end:
            raise Violation(f"{writer} posts a letter of {agreed.run} after the end of its terms")

    def _within_terms(self, writer: str, agreed: Terms, message: bytes) -> None:
        body = decode(message).body
        if isinstance(body, TargetRelease | Summary):
            value = body.release.tobytes() if isinstance(body, TargetRelease) else message
            if self.releases.setdefault((agreed.run, body.kind), value) != value:
                raise Violation(f"two releases of {agreed.run}")
        if isinstance(body, Offer | Delivery | OfferShare):
            is_share = isinstance(body, OfferShare)
            rows = agreed.rows_per_owner if is_share else len(body.rows)  # type: ignore[union-attr]
            offers = self.offers[agreed.run, writer]
            offers[b"" if is_share else message] = rows
            if sum(offers.values()) > agreed.rows_per_owner:
                raise Violation(f"{writer} offers {sum(offers.values())} rows in {agreed.run}")

    def _opened(self, letter: Letter, reader: str, agreed: Terms) -> bytes:
        market = self.market
        key = market.folder(reader) / "keys" / agreed.digest
        if not key.exists():
            return b""
        cards = [market.holders[card][1].card for card in (letter.header.sender, letter.header.recipient)]
        with suppress(LikesetError):  # it has a new key, since it was put back
            return open_letter(
                letter, writer=cards[0], reader=cards[1], key=SealingSecret.from_bytes(key.read_bytes())
            ).message
        return b""

    def synced(self, name: str, done: Synced) -> None:
        """No input leads to an error that nobody foresaw."""
        for words in (*done.notes, *done.troubles.values()):
            if re.search(r"\((?!OSError)\w+(Error|Exception)\)", words):
                raise Violation(f"an internal error at {name}: {words}")

    # After each step.

    def step(self, *names: str) -> None:
        """Nobody discloses more than its limits; no run ends by a wrong clock alone."""
        market = self.market
        for name in names:
            database = market.folder(name) / machine.DATABASE
            with closing(machine.read_only(database)) as disk:
                if name in market.shape.owners:
                    self._within_limits(
                        name, disk.execute("SELECT key, body FROM log WHERE kind = 'reserve'").fetchall()
                    )
                for run, ends, role, detail in disk.execute(
                    "SELECT name, ends, role, ended FROM runs WHERE state = 'expired'"
                ):
                    first = ends if detail == "terms expired" else (hw.NOON + timedelta(days=ANSWER_DAYS)).timestamp()
                    if market.now.timestamp() < first - timedelta(hours=1, minutes=1).total_seconds():
                        raise Violation(f"{run} ended at {name} ({role}: {detail}) by a wrong clock")

    def _within_limits(self, name: str, charges: list[tuple[str, str]]) -> None:
        market = self.market
        rows = sum(json.loads(body)["charge"].get("rows", 0) for _, body in charges)
        if rows > market.shape.rows:
            raise Violation(f"{name} disclosed {rows} rows of {market.shape.rows}")
        begun = {json.loads(key)[0] for key, _ in charges}
        auctions = [terms.run for terms in market.terms.values() if terms.auction != "everyone" and terms.run in begun]
        if len(auctions) > 1 and market.shape.epsilon == ONE_AUCTION:
            raise Violation(f"{name} took part in {len(auctions)} auctions, and its budget is for one")

    def states_on_disk(self, name: str) -> list[str]:
        """Role and state of each run at a home, for coverage."""
        database = self.market.folder(name) / machine.DATABASE
        if not database.exists():
            return []
        with closing(machine.read_only(database)) as disk:
            rows = disk.execute("SELECT DISTINCT role, state FROM runs").fetchall()
        return [f"{role} {state}" for role, state in rows] or [f"{name} no run"]

    # Once faults have stopped.

    def summaries(self) -> None:
        """The consumer has its summary, with all who approved, if a quorum did and nothing excuses the run."""
        market, book = self.market, self.market.book
        for number, agreed in market.terms.items():
            shape = market.shape.runs[number]
            mail = market.mail(agreed.consumer)
            asked = mail.run(bytes.fromhex(agreed.digest))
            owners = set(shape.owners)
            automatic = {(who, number) for who in market.shape.automatic} - book.declined
            approved = {who for who in owners if (who, number) in book.approved | automatic}
            if asked is None or not asked.mailbox or book.excuse(market, number):
                continue
            if len(approved) < shape.quorum or any((who, number) not in book.declined for who in owners - approved):
                continue  # it waits for its deadline
            if asked.ended == "unfinished":
                continue  # it died between charge and draw, and nothing is drawn again
            if asked.state != "closed":
                raise Violation(f"{agreed.run} has no summary: {asked.state} {asked.ending} at {agreed.consumer}")
            consumer = market.consumer(number)[0]
            absent = {agreed.owners[place] for place in consumer.folder(agreed.run).summary(agreed).absent}
            if absent & approved and shape.protocol != "auction":
                raise Violation(f"{agreed.run}: {sorted(absent & approved)} approved and are not in the summary")

    def end(self) -> None:
        """All runs are final and their keys deleted, all logs verify, and an idle market writes nothing."""
        market = self.market
        before, uploads = dict(self._changes()), self.uploads
        for name in market.shape.names:
            mail = market.mail(name)
            verified = mail.home.database.verify()
            if not verified.ok:
                raise Violation(f"the log of {name}: {verified.problems[0]}")
            if mail.home.stopped:
                continue
            for run in mail.runs():
                if not run.is_over and run.mailbox:
                    raise Violation(f"{run.name} is {run.state} ({run.reason}) at {name} at the end")
            known = {run.digest.hex() for run in mail.runs() if run.mailbox}
            left = {key.name for key in (mail.home.folder / "keys").glob("*")}
            if left & known:
                raise Violation(f"{name} has keys at the end")
            if any(key not in {run.digest.hex() for run in mail.runs()} for key in left):
                raise Violation(f"{name} has the key of a run that it does not know")
        market.settle("idle")
        if dict(self._changes()) != before or self.uploads != uploads:
            raise Violation(f"an idle market writes: {self.uploads - uploads} uploads")

    def _changes(self) -> Iterator[tuple[str, bytes]]:
        for name in self.market.shape.names:
            database = self.market.folder(name) / machine.DATABASE
            with closing(machine.read_only(database)) as disk:
                yield (
                    name,
                    repr([disk.execute(query).fetchall() for query in _ALL]).encode(),
                )


def kind_of(violation: str) -> str:
    """Violations that differ in names and numbers only are of one kind."""
    return re.sub(r"\br\d|\b\d+|'\w'|\b[abcd]\b|[\w-]*(clinic|curator|witness)[\w-]*", "_", violation)[:70]
