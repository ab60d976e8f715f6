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
from likeset.protocol.party import CURATOR
from likeset.transports.home_socket.home_settings import SOCKET_NAME, HomeSettings
from likeset.transports.nvflare.engine import NvflareEngine
from likeset.transports.nvflare.job import settle

_HOST = "localhost"  # a server of this name listens on loopback only
_PROJECT = "likeset"
_PRIVATE = 0o077  # a umask
_SECONDS_TO_LISTEN = 60.0
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
        nvflare_uid: the user of NVFlare's processes, if this one is root and they are to be somebody else's; that user
            must be able to reach the folder.
        administrators: roles of further users of NVFlare, by name.
    """

    folder: Path
    clients: Sequence[str]
    environment: Mapping[str, str] | None = None
    nvflare_uid: int | None = None
    administrators: Mapping[str, str] = field(default_factory=dict)
    port: int = field(default=0, init=False)
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict, init=False)
    _homes: dict[str, HomeSettings] = field(default_factory=dict, init=False)
    _serving: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict, init=False)

    @property
    def server(self) -> str:
        return _HOST

    def provision(self) -> None:
        """Certificates and start-up kits, by NVFlare's own provisioning; the port is one that is free now."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = _free_port()
        server = {"name": _HOST, "type": "server", "org": "likeset", "fed_learn_port": self.port}
        roles = {_LEAD: "lead", **self.administrators}
        users = [{"name": name, "type": "admin", "org": "likeset", "role": role} for name, role in roles.items()]
        clients = [{"name": name, "type": "client", "org": "likeset"} for name in self.clients]
        project = {
            "api_version": 3,
            "name": _PROJECT,
            "description": "sites on one machine",
            "participants": [{**server, "admin_port": self.port}, *users, *clients],
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
        return self.folder / "kits" / _PROJECT / "prod_00" / site

    def settle(self, site: str, *, factory: str, folder: Path | str, **limits: float) -> None:
        """Make a site one that runs likeset and nothing else; what the server stores is stored in its kit."""
        uid = os.getuid() if self.nvflare_uid is None else self.nvflare_uid
        place = Path(folder) if self.nvflare_uid is None else self.folder / "sockets" / site
        socket_path = place.resolve() / SOCKET_NAME
        most_bytes = int(limits.get("most_bytes", HomeSettings.most_bytes))
        party = CURATOR if site == _HOST else site
        home = HomeSettings(Path(folder), factory, party, socket_path, uid, most_bytes)
        home.write()
        self._homes[site] = home
        settle(self.kit(site), socket=socket_path, home_user=os.getuid(), **limits)
        if site == _HOST:
            path = self.kit(site) / "local" / "resources.json"
            storage = str(self.kit(site) / "storage")
            text = path.read_text(encoding="utf-8").replace("/tmp/nvflare", storage)  # noqa: S108 (NVFlare's default)
            path.write_text(text, encoding="utf-8")
        if self.nvflare_uid is not None:
            for path in (self.kit(site), *self.kit(site).rglob("*")):
                os.chown(path, uid, uid)

    def start(self, *sites: str) -> None:
        """Start sites and the processes of their homes; those that run already are left alone."""
        for site in sites:
            self.start_home(site)
        for site in sites:
            if site in self._running and self._running[site].poll() is None:
                continue
            script = self.kit(site) / "startup" / "sub_start.sh"
            self._running[site] = self._started(site, ["/bin/bash", str(script), "--once"], uid=self.nvflare_uid)

    def start_home(self, site: str) -> None:
        """Start the process of a site's home, and wait until it listens."""
        if site in self._serving and self._serving[site].poll() is None:
            return
        home = self._homes[site]
        home.socket.unlink(missing_ok=True)
        program = "import sys; from likeset.app.cli import main; main()"
        command = [sys.executable, "-c", program, "site", "serve", str(home.folder)]
        self._serving[site] = self._started(f"{site}-home", command)
        end = time.monotonic() + _SECONDS_TO_LISTEN
        while not home.socket.exists():
            if time.monotonic() > end or self._serving[site].poll() is not None:
                raise LikesetError(f"the home of {site} does not listen; see {self.folder / f'{site}-home.txt'}")
            time.sleep(0.05)

    def _started(self, name: str, command: list[str], uid: int | None = None) -> subprocess.Popen[bytes]:
        as_somebody: dict[str, Any] = {} if uid is None else {"user": uid, "group": uid, "extra_groups": []}
        with (self.folder / f"{name}.txt").open("ab") as console:
            return subprocess.Popen(  # noqa: S603 (the kit's own script, or our own program)
                command,
                stdout=console,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=self._environment(),
                start_new_session=True,
                **as_somebody,
            )

    def pid(self, site: str) -> int:
        """The process of a running site; its jobs are children of it."""
        return self._running[site].pid

    def kill(self, site: str) -> None:
        """End a site and its home at once; its jobs are process groups of their own, and may work on for a while."""
        _kill(self._running.pop(site, None))
        self.kill_home(site)

    def kill_home(self, site: str) -> None:
        """End the process of a site's home, and those in which it answers, at once."""
        _kill(self._serving.pop(site, None))

    def engine(self) -> NvflareEngine:
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
        for site in {*self._running, *self._serving}:
            self.kill(site)

    def _environment(self) -> dict[str, str]:
        environment = dict(self.environment if self.environment is not None else os.environ)
        environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment.get("PATH", "")])
        # A site that was killed never says how its part of the job ended; NVFlare would wait a quarter of an hour.
        return {"NVFLARE_CLIENT_OUTCOME_WAIT_TIMEOUT": "5", **environment}


def _kill(process: subprocess.Popen[bytes] | None) -> None:
    if process is not None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
