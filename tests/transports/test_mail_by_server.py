"""Runs through real servers: OpenSSH, and moto's S3. They leave behind what letters in one process leave."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine_scenarios import SCENARIOS, check_traces, run_locally, settle_sites
from mail_servers import MailServer, mail_environment, s3_server, ssh_server
from mail_wire import MailWire

from likeset.transports.stores import open_store

pytestmark = pytest.mark.slow


@pytest.fixture(params=["sftp", "s3"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MailServer]:
    made = s3_server() if request.param == "s3" else ssh_server(tmp_path_factory.mktemp("ssh"))
    with made as running, mail_environment(running):
        yield running


def test_runs_through_a_server_come_to_what_letters_in_one_process_come_to(tmp_path: Path, server: MailServer) -> None:
    """All scenarios through one mailbox, each party with one connection of its own run."""
    local, mailed = tmp_path / "local", tmp_path / "mailed"
    invited = settle_sites(local, SCENARIOS.values())
    shutil.copytree(local, mailed)
    outcomes = {}
    for name in SCENARIOS:
        store = open_store(server.address)
        wire = MailWire(mailed, invited[name], store)
        outcomes[name] = wire.run()
        wire.close()
        store.close()
    ends = {"done": "done", "QuorumMissed": "quorum missed"}
    assert outcomes == {name: ends[run_locally(invited[name], local)] for name in SCENARIOS}
    check_traces(mailed, local)
