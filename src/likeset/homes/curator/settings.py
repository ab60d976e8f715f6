"""``curator.yaml``: where a curator's letters come and go, and how long it waits for owners."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Literal

import yaml
from pydantic import Field

from likeset.documents import Document
from likeset.homes.mailbox_address import MailboxAddress
from likeset.homes.tunnel_address import TunnelText, tunnel_lines

__all__ = ["SETTINGS_FILE", "CuratorSettings", "starting_settings"]

SETTINGS_FILE = "curator.yaml"
_MOST_HOURS = 24 * 3650
_Hours = Annotated[float, Field(ge=0.0, le=_MOST_HOURS, allow_inf_nan=False)]


class CuratorSettings(Document):
    """What stands in ``curator.yaml``.

    Attributes:
        mailboxes: addresses.
        patience_hours: how long it waits for an owner's answer after it asked, at most until the terms end.
        after_auction_hours: with an auction, how long after owners heard whether they are asked no receipt goes out.
        listen: in split runs, where its tunnels listen.
        reach_at: where others reach them, if elsewhere.
    """

    likeset: Literal["curator"] = "curator"
    version: Literal[1] = 1
    mailboxes: tuple[MailboxAddress, ...] = ()
    patience_hours: _Hours = 72.0
    after_auction_hours: _Hours = 72.0
    listen: TunnelText = ""
    reach_at: TunnelText = ""

    @property
    def patience(self) -> timedelta:
        """How long it waits for an owner's answer."""
        return timedelta(hours=self.patience_hours)

    @property
    def after_auction(self) -> timedelta:
        """How long after an auction no receipt goes out."""
        return timedelta(hours=self.after_auction_hours)


def starting_settings(mailboxes: Sequence[str], *, listen: str = "", reach_at: str = "") -> str:
    """The ``curator.yaml`` of a new home."""
    listed = yaml.safe_dump(list(mailboxes), default_flow_style=True, width=1000).strip()
    usual = CuratorSettings()
    return f"""\
likeset: curator
version: 1

# Where letters come and go, as agreed with the others: file:///mnt/share, sftp://user@host/folder or s3://bucket/folder,
# never with a password in it.
mailboxes: {listed}

# How many hours an owner may take for an answer that it was asked for; then the run goes on without it, if enough are
# left. It never goes on after the end of the terms.
patience_hours: {usual.patience_hours:g}

# With an auction: for how many hours after owners heard whether they are asked no receipt goes out. Let it be no
# shorter than the patience: when a run ends tells owners whether anybody was asked.
after_auction_hours: {usual.after_auction_hours:g}

{tunnel_lines(listen, reach_at)}"""
