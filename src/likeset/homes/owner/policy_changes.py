"""Changing ``owner.yaml``: checked before it is written, written whole, and in the audit log before it counts."""

import hashlib
from dataclasses import dataclass
from typing import Any

from likeset import documents
from likeset.errors import DecidedMeanwhile
from likeset.homes.owner.node import OwnerNode
from likeset.homes.owner.policy import Policy

__all__ = ["PolicyDraft", "WrittenPolicy", "draft_of", "put", "written_policy"]

_NAME = "owner.yaml"


@dataclass(frozen=True, slots=True)
class WrittenPolicy:
    """What stands in ``owner.yaml`` now.

    Attributes:
        text: the file.
        policy: what it says.
        mark: stands for the text: who changes it may say what it was that he saw.
    """

    text: str
    policy: Policy
    mark: str


@dataclass(frozen=True, slots=True)
class PolicyDraft:
    """A text that may become ``owner.yaml``.

    Attributes:
        text: the text.
        policy: what it says.
        changes: what differs from the policy now: field, before, after.
    """

    text: str
    policy: Policy
    changes: tuple[tuple[str, str, str], ...]


def written_policy(node: OwnerNode) -> WrittenPolicy:
    """The policy as it stands in its file; nothing is written.

    Raises:
        BadDocument: it cannot be read, or does not fit what this node was before.
    """
    policy = node.policy
    text = node.home.policy.read_text(encoding="utf-8-sig")
    return WrittenPolicy(text, policy, _mark(text))


def draft_of(node: OwnerNode, text: str) -> PolicyDraft:
    """Check a text that may become the policy; nothing is written.

    Raises:
        BadDocument: with line, field and reason.
    """
    policy = documents.read_text(text, Policy, name=_NAME)
    node.check_policy(policy)
    before, after = _flat(node.policy), _flat(policy)
    changes = tuple((name, before[name], after[name]) for name in after if before[name] != after[name])
    return PolicyDraft(text, policy, changes)


def put(node: OwnerNode, text: str, *, by: str, seen: str | None = None) -> PolicyDraft:
    """Make a text the policy; it counts when this returns.

    Args:
        node: whose policy.
        text: the new ``owner.yaml``.
        by: who changes it.
        seen: ``mark`` of the text as they saw it; whatever it is now if None.

    Raises:
        BadDocument: it cannot be the policy; nothing was written.
        DecidedMeanwhile: somebody else changed it since; nothing was written.
    """
    node.check_running()
    draft = draft_of(node, text)
    with node.log.deciding():  # nobody else changes it meanwhile
        if seen is not None and written_policy(node).mark != seen:
            raise DecidedMeanwhile(_NAME, "changed by somebody else")
        documents.write_text(node.home.policy, text)
    node.put_policy_in_force(by=by)
    return draft


def _mark(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _flat(policy: Policy) -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, value in policy.model_dump(mode="json").items():
        if isinstance(value, dict):
            flat |= {f"{name}.{inner}": _shown(part) for inner, part in value.items()}
        else:
            flat[name] = _shown(value)
    return flat


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "nothing"
    return f"{value:g}" if isinstance(value, float) else str(value)
