"""The side of a curator or a witness in a split run: what it must have, and how its party is made."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, Protocol

from likeset.errors import IllegalMessage, InvalidArgument, LikesetError, NotCurated
from likeset.homes.compute import ComputeRoom
from likeset.homes.compute_folder import ComputeFolder
from likeset.homes.compute_run import ComputeResident, ComputeRun
from likeset.homes.correspondence import Correspondence
from likeset.homes.identity import Identity
from likeset.homes.signed_invitation import Invitation
from likeset.homes.tunnel_address import TunnelPlace
from likeset.protocol.messages import MOST_BYTES
from likeset.protocol.parties import make_compute_party
from likeset.protocol.split.compute_party import ComputeParty
from likeset.protocol.split.run_shape import party_name
from likeset.protocol.terms import Terms
from likeset.split.digest import program_digest
from likeset.trust.cards import Card

__all__ = ["ComputingHome", "check_computes", "compute_room", "compute_run"]


class ComputingHome(Protocol):
    """A home that computes."""

    @property
    def folder(self) -> Path:
        """Its directory."""

    @property
    def tunnels(self) -> TunnelPlace:
        """Where its tunnels listen; raises where its settings do not say."""


def compute_room(home: ComputingHome) -> ComputeRoom | None:
    """Where a home computes; None where its settings name no place for tunnels: then it accepts no split run."""
    try:
        return ComputeRoom(home.folder, home.tunnels)
    except InvalidArgument:
        return None


def check_computes(home: ComputingHome, terms: Terms, who: str, check_workers: Callable[[], object]) -> TunnelPlace:
    """Raise unless a home can compute in a run: before it accepts, so that nobody waits for it in vain.

    Args:
        home: the home.
        terms: of the run.
        who: it is, in the words that whoever asked for the run reads.
        check_workers: raises where no worker can be started.

    Raises:
        NotCurated: it cannot, and why, in fixed words.
        IllegalMessage: the curator of the run is trusted, and nobody computes.
    """
    if terms.split is None:
        raise IllegalMessage(f"run {terms.run} has a trusted curator; nobody else computes in it")
    if terms.split.program != program_digest():
        raise NotCurated(f"the {who} has another version of the public program than the terms name")
    try:
        check_workers()
    except LikesetError:
        raise NotCurated(f"the {who} has no environment for workers; it is made with `likeset split setup`") from None
    try:
        return home.tunnels
    except LikesetError as error:
        raise NotCurated(f"the {who} cannot be reached for tunnels: {error}") from None


def compute_run(
    home: ComputingHome,
    invitation: Invitation,
    role: Literal["curator", "witness"],
    *,
    identity: Identity,
    check_workers: Callable[[], object],
) -> ComputeRun:
    """The side of a curator or a witness in a split run.

    Args:
        home: of the party.
        invitation: the signed terms.
        role: of the party.
        identity: who it is.
        check_workers: raises where no worker can be started.

    Raises:
        NotCurated: it cannot take part.
    """
    terms = invitation.terms
    place = check_computes(home, terms, role, check_workers)
    kept = ComputeFolder(home.folder, terms.digest)

    def make(cards: Mapping[str, Card]) -> ComputeParty:
        reach = kept.reach(place).to_bytes()
        return make_compute_party(terms, role, secret=identity.secret, cards=cards, reach=reach)

    name = party_name(terms, role)
    letters = Correspondence(identity, invitation, name)
    identity.book.settle_ended()
    return ComputeRun(letters, ComputeResident(name, make), MOST_BYTES, kept=kept)
