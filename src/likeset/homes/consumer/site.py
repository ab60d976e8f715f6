"""What a consumer's NVFlare site names: ``"factory": "likeset.homes.consumer.site:consumer"``, with its directory.

The site answers only in runs whose very invitation lies there: nobody else can make it release a target. It takes a
summary only in a letter of the curator whose card the terms name: nobody else can make it take rows.
"""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from likeset.errors import IllegalMessage
from likeset.files import keep_private_bytes, make_private_folder
from likeset.homes.compute import ComputeFolder, ComputeResident, SplitConsumerRun, check_computes
from likeset.homes.consumer_home import ConsumerHome, KeptRun
from likeset.homes.mail import (
    ConsumerRun,
    ConsumerShell,
    Correspondence,
    Identity,
    Invitation,
    file_name,
    signed_once,
    transcript_of,
)
from likeset.ledger.ledger import Ledger
from likeset.privacy.noise import SecretNoise
from likeset.protocol.sealed import Consumer
from likeset.protocol.split_run import SplitConsumer
from likeset.protocol.wire import MOST_BYTES, Message, Summary
from likeset.split.host import split_python
from likeset.tables.records import DeclaredRecords
from likeset.trust.cards import Card


def consumer(invitation: Invitation, name: str, folder: Path, *, identity: Identity | None = None) -> ConsumerRun:
    """The consumer's side of a run whose curator is trusted.

    Args:
        invitation: the signed terms, as they came with the job.
        name: the site's name, which must be the consumer's.
        folder: the consumer's directory.
        identity: who the consumer is, where that is open already.

    Raises:
        LikesetError: these terms are not those that this consumer signed, or it has no keys to answer with.
    """
    home, run, letters = _signed_run(invitation, name, folder, identity)
    if run.terms.split is not None:
        raise IllegalMessage(f"run {run.name} has a split curator: it travels by mailbox, and by nothing else")
    party = Consumer(
        run.terms,
        target=run.target,
        noise=SecretNoise(),
        selection=run.selection,
        declared=DeclaredRecords(run.schema),
    )

    def keep(data: bytes) -> None:
        keep_private_bytes(run.summary_path, data)

    return ConsumerRun(letters, ConsumerShell(party, Ledger(home.ledger)), MOST_BYTES, keep=keep)


def _signed_run(
    invitation: Invitation, name: str, folder: Path, identity: Identity | None
) -> tuple[ConsumerHome, KeptRun, Correspondence]:
    home, terms = ConsumerHome(folder), invitation.terms
    if home.connection.name != name:
        raise IllegalMessage(f"the consumer of this directory is {home.connection.name}, not {name}")
    run = home.known(terms.run)
    if run.invitation.to_bytes() != invitation.to_bytes():
        raise IllegalMessage(f"run {terms.run}: the consumer signed other terms")
    letters = Correspondence(identity or home.identity, run.invitation, name)
    letters.identity.book.settle_ended()
    return home, run, letters


def consumer_by_mail(
    invitation: Invitation,
    name: str,
    folder: Path,
    *,
    identity: Identity,
    check_workers: Callable[[], object] = split_python,
) -> ConsumerRun | SplitConsumerRun:
    """The consumer's side of a run by mailbox: as ``consumer``; in a split run it computes.

    Args:
        invitation: the signed terms.
        name: the consumer's.
        folder: its directory.
        identity: who it is.
        check_workers: raises where no worker can be started, which a split run needs.

    Raises:
        LikesetError: as ``consumer``; or this home cannot compute.
    """
    if invitation.terms.split is None:
        return consumer(invitation, name, folder, identity=identity)
    return _split_run(*_signed_run(invitation, name, folder, identity), check_workers=check_workers)


def _split_run(
    home: ConsumerHome, run: KeptRun, letters: Correspondence, *, check_workers: Callable[[], object]
) -> SplitConsumerRun:
    """Where nobody but the consumer reads a row: it computes, and builds itself what a curator would have sent."""
    terms, place = run.terms, check_computes(home, run.terms, "consumer", check_workers)
    kept = ComputeFolder(home.folder, terms.digest)

    def make(cards: Mapping[str, Card]) -> SplitConsumer:
        return SplitConsumer(
            terms,
            target=run.target,
            noise=SecretNoise(),
            secret=letters.identity.secret,
            cards=cards,
            selection=run.selection,
            declared=DeclaredRecords(run.schema),
            reach=kept.reach(place).to_bytes(),
        )

    def keep(summary: Summary) -> None:
        message = Message(
            run=terms.run, terms=terms.digest, sender=terms.consumer, receiver=terms.consumer, round=0, body=summary
        )
        keep_private_bytes(run.summary_path, message.data)

    def receipts(owners: Collection[str]) -> dict[str, bytes]:
        return _receipts(run, letters.identity, owners)

    resident = ComputeResident(terms.consumer, make, Ledger(home.ledger))
    return SplitConsumerRun(letters, resident, MOST_BYTES, kept=kept, keep=keep, receipts=receipts)


def _receipts(run: KeptRun, identity: Identity, owners: Collection[str]) -> dict[str, bytes]:
    """What this consumer signs for owners: how many rows each of them offered, and never which it bought."""
    terms, receipts = run.terms, {}
    for owner in (name for name in terms.owners if name in owners):
        make_private_folder(run.folder / "receipts")
        path = run.folder / "receipts" / f"{file_name(owner)}.json"
        copy = transcript_of(identity.book, terms, owner=owner, kept_by="consumer")
        receipts[owner] = signed_once(path, copy, identity.secret).to_bytes()
    return receipts
