"""``likeset run dispute``: what two parties signed in a run, for a third party, and what it proves."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from likeset.display.screen import JsonFlag, literal, make_directory, show_json, show_notes, stderr, stdout
from likeset.errors import BadDocument, InvalidArgument

if TYPE_CHECKING:
    from likeset.homes.bundles import Bundle
    from likeset.homes.evidence import Evidence
    from likeset.homes.receipts import Receipt
    from likeset.homes.signed_invitation import Invitation
    from likeset.trust.letters import Disclosure

__all__ = ["dispute"]

HomeOfAnybody = Annotated[
    Path,
    typer.Option(
        "--home", envvar=["LIKESET_HOME", "LIKESET_NODE"], help="Directory of an owner, a curator or a consumer."
    ),
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
    check: Annotated[
        Path | None, typer.Option(help="Say what the bundle in this file proves.", show_default=False)
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
    """Put together what two parties signed in a run, so that a third party can check it with their cards alone.

    The bundle holds signed terms, acceptances, the signed headers of all letters between the two (also of letters that
    contradict others), and receipts. It says nothing of what letters say, and holds no row, unless you disclose a
    letter: then everybody who gets the bundle reads all that is in that letter. Nothing in it can be denied later.

    With [bold]--check[/], says what a bundle proves and what it does not. Exit code 1 if somebody contradicts itself.

    Example: [bold]likeset run dispute sepsis-2026-07 --home st-mary --out dispute.bundle[/], and elsewhere
    [bold]likeset run dispute --check dispute.bundle --card st-mary.card --card curator.card[/]
    """
    if check is not None:
        if run is not None or out is not None or disclose:
            raise InvalidArgument("--check", check, "looks at a bundle; leave RUN, --out and --disclose out")
        _check(check, card or [], save, as_json=as_json)
        return
    if card or save is not None:
        raise InvalidArgument("--card, --save", "given", "are for --check")
    if run is None or out is None:
        raise InvalidArgument("RUN, --out", "missing", "name the run and the file to write; or a bundle, with --check")
    _write(run, home, other, disclose or [], out, as_json=as_json)


# Making one.


def _write(run: str, home: Path, other: str, disclose: Sequence[str], out: Path, *, as_json: bool) -> None:
    from likeset.homes.evidence import Evidence
    from likeset.homes.identity import BOOK_FILE
    from likeset.homes.letter_book import LetterBook
    from likeset.private_files import keep_private_bytes

    if not (home / BOOK_FILE).is_file():
        reason = "has no letters: no run was held from here, or it is no home of a party; name one with --home"
        raise InvalidArgument("--home", home, reason)
    with LetterBook(home / BOOK_FILE, read_only=True) as book:
        evidence = Evidence.of(book, _invitation(book.invitations(), run), other)
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


def _check(path: Path, cards: Sequence[str], save: Path | None, *, as_json: bool) -> None:
    from likeset.homes.disputes import facts, unproven

    bundle = _read(path)
    known = [_known_card(bundle, text) for text in cards]
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


def _read(path: Path) -> "Bundle":
    from likeset.homes.bundles import MOST_BUNDLE_BYTES, Bundle

    try:
        with path.open("rb") as file:
            return Bundle.from_bytes(file.read(MOST_BUNDLE_BYTES + 1))
    except OSError as error:
        raise BadDocument(str(path), f"cannot be read: {error.strerror}") from error
    except BadDocument as error:
        raise BadDocument(str(path), f"is no bundle that holds: {error.document}: {error.reason}") from None


def _known_card(bundle: "Bundle", text: str) -> str:
    """The fingerprint of a card that the reader knows, from its file or as it was typed; it must be of this run."""
    from likeset.trust.cards import read_card
    from likeset.trust.fingerprints import typed

    path = Path(text)
    fingerprint = read_card(path).fingerprint if path.is_file() else typed(text)
    if fingerprint not in bundle.terms.cards.values():
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
