"""What a consumer's NVFlare site names: ``"factory": "likeset.homes.consumer.site:consumer"``, with its directory.

The site answers only in runs whose very terms lie there: nobody else can make it release a target.
"""

from pathlib import Path

from likeset.errors import IllegalMessage
from likeset.homes.consumer.home import ConsumerHome
from likeset.homes.shell import ConsumerShell
from likeset.homes.site_party import SiteParty
from likeset.ledger import Ledger
from likeset.privacy.noise import SecretNoise
from likeset.private_files import keep_private_bytes
from likeset.protocol.consumer import Consumer
from likeset.protocol.hashing import hash_map
from likeset.protocol.terms import Terms
from likeset.tables.schema.declared_records import DeclaredRecords

__all__ = ["consumer"]


def consumer(terms: Terms, name: str, folder: Path) -> SiteParty:
    """The consumer's party in a run.

    Args:
        terms: of the run.
        name: the site's name, which must be the consumer's.
        folder: the consumer's directory.

    Raises:
        LikesetError: these terms are not those that the consumer drafted.
    """
    home = ConsumerHome(folder)
    if home.connection.name != name:
        raise IllegalMessage(f"the consumer of this directory is {home.connection.name}, not {name}")
    run = home.known(terms.run)
    if run.terms.digest != terms.digest:
        raise IllegalMessage(f"run {terms.run}: the consumer drafted other terms")
    schema, seed = run.schema, run.hash_seed
    party = Consumer(
        terms,
        target=run.target,
        noise=SecretNoise(),
        hashes=None if seed is None else hash_map(terms, seed),
        selection=run.selection,
        declared=DeclaredRecords(schema),
    )

    def keep(data: bytes) -> None:
        keep_private_bytes(run.summary_path, data)

    return SiteParty(ConsumerShell(party, Ledger(home.ledger)), keep=keep)
