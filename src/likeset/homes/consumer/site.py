"""What a consumer's NVFlare site names: ``"factory": "likeset.homes.consumer.site:consumer"``, with its directory.

The site answers only in runs whose very invitation lies there: nobody else can make it release a target. It takes a
summary only in a letter of the curator whose card the terms name: nobody else can make it take rows.
"""

from pathlib import Path

from likeset.errors import IllegalMessage
from likeset.homes.consumer.home import ConsumerHome
from likeset.homes.correspondence import Correspondence
from likeset.homes.identity import Identity
from likeset.homes.shell import ConsumerShell
from likeset.homes.signed_invitation import Invitation
from likeset.homes.site_run import ConsumerRun
from likeset.ledger import Ledger
from likeset.privacy.noise import SecretNoise
from likeset.private_files import keep_private_bytes
from likeset.protocol.consumer import Consumer
from likeset.protocol.messages import MOST_BYTES
from likeset.tables.schema.declared_records import DeclaredRecords

__all__ = ["consumer"]


def consumer(invitation: Invitation, name: str, folder: Path, *, identity: Identity | None = None) -> ConsumerRun:
    """The consumer's side of a run.

    Args:
        invitation: the signed terms, as they came with the job.
        name: the site's name, which must be the consumer's.
        folder: the consumer's directory.
        identity: who the consumer is, where that is open already.

    Raises:
        LikesetError: these terms are not those that this consumer signed, or it has no keys to answer with.
    """
    home, terms = ConsumerHome(folder), invitation.terms
    if home.connection.name != name:
        raise IllegalMessage(f"the consumer of this directory is {home.connection.name}, not {name}")
    run = home.known(terms.run)
    if run.invitation.to_bytes() != invitation.to_bytes():
        raise IllegalMessage(f"run {terms.run}: the consumer signed other terms")
    schema = run.schema
    letters = Correspondence(identity or home.identity, run.invitation, name)
    letters.identity.book.settle_ended()
    party = Consumer(
        terms,
        target=run.target,
        noise=SecretNoise(),
        selection=run.selection,
        declared=DeclaredRecords(schema),
    )

    def keep(data: bytes) -> None:
        keep_private_bytes(run.summary_path, data)

    return ConsumerRun(letters, ConsumerShell(party, Ledger(home.ledger)), MOST_BYTES, keep=keep)
