"""What evidence about slots of a split run proves, in sentences: who is at fault and why, or that nobody can tell.

Everything rests on signatures and on what the owner's list commits to (``trust.blame``). Whoever reads it trusts
neither side, and needs nothing but the files and the parties' cards.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from likeset.errors import BadDocument
from likeset.homes.slot_files import SlotFile, merged
from likeset.protocol.split.run_shape import offer_shape, party_name
from likeset.trust.blame import BlameVerdict, Ruling, blame, signed_two_lists
from likeset.trust.row_shares import ComputeRole
from likeset.trust.share_receipts import contradicted_receipts, dropped_owners
from likeset.trust.slot_evidence import OfferEvidence, SlotEvidence

__all__ = ["SlotFinding", "SlotRuling", "ruling_on"]

FindingKind = Literal["slot", "sold twice", "two lists", "roster", "not opened", "to open", "in order", "not judged"]

_OWNERS_FAULT = {
    Ruling.RANDOM: "the shares that it gave the compute parties add up to another r than the one in its list",
    Ruling.LENGTH: "its shares or its key have another length than the terms say",
    Ruling.VALID: "its shares make a valid bit that is neither 0 nor 1",
    Ruling.SEAL: "its envelope does not open with the K and r that its list commits to",
    Ruling.RECORD: "its envelope holds no record as the schema declares it",
    Ruling.WORDS: "the shares that it gave the compute parties are of another row than its record",
}


@dataclass(frozen=True, slots=True)
class SlotFinding:
    """One thing that follows from evidence.

    Attributes:
        kind: what it is about.
        at_fault: names of those who are proven to be at fault.
        slots: of the offer.
        words: a sentence.
    """

    kind: FindingKind
    at_fault: tuple[str, ...]
    slots: tuple[int, ...]
    words: str


@dataclass(frozen=True)
class SlotRuling:
    """What follows from all files about one owner's offer.

    Attributes:
        file: all that they show about the first list.
        findings: in an order to be read.
        must_open: names of compute parties without whose shares more cannot be said.
    """

    file: SlotFile
    findings: tuple[SlotFinding, ...]
    must_open: tuple[str, ...]

    @property
    def at_fault(self) -> tuple[str, ...]:
        """Who is proven to be at fault, each once."""
        return tuple(dict.fromkeys(name for finding in self.findings for name in finding.at_fault))


def ruling_on(files: Sequence[SlotFile], *, silent: Iterable[ComputeRole] = ()) -> SlotRuling:
    """What files about one owner's offer prove.

    Args:
        files: from anybody.
        silent: compute parties whom the reader asked to open these slots, in vain: it saw that itself.

    Raises:
        BadDocument: they are about different runs or owners.
    """
    if len({(file.terms.digest, file.owner) for file in files}) != 1:
        raise BadDocument("evidence", "the files are about different runs, or different owners")
    lists = {file.evidence.offer_list.digest: file for file in files}
    file = merged([each for each in files if each.evidence.offer_list.digest == next(iter(lists))])
    findings = [*_two_lists(list(lists.values())), *_rosters(file)]
    verdicts = list(_verdicts(file, frozenset(silent)))
    findings += [_finding(file, verdict) for verdict in verdicts]
    if file.evidence.slots and file.reader is None:
        words = "What records say is not judged: the schema is in none of these files; the consumer's has it."
        findings.append(SlotFinding("not judged", (), tuple(shown.slot for shown in file.evidence.slots), words))
    open_roles = {role for verdict in verdicts for role in verdict.must_open}
    return SlotRuling(file, tuple(findings), tuple(party_name(file.terms, role) for role in sorted(open_roles)))


def _two_lists(files: Sequence[SlotFile]) -> Iterator[SlotFinding]:
    first = files[0]
    for other in files[1:]:
        if signed_two_lists(first.evidence.offer_list, other.evidence.offer_list, first.cards[first.owner]):
            words = f"{first.owner} is at fault: it signed two different lists for one offer; there may be one."
            yield SlotFinding("two lists", (first.owner,), (), words)
            return


def _rosters(file: SlotFile) -> Iterator[SlotFinding]:
    """Who named another list than it acknowledged; whether the owner was left out, and whether it was computed on."""
    listed, cards = file.evidence.offer_list, file.compute_cards
    for signed in file.rosters:
        name = party_name(file.terms, signed.role)
        if listed.context.owner in contradicted_receipts(signed, file.evidence.receipts, cards):
            words = (
                f"{name} is at fault: it signed a roster that named another list of {file.owner} than it acknowledged."
            )
            yield SlotFinding("roster", (name,), (), words)
        elif listed.context.owner in dropped_owners(signed, file.evidence.receipts, cards):
            words = (
                f"{name} signed a roster without the list of {file.owner}, for which all compute parties signed "
                "receipts: it left the owner out, or another one kept its receipt from it; nothing here tells which."
            )
            yield SlotFinding("roster", (), (), words)
    if len({signed.roster.digest for signed in file.rosters}) > 1:
        words = "The compute parties signed different rosters: nothing may have been computed on them."
        yield SlotFinding("roster", (), (), words)
    elif file.rosters and file.rosters[0].roster.lists.get(listed.context.owner) != listed.digest:
        words = f"By the signed roster the offer of {file.owner} was not computed on: none of its slots was bought."
        yield SlotFinding("roster", (), (), words)


def _verdicts(file: SlotFile, silent: frozenset[ComputeRole]) -> Iterator[BlameVerdict]:
    """Of each slot by itself, and of records that are one row sold twice."""
    if not file.evidence.slots or file.reader is None:
        return

    def decided(slots: tuple[SlotEvidence, ...]) -> BlameVerdict:
        evidence = file.evidence
        shown = OfferEvidence(evidence.offer_list, evidence.receipts, evidence.key, slots)
        assert file.reader is not None  # noqa: S101 - asked above
        return blame(
            shown,
            owner=file.cards[file.owner],
            parties=file.compute_cards,
            layout=offer_shape(file.terms).layout,
            reader=file.reader,
            silent=silent,
        )

    every = [decided((shown,)) for shown in file.evidence.slots]
    both = zip(file.evidence.slots, every, strict=True)
    left = [shown for shown, verdict in both if "owner" not in verdict.at_fault]
    sold: set[int] = set()
    while len(left) > 1 and (together := decided(tuple(left))).ruling is Ruling.SOLD_TWICE:
        yield together
        sold |= set(together.slots)
        left = [shown for shown in left if shown.slot != together.slots[-1]]
    yield from (verdict for verdict in every if not set(verdict.slots) <= sold)


def _finding(file: SlotFile, verdict: BlameVerdict) -> SlotFinding:
    slots = f"slot {', '.join(map(str, verdict.slots))}"
    names = {"owner": file.owner} | {role: party_name(file.terms, role) for role in file.compute_cards}
    at_fault = tuple(names[who] for who in verdict.at_fault)
    if verdict.ruling in _OWNERS_FAULT:
        words = f"{file.owner} is at fault: in {slots} {_OWNERS_FAULT[verdict.ruling]}. It signed both."
        return SlotFinding("slot", at_fault, verdict.slots, words)
    if verdict.ruling is Ruling.SOLD_TWICE:
        words = f"{file.owner} is at fault: it sold one row twice, in slots {' and '.join(map(str, verdict.slots))}."
        return SlotFinding("sold twice", at_fault, verdict.slots, words)
    asked = " and ".join(names[role] for role in verdict.must_open)
    if verdict.ruling is Ruling.UNOPENED:
        guilty = " and ".join(at_fault)
        words = (
            f"{guilty} is at fault: it signed for its part of the offer, and did not open {slots} when it was asked."
        )
        more = f" {asked} must still open it." if asked else ""
        return SlotFinding("not opened", at_fault, verdict.slots, words + more)
    if verdict.ruling is Ruling.PENDING:
        missing = asked or "somebody who signed no receipt"
        words = f"Nobody is proven to be at fault in {slots} yet: what {missing} got of it is not shown."
        return SlotFinding("to open", (), verdict.slots, words)
    words = (
        f"{file.owner} offered {slots} in order: record, shares, r and envelope belong together. Then the computation "
        "went wrong, or the complaint is false; nothing here tells which."
    )
    return SlotFinding("in order", (), verdict.slots, words)
