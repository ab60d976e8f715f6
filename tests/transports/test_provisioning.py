"""Certificates for a network on this machine: keys are for its user alone."""

import importlib.util
import os
import stat
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("nvflare") is None, reason="needs likeset[nvflare]")


@pytest.mark.skipif(os.name != "posix", reason="modes are of POSIX")
def test_nobody_else_can_read_a_key_that_was_provisioned(tmp_path: Path) -> None:
    from likeset.transports.nvflare.loopback import LoopbackNetwork

    before = os.umask(0o022)
    try:
        LoopbackNetwork(tmp_path / "network", ["a"]).provision()
    finally:
        os.umask(before)
    made = [path for path in (tmp_path / "network" / "kits").rglob("*") if path.is_file()]
    assert any(path.name == "cert.json" for path in made), "with the authority's key"
    assert any(path.suffix == ".key" for path in made)
    secret = [path for path in made if path.suffix == ".key" or b"PRIVATE KEY" in path.read_bytes()]
    assert len(secret) >= 3
    assert [path for path in secret if stat.S_IMODE(path.stat().st_mode) & 0o077] == []
