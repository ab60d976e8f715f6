"""``likeset run dispute``: what parties signed in a run, for a third party, and what it proves."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from likeset.app.cli.home_paths import home_option
from likeset.display.screen import JsonFlag, literal, make_directory, show_json, show_notes, stderr, stdout
from likeset.errors import BadDocument, InvalidArgument

if TYPE_CHECKING:
    from likeset.homes.bundles import Bundle
    from likeset.homes.evidence import Evidence
    from likeset.homes.letter_book import LetterBook
    from likeset.homes.receipts import Receipt
    from likeset.homes.signed_invitation import Invitation
    from likeset.protocol.terms import Terms
    from likeset.trust.letters import Disclosure

__all__ = ["dispute"]

HomeOfAnybody = Annotated[
    Path, home_option("The directory of an owner, a consumer, a curator or a witness", or_node=True)
]
_MOST_RECEIPTS = 1000
_MOST_NAMED = 20


def dispute(
    run: Annotated[str | None, typer.Argument(metavar="[RUN]", help="The run, or its id.", show_default=False)] = None,
    *,
    home: HomeOfAnybody = Path(),
    other: Annotated[
        str, typer.Option("--with", metavar="PARTY", help="With whom, as the terms name them; the curator by default.")
    ] = "curator",
    disclose: Annotated[
        list[str] | None,
        typer.Option(metavar="PARTY:NUMBER", help="Also what this letter of PARTY says; may be repeated."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the bundle into this file.", show_default=False)] = None,
    picks: Annotated[
        bool, typer.Option("--picks", help="In a split run: about picks of an owner (--with) that gave no record.")
    ] = False,
    open_: Annotated[
        Path | None,
        typer.Option("--open", metavar="FILE", help="Add this home's shares of the slots in this evidence."),
    ] = None,
    unproven: Annotated[
        bool, typer.Option("--unproven", help="With --open, also of slots that nothing proves to have been bought.")
    ] = False,
    check: Annotated[
        list[Path] | None, typer.Option(help="Say what this file proves; evidence may be repeated.", show_default=False)
    ] = None,
    silent: Annotated[
        list[str] | None,
        typer.Option(metavar="PARTY", help="With --check, whom you asked to --open, in vain; repeated."),
    ] = None,
    card: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE|FINGERPRINT", help="With --check, a party's card as you know it; repeated."),
    ] = None,
    save: Annotated[
        Path | None, typer.Option(help="With --check, write what disclosed letters say into this directory.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Put together what parties signed in a run, so that a third party can check it with their cards alone.

    The bundle holds signed terms, acceptances, the signed headers of all letters between the two (also of letters that
    contradict others), and receipts. It says nothing of what letters say, and holds no row, unless you disclose a
    letter: then everybody who gets the bundle reads all that is in that letter. Nothing in it can be denied later.

    In a split run, [bold]--picks[/] writes evidence about an owner's slots, and each compute party adds its share of
    them with [bold]--open[/]. Whoever gets it may read the records in these slots, and no others.

    With [bold]--check[/], says what a file proves and what it does not. Exit code 1 if somebody contradicts itself, or
    is at fault.

    Example: [bold]likeset run dispute sepsis-2026-07 --home st-mary --out dispute.bundle[/], and elsewhere
    [bold]likeset run dispute --check dispute.bundle --card st-mary.card --card curator.card[/]
    """
    if check:
        if run is not None or out is not None or disclose or picks or open_ is not None:
            reason = "looks at a file; leave RUN, --out, --disclose, --picks and --open out"
            raise InvalidArgument("--check", check[0], reason)
        _check(check, card or [], save, silent or [], as_json=as_json)
        return
    if card or save is not None or silent:
        raise InvalidArgument("--card, --save, --silent", "given", "are for --check")
    if open_ is not None:
        if run is not None or out is None or picks or disclose:
            raise InvalidArgument("--open", open_, "answers evidence: name the file to write with --out, and no run")
        _open(open_, home, out, unproven=unproven, as_json=as_json)
        return
    if unproven or (picks and disclose):
        raise InvalidArgument("--unproven, --disclose", "given", "--unproven is for --open, --disclose for letters")
    if run is None or out is None:
        raise InvalidArgument("RUN, --out", "missing", "name the run and the file to write; or a bundle, with --check")
    _write(run, home, other, disclose or [], out, picks=picks, as_json=as_json)


# Making one.


def _write(run: str, home: Path, other: str, disclose: Sequence[str], out: Path, *, picks: bool, as_json: bool) -> None:
    from likeset.app.cli.slot_dispute import write_slots
    from likeset.homes.evidence import Evidence
    from likeset.private_files import keep_private_bytes

    with _book(home) as book:
        invitation = _invitation(book.invitations(), run)
        if picks:
            write_slots(book, invitation, home, other, out, as_json=as_json)
            return
        evidence = Evidence.of(book, invitation, other)
        shown = [_disclosed(evidence, what, home) for what in disclose]
        bundle = evidence.bundle(_receipts(home), shown)
    data = bundle.to_bytes()
    _warn(bundle)
    try:
        keep_private_bytes(out, data)
    except OSError as error:
        raise InvalidArgument("--out", out, f"cannot be written: {error.strerror}") from error
    if as_json:
        counts = {"letters": len(bundle.stubs), "receipts": len(bundle.receipts), "disclosed": len(bundle.disclosures)}
        show_json({"bundle": str(out), "run": bundle.terms.run, "parties": list(bundle.parties), **counts})
        return
    stdout.print(f"[bold green]written[/]  {literal(str(out))}: {literal(_counted(bundle))}", soft_wrap=True)


def _open(asked: Path, home: Path, out: Path, *, unproven: bool, as_json: bool) -> None:
    from likeset.app.cli.slot_dispute import open_slots, read_slot_file

    file = read_slot_file(asked, _bytes(asked))
    with _book(home) as book:
        open_slots(book, file, out, unproven=unproven, as_json=as_json)


def _book(home: Path) -> "LetterBook":
    from likeset.homes.identity import BOOK_FILE
    from likeset.homes.letter_book import LetterBook

    if not (home / BOOK_FILE).is_file():
        reason = "has no letters: no run was held from here, or it is no home of a party; name one with --home"
        raise InvalidArgument("--home", home, reason)
    return LetterBook(home / BOOK_FILE, read_only=True)


def _invitation(documents: Sequence[bytes], run: str) -> "Invitation":
    """The signed terms of a run, by its name or id."""
    from likeset.homes.signed_invitation import Invitation

    known = [Invitation.read(data) for data in documents]
    named = [invitation for invitation in known if run in (invitation.terms.run, invitation.terms.run_id)]
    if not named:
        names = ", ".join(sorted({invitation.terms.run for invitation in known})[:_MOST_NAMED]) or "none"
        raise InvalidArgument("RUN", run, f"is no run that this home took part in; there are: {names}")
    if len(named) > 1:
        ids = ", ".join(sorted(invitation.terms.run_id for invitation in named))
        raise InvalidArgument(
            "RUN", run, f"was agreed to more than once, under several terms; name it by its id: {ids}"
        )
    return named[0]


def _disclosed(evidence: "Evidence", what: str, home: Path) -> "Disclosure":
    writer, _, number = what.rpartition(":")
    if not number.isascii() or not number.isdecimal():
        raise InvalidArgument("--disclose", what, "must be a party and the number of its letter, such as st-mary:0")
    messages = _own_messages(home, evidence.terms.run) if writer == evidence.party else []
    return evidence.disclosure(writer, int(number), messages=messages)


def _own_messages(home: Path, run: str) -> list[bytes]:
    """What an owner's node wrote in a run, as far as it keeps it; other homes keep no copies."""
    from likeset.app.cli.owner_setup import opened_node
    from likeset.homes.owner.home import Home
    from likeset.homes.owner.outbox import messages_that_left

    if not Home(home).policy.is_file():
        return []
    with opened_node(home) as node:
        return [message.data for message in messages_that_left(node, run)]


def _receipts(home: Path) -> list["Receipt"]:
    """All that lie in a home; what is none, is left out."""
    from likeset.homes.receipts import read_receipt

    receipts = []
    for path in sorted((home / "receipts").rglob("*.json"))[:_MOST_RECEIPTS]:
        try:
            receipts.append(read_receipt(path))
        except BadDocument:
            continue
    return receipts


def _warn(bundle: "Bundle") -> None:
    """What whoever gets the bundle will read, before it is written."""
    words = "No row and nothing else that a letter says is in this bundle."
    if bundle.disclosures:
        letters = ", ".join(_letter(bundle, disclosure) for disclosure in bundle.disclosures)
        words = f"Whoever gets this bundle reads all that is in {letters}, rows too."
    stderr.print(literal(words), soft_wrap=True)


def _letter(bundle: "Bundle", disclosure: "Disclosure") -> str:
    return f"letter {disclosure.stub.header.number} of {bundle.writer_of(disclosure.stub)}"


def _counted(bundle: "Bundle") -> str:
    counts = {"letter": len(bundle.stubs), "receipt": len(bundle.receipts)}
    counted = ", ".join(f"{count} {word}{'' if count == 1 else 's'}" for word, count in counts.items())
    return f"{counted} between {' and '.join(bundle.parties)}"


# Checking one.


def _check(
    paths: Sequence[Path], cards: Sequence[str], save: Path | None, silent: Sequence[str], *, as_json: bool
) -> None:
    from likeset.app.cli.slot_dispute import check_slots, read_slot_file
    from likeset.homes.slot_files import is_slot_file

    contents = [_bytes(path) for path in paths]
    if all(map(is_slot_file, contents)):
        if save is not None:
            raise InvalidArgument("--save", save, "is for bundles: evidence about slots discloses no letter")
        files = [read_slot_file(path, data) for path, data in zip(paths, contents, strict=True)]
        known = [_known_card(files[0].terms, text) for text in cards]
        check_slots(files, known, silent, as_json=as_json)
        return
    if len(paths) > 1 or silent:
        raise InvalidArgument("--check", paths[0], "looks at one bundle at a time; --silent is for evidence of slots")
    _check_bundle(paths[0], contents[0], cards, save, as_json=as_json)


def _check_bundle(path: Path, data: bytes, cards: Sequence[str], save: Path | None, *, as_json: bool) -> None:
    from likeset.homes.disputes import facts, unproven

    bundle = _read(path, data)
    known = [_known_card(bundle.terms, text) for text in cards]
    proven, not_proven = facts(bundle), unproven(bundle, known)
    contradictions = [fact for fact in proven if fact.kind == "contradiction"]
    if save is not None:
        _save(bundle, save)
    if as_json:
        proof = [
            {"kind": fact.kind, "by": fact.by, "numbers": list(fact.numbers), "words": fact.words} for fact in proven
        ]
        whose = {
            party: {"card": card.fingerprint, "known": card.fingerprint in known}
            for party, card in bundle.cards.items()
        }
        named = {"run": bundle.terms.run, "run_id": bundle.terms.run_id, "terms": bundle.terms.digest}
        about = {**named, "parties": list(bundle.parties), "cards": whose}
        show_json({**about, "agree": not contradictions, "proven": proof, "not_proven": not_proven})
    else:
        stdout.print(f"[bold]Run {literal(bundle.terms.run)}[/], id {literal(bundle.terms.run_id)}", soft_wrap=True)
        stdout.print("Proven:")
        for fact in proven:
            colour = "[bold red]" if fact.kind == "contradiction" else "[none]"
            stdout.print(f"- {colour}{literal(fact.words)}[/] (signed by {literal(fact.by)})", soft_wrap=True)
        stdout.print("Not proven:")
        for words in not_proven:
            stdout.print(f"- {literal(words)}", soft_wrap=True)
    if contradictions:
        raise typer.Exit(1)


def _bytes(path: Path) -> bytes:
    from likeset.documents import bytes_in
    from likeset.homes.bundles import MOST_BUNDLE_BYTES

    return bytes_in(path, most=MOST_BUNDLE_BYTES)


def _read(path: Path, data: bytes) -> "Bundle":
    from likeset.homes.bundles import Bundle

    try:
        return Bundle.from_bytes(data)
    except BadDocument as error:
        raise BadDocument(str(path), f"is no bundle that holds: {error.document}: {error.reason}") from None


def _known_card(terms: "Terms", text: str) -> str:
    """The fingerprint of a card that the reader knows, from its file or as it was typed; it must be of this run."""
    from likeset.trust.cards import read_card
    from likeset.trust.fingerprints import typed

    path = Path(text)
    fingerprint = read_card(path).fingerprint if path.is_file() else typed(text)
    if fingerprint not in terms.cards.values():
        reason = "is the card of no party of this run: the bundle is about somebody else's cards"
        raise InvalidArgument("--card", text, reason)
    return fingerprint


def _save(bundle: "Bundle", folder: Path) -> None:
    from likeset.private_files import keep_private_bytes

    make_directory(folder)
    for position, disclosure in enumerate(bundle.disclosures):
        opened = disclosure.opened_for(bundle.cards[bundle.writer_of(disclosure.stub)])
        try:
            keep_private_bytes(folder / f"{position:03d}-letter-{disclosure.stub.header.number}.bin", opened.message)
        except OSError as error:
            raise InvalidArgument("--save", folder, f"cannot be written: {error.strerror}") from error
    if not bundle.disclosures:
        show_notes(["no letter is disclosed in this bundle, so there is nothing to write"])
