"""What an owner's NVFlare site names: ``"factory": "likeset.homes.owner.site:owner"``, with its directory."""

import os
import threading
from pathlib import Path

from likeset.errors import IllegalMessage
from likeset.homes.owner import kept_receipts
from likeset.homes.owner.node import OwnerNode
from likeset.homes.site_party import ABSTAINS, WAITING, SiteParty
from likeset.protocol.terms import Terms

__all__ = ["owner", "refused", "site_party_of"]

_nodes: dict[tuple[Path, int], OwnerNode] = {}
_opening = threading.Lock()


def owner(terms: Terms, name: str, folder: Path) -> SiteParty | None:
    """The owner's party in a run; None while somebody here has still to decide.

    Whoever does not take part (any more) in a run that is known here is absent from it: nothing is answered, and a
    receipt for what left before is kept.

    Args:
        terms: of the run.
        name: the site's name, which must be the node's.
        folder: the node's directory.

    Raises:
        LikesetError: this owner does not take part.
    """
    node = _node(folder)
    if node.name != name:
        raise IllegalMessage(f"the node in this directory is {node.name}, not {name}")
    return site_party_of(node, terms)


def site_party_of(node: OwnerNode, terms: Terms) -> SiteParty | None:
    """As ``owner``, for a node that is open."""

    def keep(data: bytes) -> None:
        node.guarded(terms.run, lambda: kept_receipts.take(node, terms, data))

    standing = node.invite(terms.to_json())
    if standing == ABSTAINS and not node.runs.know(terms):
        raise IllegalMessage("this owner does not take part; its audit log says why")
    return None if standing == WAITING else SiteParty(node, keep_receipt=keep, absent=standing == ABSTAINS)


def refused(folder: Path, reason: str) -> None:
    """Write into the node's audit log what its site refused before it came to the node."""
    _node(folder).refused(reason)


def _node(folder: Path) -> OwnerNode:
    with _opening:
        place = (folder.resolve(), os.getpid())
        if place not in _nodes:
            _nodes[place] = OwnerNode(folder)
        return _nodes[place]
