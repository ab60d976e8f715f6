"""Addresses of mailboxes, as settings hold them: no password ever stands in one."""

from collections.abc import Iterable
from typing import Annotated

from pydantic import AfterValidator

from likeset.errors import InvalidArgument
from likeset.text import without_secrets

__all__ = ["MailboxAddress", "checked_addresses"]

_REASON = (
    "has a password in it, and settings are copied and shown; take it out: the key of the login that looks is used "
    "(~/.ssh for sftp, the usual files and variables for s3)"
)


def _checked(address: str) -> str:
    if not address.strip():
        raise ValueError("is empty; write file:///folder, sftp://user@host/folder or s3://bucket/folder")
    if without_secrets(address) != address:
        raise ValueError(_REASON)
    return address


MailboxAddress = Annotated[str, AfterValidator(_checked)]
"""Where a mailbox is, such as ``file:///mnt/share``."""


def checked_addresses(addresses: Iterable[str], *, argument: str = "--mailbox") -> tuple[str, ...]:
    """The addresses, each one once.

    Raises:
        InvalidArgument: one of them is empty, or has a password in it.
    """
    checked = []
    for address in addresses:
        try:
            checked.append(_checked(address))
        except ValueError as error:
            raise InvalidArgument(argument, without_secrets(address), str(error)) from None
    return tuple(dict.fromkeys(checked))
