"""One network in which a site and an administrator are dishonest; writes what they came to.

NVFlare runs as a user of its own, the home belongs to this process's user, which must be root.
"""

import json
import os
import shutil
import sys
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from loopback import LoopbackNetwork

import likeset
from likeset.transports.stores import open_store

SUPER = "super@likeset.local"
VICTIM, HOSTILE = "victim", "hostile"
UID = 4001
FOLDER, NAME, LETTER = "a" * 32, "0" * 64, b"a sealed letter"
_SECONDS = 100.0


def wait_for(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + _SECONDS
    while not happened() and time.monotonic() < end:
        time.sleep(0.3)


def submitted_by_super(net: LoopbackNetwork, folder: Path, home: Path) -> str:
    """How a job ends that brings code which copies the victim's home, submitted by an administrator of role super."""
    job = folder / "job"
    (job / "app" / "config").mkdir(parents=True)
    about = {"name": "x", "resource_spec": {}, "min_clients": 1, "deploy_map": {"app": ["server", VICTIM]}}
    (job / "meta.json").write_text(json.dumps(about))
    server = {"format_version": 2, "workflows": [{"id": "evil", "path": "evil.Evil", "args": {}}], "components": []}
    evil = {"tasks": ["*"], "executor": {"path": "evil.Evil", "args": {}}}
    client = {"format_version": 2, "executors": [evil], "components": []}
    for side, config in (("server", server), ("client", client)):
        (job / "app" / "config" / f"config_fed_{side}.json").write_text(json.dumps(config))
    (job / "app" / "custom").mkdir()
    loot = folder / "said" / "loot"
    code = f"""import sys
from nvflare.apis.executor import Executor

class Evil(Executor):
    def execute(self, *_):
        pass

if "/prod_00/{VICTIM}" in " ".join(sys.orig_argv):
    for path in ({str(home / "card.secret")!r}, {str(net.mailbox(VICTIM) / "out" / FOLDER / NAME)!r}):
        try:
            found = open(path, "rb").read().decode()
        except OSError as error:
            found = type(error).__name__
        with open({str(loot)!r}, "a") as file:
            file.write(found + "\\n")
"""
    (job / "app" / "custom" / "evil.py").write_text(code)
    with net.session(SUPER) as session:
        try:
            name = session.submit_job(str(job))
        except Exception as error:
            return type(error).__name__
        wait_for(lambda: str(session.get_job_meta(name).get("status")).startswith("FINISHED") or loot.exists())
        return str(session.get_job_meta(name).get("status"))


def main(folder: Path) -> dict[str, Any]:
    folder.chmod(0o711)
    home = folder / "home"
    home.mkdir(mode=0o700)
    (home / "card.secret").write_text("likeset card secret")
    (home / "card.secret").chmod(0o600)
    # NVFlare's user may find another interpreter than this one's.
    packages = [Path(__file__).parent, Path(likeset.__file__).parents[1], sysconfig.get_path("purelib")]
    paths = os.pathsep.join(map(str, packages))
    environment = {**os.environ, "PYTHONPATH": paths, "LIKESET_ATTACK": str(folder / "said" / "x")}
    net = LoopbackNetwork(folder / "network", (VICTIM, HOSTILE), environment, uid=UID, administrators={SUPER: "super"})
    net.provision()
    net.settle()
    (folder / "said").mkdir()
    shutil.chown(folder / "said", UID, UID)
    resources = net.kit(HOSTILE) / "local" / "resources.json"
    document = json.loads(resources.read_text())
    document["components"].append({"id": "hostile", "path": "hostile_site.Hostile", "args": {}})
    resources.write_text(json.dumps(document))
    store = open_store(f"courier://{net.mailbox(VICTIM)}")
    store.write(FOLDER, NAME, LETTER)
    commands = {
        "home": f"cat {home / 'card.secret'}",
        "letters": f"cat {net.mailbox(VICTIM) / 'out' / FOLDER / NAME}",
    }
    (folder / "said" / "orders.json").write_text(json.dumps({"victim": VICTIM, "commands": commands}))
    with net:
        net.start(net.server, VICTIM)
        time.sleep(8)
        net.start(HOSTILE)
        wait_for((folder / "said" / "x").exists)
        found: dict[str, Any] = {"site": json.loads((folder / "said" / "x").read_text())}
        found["super"] = submitted_by_super(net, folder, home)
        loot = folder / "said" / "loot"
        found["loot"] = loot.read_text().splitlines() if loot.exists() else []
    return found


if __name__ == "__main__":
    Path(sys.argv[1], "outcome.json").write_text(json.dumps(main(Path(sys.argv[1]))))
