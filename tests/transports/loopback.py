"""A network of NVFlare on this machine alone: every site a process of its own, on loopback, with certificates."""

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import yaml

from likeset.errors import LikesetError
from likeset.transports.nvflare import make_folder, settle

_HOST = "localhost"  # a server of this name listens on loopback only
_PROJECT = "likeset"
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
        uid: the user of NVFlare's processes, if this one is root; that user must be able to reach the folder.
        administrators: roles of users of NVFlare, by name.
    """

    folder: Path
    clients: Sequence[str]
    environment: Mapping[str, str]
    uid: int | None = None
    administrators: Mapping[str, str] = field(default_factory=dict)
    port: int = field(default=0, init=False)
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict, init=False)

    @property
    def server(self) -> str:
        return _HOST

    def provision(self) -> None:
        """Certificates and start-up kits, by NVFlare's own provisioning; the port is one that is free now."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = _free_port()
        server = {"name": _HOST, "type": "server", "org": "likeset", "fed_learn_port": self.port}
        roles = self.administrators.items()
        users = [{"name": name, "type": "admin", "org": "likeset", "role": role} for name, role in roles]
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
        done = subprocess.run(  # noqa: S603
            command, capture_output=True, env=self._environment(), check=False, umask=0o077
        )
        if done.returncode or not self.kit(_HOST).exists():
            raise LikesetError(f"nvflare provision ended with {done.returncode}; see {path}")

    def kit(self, site: str) -> Path:
        return self.folder / "kits" / _PROJECT / "prod_00" / site

    def mailbox(self, site: str) -> Path:
        return self.folder / "couriers" / site

    def settle(self) -> None:
        """The server and all sites, as ``likeset courier settle`` does."""
        settle(self.kit(_HOST))
        uid = os.getuid()
        for site in self.clients:
            make_folder(self.mailbox(site), home_uid=uid, nvflare_uid=uid if self.uid is None else self.uid)
            settle(self.kit(site), self.mailbox(site))
        if self.uid is not None:
            for site in (_HOST, *self.clients):
                for path in (self.kit(site), *self.kit(site).rglob("*")):
                    os.chown(path, self.uid, self.uid)
            for path in self.kit(_HOST).parents:
                if path.is_relative_to(self.folder):
                    path.chmod(0o711)

    def start(self, *sites: str) -> None:
        for site in sites:
            script = self.kit(site) / "startup" / "sub_start.sh"
            user: dict[str, Any] = {} if self.uid is None else {"user": self.uid, "group": self.uid, "extra_groups": []}
            with (self.folder / f"{site}.txt").open("ab") as console:
                self._running[site] = subprocess.Popen(  # noqa: S603 (the kit's own script)
                    ["/bin/bash", str(script), "--once"],
                    stdout=console,
                    stderr=subprocess.STDOUT,
                    stdin=subprocess.DEVNULL,
                    env=self._environment(),
                    start_new_session=True,
                    **user,
                )

    @contextmanager
    def session(self, user: str) -> Iterator[Any]:
        from nvflare.fuel.flare_api.flare_api import new_secure_session

        session = new_secure_session(user, str(self.kit(user)))
        try:
            yield session
        finally:
            session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            process.wait()

    def _environment(self) -> dict[str, str]:
        path = os.pathsep.join([str(Path(sys.executable).parent), self.environment.get("PATH", "")])
        return {**self.environment, "PATH": path}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
