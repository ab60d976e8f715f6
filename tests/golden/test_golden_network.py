"""Runs between organisations, held against ``network.json``.

Between organisations noise is secret, and which rows are offered hangs on it. So every owner offers all of its rows:
then the selection, which sees the target itself, has one outcome. Where rows are chosen by bids, picks are not kept.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from between_world import JOB
from golden_command import result_in, said_json, say
from golden_records import hold, names_in
from home_world import POLICY
from network_now import carry, introduce

OWNERS = {"a": 18, "b": 20}
_HANGS_ON_NOISE = ("picks", "squared_mmd", "shapley", "weights")
LIMITS = {"epsilon": 0.0, "delta": 1e-5, "rows": 40}
RULES = {"likeset": "owner", "version": 1, **POLICY, "columns": ["age", "dose", "ill"], "manual_approval": False}
RULES |= {"per_run": LIMITS, "total": dict(LIMITS)}
SCHEMA = """\
likeset: schema
version: 1
columns:
  age: {kind: numeric, bounds: [0, 100]}
  dose: {kind: numeric, bounds: [0, 1000]}
label: {column: ill, values: ["no", "yes"]}
"""


def rows(seed: int, count: int, *, age: float) -> str:
    """A text file whose doses are all different."""
    coins = np.random.default_rng(seed)  # pinned: what comes of it is kept in a file
    ages = np.round(np.clip(coins.normal(age, 15.0, count), 0, 100), 2)
    doses = np.round(coins.uniform(0, 990, count)) + np.arange(count) / 1000
    ill = coins.choice(["no", "yes"], count)
    lines = [f"{age},{dose:.3f},{label}" for age, dose, label in zip(ages, doses, ill, strict=True)]
    return "\n".join(["age,dose,ill", *lines]) + "\n"


@dataclass(frozen=True)
class Network:
    folder: Path

    @classmethod
    def make(cls, folder: Path) -> "Network":
        (folder / "schema.yaml").write_text(SCHEMA, encoding="utf-8")
        (folder / "target.csv").write_text(rows(50, 30, age=55.0), encoding="utf-8")
        for place, (name, count) in enumerate(OWNERS.items()):
            (folder / f"{name}.csv").write_text(rows(60 + place, count, age=40.0 + 15 * place), encoding="utf-8")
            node = folder / f"node-{name}"
            said_json("init", node, f"--name={name}", "--role=owner")
            (node / "owner.yaml").write_text(yaml.safe_dump(RULES), encoding="utf-8")
            said_json(
                "owner", "data", "add", "patients", folder / f"{name}.csv",
                f"--schema={folder / 'schema.yaml'}", f"--home={node}",
            )  # fmt: skip
        curator = f"--schema={folder / 'schema.yaml'}"
        said_json("init", folder / "curator", "--name=curator", "--role=curator", curator)
        said_json("init", folder / "home", "--name=new-clinic", "--role=consumer")
        introduce(folder)
        return cls(folder)

    def job(self, **changes: Any) -> Path:
        document = JOB | {"offer_factor": 10.0, "release_gamma": 0.5, "price_per_row": 2.0, "run": "golden"}
        (self.folder / "job.yaml").write_text(yaml.safe_dump(document | changes), encoding="utf-8")
        return self.folder / "job.yaml"

    def number_of(self, owner: str, row: Mapping[str, Any]) -> int:
        lines = (self.folder / f"{owner}.csv").read_text(encoding="utf-8").splitlines()[1:]
        doses = np.array([float(line.split(",")[1]) for line in lines])
        (place,) = np.flatnonzero(np.isclose(doses, row["dose"], rtol=1e-6, atol=1e-6))
        return int(place)

    def outcome(self) -> dict[str, Any]:
        home = self.folder / "home"
        said_json("run", "report", "golden", f"--home={home}")
        result = result_in(home / "runs" / "golden" / "result", home / "home.sqlite", self.number_of)
        return {**result, "books of owners": {name: self.books(name) for name in OWNERS}}

    def books(self, name: str) -> dict[str, Any]:
        node = f"--home={self.folder / f'node-{name}'}"
        verified, _, _ = say("owner", "audit", "verify", node)
        budget = said_json("owner", "budget", node)
        sent = said_json("owner", "outbox", node)["letters"]
        return {
            "audit verify": verified,
            "rows spent": budget["rows"]["spent"],
            "epsilon spent": budget["epsilon"]["spent"],
            "left": [f"{one['kind']}, round {one['round']}: {one['rows']} rows" for one in sent],
        }


@pytest.fixture
def network(tmp_path: Path) -> Network:
    return Network.make(tmp_path)


def held(network: Network, *, absent: Collection[str] = (), **changes: Any) -> None:
    (network.folder / "mailbox").mkdir()
    at = (f"--mailbox={network.folder / 'mailbox'}", f"--home={network.folder / 'home'}")
    said_json("run", "start", network.job(**changes), *at)
    carry(network.folder, absent=absent)


def test_a_run_between_organisations_comes_to_what_it_came_to(network: Network) -> None:
    held(network)
    hold("network", "sealed", network.outcome())


def test_an_owner_is_absent(network: Network) -> None:
    held(network, absent=["b"])
    hold("network", "sealed, an owner absent", network.outcome())


def test_rows_by_bids(network: Network) -> None:
    held(network, protocol="interactive", size=3)
    outcome = network.outcome()
    hold("network", "interactive", {name: outcome[name] for name in outcome if name not in _HANGS_ON_NOISE})


def test_the_file_has_these_scenarios() -> None:
    assert names_in("network") == {"sealed", "sealed, an owner absent", "interactive"}
