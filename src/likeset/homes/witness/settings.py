"""``witness.yaml``: who a witness is, where its letters come and go, and where its tunnels listen."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Literal

import yaml
from pydantic import Field

from likeset.documents import Document
from likeset.homes.mailbox_address import MailboxAddress
from likeset.homes.tunnel_address import TunnelText, tunnel_lines

__all__ = ["SETTINGS_FILE", "WitnessSettings", "starting_settings"]

SETTINGS_FILE = "witness.yaml"
_MOST_HOURS = 24 * 3650
_Hours = Annotated[float, Field(ge=0.0, le=_MOST_HOURS, allow_inf_nan=False)]


class WitnessSettings(Document):
    """What stands in ``witness.yaml``.

    Attributes:
        name: on its card.
        mailboxes: addresses.
        listen: where its tunnels listen.
        reach_at: where others reach them, if elsewhere.
        patience_hours: how long it waits for an owner's shares after the consumer said that it has them.
    """

    likeset: Literal["witness"] = "witness"
    version: Literal[1] = 1
    name: str
    mailboxes: tuple[MailboxAddress, ...] = ()
    listen: TunnelText = ""
    reach_at: TunnelText = ""
    patience_hours: _Hours = 72.0

    @property
    def patience(self) -> timedelta:
        """How long it waits for an owner's shares."""
        return timedelta(hours=self.patience_hours)


def starting_settings(name: str, *, mailboxes: Sequence[str], listen: str, reach_at: str) -> str:
    """The ``witness.yaml`` of a new home."""
    listed = yaml.safe_dump(list(mailboxes), default_flow_style=True, width=1000).strip()
    named = yaml.safe_dump({"name": name}, width=1000).strip()
    return f"""\
likeset: witness
version: 1
{named}

# Where letters come and go, as agreed with the others: file:///mnt/share, sftp://user@host/folder or s3://bucket/folder,
# never with a password in it.
mailboxes: {listed}

{tunnel_lines(listen, reach_at)}
# How many hours it waits for an owner's shares when the consumer has them; then the run goes on without that owner, if
# enough are left. It never goes on after the end of the terms.
patience_hours: 72
"""
