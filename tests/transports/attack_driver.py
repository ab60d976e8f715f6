"""Runs one network in which a site, an administrator and the server are dishonest, and writes what they came to.

Two owners take no part and approved nothing: ``guarded``, as ``likeset site`` settles it, and ``bare``, the same
without the guards: what is done to it shows that the attack is one.
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from node_world import make_node

from likeset.homes.curator_home import make_curator_home
from likeset.homes.owner_node import OwnerNode
from likeset.transports.nvflare.engine import NvflareEngine
from likeset.transports.nvflare.job import CLIENT_CONFIG, SERVER_CONFIG
from likeset.transports.nvflare.loopback import LoopbackNetwork

SUPER = "super@likeset.local"
VICTIMS = ("guarded", "bare")
HOSTILE = "hostile"
JOB = "00000000-0000-4000-8000-000000000000"  # a folder of an old job at each victim
_SECONDS = 600.0  # until something must have happened, however busy the machine is


def network(folder: Path) -> LoopbackNetwork:
    """Settled; then the hostile site and the server, and the owner called bare, are put back to what NVFlare has."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parent),
        "OPENBLAS_NUM_THREADS": "1",
        "LIKESET_ATTACK": str(folder / "said.json"),
    }
    net = LoopbackNetwork(folder / "network", (*VICTIMS, HOSTILE), environment, administrators={SUPER: "super"})
    net.provision()
    for seed, name in enumerate(VICTIMS):
        node = make_node(folder, name, seed=seed, consumers=[], purposes=[], columns=[])
        net.settle(name, factory="likeset.homes.owner.site:owner", folder=node)
    make_curator_home(folder / "curator")
    settle_server(net, folder)
    idle = make_node(folder, HOSTILE, seed=len(VICTIMS), consumers=[], purposes=[], columns=[])
    net.settle(HOSTILE, factory="likeset.homes.owner.site:owner", folder=idle)
    for site in ("bare", HOSTILE, net.server):
        take_guards_off(net, site)
    resources = net.kit(HOSTILE) / "local" / "resources.json"
    document = json.loads(resources.read_text())
    document["components"].append({"id": "hostile", "path": "hostile_site.Hostile", "args": {}})
    resources.write_text(json.dumps(document))
    return net


def settle_server(net: LoopbackNetwork, folder: Path) -> None:
    """As ``likeset site curator`` does."""
    net.settle(net.server, factory="likeset.homes.curator_home:curator", folder=folder / "curator")


def take_guards_off(net: LoopbackNetwork, site: str) -> None:
    """What a site had before there were any."""
    path = net.kit(site) / "local" / "resources.json"
    document = json.loads(path.read_text())
    del document["app_validator"]
    document["components"] = [one for one in document["components"] if one["id"] != "likeset_guard"]
    path.write_text(json.dumps(document))


def secrets_of(folder: Path, name: str) -> list[Path]:
    """An owner's rows, and its keys."""
    return [folder / f"{name}.csv", folder / f"node-{name}" / "key", folder / f"node-{name}" / "card.secret"]


def attacked(net: LoopbackNetwork, folder: Path, *, obeying: Sequence[str] = ()) -> dict[str, Any]:
    """What the hostile site was answered, and whose folder is gone; whoever obeys is waited for, however busy it is."""
    said = folder / "said.json"
    said.unlink(missing_ok=True)
    victims = {name: [str(path) for path in secrets_of(folder, name)] for name in VICTIMS}
    orders = {"victims": victims, "job": JOB, "obeying": obeying}
    (folder / "orders.json").write_text(json.dumps(orders))
    for name in VICTIMS:
        (net.kit(name) / JOB).mkdir(exist_ok=True)
    net.start(HOSTILE)
    _wait_for(said.exists)
    answers = json.loads(said.read_text())
    _wait_for(lambda: not any((net.kit(name) / JOB).exists() for name in obeying))
    net.kill(HOSTILE)
    return {"answers": answers, "deleted": [name for name in VICTIMS if not (net.kit(name) / JOB).exists()]}


def submitted_by_super(net: LoopbackNetwork, folder: Path) -> str:
    """How a job ends that brings code, submitted by an administrator to whom NVFlare refuses nothing."""
    job = folder / "job"
    shutil.rmtree(job, ignore_errors=True)
    (job / "app" / "config").mkdir(parents=True)
    about = {"name": "x", "resource_spec": {}, "min_clients": 1, "deploy_map": {"app": ["server", *VICTIMS]}}
    (job / "meta.json").write_text(json.dumps(about))
    (job / "app" / "config" / "config_fed_server.json").write_text(json.dumps(SERVER_CONFIG))
    (job / "app" / "config" / "config_fed_client.json").write_text(json.dumps(CLIENT_CONFIG))
    (job / "app" / "custom").mkdir()
    code = f"import sys\nfor name in {VICTIMS!r}:\n    if '/prod_00/' + name in ' '.join(sys.orig_argv):\n"
    code += f"        open({str(folder)!r} + '/super-at-' + name, 'w').close()\n"
    (job / "app" / "custom" / "sitecustomize.py").write_text(code)
    with NvflareEngine(net.kit(SUPER), SUPER)._session() as session:
        try:
            name = session.submit_job(str(job))
        except Exception as error:
            return type(error).__name__
        _wait_for(lambda: (folder / "super-at-bare").exists() or _ended(session, name))
        state = str(session.get_job_meta(name).get("status"))
        if not state.startswith("FINISHED"):
            session.abort_job(name)
        return state


def _ended(session: Any, name: str) -> bool:
    return str(session.get_job_meta(name).get("status")).startswith("FINISHED")


def _wait_for(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + _SECONDS
    while not happened() and time.monotonic() < end:
        time.sleep(0.3)


def at_home(folder: Path, name: str) -> dict[str, Any]:
    """What an owner's own home has of it all."""
    with OwnerNode(folder / f"node-{name}") as node:
        entries = node.ledger.entries()
        return {
            "refused": sorted({entry.document()["reason"] for entry in entries if entry.kind == "refused"}),
            "other": sorted({entry.kind for entry in entries} - {"refused"}),
            "runs": sorted(node.runs.by_name),
            "rows": sum(account.rows or 0 for account in node.ledger.accounts()),
        }


def main(folder: Path) -> dict[str, Any]:
    """First with a server that lets everything pass, then with one that is settled."""
    net = network(folder)
    before = at_home(folder, "guarded")
    with net:
        net.start(net.server, *VICTIMS)
        net.wait_until_connected(*VICTIMS)
        found: dict[str, Any] = {"before": before, "open": attacked(net, folder, obeying=["bare"])}
        found["super"] = submitted_by_super(net, folder)
        found["super_traces"] = sorted(path.name for path in folder.glob("super-at-*"))
        found["home"] = at_home(folder, "guarded")
        for site in (net.server, "bare", HOSTILE):
            net.kill(site)
        settle_server(net, folder)
        net.start(net.server, "bare")
        net.wait_until_connected(*VICTIMS)
        for trace in folder.glob("super-at-*"):
            trace.unlink()
        found["walled"] = attacked(net, folder)
        found["walled_super"] = submitted_by_super(net, folder)
        found["walled_super_traces"] = sorted(path.name for path in folder.glob("super-at-*"))
    return found


if __name__ == "__main__":
    Path(sys.argv[1], "outcome.json").write_text(json.dumps(main(Path(sys.argv[1]))))
