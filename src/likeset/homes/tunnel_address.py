"""Where a compute party's tunnels listen, and where the others reach them, as settings hold it."""

import re
from dataclasses import dataclass
from typing import Annotated, Self

from pydantic import AfterValidator

from likeset.errors import InvalidArgument

__all__ = ["TunnelPlace", "TunnelPorts", "TunnelText", "check_tunnels", "tunnel_lines"]

_FORM = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(?P<first>\d{1,5})(-(?P<last>\d{1,5}))?")
_HOW = "must be HOST:PORT, or HOST:FIRST-LAST for several runs at a time, such as 0.0.0.0:7301"
_MOST_PORT = 65535
_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - what must not be told to others


@dataclass(frozen=True, slots=True)
class TunnelPorts:
    """A host and its ports, one for each run that is computed at the same time.

    Attributes:
        host: its name or number.
        first: of the ports; 0 for any that is free.
        last: of the ports.
    """

    host: str
    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """What ``HOST:PORT`` or ``HOST:FIRST-LAST`` says.

        Raises:
            ValueError: it is something else.
        """
        match = _FORM.fullmatch(text)
        if match is None:
            raise ValueError(_HOW)
        first = int(match["first"])
        last = int(match["last"] or first)
        if not 0 <= first <= last <= _MOST_PORT or (first == 0 and last != 0):
            raise ValueError(_HOW)
        return cls(match["host"].strip("[]"), first, last)

    @property
    def ports(self) -> range:
        """All of them."""
        return range(self.first, self.last + 1)


def _checked(text: str) -> str:
    if text:
        TunnelPorts.parse(text)
    return text


TunnelText = Annotated[str, AfterValidator(_checked)]
"""``HOST:PORT``, ``HOST:FIRST-LAST``, or nothing."""


@dataclass(frozen=True, slots=True)
class TunnelPlace:
    """Where a home's tunnels listen, and where others reach them.

    Attributes:
        listen: here.
        reach_at: by others; as many ports, in the same order.
    """

    listen: TunnelPorts
    reach_at: TunnelPorts

    @classmethod
    def of(cls, listen: str, reach_at: str, *, file: str) -> Self:
        """From a home's settings.

        Args:
            listen: as they say.
            reach_at: likewise; empty where others reach it at the same place.
            file: that says so, for errors.

        Raises:
            InvalidArgument: a compute party needs a place, and these say none that others can use.
        """
        if not listen:
            raise InvalidArgument("listen", "nothing", f"a split run needs listen: HOST:PORT in {file}")
        here = TunnelPorts.parse(listen)
        there = TunnelPorts.parse(reach_at or listen)
        if there.host in _EVERYWHERE:
            raise InvalidArgument("reach_at", there.host, f"is where nobody can call; write reach_at: in {file}")
        if len(there.ports) != len(here.ports):
            reason = f"must have as many ports as listen ({len(here.ports)}), in the same order; see {file}"
            raise InvalidArgument("reach_at", reach_at, reason)
        return cls(here, there)

    def told(self, port: int) -> tuple[str, int]:
        """Where others reach what listens on a port here."""
        if self.reach_at.first == 0 or self.listen.first == 0:
            return self.reach_at.host, self.reach_at.first or port
        return self.reach_at.host, self.reach_at.first + port - self.listen.first


def tunnel_lines(listen: str = "", reach_at: str = "") -> str:
    """The lines of a new home's settings."""
    return f"""\
# For runs with a split curator: where this party listens for the two other compute parties (HOST:PORT, or
# HOST:FIRST-LAST for several runs at a time), and where they reach it, if that is elsewhere. Nobody else is let in.
listen: "{listen}"
reach_at: "{reach_at}"
"""


def check_tunnels(listen: str, reach_at: str, *, file: str) -> None:
    """Look at what a new home is to be told; nothing is fine, and may be written into its settings later.

    Raises:
        InvalidArgument: others could not call there, or it is no place.
    """
    for option, text in (("--listen", listen), ("--reach-at", reach_at)):
        try:
            _checked(text)
        except ValueError as error:
            raise InvalidArgument(option, text, str(error)) from None
    if listen or reach_at:
        TunnelPlace.of(listen, reach_at, file=file)
