"""A split run with all parties in this process, each compute party with a worker of its own."""

import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

from likeset.errors import LikesetError, RunCancelled
from likeset.homes.shell import ComputeShell, Shell, SplitConsumerShell
from likeset.ledger import Ledger
from likeset.protocol.owner import Owner, Scan
from likeset.protocol.parties import make_compute_party, make_owner
from likeset.protocol.split.compute_inputs import ComputeInputs, OpenedSlots
from likeset.protocol.split.run_shape import party_name
from likeset.protocol.split.split_consumer import SplitConsumer
from likeset.run.plan import Plan, SettledRun
from likeset.split.environment import split_python
from likeset.split.local_meeting import LocalMeeting
from likeset.split.party import SplitParty
from likeset.split.session import computing_party, opened_slots
from likeset.transports.local import Progress, RunResult
from likeset.transports.split_local import LocalComputation, LocalSplitEngine
from likeset.trust.row_shares import COMPUTE_ROLES, ComputeRole

__all__ = ["check_workers_here", "compute_here", "run_split_here"]


def check_workers_here(plan: Plan) -> None:
    """Raise, before anything is spent, if a split run is planned and there is no environment for its workers.

    Raises:
        InvalidArgument: there is none; says what to do.
    """
    if plan.terms.split is not None:
        split_python()


def run_split_here(
    plan: Plan,
    settled: SettledRun,
    scans: Mapping[str, Scan],
    *,
    ledger: Ledger,
    progress: Progress | None = None,
    compute: LocalComputation | None = None,
) -> tuple[RunResult, dict[str, Owner]]:
    """Let the parties of a split run run as planned; returns how it ended, and the owners.

    Args:
        plan: of the run.
        settled: what was drawn for it.
        scans: how each owner reaches its rows.
        ledger: where everything is charged.
        progress: called as answers come in, and as the computation goes on.
        compute: in place of workers.
    """
    terms, declared, secrets = settled.terms, plan.inputs.declared, settled.secrets
    cards = {name: secrets.card(name).card for name in terms.cards}
    owners = {
        name: make_owner(
            terms, name, scan=scan, key=secrets.owner_key(name), declared=declared, secret=secrets.card(name)
        )
        for name, scan in scans.items()
    }
    consumer = SplitConsumer(
        terms,
        target=plan.inputs.target,
        noise=settled.consumers_noise,
        secret=secrets.card(terms.consumer),
        cards=cards,
        selection=plan.selection,
        declared=declared,
    )
    others = {
        role: make_compute_party(terms, role, secret=secrets.card(party_name(terms, role)), cards=cards)
        for role in COMPUTE_ROLES
        if role != "consumer"
    }
    engine = LocalSplitEngine(compute or (lambda inputs: compute_here(inputs, progress=progress)), progress=progress)
    result = engine.run(
        SplitConsumerShell(consumer, ledger),
        {role: ComputeShell(party, ledger) for role, party in others.items()},
        {name: Shell(owner, ledger) for name, owner in owners.items()},
    )
    return result, owners


def compute_here(
    inputs: Mapping[ComputeRole, ComputeInputs], *, python: Path | None = None, progress: Progress | None = None
) -> OpenedSlots:
    """Compute with a worker for each party, all on this machine; returns what is opened to the consumer.

    Args:
        inputs: of all parties.
        python: interpreter of the workers' environment; the one that is found if not given.
        progress: called as the computation goes on.

    Raises:
        LikesetError: a party could not go on.
    """
    interpreter = python or split_python()
    failures: list[LikesetError] = []
    opened: list[OpenedSlots] = []
    with tempfile.TemporaryDirectory(prefix="likeset-split-") as folder:
        meeting = LocalMeeting()
        parties = {
            role: computing_party(each, folder=Path(folder) / role, python=interpreter, meeting=meeting.at(each.rank))
            for role, each in inputs.items()
        }

        def act(role: ComputeRole, party: SplitParty) -> None:
            try:
                picks = party.run(progress=progress if role == "consumer" else None)
                if picks is not None:
                    opened.append(opened_slots(picks, inputs[role]))
            except LikesetError as error:
                failures.append(error)

        threads = [threading.Thread(target=act, args=pair, name=f"split {pair[0]}") for pair in parties.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        meeting.close()
    if failures:
        raise failures[0]
    if not opened:
        raise RunCancelled("the computation ended without anything opened")
    return opened[0]
