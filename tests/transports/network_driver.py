"""Runs one network of NVFlare and says on standard output, as JSON, what came of it.

A process of its own: NVFlare's client library changes logging and starts threads, and warns about things that are not
ours; the tests look at the result only.
"""

import contextlib
import json
import os
import socket
import ssl
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
from engine_scenarios import PYTHONPATH, SCENARIOS, invitation_to
from protocol_world import CONSUMER, terms

from likeset.errors import LikesetError
from likeset.transports.nvflare.job import write_job
from likeset.transports.nvflare.loopback import LoopbackNetwork

CLIENTS = ("a", "b", "c", CONSUMER)
DYING = terms(run="dying", protocol="interactive", size=6)
GATED = terms(run="gated")
OVERSIZED = terms(run="oversized")
HOMELESS = terms(run="homeless", protocol="interactive", size=6)
VANISHING = terms(run="vanishing", protocol="interactive", size=6)


def network(folder: Path) -> LoopbackNetwork:
    """Provisioned and settled, not started; sites have their folders in ``network-sites``."""
    made = LoopbackNetwork(
        folder / "network", CLIENTS, {**os.environ, "PYTHONPATH": PYTHONPATH, "OPENBLAS_NUM_THREADS": "1"}
    )
    made.provision()
    for site in CLIENTS:
        made.settle(site, factory="site_factory:seat", folder=folder / "sites" / site)
    made.settle(
        made.server,
        factory="site_factory:seat",
        folder=folder / "sites" / "server",
        seconds_per_call=10.0,
        seconds_for_decisions=60.0,
        seconds_after_auction=0.0,
        most_bytes=1 << 23,
    )
    return made


def conformance(folder: Path) -> dict[str, Any]:
    """All scenarios; a job with code in it; an owner that is killed; and some again after the server was killed."""
    with network(folder) as net:
        net.start(net.server, *CLIENTS)
        net.wait_until_connected(*CLIENTS)
        sites = folder / "sites"
        found: dict[str, Any] = {"first": _run(net, sites, *SCENARIOS)}
        found["listening"] = _listening(net.port)
        found["foreign"] = _foreign(net, folder)
        found["gated"] = _gated(net, sites)
        found["certificates"] = _certificates(net, folder)
        orders = {"die": [DYING.run], "vanish": [VANISHING.run], "lose-home": [HOMELESS.run], "swell": [OVERSIZED.run]}
        (sites / "c" / "site.json").write_text(json.dumps(orders))
        found["oversized"] = _run(net, sites, OVERSIZED.run)
        found["dying"] = _run_and_kill(net, sites, DYING.run, "die")
        found["home-killed"] = _run_and_kill(net, sites, HOMELESS.run, "lose-home")
        found["vanishing"] = _run_and_kill(net, sites, VANISHING.run, "vanish")
        net.kill(net.server)
        net.kill("c")
        net.start(net.server, "c")
        net.wait_until_connected(*CLIENTS)
        found["again"] = _run(net, sites, VANISHING.run, "sealed", "interactive")
        return found


def _run(net: LoopbackNetwork, sites: Path, *runs: str) -> dict[str, Any]:
    invited = [invitation_to(sites, run) for run in runs]
    return {report.run: asdict(report) for report in net.engine().run(*invited, seconds=600.0)}


def _run_and_kill(net: LoopbackNetwork, sites: Path, run: str, how: str) -> dict[str, Any]:
    """A run in the midst of which something of c is killed, when c says that it is time."""
    mark = sites / "c" / how

    def kill() -> None:
        end = time.monotonic() + 600.0
        while not mark.exists() and time.monotonic() < end:
            time.sleep(0.02)
        jobs = psutil.Process(net.pid("c")).children(recursive=True)
        if how == "lose-home":
            net.kill_home(net.server)  # and the run has to be resumed
            net.start_home(net.server)
            return
        if how == "vanish":
            net.kill("c")
        for job in jobs:
            with contextlib.suppress(psutil.NoSuchProcess):
                if how == "vanish" or "worker_process" in " ".join(job.cmdline()):
                    job.kill()

    killing = threading.Thread(target=kill)
    killing.start()
    found = _run(net, sites, run)
    killing.join()
    return found


def _gated(net: LoopbackNetwork, sites: Path) -> list[Any]:
    """What is heard of an owner while somebody there has to decide, and how the run ends after the decision."""
    orders = sites / "c" / "site.json"
    orders.write_text(json.dumps({"undecided": [GATED.run]}))
    engine = net.engine()
    job = engine.submit(invitation_to(sites, GATED.run))
    heard, end = None, time.monotonic() + 300.0
    while (heard is None or "c" not in heard.sites) and time.monotonic() < end:
        time.sleep(0.5)
        heard = engine.news(job)
    orders.write_text("{}")
    end = time.monotonic() + 300.0
    while not engine.state(job).startswith("FINISHED") and time.monotonic() < end:
        time.sleep(0.5)
    return [heard and heard.sites, *(asdict(report) for report in engine.report(job))]


def _listening(port: int) -> list[str]:
    """Addresses on which somebody on this machine listens at the network's port."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    places = [line.split()[1].split(":") for line in lines if line.split()[3] == "0A"]
    return [address for address, one in places if int(one, 16) == port]


def _foreign(net: LoopbackNetwork, folder: Path) -> str:
    """How a job ends that brings code of its own."""
    job = write_job(folder / "foreign", invitation_to(folder / "sites", "sealed"))
    (job / "app" / "custom").mkdir()
    (job / "app" / "custom" / "evil.py").write_text(f"open({str(folder / 'evil')!r}, 'w')")
    engine = net.engine()
    with engine._session() as session:
        try:
            name = session.submit_job(str(job))
        except Exception as error:
            return type(error).__name__
        try:
            engine._wait(session, name, time.monotonic() + 300.0)
        except LikesetError as error:
            return type(error).__name__
        return str(session.get_job_status(name))


def _certificates(net: LoopbackNetwork, folder: Path) -> dict[str, bool]:
    """Whether the server lets somebody in: with a kit of this network, of another one, and without a certificate."""
    other = LoopbackNetwork(folder / "other", ("a",))
    other.provision()
    kits = {"own": net.kit("a"), "foreign": other.kit("a"), "none": None}
    return {name: _lets_in(net.port, kit and kit / "startup") for name, kit in kits.items()}


def _lets_in(port: int, startup: Path | None) -> bool:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if startup is not None:
        context.load_cert_chain(startup / "client.crt", startup / "client.key")
    try:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=5.0) as plain,
            context.wrap_socket(plain) as secured,
        ):
            secured.settimeout(3.0)
            return bool(secured.recv(1))  # nothing means that the server hung up
    except TimeoutError:
        return True  # it waits for us to speak
    except OSError:
        return False


if __name__ == "__main__":
    Path(sys.argv[1], "outcome.json").write_text(json.dumps(conformance(Path(sys.argv[1]))))
