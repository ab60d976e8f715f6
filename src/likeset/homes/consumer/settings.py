"""``consumer.yaml``: who a consumer is, by which mailboxes its runs travel, and where its tunnels listen."""

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field

from likeset.documents import Document
from likeset.homes.mailbox_address import MailboxAddress
from likeset.homes.tunnel_address import TunnelText

__all__ = ["SETTINGS_FILE", "Connection"]

SETTINGS_FILE = "consumer.yaml"
_MOST_HOURS = 24 * 3650


class Connection(Document):
    """``consumer.yaml``: who the consumer is, by which mailboxes its runs travel, with which start-up kit it submits.

    Attributes:
        name: of the consumer; over NVFlare its site's name.
        mailboxes: addresses; a new run travels by the only one, unless it is told otherwise.
        kit: start-up kit of a user who may submit jobs to NVFlare; empty where there is none.
        user: that user's name.
        listen: in split runs, where its tunnels listen: ``HOST:PORT``.
        reach_at: where others reach them, if elsewhere.
        patience_hours: in split runs, how long it waits for owners after it asked; then it goes on without them.
    """

    likeset: Literal["consumer"] = "consumer"
    version: Literal[1] = 1
    name: str
    mailboxes: tuple[MailboxAddress, ...] = ()
    kit: str = ""
    user: str = ""
    listen: TunnelText = ""
    reach_at: TunnelText = ""
    patience_hours: Annotated[float, Field(ge=0.0, le=_MOST_HOURS, allow_inf_nan=False)] = 72.0

    @property
    def patience(self) -> timedelta:
        """How long owners may take in a split run."""
        return timedelta(hours=self.patience_hours)
