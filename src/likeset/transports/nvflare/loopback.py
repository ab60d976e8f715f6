"""A network of NVFlare on this machine alone: every site a process of its own, on loopback, with certificates.

For tests and demonstrations. Between organisations each site gets its start-up kit from whoever runs the server, calls
``settle`` on it, and starts it with the script that is in it.
"""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from likeset.errors import LikesetError
from likeset.transports.nvflare.engine import NvflareEngine
from likeset.transports.nvflare.job import settle

__all__ = ["LoopbackNetwork"]

_HOST = "localhost"  # a server of this name listens on loopback only
_PROJECT = "likeset"
_PRIVATE = 0o077  # a umask
_LEAD = "lead@likeset.local"
_BUILDERS: list[dict[str, Any]] = [
    {"path": "nvflare.lighter.impl.workspace.WorkspaceBuilder"},
    {"path": "nvflare.lighter.impl.static_file.StaticFileBuilder", "args": {"config_folder": "config"}},
    {"path": "nvflare.lighter.impl.cert.CertBuilder"},
    {"path": "nvflare.lighter.impl.signature.SignatureBuilder"},
]


@dataclass
class LoopbackNetwork:
    """Sites on this machine.

    Args:
        folder: for kits, storage and logs of NVFlare.
        clients: names of owners and consumers.
        environment: of the processes, in place of this one's.
    """

    folder: Path
    clients: Sequence[str]
    environment: Mapping[str, str] | None = None
    port: int = field(default=0, init=False)
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict, init=False)

    @property
    def server(self) -> str:
        """The name of the curator's site."""
        return _HOST

    def provision(self) -> None:
        """Certificates and start-up kits, by NVFlare's own provisioning; the port is one that is free now."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = _free_port()
        server = {"name": _HOST, "type": "server", "org": "likeset", "fed_learn_port": self.port}
        lead = {"name": _LEAD, "type": "admin", "org": "likeset", "role": "lead"}
        clients = [{"name": name, "type": "client", "org": "likeset"} for name in self.clients]
        project = {
            "api_version": 3,
            "name": _PROJECT,
            "description": "sites on one machine",
            "participants": [{**server, "admin_port": self.port}, lead, *clients],
            "builders": _BUILDERS,
        }
        path = self.folder / "project.yml"
        path.write_text(yaml.safe_dump(project), encoding="utf-8")
        command = [sys.executable, "-m", "nvflare.cli", "provision", "-p", str(path), "-w", str(self.folder / "kits")]
        # NVFlare leaves all keys, the authority's among them, readable to whom the umask lets.
        done = subprocess.run(  # noqa: S603
            command, capture_output=True, env=self._environment(), check=False, umask=_PRIVATE
        )
        if done.returncode or not self.kit(_HOST).exists():
            raise LikesetError(f"nvflare provision ended with {done.returncode}; see {path}")

    def kit(self, site: str) -> Path:
        """A site's start-up kit."""
        return self.folder / "kits" / _PROJECT / "prod_00" / site

    def settle(self, site: str, *, factory: str, folder: Path | str, **limits: float) -> None:
        """Make a site one that runs likeset and nothing else; what the server stores is stored in its kit."""
        settle(self.kit(site), factory=factory, folder=folder, **limits)
        if site == _HOST:
            path = self.kit(site) / "local" / "resources.json"
            storage = str(self.kit(site) / "storage")
            text = path.read_text(encoding="utf-8").replace("/tmp/nvflare", storage)  # noqa: S108 (NVFlare's default)
            path.write_text(text, encoding="utf-8")

    def start(self, *sites: str) -> None:
        """Start sites; those that run already are left alone."""
        for site in sites:
            if site in self._running and self._running[site].poll() is None:
                continue
            script = self.kit(site) / "startup" / "sub_start.sh"
            with (self.folder / f"{site}.txt").open("ab") as console:
                self._running[site] = subprocess.Popen(  # noqa: S603 (the kit's own script)
                    ["/bin/bash", str(script), "--once"],
                    stdout=console,
                    stderr=subprocess.STDOUT,
                    stdin=subprocess.DEVNULL,
                    env=self._environment(),
                    start_new_session=True,
                )

    def pid(self, site: str) -> int:
        """The process of a running site; its jobs are children of it."""
        return self._running[site].pid

    def kill(self, site: str) -> None:
        """End a site at once; its jobs are process groups of their own, and may work on for a while."""
        process = self._running.pop(site, None)
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        process.wait()

    def engine(self) -> NvflareEngine:
        """For somebody who may submit jobs here."""
        return NvflareEngine(self.kit(_LEAD), _LEAD)

    def wait_until_connected(self, *sites: str, seconds: float = 60.0) -> None:
        """Until the server answers and knows these sites."""
        end = time.monotonic() + seconds
        missing = set(sites)
        while missing and time.monotonic() < end:
            try:
                missing = set(sites) - set(self.engine().connected_sites())
            except LikesetError:
                time.sleep(0.5)
            else:
                time.sleep(0.2 if missing else 0.0)
        if missing:
            raise LikesetError(f"no connection of {', '.join(sorted(missing))} within {seconds:.0f} s")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for site in list(self._running):
            self.kill(site)

    def _environment(self) -> dict[str, str]:
        environment = dict(self.environment if self.environment is not None else os.environ)
        environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment.get("PATH", "")])
        # A site that was killed never says how its part of the job ended; NVFlare would wait a quarter of an hour.
        return {"NVFLARE_CLIENT_OUTCOME_WAIT_TIMEOUT": "5", **environment}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
