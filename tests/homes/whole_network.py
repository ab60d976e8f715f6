"""The factory of a network in NVFlare's simulator whose sites are those of real organisations."""

from pathlib import Path

from likeset.homes.consumer.site import consumer
from likeset.homes.curator.home import curator
from likeset.homes.owner.site import owner
from likeset.homes.site_party import SiteParty
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import Terms


def seat(terms: Terms, name: str, folder: Path) -> SiteParty | None:
    """The party of this name; ``folder`` is where all of them have theirs."""
    if name == CURATOR:
        return curator(terms, name, folder / "curator")
    if name == terms.consumer:
        return consumer(terms, name, folder / "home")
    return owner(terms, name, folder / f"node-{name}")
