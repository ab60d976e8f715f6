"""Sites of this process that the curator's part of NVFlare calls, as it would call those of a network."""

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from letter_wire import SERVER
from site_factory import seat

from likeset.homes.mail import Invitation, SiteRun
from likeset.protocol.wire import Asked, Message, Summary
from likeset.transports.nvflare.job import write_settings
from likeset.transports.nvflare.run_report import News, RunReport
from likeset.transports.sites import SiteParties, SiteSettings

needs_nvflare = pytest.mark.skipif(importlib.util.find_spec("nvflare") is None, reason="needs likeset[nvflare]")


class Clock:
    """Stands still but for what takes time here; in place of the module ``time``."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Site:
    """A site as the curator's server reaches it; it writes down when it heard what. A summary takes 20 seconds."""

    def __init__(self, name: str, invited: Invitation, folder: Path, clock: Clock) -> None:
        self.name, self._clock, self._receipt = name, clock, folder / f"{invited.terms.run}.receipt"
        self._table = SiteParties(name, {invited.terms.digest: invited}, SiteSettings(self._seat, folder))
        self.heard: list[tuple[str, float]] = []

    def _seat(self, invited: Invitation, name: str, folder: Path) -> SiteRun | None:
        """What is said is seen behind the letters only."""
        run = seat(invited, name, folder)
        assert run is not None
        honest = run.resident.take

        def take(message: Message) -> tuple[Message, ...]:
            if isinstance(message.body, Asked):
                self.heard.append(("yes" if message.body.asked else "no", self._clock.now))
            if isinstance(message.body, Summary):
                self._clock.now += 20.0
            return honest(message)

        run.resident.take = take  # type: ignore[method-assign]
        return run

    def __call__(self, timeout: float) -> Any:
        del timeout
        return self

    def standing(self, digest: str) -> object:
        return self._table.standing(digest)

    def start(self, digest: str, acceptances: list[bytes]) -> object:
        return self._table.start(digest, acceptances)

    def hear(self, data: bytes) -> object:
        said = self._table.hear(data)
        if self._receipt.exists():
            self.heard.append(("receipt", self._clock.now))
            self._receipt.unlink()
        return said


def sites_of(invited: Invitation, folder: Path, clock: Clock) -> list[Site]:
    """Those of the owners and of the consumer."""
    terms = invited.terms
    return [Site(name, invited, folder / name, clock) for name in (*terms.owners, terms.consumer)]


def curated(
    invited: Invitation,
    folder: Path,
    sites: Sequence[Site],
    *,
    aborted: Callable[[], bool] = lambda: False,
    **limits: float,
) -> tuple[RunReport, Callable[[], None]]:
    """A run among sites in these folders: its report, and what then lets owners see that it has ended."""
    from likeset.transports.nvflare import parts

    write_settings(folder / "settings", factory="site_factory:seat", folder=folder / SERVER, **limits)
    context = SimpleNamespace(
        clients=sites,
        workspace=SimpleNamespace(get_site_config_dir=lambda: str(folder / "settings")),
        is_aborted=aborted,
    )
    return parts._curate_run(invited, context, News())
