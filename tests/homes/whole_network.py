"""The factory of a network in NVFlare's simulator whose sites are those of real organisations."""

from pathlib import Path

from likeset.homes.consumer.site import consumer
from likeset.homes.curator_home import curator
from likeset.homes.mail import Invitation, SiteRun
from likeset.homes.owner.site import owner
from likeset.protocol.party import CURATOR


def seat(invitation: Invitation, name: str, folder: Path) -> SiteRun | None:
    """The side of the party of this name; ``folder`` is where all of them have theirs."""
    if name == CURATOR:
        return curator(invitation, name, folder / "curator")
    if name == invitation.terms.consumer:
        return consumer(invitation, name, folder / "home")
    return owner(invitation, name, folder / f"node-{name}")
