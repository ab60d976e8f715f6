"""The rules as a form: fields of the form to a policy; checking is the policy's own business."""

import json
from typing import Any

from likeset import documents
from likeset.app.console.visits import Form
from likeset.homes.policy import Policy

__all__ = ["policy_from"]

_LISTS = ("consumers", "purposes", "columns", "curators", "witnesses", "mailboxes", "accept_unproven", "certificates")
_NUMBERS = ("smallest_group", "runs_per_month", "price_at_least")
_PARTS = dict.fromkeys(("per_run", "total"), ("epsilon", "delta", "rows", "readable"))
_MAY_BE_EMPTY = "readable"


def policy_from(form: Form, before: Policy) -> Policy:
    """The policy that a form describes; what the form does not ask for stays as it was.

    Args:
        form: lists with an entry a line, numbers as text.
        before: the policy now.

    Raises:
        BadDocument: a field cannot be what it says.
    """
    content: dict[str, Any] = before.model_dump(mode="json")
    for name in _LISTS:
        if name in form.fields:
            content[name] = [line.strip() for line in form.fields[name].splitlines() if line.strip()]
    for name in _NUMBERS:
        if name in form.fields:
            content[name] = _number(form.text(name, most=40))
    for part, names in _PARTS.items():
        for name in names:
            if f"{part}.{name}" in form.fields:
                words = form.text(f"{part}.{name}", most=40)
                content[part][name] = None if name == _MAY_BE_EMPTY and not words else _number(words)
    content["manual_approval"] = form.text("manual_approval") == "yes"
    return documents.read_text(json.dumps(content), Policy, name="the form")


def _number(text: str) -> Any:
    """A number if it is one; else the text, for the policy to complain about by the field's name."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
