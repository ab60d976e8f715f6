"""``likeset run dispute`` about slots of a split run: what compute parties show of them, and what it proves."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from likeset.display.screen import literal, show_json, stderr, stdout
from likeset.errors import BadDocument, InvalidArgument

if TYPE_CHECKING:
    from likeset.homes.letter_book import LetterBook
    from likeset.homes.signed_invitation import Invitation
    from likeset.homes.slot_disputes import SlotRuling
    from likeset.homes.slot_files import SlotFile
    from likeset.trust.row_shares import ComputeRole

__all__ = ["check_slots", "open_slots", "read_slot_file", "write_slots"]


def write_slots(
    book: "LetterBook", invitation: "Invitation", home: Path, owner: str, out: Path, *, as_json: bool
) -> None:
    """What this home can show about an owner's offer: at the consumer with the picks that gave no record."""
    from likeset.homes.shown_slots import ShownSlots

    shown = ShownSlots(book, invitation)
    randoms: dict[int, bytes] = {}
    schema = ""
    if shown.role == "consumer":
        randoms, schema = _failed(home, invitation, owner)
    _keep(shown.file(owner, randoms, schema=schema), out, as_json=as_json)


def _failed(home: Path, invitation: "Invitation", owner: str) -> tuple[dict[int, bytes], str]:
    from likeset.homes.consumer.failed_picks import failed_picks_in
    from likeset.homes.consumer.home import ConsumerHome

    run = ConsumerHome(home).known(invitation.terms.run)
    failed = failed_picks_in(run.failed_picks_path)
    if owner in invitation.terms.owners and owner not in failed:
        names = ", ".join(sorted(failed)) or "none"
        stderr.print(literal(f"No pick of {owner} failed; owners of failed picks: {names}."), soft_wrap=True)
    return failed.get(owner, {}), run.schema_path.read_text(encoding="utf-8")


def open_slots(book: "LetterBook", asked: "SlotFile", out: Path, *, unproven: bool, as_json: bool) -> None:
    """The same evidence with this home's share of each slot."""
    from likeset.homes.shown_slots import ShownSlots
    from likeset.homes.signed_invitation import Invitation

    digest = asked.terms.digest
    known = [invited for data in book.invitations() if (invited := Invitation.read(data)).terms.digest == digest]
    if not known:
        reason = "is about a run that this home took no part in, or other terms of it; name another home with --home"
        raise InvalidArgument("--open", asked.terms.run, reason)
    _keep(ShownSlots(book, known[0]).answer(asked, unproven=unproven), out, as_json=as_json)


def _keep(file: "SlotFile", out: Path, *, as_json: bool) -> None:
    from likeset.private_files import keep_private_bytes

    data, slots = file.to_bytes(), [shown.slot for shown in file.evidence.slots]
    words = "No record is in this file: it holds what was signed about the offer."
    if slots:
        words = f"Whoever gets this file may read the records in slots {', '.join(map(str, slots))} of {file.owner}."
    stderr.print(literal(words), soft_wrap=True)
    try:
        keep_private_bytes(out, data)
    except OSError as error:
        raise InvalidArgument("--out", out, f"cannot be written: {error.strerror}") from error
    shown = sorted({opening.role for slot in file.evidence.slots for opening in slot.openings})
    if as_json:
        about = {"evidence": str(out), "run": file.terms.run, "owner": file.owner, "slots": slots}
        signed = {"receipts": [receipt.role for receipt in file.evidence.receipts], "rosters": len(file.rosters)}
        show_json({**about, "opened_by": shown, **signed})
        return
    who = " and ".join(shown) or "nobody"
    words = f"{len(slots)} slots of {file.owner}, opened by {who}"
    stdout.print(f"[bold green]written[/]  {literal(str(out))}: {literal(words)}", soft_wrap=True)


def read_slot_file(path: Path, data: bytes) -> "SlotFile":
    """The evidence in a file.

    Raises:
        BadDocument: it is none, or does not hold.
    """
    from likeset.homes.slot_files import SlotFile

    try:
        return SlotFile.from_bytes(data)
    except BadDocument as error:
        raise BadDocument(str(path), f"is no evidence that holds: {error.document}: {error.reason}") from None


def check_slots(files: Sequence["SlotFile"], known: Iterable[str], silent: Sequence[str], *, as_json: bool) -> None:
    """Say what files about one owner's offer prove; exit code 1 if somebody is at fault."""
    from likeset.homes.slot_disputes import ruling_on

    ruling = ruling_on(files, silent=[_role(files[0], name) for name in silent])
    cards, seen = ruling.file.cards, set(known)
    strangers = [
        f"Whose card {card.fingerprint} is: it calls itself {card.name}, and what {party} signed is that card's word. "
        "Compare the fingerprint with them, and give it with --card."
        for party, card in cards.items()
        if card.fingerprint not in seen
    ]
    if silent:
        asked = " and ".join(silent)
        strangers.append(f"That {asked} was asked and kept silent: that is your own word.")
    if as_json:
        _show_ruling(ruling, seen, strangers)
    else:
        terms = ruling.file.terms
        stdout.print(f"[bold]Run {literal(terms.run)}[/], id {literal(terms.run_id)}", soft_wrap=True)
        for finding in ruling.findings:
            colour = "[bold red]" if finding.at_fault else "[none]"
            stdout.print(f"- {colour}{literal(finding.words)}[/]", soft_wrap=True)
        if not ruling.findings:
            stdout.print("- Nothing here proves anything against anybody.")
        if ruling.must_open:
            who = " and ".join(ruling.must_open)
            words = f"{who}: likeset run dispute --open FILE --home HOME --out ANSWER, and --check the answers, too"
            stdout.print(f"to go on, ask {literal(words)}", soft_wrap=True)
        if ruling.at_fault:
            who = " and ".join(ruling.at_fault)
            words = f"who wants no further run with {who} revokes the card: likeset card revoke"
            stdout.print(literal(words), soft_wrap=True)
        stdout.print("Not proven:" if strangers else "Proven by signatures of cards that you know.")
        for words in strangers:
            stdout.print(f"- {literal(words)}", soft_wrap=True)
    if ruling.at_fault:
        raise typer.Exit(1)


def _show_ruling(ruling: "SlotRuling", known: set[str], not_proven: list[str]) -> None:
    terms = ruling.file.terms
    named = {"run": terms.run, "run_id": terms.run_id, "terms": terms.digest, "owner": ruling.file.owner}
    whose = {
        party: {"card": card.fingerprint, "known": card.fingerprint in known}
        for party, card in ruling.file.cards.items()
    }
    findings = [
        {"kind": found.kind, "at_fault": list(found.at_fault), "slots": list(found.slots), "words": found.words}
        for found in ruling.findings
    ]
    decided = {"at_fault": list(ruling.at_fault), "must_open": list(ruling.must_open)}
    show_json({**named, "cards": whose, **decided, "findings": findings, "not_proven": not_proven})


def _role(file: "SlotFile", name: str) -> "ComputeRole":
    from likeset.protocol.split.run_shape import party_name, role_of
    from likeset.trust.row_shares import COMPUTE_ROLES

    role = role_of(file.terms, name)
    if role is None:
        names = ", ".join(party_name(file.terms, each) for each in COMPUTE_ROLES)
        raise InvalidArgument("--silent", name, f"must be one of those who computed: {names}")
    return role
