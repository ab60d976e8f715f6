"""By mailbox, runs leave the same summary and the same ledgers behind as through letters in one process."""

import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from engine_scenarios import ORDERS, SCENARIOS, run_locally, settle_sites, traces
from mail_wire import MailWire
from site_factory import receipt

from likeset.transports.stores import open_store

QUICK = ("sealed", "threshold", "interactive", "sealed-denied", "sealed-poor", "sealed-broken", "too-few")
"""Through real servers, in slow tests, all scenarios are run."""


@pytest.mark.parametrize("name", QUICK)
def test_a_run_by_mailbox_comes_to_what_letters_in_one_process_come_to(tmp_path: Path, name: str) -> None:
    local, mailed, mailbox = tmp_path / "local", tmp_path / "mailed", tmp_path / "mailbox"
    invited = settle_sites(local, [SCENARIOS[name]])[name]
    shutil.copytree(local, mailed)
    mailbox.mkdir()
    wire = MailWire(mailed, invited, open_store(str(mailbox)))
    outcome = {"done": "done", "QuorumMissed": "quorum missed"}[run_locally(invited, local)]
    assert wire.run() == outcome
    assert traces(mailed, name) == traces(local, name)
    # Receipts come to all who answered. Who could not wrote nothing down, not even who the curator is: nothing left.
    without = {run for reason in ("deny", "poor", "break") for run in ORDERS["b"][reason]}
    owners = () if name == "too-few" else invited.terms.owners
    for owner in invited.terms.owners:
        path = mailed / owner / f"{name}.receipt"
        is_there = owner in owners and not (owner == "b" and name in without)
        assert path.exists() == is_there
        assert not is_there or path.read_bytes() == receipt(invited.terms, owner)
    wire.close()


def test_after_the_end_of_the_terms_nothing_is_left_in_the_mailbox(tmp_path: Path) -> None:
    sites, mailbox = tmp_path / "sites", tmp_path / "mailbox"
    invited = settle_sites(sites, [SCENARIOS["threshold"]])["threshold"]
    mailbox.mkdir()
    wire = MailWire(sites, invited, open_store(str(mailbox)))
    assert wire.run() == "done"
    assert [path for path in mailbox.rglob("*") if path.is_file()]
    wire.close()
    end = invited.terms.end
    assert end is not None
    late = MailWire(sites, invited, open_store(str(mailbox)), clock=lambda: end + timedelta(seconds=1))
    late.run()
    assert not [path for path in mailbox.rglob("*") if path.is_file()]
    late.close()
