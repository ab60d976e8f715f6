"""A small network of real organisations in one folder: three nodes, a curator, a consumer, and terms they agreed on."""

import importlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from node_world import make_node, rows_text
from pinned_homes import introduce

from likeset.homes.consumer_home import ConsumerHome, make_consumer_home
from likeset.homes.curator_home import CuratorHome, make_curator_home
from likeset.homes.mail import Invitation, LetterBook, RunKeys
from likeset.homes.owner_node import OwnerNode
from likeset.ledger.budget import Limit
from likeset.ledger.ledger import Ledger
from likeset.privacy.events import Relation
from likeset.privacy.guarantee import View
from likeset.privacy.noise import SecretNoise
from likeset.protocol.party import CURATOR
from likeset.protocol.prices import planned_views
from likeset.protocol.terms import Terms
from likeset.run.job import Job
from likeset.run.runs import invite

OWNERS = ("a", "b", "c")
CONSUMER = "new-clinic"
KEYS_FILE = "keys-of-runs"
_AUCTION: dict[str, Any] = {"auction": "threshold", "auction_epsilon": 30.0}
KINDS: dict[str, dict[str, Any]] = {
    "sealed": {"size": 6, "offer_factor": 4.0},
    "threshold": {"size": 6, "offer_factor": 4.0, **_AUCTION},
    "interactive": {"protocol": "interactive", "size": 3},
    "rounds-of-auctions": {"protocol": "interactive", "size": 3, **_AUCTION},
    "rounds-of-releases": {
        "protocol": "interactive",
        "size": 3,
        "summary_release": "gaussian",
        "owner_epsilon": 8.0,
    },
}
"""Runs that differ in what the curator draws: nothing; once; nothing, in three rounds; something in each of them."""


def folder_of(place: Path, site: str) -> Path:
    """A site's own directory."""
    return place / {CURATOR: "curator", CONSUMER: "home"}.get(site, f"node-{site}")


def make_network(place: Path, jobs: Mapping[str, Mapping[str, Any]]) -> list[Invitation]:
    """Everybody's directories; the signed terms of the jobs, each with its run's name, which every owner approved."""
    room: dict[str, Any] = {"per_run": {"epsilon": 99, "rows": 99}, "total": {"epsilon": 9999, "rows": 9999}}
    note_keys(place)
    made = make_curator_home(folder_of(place, CURATOR))
    for seed, name in enumerate(OWNERS):
        make_node(place, name, seed=seed, runs_per_month=99, **room)
    made.add_schema(place / "schema.yaml")
    home = make_consumer_home(folder_of(place, CONSUMER), name=CONSUMER)
    introduce([folder_of(place, name) for name in OWNERS], curator=made.folder, consumer=home.folder)
    invitations = _signed(home, place, jobs)
    for name in OWNERS:
        with OwnerNode(folder_of(place, name)) as node:
            for invitation in invitations:
                node.take_invitation(invitation.to_bytes())
                verdict = node.approve(invitation.terms.run, invitation.terms.digest, by="Ada")
                assert verdict.accepted, verdict.reasons
    return invitations


def _signed(home: ConsumerHome, place: Path, jobs: Mapping[str, Mapping[str, Any]]) -> list[Invitation]:
    give_target(home, place)
    made = [job_between(place, OWNERS, run=run, **changes) for run, changes in jobs.items()]
    return [invite(home, one, expires="2099-01-01").invitation for one in made]


def give_target(home: ConsumerHome, place: Path, target: str = "") -> None:
    """Rows for a consumer, thirty if none are given as a CSV file, and room in its ledger for many runs."""
    with Ledger(home.ledger) as ledger:
        ledger.set_limit(View.owners(CONSUMER), Limit(9999.0, 1e-5, Relation.REPLACE_ONE))
    (place / "target.csv").write_text(target or rows_text(7, count=30))


def job_between(place: Path, owners: Sequence[str], **wishes: Any) -> Job:
    """What the consumer asks owners of a network for, whose homes are here."""
    usual: dict[str, Any] = {
        "schema": str(place / "schema.yaml"),
        "target": str(place / "target.csv"),
        "owners": {name: f"network:{name}" for name in owners},
        "consumer": CONSUMER,
        "purpose": "Research on sepsis",
        "epsilon": 30.0,
        "release_gamma": 0.4,
        "dimension": 16,
        "offers": "tilted",
    }
    return Job.of(**(usual | wishes))


def note_keys(place: Path) -> None:
    """From now on keys of runs that this process uses are also in a file: whoever looks afterwards can open letters.

    Homes forget them when a run is settled.
    """
    known, run_keys = set[str](), LetterBook.run_keys

    def noted(book: LetterBook, run_id: bytes) -> RunKeys | None:
        keys = run_keys(book, run_id)
        if keys is not None and keys.secret is not None and (text := keys.secret.to_bytes().hex()) not in known:
            descriptor = os.open(place / KEYS_FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            with os.fdopen(descriptor, "a") as file:
                file.write(f"{text}\n")
            known.add(text)
        return keys

    LetterBook.run_keys = noted  # type: ignore[method-assign, assignment]


def warm_up(run: Terms) -> None:
    """Load and compute here what every process that is forked from here would."""
    ciphers = "cryptography.hazmat.primitives.asymmetric.ed25519"
    tables = ("duckdb", "pandas", "pyarrow.csv", "pyarrow.parquet", "likeset.tables.databases")
    for name in (*tables, "dp_accounting.pld", "dp_accounting.rdp", ciphers):
        importlib.import_module(name)
    planned_views(run, width_choice=None)
    SecretNoise()
    run.kernel.features()(np.zeros((1, run.kernel.columns), dtype=np.float32))


def homes(place: Path) -> tuple[CuratorHome, ConsumerHome]:
    """The curator's directory and the consumer's."""
    return CuratorHome(folder_of(place, CURATOR)), ConsumerHome(folder_of(place, CONSUMER))
