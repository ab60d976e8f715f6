"""The factory of a network in NVFlare's simulator whose sites are those of real organisations."""

from pathlib import Path

from likeset.engines.seats import Seat
from likeset.jobs.consumer_home import consumer
from likeset.node.curating import curator
from likeset.node.site import owner
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import Terms


def seat(terms: Terms, name: str, folder: Path) -> Seat | None:
    """The party of this name; ``folder`` is where all of them have theirs."""
    if name == CURATOR:
        return curator(terms, name, folder / "curator")
    if name == terms.consumer:
        return consumer(terms, name, folder / "home")
    return owner(terms, name, folder / f"node-{name}")
