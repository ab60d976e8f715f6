"""What an owner's node answered to a message, or why it refused."""

from node_world import hear, logged

from likeset.homes.owner_node import OwnerNode
from likeset.privacy.guarantee import View
from likeset.protocol.wire import Message, encode


def refused(node: OwnerNode, message: Message) -> str:
    """The logged reason; the other side hears one word, and nothing was charged or kept for it."""
    before, known = len(node.ledger.messages()), len(logged(node, "refused"))
    assert hear(node, encode(message)) == "abstains"
    assert len(node.ledger.messages()) == before
    found = logged(node, "refused")
    assert len(found) == known + 1
    return str(found[-1]["reason"])


def rows_spent(node: OwnerNode) -> int:
    """How many rows were charged to the curator's account."""
    (account,) = [one for one in node.ledger.accounts() if one.view == View.curator("a")]
    return account.rows


def answered(node: OwnerNode, message: Message) -> list[bytes]:
    """What it answers."""
    found = hear(node, encode(message))
    assert isinstance(found, list), logged(node, "refused")[-1:]
    return found


def abstained(node: OwnerNode, message: Message) -> str:
    """The logged reason, whatever else was kept."""
    assert hear(node, encode(message)) == "abstains"
    return str(logged(node, "refused")[-1]["reason"])
