"""Real servers on loopback for mailboxes: OpenSSH with a configuration of its own, and moto's S3.

``with ssh_server(folder) as server:`` and ``with s3_server() as server:`` give an address and the environment that a
client, in this process or another, needs to use it. A test that cannot have OpenSSH skips, and says why.
"""

import contextlib
import getpass
import hashlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import pytest

PAIR, OTHER_PAIR = "a" * 32, "b2" * 16
DATA = b"a letter"
NAME = hashlib.sha256(DATA).hexdigest()
_SSHD = "/usr/sbin/sshd"
_KEYGEN = "ssh-keygen"
_TRIES = 5


@dataclass(frozen=True)
class MailServer:
    """A server that runs, with the address of a mailbox on it and what a client needs in its environment."""

    address: str
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True)
class SshServer(MailServer):
    """OpenSSH: its folder, the file with its key, and the daemon, which goes on when connections are cut."""

    mailbox: Path = Path()
    port: int = 0
    known_hosts: Path = Path()
    process: "subprocess.Popen[bytes] | None" = None

    def cut_connections(self) -> None:
        """End every session, as a firewall or a restart would; the daemon takes new ones."""
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        for child in children.read_text(encoding="ascii").split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(child), 9)


@contextlib.contextmanager
def mail_environment(server: MailServer) -> Iterator[None]:
    """This process's environment with what a client of the server needs."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        yield


@contextlib.contextmanager
def ssh_server(folder: Path) -> Iterator[SshServer]:
    """OpenSSH for the current user's key, SFTP only; everything that it keeps is in the folder."""
    if not Path(_SSHD).exists() or shutil.which(_KEYGEN) is None:
        pytest.skip(f"{_SSHD} is missing: apt-get install openssh-server")
    mailbox = folder / "mailbox"
    mailbox.mkdir(mode=0o700)
    for key in ("host_key", "user_key"):
        command = [_KEYGEN, "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)]
        subprocess.run(command, check=True, timeout=600)  # noqa: S603 - arguments that stand here
    shutil.copy(folder / "user_key.pub", folder / "authorized_keys")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # the daemon's own, which its package makes at boot
    process, port = _started(folder)
    try:
        known_hosts = folder / "known_hosts"
        public = (folder / "host_key.pub").read_text(encoding="ascii").split()[:2]
        known_hosts.write_text(f"[127.0.0.1]:{port} {' '.join(public)}\n", encoding="ascii")
        yield SshServer(
            address=f"sftp://{getpass.getuser()}@127.0.0.1:{port}{mailbox}",
            environment=MappingProxyType(
                {"LIKESET_KNOWN_HOSTS": str(known_hosts), "LIKESET_SFTP_KEY": str(folder / "user_key")}
            ),
            mailbox=mailbox,
            port=port,
            known_hosts=known_hosts,
            process=process,
        )
    finally:
        process.terminate()
        process.wait(timeout=600)


def _started(folder: Path) -> "tuple[subprocess.Popen[bytes], int]":
    """The daemon on a port that was free a moment ago; another one if somebody was quicker."""
    for _ in range(_TRIES):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        (folder / "sshd_config").write_text(_configuration(folder, port), encoding="utf-8")
        process = _daemon(folder)
        if _listens(process, port):
            return process, port
        process.kill()
        process.wait(timeout=600)
    raise AssertionError((folder / "sshd.log").read_text(encoding="utf-8"))


def _daemon(folder: Path) -> "subprocess.Popen[bytes]":
    command = [_SSHD, "-D", "-f", str(folder / "sshd_config"), "-E", str(folder / "sshd.log")]
    return subprocess.Popen(command)  # noqa: S603 - arguments that stand here


def _listens(process: "subprocess.Popen[bytes]", port: int) -> bool:
    for _ in range(600):
        if process.poll() is not None:
            return False
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
        time.sleep(0.05)
    return False


def _configuration(folder: Path, port: int) -> str:
    return "\n".join(
        (
            "ListenAddress 127.0.0.1",
            f"Port {port}",
            f"HostKey {folder / 'host_key'}",
            f"AuthorizedKeysFile {folder / 'authorized_keys'}",
            f"PidFile {folder / 'sshd.pid'}",
            "StrictModes no",  # the folders of tests belong to whom they belong
            "UsePAM no",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "PermitRootLogin prohibit-password",
            "MaxStartups 200",
            "Subsystem sftp internal-sftp",
            "ForceCommand internal-sftp",
            "",
        )
    )


@contextlib.contextmanager
def s3_server(bucket: str = "mailbox") -> Iterator[MailServer]:
    """Moto's server, which speaks S3, with one bucket."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        environment = {
            "AWS_ACCESS_KEY_ID": "tests",
            "AWS_SECRET_ACCESS_KEY": "tests",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        }
        running = MailServer(f"s3://{bucket}/letters", MappingProxyType(environment))
        with mail_environment(running):
            import boto3

            boto3.session.Session().client("s3").create_bucket(Bucket=bucket)
        yield running
    finally:
        server.stop()
